"""The private classifiers: what they refuse, in one sentence."""

import math
from dataclasses import replace

import numpy as np
import pytest
from rf_cases import CELLS, CLASSES, PER_BATCH, PRIVATE, SCHEMA, classifier, records
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError

from mmech import BudgetExceededError, DomainTooLargeError, PrivacyLedger
from mmech_rf import (
    Attribute,
    BatchPredictionClassifier,
    BatchTrainingClassifier,
    DrawnSettings,
    PrivateForestClassifier,
    Schema,
    SubsampleAggregateClassifier,
)
from mmech_rf.forest.voting import vote_shares

ALL = pytest.mark.parametrize("name", PRIVATE)
RAW = CELLS.astype(str)


# ------------------------------------------------------------------ error messages
@ALL
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0, got 0"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be a finite .*, got nan"),
        ({"epsilon": None}, TypeError, "epsilon .* got None; there is no default"),
        ({"n_trees": 0}, ValueError, "n_trees must be an integer >= 1, got 0"),
        ({"n_trees": 2.0}, TypeError, "n_trees must be an integer >= 1"),
        ({"depth": -1}, ValueError, "depth must be an integer >= 0, got -1"),
        ({"depth": "half"}, ValueError, "an integer >= 0 or 'auto', got 'half'"),
        ({"depth": 100}, ValueError, "depth must be at most 3, .* choose depth='auto'"),
        ({"random_state": "a"}, TypeError, "random_state must be an integer >= 0"),
        ({"random_state": -1}, ValueError, "random_state must be an .*, got -1"),
        ({"n_ensembles": 0}, ValueError, "n_ensembles must be an integer >= 1"),
        ({"n_ensembles": 4}, ValueError, "n_trees must be at least n_ensembles = 4"),
        ({"max_features": 0}, ValueError, "max_features must be an integer >= 1"),
        ({"max_features": 4}, ValueError, "at most the number of attributes, 3, got 4"),
        ({"max_features": "half"}, ValueError, "an integer >= 1 or 'partition', got"),
        ({"max_features": "partition", "n_ensembles": 4, "n_trees": 4}, ValueError,
         "needs an attribute for each of the n_ensembles = 4 .* there are 3; use"),
        ({"voting": "loud"}, ValueError, "voting must be one of .*, got 'loud'"),
        ({"neighbours": "near"}, ValueError, "neighbours must be one of 'add_remove'"),
        ({"ledger": 1.0}, TypeError, "ledger must be a PrivacyLedger, got float"),
        ({"schema": {}}, TypeError, "schema must be a Schema, got dict; read one with"),
        ({"handle_unknown": "?"}, ValueError, "handle_unknown must be one of 'error'"),
        ({"handle_missing": "?"}, ValueError, "handle_missing must be one of 'error'"),
    ],
)  # fmt: skip
def test_parameters_read_aloud(name, parameters, error, message):
    X, y = records(20)
    with pytest.raises(error, match=message):
        classifier(name, **parameters).fit(X, y)


@ALL
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([["9", "0", "0"]], ["no"], "row 0, column 'x0' of X holds a value outside"),
        ([["0", None, "0"]], ["no"], "row 0, column 'x1' of X holds a missing value"),
        ([["0", "0", "0"]], ["never"], "row 0 of y holds a label that is not one"),
        ([["0", "0"]], ["no"], "X has 2 columns but the schema has 3 attributes"),
        ([["0", "0", "0"]], None, "requires y to be passed, but the target y is None"),
    ],
)
def test_records_read_aloud(name, X, y, message):
    ledger = PrivacyLedger(1)
    with pytest.raises(ValueError, match=message):
        classifier(name, ledger=ledger).fit(X, y)
    assert ledger.spent == 0


@pytest.mark.parametrize("labels", [CLASSES, (-1, 1, 2)])
def test_labels_that_scikit_learn_encoded_read_aloud(labels):
    """Their numbers are those of the classes; what the sentence says then helps."""
    schema = replace(SCHEMA, class_labels=labels)
    X, y = records(60)
    y = np.array(labels)[SCHEMA.encode_target(y)]
    model = PrivateForestClassifier(schema, epsilon=1)
    voting = VotingClassifier([("one", model)], voting="soft")
    message = (
        r"not one of the classes, got 0 to 2, as ensembles and cross_val_.*; "
        r".* Schema the class_labels 0 to 2, and fit to what Schema\.encode_target "
    )
    with pytest.raises(ValueError, match=message):
        voting.fit(X, y)
    with pytest.raises(ValueError, match=message):
        schema.encode_target(np.array([0, 2]))
    with pytest.raises(ValueError, match="row 0 of y holds a label that is not one"):
        schema.encode_target(np.array([0, 3]))
    voting.set_params(one__schema=replace(schema, class_labels=range(3)))
    y = schema.encode_target(y)
    assert set(voting.fit(X, y).predict(X)) <= {0, 1, 2}


def test_parts_of_parameters_read_aloud():
    """A grid sets them; settings are whole."""
    model = PrivateForestClassifier(SCHEMA, epsilon=1)
    message = r"settings__learning_rate .*; pass settings= as a whole, in a grid as a"
    for settings in (None, DrawnSettings()):
        model.set_params(settings=settings)
        with pytest.raises(ValueError, match=message):
            model.set_params(settings__learning_rate=0.1)
        with pytest.raises(ValueError, match="Invalid parameter 'sets'"):
            model.set_params(sets__rate=0.1)
    assert model.set_params(epsilon=2).epsilon == 2


@ALL
def test_queries_read_aloud(name):
    X, y = records(30)
    model = classifier(name)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(RAW)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        _ = model.privacy_statement_
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"row 1, column 'x2' .* leave the row out$"):
        model.predict([["0", "0", "0"], ["0", "0", "7"]])
    with pytest.raises(ValueError, match="X has 1 columns but the schema has 3"):
        model.predict([["0"]])
    assert model.predict(np.empty((0, 3), dtype=str)).shape == (0,)
    assert model.ledger_.spent == (0 if name in PER_BATCH else 1)


def test_other_errors_read_aloud():
    X, y = records(20)
    with pytest.raises(ValueError, match="voting must be one of 'weight', got 'hard'"):
        classifier("batch prediction", voting="hard").fit(X, y)
    with pytest.raises(ValueError, match="data must be one of 'shared', 'disjoint'"):
        classifier("laplace shared", data="apart").fit(X, y)
    for name, rule in (("batch training", "ties"), ("subsample hard", "answers")):
        with pytest.raises(ValueError, match=f"{rule} must be one of"):
            classifier(name, **{rule: "both"}).fit(X, y)
    with pytest.raises(ValueError, match="template must be one of 'auto'"):
        classifier("batch training", template="best").fit(X, y)
    with pytest.raises(ValueError, match=r"class_labels \(the classes\) .* 2"):
        Schema(SCHEMA.attributes, [])


@pytest.mark.by_day(2)
@pytest.mark.parametrize("n_attributes", [14, 60, 1200])
@pytest.mark.parametrize("cls", [BatchTrainingClassifier, BatchPredictionClassifier])
def test_too_large_a_domain_names_the_way_out(cls, n_attributes):
    attributes = [
        Attribute.categorical(f"x{i}", [0, 1, 2, 3]) for i in range(n_attributes)
    ]
    schema = Schema(attributes, ["no", "yes"])
    X, y = [[0] * n_attributes], ["no"]
    message = (
        r"has \S+ \S+ cells, too many .*; use max_features=1[12], or "
        r"use PrivateForestClassifier, which is for any number of attributes"
    )
    with pytest.raises(DomainTooLargeError, match=message):
        cls(schema, epsilon=1, n_trees=2, depth=1).fit(X, y)
    model = cls(schema, epsilon=1, n_trees=2, depth=1, max_features=3, n_ensembles=2)
    assert model.fit(X, y).predict(X).shape == (1,)
    way_out = SubsampleAggregateClassifier(schema, epsilon=1, n_trees=2, depth=1)
    assert way_out.fit(X, y).predict(X).shape == (1,)
    if n_attributes < 1200:  # pairs of more of them take seconds to list
        private = PrivateForestClassifier(schema, epsilon=1)
        assert private.fit(X, y).predict(X).shape == (1,)


def test_votes_that_are_all_negative_say_what_is_predicted():
    votes = np.array([[-3.0, -1, -2], [-1, -2, -1], [0, 0, 0], [3, -1, 1]])
    expected = [[0, 1, 0], [0.5, 0, 0.5], [1 / 3] * 3, [0.75, 0, 0.25]]
    np.testing.assert_allclose(vote_shares(votes), expected)
    model = classifier("laplace shared", voting="weight").fit(*records(40))
    model.leaf_counts_ = [counts - 1e6 for counts in model.leaf_counts_]
    shares = model.predict_proba(RAW)
    chosen = model.schema_.encode_target(model.predict(RAW))
    assert (shares[np.arange(len(RAW)), chosen] > 0).all()
    assert (shares.max(axis=1) > 0.49).all()  # no equal shares of all three


@pytest.mark.parametrize(
    ("cls", "ours"),
    [
        (BatchTrainingClassifier, "pass {}="),
        (PrivateForestClassifier, "leave it out"),
    ],
)
@pytest.mark.parametrize(
    ("theirs", "name"), [("n_estimators", "n_trees"), ("max_depth", "depth")]
)
def test_names_of_scikit_learn_are_answered_with_ours(cls, ours, theirs, name):
    words = f"{theirs} is .* call {name} .*; {ours.format(name)}"
    with pytest.raises(TypeError, match=words):
        cls(SCHEMA, epsilon=1, **{theirs: 3})
    with pytest.raises(ValueError, match=words):
        cls(SCHEMA, epsilon=1).set_params(**{theirs: 3})


@ALL
def test_shares_of_the_votes_are_released_with_the_labels(name):
    X, y = records(40)
    model = classifier(name).fit(X, y)
    logs = model.predict_log_proba(RAW)
    shares = model.predict_proba(RAW)
    np.testing.assert_allclose(np.exp(logs), shares)
    assert model.ledger_.remaining == 0
    assert shares.shape == (len(RAW), len(model.classes_))
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    labels = model.predict(RAW)  # of the same batch, free
    chosen = shares[np.arange(len(RAW)), model.schema_.encode_target(labels)]
    np.testing.assert_allclose(chosen, shares.max(axis=1))
    if name not in PER_BATCH:
        return
    with pytest.raises(BudgetExceededError):
        model.predict_proba(RAW[:1])
