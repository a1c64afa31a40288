"""Classifiers of other packages: private peers, and what can be reached without noise.

Peers are taken as they come, with their own defaults. Everything they need to know in
advance is public and given: bounds, classes, kinds of attributes. They see the codes of
the same schema as the classifiers of this package.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech_rf import Schema

DELTA = 1e-5
"""Probability of failure that DP-EBM is granted: its guarantee is (ε, δ)."""

HAS_DIFFPRIVLIB = find_spec("diffprivlib") is not None
HAS_INTERPRET = find_spec("interpret") is not None


class Coded:
    """A classifier of number tables, fed with the codes of a schema.

    Parameters
    ----------
    schema : Schema
    model : estimator
        Sees codes as numbers, and classes as 0 to k - 1.
    one_hot : bool, default=False
        Whether categories become columns of zeros and ones; numbers are scaled to
        [0, 1] then.
    """

    def __init__(self, schema: Schema, model: Any, *, one_hot: bool = False) -> None:
        self.schema = schema
        self.model = model
        self.one_hot = one_hot

    def fit(self, X: Any, y: Any) -> Coded:
        """Fit the model to the codes."""
        codes, classes = self.schema.encode(X, y)
        self.model.fit(self._table(codes), classes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every record."""
        classes = self.model.predict(self._table(self.schema.encode(X)))
        return np.asarray(self.schema.decode_target(np.asarray(classes, np.int64)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every class of the schema; all are known here."""
        return np.asarray(self.model.predict_proba(self._table(self.schema.encode(X))))

    def _table(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        if not self.one_hot:
            return codes.astype(np.float64)
        columns = [
            codes[:, [i]] / max(attribute.size - 1, 1)
            if attribute.kind == "numeric"
            else np.eye(attribute.size)[codes[:, i]]
            for i, attribute in enumerate(self.schema.attributes)
        ]
        return np.hstack(columns)


def _bounds(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    upper = np.array(schema.domain_shape, np.float64) - 1
    return np.zeros_like(upper), np.maximum(upper, 1.0)


def diffprivlib_forest(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the random forest of diffprivlib."""
    from diffprivlib.models import RandomForestClassifier

    model = RandomForestClassifier(
        epsilon=epsilon, bounds=_bounds(schema), classes=list(range(schema.n_classes))
    )
    return Coded(schema, model)


def diffprivlib_bayes(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the Gaussian naive Bayes classifier of diffprivlib."""
    from diffprivlib.models import GaussianNB

    return Coded(schema, GaussianNB(epsilon=epsilon, bounds=_bounds(schema)))


def explainable_boosting(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the explainable boosting machine of InterpretML; two classes only."""
    from interpret.privacy import DPExplainableBoostingClassifier

    kinds = [
        "nominal" if attribute.kind == "categorical" else "continuous"
        for attribute in schema.attributes
    ]
    model = DPExplainableBoostingClassifier(
        feature_types=kinds,
        privacy_bounds=np.stack(_bounds(schema), axis=1),
        epsilon=epsilon,
        delta=DELTA,
        n_jobs=1,
    )
    return Coded(schema, model)


def gradient_boosting(schema: Schema, epsilon: float, n: int) -> Any:
    """Return scikit-learn's gradient boosting; not private."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    categorical = [a.kind == "categorical" for a in schema.attributes]
    model = HistGradientBoostingClassifier(
        categorical_features=categorical, random_state=0
    )
    return Coded(schema, model)


def random_forest(schema: Schema, epsilon: float, n: int) -> Any:
    """Return scikit-learn's random forest; not private."""
    from sklearn.ensemble import RandomForestClassifier

    return Coded(schema, RandomForestClassifier(random_state=0), one_hot=True)


def extra_trees(schema: Schema, epsilon: float, n: int) -> Any:
    """Return scikit-learn's extremely randomised trees; not private."""
    from sklearn.ensemble import ExtraTreesClassifier

    return Coded(schema, ExtraTreesClassifier(random_state=0), one_hot=True)


def logistic_regression(schema: Schema, epsilon: float, n: int) -> Any:
    """Return scikit-learn's logistic regression; not private."""
    from sklearn.linear_model import LogisticRegression

    return Coded(schema, LogisticRegression(max_iter=1000), one_hot=True)
