"""Evidence of every recipe and estimator, through the verifier."""

import numpy as np
import pytest
from model_files import rewrite, set_in
from refusals import refused
from rf_cases import SCHEMA, records

from mmech.cli import main as run_mmech
from mmech.verify import examine
from mmech_rf import (
    BatchTrainingClassifier,
    LaplaceForestClassifier,
    PrivateForestClassifier,
    RecipeForestClassifier,
    datasets,
    load_model,
    recipes,
)
from mmech_rf.drawn.views import public_views

CAR = datasets.load_car()
RECORDS, LABELS = CAR.data[::17], CAR.target[::17]
SMALL = {"n_trees": 2, "depth": 2}
MODELS = {
    BatchTrainingClassifier: SMALL,
    LaplaceForestClassifier: SMALL,
    PrivateForestClassifier: {},
}


def finding(model):
    """Return exit code and verdict of the verifier on a model's evidence."""
    code, report = examine(model.evidence_.text.encode())
    return code, report[-1]


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", [*recipes()])
def test_recipes_leave_evidence_that_holds(name):
    recipe = recipes()[name]
    labels_only = recipe.guarantee == "labels"
    neighbours = "labels" if labels_only else "add_remove"
    model = RecipeForestClassifier(
        CAR.schema, epsilon=1, recipe=name, neighbours=neighbours, random_state=0
    )
    more = {}
    if recipe.unlabelled:
        more["X_unlabelled"] = CAR.data[1::17]
    code, verdict = finding(model.fit(RECORDS, LABELS, **more))
    assert recipe.paper in model.describe()
    of_labels = "attributes are public" in model.privacy_statement_
    assert of_labels == labels_only
    assert (code, verdict[:17]) == (0, "holds: epsilon = "), verdict


@pytest.mark.slow
def test_drawn_trees_can_be_read_from_their_evidence():
    model = PrivateForestClassifier(CAR.schema, epsilon=9, n_records=102)
    places = *public_views(CAR.schema.domain_shape).items, None
    outcomes = iter(model.fit(RECORDS, LABELS).evidence_.values)

    for tree in model.trees_:
        numbers = iter(next(outcomes).tolist())
        next(outcomes)  # counts in its leaves
        assert places[next(numbers)] == tree.root
        assert tuple(places[next(numbers)] for _ in tree.branches) == tree.branches
        assert [*numbers] == np.concatenate(tree.labels).tolist()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("estimator", MODELS, ids=lambda cls: cls.__name__)
def test_models_hold_evidence_in_their_files(estimator, tmp_path):
    model = estimator(CAR.schema, epsilon=1, random_state=0, **MODELS[estimator])
    model.fit(RECORDS, LABELS)
    assert finding(model)[0] == 0
    model.save(tmp_path / "model")
    code, report = examine(tmp_path / "model")
    assert (code, report[-1][:20]) == (0, "holds: epsilon = 1 f")


@pytest.mark.by_day(2)
@pytest.mark.parametrize("estimator", MODELS, ids=lambda cls: cls.__name__)
def test_a_model_does_not_pass_with_cheaper_evidence(estimator, tmp_path, capsys):
    """Its hash is made anew, and the evidence alone holds."""
    dear, cheap = (
        estimator(SCHEMA, epsilon=own, random_state=0, **MODELS[estimator]).fit(
            *records(60)
        )
        for own in ("15", "1/10")
    )
    path = tmp_path / "model"
    dear.save(path)
    assert run_mmech(["verify", str(path)]) == 0
    for price in ("15", "1/10"):
        rewrite(path, set_in("Evidence", "text", to=cheap.evidence_.text))
        rewrite(path, set_in("parameters", "epsilon", to={"fraction": price}))
        assert examine(path)[0] == 0
        refused(lambda: load_model(path), "does not follow from its evidence")
        assert run_mmech(["verify", str(path)]) == 1
        said = capsys.readouterr().out.splitlines()[-1]
        assert said.startswith(
            f"refuted: {path} holds a {estimator.__name__} that does"
        )
