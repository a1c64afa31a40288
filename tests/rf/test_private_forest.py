"""The private forest: budgets, copies, files, and fits that are counted."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from rf_cases import CELLS, CLASSES, SCHEMA, records, silence
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mmech import BudgetExceededError, PrivacyLeakWarning, PrivacyLedger
from mmech_rf import PrivateForestClassifier, load_model
from mmech_rf.private.accounted import LEAST_EPSILON

RAW = CELLS.astype(str)
ZCDP = {"privacy": "zcdp", "delta": 1e-5}
CASES = {
    "pure": {"epsilon": 1},
    "the least": {"epsilon": LEAST_EPSILON},
    "zcdp": {"epsilon": 3, "n_records": 10**5} | ZCDP,
    "of persons": {"epsilon": 1, "records_per_person": 10**5, "n_records": 10**9},
    "the least, replaced": {"epsilon": 2 * LEAST_EPSILON, "neighbours": "replace"},
}
EACH = pytest.mark.parametrize("case", CASES)


def fitted(case, **parameters):
    settings = CASES[case] | parameters
    return PrivateForestClassifier(SCHEMA, **settings).fit(*records(200))


def test_a_failed_fit_keeps_the_forest():
    model = fitted("pure")
    before = model.trees_
    with pytest.raises(ValueError, match="row 0 of y holds a label"):
        model.fit(RAW, ["?!"] * len(RAW))
    assert model.trees_ is before
    with pytest.raises(NotFittedError):
        PrivateForestClassifier(SCHEMA, epsilon=1).predict(RAW)


# ------------------------------------------------------------------- copies and files
@EACH
def test_pickles_and_files(case, tmp_path):
    model = fitted(case)
    path = tmp_path / "model.npz"
    model.save(path)
    loaded, pickled = load_model(path), pickle.loads(pickle.dumps(model))
    for copy in (loaded, pickled):
        assert type(copy) is PrivateForestClassifier
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
def test_clones_share_the_count_of_fits():
    model = PrivateForestClassifier(SCHEMA, epsilon=1)
    copy = clone(model)
    model.fit(*records(20))
    with pytest.raises(PrivacyLeakWarning, match="a clone of it"):
        copy.fit(*records(20))
    ledger = PrivacyLedger(10)
    clone(model).set_params(ledger=ledger).fit(*records(20))
    assert ledger.spent == 1


# ------------------------------------------------------------------- one by one
def test_a_forest_learns_a_rule_and_states_what_it_costs():
    X, _ = records(3000)
    y = np.array(CLASSES)[X[:, 0].astype(int)]
    model = PrivateForestClassifier(SCHEMA, epsilon=8).fit(X, y)
    assert model.choice_.method == "trees"
    assert (model.predict(X) == y).mean() > 0.95
    np.testing.assert_allclose(model.predict_proba(RAW).sum(axis=1), 1)
    assert model.score(X, y) == (model.predict(X) == y).mean()
    first, *lines = model.privacy_statement_.splitlines()
    assert first.startswith("Released by this fit: epsilon = 8 for neighbouring")
    for entry, line in zip(model.releases_, lines, strict=False):
        assert line.startswith(f"  {entry.released}: epsilon = {float(entry.cost):g}, ")
    assert model.ledger_.remaining == 0
    assert clone(model).get_params() == model.get_params()


def test_a_shared_ledger_pays_for_each():
    ledger = PrivacyLedger(2, records_per_person=3)
    for _ in range(2):
        model = PrivateForestClassifier(
            SCHEMA, epsilon=1, ledger=ledger, records_per_person=3
        ).fit(*records(20))
    assert model.ledger_ is ledger
    with pytest.raises(BudgetExceededError):
        model.fit(*records(20))
    assert ledger.spent == 2


def test_a_count_of_records_is_as_noisy_as_a_person_has_records(watch_all):
    scales = silence(watch_all)
    for records_per_person in (1, 2):
        PrivateForestClassifier(
            SCHEMA, epsilon=1, records_per_person=records_per_person
        ).fit(*records(20))
        assert records_per_person / Fraction(3, 100) in scales


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", None])
def test_wrong_numbers_of_records_of_a_person(wrong):
    with pytest.raises((TypeError, ValueError), match="records_per_person"):
        PrivateForestClassifier(SCHEMA, epsilon=1, records_per_person=wrong).fit(
            *records(9)
        )


@pytest.mark.parametrize("epsilon", ["1e-6", LEAST_EPSILON / 2])
def test_a_budget_too_small_to_draw_trees_is_refused(epsilon):
    ledger = PrivacyLedger(1)
    model = PrivateForestClassifier(SCHEMA, epsilon=epsilon, ledger=ledger)
    with pytest.raises(ValueError, match="must be at least 1e-05 to draw trees"):
        model.fit(*records(20))
    assert ledger.spent == 0


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
    """Each of the records of a person has a part of epsilon."""
    model = PrivateForestClassifier(
        SCHEMA, epsilon=10**15, n_records=n_records, records_per_person=10**9
    )
    assert model.fit(*records(20)).ledger_.remaining == 0
