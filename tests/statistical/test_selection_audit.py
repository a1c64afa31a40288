"""Private selection against its claim.

A rare candidate that lies behind by one in the exponent, and draws level with one more
record, is chosen with chance 0.27 and then 0.5. That shows an epsilon of 0.62. So
bounds at confidence 0.999 exceed the claim of 1 less than once in 10 ** 9 runs, and
fall below 0.2 less than once in 10 ** 6. At twice the rate the chances are 0.12 and
0.5: the bound is about 1.22, four standard errors above the claim
(``tests.mutants``).
"""

import re

import numpy as np
import pytest

from mmech.audit import AuditResult, epsilon_lower_bound, one_by_one
from mmech.audit import __main__ as command
from mmech_rf import Attribute, PrivateForestClassifier, Schema, audit
from mmech_rf.methods import METHODS

pytestmark = pytest.mark.statistical

CONFIDENCE = 0.999
RUNS = 4000
FITS = 500
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


def test_the_set_is_chosen_though_few_runs_show_nothing_at_the_confidence():
    """Chances of 0.27 and 0.5: at 1 - 1e-6 the 400 pilot runs speak for no set."""
    shares = {0: 0.27, 1: 0.5}

    def release(data, runs):
        return np.arange(runs) * shares[data] % 1 < shares[data]

    found = epsilon_lower_bound(
        release, 0, 1, runs=4000, confidence=1 - 1e-6, statistic=lambda hits: hits
    )
    np.testing.assert_allclose(found.rates, (0.5, 0.27), atol=2e-3)
    assert 0.35 < found.epsilon < np.log(0.5 / 0.27)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("name", "neighbours"), CHOICES)
def test_choices_between_two_candidates(name, neighbours):
    """The cases of ``python -m mmech.audit``, nearer to each other for fewer runs."""
    (case,) = (
        case
        for case in command.cases(1.0)
        if (case.name, case.neighbours) == (name, neighbours)
    )
    first = np.ceil(case.first / command.RARE).astype(int)
    bound = epsilon_lower_bound(
        case.release,
        first,
        first + case.second - case.first,
        runs=RUNS,
        confidence=CONFIDENCE,
        statistic=case.statistic,
    )
    assert not bound.refutes(case.claimed)
    assert bound.refutes(0.2 * case.claimed)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_cut_points(neighbours):
    """The rare edge is drawn with chance 0.27, and 0.5 with one more record."""
    case = command.cut_case(1.0, neighbours, behind=1.0)
    bound = epsilon_lower_bound(
        case.release,
        case.first,
        case.second,
        runs=RUNS,
        confidence=CONFIDENCE,
        statistic=case.statistic,
    )
    assert not bound.refutes(case.claimed)
    assert bound.refutes(0.2 * case.claimed)


def label_audit(first, second):
    """Audit fits of whole models, by the label of the leaf of the value 0.

    Data sets are classes of records that all have the value 0.
    """
    model = PrivateForestClassifier(SCHEMA, epsilon=2, n_records=2)

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


@pytest.mark.slow
def test_a_whole_private_forest():
    """The label is wrong with chance 0.14, and 0.5 with one more record.

    A tenth of the runs chooses the outputs to count. At epsilon = 1 the two laws are so
    near to each other that this tenth often cannot tell them apart.
    """
    bound = label_audit(["yes"], ["yes", "no"])
    assert not bound.refutes(2.0)
    assert bound.refutes(0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "neighbours", ["replace", pytest.param("add_remove", marks=pytest.mark.slow)]
)
def test_tables(neighbours):
    """A correct release is refuted once in 10 ** 6 runs; some epsilon is found."""
    case = command.tables_case(8.0, neighbours)
    bound = epsilon_lower_bound(
        case.release, case.first, case.second,
        runs=100, confidence=1 - 1e-6, statistic=case.statistic,
    )  # fmt: skip
    assert not bound.refutes(case.claimed)
    assert bound.epsilon > 0


def test_all_forests_are_audited():
    private = [name for name, method in METHODS.items() if method.is_private]
    assert [case.name for case in audit.cases(1.0)] == 2 * private


def test_an_audit_without_power_does_not_say_that_a_claim_holds(capsys):
    def found(epsilon):
        return AuditResult(epsilon, 0.0, 0.999, 100, (0.0, 0.0))

    assert command.verdict(found(1.1), 1.0) == "REFUTED"
    assert command.verdict(found(0.4), 1.0) == "not refuted"
    assert command.verdict(found(0.0), 1.0) == command.NO_POWER

    def cases(epsilon):
        def noiseless(data, runs):
            return np.full((runs, 1), data)

        for name, second in (("blind", 0), ("broken", 1)):
            yield command.Case(name, "add_remove", epsilon, noiseless, 0, second)

    assert command.main(["--runs", "2000"], cases) == 1
    blind, broken, _, summary = capsys.readouterr().out.splitlines()[-4:]
    assert blind.endswith(command.NO_POWER)
    assert broken.endswith("REFUTED")
    found = r"2 releases in \d+ s: 1 refuted, 1 without power\. "
    assert re.match(found, summary)
