"""What a fit released: its privacy statement, and the card of the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

from mmech import Evidence, PrivacyLedger, __version__
from mmech.checks import parsed_json
from mmech.privacy.answers import DELTAS, at_deltas, epsilon_delta
from mmech.privacy.entry import composed
from mmech.privacy.ledger import LedgerEntry
from mmech.privacy.neighbours import Relation
from mmech_rf.estimator.accuracy import Accuracy
from mmech_rf.estimator.votes import check_that
from mmech_rf.schema import Schema

NOT_COVERED = "NOT COVERED: the schema was read from the records."
"""What a statement says in place of what is public."""


def spent_ledger(relation: Relation) -> PrivacyLedger:
    """Return a ledger with nothing left, for copies that must not spend again."""
    ledger = PrivacyLedger(1, **asdict(relation))
    ledger.spend(1, "spent where the model was fitted", sensitivity=1)
    return ledger


def cost_in_words(entries: Sequence[LedgerEntry]) -> str:
    """Return what releases cost together."""
    return f"{entries[0].currency} = {float(composed(entries)):g}"


def statement(
    relation: Relation,
    entries: Sequence[LedgerEntry],
    *,
    remarks: Sequence[str] = (),
    afterwards: str,
    public: str,
) -> str:
    """Return what was released, at which cost, and to whom it gives protection.

    One sentence a line: what all entries guarantee together, each of them, remarks on
    them, what using the model costs afterwards, and what is public.
    """
    lines = [
        f"Released by this fit: {cost_in_words(entries)} for neighbouring data sets "
        f"that differ {relation.words}."
        if entries
        else "Nothing has been released yet.",
        *(f"  {e.released}: {cost_in_words([e])}, {e.how}{_part(e)}." for e in entries),
        *(
            [f"Together the releases have {at_deltas(entries)}."]
            if {entry.currency for entry in entries} == {"rho"}
            else []
        ),
        *remarks,
        afterwards,
        public,
    ]
    if any(entry.insecure for entry in entries):
        lines.append(
            "NOT PRIVATE: the noise came from insecure_rng, so that this statement is "
            "void."
        )
    lines.append(
        "Other fits on the same records add to this; one ledger for all limits the "
        "sum. The noise is made of integers and drawn exactly; the guarantee holds for "
        "the numbers as released. Not protected: timings, and the error that an "
        "invalid record raises."
    )
    return "\n".join(lines)


def _part(entry: LedgerEntry) -> str:
    return "" if entry.part is None else f" (part: {entry.part})"


# ---- the card ----------------------------------------------------------------


def origin_of_today() -> dict[str, str]:
    """Return what a file says of its making: public, and not of records."""
    return {"date": date.today().isoformat(), "version": __version__}


def check_origin(origin: Mapping[str, str]) -> None:
    """Raise unless a file says when it was written, and by which version."""
    check_that(origin.keys() == {"date", "version"}, "origins")
    date.fromisoformat(origin["date"])
    check_that(len(origin["version"]) < 60, "versions")


FACTS = "released", "cost", "currency", "kind", "sensitivity", "insecure", "part"
"""What a card says of every release."""


def model_card(
    model: str,
    relation: Relation,
    entries: Sequence[LedgerEntry],
    schema: Schema,
    origin: Mapping[str, str],
    statement: str,
    evidence: Evidence | None,
    accuracy: Accuracy | None,
    *,
    read: bool,
) -> dict[str, Any]:
    """Return the card of a fit; `ForestClassifier.card` says what is on it."""
    cost = float(composed(entries))
    in_rho = bool(entries) and entries[0].currency == "rho"
    persons = relation.records_per_person
    return {
        "model": model,
        "mechanism": list(dict.fromkeys(entry.kind for entry in entries)),
        # rho promises one epsilon for every delta
        "epsilon": None if in_rho else cost,
        "delta": None if in_rho else 0.0,
        "rho": cost if in_rho else None,
        "epsilon_at": {f"{d:g}": epsilon_delta(entries, d) for d in DELTAS}
        if in_rho
        else None,
        "relation": relation.neighbours,
        "records_per_person": persons,
        "unit": f"one person with at most {persons} record{'s' * (persons > 1)}",
        "private": bool(entries)
        and not read
        and not any(entry.insecure for entry in entries),
        "date": origin.get("date"),
        "version": origin.get("version"),
        "schema_name": schema.name,
        "schema_hash": schema_hash(schema),
        "target": schema.target,
        "classes": list(schema.class_labels),
        "attributes": list(schema.feature_names),
        "monotone": schema.monotone,
        "releases": [
            {name: getattr(entry, name) for name in FACTS} | {"cost": str(entry.cost)}
            for entry in entries
        ],
        "evidence": None if evidence is None else evidence.verdict,
        "evidence_checked": None if evidence is None else date.today().isoformat(),
        "statement": statement,
        "accuracy": None if accuracy is None else accuracy.card(),
    }


def schema_hash(schema: Schema) -> str:
    """Return the SHA-256 of a schema's JSON, keys sorted and without white space."""
    text = schema.to_json()
    assert text is not None
    compact = json.dumps(parsed_json(text), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(compact.encode()).hexdigest()}"
