"""What is compared: the classifiers of the package and an honest naive Bayes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import Identity, MatrixMechanism, PrivacyLedger
from mmech_rf import BatchTrainingClassifier, PrivateForestClassifier, Schema


class NaiveBayes:
    """One-way class counts with equal budgets, logarithms with add-one smoothing.

    The least that a private classifier should reach.

    Parameters
    ----------
    schema : Schema
    epsilon : float
        Budget of a fit: a d-th for each attribute.
    """

    def __init__(self, schema: Schema, *, epsilon: float) -> None:
        self.schema = schema
        self.epsilon = epsilon

    def fit(self, X: Any, y: Any) -> NaiveBayes:
        """Release the class counts of every attribute."""
        codes, classes = self.schema.encode(X, y)
        k, epsilon = self.schema.n_classes, Fraction(str(self.epsilon))
        share = epsilon / self.schema.n_features
        self.ledger_ = PrivacyLedger(epsilon)
        noisy = []
        for i, size in enumerate(self.schema.domain_shape):
            counts = np.bincount(codes[:, i] * k + classes, minlength=size * k)
            mechanism = MatrixMechanism(
                Identity(size), Identity(size), epsilon=share, ledger=self.ledger_
            )
            noisy.append(mechanism.measure(counts.reshape(size, k)).values)
        totals = np.maximum(np.mean([t.sum(axis=0) for t in noisy], axis=0), 1.0)
        self._log_classes = np.log(totals / totals.sum())
        smooth = [np.maximum(table, 0) + 1.0 for table in noisy]
        self._log_tables = [np.log(table / table.sum(axis=0)) for table in smooth]
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every record."""
        codes = self.schema.encode(X)
        scores = sum(table[codes[:, i]] for i, table in enumerate(self._log_tables))
        best = (scores + self._log_classes).argmax(axis=1)
        return np.asarray(self.schema.decode_target(best))


def _stated(schema: Schema, epsilon: float, n: int) -> Any:
    return PrivateForestClassifier(schema, epsilon=epsilon, n_records=n)


def _paper(voting: str) -> Callable[[Schema, float, int], Any]:
    def make(schema: Schema, epsilon: float, n: int) -> Any:
        # What the published runs of optimized strategies come down to.
        return BatchTrainingClassifier(
            schema, epsilon=epsilon, voting=voting, template="identity"
        )

    return make


METHODS: dict[str, Callable[[Schema, float, int], Any]] = {
    "private forest": lambda schema, epsilon, n: PrivateForestClassifier(
        schema, epsilon=epsilon
    ),
    "private forest, N stated": _stated,
    "batch training": _paper("hard"),
    "naive Bayes": lambda schema, epsilon, n: NaiveBayes(schema, epsilon=epsilon),
}
"""Name to a function of schema, epsilon and the number of training records."""


def accuracy(
    method: str, bunch: Any, epsilon: float, parts: tuple[Any, Any]
) -> float | None:
    """Fit on one part, score on the other; ``None`` where the domain is too large."""
    train, test = parts
    model = METHODS[method](bunch.schema, epsilon, len(train))
    if isinstance(model, BatchTrainingClassifier) and bunch.schema.n_cells > 10**6:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(bunch.data[train], bunch.target[train])
    return float(np.mean(model.predict(bunch.data[test]) == bunch.target[test]))
