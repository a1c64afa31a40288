r"""Tables of pairs in steps: what is measured next depends on what was measured.

A small part of the budget measures the number of records. By this number, and by public
facts, all of the rest goes

* to tables of single attributes, where counts of pairs would be little but noise,
* to them, to the choice of a tree of pairs by an exact selection, and to its tables,
* with more records and many attributes, to pairs that are chosen in two rounds,
* or to the tables of all pairs, by a strategy that is optimized for them.

The score of a pair is how many records are elsewhere than expected: the sum of
\|count - m\| over its table. Here m is a whole number that follows from noisy tables
before: from independence, then from a model of all pairs. One more record changes one
count by one, and so every score by one, up or down: a window of length two, whatever m
is. In rounds, a public number that grows with noise in the table is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from mmech.arrays import Floats, Integers, Subset
from mmech.marginals.counts import Counts
from mmech.mechanism import MatrixMechanism
from mmech.noise import OF_CURRENCY
from mmech.noise.seam import paid_together
from mmech.noise.system import Rng
from mmech.operators.marginals import Marginals
from mmech.privacy.ledger import LedgerEntry, PrivacyLedger
from mmech.release import Measurement, charge
from mmech.selection import epsilon_of_draw, fixed_point_rate, select
from mmech.session import Session
from mmech.storage.codec import storable
from mmech.tables.classes import FITS_OF_A_ROUND
from mmech.tables.intervals import Intervals
from mmech.tables.plan import COUNTED, TablePlan
from mmech.tables.whole import settle

FEW, MANY = 1.1, 0.195
"""Share of records that noise would misplace in tables of single attributes, if all
tables were measured at once: above the one only these are measured, below the other all
tables. Looked at on heart, car, tic-tac-toe, bank-marketing, mushroom, banknote, iris,
balance-scale, monks and blood-transfusion."""

SHARES = {
    "single": (Fraction(1), Fraction(0)),
    "tree": (Fraction(1, 2), Fraction(1, 10)),
    "rounds": (Fraction(3, 20), Fraction(1, 20)),
    "all": (Fraction(0), Fraction(0)),
}
"""Shares of what is left for tables of single attributes, and for the choice of pairs;
the rest is for tables of pairs."""

MORE = Fraction(7, 3)
"""Pairs of the second round for each of the first, which has as many as a tree."""

NOISE = 0.35
"""Standard errors of each count of a pair that its score is lowered by, in rounds.
Shares of rounds, `MORE` and this were looked at on Adult, in simulated rounds."""

LEAST_ATTRIBUTES, CLEAR = 12, 0.03
"""With fewer attributes, or below this share of records (as `MANY`), all tables are
measured in place of rounds. Looked at on Adult and magic."""

WINDOW = 2
"""Length of an interval that holds what one more record changes a score by."""

LARGEST_MODEL = 2.0**50
"""Counts that are expected to be larger are taken for this one."""


@storable("Steps")
@dataclass(frozen=True, eq=False)
class Steps:
    """Noisy numbers of a release in steps; holds nothing else of records.

    Attributes
    ----------
    entry : LedgerEntry
        What all steps cost together.
    number : Measurement
        The number of records.
    chosen : tuple of tuple of int
        Pairs of attributes in the order of rounds: a tree, or those of two rounds.
    tables : tuple of Measurement
        Of single attributes, of pairs, or of first the ones and then the others.
    unspent : Fraction
        Part of the cost that an interruption left without use.
    """

    entry: LedgerEntry
    number: Measurement
    chosen: tuple[Subset, ...]
    tables: tuple[Measurement, ...]
    unspent: Fraction = Fraction(0)

    @property
    def words(self) -> list[str]:
        """What the steps measured and chose, and at what cost."""
        entries = [self.number.entry, *(measured.entry for measured in self.tables)]
        words = [f"{e.released} for {e.currency} = {e.cost}" for e in entries]
        spent = sum((entry.cost for entry in entries), Fraction(0))
        currency = self.entry.currency
        if self.chosen:
            left = self.entry.cost - self.unspent - spent
            what = "pairs in two rounds" if len(self.tables) > 2 else "a tree of pairs"
            what = "pairs in one round" if self.unspent else what
            words.insert(2, f"{what}, drawn for {currency} = {left}")
        if self.unspent:
            words.append(f"an interruption left {currency} = {self.unspent} unspent")
        return words

    @property
    def values(self) -> Any:
        """Noisy numbers of the tables, as their law takes them."""
        return np.concatenate([measured.values for measured in self.tables])

    def mechanisms(self, plan: TablePlan) -> list[MatrixMechanism]:
        """Return what measured the tables."""
        session = Session(PrivacyLedger(math.inf, **plan.terms))
        regime = regime_of(plan, float(self.number.values[0]))
        return mechanisms_of(plan, regime, self.chosen, session)


def regime_of(plan: TablePlan, number: float) -> str:
    """Return how the budget is split, for a noisy number of records."""
    blurred = plan.blur / max(number, 1.0)
    if len(plan.axes.shape) >= LEAST_ATTRIBUTES and CLEAR < blurred < MANY:
        return "rounds"
    return "single" if blurred > FEW else "all" if blurred < MANY else "tree"


def rounds_of(plan: TablePlan, regime: str) -> list[int]:
    """Return how many pairs are chosen in each round."""
    first = len(plan.axes.shape) - 1
    return {"tree": [first], "rounds": [first, int(MORE * first)]}.get(regime, [])


def scores(records: Counts, expected: Iterator[Floats]) -> Integers:
    r"""Return \|count - m\| summed over the table of every pair. Sensitive.

    Parameters
    ----------
    records : Counts
    expected : iterator of ndarray
        What a model expects of the pairs, in the order of `combinations`.
    """
    distances, codes, sizes = [], records._codes, records.domain_shape
    for (i, j), model in zip(combinations(range(len(sizes)), 2), expected, strict=True):
        place = codes[:, i].astype(np.int64) * sizes[j] + codes[:, j]
        counts = np.zeros(model.size, np.int64)
        np.add.at(counts, place, records._multiplicities)
        whole = np.rint(np.clip(model, 0, LARGEST_MODEL)).astype(np.int64)
        distances.append(int(np.abs(counts - whole.ravel()).sum()))
    return np.array(distances, np.int64)


def mechanisms_of(
    plan: TablePlan, regime: str, chosen: tuple[Subset, ...], session: Session
) -> list[MatrixMechanism]:
    """Return what measures single attributes, and pairs, each where it has a share."""
    sizes = plan.axes.shape
    rest = plan.cost * (1 - COUNTED)
    single, choice = (share * rest for share in SHARES[regime])
    parts = []
    if single:
        tables = Marginals(sizes, {(i,): 1 for i in range(len(sizes))})
        parts.append(session.mechanism(tables, plan.single, **{plan.currency: single}))
    rounds = rounds_of(plan, regime)
    start = 0
    for number in rounds:
        pairs = chosen[start : start + number]
        start += number
        if pairs:
            tables = Marginals(sizes, dict.fromkeys(pairs, 1))
            price = (rest - single - choice) * number / sum(rounds)
            parts.append(session.mechanism(tables, tables, **{plan.currency: price}))
    return parts or [plan.mechanism(session.ledger, session.noise)]


def noise_of(plan: TablePlan, measured: Measurement | Steps) -> Intervals:
    """Return the law of the errors of what was measured."""
    if isinstance(measured, Steps):
        return Intervals(measured.mechanisms(plan))
    return plan.noise


def measure_in_steps(
    plan: TablePlan,
    records: Counts,
    words: str,
    ledger: PrivacyLedger | None,
    noise: Rng,
    say: Callable[[str], None],
    keep: Callable[[Steps], Any],
) -> Steps:
    """Charge for all steps together, then measure encoded records.

    `keep` is called with what was measured, after every measurement.
    """
    _ = plan.single, plan.blur  # whatever takes time comes before the charge
    entry = LedgerEntry(plan.cost, words, "steps", currency=plan.currency)
    entry = charge(ledger, entry, plan.relation, noise)
    session = Session(PrivacyLedger(math.inf, **plan.terms), noise)
    tables: list[Measurement] = []

    def measured(chosen: tuple[Subset, ...], what: str) -> Steps:
        mechanism = mechanisms_of(plan, regime, chosen, session)[-1]
        tables.append(session.measure(mechanism, records, what))
        unspent = plan.cost - session.ledger.spent
        steps = Steps(entry, number, chosen, tuple(tables), unspent)
        keep(steps)
        return steps

    with paid_together():
        number = session.add_noise(
            np.array([records._total()]), plan.cost * COUNTED, "the number of records"
        )
        regime = regime_of(plan, float(number.values[0]))
        what = "tables of pairs" if regime == "all" else "tables of one attribute"
        steps = measured((), what)
        for place, more in enumerate(rounds_of(plan, regime)):
            say(f"choosing {more} pairs of attributes")
            estimate = noise_of(plan, steps).estimate(steps.values)
            model: Iterator[Any] = _independent(estimate, plan.axes.shape)
            if place:
                told = settle(estimate, plan.pairs, say, fits=FITS_OF_A_ROUND)
                model = map(told.tables.__getitem__, plan.pairs)
            scored = scores(records, model)
            chosen = steps.chosen + _choose(plan, scored, regime, steps.chosen, session)
            say(f"measuring {more} tables of pairs")
            steps = measured(chosen, "their tables")
    assert session.ledger.spent == plan.cost
    return steps


def check_budget(plan: TablePlan) -> None:
    """Raise, before the charge, where noise or draws of a step do not fit."""
    law = OF_CURRENCY[plan.currency]
    law.parameter(Fraction(plan.relation.factor) ** law.power, plan.cost * COUNTED)
    for regime, (_, choice) in SHARES.items():
        number = sum(rounds_of(plan, regime))
        if number and (regime == "tree" or len(plan.axes.shape) >= LEAST_ATTRIBUTES):
            cost = choice * plan.cost * (1 - COUNTED) / number
            fixed_point_rate(
                epsilon_of_draw(cost, plan.currency),
                monotone=True,
                relation=plan.relation,
                roundings=1,
                score_unit=WINDOW,
            )


def _independent(estimate: Any, sizes: tuple[int, ...]) -> Iterator[Floats]:
    """Yield what is expected of pairs of independent attributes."""
    single = [np.maximum(estimate.marginal([i]), 0.0) for i in range(len(sizes))]
    total = max(float(estimate.marginal([])[0]), 0.0)
    shares = [table / max(table.sum(), 1e-300) for table in single]
    for i, j in combinations(range(len(sizes)), 2):
        yield total * np.outer(shares[i], shares[j])


def _choose(
    plan: TablePlan,
    scored: Integers,
    regime: str,
    before: tuple[Subset, ...],
    session: Session,
) -> tuple[Subset, ...]:
    """Choose the pairs of a round, one after another."""
    sizes, rounds = plan.axes.shape, rounds_of(plan, regime)
    number, rest = rounds[bool(before)], plan.cost * (1 - COUNTED)
    single, choice = (share * rest for share in SHARES[regime])
    if regime == "rounds":
        each = (rest - single - choice) / sum(rounds)  # of measuring a table
        factor = float(session.relation.factor)
        error = factor * math.sqrt(OF_CURRENCY[plan.currency].continuous(each))
        cells = [a * b for a, b in combinations(sizes, 2)]
        less = np.minimum(NOISE * error * np.array(cells), LARGEST_MODEL)
        scored = scored - np.rint(less).astype(np.int64)
    pairs = list(combinations(range(len(sizes)), 2))
    part, chosen = list(range(len(sizes))), list[Subset]()
    for _ in range(number):
        left = [k for k, p in enumerate(pairs) if p not in {*before, *chosen}]
        if regime == "tree":
            left = [k for k, (i, j) in enumerate(pairs) if part[i] != part[j]]
        place, entry = select(
            scored[left],
            choice / sum(rounds),
            plan.currency,
            released="a pair of attributes",
            window=WINDOW,
            relation=session.relation,
            ledger=session.ledger,
            noise=session.noise,
        )
        session.note(entry)
        i, j = pairs[left[place]]
        chosen.append((i, j))
        part = [part[i] if label == part[j] else label for label in part]
    return tuple(sorted(chosen))
