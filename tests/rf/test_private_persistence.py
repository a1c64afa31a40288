"""Forests of drawn trees as files."""

import pickle
import zipfile

import numpy as np
import pytest
from model_files import (
    add_to,
    description,
    drop_last,
    find,
    refused_when_changed,
    rewrite,
    set_class,
    set_in,
)
from refusals import refused
from rf_cases import SCHEMA, records

from mmech import BudgetExceededError, PrivacyLeakWarning, PrivacyLedger
from mmech_rf import Attribute, PrivateForestClassifier, Schema, datasets, load_model
from mmech_rf.drawn.draw import Fork
from mmech_rf.drawn.settings import DrawnSettings
from mmech_rf.drawn.views import public_views

pytestmark = pytest.mark.usefixtures("scores_of_few")

CAR = datasets.load_car()
TWO = Schema(SCHEMA.attributes, ("no", "yes"))
DAMAGED = "is not a model file or is damaged"

DRAWN = PrivateForestClassifier
MODELS = {
    "one tree": (DRAWN, SCHEMA, {"epsilon": "1/3", "n_records": 1}),
    "scores": (DRAWN, SCHEMA, {"epsilon": "1/3", "n_records": 3000}),
    "noisy number": (DRAWN, SCHEMA, {"neighbours": "replace"}),
    "several trees": (DRAWN, SCHEMA, {"n_records": 16_000}),
    "sums and pairs": (DRAWN, CAR.schema, {"n_records": 1728}),
    "pairs of records": (DRAWN, SCHEMA, {"records_per_person": 2}),
}


def fitted(name, **options):
    forest, schema, settings = MODELS[name]
    model = forest(schema, **({"epsilon": 2} | settings | options))
    return model.fit(*data(schema))


def data(schema):
    if schema is CAR.schema:
        return CAR.data, CAR.target
    X, y = records(300)
    return X, np.where(y == "maybe", "no", y) if schema is TWO else y


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def reloaded(model, path):
    model.save(path)
    return load_model(path)


def normal(choice):
    """A choice that compares: NaN is not equal to itself."""
    return {k: None if v != v else v for k, v in vars(choice).items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_equal_after_reloading(name, path):
    model = fitted(name)
    copy = reloaded(model, path)
    assert type(copy) is type(model)
    assert copy.schema_ == model.schema_
    assert copy.releases_ == model.releases_
    assert copy.privacy_statement_ == model.privacy_statement_
    assert normal(copy.choice_) == normal(model.choice_)
    assert copy.describe() == model.describe()
    X, _ = data(model.schema_)
    assert copy.predict(X).tolist() == model.predict(X).tolist()
    assert copy.predict(X).dtype == model.predict(X).dtype
    assert copy.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    ours, theirs = copy.get_params(), model.get_params()
    same = {name: theirs[name] for name in ("schema", "epsilon", "ledger")}
    assert ours | same == theirs
    assert copy.epsilon == sum(entry.cost for entry in copy.releases_)
    assert len(getattr(copy, "trees_", ())) == len(getattr(model, "trees_", ()))
    assert (len(getattr(model, "trees_", ())) > 5) == (name == "several trees")
    for ours, theirs in zip(copy.ensembles_, model.ensembles_, strict=True):
        assert ours.epsilon == theirs.epsilon
        assert ours.features.tolist() == theirs.features.tolist()


def test_third_levels_are_there_after_reloading(path):
    settings = DrawnSettings(third_level=0.999)
    model = fitted("several trees", settings=settings)
    assert any(isinstance(b, Fork) for tree in model.trees_ for b in tree.branches)
    copy = reloaded(model, path)
    assert copy.describe(n_trees=99) == model.describe(n_trees=99)
    X, _ = data(model.schema_)
    assert copy.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


def test_forks_that_do_not_fit_are_refused():
    view = public_views((2, 2)).items[1]
    Fork(view, (None, view)).check((2, 2))
    with pytest.raises(ValueError, match="branches that do not fit"):
        Fork(view, (None,)).check((2, 2))
    for fork in (Fork(view, (None, None)), Fork(view, (view, None))):
        with pytest.raises(ValueError, match="tables that do not fit"):
            fork.check((3, 2))


@pytest.mark.parametrize("name", ["one tree", "scores"])
def test_a_loaded_model_is_spent_and_can_be_saved_again(name, path):
    model = fitted(name, ledger=PrivacyLedger(100))
    X, y = data(model.schema_)
    copy = reloaded(model, path)
    first = path.read_bytes()
    with pytest.raises(BudgetExceededError):
        copy.fit(X, y)
    assert copy.predict(X).tolist() == model.predict(X).tolist()
    again = pickle.loads(pickle.dumps(copy))
    assert again.predict(X).tolist() == model.predict(X).tolist()
    reloaded(copy, path)
    assert path.read_bytes() == first
    copy.set_params(ledger=None).fit(X, y)  # a budget of its own


def test_what_was_fitted_is_saved_and_not_what_was_set_later(path):
    model = fitted("one tree")
    X, _ = data(SCHEMA)
    labels = model.predict(X).tolist()
    copy = reloaded(model.set_params(neighbours="replace"), path)
    assert "adding or removing" in copy.privacy_statement_
    assert copy.predict(X).tolist() == labels


def test_a_schema_read_from_records_stays_a_confession(path, rng):
    X, y = rng.normal(size=(60, 2)), np.repeat([1, 2, 3], 20)
    with pytest.warns(PrivacyLeakWarning):
        model = PrivateForestClassifier(epsilon=1).fit(X, y)
    copy = reloaded(model, path)
    assert "NOT COVERED" in copy.privacy_statement_
    assert copy.predict(9 * X).tolist() == model.predict(9 * X).tolist()


def test_the_file_holds_released_numbers_only(path):
    """Trees, labels, scores and their errors; every view once; nothing per record."""
    model = fitted("several trees")
    model.save(path)
    content = description(path)
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        text = archive.read("description.json").decode()
    additive = model._experts.additive
    n_arrays = 2 * (1 + len(additive.views))
    assert n_arrays == 2 * (1 + model.choice_.n_scores) > 2
    for tree in model.trees_:
        n_arrays += len(tree.labels) + 2
    assert names == {"description.json", *(f"array_{i}.npy" for i in range(n_arrays))}
    assert "seconds" not in text
    assert "rng" not in text
    views = [view for tree in model.trees_ for view in tree.views]
    views = {id(view) for view in (*views, *additive.views)}
    stored = [entry for entry in content["entries"] if "View" in entry["class"]]
    assert len(stored) == len(views)
    with np.load(path) as arrays:
        constant = arrays[
            f"array_{find(content, 'AdditiveScores', 'constant')['array']}"
        ]
        np.testing.assert_array_equal(constant, additive.constant)
        scores = find(content, "experts", "scores")
        for place, tree in zip(scores, model.trees_, strict=True):
            assert arrays[f"array_{place['array']}"].shape == (tree.n_leaves, 3)


@pytest.mark.parametrize("shape", [(2, 3), (2,) * 8, (40, 3, 100), (3, 2, 2, 1)])
def test_all_public_views_are_what_readers_take(shape):
    """The reader knows the families that trees are made of, and their limits."""
    for view in public_views(shape).items:
        view.check(shape)


# ---- files that must be refused ------------------------------------------------


CHANGES = [
    set_in("terms", "records_per_person", to=0),
    set_in("terms", "neighbours", to="friends"),
    set_in("experts", "trees", to=[]),
    drop_last("experts", "trees"),
    set_in("SelectedTree", "root", to={"entry": -1}),
    set_in("SelectedTree", "root", to={"entry": 99}),
    drop_last("SelectedTree", "branches"),
    set_in("SelectedTree", "branches", 0, to={"entry": 0}),
    set_in("SelectedTree", "branches", 0, to="x"),
    set_in("SelectedTree", "labels", to={"array": 1}),
    set_in("experts", "scores", 0, to={"array": 0}),
    set_in("entries", to=[]),
    set_in("View", "attributes", to=[]),
    set_in("View", "attributes", to=[6]),
    set_in("View", "attributes", to=[True]),
    set_in("View", "attributes", to=[-1]),
    set_in("View", "tables", to=[]),
    drop_last("View", "tables", 0),
    set_in("View", "tables", 0, 0, to=-(2**40)),
    set_in("View", "tables", 0, 0, to=0.5),
    set_in("View", "cuts", to=[3, 2]),
    add_to("View", "size"),
    set_in("View", "size", to=10**6),
    set_in("View", "family", to="magic"),
    set_in("choice", "n_trees", to=2),
    set_in("choice", "method", to="magic"),
    set_in("choice", "voting", to="log-odds"),
    set_in("choice", "n_records", to=0),
    set_in("choice", "n_records", to="many"),
    set_in("choice", "stated", to=1),
    set_in("parameters", "n_records", to=-1),
    set_in("parameters", "records_per_person", to=0),
    set_in("parameters", "prior", to=None),
]


def test_descriptions_of_trees_that_do_not_fit(path):
    model = fitted("one tree")
    while model.trees_[0].root.family == "whole":
        model = fitted("one tree")
    model.save(path)
    refused_when_changed(path, CHANGES, load_model)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_class("BatchTrainingClassifier"), "has BatchTrainingClassifier with o"),
        (set_in("choice", "surprise", to=1), "has Choice with other .*surprise"),
        (set_in("surprise", to=1), "has PrivateForestClassifier with other .*surprise"),
    ],
)
def test_models_of_another_version_are_refused_in_a_sentence(change, reason, path):
    fitted("one tree").save(path)
    rewrite(path, change)
    refused(lambda: load_model(path), reason, ValueError)


CHANGED_ARRAYS = [
    (0, lambda a: a[:-1]),
    (0, lambda a: a - 5),
    (0, lambda a: a + 4),
    (0, lambda a: 0 * a + 3),
    (0, lambda a: a[None]),
    (0, lambda a: a.astype(np.int32)),
    (1, lambda a: a[:, 1:].copy()),
    (1, lambda a: a[1:]),
    (1, lambda a: a + np.inf),
    (1, lambda a: a * np.nan),
    (1, lambda a: a.astype(np.int64)),
]


def test_arrays_of_trees_that_do_not_fit(path):
    """Labels of the first cell, or scores of all leaves."""
    fitted("one tree").save(path)
    scores = find(description(path), "experts", "scores")[0]["array"]
    changes = [(scores if own else 0, change) for own, change in CHANGED_ARRAYS]
    refused_when_changed(path, changes, load_model)


@pytest.mark.parametrize("name", ["one tree", "scores"])
def test_any_changed_byte_is_noticed_or_harmless(name, path, rng):
    model = fitted(name)
    X, _ = data(model.schema_)
    model.save(path)
    whole = path.read_bytes()
    labels = model.predict(X).tolist()
    for place in rng.choice(len(whole), 30, replace=False):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        try:
            copy = load_model(path)
        except ValueError:
            continue
        assert copy.predict(X).tolist() == labels


def test_labels_keep_their_type(path):
    schema = Schema([Attribute.ordinal("a", ["x", "y"])], [False, True])
    model = PrivateForestClassifier(schema, epsilon=50, n_records=40)
    model.fit([["x"], ["y"]] * 20, ["0", "1"] * 20)
    copy = reloaded(model, path)
    assert copy.predict([["x"], ["y"]]).tolist() == [False, True]
