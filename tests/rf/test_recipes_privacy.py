"""Every recipe is private: by its draws, by all outputs of tiny domains, by mutants."""

import numpy as np
import pytest
from replay import check_pair, entropy, play, same, watched, without_records
from replay_cases import people
from sklearn.base import clone

from mmech import PrivacyLedger
from mmech_rf import Attribute, Recipe, RecipeForestClassifier, Schema, recipes

SCHEMA = Schema(
    (
        Attribute.categorical("x0", ["0", "1", "2"]),
        Attribute.numeric("x1", lower=0, upper=4, n_bins=4),
        Attribute.categorical("x2", ["0", "1"]),
    ),
    ("no", "maybe", "yes"),
)
CELLS = [[str(a), b + 0.5, str(c)] for a, b, c in np.ndindex(3, 4, 2)]
OTHERS = CELLS[::3]
"""Records of other persons, without labels."""

VARIANTS = {
    "entropy": Recipe(score="entropy", n_trees=2),
    "gain": Recipe(score="gain", n_trees=2, splits="threshold", candidates="sqrt"),
    "levels": Recipe(levels="hou", leaves="levels", n_trees=2),
    "selective": Recipe(pruning="selective", n_trees=3),
    "shared medians": Recipe(score="median", records="all", n_trees=2),
    "matrix": recipes()["jpw"].replace(leaves="matrix", n_trees=2, depth=2),
    "bernoulli": Recipe(records="bernoulli", sample="1/3", n_trees=2),
    "grid": Recipe(grid=1, n_trees=2, splits="threshold"),
}
SMALL = {
    name: recipe.replace(
        n_trees=min(recipe.n_trees, 3)
        if isinstance(recipe.n_trees, int)
        else recipe.n_trees
    )
    for name, recipe in recipes().items()
} | VARIANTS


def relations(recipe):
    if recipe.guarantee == "labels":
        return ["labels"]
    if recipe.records in ("poisson", "bernoulli"):
        return ["add_remove"]
    return ["add_remove", "replace", "labels"]


CASES = [(name, r) for name, recipe in SMALL.items() for r in relations(recipe)]


def forest(recipe, relation="add_remove", **settings):
    return RecipeForestClassifier(
        SCHEMA, epsilon=1, recipe=recipe, neighbours=relation, random_state=0,
        **settings,
    )  # fmt: skip


def looked_at(model, X, y):
    """Fit, and return all that anybody sees."""
    extra = {"X_unlabelled": OTHERS} if model.recipe.unlabelled else {}
    model.fit(np.array(X, object).reshape(-1, 3), y, **extra)
    return {
        "labels": model.predict(CELLS),
        "statement": model.privacy_statement_,
        "describe": model.describe(),
        "attributes": {n: v for n, v in vars(model).items() if n != "timings_"},
    }


def runner(model):
    def run(data, ledger):
        rows = [[a, float(b) + 0.5, c] for a, b, c in data.X]
        return looked_at(clone(model).set_params(ledger=ledger), rows, data.y)

    return run


def neighbours_of(data, relation, sampled):
    """Return neighbours of a data set."""
    row = ("1", "1", "0")
    if relation == "labels":
        return [data.replaced(i, data.rows[i], "yes") for i in (0, 12)]
    if relation == "replace":
        return [data.replaced(0, row, "yes"), data.replaced(7, row, "no")]
    added = [data.and_of(row, "yes", 0), data.and_of(data.rows[3], "no")]
    # What a record costs that is in no bag, or in several, is not that of one.
    return added if sampled else [*added, data.without(0), data.without(7)]


@pytest.mark.parametrize(("name", "relation"), CASES)
def test_a_neighbour_looks_the_same_and_is_paid_for(name, relation, seed):
    recipe = SMALL[name]
    data = people(SCHEMA_OF_CODES, seed=seed)
    sampled = recipe.records in ("poisson", "bernoulli")
    run = runner(forest(recipe, relation))
    with entropy([seed, 1]):
        tape = play(run, data, PrivacyLedger(1, neighbours=relation))
    for neighbour in neighbours_of(data, relation, sampled):
        after = play(run, neighbour, PrivacyLedger(1, neighbours=relation), tape)
        check_pair(tape, after, epsilon=1)


SCHEMA_OF_CODES = Schema(
    tuple(
        Attribute.categorical(f"x{i}", list(map(str, range(n))))
        for i, n in enumerate((3, 4, 2))
    ),
    SCHEMA.class_labels,
)


@pytest.mark.parametrize(
    "name", [n for n, recipe in SMALL.items() if recipe.guarantee == "pure"]
)
def test_nothing_public_depends_on_records(name):
    """Nodes, leaves and words are the same for nobody as for many."""
    data = people(SCHEMA_OF_CODES)
    rows = [[a, float(b) + 0.5, c] for a, b, c in data.X]
    seen = []
    for X, y in ((rows, data.y), (rows[:0], []), (rows[:1] * 40, ["yes"] * 40)):
        with watched(without_records()):
            found = looked_at(forest(SMALL[name]), X, y)
        found["attributes"].pop("_lineage")
        seen.append(found)
    same("nobody", seen[0], seen[1])
    same("one cell", seen[0], seen[2])
