"""Each idea of the classifier taken away in turn."""

from __future__ import annotations

import math
from contextlib import ExitStack
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy._methods import Method
from benchmarks.accuracy._table import EPSILONS, Values
from mmech import Measurement, PrivacyLedger, noisy_release
from mmech.noise import LAPLACE
from mmech.noise.norm import Groups, as_blocks
from mmech.session import Session
from mmech_rf import DrawnSettings, PrivateForestClassifier, Schema
from mmech_rf.drawn import draw, plan, views
from mmech_rf.drawn.draw import select_tree
from mmech_rf.drawn.views import public_views
from mmech_rf.evaluation import markdown_table

ABLATION_SETS = ("car", "balance-scale", "iris", "heart", "mushroom", "claves")


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
        items = public_views(self.schema.domain_shape)
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
            counts, sensitivity=1, epsilon=half, released="class counts", ledger=ledger
        )
        self._labels = measured.values.argmax(axis=1)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every record."""
        leaves = self._tree.leaves(self.schema.encode(X))
        return np.asarray(self.schema.decode_target(self._labels[leaves]))


class LaplaceSession(Session):
    """A session with Laplace noise on sums, in place of K-norm noise of the same cost.

    A record changes every group of sums by a unit: Laplace noise pays for each.
    """

    def add_noise_to_groups(
        self,
        sums: NDArray[np.int64],
        groups: Groups,
        cost: Fraction,
        what: str,
        unit: int,
    ) -> Measurement:
        """Release sums, of which one record changes every group by at most `unit`."""
        n_groups = sum(map(len, as_blocks(groups)))
        return self._measured(sums, Fraction(unit * n_groups), LAPLACE, cost, what)


class LaplaceSums(PrivateForestClassifier):
    """The same forest, with Laplace noise on the sums that give its scores."""

    def _release_model(self, *arguments: Any) -> None:
        own = self._session
        self._session = LaplaceSession(own.ledger, own.noise, own.entries)
        super()._release_model(*arguments)


def _changed(**changes: Any) -> Method:
    settings = DrawnSettings(**changes)

    def make(schema: Schema, epsilon: float, n: int) -> Any:
        return PrivateForestClassifier(schema, epsilon=epsilon, settings=settings)

    return Method(make)


def _patched(*changes: tuple[Any, str, Any]) -> Method:
    """Return the forest with other constants of modules: (module, name, value)."""

    class Ablated(PrivateForestClassifier):
        def _fit(self, X: Any, y: Any) -> None:
            with ExitStack() as patches:
                for change in changes:
                    patches.enter_context(patch.object(*change))
                super()._fit(X, y)

    return Method(lambda schema, epsilon, n: Ablated(schema, epsilon=epsilon))


NEVER = math.inf
NO_SUMS, NO_PAIRS = (views, "MOST_SUMS", 0), (views, "MOST_PAIRS", 0)

ABLATIONS = {
    "all ideas": _changed(),
    "N stated": Method(
        lambda schema, epsilon, n: PrivateForestClassifier(
            schema, epsilon=epsilon, n_records=n
        )
    ),
    "no signed sums": _patched(NO_SUMS),
    "no pairs": _patched(NO_PAIRS),
    "single attributes": _patched(NO_SUMS, NO_PAIRS),
    "one level": _patched((draw, "SPLITTING", 1e-300)),
    "labels from counts": Method(
        lambda schema, epsilon, n: CountedLabels(schema, epsilon=epsilon, n_records=n)
    ),
    "no scores": _changed(scores_from=NEVER),
    "scores not in views": _patched((plan, "SCORE_VIEWS_FROM", NEVER)),
    "Laplace noise on sums": Method(
        lambda schema, epsilon, n: LaplaceSums(schema, epsilon=epsilon)
    ),
    "one tree": _changed(boosting_from=NEVER, most_votes=1),
    "always boosting": _changed(boosting_from=0),
}
"""Columns of the table of ablations."""


def ablation_table(values: Values) -> str:
    """Return the Markdown table: a row for every data set and epsilon."""
    rows = [
        [name, f"{epsilon:g}"]
        + [
            f"{np.mean(found):.3f}"
            if (found := values.get((name, label, epsilon), []))
            else ""
            for label in ABLATIONS
        ]
        for name in dict.fromkeys(key[0] for key in values)
        for epsilon in EPSILONS
    ]
    return markdown_table(["data set", "ε", *ABLATIONS], rows)
