"""Monotone attributes: what they may be, and models that keep to them."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from rf_cases import PRIVATE, classifier, some_scores
from sklearn.isotonic import isotonic_regression

from mmech import Attribute
from mmech.privacy.neighbours import Relation
from mmech_rf import (
    DrawnForestClassifier,
    PrivateForestClassifier,
    RecipeForestClassifier,
    Schema,
    load_model,
)
from mmech_rf.cli import main
from mmech_rf.drawn.draw import select_tree
from mmech_rf.drawn.monotone import (
    cell_orders,
    isotonic,
    monotone_steps,
    moves,
    tree_order,
)
from mmech_rf.drawn.scores import score_views
from mmech_rf.drawn.views import Views, public_views

# ---- the schema ----------------------------------------------------------------


def level(name="level", values=("low", "mid", "high"), **options):
    return Attribute.ordinal(name, list(values), **options)


@pytest.mark.parametrize("direction", [0, 2, True, "up", 0.5])
def test_a_direction_is_one_up_or_one_down(direction):
    with pytest.raises(ValueError, match=r"^monotone of attribute 'level' must be 1"):
        level(monotone=direction)


def test_categories_without_an_order_have_no_direction():
    with pytest.raises(ValueError, match="'colour' is categorical and has no order"):
        Attribute.categorical("colour", ["red", "blue"], monotone=1)


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


def test_a_file_of_records_is_checked_against_it(tmp_path, capsys):
    schema = tmp_path / "schema.json"
    Schema([level(monotone=1)], ["no", "yes"]).to_json(schema)
    data = tmp_path / "data.csv"
    data.write_text("level,class\nlow,no\n")
    main(["schema", "check", str(data), str(schema)])
    assert "1 of 1 records fit" in capsys.readouterr().out
    schema.write_text(schema.read_text().replace("ordinal", "categorical"))
    assert main(["schema", "check", str(data), str(schema)]) == 2
    assert "has no order to be monotone in" in capsys.readouterr().err


@pytest.mark.parametrize("name", PRIVATE)
def test_who_does_not_keep_to_it_refuses(name):
    schema = Schema([level(monotone=1), level("other"), level("third")], ["no", "yes"])
    with pytest.raises(ValueError, match=r"no monotone attributes for a .* got level;"):
        classifier(name, schema=schema).fit([["low"] * 3], ["no"])


@pytest.mark.parametrize(
    "model",
    [
        PrivateForestClassifier(epsilon="1e-6"),
        RecipeForestClassifier(epsilon=1, recipe="spe"),
    ],
)
def test_so_do_forests_that_are_chosen(model):
    model.set_params(schema=Schema([level(monotone=1)], ["no", "yes"]))
    with pytest.raises(ValueError, match="no monotone attributes for a"):
        model.fit([["low"]], ["no"])


# ---- isotonic regression ---------------------------------------------------------


def some_order(rng, n):
    """Random preorder: members may be below each other."""
    below = rng.random((n, n)) < 1.2 / n
    np.fill_diagonal(below, True)
    return np.linalg.matrix_power(below.astype(int), n) > 0


def max_min(values, weights, below):
    """Max over upper sets, min over lower sets of mean values: Robertson and Wright."""
    n = len(values)
    sets = [np.array(s, bool) for s in itertools.product([0, 1], repeat=n)]
    upper = [s for s in sets if not (s[:, None] & below & ~s).any()]

    def mean(member):
        return np.average(values[member], weights=weights[member])

    return [
        max(
            min(mean(u & ~v) for v in upper if not v[i]) for u in upper if u[i]
        )
        for i in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_isotonic_regression_in_a_partial_order(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=6), rng.uniform(0.1, 3, 6)
    below = some_order(rng, 6)
    found = isotonic(values, weights, below)
    np.testing.assert_allclose(found, max_min(values, weights, below), atol=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_regression_of_a_chain(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=40), rng.uniform(0.1, 3, 40)
    found = isotonic(values, weights, np.triu(np.ones((40, 40), bool)))
    expected = isotonic_regression(values, sample_weight=weights)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_votes_that_are_in_order_stay_but_for_a_shift(rng):
    steps = np.cumsum(rng.integers(0, 9, (7, 2)), axis=0)
    votes = np.pad(np.cumsum(steps, axis=1), ((0, 0), (1, 0)))
    chain = np.triu(np.ones((7, 7), bool))
    found = monotone_steps(votes, np.ones((7, 3)), chain)
    np.testing.assert_array_equal(np.diff(found), steps)


def test_what_is_sure_moves_less():
    votes, precision = np.array([[0, 100], [0, -100]]), np.array([[9, 9], [1, 1.0]])
    found = monotone_steps(votes, precision, np.triu(np.ones((2, 2), bool)))
    assert np.diff(found).ravel().tolist() == [80, 80]


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
ORDERS = cell_orders(DIRECTED.attributes)
CELLS = np.array(list(np.ndindex(*DIRECTED.domain_shape)))


def followers(cells):
    """Pairs of records, of which the second is one step further on."""
    place = {tuple(cell): i for i, cell in enumerate(cells.tolist())}
    for cell in cells.tolist():
        for i, attribute in enumerate(DIRECTED.attributes):
            if attribute.monotone is None or cell[i] == attribute.other_code:
                continue
            known = [c for c in range(attribute.size) if c != attribute.other_code]
            onwards = known[:: attribute.monotone]
            after = onwards[onwards.index(cell[i]) + 1 :][:1]
            for code in after:
                yield place[tuple(cell)], place[(*cell[:i], code, *cell[i + 1 :])]


FIRST, SECOND = map(np.array, zip(*followers(CELLS), strict=True))
REACHED = np.eye(len(CELLS), dtype=bool)
REACHED[FIRST, SECOND] = True
REACHED = np.linalg.matrix_power(REACHED.astype(int), 9) > 0
"""Which records may follow which, in any number of steps."""


def among(cells, size):
    """Which cells follow which, as all records show it."""
    out = np.zeros((size, size), bool)
    first, second = np.nonzero(REACHED)
    out[cells[first], cells[second]] = True
    return out


def test_moves_of_views_are_found():
    further = score_views(some_scores(DIRECTED.domain_shape, 3))
    for view in (*public_views(DIRECTED.domain_shape).items, *further):
        shown = among(view.cells(CELLS), view.size)
        found = moves(view, ORDERS)
        assert not (shown & ~found).any()
        if not view.cuts:
            assert (found == (shown | np.eye(view.size, dtype=bool))).all()
        if not {0, 2, 3} & set(view.attributes):
            assert (found == np.eye(view.size)).all()


def some_tree(rng, predicted=None):
    """A tree as records without a pattern make it."""
    views = public_views(DIRECTED.domain_shape)
    views = Views((*views.items, *score_views(some_scores(DIRECTED.domain_shape, 3))))
    codes = CELLS[rng.integers(0, len(CELLS), 40)]
    return select_tree(
        views,
        views.cells(codes),
        rng.integers(0, 3, 40),
        n_classes=3,
        epsilon=0.7,
        n_records=40,
        predicted=predicted,
        third_level=0.5,
        relation=Relation("add_remove"),
        pay=lambda: None,
        noise=rng,
    )


@pytest.mark.parametrize("seed", range(15))
def test_leaves_that_follow_each_other_are_found(seed):
    rng = np.random.default_rng(seed)
    tree = some_tree(rng)
    found = tree_order(tree, ORDERS)
    shown = among(tree.leaves(CELLS), tree.n_leaves)
    assert not (shown & ~found).any()
    assert (found @ found == found).all()
    if all(not view.cuts for view in tree.views):
        used = np.bincount(tree.leaves(CELLS), minlength=tree.n_leaves) > 0
        whole = np.linalg.matrix_power(shown.astype(int), tree.n_leaves + 1) > 0
        assert (found[np.ix_(used, used)] == whole[np.ix_(used, used)]).all()


# ---- models ----------------------------------------------------------------------

PLANS = {
    "one tree": {"epsilon": 0.5, "n_records": 50},
    "trees that vote": {"epsilon": 8, "n_records": 50},
    "scores": {"epsilon": 1, "n_records": 300},
    "views of scores": {"epsilon": 1, "n_records": 3000},
    "boosting": {"epsilon": 10, "n_records": 3000},
    "boosting by rho": {
        "epsilon": 1, "n_records": 60_000, "privacy": "zcdp", "delta": 1e-6
    },
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


def check_keeps_to_it(model, cells=CELLS):
    """Look at all pairs of records of which the second is one step further on."""
    rows, schema = readable(cells), model.schema_
    first, second = map(np.array, zip(*followers(cells), strict=True))
    steps = np.diff(model._experts.log_odds(cells), axis=1)
    assert (steps[first] <= steps[second]).all()
    classes = schema.encode_target(model.predict(rows))
    assert (classes[first] <= classes[second]).all()
    later = model.predict_proba(rows)[:, ::-1].cumsum(axis=1)
    assert (later[first] <= later[second] + 1e-12).all()


def fitted(seed, k=3, schema=DIRECTED, **settings):
    """A model of records that are as often against the directions as with them."""
    schema = replace(schema, class_labels=schema.class_labels[:k])
    rng = np.random.default_rng([seed, k])
    codes = CELLS[rng.integers(0, len(CELLS), 400)]
    y = np.array(schema.class_labels)[(codes[:, 0] + rng.integers(0, 2, 400)) % k]
    model = PrivateForestClassifier(schema, handle_missing="category", **settings)
    return model.fit(readable(codes), y)


@pytest.mark.usefixtures("scores_of_few")
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_model_keeps_to_directions_in_all_cells(plan, k, seed):
    check_keeps_to_it(fitted(seed, k, **PLANS[plan]))


def test_without_directions_it_would_not():
    plain = replace(
        DIRECTED,
        attributes=tuple(replace(a, monotone=None) for a in DIRECTED.attributes),
    )
    with pytest.raises(AssertionError):
        check_keeps_to_it(fitted(0, schema=plain, **PLANS["not much noise"]))


@pytest.mark.usefixtures("scores_of_few")
def test_a_file_keeps_to_directions(tmp_path):
    model = fitted(0, **PLANS["scores"])
    assert model._experts.limits is not None
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    check_keeps_to_it(again)
    for own in ("predict", "predict_proba"):
        np.testing.assert_array_equal(
            getattr(again, own)(readable(CELLS)), getattr(model, own)(readable(CELLS))
        )


def test_private_bins_keep_to_directions():
    numbers = Attribute.numeric("x", lower=-1e6, upper=1e6, monotone=1)
    schema = Schema([numbers, Attribute.categorical("z", [0, 1])], [0, 1])
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=2000), rng.integers(0, 2, 2000)])
    model = DrawnForestClassifier(schema, epsilon=5, n_records=2000, private_bins="all")
    model.fit(X, np.abs(X[:, 0]) < 0.3)
    queries = np.column_stack([np.linspace(-5, 5, 500), np.zeros(500)])
    assert (np.diff(model.predict_proba(queries)[:, 1]) >= 0).all()


@pytest.mark.usefixtures("scores_of_few")
@pytest.mark.parametrize("plan", PLANS)
def test_directions_that_records_show_by_themselves_change_nothing_much(plan):
    """A model of records in order is not made worse by saying so."""
    attribute = level(values=range(6))
    X = np.repeat(np.arange(6), 300)[:, None]
    y = X[:, 0] > 2
    found = []
    for direction in (None, 1):
        schema = Schema([replace(attribute, monotone=direction)], [False, True])
        settings = PLANS[plan] | {"epsilon": 50}
        model = PrivateForestClassifier(schema, **settings).fit(X, y)
        found.append(model.score(X, y))
    assert found == [1.0, 1.0]


# ---- what is shown ---------------------------------------------------------------


def test_directions_are_shown():
    model = fitted(0, **PLANS["one tree"])
    text = model.describe()
    assert "Later classes are never less likely for more of a.\n" in text
    assert "Later classes are never more likely for more of c.\n" in text
    assert model.card()["monotone"] == {"a": 1, "c": -1, "d": 1}
    assert "never more likely for more of c." in model.to_html()


def test_pictures_show_directions():
    pytest.importorskip("matplotlib")
    figure = fitted(0, **PLANS["not much noise"]).plot(n_trees=1)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert {"a ↑", "b", "c ↓", "d ↑"} >= set(labels)
    assert "a ↑" in labels
