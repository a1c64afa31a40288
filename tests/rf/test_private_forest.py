"""The classifier that chooses one of the private forests, and these by themselves."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from rf_cases import CELLS, CLASSES, SCHEMA, records, silence
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mmech import BudgetExceededError, PrivacyLeakWarning, PrivacyLedger
from mmech_rf import (
    BlockForestClassifier,
    DrawnForestClassifier,
    LabelForestClassifier,
    PrivateForestClassifier,
    load_model,
)
from mmech_rf.private.accounted import LEAST_EPSILON

RAW = CELLS.astype(str)
FORESTS = {
    "trees": DrawnForestClassifier,
    "blocks": BlockForestClassifier,
    "labels": LabelForestClassifier,
}
EACH = pytest.mark.parametrize("method", FORESTS)
ZCDP = {"privacy": "zcdp", "delta": 1e-5}
CHOICES = {
    "drawn trees": ({"epsilon": 1}, DrawnForestClassifier),
    "the least of them": ({"epsilon": LEAST_EPSILON}, DrawnForestClassifier),
    "drawn trees, zcdp": (
        {"epsilon": 3, "n_records": 10**5} | ZCDP,
        DrawnForestClassifier,
    ),
    "labels": ({"epsilon": LEAST_EPSILON * Fraction(99, 100)}, LabelForestClassifier),
    "labels, zcdp": ({"epsilon": "1e-7"} | ZCDP, LabelForestClassifier),
    "labels of persons": (
        {"epsilon": 1, "records_per_person": 10**6, "n_records": 10**9},
        LabelForestClassifier,
    ),
    "trees of persons": (
        {"epsilon": 1, "records_per_person": 10**5, "n_records": 10**9},
        DrawnForestClassifier,
    ),
    "the least, replaced": (
        {"epsilon": 2 * LEAST_EPSILON, "neighbours": "replace"},
        DrawnForestClassifier,
    ),
}
CHOSEN = pytest.mark.parametrize("choice", CHOICES)


def fitted(choice, **parameters):
    settings, _ = CHOICES[choice]
    return PrivateForestClassifier(SCHEMA, **(settings | parameters)).fit(*records(200))


# ------------------------------------------------------------------- which one it takes
@CHOSEN
def test_the_forest_is_chosen_by_the_budget(choice):
    model = fitted(choice)
    assert type(model.model_) is CHOICES[choice][1]
    assert model.choice_ is model.model_.choice_
    assert model.releases_ == model.model_.releases_ == model.ledger_.entries
    assert model.privacy_statement_ == model.model_.privacy_statement_
    assert model.describe() == model.model_.describe()
    np.testing.assert_array_equal(model.predict(RAW), model.model_.predict(RAW))
    np.testing.assert_array_equal(
        model.predict_proba(RAW), model.model_.predict_proba(RAW)
    )
    assert hasattr(model, "trees_") == (type(model.model_) is DrawnForestClassifier)


def test_nothing_of_the_records_is_asked_for_the_choice():
    for size in (0, 1, 90):
        for settings, forest in CHOICES.values():
            model = PrivateForestClassifier(SCHEMA, **settings).fit(*records(size))
            assert type(model.model_) is forest


def test_another_fit_may_choose_another_forest():
    model = fitted("drawn trees")
    model.set_params(epsilon="1e-6").fit(*records(20))
    assert type(model.model_) is LabelForestClassifier
    assert not hasattr(model, "trees_")
    model.set_params(epsilon=1).fit(*records(20))
    assert type(model.model_) is DrawnForestClassifier


def test_a_failed_fit_keeps_the_chosen_forest():
    model = fitted("drawn trees")
    before = model.model_
    with pytest.raises(ValueError, match="row 0 of y holds a label"):
        model.set_params(epsilon="1e-6").fit(RAW, ["?!"] * len(RAW))
    assert model.model_ is before
    with pytest.raises(NotFittedError):
        PrivateForestClassifier(SCHEMA, epsilon=1).predict(RAW)


@pytest.mark.parametrize("name", ["method", "voting", "design", "prior"])
def test_what_one_forest_only_has_is_its_own_parameter(name):
    with pytest.raises(TypeError, match=name):
        PrivateForestClassifier(SCHEMA, epsilon=1, **{name: "blocks"})


# ------------------------------------------------------------------- copies and files
@CHOSEN
def test_pickles_and_files(choice, tmp_path):
    model = fitted(choice)
    path = tmp_path / "model.npz"
    model.save(path)
    loaded, pickled = load_model(path), pickle.loads(pickle.dumps(model))
    assert type(loaded) is type(model.model_)
    assert type(pickled) is PrivateForestClassifier
    assert type(pickled.model_) is type(model.model_)
    for copy in (loaded, pickled, pickled.model_):
        assert copy.privacy_statement_ == model.privacy_statement_
        assert copy.releases_ == model.releases_
        assert copy.predict_proba(RAW).tobytes() == model.predict_proba(RAW).tobytes()
        assert copy.ledger_.remaining == 0
        with pytest.raises(BudgetExceededError):
            copy.fit(*records(20))
    pickled.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_an_unfitted_forest_has_nothing_to_save(tmp_path):
    with pytest.raises(NotFittedError):
        PrivateForestClassifier(SCHEMA, epsilon=1).save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------- counting the fits
@pytest.mark.filterwarnings("error:this estimator, or a clone of it")
@pytest.mark.parametrize("epsilon", [1, "1e-6"])
def test_clones_share_the_count_of_fits(epsilon):
    model = PrivateForestClassifier(SCHEMA, epsilon=epsilon)
    copy = clone(model)
    model.fit(*records(20))
    with pytest.raises(PrivacyLeakWarning, match="a clone of it"):
        copy.fit(*records(20))
    ledger = PrivacyLedger(10)
    clone(model).set_params(ledger=ledger).fit(*records(20))
    assert ledger.spent == Fraction(epsilon)


# ------------------------------------------------------------------- one by one
@EACH
def test_a_forest_by_itself(method, tmp_path):
    X, _ = records(3000)
    y = np.array(CLASSES)[X[:, 0].astype(int)]
    model = FORESTS[method](SCHEMA, epsilon=8).fit(X, y)
    assert model.choice_.method == method
    assert (model.predict(X) == y).mean() > 0.95
    np.testing.assert_allclose(model.predict_proba(RAW).sum(axis=1), 1)
    assert model.score(X, y) == (model.predict(X) == y).mean()
    first, *lines = model.privacy_statement_.splitlines()
    assert first.startswith("Released by this fit: epsilon = 8 for neighbouring")
    for entry, line in zip(model.releases_, lines, strict=False):
        assert line.startswith(f"  {entry.released}: epsilon = {float(entry.cost):g}, ")
    assert model.ledger_.remaining == 0
    model.save(tmp_path / "model.npz")
    copy = load_model(tmp_path / "model.npz")
    assert type(copy) is FORESTS[method]
    assert copy.privacy_statement_ == model.privacy_statement_
    assert copy.predict_proba(RAW).tobytes() == model.predict_proba(RAW).tobytes()
    assert clone(model).get_params() == model.get_params()


@EACH
def test_a_shared_ledger_pays_for_each(method):
    ledger = PrivacyLedger(2, records_per_person=3)
    for _ in range(2):
        model = FORESTS[method](
            SCHEMA, epsilon=1, ledger=ledger, records_per_person=3
        ).fit(*records(20))
    assert model.ledger_ is ledger
    with pytest.raises(BudgetExceededError):
        model.fit(*records(20))
    assert ledger.spent == 2


@EACH
def test_a_count_of_records_is_as_noisy_as_a_person_has_records(method, watch_all):
    scales = silence(watch_all)
    for records_per_person in (1, 2):
        FORESTS[method](SCHEMA, epsilon=1, records_per_person=records_per_person).fit(
            *records(20)
        )
        assert records_per_person / Fraction(3, 100) in scales


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", None])
@EACH
def test_wrong_numbers_of_records_of_a_person(method, wrong):
    with pytest.raises((TypeError, ValueError), match="records_per_person"):
        FORESTS[method](SCHEMA, epsilon=1, records_per_person=wrong).fit(*records(9))


def test_labels_have_no_delta():
    with pytest.raises(TypeError, match="delta"):
        LabelForestClassifier(SCHEMA, epsilon=1, delta=1e-5)


@pytest.mark.parametrize("epsilon", ["1e-6", LEAST_EPSILON / 2])
def test_a_budget_too_small_to_draw_trees_names_what_works(epsilon):
    ledger = PrivacyLedger(1)
    model = DrawnForestClassifier(SCHEMA, epsilon=epsilon, ledger=ledger)
    with pytest.raises(ValueError, match="use LabelForestClassifier"):
        model.fit(*records(20))
    assert ledger.spent == 0
    LabelForestClassifier(SCHEMA, epsilon=epsilon, ledger=ledger).fit(*records(20))
    assert ledger.spent == Fraction(epsilon)


@pytest.mark.parametrize(
    "persons", [{"records_per_person": 10}, {"neighbours": "replace"}]
)
@pytest.mark.parametrize("privacy", ["pure", "zcdp"])
def test_small_budgets_of_many_stated_records_pay_for_the_whole_fit(privacy, persons):
    model = PrivateForestClassifier(
        SCHEMA, epsilon="1/4000", n_records=10**13, **persons
    )
    if privacy == "zcdp":
        model.set_params(**ZCDP)
    assert model.fit(*records(20)).ledger_.remaining == 0


@pytest.mark.parametrize("n_records", [1, 10**13])
def test_a_draw_is_not_limited_to_less_than_its_roundings_cost(n_records):
    """Of the records that a person may have each has a part of epsilon."""
    model = PrivateForestClassifier(
        SCHEMA, epsilon=10**15, n_records=n_records, records_per_person=10**9
    )
    assert model.fit(*records(20)).ledger_.remaining == 0
