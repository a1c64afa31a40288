"""Released models as files: equal after reloading, nothing secret, nothing trusted."""

import copy
import json
import math
import pickle
import re
import zipfile
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from model_files import (
    add_to,
    description,
    drop_last,
    find,
    in_evidence,
    refused_when_changed,
    rewrite,
    set_class,
    set_in,
)
from refusals import refused
from replay_cases import MONOTONE, NUMBERS
from rf_cases import SCHEMA, records

import mmech as mm
import mmech_rf as rf
from mmech.storage import codec as _codec
from mmech_rf.drawn.views import public_views

pytestmark = pytest.mark.usefixtures("scores_of_few")

CAR = rf.datasets.load_car()
RECIPES = rf.recipes()
DAMAGED = "is not a model file or is damaged"
OTHER_FIT = "that does not follow from its evidence, or costs something else"
SMALL = {"epsilon": "1/3", "n_trees": 7, "depth": 2, "random_state": 3}
TRAINING = SMALL | {"template": "identity"}
DRAWN = {"schema": SCHEMA, "epsilon": 2}
RANKING = rf.DrawnSettings.for_ranking()


def all_models():
    """Return classes and settings by name, of every kind of model that is released."""
    in_rho = [{"ledger": mm.PrivacyLedger("1/18", currency="rho")} for _ in range(3)]
    few = {"settings": rf.DrawnSettings(score_share="1/7", signal_to_noise=2)}
    training = {
        "training": {}, "by weight": {"voting": "weight", "splits": "binary"},
        "all trees": {"n_trees": math.inf, "depth": 3},
        "ensembles": {"n_ensembles": 3, "max_features": 4, "splits": "threshold"},
        "parts": {"n_ensembles": 3, "max_features": "partition"},
        "replaced": {"neighbours": "replace", "epsilon": 0.1},
        "shared ledger": {"ledger": mm.PrivacyLedger("1/3")}, "paid in rho": in_rho[0],
    }  # fmt: skip
    laplace = {
        "laplace 0": {}, "laplace 1": {"data": "disjoint", "n_ensembles": 2},
        "laplace 2": {"n_trees": math.inf, "n_ensembles": 2}, "laplace 3": in_rho[1],
    }  # fmt: skip
    drawn = {
        "one tree": {"epsilon": "1/3", "n_records": 1},
        "scores": {"epsilon": "1/3", "n_records": 3000},
        "noisy number": {"neighbours": "replace"}, "the least": {"epsilon": "1e-5"},
        "several trees": {"n_records": 16_000},
        "own settings": few,
        "sums and pairs": {"schema": CAR.schema, "n_records": 1728},
        "pairs of records": {"records_per_person": 2},
        "in rho": {"epsilon": "1/3"} | in_rho[2],
        "ranking": {"n_records": 200, "settings": RANKING},
        "boosting for ranking": {"n_records": 10**5, "settings": RANKING},
        "accuracy": {"estimate_accuracy": True},
        "monotone": {"schema": MONOTONE, "n_records": 3000},
        "private bins": {"schema": NUMBERS, "private_bins": "all"},
        "a ledger of its own": {"ledger": mm.PrivacyLedger(2)},
        "labels of numbers": {"schema": of_numbers([0.5, 1.5])},
        "labels of truth": {"schema": of_numbers([False, True])},
    }  # fmt: skip
    found = {
        name: (cls, common | own)
        for cls, common, named in (
            (rf.BatchTrainingClassifier, TRAINING, training),
            (rf.LaplaceForestClassifier, SMALL, laplace),
            (rf.PrivateForestClassifier, DRAWN, drawn),
        )
        for name, own in named.items()
    }
    own = rf.Recipe(n_trees=2, depth=1, grid=3)
    changed = RECIPES["jpw"].replace(n_trees=2)
    for name, recipe in dict(RECIPES, own=own, changed=changed).items():
        labels = "labels" if recipe.guarantee == "labels" else "add_remove"
        given = {"epsilon": 2, "neighbours": labels, "recipe": recipe}
        if name in RECIPES:
            given["recipe"] = name
        found[f"recipe {name}"] = rf.RecipeForestClassifier, given
    return found


def of_numbers(labels):
    return rf.Schema(SCHEMA.attributes, labels)


MODELS = all_models()


def data(schema):
    if schema is CAR.schema:
        return CAR.data, CAR.target
    rows, labels = records(300)
    if set(labels) <= {*schema.class_labels}:
        return rows, labels
    return rows, np.resize(schema.class_labels, 300).astype(str)


def fit(model, X, y):
    recipe = getattr(model, "recipe", None)
    if recipe and (RECIPES[recipe] if isinstance(recipe, str) else recipe).unlabelled:
        return model.fit(X[300:], y[300:], X_unlabelled=X[:300])
    return model.fit(X, y)


def fitted(name, **options):
    cls, settings = MODELS[name]
    model = cls(**({"schema": CAR.schema} | settings | options))
    return fit(model, *data(model.schema))


BOTH = pytest.mark.parametrize(
    "cls", [rf.BatchTrainingClassifier, rf.PrivateForestClassifier]
)
known = cache(fitted)
"""Fitted once, for tests that leave it as it is."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def reloaded(model, path):
    model.save(path)
    return rf.load_model(path)


def follows_from(model, X):
    """Return what follows from what was released, as text and bytes."""
    votes = [getattr(model, name)(X) for name in VOTES if hasattr(model, name)]
    return (
        model.describe(n_trees=99),
        *((own.dtype, own.tobytes()) for own in votes),
        model.feature_importances_.tobytes(),
    )


VOTES = ("predict", "predict_proba")


def check_equal(twin, model, path):
    """Compare all that was released, bit by bit: the file holds all of it."""
    assert type(twin) is type(model)
    for name in ("schema_", "releases_", "privacy_statement_", "accuracy_"):
        assert getattr(twin, name) == getattr(model, name)
    whole = path.read_bytes()
    twin.save(path)
    assert path.read_bytes() == whole
    ours, theirs = twin.get_params(), model.get_params()
    same = {name: theirs[name] for name in ("schema", "epsilon", "ledger")}
    if "recipe" in theirs:
        same["recipe"] = theirs["recipe"]
        assert twin.recipe_ == model.recipe_
    assert ours | same == theirs


@pytest.mark.by_day(7)
@pytest.mark.parametrize("name", MODELS)
def test_copies_are_equal_and_spent(name, path):
    model = known(name)
    X, y = data(model.schema)
    loaded, pickled = reloaded(model, path), pickle.loads(pickle.dumps(model))
    expected = follows_from(model, X[::7])
    for twin in (loaded, pickled, copy.copy(model), copy.deepcopy(model)):
        check_equal(twin, model, path)
        with pytest.raises(mm.BudgetExceededError):
            fit(twin, X, y)
        check_equal(twin, model, path)
        assert follows_from(twin, X[::7]) == expected
    fit(loaded.set_params(ledger=None), X, y)  # a budget of its own


FEW = (
    "training", "paid in rho", "laplace 0", "scores", "accuracy", "own settings",
    "recipe spe", "recipe sspe-1", "recipe pte",
)  # fmt: skip
"""Kinds of models whose evidence is looked at every day."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FEW)) for n in MODELS]
)
def test_models_with_the_evidence_of_another_fit_are_refused(name, path):
    """With the numbers of another one, or half of its prices."""
    model, other = known(name), fitted(name, ledger=None).evidence_
    ours, theirs = ([v.tolist() for v in e.values] for e in (model.evidence_, other))
    half = json.dumps(halved(model.evidence_.content))
    for text in [other.text] * (ours != theirs) + [half]:
        model.save(path)
        rewrite(path, set_in("Evidence", "text", to=text))
        refused(lambda: rf.load_model(path), OTHER_FIT, ValueError)


def halved(node):
    """Return evidence whose prices are half as large, all of them."""
    if isinstance(node, list):
        return [*map(halved, node)]
    if not isinstance(node, dict):
        return node
    return {
        key: str(Fraction(part) / 2) if key == "paid" else halved(part)
        for key, part in node.items()
    }


@BOTH
def test_a_schema_read_from_records_stays_a_confession(cls, path, rng):
    X, y = rng.normal(size=(30, 2)), np.repeat([1, 2, 3], 10)
    with pytest.warns(mm.PrivacyLeakWarning):
        model = cls(epsilon=1).fit(X, y)
    twin = reloaded(model, path)
    assert "NOT COVERED" in twin.privacy_statement_
    assert twin.predict(9 * X).tolist() == model.predict(9 * X).tolist()


def test_what_was_fitted_is_saved_and_not_what_was_set_later(path):
    model = fitted("one tree")
    X, _ = data(SCHEMA)
    labels = model.predict(X).tolist()
    twin = reloaded(model.set_params(neighbours="replace"), path)
    assert "adding or removing" in twin.privacy_statement_
    assert twin.predict(X).tolist() == labels


@pytest.mark.parametrize("name", ["training", "several trees"])
def test_the_file_holds_released_numbers_only(name, path):
    """Nothing of the fit, and nothing per record; NumPy reads them by itself."""
    model = fitted(name, random_state=np.random.default_rng(5))
    model.save(path)
    content = description(path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("description.json").decode()
        names = set(archive.namelist()) - {"description.json"}
    words = {word.strip('"\\') for word in re.findall(r'"\w+\\*"', text)}
    assert words.isdisjoint({"timings_", "timings", "seconds", "rng"})
    assert "parameters" in words
    # It would give away nothing, nor help.
    assert find(content, "parameters", "random_state") is None
    assert set(find(content, "parameters")).isdisjoint({"ledger", "insecure_rng"})
    assert json.loads(find(content, "Evidence", "text")) == model.evidence_.content
    assert names == {f"array_{i}.npy" for i in range(content["arrays"])}
    n_records = len(data(model.schema_)[1])
    with np.load(path) as arrays:
        assert not any(n_records in arrays[own[:-4]].shape for own in names)


def test_the_file_says_that_predictable_noise_is_void(path):
    with pytest.warns(mm.PrivacyLeakWarning, match="insecure_rng"):
        model = fitted("training", insecure_rng=0)
    twin = reloaded(model, path)
    assert json.loads(find(description(path), "Evidence", "text"))["insecure"]
    assert all(entry.insecure for entry in twin.releases_)
    assert "this statement is void" in twin.privacy_statement_


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (rf.BatchPredictionClassifier, "holds exact counts of the records"),
        (rf.SubsampleAggregateClassifier, "save the labels it predicted"),
        (rf.NonPrivateForestClassifier, "only models made of released numbers"),
    ],
)
def test_what_holds_exact_counts_is_not_saved(cls, reason, path):
    options = {} if cls is rf.NonPrivateForestClassifier else {"epsilon": 1}
    model = cls(CAR.schema, n_trees=2, depth=4, **options).fit(CAR.data, CAR.target)
    refused(lambda: model.save(path), reason, TypeError)
    if hasattr(model, "close"):
        model.close()
        refused(lambda: model.save(path), reason, TypeError)
    assert not path.exists()


def test_no_class_that_holds_exact_counts_is_storable():
    models = [k.cls for k in _codec._KINDS.values() if hasattr(k.cls, "_holds_secrets")]
    assert rf.BatchTrainingClassifier in models
    assert not any(cls._holds_secrets for cls in models)


@BOTH
def test_a_model_must_be_fitted(cls, path):
    with pytest.raises(ValueError, match="not fitted yet"):
        cls(CAR.schema, epsilon=1).save(path)
    assert not path.exists()


@pytest.mark.parametrize("shape", [(2, 3), (2,) * 8, (40, 3, 100), (3, 2, 2, 1)])
def test_all_public_views_are_what_readers_take(shape):
    """The reader knows the families that trees are made of, and their limits."""
    for view in public_views(shape).items:
        view.check(shape)


# ---- files that must be refused ------------------------------------------------


def test_a_file_of_something_else(path):
    known("training").save(path)
    refused(lambda: mm.load(path), "holds a 'model', not a strategy", ValueError)
    mm.save(path, mm.Identity(2))
    refused(lambda: rf.load_model(path), "holds a 'strategy', not a model", ValueError)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_class("BatchTrainingClassifier"), "has BatchTrainingClassifier with o"),
        (set_in("choice", "surprise", to=1), "has Choice with other .*surprise"),
        (set_in("releases", to=[]), "has PrivateForestClassifier with .*releases"),
        (lambda file: find(file, "choice").pop("rounds"), "Choice with .*rounds"),
    ],
)
def test_models_of_another_version_are_refused_in_a_sentence(change, reason, path):
    """A true one: nothing is damaged."""
    known("one tree").save(path)
    rewrite(path, change)
    refused(lambda: rf.load_model(path), reason, ValueError)


CHANGES = {
    "training": [
        set_in("terms", "neighbours", to="none"),
        set_in("terms", to={"neighbours": "replace"}),
        set_in("parameters", "epsilon", to={"fraction": "0"}),
        set_in("parameters", "epsilon", to={"float": "nan"}),
        set_in("parameters", "n_trees", to=0),
        set_in("parameters", "voting", to="loud"),
        set_in("parameters", "handle_missing", to="guess"),
        set_in("parameters", "insecure_rng", to=1),
        set_in("schema", "document", "features", to=[]),
        set_in("schema", "document", "target", "categories", to=["a", "b", "c"]),
        set_in("schema", to={"entry": 0}), set_in("columns", to=["buying"]),
        set_in("columns", to=[1, 2, 3, 4, 5, 6]), set_in("tie_key", to=-1),
        set_in("arrays", to=99), set_in("ensembles", to=[]),
        set_in("ensembles", 0, "features", to={"array": 1}),
        set_in("ensembles", 0, "forest", "child", to=-2),
        set_in("ensembles", 0, "epsilon", to={"fraction": "1/0"}),
        in_evidence("cost", "of", to=[]),
        in_evidence("cost", "of", 0, "kind", to="magic"),
        in_evidence("cost", "of", 0, "released", to=""), (0, lambda a: a[::-1].copy()),
        (1, lambda a: a + 1), (2, lambda a: a[:-1]), (2, lambda a: a.astype(np.int64)),
        (4, lambda a: a + 1), (5, lambda a: a[:, :-1].copy()),
        (5, lambda a: a + np.inf), (5, lambda a: a.astype(np.float32)),
        (6, lambda a: a + 4), (6, lambda a: a[1:]),
    ],
    "a tree": [
        set_in("terms", "records_per_person", to=0), set_in("experts", "trees", to=[]),
        drop_last("experts", "trees"), set_in("SelectedTree", "root", to={"entry": 99}),
        drop_last("SelectedTree", "branches"),
        set_in("SelectedTree", "branches", 0, to={"entry": 0}),
        set_in("SelectedTree", "branches", 0, to="x"),
        set_in("SelectedTree", "labels", to={"array": 1}),
        set_in("experts", "scores", 0, to={"array": 0}), set_in("entries", to=[]),
        set_in("View", "attributes", to=[]), set_in("View", "attributes", to=[6]),
        set_in("View", "attributes", to=[True]), set_in("View", "attributes", to=[-1]),
        set_in("View", "tables", to=[]), drop_last("View", "tables", 0),
        set_in("View", "tables", 0, 0, to=-(2**40)),
        set_in("View", "tables", 0, 0, to=0.5), set_in("View", "cuts", to=[3, 2]),
        add_to("View", "size"), set_in("View", "family", to="magic"),
        set_in("choice", "n_trees", to=2), set_in("choice", "n_records", to=0),
        set_in("choice", "stated", to=1), set_in("parameters", "prior", to=None),
    ],
    "in rho": [
        in_evidence("cost", "of", 0, "paid", to="a lot"),
        in_evidence("currency", to="delta"), set_in("parameters", "epsilon", to="0"),
    ],
}  # fmt: skip
"""Changes of descriptions, and of arrays by number.

Arrays of training: attributes, tested attributes, children, offsets, counts, labels.
"""


CHANGES_OF_TREES = [
    (0, lambda a: a[:-1]), (0, lambda a: a - 5), (0, lambda a: a + 4),
    (0, lambda a: 0 * a + 3), (0, lambda a: a[None]), (0, lambda a: a.astype(np.int32)),
    (1, lambda a: a[:, 1:].copy()), (1, lambda a: a[1:]), (1, lambda a: a + np.inf),
    (1, lambda a: a * np.nan), (1, lambda a: a.astype(np.int64)),
]  # fmt: skip
"""Of labels of the first cell, or of the scores of all leaves."""


def with_a_test():
    """A model of one tree, which is drawn until it has a test."""
    while (model := fitted("one tree")).trees_[0].root.family == "whole":
        pass
    return model


@pytest.mark.parametrize("name", CHANGES)
def test_what_does_not_fit_is_refused(name, path):
    (with_a_test() if name == "a tree" else known(name)).save(path)
    refused_when_changed(path, CHANGES[name], rf.load_model)


def test_arrays_of_trees_that_do_not_fit(path):
    known("one tree").save(path)
    scores = find(description(path), "experts", "scores")[0]["array"]
    changes = [(scores if own else 0, change) for own, change in CHANGES_OF_TREES]
    refused_when_changed(path, changes, rf.load_model)


@pytest.mark.parametrize("cost", ["1/25000", "2", "-1", "0"])
def test_costs_of_a_file_add_up_to_its_total(path, cost):
    known("training").save(path)
    rewrite(path, in_evidence("cost", "of", 0, "paid", to=cost))
    with pytest.raises(ValueError, match=DAMAGED):
        rf.load_model(path)
    rewrite(path, in_evidence("cost", "paid", to=cost))
    if cost != "1/25000":  # more than epsilon, or nothing at all
        with pytest.raises(ValueError, match=DAMAGED):
            rf.load_model(path)


@pytest.mark.parametrize("depth", [1, 20])
def test_forests_that_would_be_too_large_are_not_made(path, depth):
    fitted("training", n_trees=math.inf).save(path)
    rewrite(path, set_in("CompleteForest", "domain_shape", to=[2**20] * 30))
    rewrite(path, set_in("CompleteForest", "depth", to=depth))
    with pytest.raises(ValueError, match=r"is damaged.*\(DomainTooLargeError\)"):
        rf.load_model(path)


@pytest.mark.parametrize("name", ["one tree", "scores"])
def test_any_changed_byte_is_noticed_or_harmless(name, path, rng):
    model = known(name)
    X, _ = data(model.schema_)
    model.save(path)
    whole = path.read_bytes()
    labels = model.predict(X).tolist()
    for place in rng.choice(len(whole), 30, replace=False):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        try:
            twin = rf.load_model(path)
        except ValueError:
            continue
        assert twin.predict(X).tolist() == labels
