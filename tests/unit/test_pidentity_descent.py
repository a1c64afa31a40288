"""Fast paths of p-Identity descent against slow ones: blocks, orders, L-BFGS."""

import numpy as np
import pytest
import reference as ref
import scipy.optimize

import mmech as mm
from mmech.strategies.descent import HOPELESS, minimize_in_box
from mmech.strategies.ordered import block_gram, find_order, refined
from mmech.strategies.pidentity import PIdentityObjective, pidentity_strategy

N = 37
ORDERED = [
    mm.AllRange(N),
    mm.Prefix(N),
    mm.Suffix(N),
    3 * mm.AllRange(N),
    mm.WidthRange(N, 5),
    mm.Ranges((N,), [[0], [3], [10]], [[5], [36], [20]]),
    mm.VStack([mm.Prefix(N), mm.Identity(N), mm.WidthRange(N, 2)]),
]
STARTS = np.array([0, 1, 3, 4, 9, 20, 22, 36])


# ------------------------------------------------------------------ blocks


@pytest.mark.parametrize("workload", ORDERED, ids=str)
def test_block_sums_equal_the_dense_ones(workload, rng):
    dense = workload.to_dense().astype(float)
    gram = dense.T @ dense
    ordered = find_order(workload.gram())
    assert ordered is not None
    assert ordered.position is None
    x = rng.standard_normal((N, 3))
    np.testing.assert_allclose(ordered.gram.matmat(x), gram @ x, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(ordered.gram.diag(), gram.diagonal())
    wanted = np.add.reduceat(np.add.reduceat(gram, STARTS, axis=0), STARTS, axis=1)
    blocks = block_gram(ordered.gram, STARTS)
    np.testing.assert_allclose(blocks.matmat(np.eye(len(STARTS))), wanted, atol=1e-9)
    np.testing.assert_allclose(blocks.diag(), wanted.diagonal())


def test_sums_over_many_blocks_are_no_explicit_matrix():
    gram = mm.WidthRange(700, 5).gram()
    starts = np.delete(np.arange(700), [3, 60, 61])
    blocks = block_gram(gram, starts)
    assert not isinstance(blocks, mm.Dense)
    wanted = np.add.reduceat(gram.to_dense(), starts, axis=0)
    wanted = np.add.reduceat(wanted, starts, axis=1)
    np.testing.assert_allclose(blocks.to_dense(), wanted)


@pytest.mark.parametrize("workload", ORDERED, ids=str)
def test_the_loss_on_blocks_is_that_of_the_repeated_weights(workload, rng):
    gram = workload.gram()
    counts = np.diff(np.append(STARTS, N))
    diagonal = np.add.reduceat(gram.diag().astype(float), STARTS)
    columns = rng.random((len(STARTS), 3))
    objective = PIdentityObjective(block_gram(gram, STARTS), diagonal, counts=counts)
    value, gradient = objective(columns)
    repeated = np.repeat(columns, counts, axis=0)
    assert value == pytest.approx(mm.loss(workload, mm.PIdentity(repeated.T)), rel=1e-9)
    wanted = ref.finite_differences(lambda point: objective(point)[0], columns)
    np.testing.assert_allclose(gradient, wanted, atol=1e-6 * max(1, value))


@pytest.mark.parametrize("n", [256, 257, 1000])
def test_levels_refine_without_a_change_of_the_loss(n, rng):
    levels = find_order(mm.Prefix(n).gram()).levels(4)
    assert len(levels) >= 2
    assert levels[-1].diagonal.size == n
    columns = rng.random((levels[0].counts.size, 4))
    values = []
    for i, level in enumerate(levels):
        if i:
            columns = refined(columns, levels[i - 1], level)
        assert level.counts.sum() == n
        objective = PIdentityObjective(level.gram, level.diagonal, counts=level.counts)
        values.append(objective(columns)[0])
    np.testing.assert_allclose(values, values[0], rtol=1e-10)


# ------------------------------------------------------------------ orders


@pytest.mark.parametrize(
    "workload",
    [
        mm.Identity(40),
        mm.Total(40),
        mm.Dense(np.eye(40)),
        mm.Dense(np.zeros((2, 40))),
        mm.Dense(np.random.default_rng(0).standard_normal((60, 40))),
    ],
)
def test_no_order_is_made_up(workload):
    assert find_order(workload.gram()) is None


def test_a_permutation_costs_nothing(seed):
    shuffle = np.random.default_rng(5).permutation(128)
    straight = mm.optimize(mm.AllRange(128), template="pidentity", seed=seed)
    permuted = mm.optimize(
        mm.Merged(mm.AllRange(128), shuffle), template="pidentity", seed=seed
    )
    assert permuted.loss == pytest.approx(straight.loss, rel=1e-9)


# ------------------------------------------------------------------ descent


def test_descent_in_a_box_equals_scipy(rng):
    root = rng.standard_normal((30, 20))
    hessian, slope = root.T @ root + np.eye(20), 10 * rng.standard_normal(20)

    def objective(x):
        return float(x @ hessian @ x / 2 - slope @ x), hessian @ x - slope

    start = rng.random(20)
    ours = minimize_in_box(objective, start, upper=0.3, max_iter=500, tolerance=1e-12)
    theirs = scipy.optimize.minimize(
        objective, start, jac=True, bounds=[(0, 0.3)] * 20, options={"ftol": 1e-14}
    )
    assert ours.success
    assert ours.value == pytest.approx(theirs.fun, rel=1e-7)
    np.testing.assert_allclose(ours.point, theirs.x, atol=1e-4)
    assert (np.diff(ours.history) <= 0).all()
    limited = minimize_in_box(objective, start, upper=0.3, max_iter=2, tolerance=0)
    assert not limited.success
    assert len(limited.history) == 2


def test_variables_at_a_bound_do_not_slow_the_others_down():
    # Weights for an ill-conditioned moment matrix; most of them end at zero.
    cells = np.linspace(0, 1, 60)
    hessian = np.exp(-40 * np.subtract.outer(cells, cells) ** 2) + 1e-3 * np.eye(60)
    slope = np.sin(15 * cells) + 0.2

    def objective(x):
        return float(x @ hessian @ x / 2 - slope @ x), hessian @ x - slope

    run = minimize_in_box(
        objective, np.ones(60), upper=1e3, max_iter=1000, tolerance=1e-9
    )
    root = np.linalg.cholesky(hessian)
    exact, _ = scipy.optimize.nnls(root.T, np.linalg.solve(root, slope))
    assert run.value == pytest.approx(objective(exact)[0], rel=1e-8)
    assert len(run.history) < 90


def test_a_descent_that_is_far_behind_is_given_up():
    """Its value after 50 iterations decides: 4e-9 in the valley of Rosenbrock."""

    def objective(x):
        return scipy.optimize.rosen(x), scipy.optimize.rosen_der(x)

    start = np.full(40, 3.0)
    runs = [
        minimize_in_box(
            objective, start, upper=4, max_iter=1000, tolerance=0, worst=worst
        )
        for worst in (np.inf, 1e-12, 1e-6)
    ]
    whole, given_up, going_on = runs
    assert len(given_up.history) == HOPELESS - 1 < len(whole.history)
    assert not given_up.success
    assert "far ahead" in given_up.message
    assert given_up.history == whole.history[: HOPELESS - 1]
    assert whole.history == going_on.history


# ------------------------------------------------------------------ what is reached


@pytest.mark.slow
def test_low_minima_of_windows_are_found():
    """Descents that keep to a face of the box from the start end at 20,536."""
    result = mm.optimize(mm.WidthRange(1024, 32), template="pidentity", seed=0)
    assert result.loss < 20_410


def test_most_iterations_are_on_few_blocks(monkeypatch):
    sizes = []
    evaluate = PIdentityObjective.__call__

    def counted(self, columns):
        sizes.append(len(columns))
        return evaluate(self, columns)

    # A result says how many iterations it took, not how large each was.
    monkeypatch.setattr(PIdentityObjective, "__call__", counted)
    result = mm.optimize(mm.AllRange(1500), seed=0, p=16)
    assert result.template == "pidentity"
    assert max(sizes) == 1500
    assert sum(size > 512 for size in sizes) < 0.2 * len(sizes)


def test_a_stop_on_the_coarse_level_is_a_full_strategy():
    result = pidentity_strategy(
        mm.AllRange(600), p=8, n_starts=3, seed=0, callback=lambda _: True
    )
    assert result.strategy.shape[1] == 600
    assert result.loss == pytest.approx(mm.loss(mm.AllRange(600), result.strategy))


def test_too_many_cells_without_an_order():
    n = 2**15 + 3
    parts = np.random.default_rng(0).integers(0, 3, (2, n))
    workload = mm.VStack([mm.Partition(labels) for labels in parts])
    with pytest.raises(
        mm.DomainTooLargeError, match=r"at most 32,768 .*, got 32,771; use"
    ):
        pidentity_strategy(workload)


def test_auto_finds_the_total_beside_the_cells_of_a_random_matrix(rng, seed):
    """Random starts collapse to the cells on most of these."""
    workload = mm.Dense((rng.random((100, 150)) < 0.35).astype(int))
    result = mm.optimize(workload, seed=seed)
    assert result.template == "pidentity"
    assert result.loss < 0.98 * mm.loss(workload, mm.Identity(150))
