"""Non-negative reconstruction against SciPy, and through the mechanism."""

import numpy as np
import pytest
import reference as ref
from scipy.optimize import lsq_linear

import mmech as mm
from mmech.reconstruction import METHODS, least_squares, nonnegative

THETA = np.abs(np.sin(np.arange(1.0, 25))).reshape(2, 12) * 3


def reference_nonnegative(dense, values):
    """Bounded active sets, with the total as a heavily weighted extra row."""
    n = dense.shape[1]
    estimate = ref.pinv(dense) @ values
    ones = np.ones(n)
    if np.allclose(ones @ ref.pinv(dense) @ dense, ones):
        heavy = 1e5 * np.abs(dense).max()
        dense = np.vstack([dense, heavy * ones])
        values = np.append(values, heavy * max(estimate.sum(), 0))
    # SciPy's nnls before 1.15 fails where the rank is deficient
    found = lsq_linear(dense, values, bounds=(0, np.inf), method="bvls", tol=1e-14)
    return np.maximum(found.x, 0.0)


STRATEGIES = [
    mm.Identity(12),
    -2 * mm.Identity(12),
    mm.Diagonal(np.linspace(0.1, 2, 12)),
    mm.Prefix(12),
    mm.AllRange(12),
    mm.PIdentity(THETA),
    mm.VStack([mm.Total(12), 3 * mm.Identity(12)]),
    mm.Marginals((3, 4), {(0,): 0.3, (0, 1): 0.5, (): 0.2}),
    mm.Kronecker([mm.Prefix(3), mm.PIdentity(THETA[:, :4])]),
    mm.Dense(np.cos(np.arange(240.0) ** 2).reshape(20, 12)),
]
DEFICIENT = [
    mm.Total(12),
    mm.Partition([0, 0, 1, 1, 1, 2, 2, 2, 2, 0, 1, 2]),
    mm.Marginals((3, 4), {(0,): 0.5, (1,): 0.5}),
    mm.Diagonal([0, 1, 2, 0, 3, 1, 1, 1, 1, 1, 1, 1]),
    mm.Dense(np.cos(np.arange(36.0) ** 2).reshape(3, 12)),
]


@pytest.mark.parametrize("strategy", STRATEGIES + DEFICIENT, ids=str)
def test_against_active_sets(strategy, rng):
    counts = rng.poisson(0.7, (12, 3))
    values = strategy @ counts + rng.laplace(0, 2, (strategy.shape[0], 3))
    estimate = nonnegative(strategy, values)
    assert estimate.shape == (12, 3)
    assert (estimate >= 0).all()
    dense = strategy.to_dense().astype(float)
    for column in range(3):
        wanted = reference_nonnegative(dense, values[:, column])
        misfits = [
            np.square(dense @ x - values[:, column]).sum()
            for x in (estimate[:, column], wanted)
        ]
        assert misfits[0] == pytest.approx(misfits[1], rel=1e-7, abs=1e-9)
        if strategy not in DEFICIENT:
            np.testing.assert_allclose(estimate[:, column], wanted, atol=1e-4)


def test_the_total_is_kept(rng):
    for strategy in STRATEGIES:
        values = strategy @ rng.poisson(1, 12) + rng.laplace(0, 3, strategy.shape[0])
        total = least_squares(strategy, values).sum()
        kept = nonnegative(strategy, values).sum()
        assert kept == pytest.approx(max(total, 0), abs=1e-9)


def test_merged_cells_share_evenly():
    strategy = mm.Merged(mm.Identity(2), [0, 1, 1, -1])
    estimate = nonnegative(strategy, np.array([-1.0, 6.0]))
    np.testing.assert_allclose(estimate, [0, 2.5, 2.5, 0])


@pytest.mark.by_day(1)
@pytest.mark.parametrize("workload", [mm.Identity(200), mm.Prefix(200)], ids=str)
def test_closer_than_least_squares_on_sparse_counts(workload, rng):
    """On average over 200 draws, by more than ten standard errors: 1e-6 and less."""
    counts = np.zeros((200, 1), int)
    counts[8::17, 0] = np.arange(5, 100, 8)
    strategy = mm.optimize(workload, seed=0).strategy
    noise = rng.laplace(0, strategy.sensitivity(), (strategy.shape[0], 200))
    found = {m: METHODS[m](strategy, strategy @ counts + noise) for m in METHODS}
    found["clipped"] = np.maximum(found["least_squares"], 0)
    errors = {
        name: np.square(workload @ (estimate - counts)).sum(axis=0)
        for name, estimate in found.items()
    }
    for name, most in (("least_squares", 1), ("clipped", 0.7)):
        gained = most * errors[name] - errors["nonnegative"]
        assert gained.mean() > 0


def test_through_the_mechanism():
    with pytest.warns(UserWarning, match="insecure"):
        mechanism = mm.MatrixMechanism(
            mm.Prefix(6), mm.Identity(6), epsilon=0.5, insecure_rng=1
        )
    measurement = mechanism.measure(np.array([[5, 0], [0, 1], [0, 0]] * 2))
    plain = mechanism.reconstruct(measurement)
    np.testing.assert_array_equal(plain, measurement.values)
    estimate = mechanism.reconstruct(measurement, method="nonnegative")
    assert estimate.shape == (6, 2)
    assert (estimate >= 0).all()
    np.testing.assert_allclose(estimate.sum(axis=0), np.maximum(plain.sum(axis=0), 0))
    with pytest.raises(ValueError, match="method must be one of 'least_squares', 'non"):
        mechanism.reconstruct(measurement, method="clip")


def test_signed_counts_are_refused():
    mechanism = mm.MatrixMechanism(
        mm.Identity(2), mm.Identity(2), epsilon=1, signed=True
    )
    measurement = mechanism.measure([3, -2])
    with pytest.raises(ValueError, match="is for counts of records"):
        mechanism.reconstruct(measurement, method="nonnegative")


def test_the_iteration_limit_warns():
    values = np.arange(30) + 5 * np.cos(np.arange(30.0))
    with pytest.warns(mm.ConvergenceWarning, match="stopped after 2 iterations"):
        nonnegative(mm.Prefix(30), values, max_iter=2)


@pytest.mark.parametrize("measured", [mm.Marginals, mm.Residuals], ids=str)
def test_tables_that_no_marginal_measured_are_given_to_every_answer(measured):
    strategy = measured((2, 3), {(): 1, (0,): 1, (1,): 2})
    estimate = mm.MarginalEstimate(strategy, np.arange(6.0))
    given = estimate.given({(0, 1): [[3, 1, 2], [5, 0, 4]]})
    cells = given.marginal((0, 1))
    np.testing.assert_allclose(given.to_dense(), cells)
    np.testing.assert_allclose(given.cells(list(np.ndindex(2, 3))), cells)
    np.testing.assert_allclose(given.answer(mm.Identity(6)), cells)
    sums = estimate.marginal((0,))
    np.testing.assert_allclose(cells.reshape(2, 3).sum(axis=1), sums)
    assert not np.allclose(cells, estimate.to_dense())
