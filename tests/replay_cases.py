"""Forests in all their settings, small, for tests that go through every one."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from replay import People, facts
from rf_cases import CELLS, CLASSES, PRIVATE, SCHEMA, SHAPE, classifier
from sklearn.base import clone

import mmech_rf as rf
from mmech import PrivacyLedger, rho_from_epsilon_delta

RELATIONS = ("add_remove", "replace")

"""Two classes, and enough attributes for blocks to choose from."""

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

    shared: bool = False
    """Whether zCDP is paid from a ledger of rho, and not from one of the fit's own."""

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
    def zcdp(self):
        return getattr(self.model, "privacy", "pure") == "zcdp"

    def ledger(self):
        """Return a ledger that just covers a fit, or None for one of its own."""
        if not self.zcdp:
            return PrivacyLedger(self.epsilon, neighbours=self.relation)
        if self.shared:
            return PrivacyLedger(self.rho, currency="rho", neighbours=self.relation)
        return None

    @property
    def rho(self):
        return Fraction(rho_from_epsilon_delta(self.epsilon, self.model.delta))


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

ZCDP = {"privacy": "zcdp", "delta": 1e-6}

ZCDP_SETTINGS = {
    name: ZCDP | CHOSEN_SETTINGS[name]
    for name in ("a tree", "scores", "the least epsilon", "boosting, noisy n")
} | {
    "boosting": ZCDP | {"n_records": 100_000},
    "accuracy": ZCDP | ACCURACY["accuracy"],
    "accuracy, boosting": ZCDP | ACCURACY["accuracy"] | {"n_records": 125_000},
    "accuracy, shared": ZCDP | ACCURACY["accuracy"] | {"shared": True},
    "private bins": ZCDP | BINS | {"n_records": 100_000},
    "shared private bins": ZCDP | BINS | {"shared": True},
    "a shared tree": ZCDP | {"shared": True},
    "shared boosting": ZCDP | {"n_records": 100_000, "shared": True},
}


def _case(make, settings, relation):
    settings = dict(settings)
    epsilon = Fraction(settings.pop("epsilon", 1))
    policy = settings.get("handle_missing")
    shared = settings.pop("shared", False)
    schema = settings.pop("schema", OTHERS if policy == "category" else SCHEMA)
    odd = ODD if policy else ()
    model = make(schema=schema, epsilon=epsilon, neighbours=relation, **settings)
    cells = np.array(list(np.ndindex(*schema.domain_shape))).astype(str)
    if policy == "category":
        cells = CELLS.astype(str)
    row = ("1", "1", "0") * (schema.n_features // 3)
    return Case(
        model, people(schema, odd=odd, dropped=policy == "drop"), cells, epsilon,
        odd, row, shared,
    )  # fmt: skip


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
        for kind, named in (("pure", CHOSEN_SETTINGS), ("zcdp", ZCDP_SETTINGS)):
            for words, settings in named.items():
                found[f"{kind}, {words}, {relation}"] = _case(
                    rf.PrivateForestClassifier, settings, relation
                )
    return found


def runner(case, others=None):
    """Return what fits a case to a data set and looks at all of it.

    Records without labels are those of `others`, or else of the data set itself.
    """

    def run(people, ledger):
        model = clone(case.model).set_params(ledger=ledger)
        X = np.array(people.X, object).reshape(-1, len(case.row))
        unlabelled = X[::-1] if others is None else others
        more = {"X_unlabelled": unlabelled} if case.unlabelled else {}
        model.fit(X, people.y, **more)
        seen = [facts(model, case.cells)]
        if model._holds_counts():
            model.close()
            seen.append(facts(model, case.cells))
        run.accounting = getattr(getattr(model, "choice_", None), "accounting", "pure")
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
    return {
        f"recipe {name}, {relation}": recipe_case(recipe, relation)
        for name, recipe in RECIPES.items()
        for relation in relations_of(recipe)
    }
