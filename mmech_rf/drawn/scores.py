r"""Additive scores of attributes, from sums that every record adds to all at once.

One release has, for every class, its number of records and a set of sums. The sums of
an attribute are counts of its cells, or counts of the cells of two neighbouring
attributes, or one sum: the positions of records in the order of its cells. A record is
bounded in each of these sums. So K-norm noise (`mmech.noise.k_norm`) is up to six times
less than Laplace noise that shares a budget among attributes. Tables of counts add up
to the number of records of a class, and so does their noise. The finest set of sums
that stands out from its noise is taken; sums and noise are public.

What attributes say of a class then adds up as in naive Bayes,

.. math:: \log \hat p(c) + \sum_a \log \frac{\hat p(x_a \mid c)}{\hat p(x_a)} ,

where a mean position stands for the evenly spread distribution that is tilted to it,
:math:`p(x \mid c) \propto e^{\theta_c t(x)}`: the one of largest entropy with that
mean. The deviations of classes from their common mean are shrunk, attribute by
attribute, by the evidence that they are more than noise (adaptive shrinkage [1]_). This
is post-processing.

Attributes of many cells are numbers, most of whose records are usually near the lower
end of public bounds: amounts, counts, durations. Positions and groups of their cells
are those of the square root of the number, which tells small ones better apart.

Scores are whole multiples of 1 / VOTE_STEPS, so that those of a record do not depend on
the order of a sum.

References
----------
.. [1] M. Stephens, "False discovery rates: a new deal", Biostatistics 18, 2017.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from scipy.special import softmax

from mmech import Measurement
from mmech.noise import LAWS
from mmech.session import Session
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.drawn.settings import DEFAULTS, DrawnSettings
from mmech_rf.drawn.views import (
    GRID,
    MOST_CELLS,
    ScoreView,
    View,
    positions,
    single_view,
)
from mmech_rf.estimator.votes import check_that

SUMS = "class counts and sums of all attributes"
"""Name of the release in ledgers and privacy statements."""

WEIGHED_SUMS = f"{SUMS}, of weighed records"
"""Name of a release that corrects scores."""

VOTE_STEPS = 256
"""Vote resolution: scores and votes are added in whole steps of 1 / VOTE_STEPS."""

# Provenance: as `DrawnSettings`.

PAIR_RESOLUTION = 8
"""Score resolution: most groups of an attribute that is counted with its neighbour."""

RESOLUTIONS = 4, 8, 16
"""Score resolution: largest numbers of groups of an attribute, from coarse to fine."""

RECORDS_PER_SUM = 5.0
"""Overfitting guard: records per class that each row of a finer set of sums needs,
against chance in the records themselves."""

SIGNAL_VARIANCES = 0.0, *(4.0**power for power in range(-1, 10))
"""Shrinkage: what the variance of a deviation is thought to be, in units of its noise:
zero, or a power of four."""

ROOT_SCALE_FROM = 16
"""Score resolution: attributes of at least so many cells are on a root scale."""

LARGEST_MEAN = 0.98
"""Clipping: mean positions of a class are cut off here, of 1."""

SCORE_PIECES = 6, 12
"""Views of scores: numbers of cells that a score is cut into."""

SCORE_WIDTH = 1.3
"""Views of scores: standard deviation of scores that the cuts are made for, relative to
independent attributes."""


@dataclass(frozen=True)
class Sum:
    """One sum over records: of positions, or of counts, in one view."""

    view: View
    by_position: bool  # whether positions of cells are added up, or cells counted
    # Whether positions are those of the square root of the number of a cell.
    by_root: bool = False

    @property
    def size(self) -> int:
        """Number of rows."""
        return 1 if self.by_position else self.view.size

    def positions(self) -> Integers:
        """Return where cells are from -1 to 1, in units of 1 / GRID, shape (cells,)."""
        size = self.view.size
        if not self.by_root:
            return positions(size)
        roots = np.sqrt(np.arange(size) / (size - 1))
        return np.rint(GRID * (2 * roots - 1)).astype(np.int64)

    def rows(self) -> Integers:
        """Return what each cell adds, in units of 1 / GRID, shape (cells, rows)."""
        if self.by_position:
            return self.positions()[:, None]
        return GRID * np.eye(self.view.size, dtype=np.int64)


@dataclass(frozen=True)
class Sums:
    """Sums that are released together: public."""

    # One for every attribute or pair of two, counts first; before them comes a row that
    # counts records.
    terms: tuple[Sum, ...]

    @classmethod
    def of_terms(cls, terms: Iterable[Sum]) -> Sums:
        """Return sums with counts first."""
        return cls(tuple(sorted(terms, key=lambda term: term.by_position)))

    @property
    def sizes(self) -> list[int]:
        """Sizes of groups of rows, each bounded by one unit for every record."""
        return [1, *(term.size for term in self.terms)]

    @property
    def groups(self) -> list[int | tuple[int, ...]]:
        """The same, with those together that add up to the number of records."""
        n_tables = 1 + sum(not term.by_position for term in self.terms)
        return [tuple(self.sizes[:n_tables]), *self.sizes[n_tables:]]

    def of(
        self,
        codes: Integers,
        class_codes: Integers,
        n_classes: int,
        multiplicities: Integers | None = None,
    ) -> Integers:
        """Return the sums of records in units of 1 / GRID, shape (rows, k)."""
        amount = 1 if multiplicities is None else multiplicities
        numbers = np.zeros((1, n_classes), np.int64)
        np.add.at(numbers[0], class_codes, amount)
        rows = [GRID * numbers]
        for term in self.terms:
            counts = np.zeros((term.view.size, n_classes), np.int64)
            np.add.at(counts, (term.view.cells(codes), class_codes), amount)
            rows.append(term.rows().T @ counts)
        return np.concatenate(rows).astype(np.int64)


def sums_from_coarse_to_fine(domain_shape: Sequence[int]) -> list[Sums]:
    """Return the sets of sums that there are to choose from."""
    attributes = [(i, n) for i, n in enumerate(domain_shape) if n > 1]
    means = [
        Sum(view, True, view.size >= ROOT_SCALE_FROM)
        for view in (single_view(i, n, MOST_CELLS) for i, n in attributes)
    ]
    sets = [Sums.of_terms(means)]
    for groups in RESOLUTIONS:
        terms = [Sum(_grouped(i, n, groups), n == 2) for i, n in attributes]
        sets.append(Sums.of_terms(terms))
    sets.append(Sums.of_terms(_neighbours(attributes)))
    return list(dict.fromkeys(sets))


def _grouped(attribute: int, size: int, groups: int) -> View:
    """Return an attribute in so many groups of cells, from a size on by their root.

    Groups of roots that no cell falls into are left out.
    """
    if size < max(ROOT_SCALE_FROM, 2 * groups):
        return single_view(attribute, size, groups)
    roots = np.sqrt((np.arange(size) + 0.5) / size)
    occupied, table = np.unique((groups * roots).astype(int), return_inverse=True)
    return View((attribute,), (tuple(table.tolist()),), (), occupied.size, "single")


def _neighbours(attributes: list[tuple[int, int]]) -> list[Sum]:
    """Return counts of the cells of every two attributes that stand together."""
    terms = []
    for start in range(0, len(attributes), 2):
        two = attributes[start : start + 2]
        views = [_grouped(i, n, PAIR_RESOLUTION) for i, n in two]
        if len(views) == 1:
            terms.append(Sum(views[0], views[0].size == 2))
            continue
        first, second = views
        step = second.size
        tables = tuple(code * step for code in first.tables[0]), second.tables[0]
        pair = first.attributes + second.attributes
        terms.append(
            Sum(View(pair, tables, (), first.size * second.size, "pair"), False)
        )
    return terms


@storable("AdditiveScores")
@dataclass(frozen=True, eq=False)
class AdditiveScores:
    """Additive scores of every class in the cells of views: post-processing."""

    # Score of every class before a record is seen, (k,), in steps of 1 / VOTE_STEPS.
    constant: Integers
    views: tuple[View, ...]
    tables: tuple[Integers, ...]  # what the cells of each view add, (cells, k)

    @property
    def class_shares(self) -> Floats:
        """Estimated shares of the classes, shape (k,)."""
        return np.asarray(softmax(self.constant / VOTE_STEPS))

    def plus(self, other: AdditiveScores, part: float) -> AdditiveScores:
        """Return scores to which a part of others in the same views is added."""
        tables = zip(self.tables, other.tables, strict=True)
        return replace(
            self,
            constant=self.constant + np.rint(part * other.constant).astype(np.int64),
            tables=tuple(a + np.rint(part * b).astype(np.int64) for a, b in tables),
        )

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless they are scores of this domain: a file may hold any."""
        for view in self.views:
            view.check(domain_shape)
        check_that(self.constant.shape == (n_classes,), "scores")
        shapes = [(view.size, n_classes) for view in self.views]
        check_that([table.shape for table in self.tables] == shapes, "scores")

    def whole(self, codes: Integers) -> Integers:
        """Return scores in whole steps, shape (b, k)."""
        total = np.tile(self.constant, (codes.shape[0], 1))
        for view, table in zip(self.views, self.tables, strict=True):
            total += table[view.cells(codes)]
        return total

    def classes(self, codes: Integers) -> Integers:
        """Return the class of the largest score, the first of equal ones, (b,)."""
        return self.whole(codes).argmax(axis=1)


def release_scores(
    session: Session,
    cost: Fraction,
    domain_shape: Sequence[int],
    codes: Integers,
    class_codes: Integers,
    *,
    n_classes: int,
    n_records: float,
    settings: DrawnSettings = DEFAULTS,
    multiplicities: Integers | None = None,
    unit: int = 1,
) -> AdditiveScores:
    """Release sums of records, and return what they say of classes.

    Records, (M, d) and (M,), are sensitive, as is how often each is there, in multiples
    of 1 / unit; beyond a unit of 1 records are weighed, and none counts more than once.
    """
    sums, *finer = sums_from_coarse_to_fine(domain_shape)
    for other in finer:
        # It stands out from the noise that is paid for, and from chance in the records.
        noise = settings.signal_to_noise * session.deviation(other.groups, cost)
        chance = RECORDS_PER_SUM * sum(other.sizes)
        if n_records / n_classes >= max(noise, chance):
            sums = other
    released = session.add_noise_to_groups(
        sums.of(codes, class_codes, n_classes, multiplicities),
        sums.groups,
        cost,
        SUMS if unit == 1 else WEIGHED_SUMS,
        GRID * unit,
    )
    return _scores(sums, released, GRID * unit)


@dataclass(frozen=True)
class _Rows:
    """Released rows of one sum, with what classes have in common."""

    term: Sum
    common: Floats  # mean position of all records, or share in every cell, (rows,)
    # Sums of classes less what their records would add to `common`, (rows, k).
    deviations: Floats
    noise: float  # standard deviation of a row
    spread: Floats  # the same of `deviations`, (rows,)

    @cached_property
    def standardised(self) -> Floats:
        """Deviations in units of their noise."""
        return np.asarray(self.deviations / self.spread[:, None])

    def table(self, kept: float, numbers: Floats) -> Floats:
        """Return log-odds of cells, (cells, k)."""
        deviations = kept * self.deviations
        if self.term.by_position:
            means = self.common + deviations[0] / (numbers + self.noise + 1)
            t = self.term.positions() / GRID
            tilts, logs = _tilted(np.append(means, self.common), t)
            lines = np.outer(t, tilts) - logs
            return np.asarray(lines[:, :-1] - lines[:, -1:])
        common = self.common[:, None]
        smooth = np.maximum(common * numbers + deviations, 0) + common * (
            self.noise + 1
        )
        shares = smooth / smooth.sum(axis=0)
        return np.asarray(np.log(shares) - np.log(common))


def _scores(sums: Sums, released: Measurement, unit: int = GRID) -> AdditiveScores:
    numbers, rows = _rows(sums, released, unit)
    kept = zip(rows, _kept(rows).tolist(), strict=True)
    return AdditiveScores(
        _steps(np.log(numbers / numbers.sum())),
        tuple(row.term.view for row in rows),
        tuple(_steps(row.table(part, numbers)) for row, part in kept),
    )


def _kept(rows: list[_Rows]) -> Floats:
    """Return the part of its deviations that every attribute keeps, shape (rows,).

    The part follows from the posterior mean of a normal signal in normal noise of
    variance one. For each attribute the variance of the signal is one of
    SIGNAL_VARIANCES. Expectation and maximisation fit the frequencies of these
    variances to all attributes. The even start counts as one more attribute.
    """
    if not rows:
        return np.zeros(0)
    energies = np.array([np.square(row.standardised).sum() for row in rows])
    sizes = np.array([row.standardised.size for row in rows])
    variances = np.array(SIGNAL_VARIANCES)
    total = 1 + variances
    logs = -0.5 * (np.divide.outer(energies, total) + np.outer(sizes, np.log(total)))
    likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
    even = np.full(total.size, 1 / total.size)
    often = even
    for _ in range(100):
        posterior = likelihoods * often
        posterior /= posterior.sum(axis=1, keepdims=True)
        often = (posterior.sum(axis=0) + even) / (len(rows) + 1)
    return np.asarray(posterior @ (variances / total))


def _rows(
    sums: Sums, released: Measurement, unit: int = GRID
) -> tuple[Floats, list[_Rows]]:
    """Return numbers of records of the classes, above their noise, and all rows."""
    values = released.values / unit
    noise, tied = _noise(released, unit), LAWS[released.entry.kind].grouped is not None
    k = values.shape[1]
    numbers = np.maximum(values[0], 0) + noise[0] / k + 1
    total = numbers.sum()
    rows = []
    ends = np.cumsum(sums.sizes)
    for term, (start, stop) in zip(sums.terms, pairwise(ends), strict=True):
        block, deviation = values[start:stop], float(noise[start])
        if term.by_position:
            common = np.clip(block.sum(axis=1) / total, -LARGEST_MEAN, LARGEST_MEAN)
        else:
            common = np.maximum(block.sum(axis=1), 0) + deviation * k / 2 + 0.5
            common /= common.sum()
        apart = block - common[:, None] * values[0]
        # Rows that add up to the number of records have their part of its noise.
        part = 1 / term.size if tied and not term.by_position else 0.0
        spread = deviation**2 + (common**2 - 2 * part * common) * noise[0] ** 2
        rows.append(_Rows(term, common, apart, deviation, np.sqrt(spread)))
    return numbers, rows


def _noise(released: Measurement, unit: int) -> Floats:
    """Return the standard deviation of every row, in records."""
    # Positions are whole units: next to no noise counts as a rounding.
    deviations = np.sqrt(np.broadcast_to(released.variance, len(released.values)))
    return np.asarray(np.maximum(deviations, 1.0) / unit)


def _steps(scores: Floats) -> Integers:
    return np.rint(VOTE_STEPS * scores).astype(np.int64)


def _tilted(means: Floats, t: Floats) -> tuple[Floats, Floats]:
    r"""Return :math:`\theta` of distributions with given means, and log normalisers.

    Of :math:`p(t) \propto e^{\theta t}` on evenly weighted points, by Newton's method
    with bounded steps; means are cut off at LARGEST_MEAN.
    """
    goals = np.clip(means, -LARGEST_MEAN, LARGEST_MEAN)
    theta = np.arctanh(goals)
    for _ in range(60):
        weights = np.exp(np.outer(theta, t))
        weights /= weights.sum(axis=1, keepdims=True)
        mean = weights @ t
        variance = np.maximum(weights @ t**2 - mean**2, 1e-3)
        theta = np.clip(theta - np.clip((mean - goals) / variance, -1, 1), -40, 40)
    return theta, np.log(np.exp(np.outer(theta, t)).mean(axis=1))


def score_views(scores: AdditiveScores) -> list[ScoreView]:
    """Return views of released scores: of each class against the others, cut to pieces.

    Cuts are at quantiles of the normal distribution of a sum over evenly spread cells.
    One view is enough for two classes.
    """
    k = scores.constant.size
    views = []
    for c in range(1 if k == 2 else 0, k):
        others = [other for other in range(k) if other != c]
        tables = [
            (k - 1) * table[:, c] - table[:, others].sum(axis=1)
            for table in scores.tables
        ]
        mean = sum(float(table.mean()) for table in tables)
        variance = sum(float(table.var()) for table in tables)
        if variance == 0:
            continue
        spread = NormalDist(mean, SCORE_WIDTH * variance**0.5)
        for pieces in SCORE_PIECES:
            cuts = {round(spread.inv_cdf(i / pieces)) for i in range(1, pieces)}
            whole = tuple(tuple(table.tolist()) for table in tables)
            views.append(ScoreView(scores.views, whole, tuple(sorted(cuts))))
    return list(dict.fromkeys(views))
