"""Accuracy from held-out records: what it says, what it costs, where it is refused.

That neighbours look the same is in `test_record_and_replay`.
"""

import re
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from rf_cases import SCHEMA, records, rule

import mmech_rf as rf
from mmech import BudgetExceededError, PrivacyLedger
from mmech.privacy.ledger import LedgerEntry
from mmech.testing import watch_draws
from mmech_rf.estimator.accuracy import HELD_OUT, Accuracy
from mmech_rf.show.page import opening

pytestmark = pytest.mark.filterwarnings("ignore:noise from insecure_rng")


def forest(cls=rf.PrivateForestClassifier, **parameters):
    given = {"epsilon": 1, "estimate_accuracy": True, "insecure_rng": 0}
    return cls(SCHEMA, **(given | parameters))


def of_a_rule(n_records):
    rows, _ = records(n_records)
    return rows, np.array(SCHEMA.class_labels)[rule(rows)]


def measured(model, X, y):
    """Fit without noise; return what was released of the counts."""
    seen = SimpleNamespace(numbers=[], assigned=None)

    def watch(draw, sample):
        if draw.kind == "assignment" and seen.assigned is None:
            seen.assigned = sample()
            return seen.assigned
        if draw.kind == "laplace":
            seen.numbers.append((draw.public["entry"], draw.exact.copy()))
            return draw.exact
        return sample()

    with pytest.warns(match="watched draws"), watch_draws(watch):
        seen.model = model.fit(X, y)
    return seen


def test_what_is_trained_with_is_not_what_is_counted():
    """And about one record in five is counted."""
    X, y = of_a_rule(2000)
    seen = measured(forest(), X, y)
    (_, trained), *_, (entry, counts) = seen.numbers
    held_out = seen.assigned == 0
    # Six standard errors of a binomial share: a false alarm of 2e-9.
    share = 1 / HELD_OUT
    assert abs(held_out.mean() - share) < 6 * np.sqrt(share * (1 - share) / 2000)
    assert trained.sum() == (~held_out).sum()
    assert counts.sum() == held_out.sum()
    assert counts[0] == (seen.model.predict(X) == y)[held_out].sum()
    assert (entry.part, seen.model.releases_[0].part) == ("held out", "training")
    found = seen.model.accuracy_
    assert (found.right, found.wrong) == tuple(counts)


def test_held_out_records_are_in_the_bins_that_training_ones_drew(rng):
    age = rf.Attribute.numeric("age", lower=0, upper=100)
    schema = rf.Schema([age], ["young", "old"])
    X = rng.uniform(0, 100, (400, 1))
    y = np.where(X[:, 0] > 30, "old", "young")
    model = rf.PrivateForestClassifier(
        schema, epsilon=100, estimate_accuracy=True, private_bins="all"
    )
    seen = measured(model, X, y)
    *_, (_, counts) = seen.numbers
    held_out = seen.assigned == 0
    assert counts[0] == (seen.model.predict(X) == y)[held_out].sum()
    assert seen.model.accuracy_.estimate > 0.8


@pytest.mark.parametrize(
    ("cls", "given"),
    [
        (rf.PrivateForestClassifier, {}),
        (rf.PrivateForestClassifier, {"n_records": 300}),
        (rf.RecipeForestClassifier, {"recipe": "jpw", "n_records": 300}),
        (rf.RecipeForestClassifier, {"recipe": "spe", "n_records": 300}),
    ],
)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_it_costs_no_more_and_is_paid_again_by_the_next_fit(cls, given, relation):
    epsilon = Fraction(given.get("epsilon", 1))
    ledger = PrivacyLedger(2 * epsilon, neighbours=relation)
    for times in (1, 2):
        model = forest(cls, ledger=ledger, neighbours=relation, **given)
        model.fit(*of_a_rule(100))
        assert ledger.spent == times * epsilon
        assert model.card()["epsilon"] == float(epsilon)
    entry = model.accuracy_.entry
    assert entry.cost == epsilon
    assert entry.sensitivity == (2 if relation == "replace" else 1)
    with pytest.raises(BudgetExceededError, match=r"only 0 of .* is left"):
        forest(cls, ledger=ledger, neighbours=relation, **given).fit(*of_a_rule(9))


def test_fits_of_other_budgets_cost_what_some_record_pays():
    """Trained with by the dear fit, and held out by the cheap one; or both."""
    ledger = PrivacyLedger(3)
    for epsilon in (2, 1):
        forest(epsilon=epsilon, ledger=ledger).fit(*of_a_rule(100))
    assert ledger.spent == 3


def test_a_public_number_of_records_is_that_of_the_training_records():
    model = forest(n_records=1000).fit(*of_a_rule(100))
    assert model.choice_.n_records == 800


def test_nothing_is_held_out_unless_asked_for():
    model = forest(estimate_accuracy=False).fit(*of_a_rule(100))
    assert model.accuracy_ is None
    assert model.card()["accuracy"] is None
    assert "Accuracy" not in model.privacy_statement_
    assert all(entry.part is None for entry in model.releases_)


def test_statement_card_and_page_have_it():
    """Files have what `test_persistence` compares."""
    model = forest().fit(*of_a_rule(300))
    found = model.accuracy_
    assert f"Accuracy on new records: {found}" in model.privacy_statement_
    assert "(part: held out)" in model.privacy_statement_
    assert model.card()["accuracy"] == found.card()
    assert f"estimate {found.estimate:.4g}" in model.to_html()


# ---- the interval --------------------------------------------------------------------


@pytest.mark.by_day(2)
@pytest.mark.parametrize("accuracy", [0.6, 0.99])
@pytest.mark.parametrize("n_records", [40, 1000])
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_the_interval_holds_the_accuracy(accuracy, n_records, currency, rng):
    kind = {"epsilon": "laplace", "rho": "gaussian"}[currency]
    entry = LedgerEntry(Fraction(1, 2), "labels", kind, currency=currency)
    right = rng.binomial(n_records, accuracy, 2000)
    truth = np.stack([right, n_records - right])
    law, scale = {"epsilon": (rng.laplace, 2), "rho": (rng.normal, 1)}[currency]
    noisy = (truth + law(scale=scale, size=truth.shape)).round().astype(int)
    lower, upper = np.array([Accuracy(*own, entry).interval for own in noisy.T]).T
    assert (lower <= upper).all()
    assert ((lower <= accuracy) & (accuracy <= upper)).mean() >= 0.95


def test_the_interval_is_about_as_wide_as_without_noise_where_there_are_many():
    entry = LedgerEntry(1, "labels", "laplace")
    lower, upper = Accuracy(80_000, 20_000, entry).interval
    width = 2 * 1.96 * np.sqrt(0.8 * 0.2 / 100_000)
    assert width < upper - lower < 1.2 * width


def test_intervals_in_words_hold_those_in_memory():
    entry = LedgerEntry(1, "labels", "laplace")
    card = dict.fromkeys(("date", "epsilon", "rho", "delta", "evidence", "private"))
    card |= dict.fromkeys(("target", "version", "unit"), "") | {"attributes": ["a"]}
    for right in (40, 812, 80_000, 10**7):
        found = Accuracy(right, right // 7, entry)
        said = opening(card | {"classes": ["b", "c"], "accuracy": found.card()})[-1]
        for words, unit in ((str(found), 1), (said, 100)):
            low, high = re.findall(r"([\d.]+)%? to ([\d.]+\d)", words)[0]
            lower, upper = found.interval
            assert float(low) / unit <= lower < upper <= float(high) / unit


def test_less_than_nothing_says_nothing():
    entry = LedgerEntry(1, "labels", "laplace")
    found = Accuracy(-3, -2, entry)
    assert (found.estimate, found.interval) == (0.5, (0.0, 1.0))


# ---- refusals ------------------------------------------------------------------------
