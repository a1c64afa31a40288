"""One table of methods serves the package, comparisons and commands."""

import inspect
import re
from functools import cache

import pytest
from rf_cases import SCHEMA, records

import mmech_rf
from mmech_rf import evaluation
from mmech_rf.evaluation import METHODS, Records, evaluate, make_methods
from mmech_rf.methods import ESTIMATORS

SMALL = {"n_trees": 2, "depth": 1}


def small_records():
    X, y = records(60)
    return Records("toy", X, y, SCHEMA)


@pytest.mark.parametrize("name", METHODS)
def test_a_row_makes_a_classifier_that_takes_its_options(name):
    method = METHODS[name]
    budget = {"epsilon": 1} if method.is_private else {}
    model = method.make(SCHEMA, random_state=0, **budget)
    assert {*method.options, *method.parameters} <= model.get_params().keys()
    if method.estimator in ESTIMATORS:
        assert type(model) is getattr(mmech_rf, method.estimator)
        taken = inspect.signature(type(model)).parameters
        for option, value in method.parameters.items():
            assert option == "data" or taken[option].default == value


def test_every_public_classifier_has_a_row():
    public = {name for name in mmech_rf.__all__ if name.endswith("Classifier")}
    assert public == ESTIMATORS.keys()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_docstring_holds_every_parameter_with_its_default(name):
    """Texts are shared, and filled in for each class."""
    cls = getattr(mmech_rf, name)
    sections = re.split(r"\n\n(?=\w+\n-+\n)", cls.__doc__)
    (text,) = (part for part in sections if part.startswith("Parameters\n"))
    entries = re.findall(r"^(\w[\w, ]*) : (.+)$", text, re.MULTILINE)
    types = {one: kind for names, kind in entries for one in names.split(", ")}
    parameters = inspect.signature(cls).parameters
    assert types.keys() == parameters.keys()
    for own, parameter in parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            default = str(parameter.default)
            assert types[own].split("default=")[1].strip('"') == default
    assert "$" not in cls.__doc__


@cache
def all_compared():
    """Return trials of all methods at two budgets."""
    return evaluate(small_records(), make_methods(**SMALL), [1, 4], repeats=1)


def test_every_method_is_compared():
    found = all_compared()
    assert not found.skipped
    tested = {(trial.method.name, trial.epsilon) for trial in found.trials}
    for name, method in METHODS.items():
        budgets = [1, 4] if method.is_private else [None]
        assert {epsilon for known, epsilon in tested if known == name} == {*budgets}


def test_a_method_that_has_no_use_for_a_budget_is_left_out_there_alone():
    methods = make_methods(["private", "laplace"], n_trees=3, depth=2)
    found = evaluate(small_records(), methods, ["1e-6", 1], repeats=1)
    assert "to draw trees" in str(found.skipped["private forest"])
    assert [(t.method.name, float(t.epsilon)) for t in found.trials] == [
        ("private", 1.0),
        ("laplace", 1e-6),
        ("laplace", 1.0),
    ]
    *_, private, _ = evaluation.accuracy_table(found.trials).splitlines()
    assert private.split()[4] == "-"


def test_recall_is_by_class_at_the_largest_budget():
    records = small_records()
    found = evaluate(records, make_methods(["private", "majority"]), [1, 40], repeats=2)
    for trial in found.trials:
        if trial.method.name == "majority":
            assert sorted(trial.recalls)[-1] == 1
            assert sum(trial.recalls) == 1
    classes = records.schema.class_labels
    head, private, _ = evaluation.recall_table(found.trials, classes).splitlines()
    assert head.split()[-len(classes) :] == [*map(str, classes)]
    assert "ε = 40" in private
