"""Plans of the drawn forest follow from public numbers and simulated tasks alone."""

import json
import sys
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from mmech import PrivacyLedger
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


@pytest.mark.parametrize("n_records", [10, 10**3, 10**6])
def test_defaults_follow_the_plan(n_records):
    assert DrawnSettings.planned(n_records, 1) == DrawnSettings()


def test_the_shipped_plan_says_where_it_comes_from_and_names_settings():
    plan = shipped_plan()
    assert {"by", "date", "prior", "trials", "versions"} <= set(plan["made"])
    assert set(plan["settings"]) <= {own.name for own in fields(DrawnSettings)}
    knots = plan["log10_information"]
    assert knots == sorted(knots)
    assert {len(v) for v in plan["settings"].values()} <= {1, len(knots)}


def test_more_information_pays_for_no_fewer_rounds():
    rounds = [DrawnSettings.planned(10**x, 1).most_rounds for x in range(1, 7)]
    assert rounds == sorted(rounds)


def test_a_search_goes_on_where_it_was_and_its_plan_can_be_read(tmp_path):
    searched = {"smoothing": (1.5, 3.0)}
    few = ["--output", str(tmp_path), "--trials", "1", "--fresh", "1"]
    planner.main(few, searched)
    rows = (tmp_path / "risks.csv").read_text().splitlines()
    with open(tmp_path / "risks.csv", "a") as stream:
        stream.write("500000")  # a line that was cut off
    planner.main(few, searched)
    assert (tmp_path / "risks.csv").read_text().splitlines()[: len(rows)] == rows
    assert len((tmp_path / "risks.csv").read_text().splitlines()) <= len(rows) + 1
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["made"]["fits"] == len(rows)
    between_knots(plan["settings"], plan["log10_information"], 1000.0)


def test_effects_of_changes_add_up_and_the_best_are_drawn_most(rng):
    changes = [("a", 1.0), ("a", 2.0), ("b", 1.0), ("c", 1.0)]
    true = dict(zip(changes, (-0.02, -0.005, 0.02, 0.0), strict=True))
    effects = planner.Effects(changes)
    drawn = []
    for _ in range(600):
        tried = effects.draw(rng, part=0.7)
        assert len({name for name, _ in tried}) == len(tried)
        effects.add(tried, sum(true[one] for one in tried) + rng.normal(0, 0.03))
        drawn.append(tried)
    assert effects.best(2.0) == [("a", 1.0)]
    often = [sum(one in tried for tried in drawn) for one in changes]
    assert max(often) == often[0] == effects.seen[0]


def test_changes_that_leave_a_forest_as_it_is_do_not_count():
    few, many = (planner.Trial(0, (low, low)) for low in (2.0, 5.0))
    changes = [("learning_rate", 0.3), ("calibration_share", 0.1), ("smoothing", 3.0)]
    kept = [planner.that_matter(trial, changes) for trial in (few, many)]
    assert kept == [changes[1:], [changes[0], changes[2]]]


def test_fewer_views_of_a_trial_leave_its_budget_split_as_it_is(monkeypatch):
    """Of six attributes public sums reach all, and three classes then get no scores."""
    trial = planner.Trial(17, (3.2, 3.4))
    schema = trial.task.schema
    assert (schema.n_features, schema.n_classes > 2) == (6, True)
    grow, grown = planner.Grower.grow, []

    def seen(self, cost, plan):
        grown.append(plan)
        return grow(self, cost, plan)

    monkeypatch.setattr(planner.Grower, "grow", seen)
    trial.excess(DrawnSettings())
    assert grown == [trial.plan(DrawnSettings())]
    assert not grown[0].scores


def test_a_setting_that_helps_is_taken_where_it_helps(tmp_path):
    """Forests are stood in for by risks that are known."""

    class Known(planner.Risks):
        def of(self, trial, settings):
            helps = trial.information > 10**3 and settings.smoothing == 3
            noise = np.random.default_rng(trial.seed).normal(0, 0.01)
            return 0.2 - 0.05 * helps + noise

    searched = {"smoothing": (0.75, 1.5, 3.0), "third_level": (0.05, 0.5)}
    risks = Known(tmp_path / "risks.csv")
    effects = planner.search(risks, 60, np.inf, knots=(2.0, 4.0), searched=searched)
    assert planner.plan_of(effects, 2.0) == {"smoothing": [1.5, 3.0]}


def test_releases_without_noise_are_exact(rng):
    payments = planner.SimulatedPayments(
        PrivacyLedger(1), rng, lambda entry: None, frozenset({"counts"})
    )
    counts = np.arange(6).reshape(3, 2)
    released = payments.release(counts, Fraction(1, 10), "counts")
    np.testing.assert_array_equal(released.values, counts)
    sums = payments.release_sums(counts, [1, 2], Fraction(1, 10), "sums", 64)
    np.testing.assert_array_equal(sums.values, counts)
