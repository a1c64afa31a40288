"""The benchmark of accuracy: data, floors, table, runs that go on where they were."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.accuracy import _methods, _table, _trials, ranking
from benchmarks.accuracy.__main__ import main

pytestmark = pytest.mark.slow


# ---- floors and table --------------------------------------------------------

FOREST, CEILING = _methods.OURS[0], _methods.CEILINGS[0]


def test_a_floor_is_at_most_what_no_privacy_reaches():
    values = {("iris", CEILING, math.inf): [0.91, 0.93]}
    # The mean is 0.92 and its standard error 0.01.
    assert _table.floors(values, "iris") == pytest.approx((0.68, 0.90, 0.90, 0.90))
    assert _table.floors({}, "iris") == _table.FLOORS["iris"]
    assert _table.floors(values, "nursery") is None


def test_table_has_means_floors_and_verdicts():
    values = {
        ("iris", FOREST, 0.1): [0.6, 0.7],
        ("iris", FOREST, 1.0): [0.95],
        ("iris", CEILING, math.inf): [1.0, 1.0],
    }
    seconds = {("iris", FOREST): 0.5, ("iris", CEILING): 12.25}
    text = "Text.\n\n" + _table.table(values, seconds) + "\n| another | table |\n"
    assert _table.read_table(text) == {
        ("iris", FOREST): (0.65, None, 0.95, None),
        ("iris", CEILING): (None, None, None, 1.0),
        ("iris", "*floor*"): (0.68, 0.9, 0.935, 0.945),
    }


# ---- runs --------------------------------------------------------------------


def test_a_run_is_kept_and_its_table_has_floors(tmp_path, monkeypatch):
    monkeypatch.delenv("MMECH_DATA_DIR", raising=False)
    common = ["--output", str(tmp_path), "--datasets", "iris", "adult"]
    common += ["--epsilon", "0.5", "1", "--methods", "naive Bayes"]
    main([*common, "--splits", "1"])
    first = _trials.read(tmp_path / "trials.csv")
    main([*common, "--splits", "2"])
    second = _trials.read(tmp_path / "trials.csv")
    assert len(second) == 2 * len(first) > 0
    assert all(second[key] == first[key] for key in first)
    assert "| iris | *floor* |" in (tmp_path / "accuracy.md").read_text("utf-8")


def test_who_is_absent_keeps_its_rows(tmp_path, monkeypatch, capsys):
    absent = replace(_methods.METHODS["OpenDP MST"], absent="there is no such thing")
    monkeypatch.setitem(_methods.METHODS, "OpenDP MST", absent)
    names = "dataset,method,epsilon,repetition,accuracy,seconds\n"
    path = tmp_path / "trials.csv"
    path.write_text(names + "iris,OpenDP MST,1.0,0,0.875,30\n")
    given = ["--datasets", "iris", "--splits", "1", "--epsilon", "1", "--methods"]
    main(["--output", str(tmp_path), *given, "OpenDP MST"])
    assert "OpenDP MST is left out: there is no such thing" in capsys.readouterr().out
    assert (
        "| iris | OpenDP MST |  |  | 0.875 |" in (tmp_path / "accuracy.md").read_text()
    )
    assert len(_trials.read(path)) == 1


# ---- ranking and calibration -------------------------------------------------


def test_calibration_errors(rng):
    """Records of equal probability are taken together."""
    shares = rng.random(20_000)
    truth = (rng.random(20_000) < shares).astype(int)
    # Ten groups of 2,000, each with a standard error below .012.
    assert ranking.calibration_error(truth, shares) < 0.03
    assert ranking.calibration_error(truth, np.round(shares)) > 0.2


def test_ranking_makes_its_table(tmp_path, monkeypatch):
    monkeypatch.setenv("MMECH_DATA_DIR", "")
    compared = ("private forest", "logistic regression, not private")
    monkeypatch.setattr(ranking, "COMPARED", compared)
    sets = ["--datasets", "tic-tac-toe", "--epsilon", "1", "--output", str(tmp_path)]
    ranking.main([*sets, "--splits", "1"])
    made = (tmp_path / "ranking.md").read_text(encoding="utf-8")
    assert "| tic-tac-toe | private forest |" in made
    assert "| tic-tac-toe | logistic regression, not private |" in made


def test_leaves_of_given_trees_have_a_table(tmp_path, capsys):
    main(["--given", "--datasets", "iris", "--splits", "1", "--epsilon", "1",
          "--output", str(tmp_path)])  # fmt: skip
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in head.split("|")[3:-1]] == list(_methods.GIVEN)
    (row,) = (row for row in rows if "| 1 " in row)
    assert all(0 <= float(cell) <= 1 for cell in row.split("|")[3:-1])
