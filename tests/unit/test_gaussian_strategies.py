"""Strategies under L2 sensitivity, their templates and their errors."""

import math

import numpy as np
import pytest
import reference as ref
from catalogue import CATALOGUE, of_all

import mmech as mm
from mmech.verify import examine

MARGINALS = {
    "pairs of binary": mm.all_marginals((2,) * 6, 2),
    "at most pairs": mm.all_marginals((3, 4, 2), 2, lower_orders=True),
    "weighted": mm.Marginals((3, 2, 4), {(0,): 3, (0, 2): 0.5, (): 2}),
    "size one": mm.all_marginals((4, 1, 3), 1),
    "stacked": mm.VStack(
        [2 * mm.all_marginals((3, 4), 1), mm.Kronecker([mm.Ones(2, 3), mm.Identity(4)])]
    ),
}
every_marginals = pytest.mark.parametrize("name", MARGINALS)


# ------------------------------------------------------------- L2 sensitivity


def test_l2_sensitivity_at_any_domain_size():
    sizes = (100,) * 20
    assert mm.Kronecker([mm.Prefix(100)] * 20).l2_sensitivity() == pytest.approx(1e20)
    assert mm.Marginal(sizes, [0]).l2_sensitivity() == 1
    assert mm.Marginals(sizes, {(0,): 3, (1, 2): -4}).l2_sensitivity() == 5
    residuals = mm.Residuals(sizes, {(): 1, (0, 5): 2})
    assert residuals.l2_sensitivity() == pytest.approx(math.sqrt(1 + 4 * 0.99**2))


# ------------------------------------------------------------------ residuals


@pytest.mark.parametrize("name", MARGINALS)
def test_errors_on_residuals_equal_dense_algebra(name):
    workload = MARGINALS[name]
    strategy = mm.optimize(workload, template="residuals", privacy="zcdp").strategy
    W, A = workload.to_dense(), strategy.to_dense()
    np.testing.assert_allclose(
        mm.per_query_error(workload, strategy, rho=0.5), ref.per_query_loss(W, A, "L2")
    )
    assert mm.loss(workload, strategy) == pytest.approx(ref.loss(W, A))


def test_residuals_are_measured_at_any_size():
    """Other attributes change neither noise nor errors, and strangers can tell."""
    asked = {(0, 1): 1, (1, 2): 1}
    small = mm.MatrixMechanism(mm.Marginals((3, 2, 4), asked), rho=1e9)
    sizes = (3, 2, 4, *[5] * 60)
    workload = mm.Marginals(sizes, asked)
    large = mm.MatrixMechanism(workload, rho=1e9)
    assert isinstance(large.strategy, mm.Residuals)
    assert large.released.sensitivity == small.released.sensitivity
    np.testing.assert_allclose(large.per_query_error(), small.per_query_error())
    assert large.strategy.shape == (1 + 3 + 2 + 4 + 6 + 8, 24 * 5**60)
    with pytest.raises(mm.UnsupportedWorkloadError, match="cannot answer the workload"):
        mm.loss(mm.Marginals(sizes, {(4,): 1}), large.strategy, privacy="zcdp")
    codes = np.random.default_rng(0).integers(0, sizes, (50, len(sizes)))
    with mm.record_evidence() as record:
        answers = large.answer(mm.Counts(codes, sizes))
    cells = np.bincount(codes[:, :3] @ [8, 4, 1], minlength=24)
    np.testing.assert_allclose(answers, small.workload @ cells, atol=0.01)
    assert examine(record.evidence().text.encode())[0] == 0


# ----------------------------------------------------------------- strategies


@pytest.mark.parametrize(
    ("workload", "published"),
    [
        (mm.Prefix(256), 2.52441),
        (mm.AllRange(256), 2.90144),
        (mm.Prefix(64), 2.09986),
        (mm.AllRange(64), 2.30221),
    ],
    ids=str,
)
def test_optimal_range_queries(workload, published):
    """RMSE at unit sensitivity (rho = 1/2), known to five decimals."""
    result = mm.optimize(workload, privacy="zcdp")
    assert mm.rmse(workload, result.strategy, rho=0.5) == pytest.approx(
        published, abs=1e-4
    )
    # Twice the loss at rho = 1/2 is in the units of dual_bound at epsilon = 1.
    lower = mm.dual_bound(workload, epsilon=1, tolerance=1e-6).bound / 2
    assert lower * (1 - 1e-9) <= result.loss <= lower * (1 + 1e-4)
    assert result.success
    assert result.norm == "L2"
    assert result.template == "dense"
    assert "to the least loss" in result.message


@every_marginals
def test_closed_form_equals_the_dual(name):
    workload = MARGINALS[name]
    closed = mm.optimize(workload, template="residuals", privacy="zcdp")
    assert closed.loss == pytest.approx(
        mm.loss(workload, closed.strategy, privacy="zcdp")
    )
    assert closed.strategy.l2_sensitivity() == pytest.approx(1)
    assert "optimal among all strategies" in closed.message
    # κ_s ∝ √(v_s / m_s), Σ √(m_s v_s) squared over n
    singular = np.linalg.svd(workload.to_dense(), compute_uv=False)
    bound = singular.sum() ** 2 / workload.shape[1]
    assert closed.loss == pytest.approx(bound)


@every_marginals
def test_weighted_marginals_are_optimal_among_themselves(name):
    workload = MARGINALS[name]
    result = mm.optimize(workload, template="marginals", tolerance=1e-6, privacy="zcdp")
    assert result.success
    assert result.loss == pytest.approx(
        mm.loss(workload, result.strategy, privacy="zcdp")
    )
    assert result.strategy.l2_sensitivity() == pytest.approx(1)
    history = np.array(result.history)
    assert (np.diff(history) <= 1e-12 * history[:-1]).all()
    best = mm.optimize(workload, privacy="zcdp").loss
    assert result.loss >= best * (1 - 1e-9)
    rng = np.random.default_rng(0)
    for _ in range(20):  # nearby weights are no better, up to the gap
        weights = {
            key: weight * math.exp(0.1 * rng.standard_normal())
            for key, weight in result.strategy.weights.items()
        }
        other = mm.Marginals(result.strategy.domain_shape, weights)
        assert mm.loss(workload, other, privacy="zcdp") >= result.loss * (1 - 2e-6)


def test_residuals_project_other_workloads():
    workload = mm.Kronecker([mm.Prefix(6), mm.AllRange(4)])
    closed = mm.optimize(workload, template="residuals", privacy="zcdp")
    assert closed.loss == pytest.approx(
        mm.loss(workload, closed.strategy, privacy="zcdp")
    )
    assert "optimal among stacks of residuals" in closed.message
    marginals = mm.optimize(workload, template="marginals", privacy="zcdp")
    assert mm.optimize(workload, privacy="zcdp").loss < closed.loss <= marginals.loss


def test_products_take_products_of_optima():
    workload = -2 * mm.Kronecker([mm.Prefix(6), mm.AllRange(4), mm.Total(3)])
    result = mm.optimize(workload, privacy="zcdp")
    assert result.template == "kronecker"
    assert result.loss == pytest.approx(
        mm.loss(workload, result.strategy, privacy="zcdp")
    )
    explicit = mm.optimize(workload, template="dense", privacy="zcdp")
    assert result.loss == pytest.approx(explicit.loss, rel=1e-4)
    large = mm.Kronecker([mm.Prefix(64)] * 8)
    assert mm.optimize(large, privacy="zcdp").loss == pytest.approx(
        mm.optimize(mm.Prefix(64), privacy="zcdp").loss ** 8, rel=1e-3
    )


def test_all_marginals_of_thirty_attributes():
    d = 30
    sizes = (10,) * d
    workload = mm.all_marginals(sizes, 3, lower_orders=True)
    result = mm.optimize(workload, privacy="zcdp")
    assert len(result.strategy.weights) == 1 + 30 + 435 + 4060
    # By symmetry: τ_s = Σ_j C(d - s, j) / 10^j over the larger marginals.
    root = 0.0
    for s in range(4):
        asked = sum(math.comb(d - s, j) / 10**j for j in range(4 - s))
        root += math.comb(d, s) * 9**s * math.sqrt(asked / 10**s)
    assert result.loss == pytest.approx(root**2)
    assert mm.supports(workload, result.strategy)


@pytest.mark.slow
@of_all(CATALOGUE)
def test_auto_supports_every_workload_and_tells_its_loss(name):
    workload, dense = CATALOGUE[name]
    result = mm.optimize(workload, privacy="zcdp")
    W = np.asarray(dense, float)
    expected = ref.loss(W, result.strategy.to_dense(), "L2")
    assert result.loss == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert mm.supports(workload, result.strategy)
    # optimal: no smaller than the bound, no larger than the bound and the gap
    singular = np.linalg.svd(W, compute_uv=False)
    assert result.loss >= singular.sum() ** 2 / W.shape[1] * (1 - 1e-9)
    lower = mm.dual_bound(mm.Dense(W), epsilon=1, tolerance=1e-6).bound / 2
    assert result.loss <= lower * (1 + 1e-3) + 1e-12
    assert result.workload is workload


def test_columns_of_very_different_length():
    """Short columns are lost in the spectrum of the gram, not in the strategy."""
    rng = np.random.default_rng(5)
    entries = rng.standard_normal((200, 60))
    result = mm.optimize(mm.Dense(entries * np.logspace(0, -5, 60)), privacy="zcdp")
    assert result.template == "dense"
    assert result.success
    # Beyond the digits of a double the answer is valid and admits what it is.
    hopeless = mm.Dense(entries * np.logspace(0, -9, 60))
    result = mm.optimize(hopeless, template="dense", privacy="zcdp")
    assert result.template == "identity"
    assert not result.success
    assert "the columns are of very different size" in result.message


def test_few_queries_stay_implicit():
    rng = np.random.default_rng(0)
    forest = mm.PartitionStack(rng.integers(0, 4, (5, 3000)), [4] * 5)
    result = mm.optimize(forest, privacy="zcdp")
    assert "Product(Dense" in repr(result.strategy)
    assert result.loss < mm.loss(forest, forest, privacy="zcdp")
    assert result.loss == pytest.approx(
        mm.loss(forest, result.strategy, privacy="zcdp")
    )


def test_cells_are_merged_first():
    workload = mm.Partition([0, 0, 1, 2, 2, 2])
    result = mm.optimize(workload, privacy="zcdp")
    assert result.loss == pytest.approx(3)
    mechanism = mm.MatrixMechanism(workload, result, rho=1)
    assert mechanism.answer([1, 2, 3, 4, 5, 6]).shape == (3,)


def test_workloads_that_ask_nothing():
    for workload in (mm.Scaled(0, mm.Prefix(3)), mm.Dense(np.zeros((2, 3)))):
        assert mm.optimize(workload, privacy="zcdp").loss == 0
        assert mm.optimize(workload, template="dense", privacy="zcdp").loss == 0
    nothing = mm.Scaled(0, mm.all_marginals((2, 3), 1))
    for template in ("residuals", "marginals"):
        assert mm.optimize(nothing, template=template, privacy="zcdp").loss == 0


def test_optimize_dispatches_and_candidates_are_listed():
    result = mm.optimize(mm.Prefix(16), privacy="zcdp")
    assert result.loss == mm.optimize(mm.Prefix(16), privacy="zcdp").loss
    tried = [found.template for found in result.candidates if not found.note]
    assert tried == ["dense", "spectral", "identity"]
    assert "norm='L2'" in repr(result)
    assert 1 <= result.bound_ratio < 1.001
    pure = mm.optimize(mm.Prefix(16), seed=0)
    assert pure.norm == "L1"
    assert "norm" not in repr(pure)
    assert result.loss < pure.loss
    with pytest.raises(ValueError, match="privacy must be one of 'pure', 'zcdp'"):
        mm.optimize(mm.Prefix(4), privacy="gaussian")


def test_a_short_run_says_so():
    result = mm.optimize(mm.Prefix(64), template="dense", max_iter=2, privacy="zcdp")
    assert not result.success
    assert "after 2 iterations" in result.message
    short = mm.optimize(
        MARGINALS["weighted"], template="marginals", max_iter=2, privacy="zcdp"
    )
    assert not short.success


def test_large_unstructured_workloads_get_the_identity_and_a_warning(rng):
    ends = 10_000 + rng.integers(0, 200, (500, 2)) * [-1, 1]  # all share a cell
    workload = mm.Ranges((20_000,), ends[:, :1], ends[:, 1:])
    with (
        mm.limits.changed(summed_entries=0, dual_cells=100),
        pytest.warns(mm.PerformanceWarning, match="'identity' .* was left out"),
    ):
        result = mm.optimize(workload, privacy="zcdp")
    assert result.template == "identity"


def test_too_many_subsets_are_refused():
    with pytest.raises(mm.DomainTooLargeError, match="too many to list"):
        mm.optimize(
            mm.Marginals((2,) * 60, {tuple(range(40)): 1, (0,): 1}), privacy="zcdp"
        )


# --------------------------------------------------------------------- errors


ERRORS = [mm.expected_error, mm.rmse, mm.per_query_error]


@pytest.mark.parametrize(
    ("formula", "settings"),
    [(formula, {name: 1}) for formula in ERRORS for name in ("epsilon", "rho")]
    + [(mm.loss, {"privacy": name}) for name in ("pure", "zcdp")],
)
def test_formulas_refuse_results_for_the_other_noise(formula, settings):
    results = {
        name: mm.optimize(mm.Prefix(4), privacy=name) for name in ("pure", "zcdp")
    }
    gaussian = "rho" in settings or settings.get("privacy") == "zcdp"
    own = results.pop("zcdp" if gaussian else "pure")
    wanted = formula(mm.Prefix(4), own.strategy, **settings)
    assert np.array_equal(formula(mm.Prefix(4), own, **settings), wanted)
    (other,) = results.values()
    with pytest.raises(ValueError, match=f"was optimized for {other.norm} sensitivity"):
        formula(mm.Prefix(4), other, **settings)
