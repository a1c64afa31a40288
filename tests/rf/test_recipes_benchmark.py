"""The comparison of recipes with what was published of them, on one small set."""

import numpy as np
import pytest

from benchmarks.accuracy._data import SYNTHETIC, load
from benchmarks.recipes import __main__ as recipe_benchmark
from benchmarks.recipes.__main__ import (
    KEPT,
    Figure,
    Row,
    count,
    figures,
    main,
    measures,
    published,
    reached,
)

pytestmark = pytest.mark.slow


def test_rows_are_numbers_and_differ():
    rows = published()
    assert all(0 <= float(row.published or 1) <= 100 for row in rows)
    assert all(float(row.epsilon) for row in rows)
    assert len({(row.key, row.measure, row.source) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("published", "found", "differs", "verdict"),
    [
        # Errors: 3 of 100 records at 90 %, and 1 of three splits, 10^.5 together.
        ("90", (82.7, 84.7, 83.7), "", True),  # 83.7, and 6.3 below 90
        ("90", (82.4, 84.4, 83.4), "", False),
        ("90", (99, 99, 99), "other task: more classes", None),
        ("90", (99,), "", None),  # no error from one split
        ("", (99, 99), "", None),
    ],
)
def test_figures_are_reached_within_two_standard_errors(
    published, found, differs, verdict
):
    row = Row("car", "spe", "2", published=published, tested="100", differs=differs)
    middle = np.mean(found)
    values = [middle + (one - middle) * 3**0.5 for one in found]  # an error of one
    known = figures({(row.key, i): (one,) for i, one in enumerate(values)})
    assert reached(row, known) is verdict


def test_figures_of_synthetic_sets_err_as_sets_do():
    """By 4 points between sets, and 2 in the mean of four: 9 below is near enough."""
    row = Row("synth-a", "spe", "1", published="80", tested="30000")
    for middle, verdict in ((71.1, True), (71.0, False)):
        values = middle + 12**0.5 * np.array([-1, -1, 1, 1])
        known = figures({(row.key, i): (one,) for i, one in enumerate(values)})
        assert row.error(known) == pytest.approx(4)
        assert reached(row, known) is verdict


def test_figures_that_are_reached_below_the_mean_are_told():
    rows = [Row("car", name, "2", published="80", tested="100") for name in "abc"]
    known = {(row.key, i): (m + i,) for row, m in zip(rows, (90, 79, 9), strict=True)
             for i in (-1, 1)}  # fmt: skip
    said = count(rows, figures(known))
    assert "of 3 published figures, 3 are counted and 2 of these are reached" in said
    assert "1 of them with a mean below the published one" in said


def test_what_did_not_run_keeps_its_figure_and_date(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe_benchmark, "KEPT", tmp_path / KEPT.name)
    spe, jpw = (Row("car", name, "2") for name in ("spe", "jpw"))
    gone = Row("car", "spe", "3")
    trials = {(row.key, i): (80 + i,) for row in (spe, jpw, gone) for i in (0, 2)}
    old = figures(trials, tmp_path / KEPT.name)
    text = (tmp_path / KEPT.name).read_text().replace(old[spe.key, "accuracy"][4], "x")
    (tmp_path / KEPT.name).write_text(text)
    new = figures({(jpw.key, i): (60,) for i in range(3)}, tmp_path / "new.csv")
    assert new[spe.key, "accuracy"] == (81, 2, pytest.approx(2**0.5, abs=1e-6), 2, "x")
    assert Figure(*new[jpw.key, "accuracy"])[:4] == (60, 0, 0, 3)
    assert (gone.key, "accuracy") not in new


def test_five_bins_are_those_of_the_recipe(monkeypatch):
    seen = []

    class Watched(recipe_benchmark.RecipeForestClassifier):
        def fit(self, X, y, **extra):
            seen.append(self.schema.domain_shape)
            return super().fit(X, y, **extra)

    monkeypatch.setattr(recipe_benchmark, "RecipeForestClassifier", Watched)
    row, bunch = Row("syn5d", "fi-2015", "1", "n_bins=5"), load("syn5d")
    measures(row, bunch, np.arange(3000), False)
    assert seen == [(5,) * 5]


def test_sets_of_make_classification_have_public_bounds():
    bunch = load("synth-f")
    assert bunch.data.shape == (30_000, 10)
    assert {(a.lower, a.upper) for a in bunch.schema.attributes} == {(-8, 8)}
    assert (load("synth-f", 1).data != bunch.data).any()
    assert (abs(bunch.data) < 8).mean() > 0.99
    assert set(SYNTHETIC) <= {row.dataset for row in published()}


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_stopped(tmp_path, capsys):
    arguments = ["--recipes", "jpw", "pte", "--datasets", "car", "--output"]
    arguments += [str(tmp_path), "--splits"]
    main([*arguments, "1"])
    first = (tmp_path / "trials.csv").read_text().splitlines()
    assert len(first) == 5  # names, three recipes, and the private forest once for all
    with open(tmp_path / "trials.csv", "a") as stream:
        stream.write("car|jpw|2|,1")  # cut off
    capsys.readouterr()
    main([*arguments, "2"])
    rows = (tmp_path / "trials.csv").read_text().splitlines()
    assert rows[:5] == first
    assert len(rows) == 9
    table = capsys.readouterr().out
    assert "| jpw | car | 2 | accuracy | 69.38 | 0.5, binomial |" in table
    assert (tmp_path / "RESULTS.md").read_text() in table
    assert len(recipe_benchmark.read(tmp_path / "trials.csv")) == 8
