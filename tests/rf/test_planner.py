"""Plans of the drawn forest follow from public numbers and simulated tasks alone."""

import json
import sys
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import numpy as np

from mmech_rf import DrawnSettings
from mmech_rf.drawn.settings import between_knots, shipped_plan

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import planner


def test_settings_are_between_those_of_knots_and_those_of_the_ends_beyond():
    table = {"learning_rate": [0.2, 0.4], "most_rounds": [3, 9], "selection": [0.25]}
    found = [between_knots(table, (2, 4), 10**x) for x in (0, 2, 3, 4, 9)]
    rates = [settings.learning_rate for settings in found]
    np.testing.assert_allclose(rates, [0.2, 0.2, 0.3, 0.4, 0.4])
    assert [settings.most_rounds for settings in found] == [3, 3, 6, 9, 9]
    assert {settings.selection for settings in found} == {Fraction(1, 4)}


def test_a_plan_depends_on_records_times_epsilon_alone():
    assert DrawnSettings.planned(500, 2) == DrawnSettings.planned(10_000, "0.1")


def test_the_shipped_plan_says_where_it_comes_from_and_names_settings():
    plan = shipped_plan()
    assert {"by", "date", "prior", "trials", "versions"} <= set(plan["made"])
    assert set(plan["settings"]) <= {own.name for own in fields(DrawnSettings)}
    assert {len(v) for v in plan["settings"].values()} <= {1, len(planner.KNOTS)}
    assert tuple(plan["log10_information"]) == planner.KNOTS


def test_more_information_pays_for_no_fewer_rounds():
    rounds = [DrawnSettings.planned(10**x, 1).most_rounds for x in range(1, 7)]
    assert rounds == sorted(rounds)


def test_a_search_goes_on_where_it_was_and_its_plan_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(planner, "SEARCHED", planner.SEARCHED[:1])
    few = ["--output", str(tmp_path), "--trials", "2", "--fresh", "2"]
    planner.main(few)
    rows = (tmp_path / "risks.csv").read_text().splitlines()
    with open(tmp_path / "risks.csv", "a") as stream:
        stream.write("500000")  # a line that was cut off
    planner.main(few)
    assert (tmp_path / "risks.csv").read_text().splitlines()[: len(rows)] == rows
    assert len((tmp_path / "risks.csv").read_text().splitlines()) <= len(rows) + 1
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["made"]["fits"] == len(rows)
    between_knots(plan["settings"], plan["log10_information"], 1000.0)


def test_a_setting_that_helps_is_taken(tmp_path, monkeypatch):
    """A forest that learns from further trees is chosen over one that does not."""
    rate = planner.Coordinate("learning_rate", (0.0, 0.5), (), (4.0, 5.1))
    monkeypatch.setattr(planner, "SEARCHED", (rate,))
    risks = planner.Risks(tmp_path / "risks.csv")
    values = planner.search({"learning_rate": [0.0]}, risks, 24, np.inf)
    assert values == {"learning_rate": [0.5]}


def test_fast_noise_on_sums_has_the_variance_that_it_says(rng):
    from mmech import PrivacyLedger

    groups = [1, 3, 2]
    found = []
    for _ in range(500):
        payments = planner.FastPayments(PrivacyLedger(1), rng, lambda entry: None)
        sums = np.zeros((6, 1), np.int64)
        measured = payments.release_sums(sums, groups, Fraction(1), "sums", 64)
        found.append(measured.values[:, 0])
    ratio = np.mean(np.square(found, dtype=float), axis=0) / measured.variance
    # Squares of such noise have a relative deviation of about 3.
    assert np.abs(ratio - 1).max() < 5 * 3 / np.sqrt(500)
