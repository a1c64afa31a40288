"""Private selection against its claim, and against mutants with twice the rate.

A rare candidate that lies behind by one in the exponent, and draws level with one more
record, is chosen with chance 0.27 and then 0.5. That shows an epsilon of 0.62, so that
bounds at confidence 0.999 exceed the claim of 1 less than once in 10 ** 9 runs. Mutants
choose with chance 0.12 and 0.5: their bound is about 1.22, four standard errors above
the claim.
"""

import numpy as np
import pytest

import mmech.selection
from mmech.audit import __main__ as command
from mmech.audit import epsilon_lower_bound, one_by_one
from mmech_rf import Attribute, DrawnForestClassifier, Schema

pytestmark = pytest.mark.statistical

CONFIDENCE = 0.999
RUNS = 4000
FITS = 3000
CHOICES = [
    (name, neighbours)
    for name in (
        "exponential_mechanism",
        "exponential_mechanism, monotone",
        "permute_and_flip, monotone",
    )
    for neighbours in ("add_remove", "replace")
]
SCHEMA = Schema((Attribute.categorical("x", ["0", "1"]),), ("no", "yes"))


def double_the_rate(monkeypatch):
    correct = mmech.selection._rate
    monkeypatch.setattr(mmech.selection, "_rate", lambda *args: 2 * correct(*args))


@pytest.mark.parametrize(("name", "neighbours"), CHOICES)
def test_choices_between_two_candidates(name, neighbours, monkeypatch):
    """The cases of ``python -m mmech.audit``, nearer to each other for fewer runs."""
    monkeypatch.setattr(command, "RARE", 1.0)
    (case,) = (
        case
        for case in command.cases(1.0)
        if (case.name, case.neighbours) == (name, neighbours)
    )

    def bound():
        return epsilon_lower_bound(
            case.release,
            case.first,
            case.second,
            runs=RUNS,
            confidence=CONFIDENCE,
            statistic=case.statistic,
        )

    assert not bound().refutes(case.claimed)
    double_the_rate(monkeypatch)
    assert bound().refutes(case.claimed)


def label_audit(first, second):
    """Audit fits of whole models, by the label of the leaf of the value 0.

    Data sets are classes of records that all have the value 0.
    """
    model = DrawnForestClassifier(SCHEMA, epsilon=1, n_records=2)

    def release(classes):
        rows = np.full((len(classes), 1), "0")
        fitted = model.fit(rows, np.array(classes, dtype=str))
        (tree,) = fitted.trees_
        return np.concatenate(tree.labels)[tree.leaves(np.zeros((1, 1), int))]

    return epsilon_lower_bound(
        one_by_one(release),
        first,
        second,
        runs=FITS,
        confidence=CONFIDENCE,
        statistic=lambda labels: -labels[:, 0],
    )


def test_a_whole_private_forest(monkeypatch):
    first, second = ["yes"], ["yes", "no"]
    assert not label_audit(first, second).refutes(1.0)
    double_the_rate(monkeypatch)
    assert label_audit(first, second).refutes(1.0)
