"""With draws that do not look at records, nothing public depends on records.

Sizes, classes that occur and types of labels all differ; what anybody sees must not.
"""

import itertools
import re
import time
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from replay import facts, no_clock, same, watched, without_records
from replay_cases import cases
from rf_cases import PRIVATE, SCHEMA, SHAPE, classifier
from sklearn.base import clone

from mmech_rf import PrivateForestClassifier, Schema

pytestmark = pytest.mark.usefixtures("scores_of_few")

CASES = cases(["add_remove"]) | {
    name: case for name, case in cases(["replace"]).items() if ", plain" in name
}


def data_sets(case):
    """Return unlike data sets with fields for everything that a fit might notice."""
    people, schema = case.people, case.model.schema
    X, y = np.array(people.X, object), np.array(people.y, object)
    many = np.repeat(X, 9, axis=0)
    return {
        "all": (X, y.astype(str)),
        "nobody": (X[:0], []),
        "many in a frame": (
            pd.DataFrame(many, columns=schema.feature_names),
            pd.Series(np.repeat(y, 9)),
        ),
        "one cell": (X[[0] * 40], [schema.class_labels[-1]] * 40),
    }


def looked_at(model, X, y, cells):
    """Fit without records, and return all that anybody sees."""
    model = clone(model)
    with (
        watched(without_records()),
        mock.patch.object(time, "perf_counter", no_clock),
    ):
        model.fit(X, y)
        seen = [facts(model, cells)]
        if model._holds_counts():
            model.close()
            seen.append(facts(model, cells))
    return seen


@pytest.mark.parametrize("name", CASES)
def test_nothing_public_depends_on_records(name):
    case = CASES[name]
    first, *others = (
        (words, looked_at(case.model, X, y, case.cells))
        for words, (X, y) in data_sets(case).items()
    )
    for words, seen in others:
        same(f"{first[0]} against {words}: what is seen", first[1], seen)


NUMBERED = Schema(SCHEMA.attributes, (0, 1))
WORDED = Schema(SCHEMA.attributes, ("0", "1"))
TARGETS = {
    "integers": np.array([0, 1, 1]),
    "bytes": np.array([0, 1, 1], np.uint8),
    "floats": np.array([0.0, 1.0, 1.0]),
    "booleans": np.array([False, True, True]),
    "texts": np.array(["0", "1", "1"]),
    "a list": ["0", "1", "1"],
    "a list of integers": [0, 1, 1],
    "objects": np.array([0, "1", True], object),
    "nobody": [],
}


@pytest.mark.parametrize("schema", [NUMBERED, WORDED], ids=["numbers", "texts"])
@pytest.mark.parametrize("name", ["batch training", "subsample weight", "private"])
def test_nothing_public_depends_on_the_type_of_labels(name, schema):
    if name == "private":
        model = PrivateForestClassifier(schema, epsilon=1)
    else:
        model = classifier(name, schema=schema)
    cells = np.array(list(np.ndindex(*SHAPE))).astype(str)
    X = cells[[0, 5, 7]]
    seen = {
        words: looked_at(model, X[: len(y)], y, cells) for words, y in TARGETS.items()
    }
    for words, other in seen.items():
        same(f"integers against {words}: what is seen", seen["integers"], other)


@pytest.mark.parametrize(
    "name",
    [*(f"{name}, plain" for name in PRIVATE), "pure, a tree", "pure, blocks"],
)
def test_pages_do_not_depend_on_records(name):
    """Fitted, or fitted and asked, or closed; what a notebook shows says no more."""
    case = CASES[f"{name}, add_remove"]
    rng = np.random.default_rng(0)
    pages = []
    for X, y in data_sets(case).values():
        model = clone(case.model)
        # Seconds depend on records: nothing may show them.
        clock = mock.Mock(side_effect=itertools.accumulate(iter(rng.random, None)))
        with watched(without_records()), mock.patch.object(time, "perf_counter", clock):
            model.fit(X, y)
            seen = [_page(model)]
            model.predict(case.cells)
            seen.append(_page(model))
            if model._holds_counts():
                model.close()
                seen.append(_page(model))
        pages.append(seen)
    for page in pages[1:]:
        same("the page", pages[0], page)


def _page(model):
    # Every page has identifiers of its own, by which its parts find each other.
    return re.sub(r"sk-(container|estimator)-id-\d+", "", model._repr_html_()), repr(
        model
    )
