"""What is compared: the classifiers of the package, naive Bayes, peers, no privacy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from benchmarks.accuracy import _others
from mmech import Identity, MatrixMechanism, PrivacyLedger
from mmech_rf import (
    BatchTrainingClassifier,
    DrawnSettings,
    PrivateForestClassifier,
    Schema,
    compile_forest,
)

Make = Callable[[Schema, float, int], Any]

MOST_CELLS = 10**6
"""Domains with more cells are too large for the pipeline of the paper."""

MUCH = 100
"""An epsilon at which noise should not matter any more: what is left is the model."""

RANKED = "private forest, for ranking"
"""Name of the private forest with settings for `predict_proba`."""

COARSE = 10
"""Naive Bayes puts numbers in at most so many groups of neighbouring cells."""


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
        for i, groups in enumerate(self._groups()):
            size = int(groups[-1]) + 1
            counts = np.bincount(groups[codes[:, i]] * k + classes, minlength=size * k)
            mechanism = MatrixMechanism(
                Identity(size), Identity(size), epsilon=share, ledger=self.ledger_
            )
            noisy.append(mechanism.measure(counts.reshape(size, k)).values)
        totals = np.maximum(np.mean([t.sum(axis=0) for t in noisy], axis=0), 1.0)
        self._log_classes = np.log(totals / totals.sum())
        smooth = [np.maximum(table, 0) + 1.0 for table in noisy]
        self._log_tables = [
            np.log(table / table.sum(axis=0))[groups]
            for table, groups in zip(smooth, self._groups(), strict=True)
        ]
        return self

    def _groups(self) -> list[NDArray[np.int64]]:
        """Return the group of every cell, for each attribute."""
        return [
            np.arange(attribute.size) * COARSE // attribute.size
            if attribute.kind == "numeric" and attribute.size > COARSE
            else np.arange(attribute.size)
            for attribute in self.schema.attributes
        ]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every record."""
        codes = self.schema.encode(X)
        scores = sum(table[codes[:, i]] for i, table in enumerate(self._log_tables))
        best = (scores + self._log_classes).argmax(axis=1)
        return np.asarray(self.schema.decode_target(best))


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes
    ----------
    make : callable
        Returns the classifier for a schema, epsilon and number of training records.
    private : bool
        Whether it is run at every epsilon, or once: without privacy, or with much ε.
    strict : bool
        Whether a warning is an error; peers warn of their own affairs.
    takes : callable
        Whether it can do with a schema.
    absent : str
        Why it cannot be run here; empty where it can.
    """

    make: Make
    private: bool = True
    strict: bool = True
    takes: Callable[[Schema], bool] = lambda schema: True
    absent: str = ""


def _forest(**settings: Any) -> Make:
    return lambda schema, epsilon, n: PrivateForestClassifier(
        schema, epsilon=epsilon, **settings
    )


def _forest_of_known_size(schema: Schema, epsilon: float, n: int) -> Any:
    return PrivateForestClassifier(schema, epsilon=epsilon, n_records=n)


def _forest_of_much_epsilon(schema: Schema, epsilon: float, n: int) -> Any:
    return PrivateForestClassifier(schema, epsilon=MUCH)


def _paper(schema: Schema, epsilon: float, n: int) -> Any:
    # What the published runs of optimized strategies come down to.
    return BatchTrainingClassifier(
        schema, epsilon=epsilon, voting="hard", template="identity"
    )


def _paper_log_odds(schema: Schema, epsilon: float, n: int) -> Any:
    return BatchTrainingClassifier(schema, epsilon=epsilon, voting="log-odds")


def _has_few_cells(schema: Schema) -> bool:
    return schema.n_cells <= MOST_CELLS


def _has_two_classes(schema: Schema) -> bool:
    return schema.n_classes == 2


def _methods() -> dict[str, Method]:
    diffprivlib = {"strict": False, "absent": _others.missing("diffprivlib")}
    absent = _others.missing("dp_random_forest")
    lumberjack = {"strict": False, "absent": absent}
    absent = _others.missing("sbdt")
    boosted = {"strict": False, "takes": _has_two_classes, "absent": absent}
    mbi = "" if _others.MBI_PYTHON else "MMECH_PEERS names no interpreter with dp.mbi"
    return {
        "private forest": Method(_forest()),
        "private forest, N stated": Method(_forest_of_known_size),
        RANKED: Method(_forest(settings=DrawnSettings.for_ranking())),
        f"private forest, ε = {MUCH}": Method(_forest_of_much_epsilon, private=False),
        "batch training": Method(_paper, takes=_has_few_cells),
        "batch training, log-odds": Method(_paper_log_odds, takes=_has_few_cells),
        "naive Bayes": Method(lambda s, epsilon, n: NaiveBayes(s, epsilon=epsilon)),
        "diffprivlib forest": Method(_others.diffprivlib_forest, **diffprivlib),
        "diffprivlib GaussianNB": Method(_others.diffprivlib_bayes, **diffprivlib),
        "diffprivlib logistic": Method(_others.diffprivlib_logistic, **diffprivlib),
        "OpenDP MST": Method(_others.mst, strict=False, absent=mbi),
        "OpenDP AIM": Method(_others.aim, strict=False, absent=mbi),
        "DP-EBM (ε, δ)": Method(
            _others.explainable_boosting,
            strict=False,
            takes=_has_two_classes,
            absent=_others.missing("interpret"),
        ),
        "S-BDT (ε, δ)": Method(_others.boosted_trees, **boosted),
        "S-BDT (ε, δ), depth 2": Method(
            partial(_others.boosted_trees, depth=2), **boosted
        ),
        "Lumberjack (ε, δ)": Method(_others.lumberjack, **lumberjack),
        "Lumberjack (ε, δ), 5 trees": Method(
            partial(_others.lumberjack, n_trees=5), **lumberjack
        ),
        "Lumberjack (ε, δ), 1 tree": Method(
            partial(_others.lumberjack, n_trees=1), **lumberjack
        ),
    } | {
        f"{name}, not private": Method(make, private=False, strict=False)
        for name, make in _others.NOT_PRIVATE.items()
    }


METHODS = _methods()
"""Rows of the table, in their order; some peers may be absent."""


class TenthPublic:
    """Trees of a public tenth of all records, an eighth of those for training.

    Parameters
    ----------
    schema : Schema
    epsilon : float, optional
        Budget of the leaves, counted in the other records; without, the trees predict
        as they are.
    """

    def __init__(self, schema: Schema, epsilon: float | None = None) -> None:
        self.schema, self.epsilon = schema, epsilon

    def fit(self, X: Any, y: Any) -> TenthPublic:
        """Fit the trees to the first eighth, and their leaves to the others."""
        n = len(X) // 8
        codes, classes = self.schema.encode(X[:n], y[:n])
        self.trees = RandomForestClassifier(16, random_state=0).fit(codes, classes)
        if self.epsilon is not None:
            forest = compile_forest(
                self.trees, self.schema, fitted_on="codes", public=True
            )
            self.leaves = BatchTrainingClassifier(
                self.schema, epsilon=self.epsilon, forest=forest
            ).fit(X[n:], y[n:])
        return self

    def predict(self, X: Any) -> Any:
        """Return labels."""
        if self.epsilon is not None:
            return self.leaves.predict(X)
        classes = self.trees.predict(self.schema.encode(X))
        return self.schema.decode_target(classes)


GIVEN = {
    "public tenth alone": Method(lambda schema, epsilon, n: TenthPublic(schema)),
    "leaves of random trees": Method(
        lambda schema, epsilon, n: BatchTrainingClassifier(schema, epsilon=epsilon)
    ),
    "leaves of trees of the public tenth": Method(
        lambda schema, epsilon, n: TenthPublic(schema, epsilon)
    ),
    "private forest": METHODS["private forest"],
}
"""Forests that are given, beside what needs no public record."""

OURS = ("private forest", "private forest, N stated")
CEILINGS = tuple(f"{name}, not private" for name in _others.NOT_PRIVATE)


def accuracy(
    method: Method, bunch: Any, epsilon: float, parts: tuple[Any, Any]
) -> tuple[float, float] | None:
    """Fit on one part, score on the other.

    Returns
    -------
    tuple of float, or None where the method cannot take the schema
        Share of right answers; seconds of processor time, child processes included.
    """
    if not method.takes(bunch.schema):
        return None
    train, test = parts
    model = method.make(bunch.schema, epsilon, len(train))
    start = _processor_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error" if method.strict else "ignore")
        warnings.filterwarnings("ignore", message=".* protects hardly anybody")
        model.fit(bunch.data[train], bunch.target[train])
        found = model.predict(bunch.data[test])
    seconds = _processor_time() - start
    return float(np.mean(found == bunch.target[test])), seconds


def _processor_time() -> float:
    """Return the seconds of this process, and of those that it waited for."""
    return sum(os.times()[:4])
