"""All that looks at records in all its settings, for tests that go through them."""

import json
import tempfile
import zipfile
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from replay import People, facts
from rf_cases import CELLS, CLASSES, PRIVATE, SCHEMA, SHAPE, classifier
from sklearn.base import clone

import mmech as mm
import mmech_rf as rf
from mmech import PrivacyLedger
from mmech.privacy.cost import ROUNDED_UP, in_rho
from mmech.tables import Histogram, Mean, Quantiles, Sum

RELATIONS = ("add_remove", "replace")

OTHERS = rf.Schema(
    tuple(
        rf.Attribute.categorical(f"x{i}", [*map(str, range(size)), "?"])
        for i, size in enumerate(SHAPE)
    ),
    CLASSES,
)
"""As the toy schema, with a category for missing and for unknown values."""


NUMBERS = rf.Schema(
    tuple(
        rf.Attribute.numeric(f"x{i}", lower=0, upper=2, n_bins=size)
        for i, size in enumerate(SHAPE)
    ),
    CLASSES,
)
"""As the toy schema, of numbers."""

MONOTONE = rf.Schema(
    tuple(
        rf.Attribute.ordinal(f"x{i}", [*map(str, range(size))], monotone=direction)
        for i, (size, direction) in enumerate(zip(SHAPE, (1, None, -1), strict=True))
    ),
    CLASSES,
)
"""As the toy schema, with directions for two attributes."""


MIXED = rf.Schema(
    (
        rf.Attribute.categorical("x0", ["0", "1", "2"]),
        rf.Attribute.numeric("x1", lower=-1, upper=3, n_bins=4),
        rf.Attribute.categorical("x2", ["0", "1"]),
    ),
    CLASSES,
)
"""For recipes: with a number, whose bins end at their codes."""


@dataclass(frozen=True)
class Case:
    """One setting of one estimator, with records and queries."""

    model: Any
    people: People
    cells: np.ndarray
    epsilon: Fraction
    odd: tuple[str, ...] = ()
    """Values outside the domain that its policies take."""

    row: tuple[str, ...] = field(default=("1", "1", "0"))
    """Attributes of who comes new."""

    in_rho: bool = False
    """Whether a ledger of rho pays."""

    @property
    def unlabelled(self):
        """Whether records without labels belong to a fit."""
        return getattr(getattr(self.model, "recipe", None), "unlabelled", False)

    @property
    def sampled(self):
        """Whether a record is in none, one or several of random samples."""
        recipe = getattr(self.model, "recipe", None)
        return getattr(recipe, "records", None) == "poisson"

    def of_others(self, seed):
        """Return the same setting with other records, up to a hundred."""
        model, n_records = self.model, 20 + 17 * seed % 80
        others = people(
            model.schema, self.odd, bool(self.people.dropped), n_records, seed
        )
        return replace(self, people=others)

    @property
    def relation(self):
        return self.model.neighbours

    @property
    def schema(self):
        return self.model.schema

    @property
    def rho(self):
        """What a fit may cost in rho, if a ledger of rho pays."""
        return in_rho(self.epsilon) * ROUNDED_UP if self.in_rho else None

    def ledger(self):
        """Return a ledger that just covers a fit."""
        if self.in_rho:
            return PrivacyLedger(self.rho, currency="rho", neighbours=self.relation)
        return PrivacyLedger(self.epsilon, neighbours=self.relation)


def people(schema=SCHEMA, odd=(), dropped=False, n_records=24, seed=0):
    """Records of which the eighth is the only one of the last class."""
    rng = np.random.default_rng(seed)
    shape = [a.size - ("?" in a.categories) for a in schema.attributes]
    codes = rng.integers(0, shape, (n_records, len(shape)))
    rows = codes.astype(object).astype(str).tolist()
    labels = np.array(schema.class_labels)[
        rng.integers(0, schema.n_classes - 1, n_records)
    ]
    labels[7] = schema.class_labels[-1]
    for place, value in enumerate(odd):
        rows[3 + 2 * place][place] = value
    names = [3 + 2 * place for place in range(len(odd))] if dropped else []
    return People.of(np.array(rows, object), labels, names)


FOREST_SETTINGS = {
    "plain": {},
    "ensembles": {"n_ensembles": 2, "max_features": 2},
    "partition": {"n_ensembles": 2, "max_features": "partition", "depth": 1},
    "binary": {"splits": "binary"},
    "category": {"handle_unknown": "category", "handle_missing": "category"},
    "drop": {"handle_unknown": "drop", "handle_missing": "drop"},
}

ACCURACY = {"accuracy": {"estimate_accuracy": True}}

ONLY = {
    "batch training": {"votes by weight": {"voting": "weight"},
        "pidentity": {"template": "pidentity"}, "workload": {"template": "workload"},
        "log-odds": {"voting": "log-odds"}} | ACCURACY,
    "batch prediction": {"votes by weight": {"voting": "weight"},
        "pidentity": {"template": "pidentity"}},
    "subsample weight": {"workload": {"template": "workload"}},
    "subsample hard": {},
    "laplace shared": {"votes by weight": {"voting": "weight"}} | ACCURACY,
    "laplace disjoint": {"votes by weight": {"voting": "weight"}} | ACCURACY,
}  # fmt: skip

ODD = ("", "9")
"""A missing and an unknown value."""

BINS = {"schema": NUMBERS, "private_bins": "all"}
ORDERED = {"schema": MONOTONE}

CHOSEN_SETTINGS = {
    "a tree": {},
    "a tree, n stated": {"n_records": 24},
    "trees that vote": {"n_records": 24, "epsilon": 5},
    "scores": {"n_records": 400},
    "views of scores": {"n_records": 1500},
    "boosting": {"n_records": 20_000},
    "long boosting": {"n_records": 60_000},
    "boosting, noisy n": {"epsilon": 1000},
    "the least epsilon": {"epsilon": "2e-5"},
    "private bins": BINS,
    "private bins, n stated": BINS | {"n_records": 400},
    "private bins, accuracy": BINS | ACCURACY["accuracy"],
    "monotone": ORDERED,
    "monotone, trees that vote": ORDERED | {"n_records": 24, "epsilon": 5},
    "monotone, views of scores": ORDERED | {"n_records": 1500},
    "monotone, boosting": ORDERED | {"n_records": 20_000},
    "category": {"handle_unknown": "category", "handle_missing": "category"},
    "drop": {"handle_unknown": "drop", "handle_missing": "drop"},
    "accuracy": ACCURACY["accuracy"],
    "accuracy, n stated": ACCURACY["accuracy"] | {"n_records": 24},
    "accuracy, boosting": ACCURACY["accuracy"] | {"n_records": 25_000},
    "accuracy, drop": {"handle_unknown": "drop", "handle_missing": "drop"}
    | ACCURACY["accuracy"],
}

RHO_SETTINGS = {
    name: CHOSEN_SETTINGS[name] | {"in_rho": True}
    for name in ("a tree", "scores", "boosting", "boosting, noisy n",
                 "the least epsilon", "private bins", "accuracy")
}  # fmt: skip


def _case(make, settings, relation):
    settings = dict(settings)
    epsilon = Fraction(settings.pop("epsilon", 1))
    policy = settings.get("handle_missing")
    in_rho = settings.pop("in_rho", False)
    schema = settings.pop("schema", OTHERS if policy == "category" else SCHEMA)
    odd = ODD if policy else ()
    model = make(schema=schema, epsilon=epsilon, neighbours=relation, **settings)
    cells = np.array(list(np.ndindex(*schema.domain_shape))).astype(str)
    if policy == "category":
        cells = CELLS.astype(str)
    row = ("1", "1", "0") * (schema.n_features // 3)
    # Few and many, on both sides of what stops growth.
    n_records = 150 if relation == "replace" else 24
    records = people(schema, odd, policy == "drop", n_records)
    return Case(model, records, cells, epsilon, odd, row, in_rho)


def cases(relations=RELATIONS):
    """Return all settings of all estimators by name."""
    found = {}
    for relation in relations:
        for name in PRIVATE:
            for words, settings in (FOREST_SETTINGS | ONLY[name]).items():
                found[f"{name}, {words}, {relation}"] = _case(
                    lambda name=name, **given: classifier(name, **given),
                    settings,
                    relation,
                )
        for kind, named in (("pure", CHOSEN_SETTINGS), ("rho", RHO_SETTINGS)):
            for words, settings in named.items():
                found[f"{kind}, {words}, {relation}"] = _case(
                    rf.PrivateForestClassifier, settings, relation
                )
    return found


def runner(case, *, own=False):
    """Return what fits a case to a data set and looks at all of it.

    Records without labels are its own, or those of everybody.
    """

    def run(people, ledger):
        model = clone(case.model).set_params(ledger=ledger)
        X = people.X
        if not hasattr(X, "columns"):
            X = np.array(X, object).reshape(-1, len(case.row))
        others = X[::-1] if own else case.cells[::3]
        more = {"X_unlabelled": others} if case.unlabelled else {}
        model.fit(X, people.y, **more)
        seen = [facts(model, case.cells)]
        if model._holds_counts():
            model.close()
            seen.append(facts(model, case.cells))
        return seen

    return run


RECIPES = dict(rf.recipes()) | {
    "entropy": rf.Recipe(score="entropy", n_trees=2),
    "gain": rf.Recipe(score="gain-and-ratio", n_trees=2, splits="threshold",
        candidates="sqrt"),
    "levels": rf.Recipe(levels="hou", leaves="levels", n_trees=2),
    "selective": rf.Recipe(pruning="selective", n_trees=3),
    "nodes that stop": rf.Recipe(stopping="noisy-counts", levels="alternating",
        n_trees=1, depth=2),
    "shared medians": rf.Recipe(score="median", records="all", n_trees=2),
    "grid": rf.Recipe(grid=1, n_trees=2, splits="threshold"),
    "labelled": rf.recipes()["pte"].replace(stopping="labelled"),
    "last tree": rf.recipes()["liu"].replace(n_trees=3, first_phase=Fraction(2, 3)),
}  # fmt: skip


def relations_of(recipe):
    """Return all relations that a recipe goes with."""
    return ["labels"] if recipe.guarantee == "labels" else [*RELATIONS, "labels"]


def recipe_case(recipe, relation, **settings):
    """Return a recipe of few trees."""
    if isinstance(recipe.n_trees, int):
        recipe = recipe.replace(n_trees=min(recipe.n_trees, 3))
    settings |= {"schema": MIXED, "recipe": recipe, "random_state": 0}
    return _case(rf.RecipeForestClassifier, settings, relation)


def recipe_cases():
    """Return all recipes by name, under every relation that they go with."""
    found = {}
    for name, recipe in RECIPES.items():
        for relation in relations_of(recipe):
            found[f"recipe {name}, {relation}"] = recipe_case(recipe, relation)
        if not recipe.draws_from_others:
            relation = "labels" if recipe.guarantee == "labels" else "add_remove"
            found[f"recipe {name}, accuracy, {relation}"] = recipe_case(
                recipe, relation, estimate_accuracy=True
            )
    return found


# ---- tables and streams --------------------------------------------------------------
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
    """What else is released: ``run(people, ledger)`` returns all that is seen."""

    run: Any
    ledger: Any
    relation: str
    schema: Any = DOMAIN
    odd: tuple[str, ...] = ()


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
        shown = [released.table(names, frame="dict") for names in released.tables]
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
    return Setting(run, lambda: mm.PrivacyLedger(cost, **settings), relation)


def stream_of(relation):
    """Return the setting of a stream of how many people have each age."""

    def run(people, ledger):
        made = mm.Stream(horizon=5, rho="1/8", neighbours=relation, ledger=ledger)
        cells = np.array(people.X, int).reshape(-1, 4)
        counts = np.bincount(cells[:, 2], minlength=4).tolist()
        pushed = [(made.push(count), repr(made)) for count in counts]
        return pushed, made.answers, made.confidence_interval(3), made.expected_error()

    terms = {"currency": "rho", "neighbours": relation}
    return Setting(run, lambda: mm.PrivacyLedger("1/8", **terms), relation)


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


def everything():
    """Return all that looks at records, by name."""
    found = cases() | recipe_cases()
    for relation in RELATIONS:
        for name, options in TABLES.items():
            found[f"tables, {name}, {relation}"] = tables_of(options, relation)
        found[f"streams, of rho, {relation}"] = stream_of(relation)
    return found
