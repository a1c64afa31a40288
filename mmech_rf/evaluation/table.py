"""Tables of a comparison: as text for people, as csv for programs."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from mmech.writing import replacing
from mmech_rf.evaluation.trials import STAGES, Summary, Trial

__all__ = ["accuracy_table", "comparison_table", "write_csv"]

_GAP = "  "
_NOTHING = "-"


@dataclass(frozen=True)
class _Column:
    title: tuple[str, ...]
    cells: list[str]
    align: str = ">"

    def lines(self, height: int) -> list[str]:
        """Return title and cells, padded to one width."""
        title = [""] * (height - len(self.title)) + list(self.title)
        width = max(map(len, [*title, *self.cells]))
        texts = [*title, "-" * width, *self.cells]
        return [f"{text:{self.align}{width}}" for text in texts]


def _join(columns: Sequence[_Column]) -> str:
    height = max(len(column.title) for column in columns)
    return _beside([column.lines(height) for column in columns])


def _beside(blocks: Sequence[Sequence[str]]) -> str:
    return "\n".join(_GAP.join(row).rstrip() for row in zip(*blocks, strict=True))


def comparison_table(summaries: Sequence[Summary], *, width: int = 120) -> str:
    """Return methods by accuracy, expected error and seconds per stage, as lines.

    The summaries are of one budget. Where the table is wider than `width` characters,
    the seconds come below.
    """
    budgets = {s.epsilon for s in summaries if s.epsilon is not None}
    if len(budgets) > 1:
        raise ValueError("summaries must be of one epsilon; use accuracy_table")
    at = "".join(f"at ε = {_plain(epsilon)}" for epsilon in budgets)
    names = _Column(("method",), [s.method.label for s in summaries], "<")
    found = [
        _Column(("released", at), [s.method.released for s in summaries], "<"),
        _Column(("test", "accuracy"), [_accuracy(s) for s in summaries]),
        _Column(("expected", "error"), [_number(s.expected_error) for s in summaries]),
        _Column(("± per", "answer"), [_number(s.rmse) for s in summaries]),
    ]
    stages = [
        _Column((stage,), [_seconds(s.seconds[stage]) for s in summaries])
        for stage in STAGES
    ]
    seconds = _join(stages).splitlines()
    seconds.insert(0, "seconds".center(len(seconds[1])))
    blocks = [column.lines(2) for column in (names, *found)]
    table = _beside([*blocks, seconds])
    if max(map(len, table.splitlines())) <= width:
        return table
    return f"{_beside(blocks)}\n\n{_beside([blocks[0], seconds])}"


def accuracy_table(summaries: Sequence[Summary]) -> str:
    """Return methods by accuracy at every budget, as lines.

    Methods without a budget show the same number in every column.
    """
    budgets: list[Fraction | None] = [
        *sorted({s.epsilon for s in summaries if s.epsilon is not None})
    ]
    rows: dict[str, dict[Fraction | None, Summary]] = {}
    for summary in summaries:
        rows.setdefault(summary.method.label, {})[summary.epsilon] = summary
    columns = [
        _Column(("method",), list(rows), "<"),
        _Column(
            ("released",),
            [next(iter(row.values())).method.released for row in rows.values()],
            "<",
        ),
    ]
    for epsilon in budgets or [None]:
        title = "any ε" if epsilon is None else f"ε = {_plain(epsilon)}"
        found = [row.get(epsilon) or row.get(None) for row in rows.values()]
        cells = [_NOTHING if one is None else _accuracy(one) for one in found]
        columns.append(_Column((title,), cells))
    means = [
        sum(s.seconds["total"] for s in row.values()) / len(row)
        for row in rows.values()
    ]
    columns.append(_Column(("seconds",), [_seconds(mean) for mean in means]))
    return _join(columns)


def _plain(epsilon: Fraction) -> str:
    return f"{float(epsilon):g}"


def _accuracy(summary: Summary) -> str:
    if summary.accuracy_std is None:
        return f"{summary.accuracy:.3f}"
    return f"{summary.accuracy:.3f} ± {summary.accuracy_std:.3f}"


def _number(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{value:.1f}" if value < 9_999 else f"{value:.2e}".replace("e+0", "e+")


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value else _NOTHING


def write_csv(path: str | os.PathLike[str], trials: Iterable[Trial]) -> None:
    """Write one row per trial; a file of that name is replaced."""
    with (
        replacing(path) as unfinished,
        open(unfinished, "w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.writer(stream)
        what = ("method", "label", "released", "epsilon", "repeat")
        found = ("accuracy", "expected_error", "rmse_per_answer")
        writer.writerow([*what, *found, *(f"{stage}_seconds" for stage in STAGES)])
        for trial in trials:
            method, seconds = trial.method, [trial.seconds[stage] for stage in STAGES]
            epsilon = "" if trial.epsilon is None else float(trial.epsilon)
            cells = (method.name, method.label, method.released, epsilon, trial.repeat)
            errors = (trial.expected_error, trial.rmse)
            writer.writerow([*cells, trial.accuracy, *errors, *seconds])
