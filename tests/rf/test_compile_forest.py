"""Forests that scikit-learn has fitted: the same leaves, or a refusal with a remedy."""

import itertools
import pickle

import numpy as np
import pytest
from refusals import refused
from schema_cases import schema_of
from sklearn import ensemble, tree
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import mmech
from mmech import MatrixMechanism, optimize
from mmech.storage import codec
from mmech_rf import (
    Attribute,
    Forest,
    Schema,
    aggregation_workload,
    compile_forest,
    grow_random_forest,
    prediction_workload,
    training_workload,
)
from mmech_rf.forest.from_sklearn import CompiledForest

MODELS = [
    getattr(home, f"{name}{task}")(random_state=0, **options)
    for home, name, options in (
        (tree, "DecisionTree", {}),
        (tree, "ExtraTree", {"max_leaf_nodes": 9}),
        (ensemble, "RandomForest", {"n_estimators": 3}),
        (ensemble, "ExtraTrees", {"n_estimators": 3}),
        (ensemble, "GradientBoosting", {"n_estimators": 3}),
    )
    for task in ("Classifier", "Regressor")
]
CODED = schema_of("c3", "o4", "n5")
"""A nominal attribute, one with an order, and a number."""


def name_of(model):
    return type(model).__name__


def assert_same_leaves(found, model, X):
    """Leaf ids (N, n_trees) name the same sets of records as scikit-learn's nodes."""
    theirs = np.reshape(model.apply(X), (len(X), -1)).astype(int)
    assert found.shape == theirs.shape
    for own, nodes in zip(found.T, theirs.T, strict=True):
        pairs = len({*zip(own.tolist(), nodes.tolist(), strict=True)})
        assert pairs == len(np.unique(own)) == len(np.unique(nodes))


def numbers(rng, n=60):
    """Decimals of several sizes, with three classes."""
    scales = np.array([100.0, 1.0, 1e9])
    X = np.round(rng.uniform(-1, 1, (n, 3)), 2) * scales
    return X, rng.integers(0, 3, n), Schema.from_bounds(-scales, scales, [0, 1, 2])


# ---- leaves ------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_leaves_of_codes_on_every_cell(model, rng):
    cells = np.array([*np.ndindex(CODED.domain_shape)])
    codes = cells[rng.integers(0, len(cells), 50)]
    model.fit(codes, rng.integers(0, 3, 50))
    forest = compile_forest(model, CODED, fitted_on="codes", public=True)
    assert_same_leaves(forest.apply_domain().T, model, cells)
    fitted = [model] if hasattr(model, "tree_") else np.ravel(model.estimators_)
    wanted = [one.tree_.n_leaves for one in fitted]
    np.testing.assert_array_equal(np.diff(forest.leaf_offsets), wanted)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_leaves_of_values_on_every_cell(model, rng):
    X, y, schema = numbers(rng, n=12)
    model.fit(X, y)
    schema = schema.with_cut_points(model)
    forest = compile_forest(model, schema, fitted_on="values", public=True)
    edges = [[a.lower, *a.cut_points, a.upper] for a in schema.attributes]
    middles = [np.convolve(own, [0.5, 0.5], "valid") for own in edges]
    cells = np.array([*itertools.product(*middles)])
    np.testing.assert_array_equal(
        schema.encode(cells), [*np.ndindex(schema.domain_shape)]
    )
    assert_same_leaves(forest.apply(schema.encode(cells)), model, cells)


@pytest.mark.parametrize(
    "model",
    [
        tree.DecisionTreeClassifier(random_state=0),
        ensemble.ExtraTreesClassifier(4, random_state=0),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("column", [0, 1, 2])
def test_neighbours_of_every_threshold(model, column, rng):
    """Numbers next to it, of 32 and of 64 bits, reach the leaves of ``apply``."""
    X, y, schema = numbers(rng)
    X, schema = X[:, [column]], schema.select([schema.names[column]])
    model.fit(X, y)
    schema = schema.with_cut_points(model)
    forest = compile_forest(model, schema, fitted_on="values", public=True)
    fitted = [model] if hasattr(model, "tree_") else model.estimators_
    near = np.concatenate([one.tree_.threshold for one in fitted])
    near = np.append(near, schema.attributes[0].cut_points)
    near = near[near != -2]
    narrow = near.astype(np.float32)
    for end in (-np.inf, np.inf):
        near = np.append(near, np.nextafter(narrow, np.float32(end)))
    near = np.append(near, narrow)
    near = np.concatenate(
        [near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)]
    )
    assert_same_leaves(forest.apply(schema.encode(near[:, None])), model, near[:, None])


def test_a_record_at_a_threshold_falls_where_scikit_learn_puts_it():
    """Of 32 bits, 0.3 is above the threshold 0.3, which is of 64."""
    model = tree.DecisionTreeClassifier().fit([[0.2], [0.4]], [0, 1])
    (threshold, *_) = model.tree_.threshold
    schema = Schema.from_bounds([0], [1], [0, 1]).with_cut_points(model)
    forest = compile_forest(model, schema, fitted_on="values", public=True)
    for x in (0.3, float(np.float32(0.3)), threshold):
        left = np.float32(x) <= threshold
        assert forest.apply(schema.encode([[x]]))[0, 0] == 1 - left


def test_a_tree_without_a_test():
    model = tree.DecisionTreeClassifier().fit([[0], [1]], [0, 0])
    schema = schema_of("o2")
    for fitted_on in ("codes", "values"):
        forest = compile_forest(model, schema, fitted_on=fitted_on, public=True)
        assert forest.paths(schema) == ["any record"]


def test_the_lines_of_the_book(rng):
    """Forest, T, counts, private leaves, QTᵀ and votes; exact without noise."""
    X, y, schema = numbers(rng)
    model = ensemble.RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    schema = schema.with_cut_points(model)
    X_new = X[:5]
    forest = compile_forest(model, schema, fitted_on="values", public=True)
    T = training_workload(forest)
    D = mmech.count(X, schema, y=y)
    leaves = MatrixMechanism(T, optimize(T), epsilon=1).answer(D)
    codes = schema.encode(X_new)
    QTt = aggregation_workload(forest, codes)
    votes = QTt @ leaves
    assert leaves.shape == (forest.n_leaves, 3)
    assert votes.shape == (5, 3)
    exact = forest.count_leaves(*schema.encode(X, y), 3)
    cells = mmech.Identity(T.shape[1])
    for workload, wanted in (
        (T, exact),
        (prediction_workload(forest, codes), QTt @ exact),
    ):
        answers = MatrixMechanism(workload, cells, epsilon=10**6).answer(D)
        np.testing.assert_allclose(answers, wanted, atol=0.01)


# ---- the statement, and words ------------------------------------------------


def test_a_forest_keeps_its_statement(tmp_path, rng):
    codes = rng.integers(0, CODED.domain_shape, (40, 3))
    model = tree.DecisionTreeClassifier().fit(codes, rng.integers(0, 2, 40))
    forest = compile_forest(model, CODED, fitted_on="codes", public=True)
    codec.write(tmp_path / "forest", "forest", forest)
    for kept in (
        codec.read(tmp_path / "forest", "forest", Forest),
        pickle.loads(pickle.dumps(forest)),
    ):
        assert kept.origin == forest.origin
        np.testing.assert_array_equal(kept.apply(codes), forest.apply(codes))
    assert "DecisionTreeClassifier, which its user stated to be public" in forest.origin
    assert grow_random_forest(CODED, 1, 1, seed=0).origin == ""
    arrays = forest.__reduce__()[1][:-2]
    refused(lambda: CompiledForest(*arrays, "private. Not"), "name of a class")


def test_paths_name_sets_and_the_thresholds_of_the_model():
    model = tree.DecisionTreeClassifier().fit([[20], [41], [60]], [0, 1, 0])
    ages = Schema.from_bounds([0], [100], [0, 1], names=["age"]).with_cut_points(model)
    forest = compile_forest(model, ages, fitted_on="values", public=True)
    assert forest.paths(ages) == [
        "age up to 30.5", "age 30.5 to 50.5", "age above 50.5",
    ]  # fmt: skip
    shape = Schema([Attribute.categorical("shape", ["round", "oval", "flat"])], [0, 1])
    codes = tree.DecisionTreeClassifier().fit([[0], [1], [2]], [0, 0, 1])
    forest = compile_forest(codes, shape, fitted_on="codes", public=True)
    assert forest.paths(shape) == ["shape in {round, oval}", "shape in {flat}"]
    refused(lambda: forest.paths(schema_of("c2")), r"domain \(3,\) of .*, got \(2,\)")


# ---- refusals ----------------------------------------------------------------


class SomeColumns(ensemble.RandomForestClassifier):
    estimators_features_ = ()


BOOSTED = [
    type("XGBClassifier", (), {"__module__": "xgboost.sklearn"})(),
    type("LGBMClassifier", (), {"__module__": "lightgbm.sklearn"})(),
]
TREE = tree.DecisionTreeClassifier()
KINDS = [
    (make_pipeline(TREE), "Pipeline; pass its last step, and encode first"),
    (GridSearchCV(TREE, {}), "GridSearchCV; pass its best_estimator_"),
    (ensemble.AdaBoostClassifier(), "AdaBoostClassifier; compile each of its"),
    (ensemble.VotingClassifier([("tree", TREE)]), "VotingClassifier; compile each"),
    (ensemble.StackingRegressor([("tree", TREE)]), "StackingRegressor; compile each"),
    (ensemble.IsolationForest(), "IsolationForest; its trees look for outliers"),
    (ensemble.BaggingClassifier(), "BaggingClassifier; its trees may see some columns"),
    (SomeColumns(), "SomeColumns; its trees may see some columns"),
    (
        ensemble.HistGradientBoostingClassifier(),
        "; its trees have bins .* of their own",
    ),
    *((model, "trees of other libraries are not read") for model in BOOSTED),
    (LogisticRegression(), "LogisticRegression; fit one of them"),
    (ensemble.RandomTreesEmbedding(), "RandomTreesEmbedding; fit one of them"),
]


@pytest.mark.parametrize(("model", "words"), KINDS, ids=lambda case: name_of(case))
def test_models_of_another_kind_are_refused_by_name(model, words):
    schema = schema_of("n3")
    refused(lambda: schema.with_cut_points(model), words, TypeError)
    both = {"fitted_on": "values", "public": True}
    refused(lambda: compile_forest(model, schema, **both), words, TypeError)


def test_both_statements_are_needed():
    schema = schema_of("o3")
    model = tree.DecisionTreeClassifier().fit([[0], [1], [2]], [0, 1, 0])
    with pytest.raises(TypeError, match="'fitted_on' and 'public'"):
        compile_forest(model, schema)
    private = {"fitted_on": "codes", "public": False}
    words = "thresholds tell about single records, so fit the model to public ones"
    refused(lambda: compile_forest(model, schema, **private), words, ValueError)
    unsaid = {"fitted_on": "codes", "public": None}
    refused(lambda: compile_forest(model, schema, **unsaid), "True or False", TypeError)
    unknown = {"fitted_on": "code", "public": True}
    refused(lambda: compile_forest(model, schema, **unknown), "'codes', 'values'")
    own = {"fitted_on": "codes", "public": True}
    refused(lambda: compile_forest(model, [3], **own), "must be a Schema", TypeError)


def test_columns_are_compared():
    frame = pytest.importorskip("pandas").DataFrame({"x1": [0, 1, 2], "x0": [1, 0, 0]})
    schema = schema_of("o3", "o3")
    both = {"fitted_on": "codes", "public": True}
    named = tree.DecisionTreeClassifier().fit(frame, [0, 1, 0])
    words = "columns x0, x1 of the schema, in this order, got x1, x0; .* schema.select"
    refused(lambda: compile_forest(named, schema, **both), words)
    forest = compile_forest(named, schema.select(["x1", "x0"]), **both)
    assert forest.n_trees == 1
    unnamed = tree.DecisionTreeClassifier().fit(frame.to_numpy(), [0, 1, 0])
    more = schema_of("o3", "o3", "o3")
    refused(lambda: compile_forest(unnamed, more, **both), "in this order, got 2")
    new = tree.DecisionTreeClassifier()
    refused(
        lambda: compile_forest(new, schema, **both), "must be fitted, got a new Dec"
    )


def test_a_model_of_values_is_no_model_of_codes():
    """The tree on ages that a compiler of codes alone got wrong, and its kin."""
    ages = Schema.from_bounds([0], [100], [0, 1])
    both = {"fitted_on": "codes", "public": True}
    words = "0 to 9 .* fit the model to schema.encode"
    for X in ([[3.5], [3.88]], [[20], [41]], [[-5], [-3]]):
        model = tree.DecisionTreeClassifier().fit(X, [0, 1])
        refused(lambda: compile_forest(model, ages, **both), words)  # noqa: B023
    model = tree.ExtraTreeClassifier(random_state=0)
    model.fit([[3.1], [3.5], [3.9]], [0, 1, 0])
    refused(lambda: compile_forest(model, ages, **both), "codes pass and fail")


def test_thresholds_must_be_cut_points_of_numbers():
    model = tree.DecisionTreeClassifier().fit([[20], [41]], [0, 1])
    both = {"fitted_on": "values", "public": True}

    def compiled(*attributes):
        return compile_forest(model, Schema(attributes, [0, 1]), **both)

    words = r"at 30.500\d+, where .* threshold 30.5; use schema.with_cut_points\(mod"
    for cut in (30.0, 30.5):
        age = Attribute.numeric("age", cut_points=[cut])
        refused(lambda: compiled(age), words)  # noqa: B023
    narrow = Schema.from_bounds([0], [30], [0, 1])
    refused(lambda: narrow.with_cut_points(model), "0.0 to 30.0, .* widen the bounds")
    words = "ordinal, but thresholds are values .* pass fitted_on='codes'"
    refused(lambda: compiled(Attribute.ordinal("age", [20, 41])), words)
    words = "a cell for unknown and missing values.* leave other out"
    unknown = Attribute.numeric("age", cut_points=[30], other="?")
    refused(lambda: compiled(unknown), words)
    refused(lambda: Schema([unknown], [0, 1]).with_cut_points(model), words)


@pytest.mark.parametrize(
    "X",
    [
        [[1], [2], [np.nan]],  # on the right with no number
        [[np.nan], [np.nan], [1], [2], [2], [2]],  # on the left with the fewer
    ],
)
def test_trees_that_send_missing_values_are_refused(X):
    y = [0, 0, 1] if len(X) == 3 else [0, 0, 0, 1, 1, 1]
    model = tree.DecisionTreeClassifier().fit(X, y)
    schema = Schema.from_bounds([0], [10], [0, 1])
    refused(lambda: schema.with_cut_points(model), "not send missing .* fill them in")


def test_attributes_that_are_not_tested_stay_as_they_are():
    schema = Schema.from_bounds([0, 0], [10, 10], [0, 1], n_bins=3)
    model = tree.DecisionTreeClassifier().fit([[1, 5], [2, 5]], [0, 1])
    assert schema.with_cut_points(model).attributes[1] == schema.attributes[1]
    assert schema.with_cut_points(model).domain_shape == (2, 3)
