"""Strategies for forests on Car against an independent search.

`optimize` on the leaves of 128 random trees is compared with sixty descents of another
kind. They are a bounded quasi-Newton method on the weights of all marginals, from dense
and from sparse random starts. Car has 2^6 marginals of 4 x 4 x 4 x 3 x 3 x 3 cells; the
energies of the leaves are counted from their tested attributes. The descents share no
code with the search of the package.
"""

import math

import numpy as np
import pytest
import scipy.optimize

from mmech import Identity, optimize
from mmech.strategies.marginals import marginals_strategy
from mmech_rf import grow_random_forest, training_workload

CAR = (4, 4, 4, 3, 3, 3)
N_CELLS = math.prod(CAR)
N_FORESTS = 4
N_STARTS = 60
FLOOR = 1e-9
"""Least weight of a marginal during a descent, which keeps the loss finite."""

SUBSETS = np.arange(2 ** len(CAR))
SIZES = np.array(
    [math.prod(n for i, n in enumerate(CAR) if s >> i & 1) for s in SUBSETS]
)
RANKS = np.array(
    [math.prod(n - 1 for i, n in enumerate(CAR) if s >> i & 1) for s in SUBSETS]
)
CONTAINED = ((SUBSETS[:, None] & ~SUBSETS[None, :]) == 0).astype(float)
"""Entry (s, a): whether subset s lies inside subset a."""


def forest_energies(forest):
    """v_s = tr(P_s TᵀT): the leaves that test at least s, by their volume."""
    tested = sum(
        (~mask.all(axis=1)).astype(int) << i
        for i, mask in enumerate(forest.leaf_masks())
    )
    leaves = np.bincount(tested, minlength=SUBSETS.size)
    return RANKS * (CONTAINED @ (leaves * N_CELLS / SIZES.astype(float) ** 2))


def log_loss(theta, energies):
    """Logarithm of (Σθ)² Σ_s v_s / κ_s, and its gradient."""
    cells = N_CELLS / SIZES
    eigenvalues = CONTAINED @ (theta**2 * cells)
    asked = energies > 0
    ratios = np.zeros(SUBSETS.size)
    pull = np.zeros(SUBSETS.size)
    ratios[asked] = energies[asked] / eigenvalues[asked]
    pull[asked] = ratios[asked] / eigenvalues[asked]
    gain = ratios.sum()
    slope = 2 / theta.sum() - 2 * theta * cells * (CONTAINED.T @ pull) / gain
    return 2 * np.log(theta.sum()) + np.log(gain), slope


def best_of_local_solves(energies, rng):
    """The least loss of sixty local solves and of the identity."""
    best = float(energies.sum())
    for start in range(N_STARTS):
        if start % 2 == 0:
            theta = rng.random(SUBSETS.size)
        else:
            theta = rng.dirichlet(np.full(SUBSETS.size, rng.uniform(0.03, 0.3)))
        found = scipy.optimize.minimize(
            log_loss,
            np.maximum(theta / theta.sum(), 1e-6),
            args=(energies,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(FLOOR, None)] * SUBSETS.size,
            options={"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-9},
        )
        # What lies at the bound is not measured at all, where that is possible.
        kept = np.where(found.x > 2 * FLOOR, found.x, 0.0)
        covered = (CONTAINED @ kept)[energies > 0].min() > 0
        final = log_loss(kept, energies)[0] if covered else found.fun
        best = min(best, math.exp(min(final, found.fun)))
    return best


def test_the_independent_objective(rng):
    """Against finite differences, and the energies against those of the package."""
    forest = grow_random_forest(CAR, 5, 2, seed=0)
    energies = forest_energies(forest)
    theta = rng.random(SUBSETS.size)
    numeric = scipy.optimize.approx_fprime(
        theta, lambda point: log_loss(point, energies)[0], 1e-7
    )
    np.testing.assert_allclose(log_loss(theta, energies)[1], numeric, atol=1e-5)
    workload = training_workload(forest)
    assert energies.sum() == pytest.approx(np.square(workload.to_dense()).sum())
    found = marginals_strategy(workload, max_evaluations=500, seed=0)
    weights = np.zeros(SUBSETS.size)
    for attributes, weight in found.strategy.weights.items():
        weights[sum(1 << i for i in attributes)] = weight
    own = math.exp(log_loss(weights, energies)[0])
    assert own == pytest.approx(found.loss)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "forest_seed"),
    [
        *((2, i) for i in range(N_FORESTS)),
        *((d, i) for d in (3, 4, 5) for i in range(2)),
    ],
)
def test_a_strategy_is_never_above_sixty_local_solves(depth, forest_seed, seed):
    """No search has found anything better than the cells from depth d / 2 on.

    At depth two a fit does not wait for the last percents: a longer search is asked for
    them. One seed of a forest was 2.5 % above.
    """
    forest = grow_random_forest(CAR, 128, depth, seed=forest_seed)
    found = optimize(training_workload(forest), seed=seed)
    if depth > 2:
        assert isinstance(found.strategy, Identity)
        assert found.loss == 128 * N_CELLS
    rng = np.random.default_rng([seed, forest_seed])
    other = best_of_local_solves(forest_energies(forest), rng)
    assert found.loss <= other * (1.05 if depth == 2 else 1 + 1e-9)
    if depth == 2 and forest_seed < 2:
        found = optimize(
            training_workload(forest), template="marginals", max_evaluations=100_000
        )
        assert found.loss <= other * (1 + 1e-9)
