"""Leaves of a public forest that is given: what is refused, said, copied and saved."""

import copy
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
from rf_cases import CELLS, PRIVATE, RELEASED, SCHEMA, classifier, records
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import mmech_rf as rf
from mmech import PrivacyLedger
from mmech.storage import codec
from mmech_rf.limits import LIMITS

ALL = pytest.mark.parametrize("name", PRIVATE)
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
COMPILED = rf.compile_forest(
    TREE.fit(CELLS, CELLS.sum(axis=1) % 3), SCHEMA, fitted_on="codes", public=True
)
RENAMED = rf.Schema(
    [replace(SCHEMA.attributes[0], name="other"), *SCHEMA.attributes[1:]], [0, 1, 2]
)
OTHERS = rf.compile_forest(
    DecisionTreeClassifier().fit(CELLS, CELLS[:, 0]),
    RENAMED,
    fitted_on="codes",
    public=True,
)
DRAWN = rf.grow_random_forest(SCHEMA, n_trees=3, depth=1, seed=0)
RAW = CELLS.astype(str)


def given(name, forest=COMPILED, **parameters):
    """A classifier with parameters of growth at their defaults."""
    cls, settings = PRIVATE[name]
    return cls(SCHEMA, forest=forest, **({"epsilon": 1e6} | settings | parameters))


@ALL
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_trees": 3}, ValueError, "n_trees says how trees grow, which the forest"),
        ({"depth": 1}, ValueError, "depth says how trees grow"),
        ({"splits": "binary"}, ValueError, "splits says how trees grow"),
        ({"n_ensembles": 2}, ValueError, "n_ensembles says how trees grow"),
        ({"max_features": 2}, ValueError, "max_features says how trees grow"),
        ({"forest": TREE}, TypeError, "must be a Forest, .* with compile_forest"),
        ({"forest": rf.grow_random_forest((3, 2), 1, 1)}, ValueError,
         r"the domain \(3, 2, 2\) of the schema, got \(3, 2\); make it with this"),
        ({"forest": OTHERS}, ValueError, "got other attributes of these sizes; make"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_a_forest_costs_nothing(name, parameters, error, message):
    ledger = PrivacyLedger(1e6)
    with pytest.raises(error, match=message):
        given(name, ledger=ledger, **parameters).fit(*records(20))
    assert ledger.spent == 0


def test_a_forest_over_too_many_cells_is_refused(monkeypatch):
    monkeypatch.setattr(LIMITS, "tree_cells", 11)
    with pytest.raises(ValueError, match=r"12 cells, .*; pass a forest of fewer trees"):
        given("batch training").fit(*records(20))


@ALL
@pytest.mark.parametrize("forest", [COMPILED, DRAWN], ids=["compiled", "drawn"])
def test_leaves_of_the_forest_are_measured(name, forest):
    X, y = records(60)
    model = given(name, forest).fit(X, y)
    assert model.ensembles_[0].forest is forest
    model.predict(RAW)
    said = model.privacy_statement_
    assert "the forests" not in said
    assert said == model.card()["statement"]
    origin = forest.origin or "The trees were given, without a statement"
    assert origin in said
    assert model.set_params(forest=None).privacy_statement_ == said
    if name in RELEASED:
        exact = forest.count_leaves(X.astype(int), SCHEMA.encode_target(y), 3)
        found = model.leaf_counts_[0]
        assert found.shape == exact.shape
        if name != "laplace disjoint":  # at this epsilon all noise is zero
            assert abs(found - exact).max() < 1


def test_grown_forests_are_called_so():
    model = classifier("batch training").fit(*records(20))
    assert "The schema, the forests, the strategy" in model.privacy_statement_
    assert "given" not in model.privacy_statement_


@pytest.mark.parametrize("name", RELEASED)
def test_copies_carry_the_forest(name, tmp_path, monkeypatch):
    X, y = records(60)
    model = given(name, epsilon=1).fit(X, y)
    assert model.get_params()["forest"] is COMPILED
    twin = clone(model)
    assert twin.forest.model == "DecisionTreeClassifier"
    assert twin.fit(X, y).ensembles_[0].forest is twin.forest
    model.save(tmp_path / "m.npz")
    # The class of the forest is found where nothing has imported it.
    module = "mmech_rf.forest.from_sklearn"
    with monkeypatch.context() as new:
        new.setattr(rf.forest, "from_sklearn", sys.modules[module])
        new.delitem(sys.modules, module)
        new.delitem(codec._KINDS, "CompiledForest")
        loaded = rf.load_model(tmp_path / "m.npz")
    for other in (loaded, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other.privacy_statement_ == model.privacy_statement_
        assert other.forest is other.ensembles_[0].forest
        np.testing.assert_array_equal(other.forest.child, COMPILED.child)
        np.testing.assert_array_equal(other.predict(RAW), model.predict(RAW))
    assert loaded.evidence_.verdict == model.evidence_.verdict
