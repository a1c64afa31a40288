"""Error tables, errors of single queries in closed form, confidence intervals."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import reference as ref
import scipy.sparse as sp
from scipy import stats

from mmech import (
    AllRange,
    Dense,
    Identity,
    Kronecker,
    Marginal,
    Marginals,
    Merged,
    Ones,
    PartitionStack,
    PIdentity,
    Prefix,
    Report,
    Sparse,
    Total,
    UnsupportedWorkloadError,
    VStack,
    all_marginals,
    confidence_interval,
    dual_bound,
    expected_error,
    limits,
    loss,
    optimize,
    per_query_error,
    report,
    rmse,
    svd_bound,
)
from mmech import report as report_function
from mmech.operators.base import QueryMatrix

THETA = np.abs(np.sin(np.arange(1.0, 13))).reshape(2, 6)


def quartiles(workload, strategy, epsilon):
    errors = np.sqrt(per_query_error(workload, strategy, epsilon=epsilon))
    return errors.min(), np.median(errors), errors.max()


# ---- one number per table ----------------------------------------------------

MARGINAL_STRATEGIES = [
    Marginals((2, 3, 2), {(0, 1, 2): 1}),
    Marginals((2, 3, 2), {(0, 1): 0.5, (1, 2): -0.25, (0, 2): 1, (): 2}),
    3 * Marginals((2, 3, 2), {(0, 1, 2): 0.1, (1,): 0.9}),
]
MARGINAL_WORKLOADS = [
    all_marginals((2, 3, 2), 2),
    Marginals((2, 3, 2), {(0, 1): 1, (): 3, (2,): -0.5}),
    Marginal((2, 3, 2), [2, 0]),
    Total(12),
    Kronecker([Ones(2, 2), Identity(3), Total(2)]),
    VStack([2 * Marginal((2, 3, 2), [1]), Marginal((2, 3, 2), [])]),
]


@pytest.mark.parametrize("strategy", MARGINAL_STRATEGIES, ids=str)
@pytest.mark.parametrize("workload", MARGINAL_WORKLOADS, ids=str)
def test_marginals_on_marginals_in_closed_form(workload, strategy):
    wanted = ref.per_query_loss(workload.to_dense(), strategy.to_dense())
    actual = per_query_error(workload, strategy, epsilon=1)
    np.testing.assert_allclose(actual, 2 * wanted, rtol=1e-9)
    assert actual.sum() / 2 == pytest.approx(loss(workload, strategy))


def test_marginals_of_a_large_domain():
    shape = (10,) * 12  # 10^12 cells
    strategy = Marginals(shape, {(0, 1): 0.5, (2, 3): 0.5})
    gains = per_query_error(Marginal(shape, [0]), strategy, epsilon=1)
    # Ten cells at half the budget have variance 80 for the sum; the total, a tenth
    # of it, is known from the other table as well and costs half.
    np.testing.assert_allclose(gains, np.full(10, 80 * (0.9 + 0.1 / 2)))
    table = report(Marginals(shape, {(0,): 1, (2, 3): 1}), strategy, epsilon=1)
    low, middle, high = table.standard_errors
    cell = 8 * (0.99 + 0.01 / 2)
    assert (low, high) == (pytest.approx(math.sqrt(cell)), pytest.approx(math.sqrt(76)))
    assert middle == pytest.approx(math.sqrt(cell))  # 100 of 110 queries


def test_marginals_that_do_not_answer():
    strategy = Marginals((2, 3), {(0,): 1})
    with pytest.raises(UnsupportedWorkloadError, match="cannot answer"):
        per_query_error(Marginal((2, 3), [1]), strategy, epsilon=1)


# ---- the table ---------------------------------------------------------------


PAIRS = [
    (Prefix(6), Identity(6)),
    (AllRange(6), 2 * PIdentity(THETA)),
    (-3 * Prefix(6), PIdentity(THETA)),
    (VStack([Prefix(6), 2 * Total(6)]), PIdentity(THETA)),
    (Kronecker([Prefix(3), AllRange(2)]),
     Kronecker([PIdentity(THETA[:, :3]), Identity(2)])),
    (Dense(np.eye(6)[[0, 0, 1, 2, 2]] * 3.0), Identity(6)),
    (Merged(Prefix(2), [0, 1, 1]), Merged(Identity(2), [0, 1, 1])),
    (Dense(np.zeros((2, 3))), Identity(3)),
]  # fmt: skip


@pytest.mark.parametrize(("workload", "strategy"), PAIRS, ids=str)
def test_numbers(workload, strategy):
    table = report(workload, strategy, epsilon="1/4")
    assert isinstance(table, Report)
    assert table.loss == loss(workload, strategy)
    assert table.expected_error == expected_error(workload, strategy, epsilon=0.25)
    assert table.rmse == rmse(workload, strategy, epsilon=0.25)
    assert table.sensitivity == strategy.sensitivity()
    assert table.bound_ratio >= 1 - 1e-9
    assert table.standard_errors == pytest.approx(quartiles(workload, strategy, 0.25))


def test_text_and_html_have_the_same_content():
    workload = Prefix(32)
    result = optimize(workload, seed=0)
    table = report(workload, result, epsilon=1)
    text, markup = str(table), table._repr_html_()
    assert repr(table) == text
    assert table.candidates == result.candidates
    assert table.bound_ratio == pytest.approx(result.bound_ratio)
    for name, value in table.rows:
        assert name in text
        assert f"<td>{name}</td><td>{value}</td>" in markup
    for candidate in result.candidates:
        assert candidate.template in text
        assert candidate.template in markup
    names = [name for name, _ in table.rows]
    assert names == [
        "workload", "strategy", "template", "epsilon", "sensitivity", "loss",
        "expected error", "rmse", "lower bound", "ratio to the bound",
        "tie with Gaussian", "standard errors",
    ]  # fmt: skip
    assert max(map(len, text.splitlines())) < 120


def test_markup_is_escaped():
    class Tagged(Dense):
        def _label(self):
            return "<b>&"

    table = report(Tagged([[1, 2]]), Identity(2), epsilon=1)
    assert "<b>" not in table._repr_html_()
    assert "&lt;b&gt;&amp;" in table._repr_html_()


def test_products_too_large_to_list():
    factors = [PIdentity(np.ones((1, 16)))] * 8  # 16^8 queries
    table = report(Kronecker([Prefix(16)] * 8), Kronecker(factors), epsilon=1)
    low, middle, high = table.standard_errors
    single = quartiles(Prefix(16), factors[0], math.sqrt(2))
    assert low == pytest.approx(math.sqrt(2) * single[0] ** 8)
    assert high == pytest.approx(math.sqrt(2) * single[2] ** 8)
    assert low < middle < high


def test_grouping_keeps_the_extremes(rng):
    """Of 105,000 products of errors, more than are kept apart."""
    workload = Kronecker([AllRange(26), AllRange(24)])
    theta = rng.random((2, 26))
    strategy = Kronecker([PIdentity(theta), PIdentity(theta[:, :24])])
    table = report(workload, strategy, epsilon=1)
    low, middle, high = quartiles(workload, strategy, 1)
    assert table.standard_errors[0] == pytest.approx(low)
    assert table.standard_errors[1] == pytest.approx(middle, rel=0.02)
    assert table.standard_errors[2] == pytest.approx(high)


@pytest.mark.parametrize(
    "workload", [AllRange(660), VStack([Total(660), AllRange(660)])], ids=str
)
def test_omitted_where_too_expensive(workload):
    """More than 2^27 entries would have to be visited."""
    table = report(workload, PIdentity(np.ones((2, 660))), epsilon=1)
    assert table.standard_errors is None
    assert "standard errors     omitted" in str(table)


def test_no_bound_lists_the_columns_of_a_large_workload(rng):
    m, n, groups = 5000, 2**15, 2000
    rows = np.repeat(np.arange(m), 2)
    columns = rng.integers(0, groups, (m, 2))
    columns[:, 1] += groups
    ones = np.ones(2 * m, np.int64)
    picks = sp.csr_array((ones, (rows, columns.ravel())), shape=(m, 2 * groups))
    labels = rng.integers(0, groups, (2, n))
    workload = Sparse(picks) @ PartitionStack(labels, [groups, groups])
    with limits.changed(exhaustive_entries=1):
        table = report(workload, Identity(n), epsilon=1)
    assert table.bound_name == "partial singular values"
    assert 1 < table.bound_ratio < math.inf


def test_a_bound_that_is_not_computed_says_so():
    workload = Sparse(sp.eye_array(3000, dtype=np.int64)) @ Prefix(3000)
    with limits.changed(dual_distribution=1):
        table = report(workload, Identity(3000), epsilon=1)
    assert table.bound == 0
    assert re.search(r"lower bound +not computed", str(table))


def test_input_errors():
    with pytest.raises(TypeError, match="workload must be a query matrix"):
        report([[1]], Identity(1), epsilon=1)
    with pytest.raises(ValueError, match="workload has 2 columns but strategy has 3"):
        report(Identity(2), Identity(3), epsilon=1)
    with pytest.raises(ValueError, match="epsilon must be a finite number > 0"):
        report(Identity(2), Identity(2), epsilon=-1)
    gaussian = replace(optimize(Prefix(4), template="identity"), norm="L2")
    with pytest.raises(ValueError, match="was optimized for L2 sensitivity"):
        report(Prefix(4), gaussian, epsilon=1)
    with pytest.raises(UnsupportedWorkloadError, match="cannot answer"):
        report_function(Identity(2), Total(2), epsilon=1)
    assert isinstance(Identity(2), QueryMatrix)


# ---- both kinds of noise -------------------------------------------------------


@pytest.mark.parametrize("workload", [Prefix(30), 2 * AllRange(9)], ids=str)
def test_reports_under_rho(workload):
    result = optimize(workload, privacy="zcdp")
    table = report(workload, result, rho="1/8")
    assert table.tie_delta is None
    assert table.loss == pytest.approx(result.loss)
    assert table.expected_error == expected_error(workload, result, rho="1/8")
    assert table.rmse == pytest.approx(rmse(workload, result, rho=0.125))
    assert table.sensitivity == pytest.approx(1)
    errors = np.sqrt(per_query_error(workload, result, rho=0.125))
    expected = errors.min(), np.median(errors), errors.max()
    assert table.standard_errors == pytest.approx(expected)
    best = dual_bound(workload, rho=0.125)
    assert 1 <= table.bound_ratio <= 1.001
    assert table.bound == pytest.approx(best.bound, rel=1e-3)
    assert svd_bound(workload, rho=0.125) <= best.bound
    for bound in (svd_bound, lambda w, **cost: dual_bound(w, **cost).bound):
        assert bound(workload, rho=2) == pytest.approx(bound(workload, epsilon=1) / 8)


def test_reports_of_waves_list_their_errors_at_any_size():
    workload = Prefix(20_000)
    result = optimize(workload, privacy="zcdp")
    low, middle, high = report(workload, result, rho=0.5).standard_errors
    assert low < middle < high
    assert high**2 == pytest.approx(per_query_error(workload, result, rho=0.5).max())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_delta_of_a_tie_is_that_of_gaussian_noise(epsilon):
    table = report(Prefix(30), Identity(30), epsilon=epsilon)
    sigma = math.sqrt(table.expected_error / (table.bound / epsilon**-2 / 2)) / 1.0
    # P(Z > t) - e^ε P(Z > t + 1/σ), Balle and Wang (2018), at sensitivity one
    first = stats.norm.sf(epsilon * sigma - 0.5 / sigma)
    second = stats.norm.sf(epsilon * sigma + 0.5 / sigma)
    delta = first - math.exp(epsilon) * second
    assert table.tie_delta == pytest.approx(delta)


@pytest.mark.parametrize("function", [report, rmse, per_query_error])
@pytest.mark.parametrize("cost", [{}, {"epsilon": 1, "rho": 1}], ids=str)
def test_exactly_one_cost_is_given(function, cost):
    with pytest.raises(TypeError, match="pass either epsilon=, for pure"):
        function(Prefix(4), Identity(4), **cost)
    for bound in (svd_bound, dual_bound):
        with pytest.raises(TypeError, match="pass either epsilon=, for pure"):
            bound(Prefix(4), **cost)


# ---- confidence intervals ----------------------------------------------------


def test_intervals_of_gaussian_noise_are_shorter_and_hold():
    for level in (0.5, 0.9, 0.95, 0.9999):
        wide = confidence_interval(0.0, 1.0, level)[1]
        close = confidence_interval(0.0, 1.0, level, rho=0.5)[1]
        assert close <= wide
        assert 2 * stats.norm.sf(close) <= 1 - level
        own = confidence_interval(0.0, 1.0, level, epsilon=2)[1]
        assert own == wide
    with pytest.raises(ValueError, match="is for Laplace noise, but rho="):
        confidence_interval(0.0, 1.0, method="laplace", rho=1)


def test_quantiles():
    def half(level, method):
        lower, upper = confidence_interval(0.0, 1.0, level, method=method)
        assert lower == -upper
        return float(upper)

    assert half(0.95, "normal") == pytest.approx(1.959964)
    assert half(0.95, "laplace") == pytest.approx(math.log(20) / math.sqrt(2))
    assert half(0.75, "chebyshev") == pytest.approx(2)
    assert half(0.95, "bound") == pytest.approx(2 / (3 * math.sqrt(0.05)))
    for level in (0.01, 0.3, 0.5, 0.67, 0.9, 0.99, 0.9999, 1 - 1e-9):
        widths = {m: half(level, m) for m in ("laplace", "normal", "chebyshev")}
        assert max(widths["laplace"], widths["normal"]) <= half(level, "bound")
        assert half(level, "bound") <= widths["chebyshev"] * (1 + 1e-12)


@pytest.mark.parametrize("level", [0.2, 0.5, 0.8, 0.95, 0.99])
def test_bound_holds_for_sums_of_laplace_variables(level, rng):
    # Tail probabilities of 10^5 draws, six standard errors of a frequency allowed.
    noise = rng.laplace(size=(100_000, 12))
    for weights in (np.eye(12)[0], np.ones(12), 0.5 ** np.arange(12), [3.0] + [1] * 11):
        sums = noise @ weights
        std = math.sqrt(2) * np.linalg.norm(weights)
        lower, upper = confidence_interval(sums, std, level)
        slack = 6 * math.sqrt(level * (1 - level) / 100_000)
        assert np.mean((lower <= 0) & (upper >= 0)) >= level - slack


def test_intervals_broadcast():
    lower, upper = confidence_interval(np.zeros((3, 2)), np.ones((3, 1)))
    assert lower.shape == upper.shape == (3, 2)


def test_interval_input_errors():
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 95"):
        confidence_interval([1.0], [1.0], 95)
    with pytest.raises(ValueError, match="standard_errors must be finite"):
        confidence_interval([1.0], [-1.0])
    with pytest.raises(ValueError, match="method must be one of"):
        confidence_interval([1.0], [1.0], method="exact")
