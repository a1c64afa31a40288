"""Released models as files: equal after reloading, nothing secret, nothing trusted."""

import json
import math
import pickle
import zipfile

import numpy as np
import pytest
from model_files import description, find, refused_when_changed, rewrite, set_in
from refusals import refused

import mmech as mm
import mmech_rf as rf
from mmech.storage import codec as _codec

CAR = rf.datasets.load_car()
SMALL = {"epsilon": "1/3", "n_trees": 7, "depth": 2, "random_state": 3}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def fitted(cls=rf.BatchTrainingClassifier, schema=CAR.schema, **options):
    if cls is not rf.LaplaceForestClassifier:
        options = {"template": "identity"} | options
    return cls(schema, **(SMALL | options)).fit(CAR.data, CAR.target)


def reloaded(model, path):
    model.save(path)
    return rf.load_model(path)


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (rf.BatchTrainingClassifier, {}),
        (rf.BatchTrainingClassifier, {"voting": "weight", "splits": "binary"}),
        (rf.BatchTrainingClassifier, {"n_trees": math.inf, "depth": 3}),
        (rf.BatchTrainingClassifier,
         {"n_ensembles": 3, "max_features": 4, "splits": "threshold"}),
        (rf.BatchTrainingClassifier, {"n_ensembles": 3, "max_features": "partition"}),
        (rf.BatchTrainingClassifier, {"neighbours": "replace", "epsilon": 0.1}),
        (rf.LaplaceForestClassifier, {}),
        (rf.LaplaceForestClassifier, {"data": "disjoint", "n_ensembles": 2}),
        (rf.LaplaceForestClassifier, {"n_trees": math.inf, "n_ensembles": 2}),
    ],
)  # fmt: skip
def test_a_model_is_equal_after_reloading(cls, options, path):
    model = fitted(cls, **options)
    copy = reloaded(model, path)
    assert type(copy) is cls
    assert copy.schema_ == model.schema_
    assert copy.releases_ == model.releases_
    assert copy.privacy_statement_ == model.privacy_statement_
    assert copy.expected_error_ == model.expected_error_
    assert copy.classes_.dtype == model.classes_.dtype
    for ours, theirs in zip(copy.ensembles_, model.ensembles_, strict=True):
        assert ours.epsilon == theirs.epsilon
        assert type(ours.forest) is type(theirs.forest)
        for name in ("feature", "child", "node_offsets", "leaf_offsets", "value"):
            np.testing.assert_array_equal(
                getattr(ours.forest, name), getattr(theirs.forest, name)
            )
    for name in ("leaf_counts_", "leaf_labels_"):
        for ours, theirs in zip(getattr(copy, name), getattr(model, name), strict=True):
            assert ours.tobytes() == theirs.tobytes()
    labels = copy.predict(CAR.data)
    assert labels.dtype == model.predict(CAR.data).dtype
    assert labels.tolist() == model.predict(CAR.data).tolist()
    different = {"schema", "epsilon", "ledger"}
    ours, theirs = copy.get_params(), model.get_params()
    for name in ours.keys() - different:
        assert ours[name] == theirs[name]
    spent = sum(entry.cost for entry in copy.releases_)
    assert float(copy.epsilon) == pytest.approx(float(spent))


def test_ties_are_broken_by_the_key_of_the_saved_model(path):
    """Two trees disagree on every record: only the key decides, and it is saved."""
    model = fitted(n_trees=2, depth=1)
    model.leaf_labels_[0][: model.ensembles_[0].forest.leaf_offsets[1]] = 0
    model.leaf_labels_[0][model.ensembles_[0].forest.leaf_offsets[1] :] = 1
    copy = reloaded(model, path)
    labels = model.predict(CAR.data)
    assert len(set(labels)) == 2
    assert copy.predict(CAR.data).tolist() == labels.tolist()
    copy._tie_key ^= 1
    assert copy.predict(CAR.data).tolist() != labels.tolist()


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [0.5, 1.5], ["no", "yes"]])
def test_labels_keep_their_type(labels, path):
    schema = rf.Schema([rf.Attribute.ordinal("a", ["x", "y"])], labels)
    model = rf.BatchTrainingClassifier(schema, epsilon=50, n_trees=2)
    model.fit([["x"], ["y"]] * 20, [str(v) for v in labels * 20])
    copy = reloaded(model, path)
    assert copy.predict([["x"], ["y"]]).tolist() == labels
    assert copy.predict([["x"]]).dtype == np.array(labels).dtype


def test_files_do_not_tell_the_type_of_the_target(path):
    schema = rf.Schema([rf.Attribute.ordinal("a", ["x", "y"])], [0, 1])
    described = []
    for target in ([0, 1], [0.0, 1.0], ["0", "1"], ["0", 1]):
        model = rf.BatchTrainingClassifier(schema, epsilon=1, n_trees=2, insecure_rng=0)
        with pytest.warns(mm.PrivacyLeakWarning):
            model.fit([["x"], ["y"]], target).save(path)
        described.append(description(path))
    assert described[1:] == described[:-1]


def test_a_schema_read_from_records_stays_a_confession(path, rng):
    X, y = rng.normal(size=(30, 2)), np.repeat([1, 2, 3], 10)
    with pytest.warns(mm.PrivacyLeakWarning):
        model = rf.BatchTrainingClassifier(epsilon=1, n_trees=2).fit(X, y)
    copy = reloaded(model, path)
    assert "NOT COVERED" in copy.privacy_statement_
    beyond = 9 * rng.normal(size=(30, 2))
    assert copy.predict(beyond).tolist() == model.predict(beyond).tolist()


def test_a_loaded_model_cannot_be_refitted_on_the_old_budget(path):
    for ledger in (None, mm.PrivacyLedger(100)):
        copy = reloaded(fitted(ledger=ledger), path)
        before = copy.predict(CAR.data).tolist()
        with pytest.raises(mm.BudgetExceededError):
            copy.fit(CAR.data, CAR.target)
        assert copy.predict(CAR.data).tolist() == before
    copy.set_params(ledger=None).fit(CAR.data, CAR.target)  # a budget of its own


def test_a_loaded_model_can_be_saved_and_pickled_again(path):
    copy = reloaded(fitted(), path)
    first = path.read_bytes()
    again, other = reloaded(copy, path), pickle.loads(pickle.dumps(copy))
    assert again.predict(CAR.data).tolist() == other.predict(CAR.data).tolist()
    assert path.read_bytes() == first


def test_the_file_holds_released_numbers_only(path):
    model = fitted(random_state=np.random.default_rng(5))
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        content = json.loads(archive.read("description.json"))
        text = archive.read("description.json").decode()
        names = set(archive.namelist())
    assert names == {"description.json", *(f"array_{i}.npy" for i in range(7))}
    assert "timings_" not in text
    assert "seconds" not in text
    assert "rng" not in text
    # It would give away nothing, nor help.
    assert find(content, "parameters", "random_state") is None
    assert find(content, "privacy_statement") == model.privacy_statement_
    assert set(find(content, "parameters")).isdisjoint({"ledger", "insecure_rng"})
    with np.load(path) as arrays:  # NumPy reads them without this package
        np.testing.assert_array_equal(arrays["array_5"], model.leaf_counts_[0])


def test_the_file_says_that_predictable_noise_is_void(path):
    with pytest.warns(mm.PrivacyLeakWarning, match="insecure_rng"):
        model = fitted(insecure_rng=0)
    assert all(entry.insecure for entry in model.ledger_.entries)
    copy = reloaded(model, path)
    with zipfile.ZipFile(path) as archive:
        content = json.loads(archive.read("description.json"))
    assert find(content, "LedgerEntry", "insecure")
    assert "this statement is void" in find(content, "privacy_statement")
    assert all(entry.insecure for entry in copy.releases_)
    assert "this statement is void" in copy.privacy_statement_


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


def test_classes_from_elsewhere_are_not_saved(path):
    class Mine(rf.BatchTrainingClassifier):
        pass

    with pytest.raises(TypeError, match="class Mine, which is not storable"):
        fitted(Mine).save(path)


def test_a_model_must_be_fitted(path):
    with pytest.raises(ValueError, match="not fitted yet"):
        rf.BatchTrainingClassifier(CAR.schema, epsilon=1).save(path)


# ---- files that must be refused ------------------------------------------------


def test_a_file_of_something_else(path):
    fitted().save(path)
    refused(lambda: mm.load(path), "holds a 'model', not a strategy", ValueError)
    mm.save(path, mm.Identity(2))
    refused(lambda: rf.load_model(path), "holds a 'strategy', not a model", ValueError)
    rewrite(path, lambda content: content.update(holds="model"))
    with pytest.raises(ValueError, match="is not a model file or is damaged"):
        rf.load_model(path)


def test_a_file_from_before_a_class_had_all_of_its_arguments(path):
    """One sentence, and a true one: nothing is damaged."""
    fitted().save(path)
    rewrite(path, lambda content: find(content, "ensembles", 0).pop("epsilon"))
    with pytest.raises(ValueError, match=r"Ensemble with other arg.* \(.epsilon.\)"):
        rf.load_model(path)


CHANGES = [
    set_in("terms", "neighbours", to="none"),
    set_in("terms", to={"neighbours": "replace"}),
    set_in("terms", "promised", to=[1.0, 2.0]),
    set_in("parameters", "epsilon", to={"fraction": "0"}),
    set_in("parameters", "epsilon", to={"float": "nan"}),
    set_in("parameters", "n_trees", to=0),
    set_in("parameters", "voting", to="loud"),
    set_in("parameters", "handle_missing", to="guess"),
    set_in("parameters", "surprise", to=1),
    set_in("parameters", "insecure_rng", to=1),
    set_in("schema", "document", "features", to=[]),
    set_in("schema", "document", "target", "categories", to=["a", "b", "c"]),
    set_in("schema", to={"entry": 0}),
    set_in("columns", to=["buying"]),
    set_in("columns", to=[1, 2, 3, 4, 5, 6]),
    set_in("tie_key", to=-1),
    set_in("arrays", to=99),
    set_in("ensembles", to=[]),
    set_in("ensembles", 0, "features", to={"array": 1}),
    set_in("ensembles", 0, "forest", "child", to=-2),
    set_in("ensembles", 0, "forest", to={"entry": 0}),
    set_in("ensembles", 0, "epsilon", to={"fraction": "1/0"}),
    set_in("releases", to=[{"epsilon": "1"}]),
    set_in("releases", to=[1]),
    set_in("releases", 0, "kind", to="magic"),
    set_in("releases", 0, "currency", to="delta"),
]


def test_a_description_that_does_not_fit(path):
    fitted().save(path)
    refused_when_changed(path, CHANGES, rf.load_model)


CHANGED_ARRAYS = [
    (0, lambda a: a[::-1].copy()),  # attributes
    (0, lambda a: a + 1),
    (1, lambda a: a + 1),  # tested attributes of the nodes
    (2, lambda a: a[:-1]),
    (2, lambda a: a.astype(np.int64)),
    (4, lambda a: a + 1),
    (5, lambda a: a[:, :-1].copy()),  # counts
    (5, lambda a: a + np.inf),
    (5, lambda a: a.astype(np.float32)),
    (6, lambda a: a - 1),  # labels
    (6, lambda a: a + 4),
    (6, lambda a: a[1:]),
]


def test_arrays_that_do_not_fit(path):
    fitted().save(path)
    refused_when_changed(path, CHANGED_ARRAYS, rf.load_model)


@pytest.mark.parametrize("cost", ["1/25000", "2", "-1", "0"])
def test_costs_of_a_file_add_up_to_its_total(path, cost):
    fitted().save(path)
    rewrite(path, set_in("LedgerEntry", "cost", to={"fraction": cost}))
    with pytest.raises(ValueError, match="is not a model file or is damaged"):
        rf.load_model(path)
    rewrite(path, set_in("total", to={"fraction": cost}))
    if cost != "1/25000":  # more than epsilon, or nothing at all
        with pytest.raises(ValueError, match="is not a model file or is damaged"):
            rf.load_model(path)


@pytest.mark.parametrize("depth", [1, 20])
def test_forests_that_would_be_too_large_are_not_made(path, depth):
    fitted(n_trees=math.inf).save(path)
    rewrite(path, set_in("CompleteForest", "domain_shape", to=[2**20] * 30))
    rewrite(path, set_in("CompleteForest", "depth", to=depth))
    with pytest.raises(ValueError, match=r"is damaged.*\(DomainTooLargeError\)"):
        rf.load_model(path)
