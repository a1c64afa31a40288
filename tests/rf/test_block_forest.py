"""The forest of blocks: privacy first, then choices and votes."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import rf_cases
from rf_cases import CELLS, CLASSES, SCHEMA, records
from scipy.stats import beta
from sklearn.base import clone

from mmech import (
    Identity,
    MatrixMechanism,
    PrivacyLedger,
    Records,
    SignalPrior,
)
from mmech.exceptions import BudgetExceededError, PrivacyLeakWarning
from mmech_rf import Attribute, BlockForestClassifier, Schema, datasets
from mmech_rf.blocks.votes import LogOdds

RAW = CELLS.astype(str)
TWO = Schema(SCHEMA.attributes, ("no", "yes"))
MODES = {
    "counts": (SCHEMA, {"n_records": 100}),
    "noisy total": (SCHEMA, {}),
    "differences": (TWO, {"n_records": 100, "voting": "weight"}),
    "maximum entropy": (TWO, {"n_records": 100, "voting": "maximum-entropy"}),
}
ALL = pytest.mark.parametrize("mode", MODES)


def make(mode, **parameters):
    schema, settings = MODES[mode]
    return BlockForestClassifier(schema, **({"epsilon": 1} | settings | parameters))


def data(mode, size, seed=0):
    X, y = records(size, seed)
    return X, np.where(y == "maybe", "no", y) if MODES[mode][0] is TWO else y


@pytest.fixture
def watched(monkeypatch, watch_all):
    """Exact releases: values are what was measured."""
    rf_cases.silence(watch_all)
    return rf_cases.watch(monkeypatch)


# ------------------------------------------------------------- what one record changes
@pytest.mark.parametrize("size", [0, 12])
@ALL
def test_every_addition_of_a_record(mode, size, watched, rng):
    """One entry of every table changes by one, and sensitivity is exact."""
    X, y = data(mode, size)
    schema = MODES[mode][0]

    def measured(rows, labels):
        watched.clear()
        make(mode).fit(rows, labels)
        return [
            (seen.mechanism, seen.measurement.values, seen.measurement.sensitivity)
            for seen in watched
        ]

    rows = X.tolist()
    before = measured(np.array(rows).reshape(-1, 3), y)
    for cell, label in itertools.product(RAW.tolist(), schema.class_labels):
        place = rng.choice([0, size])
        more = [*rows[:place], cell, *rows[place:]]
        labels = [*y[:place], label, *y[place:]]
        after = measured(np.array(more), np.array(labels))
        assert len(after) == len(before)
        for (mechanism, old, claimed), (_, new, _) in zip(before, after, strict=True):
            change = new - old
            tables = getattr(mechanism.strategy, "weights", {(): 1})
            assert np.abs(change).sum() == len(tables)
            assert np.abs(change).max() == 1
            cost = 0
            for start, stop, weight in mechanism.released.row_weights():
                part = np.abs(change[start:stop]).sum()
                cost += weight * int(part)
            assert cost == mechanism.released.sensitivity
            weights = [w for *_, w in mechanism.released.row_weights()]
            assert claimed == pytest.approx(cost / max(weights))


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@ALL
def test_noise_and_price(mode, neighbours, watch_all):
    scales = rf_cases.silence(watch_all)
    X, y = data(mode, 30)
    epsilon = Fraction(7, 10)
    model = make(mode, epsilon="0.7", neighbours=neighbours).fit(X, y)
    relation = 2 if neighbours == "replace" else 1
    paid = [entry.cost for entry in model.ledger_.entries]
    assert sum(paid) == epsilon
    assert model.ledger_.remaining == 0
    assert [entry.cost for entry in model.releases_] == paid
    if mode == "noisy total":
        assert scales.pop(0) == relation / (epsilon * Fraction(3, 100))
        assert paid == [epsilon * Fraction(3, 100), epsilon * Fraction(97, 100)]
    # Scales of disjoint blocks: their inverses add up to what the tables may cost.
    runs = dict.fromkeys(scales)
    tables = len(model.choice_.blocks)
    if len(scales) == tables:
        assert sum(relation / scale for scale in scales) == paid[-1]
    else:
        assert len(runs) == 1
        assert tables * relation / scales[0] == paid[-1]


def test_noise_is_drawn_from_the_system():
    model = make("noisy total", random_state=0).fit(*data("noisy total", 20))
    assert [entry.insecure for entry in model.ledger_.entries] == [False] * 2
    assert "PREDICTABLE" not in model.privacy_statement_


@pytest.mark.parametrize("mode", ["counts", "differences", "maximum entropy"])
def test_choices_never_see_the_records(mode):
    public = []
    for size, seed in ((0, 0), (1, 1), (90, 2)):
        model = make(mode).fit(*data(mode, size, seed))
        choice = model.choice_
        public.append(
            (
                choice.n_records,
                choice.blocks,
                choice.shares,
                choice.signed,
                choice.risk,
                choice.voting,
                model.releases_,
                model.privacy_statement_,
            )
        )
    assert public[0] == public[1] == public[2]


def test_without_a_stated_number_choices_follow_the_noisy_one(watched):
    model = make("noisy total").fit(*data("noisy total", 40))
    assert isinstance(watched[0].mechanism.strategy, Identity)
    assert model.choice_.n_records == watched[0].measurement.values[0] == 40
    assert not model.choice_.stated


def test_a_ledger_that_is_too_small_refuses_before_anything_is_released():
    ledger = PrivacyLedger("0.5")
    with pytest.raises(BudgetExceededError):
        make("noisy total", ledger=ledger).fit(*data("noisy total", 10))
    assert ledger.spent == 0


def test_fitted_models_hold_only_what_was_released():
    X, y = data("counts", 30)
    model = make("counts").fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(RAW), model.predict(RAW))
    np.testing.assert_array_equal(again.predict_proba(RAW), model.predict_proba(RAW))
    assert again.ledger_.remaining == 0
    with pytest.raises(BudgetExceededError, match="only 0 of"):
        again.fit(X, y)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@ALL
def test_records_of_one_person_make_the_noise_larger(mode, neighbours, watch_all):
    scales = rf_cases.silence(watch_all)
    statements, X, y = [], *data(mode, 30)
    for records_per_person in (1, 2):
        model = make(
            mode, neighbours=neighbours, records_per_person=records_per_person
        ).fit(X, y)
        statements.append(model.privacy_statement_)
    half = len(scales) // 2
    assert scales[half:] == [2 * scale for scale in scales[:half]]
    assert "one record." in statements[0]
    assert "one person with up to 2 records." in statements[1]


@pytest.mark.statistical
@pytest.mark.parametrize("mode", ["counts", "differences"])
def test_audit(mode, watch_all):
    """As in `test_privacy`: false alarm 1e-6, half the noise must be caught.

    The first release of a fit is drawn again and again.
    """
    schema = Schema((Attribute.categorical("x", ["0", "1"]),), ("no", "yes"))
    _, settings = MODES[mode]
    model = BlockForestClassifier(schema, epsilon=1, **settings)
    n_draws = 2000

    def bound(law):
        hits = []

        def note(draw, sample):
            if draw.kind == "laplace" and hits[-1] is None:
                found = [law(draw, sample).reshape(2, -1)[0, 0] for _ in range(n_draws)]
                hits[-1] = np.sum(np.array(found) >= 1)
            return sample()

        watch_all(note)
        for rows, labels in (([], []), ([["0"]], ["no"])):
            hits.append(None)
            model.fit(np.array(rows).reshape(-1, 1), labels)
        without, present = hits
        low = beta.ppf(5e-7, present, n_draws - present + 1)
        return math.log(low / beta.ppf(1 - 5e-7, without + 1, n_draws - without))

    assert bound(lambda draw, sample: sample()) <= 1
    assert bound(rf_cases.half_the_noise) > 1


# ------------------------------------------------------------------- signed records
def test_signed_records_are_differences():
    codes = np.random.default_rng(0).integers(0, (3, 2, 2), (50, 3))
    classes = np.random.default_rng(1).integers(0, 2, 50)
    by_class = Records(codes, (3, 2, 2), columns=classes, n_columns=2)
    signed = Records(codes, (3, 2, 2), signs=1 - 2 * classes)
    for a in ((), (0,), (0, 2)):
        table = by_class._table(a)
        np.testing.assert_array_equal(signed._table(a)[:, 0], table[:, 0] - table[:, 1])
    groups = np.array([0, 1, -1] * 4)
    table = by_class._grouped(groups, 2)
    np.testing.assert_array_equal(
        signed._grouped(groups, 2)[:, 0], table[:, 0] - table[:, 1]
    )


def test_signed_records_need_a_signed_mechanism():
    mechanism = MatrixMechanism(Identity(2), Identity(2), epsilon=1)
    with pytest.raises(ValueError, match="signed=True"):
        mechanism.measure(Records([[0]], (2,), signs=[-1]))
    with pytest.raises(ValueError, match="1 or -1"):
        Records([[0]], (2,), signs=[2])


# ------------------------------------------------------------------- votes and accuracy
@pytest.mark.parametrize("voting", ["auto", "log-odds", "weight", "maximum-entropy"])
@pytest.mark.parametrize("schema", [SCHEMA, TWO], ids=["three", "two"])
def test_much_budget_finds_an_additive_rule(voting, schema):
    X, _ = records(3000)
    codes = X.astype(int)
    y = np.array(schema.class_labels)[codes[:, 0] % len(schema.class_labels)]
    model = BlockForestClassifier(schema, epsilon=50, n_records=3000, voting=voting)
    model.fit(X, y)
    assert (model.predict(X) == y).mean() > 0.97
    proba = model.predict_proba(RAW)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert ((proba >= 0) & (proba <= 1)).all()
    labels = np.array(model.classes_)[proba.argmax(axis=1)]
    assert (labels == model.predict(RAW)).mean() > 0.9


def test_independent_attributes_vote_as_naive_bayes():
    """No evidence counts twice: log p(c) + Σ_i log p(x_i | c), whatever the blocks."""
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
    found = LogOdds(Product(), [(0, 1), (2,), (3, 4, 5)]).log_odds(codes)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_car_beats_one_way_tables_at_moderate_budgets():
    """Blocks pay: .83 is what one-way class tables reach without any noise."""
    car = datasets.load_car()
    order = np.random.default_rng(0).permutation(1728)
    train, test = order[:1382], order[1382:]
    found = []
    for seed in range(3):
        with pytest.warns(PrivacyLeakWarning):
            model = BlockForestClassifier(
                car.schema,
                epsilon=2,
                n_records=1382,
                insecure_rng=seed,
            ).fit(car.data[train], car.target[train])
        found.append((model.predict(car.data[test]) == car.target[test]).mean())
    assert np.mean(found) > 0.87


def test_few_records_of_two_classes_are_measured_as_differences():
    X, y = data("differences", 30)
    settings = {"epsilon": 1}
    few = BlockForestClassifier(TWO, n_records=100, **settings).fit(X, y)
    many = BlockForestClassifier(TWO, n_records=10_000, **settings).fit(X, y)
    assert (few.choice_.signed, few.choice_.voting) == (True, "weight")
    assert (many.choice_.signed, many.choice_.voting) == (False, "log-odds")
    three = BlockForestClassifier(SCHEMA, n_records=100, **settings)
    assert not three.fit(*records(30)).choice_.signed


def test_a_clone_has_the_same_parameters():
    prior = SignalPrior(gamma=0.9)
    model = clone(make("counts", prior=prior))
    assert model.get_params()["prior"] == prior
    assert set(CLASSES) == set(model.fit(*records(10)).classes_)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_records": 0}, ValueError, "n_records must be"),
        ({"n_records": True}, ValueError, "n_records must be"),
        ({"voting": "hard"}, ValueError, "voting must be"),
        ({"prior": 0.5}, TypeError, "prior must be"),
        ({"epsilon": -1}, ValueError, "epsilon must be"),
    ],
)
def test_wrong_parameters(change, error, message):
    with pytest.raises(error, match=message):
        make("counts", **change).fit(*records(10))
