"""Strategies, errors, measurements and answers over more attributes than a lattice."""

import itertools
import math

import numba
import numpy as np
import pytest
import reference as ref

import mmech as mm
from mmech.marginals.records import OccupiedCells, exact_answers
from mmech.structure.spectrum import mean_spectrum, query_spectra
from mmech_rf import grow_random_forest, prediction_workload, training_workload

compiled = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="long searches need compiled kernels"
)

SHAPE = (2, 3, 1, 4)
"""A small domain with an attribute of a single value."""

QUICK = {"max_work": 10**6, "n_starts": 1, "seed": 0}


def boxes(rng, shape=SHAPE, rows=6):
    """Random boxes: some attributes free, none empty."""
    masks = [rng.random((rows, n)) < 0.6 for n in shape]
    for mask in masks:
        mask[rng.random(rows) < 0.4] = True
        mask[~mask.any(axis=1), 0] = True
    return mm.Conjunctions(masks)


def small_workloads(rng):
    """Every kind of workload that has a sparse spectrum, over SHAPE."""
    box = boxes(rng)
    return [
        box,
        mm.Product(mm.Dense(rng.normal(size=(3, box.shape[0]))), box),
        mm.Ranges(SHAPE, [[0, 1, 0, 1], [1, 0, 0, 0]], [[1, 2, 0, 2], [1, 2, 0, 3]]),
        mm.Kronecker([mm.Prefix(2), mm.AllRange(3), mm.Identity(1), mm.Total(4)]),
        mm.Kronecker(
            [mm.Dense([[1.5, -1.0]]), mm.Identity(3), mm.Total(1), mm.Total(4)]
        ),
        mm.Marginals(SHAPE, {(0, 1): 2, (2, 3): -0.5, (): 1}),
        mm.VStack(
            [
                mm.Scaled(-3, box),
                mm.Marginal(SHAPE, [1, 3]),
                mm.Identity(24),
                mm.Total(24),
            ]
        ),
    ]


def full_strategy(rng):
    """Marginals with weights of any sign that overlap and support everything."""
    weights = {(0, 1, 2, 3): 0.3, (0, 1): -0.7, (1, 2): 0.2, (3,): rng.normal(), (): 1}
    return mm.Marginals(SHAPE, weights)


# ------------------------------------------------------------------ spectra and errors


@pytest.mark.parametrize("place", range(7))
def test_errors_equal_the_dense_formulas(place, rng):
    workload, strategy = small_workloads(rng)[place], full_strategy(rng)
    pinv = ref.pinv(strategy.to_dense())
    rows = np.square(workload.to_dense() @ pinv).sum(axis=1)
    rows *= 2 * strategy.sensitivity() ** 2
    found = mm.per_query_error(workload, strategy, epsilon=1)
    np.testing.assert_allclose(found, rows, rtol=1e-9)
    assert mm.expected_error(workload, strategy, epsilon=1) == pytest.approx(rows.sum())
    assert mm.supports(workload, strategy)


def test_sums_of_boxes_that_cancel_ask_for_nothing():
    both = mm.Conjunctions([[[True, False], [False, True]], [[True, True]] * 2])
    total = mm.Product(mm.Dense([[1.0, 1.0]]), both)
    assert set(mean_spectrum(total, (2, 2))) == {()}
    assert mm.supports(total, mm.Marginal((2, 2), []))


def test_a_forest_counts_like_its_labels():
    forest = grow_random_forest((3, 2, 2), n_trees=5, depth=2, seed=1)
    labels, leaves = training_workload(forest), mm.Conjunctions(forest.leaf_masks())
    strategy = mm.all_marginals((3, 2, 2), 2, lower_orders=True)
    assert isinstance(labels, mm.PartitionStack)
    assert mm.loss(labels, strategy) == pytest.approx(mm.loss(leaves, strategy))
    np.testing.assert_allclose(
        mm.per_query_error(labels, strategy, epsilon=1),
        mm.per_query_error(leaves, strategy, epsilon=1),
    )


def test_errors_do_not_depend_on_attributes_that_nobody_asks_for(rng):
    small = mm.Marginals((2, 3), {(0, 1): 0.6, (0,): 0.4})
    box = boxes(rng, (2, 3))
    sizes = (2, 3) + (10,) * 400  # a domain of 6e400 cells, beyond a double
    masks = [*box._masks, *[np.ones((6, 10), np.bool_)] * 400]
    wide, strategy = mm.Conjunctions(masks), mm.Marginals(sizes, small.weights)
    assert mm.loss(wide, strategy) == pytest.approx(mm.loss(box, small))
    np.testing.assert_allclose(
        mm.per_query_error(wide, strategy, epsilon=1),
        mm.per_query_error(box, small, epsilon=1),
    )


def test_the_message_names_what_is_not_measured(rng):
    sizes = (2,) * 30
    workload = mm.all_marginals(sizes, 2)
    strategy = mm.Marginals(sizes, {(0, 1): 1, (2,): 1})
    assert not mm.supports(workload, strategy)
    match = r"asks for the attributes \(3,\) together, which no marginal"
    for call in (
        lambda: mm.loss(workload, strategy),
        lambda: mm.MatrixMechanism(workload, strategy, epsilon=1),
        lambda: mm.rmse(workload, strategy, epsilon=1),
    ):
        with pytest.raises(mm.UnsupportedWorkloadError, match=match):
            call()


def test_queries_over_too_many_attributes_are_refused():
    masks = [[[True, False]]] * 40
    with pytest.raises(mm.DomainTooLargeError, match="ask for queries over fewer"):
        query_spectra(mm.Conjunctions(masks), (2,) * 40)
    with pytest.raises(mm.DomainTooLargeError, match="too many to list"):
        mean_spectrum(mm.Kronecker([mm.Prefix(2)] * 40), (2,) * 40)


def test_the_bound_of_many_attributes_continues_that_of_few():
    few, many = (3,) * 20, (3,) * 21
    bounds = [
        mm.svd_bound(mm.Marginal(sizes, [0, 5]), epsilon=1) for sizes in (few, many)
    ]
    assert bounds[0] == pytest.approx(bounds[1])
    asked = {(0, 1): 1, (1, 2): 1, (): 2}
    dense = np.linalg.svd(mm.Marginals((3, 3, 3), asked).to_dense(), compute_uv=False)
    found = mm.svd_bound(mm.Marginals(many, asked), epsilon=1)
    assert found == pytest.approx(2 * dense.sum() ** 2 / 27, rel=1e-12)
    assert found <= 2 * dense.sum() ** 2 / 27 * (1 + 1e-12)


# ------------------------------------------------------------------ the search


def search(workload, **options):
    return mm.optimize(workload, template="marginals", **(QUICK | options))


def test_blocks_respect_the_cap_unless_asked_for(monkeypatch):
    monkeypatch.setattr("mmech.strategies.marginals.MAX_CELLS", 25)
    workload = mm.Marginals((5,) * 22, {(0, 1, 2): 1, (2, 3): 1, (3, 4): 1})
    result = search(workload)
    blocks = set(result.strategy.weights)
    assert (0, 1, 2) in blocks
    assert all(len(block) <= 2 for block in blocks - {(0, 1, 2)})


def test_auto_searches_marginals_above_twenty_attributes():
    result = mm.optimize(
        mm.all_marginals((2,) * 40, 2), seed=0, max_work=10**6, n_starts=1
    )
    assert result.template == "marginals"
    assert 1 <= result.bound_ratio < math.inf
    notes = {candidate.template: candidate.note for candidate in result.candidates}
    assert "more cells than fit" in notes["identity"]


def test_trivial_and_wrong_requests():
    total = search(mm.Marginal((2,) * 30, []))
    assert total.loss == 1
    assert dict(total.strategy.weights) == {(): 1}


# ------------------------------------------------------------------ records


def strategies(rng):
    """Every operator that is tabulated from records, and two that are not."""
    labels = rng.integers(0, 3, (2, 24))
    labels[:, :3] = np.arange(3)
    return [
        mm.Identity(24),
        mm.Total(24),
        mm.Marginal(SHAPE, [0, 3]),
        mm.Marginals(SHAPE, {(0, 2): 3, (1,): -2, (): 1}),
        full_strategy(rng),
        boxes(rng),
        mm.PartitionStack(labels, [3, 3], SHAPE),
        mm.Partition(labels[0], 3),
        mm.Kronecker([mm.Prefix(2), mm.Identity(3), mm.Identity(1), mm.AllRange(4)]),
        mm.Kronecker([mm.Prefix(6), mm.Total(4)]),
        mm.Scaled(-2, boxes(rng)),
        mm.VStack([mm.Scaled(0.5, mm.Marginal(SHAPE, [1])), boxes(rng)]),
        mm.Sum([mm.Identity(24), mm.Scaled(2, mm.Identity(24))]),
        mm.Merged(mm.Prefix(3), labels[0]),
        mm.Residuals(SHAPE, {(0, 1): 1, (): 2}),
        mm.PIdentity(rng.random((2, 24))),
    ]


def with_classes(codes, classes):
    counts = mm.Counts(np.column_stack([codes, classes]), (*SHAPE, 2))
    return OccupiedCells.of(counts, 24)


@pytest.mark.parametrize("place", range(16))
def test_one_record_adds_exactly_one_column(place, rng):
    strategy = strategies(rng)[place]
    dense = strategy.to_dense()
    base = rng.integers(0, SHAPE, (5, 4))
    classes = rng.integers(0, 2, 5)

    def answers(codes, columns):
        return exact_answers(strategy, with_classes(codes, columns))

    before = answers(base, classes)
    assert before.dtype == strategy.dtype
    for cell, code in enumerate(itertools.product(*map(range, SHAPE))):
        for column in range(2):
            after = answers([*base, code], [*classes, column])
            change = np.zeros_like(before)
            change[:, column] = dense[:, cell]
            np.testing.assert_allclose(after - before, change, rtol=0, atol=1e-12)
            if strategy.dtype == np.int64:
                assert (after - before == change).all()


def test_domains_that_do_not_suit():
    cells = OccupiedCells.of(mm.Counts([[0] * len(SHAPE)], SHAPE), 24)
    with pytest.raises(ValueError, match="both must be the same domain"):
        exact_answers(mm.Marginal((4, 6), [0]), cells)


# ------------------------------------------------------------------ reconstruction


@pytest.mark.parametrize("columns", [(), (2,)])
@pytest.mark.parametrize("kind", [mm.Marginals, mm.Residuals])
def test_estimate_equals_the_pseudoinverse(kind, columns, rng):
    strategy = full_strategy(rng)
    if kind is mm.Residuals:
        strategy = mm.MatrixMechanism(strategy, rho=1).strategy
    values = rng.normal(size=(strategy.shape[0], *columns))
    estimate = mm.MarginalEstimate(strategy, values)
    dense = ref.pinv(strategy.to_dense()) @ values
    np.testing.assert_allclose(estimate.to_dense(), dense, atol=1e-10)
    codes = np.array(list(itertools.product(*map(range, SHAPE))))
    np.testing.assert_allclose(estimate.cells(codes), dense, atol=1e-10)
    table = mm.Marginal(SHAPE, [3, 0]) @ dense
    np.testing.assert_allclose(estimate.marginal([3, 0]), table, atol=1e-10)
    for workload in small_workloads(rng):
        np.testing.assert_allclose(
            estimate.answer(workload), workload.to_dense() @ dense, atol=1e-9
        )


def test_what_was_not_measured_has_least_norm_and_no_table(rng):
    strategy = mm.Marginals(SHAPE, {(0, 1): -2.0, (1, 3): 0.5, (2,): 0.0})
    values = rng.normal(size=strategy.shape[0])
    estimate = mm.MarginalEstimate(strategy, values)
    dense = ref.pinv(strategy.to_dense()) @ values
    np.testing.assert_allclose(estimate.to_dense(), dense, atol=1e-10)
    with pytest.raises(
        mm.UnsupportedWorkloadError, match=r"attributes \(0, 3\) together"
    ):
        estimate.marginal([0, 3])
    with pytest.raises(
        mm.UnsupportedWorkloadError, match="is not answered from marginals"
    ):
        estimate.answer(mm.PIdentity(np.ones((1, 24))))
    with pytest.raises(TypeError, match="is implicit"):
        np.asarray(estimate)


def test_what_cancels_need_not_be_measured(rng):
    halves = mm.Conjunctions([[[True, False], [False, True]], [[True, True]] * 2])
    strategy = mm.Marginal((2, 2), [])
    estimate = mm.MarginalEstimate(strategy, [7.0])
    np.testing.assert_allclose(
        estimate.answer(mm.Product(mm.Dense([[1.0, 1.0]]), halves)), [7.0]
    )
    with pytest.raises(
        mm.UnsupportedWorkloadError, match=r"attributes \(0,\) together"
    ):
        estimate.answer(mm.Product(mm.Dense([[1.0, 0.5]]), halves))


def test_reconstruction_is_lazy_only_where_it_must_be():
    for d, lazy in ((4, False), (30, True)):
        strategy = mm.all_marginals((2,) * d, 1)
        mechanism = mm.MatrixMechanism(strategy, strategy, epsilon=1)
        measurement = mechanism.measure(mm.Counts([[1] * d], (2,) * d))
        estimate = mechanism.reconstruct(measurement)
        assert isinstance(estimate, mm.MarginalEstimate) == lazy
        assert mechanism.answer(mm.Counts([[1] * d], (2,) * d)).shape == (2 * d,)
    with pytest.raises(mm.DomainTooLargeError, match="do not fit in memory"):
        mechanism.reconstruct(measurement, "nonnegative")
    with pytest.raises(mm.DomainTooLargeError, match="ask for fewer"):
        estimate.to_dense()


# ------------------------------------------------------------------ all of it


def run_forest(n_trees, n_attributes, n_records, rng, **options):
    """Return squared errors of answers over what was promised, and the workload."""
    sizes = (2,) * n_attributes
    forest = grow_random_forest(sizes, n_trees, 3, seed=0)
    workload = training_workload(forest)
    assert isinstance(workload, mm.Conjunctions)
    codes = rng.integers(0, 2, (n_records, n_attributes))
    classes = rng.integers(0, 2, n_records)
    records = mm.Counts(np.column_stack([codes, classes]), (*sizes, 2))
    result = mm.optimize(workload, seed=0, **options)
    assert result.template == "marginals"
    mechanism = mm.MatrixMechanism(workload, result, epsilon=1)
    answers = mechanism.answer(records)
    exact = forest.count_leaves(codes, classes, 2)
    return np.square(answers - exact).sum() / (2 * mechanism.expected_error()), forest


@compiled
def test_a_forest_over_forty_attributes_from_records_to_answers(rng):
    ratio, forest = run_forest(40, 40, 500, rng, max_work=10**7, n_starts=1)
    assert 0.7 < ratio < 1.4  # 640 noisy answers, correlated: 1 in the mean
    queries = rng.integers(0, 2, (10, 40))
    batch = prediction_workload(forest, queries)
    result = mm.optimize(batch, seed=0, max_work=10**7, n_starts=1)
    errors = mm.per_query_error(batch, result.strategy, epsilon=1)
    assert errors.sum() == pytest.approx(2 * result.loss)
    mechanism = mm.MatrixMechanism(batch, result, epsilon=1)
    assert mechanism.answer(mm.Counts(queries, (2,) * 40)).shape == (10,)


@compiled
@pytest.mark.slow
def test_a_thousand_trees_over_120_attributes(rng):
    ratio, _ = run_forest(1000, 120, 10_000, rng)
    assert 0.9 < ratio < 1.1


def test_the_search_takes_no_weight_of_zero_along():
    """A block of no weight may be all that is left where another is dropped."""
    workload = mm.Marginals((2, 2), {(0,): 1, (1,): 2, (): 1})
    for seed in (51, 69, 72):
        assert mm.optimize(workload, template="marginals", seed=seed).loss > 0
