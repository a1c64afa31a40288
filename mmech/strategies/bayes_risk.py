"""Which marginals to measure so that a shrunk estimate is expected to be closest."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.checks import (
    check_choice,
    check_epsilon,
    check_integer,
    check_nonnegative,
    check_positive,
)
from mmech.marginals.designs import (
    MAX_BLOCK_CELLS,
    block_partitions,
)
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals, check_attributes, check_domain_shape
from mmech.operators.subsets import downward_closure, ranks_of, sizes_of
from mmech.prior import SignalPrior, check_prior
from mmech.strategies.result import Candidate, StrategyResult
from mmech.threads import one_blas_thread

__all__ = ["BayesRisk", "bayes_risk_strategy"]

Floats = NDArray[np.float64]
Subset = tuple[int, ...]

FLOOR = 0.5
"""Every block of a partition keeps this part of its equal share."""

MAX_BLOCKS = 256
"""More pairs than these are left out: each would get too little."""


class BayesRisk:
    r"""Expected squared error of shrunk contrasts, as a function of the budget shares.

    With budget shares :math:`\theta_a` (sum one) of a pool of blocks, prior variance
    :math:`g_s` per coordinate and :math:`\tau_s(\theta)` the variance by noise and
    sampling,

    .. math:: R(\theta) = \sum_s \frac{n_s}{n} r_s
              \Bigl( \frac{1}{g_s} + \frac{1}{\tau_s(\theta)} \Bigr)^{-1}

    over all subsets s of blocks, relative to :math:`R` of no measurement.

    Parameters
    ----------
    domain_shape : tuple of int
        Number of values of every attribute.
    pool : iterable of tuple of int
        Blocks.
    epsilon : float, optional
        Privacy parameter of the whole measurement with Laplace noise, nats.
    rho : float, optional
        In its place, the zCDP parameter of one with Gaussian noise.
    n_records : float
        Number of records.
    n_columns : int
        Number of classes k, at least 2, or 1 for signed differences of two.
    prior : SignalPrior
        Public guess of the signal.
    """

    def __init__(
        self,
        domain_shape: tuple[int, ...],
        pool: Iterable[Subset],
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        n_records: float,
        n_columns: int,
        prior: SignalPrior,
    ) -> None:
        self.pool = list(pool)
        closure = downward_closure(self.pool, domain_shape)
        subsets = list(closure)
        cells = sizes_of(subsets, domain_shape)
        contrasts = max(n_columns - 1, 1)
        # One column of differences holds twice the squared size of centred classes.
        energies = prior.energies(subsets, domain_shape, n_records=n_records)
        energies *= 2 if n_columns == 1 else 1
        self._ranks = ranks_of(subsets, domain_shape) * contrasts
        self._signal = energies / self._ranks
        self._sampling = n_records / (n_columns * cells)
        self._weights = cells * self._ranks / float(cells @ energies)
        # Variances of noise are 2 / (epsilon theta)^2 or 1 / (2 rho theta).
        self._power = 2 if rho is None else 1
        precision = 0.5 * (epsilon or 0.0) ** 2 if rho is None else 2 * rho
        rows: list[int] = []
        counts = []
        for block in self.pool:
            kept = [i for i in block if domain_shape[i] > 1]
            for size in range(len(kept) + 1):
                rows.extend(map(closure.__getitem__, combinations(kept, size)))
            counts.append(2 ** len(kept))
        columns = np.repeat(np.arange(len(self.pool)), counts)
        own = sizes_of(self.pool, domain_shape)[columns]
        entries = precision * cells[rows] / own
        shape = (len(subsets), len(self.pool))
        self._precisions = sp.csr_array((entries, (rows, columns)), shape=shape)

    def __call__(self, shares: Floats) -> tuple[float, Floats]:
        """Return the relative risk in [0, 1] and its gradient by the shares."""
        precision = self._precisions @ shares**self._power
        # 1 / (1/g + 1/tau) with tau = 1 / precision + sampling, finite at precision 0.
        own = 1.0 + self._sampling * precision
        bottom = own + self._signal * precision
        risk = float(self._weights @ (self._signal * own / bottom))
        slope = -self._weights * np.square(self._signal / bottom)
        inner = self._power * shares ** (self._power - 1)
        return risk, inner * (self._precisions.T @ slope)


@one_blas_thread()
def bayes_risk_strategy(
    domain_shape: Sequence[int],
    *,
    epsilon: Any = None,
    rho: Any = None,
    n_records: float,
    n_columns: int = 2,
    prior: SignalPrior | None = None,
    pool: str | Sequence[Sequence[Sequence[int]]] = "all",
    floor: float | None = None,
) -> StrategyResult:
    """Choose marginals and their budgets for the least expected error after shrinkage.

    Unlike `optimize`, which serves a workload without bias, this measures only what
    will stand out of the noise at the given epsilon and number of records: class
    totals, then one-way tables, then blocks, then all cells. Deterministic; everything
    it uses is public.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute.
    epsilon : float, str or Fraction, optional
        Privacy parameter of a measurement with Laplace noise, nats.
    rho : float, str or Fraction, optional
        In its place, the zCDP parameter of a measurement with Gaussian noise.
    n_records : float
        Number of records: public by the user's statement, or a noisy count. Never the
        length of a private table.
    n_columns : int, default=2
        Number of classes; 1 for signed differences of two.
    prior : SignalPrior, default=None
        Public guess of the signal; ``None`` for its defaults.
    pool : {"all", "disjoint"} or sequence of candidates, default="all"
        Candidates are lists of blocks. "disjoint" are partitions of neighbouring
        attributes into blocks of up to 4; "all" adds the class totals, all pairs, the
        whole domain, where these are small, and mixtures.
    floor : float, default=None
        Part of its equal share that every block of a candidate keeps, from 0 to below
        1, for a prior that is only a guess; ``None`` for 0.5 with "disjoint", else 0.

    Returns
    -------
    StrategyResult
        Its `strategy` is a `Marginals` whose weights are the budget shares, of rho
        their roots; its `loss` is the expected squared error of the contrasts relative
        to no measurement.

    Raises
    ------
    ValueError
        If an argument is out of its range, or not one of epsilon and rho is given.

    References
    ----------
    .. [1] Chaloner, Verdinelli, "Bayesian experimental design: a review", Statistical
       Science 1995, Section 2 (Bayes A-optimality).

    Examples
    --------
    >>> from mmech.strategies import bayes_risk_strategy
    >>> for epsilon in (0.01, 2.0):
    ...     found = bayes_risk_strategy(
    ...         (4, 4, 3, 3), epsilon=epsilon, n_records=1000, pool="disjoint"
    ...     )
    ...     print(sorted(found.strategy.weights))
    [(0,), (1,), (2,), (3,)]
    [(0, 1, 2, 3)]
    """
    sizes = check_domain_shape(domain_shape)
    if (epsilon is None) == (rho is None):
        raise ValueError(
            "one of epsilon (Laplace noise) and rho (Gaussian noise) must be given"
        )
    gaussian = rho is not None
    budget = float(check_epsilon(rho, "rho") if gaussian else check_epsilon(epsilon))
    check_positive(n_records, "n_records")
    check_integer(n_columns, "n_columns")
    if floor is None:
        floor = FLOOR if pool == "disjoint" else 0.0
    if check_nonnegative(floor, "floor") >= 1:
        raise ValueError(f"floor must be a number from 0 to below 1, got {floor!r}")
    named = _candidates(sizes, pool)
    keys = list(dict.fromkeys(block for _, blocks in named for block in blocks))
    risk = BayesRisk(
        sizes,
        keys,
        epsilon=None if gaussian else budget,
        rho=budget if gaussian else None,
        n_records=n_records,
        n_columns=n_columns,
        prior=check_prior(prior),
    )
    place = {block: i for i, block in enumerate(keys)}
    tried: list[tuple[float, str, Floats, int, float]] = []
    for name, blocks in named:
        started = time.perf_counter()
        inside = np.array([place[block] for block in blocks])
        shares, steps = _polish(risk, inside, len(keys), floor)
        seconds = time.perf_counter() - started
        tried.append((risk(shares)[0], name, shares, steps, seconds))
    best = min(tried, key=lambda entry: entry[0])
    weights = {
        key: math.sqrt(share) if gaussian else float(share)
        for key, share in zip(keys, best[2], strict=True)
        if share > 0
    }
    return StrategyResult(
        strategy=Marginals(sizes, weights),
        template="bayes_risk",
        loss=best[0],
        n_iter=sum(entry[3] for entry in tried),
        success=True,
        message=f"{best[1]}: least relative Bayes risk of {len(tried)} candidates",
        history=(),
        candidates=tuple(
            Candidate(name, value, seconds)
            for value, name, _, _, seconds in sorted(tried, key=lambda entry: entry[0])
        ),
        norm="L2" if gaussian else "L1",
    )


def _candidates(
    sizes: tuple[int, ...], pool: str | Sequence[Sequence[Sequence[int]]]
) -> list[tuple[str, list[Subset]]]:
    d = len(sizes)
    if not isinstance(pool, str):
        if not isinstance(pool, Iterable):
            raise TypeError(
                "pool must be a name or a list of designs, each a list of blocks, got "
                f"{pool!r}"
            )
        designs = [
            (f"pool {i}", list(dict.fromkeys(check_attributes(b, d) for b in blocks)))
            for i, blocks in enumerate(pool)
        ]
        if not designs:
            raise ValueError("pool must hold at least one design, got none")
        return designs
    check_choice(pool, "pool", ("all", "disjoint"))
    partitions = block_partitions(sizes)
    named = [
        (f"blocks of at most {max(map(len, blocks))}", blocks) for blocks in partitions
    ]
    if pool == "disjoint":
        return named
    named.insert(0, ("totals", [()]))
    pairs: list[Subset] = list(combinations(range(d), 2))
    if 0 < len(pairs) <= MAX_BLOCKS:
        named.append(("all pairs", pairs))
    if product_of(sizes) <= MAX_BLOCK_CELLS:
        named.append(("identity", [tuple(range(d))]))
    mixed = list(dict.fromkeys(b for _, blocks in named for b in blocks))
    named.append(("mixture", mixed))
    return named


def _polish(
    risk: BayesRisk, inside: NDArray[np.int64], size: int, floor: float
) -> tuple[Floats, int]:
    """Return shares on some blocks, better than or equal to equal ones."""
    from scipy.optimize import minimize

    shares = np.zeros(size)
    shares[inside] = 1.0 / inside.size
    if inside.size == 1:
        return shares, 0
    equal = risk(shares)[0]

    def softmax(logits: Floats) -> Floats:
        raised = np.exp(logits - logits.max())
        return floor / inside.size + (1 - floor) * raised / raised.sum()

    def objective(logits: Floats) -> tuple[float, Floats]:
        part = softmax(logits)
        full = np.zeros(size)
        full[inside] = part
        value, gradient = risk(full)
        own = gradient[inside]
        free = part - floor / inside.size
        slope = free * (own - free @ own / (1 - floor))
        return math.log(value), slope / value

    found = minimize(
        objective,
        np.zeros(inside.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 100},
    )
    part = softmax(found.x)
    part[part < 1e-4] = 0.0
    better = np.zeros(size)
    better[inside] = part / part.sum()
    if risk(better)[0] < equal:
        return better, int(found.nit)
    return shares, int(found.nit)
