"""Error tables, errors of single queries in closed form, confidence intervals."""

import math
import re

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import mmech as mm
from mmech import limits

THETA = np.abs(np.sin(np.arange(1.0, 13))).reshape(2, 6)


def quartiles(workload, strategy, epsilon):
    errors = np.sqrt(mm.per_query_error(workload, strategy, epsilon=epsilon))
    return errors.min(), np.median(errors), errors.max()


# ---- one number per table ----------------------------------------------------


def test_marginals_of_a_large_domain():
    shape = (10,) * 12  # 10^12 cells
    strategy = mm.Marginals(shape, {(0, 1): 0.5, (2, 3): 0.5})
    gains = mm.per_query_error(mm.Marginal(shape, [0]), strategy, epsilon=1)
    # Ten cells at half the budget have variance 80 for the sum; the total, a tenth
    # of it, is known from the other table as well and costs half.
    np.testing.assert_allclose(gains, np.full(10, 80 * (0.9 + 0.1 / 2)))
    table = mm.report(mm.Marginals(shape, {(0,): 1, (2, 3): 1}), strategy, epsilon=1)
    low, middle, high = table.standard_errors
    cell = 8 * (0.99 + 0.01 / 2)
    assert (low, high) == (pytest.approx(math.sqrt(cell)), pytest.approx(math.sqrt(76)))
    assert middle == pytest.approx(math.sqrt(cell))  # 100 of 110 queries


# ---- the table ---------------------------------------------------------------


PAIRS = [
    (mm.Prefix(6), mm.Identity(6)),
    (mm.AllRange(6), 2 * mm.PIdentity(THETA)),
    (-3 * mm.Prefix(6), mm.PIdentity(THETA)),
    (mm.VStack([mm.Prefix(6), 2 * mm.Total(6)]), mm.PIdentity(THETA)),
    (mm.Kronecker([mm.Prefix(3), mm.AllRange(2)]),
     mm.Kronecker([mm.PIdentity(THETA[:, :3]), mm.Identity(2)])),
    (mm.Dense(np.eye(6)[[0, 0, 1, 2, 2]] * 3.0), mm.Identity(6)),
    (mm.Merged(mm.Prefix(2), [0, 1, 1]), mm.Merged(mm.Identity(2), [0, 1, 1])),
    (mm.Dense(np.zeros((2, 3))), mm.Identity(3)),
]  # fmt: skip


@pytest.mark.parametrize(("workload", "strategy"), PAIRS, ids=str)
def test_numbers(workload, strategy):
    table = mm.report(workload, strategy, epsilon="1/4")
    assert isinstance(table, mm.Report)
    assert table.loss == mm.loss(workload, strategy)
    assert table.expected_error == mm.expected_error(workload, strategy, epsilon=0.25)
    assert table.rmse == mm.rmse(workload, strategy, epsilon=0.25)
    assert table.sensitivity == strategy.sensitivity()
    assert table.bound_ratio >= 1 - 1e-9
    assert table.standard_errors == pytest.approx(quartiles(workload, strategy, 0.25))


def test_text_and_html_have_the_same_content():
    workload = mm.Prefix(32)
    result = mm.optimize(workload, seed=0)
    table = mm.report(workload, result, epsilon=1)
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
    class Tagged(mm.Dense):
        def _label(self):
            return "<b>&"

    table = mm.report(Tagged([[1, 2]]), mm.Identity(2), epsilon=1)
    assert "<b>" not in table._repr_html_()
    assert "&lt;b&gt;&amp;" in table._repr_html_()


def test_products_by_their_factors(rng):
    """The median of 105,000 products, of which no row is looked at."""
    workload = mm.Kronecker([mm.AllRange(26), mm.AllRange(24)])
    theta = rng.random((2, 26))
    strategy = mm.Kronecker([mm.PIdentity(theta), mm.PIdentity(theta[:, :24])])
    table = mm.report(workload, strategy, epsilon=1)
    assert table.standard_errors == pytest.approx(quartiles(workload, strategy, 1))
    many = mm.report(mm.Kronecker([mm.Prefix(16)] * 8), mm.Identity(16**8), epsilon=1)
    assert many.standard_errors is None


@pytest.mark.parametrize(
    "workload",
    [mm.AllRange(660), mm.VStack([mm.Total(660), mm.AllRange(660)])],
    ids=str,
)
def test_omitted_where_too_expensive(workload):
    """Ranges visit the coefficients of prefix sums, 661 x 662."""
    with limits.changed(reported_entries=2**18):
        table = mm.report(workload, mm.PIdentity(np.ones((2, 660))), epsilon=1)
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
    workload = mm.Sparse(picks) @ mm.PartitionStack(labels, [groups, groups])
    with mm.limits.changed(exhaustive_entries=1):
        table = mm.report(workload, mm.Identity(n), epsilon=1)
    assert table.bound_name == "none"


def test_a_bound_that_is_not_computed_says_so():
    workload = mm.Sparse(sp.eye_array(3000, dtype=np.int64)) @ mm.Prefix(3000)
    with mm.limits.changed(dual_distribution=1):
        table = mm.report(workload, mm.Identity(3000), epsilon=1)
    assert table.bound == 0
    assert re.search(r"lower bound +not computed", str(table))


# ---- both kinds of noise -------------------------------------------------------


@pytest.mark.parametrize("workload", [mm.Prefix(30), 2 * mm.AllRange(9)], ids=str)
def test_reports_under_rho(workload):
    result = mm.optimize(workload, privacy="zcdp")
    table = mm.report(workload, result, rho="1/8")
    assert table.tie_delta is None
    assert table.loss == pytest.approx(result.loss)
    assert table.expected_error == mm.expected_error(workload, result, rho="1/8")
    assert table.rmse == pytest.approx(mm.rmse(workload, result, rho=0.125))
    assert table.sensitivity == pytest.approx(1)
    errors = np.sqrt(mm.per_query_error(workload, result, rho=0.125))
    expected = errors.min(), np.median(errors), errors.max()
    assert table.standard_errors == pytest.approx(expected)
    best = mm.dual_bound(workload, rho=0.125)
    assert 1 <= table.bound_ratio <= 1.001
    assert table.bound == pytest.approx(best.bound, rel=1e-3)
    assert mm.svd_bound(workload, rho=0.125) <= best.bound
    for bound in (mm.svd_bound, lambda w, **cost: mm.dual_bound(w, **cost).bound):
        assert bound(workload, rho=2) == pytest.approx(bound(workload, epsilon=1) / 8)


def test_reports_of_waves_list_their_errors_at_any_size():
    workload = mm.Prefix(20_000)
    result = mm.optimize(workload, privacy="zcdp")
    low, middle, high = mm.report(workload, result, rho=0.5).standard_errors
    assert low < middle < high
    assert high**2 == pytest.approx(mm.per_query_error(workload, result, rho=0.5).max())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_delta_of_a_tie_is_that_of_gaussian_noise(epsilon):
    table = mm.report(mm.Prefix(30), mm.Identity(30), epsilon=epsilon)
    sigma = math.sqrt(table.expected_error / (table.bound / epsilon**-2 / 2)) / 1.0
    # P(Z > t) - e^ε P(Z > t + 1/σ), Balle and Wang (2018), at sensitivity one
    first = stats.norm.sf(epsilon * sigma - 0.5 / sigma)
    second = stats.norm.sf(epsilon * sigma + 0.5 / sigma)
    delta = first - math.exp(epsilon) * second
    assert table.tie_delta == pytest.approx(delta)


# ---- confidence intervals ----------------------------------------------------


def test_intervals_of_gaussian_noise_are_shorter_and_hold():
    for level in (0.5, 0.9, 0.95, 0.9999):
        wide = mm.confidence_interval(0.0, 1.0, level)[1]
        close = mm.confidence_interval(0.0, 1.0, level, rho=0.5)[1]
        assert close <= wide
        assert 2 * stats.norm.sf(close) <= 1 - level
        own = mm.confidence_interval(0.0, 1.0, level, epsilon=2)[1]
        assert own == wide
    with pytest.raises(ValueError, match="is for Laplace noise, but rho="):
        mm.confidence_interval(0.0, 1.0, method="laplace", rho=1)


def test_quantiles():
    def half(level, method):
        lower, upper = mm.confidence_interval(0.0, 1.0, level, method=method)
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
        lower, upper = mm.confidence_interval(sums, std, level)
        slack = 6 * math.sqrt(level * (1 - level) / 100_000)
        assert np.mean((lower <= 0) & (upper >= 0)) >= level - slack
