"""What people have is taken: arrays, sparse matrices and results, in every function."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from refusals import refused

import mmech
import mmech as mm
from mmech.error.result import StrategyResult
from mmech.reconstruction import least_squares, nonnegative

QUERIES = np.tril(np.ones((4, 4), np.int64))
MEASURED = np.vstack([np.eye(4, dtype=np.int64), np.ones((1, 4), np.int64)])
TABLES = mm.Marginals((2, 2), {(0,): 1, (1,): 1})


def answered(workload, strategy):
    mechanism = mm.MatrixMechanism(workload, strategy, epsilon=1)
    return np.vstack([mechanism.workload.to_dense(), mechanism.strategy.to_dense()])


def saved(strategy, folder):
    mm.save(folder / "strategy.mmech", strategy)
    found = mmech.load(folder / "strategy.mmech")
    return getattr(found, "strategy", found).to_dense()


PAIRS = {
    "MatrixMechanism": answered,
    "expected_error": lambda w, a: mm.expected_error(w, a, epsilon=1),
    "loss": mm.loss,
    "per_query_error": lambda w, a: mm.per_query_error(w, a, epsilon=1),
    "report": lambda w, a: mm.report(w, a, epsilon=1).expected_error,
    "rmse": lambda w, a: mm.rmse(w, a, epsilon=1),
    "supports": mm.supports,
}
"""Public functions of a workload and a strategy."""

WORKLOADS = {
    "dual_bound": lambda w: mm.dual_bound(w, epsilon=1).bound,
    "optimize": lambda w: mm.optimize(w, seed=0).loss,
    "reduce_domain": lambda w: mm.reduce_domain(w)[1],
    "svd_bound": lambda w: mm.svd_bound(w, epsilon=1),
}
"""Public functions of a workload."""

STRATEGIES = {
    "least_squares": lambda a: least_squares(a, np.arange(5.0)),
    "nonnegative": lambda a: nonnegative(a, np.arange(5.0)),
}
"""Functions of a strategy."""

STRUCTURED = {
    "MarginalEstimate": lambda a: mm.MarginalEstimate(a, [1, 2, 3, 4]).marginal([0])
}
"""Public functions of strategies of one kind."""

ELSEWHERE = {"StrategyResult", "Stream", "TablePlan", "save"}
"""Tested below: the result itself, and what takes no matrix of numbers or writes. A
stream takes some workloads only, tested with it."""


def result_of(workload, strategy, norm="L1"):
    own = [
        mm.Dense(part) if isinstance(part, np.ndarray) else part for part in strategy
    ]
    return StrategyResult(own[0], "given", 1.0, workload=workload, norm=norm)


def kinds(matrix, result):
    """Return a matrix in every form that is taken."""
    return [
        matrix,
        matrix.astype(float),
        sp.csr_array(matrix),
        sp.coo_matrix(matrix),
        mm.Sparse(sp.csr_array(matrix)),
        result,
    ]


RESULT = result_of(mm.Dense(QUERIES), [MEASURED])
FORMS = list(zip(kinds(QUERIES, RESULT), kinds(MEASURED, RESULT), strict=True))


def test_every_function_that_takes_a_matrix_is_in_a_table():
    def takes(value):
        if inspect.isclass(value) and issubclass(value, Exception):
            return False
        names = inspect.signature(value).parameters.keys()
        return bool(names & {"workload", "strategy"})

    found = {name for name in mmech.__all__ if takes(getattr(mmech, name))}
    tables = PAIRS.keys() | WORKLOADS.keys() | STRUCTURED.keys() | ELSEWHERE
    assert found == tables


@pytest.mark.parametrize(("workload", "strategy"), FORMS)
@pytest.mark.parametrize("function", PAIRS.values(), ids=PAIRS)
def test_pairs_of_any_form(function, workload, strategy):
    wanted = function(mm.Dense(QUERIES), mm.Dense(MEASURED))
    np.testing.assert_allclose(function(workload, strategy), wanted, rtol=1e-9)


@pytest.mark.by_day(9)
@pytest.mark.parametrize("form", range(len(FORMS)))
@pytest.mark.parametrize("name", [*WORKLOADS, *STRATEGIES])
def test_matrices_of_any_form(name, form):
    side = int(name in STRATEGIES)
    function = (WORKLOADS | STRATEGIES)[name]
    wanted = function(mm.Dense([QUERIES, MEASURED][side]))
    np.testing.assert_allclose(function(FORMS[form][side]), wanted, 1e-9, 1e-9)


def test_estimates_take_results():
    given, estimate = (
        result_of(TABLES, [TABLES]),
        mm.MarginalEstimate(TABLES, [1, 2, 2, 1]),
    )
    np.testing.assert_array_equal(estimate.answer(given), estimate.answer(TABLES))
    for function in STRUCTURED.values():
        np.testing.assert_array_equal(function(given), function(TABLES))


@pytest.mark.parametrize("strategy", [pair[1] for pair in FORMS])
def test_matrices_are_saved(strategy, tmp_path):
    assert np.array_equal(saved(strategy, tmp_path), MEASURED)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_operators_are_made_of_matrices(form):
    a, b = np.array([[1, 2], [0, 3]]), np.array([[1, 0], [4, 1]])
    wanted = {
        "VStack": (mm.VStack([form(a), b]), np.vstack([a, b])),
        "Kronecker": (mm.Kronecker([form(a), b]), np.kron(a, b)),
        "Product": (mm.Product(form(a), b), a @ b),
        "Sum": (mm.Sum([form(a), b]), a + b),
        "Scaled": (mm.Scaled(3, form(a)), 3 * a),
        "Merged": (mm.Merged(form(a), [0, 1, 1]), a[:, [0, 1, 1]]),
    }
    for name, (operator, matrix) in wanted.items():
        assert np.array_equal(operator.to_dense(), matrix), name


NOT_MATRICES = [[[1, 0], [0, 1]], "prefix", 4, None, SimpleNamespace(shape=(2, 2))]
FUNCTIONS = {
    **{name: lambda w, f=f: f(w, mm.Prefix(4)) for name, f in PAIRS.items()},
    **WORKLOADS,
    **STRATEGIES,
    **STRUCTURED,
    "save": lambda a: mm.save("never written", a),
    "VStack": lambda a: mm.VStack([a]),
    "Scaled": lambda a: mm.Scaled(2, a),
    "Merged": lambda a: mm.Merged(a, [0, 1]),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_other_things_are_refused_in_words(function):
    needed = "must be a query matrix, a two-dimensional array .* got"
    for value in NOT_MATRICES:
        words = f"{needed} {type(value).__name__}; wrap"
        refused(lambda value=value: function(value), words, TypeError)


def test_a_result_is_all_that_a_mechanism_needs():
    mechanism = mm.MatrixMechanism(RESULT, epsilon=1)
    assert np.array_equal(mechanism.workload.to_dense(), QUERIES)
    assert np.array_equal(mechanism.strategy.to_dense(), MEASURED)


def test_the_bound_of_a_report_is_one_on_the_expected_error():
    found = mm.report(QUERIES, MEASURED, epsilon=0.5)
    best = mm.dual_bound(QUERIES, epsilon=0.5, tolerance=1e-6)
    assert mm.svd_bound(QUERIES, epsilon=0.5) <= found.bound * (1 + 1e-9)
    assert found.bound <= best.bound * (1 + best.gap)
    assert found.bound_ratio == pytest.approx(found.expected_error / found.bound)
