"""Joint optimization of unions."""

from itertools import combinations

import numpy as np
import pytest
import reference as ref
from scipy.optimize import minimize

import mmech as mm
from mmech.operators.known import normal_form
from mmech.operators.pinv import joint_inverse_gram
from mmech.strategies.union import JointObjective, union_strategy
from mmech.structure.shape import frobenius_squared
from mmech.structure.spectrum import box_terms
from mmech.testing import assert_query_matrix
from mmech_rf import grow_random_forest, training_workload


def three_terms():
    asked = [mm.Prefix(4), mm.Identity(3)], [mm.Total(4), mm.Prefix(3)]
    first, last = map(mm.Kronecker, asked)
    return mm.VStack([first, 2 * mm.Kronecker([mm.Identity(4), mm.AllRange(3)]), last])


def along(n, d, rich=mm.Prefix, plain=mm.Identity):
    """Return d groups of queries, each on one of d attributes of size n."""
    rows = [[rich(n) if i == j else plain(n) for i in range(d)] for j in range(d)]
    return mm.VStack([*map(mm.Kronecker, rows)])


def stack(thetas, shares, masks):
    chosen = [
        [kinds[k] for kinds, k in zip(thetas, mask, strict=True)] for mask in masks
    ]
    products = [mm.Kronecker([*map(mm.PIdentity, factors)]) for factors in chosen]
    return mm.VStack([*map(mm.Scaled, shares, products)])


@pytest.fixture
def thetas(rng):
    """Two kinds of factor on each of two attributes."""
    return [
        [rng.random((2, 4)), rng.random((1, 4))],
        [rng.random((1, 3)), rng.random((2, 3))],
    ]


DESIGNS = {
    "two groups": ([(0, 0), (1, 1)], np.array([0.3, 0.7])),
    "three groups": ([(0, 1), (1, 0), (1, 1)], np.array([0.3, 0.5, 0.2])),
    "four groups": ([(0, 0), (0, 1), (1, 0), (1, 1)], np.array([0.1, 0.4, 0.3, 0.2])),
}
every_design = pytest.mark.parametrize("design", DESIGNS)


@every_design
def test_joint_loss_equals_the_dense_formula(design, thetas):
    masks, shares = DESIGNS[design]
    workload = three_terms()
    value, _, _ = JointObjective(normal_form(workload).products, masks)(thetas, shares)
    strategy = stack(thetas, shares, masks)
    dense = workload.to_dense() @ ref.pinv(strategy.to_dense())
    assert value == pytest.approx(np.square(dense).sum(), rel=1e-10)
    assert mm.loss(workload, strategy) == pytest.approx(value, rel=1e-10)


@every_design
def test_joint_gradient_equals_finite_differences(design, thetas):
    masks, shares = DESIGNS[design]
    objective = JointObjective(normal_form(three_terms()).products, masks)
    _, gradients, in_shares = objective(thetas, shares)
    step = 1e-6
    for kinds, parts in zip(thetas, gradients, strict=True):
        for theta, gradient in zip(kinds, parts, strict=True):
            for place in np.ndindex(theta.shape):
                kept = theta[place]
                theta[place] = kept + step
                above = objective(thetas, shares)[0]
                theta[place] = kept - step
                below = objective(thetas, shares)[0]
                theta[place] = kept
                expected = (above - below) / (2 * step)
                assert gradient[place] == pytest.approx(expected, rel=1e-5, abs=1e-4)
    for group in range(len(masks)):
        moved = step * (np.arange(len(masks)) == group)
        above, below = (objective(thetas, shares + s * moved)[0] for s in (1, -1))
        assert in_shares[group] == pytest.approx((above - below) / (2 * step), rel=1e-5)


@every_design
def test_pseudoinverse_of_stacked_products_is_exact(design, thetas):
    masks, shares = DESIGNS[design]
    strategy = stack(thetas, shares, masks)
    assert joint_inverse_gram(strategy) is not None
    assert_query_matrix(strategy, strategy.to_dense())


def test_a_common_basis_is_recognised_among_many_products(rng):
    """Identity, total and their mixtures commute; three arbitrary grams do not."""
    mixture = mm.Dense(np.eye(5) + 0.3)
    plain = [mm.Identity(5), mm.Total(5), mixture]
    commuting = mm.VStack([mm.Kronecker([f, g]) for f in plain for g in plain])
    inverse = joint_inverse_gram(commuting)
    dense = commuting.to_dense()
    np.testing.assert_allclose(
        inverse.to_dense(), np.linalg.inv(dense.T @ dense), atol=1e-12
    )
    other = [mm.PIdentity(rng.random((2, 5))) for _ in range(3)]
    assert joint_inverse_gram(mm.VStack([mm.Kronecker([f, f]) for f in other])) is None


def test_deficient_stacks_have_no_joint_inverse():
    factors = [mm.Identity(4), mm.Total(3)], [mm.Total(4), mm.Identity(3)]
    deficient = mm.VStack([*map(mm.Kronecker, factors)])
    assert joint_inverse_gram(deficient) is None
    assert_query_matrix(deficient, deficient.to_dense())


def test_a_product_of_zeros_changes_nothing_in_a_stack():
    queries = mm.Kronecker([mm.Identity(2), mm.Prefix(3)])
    zeros = mm.Kronecker([mm.Dense([[0, 0]]), mm.Identity(3)])
    stacked = mm.VStack([zeros, queries])
    assert joint_inverse_gram(stacked) is not None
    assert mm.loss(queries, stacked) == pytest.approx(mm.loss(queries, queries))


@pytest.mark.slow
def test_three_groups_on_three_attributes():
    """Ranges along each attribute share what no single product can."""
    workload = along(4, 3, mm.AllRange, mm.Total)
    result = union_strategy(workload, seed=0, n_starts=1)
    assert "3 groups with budget" in result.message
    product = mm.optimize(workload, template="kronecker", seed=0)
    assert result.loss < 0.6 * product.loss
    # A third of the budget for each of three that are alike costs 3 * 9 times as much.
    one = mm.optimize(workload.blocks[0], template="kronecker", seed=0)
    assert result.loss < 27 * one.loss
    A, W = result.strategy.to_dense(), workload.to_dense()
    assert A.sum(axis=0).max() == pytest.approx(1)
    assert result.loss == pytest.approx(np.square(W @ ref.pinv(A)).sum())
    ref.above_bound(result.loss, mm.dual_bound(workload, epsilon=1).bound / 2)


@pytest.mark.slow
def test_attributes_on_their_own_are_measured_nearly_on_their_own():
    """As well as by the best strategy of each beside exact totals, and no worse."""
    n = 24
    asked = [[mm.Prefix(n), mm.Total(n)], [mm.Total(n), mm.Prefix(n)]]
    workload = mm.VStack([mm.Kronecker(factors) for factors in asked])
    best = mm.optimize(mm.Prefix(n), seed=0).strategy
    measured = [[best, mm.Total(n)], [mm.Total(n), best]]
    apart = mm.VStack([mm.Kronecker(factors) for factors in measured])
    found = union_strategy(workload, seed=0)
    assert found.loss < 1.02 * mm.loss(workload, apart)
    assert found.loss < 0.9 * mm.optimize(workload, template="marginals").loss


def test_weights_stay_in_their_box_where_a_descent_ends_by_rounding_outside(
    monkeypatch,
):
    def rounded(*args, **options):
        run = minimize(*args, **options)
        run.x[-1] = -1e-20
        return run

    monkeypatch.setattr("scipy.optimize.minimize", rounded)
    objective = JointObjective(normal_form(three_terms()).products, [(0, 0), (1, 1)])
    thetas = [[np.ones((2, n))] * 2 for n in (4, 3)]
    run = objective.minimize(thetas, np.array([0.5, 0.5]), 1, 1e-9)
    assert run.thetas[-1][-1].flat[-1] == 0


@pytest.mark.slow
def test_many_groups_are_merged():
    pairs = combinations(range(6), 2)
    asked = [[(mm.Total, mm.Prefix)[i in own](2) for i in range(6)] for own in pairs]
    workload = mm.VStack([*map(mm.Kronecker, asked)])
    result = union_strategy(workload, n_starts=1, max_iter=5, seed=0)
    assert len(getattr(result.strategy, "blocks", [0])) <= 12
    assert result.loss == pytest.approx(mm.loss(workload, result.strategy))


@pytest.mark.slow
def test_auto_reaches_the_known_loss_of_a_union():
    """HDMM's best is 2.66e5 (Identity)."""
    assert mm.optimize(along(64, 2), seed=0, n_starts=2).loss <= 2.2e5


@pytest.mark.by_day(2)
@pytest.mark.parametrize("seed", range(3))
def test_leaves_of_a_forest_are_a_union_of_products(seed):
    forest = grow_random_forest((4, 3, 2), 6, 2, seed=seed)
    for leaves in (training_workload(forest), mm.Conjunctions(box_masks(forest))):
        terms = [
            weight * mm.Kronecker(factors) for weight, factors in box_terms(leaves)
        ]
        dense = leaves.to_dense()
        np.testing.assert_allclose(mm.VStack(terms).gram().to_dense(), dense.T @ dense)
        for template in ("kronecker", "union"):
            found = mm.optimize(leaves, template=template, seed=0)
            assert found.loss <= frobenius_squared(leaves) * (1 + 1e-12)


def box_masks(forest):
    """Return the values of every attribute that a leaf allows, from its cells."""
    rows = training_workload(forest).to_dense().reshape(-1, *forest.domain_shape) > 0
    rows = rows[rows.any(axis=(1, 2, 3))]
    return [rows.any(axis=others) for others in ((2, 3), (1, 3), (1, 2))]


def test_a_product_is_found_for_trees_that_ask_one_attribute():
    first, _ = np.divmod(np.arange(16), 4)
    trees = mm.PartitionStack([first, first], [4, 4], domain_shape=(4, 4))
    found = mm.optimize(trees, template="kronecker", seed=0)
    assert found.loss == pytest.approx(mm.loss(trees, found.strategy))
    assert found.loss < 0.3 * mm.loss(trees, mm.Identity(16))
