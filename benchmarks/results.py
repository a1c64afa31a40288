"""Outcomes by key: measured in parallel, kept in a csv file, shown as Markdown."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, parallel
from tqdm import tqdm

from mmech.writing import replacing

Key = tuple[Any, ...]
Step = TypeVar("Step")


class Results(dict[Key, Any]):
    """Outcomes by key; with a path, a csv file holds them and a later run goes on.

    Parameters
    ----------
    path : path-like, optional
        File to go on from. A line that was cut off by an interruption is dropped.
    keys, fields : mapping of str to type, optional
        Columns of a key and of an outcome; outcomes are then tuples. Floats are kept
        with six digits after the point.

    Examples
    --------
    >>> results = Results()
    >>> results.run([2, 3], lambda n: [((n,), n**2)], jobs=1)
    >>> results[3,]
    9
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        keys: Mapping[str, type] | None = None,
        fields: Mapping[str, type] | None = None,
    ) -> None:
        super().__init__()
        self.path = None if path is None else Path(path)
        self.n_keys, self.fields = len(keys or {}), dict(fields or {})
        self.columns = {**(keys or {}), **self.fields}
        if self.path is None or not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        kinds = list(self.columns.values())
        for row in csv.reader(line for line in lines[1:] if line.endswith("\n")):
            cells = [kind(cell) for kind, cell in zip(kinds, row, strict=True)]
            self[tuple(cells[: self.n_keys])] = tuple(cells[self.n_keys :])
        if lines and not lines[-1].endswith("\n"):
            self.keep(lambda key: True)

    def keep(self, wanted: Callable[[Key], bool]) -> None:
        """Forget the outcomes of all other keys; the file is replaced."""
        for key in [key for key in self if not wanted(key)]:
            del self[key]
        if self.path is not None:
            with replacing(self.path) as unfinished:
                self._write(unfinished, "w", self.items(), head=True)

    def run(
        self,
        plan: Iterable[Step],
        measure: Callable[[Step], Iterable[tuple[Key, Any]]],
        *,
        jobs: int | None = None,
        desc: str | None = None,
        progress: bool = False,
    ) -> None:
        """Measure every step, and remember its outcomes at once.

        One step after the other, unless there are several jobs or joblib is configured
        otherwise, as in ``joblib.parallel_config(backend="dask")``.

        Parameters
        ----------
        plan : iterable
            Steps to take, in order.
        measure : callable
            Returns the keys and outcomes of a step.
        jobs : int, optional
            Processes; joblib's configuration by default.
        desc : str, optional
            Text before the progress bar.
        progress : bool, default=False
            Whether to draw a bar on the standard error stream.
        """
        steps = list(plan)
        generates = parallel.get_active_backend()[0].supports_return_generator
        found = Parallel(
            n_jobs=jobs, return_as="generator" if jobs or generates else "list"
        )(delayed(measure)(step) for step in steps)
        bar = tqdm(
            found, desc=desc, total=len(steps), disable=not progress, leave=False
        )
        if self.path is not None and steps and not self.path.exists():
            self._write(self.path, "w", (), head=True)
        for outcomes in bar:
            rows = [(key, self._stored(value)) for key, value in outcomes]
            self.update(rows)
            if self.path is not None:
                self._write(self.path, "a", rows)

    def _stored(self, value: Any) -> Any:
        """Return an outcome as the file has it."""
        if not self.fields:
            return value
        found = (kind(v) for kind, v in zip(self.fields.values(), value, strict=True))
        return tuple(round(v, 6) if isinstance(v, float) else v for v in found)

    def _write(
        self, path: Any, mode: str, rows: Iterable[tuple[Key, Any]], head: bool = False
    ) -> None:
        with open(path, mode, newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            if head:
                writer.writerow(self.columns)
            writer.writerows([*key, *value] for key, value in rows)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; NaN for a single value."""
    if len(values) < 2:
        return math.nan
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def markdown_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    n_texts: int | None = None,
) -> str:
    """Return a Markdown table; columns after the first `n_texts` are aligned right.

    Examples
    --------
    >>> print(markdown_table(["data", "accuracy"], [["car", "0.9"]], n_texts=1), end="")
    | data | accuracy |
    |---|---:|
    | car | 0.9 |
    """
    n_texts = len(head) if n_texts is None else n_texts
    rule = "---|" * n_texts + "---:|" * (len(head) - n_texts)
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], f"|{rule}", *lines[1:]]) + "\n"
