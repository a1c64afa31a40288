"""The benchmark that measures the paper again: bookkeeping, statistics, baselines."""

import math

import numpy as np
import pytest

from benchmarks.reproduction import _published as _rows
from benchmarks.reproduction import _report, _trials
from benchmarks.reproduction._published import best_of_grid, published
from benchmarks.reproduction._settings import (
    FULL,
    GATE,
    PANELS,
    POINTS,
    QUICK,
    Setting,
    Task,
    gate_setting,
)
from mmech_rf.evaluation import load_records

pytestmark = pytest.mark.slow

SMALL = Setting("iris", "batch-training", "hard", 1, 2, template="identity")


@pytest.mark.parametrize("gate", GATE, ids=lambda gate: " ".join(map(str, gate)))
def test_gate_settings_are_run_often_enough_and_published(gate):
    setting, epsilon, target = gate_setting(gate), *gate[-2:]
    assert (setting, epsilon) in POINTS["gate"]
    assert FULL.forests_of(setting) >= QUICK.forests_of(setting) >= 20
    row = published(setting, epsilon)
    # The subsample row is from the appendix' table, not from the result files.
    assert row.mean == pytest.approx(target, abs=0.012)


def test_a_run_is_resumed(tmp_path):
    tasks = [Task(SMALL, forest, (0.5, 2.0), 2) for forest in range(3)]
    path = tmp_path / "trials.csv"
    first = _trials.run_all(tasks[:2], path, jobs=1)
    cut = path.read_text(encoding="utf-8")[:-20]  # within the last task
    path.write_text(cut, encoding="utf-8")
    second = _trials.run_all(tasks, path, jobs=1)
    kept = cut[: cut.rindex("\n")]
    assert path.read_text(encoding="utf-8").startswith(kept)
    before, after = ([f.accuracy for f in r[tasks[0].key]] for r in (first, second))
    assert after == pytest.approx(before, abs=1e-6)
    again = _trials.run_all([], path)
    assert {k: len(rows) for k, rows in again.items()} == {t.key: 4 for t in tasks}


def test_spread_is_split_into_forests_and_noise():
    """Four forests, two draws each, with variances worked out by hand."""
    accuracy = _report.Accuracy(((0.1, 0.3), (0.5, 0.7), (0.2, 0.4), (0.6, 0.8)))
    assert accuracy.mean == pytest.approx(0.45)
    assert accuracy.noise_variance == pytest.approx(0.02)
    between = np.var([0.2, 0.6, 0.3, 0.7], ddof=1)
    assert accuracy.forest_variance == pytest.approx(between - 0.01)
    assert accuracy.squared_error == pytest.approx(between / 4)


def test_a_verdict_that_other_forests_might_change_is_open():
    """Target one standard error of our mean from where the verdict turns."""
    rng = np.random.default_rng(0)
    means = 0.7 + 0.02 * rng.standard_normal(20)
    accuracy = _report.Accuracy(tuple((m - 0.01, m + 0.01) for m in means))
    error = math.sqrt(accuracy.squared_error + accuracy.forest_variance)
    turns = accuracy.mean + 2 * error
    own = math.sqrt(accuracy.squared_error)
    assert _report.verdict(accuracy, turns - own, 0.0) == "open"
    assert _report.verdict(accuracy, turns + own, 0.0) == "open"
    assert _report.verdict(accuracy, turns - 9 * own, 0.0) == "reached"
    assert _report.verdict(accuracy, turns + 9 * own, 0.0) == "**below**"


def test_queries_that_are_training_records():
    setting = Setting("car", "subsample", "weight", 4, 16, queries=50, split="trained")
    X, queries, y, truth = _trials.split_of(setting, 0)
    seen = {(*row, label) for row, label in zip(X.tolist(), y, strict=True)}
    assert len(queries) == 50
    assert {(*row, k) for row, k in zip(queries.tolist(), truth, strict=True)} <= seen


def test_published_figures_have_their_rows():
    """If two files have the same setting, the one with enough noise is compared."""
    for name in ("A1", "A3", "A4"):
        lines = [line for panel in PANELS[name] for line in panel.lines.values()]
        points = [(s, epsilon) for line in lines for _, s, epsilon in line]
        rows = [row for point in points if (row := published(*point))]
        assert len(rows) > 10
        assert all(row.reason is None and 0 < row.mean < 1 for row in rows)
    reasons = {_rows.unexplained(row) for row in _rows.rows()}
    lacking = {f"noise lacks a factor {factor}" for factor in "τ2"}
    assert reasons == {None} | lacking
    mean, _ = best_of_grid("car", "laplace-shared", 1.0)
    assert mean > published(Setting("car", "laplace-shared", "hard", 4, 128), 1.0).mean


PER_QUERY = [("per-query", "weight", 16)]
PER_QUERY += [("per-query-subsample", *own) for own in (("weight", 1), ("hard", 2))]


@pytest.mark.parametrize(("method", "voting", "moved"), PER_QUERY)
def test_noise_of_the_query_by_query_baseline(method, voting, moved):
    """Every one of b queries has ε / b, and a record moves τ trees' votes of each."""
    setting = Setting("iris", method, voting, 1, 16)
    iris = load_records("iris")
    model = _trials.build(setting, iris.schema, 2, 0).fit(iris.X, iris.y)
    model.predict(iris.X[:10])
    (release,) = model.releases_
    assert release.sensitivity == 10 * moved
    assert release.cost == 2
