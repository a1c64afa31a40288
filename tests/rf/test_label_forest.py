"""Labels of a disjoint forest: the distribution of all that is released, exactly."""

import functools
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from model_files import rewrite, set_in

from mmech import PrivacyLedger
from mmech.exceptions import BudgetExceededError
from mmech.privacy.neighbours import Relation
from mmech_rf import Attribute, LabelForestClassifier, Schema, datasets, load_model
from mmech_rf.blocks.labels import draw_labels, label_blocks

SIZES = (2, 2)
BLOCKS = [(0,), (1,)]
RECORDS = [(x, y, c) for x, y in itertools.product(range(2), repeat=2) for c in (0, 1)]


def flip_chances(scores, rate):
    """Chance of every candidate, over all orders in which they may be asked."""
    gaps = np.max(scores) - np.array(scores)
    taken = np.exp(-rate * gaps)
    out = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for candidate in order:
            out[candidate] += left * taken[candidate] / len(orders)
            left *= 1 - taken[candidate]
    return out


@pytest.fixture
def log_chances(watch_all):
    """Return the log probability of all labels together, shape (2,) * 4.

    Over all assignments of records, which come as a sorted tuple.
    """
    trees, leaves = [], []

    def follow(draw, sample):
        if draw.kind == "assignment":
            assert (draw.exact, draw.public["n_parts"]) == (len(trees), 2)
            return np.array(trees, np.int64)
        assert draw.kind == "permute_and_flip"
        assert draw.public["monotone"]
        leaves.append(flip_chances(draw.exact, float(draw.public["rate"])))
        return 0

    watch_all(follow)

    @functools.cache
    def over_all_assignments(records, epsilon, neighbours):
        codes = np.array([r[:2] for r in records], np.int64).reshape(-1, 2)
        classes = np.array([r[2] for r in records], np.int64)
        total = 0.0
        for trees[:] in itertools.product(range(2), repeat=len(records)):
            leaves.clear()
            draw_labels(
                codes,
                classes,
                domain_shape=SIZES,
                n_classes=2,
                blocks=BLOCKS,
                epsilon=Fraction(epsilon),
                relation=Relation(neighbours),
                noise=None,
            )
            assert len(leaves) == 4
            joint = functools.reduce(np.multiply.outer, leaves)
            total = total + joint / 2 ** len(records)
        assert np.isclose(total.sum(), 1)
        return np.log(total)

    return over_all_assignments


def neighbours_of(records, relation):
    for place in range(len(records) if relation == "replace" else 1):
        kept = list(records)
        if relation == "replace":
            del kept[place]
        for record in RECORDS:
            yield tuple(sorted([*kept, record]))


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
@pytest.mark.parametrize("size", [1, 3])
def test_no_labels_become_likelier_by_more_than_epsilon(
    size, epsilon, relation, log_chances
):
    """Over all labels, all neighbours, and all that the assignment may be."""
    largest = 0.0
    for records in itertools.islice(
        itertools.combinations_with_replacement(RECORDS, size), 0, None, 7
    ):
        before = log_chances(records, epsilon, relation)
        for other in neighbours_of(records, relation):
            after = log_chances(other, epsilon, relation)
            largest = max(largest, np.abs(after - before).max())
    assert largest <= float(epsilon) + 1e-9
    assert largest > 0.3 * float(epsilon)


def test_labels_of_empty_leaves_are_drawn(watch_all):
    """From counts of nothing, like all others."""
    asked = []

    def flip(draw, sample):
        if draw.kind != "permute_and_flip":
            return sample()
        asked.append(draw.exact.tolist())
        return 1

    watch_all(flip)
    forest = draw_labels(
        np.zeros((1, 2), np.int64),
        np.zeros(1, np.int64),
        domain_shape=(3, 2),
        n_classes=2,
        blocks=[(0, 1)],
        epsilon=Fraction(1),
        relation=Relation(),
        noise=None,
    )
    assert asked == [[1, 0]] + [[0, 0]] * 5
    assert forest.labels[0].tolist() == [1] * 6


def test_a_replacement_that_is_paid_as_an_addition_is_found(log_chances):
    records = ((0, 0, 0),) * 3
    before = log_chances(records, "1", "add_remove")
    after = log_chances((*records[1:], (0, 0, 1)), "1", "add_remove")
    assert np.abs(after - before).max() > 1.1


# ------------------------------------------------------------------- the classifier
def schema_of(sizes, classes=("no", "yes")):
    return Schema(
        tuple(
            Attribute.categorical(f"x{i}", [str(v) for v in range(n)])
            for i, n in enumerate(sizes)
        ),
        classes,
    )


def data(size, seed=0):
    codes = np.random.default_rng(seed).integers(0, (2, 2, 2), (size, 3))
    return codes.astype(str), np.where(codes[:, 1] == 1, "yes", "no")


def model(**settings):
    settings = {"epsilon": 1, "n_records": 20} | settings
    return LabelForestClassifier(schema_of((2, 2, 2)), **settings)


def test_labels_cost_epsilon_once():
    ledger = PrivacyLedger("0.7", neighbours="replace")
    fitted = model(epsilon="0.7", neighbours="replace", ledger=ledger).fit(*data(40))
    (entry,) = ledger.entries
    assert entry.cost == Fraction(7, 10)
    assert fitted.releases_ == (entry,)
    assert "permute-and-flip" in fitted.privacy_statement_
    assert [e.epsilon for e in fitted.ensembles_] == [entry.cost] * 3
    assert fitted.describe().count("tree") == 3
    with pytest.raises(BudgetExceededError):
        fitted.fit(*data(40))
    assert len(ledger.entries) == 1


def test_a_noisy_number_of_records_is_paid_for():
    fitted = model(n_records=None).fit(*data(40))
    assert [e.cost for e in fitted.releases_] == [
        Fraction(3, 100),
        Fraction(97, 100),
    ]


def test_the_assignment_has_no_seed(watch_all):
    """Equal assignments of 300 records to 3 trees: probability 3 ** -300."""
    drawn = []

    def note(draw, sample):
        outcome = sample()
        if draw.kind == "assignment":
            drawn.append((draw.exact, draw.public["n_parts"], outcome.tolist()))
        return outcome

    watch_all(note)
    for _ in range(2):
        model(random_state=0).fit(*data(300))
    (one, other) = drawn
    assert one[:2] == other[:2] == (300, 3)
    assert one[2] != other[2]


def test_every_record_trains_one_tree(watch_all):
    counted = []

    def note(draw, sample):
        if draw.kind == "permute_and_flip":
            counted.append(draw.exact.copy())
        return sample()

    watch_all(note)
    model().fit(*data(40))
    assert len(counted) == 6
    assert np.sum(counted) == 40


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_records_of_one_person_share_the_rate(neighbours, watch_all):
    rates = set()

    def note(draw, sample):
        if draw.kind == "permute_and_flip":
            rates.add(draw.public["rate"])
        return sample()

    watch_all(note)
    fitted = model(records_per_person=2, neighbours=neighbours).fit(*data(40))
    assert rates == {Fraction(1, 4 if neighbours == "replace" else 2)}
    assert "one person with up to 2 records" in fitted.privacy_statement_


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_labels_are_paid_from_a_ledger_of_rho_as_well(neighbours, tmp_path):
    """What costs a pure epsilon costs half its square in rho."""
    ledger = PrivacyLedger("1/2", currency="rho", neighbours=neighbours)
    fitted = model(ledger=ledger, neighbours=neighbours).fit(*data(40))
    assert (ledger.remaining, fitted.choice_.accounting) == (0, "zcdp")
    assert fitted.privacy_statement_.startswith("Released by this fit: rho = 0.5 for")
    fitted.save(tmp_path / "model.npz")
    copy = load_model(tmp_path / "model.npz")
    assert copy.privacy_statement_ == fitted.privacy_statement_
    with pytest.raises(BudgetExceededError):
        fitted.fit(*data(40))


def test_much_budget_finds_the_attribute_that_tells():
    X, y = data(3000)
    fitted = model(epsilon=10, n_records=None).fit(X, y)
    (labels,) = fitted._experts.labels
    assert len(labels) == 8
    assert (fitted.predict(X) == y).all()
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.unique(proba), [1 / 3, 2 / 3])


def test_few_records_on_real_data_beat_chance():
    car = datasets.load_car()
    settings = {"epsilon": "0.1", "n_records": 1728}
    fitted = LabelForestClassifier(car.schema, **settings).fit(car.data, car.target)
    assert (fitted.predict(car.data) == car.target).mean() > 0.5


def test_blocks_grow_with_the_records():
    sizes = (4, 3, 2, 5)
    lengths = []
    for n_records in (10, 200, 1000):
        blocks = label_blocks(sizes, epsilon=1, n_records=n_records)
        assert sorted(i for b in blocks for i in b) == [0, 1, 2, 3]
        lengths.append(max(map(len, blocks)))
        for block in blocks:
            leaves = math.prod(sizes[i] for i in block)
            assert len(block) == 1 or n_records >= 4 * len(blocks) * leaves
    assert lengths == [1, 2, 4]


def test_a_model_is_equal_after_reloading(tmp_path):
    X, y = data(60)
    fitted = model().fit(X, y)
    fitted.save(tmp_path / "model.npz")
    for copy in (
        load_model(tmp_path / "model.npz"),
        pickle.loads(pickle.dumps(fitted)),
    ):
        assert copy.predict(X).tolist() == fitted.predict(X).tolist()
        assert copy.predict_proba(X).tobytes() == fitted.predict_proba(X).tobytes()
        assert copy.privacy_statement_ == fitted.privacy_statement_
        assert copy.describe() == fitted.describe()
        assert copy.choice_.blocks == fitted.choice_.blocks
        with pytest.raises(BudgetExceededError):
            copy.fit(X, y)


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": {0: np.array([0, 2])}},
        {"arrays": {0: np.array([0, -1])}},
        {"arrays": {0: np.array([0])}},
        {"arrays": {0: np.array([0.0, 1.0])}},
        {"change": set_in("LabelForest", "labels", to=[{"array": 0}] * 2)},
        {"change": set_in("choice", "blocks", to=[[0], [1]])},
        {"change": set_in("choice", "voting", to="weight")},
        {"change": set_in("choice", "method", to="trees")},
    ],
)
def test_damaged_files(change, tmp_path):
    path = tmp_path / "model.npz"
    model().fit(*data(20)).save(path)
    rewrite(path, **change)
    with pytest.raises(ValueError, match="damaged"):
        load_model(path)
