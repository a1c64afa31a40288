"""T, QTᵀT and QTᵀ against plain loops over paths, cells and queries."""

import hypothesis.strategies as st
import numpy as np
import pytest
import rf_reference
from hypothesis import given, settings

import mmech_rf as rf
from mmech import Conjunctions, PartitionStack, optimize
from mmech.structure import spectrum
from mmech.testing import assert_query_matrix
from mmech_rf.limits import LIMITS

FORMS = pytest.mark.parametrize(
    ("form", "limit"), [(PartitionStack, LIMITS.stored_labels), (Conjunctions, 0)]
)


@st.composite
def forests_with_queries(draw):
    forest = draw(rf_reference.forests(3))
    query = st.tuples(*(st.integers(0, size - 1) for size in forest.domain_shape))
    return forest, np.array(draw(st.lists(query, min_size=1, max_size=5)))


def dense_training(forest):
    cells = rf_reference.cells(forest.domain_shape)
    return rf_reference.inside(forest, cells).astype(int)


def dense_aggregation(forest, queries):
    return rf_reference.inside(forest, queries).T.astype(int)


def compiled(form, limit, build, *arguments):
    """Build a workload with T in one of its two forms."""
    with rf.limits.changed(stored_labels=limit):
        workload = build(*arguments)
    leaves = workload if build is rf.training_workload else workload.factors[-1]
    assert isinstance(leaves, form)
    return workload


# In two forms, and of many checks each.
FEWER = settings(max_examples=settings.default.max_examples // 3)


@FORMS
@FEWER
@given(case=forests_with_queries())
def test_training_workload_is_the_table_of_paths(form, limit, case):
    forest, _ = case
    T = compiled(form, limit, rf.training_workload, forest)
    assert_query_matrix(T, dense_training(forest))
    assert T.sensitivity() == forest.n_trees


@FEWER
@given(case=forests_with_queries())
def test_aggregation_workload_is_the_table_of_visits(case):
    assert_query_matrix(rf.aggregation_workload(*case), dense_aggregation(*case))


@FORMS
@FEWER
@given(case=forests_with_queries())
def test_prediction_workload_counts_shared_leaves(form, limit, case):
    forest, queries = case
    workload = compiled(form, limit, rf.prediction_workload, forest, queries)
    shared = dense_aggregation(forest, queries) @ dense_training(forest)
    assert_query_matrix(workload, shared)
    product = rf.aggregation_workload(forest, queries) @ rf.training_workload(forest)
    np.testing.assert_array_equal(workload.to_dense(), product.to_dense())


def test_repeated_queries_stay_apart():
    forest = rf.grow_random_forest((3, 2), n_trees=2, depth=1, seed=0)
    once = rf.aggregation_workload(forest, [[0, 1]]).to_dense()
    twice = rf.aggregation_workload(forest, [[0, 1], [0, 1]]).to_dense()
    np.testing.assert_array_equal(twice, np.vstack([once, once]))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("depth", [1, 2])
def test_shallow_forests_are_searched_in_a_hurry(depth):
    """A fit waits for few evaluations of marginals, and for no rank of its leaves."""
    forest = rf.grow_random_forest(rf.datasets.load_car().schema, 128, depth, seed=0)
    found = optimize(rf.training_workload(forest))
    assert found.template == "marginals"
    assert found.n_iter < 25_000
    notes = {candidate.template: candidate.note for candidate in found.candidates}
    assert notes["workload"].startswith("pruned")


def test_queries_of_shallow_forests_are_answered_by_marginals(monkeypatch):
    """Their spectrum is one number by entries and by tables of leaves."""
    car = rf.datasets.load_car()
    forest = rf.grow_random_forest(car.schema, 64, 1, seed=0)
    workload = rf.prediction_workload(forest, car.schema.encode(car.data[:99]))
    found = optimize(workload)
    losses = {candidate.template: candidate.loss for candidate in found.candidates}
    assert found.template == "marginals"
    assert losses["identity"] > 9 * found.loss
    sizes, spectra = forest.domain_shape, []
    for visits in (0, np.inf):
        monkeypatch.setattr(spectrum, "BOX_VISITS", visits)
        again = rf.prediction_workload(forest, car.schema.encode(car.data[:99]))
        spectra.append(spectrum.mean_spectrum(again, sizes))
    assert spectra[0] == pytest.approx(spectra[1])


def test_equal_forests_are_searched_once(monkeypatch):
    """By classifiers of equal workloads; another template, or limit, searches again."""
    searched = []
    module = "mmech_rf.paper.grown"
    monkeypatch.setattr(f"{module}._known", {})

    def search(workload, **options):
        searched.append(options["template"])
        return optimize(workload, **options)

    monkeypatch.setattr(f"{module}.optimize", search)
    car = rf.datasets.load_car()
    for template, seed in (("auto", 0), ("auto", 0), ("auto", 1), ("identity", 1)):
        model = rf.BatchTrainingClassifier(
            car.schema, epsilon=1, n_trees=2, template=template, random_state=seed
        )
        model.fit(car.data[:20], car.target[:20])
    assert searched == ["auto", "auto", "identity"]
