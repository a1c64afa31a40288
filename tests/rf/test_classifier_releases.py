"""The private classifiers: what a fit releases, once, and what copies of it may do."""

import copy
import pickle
import time
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import rf_cases
from processes import in_a_fork
from rf_cases import (
    CELLS,
    PER_BATCH,
    PRIVATE,
    RELEASED,
    SCHEMA,
    classifier,
    records,
    release,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from mmech import BudgetExceededError, PrivacyLeakWarning, PrivacyLedger
from mmech.privacy.cost import in_rho
from mmech_rf import NonPrivateForestClassifier

ALL = pytest.mark.parametrize("name", PRIVATE)
BATCHES = pytest.mark.parametrize("name", PER_BATCH)
RAW = CELLS.astype(str)


# ------------------------------------------------------- statements, times, ledgers
@ALL
def test_timings_add_up(name):
    """No second is counted twice, also where one stage is within another."""
    X, y = records(30)
    start = time.perf_counter()
    model = release(classifier(name, n_ensembles=2), X, y)
    model.predict(RAW)
    assert sum(model.timings_.values()) <= time.perf_counter() - start
    assert set(model.timings_) == {"trees", "optimization", "measurement", "prediction"}
    assert all(seconds >= 0 for seconds in model.timings_.values())
    assert model.timings_["measurement"] > 0


@ALL
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_the_statement_says_what_was_released(name, neighbours):
    X, y = records(30)
    model = classifier(name, epsilon="0.3", n_ensembles=3, neighbours=neighbours)
    model.fit(X, y)
    if name in PER_BATCH:
        assert "Nothing has been released yet" in model.privacy_statement_
        model.predict(RAW)
    statement = model.privacy_statement_
    assert "epsilon = 0.3 for neighbouring data sets" in statement
    relation = "replacing" if neighbours == "replace" else "adding or removing"
    assert f"by {relation} one record" in statement
    assert statement.count(": epsilon = 0.1, L1 sensitivity") == 3
    for entry in model.releases_:
        assert f"L1 sensitivity {entry.sensitivity:g}, exact discrete" in statement
    assert sum(entry.cost for entry in model.releases_) == Fraction(3, 10)
    assert ("votes of one batch" in statement) == (name in PER_BATCH)
    assert "do not depend on records" in statement
    # Settled by the fit: later parameters do not rewrite it.
    model.set_params(neighbours="add_remove", schema=None, insecure_rng=0)
    assert model.privacy_statement_ == statement


def test_the_statement_admits_what_is_not_covered():
    X, y = records(30)
    with pytest.warns(PrivacyLeakWarning, match="reads categories, bounds and classes"):
        model = classifier("batch training", schema=None).fit(X, y)
    assert "NOT COVERED" in model.privacy_statement_
    with pytest.warns(PrivacyLeakWarning, match="predictable and gives no privacy"):
        model = classifier("batch training", insecure_rng=0).fit(X, y)
    assert "NOT PRIVATE" in model.privacy_statement_
    assert "NOT PRIVATE" in pickle.loads(pickle.dumps(model)).privacy_statement_
    model = NonPrivateForestClassifier(SCHEMA, n_trees=2).fit(X, y)
    assert model.privacy_statement_.startswith("NOT PRIVATE")


@BATCHES
def test_a_batch_is_paid_for_once(name, noiseless):
    """And each of several batches is remembered."""
    X, y = records(50)
    model = classifier(name, ledger=PrivacyLedger(2)).fit(X, y)
    assert model.ledger_.spent == 0
    given = model.predict(RAW)
    first, given[:] = given.copy(), "yes"  # what is handed out is a copy
    assert model.ledger_.spent == 1
    draws = len(noiseless)
    np.testing.assert_array_equal(model.predict(RAW), first)
    np.testing.assert_array_equal(
        model.predict(pd.DataFrame(RAW, columns=SCHEMA.feature_names)), first
    )
    assert (model.ledger_.spent, len(noiseless)) == (1, draws)
    second = model.predict(RAW[:5])
    draws, before = len(noiseless), model.privacy_statement_
    with pytest.raises(BudgetExceededError, match="needs epsilon = 1 but only 0 of 2"):
        model.predict(RAW[:3])
    assert (len(model.releases_), len(noiseless)) == (2, draws)
    assert model.privacy_statement_ == before
    np.testing.assert_array_equal(model.predict(RAW), first)
    np.testing.assert_array_equal(model.predict(RAW[:5]), second)


@BATCHES
def test_a_fork_answers_no_batch_of_its_own(name):
    """But it knows what was answered before, and may train with a budget of its own."""
    X, y = records(30)
    model = classifier(name).fit(X, y)

    def predict(rows):
        try:
            return model.predict(rows)
        except BudgetExceededError as refusal:
            return str(refusal)

    assert "belongs to the process" in in_a_fork(lambda: predict(RAW[:3]))
    labels = predict(RAW[:3])
    np.testing.assert_array_equal(in_a_fork(lambda: predict(RAW[:3])), labels)
    fitted = in_a_fork(lambda: classifier(name).fit(X, y).predict(RAW))
    assert fitted.shape == (12,)


@ALL
def test_nothing_is_half_released(name, noiseless):
    """Two ensembles need 2, the ledger covers one: no noise is drawn at all."""
    X, y = records(30)
    ledger = PrivacyLedger("1.5")
    model = classifier(name, epsilon=2, n_ensembles=2, ledger=ledger)
    with pytest.raises(BudgetExceededError, match=r"needs epsilon = 2 but only 1\.5"):
        release(model, X, y)
    assert ledger.spent == 0
    assert noiseless == []


@ALL
def test_a_ledger_of_rho_pays_for_pure_epsilon(name):
    """Every ensemble costs the price of its share, not a share of the sum's price."""
    X, y = records(30)
    ledger = PrivacyLedger("1/4", currency="rho")
    model = release(classifier(name, n_ensembles=2, ledger=ledger), X, y)
    assert [entry.epsilon for entry in ledger.entries] == [Fraction(1, 2)] * 2
    assert all(entry.cost <= in_rho(Fraction(1, 2)) for entry in ledger.entries)
    spent = sum(entry.cost for entry in ledger.entries)
    words = f"Released by this fit: rho = {float(spent):g} for"
    assert model.privacy_statement_.startswith(words)
    assert "Together the releases have epsilon = 1 at delta" in model.privacy_statement_
    with pytest.raises(BudgetExceededError):
        release(classifier(name, n_ensembles=2, ledger=ledger), X, y)
    assert ledger.spent == spent


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@ALL
def test_records_of_one_person_make_the_noise_larger(name, neighbours, watch_all):
    X, y = records(30)
    scales, statements = rf_cases.silence(watch_all), []
    for records_per_person in (1, 2):
        model = classifier(
            name, neighbours=neighbours, records_per_person=records_per_person
        )
        statements.append(release(model, X, y).privacy_statement_)
    one, two = scales
    assert two == 2 * one
    assert "one record." in statements[0]
    assert "one person with up to 2 records." in statements[1]


# ---------------------------------------------------------------- fits that fail
@ALL
def test_a_failed_fit_leaves_the_estimator_as_it_was(name):
    X, y = records(30)
    model = classifier(name)
    with pytest.raises(ValueError, match="row 0 of y holds a label"):
        model.fit(X, ["?!"] * 30)
    with pytest.raises(NotFittedError):
        model.predict(RAW)
    model.fit(X, y)
    first, statement = model.predict(RAW), model.privacy_statement_
    model.set_params(ledger=PrivacyLedger("0.5"))
    with pytest.raises(BudgetExceededError):  # batch methods fail on a new batch
        model.fit(X, y).predict(RAW)
    if name in RELEASED:
        np.testing.assert_array_equal(model.predict(RAW), first)
        assert model.privacy_statement_ == statement


@BATCHES
def test_a_new_fit_forgets_the_old_answers(name, noiseless):
    schema_labels = {0: "no", 1: "yes"}
    model = classifier(name, n_trees=1, depth=3)
    for code in schema_labels:
        target = [schema_labels[code]] * 12
        assert model.fit(RAW, target).predict(RAW).tolist() == target
        assert model.ledger_.spent == 1


# ------------------------------------------------------------- copies of a model
@ALL
def test_an_unfitted_classifier_can_be_copied(name):
    model = classifier(name)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(NotFittedError):
            twin.predict(RAW)
    ledger = PrivacyLedger(1)
    shared = classifier(name, ledger=ledger)
    assert copy.deepcopy(shared).ledger is ledger
    assert clone(shared).ledger is ledger
    with pytest.raises(TypeError, match="would spend the same budget again"):
        pickle.dumps(shared)


@BATCHES
def test_what_holds_counts_refuses_to_be_copied(name):
    X, y = records(30)
    model = classifier(name)
    assert "sensitive" not in repr(model)
    model.fit(X, y)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="holds sensitive counts and cannot be"):
            duplicate(model)
    assert "[holds sensitive counts: do not save or share]" in repr(model)
    assert clone(model).fit(X, y).predict(RAW).shape == (12,)


@BATCHES
def test_votes_of_a_batch_are_no_model_to_show(name):
    """Importances would ask for the votes of another batch, which costs budget."""
    model = classifier(name).fit(*records(60))
    for shown in ("describe", "to_html", "named_importances", "feature_importances_"):
        assert not hasattr(model, shown)
        with pytest.raises(AttributeError, match="votes of a batch and has no model"):
            getattr(model, shown)
    assert model.releases_ == ()


@BATCHES
def test_a_closed_model_keeps_its_answers_and_nothing_sensitive(name):
    X, y = records(50)
    ledger = PrivacyLedger(5)
    model = classifier(name, ledger=ledger).fit(X, y)
    labels = model.predict(RAW)
    assert "holds sensitive counts" in repr(model)
    model.close()
    assert "holds sensitive counts" not in repr(model)
    np.testing.assert_array_equal(model.predict(RAW), labels)
    assert b"_counts" not in pickle.dumps(model)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(RAW), labels)
    with pytest.raises(BudgetExceededError, match="was closed and holds no counts"):
        model.predict(RAW[:3])
    assert ledger.spent == 1
    assert model.fit(X, y).predict(RAW[:3]).shape == (3,)


# ------------------------------------------------------------- fits one after another
@pytest.mark.by_day(2)
@ALL
def test_cross_validation_warns_once_unless_the_folds_share_a_ledger(name):
    X, y = records(30)
    ledger = PrivacyLedger(1)
    shared = classifier(name, epsilon="1/3", ledger=ledger)
    cross_val_score(shared, X, y, cv=3)
    assert ledger.remaining == 0
    with pytest.warns(PrivacyLeakWarning, match="as in cross-validation") as caught:
        cross_val_score(classifier(name), X, y, cv=3)
    assert len(caught) == 1
    model = classifier(name, epsilon="1/100")
    with pytest.warns(PrivacyLeakWarning, match="as in cross-validation") as caught:
        GridSearchCV(model, {"depth": [1, 2]}, cv=2).fit(X, y)
    assert len(caught) == 1


@ALL
def test_what_counts_as_a_fit_before(name):
    """Copies and clones count together; others, and fits that failed, do not."""
    X, y = records(30)
    model = classifier(name)
    with pytest.raises(ValueError, match="label"):
        model.fit(X, y[:-1])
    for other in (classifier(name), classifier(name)):
        other.fit(X, y)
    twins = clone(model), copy.deepcopy(clone(model)), pickle.loads(pickle.dumps(model))
    twins[0].fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="was fitted before.* = 2 in all"):
        twins[1].fit(X, y)
    twins[1].fit(X, y)  # said once
    assert "Other fits on the same records add to this" in twins[1].privacy_statement_
    shared = classifier(name, ledger=PrivacyLedger(2))
    shared.fit(X, y).fit(X, y)


@pytest.mark.filterwarnings("default:this estimator")
def test_clones_for_workers_are_warned_of_where_they_leave():
    """Workers would each be the first to fit, and what they say is not heard."""
    model = classifier("batch training")
    pickle.dumps(clone(model))
    with pytest.warns(PrivacyLeakWarning, match="sent away again before a fit") as seen:
        _ = [pickle.dumps(clone(model)) for _ in range(2)]
    assert len(seen) == 1
    assert seen[0].filename == __file__


@pytest.mark.filterwarnings("error:this estimator")
def test_clones_that_stay_or_bring_their_own_noise_are_no_workers():
    X, y = records(30)
    model = classifier("batch training")
    with pytest.warns(PrivacyLeakWarning, match="was fitted before"):
        cross_val_score(model, X, y, cv=3)
    assert clone(model) is not clone(model)
    for _ in range(3):
        copy.deepcopy(clone(model))
        pickle.dumps(clone(model).set_params(insecure_rng=np.random.default_rng(0)))


@pytest.mark.filterwarnings("default:this estimator")
def test_workers_share_a_ledger_on_disk_or_are_warned_of(tmp_path):
    X, y = records(60)
    with pytest.warns(PrivacyLeakWarning, match="sent away again") as seen:
        cross_val_score(classifier("batch training"), X, y, cv=3, n_jobs=2)
    assert len(seen) == 1
    ledger = PrivacyLedger.open(tmp_path / "budget.json", total=2)
    model = classifier("batch training", ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(model, X, y, cv=3, n_jobs=2)
    assert np.isnan(scores).sum() == 1
    assert ledger.spent == 2
