"""Tables that keep to published totals and to cells that are impossible."""

import itertools
import json
import os
import re
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import reference as ref
import scipy.optimize
from catalogue import of_all
from replay import People, check_neighbours, facts_of_tables

import mmech as mm
from mmech.cli import main
from mmech.tables import intervals
from mmech.tables.known import what_is_known
from mmech.tables.result import SLACK
from mmech.tables.rounding import rounded_table, with_margins

DOMAIN = mm.Domain(
    [
        mm.Attribute.categorical("sex", ["f", "m"]),
        mm.Attribute.numeric("age", lower=0, upper=60, n_bins=4, integer=True),
        mm.Attribute.categorical("status", ["single", "married", "widowed"]),
    ]
)
SIZES = DOMAIN.shape
CHILDREN = {"age": "0 to 15", "status": ["married", "widowed"]}
COSTS = [{"epsilon": 1}, {"rho": Fraction(1, 8)}]


def people(n, seed=1):
    """Return codes of records without married children."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n) for size in SIZES])
    codes[codes[:, 1] == 0, 2] = 0
    return codes


def frame_of(codes):
    return pd.DataFrame(
        {
            "sex": np.array(["f", "m"])[codes[:, 0]],
            "age": 15 * codes[:, 1] + 5,
            "status": np.array(["single", "married", "widowed"])[codes[:, 2]],
        }
    )


def exact(codes, names):
    places = [DOMAIN.names.index(name) for name in names]
    shape = [SIZES[i] for i in places]
    place = np.ravel_multi_index(tuple(codes[:, i] for i in places), shape)
    return np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)


def facts_of(codes):
    """Return what may be known of records, by a name."""
    total, sex = {(): len(codes)}, {("sex",): exact(codes, ["sex"])}
    both = {("status", "sex"): exact(codes, ["status", "sex"])}
    return {
        "the total": {"known": total},
        "a table": {"known": sex},
        "a pair": {"known": both},
        "cells": {"impossible": [CHILDREN]},
        "a value": {
            "impossible": [{"age": "0 to 15"}, {"age": "46 to 60", "sex": "f"}]
        },
        "both": {"known": sex, "impossible": [CHILDREN]},
    }


FACTS = list(facts_of(people(1)))


def cases(small, large):
    """Return facts with small tables; with three attributes only a total is known."""
    return [*((name, small) for name in FACTS), ("the total", large)]


def released(codes, fact, seed=0, **options):
    options = {"ways": 2, "epsilon": 1, **fact, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mm.release_tables(frame_of(codes), DOMAIN, insecure_rng=seed, **options)


def count(made, names):
    shape = [SIZES[DOMAIN.names.index(name)] for name in names]
    return made.table(names, frame="dict")["count"].reshape(shape)


# ---- estimates and variances -------------------------------------------------------


def holding(cells, places, code):
    """Return which cells of the domain are in one of a table."""
    found = np.ones(cells.shape[1], bool)
    for i, c in zip(places, code, strict=True):
        found &= cells[i] == c
    return found


def equations(fact, measured):
    """Return C and c on the cells of the domain, cell by cell."""
    rows, sides = [], []
    cells = np.indices(SIZES).reshape(len(SIZES), -1)
    for names, table in fact.get("known", {}).items():
        places = [DOMAIN.names.index(name) for name in names]
        for code in np.ndindex(*[SIZES[i] for i in places]):
            rows.append(holding(cells, places, code))
            sides.append(np.asarray(table)[code])
    if "impossible" in fact:
        child = (cells[1] == 0) & (cells[2] > 0)
        if fact["impossible"] != [CHILDREN]:
            child = (cells[1] == 0) | ((cells[1] == 3) & (cells[0] == 0))
        for names in measured:
            for code in np.ndindex(*[SIZES[i] for i in names]):
                own = holding(cells, names, code)
                if child[own].all():
                    rows.append(own)
                    sides.append(0)
    return np.array(rows, float), np.array(sides, float)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize(("name", "ways"), cases(2, 3), ids=str)
def test_estimates_and_errors_are_those_of_dense_conditioning(name, ways, cost):
    """Generalised least squares with linear constraints, on all cells of the domain."""
    codes = people(60)
    fact = facts_of(codes)[name]
    pairs = list(itertools.combinations(DOMAIN.names, ways))
    plan = mm.release_tables(None, DOMAIN, tables=pairs, dry_run=True, **cost, **fact)
    mechanism = plan.mechanism()
    A = mechanism.released.form.to_dense()
    # The estimate of least norm is linear: its matrix, one measured value at a time.
    noise, subsets = plan.noise, plan.subsets
    basis = [
        noise.estimate(row) for row in np.vstack([np.zeros(len(A)), np.eye(len(A))])
    ]
    W = mm.Marginals(SIZES, dict.fromkeys(subsets, 1)).to_dense()

    def tables(own):
        return np.concatenate([own.marginal(subset) for subset in subsets])

    start = tables(basis[0])
    found = np.array([tables(own) - start for own in basis[1:]]).T
    variance = np.concatenate(
        [
            np.full(stop - first, value)
            for first, stop, value in row_variances(mechanism)
        ]
    )
    C, c = equations(fact, {*subsets, *mechanism.released.form.weights})
    scaled = A.T / variance
    free, known = ref.conditioned(A, scaled, C)
    np.testing.assert_allclose(found, W @ free @ scaled, atol=1e-8)
    np.testing.assert_allclose(start, W @ known @ c, atol=1e-7)
    covariance = W @ free @ (scaled @ A) @ free.T @ W.T
    left = np.sqrt(np.maximum(np.diag(covariance), 0))
    made = released(
        codes, fact, **{"ways": None, "tables": pairs, "epsilon": None, **cost}
    )
    errors = [made.table(own, frame="dict")["standard_error"] for own in pairs]
    np.testing.assert_allclose(np.concatenate(errors), left, rtol=1e-6, atol=1e-4)


def row_variances(mechanism):
    """Return runs of rows of measured values with the variance of their noise."""
    law, factor = mechanism.law, mechanism.relation.factor**mechanism.law.power
    for start, stop, weight in mechanism.released.row_weights():
        own = Fraction(mechanism.released.sensitivity, int(weight))
        yield (
            start,
            stop,
            float(law.variance(law.parameter(factor * own, mechanism.cost))),
        )


@pytest.mark.by_day(5)
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("ways", [1, 2, (1, 2)], ids=str)
@pytest.mark.parametrize("name", FACTS)
def test_what_is_known_never_makes_errors_larger(name, ways, cost):
    fact = facts_of(people(60))[name]
    if ways == 1 and name not in ("the total", "a table"):
        pytest.skip("about two attributes")
    plans = [
        mm.release_tables(None, DOMAIN, ways=ways, dry_run=True, **cost, **own)
        for own in ({}, fact)
    ]
    before, after = (plan.errors(frame="dict") for plan in plans)
    assert (after["standard_error"] <= before["standard_error"] * 1.02 + 1e-9).all()
    for column in ("half_width_90", "half_width_95"):  # ends of intervals are whole
        assert (after[column] <= before[column] + 0.5).all()
        assert after[column].sum() <= before[column].sum() * 1.001
    spreads = [sum(map(plan.noise.spread, plans[0].subsets)) for plan in plans]
    assert spreads[1] < spreads[0]


# ---- intervals ---------------------------------------------------------------------


@pytest.mark.by_day(4)
@pytest.mark.statistical
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize(("name", "ways"), cases((1, 2), (1, 3)), ids=str)
def test_intervals_hold_after_conditioning(name, ways, cost, noise_rng):
    """Counted over 10,000 measurements, by level, number of attributes, and small ones.

    Counts that are known are left out. Shares of one release have dependent errors:
    their mean has a false alarm of 1e-6.
    """
    codes = people(60)
    fact = facts_of(codes)[name]
    if name == "a value":
        codes = codes[(codes[:, 1] > 0) & ((codes[:, 1] < 3) | (codes[:, 0] == 1))]
    plan = mm.release_tables(None, DOMAIN, ways=ways, dry_run=True, **cost, **fact)
    cells = exact(codes, DOMAIN.names).ravel()
    # A table of 10,000 columns is measured with independent noise.
    many = np.repeat(cells[:, None], 10_000, axis=1)
    values = plan.mechanism(insecure_rng=noise_rng).measure(many).values
    estimate = plan.noise.estimate(values)
    made = released(codes, fact, **{"ways": ways, "epsilon": None, **cost})
    held = {}
    for level, names in itertools.product((0.9, 0.95), plan.tables):
        table = made.table(names, level=level, frame="dict")
        truth = exact(codes, names).ravel()
        subset = tuple(DOMAIN.names.index(name) for name in names)
        centre = estimate.marginal(subset)
        error = np.abs(centre - truth[:, None])
        open_ = table["standard_error"] > 0
        assert (error[~open_] < 1e-6).all()
        assert (table["lower"] == table["count"])[~open_].all()
        width = plan.noise.errors(subset, level)[1] + SLACK
        inside = error <= width[:, None]
        for kind, own in ((len(names), open_), ("small", open_ & (truth < 5))):
            if own.any():
                held.setdefault((kind, level), []).append(inside[own].mean(axis=0))
        if open_.any():
            squares = np.square(error[open_] / table["standard_error"][open_][:, None])
            assert abs(squares.mean() - 1) < ref.margin(squares.mean(axis=0))
    for (_, level), shares in held.items():
        mean = np.mean(shares, axis=0)
        assert level - ref.margin(mean) <= mean.mean()
        assert mean.mean() < (1 + level) / 2 + ref.margin(mean)  # not by being endless


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_large_tables_have_about_the_same_intervals(cost, monkeypatch):
    """Where coefficients are too many to be listed, some noise is not told apart."""
    fact = facts_of(people(60))["cells"]
    found = []
    for listed in (intervals.LISTED, 0):
        monkeypatch.setattr(intervals, "LISTED", listed)
        plan = mm.release_tables(None, DOMAIN, ways=2, dry_run=True, **cost, **fact)
        laws = [plan.noise.errors(subset, 0.95) for subset in plan.subsets]
        found.append(np.hstack(laws))
    (errors, widths), (same, near) = found
    np.testing.assert_allclose(same, errors, atol=1e-9)
    assert (near >= 0.98 * widths).all()
    assert (near <= 1.15 * widths).all()
    assert not np.allclose(near, widths)


# ---- counts ------------------------------------------------------------------------


@pytest.mark.by_day(4)
@pytest.mark.parametrize("epsilon", [0.01, 1])
@pytest.mark.parametrize(("name", "ways"), cases((1, 2), (1, 2, 3)), ids=str)
def test_counts_keep_to_what_is_known_whatever_the_records(name, ways, epsilon):
    """Also where records contradict it, and noise is larger than counts."""
    rng = np.random.default_rng(3)
    fact = facts_of(people(60))[name]
    for seed in range(2):
        codes = np.column_stack([rng.integers(0, size, 90) for size in SIZES])
        made = released(codes, fact, seed, ways=ways, epsilon=epsilon)
        for names, table in fact.get("known", {}).items():
            if names:
                own = made.table(names, frame="dict")
                assert own["count"].tolist() == np.ravel(table).tolist()
                assert (own["lower"] == own["count"]).all()
                assert (own["upper"] == own["count"]).all()
                assert not own["standard_error"].any()
            assert made.total == np.sum(table)
        ages = count(made, ["age", "status"])
        if name in ("cells", "both"):
            assert not ages[0, 1:].any()
        if name == "a value":
            assert not ages[0].any()
            assert not count(made, ["sex", "age"])[0, 3]
        for names in made.tables:
            own = made.table(names, frame="dict")
            assert (own["count"] >= 0).all()
            assert (own["lower"] <= own["count"]).all()
            assert (own["count"] <= own["upper"]).all()
            for i, other in enumerate(names):
                axes = tuple(a for a in range(len(names)) if a != i)
                sums = count(made, names).sum(axis=axes)
                assert sums.tolist() == count(made, [other]).tolist()


@of_all(share=[0, 0.6], seed=range(12))
def test_whole_counts_keep_margins_and_closed_cells(seed, share):
    """For margins of a random table of which no or many cells are closed."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 9, 2))
    closed = rng.random(shape) < share
    table = rng.poisson(3, shape) * ~closed
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    noisy = table + rng.normal(scale=5, size=shape)
    fitted = with_margins(
        noisy, rows.astype(float), columns.astype(float), closed=closed
    )
    assert not fitted[closed].any()
    whole = rounded_table(fitted, rows, columns, closed=closed)
    assert not whole[closed].any()
    assert (whole >= 0).all()
    assert (whole.sum(axis=1) == rows).all()
    assert (whole.sum(axis=0) == columns).all()
    assert share or np.abs(whole - fitted).max() < 1 + 1e-3
    # What need not move does not: the table itself is rounded to itself.
    same = rounded_table(table.astype(float), rows, columns, closed=closed)
    assert (same == table).all()


def test_an_order_of_values_is_kept_in_all_tables():
    """Whole margins of three tables together: a staircase leaves few of them."""
    domain = mm.Domain([mm.Attribute.ordinal(n, list("12345")) for n in "abc"])
    pairs = list(itertools.combinations("abc", 2))
    falling = [
        {one: "12345"[k], other: list("12345"[:k])}
        for one, other in pairs
        for k in range(1, 5)
    ]
    rng = np.random.default_rng(0)
    records = np.sort(rng.integers(1, 6, (40, 3)), axis=1).astype(str)
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = mm.release_tables(
                records, domain, ways=2, epsilon=0.1, impossible=falling,
                insecure_rng=seed, known={("a",): [9, 8, 7, 6, 10]},
            )  # fmt: skip
        for pair in pairs:
            own = made.table(pair, frame="dict")["count"].reshape(5, 5)
            assert not np.tril(own, -1).any()
        assert made.table("a", frame="dict")["count"].tolist() == [9, 8, 7, 6, 10]


def test_no_search_of_tables_ends_by_the_clock(monkeypatch):
    """Whatever else the processor does, tables that are made again are the same."""
    asked, milp = [], scipy.optimize.milp

    def noted(*given, **more):
        asked.append(more)
        return milp(*given, **more)

    monkeypatch.setattr(scipy.optimize, "milp", noted)
    released(people(60), facts_of(people(60))["both"])
    assert asked
    assert not any("options" in own for own in asked)
    clocks = r"time_limit|perf_counter|monotonic|import time|budget_seconds"
    for path in Path(mm.__file__).parent.glob("tables/*.py"):
        assert not re.search(clocks, path.read_text("utf-8")), path.name


# ---- privacy -----------------------------------------------------------------------


@pytest.mark.by_day(3)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("cost", COSTS, ids=str)
@pytest.mark.parametrize("name", ["the total", "a pair", "both"])
def test_neighbours_are_seen_alike_whether_or_not_they_agree(name, cost, neighbours):
    """With the outcomes of one run all that is seen is the same; costs are as ever."""
    before = People.of(frame_of(people(8)).to_numpy(object), np.zeros(8, int))
    fact = facts_of(people(8))[name]

    def run(own, ledger):
        told = []
        options = {"neighbours": neighbours, "callback": told.append, **cost, **fact}
        made = mm.release_tables(own.X, DOMAIN, ways=2, ledger=ledger, **options)
        return facts_of_tables(made), told

    child = ("m", 5, "widowed")  # in an impossible cell
    others = (
        [before.without(0), before.and_of(child, 0)]
        if neighbours == "add_remove"
        else [before.replaced(0, child, 0)]
    )
    tape, _ = check_neighbours(run, before, others, cost, neighbours=neighbours)
    assert len(tape.entries) == 1


def test_noise_is_that_of_the_relation():
    """What is known makes no noise smaller than its relation asks for."""
    for neighbours, scale in (("add_remove", 1), ("replace", 2)):
        plan = mm.release_tables(
            None, DOMAIN, tables=["sex", "age"], epsilon=1, neighbours=neighbours,
            known={("sex",): [1, 2]}, dry_run=True,
        )  # fmt: skip
        mechanism = plan.mechanism()
        assert mechanism.released.sensitivity == 1
        assert set(map(float, mechanism._parameters())) == {scale}


def test_the_statement_says_what_is_known_and_for_whom_the_promise_is():
    fact = facts_of(people(60))["both"]
    made = released(people(60), fact)
    words = "published as it was: sex. Data sets that agree on it have as many records"
    assert words in made.statement
    assert "twice what adding or removing one does" in made.statement
    assert "zero: cells of age x status" in made.statement
    assert "that agree on what is known, which must have been public" in made.statement
    other = released(people(60), fact, neighbours="replace").statement
    assert "differ by replaced ones." in other
    (known,) = made.facts["known"]
    assert known == {"attributes": ["sex"], "cells": fact["known"]["sex",].tolist()}
    (rule,) = made.facts["impossible"]
    assert rule["attributes"] == ["age", "status"]
    assert rule["cells"][0] == [False, True, True]
    json.dumps(made.facts)
    assert "agree on what" not in released(people(60), {}).statement


# ---- input -------------------------------------------------------------------------


def test_tables_are_read_from_arrays_and_frames_in_any_order():
    table = np.arange(6).reshape(3, 2)
    rows = [(s, x, table[a, b]) for a, s in enumerate(["single", "married", "widowed"])
            for b, x in enumerate("fm")]  # fmt: skip
    frame = pd.DataFrame(rows[::-1], columns=["status", "sex", "count"])
    for given in [
        {("status", "sex"): table},
        {("status", "sex"): table.ravel().tolist()},
        {("sex", "status"): frame},
        {("sex", "status"): frame.to_dict("list")},
    ]:
        plan = mm.release_tables(
            None, DOMAIN, ways=2, epsilon=1, dry_run=True, known=given
        )
        ((subset, found),) = plan.known.tables
        assert subset == (0, 2)
        assert found.tolist() == table.T.tolist()


@of_all(
    case=[
        ("0 to 15", [0]), (["0 to 15", "31 to 45"], [0, 2]),
    ],
)  # fmt: skip
def test_rules_name_cells_by_labels(case):
    values, cells = case
    found = what_is_known({}, [{"age": values, "sex": "f"}], DOMAIN, [(0, 1)])
    ((subset, mask),) = found.rules
    assert subset == (0, 1)
    assert np.flatnonzero(mask[0]).tolist() == cells
    assert not mask[1].any()


@pytest.mark.parametrize("name", ["the total", "both"])
def test_what_is_known_is_kept_with_what_was_measured(name, tmp_path):
    path = os.fspath(tmp_path / "kept")
    made = released(people(60), facts_of(people(60))[name], keep=path)
    again = mm.MeasuredTables.load(path).finish()
    assert facts_of_tables(again) == facts_of_tables(made)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files of the command line, in the folder where it runs."""
    monkeypatch.chdir(tmp_path)
    frame_of(people(60)).to_csv("in.csv", index=False)
    DOMAIN.to_json("d.json")
    for name, text in {
        "sex.csv": "sex,count\nm,35\nf,25\n",
        "n.csv": "count\n60\n",
        "other.csv": "count\n61\n",
        "words.csv": "count\nmany\n",
        "town.csv": "town,count\nnorth,1\n",
        "rules.json": json.dumps([CHILDREN]),
        "rule.json": json.dumps(CHILDREN),
        "no.json": "[",
    }.items():
        Path(name).write_text(text, encoding="utf-8")


USUAL = "tables in.csv --domain d.json --ways 1 2 --epsilon 1 --out made"


def test_the_command_line_keeps_to_what_is_known(files, capsys):
    options = " --known sex.csv --known n.csv --impossible rules.json"
    assert main((USUAL + options).split()) == 0
    assert "Known beforehand" in " ".join(capsys.readouterr().out.split())
    assert pd.read_csv("made/sex.csv")["count"].tolist() == [25, 35]
    assert pd.read_csv("made/age_x_status.csv")["count"][1:3].tolist() == [0, 0]
    facts = json.loads(Path("made/evidence.json").read_text(encoding="utf-8"))["about"]
    assert [own["cells"] for own in facts["known"]] == [[25, 35], 60]
