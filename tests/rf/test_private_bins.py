"""Attributes that are cut where their records are, paid from the budget of a fit."""

from fractions import Fraction

import numpy as np
import pytest
from entropy import system_entropy

import mmech_rf as rf
from mmech import PrivacyLedger
from mmech_rf.estimator.accounted import number_of_bins

N_RECORDS = 4000
UPPER = 60_000
MONTHS = 150


def credits(rng, number=N_RECORDS):
    """Return skewed amounts, months and a purpose, and whether a credit was paid.

    No number is outside the bounds of `schema`.
    """
    amount = np.exp(8 + rng.normal(size=number)) * (rng.random(number) > 0.2)
    amount = np.minimum(amount, UPPER)
    months = np.minimum(rng.gamma(2, 12, number), MONTHS)
    purpose = rng.choice(["car", "house", "other"], number)
    risk = np.log1p(amount) > np.log1p(100 * months)
    wrong = rng.random(number) < 0.1
    rows = list(map(list, zip(amount.tolist(), months.tolist(), purpose, strict=True)))
    return rows, np.where(risk ^ wrong, "late", "paid")


def schema(factor=1, **options):
    return rf.Schema(
        [
            rf.Attribute.numeric("amount", lower=0, upper=UPPER * factor, **options),
            rf.Attribute.numeric("months", lower=0, upper=MONTHS * factor),
            rf.Attribute.categorical("purpose", ["car", "house", "other"]),
        ],
        ["paid", "late"],
    )


def fitted(data, cls=rf.PrivateForestClassifier, factor=1, seed=0, **settings):
    settings = {"n_records": N_RECORDS, "epsilon": 1, "private_bins": "all"} | settings
    with system_entropy(np.random.default_rng(seed).bytes):
        return cls(settings.pop("schema", schema(factor)), **settings).fit(*data)


@pytest.fixture
def data(rng):
    return credits(rng)


# --------------------------------------------------------------- what it is good for
def test_bins_hold_about_equal_parts(data):
    months = fitted(data, epsilon=20).schema_.encode(data[0])[:, 1]
    assert abs(np.bincount(months, minlength=8) / N_RECORDS - 0.125).max() < 0.05


def test_more_bins_where_records_and_budget_pay_for_them():
    found = [
        number_of_bins(n_records, epsilon)
        for n_records in (10, 1000, 10**6)
        for epsilon in (Fraction(1, 50), Fraction(1, 10))
    ]
    assert found == sorted(found)
    assert found[0] == 2
    assert found[-1] == 8


# --------------------------------------------------------------------- what is released
def test_cut_points_are_released_and_paid_for(data):
    ledger = PrivacyLedger(1)
    model = fitted(data, ledger=ledger, n_records=None)
    assert ledger.spent == 1
    entries = [e for e in model.releases_ if "cut points" in e.released]
    assert [e.released for e in entries] == [
        "cut points of attribute 'amount'",
        "cut points of attribute 'months'",
    ]
    assert sum(e.cost for e in entries) == (1 - Fraction(3, 100)) / 5
    assert "cut points of attribute 'amount'" in model.privacy_statement_
    assert "but for the cut points named above" in model.privacy_statement_
    for own, given in zip(model.schema_.attributes, schema().attributes, strict=True):
        assert own.name == given.name
        assert (own.cut_points == given.cut_points) == (own.name == "purpose")
    amount = model.schema_.attributes[0]
    assert 0 <= amount.cut_points[0] < amount.cut_points[-1] < UPPER
    assert "amount" in model.describe()


def test_only_attributes_that_are_named(data):
    model = fitted(data, private_bins=["months"])
    amount, months, _ = model.schema_.attributes
    assert amount == schema().attributes[0]
    assert months != schema().attributes[1]


def test_missing_values_keep_a_cell_of_their_own(data):
    X, y = data
    rows = [[None, *row[1:]] if i % 5 == 0 else row for i, row in enumerate(X)]
    given = schema(other="unknown")
    policies = {"handle_missing": "category", "handle_unknown": "category"}
    model = fitted((rows, y), schema=given, **policies)
    amount = model.schema_.attributes[0]
    assert amount.labels[-1] == "unknown"
    codes = model.schema_.encode(rows, handle_missing="category")[:, 0]
    assert set(codes[::5]) == {amount.size - 1}
    assert max(codes[1::5]) < amount.size - 1
