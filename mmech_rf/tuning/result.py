"""Settings in order, and how they are shown."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mmech_rf.methods import METHODS
from mmech_rf.schema import Schema

__all__ = ["TunedSetting", "Tuning"]

ROWS = 12
"""Settings that a table shows."""


@dataclass(frozen=True)
class TunedSetting:
    """One setting of a private forest, with what is publicly known of it.

    Attributes
    ----------
    mode : {"training", "prediction", "subsample"}
        Which classifier: `BatchTrainingClassifier`, `BatchPredictionClassifier` or
        `SubsampleAggregateClassifier`.
    n_trees : int or inf
        Trees in all.
    depth : int
        Tests on a path.
    n_ensembles : int
        Number q of ensembles.
    max_features : int
        Attributes per ensemble.
    template : str
        Strategy template that the classifier is given.
    measured : str
        What that comes to: ``"identity"``, ``"marginals"`` or ``"workload"``.
    correlation : float
        Predicted correlation between the noisy votes and the exact class
        frequencies, over the cells of the domain.
    expected_error : float
        Expected squared error, continuous Laplace noise: of all released leaf counts
        in mode "training", else of the votes of one query, summed over the classes.
        Comparable within a mode only.

    Examples
    --------
    >>> from mmech_rf import datasets, tune
    >>> tune(datasets.load_car().schema, epsilon=1, n_records=1400).best.n_trees
    inf
    """

    mode: str
    n_trees: float
    depth: int
    n_ensembles: int
    max_features: int
    template: str
    measured: str
    correlation: float
    expected_error: float


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """Settings from best to worst, and why the first one was chosen.

    Prints as text and shows as HTML in notebooks.

    Attributes
    ----------
    settings : tuple of TunedSetting
        All that were compared, best first.
    reasons : tuple of str
        The choice in sentences.
    criterion : str
        What they are ordered by.
    schema : Schema
        Public attributes and classes.
    epsilon : Fraction
        Privacy budget, in nats; none of it is spent.
    random_state : int
        Seed that draws the attributes of the ensembles.

    Examples
    --------
    >>> from mmech_rf import datasets, tune
    >>> found = tune(datasets.load_car().schema, epsilon=1, n_records=1400)
    >>> found.best.mode, found.parameters["n_ensembles"]
    ('training', 2)
    """

    settings: tuple[TunedSetting, ...]
    reasons: tuple[str, ...]
    criterion: str
    schema: Schema
    epsilon: Fraction
    random_state: int

    @property
    def best(self) -> TunedSetting:
        """The setting that comes first."""
        return self.settings[0]

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the classifier of the best setting, without schema, epsilon."""
        names = ("n_trees", "depth", "n_ensembles", "max_features", "template")
        tuned = {name: getattr(self.best, name) for name in names}
        return tuned | {"voting": "weight", "random_state": self.random_state}

    def classifier(self, **parameters: Any) -> Any:
        """Return an unfitted classifier of the best setting.

        Parameters
        ----------
        **parameters
            Further parameters, such as `ledger` or `neighbours`; they win over the
            tuned ones.

        Returns
        -------
        BatchTrainingClassifier, BatchPredictionClassifier or \
SubsampleAggregateClassifier

        Examples
        --------
        >>> from mmech_rf import datasets, tune
        >>> found = tune(datasets.load_iris().schema, epsilon=2, n_records=120)
        >>> type(found.classifier()).__name__
        'BatchTrainingClassifier'
        """
        given = {"epsilon": self.epsilon} | self.parameters | parameters
        return METHODS[self.best.mode].make(self.schema, **given)

    def _table(self) -> list[tuple[str, ...]]:
        binary = self.schema.n_classes == 2
        rows = [HEAD + (("accuracy",) if binary else ())]
        for s in self.settings[:ROWS]:
            trees = "∞" if s.n_trees == math.inf else str(s.n_trees)
            row: tuple[str, ...] = (
                s.mode,
                trees,
                str(s.depth),
                str(s.n_ensembles),
                str(s.max_features),
                s.measured,
                f"{s.correlation:.4f}",
                f"{s.expected_error:.5g}",
            )
            if binary:  # of Gaussian votes and truths with this correlation
                row += (f"{0.5 + math.asin(min(1.0, s.correlation)) / math.pi:.3f}",)
            rows.append(row)
        return rows

    def __str__(self) -> str:
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                f"{cell:<{width}}" if i in TEXT_COLUMNS else f"{cell:>{width}}"
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        left = len(self.settings) - ROWS
        if left > 0:
            lines.append(f"... and {left} more")
        return "\n".join([*lines, "", *self.reasons])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the same content as an HTML table, for notebooks."""

        def line(cells: Sequence[str], tag: str) -> str:
            inner = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr>{inner}</tr>"

        head, *rows = self._table()
        parts = ["<table>", line(head, "th"), *(line(row, "td") for row in rows)]
        left = len(self.settings) - ROWS
        if left > 0:
            parts.append(line([f"... and {left} more"], "td"))
        parts.append("</table>")
        parts += [f"<p>{html.escape(reason)}</p>" for reason in self.reasons]
        return "\n".join(parts)


HEAD = ("mode", "trees", "depth", "q", "d̄", "measured", "correlation", "expected error")
TEXT_COLUMNS = (0, 5)
