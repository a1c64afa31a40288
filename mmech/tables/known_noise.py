r"""Estimates that are conditioned on what is known, and the law of their errors.

Published totals c and cells that are impossible are linear equations C x = c. A known
table fixes the interactions of all subsets of its attributes, whose errors are
uncorrelated with all others. Impossible cells tie interactions together: with the
covariance V of the errors of tables,

.. math:: \hat x' = \hat x - V C^T (C V C^T)^+ (C \hat x - c) , \qquad
          V' = V - V C^T (C V C^T)^+ C V .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import pinvh

from mmech.arrays import Floats, Integers, Mask, Subset
from mmech.exceptions import ParameterError
from mmech.limits import LIMITS
from mmech.mechanism import MatrixMechanism
from mmech.noise.tails import NO_ERROR, ErrorLaw, error_law, step_of
from mmech.operators.base import product_of
from mmech.reconstruction import MarginalEstimate
from mmech.tables.known import Known
from mmech.tables.levels import subsets_of
from mmech.tables.noise import VARIANCE_FLOOR, Noise

MOST_IMPOSSIBLE = 4096
"""Most impossible cells of all tables: a dense matrix of so many rows is inverted."""


FEW, STEP = 256, 1.01
"""Where an error has more different coefficients, their magnitudes are rounded up to
powers of this step: an interval gets longer, by at most as much."""


LEAST_SHARE = 1e-12
"""Share of the variance of noise: a smaller variance of a count is rounding."""


def _alike(rules: Sequence[tuple[Subset, Mask]], attribute: int, n: int) -> Integers:
    """Return a number for each value, equal for those that no rule tells apart."""
    own = [np.zeros((n, 0), bool)] + [
        np.moveaxis(mask, subset.index(attribute), 0).reshape(n, -1)
        for subset, mask in rules
        if attribute in subset
    ]
    return np.unique(np.hstack(own), axis=0, return_inverse=True)[1].ravel()


class KnownNoise(Noise):
    """The law of the errors of tables of which some cells are impossible.

    Parameters
    ----------
    mechanism : MatrixMechanism
        Measures marginals.
    known : Known
    subsets : sequence of tuple of int
        All tables.
    """

    def __init__(
        self, mechanism: MatrixMechanism, known: Known, subsets: Sequence[Subset]
    ) -> None:
        super().__init__(mechanism, known.exact)
        self._closed = known.closed([*subsets, *self._weights])  # larger ones tell more
        if sum(int(mask.sum()) for mask in self._closed.values()) > MOST_IMPOSSIBLE:
            self._closed = known.closed(subsets)
        self._variance, self._parameter = (
            np.repeat(own, self._cells.astype(np.int64))
            for own in (self._variances, self._parameters)
        )
        cells = sum(int(mask.sum()) for mask in self._closed.values())
        largest = max(product_of(known.sizes[i] for i in own) for own in subsets)
        room = LIMITS.table_entries // self._variance.size - largest
        if cells > min(room, MOST_IMPOSSIBLE):
            raise ParameterError(
                "impossible",
                f"must be at most {max(0, min(room, MOST_IMPOSSIBLE)):,} cells of all "
                "tables",
                f"{cells:,}",
                ("give attributes coarser values", "take fewer tables"),
            )
        self._moves = np.concatenate(
            [
                self._plain(own, np.flatnonzero(mask))
                for own, mask in self._closed.items()
            ]
        )
        self._inverse = pinvh(
            np.concatenate(
                [self._tied(own)[mask.ravel()] for own, mask in self._closed.items()]
            ),
            rtol=1e-10,
        )
        parts = {s for own in self._closed for s in subsets_of(own)} - {*known.exact}
        self._ties = {part: self._tied(part) for part in parts}
        _, self._kind = np.unique(self._parameter, return_inverse=True)
        self._alike = [_alike(known.rules, i, n) for i, n in enumerate(known.sizes)]
        self._representatives: dict[Subset, tuple[Floats, Floats, Integers]] = {}
        self._found: dict[bytes, ErrorLaw] = {}

    def _kernel(self, subset: Subset) -> Floats:
        """Return the sum of projections on interactions over κ, (cells, cells)."""
        cells = product_of(self.domain_shape[i] for i in subset)
        kernel = np.zeros((cells, cells))
        for part in subsets_of(subset):
            own: Any = np.ones((1, 1))
            for i in subset:
                n = self.domain_shape[i]
                even = np.full((n, n), 1 / n)
                own = np.kron(own, np.eye(n) - even if i in part else even)
            kernel += own / self._precision(part)
        return kernel

    def _plain(self, subset: Subset, rows: Integers) -> Floats:
        """Return coefficients of all noise in cells before conditioning, (rows, p)."""
        cells = product_of(self.domain_shape[i] for i in subset)
        blocks, kernels = [], {part: self._kernel(part) for part in subsets_of(subset)}
        for measured, share in zip(self._weights, self._shares, strict=True):
            common = tuple(i for i in subset if i in measured)
            kernel = kernels[common]
            at, columns = (self._places(own, common) for own in (subset, measured))
            own = kernel[np.ix_(at[rows], columns)]
            blocks.append(own * (share * len(kernel) / cells))
        return np.hstack(blocks)

    def _tied(self, subset: Subset) -> Floats:
        """Return covariances with all closed cells before conditioning, (cells, n)."""
        blocks = []
        for closed, mask in self._closed.items():
            common = tuple(i for i in subset if i in closed)
            kernel = self._kernel(common)
            rows, columns = (self._places(own, common) for own in (subset, closed))
            own = kernel[np.ix_(rows, columns[mask.ravel()])]
            blocks.append(own * (len(kernel) / (rows.size * mask.size)))
        return np.hstack(blocks)

    def _places(self, subset: Subset, part: Subset) -> Integers:
        """Return the cell of a margin that each cell of a table is counted in."""
        sizes = self.domain_shape
        margins = np.arange(product_of(sizes[i] for i in part))
        margins = margins.reshape([sizes[i] if i in part else 1 for i in subset])
        return np.broadcast_to(margins, [sizes[i] for i in subset]).ravel()

    def estimate(self, values: ArrayLike) -> MarginalEstimate:
        """Return the conditioned estimate from measured values, (p,) or (p, k)."""
        plain = super().estimate(values)
        apart = [
            plain.marginal(own).reshape(mask.size, -1)[mask.ravel()]
            for own, mask in self._closed.items()
        ]
        weights = self._inverse @ np.concatenate(apart)
        tables = {}
        for part, ties in self._ties.items():
            sizes = [self.domain_shape[i] for i in part]
            table = plain.marginal(part).reshape(len(ties), -1) - ties @ weights
            tables[part] = table.reshape(*sizes, -1)
        return plain.given(tables)

    def coefficients(self, subset: Subset, rows: Integers | None = None) -> Floats:
        """Return the coefficients of all noise in the errors of cells, (rows, p)."""
        tied = self._tied(subset)
        rows = np.arange(len(tied)) if rows is None else rows
        return self._plain(subset, rows) - tied[rows] @ self._inverse @ self._moves

    def _cells_of(self, subset: Subset) -> tuple[Floats, Floats, Integers]:
        """Return coefficients and variances of some cells, and which stands for each.

        Cells have the same law of errors if their values differ by ones that rules do
        not tell apart: to swap these changes nothing that is known or measured.
        """
        if subset not in self._representatives:
            kinds = [self._alike[i] for i in subset]
            places = np.ravel_multi_index(
                np.meshgrid(*kinds, indexing="ij"), [own.size for own in kinds]
            )
            _, first, which = np.unique(places, return_index=True, return_inverse=True)
            found = self.coefficients(subset, first)
            own = found, self._spreads(found), which.ravel()
            self._representatives[subset] = own
        return self._representatives[subset]

    def _spreads(self, coefficients: Floats) -> Floats:
        """Return variances by row, zero where they are rounding."""
        found = np.square(coefficients) @ self._variance
        return np.where(found > LEAST_SHARE * self._variances.max(), found, 0.0)

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of the errors of counts that have any."""
        _, spreads, which = self._cells_of(subset)
        found = spreads[which]
        mean = float(found.sum()) / max(1, int((found > 0).sum()))
        return max(mean, VARIANCE_FLOOR)

    def law(self, subset: Subset, together: Subset | None = None) -> ErrorLaw:
        """Return the law of the error of the count with the largest variance."""
        coefficients, spreads, _ = self._cells_of(subset)
        return self.laws(coefficients[[np.argmax(spreads)]])[0]

    def by_cell(self, subset: Subset) -> list[ErrorLaw]:
        """Return the law of the error of every cell of a table."""
        coefficients, _, which = self._cells_of(subset)
        found = self.laws(coefficients)
        return [found[k] for k in which]

    def laws(self, coefficients: Floats) -> list[ErrorLaw]:
        """Return the law of every row of coefficients of all noise.

        Rows of the same four moments have the same coefficients in another order.
        """
        sizes = np.abs(coefficients)
        power, moments = self._variance * sizes, []
        for _ in range(4):
            moments.append(power.sum(axis=1))
            power = power * sizes
        rounded = np.round(moments / np.maximum(np.max(moments, 1), 1e-300)[:, None], 9)
        _, first, which = np.unique(
            rounded, axis=1, return_index=True, return_inverse=True
        )
        spreads = self._spreads(coefficients[first])
        laws = [
            self._law_of_row(coefficients[k], math.sqrt(own)) if own else NO_ERROR
            for k, own in zip(first, spreads, strict=True)
        ]
        return [laws[k] for k in which.ravel()]

    def _law_of_row(self, coefficients: Floats, error: float) -> ErrorLaw:
        """Return the law of a row; equal ones are looked for once."""
        largest = np.abs(coefficients).max()
        kept = np.abs(coefficients) > 1e-9 * largest
        sizes = (np.abs(coefficients[kept]) / largest).round(9)
        if np.unique(sizes).size > FEW:
            sizes = STEP ** np.ceil(np.log(sizes) / math.log(STEP) - 1e-6)
        _, first, numbers = np.unique(
            sizes + 2 * self._kind[kept], return_index=True, return_counts=True
        )
        terms = [largest * sizes[first], numbers.astype(np.float64)]
        terms += [own[kept][first] for own in (self._variance, self._parameter)]
        key = np.round(terms, 6).tobytes()
        if key not in self._found:
            apart = np.abs(terms[0] - np.rint(terms[0])).max()
            whole = 0.0 if apart < 1e-8 else None
            law = error_law(self._law, terms[0], terms[1], terms[2], terms[3], whole)
            spreads = np.sqrt(terms[1] * terms[2])
            step = 0.0 if whole == 0.0 else step_of(terms[0], spreads)
            self._found[key] = replace(law, standard_error=error, step=step)
        return self._found[key]
