"""What released tables say of themselves: the statement, and its facts for machines."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from mmech import __version__
from mmech.noise import LAWS
from mmech.privacy.answers import at_deltas
from mmech.tables.statistic_plans import unequal
from mmech.tables.steps import Steps

if TYPE_CHECKING:
    from mmech.tables.result import Tables


def statement_of(made: Tables, level: float) -> str:
    """Return the statement, for intervals of a level."""
    told, entry = facts_of(made), made.measurement.entry
    entries = [entry, *(statistic.measurement.entry for statistic in made.statistics)]
    known = made.plan.known
    kind, meaning = "zero-concentrated", f"That is {at_deltas(entries)}."
    if made.plan.currency == "epsilon":
        kind, times = "pure", Decimal(float(made.cost)).exp()
        meaning = (
            "Whatever is concluded from the release is at most exp(epsilon), about "
            f"{times:.3g}, times as likely with one of these data sets as with another."
        )
    lines = [
        f"{made.plan.sizes[0]} of counts over {', '.join(told['attributes'])}.",
        *_words_on_statistics(made),
        f"Privacy: {made.plan.currency} = {made.cost} ({kind} differential "
        f"privacy), for data sets that differ {made.plan.relation.words}."
        f" {meaning} Tables, intervals and synthetic records follow from noisy numbers "
        "and public facts alone. Not covered: error messages on unreadable values, "
        "how long it took, and other releases about the same persons, whose costs add "
        "up.",
        f"Measured: {told['measured']}, {_how(made)} from the operating system's "
        "entropy.",
        f"Counts are whole and non-negative, and tables agree: {made.rounding}.",
        *(known.words(made.plan.names, told["neighbours"]) if known else ()),
        f"Each interval holds the exact count with probability {level:g} over the "
        "noise, by itself; all of them together hold with less. standard_error "
        "belongs to the unbiased estimate, not to the published count.",
        f"Evidence: {made.evidence.verdict}. Anyone can check it: mmech verify FOLDER.",
    ]
    estimates = len(made.tables) - sum(told.get("measures", [True]))
    if "steps" in told and estimates:
        lines.insert(
            -1,
            f"{estimates} tables of two attributes were not measured: their counts "
            "are estimates from the other tables, and have no intervals.",
        )
    if made.left_out is not None:
        lines.insert(
            1,
            f"Left out: about {told['left_out']} records that do not fit the "
            f"domain, give or take {told['left_out_standard_error']:.1f}; no "
            "table counts them.",
        )
    if made.plan.domain.read_from_records:
        lines.insert(0, "NOT COVERED: the domain was read from the records.")
    if entry.insecure:
        lines.insert(
            0,
            "NOT PRIVATE: the noise came from insecure_rng and can be predicted; "
            "for tests only.",
        )
    return "\n".join(lines)


def _words_on_statistics(made: Tables) -> Iterator[str]:
    """Yield a sentence on all statistics, and one on each."""
    if made.statistics:
        parts = [f"{made.plan.cost} for the tables"]
        parts += [
            f"{plan.cost} for the {' and the '.join(map(str, plan.statistics))}"
            for plan in (each.plan for each in made.statistics)
        ]
        yield (
            "Statistics, measured once with noise of their "
            f"own. Parts of {made.plan.currency}: {', '.join(parts)}. Their "
            "intervals are for values as they are clipped, and include rounding:"
        )
    yield from (statistic.words for statistic in made.statistics)
    for words in (*unequal(made.plan.statistics), *made.cautions):
        yield f"{words}."


def _how(made: Tables) -> str:
    """Return how noisy numbers were made, in words."""
    if isinstance(made.measurement, Steps):
        steps = "; ".join(made.measurement.words)
        return f"in steps ({steps}), each with fresh exact randomness"
    return f"once, with exact discrete {LAWS[made.measurement.entry.kind].words}"


def facts_of(made: Tables) -> dict[str, Any]:
    """Return the facts of the statement, for machines."""
    entry = made.measurement.entry
    left_out: dict[str, Any] = {}
    if made.left_out is not None:
        number = max(0, int(made.left_out.values[0]))
        error = float(made.left_out.variance) ** 0.5
        left_out = {"left_out": number, "left_out_standard_error": error}
    steps: dict[str, Any] = {}
    if isinstance(made.measurement, Steps):
        measures = [made.noise.measures(subset) for subset in made.plan.subsets]
        steps = {"steps": made.measurement.words, "measures": measures}
    return {
        "date": made.measured.date,
        "version": __version__,
        "domain": made.plan.domain.document,
        **made.plan.policies,
        "attributes": list(made.plan.names),
        "tables": [list(names) for names in made.tables],
        "currency": made.plan.currency,
        "cost": str(made.cost),
        "neighbours": made.plan.relation.neighbours,
        "records_per_person": made.plan.relation.records_per_person,
        "noise": entry.kind,
        "measured": entry.released,
        "sensitivity": entry.sensitivity,
        "insecure": entry.insecure,
        **steps,
        **(made.plan.known.facts(made.plan.names) if made.plan.known else {}),
        "rounding": made.counts.rounding,
        "total": made.total,
        "statistics": [facts for each in made.statistics for facts in each.facts],
        **left_out,
    }
