"""Accuracies of recipes on the sets that they were published with.

Published: Huang, Lei, Kaban 2022, Tables 1 and 2; Fletcher, Islam 2017. Means of a few
random 90/10 splits at the published epsilon, with a public stop and public bounds: the
published systems read both from the records. The intervals are those of a prototype
that had both, less two standard errors of our mean; better is welcome.
"""

import numpy as np
import pytest

from benchmarks.accuracy._data import load
from benchmarks.recipes.__main__ import Row, measures
from mmech_rf import RecipeForestClassifier, recipes

pytestmark = [pytest.mark.slow, pytest.mark.statistical]


def most_accuracy(name, recipe, epsilon, n_splits=8, **others):
    """Return the mean over splits, and two standard errors more."""
    bunch = load(name)
    if bunch is None:
        pytest.skip("the folder of the data sets is not there")
    row = Row(name, recipe, str(epsilon), **others)
    orders = map(np.random.default_rng, range(n_splits))
    n = len(bunch.target)
    found = [measures(row, bunch, o.permutation(n), False)[0] for o in orders]
    return np.mean(found) + 2 * np.std(found, ddof=1) / len(found) ** 0.5


@pytest.mark.parametrize(
    ("recipe", "epsilon", "name", "least"),
    [
        ("spe", 2, "banknote", 90), ("spe", 2, "wall-robot", 82),
        ("spe", 2, "mushroom", 92), ("spe", 2, "magic", 75), ("spe", 2, "car", 68),
        ("spe", 2, "iris", 78), ("spe", 2, "claves", 61),
        ("fi-2021", 1, "wall-robot", 60), ("fi-2021", 1, "magic", 65),
        ("fi-2021", 1, "nursery", 75), ("fi-2021", 1, "claves", 43),
        # as published
        ("friedman-schuster", 1, "nursery", 40), ("friedman-schuster", 1, "claves", 32),
        ("friedman-schuster", 1, "mushroom", 83),
        # 93 % at .1: in all, and for each of 20 trees, which is 2 in all
        ("patil-singh", 0.1, "mushroom", 86), ("patil-singh", 2, "mushroom", 86),
    ],
)  # fmt: skip
def test_accuracies_of_recipes(recipe, epsilon, name, least):
    assert most_accuracy(name, recipe, epsilon) > least


@pytest.mark.parametrize("name", ["banknote", "wall-robot"])
def test_medians_beat_random_tests(name):
    """By 15 points, with the same public stop, budget for leaves and votes.

    The gain of one split has a standard deviation of 9 or 10 points.
    """
    bunch = load(name)
    if bunch is None:
        pytest.skip("the folder of the data sets is not there")
    X, y, n = bunch.data, bunch.target, len(bunch.target)
    random = recipes()["spe"].replace(structure="random", splits="threshold")
    gains = []
    for split in range(40):
        order = np.random.default_rng(split).permutation(n)
        train, test = order[: 9 * n // 10], order[9 * n // 10 :]
        scores = [
            RecipeForestClassifier(
                bunch.schema, epsilon=2, recipe=recipe, n_records=len(train),
                random_state=split,
            ).fit(X[train], y[train]).score(X[test], y[test])
            for recipe in ("spe", random)
        ]  # fmt: skip
        gains.append(scores[0] - scores[1])
    error = np.std(gains, ddof=1) / len(gains) ** 0.5
    assert np.mean(gains) + 2 * error > 0.15
    assert np.mean(gains) - 2 * error > 0.10


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("banknote", (80, 80, 80)), ("wall-robot", (74, 77, 77)),
        ("mushroom", (85, 88, 88)), ("magic", (72, 70, 68)),
    ],
)  # fmt: skip
def test_records_without_labels(name, least):
    """At 20 % labels; two counts per label cost up to eight points of the published.

    Exact tests stop at 10 labelled records: with the stop at 10 of all records, as the
    source has it, leaves of wide sets hold no labels, and nothing published is near.
    """
    labelled = "stopping=labelled"
    names = {"sspe-1": "", "sspe-2": labelled, "pte": labelled}
    for (recipe, choices), bound in zip(names.items(), least, strict=True):
        assert most_accuracy(name, recipe, 2, choices=choices) > bound


@pytest.mark.parametrize(
    ("name", "epsilon", "depth", "n_trees", "published"),
    [
        ("banknote", 0.01, 4, 9, 56), ("banknote", 1, 4, 9, 88),
        ("banknote", 2, 4, 9, 89), ("mushroom-complete", 0.1, 11, 6, 94),
        ("mushroom-complete", 1, 11, 6, 98), ("adult-14", 0.1, 7, 15, 74),
        ("adult-14", 1, 7, 15, 81),
    ],
)  # fmt: skip
def test_medians_of_the_thesis(name, epsilon, depth, n_trees, published):
    """Its Figures 5.1 and 5.2; all medians are paid for, at up to nine points."""
    choices = f"depth={depth} n_trees={n_trees}"
    found = most_accuracy(name, "dprf-thesis", epsilon, choices=choices, held_out="25")
    assert found > published - 9
