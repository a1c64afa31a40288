"""Whatever fails, fails before a charge: no budget is spent without a result."""

import math
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import mmech as mm
import mmech_rf as rf
from mmech.session import Session
from mmech_rf.paper import grown

FORESTS = [
    rf.BatchTrainingClassifier, rf.BatchPredictionClassifier,
    rf.SubsampleAggregateClassifier, rf.LaplaceForestClassifier,
]  # fmt: skip


def schema_of(sizes, n_classes=2):
    attributes = [
        rf.Attribute.categorical(f"a{i}", list(range(size)))
        if i % 3
        else rf.Attribute.numeric(f"a{i}", lower=0, upper=size, n_bins=size)
        for i, size in enumerate(sizes)
    ]
    return rf.Schema(attributes, class_labels=list("abcd"[:n_classes]))


def records_of(schema, n, rng):
    codes = np.stack([rng.integers(0, size, n) for size in schema.domain_shape], 1)
    return codes, rng.choice(list(schema.class_labels), n)


def attempt(step, *arguments):
    """Return the result and what was raised, one of which is ``None``."""
    try:
        return step(*arguments), None
    except Exception as reason:
        return None, reason


def assert_nothing_is_lost(model, schema, rng):
    """Fit and predict; what raises must leave the ledger as it was."""
    X, y = records_of(schema, int(rng.integers(0, 40)), rng)
    queries, _ = records_of(schema, int(rng.integers(1, 6)), rng)
    ledger = model.ledger
    for step, arguments in ((model.fit, (X, y)), (model.predict, (queries,))):
        before = ledger.spent
        _, reason = attempt(step, *arguments)
        if reason is not None:
            assert ledger.spent == before, f"{model}: {reason!r}"
            return reason
    assert 0 < ledger.spent <= ledger.total
    return None


def pick(rng, *values):
    return values[int(rng.integers(len(values)))]


def random_forest(rng):
    d = int(rng.integers(1, 6))
    sizes = rng.integers(1, pick(rng, 3, 5), d).tolist()
    sizes = [max(size, 2) if i % 3 == 0 else size for i, size in enumerate(sizes)]
    kind = pick(rng, *FORESTS)
    settings = {
        "n_trees": pick(rng, 1, 3, 8, math.inf, 0, [2, 3]),
        "depth": pick(rng, "auto", 0, 1, 2, 7, -1, [1, 2]),
        "splits": pick(rng, "multiway", "multiway", "binary", "threshold"),
        "n_ensembles": pick(rng, 1, 1, 2, 3),
        "max_features": pick(rng, None, None, 1, 2, "partition"),
        "neighbours": pick(rng, "add_remove", "replace"),
        "voting": pick(rng, "weight", "weight", "hard"),
        "epsilon": pick(rng, 1, "1/3", 1e-6, 1e3, 3),
        "random_state": int(rng.integers(9)),
    }
    if kind is not rf.LaplaceForestClassifier:
        settings["template"] = pick(
            rng, "auto", "auto", "identity", "workload", "marginals",
            "pidentity", "kronecker", "union", "hierarchy", "nothing",
        )  # fmt: skip
    else:
        settings["data"] = pick(rng, "shared", "disjoint")
    relation = pick(rng, settings["neighbours"], settings["neighbours"], "replace")
    ledger = mm.PrivacyLedger(pick(rng, 2, 1e4), neighbours=relation)
    schema = schema_of(sizes, int(rng.integers(2, 5)))
    return kind(schema, ledger=ledger, **settings), schema


@pytest.mark.parametrize("number", range(20))
def test_no_setting_of_a_forest_loses_budget(number):
    rng = np.random.default_rng(number)
    model, schema = random_forest(rng)
    assert_nothing_is_lost(model, schema, rng)


def random_private(rng):
    d = int(rng.integers(1, 5))
    sizes = rng.integers(2, pick(rng, 3, 9), d).tolist()
    settings = {
        "epsilon": pick(rng, 1, "1/3", 0.01, 1e-5, 1e-6, 20),
        "n_records": pick(rng, None, 1, 500, -1, 1e9, 1e300),
        "neighbours": pick(rng, "add_remove", "replace"),
        "records_per_person": pick(rng, 1, 1, 3, 0, 10**9),
        "estimate_accuracy": pick(rng, False, False, True),
        "private_bins": pick(rng, (), (), "all"),
    }
    if rng.integers(3) == 0:
        settings |= {"privacy": "zcdp", "delta": 1e-6}
    return settings, schema_of(sizes, int(rng.integers(2, 4)))


@pytest.mark.parametrize(
    "settings",
    [
        {"n_records": 9, "records_per_person": 10**9},
        {"n_records": 1, "epsilon": 1e-4},
        {"n_records": 1e300, "private_bins": "all", "epsilon": 1e-4},
        {"n_records": 1e300, "epsilon": 1e9},
        {"private_bins": "all", "epsilon": 1e-11},
    ],
    ids=str,
)
def test_no_extreme_of_a_private_forest_loses_budget(settings, rng):
    """With records held out, whose release is the last one."""
    settings = {"epsilon": 1e-6, "estimate_accuracy": True} | settings
    persons = settings.get("records_per_person", 1)
    ledger = mm.PrivacyLedger(settings["epsilon"], records_per_person=persons)
    schema = schema_of((3, 2))
    model = rf.PrivateForestClassifier(schema, ledger=ledger, **settings)
    _, reason = attempt(model.fit, *records_of(schema, 40, rng))
    assert ledger.spent == (0 if reason else ledger.total)
    assert reason is None or isinstance(reason, ValueError)


@pytest.mark.parametrize("number", range(25))
def test_no_setting_of_a_private_forest_loses_budget(number):
    rng = np.random.default_rng(1000 + number)
    settings, schema = random_private(rng)
    X, y = records_of(schema, int(rng.integers(0, 40)), rng)
    ledger = mm.PrivacyLedger(
        1000,
        currency="rho" if "delta" in settings else "epsilon",
        neighbours=settings["neighbours"],
        records_per_person=max(settings["records_per_person"], 1),
    )
    model = rf.PrivateForestClassifier(schema, ledger=ledger, **settings)
    _, reason = attempt(model.fit, X, y)
    if reason is None:
        assert model.predict(X[:0]).shape == (0,)
        assert model.ledger_ is ledger
        assert ledger.spent > 0
    else:
        assert ledger.spent == 0, f"{settings}: {reason!r}"


RECIPES = dict(rf.recipes()) | {
    "labels, others": rf.Recipe(
        score="median", n_trees=2, depth=2, guarantee="labels", unlabelled=True
    ),
    "poisson, others": rf.Recipe(
        records="poisson", n_trees=2, depth=2, unlabelled=True
    ),
}


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("estimated", [False, True])
@pytest.mark.parametrize("name", RECIPES)
def test_no_recipe_loses_budget(name, estimated, part):
    """Parts of a budget are shared out among persons, and not twice."""
    recipe, rng = RECIPES[name], np.random.default_rng(3)
    relation = "labels" if recipe.guarantee == "labels" else "add_remove"
    schema = schema_of([3, 2, 4])
    X, y = records_of(schema, 30, rng)
    ledger = mm.PrivacyLedger(2, neighbours=relation)
    given = ledger.part("clinics", "north") if part else ledger
    model = rf.RecipeForestClassifier(
        schema, epsilon=1, recipe=recipe, n_records=300, neighbours=relation,
        estimate_accuracy=estimated, ledger=given,
    )  # fmt: skip
    others = {"X_unlabelled": X[:9]} if recipe.unlabelled else {}
    _, reason = attempt(lambda: model.fit(X, y, **others))
    if reason is None:
        assert 0 < ledger.spent <= 1
    else:
        assert isinstance(reason, ValueError), reason
        assert ledger.spent == 0


@pytest.mark.parametrize("epsilon", [1e-3, 1, 100, 3000, 1e4, 1e6])
def test_the_number_of_records_leaves_rho_for_the_trees(epsilon):
    schema = schema_of((2, 3))
    X, y = records_of(schema, 30, np.random.default_rng(0))
    ledger = mm.PrivacyLedger(mm.rho_from_epsilon_delta(epsilon, 1e-6), currency="rho")
    terms = {"epsilon": epsilon, "privacy": "zcdp", "delta": 1e-6, "ledger": ledger}
    rf.PrivateForestClassifier(schema, **terms).fit(X, y)
    count, *rest = (float(entry.cost) for entry in ledger.entries)
    assert count < 0.04 * ledger.total
    assert ledger.spent == pytest.approx(ledger.total)
    assert sum(rest) > 0.9 * ledger.total


def test_all_trees_of_many_attributes_are_answered():
    schema = schema_of((2,) * 21)
    ledger = mm.PrivacyLedger(1)
    model = rf.BatchTrainingClassifier(
        schema, epsilon=1, n_trees=math.inf, depth=1, template="marginals",
        ledger=ledger,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    assert assert_nothing_is_lost(model, schema, rng) is None
    assert [counts.shape for counts in model.leaf_counts_] == [(42, 2)]


WORKLOADS = [
    mm.Prefix(5),
    mm.AllRange(4),
    mm.Total(6),
    mm.all_marginals((2, 3, 2), 2),
    mm.Marginals((2,) * 6, {(0, 1): 1, (5,): 2}),
    mm.PartitionStack([[0, 0, 1, 1], [0, 1, 2, 2]], [2, 3]),
    mm.Conjunctions([[[True, False]] * 3, [[True, True, False]] * 3]),
    mm.Dense([[1, 2, 0], [0, -1, 3]]),
    mm.Dense([[0.25, 0.5, 1e-9], [0.0, -1.0, 3.0]]),
]


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w._label())
@pytest.mark.parametrize("strategy", ["optimized", "itself", "cells"])
def test_no_mechanism_loses_budget(currency, workload, strategy):
    n = workload.shape[1]
    ledger = mm.PrivacyLedger(100, currency=currency)
    strategy = {"optimized": None, "itself": workload, "cells": mm.Identity(n)}[
        strategy
    ]
    good = np.ones(n, np.int64)
    try:
        engine = mm.MatrixMechanism(workload, strategy, ledger=ledger, **{currency: 1})
    except mm.UnsupportedWorkloadError:
        return
    measure = engine.measure
    inputs = [good, np.stack([good, good], 1), -good, good * 0.5, good[1:], "counts"]
    inputs += [np.full(n, np.nan), good.reshape(1, 1, -1), None]
    measured = []
    engine.measure = lambda counts: measured.append(measure(counts)) or measured[-1]
    for counts in inputs:
        before = len(measured)
        answer, reason = attempt(engine.answer, counts)
        if reason is None:
            assert answer.shape[0] == workload.shape[0]
        else:
            assert len(measured) == before, repr(reason)
    assert len(ledger.entries) == len(measured)


@pytest.mark.parametrize(
    "name", ["drawn", "batch training", "recipe", "subsample", "accuracy"]
)
def test_fits_in_threads_succeed_or_spend_nothing(name):
    """Six fits of one on a ledger of two: two of them are paid for, whole."""
    schema = schema_of([3, 2, 4])
    X, y = records_of(schema, 60, np.random.default_rng(0))
    ledger = mm.PrivacyLedger(2)
    make = {
        "drawn": rf.PrivateForestClassifier,
        "accuracy": partial(rf.PrivateForestClassifier, estimate_accuracy=True),
        "batch training": partial(
            rf.BatchTrainingClassifier, n_ensembles=2, max_features=2, n_trees=2
        ),
        "recipe": partial(rf.RecipeForestClassifier, recipe="spe", n_records=60),
        "subsample": rf.SubsampleAggregateClassifier,
    }[name]
    together = threading.Barrier(6)

    def fit(_):
        model = make(schema, epsilon=1, ledger=ledger)
        together.wait()
        model.fit(X, y).predict(X[:3])

    with ThreadPoolExecutor(6) as pool:
        found = [one.exception() for one in [pool.submit(fit, i) for i in range(6)]]
    refused = [reason for reason in found if reason is not None]
    assert [type(reason) for reason in refused] == [mm.BudgetExceededError] * 4
    assert 1.99 < ledger.spent <= 2


def no_strategy(workload, template="auto", **options):
    if template == "auto":
        raise MemoryError("no room for a strategy")
    return mm.optimize(workload, template=template, **options)


@pytest.mark.parametrize("kind", FORESTS[:3])
@pytest.mark.parametrize("options", [{}, {"n_ensembles": 2}, {"neighbours": "replace"}])
def test_a_search_that_fails_costs_nothing(kind, options, monkeypatch):
    """Whatever a search fails for: forests look for strategies before they pay."""
    monkeypatch.setattr(grown, "optimize", no_strategy)  # no input makes it fail
    ledger = mm.PrivacyLedger(1, neighbours=options.get("neighbours", "add_remove"))
    schema = schema_of([3, 4])
    model = kind(schema, epsilon=1, ledger=ledger, **options)
    X, y = records_of(schema, 30, np.random.default_rng(0))
    with pytest.raises(MemoryError):
        model.fit(X, y).predict(X[:3])
    assert ledger.spent == 0


@pytest.mark.parametrize("pressed", [1, 2])
@pytest.mark.parametrize("release", [0, 1])
def test_only_a_second_interruption_loses_what_is_paid_for(
    release, pressed, monkeypatch, capsys
):
    """Ctrl-C waits for the end of a fit once a release is paid for, but only once."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    measure, asked = Session.measure, []

    def interrupted(session, *arguments):
        if len(asked) == release:
            for _ in range(pressed):
                signal.raise_signal(signal.SIGINT)
        asked.append(arguments)
        return measure(session, *arguments)

    monkeypatch.setattr(Session, "measure", interrupted)
    ledger = mm.PrivacyLedger(1)
    schema = schema_of([3, 4])
    model = rf.BatchTrainingClassifier(schema, epsilon=1, n_ensembles=2, ledger=ledger)
    X, y = records_of(schema, 30, np.random.default_rng(0))
    try:
        result, stop = None, None
        try:
            result = model.fit(X, y)
        except KeyboardInterrupt as interruption:
            stop = interruption
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    said = capsys.readouterr().err
    if release == 0:
        assert (ledger.spent, said) == (0, "")
        assert not hasattr(stop, "__notes__")
    else:
        assert "epsilon = 0.5 is spent, so the work goes on to its end" in said
        assert (result is None) == (stop is not None) == (pressed == 2)
        assert ledger.spent == (1 if pressed == 1 else 0.5)
        if pressed == 2:
            assert "epsilon = 0.5 is spent on 1 releases" in stop.__notes__[0]
