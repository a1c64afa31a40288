"""Records that Dask holds: counted by workers, released as one fit of all of them."""

import os
import signal
from functools import cache

import joblib
import numpy as np
import pytest
from replay import entropy
from sklearn.base import clone

import mmech_rf as rf
from benchmarks.accuracy import _methods, _trials
from mmech import PrivacyLedger, count

dask = pytest.importorskip("dask")
CAR = rf.datasets.load_car()
EVERY = np.arange(len(CAR.target))


def frame():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(CAR.data, columns=CAR.schema.feature_names)
    return table.assign(**{CAR.schema.target: CAR.target, "other": 0.5})


def as_frames(n_parts):
    dd = pytest.importorskip("dask.dataframe")
    lazy = dd.from_pandas(frame(), npartitions=n_parts, sort=False)
    return lazy, lazy[CAR.schema.target]


def as_arrays(n_parts):
    da = pytest.importorskip("dask.array")
    rows = -(-len(EVERY) // n_parts)
    return (
        da.from_array(CAR.data, chunks=(rows, 2)),
        da.from_array(CAR.target, chunks=rows // 2),
    )


def as_parts(n_parts):
    load = dask.delayed(lambda rows: (CAR.data[rows], CAR.target[rows]), nout=2)
    parts = map(load, np.array_split(EVERY, n_parts))
    X, y = zip(*parts, strict=True)
    return list(X), list(y)


SOURCES = pytest.mark.parametrize("source", [as_frames, as_arrays, as_parts])
MODELS = {
    "private": rf.PrivateForestClassifier(CAR.schema, epsilon=2, n_records=1728),
    "training": rf.BatchTrainingClassifier(
        CAR.schema, epsilon=2, n_trees=8, depth=2, template="identity", random_state=0
    ),
}


def released(model, X, y):
    with entropy(3), dask.config.set(scheduler="threads", num_workers=2):
        model.fit(X, y)
    return model.predict(CAR.data).tolist(), model.releases_


@cache
def released_at_once(name):
    return released(MODELS[name], CAR.data, CAR.target)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("source", "n_parts"),
    [(as_frames, 11), (as_arrays, 11), (as_parts, 11), (as_parts, 1)],
)
def test_the_release_is_that_of_all_records_at_once(source, n_parts):
    for name, model in MODELS.items():
        assert released(model, *source(n_parts)) == released_at_once(name)


def as_one_folder(folder):
    """Files of all records: two of csv, one of Parquet."""
    parts = [frame().iloc[rows] for rows in np.array_split(EVERY, 3)]
    for i, part in enumerate(parts[:2]):
        part.to_csv(folder / f"{i}.csv", index=False)
    parts[2].to_parquet(folder / "2.parquet")
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_files_chunks_and_counts_are_fitted_as_all_records_at_once(name, tmp_path):
    folder, expected = as_one_folder(tmp_path), released_at_once(name)
    pairs = ((CAR.data[i::2], CAR.target[i::2]) for i in range(2))
    given = count(CAR.data, CAR.schema, CAR.target)
    for source in (sorted(folder.iterdir()), pairs, given):
        assert released(MODELS[name], source, None) == expected
    model = clone(MODELS[name])
    model.count(folder)
    with pytest.raises(ValueError, match="twice"):
        model.count(folder / "1.csv")
    with entropy(3):
        model.release()
    assert (model.predict(CAR.data).tolist(), model.releases_) == expected


def test_sources_that_do_not_fit_are_refused(tmp_path):
    ledger = PrivacyLedger(1)
    model = rf.PrivateForestClassifier(CAR.schema, epsilon=1, ledger=ledger)
    folder = as_one_folder(tmp_path)
    with open(folder / "1.csv", "a", encoding="utf-8") as stream:
        stream.write("SECRET\n")
    few = count(CAR.data, CAR.schema)
    for source, message in [
        (folder, r"1.csv.*line 578 of the file has 1 field "),
        (few, "7 attributes of the schema, the class last, got Counts.6"),
        (CAR.data, "requires y to be passed"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(source)
    for source in (folder, few):
        with pytest.raises(ValueError, match="schema must be given"):
            rf.PrivateForestClassifier(epsilon=1).fit(source)
    assert ledger.spent == 0


@cache
def released_twice():
    twice = np.repeat(CAR.data, 2, axis=0), np.repeat(CAR.target, 2)
    return released(clone(MODELS["private"]), *twice)


@pytest.mark.by_day(1)
@SOURCES
def test_parts_of_a_fit_may_be_lazy(source):
    model, expected = MODELS["private"], released_twice()
    model.count(CAR.data, CAR.target, chunk_id="first")
    model.count(*source(3), chunk_id="second")
    with pytest.raises(ValueError, match="twice"):
        model.count(*source(4), chunk_id="second")
    with entropy(3):
        model.release()
    assert (model.predict(CAR.data).tolist(), model.releases_) == expected


@SOURCES
def test_lazy_records_count_as_those_in_memory(source):
    X, y = source(3)
    assert count(X, CAR.schema, y) == count(CAR.data, CAR.schema, CAR.target)


@SOURCES
def test_records_are_assigned_to_trees_after_the_sum(source):
    """Every record trains one tree, also where equal ones arrive as one count."""
    model = rf.SubsampleAggregateClassifier(CAR.schema, epsilon=1, n_trees=4, depth=2)
    model.fit(*source(5))
    (counts,) = model._counts
    assert counts.sum() == len(EVERY)


SCHEMA = rf.Schema([rf.Attribute.categorical("a", ["x", "y"])], ["0", "1"])


def test_what_does_not_fit_is_named_and_not_logged(caplog):
    distributed = pytest.importorskip("distributed")
    ledger = PrivacyLedger(1)
    model = rf.PrivateForestClassifier(SCHEMA, epsilon=1, ledger=ledger)
    X = [dask.delayed([["x"], [value]]) for value in ("y", "secret", "x")]
    y = [dask.delayed(labels) for labels in (["0", "1"], ["1", "0"], ["1", "1"])]
    with (
        distributed.Client(processes=False, n_workers=2, dashboard_address=":0"),
        pytest.raises(ValueError, match="partition 1: row 1, column 'a'") as caught,
    ):
        model.fit(X, y)
    assert "row 1, column" in caplog.text
    assert "secret" not in str(caught.value) + caplog.text
    assert ledger.spent == 0
    assert not hasattr(model, "classes_")


def test_partitions_that_do_not_match_are_refused():
    model = rf.PrivateForestClassifier(SCHEMA, epsilon=1)
    X, y = ([dask.delayed([[text]]) for text in texts] for texts in ("xy", "010"))
    for records, labels, error, message in [
        (X, y, ValueError, "X has 2 partitions but y has 3"),
        ([X[0]] * 2, y[:2], ValueError, "X has a delayed part twice"),
        (X, ["0", "1"], TypeError, "y must be lazy"),
        ([["x"]], y[:1], TypeError, "X must be lazy"),
    ]:
        with pytest.raises(error, match=message):
            model.fit(records, labels)
    with pytest.raises(ValueError, match="schema must be given"):
        rf.PrivateForestClassifier(epsilon=1).fit(X, y[:2])
    labels = dask.delayed(["0"])  # one part needs no list
    assert count(X[0], SCHEMA, labels) == count([["x"]], SCHEMA, ["0"])


@pytest.mark.slow
def test_a_worker_that_is_killed_counts_nothing_twice(tmp_path):
    """One of two workers dies, by its own process id, with what it has counted."""
    distributed = pytest.importorskip("distributed")
    data, target = CAR.data, CAR.target

    def load(number, rows):
        with open(tmp_path / "log", "a") as log:
            log.write(f"{number} {os.getpid()}\n")
        if number == 7 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return data[rows], target[rows]

    expected = released(MODELS["private"], data, target)
    model = MODELS["private"]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
        entropy(3),
    ):
        pids = [cluster.workers[i].pid for i in cluster.workers]
        parts = [
            dask.delayed(load, nout=2)(number, rows)
            for number, rows in enumerate(np.array_split(EVERY, 12))
        ]
        model.fit([X for X, _ in parts], [y for _, y in parts])
    assert (model.predict(data).tolist(), model.releases_) == expected
    killed = int((tmp_path / "killed").read_text())
    assert killed in pids
    assert os.getpid() not in pids
    lines = (tmp_path / "log").read_text().splitlines()
    ran = [tuple(map(int, line.split())) for line in lines]
    assert {number for number, _ in ran} == set(range(12))
    assert next(pid for number, pid in ran if number == 7) == killed
    assert len(ran) > 12


# ---- work on public things, through joblib -------------------------------------------


@pytest.fixture(params=["threads", pytest.param("processes", marks=pytest.mark.slow)])
def workers(request):
    """Whether two workers, that there are now, are threads or processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(
        n_workers=2,
        threads_per_worker=1,
        processes=request.param == "processes",
        dashboard_address=":0",
    ):
        yield request.param


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["processes"], indirect=True)
def test_what_spends_a_budget_does_not_leave_the_process(workers):
    ledger = PrivacyLedger(2)
    shared = rf.BatchTrainingClassifier(CAR.schema, epsilon=1, depth=2, ledger=ledger)
    counted = rf.BatchTrainingClassifier(CAR.schema, epsilon=1, depth=2)
    counted.count(CAR.data, CAR.target)
    client = pytest.importorskip("distributed").get_client()
    for task in (shared.fit, counted.release):
        with pytest.raises(TypeError, match=r"cannot be pickled|Could not serialize"):
            client.submit(task).result()
    assert ledger.spent == 0


@pytest.mark.slow
def test_fits_of_the_accuracy_benchmark_are_shared_out(workers, tmp_path, monkeypatch):
    monkeypatch.delenv("MMECH_DATA_DIR", raising=False)
    known = _trials.read(tmp_path / "trials.csv")
    methods = {name: _methods.METHODS[name] for name in ("naive Bayes",)}
    with joblib.parallel_config(backend="dask"):
        _trials.run(known, ["iris"], methods, 2, [1.0])
    assert _trials.read(tmp_path / "trials.csv") == known
    assert len(known) == 2
