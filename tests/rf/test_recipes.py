"""Recipes: their shares, their numbers, what they refuse."""

import ast
import itertools
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from replay_cases import RECIPES
from schema_cases import schema_of

import mmech_rf as rf
from benchmarks.recipes.__main__ import published
from mmech import ParameterError, PrivacyLedger
from mmech.noise import FRACTION_BITS
from mmech.privacy.neighbours import Relation
from mmech.selection import fixed_point_rate
from mmech_rf._kernels import node_histograms
from mmech_rf.forest.growth import TableTooLargeError
from mmech_rf.literature import grow
from mmech_rf.literature.classifier import PRUNINGS
from mmech_rf.literature.grow import MOST, SELECTIONS, score_for
from mmech_rf.literature.leaves import (
    VOTES,
    RecipeVotes,
    ancestors,
    release_levels,
    signal_to_noise,
)
from mmech_rf.literature.recipe import (
    CHOICES,
    NUMBERS,
    RULES,
    refused,
    tree_epsilon,
)
from mmech_rf.methods import SPLITS

NURSERY = rf.datasets.load_nursery().schema
CAR = rf.datasets.load_car()


# ------------------------------------------------------------------------- budgets
@pytest.mark.parametrize("name", list(rf.recipes()))
def test_budgets_sum_to_epsilon(name):
    recipe = rf.recipes()[name]
    amounts = (Fraction(1), Fraction(1, 7), Fraction("2.3"))
    for n_levels, epsilon in itertools.product((1, 2, 5, 8), amounts):
        budget = recipe.budget(epsilon, n_levels)
        if recipe.draws_from_others:
            assert sum(budget.tests) == sum(budget.counts) == epsilon
        else:
            assert budget.total == epsilon
        assert len(budget.tests) == n_levels
        assert len(budget.counts) == n_levels + 1
        assert min(*budget.tests, *budget.counts) >= 0
        assert budget.counts[-1] > 0


@pytest.mark.parametrize(
    ("name", "n_levels", "published"),
    [
        ("hou", 6, [0.068, 0.080, 0.096, 0.119, 0.159, 0.239, 0.239]),
        ("liu", 4, [0.088, 0.110, 0.146, 0.219, 0.438]),
    ],
)
def test_shares_of_levels_are_as_published(name, n_levels, published):
    budget = rf.recipes()[name].budget(1, n_levels)
    tests = np.array([*budget.tests, 0], float)
    found = tests + np.array(budget.counts, float)
    np.testing.assert_allclose(found, published, atol=6e-4)  # three digits


def test_shares_of_cuts_are_as_published():
    tests = rf.recipes()["spe"].budget(2, 4).tests
    found = [round(float(share), 4) for share in tests]
    assert found == [0.1231, 0.1846, 0.2769, 0.4154]
    counts = [2 * share for share in rf.recipes()["guan"].budget(1, 7).counts]
    assert [round(float(counts[i]), 3) for i in (1, 7)] == [0.064, 0.257]
    assert set(rf.recipes()["friedman-schuster"].budget(1, 5).tests) == {
        Fraction(1, 10)
    }


# ------------------------------------------------------------------ public numbers
@pytest.mark.parametrize(
    ("name", "kinds", "n_records", "levels"),
    [
        ("jpw", "n" * 4, 1235, 2),  # log2 is 10, and half of 4 attributes 2
        ("jpw", "c" * 8, 17, 3),  # log2 of 17, less one, and not 4
        ("spe", "n" * 9, 1000, 4),  # 10 of the 100 records of a tree: 16 leaves
        ("spe", "n" * 9, 80, 1),
        ("sspe-2", "n" * 9, 80, 9),  # until exact sizes stop it
        ("fi-2021", "n" * 6 + "c" * 8, 1000, 9),
        ("rana", "n" * 16, 300, 5),  # log2 of 30: trees share the records
        ("rana", "n" * 4, 1235, 7),  # whatever the number of attributes
    ],
)
def test_levels_follow_from_public_numbers(name, kinds, n_records, levels):
    sizes = {"n": "n9", "c": "c2"}
    schema = schema_of(*(sizes[kind] for kind in kinds))
    assert rf.recipes()[name].n_levels(schema, 1.0, n_records) == levels


def test_preset_numbers_are_those_of_their_sources():
    found = rf.recipes()
    assert (found["liu"].depth + 1, found["liu"].n_trees) == (5, 90)
    assert found["dprf-thesis"].grid == 10
    assert (found["rana"].score, found["rana"].n_trees) == ("entropy", 10)


def test_what_sources_leave_open_or_do_otherwise_is_said():
    """One-sided scores are drawn at twice the rate of eps / (2 w)."""
    for name, one in rf.recipes().items():
        drawn = one.draws and SELECTIONS[one.selection][1] == "exponential"
        said = "twice the eps / (2 w) of the source" in one.corrected
        assert said == (drawn and one.score in ("max", "gini", "entropy")), name
    for name in ("max-tree", "zhang"):
        assert "depth 5 is ours" in rf.recipes()[name].corrected


def test_the_number_of_trees_follows_from_public_support():
    recipe = rf.recipes()["fi-2015"]
    assert recipe.trees(NURSERY, 1.0, 12960) == 8
    assert recipe.trees(NURSERY, 0.01, 12960) == 1
    theta = 2**0.5 * NURSERY.n_classes * 8 / 1.0
    assert round(theta, 1) == 56.6


def test_the_exponential_mechanism_of_table_6():
    """Counts (5, 10), epsilon .1: the right label in 62.2 % (1 / (1 + e^-.5))."""
    rate = fixed_point_rate(
        Fraction(1, 10), monotone=True, relation=Relation(), roundings=1
    )
    assert round(1 / (1 + np.exp(-5 * rate / 2**FRACTION_BITS)), 3) == 0.622


@pytest.mark.parametrize(
    ("name", "neighbours", "expected"),
    [
        ("patil-singh", "add_remove", np.log1p(2 / 20)),
        # Whoever is replaced leaves a bag and enters one.
        ("patil-singh", "replace", np.log1p(1 / 20)),
        ("max-tree", "replace", 2 / 50),
        ("spe", "replace", 2),
    ],
)
def test_what_a_tree_may_cost(name, neighbours, expected):
    recipe = rf.recipes()[name]
    own = tree_epsilon(
        recipe.records, Fraction(2), recipe.n_trees, Relation(neighbours)
    )
    assert expected * (1 - 1e-9) < own <= Fraction(expected) * (1 + Fraction(1, 2**40))


def test_tables_have_what_recipes_may_choose():
    assert CHOICES["levels"] == tuple(RULES)
    assert CHOICES["selection"] == tuple(SELECTIONS)
    assert CHOICES["vote"] == tuple(VOTES)
    assert CHOICES["pruning"] == tuple(PRUNINGS)
    assert set(CHOICES["splits"]) == set(SPLITS)


def test_every_choice_has_code_words_and_a_case():
    """A word without code would be another choice in silence, at its price."""
    constants = {
        node.value
        for file in Path(grow.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant)
    }
    for name, words in (CHOICES | NUMBERS).items():
        assert {*words} <= constants | {*SPLITS}, name
        assert {*words} <= {getattr(recipe, name) for recipe in RECIPES.values()}, name
        assert all(f'"{word}"' in rf.Recipe.__doc__ for word in words), name


def test_every_recipe_has_a_row_of_the_benchmark():
    assert {row.recipe for row in published()} == set(rf.recipes())


# -------------------------------------------------------------------------- scores
@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", CHOICES["score"])
@pytest.mark.parametrize("unit", [1, 3])
def test_an_added_record_moves_scores_within_the_window(name, unit, rng):
    """All tests of all small nodes, at once, in both directions of all classes."""
    score = score_for(name, 3, 20, unit)
    children = rng.integers(0, 12, (4000, 4, 3)) * rng.integers(0, 2, (4000, 4, 1))
    children[0] = 0
    low, high = 0, 0
    for child in range(4):
        for c in range(3):
            for weight in range(1, unit + 1):
                more = children.copy()
                more[:, child, c] += weight
                for scores in (two_way, multiway)[: 1 + (name != "median")]:
                    change = scores(score, more) - scores(score, children)
                    low, high = min(low, change.min()), max(high, change.max())
    assert high - low <= score.window
    if unit == 1:  # and the window is not much too wide
        assert high - low >= 0.4 * score.window


def two_way(score, children):
    return score.two_way(children[:, :2].sum(axis=1), children[:, 2:].sum(axis=1))


def multiway(score, children):
    return score.multiway(children)


def test_counts_that_are_too_large_keep_the_window():
    for name in CHOICES["score"]:
        score = score_for(name, 2, 10**6)
        for n in (0, MOST - 1, MOST, 2**30):
            left, right = np.array([[n, 3]]), np.array([[2, n]])
            more = score.two_way(left + np.array([0, 1]), right)
            change = more - score.two_way(left, right)
            assert abs(int(change[0])) <= score.window


def test_histograms_are_those_of_a_loop(rng):
    codes = np.stack([rng.integers(0, n, 200) for n in (3, 4)], axis=1)
    classes, starts = rng.integers(0, 2, 200), np.array([0, 3, 7])
    record, node = rng.integers(0, 200, 300), rng.integers(-1, 6, 300)
    weight = rng.integers(0, 4, 300)
    found, expected = np.zeros((2, 3, 7, 2), np.int64)
    node_histograms(codes, classes, record, weight, node, 2, 5, starts, found)
    for i, one, w in zip(record, node, weight, strict=True):
        for a in range(2):
            if 2 <= one < 5:
                expected[one - 2, starts[a] + codes[i, a], classes[i]] += w
    np.testing.assert_array_equal(found, expected)


# ------------------------------------------------------------------------- leaves
def test_levels_are_made_consistent():
    """Without noise counts of all levels are those of the leaves, whatever depth."""
    model = fit(rf.recipes()["friedman-schuster"], epsilon=50)
    forest = model.forest_
    exact = forest.count_leaves(*encoded(), n_classes=4)
    costs = (Fraction(1, 4),) * (forest.depth + 1)
    found = release_levels(
        forest, exact, costs, 1, lambda *paid: None, lambda values, *rest: values
    )
    np.testing.assert_allclose(found, exact, atol=1e-6)


def test_paths_begin_at_the_root_and_end_at_the_leaf():
    forest = fit(rf.recipes()["jpw"]).forest_
    paths = ancestors(forest)
    tree = np.searchsorted(forest.leaf_offsets, np.arange(len(paths)), "right") - 1
    assert (paths[:, 0] == forest.node_offsets[tree]).all()
    ends = forest.child[paths[:, -1]] + forest.leaf_offsets[tree]
    assert ends.tolist() == list(range(len(paths)))


def test_leaves_of_noise_vote_with_those_around():
    forest = fit(rf.recipes()["jpw"]).forest_
    counts = np.zeros((forest.n_leaves, 4))
    counts[:, 1] = 1
    kept = signal_to_noise(forest, counts, epsilon=1000)
    np.testing.assert_array_equal(kept, counts)
    roots = signal_to_noise(forest, counts, epsilon=1e-9)
    sizes = np.repeat(np.diff(forest.leaf_offsets), np.diff(forest.leaf_offsets))
    assert roots[:, 1].tolist() == sizes.tolist()


def test_what_a_leaf_says():
    forest = fit(rf.recipes()["jpw"]).forest_
    counts = np.tile([3.0, -1.0, 1.0, 0.0], (forest.n_leaves, 1))
    said = {name: vote(forest, counts)[0].tolist() for name, vote in VOTES.items()}
    best = [1, 0, 0, 0]
    shares = [0.75, 0, 0.25, 0]
    assert said == {
        "hard": best, "weight": [3, -1, 1, 0], "mean": shares, "most-confident": best,
    }  # fmt: skip


def test_a_mean_share_of_more_than_half_decides_between_two_classes(rng):
    """The threshold vote of Bojarski et al. is the mean vote of two classes."""
    schema = schema_of("c2", "c2")
    forest = rf.grow_random_forest(schema, 5, 2, splits="threshold", seed=0)
    counts = rng.integers(0, 9, (forest.n_leaves, 2)) + 0.5
    codes = np.array(list(itertools.product(range(2), repeat=2)))
    leaves = counts[forest.apply(codes) + forest.leaf_offsets[:-1]]
    means = (leaves[..., 1] / leaves.sum(axis=2)).mean(axis=1)
    votes = RecipeVotes(forest, counts, "mean").log_odds(codes)
    assert votes.argmax(axis=1).tolist() == (means > 0.5).tolist()


# ------------------------------------------------------------------------ the model
def encoded():
    return CAR.schema.encode(CAR.data, CAR.target)


def fit(recipe, epsilon=2, **settings):
    model = rf.RecipeForestClassifier(
        CAR.schema, epsilon=epsilon, recipe=recipe, n_records=1728, random_state=0,
        **settings,
    )  # fmt: skip
    return model.fit(CAR.data, CAR.target)


def test_without_noise_to_speak_of_trees_know_the_rule():
    model = fit(rf.Recipe(n_trees=1, depth=9), epsilon=10_000)
    assert model.score(CAR.data, CAR.target) > 0.9


def test_the_table_names_every_recipe():
    text, page = repr(rf.recipes()), rf.recipes()._repr_html_()
    assert all(name in text and name in page for name in rf.recipes())


# ----------------------------------------------------------------------- refusals
@pytest.mark.parametrize("name", list(refused()))
def test_what_is_not_private_is_refused_with_what_is(name):
    ledger = PrivacyLedger(1)
    with pytest.raises(ParameterError, match="is refused") as error:
        rf.RecipeForestClassifier(
            CAR.schema, epsilon=1, recipe=name, ledger=ledger
        ).fit(CAR.data, CAR.target)
    assert str(error.value).endswith(f"use recipe={refused()[name][1]!r}")
    assert refused()[name][1] in rf.recipes()
    assert not ledger.entries


SMALL_LIMITS = {"count_entries": 3000, "mask_entries": 3000 * 66}
DEEP = rf.Schema(
    [rf.Attribute.categorical(f"x{i}", list("abc")) for i in range(22)], ["no", "yes"]
)


def test_trees_that_do_not_fit_are_refused_with_a_depth_that_does():
    rows = np.array([list("abc" * 8)[:22]] * 40)
    labels = ["no", "yes"] * 20

    def fit(recipe):
        return rf.RecipeForestClassifier(
            DEEP, epsilon=5, recipe=recipe, n_records=40, random_state=0
        ).fit(rows, labels)

    recipe = rf.Recipe(depth=12, n_trees=60)
    with rf.limits.changed(**SMALL_LIMITS):
        with pytest.raises(TableTooLargeError, match="do not fit in memory") as error:
            fit(recipe)
        depth = int(re.search(r"Recipe with depth=(\d+)", str(error.value))[1])
        fit(recipe.replace(depth=depth))
        with pytest.raises(TableTooLargeError):
            fit(recipe.replace(depth=depth + 1))


# ----------------------------------------------------------------------- names
def test_a_changed_preset_says_so():
    spe = rf.recipes()["spe"]
    changed = spe.replace(n_trees=5).replace(depth=2, leaf_share="1/3")
    assert changed.name == "spe with n_trees=5, depth=2, leaf_share=1/3"
    assert spe.replace(depth=2).replace(depth=spe.depth).name == "spe"
    assert spe.replace(name="mine", depth=2).name == "mine"
    assert rf.Recipe().replace(depth=2).name == "own"
    model = fit(changed)
    for seen in (model.describe(), model.privacy_statement_, model.card()["statement"]):
        assert changed.name in seen
    assert "after Huang, Lei, Kaban" in model.describe()
