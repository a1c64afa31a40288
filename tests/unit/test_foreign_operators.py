"""An operator of another package: every question is answered, or refused in words."""

import inspect
import pkgutil
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest

import mmech
import mmech as mm
from mmech.error.bounds import cheap_loss_bound
from mmech.error.rules import known_gain
from mmech.integer_strategy import integer_strategy
from mmech.marginals.records import OccupiedCells, exact_answers
from mmech.operators.algebra import scale_rows
from mmech.operators.explicit import Dense
from mmech.operators.known import (
    has_full_column_rank,
    norm_bounds,
    normal_form,
)
from mmech.operators.pinv import preconditioner
from mmech.reconstruction import least_squares
from mmech.reduction.cells import merge_rows, restrict_columns
from mmech.structure.blocks import block_energies
from mmech.structure.shape import (
    frobenius_squared,
    measured_loss_bound,
    rank,
    squared_singular_values,
    unscaled,
)
from mmech.structure.spectrum import (
    answers_by_marginals,
    box_groups,
    is_uniform,
    marginal_terms,
    mean_spectrum,
    query_spectra,
)

SHAPE = (2, 3)


@dataclass(frozen=True, eq=False, repr=False)
class Neighbours(mm.QueryMatrix):
    """Sums of every cell and the next one, and the first cell."""

    n: int = 6

    @property
    def shape(self):
        return (self.n, self.n)

    def _matmat(self, x):
        return x + np.concatenate([np.zeros_like(x[:1]), x[:-1]])

    def _rmatmat(self, y):
        return y + np.concatenate([y[1:], np.zeros_like(y[:1])])


@pytest.fixture
def foreign():
    """Return an operator of a class of its own, and the same as a matrix."""
    kind = type("Foreign", (Neighbours,), {})
    return kind(6), Dense(Neighbours(6).to_dense())


NOT_KNOWN = {
    "products of attributes": lambda a: normal_form(a).products,
    "a union of marginals": marginal_terms,
    "attributes": lambda a: normal_form(a).domain_shape,
    "interactions": lambda a: mean_spectrum(a, SHAPE),
    "interactions of every query": lambda a: query_spectra(a, SHAPE),
    "boxes": lambda a: box_groups(a, SHAPE),
    "answers from marginals": lambda a: answers_by_marginals(a, SHAPE, None),
    "bounds on norms": norm_bounds,
    "a preconditioner": preconditioner,
}

EXPLICIT = {
    "rank": rank,
    "singular values": lambda a: np.sort(squared_singular_values(a)),
    "squared entries": frobenius_squared,
    "loss of its own rows": measured_loss_bound,
    "energies of blocks": lambda a: block_energies(a).of_segments([0, 2, 6]),
    "bound by singular values": lambda a: mm.svd_bound(a, epsilon=1),
    "dual bound": lambda a: mm.dual_bound(a, epsilon=1).bound,
    "bound at no cost": lambda a: cheap_loss_bound(a)[0],
    "columns": lambda a: restrict_columns(a, np.array([0, 3])).to_dense(),
    "merged rows": lambda a: merge_rows(a).to_dense(),
    "merged cells": lambda a: mm.reduce_domain(a)[1],
    "scaled rows": lambda a: scale_rows(a, np.arange(1.0, 7)).to_dense(),
    "integer rows": lambda a: integer_strategy(a).blocks[0].matrix.to_dense(),
    "gain of the cells": lambda a: mm.loss(a, mm.Identity(6)),
    "gain of its rows": lambda a: mm.expected_error(mm.Prefix(6), a, epsilon=1),
    "error of every query": lambda a: mm.per_query_error(mm.Prefix(6), a, rho=1),
    "gain of products": lambda a: mm.loss(mm.Kronecker([a, mm.Identity(2)]),
        mm.Kronecker([a, mm.Prefix(2)])),
    "support": lambda a: (mm.supports(mm.Prefix(6), a), mm.supports(a, mm.Prefix(6))),
    "a report": lambda a: mm.report(mm.Prefix(6), a, epsilon=1).rmse,
    "answers from records": lambda a: exact_answers(a,
        OccupiedCells.of(mm.Counts([[0, 1], [1, 2], [1, 2]], SHAPE), 6)),
    "estimates": lambda a: least_squares(a, np.arange(6.0)),
    "a release": lambda a: mm.MatrixMechanism(mm.Prefix(6), a, epsilon=1,
        insecure_rng=np.random.default_rng(0)).answer([5, 3, 0, 2, 1, 4]),
    "a stack": lambda a: mm.loss(mm.VStack([a, 2 * a]), mm.VStack([a, mm.Identity(6)])),
}  # fmt: skip


@pytest.mark.parametrize("ask", NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_structure_is_not_known(foreign, ask):
    assert ask(foreign[0]) is None


@pytest.mark.filterwarnings("ignore::mmech.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("ask", EXPLICIT.values(), ids=EXPLICIT)
def test_answers_are_those_of_the_explicit_matrix(foreign, ask):
    operator, matrix = foreign
    np.testing.assert_allclose(ask(operator), ask(matrix), rtol=1e-9, atol=1e-12)


def test_nothing_is_claimed(foreign):
    operator, _ = foreign
    assert not has_full_column_rank(operator)
    assert not is_uniform(operator)
    assert normal_form(operator).blocks == ((1, operator),)
    assert unscaled(operator) is operator


def test_refusals_say_what_to_do(foreign):
    operator, _ = foreign
    with pytest.raises(mm.UnsupportedWorkloadError, match="add rows such as Identity"):
        mm.loss(mm.Identity(6), restrict_rows(operator))
    large = type(operator)(2**20)
    with pytest.raises(mm.DomainTooLargeError, match="combine structured operators"):
        large.column_square_sums()
    with pytest.raises(mm.DomainTooLargeError, match="need a dense matrix"):
        squared_singular_values(large)


def test_norms_that_it_knows_are_used_where_it_is_a_part(foreign):
    kind = type(foreign[0])

    class Known(kind):
        def column_abs_sums(self):
            return np.full(self.n, 2.0)

    large = Known(2**20)  # whose entries nothing else could visit
    assert mm.VStack([large, -2 * large]).sensitivity() == 6
    assert mm.Kronecker([large, mm.Total(3)]).column_abs_sums().size == 3 * 2**20
    assert (large.T.row_abs_sums() == 2).all()
    with pytest.raises(mm.DomainTooLargeError):
        mm.VStack([large, large]).column_square_sums()


def restrict_rows(operator):
    """Return an operator that measures the first rows of another one."""
    return Dense(np.eye(3, operator.shape[0])) @ operator


def test_a_rule_that_is_registered_is_asked(foreign, monkeypatch):
    operator, matrix = foreign
    wanted = mm.loss(mm.Prefix(6), matrix)

    has_full_column_rank.register(type(operator))(lambda strategy: True)
    assert rank(operator) == 6
    assert rank(mm.VStack([operator, operator])) == 6
    with monkeypatch.context() as patch:
        patch.setattr(known_gain, "_rules", known_gain._rules.copy())
        known_gain.rule(type(operator))(lambda workload, strategy: 7.0)
        assert mm.loss(mm.Prefix(6), operator) == 7.0 * operator.sensitivity() ** 2
        assert (
            mm.loss(mm.Prefix(6), 0.5 * operator) == 7.0 * operator.sensitivity() ** 2
        )
    assert mm.loss(mm.Prefix(6), operator) == pytest.approx(wanted)


def questions():
    """Return the open questions of the engine by their full names."""
    found = {}
    for module in pkgutil.walk_packages(mmech.__path__, "mmech."):
        if not module.name.endswith("__main__"):
            for name, value in vars(import_module(module.name)).items():
                if hasattr(value, "registry") and hasattr(value, "dispatch"):
                    found[f"{value.__module__}.{name}"] = value
    return found


def test_every_question_has_an_answer_for_classes_without_a_rule(foreign):
    open_questions = questions()
    # Not a question but a conversion, of what people have to operators.
    del open_questions["mmech.operators.explicit.as_query_matrix"]
    assert "mmech.operators.known.has_full_column_rank" in open_questions
    for name, question in open_questions.items():
        default = question.registry[object]
        assert question.dispatch(type(foreign[0])) is default, name
        assert len(inspect.getsource(default).splitlines()) > 1, name
        assert len(question.registry) > 1, f"{name} has no rule"
