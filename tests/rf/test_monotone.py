"""Monotone attributes: what they may be, and models that keep to them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.isotonic import isotonic_regression

from mmech import Attribute
from mmech_rf import PrivateForestClassifier, Schema, limits
from mmech_rf.estimator.monotone import MonotoneGrid, isotonic
from mmech_rf.estimator.shown import importances

# ---- the schema ----------------------------------------------------------------


def level(name="level", values=("low", "mid", "high"), **options):
    return Attribute.ordinal(name, list(values), **options)


def test_files_keep_directions(tmp_path):
    schema = Schema(
        [level(monotone=-1), Attribute.numeric("age", cut_points=[40], monotone=1)],
        ["no", "yes"],
    )
    schema.to_json(tmp_path / "schema.json")
    entries = json.loads((tmp_path / "schema.json").read_text())["features"]
    assert [entry["monotone"] for entry in entries] == [-1, 1]
    assert Schema.from_json(tmp_path / "schema.json") == schema
    assert schema.monotone == {"level": -1, "age": 1}


# ---- isotonic regression ---------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_regression_of_lines(seed):
    rng = np.random.default_rng(seed)
    lines = rng.integers(-2000, 2000, (30, 1 + 9 * seed)).astype(float)
    expected = [isotonic_regression(line) for line in lines]
    np.testing.assert_allclose(isotonic(lines), expected, atol=0.5 + 1e-9)


def test_isotonic_regression_keeps_the_order_of_lines(rng):
    lines = rng.integers(-20, 20, (500, 12))
    above = lines + rng.integers(0, 3, lines.shape)
    assert (isotonic(lines + 0.0) <= isotonic(above + 0.0)).all()


# ---- what follows what -----------------------------------------------------------

DIRECTED = Schema(
    [
        level("a", monotone=1),
        Attribute.categorical("b", ["x", "y"]),
        Attribute.numeric("c", cut_points=[0, 1, 2], other="unknown", monotone=-1),
        level("d", ["no", "?", "yes"], monotone=1),
    ],
    ["never", "sometimes", "always"],
)
CELLS = np.array(list(np.ndindex(*DIRECTED.domain_shape)))


def followers():
    """Pairs of cells, of which the second is one step further on."""
    place = {tuple(cell): i for i, cell in enumerate(CELLS.tolist())}
    for cell in CELLS.tolist():
        for i, attribute in enumerate(DIRECTED.attributes):
            if attribute.monotone is None or cell[i] == attribute.other_code:
                continue
            known = [c for c in range(attribute.size) if c != attribute.other_code]
            onwards = known[:: attribute.monotone]
            for code in onwards[onwards.index(cell[i]) + 1 :][:1]:
                yield place[tuple(cell)], place[(*cell[:i], code, *cell[i + 1 :])]


FIRST, SECOND = map(np.array, zip(*followers(), strict=True))


# ---- models ----------------------------------------------------------------------

PLANS = {
    "one tree": {"epsilon": 0.5, "n_records": 50},
    "trees that vote": {"epsilon": 8, "n_records": 50},
    "scores": {"epsilon": 1, "n_records": 300},
    "views of scores": {"epsilon": 1, "n_records": 3000},
    "boosting": {"epsilon": 10, "n_records": 3000},
    "not much noise": {"epsilon": 1000, "n_records": 3000},
}  # fmt: skip


def readable(codes, schema=DIRECTED):
    """Raw values that the schema reads as these codes."""
    rows = schema.decode(codes)
    for i, attribute in enumerate(schema.attributes):
        if attribute.kind == "numeric":
            values = [*attribute.cut_points, 1e9, None]
            rows[:, i] = np.array(values, object)[codes[:, i]]
    return rows


def check_keeps_to_it(model):
    """Look at all pairs of records of which the second is one step further on."""
    rows, schema = readable(CELLS), model.schema_
    classes = schema.encode_target(model.predict(rows))
    assert (classes[FIRST] <= classes[SECOND]).all()
    found = model.predict_proba(rows)
    later = found[:, ::-1].cumsum(axis=1)  # exact: multiples of a power of two
    assert (later[FIRST] <= later[SECOND]).all()
    assert (found >= 0).all()
    assert (later[:, -1] == 1).all()


def fitted(seed, k=3, schema=DIRECTED, **settings):
    """A model of records that are as often against the directions as with them."""
    schema = replace(schema, class_labels=schema.class_labels[:k])
    rng = np.random.default_rng([seed, k])
    codes = CELLS[rng.integers(0, len(CELLS), 400)]
    y = np.array(schema.class_labels)[(codes[:, 0] + rng.integers(0, 2, 400)) % k]
    model = PrivateForestClassifier(schema, handle_missing="category", **settings)
    return model.fit(readable(codes), y)


@pytest.mark.by_day(4)
@pytest.mark.usefixtures("scores_of_few")
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("k", [2, 3])
def test_a_model_keeps_to_directions_in_all_cells(plan, k):
    check_keeps_to_it(fitted(0, k, **PLANS[plan]))


def test_without_directions_it_would_not():
    plain = replace(
        DIRECTED,
        attributes=tuple(replace(a, monotone=None) for a in DIRECTED.attributes),
    )
    with pytest.raises(AssertionError):
        check_keeps_to_it(fitted(0, schema=plain, **PLANS["not much noise"]))


def test_private_bins_keep_to_directions():
    numbers = Attribute.numeric("x", lower=-1e6, upper=1e6, monotone=1)
    schema = Schema([numbers, Attribute.categorical("z", [0, 1])], [0, 1])
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=2000), rng.integers(0, 2, 2000)])
    model = PrivateForestClassifier(
        schema, epsilon=5, n_records=2000, private_bins="all"
    )
    model.fit(X, np.abs(X[:, 0]) < 0.3)
    queries = np.column_stack([np.linspace(-5, 5, 500), np.zeros(500)])
    assert (np.diff(model.predict_proba(queries)[:, 1]) >= 0).all()


def test_what_does_not_fall_by_itself_stays(rng):
    grid = MonotoneGrid(DIRECTED.attributes)

    def probabilities(codes):
        a, b, c, d = codes.T
        known = np.where(DIRECTED.attributes[2].other_code == c, 7, -c)
        score = 2 * a + b + known + np.array([0, -4, 1])[d]
        odds = np.array([0.0, 0.5, 0.7]) * score[:, None] - [0, 1, 2]
        return softmax(odds, axis=1)

    queries = CELLS[rng.permutation(len(CELLS))[:40]]
    found = probabilities(queries)
    later = np.column_stack([found[:, 1:].sum(axis=1), found[:, 2]])
    np.testing.assert_allclose(grid.later(queries, probabilities), later, atol=1e-10)


def test_more_classes_stay_more_likely_than_fewer(rng):
    grid = MonotoneGrid(DIRECTED.attributes)
    table = rng.dirichlet(np.full(3, 0.3), len(CELLS)).reshape(
        *DIRECTED.domain_shape, 3
    )
    later = grid.later(CELLS, lambda codes: table[tuple(codes.T)])
    assert (later[:, 0] >= later[:, 1]).all()
    assert (later[:, 1] >= 0).all()
    assert (later[FIRST] <= later[SECOND]).all()


def test_records_are_looked_at_in_parts():
    model = fitted(0, **PLANS["one tree"])
    whole = model.predict_proba(readable(CELLS))
    with limits.changed(monotone_numbers=7):
        np.testing.assert_array_equal(model.predict_proba(readable(CELLS)), whole)
        assert model.predict_proba(readable(CELLS[:0])).shape == (0, 3)


# ---- what is shown ---------------------------------------------------------------


def test_directions_are_shown():
    model = fitted(0, **PLANS["one tree"])
    text = model.describe()
    assert "Later classes are never less likely for more of a.\n" in text
    assert "Later classes are never more likely for more of c.\n" in text
    assert model.card()["monotone"] == {"a": 1, "c": -1, "d": 1}
    assert "never more likely for more of c." in model.to_html()


def test_importances_are_those_before_directions_are_kept():
    model = fitted(0, **PLANS["not much noise"])
    shape = DIRECTED.domain_shape
    expected = importances(model._experts.probabilities, shape)
    np.testing.assert_array_equal(model.feature_importances_, expected)
    kept = importances(lambda codes: model.predict_proba(readable(codes)), shape)
    assert np.abs(kept - expected).max() > 1e-3
