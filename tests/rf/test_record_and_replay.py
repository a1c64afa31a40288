"""What a forest draws for some records is played to their neighbours.

Everything that anybody sees must then be the same, and what a record changes must be
paid for; see `replay`.
"""

from itertools import islice

import pytest
import rf_cases
from replay import People, any_tree, check_pair, entropy, loss, play, watched
from replay_cases import cases, runner
from rf_cases import classifier

from mmech import PrivacyLedger
from mmech_rf.drawn.draw import Fork

pytestmark = pytest.mark.usefixtures("scores_of_few")

CASES = cases()


def neighbours(case):
    """Return pairs of a data set and a neighbour of it, by what is done."""
    people, row, labels = case.people, case.row, case.model.schema.class_labels
    last = len(people.names) - 1
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
    return pairs | {alone[0]: (lone, alone[1])}


def check(case, seed=0, first=0, step=1):
    """Check all pairs of a case, or some; return what each costs."""
    run, tapes, costs = runner(case), {}, {}

    pairs = neighbours(case).items()
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


@pytest.mark.parametrize("name", CASES)
def test_a_neighbour_looks_the_same(name, seed, monkeypatch):
    """Every third pair, which of them follows from the name of the setting."""
    if "pidentity" in name:
        rf_cases.remember(monkeypatch)  # one search, not ten
    check(CASES[name], seed, sum(map(ord, name)) % 3, 3)


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


@pytest.mark.parametrize("name", ["views of scores", "boosting"])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_scores_of_trees_change_by_no_more_than_their_loss(name, relation, rng):
    """Score trees of all sorts on both sides, by what was announced of each draw."""
    case = CASES[f"pure, {name}, {relation}"]
    (people, neighbour), *_ = neighbours(case).values()
    ledgers = [PrivacyLedger(1, neighbours=relation) for _ in range(2)]
    before = play(runner(case), people, ledgers[0])
    after = play(runner(case), neighbour, ledgers[1], before)
    n_trees = 0
    for one, other in zip(before.played, after.played, strict=True):
        if one.draw.kind != "tree":
            continue
        n_trees += 1
        rate, bound = one.draw.public["rate"], loss(one.draw, other.draw)
        views = one.draw.public["views"]
        n_labels = 3 + (one.draw.exact["predicted"] is not None)
        changes = []
        for _ in range(50):
            tree = any_tree(rng, views, n_labels)
            scores = [_score(tree, views, x.draw.exact) for x in (one, other)]
            changes.append(scores[1] - scores[0])
        assert rate * (max(changes) - min(changes)) <= bound
        if relation == "add_remove":
            # Nobody is there who was not before.
            assert max(changes) <= 0
            assert -rate * min(changes) == bound
    assert n_trees == (5 if name == "boosting" else 1)


def _score(tree, views, exact):
    """Return what the records count for that a tree labels right."""
    row = dict(zip(map(id, views.items), exact["cells"], strict=True))
    predicted = exact["predicted"]

    def leaf(branch, i):
        if isinstance(branch, Fork):
            cell = row[id(branch.view)][i]
            before = [1 if b is None else b.size for b in branch.branches[:cell]]
            return sum(before) + leaf(branch.branches[cell], i)
        return 0 if branch is None else row[id(branch)][i]

    score = 0
    amounts = exact["weights"] * exact["multiplicities"]
    for i, (label, weight) in enumerate(
        zip(exact["class_codes"], amounts, strict=True)
    ):
        cell = row[id(tree.root)][i]
        found = tree.labels[cell][leaf(tree.branches[cell], i)]
        score += weight * ((predicted[i] if found == 3 else found) == label)
    return int(score)


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
