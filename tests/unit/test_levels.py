"""Hierarchies: levels of one attribute, and tables by them that add up."""

import itertools
import json
import math
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import reference as ref
from replay import People, check_neighbours

import mmech as mm
import mmech_rf
from mmech import verify
from mmech.tables.field import Measured
from mmech.tables.intervals import Apart, Intervals
from mmech.tables.level_weights import _errors_and_pulls, level_strategy
from mmech.tables.levels import Chain
from mmech.tables.rounding import rounded_by_parents
from mmech.tables.statistics import Sum

TREE = {
    "North": {"Ham": ["a1", "a2", "a3"], "Bek": ["b1"]},
    "South": {"Cor": ["c1", "c2"]},
    "West": {"Dun": ["d1", "d2"], "Elm": ["e1"], "Fen": ["f1", "f2"]},
}
PLACE = mm.Attribute.hierarchy("city", TREE, ("region", "county"))
DOMAIN = mm.Domain(
    [
        mm.Attribute.ordinal("age", [0, 1, 2]),
        PLACE,
        mm.Attribute.categorical("sex", ["f", "m"]),
    ]
)
JOBS = {"x": {"p": ["p1", "p2"], "q": ["q1", "q2", "q3"]}, "y": {"r": ["r1", "r2"]}}
TWO = mm.Domain(
    [
        PLACE,
        mm.Attribute.categorical("sex", ["f", "m"]),
        mm.Attribute.hierarchy("job", JOBS, ("field", "branch")),
    ]
)
ASKED = {
    "pairs": (DOMAIN, {"ways": (1, 2)}),
    "triples": (DOMAIN, {"ways": 3}),
    "levels": (DOMAIN, {"tables": ["region", "county", "city"]}),
    "gap": (DOMAIN, {"tables": [("region", "sex"), ("city", "sex"), "age"]}),
    "linked": (DOMAIN, {"tables": [("county", "sex"), ("city", "age"),
        ("city", "sex", "age")]}),
    "apart": (DOMAIN, {"tables": [("city", "sex"), ("county", "age"),
        ("age", "sex")]}),
    "two, pairs": (TWO, {"ways": (1, 2)}),
    "two, crossed": (TWO, {"tables": [("region", "job"), ("city", "field", "sex"),
        "branch"]}),
    "two, apart": (TWO, {"tables": ["region", "city", ("job", "sex"), "field"]}),
    "single": (DOMAIN, {"ways": 1}),
    "two, parts": (TWO, {"tables": [("region", "sex"), ("county", "branch"), "city",
        ("city", "field")]}),
}  # fmt: skip
"""Tables by the levels of one hierarchy, or of two."""
LEVELS = ("region", "county", "city")
every_plan = pytest.mark.parametrize("asked", ASKED)


def people(n, domain=DOMAIN):
    """Return codes of records; sex depends on the city."""
    rng = np.random.default_rng(0)
    columns = {
        a.name: rng.choice(a.size, n, p=rng.dirichlet(np.ones(a.size)))
        for a in domain.attributes
    }
    columns["sex"] = (rng.random(n) < 0.3 + 0.04 * columns["city"]).astype(int)
    return np.column_stack([*columns.values()])


def rows_of(codes, domain=DOMAIN):
    return domain.decode(codes).tolist()


def plan_of(asked, **cost):
    domain, tables = ASKED[asked]
    return mm.release_tables(
        None, domain, **tables, **(cost or {"epsilon": 1}), dry_run=True
    )


def cells_of(plan, codes, subset, domain=DOMAIN):
    """Return the cell of a table that each record is in."""
    shape = [plan.axes.shape[i] for i in subset]
    codes = domain.at_levels(codes, plan.names)[:, subset]
    return np.ravel_multi_index(tuple(codes.T), shape) if subset else 0 * codes.sum(1)


def exact(plan, codes, subset, domain=DOMAIN):
    """Return a table of records by its definition."""
    shape = [plan.axes.shape[i] for i in subset]
    cells = cells_of(plan, codes, subset, domain)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)


def matrix_of(plan, domain, subset):
    """Return a table as a matrix over all cells of the domain."""
    codes = np.indices(domain.shape).reshape(len(domain.shape), -1).T
    rows = np.arange(math.prod(plan.axes.shape[i] for i in subset))
    return (rows[:, None] == cells_of(plan, codes, subset, domain)).astype(float)


# ---- attributes -----------------------------------------------------------------


def test_levels_are_partitions_of_the_values():
    assert PLACE.categories[:4] == ("a1", "a2", "a3", "b1")
    assert PLACE.at_level("county").categories == tuple(
        ["Ham", "Bek", "Cor", "Dun", "Elm", "Fen"]
    )
    assert PLACE.nodes("region").tolist() == [0] * 4 + [1] * 2 + [2] * 5
    assert PLACE.nodes("city").tolist() == list(range(11))
    assert PLACE.at_level("city").levels is None
    assert list(DOMAIN.levels) == ["age", *LEVELS, "sex"]
    assert DOMAIN.by_level().shape == (3, 3, 6, 11, 2)


def test_records_hold_values_and_files_hold_the_tree(tmp_path):
    assert DOMAIN.encode([[0, "b1", "m"]]).tolist() == [[0, 3, 1]]
    assert mm.Domain.from_json(DOMAIN.to_json()) == DOMAIN
    entry = {"name": "city", "type": "hierarchy", "tree": TREE, "levels": LEVELS[:2]}
    assert mm.Domain.from_json({"features": [entry]}).attributes[0] == PLACE
    # Rows in any order, twice too; a node is where its first row is.
    (tmp_path / "codes.csv").write_text("state,city\n1,11\n2,21\n1,12\n1,11\n\n")
    entry = {"name": "place", "type": "hierarchy", "tree": "codes.csv"}
    (tmp_path / "domain.json").write_text(json.dumps({"features": [entry]}))
    read = mm.Domain.from_json(tmp_path / "domain.json").attributes[0]
    assert read.categories == ("11", "12", "21")
    assert read.levels == {"state": ("1", "1", "2")}
    (tmp_path / "codes.csv").write_text("state,city\n1\n")
    with pytest.raises(ValueError, match=r"codes.csv'\)?: line 2 of .* has 1 field "):
        mm.Attribute.hierarchy("place", tmp_path / "codes.csv")


# ---- plans ----------------------------------------------------------------------


def test_tables_have_one_level_of_a_hierarchy_at_most():
    plan = plan_of("pairs")
    assert len(plan.tables) == 5 + 7
    assert all(len({*LEVELS} & {*names}) < 2 for names in plan.tables)
    assert ("county", "sex") in plan.tables
    assert not plan.adaptive
    ledger = mm.PrivacyLedger(1)
    for tables, message in [
        ([("county", "region")], "each once and at one level"),
        ([("town", "sex")], "must be one of 'age', 'region'"),
    ]:
        with pytest.raises(ValueError, match=message):
            mm.release_tables([], DOMAIN, tables=tables, epsilon=1, ledger=ledger)
    unknown = [[0, "nowhere", "f"]]
    with pytest.raises(ValueError, match="column 'city' of X holds a value outside"):
        mm.release_tables(unknown, DOMAIN, ways=1, epsilon=1, ledger=ledger)
    county = {("county",): [1] * 6}
    with pytest.raises(ValueError, match="of what is known must be one of 'age', 'reg"):
        mm.release_tables([], DOMAIN, ways=2, known=county, epsilon=1, ledger=ledger)
    assert ledger.spent == 0
    with (
        mm.limits.changed(level_cells=65),
        pytest.raises(
            ValueError, match="at most 65 cells each, but age, sex, city has"
        ),
    ):
        plan_of("linked")


def test_one_level_is_an_attribute_as_any_other():
    plan = mm.release_tables(
        None, DOMAIN, tables=[("county", "sex")], epsilon=1, dry_run=True
    )
    assert plan.chain is None
    county = PLACE.at_level("county")
    flat = mm.Domain([county, DOMAIN.attributes[2]])
    other = mm.release_tables(None, flat, ways=2, epsilon=1, dry_run=True)
    errors = [own.noise.law((0, 1)).standard_error for own in (plan, other)]
    assert errors[0] == errors[1]
    codes = people(50)
    released = mm.release_tables(
        rows_of(codes), DOMAIN, tables=[("county", "sex")], epsilon=1e6
    )
    assert (released.counts.tables[0, 1] == exact(plan, codes, (0, 1))).all()


# ---- least squares --------------------------------------------------------------


def nodes_of(plan, subset):
    """Return the nodes of all hierarchies together, of every cell of a table."""
    shape = [plan.axes.shape[i] for i in subset]
    cells = np.indices(shape).reshape(len(shape), -1)
    nodes = np.zeros(cells.shape[1], int)
    noise = plan.noise
    chain = noise.steps[noise.step(subset)].chain if plan.told_apart else plan.chain
    for own, level in zip(chain.all, chain.places(subset)[0], strict=True):
        if level:
            at = cells[subset.index(own.axes[level - 1])]
            nodes = nodes * own.size(level) + at
    return nodes


def least_squares(A, variances, y):
    """Return estimates of all cells, and their covariance."""
    covariance = ref.pinv(A.T @ (A / variances[:, None]))
    return covariance @ (A.T @ (y / variances)), covariance


@pytest.mark.by_day(4)
@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": 1}], ids=str)
@every_plan
def test_estimates_are_those_of_least_squares(asked, cost):
    """With two hierarchies rounded weights make errors larger by half a percent."""
    domain, plan = ASKED[asked][0], plan_of(asked, **cost)
    if plan.told_apart:
        joint = plan.chain, plan.axes.shape, plan.subsets, plan.currency
        plan = replace(plan, strategy=level_strategy(*joint))
    noise, matrix = plan.noise, partial(matrix_of, plan, domain)
    measured = [matrix(subset) for subset in (m.subset for m in noise.measured)]
    variances = np.repeat(noise._variances, [len(own) for own in measured])
    y = np.random.default_rng(1).normal(50, 9, len(variances))
    x, covariance = least_squares(np.concatenate(measured), variances, y)
    estimate = noise.estimate(y)
    assert 1 <= noise._rounding < (1.005 if domain is TWO else 1 + 1e-9)
    apart, more = (0.1, 0.01) if domain is TWO else (1e-8, 1e-7)
    for subset in plan.subsets:
        own, law = matrix(subset), noise.law(subset)
        np.testing.assert_allclose(estimate.marginal(subset), own @ x, atol=apart)
        errors, _ = law.at(0.95, nodes_of(plan, subset))
        squares = np.diag(own @ covariance @ own.T)
        np.testing.assert_allclose(errors**2, squares, rtol=more)
        # All noise that is told apart has its coefficients.
        known = (law.numbers * law.coefficients**2).T @ law.row_variances
        assert (known <= law.variances * (1 + 1e-9)).all()


def told_by(plan, tree, subset):
    """Return a table over all values of a hierarchy and all other axes, as a matrix."""
    last = tree.axes[-1]
    free = [i for i in range(len(plan.names)) if i == last or i not in tree.axes]
    shape = [plan.axes.shape[i] for i in free]
    codes = dict(zip(free, np.indices(shape).reshape(len(shape), -1), strict=True))
    for k, axis in enumerate(tree.axes[:-1], 1):
        codes[axis] = tree.ancestors(len(tree.axes), k)[codes[last]]
    sizes = [plan.axes.shape[i] for i in subset]
    cells = np.ravel_multi_index([codes[i] for i in subset], sizes)
    return (np.arange(math.prod(sizes))[:, None] == cells).astype(float)


def test_tables_are_told_by_the_hierarchy_that_tells_them_best():
    """Least squares with levels of the others as attributes like any other."""
    tables = ["region", "city", ("job", "sex"), "field", ("city", "field")]
    plan = mm.release_tables(None, TWO, tables=tables, epsilon=1, dry_run=True)
    noise = plan.noise
    assert plan.told_apart
    assert {*plan.strategy.strategy.weights} == {*plan.subsets}
    cells = [math.prod(plan.axes.shape[i] for i in m.subset) for m in noise.measured]
    y = np.random.default_rng(1).normal(50, 9, sum(cells))
    variances = np.repeat([m.variance for m in noise.measured], cells)
    estimate, told = noise.estimate(y), []
    for tree in plan.chain.apart:
        A = np.concatenate([told_by(plan, tree, m.subset) for m in noise.measured])
        x, covariance = least_squares(A, variances, y)
        matrices = [told_by(plan, tree, subset) for subset in plan.subsets]
        told.append([(B @ x, np.diag(B @ covariance @ B.T)) for B in matrices])
    for j, subset in enumerate(plan.subsets):
        found, squares = min((own[j] for own in told), key=lambda own: own[1].sum())
        np.testing.assert_allclose(estimate.marginal(subset), found, atol=1e-7)
        ours = noise.variances(subset).ravel()
        np.testing.assert_allclose(ours, squares, rtol=1e-7)
    assert {noise.step(subset) for subset in plan.subsets} == {0, 1}
    assert pickle.loads(pickle.dumps(plan)).told_apart


def test_parts_are_told_by_trees_by_all_levels_or_by_equal_totals():
    """Each as plans of these tables alone have it, with noise of the same variances."""
    tables = ["region", "city", "field", ("county", "job"), ("city", "branch"), "sex"]
    plan = mm.release_tables(None, TWO, tables=tables, epsilon=1, dry_run=True)
    law, axes = mm.noise.LAPLACE, plan.axes.shape
    place = {name: k for k, name in enumerate(plan.names)}
    crossed = [("county", "branch"), ("county", "job"), ("city", "branch"),
        ("city", "job")]  # fmt: skip
    alone = [*crossed, ("city",)]
    measured = [
        Measured(tuple(sorted(map(place.get, names))), k + 1.0, 1.0)
        for names, k in zip(alone, [1, 3, 3, 7, 2], strict=True)
    ]
    totals = [
        Measured((place[n],), 2.0, 1.0, t) for n, t in [("region", 5), ("sex", np.inf)]
    ]
    noise = Apart(law, axes, [*totals, *measured], plan.chain, plan.subsets)
    whole = Intervals.of(law, axes, measured[:4], plan.chain)
    trees = [Intervals.of(law, axes, measured, tree) for tree in plan.chain.apart]
    sets = Intervals.of(law, axes, totals)
    fields = [*trees, whole, sets]
    each = [math.prod(axes[i] for i in m.subset) for m in noise.measured]
    rows = np.split(
        np.random.default_rng(0).normal(50, 9, sum(each)), np.cumsum(each)[:-1]
    )
    values = [rows[2:], rows[2:], rows[2:6], rows[:2]]
    estimates = [
        f.estimate(np.concatenate(v)) for f, v in zip(fields, values, strict=True)
    ]
    estimate, used = noise.estimate(np.concatenate(rows)), set()
    for subset in plan.subsets:
        able = [k for k, field in enumerate(fields) if field.measures(subset)]
        best = min(able, key=lambda k: fields[k].node_variances(subset).mean())
        used.add(best)
        np.testing.assert_allclose(
            estimate.marginal(subset), estimates[best].marginal(subset)
        )
        np.testing.assert_allclose(
            noise.variances(subset), fields[best].variances(subset)
        )
    assert {2, 3} <= used


def test_what_no_table_tells_alone_is_fitted_to_those_that_do():
    """Without noise, whole counts are exact: families of nodes lose nothing."""
    codes = people(20_000, TWO)
    for tables in (
        ["region", "county", "city", "field", "job", ("county", "job")],
        [("county", "job"), ("sex", "field"), ("region", "job"), "sex"],
    ):
        released = mm.release_tables(
            rows_of(codes, TWO), TWO, tables=tables, epsilon=1000
        )
        plan = released.plan
        assert plan.told_apart
        for subset in plan.subsets:
            table = released.counts.tables[subset]
            np.testing.assert_array_equal(table, exact(plan, codes, subset, TWO))


@pytest.mark.parametrize(
    "tables",
    [
        [("city", "field"), ("region", "job", "sex")],
        [("city", "field"), ("county", "job", "sex")],
        [("city", "branch"), ("region", "job", "sex"), ("field", "sex")],
    ],
)
def test_crossed_tables_of_three_attributes_are_not_biased(tables):
    """Without noise only cells that were not measured are rounded, then added up."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(math.prod(TWO.shape), 0.3))
    cells = rng.choice(shares.size, 20_000, p=shares)
    codes = np.column_stack(np.unravel_index(cells, TWO.shape))
    released = mm.release_tables(rows_of(codes, TWO), TWO, tables=tables, epsilon=1e6)
    plan, chain = released.plan, released.plan.chain
    assert not plan.told_apart
    for subset in plan.subsets:
        apart = released.counts.tables[subset] - exact(plan, codes, subset, TWO)
        assert np.abs(apart).max() <= 3
    # What was not measured adds up to all that was.
    names = ("city", "job", "sex")
    finest = tuple(sorted(map(plan.names.index, names)))
    assert not plan.noise.measures(finest)
    table = released.estimate.marginal(finest)
    assert table.min() >= 0
    for part in {chain.common(finest, subset) for subset in plan.subsets}:
        sums = np.bincount(plan.noise.cells_above(finest, part), table)
        true = exact(plan, codes, part, TWO).ravel()
        np.testing.assert_allclose(sums, true, atol=0.1)


def error_of(tables, **cost):
    """Return the summed mean squared errors of tables of two hierarchies."""
    plan = mm.release_tables(None, TWO, tables=tables, dry_run=True, **cost)
    return plan.squared_error


@pytest.mark.by_day(3)
@pytest.mark.parametrize("seed", range(40))
def test_a_second_hierarchy_costs_no_more_than_calls_of_their_own(seed):
    """Random tables of one hierarchy each, beside the best shares of two calls."""
    rng = np.random.default_rng(seed)
    levels = [("region", "county", "city"), ("field", "branch", "job")]
    cost = {("epsilon", "rho")[seed % 2]: 0.01}
    calls = []
    for own in levels:
        picked = rng.choice(own, 2, replace=False).tolist()
        calls.append([(name, "sex") if rng.random() < 0.3 else name for name in picked])
    power = 1 / 2 if seed % 2 else 1 / 3
    best = sum(error_of(call, **cost) ** power for call in calls) ** (1 / power)
    assert error_of(calls[0] + calls[1], **cost) <= 1.01 * best


@pytest.mark.by_day(3)
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("seed", range(40))
def test_crossed_hierarchies_cost_no_more_than_any_two_calls(seed, currency):
    """Random tables of both, beside the best shares of all splits in two."""
    rng = np.random.default_rng(seed)
    levels = [("region", "county", "city"), ("field", "branch", "job"), ("sex",)]
    asked, names = set(), set()
    while any(len(names & {*own}) < 2 for own in levels[:2]):
        asked = asked if len(asked) < 5 else set()
        owners = np.sort(rng.choice(3, rng.integers(1, 3), replace=False))
        asked.add(tuple(str(rng.choice(levels[k])) for k in owners))
        names = {name for table in asked for name in table}
    asked = sorted(asked)
    cost, power = {currency: 0.01}, 1 / 3 if currency == "epsilon" else 1 / 2
    splits = (
        (list(first), [table for table in asked if table not in first])
        for size in range(1, 1 + len(asked) // 2)
        for first in itertools.combinations(asked, size)
    )
    best = min(
        sum(error_of(call, **cost) ** power for call in calls) ** (1 / power)
        for calls in splits
    )
    assert error_of(asked, **cost) <= 1.01 * best


def test_many_tables_cost_no_more_than_lower_levels_by_themselves():
    """What gains most when two are merged need not lead to the best parts."""
    tree = {
        f"{r}": {f"{r}.{c}": [f"{r}.{c}.{k}" for k in range(8)] for c in range(3)}
        for r in range(4)
    }
    work = {f"f{f}": [f"j{f}.{k}" for k in range(2)] for f in range(7)}
    flat = [mm.Attribute.categorical(f"c{k}", range(2 + k)) for k in range(4)]
    domain = mm.Domain(
        [
            mm.Attribute.hierarchy("city", tree, ("region", "county")),
            mm.Attribute.hierarchy("job", work, ("field",)),
            *flat,
        ]
    )
    calls = [["region", "field", *(a.name for a in flat)], ["county", "city"]]
    joint, *parts = (
        mm.release_tables(None, domain, tables=tables, epsilon=0.1, dry_run=True)
        for tables in ([*calls[0], *calls[1]], *calls)
    )
    apart = sum(plan.squared_error ** (1 / 3) for plan in parts) ** 3
    assert joint.squared_error <= 1.001 * apart


PUBLIC = {
    "totals": {"known": {("region",): [20, 10, 30], ("sex",): [25, 35]}},
    "cells": {"impossible": [{"region": "South", "sex": "m"}]},
    "both": {"known": {("region",): [20, 10, 30]},
        "impossible": [{"region": "South", "sex": "m"}]},
}  # fmt: skip
"""What is known of tables of topmost levels."""


def fitting(public):
    """Return records that agree with what is known."""
    rng = np.random.default_rng(2)
    codes = people(3000)
    codes = codes[rng.permutation(len(codes))]
    south = (codes[:, 1] >= 4) & (codes[:, 1] < 6)
    if "impossible" in PUBLIC[public]:
        codes = codes[~(south & (codes[:, 2] == 1))]
    regions = PLACE.nodes("region")[codes[:, 1]]
    parts = [np.flatnonzero(regions == k)[:n] for k, n in enumerate([20, 10, 30])]
    codes = codes[np.concatenate(parts)]
    if public == "totals":  # as many women as are known
        codes[:, 2] = np.arange(60) >= 25
    return codes


@pytest.mark.parametrize(
    ("asked", "public"),
    [("gap", "totals"), ("pairs", "cells"), ("gap", "both"), ("two, pairs", "cells")],
)
def test_levels_keep_to_what_is_known_as_dense_conditioning_does(asked, public):
    """Least squares with linear constraints on all cells; then whole counts."""
    domain, tables = ASKED[asked]
    fact = {**PUBLIC[public], **tables}
    plan = mm.release_tables(None, domain, epsilon=1, dry_run=True, **fact)
    noise, matrix = plan.noise, partial(matrix_of, plan, domain)
    all_codes = np.indices(domain.shape).reshape(3, -1).T
    A = np.concatenate([matrix(m.subset) for m in noise.measured])
    each = [math.prod(noise.sizes[i] for i in m.subset) for m in noise.measured]
    scaled = A.T * np.repeat(noise._shares, each)
    rows, sides = [], []
    for names, counts in fact.get("known", {}).items():
        rows.append(matrix((plan.names.index(names[0]),)))
        sides += counts
    if "impossible" in fact:
        place = domain.names.index("city"), domain.names.index("sex")
        south = PLACE.nodes("region")[all_codes[:, place[0]]] == 1
        rows.append(np.eye(len(all_codes))[south & (all_codes[:, place[1]] == 1)])
        sides += [0] * len(rows[-1])
    free, known = ref.conditioned(A, scaled, np.concatenate(rows))
    y = np.random.default_rng(1).normal(50, 9, len(A))
    x = free @ scaled @ y + known @ sides
    estimate = noise.estimate(y)
    apart, more = (0.1, 0.01) if domain is TWO else (1e-6, 1e-7)
    for subset in plan.subsets:
        own = matrix(subset)
        np.testing.assert_allclose(estimate.marginal(subset), own @ x, atol=apart)
        errors, _ = noise.errors(subset, 0.95)
        squares = np.diag(own @ free @ own.T) * noise._rounding
        np.testing.assert_allclose(errors**2, squares, atol=1e-6, rtol=more)
    if domain is TWO:
        return
    made = mm.release_tables(rows_of(fitting(public)), domain, epsilon=0.3, **fact)
    for names, counts in fact.get("known", {}).items():
        assert made.table(names, frame="dict")["count"].tolist() == counts
    if "impossible" in fact:
        table = made.table(("city", "sex"), frame="dict")
        closed = np.isin(table["city"], ["c1", "c2"]) & (table["sex"] == "m")
        assert closed.sum() == 2
        for name in ("count", "standard_error", "lower", "upper"):
            assert not table[name][closed].any()


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("asked", ["pairs", "gap"])
def test_weights_have_the_least_error_of_average_cells(asked, currency):
    plan = plan_of(asked, **{currency: 1})
    sizes, subsets = plan.axes.shape, plan.subsets
    cells = np.array([np.prod([sizes[i] for i in subset]) for subset in subsets])
    norm = 1 if currency == "epsilon" else 2

    def loss(weights):
        return of_squares((weights / np.linalg.norm(weights, norm)) ** 2)

    def of_squares(squares):
        errors, pulls = _errors_and_pulls(
            plan.chain, sizes, subsets, squares, 1 / cells
        )
        return errors @ (1 / cells), pulls

    found = level_strategy(plan.chain, sizes, subsets, currency)
    best = np.array(list(found.strategy.weights.values()))
    assert np.linalg.norm(best, norm) == pytest.approx(1)
    least, pulls = loss(best)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = np.maximum(best * rng.lognormal(0, 0.2, best.size), 1e-3 * best.sum())
        assert loss(other)[0] > least * (1 - 1e-4)
    for j in np.flatnonzero(best > 0.01):
        moved = (best**2)[:, None] * (
            1 + 1e-4 * np.outer(np.eye(best.size)[j], [1, -1])
        )
        up, down = (of_squares(m)[0] for m in moved.T)
        assert (down - up) / (2e-4 * best[j] ** 2) == pytest.approx(pulls[j], rel=1e-4)


# ---- counts ---------------------------------------------------------------------


def added_up(plan, subset, table, levels, common):
    """Return a table by nodes of levels above, and by some of its other attributes."""
    cells = np.indices(table.shape).reshape(table.ndim, -1)
    places, own = [], plan.chain.places(subset)[0]
    for chain, level, above in zip(plan.chain.all, own, levels, strict=True):
        at = cells[subset.index(chain.axes[level - 1])] if level else 0
        places.append(chain.ancestors(level, above)[at] + 0 * cells[0])
    places += [cells[subset.index(i)] for i in common]
    shape = [chain.size(k) for chain, k in zip(plan.chain.all, levels, strict=True)]
    out = np.zeros([*shape, *(plan.axes.shape[i] for i in common)], int)
    np.add.at(out, tuple(places), table.ravel())
    return out


@pytest.mark.by_day(4)
@pytest.mark.parametrize("epsilon", [0.1, 1e6])
@every_plan
def test_each_level_adds_up_to_the_one_above(asked, epsilon):
    """In tables, which hold their intervals, and in records that are drawn."""
    domain, tables = ASKED[asked]
    codes = people(400, domain)
    released = mm.release_tables(
        rows_of(codes, domain), domain, **tables, epsilon=epsilon
    )
    plan, made = released.plan, released.counts.tables
    for table in made.values():
        assert table.min() >= 0
        assert table.sum() == released.total
    for one, other in itertools.combinations(made, 2):
        (a, first), (b, second) = map(plan.chain.places, (one, other))
        shared = [*map(min, a, b)], [i for i in first if i in second]
        sums = [added_up(plan, own, made[own], *shared) for own in (one, other)]
        assert (sums[0] == sums[1]).all()
    for names in released.tables:
        own = released.table(names, frame="dict")
        assert (own["lower"] <= own["count"]).all()
        assert (own["count"] <= own["upper"]).all()
    drawn = released.sample(4000, seed=1, frame="dict")
    for attribute in (a for a in domain.attributes if a.levels):
        found = [n for n in (*attribute.levels, attribute.name) if n in drawn]
        finest = attribute.at_level(found[-1]).categories
        place = np.array([finest.index(value) for value in drawn[found[-1]]])
        above = np.searchsorted(attribute.nodes(found[-1]), place)
        for name in found[:-1]:
            nodes = np.array(attribute.at_level(name).categories)
            assert (nodes[attribute.nodes(name)[above]] == drawn[name]).all()
        if epsilon > 1:
            counts = np.bincount(place, minlength=len(finest)) / 4000
            own = codes[:, domain.names.index(attribute.name)]
            shares = np.bincount(attribute.nodes(found[-1])[own]) / 400
            assert np.abs(counts - shares).max() < 0.05
    if epsilon > 1:
        for subset, table in made.items():
            assert (table == exact(plan, codes, subset, domain)).all()


def test_dividing_keeps_sums_of_rows_and_over_children():
    rng = np.random.default_rng(0)
    for size in (1, 4, 30):
        parents = np.sort(np.append(np.arange(5), rng.integers(0, 5, 5 * size)))
        chain = Chain((0,), (parents,))
        whole = rng.poisson(0.7, (len(parents), 7))
        sums, rows = chain.up(1, whole), whole.sum(axis=1)
        near = np.maximum(whole + rng.normal(0, 0.4, whole.shape), 0)
        for fitted in (near, rng.random(whole.shape) * 3, 0.0 * near):
            found = rounded_by_parents(fitted, parents, sums, rows)
            assert found.min() >= 0
            assert (chain.up(1, found) == sums).all()
            assert (found.sum(axis=1) == rows).all()
        same = rounded_by_parents(whole.astype(float), parents, sums, rows)
        assert (same == whole).all()


@pytest.mark.by_day(2)
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("asked", "cost"),
    [
        ("gap", {"epsilon": 1}),
        ("levels", {"epsilon": 1}),
        ("gap", {"rho": 1}),
        pytest.param("two, pairs", {"epsilon": 1}, marks=pytest.mark.slow),
        ("two, crossed", {"rho": 1}),
        ("two, apart", {"epsilon": 1}),
        ("two, pairs", {"epsilon": 1}),
        ("two, parts", {"epsilon": 1}),
        ("single", {"epsilon": 1}),
    ],
    ids=str,
)
def test_intervals_hold_at_every_level(asked, cost, noise_rng):
    """1,000 draws, each cell at a false alarm of 3e-6.

    Noise of mostly one table is whole, and needs half a step more.
    """
    plan = plan_of(asked, **cost)
    nobody = np.zeros((math.prod(plan.axes.shape), 1000), np.int64)
    drawn = plan.mechanism(insecure_rng=noise_rng).measure(nobody).values.T
    basis = [plan.noise.estimate(row) for row in np.eye(drawn.shape[1])]
    for subset, level in itertools.product(plan.subsets, (0.9, 0.95)):
        errors = np.abs(drawn @ np.array([own.marginal(subset) for own in basis]))
        _, width = plan.noise.law(subset).at(level, nodes_of(plan, subset))
        held = (errors <= width + 1e-6).mean(axis=0)
        deviation = np.sqrt(level * (1 - level) / 1000)
        assert held.min() > level - 4.5 * deviation
        assert level - 2 * deviation < held.mean() < (3 + level) / 4


# ---- releases -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "ways"),
    [({"epsilon": 1}, 2), ({"rho": 1}, 2), ({"epsilon": 1}, 1)],
    ids=str,
)
def test_a_neighbour_is_paid_for_and_sees_the_same(cost, ways):
    """Levels of one record are measured at the price of the tables."""

    def run(own, ledger):
        released = mm.release_tables(own.X, DOMAIN, ways=ways, **cost, ledger=ledger)
        tables = {k: v.tolist() for k, v in released.counts.tables.items()}
        return tables, released.sample(5, seed=1, frame="dict")["city"].tolist()

    rows = np.array(rows_of(people(6)), object)
    before = People.of(rows, np.zeros(6, int))
    others = before.and_of((0, "e1", "m"), 0), before.without(3)
    tape, losses = check_neighbours(run, before, others, cost)
    assert len(tape.entries) == 1
    assert max(losses) > 0


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": 1}], ids=str)
@pytest.mark.parametrize(
    "tables",
    [
        ["all", ("all", "one"), ("few", "one"), ("few", "all"), "one", "city"],
        [("few", "one"), "few", ("region", "one"), ("county", "few"), "root"],
        ["leaf", ("leaf", "few"), ("root", "one"), "few", "one"],
    ],
    ids=str,
)
def test_one_node_and_one_value_are_like_any_others(tables, cost):
    """Releases with them are made, and all tables have one total."""
    tree = {"w": TREE}
    domain = mm.Domain(
        [
            mm.Attribute.hierarchy("city", tree, ("all", "region", "county")),
            mm.Attribute.hierarchy("leaf", {"r": ["l"]}, ("root",)),
            mm.Attribute.categorical("one", ["o"]),
            mm.Attribute.categorical("few", [0, 1, 2]),
        ]
    )
    cities = PLACE.categories * 6
    rows = [[city, "l", "o", k % 3] for k, city in enumerate(cities)]
    released = mm.release_tables(rows, domain, tables=tables, **cost)
    totals = {int(released.table(t, frame="dict")["count"].sum()) for t in tables}
    assert len(totals) == 1
    assert (released.plan.errors(frame="dict")["standard_error"] > 0).all()


@pytest.mark.parametrize("table", [("few", "one"), ("one", "few"), ("one",)], ids=str)
def test_a_value_that_all_have_does_not_change_errors(table):
    """Under noise of equal totals, laws agree with variances."""
    few, one, more = (
        mm.Attribute.categorical(name, range(n))
        for name, n in zip(["few", "one", "more"], [3, 1, 4], strict=True)
    )
    for domain in (mm.Domain([few, one, more]), mm.Domain([one, few, more])):
        plan = mm.release_tables(
            None, domain, tables=[table, "few", "more"], epsilon=1, dry_run=True
        )
        assert plan.strategy.noise
        for subset in plan.subsets:
            law, variances = plan.noise.law(subset), plan.noise.variances(subset)
            np.testing.assert_allclose(law.standard_error**2, variances.mean())


def test_a_level_of_one_node_costs_no_more_than_a_call_of_its_own():
    """A flat call measures one table in place of three that are equal."""
    place = mm.Attribute.hierarchy("city", {"w": TREE}, ("all", "region", "county"))
    domain = mm.Domain([place, mm.Attribute.categorical("few", [0, 1, 2])])

    def error(*tables):
        asked = {"tables": tables, "epsilon": 0.01, "dry_run": True}
        return mm.release_tables(None, domain, **asked).squared_error

    flat = "few", "all", ("all", "few")
    calls = error(*flat) ** (1 / 3) + error("city") ** (1 / 3)
    assert error(*flat, "city") <= 1.01 * calls**3


# ---- several columns ------------------------------------------------------------

COLUMNS = ("Region", "State", "City")
PATHS = [(r, s, c) for r in "NSW" for s in "NAB"[: 2 + (r == "S")] for c in ("A", 1)]
"""Names come back in other branches and at other levels."""
WHERE = mm.Attribute.hierarchy("place", PATHS, columns=COLUMNS)
SPREAD = mm.Domain([mm.Attribute.ordinal("age", [0, 1, 2]), WHERE])


def spread(n):
    """Return records in a frame with columns in another order, and their paths."""
    rng = np.random.default_rng(3)
    at = rng.choice(len(PATHS), n, p=rng.dirichlet(np.ones(len(PATHS))))
    columns = dict(zip(COLUMNS, zip(*(PATHS[i] for i in at), strict=True), strict=True))
    order = ("City", "Region", "State")
    frame = pd.DataFrame({name: columns[name] for name in order})
    return frame.assign(age=rng.integers(0, 3, n), other="x"), at


@pytest.mark.parametrize("held", ["objects", "pandas", "pyarrow", "rows"])
def test_a_value_in_several_columns_is_its_path(held):
    frame, at = spread(300)
    if held == "pandas":
        frame = frame.astype(dict.fromkeys(COLUMNS, "category"))
    elif held == "pyarrow":
        frame = pa.table(dict(frame.astype(dict.fromkeys(COLUMNS, str)).items()))
    elif held == "rows":
        frame = frame[["age", *COLUMNS]].to_numpy().tolist()
    for narrow in (False, True):
        assert (SPREAD.encode(frame, narrow=narrow)[:, 1] == at).all()
    assert WHERE.labels[:3] == ("N / N / A", "N / N / 1", "N / A / A")
    assert SPREAD.levels == {"age": "age", **dict.fromkeys(COLUMNS, "place")}


def test_trees_of_columns_come_from_dicts_paths_and_files(tmp_path):
    nested = {}
    for region, state, city in PATHS:
        nested.setdefault(region, {}).setdefault(state, []).append(city)
    shuffled = [PATHS[i] for i in (0, 5, 1)] + PATHS + PATHS[:2]
    for tree in (nested, shuffled):
        found = mm.Attribute.hierarchy("place", tree, columns=list(COLUMNS))
        assert {*found.categories} == {*PATHS}
        assert found.at_level("State").size == 7
    assert mm.Domain.from_json(SPREAD.to_json()) == SPREAD
    at = SPREAD.by_level().select(["State"])
    assert mm.Domain.from_json(at.to_json()).attributes[0].labels[1] == "N / A"
    lines = ["City,note,Region,State", *(f"{c},-,{r},{s}" for r, s, c in PATHS)]
    (tmp_path / "places.csv").write_text("\n".join(lines))
    entry = {"name": "place", "type": "hierarchy", "columns": COLUMNS}
    document = {"features": [entry | {"tree": "places.csv"}]}
    (tmp_path / "domain.json").write_text(json.dumps(document))
    read = mm.Domain.from_json(tmp_path / "domain.json").attributes[0]
    assert read.labels == WHERE.labels
    assert read.levels.keys() == {"Region", "State"}
    entry["columns"] = ["Region", "County", "City"]
    (tmp_path / "domain.json").write_text(json.dumps({"features": [
        entry | {"tree": "places.csv"}]}))  # fmt: skip
    with pytest.raises(ValueError, match="has no column named 'County'"):
        mm.Domain.from_json(tmp_path / "domain.json")


@pytest.mark.parametrize(
    ("row", "column", "problem"),
    [
        (["N", "SECRET", "A"], "State", "a value outside the domain"),
        (["W", "B", "A"], "State", "a value that the tree does not have below those"),
        ([None, "N", "A"], "Region", "a missing value"),
        (["N", "N", "SECRET"], "City", "a value outside the domain"),
        (["N", "N", "B"], "City", "a value outside the domain"),
        (["SECRET", "B", "A"], "Region", "a value outside the domain"),
        (["N", "B", "SECRET"], "State", "a value that the tree does not have"),
    ],
)
def test_a_path_that_is_not_there_follows_the_policies(row, column, problem):
    rows, ledger = [[0, *PATHS[0]], [1, *row]], mm.PrivacyLedger(1)
    with pytest.raises(ValueError, match=f"row 1, column '{column}' .* {problem}") as e:
        mm.release_tables(rows, SPREAD, ways=1, epsilon=1, ledger=ledger)
    assert "SECRET" not in str(e.value)
    assert ledger.spent == 0
    misfit = SPREAD.check(rows)[0]
    assert (misfit.row, misfit.column) == (1, column)
    drop = {"handle_unknown": "drop", "handle_missing": "drop"}
    assert SPREAD.encode(rows, **drop).tolist() == [[0, 0]]
    other = mm.Attribute.hierarchy("place", [*PATHS, ("?", "?", "?")], columns=COLUMNS)
    domain, category = SPREAD.select(["age"]), dict.fromkeys(drop, "category")
    domain = mm.Domain([*domain.attributes, other])
    assert domain.encode(rows, **category)[1].tolist() == [1, len(PATHS)]
    assert domain.encode([[0, None, None, ""]])[0].tolist() == [0, len(PATHS)]
    with pytest.raises(ValueError, match="column 'City' of X holds a missing value"):
        domain.encode([[0, "N", "N", ""]])
    named = mm.Attribute.hierarchy("p", PATHS, columns=COLUMNS, other=list(PATHS[3]))
    assert mm.Domain([named]).encode([row], **category).tolist() == [[3]]


def test_columns_that_do_not_fit_are_refused():
    frame, _ = spread(9)
    ledger = mm.PrivacyLedger(1)
    with pytest.raises(
        ValueError, match="no column named 'State', but exactly one is need"
    ):
        mm.release_tables(
            frame.drop(columns="State"), SPREAD, ways=1, epsilon=1, ledger=ledger
        )
    assert ledger.spent == 0
    tables = ["City", "State", ("Region", "age")]
    with pytest.raises(ValueError, match="must be one of 'age', 'Region', 'State', 'C"):
        mm.release_tables(frame, SPREAD, tables=["place"], epsilon=1)
    assert mm.release_tables(None, SPREAD, tables=tables, epsilon=1, dry_run=True)
    with pytest.raises(ValueError, match="'State' occurs twice"):
        mm.Domain([WHERE, mm.Attribute.categorical("State", ["x"])])
    with pytest.raises(ValueError, match="'place' of a schema must be in one column"):
        mmech_rf.Schema([WHERE], ["no", "yes"])


def test_tables_over_several_columns_are_those_of_whole_names(tmp_path):
    """Released with known totals and a statistic, written, and drawn from."""
    frame, at = spread(400)
    frame["number"] = at / 10
    nested = {}
    for region, state, city in PATHS:
        below = nested.setdefault(region, {}).setdefault(f"{region} / {state}", [])
        below.append(f"{region} / {state} / {city}")
    whole = mm.Attribute.hierarchy("City", nested, levels=COLUMNS[:2])
    age, number = SPREAD.attributes[0], mm.Attribute.numeric("number", lower=0, upper=2)
    states = WHERE.at_level("State")._cells_by_column
    counts = np.bincount(WHERE.nodes("State")[at])
    known = pd.DataFrame(states | {"count": counts})[::-1]
    made = []
    for domain, X, total in [
        (mm.Domain([age, WHERE, number]), frame, known),
        (
            mm.Domain([age, whole, number]),
            frame.assign(City=[whole.labels[i] for i in at]),
            counts,
        ),
    ]:
        with pytest.warns(mm.exceptions.PrivacyLeakWarning, match="insecure_rng"):
            made.append(mm.release_tables(
                X, domain, tables=[("age", "State"), "City"], known={"State": total},
                statistics=Sum("number", by="State", share=0.5), share=0.5, epsilon=9,
                insecure_rng=5,
            ))  # fmt: skip
    own, other = made
    for table in own.tables:
        one, two = own.table(table), other.table(table)
        for column in ("count", "standard_error", "lower", "upper"):
            assert (one[column] == two[column]).all()
    assert own.table("State")["count"].tolist() == counts.tolist()
    one, two = (made.statistic("sum of number by State") for made in (own, other))
    assert [*one][:3] == ["Region", "State", "sum"]
    assert one["sum"].tolist() == two["sum"].tolist()
    drawn = own.sample(200, seed=0)
    assert (own.plan.domain.encode(drawn[["age", *COLUMNS]])[:, 1] < 14).all()
    folder = own.write(tmp_path / "tables", excel=False)
    lines = (folder / "age_x_State.csv").read_text().splitlines()
    assert lines[0].startswith("age,Region,State,count,")
    assert [line[:6] for line in lines[1:3]] == ["0,N,N,", "0,N,A,"]
    described = json.loads((folder / "City.csv-metadata.json").read_text())
    assert described["tableSchema"]["primaryKey"] == ["c1", "c2", "c3"]
    plain = mm.release_tables(frame, SPREAD, tables=["State"], epsilon=1)
    assert verify.main([str(plain.write(tmp_path / "plain", excel=False))]) == 0
    kept = tmp_path / "kept"
    own.measured.save(kept)
    again = mm.MeasuredTables.load(kept)
    assert again.plan.domain == own.plan.domain
    assert again.finish().table("City").equals(own.table("City"))
    assert [*again.statistics[0].columns(0.9)][:3] == ["Region", "State", "sum"]


@pytest.mark.slow
def test_factors_of_weights_have_the_least_error_of_average_cells():
    plan = plan_of("two, pairs", epsilon=1)
    weights = plan.strategy.strategy.weights
    assert sum(weights.values()) == pytest.approx(1)
    even = mm.StrategyResult(
        mm.Marginals(plan.axes.shape, dict.fromkeys(weights, 1 / len(weights))),
        "marginals", 1.0,
    )  # fmt: skip
    errors = [
        np.square(own.errors(frame="dict")["standard_error"]).sum()
        for own in (plan, replace(plan, strategy=even))
    ]
    assert errors[0] < 0.8 * errors[1]
