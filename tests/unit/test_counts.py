"""Counts of occupied cells: exact, and the same however records are cut in parts."""

import pickle
from collections import Counter

import numpy as np
import pytest

import mmech as mm
from mmech.marginals.counts import occupied_cells
from mmech.operators.compose import Merged

SHAPES = [(1,), (2, 3), (5, 1, 7), (2,) * 15, (60,) * 12, (2,) * 130, (3, 2**62, 2)]
SHAPES += [(1, 16, 16, 256, 1, 2), (257, 255), (2**32, 2**31, 2)]


def listed(codes, multiplicities):
    return Counter(dict(zip(map(tuple, codes.tolist()), multiplicities, strict=True)))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{len(shape)} attributes")
@pytest.mark.parametrize("n_records", [0, 1, 2, 300])
def test_every_distinct_row_is_there_as_often_as_it_was(shape, n_records, rng):
    codes = rng.integers(0, shape, (n_records, len(shape)))
    codes = codes[rng.integers(0, n_records, 2 * n_records)] if n_records else codes
    expected = Counter(map(tuple, codes.tolist()))
    rows, numbers = occupied_cells([(codes.T, np.ones(len(codes), np.int64))], shape)
    assert listed(rows, numbers) == expected
    assert rows.tolist() == [list(row) for row in sorted(expected)]
    # Once more, with numbers of its own for every row.
    again = rng.permutation(np.repeat(np.arange(len(rows)), 2))
    weights = rng.integers(1, 2**40, again.size)
    doubled = Counter()
    for row, weight in zip(rows[again].tolist(), weights.tolist(), strict=True):
        doubled[tuple(row)] += weight
    assert listed(*occupied_cells([(rows[again].T, weights)], shape)) == doubled


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64, np.int64])
@pytest.mark.parametrize("shape", [(2, 3), (200,) * 9], ids=["small", "large"])
def test_the_type_of_the_codes_does_not_matter(kind, shape, rng):
    codes = rng.integers(0, shape, (50, len(shape)))
    assert mm.Counts(codes.astype(kind), shape) == mm.Counts(codes, shape)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{len(shape)} attributes")
def test_parts_add_up_to_the_whole_in_any_order(shape, rng):
    codes = rng.integers(0, shape, (90, len(shape)))
    whole = mm.Counts(codes, shape)
    parts = [mm.Counts(part, shape) for part in np.split(codes, [0, 20, 21, 70])]
    assert sum(parts) == sum(parts[::-1]) == whole
    first, second, third, *_ = parts[1:]
    assert (first + second) + third == first + (second + third)


def test_a_part_counts_once():
    one = mm.Counts([[0]], (2,), chunk_id=("a.csv", 0, 100))
    same = mm.Counts([[1]], (2,), chunk_id=("a.csv", 0, 100))
    other = mm.Counts([[0]], (2,), chunk_id=("a.csv", 100, 200))
    both = one + other
    for again in (one, same, both):
        with pytest.raises(ValueError, match=r"chunk_id.*'a.csv'.*twice"):
            both + again
    # Equal contents are other records, unless they have one name.
    assert mm.Counts([[0]], (2,)) + mm.Counts([[0]], (2,)) == mm.Counts(
        [[0], [0]], (2,)
    )


def test_too_many_records_are_refused():
    counts = mm.Counts([[0]], (2,))
    for _ in range(62):
        counts = counts + counts
    with pytest.raises(OverflowError, match=r"2\^62"):
        counts + counts


def test_text_shows_nothing_of_the_records():
    texts = {repr(mm.Counts(np.zeros((n, 2), int), (2, 3))) for n in (0, 1, 1000)}
    assert len(texts) == 1


def test_workers_may_send_them():
    counts = mm.Counts([[0, 1], [1, 2]], (2, 3), chunk_id=3)
    sent = pickle.loads(pickle.dumps(counts))
    assert sent == counts
    with pytest.raises(ValueError, match="3 twice"):
        sent + counts


# ---- measured in place of a table of all cells ------------------------------------

SIZES = (3, 4, 2)
STRATEGIES = {
    "identity": mm.Identity(24),
    "marginals": mm.Marginals(SIZES, {(0, 1): 2, (2,): 1}),
    "kronecker": mm.Kronecker([mm.Prefix(3), mm.Identity(4), mm.Prefix(2)]),
    "partition": mm.Partition(np.arange(24) // 5, 5),
    "merged": Merged(mm.Identity(5), np.arange(24) % 6 - 1),
}


def measured(strategy, counts, **settings):
    with pytest.warns(mm.PrivacyLeakWarning):
        mechanism = mm.MatrixMechanism(
            strategy, strategy, epsilon=1, insecure_rng=4, **settings
        )
    return mechanism.measure(counts).values


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_mechanism_measures_them_as_the_table_of_all_cells(strategy, rng):
    codes = rng.integers(0, SIZES, (500, 3))
    classes = rng.integers(0, 3, 500)
    table = np.zeros((24, 3), np.int64)
    np.add.at(table, (np.ravel_multi_index(codes.T, SIZES), classes), 1)
    with_class = mm.Counts(np.column_stack([codes, classes]), (*SIZES, 3))
    parts = mm.Counts(codes[:200], SIZES) + mm.Counts(codes[200:], SIZES)
    np.testing.assert_array_equal(
        measured(strategy, parts), measured(strategy, table.sum(axis=1))
    )
    np.testing.assert_array_equal(
        measured(strategy, with_class), measured(strategy, table)
    )


def test_large_multiplicities_are_measured_exactly_or_refused():
    doubled = mm.Counts([[0], [1]], (2,))
    for _ in range(60):
        doubled = doubled + doubled
    values = measured(mm.Identity(2), doubled)
    np.testing.assert_array_equal(values, measured(mm.Identity(2), [2**60, 2**60]))
    ledger = mm.PrivacyLedger(1)
    with pytest.raises(ValueError, match="overflow 64-bit integers"):
        measured(mm.Dense([[4, 4]]), doubled, ledger=ledger)
    assert ledger.spent == 1
