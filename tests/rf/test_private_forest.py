"""The private forest: budgets, copies, files, and fits that are counted."""

import numpy as np
import pytest
from rf_cases import CELLS, CLASSES, SCHEMA, records
from sklearn.base import clone

from mmech import PrivacyLedger
from mmech_rf import PrivateForestClassifier
from mmech_rf.private.accounted import LEAST_EPSILON

RAW = CELLS.astype(str)
ZCDP = {"privacy": "zcdp", "delta": 1e-5}


# ------------------------------------------------------------------- copies and files
# ------------------------------------------------------------------- counting the fits
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
    """Of the records that a person may have each has a part of epsilon."""
    model = PrivateForestClassifier(
        SCHEMA, epsilon=10**15, n_records=n_records, records_per_person=10**9
    )
    assert model.fit(*records(20)).ledger_.remaining == 0
