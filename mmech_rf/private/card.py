"""The model card: facts of a release as fields that programs read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from mmech import __version__
from mmech.privacy.ledger import LedgerEntry, composed
from mmech_rf.private.terms import Terms
from mmech_rf.private.votes import check_that
from mmech_rf.schema import Schema

__all__ = ["check_origin", "model_card", "origin_of_today"]


def origin_of_today() -> dict[str, str]:
    """Return what a file says of its making: public, and not of records."""
    return {"date": date.today().isoformat(), "version": __version__}


def check_origin(origin: Mapping[str, str]) -> None:
    """Raise unless a file says when it was written, and by which version."""
    check_that(origin.keys() == {"date", "version"}, "origins")
    date.fromisoformat(origin["date"])
    check_that(len(origin["version"]) < 60, "versions")


def model_card(
    model: str,
    terms: Terms,
    entries: Sequence[LedgerEntry],
    schema: Schema,
    origin: Mapping[str, str],
    statement: str,
) -> dict[str, Any]:
    """Return the card of a fit; `PublicModel.card` says what is on it."""
    currencies = dict.fromkeys(entry.currency for entry in entries)
    costs = {
        currency: composed(e for e in entries if e.currency == currency)
        for currency in currencies
    }
    promised: tuple[float | None, float | None] = float(costs.get("epsilon", 0)), 0.0
    if terms.promised is not None:
        promised = terms.promised
    elif "rho" in costs:
        promised = None, None  # rho promises one epsilon for every delta
    persons = terms.records_per_person
    return {
        "model": model,
        "mechanism": list(dict.fromkeys(entry.kind for entry in entries)),
        "epsilon": promised[0],
        "delta": promised[1],
        "rho": float(costs["rho"]) if "rho" in costs else None,
        "relation": terms.neighbours,
        "records_per_person": persons,
        "unit": f"one person with at most {persons} record{'s' * (persons > 1)}",
        "private": bool(entries)
        and not (terms.inferred or terms.insecure or schema.read_from_records),
        "date": origin.get("date"),
        "version": origin.get("version"),
        "schema_name": schema.name,
        "schema_hash": schema_hash(schema),
        "target": schema.target,
        "classes": list(schema.class_labels),
        "attributes": list(schema.feature_names),
        "monotone": schema.monotone,
        "releases": [
            {
                "released": entry.released,
                "cost": str(entry.cost),
                "currency": entry.currency,
                "kind": entry.kind,
                "sensitivity": entry.sensitivity,
                "insecure": entry.insecure,
                "part": entry.part,
            }
            for entry in entries
        ],
        "statement": statement,
    }


def schema_hash(schema: Schema) -> str:
    """Return the SHA-256 of a schema's JSON, keys sorted and without white space."""
    text = schema.to_json()
    assert text is not None
    compact = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(compact.encode()).hexdigest()}"
