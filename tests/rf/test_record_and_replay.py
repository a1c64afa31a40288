"""What a release draws for some records is played to others.

To neighbours: all that anybody sees must be the same, and what a record changes must be
paid for. To strangers: nothing public depends on records. See `replay`. And what is
drawn without any choice by floats is what was recorded, see `recordings`.
"""

import itertools
import re
import time
import warnings
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numba
import numpy as np
import pandas as pd
import pytest
import rf_cases
from recordings import check_recorded, recordings
from replay import People, check_pair, entropy, play, same, watched
from replay_cases import (
    RECIPES,
    Setting,
    everything,
    people,
    recipe_case,
    relations_of,
    runner,
    stranger,
)
from rf_cases import PRIVATE, SCHEMA, classifier
from sklearn.base import clone

from mmech import ParameterError, PrivacyLedger
from mmech_rf import PrivateForestClassifier, Recipe, Schema
from mmech_rf.literature.recipe import CHOICES

pytestmark = pytest.mark.usefixtures("scores_of_few")

CASES = everything()
FORESTS = {name: case for name, case in CASES.items() if not isinstance(case, Setting)}


KINDS = {
    "plain": PRIVATE, "ensembles": PRIVATE, "add_remove": RECIPES,
    **dict.fromkeys(("a tree", "scores", "views of scores", "boosting", "private bins"),
        ("pure",)),
}  # fmt: skip
"""What is recorded: nothing that a search by descent chooses."""

RECORDED = [
    name
    for name in FORESTS
    for kind, words, *_ in [name.removeprefix("recipe ").split(", ")]
    if kind in KINDS.get(words, ())
]


def neighbours(case):
    """Return pairs of a data set and a neighbour of it, by what is done."""
    if isinstance(case, Setting) or (case.sampled and case.relation != "add_remove"):
        # A record in several samples, or in none, costs unlike one that is new in one.
        return {}
    people, row, labels = case.people, case.row, case.schema.class_labels
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


def strangers(case, rng):
    """Return data sets that have nothing to do with a case, by name.

    Few where the case has many, and many where it has few.
    """
    people = getattr(case, "people", None)
    if case.relation == "labels":
        return {"strangers": stranger(case, rng, 0, people)}
    few = people is not None and len(people.names) > 100
    size = rng.integers(20) if few else rng.integers(150, 400)
    found = {"strangers": stranger(case, rng, size)}
    if people is None:
        return found
    X, names = np.array(people.X, object), case.schema.feature_names
    many = pd.DataFrame(np.repeat(X, 1 + 216 // len(X), axis=0), columns=names)
    classes = pd.Series(np.repeat(people.y, 1 + 216 // len(X)))
    return found | {
        "nobody": SimpleNamespace(X=X[:0], y=[]),
        "many in a frame": SimpleNamespace(X=many, y=classes),
        "one cell": SimpleNamespace(
            X=X[[0] * 40], y=[case.schema.class_labels[-1]] * 40
        ),
    }


def with_warnings(run, *, forest):
    """Return what also looks at warnings of a run; at errors where it may fail."""

    def look(people, ledger):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            # Says how many fits there were.
            warnings.filterwarnings("ignore", "this estimator, or a clone")
            try:
                seen = run(people, ledger)
            except Exception as error:
                if forest or isinstance(error, AssertionError):
                    raise
                seen = type(error), str(error)
        return seen, [(one.category, str(one.message)) for one in said]

    return look


def check(case, seed=0, first=0, step=1, others=strangers):
    """Fit once, and play what was drawn to neighbours and strangers, or some of them.

    Return the fit, and what each neighbour costs.
    """
    forest = not isinstance(case, Setting)
    rng = np.random.default_rng(seed)
    people = case.people if forest else stranger(case, rng, rng.integers(20))
    fit = runner(case) if forest else case.run
    run = with_warnings(fit, forest=forest)
    tapes, costs = {}, {}

    def taped(people):
        if people not in tapes:
            with entropy([seed, len(people.names)]):
                tapes[people] = play(run, people, case.ledger())
        return tapes[people]

    pairs = list(neighbours(case).items())
    for name, (before, neighbour) in pairs[first::step] if len(pairs) > step else pairs:
        try:
            tape = taped(before)
            after = play(run, neighbour, case.ledger(), tape)
            rho = getattr(case, "rho", None)
            costs[name] = check_pair(tape, after, epsilon=case.epsilon, rho=rho)
        except AssertionError as found:
            raise AssertionError(f"{name}: {found}") from found
    tape = taped(people)
    unlike = list(others(case, rng).items())
    if step > 1:  # real strangers, and one other
        unlike = unlike[:1] + unlike[1:][first : first + 1]
    for name, other in unlike:
        own = run
        if forest and case.relation != "labels":
            own = with_warnings(runner(case, own=True), forest=True)
        with entropy(seed):
            after = play(own, other, case.ledger(), tape, strangers=True)
        same(f"the ledger of {name}", tape.entries, after.entries)
        same(f"what is seen of {name}", tape.seen, after.seen)
    return tape, costs


def steps(name):
    """Return which neighbours and strangers of a case are tried by day."""
    step = 2 if name.startswith("recipe") else 3
    return sum(map(ord, name)) % step, step


def check_all(name, seed, *some):
    """Play one fit to others; look at what it drew, too."""
    tape, _ = check(CASES[name], seed, *some)
    assert not [one.draw.kind for one in tape.played if one.dry]
    if name in RECORDED and seed == 0 and not numba.config.DISABLE_JIT:
        ((seen, *_), _), classes = tape.seen, sorted(CASES[name].schema.class_labels)
        draws = [(one.draw.kind, one.outcome) for one in tape.played]
        results = {"labels": np.searchsorted(classes, seen["labels"])}
        check_recorded("fits", name, draws, results)


@pytest.mark.by_day(12, others=False)
@pytest.mark.parametrize("name", CASES)
def test_others_look_the_same(name, seed, monkeypatch):
    """Every second or third of them, from one fit; all of them by night, below."""
    if "pidentity" in name:
        rf_cases.remember(monkeypatch)  # one search, not ten
    check_all(name, seed, *steps(name))


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
def test_nothing_public_depends_on_the_type_of_labels(name, schema, seed):
    if name == "private":
        model = PrivateForestClassifier(schema, epsilon=1)
    else:
        model = classifier(name, schema=schema)
    case, tape = replace(CASES["laplace shared, plain, add_remove"], model=model), None
    for words, y in TARGETS.items():
        given = SimpleNamespace(X=case.cells[[0, 5, 7]][: len(y)], y=y)
        with entropy(seed):
            after = play(runner(case), given, case.ledger(), tape, strangers=True)
        tape = tape or after
        same(f"integers against {words}: what is seen", tape.seen, after.seen)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "name", [*(f"{name}, plain" for name in PRIVATE), "pure, a tree"]
)
def test_pages_do_not_depend_on_records(name, seed):
    """Fitted, or fitted and asked, or closed; what a notebook shows says no more."""
    case = CASES[f"{name}, add_remove"]
    rng, tape = np.random.default_rng(seed), None

    def run(people, ledger):
        model = clone(case.model)
        # Seconds depend on records: nothing may show them.
        clock = mock.Mock(side_effect=itertools.accumulate(iter(rng.random, None)))
        with mock.patch.object(time, "perf_counter", clock):
            model.fit(people.X, people.y)
            seen = [_page(model)]
            model.predict(case.cells)
            seen.append(_page(model))
            seen.append(hasattr(model, "to_html") and model.to_html())
            if model._holds_counts():
                model.close()
                seen.append(_page(model))
        return seen

    for one in (case.people, *strangers(case, rng).values()):
        after = play(run, one, case.ledger(), tape, strangers=True)
        tape = tape or after
        same("the page", tape.seen, after.seen)


def _page(model):
    # Every page has identifiers of its own, by which its parts find each other.
    page = re.sub(r"sk-(container|estimator)-id-\d+", "", model._repr_html_())
    return page, repr(model)


@pytest.mark.parametrize("seed", range(3, 7))
def test_weights_of_one_record_follow_from_it_alone(seed):
    """Of Liu: weights that sum to a constant would change with those of others."""
    check(CASES["recipe last tree, add_remove"].of_others(seed), seed)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("number", range(16))
def test_recipes_of_random_choices(number, seed):
    recipe = random_recipe(np.random.default_rng([number, seed]))
    for relation in relations_of(recipe)[: 1 if recipe.records == "poisson" else None]:
        check(recipe_case(recipe, relation), number, number % 3, 3)


def test_there_is_enough_of_everything():
    assert sum(len(neighbours(case)) for case in CASES.values()) >= 1000
    assert len(CASES) >= 250
    assert set(recordings("fits")) == set(RECORDED)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_more_of_others_look_the_same(name, seed, monkeypatch):
    """All neighbours and strangers; then of other records every third, in turn."""
    case = CASES[name]
    check_all(name, seed)
    for more in range(1, 4 if name in FORESTS else 3):
        own = case.of_others(seed + more) if name in FORESTS else case
        others = strangers if more < 3 else lambda *_: {}
        check(own, seed + more, more % 3, 3, others)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("name", ["batch training", "laplace shared"])
def test_what_is_paid_is_what_it_costs(name, relation):
    """Nothing is paid for in vain: some neighbour comes up to all of epsilon."""
    case = replace(CASES[f"{name}, plain, {relation}"], people=people())
    assert max(check(case)[1].values()) == 1


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
