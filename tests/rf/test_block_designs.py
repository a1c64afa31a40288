"""Blocks that overlap or are drawn: what one record changes, what it costs, votes."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import rf_cases
from mmech_rf.private._block_design import (
    DRAWING_SHARE,
    block_scores,
    draw_blocks,
)
from model_files import rewrite, set_in
from scipy.special import logsumexp

import mmech.selection
from mmech import DomainTooLargeError, MatrixMechanism, PrivacyLedger
from mmech.exceptions import BudgetExceededError
from mmech.noise import FRACTION_BITS
from mmech_rf import Attribute, PrivateForestClassifier, Schema, load_model
from mmech_rf.private.votes import LogOdds, counting_numbers

SEVEN = (3,) * 7
CELLS = list(itertools.product(range(2), range(3), range(2), range(2)))


def schema_of(sizes, n_classes=3):
    names = [str(value) for value in range(max(sizes))]
    attributes = [
        Attribute.categorical(f"x{i}", names[:size]) for i, size in enumerate(sizes)
    ]
    return Schema(tuple(attributes), tuple("abc"[:n_classes]))


def data(sizes, size, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, (size, len(sizes)))
    return codes.astype(str), np.array(list("abc"))[codes.sum(axis=1) % n_classes]


def model(design, sizes=SEVEN, **settings):
    settings = {"epsilon": 1, "n_records": 1000, "design": design} | settings
    return PrivateForestClassifier(schema_of(sizes), **settings)


# ------------------------------------------------------------------ scores and draws
@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("size", [0, 1, 9])
def test_every_score_changes_by_at_most_one(length, size):
    """Over all additions of a record: in both directions, and by one each."""
    rng = np.random.default_rng(size)
    codes = rng.integers(0, (2, 3, 2, 2), (size, 4))
    classes = rng.integers(0, 3, size)

    def scores(rows, labels):
        rows, labels = np.array(rows, int).reshape(-1, 4), np.array(labels, int)
        return block_scores(rows, labels, (2, 3, 2, 2), 3, length, 10**6)

    before = scores(codes, classes)
    assert list(before) == list(itertools.combinations(range(4), length))
    changes = set()
    for cell in CELLS:
        for label in range(3):
            after = scores([*codes.tolist(), cell], [*classes, label])
            assert list(after) == list(before)
            changes |= {after[s] - before[s] for s in before}
    assert changes <= {-1, 0, 1}
    assert size < 9 or changes == {-1, 0, 1}


def test_scores_are_what_the_labels_of_a_block_get_right():
    codes, classes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5), [0, 1, 1, 0] * 5
    scores = block_scores(codes, np.array(classes), (2, 2), 2, 2, 4)
    assert scores == {(0, 1): 20 - 10}


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_no_partition_becomes_likelier_by_more_than_its_price(neighbours, monkeypatch):
    """Over all choices of a fit, from the weights that are really drawn from."""
    seen = []

    def choose(log_weights, *, insecure_rng=None):
        logarithms = np.asarray(log_weights) / 2.0**FRACTION_BITS
        seen.append(logarithms - logsumexp(logarithms))
        return 0

    monkeypatch.setattr(mmech.selection, "weighted_choice", choose)
    sizes = (2, 3, 2, 2)
    rows, labels = data(sizes, 12)

    def log_chances(X, y):
        seen.clear()
        settings = {"epsilon": 10, "n_records": 5, "neighbours": neighbours}
        found = model("chosen", sizes, **settings).fit(X, y)
        assert len(seen) == 1
        return np.array(seen[0]), found

    before, found = log_chances(rows, labels)
    assert [len(block) for block in found.choice_.blocks] == [2, 2]
    price = float(found.releases_[0].epsilon)
    assert price == 10 * DRAWING_SHARE
    largest = 0.0
    for cell in CELLS:
        for label in "abc":
            row = np.array(cell).astype(str)[None]
            start = 1 if neighbours == "replace" else 0
            X, y = np.vstack([rows[start:], row]), np.append(labels[start:], label)
            after, _ = log_chances(X, y)
            largest = max(largest, np.abs(after - before).max())
    assert largest <= price
    assert largest > 0.3 * price


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_blocks_are_drawn_for_the_relation_that_is_promised(relation, monkeypatch):
    """At the rate of scores that a record may lower as well."""
    rate, asked = mmech.selection.fixed_point_rate, []

    def note(epsilon, **settings):
        asked.append((settings["monotone"], settings["neighbours"]))
        return rate(epsilon, **settings)

    monkeypatch.setattr(mmech.selection, "fixed_point_rate", note)
    settings = {"epsilon": 10, "n_records": 5, "neighbours": relation}
    model("chosen", (2, 3, 2, 2), **settings).fit(*data((2, 3, 2, 2), 12))
    assert asked == [(False, relation)]


@pytest.mark.parametrize("n_records", [10, 10**6])
def test_prices_follow_the_stated_number(n_records):
    """Of a budget beyond any need, draws take as much whatever the records are."""
    prices = []

    def first(scores, price, words):
        prices.append(price)
        return 0

    for size in (1, 40, 4000):
        codes = np.zeros((size, 4), np.int64)
        _, spent = draw_blocks(
            codes,
            codes[:, 0],
            domain_shape=(2, 3, 2, 2),
            n_classes=3,
            partition=[(0, 1), (2, 3)],
            epsilon=Fraction(10**9),
            n_records=n_records,
            draw=first,
        )
        assert spent == prices[-1]
    assert prices == [Fraction(2**24, n_records)] * 3


def test_what_draws_cost_is_in_the_ledger():
    ledger = PrivacyLedger("1.5")
    fitted = model("chosen", epsilon="1.5", ledger=ledger).fit(*data(SEVEN, 40))
    choice = fitted.choice_
    assert sorted(i for block in choice.blocks for i in block) == list(range(7))
    assert choice.design == "chosen"
    lengths = sorted(map(len, choice.blocks), reverse=True)
    draws = sum(length > 1 for length in lengths[:-1])
    prices = [entry.cost for entry in ledger.entries]
    assert prices[:-1] == [Fraction(15, 10) * DRAWING_SHARE / draws] * draws
    assert sum(prices) == Fraction(15, 10)
    assert [entry.cost for entry in fitted.releases_] == prices
    text = fitted.privacy_statement_
    assert text.count("drawn by the exponential mechanism") == draws
    assert "attributes of block 1" in text
    with pytest.raises(BudgetExceededError):
        fitted.fit(*data(SEVEN, 40))


def test_nothing_is_spent_where_nothing_is_to_choose():
    fitted = model("chosen", sizes=(2, 2), n_records=5).fit(*data((2, 2), 5))
    assert len(fitted.releases_) == 1
    assert fitted.releases_[0].epsilon == 1


def draw_first(scores, price, words):
    return 0


def test_many_attributes_are_drawn_in_pairs():
    codes = np.zeros((3, 100), np.int64)
    public = [tuple(range(i, i + 4)) for i in range(0, 100, 4)]
    blocks, spent = draw_blocks(
        codes,
        np.zeros(3, np.int64),
        domain_shape=(2,) * 100,
        n_classes=2,
        partition=public,
        epsilon=Fraction(1),
        n_records=3,
        draw=draw_first,
    )
    assert {len(block) for block in blocks} == {2}
    assert sorted(i for block in blocks for i in block) == list(range(100))
    assert spent == 1


def test_blocks_stay_under_the_cells_of_the_public_ones():
    sizes = (9, 9, 9, 2, 2, 2)
    blocks, spent = draw_blocks(
        np.zeros((0, 6), np.int64),
        np.zeros(0, np.int64),
        domain_shape=sizes,
        n_classes=2,
        partition=[(0, 3), (1, 4), (2, 5)],
        epsilon=Fraction(1),
        n_records=1,
        draw=lambda scores, price, words: len(scores) - 1,
    )
    assert all(math.prod(sizes[i] for i in block) <= 18 for block in blocks)
    assert sorted(i for block in blocks for i in block) == list(range(6))
    assert spent <= 1


def test_drawn_blocks_find_what_belongs_together():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (4000, 7))
    y = np.array(list("abc"))[(codes[:, 1] + codes[:, 5]) % 3]
    fitted = model("chosen", epsilon=2, n_records=4000).fit(codes.astype(str), y)
    assert any({1, 5} <= {*block} for block in fitted.choice_.blocks)
    assert (fitted.predict(codes.astype(str)) == y).mean() > 0.95


def test_a_huge_budget_is_drawn_with_what_fits():
    fitted = model("chosen", epsilon=10**6).fit(*data(SEVEN, 1000))
    assert sum(entry.cost for entry in fitted.releases_) == 10**6


# ------------------------------------------------------------------- covering blocks
def test_covering_blocks_are_one_measurement_of_exact_sensitivity(monkeypatch):
    seen = []
    rf_cases.silence(monkeypatch)
    measure = MatrixMechanism.measure
    monkeypatch.setattr(
        MatrixMechanism,
        "measure",
        lambda self, counts: seen.append((self, measure(self, counts))) or seen[-1][1],
    )
    X, y = data(SEVEN, 50)
    fitted = model("covering").fit(X, y)
    blocks = fitted.choice_.blocks
    for pair in itertools.combinations(range(7), 2):
        assert any({*pair} <= {*block} for block in blocks)
    assert fitted.choice_.voting == "weight"
    model("covering").fit(np.vstack([X, X[:1]]), np.append(y, "c"))
    (mechanism, before), (_, after) = seen
    change = after.values - before.values
    assert np.abs(change).sum() == len(blocks)
    cost = sum(
        weight * int(np.abs(change[start:stop]).sum())
        for start, stop, weight in mechanism.released.row_weights()
    )
    assert cost == mechanism.released.sensitivity
    assert [entry.cost for entry in fitted.releases_] == [1]


@pytest.mark.parametrize("voting", ["auto", "log-odds", "maximum-entropy"])
def test_covering_blocks_find_pairs_that_stand_apart(voting):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (3000, 7))
    y = np.array(list("abc"))[(codes[:, 0] + codes[:, 6]) % 3]
    X = codes.astype(str)
    fitted = model("covering", voting=voting).fit(X, y)
    assert len(fitted.choice_.blocks) > 1
    assert (fitted.predict(X) == y).mean() > 0.95
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)


DESIGNS = [
    [(0, 1), (2,), (3, 4, 5)],
    [(0, 1, 2), (0, 3, 4), (2, 5)],
    [*itertools.combinations(range(6), 2)],
    [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1,)],
]


@pytest.mark.parametrize("blocks", DESIGNS, ids=["disjoint", "chain", "pairs", "star"])
def test_every_attribute_counts_once(blocks):
    numbers = counting_numbers(blocks)
    for i in range(6):
        assert math.isclose(sum(v for b, v in numbers.items() if i in b), 1)
    assert min(numbers.values()) > 0
    if blocks is DESIGNS[0]:
        assert numbers == dict.fromkeys(blocks, 1.0)


@pytest.mark.parametrize("blocks", DESIGNS, ids=["disjoint", "chain", "pairs", "star"])
def test_independent_attributes_vote_as_naive_bayes(blocks, monkeypatch):
    """No evidence counts twice: log p(c) + Σ_i log p(x_i | c) from any design."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([5, 5], 6).T  # p(x_i = v), attributes last
    by_class = np.stack([shares, rng.dirichlet([5, 5], 6).T], axis=-1)  # (v, i, c)
    prior = np.array([0.3, 0.7])

    class Product:
        domain_shape = (2,) * 6

        def marginal(self, block):
            table = 1e9 * prior
            for i in block:
                table = np.einsum("...c,vc->...vc", table, by_class[:, i])
            return table.reshape(-1, 2)

        def variance(self, block):
            return np.zeros((2 ** len(block), 2))

    codes = rng.integers(0, 2, (20, 6))
    expected = np.log(prior) + sum(np.log(by_class[codes[:, i], i]) for i in range(6))
    found = LogOdds(Product(), blocks).log_odds(codes)
    np.testing.assert_allclose(found, expected, atol=1e-6)


# ------------------------------------------------------------------ files and refusals
@pytest.mark.parametrize("voting", ["auto", "log-odds", "maximum-entropy"])
@pytest.mark.parametrize("design", ["covering", "chosen"])
def test_a_model_is_equal_after_reloading(design, voting, tmp_path):
    X, y = data(SEVEN, 300)
    fitted = model(design, voting=voting).fit(X, y)
    fitted.save(tmp_path / "model.npz")
    copy = load_model(tmp_path / "model.npz")
    assert vars(copy.choice_) == vars(fitted.choice_)
    assert copy.get_params()["design"] == design
    assert copy.privacy_statement_ == fitted.privacy_statement_
    assert copy.predict_proba(X).tobytes() == fitted.predict_proba(X).tobytes()


def test_files_of_disjoint_blocks_may_not_overlap(tmp_path):
    path = tmp_path / "model.npz"
    model("covering").fit(*data(SEVEN, 30)).save(path)
    rewrite(path, set_in("choice", "design", to="disjoint"))
    with pytest.raises(ValueError, match="damaged"):
        load_model(path)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"design": "pairs"}, ValueError, "design must be"),
        ({"method": "trees"}, ValueError, "use method='blocks'"),
        ({"epsilon": "1e-6"}, ValueError, "to draw blocks"),
    ],
)
def test_wrong_parameters(settings, error, message):
    ledger = PrivacyLedger(2)
    with pytest.raises(error, match=message):
        model(**({"design": "chosen", "ledger": ledger} | settings)).fit(
            *data(SEVEN, 10)
        )
    assert ledger.spent == 0


def test_maximum_entropy_of_too_many_linked_attributes_is_refused_first():
    sizes = (2,) * 25
    ledger = PrivacyLedger(1)
    settings = {"voting": "maximum-entropy", "n_records": None, "ledger": ledger}
    with pytest.raises(DomainTooLargeError, match="another voting"):
        model("covering", sizes, **settings).fit(*data(sizes, 10))
    assert ledger.spent == 0
