"""The search over weighted marginals, and the energies that it works with."""

import itertools
import math
from functools import cache

import hypothesis.strategies as st
import numba
import numpy as np
import pytest
import reference as ref
from hypothesis import given
from hypothesis.extra import numpy as hnp

import mmech as mm
from mmech.error.expected import NORMS
from mmech.operators.known import normal_form
from mmech.strategies.marginals import marginals_strategy
from mmech.structure.spectrum import mean_spectrum
from mmech_rf import datasets, grow_random_forest, training_workload

compiled = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="long searches need compiled kernels"
)

QUICK = {"max_evaluations": 3000, "seed": 0}


def search(workload, **options):
    return mm.optimize(workload, template="marginals", **(QUICK | options))


# ------------------------------------------------------------------ products


@st.composite
def stacked_tables(draw):
    """Marginals with whole weights, over attributes that may have a single value."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)))
    subsets = st.sets(st.integers(0, len(sizes) - 1)).map(sorted).map(tuple)
    keys = draw(st.lists(subsets, min_size=1, max_size=9, unique=True))
    weights = st.integers(-9, 9).filter(bool)
    return mm.Marginals(sizes, {key: draw(weights) for key in keys})


@given(stacked_tables(), st.integers(1, 3), st.integers(0, 99))
def test_shared_tables_are_those_of_one_pass_each(marginals, columns, seed):
    rng, (m, n) = np.random.default_rng(seed), marginals.shape
    one_by_one = mm.VStack(marginals.blocks)
    x = rng.integers(-(2**40), 2**40, (n, columns))
    y = rng.integers(-(2**40), 2**40, (m, columns))
    for ours, theirs in [
        (marginals @ x, one_by_one @ x),
        (marginals.rmatmat(y), one_by_one.rmatmat(y)),
    ]:
        assert ours.dtype == np.int64
        np.testing.assert_array_equal(ours, theirs)
    single = marginals @ x.astype(np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, marginals @ x, rtol=1e-5, atol=2.0**28)


@given(stacked_tables(), st.integers(0, 99))
def test_the_marginal_algebra_by_way_of_tables(marginals, seed):
    """Whether or not tables are the faster way, products are the transforms'."""
    for operator in (marginals.gram(), marginals.gram().pinv()):
        x = np.random.default_rng(seed).normal(size=(operator.shape[1], 2))
        wanted = ref.anova(operator.domain_shape, operator.eigenvalues) @ x
        size = np.abs(wanted).max()
        np.testing.assert_allclose(operator @ x, wanted, rtol=0, atol=1e-9 * size)


def test_least_squares_of_many_tables(rng):
    sizes = (4,) * 6
    marginals = mm.all_marginals(sizes, 2)
    values = rng.normal(size=(marginals.shape[0], 2))
    wanted = np.linalg.lstsq(marginals.to_dense(), values, rcond=None)[0]
    assert marginals.gram().pinv()._by_tables is not None
    np.testing.assert_allclose(marginals.pinv() @ values, wanted, atol=1e-10)
    estimate = mm.MarginalEstimate(marginals, values)
    np.testing.assert_allclose(estimate.to_dense(), wanted, atol=1e-10)


# ------------------------------------------------------------------ random workloads


@st.composite
def workloads(draw):
    """(workload, explicit matrix, domain shape) of every kind that projects."""
    sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    d = len(sizes)
    signed = st.integers(-2, 2)

    def explicit(array):
        return mm.Dense(array), array

    leaves = [
        lambda n: (mm.AllRange(n), ref.all_range(n)),
        lambda n: (mm.Prefix(n), ref.prefix(n)),
        lambda n: (mm.Total(n), ref.ones(1, n)),
        lambda n: (mm.Identity(n), ref.identity(n)),
        lambda n: (mm.Merged(mm.Prefix(n), np.arange(n)[::-1]), ref.prefix(n)[:, ::-1]),
        lambda n: (mm.WidthRange(n, 1 + n // 2), ref.width_range(n, 1 + n // 2)),
        lambda n: explicit(draw(hnp.arrays(np.int64, (2, n), elements=signed))),
    ]
    factors = [draw(st.sampled_from(leaves))(size) for size in sizes]
    product = mm.Kronecker([operator for operator, _ in factors])
    matrix = ref.kronecker(*(own for _, own in factors))
    kinds = ["products", "boxes", "listed", "trees", "sums", "marginals", "union"]
    kind = draw(st.sampled_from(kinds))
    if kind == "products":
        return product, matrix, sizes
    rows = draw(st.integers(1, 4))
    if kind == "boxes":
        masks = [draw(hnp.arrays(np.bool_, (rows, size))) for size in sizes]
        return mm.Conjunctions(masks), ref.conjunctions(masks), sizes
    if kind == "listed":
        ends = [
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).map(sorted)
            for n in sizes
        ]
        boxes = np.array([draw(st.tuples(*ends)) for _ in range(rows)])
        lower, upper = boxes[:, :, 0], boxes[:, :, 1]
        return mm.Ranges(sizes, lower, upper), ref.ranges(sizes, lower, upper), sizes
    if kind == "trees":
        forest = grow_random_forest(
            sizes, rows, draw(st.integers(0, 3)), seed=draw(st.integers(0, 99))
        )
        workload = training_workload(forest)
        return workload, workload.to_dense(), sizes
    if kind == "sums":
        masks = [draw(hnp.arrays(np.bool_, (rows, size))) for size in sizes]
        added, left = explicit(draw(hnp.arrays(np.int64, (2, rows), elements=signed)))
        workload = mm.Product(added, mm.Conjunctions(masks))
        return workload, left @ ref.conjunctions(masks), sizes
    subsets = [
        key for order in range(d + 1) for key in itertools.combinations(range(d), order)
    ]
    chosen = draw(st.lists(st.sampled_from(subsets), min_size=1, unique=True))
    weights = {key: draw(st.sampled_from([1, -2, 0.5])) for key in chosen}
    workload = mm.Marginals(sizes, weights)
    dense = ref.stack(*(w * ref.marginal(sizes, key) for key, w in weights.items()))
    if kind == "marginals":
        return workload, dense, sizes
    union = mm.VStack([workload, mm.Scaled(-0.5, product)])
    return union, ref.stack(dense, -0.5 * matrix), sizes


def energies_of(workload, sizes):
    """v_s = tr(P_s WᵀW) on the lattice, from the spectrum of a workload."""
    spectrum = mean_spectrum(workload, sizes)
    if spectrum is None:
        return None
    energies = np.zeros(2 ** len(sizes))
    for subset, value in spectrum.items():
        rank = math.prod(sizes[i] - 1 for i in subset)
        summed = math.prod(n for i, n in enumerate(sizes) if i not in subset)
        energies[sum(1 << i for i in subset)] = value * rank * summed
    return energies


def projected(dense, sizes):
    """tr(P_s WᵀW) by explicit projectors."""
    gram = dense.T @ dense
    count = 2 ** len(sizes)
    return [np.trace(ref.anova(sizes, row) @ gram) for row in np.eye(count)]


@given(workloads())
def test_energies_equal_explicit_projections(problem):
    workload, dense, sizes = problem
    energies = energies_of(workload, sizes)
    wanted = projected(dense, sizes)
    np.testing.assert_allclose(energies, wanted, rtol=1e-9, atol=1e-9 * np.sum(wanted))
    assert (energies >= 0).all()
    doubled = energies_of(mm.Scaled(-2, workload), sizes)
    np.testing.assert_allclose(doubled, 4 * energies)


@pytest.mark.parametrize(
    "workload",
    [
        mm.Prefix(6),
        mm.Marginals((3, 2), {(0,): 1}),  # products of factors, not of the lattice
        mm.Dense(np.ones((1, 6))),
        mm.Kronecker([mm.Prefix(3), mm.Prefix(2)]),  # another domain of as many cells
        mm.Conjunctions([np.ones((1, 3), bool), np.ones((1, 2), bool)]),
        mm.Ranges((6,), [[0]], [[2]]),
        mm.PartitionStack([[0, 0, 0, 1, 1, 1]], [2]),
        mm.PartitionStack([[0, 0, 0, 1, 1, 1]], [2], (3, 2)),
        mm.PartitionStack([[0, 1, 1, 0, 0, 1]], [2], (2, 3)),  # no boxes
        mm.VStack([mm.Identity(6), mm.Prefix(6)]),
        mm.Scaled(2, mm.Prefix(6)),
    ],
    ids=str,
)
def test_energies_out_of_reach(workload):
    assert energies_of(workload, (2, 3)) is None


@pytest.mark.parametrize(
    "workload",
    [mm.Marginal((3, 2), [0]), mm.VStack([mm.Marginal((3, 2), [0]), mm.Total(6)])],
    ids=str,
)
def test_tables_of_another_domain_are_not_taken_for_those_of_the_strategy(workload):
    strategy = mm.Residuals((2, 3), {(): 1, (0,): 1, (1,): 1, (0, 1): 1})
    wanted = mm.loss(mm.Dense(workload.to_dense()), mm.Dense(strategy.to_dense()))
    assert mm.loss(workload, strategy) == pytest.approx(wanted)
    few = mm.Marginals((2, 3), {(0,): 1, (1,): 1})
    with pytest.raises(mm.UnsupportedWorkloadError, match="cannot answer"):
        mm.loss(workload, few)


def test_equal_entries_have_no_energy_by_rounding():
    workload = mm.Kronecker([mm.Dense(np.full((3, 3), 0.1)), mm.Prefix(4)])
    energies = energies_of(workload, (3, 4))
    assert energies[0b01] == energies[0b11] == 0
    result = search(workload)
    assert result.loss <= 3 * 0.03 * 10 * (1 + 1e-9)
    assert all(0 not in key for key in result.strategy.weights)


def test_energies_without_the_domain():
    shape = (10,) * 20
    boxes = mm.Conjunctions([np.ones((1, 10), bool)] * 20)
    energies = energies_of(boxes, shape)
    assert energies[0] == pytest.approx(1e20)
    assert (energies[1:] == 0).all()


def test_partitions_without_boxes_take_other_templates():
    halves = mm.PartitionStack([[0, 1, 1, 0] * 2], [2], (2, 2, 2))  # merge to two cells
    assert mm.optimize(halves, seed=0).template == "identity"


# ------------------------------------------------------------------ loss and guarantees


@given(workloads())
def test_the_loss_is_that_of_the_strategy(problem):
    workload, dense, sizes = problem
    result = search(workload, max_evaluations=300)
    assert isinstance(result.strategy, mm.Marginals)
    assert result.strategy.domain_shape == sizes
    measured = result.strategy.to_dense()
    assert ref.supported(dense, measured)
    assert mm.supports(workload, result.strategy)
    wanted = ref.loss(dense, measured)
    assert result.loss == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    if dense.any():
        assert mm.loss(workload, result.strategy) == pytest.approx(wanted, rel=1e-9)
    # Never worse than the single table over all attributes, and so the identity.
    assert result.loss <= np.square(dense).sum() * (1 + 1e-9)


@given(workloads())
def test_never_worse_than_the_marginals_that_are_asked(problem):
    workload, _, sizes = problem
    energies = energies_of(workload, sizes)
    active = np.flatnonzero(energies > 1e-12 * energies.sum())
    finest = [s for s in active if not any((t & s) == s and t != s for t in active)]
    tables = mm.Marginals(
        sizes,
        {tuple(i for i in range(len(sizes)) if s >> i & 1): 1.0 for s in finest}
        or {(): 1.0},
    )
    result = search(workload, max_evaluations=300)
    assert result.loss <= mm.loss(workload, tables) * (1 + 1e-9)
    union = sorted({i for s in finest for i in range(len(sizes)) if s >> i & 1})
    table = mm.Marginals(sizes, {tuple(union): 1.0})
    assert result.loss <= mm.loss(workload, table) * (1 + 1e-9)


def test_one_table_is_answered_by_itself(seed):
    for key in [(0,), (1, 2), (0, 1, 2)]:
        workload = mm.Marginal((3, 4, 2), key)
        result = search(workload, seed=seed)
        assert result.loss == pytest.approx(workload.shape[0])
        assert [k for k, w in result.strategy.weights.items() if w > 1e-6] == [key]


def test_the_attributes_that_nobody_asks_about_are_summed(seed):
    workload = mm.Kronecker([mm.Total(50), mm.Prefix(4), mm.Total(30)])
    result = search(workload, seed=seed)
    assert all(set(key) <= {1} for key in result.strategy.weights)
    assert result.loss <= 10 * (1 + 1e-9)


# ------------------------------------------------------------------ published targets

# (attributes, order, target): what general-purpose optimizers reach is 16 to 96 %
# higher (19695, 8569, 14133 and 1.318e8).
TARGETS = [
    ((3,) * 7, 2, 16906),  # the seven lines of the Fano plane
    ((2,) * 8, 2, 5750),
    ((4, 4, 4, 3, 3, 3), 2, 12780),  # four triples and three pairs
    ((10,) * 8, 3, 1.079e8),  # the Steiner system S(3, 4, 8)
]


@cache
def designed(sizes, order):
    workload = mm.all_marginals(sizes, order, lower_orders=order == 3)
    return marginals_strategy(workload, max_evaluations=20_000, seed=0)


@pytest.mark.by_day(2)
@compiled
@pytest.mark.parametrize(("sizes", "order", "target"), TARGETS, ids=str)
def test_known_designs(sizes, order, target):
    result = designed(sizes, order)
    assert result.loss <= target
    d = len(sizes)
    covered = [set(key) for key, w in result.strategy.weights.items() if w > 1e-6]
    for needed in itertools.combinations(range(d), order):
        assert any(set(needed) <= block for block in covered)


@compiled
def test_the_fano_plane():
    weights = designed((3,) * 7, 2).strategy.weights
    assert len(weights) == 7
    assert list(weights.values()) == pytest.approx([1 / 7] * 7)
    for i, j in itertools.combinations(range(7), 2):
        assert sum({i, j} <= set(key) for key in weights) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4])  # 4 once missed the Fano plane
@pytest.mark.parametrize(
    ("sizes", "order", "target"), [*TARGETS, ((2,) * 10, 2, 20400)], ids=str
)
def test_known_designs_with_every_seed(sizes, order, target, seed):
    workload = mm.all_marginals(sizes, order, lower_orders=order == 3)
    result = marginals_strategy(workload, seed=seed)
    assert result.loss <= target


@pytest.mark.slow
def test_three_way_marginals_of_unequal_attributes():
    # The reference optimizer's best restart has a root mean squared error of 159.3.
    sizes = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
    workload = mm.all_marginals(sizes, 3, lower_orders=True)
    result = marginals_strategy(workload, seed=0)
    assert mm.rmse(workload, result.strategy, epsilon=np.sqrt(2)) <= 159


def car_forest(seed, depth=2):
    schema = datasets.load_car().schema
    return training_workload(grow_random_forest(schema, 128, depth, seed=seed))


@pytest.mark.by_day(1)
@compiled
@pytest.mark.parametrize(("sizes", "depth"), [((4, 3, 5), 2), ((3, 4, 2, 3), 3)])
def test_few_attributes_need_little_work(sizes, depth):
    """What "auto" spends on a forest finds what a hundred thousand evaluations do."""
    workload = training_workload(grow_random_forest(sizes, 64, depth, seed=0))
    at_length = marginals_strategy(workload, max_evaluations=100_000, seed=0)
    assert mm.optimize(workload, seed=0).loss <= at_length.loss * (1 + 1e-9)
    assert marginals_strategy(workload, seed=0).loss <= at_length.loss * (1 + 1e-9)


@compiled
def test_shallow_trees():
    result = marginals_strategy(car_forest(0), max_evaluations=20_000, seed=0)
    assert result.loss <= 1.165e5  # the identity has 221184
    assert result.loss == pytest.approx(mm.loss(car_forest(0), result.strategy))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_shallow_trees_of_every_seed(seed):
    assert marginals_strategy(car_forest(seed), seed=seed).loss <= 1.165e5


@pytest.mark.slow
@pytest.mark.parametrize("depth", [3, 4, 5])
def test_deep_trees_are_not_worse_than_the_identity(depth):
    assert marginals_strategy(car_forest(0, depth), seed=0).loss <= 221184 * (1 + 1e-9)


# ------------------------------------------------------------------ errors


def test_attribute_sizes_that_a_workload_knows():
    forest = mm.PartitionStack([[0, 0, 0, 1, 1, 1]], [2], (2, 3))
    for workload in (
        forest,
        mm.Scaled(2, forest),
        mm.VStack([forest, mm.Kronecker([mm.Prefix(2), mm.Prefix(3)])]),
        mm.Dense(np.ones((4, 2))) @ forest,
        mm.Ranges((2, 3), [[0, 1]], [[0, 2]]),
        mm.Marginal((2, 3), [1]),
    ):
        assert normal_form(workload).domain_shape == (2, 3)
    for unknown in (mm.Identity(6), mm.VStack([forest, mm.Prefix(6)])):
        assert normal_form(unknown).domain_shape is None


def test_a_list_of_marginals_has_weights_of_one():
    listed = mm.Marginals((2, 3), [(0,), (1, 0), 1])
    assert listed.weights == {(0,): 1, (0, 1): 1, (1,): 1}


@pytest.mark.parametrize("privacy", ["pure", "zcdp"])
def test_a_small_energy_that_is_measured_weakly_is_counted(privacy):
    """It is small beside what is asked, and not beside what its precision makes of it.

    Strategies share weights among marginals by roots of their energies.
    """
    workload = mm.Marginals((8, 8), {(): 1e4, (0,): 1.0, (0, 1): 1e-3})
    strategy = mm.Marginals((8, 8), {(): 1.0, (0,): 1.0, (0, 1): 1e-4})
    found = mm.loss(workload, strategy, privacy=privacy)
    exact = ref.loss(workload.to_dense(), strategy.to_dense(), NORMS[privacy])
    assert found == pytest.approx(exact, rel=1e-8)
