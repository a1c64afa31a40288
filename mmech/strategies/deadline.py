"""How far an optimization is, and a time limit that only truncates it."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mmech.threads import showing


@dataclass(eq=False)
class _Run:
    """An optimization that is going on: its end in seconds, and how far it is."""

    end: float = math.inf
    template: str = "preparing"
    steps: int = 0

    def words(self) -> str:
        """Return what a person who waits is shown."""
        return f"optimize: {self.template}, {self.steps} steps"


_run: ContextVar[_Run] = ContextVar("the optimization", default=_Run())  # noqa: B039


@contextmanager
def time_limit(budget_seconds: Any) -> Iterator[None]:
    """Let `time_is_up` answer yes after some seconds, or never, in this thread.

    A terminal shows the template and its number of steps meanwhile.
    """
    if budget_seconds is not None:
        if isinstance(budget_seconds, bool) or not isinstance(
            budget_seconds, numbers.Real
        ):
            raise TypeError(
                f"budget_seconds must be a number > 0 or None, got {budget_seconds!r}"
            )
        if not float(budget_seconds) > 0:
            raise ValueError(f"budget_seconds must be > 0, got {budget_seconds}")
    limit = math.inf if budget_seconds is None else float(budget_seconds)
    run = _Run(time.perf_counter() + limit)
    token = _run.set(run)
    try:
        with showing(run.words):
            yield
    finally:
        _run.reset(token)


def start_template(name: str) -> None:
    """Tell whoever waits which template is searched from now on."""
    run = _run.get()
    run.template, run.steps = name, 0


def time_is_up() -> bool:
    """Count a step, and return whether the optimization that runs should end."""
    run = _run.get()
    run.steps += 1
    return time.perf_counter() > run.end
