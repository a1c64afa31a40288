"""Fitted trees of scikit-learn: which are read, and where they cut numbers.

scikit-learn rounds a value to 32 bits, ties to even, before it compares the value with
a threshold of 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.domain.attribute import Attribute
from mmech_rf.arrays import Floats, Integers

READ = {
    f"{kind}{task}"
    for kind in (
        *("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees"),
        "GradientBoosting",
    )
    for task in ("Classifier", "Regressor")
}
"""Classes of scikit-learn whose trees are read."""

REMEDIES = {
    "Pipeline": "pass its last step, and encode first what the steps before it change",
    "SearchCV": "pass its best_estimator_",
    "AdaBoost": "compile each of its estimators_, because a Forest has no weights",
    "Voting": "compile each of its estimators_",
    "Stacking": "compile each of its estimators_",
    "IsolationForest": "its trees look for outliers, so fit a random forest",
    "Bagging": "its trees may see some columns each, so fit a random forest",
    "HistGradientBoosting": "its trees have bins and missing values of their own, so "
    "fit GradientBoosting or a random forest",
    **dict.fromkeys(
        ("xgboost", "lightgbm", "catboost"),
        "trees of other libraries are not read, so fit one of scikit-learn",
    ),
}
"""What to do instead, by a part of the name of a class or its module."""


@dataclass(frozen=True, eq=False)
class FittedNodes:
    """Nodes of fitted trees, one tree after the other; children are -1 at leaves."""

    model: str  # name of its class
    roots: Integers  # shape (n_trees,)
    left: Integers  # this and the others: shape (n_nodes,)
    right: Integers
    feature: Integers
    threshold: Floats
    cut: Floats  # largest number of 64 bits that passes the test
    midway: bool  # whether thresholds lie midway between values, none is drawn

    def cuts_of(self, j: int, attribute: Attribute) -> tuple[float, ...]:
        """Return where the trees cut attribute j, unless it is no number to cut."""
        cuts = np.unique(self.cut[self.feature == j])
        if not cuts.size:
            return ()
        name = f"the model tests attribute {attribute.name!r}, which"
        if attribute.kind != "numeric":
            raise ValueError(
                f"{name} is {attribute.kind}, but thresholds are values of numeric "
                "attributes; fit the model to schema.encode(X), and pass "
                "fitted_on='codes'"
            )
        if attribute.other is not None:
            raise ValueError(
                f"{name} has a cell for unknown and missing values, where a test of "
                "numbers says nothing; leave other out, or fit the model to "
                "schema.encode(X), and pass fitted_on='codes'"
            )
        lower, upper = attribute.lower, attribute.upper
        if (lower is not None and cuts[0] < lower) or (
            upper is not None and cuts[-1] >= upper
        ):
            raise ValueError(
                f"{name} has the bounds {lower} to {upper}, at thresholds from "
                f"{cuts[0]:.6g} to {cuts[-1]:.6g}; widen the bounds to those of the "
                "records that the model was fitted to"
            )
        return tuple(cuts.tolist())


def fitted_nodes(model: Any, names: Sequence[str]) -> FittedNodes:
    """Return the trees of a fitted model on columns of these names, or raise."""
    kind, home = type(model).__name__, type(model).__mro__
    known = {cls.__name__ for cls in home if cls.__module__.startswith("sklearn.")}
    if hasattr(model, "estimators_features_") or not known & READ:
        words = " ".join(f"{cls.__module__}.{cls.__name__}" for cls in home)
        remedy = next(
            (remedy for part, remedy in REMEDIES.items() if part in words),
            REMEDIES["Bagging"] if known & READ else "fit one of them",
        )
        raise TypeError(
            "model must be a decision tree, random forest, extra trees or gradient "
            f"boosting of scikit-learn, got {kind}; {remedy}"
        )
    if not hasattr(model, "tree_") and not hasattr(model, "estimators_"):
        raise ValueError(f"model must be fitted, got a new {kind}; fit it first")
    given = [str(name) for name in getattr(model, "feature_names_in_", names)]
    if given != [*names] or model.n_features_in_ != len(names):
        columns = ", ".join(given) if given != [*names] else model.n_features_in_
        raise ValueError(
            f"model must be fitted to the columns {', '.join(names):.100} of the "
            f"schema, in this order, got {columns!s:.100}; fit it to these, or pass "
            "schema.select(columns of the model)"
        )
    fitted = [model] if hasattr(model, "tree_") else np.ravel(model.estimators_)
    trees = [one.tree_ for one in fitted]
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    inner = joined("children_left") >= 0
    shift = np.repeat(roots, [tree.node_count for tree in trees])
    left, right = (
        np.where(inner, joined(name) + shift, -1)
        for name in ("children_left", "children_right")
    )
    threshold, records = joined("threshold"), joined("n_node_samples")
    # Without missing values a node says that they go where more records are.
    goes = joined("missing_go_to_left") != (records[left] > records[right])
    if (inner & (goes | np.isinf(threshold))).any():
        raise ValueError(
            f"model must not send missing values, got a {kind} that was fitted to "
            "some; fill them in and fit it again, or fit it to codes, where they are "
            "a category"
        )
    midway = all(one.splitter == "best" for one in fitted)
    cut = last_below(threshold)
    feature = np.where(inner, joined("feature"), -1)
    return FittedNodes(kind, roots, left, right, feature, threshold, cut, midway)


def last_below(thresholds: Floats) -> Floats:
    """Return the largest numbers of 64 bits that round to at most a threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech_rf.schema.thresholds import last_below
    >>> cut = last_below(np.array([3.5]))
    >>> cut.astype(np.float32), np.nextafter(cut, np.inf).astype(np.float32)
    (array([3.5], dtype=float32), array([3.5000002], dtype=float32))
    """
    narrow = thresholds.astype(np.float32)
    down, up = np.float32(-np.inf), np.float32(np.inf)
    narrow = np.where(narrow > thresholds, np.nextafter(narrow, down), narrow)
    middle = (narrow.astype(float) + np.nextafter(narrow, up).astype(float)) / 2
    return np.where(
        middle.astype(np.float32) > narrow, np.nextafter(middle, -np.inf), middle
    )
