"""Settings of the private forests: checked, kept with the model, and followed."""

from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from rf_cases import SCHEMA, records
from sklearn.base import clone

from mmech_rf import DrawnSettings, PrivateForestClassifier
from mmech_rf.drawn import grow
from mmech_rf.drawn.scores import SUMS
from mmech_rf.drawn.settings import Plan


# ---------------------------------------------------------------------- what they are
def test_every_field_is_documented_and_refuses_what_it_cannot_take():
    default = DrawnSettings()
    for own in fields(DrawnSettings):
        name = own.name
        assert name in DrawnSettings.__doc__
        for wrong in ("x", None, -1, float("nan")):
            with pytest.raises((TypeError, ValueError), match=name):
                replace(default, **{name: wrong})


def test_shares_are_exact_and_equal_settings_are_equal():
    exact = DrawnSettings(score_share=Fraction(1, 10))
    assert DrawnSettings(score_share=0.1) == DrawnSettings(score_share="0.1") == exact
    assert hash(DrawnSettings()) == hash(DrawnSettings())


# ----------------------------------------------------------------------- with the model
@pytest.mark.parametrize(
    "settings",
    [
        None,
        DrawnSettings(calibration_share="1/7"),
        replace(DrawnSettings.for_ranking(), calibration_share="1/7"),
    ],
    ids=["default", "own", "for ranking"],
)
def test_settings_are_followed_and_copied(settings):
    model = PrivateForestClassifier(SCHEMA, epsilon=2, settings=settings)
    model.fit(*records(40))
    assert clone(model).settings == settings
    counted, *_, last = [entry.cost for entry in model.ledger_.entries]
    assert counted == 2 * Fraction(3, 100)
    assert sum(entry.cost for entry in model.ledger_.entries) == 2
    share = Fraction(1, 20) if settings is None else Fraction(1, 7)
    rest = 2 - counted - sum(e.cost for e in model.releases_ if e.released == SUMS)
    assert last == share * rest


# ----------------------------------------------------------------------- what they do
def test_plans_follow_settings():
    many = 10**6, Fraction(1), 10, 2
    assert Plan.of(*many).rounds > 0
    never = DrawnSettings(boosting_from=np.inf, scores_from=np.inf)
    plain = Plan.of(*many, never)
    assert (plain.scores, plain.rounds, plain.first) == (0, 0, 1)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(50)])
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("n_features", [1, 6, 30, 1000])
def test_plans_for_ranking_spend_all_whatever_is_public(epsilon, n_classes, n_features):
    settings = DrawnSettings.for_ranking()
    for information in 10.0 ** np.arange(0, 9.5, 0.5):
        public = information / float(epsilon), epsilon, n_features, n_classes
        found = Plan.of(*public, settings)
        assert found.scores + found.first + found.rounds * found.further == 1
        assert min(found.scores, found.first, found.further) >= 0
        assert 0 < min(found.first_selection, found.selection) < 1
        # Boosting starts from scores or from a tree, never from neither.
        assert (found.first == 0) <= (found.scores > 0 and found.rounds > 0)
        assert found.corrections == settings.corrections * (found.first == 0)


def test_learning_rate_zero_leaves_the_first_tree(monkeypatch):
    monkeypatch.setattr(grow, "LEARNING_RATE", 0)
    X, y = records(200)
    settings = DrawnSettings(scores_from=np.inf)
    many = {"epsilon": 2, "n_records": 10**6}
    model = PrivateForestClassifier(SCHEMA, settings=settings, **many).fit(X, y)
    first, *further = model._experts.scores
    assert len(further) == model.choice_.rounds > 0
    assert first.any()
    assert not any(scores.any() for scores in further)
