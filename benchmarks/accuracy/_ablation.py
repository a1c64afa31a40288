"""Each idea of the classifier taken away in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy._methods import Method
from benchmarks.accuracy._table import EPSILONS, Values
from mmech import PrivacyLedger, noisy_release
from mmech.noise import LAPLACE, Law
from mmech_rf import PrivateForestClassifier, Schema
from mmech_rf.drawn import draw, trees, views
from mmech_rf.drawn.draw import select_tree
from mmech_rf.private import payments

ABLATION_SETS = ("car", "balance-scale", "iris", "heart", "mushroom", "claves")

Setting = tuple[ModuleType, str, Any]
"""A module, the name of a constant in it, and the value it takes."""


@contextmanager
def settings(changes: tuple[Setting, ...]) -> Iterator[None]:
    """Give constants other values for a while; a name that is gone raises."""
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


@dataclass
class Changed:
    """The classifier, fitted while constants have other values."""

    model: Any
    changes: tuple[Setting, ...]

    def fit(self, X: Any, y: Any) -> Changed:
        """Fit the classifier."""
        with settings(self.changes):
            self.model.fit(X, y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every record."""
        return np.asarray(self.model.predict(X))


class CountedLabels:
    """The same trees, whose labels come from noisy counts instead of the draw.

    Half of epsilon draws the tree, half counts the classes in its leaves.
    """

    def __init__(self, schema: Schema, *, epsilon: float, n_records: int) -> None:
        self.schema = schema
        self.epsilon = Fraction(str(epsilon))
        self.n_records = n_records

    def fit(self, X: Any, y: Any) -> CountedLabels:
        """Draw a tree and count in its leaves."""
        codes, classes = self.schema.encode(X, y)
        ledger, half = PrivacyLedger(self.epsilon), self.epsilon / 2
        items = views.public_views(self.schema.domain_shape)
        self._tree = select_tree(
            items,
            items.cells(codes),
            classes,
            n_classes=self.schema.n_classes,
            epsilon=half,
            n_records=self.n_records,
            relation=ledger.relation,
            pay=lambda: ledger.spend(half, "a tree", sensitivity=1, kind="exponential"),
            noise=None,
        )
        counts = np.zeros((self._tree.n_leaves, self.schema.n_classes), np.int64)
        np.add.at(counts, (self._tree.leaves(codes), classes), 1)
        measured = noisy_release(
            counts,
            sensitivity=1,
            epsilon=half,
            released="class counts",
            ledger=ledger,
        )
        self._labels = measured.values.argmax(axis=1)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every record."""
        leaves = self._tree.leaves(self.schema.encode(X))
        return np.asarray(self.schema.decode_target(self._labels[leaves]))


def _laplace_sums(groups: Sequence[int]) -> Law:
    """Return Laplace noise that pays for every group, in place of K-norm noise."""

    def parameter(size: Fraction, epsilon: Fraction) -> Fraction:
        return LAPLACE.parameter(len(groups) * size, epsilon)

    def variance(scale: Fraction) -> NDArray[np.float64]:
        return np.full(sum(groups), LAPLACE.variance(scale))

    return replace(LAPLACE, parameter=parameter, variance=variance)


def _changed(*changes: Setting) -> Method:
    def make(schema: Schema, epsilon: float, n: int) -> Any:
        return Changed(PrivateForestClassifier(schema, epsilon=epsilon), changes)

    return Method(make)


NO_SUMS: Setting = (views, "MOST_SUMS", 0)
NO_PAIRS: Setting = (views, "MOST_PAIRS", 0)

ABLATIONS = {
    "all ideas": _changed(),
    "N stated": Method(
        lambda schema, epsilon, n: PrivateForestClassifier(
            schema, epsilon=epsilon, n_records=n
        )
    ),
    "no signed sums": _changed(NO_SUMS),
    "no pairs": _changed(NO_PAIRS),
    "single attributes": _changed(NO_SUMS, NO_PAIRS),
    "one level": _changed((draw, "SPLITTING", 1e-300)),
    "labels from counts": Method(
        lambda schema, epsilon, n: CountedLabels(schema, epsilon=epsilon, n_records=n)
    ),
    "no scores": _changed((trees, "LEAST_RECORDS", 1e18)),
    "scores not in views": _changed((trees, "SCORE_VIEWS", 1e18)),
    "Laplace noise on sums": _changed((payments, "k_norm", _laplace_sums)),
    "one tree": _changed(
        (trees, "BOOSTING", 1e18),
        (trees, "EPSILON_PER_VOTE", 10**9),
    ),
    "always boosting": _changed((trees, "BOOSTING", 0.0)),
}
"""Columns of the table of ablations."""


def ablation_table(values: Values) -> str:
    """Return the Markdown table: a row for every data set and epsilon."""
    lines = [
        "| data set | ε | " + " | ".join(ABLATIONS) + " |",
        "|---|---|" + "---|" * len(ABLATIONS),
    ]
    for name in dict.fromkeys(key[0] for key in values):
        for epsilon in EPSILONS:
            cells = [
                f"{np.mean(found):.3f}"
                if (found := values.get((name, label, epsilon), []))
                else ""
                for label in ABLATIONS
            ]
            lines.append(f"| {name} | {epsilon:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
