"""Forests that scikit-learn has fitted, over the cells of a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmech.checks import check_bool, check_choice
from mmech.domain.attribute import Attribute
from mmech.domain.domain import Domain
from mmech.storage.codec import fingerprint, storable
from mmech_rf.arrays import Integers
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import Level, children_of, lay_out
from mmech_rf.schema import Schema, check_schema
from mmech_rf.schema.thresholds import FittedNodes, fitted_nodes


@storable("CompiledForest")
@dataclass(frozen=True, eq=False, repr=False)
class CompiledForest(Forest):
    """The forest of `compile_forest`, which keeps what it was compiled from.

    Parameters
    ----------
    model : str
        Name of the class of the model.
    attributes : str
        Fingerprint of the attributes that it was compiled over.
    """

    model: str = ""
    attributes: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model.isidentifier():
            raise ValueError("model must be the name of a class")

    @property
    def origin(self) -> str:
        """Where the trees come from, in a sentence."""
        return (
            f"The trees are those of a {self.model}, which its user stated to be "
            "public: made without these records, or released before. The guarantee "
            "rests on that statement."
        )

    def suits(self, domain: Schema) -> bool:
        """Whether the trees were compiled over the attributes of a domain."""
        return self.attributes == fingerprint(Domain(domain.attributes))


def compile_forest(
    model: Any, schema: Schema, *, fitted_on: str, public: bool
) -> CompiledForest:
    """Return the trees of a fitted scikit-learn model over the cells of a schema.

    Records reach the leaves that ``model.apply`` finds for them. What the model
    predicts, and how it weighs trees, is left behind.

    Parameters
    ----------
    model : estimator of scikit-learn
        A decision tree, random forest, extra trees or gradient boosting, classifier or
        regressor, fitted to the columns of the schema.
    schema : Schema
        Public.
    fitted_on : {"codes", "values"}
        Whether the model was fitted to ``schema.encode(X)`` or to raw values.
        Thresholds on values must be cut points of numeric attributes:
        `Schema.with_cut_points` makes them so.
    public : bool
        True states that the trees were made without the records that are measured now,
        or were released before. The forest keeps the statement, and what is released
        with it prints it. Tests and thresholds tell about the records that a model was
        fitted to, which no noise on its leaves hides.

    Returns
    -------
    CompiledForest
        A `Forest` whose `origin` is the statement. Leaves of a tree are numbered from
        left to right.

    Raises
    ------
    TypeError
        If the model is of another kind; the message says what to do instead.
    ValueError
        If `public` is False; the model is not fitted, has other columns, or sends
        missing values; a test is none of the codes, or a threshold no cut point.

    See Also
    --------
    grow_random_forest : Draw a forest from the schema alone.

    Examples
    --------
    A model that was fitted to public records of numbers, and the counts of its leaves
    in private ones:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import mmech
    >>> from mmech_rf import Schema, compile_forest, training_workload
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(n_estimators=4, max_depth=2, random_state=0)
    >>> model = model.fit(X[::2], y[::2])
    >>> schema = Schema.from_bounds([0, 0, 0, 0], [10, 10, 10, 10], [0, 1, 2])
    >>> schema = schema.with_cut_points(model)
    >>> forest = compile_forest(model, schema, fitted_on="values", public=True)
    >>> T = training_workload(forest)
    >>> D = mmech.count(X[1::2], schema, y=y[1::2])
    >>> leaves = mmech.MatrixMechanism(T, mmech.optimize(T), epsilon=1).answer(D)
    >>> leaves.shape == (forest.n_leaves, 3)
    True
    """
    check_schema(schema)
    check_choice(fitted_on, "fitted_on", ("codes", "values"))
    if not check_bool(public, "public"):
        raise ValueError(
            "public must be True, the statement that the trees were made without these "
            "records or were released before, got False; tests and thresholds tell "
            "about single records, so fit the model to public ones, or let "
            "PrivateForestClassifier draw its trees"
        )
    nodes = fitted_nodes(model, schema.names)
    code = np.full(nodes.feature.size, -1)
    read = _codes if fitted_on == "codes" else _places
    for j, attribute in enumerate(schema.attributes):
        tests = np.flatnonzero(nodes.feature == j)
        if tests.size:
            code[tests] = read(nodes, j, tests, attribute)
    sizes = np.array(schema.domain_shape, np.int64)
    node, tree, levels = nodes.roots, np.arange(nodes.roots.size), []
    while tree.size:
        levels.append(Level(tree, nodes.feature[node], code[node]))
        tree = np.repeat(tree, children_of(levels[-1], sizes))
        both = np.column_stack([nodes.left[node], nodes.right[node]])
        node = both[nodes.feature[node] >= 0].ravel()
    made = lay_out(levels, sizes) | {"ordered": (True,) * sizes.size}
    try:
        return CompiledForest(
            schema.domain_shape,
            **made,
            model=nodes.model,
            attributes=fingerprint(Domain(schema.attributes)),
        )
    except ValueError:  # two thresholds between neighbouring codes
        raise ValueError(
            "fitted_on='codes' needs tests that codes pass and fail, got some of other "
            "values; fit the model to schema.encode(X), or pass fitted_on='values'"
        ) from None


def _codes(nodes: FittedNodes, j: int, at: Integers, attribute: Attribute) -> Integers:
    """Return the last codes that pass tests of codes."""
    cuts = np.floor(nodes.cut[at])
    bad = (cuts < 0) | (cuts >= attribute.size - 1)
    if nodes.midway:  # between two whole numbers
        bad |= nodes.threshold[at] * 2 % 1 != 0
    if bad.any():
        raise ValueError(
            f"fitted_on='codes' needs tests of the codes 0 to {attribute.size - 1} of "
            f"attribute {attribute.name!r}, got the threshold "
            f"{nodes.threshold[at[bad]][0]:.6g}; fit the model to schema.encode(X), "
            "or pass fitted_on='values'"
        )
    return cuts.astype(np.int64)


def _places(nodes: FittedNodes, j: int, at: Integers, attribute: Attribute) -> Integers:
    """Return the last cells that pass tests of values."""
    nodes.cuts_of(j, attribute)
    bad = ~np.isin(nodes.cut[at], attribute.cut_points)
    if bad.any():
        raise ValueError(
            f"fitted_on='values' needs a cut point of attribute {attribute.name!r} at "
            f"{float(nodes.cut[at[bad]][0])}, where scikit-learn's numbers of 32 bits "
            f"pass the threshold {nodes.threshold[at[bad]][0]:.6g}; use "
            "schema.with_cut_points(model)"
        )
    return np.searchsorted(attribute.cut_points, nodes.cut[at])
