r"""What drawing trees, counting and adding up cost, in two kinds of budget.

Under pure epsilon costs are charged to a ledger. Under zero-concentrated differential
privacy (zCDP) they are :math:`\rho`, which adds up over releases as epsilon does. Of
many releases each is then noised less than by its share of a pure epsilon: budgets per
release fall with the root of their number.

An exponential mechanism of pure epsilon :math:`\epsilon_0` costs no more than
:math:`\epsilon_0^2 / 8`, a quarter of what pure epsilon alone implies, because its
privacy loss lies in a window of that width (*bounded range*): with weights
:math:`\pi_i e^{\eta q_i}`, normalised by Z, a neighbour changes the logarithm of the
probability of i by :math:`\eta (q'_i - q_i) - \log (Z' / Z)`. The last term is the same
for all i, so that the window is as wide as :math:`\eta` times that of the changes of
scores. These span an interval of length

* 1, if an added record can only raise scores (monotone), where :math:`\eta` is
  :math:`\epsilon_0`;
* 2, otherwise, or with monotone scores if a record is replaced, where it is
  :math:`\epsilon_0 / 2`;
* 4, if neither, where it is :math:`\epsilon_0 / 4`.

The window is :math:`\epsilon_0` wide each time. What `fixed_point_rate` takes off for
roundings covers it too: it allows for the errors of four probabilities, of two
neighbours and in numerator and denominator. Here they are those of two neighbours and
two candidates, while errors in Z cancel like Z itself.

References
----------
.. [1] Bun, Steinke, "Concentrated differential privacy: simplifications, extensions,
   and lower bounds", TCC 2016.
.. [2] Dong, Durfee, Rogers, "Optimal differential privacy composition for exponential
   mechanisms", ICML 2020 (bounded range).
.. [3] Cesar, Rogers, "Bounding, concentrating, and truncating: unifying privacy loss
   composition for data analytics", ALT 2021 (bounded range implies zCDP).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import (
    BudgetExceededError,
    PrivacyLedger,
    gaussian_release,
    laplace_release,
    norm_release,
)
from mmech.release import calibrated
from mmech_rf.tree_selection import SelectedTree, select_tree

__all__ = [
    "ConcentratedPayments",
    "ConcentratedRelease",
    "NoisyCounts",
    "NoisySums",
    "Payments",
    "PurePayments",
    "bounded_range",
]

RESOLUTION = 2**80
"""Square roots of costs are rounded down to multiples of one over this."""


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Released counts.

    Attributes
    ----------
    values : ndarray of int64
        Counts with noise.
    scale : float
        Scale of their Laplace noise, or of Laplace noise of the same variance.
    """

    values: NDArray[np.int64]
    scale: float


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Released sums.

    Attributes
    ----------
    values : ndarray of int64, shape (D, k)
        Sums with noise.
    deviations : ndarray of float64, shape (D,)
        Standard deviations of the noise of every row.
    """

    values: NDArray[np.int64]
    deviations: NDArray[np.float64]


@dataclass(frozen=True)
class PurePayments:
    """Releases that cost epsilon, each charged to one ledger before it is drawn.

    Attributes
    ----------
    neighbours : {"add_remove", "replace"}
        Neighbour relation of the guarantee.
    ledger : PrivacyLedger
        Budget to charge.
    insecure_rng : numpy.random.Generator or None
        Source for tests.
    note : callable
        Told the cost, what was released and its sensitivity, of every release.
    """

    neighbours: str
    ledger: PrivacyLedger
    insecure_rng: np.random.Generator | None
    note: Callable[[Fraction, str, float], None]

    def draw_tree(
        self, cost: Fraction, what: str, *seen: Any, **settings: Any
    ) -> SelectedTree:
        """Draw a labelled tree; further arguments are those of `select_tree`."""
        tree = select_tree(
            *seen,
            **settings,
            epsilon=cost,
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self.insecure_rng,
        )
        self.note(cost, what, 1.0)
        return tree

    def release(
        self, counts: NDArray[np.int64], cost: Fraction, what: str, unit: int = 1
    ) -> NoisyCounts:
        """Release counts, of which one record changes one by at most `unit`."""
        measured = laplace_release(
            counts,
            sensitivity=unit,
            epsilon=cost,
            released=what,
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self.insecure_rng,
        )
        self.note(cost, what, measured.sensitivity)
        return NoisyCounts(measured.values, float(measured.scale))

    def deviation(self, groups: Sequence[int], cost: Fraction) -> float:
        """Return about what `release_sums` adds to a group of one row."""
        rows = sum(groups)
        norm = float(calibrated(1, self.neighbours) / cost)
        return norm * math.sqrt((rows + 1) * (rows + 2) / 3)

    def release_sums(
        self,
        sums: NDArray[np.int64],
        groups: Sequence[int],
        cost: Fraction,
        what: str,
        unit: int,
    ) -> NoisySums:
        """Release sums, of which one record changes every group by at most `unit`.

        In L1 norm, and in one column only.
        """
        measured = norm_release(
            sums,
            groups=groups,
            sensitivity=unit,
            epsilon=cost,
            released=what,
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self.insecure_rng,
        )
        self.note(cost, what, measured.sensitivity)
        return NoisySums(measured.values, np.sqrt(measured.variance))


@dataclass(frozen=True)
class ConcentratedRelease:
    """One release under zCDP.

    Attributes
    ----------
    rho : Fraction
        What the release cost.
    released : str
        What was released, in words.
    sensitivity : float
        L2 sensitivity that noise was calibrated to, or sensitivity of a score.
    insecure : bool
        Whether the noise came from ``insecure_rng``: then nothing is private.
    """

    rho: Fraction
    released: str
    sensitivity: float
    insecure: bool = False


@dataclass
class ConcentratedPayments:
    """Releases that cost rho, each subtracted from a total before it is drawn.

    Attributes
    ----------
    neighbours : {"add_remove", "replace"}
        Neighbour relation of the guarantee.
    rho : Fraction
        Total; releases beyond it are refused.
    insecure_rng : numpy.random.Generator or None
        Source for tests.
    note : callable
        Told the cost, what was released and its sensitivity, of every release.
    """

    neighbours: str
    rho: Fraction
    insecure_rng: np.random.Generator | None
    note: Callable[[Fraction, str, float], None]
    _spent: Fraction = field(default=Fraction(0), init=False)

    def draw_tree(
        self, cost: Fraction, what: str, *seen: Any, **settings: Any
    ) -> SelectedTree:
        """Draw a labelled tree; further arguments are those of `select_tree`."""
        self._pay(cost, what, 1.0)
        return select_tree(
            *seen,
            **settings,
            epsilon=bounded_range(cost),
            neighbours=self.neighbours,
            insecure_rng=self.insecure_rng,
        )

    def release(
        self, counts: NDArray[np.int64], cost: Fraction, what: str, unit: int = 1
    ) -> NoisyCounts:
        """Release counts, of which one record changes one by at most `unit`."""
        self._pay(cost, what, float(calibrated(unit, self.neighbours)))
        measured = gaussian_release(
            counts,
            l2_sensitivity=unit,
            rho=cost,
            neighbours=self.neighbours,
            insecure_rng=self.insecure_rng,
        )
        return NoisyCounts(measured.values, float(measured.scale) / math.sqrt(2))

    def deviation(self, groups: Sequence[int], cost: Fraction) -> float:
        """Return about what `release_sums` adds to a row."""
        norm = float(calibrated(1, self.neighbours))
        return norm * math.sqrt(len(groups) / (2 * cost))

    def release_sums(
        self,
        sums: NDArray[np.int64],
        groups: Sequence[int],
        cost: Fraction,
        what: str,
        unit: int,
    ) -> NoisySums:
        """Release sums, of which one record changes every group by at most `unit`.

        In L1 norm, and so in L2 norm; and in one column only.
        """
        norm = unit * math.sqrt(len(groups))
        self._pay(cost, what, norm * float(calibrated(1, self.neighbours)))
        measured = gaussian_release(
            sums,
            squared_l2_sensitivity=unit**2 * len(groups),
            rho=cost,
            neighbours=self.neighbours,
            insecure_rng=self.insecure_rng,
        )
        deviation = np.full(len(sums), float(measured.scale))
        return NoisySums(measured.values, deviation)

    def _pay(self, cost: Fraction, what: str, sensitivity: float) -> None:
        if self._spent + cost > self.rho:
            raise BudgetExceededError(
                f"{what} would cost rho = {float(cost):g} but only "
                f"{float(self.rho - self._spent):g} of {float(self.rho):g} is left; "
                "nothing was released"
            )
        self._spent += cost
        self.note(cost, what, sensitivity)


Payments = PurePayments | ConcentratedPayments


def bounded_range(rho: Fraction) -> Fraction:
    """Return the largest epsilon of an exponential mechanism that rho pays for.

    The square root of 8 rho, rounded down.
    """
    return Fraction(math.isqrt(math.floor(8 * rho * RESOLUTION**2)), RESOLUTION)
