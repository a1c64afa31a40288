"""Records in parts: one release of all, the same as of one table of them."""

import copy
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from processes import in_a_fork
from replay import entropy, watched
from rf_cases import CELLS, PER_BATCH, PRIVATE, classifier, records

import mmech_rf as rf
from mmech import PrivacyLeakWarning, PrivacyLedger
from mmech.exceptions import BudgetExceededError
from mmech_rf.estimator.records import RecordParts

CAR = rf.datasets.load_car()
X, Y = np.asarray(CAR.data)[::9], np.asarray(CAR.target)[::9]


def on_random_forest(name, **settings):
    rows, labels = records(60)
    return classifier(name, epsilon=2, **settings), rows, labels, CELLS


def private_forest(**settings):
    model = rf.PrivateForestClassifier(CAR.schema, epsilon=2, **settings)
    return model, X.repeat(2, axis=0), Y.repeat(2), X


def disjoint_forest():
    settings = {"data": "disjoint", "n_trees": 3, "depth": 2, "random_state": 0}
    return rf.LaplaceForestClassifier(CAR.schema, epsilon=2, **settings)


def two_classes(**settings):
    schema = rf.Schema(
        [*CAR.schema.attributes[:2], rf.Attribute.numeric("wear", lower=0, upper=9)],
        [False, True],
    )
    rows = X[:, :3].copy()
    rows[:, 2] = np.arange(len(rows)) % 9
    labels = Y != "unacc"
    model = rf.PrivateForestClassifier(schema, epsilon=2, **settings)
    return model, rows.repeat(2, axis=0), labels.repeat(2), rows


CASES = {name: lambda name=name: on_random_forest(name) for name in PRIVATE}
CASES |= {
    "default": private_forest,
    "disjoint": lambda: (disjoint_forest(), X.repeat(2, axis=0), Y.repeat(2), X),
    "boosted": lambda: private_forest(n_records=40_000),
    "in private bins": lambda: two_classes(private_bins=["wear"]),
    "with an accuracy": lambda: private_forest(estimate_accuracy=True),
}


def seen(model, queries):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        labels = model.predict(np.asarray(queries).astype(str))
    released = [np.asarray(c) for c in vars(model).get("leaf_counts_", [])]
    return labels, model.privacy_statement_, released


@cache
def released_at_once(name):
    model, rows, labels, queries = CASES[name]()
    with entropy(3):
        return seen(model.fit(rows, labels), queries)


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("name", "cuts"),
    [*((name, [1, 20, 20, 47]) for name in CASES), ("batch training", [])],
    ids=str,
)
def test_parts_are_released_as_one_table_is(name, cuts):
    expected = released_at_once(name)
    model, rows, labels, queries = CASES[name]()
    with entropy(3):
        for i, (x, y) in enumerate(
            zip(np.split(rows, cuts), np.split(labels, cuts), strict=True)
        ):
            assert model.count(x, y, chunk_id=i) is model
        found = seen(model.release(), queries)
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]
    for ours, theirs in zip(found[2], expected[2], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", ["default", "disjoint", "batch training"])
def test_nothing_is_spent_before_the_release(name):
    """And nothing by one that the budget is too short for, which leaves the parts."""
    model, rows, labels, _ = CASES[name]()
    short, ledger = PrivacyLedger(1), PrivacyLedger(2)
    model.set_params(ledger=short).count(rows, labels)
    with pytest.raises(BudgetExceededError):
        model.release()
    assert short.spent == ledger.spent == 0
    model.set_params(ledger=ledger).release()
    assert ledger.spent == 2
    # Parts are released once.
    with pytest.raises(ValueError, match=r"count\(\) some first"):
        model.release()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["default", "disjoint"])
def test_what_cannot_be_counted_changes_nothing(name):
    model, rows, labels, queries = CASES[name]()
    model.count(rows[:30], labels[:30], chunk_id="a")
    wrong = rows[30:].copy()
    wrong[2, 3] = "no such value"
    for X, y, chunk_id, kind, message in (
        (wrong, labels[30:], "b", ValueError, "row 2, column 'persons'"),
        (rows[30:], labels[31:], "b", ValueError, "one label per row"),
        (rows[30:], None, "b", ValueError, "requires y"),
        (rows[30:], labels[30:], "a", ValueError, "'a' twice"),
        (rows[30:], labels[30:], ["b"], TypeError, "must be hashable, .* got list"),
    ):
        with pytest.raises(kind, match=message):
            model.count(X, y, chunk_id=chunk_id)
    with pytest.raises(TypeError, match=r"chunk_ids must be the names .* got int"):
        model.release(chunk_ids=2)
    with entropy(1):
        found = seen(
            model.count(rows[30:], labels[30:], chunk_id="b").release(), queries
        )
    with entropy(1):
        expected = seen(CASES[name]()[0].fit(rows, labels), queries)
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("name", ["default", "disjoint"])
def test_parts_that_two_threads_count_at_once_count_once(name, begun, monkeypatch):
    """Each of them, also where they are the first; one of the same name does not."""
    model = CASES[name]()[0]
    if begun:
        model.count(X[:9], Y[:9], chunk_id="before")
    both_checked, check = threading.Barrier(2), RecordParts.check

    def slow_check(parts, *given):
        check(parts, *given)
        with suppress(threading.BrokenBarrierError):
            both_checked.wait(0.3)

    monkeypatch.setattr(RecordParts, "check", slow_check)

    def counted(chunk_id):
        try:
            model.count(X, Y, chunk_id=chunk_id)
        except ValueError as error:
            return str(error)
        finally:
            both_checked.abort()

    with ThreadPoolExecutor(2) as pool:
        said = sorted(map(str, pool.map(counted, "aa")))
        assert said[0] == "None"
        assert said[1].startswith("chunk_id must name other records")
        assert model._parts.number == len(X) + 9 * begun
        model = model if begun else CASES[name]()[0]
        both_checked.reset()
        assert list(pool.map(counted, "bc")) == [None, None]
        assert model._parts.number == len(X) * (3 if begun else 2) + 9 * begun


def test_rows_that_were_counted_are_those_that_overlap(rng):
    """Whatever the order and the lengths, also of parts without rows."""
    model, rows, labels, _ = CASES["default"]()
    counted = []
    for first, length in rng.integers(0, [60, 6], (300, 2)).tolist():
        stop = first + length
        if any(a < stop and first < b for a, b in counted) or (first, stop) in counted:
            with pytest.raises(ValueError, match=r"chunk_id must name other"):
                model.count(rows[:0], labels[:0], chunk_id=("a.csv", first, stop))
        else:
            model.count(rows[:0], labels[:0], chunk_id=("a.csv", first, stop))
            counted.append((first, stop))
    assert len(counted) > 20


def test_a_part_that_was_lost_is_missed():
    model, rows, labels, _ = CASES["default"]()
    ledger = PrivacyLedger(2)
    model.set_params(ledger=ledger).count(rows[:30], labels[:30], chunk_id="a")
    for names, message in [
        (["a", "b"], "1 that were not counted, such as 'b'"),
        ([], "1 that were counted and are not among them, such as 'a'"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.release(chunk_ids=names)
    assert ledger.spent == 0
    model.count(rows[30:], labels[30:], chunk_id="b")
    assert model.release(chunk_ids=["b", "a"]).predict(rows[:1]).shape == (1,)


def test_parts_agree_on_a_schema():
    model, rows, labels, _ = CASES["default"]()
    model.count(rows, labels)
    other = rf.Schema(CAR.schema.attributes, [*CAR.schema.class_labels, "none"])
    model.set_params(schema=other)
    for method in (lambda: model.count(rows, labels), model.release):
        with pytest.raises(ValueError, match="schema must be the one"):
            method()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", ["default", *PER_BATCH])
def test_counted_records_stay_where_they_are(name, tmp_path):
    model, rows, labels, _ = CASES[name]()
    model.count(rows, labels)
    assert "holds sensitive counts" in repr(model)
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"release\(\) them first"):
            leave(model)
    with pytest.raises(ValueError, match="fit would leave out"):
        model.fit(rows, labels)
    model.release()
    if name not in PER_BATCH:
        assert "holds sensitive counts" not in repr(model)
        model.count(rows, labels)
        with pytest.raises(TypeError, match=r"release\(\) them first"):
            model.save(tmp_path / "model")


def test_another_process_refuses():
    model, rows, labels, _ = CASES["default"]()
    model.count(rows, labels)

    def refusal(method, *given):
        with pytest.raises(BudgetExceededError) as caught:
            method(*given)
        return str(caught.value)

    for given in ((model.count, rows, labels), (model.release,)):
        assert "process that made it" in in_a_fork(partial(refusal, *given))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["default", "boosted"])
def test_trees_are_drawn_from_distinct_records(name):
    """However often each is there."""
    model, rows, labels, _ = CASES[name]()
    sizes = []

    def note(draw, sample):
        if draw.kind == "tree":
            sizes.append(draw.exact["class_codes"].size)
            assert draw.exact["multiplicities"].sum() == len(labels)
        return sample()

    distinct = len({(*row, label) for row, label in zip(rows, labels, strict=True)})
    assert distinct < len(labels)
    with watched(note):
        model.fit(rows, labels)
        model.count(rows[:90], labels[:90]).count(rows[90:], labels[90:]).release()
    assert set(sizes) == {distinct}


@pytest.mark.by_day(2)
@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame])
@pytest.mark.parametrize("name", ["default", "disjoint"])
def test_long_tables_are_counted_a_block_at_a_time(name, table):
    """To the same release; and of a wrong record none is counted."""
    expected = released_at_once(name)
    model, rows, labels, queries = CASES[name]()
    if table is pd.DataFrame:
        rows = pd.DataFrame(rows, columns=model.schema.feature_names)
        labels = pd.Series(labels, index=rows.index[::-1])
    sizes = []

    class Noting(rf.Schema):
        def encode(self, X, *args, **kwargs):
            sizes.append(len(X))
            return super().encode(X, *args, **kwargs)

    own = {one.name: getattr(model.schema, one.name) for one in fields(rf.Schema)}
    model.set_params(schema=Noting(**own))
    with rf.limits.changed(counted_records=16), entropy(3):
        found = seen(model.fit(rows, labels), queries)
    assert max(sizes[: -(-len(rows) // 16)]) == 16
    np.testing.assert_array_equal(found[0], expected[0])
    wrong = rows.copy()
    (wrong.iloc if table is pd.DataFrame else wrong)[40, 3] = "no such value"
    with pytest.raises(ValueError, match="row 140, column 'persons'"):
        model.count(wrong, labels, chunk_id=("a.csv", 100, 100 + len(rows)))
    assert not model._holds_parts()
