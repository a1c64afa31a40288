"""Scores of all attributes: what is released, and what follows from it."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from rf_cases import SHAPE, paying, some_scores
from scipy.optimize import brentq

import mmech_rf.drawn.scores as additive
from mmech.noise import norm_noise_variance
from mmech_rf.drawn.draw import _roots
from mmech_rf.drawn.scores import (
    SUMS,
    VOTE_STEPS,
    AdditiveScores,
    release_scores,
    score_views,
    sums_from_coarse_to_fine,
)
from mmech_rf.drawn.views import (
    GRID,
    LARGEST_SCORE,
    MOST_CELLS,
    Views,
    positions,
    public_views,
)

DOMAINS = [(2,), (5,), (1, 4), (3, 2, 2), (9, 3), (2, 2, 2, 2), (30, 2), (1, 1)]
by_domain = pytest.mark.parametrize("domain_shape", DOMAINS, ids=str)
MUCH = Fraction(10**6)


def draw_records(domain_shape, n_records, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, domain_shape, (n_records, len(domain_shape)))
    return codes, rng.integers(0, n_classes, n_records)


def released(sums, codes, classes, k, *, cost=MUCH, rng=None):
    return paying(cost, rng).add_noise_to_groups(
        sums.of(codes, classes, k), sums.groups, cost, SUMS, GRID
    )


# -------------------------------------------------------------------- what is released
def one_by_one(sums, codes, classes, k):
    """Add up what every record adds to every row, one after the other."""
    rows = sum(sums.sizes)
    out = [[0] * k for _ in range(rows)]
    for record, c in zip(codes.tolist(), classes.tolist(), strict=True):
        out[0][c] += GRID
        start = 1
        for term in sums.terms:
            cell, size = 0, 1
            view = term.view
            for attribute, table in zip(view.attributes, view.tables, strict=True):
                groups = len(set(table))
                group = sorted(set(table)).index(table[record[attribute]])
                cell, size = cell * groups + group, size * groups
            assert size == term.view.size
            if term.by_position:
                place = cell / (size - 1)
                place = math.sqrt(place) if size >= 16 else place
                out[start][c] += round(GRID * (2 * place - 1))
                start += 1
            else:
                out[start + cell][c] += GRID
                start += size
    assert start == rows or not len(classes)
    return np.array(out)


@by_domain
def test_sums_are_those_of_brute_force(domain_shape):
    codes, classes = draw_records(domain_shape, 60, 3)
    for sums in sums_from_coarse_to_fine(domain_shape):
        found = sums.of(codes, classes, 3)
        assert found.dtype == np.int64
        assert found.shape == (sum(sums.sizes), 3)
        expected = one_by_one(sums, codes, classes, 3)
        np.testing.assert_array_equal(found, expected)
        assert not sums.of(codes[:0], classes[:0], 3).any()


@by_domain
def test_every_record_is_bounded_in_every_group(domain_shape):
    """Exhaustive: all cells, classes and levels; in one column, by one unit at most."""
    for sums in sums_from_coarse_to_fine(domain_shape):
        starts = np.cumsum([0, *sums.sizes[:-1]])
        largest = np.zeros(len(sums.sizes), np.int64)
        for cell in np.ndindex(domain_shape):
            for c in range(2):
                row = sums.of(np.array([cell]), np.array([c]), 2)
                assert not row[:, 1 - c].any()
                sizes = np.add.reduceat(np.abs(row[:, c]), starts)
                assert sizes.max() <= GRID
                largest = np.maximum(largest, sizes)
                totals = np.add.reduceat(row[:, c], starts)
                for block in sums.groups:  # noise does not hide what it takes for equal
                    own, totals = np.split(totals, [np.size(block)])
                    assert np.ptp(own) == 0
        np.testing.assert_array_equal(largest, GRID)  # and not by less than is paid for


def test_levels_are_finer_and_finer():
    levels = sums_from_coarse_to_fine((2, 7, 30, 1, 100))
    assert len(set(levels)) == len(levels) > 2
    assert [term.by_position for term in levels[0].terms] == [True] * 4
    sizes = [sum(level.sizes) for level in levels]
    assert sizes == sorted(sizes)
    for level in levels:
        looked_at = [i for term in level.terms for i in term.view.attributes]
        assert sorted(looked_at) == [0, 1, 2, 4]  # each once; one cell tells nothing
        # With two cells the position holds the same facts as counts.
        assert all(term.view.size > 2 for term in level.terms if not term.by_position)
    pairs = [term.view.attributes for term in levels[-1].terms]
    assert pairs == [(0, 1), (2, 4)]
    assert len(sums_from_coarse_to_fine((2,))) == 1


@pytest.mark.parametrize("size", [2, 5, 15, 16, 31, 64, 1000])
def test_groups_are_of_neighbours_and_those_of_numbers_finer_near_the_lower_end(size):
    for level in sums_from_coarse_to_fine((size,)):
        (term,) = level.terms
        (table,) = term.view.tables
        assert list(table) == sorted(table)
        assert set(table) == set(range(term.view.size))
        cells = np.bincount(table)
        if term.view.size < min(size, 64) / 2 and size >= 16:
            edges = (np.cumsum(cells)[:-1] / size) ** 0.5  # even on the root scale
            assert np.abs(np.diff(edges) * term.view.size - 1).max() < 0.5
            assert cells[0] < cells[-1] / 2
        else:
            assert np.ptp(cells) <= 1


def test_the_level_follows_public_numbers(drawn):
    """Finer with less noise or more records, the same for any records."""
    domain_shape, k = (3, 20, 4), 2
    levels = sums_from_coarse_to_fine(domain_shape)
    sizes = [sum(level.sizes) * k for level in levels]
    assert len(set(sizes)) == len(sizes)

    def level(cost, n_records, size=3):
        paid = paying(cost)
        codes, classes = draw_records(domain_shape, size, k, size)
        settings = {"n_classes": k, "n_records": n_records}
        release_scores(paid, cost, domain_shape, codes, classes, **settings)
        sums = [draw.exact for draw in drawn if "parameters" in draw.public]
        return sizes.index(sums[-1].size)

    for cost in (Fraction(1, 100), Fraction(1), Fraction(100)):
        found = [level(cost, 10**power) for power in np.arange(0, 8, 0.5)]
        assert found == sorted(found)
        assert found[-1] == len(levels) - 1
        if cost < 1:
            assert found[0] == 0
    found = [level(Fraction(10) ** power, 500) for power in range(-5, 6)]
    assert found == sorted(found)
    assert len({level(Fraction(1), 500, size) for size in (0, 1, 200)}) == 1


@pytest.mark.parametrize("n_records", [100, 10_000])
def test_many_sums_of_few_records_are_left_whatever_the_budget(
    n_records, drawn, monkeypatch
):
    """Chance in the records does not go away with more epsilon."""
    domain_shape, k = (8,) * 6, 2
    codes, classes = draw_records(domain_shape, 50, k)
    needed = additive.RECORDS_PER_SUM
    for least in (0, needed):
        monkeypatch.setattr(additive, "RECORDS_PER_SUM", least)
        paid = paying(Fraction(1000))
        release_scores(
            paid, Fraction(1000), domain_shape, codes, classes,
            n_classes=k, n_records=n_records,
        )  # fmt: skip
    rows = [len(draw.exact) for draw in drawn if "parameters" in draw.public]
    most = max(sum(one.sizes) for one in sums_from_coarse_to_fine(domain_shape))
    few = n_records < k * needed * most
    assert rows[0] == most
    assert (rows[1] < most) == few
    assert rows[1] == 7 or n_records >= k * needed * rows[1]


def test_what_noise_is_expected():
    """Groups of a single row have about the noise of the release."""
    paid = paying(MUCH)
    for groups in ([1], [1] * 10, [1] * 50):
        sums = np.zeros((len(groups), 2), np.int64)
        cost = Fraction(1, 2)
        released = paid.add_noise_to_groups(sums, groups, cost, "sums", GRID)
        found = np.sqrt(released.variance) / GRID
        np.testing.assert_allclose(found, paid.deviation(groups, cost), rtol=0.02)
    # With groups of many rows: at least the noise of the first, a group of one.
    groups, cost = [1, 4, 16], Fraction(1, 2)
    rows = norm_noise_variance(GRID / cost, groups)
    assert paid.deviation(groups, cost) >= 0.98 * math.sqrt(rows.max()) / GRID


# --------------------------------------------------------------------- what is learned


def most_even(t, mean):
    """Return the distribution of largest entropy on t with a mean."""

    def of(theta):
        weights = np.exp(theta * t)
        return weights / weights.sum()

    return of(brentq(lambda theta: of(theta) @ t - mean, -40, 40))


def naive_bayes(sums, codes, classes, k, queries):
    """Return log-odds from exact tables, of which positions only keep the means."""
    shares = np.bincount(classes, minlength=k) / classes.size
    out = np.tile(np.log(shares), (len(queries), 1))
    for term in sums.terms:
        cells, asked = term.view.cells(codes), term.view.cells(queries)
        size, t = term.view.size, positions(term.view.size) / GRID
        parts = [cells == cells, *(classes == c for c in range(k))]
        tables = [
            most_even(t, t[cells[part]].mean())
            if term.by_position
            else np.bincount(cells[part], minlength=size) / part.sum()
            for part in parts
        ]
        for c in range(k):
            out[:, c] += np.log(tables[1 + c] / tables[0])[asked]
    return out


@pytest.mark.parametrize("level", range(5))
@pytest.mark.parametrize("k", [2, 3])
def test_with_a_huge_budget_scores_are_naive_bayes(k, level):
    """And of sums of positions those of the distributions of largest entropy."""
    domain_shape, n = (2, 5, 12), 100_000
    levels = sums_from_coarse_to_fine(domain_shape)
    assert len(levels) == 5
    sums = levels[level]
    codes, classes = draw_records(domain_shape, n, k)
    moved = np.random.default_rng(1).random(n) < 0.4
    codes[moved, 1] = np.minimum(codes[moved, 1], 4 - classes[moved])
    codes[moved, 2] = (codes[moved, 2] + 3 * classes[moved]) % 12
    codes[:, 0] = np.where(moved, classes > 0, codes[:, 0])
    queries = np.array(list(np.ndindex(domain_shape)))
    scores = additive._scores(sums, released(sums, codes, classes, k))
    expected = naive_bayes(sums, codes, classes, k, queries)
    assert np.ptp(expected, axis=0).max() > 0.5  # there is something to see
    np.testing.assert_allclose(scores.whole(queries) / VOTE_STEPS, expected, atol=0.02)
    best = np.sort(expected, axis=1)
    clear = best[:, -1] - best[:, -2] > 0.05
    best = expected[clear].argmax(axis=1)
    np.testing.assert_array_equal(scores.classes(queries)[clear], best)


def keep_all(rows):
    return np.ones(len(rows))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("level", [0, 1])
def test_attributes_of_noise_are_shrunk_beside_those_of_signal(level, rng, monkeypatch):
    domain_shape, n, runs = (4,) * 8, 4000, 40
    sums = sums_from_coarse_to_fine(domain_shape)[level]
    codes, classes = draw_records(domain_shape, n, 2)
    codes[:, 0] = np.where(rng.random(n) < 0.5, 3 * classes, codes[:, 0])
    noise = []
    for _ in range(runs):
        values = released(sums, codes, classes, 2, cost=Fraction(1, 2), rng=rng)
        with monkeypatch.context() as patched:
            patched.setattr(additive, "_kept", keep_all)
            every = additive._scores(sums, values)
        kept = additive._scores(sums, values)
        signal, *others = [
            np.ptp(found, axis=0).sum() / max(np.ptp(all_of_it, axis=0).sum(), 1)
            for found, all_of_it in zip(kept.tables, every.tables, strict=True)
        ]
        assert signal > 0.8
        noise.append(np.mean(others))
    # Six standard errors of the mean: a false alarm in 10^9.
    assert np.mean(noise) + 6 * np.std(noise) / np.sqrt(runs) < 0.6


def test_counts_and_their_noise_add_up_to_the_numbers_of_records(rng):
    """Positions, and cells of two, stand for themselves."""
    codes, classes = draw_records((2, 5, 12), 50, 3)
    for sums in sums_from_coarse_to_fine((2, 5, 12)):
        values = released(sums, codes, classes, 3, cost=Fraction(1, 2), rng=rng).values
        assert (values != sums.of(codes, classes, 3)).any()
        number, *terms = np.split(values, np.cumsum(sums.sizes)[:-1])
        for term, rows in zip(sums.terms, terms, strict=True):
            together = (rows.sum(axis=0) == number[0]).all()
            assert together == (not term.by_position)


@pytest.mark.parametrize("level", [0, 1])
def test_deviations_are_seen_in_units_of_their_noise(level, rng):
    """If classes differ by noise only, deviations have a mean square of one."""
    domain_shape, k = (4,) * 20, 400
    sums = sums_from_coarse_to_fine(domain_shape)[level]
    one = sums.of(np.repeat(np.arange(4)[:, None], 20, axis=1), np.zeros(4, int), 1)
    if level == 0:
        one[1::2] += one[0] // 2  # positions that are not in the middle
    cost = Fraction(1, 2)
    paid = paying(cost, rng)
    values = np.tile(1000 * one, k)
    measured = paid.add_noise_to_groups(values, sums.groups, cost, SUMS, GRID)
    _, rows = additive._rows(sums, measured)
    found = np.concatenate([row.standardised.ravel() for row in rows])
    assert found.size >= 20 * k
    assert np.square(found).mean() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("level", range(5))
def test_scores_are_whole_numbers_whatever_the_order(level):
    domain_shape = (2, 5, 12)
    codes, classes = draw_records(domain_shape, 300, 3)
    sums = sums_from_coarse_to_fine(domain_shape)[level]
    order = np.random.default_rng(2).permutation(300)
    values = sums.of(codes, classes, 3)
    np.testing.assert_array_equal(values, sums.of(codes[order], classes[order], 3))
    scores = additive._scores(sums, released(sums, codes, classes, 3))
    whole = scores.whole(codes)
    kinds = {scores.constant.dtype, whole.dtype, *(t.dtype for t in scores.tables)}
    assert kinds == {np.dtype(np.int64)}
    np.testing.assert_array_equal(scores.whole(codes[order]), whole[order])
    alone = np.concatenate([scores.whole(code[None]) for code in codes])
    np.testing.assert_array_equal(alone, whole)
    for code, row in zip(codes[:20], whole, strict=False):
        by_hand = scores.constant.copy()
        for view, table in zip(scores.views, scores.tables, strict=True):
            by_hand = by_hand + table[view.cells(code[None])[0]]
        np.testing.assert_array_equal(row, by_hand)
    np.testing.assert_array_equal(scores.classes(codes), whole.argmax(axis=1))
    assert scores.whole(codes[:0]).shape == (0, 3)


def check_fits_into_files(view):
    """Readers refuse larger numbers."""
    largest = max(abs(number) for table in view.tables for number in table)
    assert largest <= LARGEST_SCORE
    cuts = max(abs(cut) for cut in view.cuts)
    assert cuts <= LARGEST_SCORE * len(view.parts)


ODD = {
    "one cell": ((1,), 2, 50),
    "some of one cell": ((1, 4, 1), 3, 50),
    "no records": ((3, 2), 2, 0),
    "ten classes": ((5, 12, 2), 10, 400),
    "many cells": ((1000,), 2, 400),
    "one attribute": ((6,), 2, 100),
    "many attributes": ((2,) * 150, 2, 100),
}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("cost", [Fraction(1, 1000), Fraction(1), MUCH])
@pytest.mark.parametrize("case", ODD)
def test_odd_domains(case, cost):
    domain_shape, k, n = ODD[case]
    codes, classes = draw_records(domain_shape, n, k)
    classes[classes == 1] = 0  # one class is missing
    paid = paying(cost)
    scores = release_scores(
        paid, cost, domain_shape, codes, classes, n_classes=k, n_records=max(n, 1)
    )
    tables = np.concatenate([scores.constant[None], *scores.tables])
    assert tables.shape == (1 + sum(view.size for view in scores.views), k)
    assert scores.whole(codes).shape == (n, k)
    if cost == MUCH and n:
        assert 1 not in scores.classes(codes)
    most = max(additive.SCORE_PIECES)
    for view in score_views(scores):
        check_fits_into_files(view)
        assert view.cells(codes).max(initial=0) < view.size <= most


@pytest.mark.parametrize("k", [10, 100])
def test_scores_of_classes_that_lie_apart_fit_into_files(k):
    """One class at one end of all attributes, the others at the other one."""
    domain_shape = (MOST_CELLS,) * 3
    classes = np.repeat(np.arange(k), 1000)
    codes = np.repeat(((classes > 0) * (MOST_CELLS - 1))[:, None], 3, axis=1)
    for sums in sums_from_coarse_to_fine(domain_shape):
        scores = additive._scores(sums, released(sums, codes, classes, k))
        for view in score_views(scores):
            check_fits_into_files(view)


# ---------------------------------------------------------------------- views of scores
@pytest.mark.parametrize("k", [2, 3, 5])
def test_views_of_scores_are_cut_by_the_score(k):
    """Compare a class with the mean of the others, without constants."""
    scores = some_scores((3, 4, 4, 2), k)
    views = score_views(scores)
    directions = [1] if k == 2 else range(k)
    assert len(views) == len(directions) * len(additive.SCORE_PIECES)
    codes = np.array(list(np.ndindex(3, 4, 4, 2)))
    whole = scores.whole(codes) - scores.constant
    asked = itertools.product(directions, additive.SCORE_PIECES)
    for view, (c, pieces) in zip(views, asked, strict=True):
        score = k * whole[:, c] - whole.sum(axis=1)
        assert view.attributes == (0, 1, 2, 3)
        assert view.size == len(view.cuts) + 1 <= pieces
        assert list(view.cuts) == sorted(set(view.cuts))
        by_hand = [sum(cut <= s for cut in view.cuts) for s in score]
        found = view.cells(codes)
        np.testing.assert_array_equal(found, by_hand)
        assert found.dtype == np.uint8
        assert len(set(by_hand)) > 1
    found = Views(tuple(views)).cells(codes)[0]
    np.testing.assert_array_equal(found, views[0].cells(codes))


def test_scores_that_say_nothing_have_no_views():
    scores = some_scores()
    flat = tuple(np.full_like(table, 7) for table in scores.tables)
    assert score_views(replace(scores, tables=flat)) == []
    assert score_views(AdditiveScores(np.zeros(2, np.int64), (), ())) == []


def test_views_of_scores_are_a_family_of_their_own():
    public = public_views(SHAPE)
    further = score_views(some_scores())
    views = Views((*public.items, *further))
    prior = np.exp(views.log_prior)
    families = [view.family for view in views.items]
    shares = {f: prior[[f == g for g in families]].sum() for f in set(families)}
    del shares["whole"]
    assert set(shares) == {"single", "pair", "sum", "score"}
    np.testing.assert_allclose(list(shares.values()), max(shares.values()))
    # However many records there are, scores may come first.
    kept = {views.items[i].family for i in _roots(views, 10**12, 10**4)}
    assert kept == {"whole", "single", "score"}
    assert set(further) <= {views.items[i] for i in _roots(views, 10**12, 10**4)}
