"""Empirical Bayes shrinkage of noisy marginals, one set of attributes at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_nonnegative, check_positive
from mmech.operators.base import product_of
from mmech.operators.explicit import Matrix
from mmech.operators.marginals import Marginals, check_attributes
from mmech.operators.subsets import downward_closure
from mmech.prior import SignalPrior, check_prior
from mmech.reconstruction.marginal_estimate import (
    MarginalEstimate,
    as_marginals,
    check_measured,
)
from mmech.storage.codec import storable
from mmech.threads import one_blas_thread

__all__ = ["ShrunkEstimate", "ShrunkPart", "shrink"]

Floats = NDArray[np.float64]
Subset = tuple[int, ...]

GRID = np.linspace(-4.0, 4.0, 81)
"""Standard deviations at which the prior of a signal's size is integrated."""


@storable("ShrunkPart")
@dataclass(frozen=True, eq=False)
class ShrunkPart:
    """One ANOVA part: the interactions of a set of attributes.

    Attributes
    ----------
    table : ndarray of float64, shape (*n_s, k)
        Unbiased interactions α_s: sums over all other attributes, centred.
    factor : float
        Shrinkage in [0, 1].
    noise : float
        Variance of one orthonormal coordinate, by noise and by sampling.
    rank : int
        Number of coordinates.
    evidence : float
        Log marginal likelihood ratio of the part against no signal.
    """

    table: Floats
    factor: float
    noise: float
    rank: int
    evidence: float


@storable("ShrunkEstimate")
@dataclass(frozen=True, eq=False, repr=False)
class ShrunkEstimate:
    r"""Posterior means and variances of tables of counts, from noisy marginals.

    Made by `shrink`. Holds two parts for every set s of attributes inside a measured
    marginal: what all classes share, and the contrasts between the classes.

    Attributes
    ----------
    domain_shape : tuple of int
        Number of values of every attribute.
    n_columns : int
        Number of columns (classes) k.
    common, contrasts : dict of tuple to ShrunkPart
        Parts by set of attributes; `contrasts` is empty when k is 1.
    log_evidence : float
        Log marginal likelihood ratio of the measurement against no signal, nats.

    Examples
    --------
    >>> from mmech import Marginals, shrink
    >>> strategy = Marginals((2,), {(0,): 1})
    >>> shrink(strategy, [[9, 1], [2, 8]], variance=2, n_records=20)
    ShrunkEstimate(2 sets of 1 attributes, 2 columns)
    """

    domain_shape: tuple[int, ...]
    n_columns: int
    common: dict[Subset, ShrunkPart]
    contrasts: dict[Subset, ShrunkPart]

    def __repr__(self) -> str:
        return (
            f"ShrunkEstimate({len(self.common)} sets of "
            f"{len(self.domain_shape)} attributes, {self.n_columns} columns)"
        )

    @cached_property
    def log_evidence(self) -> float:
        """Log marginal likelihood ratio against no signal, in nats."""
        parts = [*self.common.values(), *self.contrasts.values()]
        return math.fsum(part.evidence for part in parts)

    def marginal(self, attributes: Iterable[int] | int) -> Floats:
        """Return the posterior mean of a table, shape (n_a, k).

        Parts that no measured marginal holds count as zero, their prior mean.

        Parameters
        ----------
        attributes : sequence of int
            Positions of the attributes; cells in C order of the sorted ones.
        """
        return self._sum(attributes, "mean")

    def variance(self, attributes: Iterable[int] | int) -> Floats:
        """Return the posterior variance of every entry of a table, shape (n_a, k).

        Parts that no measured marginal holds are left out.
        """
        return self._sum(attributes, "variance")

    def _sum(self, attributes: Iterable[int] | int, what: str) -> Floats:
        kept = check_attributes(attributes, len(self.domain_shape))
        kept = tuple(i for i in kept if self.domain_shape[i] > 1)
        sizes = [self.domain_shape[i] for i in kept]
        k = self.n_columns
        out = np.zeros((*sizes, k))
        for parts in (self.common, self.contrasts):
            for s, part in parts.items():
                if not set(s) <= set(kept):
                    continue
                n_s = product_of(self.domain_shape[i] for i in s)
                share = n_s / product_of(sizes)
                if what == "mean":
                    shape = [
                        n if i in s else 1 for i, n in zip(kept, sizes, strict=True)
                    ]
                    out += (share * part.factor) * part.table.reshape(*shape, -1)
                else:
                    each = part.factor * part.noise * part.rank / (n_s * k)
                    out += share**2 * each
        return out.reshape(-1, k)


@one_blas_thread()
def shrink(
    strategy: Matrix,
    values: ArrayLike,
    *,
    variance: ArrayLike,
    n_records: float,
    prior: SignalPrior | None = None,
    spread: float = 2.0,
) -> ShrunkEstimate:
    r"""Shrink noisy marginals towards no signal, each ANOVA part by its own evidence.

    The unbiased interactions :math:`\alpha_s` of every set s of attributes split into
    the mean of the classes and the contrasts between them. Coordinates of a part are
    normal around a signal of variance g with noise of variance

    .. math:: \tau_s = \Bigl( \sum_{a \supseteq s} \frac{n_s \theta_a^2}{n_a \sigma_a^2}
              \Bigr)^{-1} + \frac{N}{k\, n_s},

    the second term being the sampling variance of N records, and the posterior mean is
    :math:`\alpha_s` times :math:`E[g / (g + \tau_s) \mid \alpha_s]`. The signal's
    variance g is log-normal around the variance of the public prior. Cost: linear in
    the sizes of the tables times their number of subsets; the domain is never listed.

    Parameters
    ----------
    strategy : Marginals, Marginal or StrategyResult, shape (p, n)
        What was measured.
    values : array_like, shape (p,) or (p, k)
        Noisy answers, one column per class. One column of signed differences between
        two classes has no contrasts and is shrunk as a whole.
    variance : array_like, shape () or (p,)
        Variance of the noise, the same in all rows of a marginal.
    n_records : float
        Number of records N, public or a noisy count.
    prior : SignalPrior, default=None
        Public guess of the signal; ``None`` for its defaults.
    spread : float, default=2.0
        Standard deviation of log g around the guess; 0 takes the guess as it is,
        which makes the estimate a linear filter.

    Returns
    -------
    ShrunkEstimate

    Raises
    ------
    ValueError
        If shapes do not match or a variance is not above 0.

    References
    ----------
    .. [1] Efron, Morris, "Stein's estimation rule and its competitors: an empirical
       Bayes approach", JASA 1973.
    .. [2] Balle, Wang, "Improving the Gaussian mechanism for differential privacy:
       analytical calibration and optimal denoising", ICML 2018, Section 4.

    Examples
    --------
    >>> from mmech import Marginals
    >>> from mmech.reconstruction import shrink
    >>> noisy = [[9, 1], [2, 8], [5, 5]]
    >>> estimate = shrink(Marginals((3,), {(0,): 1}), noisy, variance=8, n_records=30)
    >>> bool(5 < estimate.marginal([0])[0, 0] < 9)
    True
    """
    strategy = as_marginals(strategy)
    check_positive(n_records, "n_records")
    spread = check_nonnegative(spread, "spread")
    sizes = strategy.domain_shape
    whitened, array = _whitened(strategy, values, variance)
    estimate = MarginalEstimate(whitened, array)
    prior = check_prior(prior)
    closure = list(downward_closure(list(whitened.weights), sizes))
    guesses = prior.energies(closure, sizes, n_records=n_records)
    k = array.shape[1]
    common: dict[Subset, ShrunkPart] = {}
    contrasts: dict[Subset, ShrunkPart] = {}
    for s, guess in zip(closure, guesses, strict=True):
        alpha, n_s = estimate._alpha(s), product_of(sizes[i] for i in s)
        assert alpha is not None
        precision = sum(
            weight**2 * n_s / product_of(sizes[i] for i in a)
            for a, weight in whitened.weights.items()
            if set(s) <= {i for i in a if sizes[i] > 1}
        )
        noise = 1 / precision + n_records / (k * n_s)
        rank = product_of(sizes[i] - 1 for i in s)
        mean = alpha.mean(axis=-1, keepdims=True)
        shared = np.broadcast_to(mean, alpha.shape)
        # The total itself is no signal around zero: it is kept as it is.
        keep = not s and k > 1
        common[s] = _part(shared, noise, rank, guess, math.inf if keep else spread)
        if k > 1:
            contrasts[s] = _part(alpha - mean, noise, rank * (k - 1), guess, spread)
    return ShrunkEstimate(sizes, k, common, contrasts)


def _whitened(
    strategy: Marginals, values: ArrayLike, variance: ArrayLike
) -> tuple[Marginals, Floats]:
    """Return the strategy and its answers with noise of variance one."""
    array, rows = check_measured(strategy, values, variance)
    weights, start = {}, 0
    for a, weight in strategy.weights.items():
        stop = start + product_of(strategy.domain_shape[i] for i in a)
        if (rows[start:stop] != rows[start]).any():
            raise ValueError("variance must be the same in all rows of a marginal")
        weights[a] = weight / math.sqrt(rows[start])
        start = stop
    return Marginals(strategy.domain_shape, weights), array / np.sqrt(rows)[:, None]


def _part(
    table: Floats, noise: float, rank: int, guess: float, spread: float
) -> ShrunkPart:
    """Integrate the shrinkage over the prior of the signal's variance."""
    if spread == math.inf or rank == 0:
        return ShrunkPart(table, 1.0, noise, rank, 0.0)
    steps = GRID if spread > 0 else np.zeros(1)
    signal = np.exp(spread * steps) * (guess / rank)
    squares = float(np.square(table).sum())
    logs = -0.5 * np.square(steps)
    logs -= np.logaddexp.reduce(logs)
    fits = 0.5 * squares * signal / (noise * (signal + noise))
    logs = logs + fits - 0.5 * rank * np.log1p(signal / noise)
    evidence = float(np.logaddexp.reduce(logs))
    factors = signal / (signal + noise)
    factor = float(np.exp(logs - evidence) @ factors)
    return ShrunkPart(table, factor, noise, rank, evidence)
