"""What is public fails before a charge, and what fails later keeps what was paid."""

import contextlib
import io
import json
import math
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace

import numpy as np
import pytest

import mmech as mm
import mmech_rf as rf
from mmech.cli import main as tables
from mmech.privacy.cost import ROUNDED_UP, in_rho
from mmech.session import Session
from mmech.stream import _StreamFile
from mmech.tables.statistic_plans import StatisticPlan
from mmech_rf.cli import main as forests
from mmech_rf.estimator.base import ForestClassifier
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
    currency = pick(rng, "epsilon", "epsilon", "rho")
    return settings, schema_of(sizes, int(rng.integers(2, 4))), currency


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


@pytest.mark.by_day(4)
@pytest.mark.parametrize("number", range(25))
def test_no_setting_of_a_private_forest_loses_budget(number):
    rng = np.random.default_rng(1000 + number)
    settings, schema, currency = random_private(rng)
    ledger = mm.PrivacyLedger(
        1000,
        currency=currency,
        neighbours=settings["neighbours"],
        records_per_person=max(settings["records_per_person"], 1),
    )
    model = rf.PrivateForestClassifier(schema, ledger=ledger, **settings)
    assert_nothing_is_lost(model, schema, rng)


RECIPES = dict(rf.recipes()) | {
    "labels, others": rf.Recipe(
        score="median", n_trees=2, depth=2, guarantee="labels", unlabelled=True
    ),
    "poisson, others": rf.Recipe(
        records="poisson", n_trees=2, depth=2, unlabelled=True
    ),
}


@pytest.mark.by_day(11)
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


@pytest.mark.parametrize("epsilon", [1e-3, 1, 50.1, 3000, 1e9])
def test_a_ledger_of_rho_covers_whatever_a_fit_releases(epsilon):
    schema = schema_of((2, 3))
    X, y = records_of(schema, 30, np.random.default_rng(0))
    most = in_rho(Fraction(epsilon)) * ROUNDED_UP
    ledger = mm.PrivacyLedger(most, currency="rho")
    rf.PrivateForestClassifier(schema, epsilon=epsilon, ledger=ledger).fit(X, y)
    assert 0 < ledger.spent <= most


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


@pytest.mark.by_day(7)
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


@pytest.mark.by_day(2)
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


@pytest.mark.by_day(2)
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


# ---- what fails between a charge and its result --------------------------------------


def fails(where, name, error, after=0, times=math.inf):
    """Return what makes calls of a function fail, `after` others of them."""

    def inject(patch):
        target = import_module(where) if isinstance(where, str) else where
        own, calls = getattr(target, name), []

        def failing(*args, **options):
            calls.append(args)
            if after < len(calls) <= after + times:
                raise error()
            return own(*args, **options)

        patch.setattr(target, name, failing)

    return inject


def in_latin(patch):
    patch.setattr(
        "mmech.tables.files.os", SimpleNamespace(fsencode=lambda s: s.encode("latin-1"))
    )


def no_room_beside_the_output(patch):
    save = mm.MeasuredTables.save

    def elsewhere(measured, path):
        if str(path).startswith("parent"):
            raise NO_ROOM()
        save(measured, path)

    patch.setattr(mm.MeasuredTables, "save", elsewhere)


def removed(patch):
    """Remove the folder of the output, with what was kept in it."""

    def write(*_, **__):
        rmtree("parent")
        raise FileNotFoundError("there is no folder")

    patch.setattr(mm.Tables, "write", write)


def not_needed(patch):
    write = mm.Tables.write

    def then_remove(*args, **options):
        write(*args, **options)
        os.remove("parent/made.measured")

    patch.setattr(mm.Tables, "write", then_remove)


def spent_by_others(patch):
    """Spend what statistics are to cost once tables are measured."""
    own = StatisticPlan.measure

    def measure(plan, session, codes):
        with contextlib.suppress(ValueError):
            session.ledger.spend(session.ledger.remaining, OTHERS, sensitivity=1)
        return own(plan, session, codes)

    patch.setattr(StatisticPlan, "measure", measure)


def output(error):
    """Return what gives a standard output that fails where it is flushed."""

    def inject(patch):
        class Output(io.StringIO):
            def flush(self):
                raise error()

        patch.setattr(sys, "stdout", Output())
        patch.setattr("mmech.terminal._drop_output", lambda: None)

    return inject


def nothing(patch):
    pass


NO_ROOM = partial(OSError, "cannot write: no space left")
DENIED = partial(PermissionError, 13, "Permission denied")
NO_ENTROPY = partial(mm.EntropyError, "the system gave none")
STOP, OTHERS = KeyboardInterrupt, "another program"
LONG = "我们的问题" * 30
TWO = "--mean age --by sex --sum age"
OUT, FOREST = "--out made", ForestClassifier
CLEAN, MADE, KEPT = "refused, nothing is spent", "made", "kept"
TABLES = {
    "names of 450 bytes": (MADE, {"sex": LONG}, "", nothing),
    "names of devices": (MADE, {"sex": "aux", "age": "NUL.x"}, "", nothing),
    "names in two normal forms": (MADE, {"sex": "é", "age": "e\u0301"}, "", nothing),
    "names of control characters": (MADE, {"sex": "\x01\x7f"}, "", nothing),
    "names that the file system cannot encode": (CLEAN, {"sex": LONG}, "", in_latin),
    "half a character in a name": (CLEAN, {"sex": "\ud800"}, "", nothing),
    "half a character in a value": (CLEAN, {"f": "\udc80"}, "", nothing),
    "an output of a long name": (CLEAN, {}, f"--out {'o' * 249}", nothing),
    "an output in no folder": (CLEAN, {}, "--out nowhere/made", nothing),
    "an output that is mounted": (CLEAN, {}, "--out parent",
        lambda patch: patch.setattr("os.path.ismount", lambda path: True)),
    "an output that is locked": (CLEAN, {}, "", fails("tempfile", "mkdtemp", DENIED)),
    "a workbook without its library": (CLEAN, {}, "--excel",
        lambda patch: patch.setitem(sys.modules, "openpyxl", None)),
    "a workbook that nobody asked for": (MADE, {}, "",
        lambda patch: patch.setitem(sys.modules, "openpyxl", None)),
    "too many synthetic records": (CLEAN, {}, "--synthetic 90000000", nothing),
    "intervals of level one": (CLEAN, {}, "--level 1", nothing),
    "intervals of nearly level one": (MADE, {}, f"--level {1 - 2**-53}", nothing),
    "noise beyond 64 bits": (CLEAN, {}, "--epsilon 1e-14 --sum age", nothing),
    "a ledger with too little": (CLEAN, {}, "--epsilon 3", nothing),
    "a charge that is not written": (CLEAN, {}, "",
        fails("mmech.privacy.ledger_file", "write_through", NO_ROOM)),
    "the number that is left out": (KEPT, {}, "--handle-missing drop",
        fails("mmech.tables.release", "_count_dropped", NO_ENTROPY)),
    "the second statistic": (KEPT, {}, TWO,
        fails(StatisticPlan, "measure", STOP, after=1)),
    "a ledger that others empty": (KEPT, {}, TWO, spent_by_others),
    "what is kept beside the output": (KEPT, {}, "", no_room_beside_the_output),
    "whole counts": (KEPT, {}, "", fails("mmech.tables.measured", "settle",
        MemoryError)),
    "whole counts, interrupted": (KEPT, {}, "",
        fails("mmech.tables.measured", "settle", STOP)),
    "a csv file": (KEPT, {}, "", fails("mmech.tables.files", "write_csv", NO_ROOM)),
    "the page": (KEPT, {}, "", fails("mmech.tables.files", "_page", MemoryError)),
    "the workbook": (KEPT, {}, "",
        fails("mmech.tables.files", "_write_workbook", partial(ValueError, "no"))),
    "synthetic records": (KEPT, {}, "--synthetic 9",
        fails(mm.Tables, "sample", MemoryError)),
    "the statement": (KEPT, {}, "",
        fails("mmech.tables.published", "statement_of", STOP)),
    "the evidence": (KEPT, {}, "", fails("mmech.evidence", "replacing", NO_ROOM)),
    "a folder that others fill": (KEPT, {}, "", fails("mmech.tables.published",
        "check_new_folder", partial(FileExistsError, "not empty"), after=1)),
    "a folder that others remove": (KEPT, {}, "", removed),
    "what is kept, removed by others": (MADE, {}, "", not_needed),
}  # fmt: skip
COMMON = {
    "half a character in a class": (CLEAN, {"no": "\ud800"}, OUT, nothing),
    "an output in no folder": (CLEAN, {}, "--out nowhere/made", nothing),
    "an output of a long name": (CLEAN, {}, f"--out {'o' * 256}", nothing),
    "an output that is locked": (CLEAN, {}, OUT, fails("tempfile", "mkdtemp", DENIED)),
    "a ledger with too little": (CLEAN, {}, f"{OUT} --epsilon 3", nothing),
    "an option of another method": (CLEAN, {}, f"{OUT} --recipe spe", nothing),
    "a charge that is not written": (CLEAN, {}, OUT,
        fails("mmech.privacy.ledger_file", "write_through", NO_ROOM)),
}  # fmt: skip
FITS = COMMON | {
    "the file": (KEPT, {}, OUT, fails(FOREST, "save", NO_ROOM, times=1)),
    "the file, interrupted": (KEPT, {}, OUT, fails(FOREST, "save", STOP, times=1)),
    "what is printed": (MADE, {}, OUT,
        fails("mmech_rf.cli.models", "print_wrapped", NO_ROOM)),
}  # fmt: skip
WRITING = "mmech_rf.cli.models", "write_table"
LABELS = COMMON | {
    "queries of unknown values": (CLEAN, {"q.csv": "sex,age\nx,3\n"}, OUT, nothing),
    "queries without a column": (CLEAN, {"q.csv": "sex\nf\n"}, OUT, nothing),
    "no queries": (CLEAN, {"q.csv": ""}, OUT, nothing),
    "the file": (KEPT, {}, OUT, fails(*WRITING, NO_ROOM, times=1)),
    "the file, interrupted": (KEPT, {}, OUT, fails(*WRITING, STOP, times=1)),
    "an output that is full": (KEPT, {}, "", output(partial(OSError, 28, "no space"))),
    "an output that nobody reads": (KEPT, {}, "",
        output(partial(BrokenPipeError, 32, "broken pipe"))),
}  # fmt: skip
STREAMS = {
    "a file in no folder": (CLEAN, "nowhere/a", nothing),
    "the first line": (CLEAN, "a", fails("mmech.stream", "write_through", NO_ROOM)),
    "noise": (KEPT, "a", fails("mmech.stream", "measure", NO_ENTROPY, times=1)),
    "an answer": (KEPT, "a", fails(mm.Stream, "_go_on", MemoryError, times=1)),
    "a line": (KEPT, "a", fails(_StreamFile, "add", NO_ROOM, times=1)),
}
"""What may fail: how it ends, words and files that are changed, options, the fault."""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return what writes small files, with words changed, and a ledger of one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Path("parent").mkdir()

    def write(words):
        def word(text):
            return words.get(text, text)

        classes = {"name": "class", "categories": [word("no"), "yes"]}
        sexes = {"type": "categorical", "categories": [word("f"), "m"]}
        ages = {"type": "numeric", "lower": 0, "upper": 90, "n_bins": 3}
        features = [{"name": word("sex"), **sexes}, {"name": word("age"), **ages}]
        Path("d.json").write_text(json.dumps({"features": features}))
        schema = {"features": features, "target": classes}
        Path("s.json").write_text(json.dumps(schema))
        text = (
            f"{word('sex')},{word('age')},class\n" + f"{word('f')},3,no\nm,50,yes\n" * 9
        )
        Path("in.csv").write_bytes(text.encode("utf-8", "surrogatepass"))
        Path("q.csv").write_text(
            word("q.csv") if "q.csv" in words else "sex,age\nf,4\n"
        )
        assert tables(["budget", "b.json", "--total", "1"]) == 0

    return write


def attempted(command, line, inject, monkeypatch, capsys):
    """Return the exit code, what is spent by the command, and where it says it is."""
    capsys.readouterr()
    with monkeypatch.context() as patch:
        inject(patch)
        code = command(shlex.split(f"{line} --ledger b.json"))
    words = " ".join(capsys.readouterr().err.split())
    own = [e for e in mm.PrivacyLedger.open("b.json").entries if e.released != OTHERS]
    spent = sum(entry.cost for entry in own)
    assert (" is spent" in words) == ("kept in" in words), words
    return code, spent, re.findall(r"kept in '(.*?)'", words)


@pytest.mark.by_day(5)
@pytest.mark.parametrize("case", TABLES)
def test_failures_of_tables_cost_nothing_or_are_finished(
    case, files, monkeypatch, capsys
):
    end, words, options, inject = TABLES[case]
    files(words)
    line = "tables in.csv --domain d.json --ways 1 --epsilon 1/2 --out parent/made"
    code, spent, kept = attempted(
        tables, f"{line} {options}", inject, monkeypatch, capsys
    )
    assert (code == 0, bool(spent), len(kept)) == (
        (end == MADE),
        end != CLEAN,
        end == KEPT,
    )
    made = Path("parent/made")
    assert made.exists() == (end == MADE)
    if end == KEPT:
        assert tables(["resume", kept[0], "--out", "again"]) == 0
        made = Path("again")
    if end != CLEAN:
        about = json.loads((made / "evidence.json").read_text("utf-8"))["about"]
        assert Fraction(about["cost"]) == spent
        assert "holds" in (made / "statement.txt").read_text("utf-8")
        assert max(len(os.fsencode(path.name)) for path in made.iterdir()) <= 255


def check_model(path, spent):
    assert rf.load_model(path).releases_[0].cost == spent


def check_labels(path, spent):
    header, label = Path(path).read_text().split()
    assert (header, label in ("no", "yes")) == ("class", True)


@pytest.mark.parametrize(
    ("line", "cases", "case", "check"),
    [
        *(("fit in.csv --method laplace", FITS, k, check_model) for k in FITS),
        *(("predict-batch in.csv q.csv --method subsample", LABELS, k, check_labels)
          for k in LABELS),
    ],
    ids=[*FITS, *(f"{k}, labels" for k in LABELS)],
)  # fmt: skip
def test_failures_of_forests_cost_nothing_or_keep_what_was_made(
    line, cases, case, check, files, monkeypatch, capsys
):
    end, words, options, inject = cases[case]
    files(words)
    line += f" --schema s.json --epsilon 1/2 --trees 2 --depth 1 {options}"
    code, spent, kept = attempted(forests, line, inject, monkeypatch, capsys)
    assert (code != 0, bool(spent), len(kept)) == (True, end != CLEAN, end == KEPT)
    for path in kept or ["made"] * (end == MADE):
        check(path, spent)


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("case", STREAMS)
def test_failures_of_streams_cost_nothing_or_go_on(
    case, currency, tmp_path, monkeypatch
):
    """Each answer is made once: what comes after a failure is as if there were none."""
    end, path, inject = STREAMS[case]
    ledger, answers = mm.PrivacyLedger(1, currency=currency), []
    options = {"horizon": 4, "ledger": ledger, "path": tmp_path / path, currency: 1}
    for time in range(4):
        with monkeypatch.context() as patch:
            inject(patch)
            with pytest.raises((OSError, MemoryError, mm.EntropyError)):
                mm.Stream(**options).push(10**6, time=time)
        if end == CLEAN:
            assert ledger.spent == 0
            return
        answers.append(mm.Stream(**options).push(10**6, time=time))
        assert answers[-1] == pytest.approx(10**6 * (time + 1), abs=10**4)
        assert ledger.spent == 1
    assert mm.Stream(**options).answers.tolist() == answers
