"""Class probabilities from one log-linear model of everything that was released.

Scores count classes in cells of views, trees count them in leaves, and these overlap:
their log-odds added up would count the same records twice. One model
(`mmech_rf.drawn.loglinear`) explains all releases together. A feature is one where a
record is in a cell or a leaf and of a class; with boosting it is the weight that the
record had.

Views of scores keep the part of their deviations that the scores keep, and less by
`view_slack`, because the base measure knows nothing of how attributes depend on each
other within a class. Labels were drawn for being right: before anything is counted they
are so in (1 + 1/k) / 2 of the records, and no probability is above that of the class
that is predicted.

The base measure is what scores say of attributes, or an even spread where there are
none: on the whole domain if it is small, otherwise on points drawn from it by a public
generator. Records have no part in it. What leaves say of their totals moves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp, softmax

from mmech.operators.base import product_of
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.drawn.counts import Released, with_largest
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.loglinear import LogLinear, Moments
from mmech_rf.drawn.scores import AdditiveScores
from mmech_rf.drawn.settings import DrawnSettings
from mmech_rf.drawn.trees import UNIT, SelectedTrees, boosting_weights
from mmech_rf.drawn.views import View
from mmech_rf.private.votes import check_that

__all__ = ["JointTrees", "base_points"]


REPLICAS = 64
"""Intervals: simulations of the noise, which give a standard error within a tenth."""

ROUGHLY = 1 / 3
"""Standard deviation of a number of records that is known roughly, relative to it."""

RECORDS_AT_ONCE = 2**14
"""Records whose probabilities are computed together, so that memory stays bounded."""


# ---- the base measure --------------------------------------------------------------


def base_points(
    domain_shape: Sequence[int], additive: AdditiveScores | None, n_points: int
) -> tuple[Integers, Floats]:
    """Return points, shape (M, d), and their base measure, (M,).

    Scores make a mixture of classes with independent views; there are at most
    `n_points`, the whole domain or a draw from the measure.
    """
    sizes = np.array(domain_shape, np.int64)
    if (n_cells := product_of(domain_shape)) <= n_points:
        points = np.zeros((n_cells, sizes.size), np.int64)
        several = sizes > 1  # as axes, of which NumPy has 64
        points[:, several] = np.argwhere(np.ones(sizes[several], bool))
        if additive is None:
            return points, np.full(len(points), 1 / len(points))
        lines = np.log(additive.class_shares) + np.zeros((len(points), 1))
        for view, sums in zip(additive.views, additive.sums[1:], strict=True):
            each = np.log(sums.shares / _cell_sizes(view)[:, None])
            lines += each[view.cells(points)]
        weights = logsumexp(lines, axis=1)
        return points, np.asarray(softmax(weights))
    rng = np.random.default_rng(0)  # public: points are no noise
    uniform = rng.random((n_points, sizes.size))
    points = (uniform * sizes).astype(np.int64)
    if additive is not None:
        ends = np.cumsum(additive.class_shares)[:-1]
        classes = np.searchsorted(ends, rng.random(n_points), side="right")
        for view, sums in zip(additive.views, additive.sums[1:], strict=True):
            below = np.cumsum(sums.shares, axis=0)[:-1, classes]
            cells = (rng.random(n_points) > below).sum(axis=0)
            for i, table, part in _parts_of(view, cells):
                order = np.argsort(table, kind="stable")
                ranked = table[order]
                first = np.searchsorted(ranked, part, side="left")
                last = np.searchsorted(ranked, part, side="right")
                inside = first + (uniform[:, i] * (last - first)).astype(np.int64)
                points[:, i] = order[np.minimum(inside, len(order) - 1)]
    return points, np.full(n_points, 1 / n_points)


def _parts_of(view: View, cells: Integers) -> list[tuple[int, Integers, Integers]]:
    """Return each attribute of a view, its table, and what cells have of it."""
    tables = [np.array(table, np.int64) for table in view.tables]
    if len(tables) == 1:
        return [(view.attributes[0], tables[0], cells)]
    step = int(tables[1].max()) + 1
    first, second = view.attributes
    within = cells % step
    return [(first, tables[0], cells - within), (second, tables[1], within)]


def _cell_sizes(view: View) -> Floats:
    """Return the number of values, or of pairs of them, in each cell of a view."""
    out = np.ones(view.size)
    for _, table, part in _parts_of(view, np.arange(view.size)):
        out *= np.bincount(table, minlength=int(part.max()) + 1)[part]
    return np.maximum(out, 1.0)


# ---- the forest --------------------------------------------------------------------


@storable("JointTrees")
@dataclass(frozen=True, eq=False)
class JointTrees(SelectedTrees):
    """Released trees whose probabilities come from one model of all releases.

    Votes, and with them predicted classes, are those of `SelectedTrees`. The model is
    fitted when it is first asked for: a function of what was released.
    """

    # Class counts of the leaves of each tree; without boosting those of what scores
    # say, in leaves that stand for them, follow.
    released: tuple[Released, ...] = ()
    domain_shape: tuple[int, ...] = ()
    n_records: float = 1.0  # public, roughly
    # Whether trees after the first were counted with boosting weights.
    boosted: bool = False
    settings: DrawnSettings = field(default_factory=DrawnSettings)

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless every leaf has a label, a row of scores and released counts."""
        super().check(domain_shape, n_classes)
        check_that(self.domain_shape == tuple(domain_shape), "sizes")
        check_that(1 <= self.n_records < math.inf, "numbers of records")
        check_that(not self.boosted or self.answers is None, "answers")
        if self.additive is not None:
            self.additive.check_sums()
            for view in self.additive.views:
                check_that(not view.cuts and 0 < len(view.attributes) < 3, "views")
        for tree, own in zip(self.trees, self.released, strict=True):
            own.check(tree.n_leaves + self._n_answers, n_classes)

    @property
    def _n_classes(self) -> int:
        return self.scores[0].shape[1]

    @property
    def _n_answers(self) -> int:
        """Number of rows of released counts after those of leaves."""
        scored = self.additive is not None and not self.boosted
        return self._n_classes if scored else 0

    # ---- features and what was released of them --------------------------

    def _features(self, codes: Integers) -> sparse.csr_array:
        """Return features of records with every class, shape (b * k, J)."""
        k = self._n_classes
        parts = [part.features(k) for part in self._parts(codes)]
        return sparse.csr_array(sparse.hstack(parts, format="csr"))

    def _lines(self, codes: Integers, parameters: Floats) -> Floats:
        """Return features times parameters, (J,) or (J, r): (b, k) or (b, k, r)."""
        total: Any = 0.0
        start, k = 0, self._n_classes
        for part in self._parts(codes):
            stop = start + part.size(k)
            total, start = total + part.lines(parameters[start:stop], k), stop
        return np.asarray(total)

    def _parts(self, codes: Integers) -> Iterator[_Part]:
        """Yield what blocks of features are, for encoded records."""
        if self.additive is not None:
            yield _Part(np.zeros(len(codes), np.int64), 1)
            views = zip(self.additive.views, self.additive.sums[1:], strict=True)
            for view, sums in views:
                cells = view.cells(codes)
                if sums.positions is None:
                    yield _Part(cells, view.size)
                else:
                    yield _Part(np.zeros_like(cells), 1, sums.positions[cells][:, None])
        votes: Any = None
        for tree, scores in zip(self.trees, self.scores, strict=True):
            places = tree.leaves(codes)
            if self.boosted:
                weights = None if votes is None else _weights_of(votes)
                yield _Part(places, tree.n_leaves, weights)
                additive = self.additive if votes is None else None
                one = SelectedTrees((tree,), (scores,), additive)
                own = one.whole_votes(codes, places)
                votes = own if votes is None else votes + own
                continue
            where = self._deferred(tree, places)
            if where.size:
                assert self.additive is not None
                places[where] = tree.n_leaves + self.additive.classes(codes[where])
            labels, groups = self._labels_of(tree)
            yield _Part(labels[places], None)
            yield _Part(groups[places], 2 * self._n_classes)
            yield _Part(places, labels.size)

    def _labels_of(self, tree: SelectedTree) -> tuple[Integers, Integers]:
        """Return labels of the rows that were counted of a tree, and their groups.

        A group is a label, in a leaf or by what scores say; leaves that stand for
        scores have none.
        """
        k, labels = self._n_classes, np.concatenate(tree.labels)
        groups = np.where(labels < k, labels, 2 * k)
        if self.additive is not None:
            said = np.arange(k)
            labels, groups = np.append(labels, said), np.append(groups, k + said)
        return labels, groups

    def _sums(self, released: Sequence[Floats], *, held: bool) -> list[Floats]:
        """Return sums of features, block by block, from rows that were released.

        Linear, unless no class is `held` to have more than the label.
        """
        n_sums = len(released) - len(self.released)
        out, k = list(released[:n_sums]), self._n_classes
        for tree, rows in zip(self.trees, released[n_sums:], strict=True):
            if self.boosted:
                out.append(rows)
                continue
            labels, groups = self._labels_of(tree)
            known = np.flatnonzero(labels < k)
            labels, groups = labels[known], groups[known]
            right = rows[known, labels].sum(axis=0, keepdims=True)
            together = np.zeros((2 * k, *rows.shape[1:]))
            np.add.at(together, groups, rows[known])
            if held:
                together = with_largest(together, np.tile(np.arange(k), 2))
                rows = rows.copy()
                rows[known] = with_largest(rows[known], labels)
            out += [right, together, rows]
        return out

    @property
    def _releases(self) -> list[Released]:
        """All that was released, in records: sums of views, then counts of leaves."""
        sums = () if self.additive is None else self.additive.sums
        return [*(own.released for own in sums), *self.released]

    @property
    def _tables(self) -> list[int]:
        """Releases whose rows, and the noise on them, add up to numbers of records."""
        if self.additive is None:
            return []
        numbers, *views = (own.released.values for own in self.additive.sums)
        return [
            place
            for place, rows in enumerate(views, 1)
            if len(rows) > 1 and (rows.sum(axis=0) == numbers[0]).all()
        ]

    @cached_property
    def _own_variances(self) -> list[Floats]:
        """Variances of the noise of every row, apart from the noise of a total."""
        found: list[Floats] = [own.variances for own in self._releases]
        for place in self._tables:
            own, m = found[place], len(found[place])
            found[place] = np.asarray((own - found[0] / m**2) * m / (m - 1))
        return found

    def _moments(self) -> list[Moments]:
        """Return what was released of each block of features, with its prior."""
        s, k = self.settings, self._n_classes
        found: list[dict[str, Any]] = []
        for number, own in enumerate(
            () if self.additive is None else self.additive.sums
        ):
            slack = 1 / max(own.kept, 1e-4) - 1 + s.view_slack
            prior = {"slack": slack} if number else {"width": s.class_width}
            found.append(prior | {"whole": own.positions is None})
        for number in range(len(self.trees)):
            if self.boosted:
                width = s.further_width if number else s.first_width
                found.append({"width": width, "whole": not number})
                continue
            right = math.log(k + 1) / len(self.trees)
            found += [
                {"width": s.right_width, "prior": right},
                {"width": s.label_width, "whole": True},
                {"width": s.leaf_width, "whole": True},
            ]
        values = self._sums([own.values for own in self._releases], held=True)
        noise = [np.tile(own[:, None], k) for own in self._own_variances]
        variances = self._sums(noise, held=False)
        return [
            Moments(own.ravel(), variance.ravel(), **words)
            for own, variance, words in zip(values, variances, found, strict=True)
        ]

    # ---- the model -------------------------------------------------------

    @property
    def _whole(self) -> tuple[Released, ...]:
        """Counts without weights, which add up to the number of records."""
        return self.released[:1] if self.boosted else self.released

    @cached_property
    def _number(self) -> float:
        """Number of records, which was roughly known, by all that counts them."""
        counted = [] if self.additive is None else [self.additive.sums[0].released]
        trust, weighed = (ROUGHLY * self.n_records) ** -2, self.n_records**-1
        weighed /= ROUGHLY**2
        for own in (*counted, *self._whole):
            precision = 1 / (self._n_classes * own.variances.sum() + 1)
            trust, weighed = trust + precision, weighed + precision * own.values.sum()
        return max(float(weighed / trust), 1.0)

    def _class_shares(self) -> Floats:
        """Return shares of the classes, about; even ones count as much as noise."""
        if self.additive is not None:
            return self.additive.class_shares
        totals = sum(own.values.sum(axis=0) for own in self._whole)
        noise = math.sqrt(sum(own.variances.sum() for own in self._whole))
        shares = np.maximum(totals, 0.0) + noise / self._n_classes + 1
        return np.asarray(shares / shares.sum())

    def _moved(self, points: Integers, base: Floats) -> Floats:
        """Return the base measure with what is known of the totals of leaves."""
        n, log_moved = self._number, np.zeros(base.size)
        for tree, own in zip(self.trees, self._whole, strict=False):
            places, size = tree.leaves(points), tree.n_leaves
            often = np.bincount(places, base, size)
            noise = self._n_classes * own.variances[:size] / n**2
            trust = often**2 / np.maximum(often**2 + noise, 1e-300)
            if not self.boosted:
                # Leaves that stand for scores are not counted one by one.
                trust[np.concatenate(tree.labels) == self._n_classes] = 0.0
            found = often + trust * (own.values[:size].sum(axis=1) / n - often)
            found = np.maximum(found, 0.05 * often)
            ratios = np.where(often > 0, found / np.maximum(often, 1e-300), 1.0)
            log_moved += np.log(ratios)[places]
        return np.asarray(softmax(np.log(base) + log_moved / len(self._whole)))

    @cached_property
    def model(self) -> LogLinear:
        """The model of all that was released."""
        points, base = base_points(
            self.domain_shape, self.additive, self.settings.base_points
        )
        return LogLinear(
            self._moved(points, base),
            self._features(points),
            self._moments(),
            self._number,
            self._class_shares(),
        )

    @cached_property
    def _replicas(self) -> Floats:
        """Changes of the parameters by noise of the known law, shape (J, r)."""
        rng = np.random.default_rng(0)  # public: a simulation of what is known
        shape = self._n_classes, REPLICAS
        noise = [
            np.sqrt(own)[:, None, None] * rng.standard_normal((own.size, *shape))
            for own in self._own_variances
        ]
        for place in self._tables:
            missing = noise[0] - noise[place].sum(axis=0)
            noise[place] += missing / len(noise[place])
        sums = self._sums(noise, held=False)
        return self.model.response(
            np.concatenate([own.reshape(-1, REPLICAS) for own in sums])
        )

    def probabilities(self, codes: Integers) -> Floats:
        """Return class probabilities, shape (b, k): of the model, with the vote ahead.

        Probabilities above that of the class with the most votes are evened out with
        it, so that it stays the likeliest.
        """
        out = np.empty((len(codes), self._n_classes))
        for start in range(0, len(codes), RECORDS_AT_ONCE):
            part = codes[start : start + RECORDS_AT_ONCE]
            votes = self.log_odds(part).argmax(axis=1)
            found = softmax(self._lines(part, self.model.parameters), axis=1)
            found = with_largest(found, votes)
            found[np.arange(len(part)), votes] += 1e-9
            out[start : start + len(part)] = found / found.sum(axis=1, keepdims=True)
        return out

    def _line_errors(self, codes: Integers, found: Floats) -> Floats:
        """Return standard errors of the log-odds of each class against the others."""
        out, most = np.zeros(found.shape), max(1, RECORDS_AT_ONCE // REPLICAS)
        for start in range(0, len(codes), most):
            part = slice(start, start + most)
            chances = found[part][..., None]
            own = self._lines(codes[part], self._replicas)
            all_of_them = (chances * own).sum(axis=1, keepdims=True)
            against = (all_of_them - chances * own) / (1 - chances)
            out[part] = np.sqrt(np.square(own - against).mean(axis=2))
        return out


def _weights_of(votes: Integers) -> Floats:
    """Return boosting weights of records for each class they may be of, (b, k)."""
    classes = [np.full(len(votes), c) for c in range(votes.shape[1])]
    found = [boosting_weights(votes, one) for one in classes]
    return np.column_stack(found) / UNIT


@dataclass(frozen=True, eq=False)
class _Part:
    """One block of features: which row of parameters a record has."""

    # Row of the record, shape (b,); none if beyond the others. Without rows, a class.
    places: NDArray[Any]
    # Number of rows, each of one parameter for every class; None for a single
    # parameter, which counts for one class only.
    n_rows: int | None
    # What it counts for, by class, shape (b, 1) or (b, k); ones by default.
    amounts: Floats | None = None

    def size(self, k: int) -> int:
        """Return the number of parameters."""
        return 1 if self.n_rows is None else k * self.n_rows

    def lines(self, parameters: Floats, k: int) -> Floats:
        """Return features times parameters, shape (b, k) or (b, k, r)."""
        rest = parameters.shape[1:]
        if self.n_rows is None:
            table = np.multiply.outer(np.eye(k), parameters[0])
        else:
            table = parameters.reshape(self.n_rows, k, *rest)
            table = np.concatenate([table, np.zeros((1, k, *rest))])
        found = table[self.places]
        if self.amounts is None:
            return found
        return found * self.amounts.reshape(*self.amounts.shape, *(1,) * len(rest))

    def features(self, k: int) -> sparse.csr_array:
        """Return features of records with every class, shape (b * k, size)."""
        b, columns = len(self.places), self.places.astype(np.int64)
        if self.n_rows is None:
            pairs = np.arange(b) * k + columns
            columns, values = np.zeros(b, np.int64), np.ones(b)
        else:
            known = np.flatnonzero(columns < self.n_rows)
            pairs = (k * known[:, None] + np.arange(k)).ravel()
            columns = (k * columns[known, None] + np.arange(k)).ravel()
            values = np.ones((b, k)) if self.amounts is None else self.amounts
            values = np.broadcast_to(values, (b, k))[known].ravel()
        return sparse.csr_array((values, (pairs, columns)), shape=(b * k, self.size(k)))
