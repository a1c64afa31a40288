"""Size limits: documented, changed within a block, and heeded."""

from dataclasses import fields
from threading import Thread

import numpy as np
import pytest

import mmech_rf.limits
from mmech import (
    AllRange,
    Circulant,
    Counts,
    Dense,
    DomainTooLargeError,
    Marginal,
    limits,
    loss,
)
from mmech.marginals.records import OccupiedCells, exact_answers
from mmech_rf import grow_random_forest

TABLES = pytest.mark.parametrize("table", [limits, mmech_rf.limits])


@TABLES
def test_every_limit_is_documented_and_its_own_within_a_block(table):
    found = table.LIMITS
    for own in fields(found):
        name, before = own.name, getattr(found, own.name)
        assert name in type(found).__doc__
        with table.changed(**{name: before + 1}):
            assert getattr(found, name) == before + 1
            with table.changed(**{name: 1}):
                assert getattr(found, name) == 1
            assert getattr(found, name) == before + 1
        assert getattr(found, name) == before == own.default


@TABLES
def test_limits_are_restored_after_an_error_and_hold_in_threads(table):
    name = fields(table.LIMITS)[0].name
    seen, before = [], getattr(table.LIMITS, name)

    def fail_within():
        with table.changed(**{name: 7}):
            thread = Thread(target=lambda: seen.append(getattr(table.LIMITS, name)))
            thread.start()
            thread.join()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_within()
    assert seen == [7]
    for wrong in ({"no_limit": 1}, {"changed": 1}, {name: 2.5}, {name: -1}):
        with pytest.raises((TypeError, ValueError)), table.changed(**{name: 3} | wrong):
            pass
    assert getattr(table.LIMITS, name) == before


def test_limits_are_heeded():
    counts = Counts(np.zeros((5, 2), np.int64), (10, 10))
    records = OccupiedCells.of(counts, 100)
    with (
        limits.changed(table_entries=99),
        pytest.raises(DomainTooLargeError, match="at most 99"),
    ):
        exact_answers(Marginal((10, 10), (0, 1)), records)
    with mmech_rf.limits.changed(forest_nodes=3), pytest.raises(DomainTooLargeError):
        grow_random_forest((3, 3), 4, depth=2, seed=0)


@pytest.mark.parametrize("workload", [Dense(np.eye(39)), AllRange(39)])
def test_a_loss_without_a_closed_form_is_refused_before_any_work(workload, monkeypatch):
    strategy = Circulant(np.arange(39.0, 0, -1))
    wanted = loss(workload, strategy)
    with limits.changed(dense_cells=38, reported_entries=40 * 39):
        assert loss(workload, strategy) == pytest.approx(wanted)
    monkeypatch.setattr(Circulant, "_rmatmat", None)
    words = r"visit .* entries.*limit 1520\); take a strategy that .* 38 cells, or"
    with (
        limits.changed(dense_cells=38, reported_entries=1520),
        pytest.raises(DomainTooLargeError, match=words),
    ):
        loss(workload, strategy)
