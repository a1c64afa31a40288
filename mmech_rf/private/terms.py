"""What a fit settled, and the statement of what it released on these terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mmech import PrivacyLedger
from mmech.checks import check_delta, check_epsilon
from mmech.privacy.ledger import LedgerEntry, composed
from mmech.privacy.neighbours import Relation
from mmech.storage.codec import storable

__all__ = ["NOT_COVERED", "Terms", "cost_in_words", "spent_ledger", "statement"]


NOT_COVERED = "NOT COVERED: the schema was read from the records."
"""What a statement says in place of what is public."""


@storable("Terms")
@dataclass(frozen=True)
class Terms:
    """What a fit settled that a later `set_params` must not rewrite."""

    neighbours: str
    inferred: bool  # whether the schema was read from the records
    insecure: bool  # whether the noise came from `insecure_rng`
    # The (epsilon, delta) of the fit, unless its guarantee is a pure epsilon.
    promised: tuple[float, float] | None = None
    records_per_person: int = 1

    def __post_init__(self) -> None:
        Relation(self.neighbours, self.records_per_person)
        if self.promised is not None:
            check_epsilon(self.promised[0])
            check_delta(self.promised[1])

    @property
    def relation(self) -> Relation:
        """Neighbour relation of the releases."""
        return Relation(self.neighbours, self.records_per_person)


def spent_ledger(relation: Relation) -> PrivacyLedger:
    """Return a ledger with nothing left, for copies that must not spend again."""
    ledger = PrivacyLedger(1, **asdict(relation))
    ledger.spend(1, "spent where the model was fitted", sensitivity=1)
    return ledger


def cost_in_words(entries: Sequence[LedgerEntry]) -> str:
    """Return what releases cost together."""
    return f"{entries[0].currency} = {float(composed(entries)):g}"


def statement(
    terms: Terms,
    entries: Sequence[LedgerEntry],
    *,
    guarantee: str,
    remarks: Sequence[str] = (),
    afterwards: str,
    public: str,
) -> str:
    """Return what was released, at which cost, and to whom it gives protection.

    One sentence a line: what all entries guarantee together, each of them, remarks on
    them, what using the model costs afterwards, and what is public.
    """
    lines = [
        f"Released by this fit: {guarantee} for neighbouring data sets that differ "
        f"{terms.relation.words}."
        if entries
        else "Nothing has been released yet.",
        *(f"  {e.released}: {cost_in_words([e])}, {e.how}{_part(e)}." for e in entries),
        *remarks,
        afterwards,
        NOT_COVERED if terms.inferred else public,
    ]
    if terms.insecure:
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
