"""The benchmark of accuracy: data, floors, table, runs that go on where they were."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils import Bunch

from benchmarks import gains
from benchmarks.accuracy import (
    _data,
    _methods,
    _table,
    _trials,
    ranking,
)
from benchmarks.accuracy.__main__ import main
from mmech_rf import Attribute, Schema, datasets

pytestmark = pytest.mark.slow

GROUPS = (
    {"attribute": "colour", "first": 0, "count": 3},
    {"attribute": "shape", "first": 3, "count": 2},
)


def one_hot(rows):
    schema = Schema(
        [Attribute.categorical(str(i), ["0", "1"]) for i in range(5)], ["no", "yes"]
    )
    data = np.array(rows).astype(str).astype(object)
    return Bunch(data=data, target=np.array(["no"] * len(rows)), schema=schema)


def test_one_hot_groups_become_attributes_and_no_one_is_missing():
    bunch = _data.merged(
        one_hot([[1, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 0, 0, 0, 0]]), GROUPS
    )
    assert bunch.data.tolist() == [["0", "1"], ["2", "0"], ["missing", "missing"]]
    assert bunch.schema.domain_shape == (4, 3)
    assert bunch.schema.feature_names == ("colour", "shape")
    assert bunch.schema.encode(bunch.data).tolist() == [[0, 1], [2, 0], [3, 2]]


def test_whole_numbers_have_a_cell_each_where_they_are_few():
    features = [
        {"name": "few", "type": "numeric", "lower": 1, "upper": 4, "integer": True},
        {"name": "many", "type": "numeric", "lower": 0, "upper": 64, "integer": True},
        {"name": "real", "type": "numeric", "lower": 0, "upper": 1},
    ]
    document = _data.on_grid(
        {"features": features, "target": {"name": "class", "categories": ["a", "b"]}}
    )
    schema = Schema.from_json(document, n_bins=_data.GRID)
    assert schema.domain_shape == (4, 64, 64)
    assert schema.encode([[1, 0, 0.0], [4, 64, 1.0]]).tolist() == [
        [0, 0, 0],
        [3, 63, 63],
    ]
    paper = {"attributes": [], "target": "class"}
    assert _data.on_grid(paper) is paper


def test_splits_are_disjoint_and_the_same_every_time():
    train, test = _data.split(101, 3)
    assert sorted([*train, *test]) == list(range(101))
    assert test.size == 20
    np.testing.assert_array_equal(_data.split(101, 3)[1], test)


def test_without_files_built_in_sets_are_there(monkeypatch):
    monkeypatch.delenv("MMECH_DATA_DIR", raising=False)
    assert _data.load("iris-grid").schema.domain_shape == (64,) * 4
    assert _data.load("adult") is None


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
    lines = _table.table(values, seconds).splitlines()[2:]
    assert lines == [
        f"| iris | {FOREST} | **0.650 ± 0.100** |  | **0.950** |  | 2 | 0.5 |",
        f"| iris | {CEILING} |  |  |  | 1.000 ± 0.000 | 2 | 12 |",
        "| iris | *floor* | 0.680 | 0.900 | 0.935 | 0.945 |  |  |",
        "| iris | *floor reached* | no, −0.030 |  | yes |  |  |  |",
    ]
    text = "Text.\n\n" + _table.table(values, seconds) + "\n| another | table |\n"
    assert _table.read_table(text) == {
        ("iris", FOREST): (0.65, None, 0.95, None),
        ("iris", CEILING): (None, None, None, 1.0),
        ("iris", "*floor*"): (0.68, 0.9, 0.935, 0.945),
    }


def test_the_table_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    results = Path(_table.__file__).with_name("RESULTS.md").read_text("utf-8")
    table = results[results.index("| data set | method |") :].partition("\n\n")[0]
    some = ("| data set", "|---", "| car", "| iris")  # drawing all takes seconds
    lines = [line for line in table.splitlines() if line.startswith(some)]
    (tmp_path / "RESULTS.md").write_text("\n".join(lines), encoding="utf-8")
    main(["--draw", str(tmp_path / "RESULTS.md")])
    assert (tmp_path / "accuracy.png").stat().st_size > 20_000


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


def test_the_pipeline_of_the_paper_sits_out_where_there_are_too_many_cells():
    bunch = datasets.load_iris(n_bins=64)
    method = _methods.METHODS["batch training"]
    assert _methods.accuracy(method, bunch, 1.0, _data.split(150, 0)) is None


def test_who_is_absent_is_left_out_in_a_sentence_and_keeps_its_rows(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("MMECH_DATA_DIR", raising=False)
    absent = replace(_methods.METHODS["OpenDP MST"], absent="there is no such thing")
    monkeypatch.setitem(_methods.METHODS, "OpenDP MST", absent)
    path = tmp_path / "trials.csv"
    path.write_text(
        "dataset,method,epsilon,repetition,accuracy,seconds\n"
        "iris,OpenDP MST,1.0,0,0.875,30\n"
    )
    given = ["--datasets", "iris", "--splits", "1", "--epsilon", "1", "--methods"]
    main(["--output", str(tmp_path), *given, "OpenDP MST", "naive Bayes"])
    assert "OpenDP MST is left out: there is no such thing" in capsys.readouterr().out
    assert "| iris | OpenDP MST |  |  | 0.875 |  | 1 | 30 |" in (
        (tmp_path / "accuracy.md").read_text("utf-8")
    )
    assert len(_trials.read(path)) == 2


@pytest.mark.parametrize("label", gains.ABLATIONS)
def test_ablations_run(label):
    bunch = datasets.load_iris()
    method = gains.ABLATIONS[label]
    found = _methods.accuracy(method, bunch, 100.0, _data.split(150, 0))
    assert found is not None
    assert found[0] > 0.5


# ---- ranking and calibration -------------------------------------------------


def test_calibration_errors(rng):
    """Records of equal probability are taken together."""
    shares = rng.random(20_000)
    truth = (rng.random(20_000) < shares).astype(int)
    # Ten groups of 2,000, each with a standard error below .012.
    assert ranking.calibration_error(truth, shares) < 0.03
    assert ranking.calibration_error(truth, np.round(shares)) > 0.2
    truth = np.array([0, 1] * 50)
    halves = np.full(100, 0.5)
    assert ranking.calibration_error(truth, halves) == 0
    assert ranking.calibration_error(np.sort(truth), halves) == 0
    assert ranking.calibration_error(truth, halves + 0.1) == pytest.approx(0.1)


def test_ranking_makes_its_table(tmp_path, monkeypatch):
    monkeypatch.setenv("MMECH_DATA_DIR", "")
    compared = ("private forest", "logistic regression, not private")
    monkeypatch.setattr(ranking, "COMPARED", compared)
    sets = ["--datasets", "tic-tac-toe", "--epsilon", "1", "--output", str(tmp_path)]
    ranking.main([*sets, "--splits", "1"])
    made = (tmp_path / "ranking.md").read_text(encoding="utf-8")
    assert "| tic-tac-toe | private forest |" in made
    assert "| tic-tac-toe | logistic regression, not private |" in made


def test_peers_that_were_measured_elsewhere_have_their_row():
    known = {
        ("heart", "DP-EBM (ε, δ)", 1.0, i): (0.8 + 0.1 * i, 0.2, 0.1) for i in (0, 1)
    }
    assert ranking.table(known).splitlines()[2:] == [
        "| heart | DP-EBM (ε, δ) |  | 0.850 / 0.200 / 0.100 |  |"
    ]


def test_leaves_of_given_trees_have_a_table(tmp_path, capsys):
    main(["--given", "--datasets", "iris", "--splits", "1", "--epsilon", "1",
          "--output", str(tmp_path)])  # fmt: skip
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in head.split("|")[3:-1]] == list(_methods.GIVEN)
    (row,) = (row for row in rows if "| 1 " in row)
    assert all(0 <= float(cell) <= 1 for cell in row.split("|")[3:-1])
