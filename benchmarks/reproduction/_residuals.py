"""One run of every published row, and what is left between the two."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.reproduction._published import TRAINED_ON, unexplained
from benchmarks.reproduction._settings import (
    METHODS,
    PROBLEMS,
    Setting,
    Task,
    figure_setting,
    records_of,
)
from benchmarks.reproduction._trials import Found
from mmech_rf.evaluation import markdown_table

WORST = 8
"""How many rows the report lists."""


@dataclass(frozen=True)
class Residual:
    """A published row beside one run of one forest.

    Attributes
    ----------
    row : dict
        The row of `published.csv`.
    measured : float
        Test accuracy of the run.
    reason : str or None
        Why the published algorithm does not explain the row, if it does not.
    """

    row: dict[str, str]
    measured: float
    reason: str | None

    @property
    def difference(self) -> float:
        """Measured less published accuracy."""
        return self.measured - float(self.row["mean"])

    @property
    def error(self) -> float:
        """Standard error of the difference; NaN where no spread was published."""
        runs = int(self.row["runs"])
        return float(self.row["std"] or "nan") * math.sqrt(1 + 1 / runs)

    @property
    def is_close(self) -> bool:
        """Whether the difference is at most two standard errors."""
        return abs(self.difference) <= 2 * self.error


def setting_of(row: dict[str, str]) -> Setting:
    """Return the forest of a published row, with the published strategy."""
    own = figure_setting(row["dataset"], row["method"])
    trained = row["source"] in TRAINED_ON
    return replace(
        own,
        voting=row["voting"],
        depth=int(row["depth"]),
        trees=int(row["trees"]),
        queries=int(row["queries"]) if trained else 0,
        split="trained" if trained else "paper",
        template="identity",
    )


def tasks(published: Iterable[dict[str, str]]) -> list[Task]:
    """Return one forest per setting of published rows, with all its budgets."""
    budgets: dict[Setting, set[float]] = {}
    for row in published:
        if not isinstance(records_of(row["dataset"]), str):
            own = budgets.setdefault(setting_of(row), set())
            own.add(float(row["epsilon"]))
    return [Task(setting, 0, tuple(sorted(own)), 1) for setting, own in budgets.items()]


def residuals(
    published: Iterable[dict[str, str]],
    own: Iterable[Task],
    results: dict[str, list[Found]],
) -> list[Residual]:
    """Return the published rows that were run, in the order of the file."""
    measured = {
        (task.setting, found.epsilon): found.accuracy
        for task in own
        for found in results.get(task.key, ())
    }
    places = ((row, (setting_of(row), float(row["epsilon"]))) for row in published)
    return [
        Residual(row, measured[place], unexplained(row))
        for row, place in places
        if place in measured
    ]


# ---- files -----------------------------------------------------------------------


def write_csv(path: Path, found: Sequence[Residual]) -> None:
    """Write every row with its residual."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*found[0].row, "measured", "residual", "unexplained"])
        for one in found:
            numbers = (f"{one.measured:.4f}", f"{one.difference:+.4f}")
            writer.writerow([*one.row.values(), *numbers, one.reason or ""])


def report(found: Sequence[Residual], n_published: int) -> list[str]:
    """Return the lines of the report."""
    groups: dict[tuple[str, ...], list[Residual]] = {}
    for one in found:
        row = one.row
        key = (row["dataset"], row["method"], row["voting"], one.reason or "")
        groups.setdefault(key, []).append(one)
    order = list(PROBLEMS)
    head = "data set, method, votes, not explained by the published algorithm, rows"
    body = []
    for key in sorted(groups, key=lambda key: (key[3] != "", order.index(key[0]))):
        own = groups[key]
        values = [one.difference for one in own]
        cells = [
            key[0],
            METHODS[key[1]],
            key[2],
            key[3],
            str(len(own)),
            f"{statistics.fmean(values):+.3f}",
            f"{statistics.pstdev(values):.3f}",
            f"{_close(own):.0%}",
        ]
        body.append(cells)
    explained = [one for one in found if one.reason is None]
    mean = statistics.fmean(one.difference for one in explained)
    worst = sorted(explained, key=lambda one: -abs(one.difference))[:WORST]
    lines = [
        f"**{len(found)} of {n_published}** published rows were run once: one forest "
        "with the published strategy, the identity, and one draw of the noise. The "
        "residual is the measured less the published accuracy; it is *close* where it "
        "is at most two standard errors of a single run, from the published spread, "
        "which is of the noise alone and not of the forest. `residuals.csv` has all of "
        "them.",
        "",
        f"Rows that the published algorithm explains: {len(explained)}, mean residual "
        f"{mean:+.3f}, {_close(explained):.0%} close.",
        "",
        markdown_table(
            [*head.split(", "), "mean residual", "spread", "close"], body, n_texts=4
        ),
        "The largest residuals of explained rows:",
        "",
    ]
    rows = []
    for one in worst:
        row = one.row
        cells = [
            row["dataset"],
            row["source"],
            METHODS[row["method"]],
            *(row[name] for name in ("voting", "depth", "trees", "epsilon")),
            f"{float(row['mean']):.3f} ± {float(row['std']):.3f}",
            f"{one.measured:.3f}",
        ]
        rows.append(cells)
    head = "data set, file, method, votes, h, τ, ε, published, measured"
    return [*lines, markdown_table(head.split(", "), rows, n_texts=4)]


def _close(found: Sequence[Residual]) -> float:
    return sum(one.is_close for one in found) / len(found)
