"""What a forest draws for some records is played to their neighbours.

Everything that anybody sees must then be the same, and what a record changes must be
paid for; see `replay`.
"""

from itertools import islice

import numpy as np
import pytest
import rf_cases
from replay import People, check_pair, entropy, play, watched
from replay_cases import (
    RECIPES,
    cases,
    recipe_case,
    recipe_cases,
    relations_of,
    runner,
)
from rf_cases import classifier

from mmech import ParameterError, PrivacyLedger
from mmech_rf import Recipe
from mmech_rf.literature.recipe import CHOICES

pytestmark = pytest.mark.usefixtures("scores_of_few")

CASES = cases() | {
    name: case
    for name, case in recipe_cases().items()
    # A record in several samples, or in none, costs unlike one that is new in one.
    if not case.sampled or case.relation == "add_remove"
}
for name, recipe in RECIPES.items():
    if not recipe.draws_from_others:
        relation = "labels" if recipe.guarantee == "labels" else "add_remove"
        CASES[f"recipe {name}, accuracy, {relation}"] = recipe_case(
            recipe, relation, estimate_accuracy=True
        )


def neighbours(case):
    """Return pairs of a data set and a neighbour of it, by what is done."""
    people, row, labels = case.people, case.row, case.model.schema.class_labels
    last = len(people.names) - 1
    if case.relation == "labels":
        # Who has another label keeps all places: how many train a tree is public.
        return {
            f"another label of {i}": (people, people.relabelled(i, labels[-1]))
            for i in (0, 12)
        }
    lone = People.of([row], [labels[0]])
    # Values that the policies of the case take, in the row of somebody new.
    odd = [(*row[:i], value, *row[i + 1 :]) for i, value in enumerate(case.odd)]
    drop = {"dropped": bool(people.dropped)}
    # Labels that do not fit are dropped like values.
    unlike = ("never", "") if people.dropped else ()
    if case.relation == "replace":
        changed = {
            "first replaced": people.replaced(0, row, labels[-1]),
            "another class": people.replaced(12, people.rows[12], labels[-1]),
            "another row": people.replaced(last, row, people.labels[last]),
            "the only one of its class replaced": people.replaced(7, row, labels[0]),
        } | {
            f"replaced by {other}": people.replaced(5, other, labels[1], **drop)
            for other in odd
        }
        for label in unlike:
            changed[f"replaced by one of {label!r}"] = people.replaced(
                5, row, label, **drop
            )
        alone = "the only one there is", lone.replaced(0, row[::-1], labels[-1])
    else:
        changed = {
            "first removed": people.without(0),
            "middle removed": people.without(12),
            "last removed": people.without(last),
            "the only one of its class removed": people.without(7),
            "a second like the first": people.and_of(people.rows[0], people.labels[0]),
            "one more in front": people.and_of(row, labels[-1], 0),
        }
        for i, other in enumerate(odd):
            changed[f"with {other}"] = people.and_of(other, labels[1], **drop)
            changed[f"without {other}"] = people.without(3 + 2 * i)
        for label in unlike:
            changed[f"one more of {label!r}"] = people.and_of(row, label, 9, **drop)
        alone = "nobody", lone.without(0)
    pairs = {name: (people, neighbour) for name, neighbour in changed.items()}
    pairs |= {alone[0]: (lone, alone[1])}
    more = {name: pair for name, pair in pairs.items() if len(pair[1].names) > last + 1}
    return more if case.sampled else pairs


def check(case, seed=0, first=0, step=1):
    """Check all pairs of a case, or some; return what each costs."""
    run, tapes, costs = runner(case, case.cells[::3]), {}, {}

    pairs = neighbours(case).items()
    if len(pairs) <= step:
        first, step = 0, 1
    for name, (people, neighbour) in islice(pairs, first, None, step):
        try:
            if people not in tapes:
                with entropy([seed, len(people.names)]):
                    tapes[people] = play(run, people, case.ledger())
            tape = tapes[people]
            after = play(run, neighbour, case.ledger(), tape)
            rho = case.rho if run.accounting == "zcdp" else None
            costs[name] = check_pair(tape, after, epsilon=case.epsilon, rho=rho)
        except AssertionError as found:
            raise AssertionError(f"{name}: {found}") from found
    return costs


@pytest.mark.by_day(32)
@pytest.mark.parametrize("name", CASES)
def test_a_neighbour_looks_the_same(name, seed, monkeypatch):
    """Every second or third pair; which of them follows from the name of the case."""
    if "pidentity" in name:
        rf_cases.remember(monkeypatch)  # one search, not ten
    step = 2 if name.startswith("recipe") else 3
    check(CASES[name], seed, sum(map(ord, name)) % step, step)


@pytest.mark.parametrize("seed", range(3, 7))
def test_weights_of_one_record_follow_from_it_alone(seed):
    """Of Liu: weights that sum to a constant would change with those of others."""
    check(CASES["recipe last tree, add_remove"].of_others(seed), seed)


def random_recipe(rng):
    """Return a recipe of random choices that go together."""
    while True:
        chosen = {name: str(rng.choice(values)) for name, values in CHOICES.items()}
        chosen |= {
            "n_trees": int(rng.integers(1, 4)),
            "depth": int(rng.integers(1, 4)),
            "candidates": int(rng.integers(1, 4)),
            "grid": rng.choice([None, 1, 2]),
            "unlabelled": bool(rng.integers(2)),
        }
        sampled = chosen["records"] == "poisson"
        if sampled and (chosen["unlabelled"] or chosen["guarantee"] == "labels"):
            continue  # a record's part of bags is not comparable draw by draw
        try:
            return Recipe(**chosen)
        except ParameterError:
            continue


@pytest.mark.by_day(4)
@pytest.mark.parametrize("number", range(16))
def test_recipes_of_random_choices(number, seed):
    recipe = random_recipe(np.random.default_rng([number, seed]))
    for relation in relations_of(recipe)[: 1 if recipe.records == "poisson" else None]:
        check(recipe_case(recipe, relation), number, number % 3, 3)


def test_there_are_enough_pairs():
    assert sum(len(neighbours(case)) for case in CASES.values()) >= 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_neighbours_of_others_look_the_same(name, seed):
    check(CASES[name], seed)
    for more in range(1, 20):
        check(CASES[name].of_others(seed + more), seed + more)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("name", ["batch training", "laplace shared"])
def test_what_is_paid_is_what_it_costs(name, relation):
    """Nothing is paid for in vain: some neighbour comes up to all of epsilon."""
    assert max(check(CASES[f"{name}, plain, {relation}"]).values()) == 1


@pytest.mark.parametrize("value", ["", "9"])
@pytest.mark.parametrize(
    "name", ["batch training", "subsample hard", "laplace disjoint"]
)
def test_a_record_that_is_refused_is_refused_before_any_draw(name, value):
    seen, ledger = [], PrivacyLedger(1)
    model = classifier(name, ledger=ledger)
    bad = [["0", "0", "0"], [value, "0", "0"]]
    with (
        watched(lambda draw, sample: seen.append(draw) or sample()),
        pytest.raises(ValueError, match="row 1"),
    ):
        model.fit(bad, ["no", "yes"])
    assert not seen
    assert not ledger.entries
