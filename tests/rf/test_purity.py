"""With draws that do not look at records, nothing public depends on records.

Sizes, classes that occur and types of labels all differ; what anybody sees must not.
So it is also where one data set plays the outcomes of an unrelated one: then released
numbers are those of real noise, and cross every threshold that they are held against.
"""

import itertools
import json
import re
import tempfile
import time
import warnings
import zipfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from entropy import system_entropy
from replay import (
    People,
    entropy,
    facts,
    no_clock,
    play,
    same,
    watched,
    without_records,
)
from replay_cases import RECIPES, cases, recipe_cases, runner
from rf_cases import PRIVATE, SCHEMA, SHAPE, classifier
from sklearn.base import clone

import mmech as mm
from mmech.tables import Histogram, Mean, Quantiles, Sum
from mmech_rf import PrivateForestClassifier, Schema

pytestmark = pytest.mark.usefixtures("scores_of_few")

CASES = cases(["add_remove"]) | {
    name: case for name, case in cases(["replace"]).items() if ", plain" in name
}
CASES |= {
    name: case
    for name, case in recipe_cases().items()
    if case.relation == "add_remove" and case.model.recipe.guarantee == "pure"
}


def content(path):
    """Return what a file holds; a workbook but for the time that it was written at."""
    if path.name == "evidence.json":
        evidence = json.loads(path.read_bytes())
        evidence["published"]["files"].pop("tables.xlsx", None)
        return evidence
    if path.suffix != ".xlsx":
        return path.read_bytes()
    with zipfile.ZipFile(path) as book:
        members = set(book.namelist()) - {"docProps/core.xml"}
        return {name: book.read(name) for name in members}


def data_sets(case):
    """Return unlike data sets with fields for everything that a fit might notice."""
    people, schema = case.people, case.model.schema
    X, y = np.array(people.X, object), np.array(people.y, object)
    many = np.repeat(X, 9, axis=0)
    return {
        "all": (X, y.astype(str)),
        "nobody": (X[:0], []),
        "many in a frame": (pd.DataFrame(many, columns=schema.feature_names),
            pd.Series(np.repeat(y, 9))),
        "one cell": (X[[0] * 40], [schema.class_labels[-1]] * 40),
    }  # fmt: skip


def looked_at(model, X, y, cells, **more):
    """Fit without records, and return all that anybody sees."""
    model = clone(model)
    with watched(without_records()), mock.patch.object(time, "perf_counter", no_clock):
        model.fit(X, y, **more)
        seen = [facts(model, cells)]
        if model._holds_counts():
            model.close()
            seen.append(facts(model, cells))
    return seen


@pytest.mark.by_day(14)
@pytest.mark.parametrize("name", CASES)
def test_nothing_public_depends_on_records(name):
    case = CASES[name]
    more = {"X_unlabelled": case.cells[::3]} if case.unlabelled else {}
    first, *others = (
        (words, looked_at(case.model, X, y, case.cells, **more))
        for words, (X, y) in data_sets(case).items()
    )
    for words, seen in others:
        same(f"{first[0]} against {words}: what is seen", first[1], seen)


NUMBERED = Schema(SCHEMA.attributes, (0, 1))
WORDED = Schema(SCHEMA.attributes, ("0", "1"))
TARGETS = {
    "integers": np.array([0, 1, 1]),
    "bytes": np.array([0, 1, 1], np.uint8),
    "floats": np.array([0.0, 1.0, 1.0]),
    "booleans": np.array([False, True, True]),
    "texts": np.array(["0", "1", "1"]),
    "a list": ["0", "1", "1"],
    "a list of integers": [0, 1, 1],
    "objects": np.array([0, "1", True], object),
    "nobody": [],
}


@pytest.mark.by_day(2)
@pytest.mark.parametrize("schema", [NUMBERED, WORDED], ids=["numbers", "texts"])
@pytest.mark.parametrize("name", ["batch training", "subsample weight", "private"])
def test_nothing_public_depends_on_the_type_of_labels(name, schema):
    if name == "private":
        model = PrivateForestClassifier(schema, epsilon=1)
    else:
        model = classifier(name, schema=schema)
    cells = np.array(list(np.ndindex(*SHAPE))).astype(str)
    X = cells[[0, 5, 7]]
    seen = {
        words: looked_at(model, X[: len(y)], y, cells) for words, y in TARGETS.items()
    }
    for words, other in seen.items():
        same(f"integers against {words}: what is seen", seen["integers"], other)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "name", [*(f"{name}, plain" for name in PRIVATE), "pure, a tree"]
)
def test_pages_do_not_depend_on_records(name):
    """Fitted, or fitted and asked, or closed; what a notebook shows says no more."""
    case = CASES[f"{name}, add_remove"]
    rng = np.random.default_rng(0)
    pages = []
    for X, y in data_sets(case).values():
        model = clone(case.model)
        # Seconds depend on records: nothing may show them.
        clock = mock.Mock(side_effect=itertools.accumulate(iter(rng.random, None)))
        with watched(without_records()), mock.patch.object(time, "perf_counter", clock):
            model.fit(X, y)
            seen = [_page(model)]
            model.predict(case.cells)
            seen.append(_page(model))
            if model._holds_counts():
                model.close()
                seen.append(_page(model))
        pages.append(seen)
    for page in pages[1:]:
        same("the page", pages[0], page)


def _page(model):
    # Every page has identifiers of its own, by which its parts find each other.
    return re.sub(r"sk-(container|estimator)-id-\d+", "", model._repr_html_()), repr(
        model
    )


# ------------------------------------------------------------- pairs of unrelated sets
DOMAIN = mm.Domain(
    [
        mm.Attribute.categorical("sex", ["f", "m"]),
        mm.Attribute.ordinal("size", ["s", "m", "l"]),
        mm.Attribute.numeric("age", lower=0, upper=3, n_bins=4),
        mm.Attribute.categorical("town", ["north", "south", "?"]),
    ]
)
VALUES = [["f", "m"], ["s", "m", "l"], [0.5, 1.0, 2.0, 7.0], ["north", "south", ""]]
"""Of every attribute, with a number out of bounds and a missing value."""

DROP = {"handle_missing": "drop", "handle_unknown": "drop"}
CATEGORY = {"handle_missing": "category", "handle_unknown": "clip"}
STATISTICS = [
    Mean("age", by="sex"),
    Sum("age"),
    Histogram("age", step=1, by="size"),
    Quantiles("age", [0.25, 0.5], step=1),
]
TABLES = {
    "margins": {"ways": (1, 2)} | CATEGORY,
    "records": {"ways": (2, 3)} | CATEGORY,
    "sets of equal totals": {"ways": 1} | CATEGORY,
    "some": {"tables": [("sex", "age"), ("size", "town")]} | DROP,
    "of rho": {"ways": (1, 2), "currency": "rho"} | CATEGORY,
    "two records each": {"ways": 2, "records_per_person": 2} | DROP,
    "a tiny epsilon": {"ways": 2, "cost": "1/1000"} | CATEGORY,
    "a huge epsilon": {"ways": (1, 3), "cost": 1000} | CATEGORY,
    "statistics": {"ways": 1, "statistics": STATISTICS} | DROP,
    "statistics of rho": {"ways": 1, "statistics": STATISTICS, "currency": "rho"}
    | DROP,
    "known totals": {"ways": (1, 2), "known": {("sex",): [90, 110]}} | DROP,
}


@dataclass(frozen=True)
class Setting:
    """What is done to records: ``run(people, ledger)`` returns all that is seen."""

    run: object
    ledger: object
    schema: object = None
    odd: tuple = ()
    labels_only: bool = False


def tables_of(options, relation):
    """Return the setting of a release of tables."""
    options = dict(options)
    cost = Fraction(options.pop("cost", 1))
    currency = options.pop("currency", "epsilon")

    def run(people, ledger):
        cells = np.array(people.X, int).reshape(-1, 4).T
        columns = zip(DOMAIN.names, VALUES, cells, strict=True)
        data = {name: np.array(values, object)[own] for name, values, own in columns}
        released = mm.release_tables(
            pd.DataFrame(data), DOMAIN, neighbours=relation, ledger=ledger,
            **{currency: cost}, **options,
        )  # fmt: skip
        orders = {"size": {"ranges": "size"}, "age": {"cumulative": "age"}}
        shown = [
            released.table(names, frame="dict", **orders.get(names[0], {}))
            for names in released.tables
        ]
        with tempfile.TemporaryDirectory() as folder:
            released.write(Path(folder, "tables"))
            files = sorted(Path(folder, "tables").iterdir())
            written = {f.name: content(f) for f in files}
        sample = released.sample(20, seed=0, frame="dict")
        facts = released.measurement, released.facts, released.statement
        return facts, repr(released), shown, written, sample

    settings = {
        "currency": currency,
        "neighbours": relation,
        "records_per_person": options.get("records_per_person", 1),
    }
    return Setting(run, lambda: mm.PrivacyLedger(cost, **settings), DOMAIN)


def stream_of(relation):
    """Return the setting of a stream of how many people have each age."""

    def run(people, ledger):
        made = mm.Stream(horizon=5, rho="1/8", neighbours=relation, ledger=ledger)
        cells = np.array(people.X, int).reshape(-1, 4)
        counts = np.bincount(cells[:, 2], minlength=4).tolist()
        pushed = [(made.push(count), repr(made)) for count in counts]
        return pushed, made.answers, made.confidence_interval(3), made.expected_error()

    terms = {"currency": "rho", "neighbours": relation}
    return Setting(run, lambda: mm.PrivacyLedger("1/8", **terms), DOMAIN)


def settings():
    """Return everything that looks at records, by name: kinds first."""
    found = {}
    for name, case in (cases() | recipe_cases()).items():
        found[f"forest, {name}" if "recipe" not in name else name] = Setting(
            runner(case), case.ledger, case.model.schema, case.odd,
            labels_only=case.relation == "labels",
        )  # fmt: skip
    for relation in ("add_remove", "replace"):
        for name, options in TABLES.items():
            found[f"tables, {name}, {relation}"] = tables_of(options, relation)
        found[f"streams, of rho, {relation}"] = stream_of(relation)
    return found


SETTINGS = settings()

SEEDS = 4
"""Pairs of every setting in the slow tests."""


def one_of_each():
    """Return a hundred settings: every recipe and kind of table once.

    The others are estimators, as many of each; which of their settings is drawn.
    """
    rng = np.random.default_rng(0)
    kinds = {}
    for name in SETTINGS:
        first, kind, *_ = name.split(", ")
        alone = first != "forest" and not first.startswith("recipe")
        kinds.setdefault((first, kind) if alone else first, []).append(name)
    forests = kinds.pop("forest")
    drawn = [str(rng.choice(names)) for names in kinds.values()]
    models = {}
    for name in forests:
        if "boosting, noisy n" in name:  # takes as long as all others together
            continue
        models.setdefault(name.split(", ")[1], []).append(name)
    queues = [list(rng.permutation(names)) for names in models.values()]
    for number in itertools.count():
        for queue in queues:
            if len(drawn) == 100:
                return drawn
            if number < len(queue):
                drawn.append(str(queue[number]))
    raise AssertionError


def stranger(setting, rng, size, like=None):
    """Draw people: skewed or uniform cells, any classes; only labels, if like others.

    So many records, of which some have values that the policies of a fit take.
    """
    schema = setting.schema

    def codes(k, n):
        skewed = rng.random() < 0.5
        return rng.choice(k, n, p=rng.dirichlet(np.full(k, 0.2 if skewed else 1e9)))

    if like is not None:
        rows, size = like.rows, len(like.rows)
    else:
        shape = [
            a.size - (schema is not DOMAIN and "?" in a.categories)
            for a in schema.attributes
        ]
        table = np.column_stack([codes(k, size) for k in shape]).astype(object)
        table = table.astype(str) if setting.odd else table
        for place, value in enumerate(setting.odd):
            table[rng.random(size) < 0.1, place] = value
        rows = table if schema is DOMAIN else table.astype(str)
    names = (0,) if schema is DOMAIN else schema.class_labels
    return People.of(rows, np.array(names)[codes(len(names), size)])


def all_that_is_seen(run):
    """Return what also looks at warnings and errors of a run, and at its ledger."""

    def look(people, ledger):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            # Says how many fits there were.
            warnings.filterwarnings("ignore", "this estimator, or a clone")
            try:
                seen = run(people, ledger)
            except AssertionError:
                raise
            except Exception as error:
                seen = type(error), str(error)
        return seen, [(one.category, str(one.message)) for one in said]

    return look


def check_strangers(name, number):
    """Let one data set play the outcomes of another, which has nothing to do with it.

    One is small and one large, so that numbers are on both sides of what stops growth.
    """
    setting = SETTINGS[name]
    rng = np.random.default_rng([number, *map(ord, name)])
    sizes = rng.permutation([rng.integers(0, 20), rng.integers(150, 400)])
    one = stranger(setting, rng, sizes[0])
    other = stranger(setting, rng, sizes[1], one if setting.labels_only else None)
    run = all_that_is_seen(setting.run)
    with entropy([number, len(name)]):
        tape = play(run, one, setting.ledger())
        after = play(run, other, setting.ledger(), tape, strangers=True)
    same("the ledger", tape.entries, after.entries)
    same("what is seen", tape.seen, after.seen)
    assert tape.played
    return tape


@pytest.mark.by_day(12)
@pytest.mark.parametrize("name", one_of_each())
def test_strangers_look_the_same(name, seed):
    check_strangers(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_many_strangers_look_the_same(name, seed):
    for number in range(1, 1 + SEEDS):
        check_strangers(name, 100 * seed + number)


def test_there_are_enough_strangers():
    """The default tests have all recipes and tables."""
    chosen = one_of_each()
    assert len(set(chosen)) == len(chosen) == 100
    assert SEEDS * len(SETTINGS) >= 1000
    named = {name.split(", ")[0] for name in chosen}
    assert named >= {f"recipe {name}" for name in RECIPES}


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_draw_takes_fresh_entropy(recipe, seed):
    """Labels and assignments that follow from the records alone would be a leak."""
    name = next(name for name in SETTINGS if name.startswith(f"recipe {recipe}, "))
    setting, rng, taken, dry = SETTINGS[name], np.random.default_rng(seed), [0], []

    def urandom(size):
        taken[0] += size
        return rng.bytes(size)

    def watcher(draw, sample):
        before, outcome = taken[0], sample()
        several = draw.public.get("n_parts", 2) > 1 and np.size(outcome)
        if draw.kind not in ("ties", "key") and several and taken[0] == before:
            dry.append(draw.kind)
        return outcome

    with system_entropy(urandom), watched(watcher):
        setting.run(stranger(setting, rng, 150), setting.ledger())
    assert not dry
