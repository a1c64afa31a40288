"""p-Identity with unit L2 columns: the operator, its objective and its templates."""

import numpy as np
import pytest
import reference as ref

import mmech as mm


def union_of_ranges():
    return mm.VStack(
        [
            mm.Kronecker([mm.Prefix(8), mm.Identity(6)]),
            2 * mm.Kronecker([mm.Identity(8), mm.AllRange(6)]),
            mm.Kronecker([mm.Total(8), mm.Prefix(6)]),
        ]
    )


def least_loss(workload):
    return mm.dual_bound(workload, epsilon=1, tolerance=1e-5).bound / 2


def test_columns_have_unit_length(rng):
    strategy = mm.PIdentity(rng.standard_normal((3, 7)), norm="L2")
    dense = strategy.to_dense()
    np.testing.assert_allclose(np.square(dense).sum(axis=0), 1)
    assert strategy.l2_sensitivity() == 1
    assert strategy.sensitivity() == pytest.approx(np.abs(dense).sum(axis=0).max())
    assert not strategy.is_nonnegative
    assert repr(strategy) == "PIdentity(p=3, n=7, norm='L2') shape=(10, 7)"


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("workload", "options", "most"),
    [
        (mm.Prefix(256), {}, 1.03),
        (mm.AllRange(256), {}, 1.03),
        # As many rows as cells reach every strategy.
        (mm.Dense(np.cos(np.arange(120.0) ** 2).reshape(8, 15)),
         {"p": 15, "max_iter": 2000, "tolerance": 1e-9}, 1.02),
    ],
    ids=str,
)  # fmt: skip
def test_descent_comes_close_to_the_optimum(workload, options, most):
    options |= {"template": "pidentity", "privacy": "zcdp", "seed": 0}
    result = mm.optimize(workload, **options)
    least = least_loss(workload)
    assert least <= result.loss <= most * least
    assert result.norm == "L2"
    assert result.loss == pytest.approx(
        mm.loss(workload, result.strategy, privacy="zcdp")
    )
    assert "times the least loss (dual bound)" in result.message


def test_never_worse_than_the_identity():
    result = mm.optimize(mm.Identity(30), template="pidentity", privacy="zcdp", seed=0)
    assert result.loss == 30
    assert "no better than the identity" in result.message


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 5.0)])
def test_unions_descend_attribute_by_attribute(weights):
    rows = mm.Kronecker([mm.Prefix(12), mm.Identity(10)])
    columns = mm.Kronecker([mm.Identity(12), mm.Prefix(10)])
    workload = mm.VStack([weights[0] * rows, weights[1] * columns])
    result = mm.optimize(workload, template="kronecker", privacy="zcdp", seed=0)
    A = result.strategy.to_dense()
    np.testing.assert_allclose(np.square(A).sum(axis=0), 1)
    expected = np.square(workload.to_dense() @ ref.pinv(A)).sum()
    assert result.loss == pytest.approx(expected)
    assert least_loss(workload) <= result.loss <= 1.2 * least_loss(workload)
    steps = np.diff(result.history)
    assert (steps <= 1e-9 * result.loss).all()


def test_auto_descends_where_the_dual_is_too_large(rng):
    with mm.limits.changed(dual_cells=32):
        sums = mm.Prefix(64).to_dense()[:, rng.permutation(64)]
        result = mm.optimize(sums, privacy="zcdp", seed=0)
        union = mm.optimize(union_of_ranges(), privacy="zcdp", seed=0)
    assert result.template == "pidentity"
    tried = [run.template for run in result.candidates if not run.note]
    assert tried == ["pidentity", "identity"]
    assert union.template == "kronecker"
    assert union.loss < mm.loss(union_of_ranges(), mm.Identity(48), privacy="zcdp")
