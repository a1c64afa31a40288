"""A time limit that only truncates: what was found so far is returned."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["time_is_up", "time_limit"]

_end: ContextVar[float] = ContextVar("end of the optimization", default=math.inf)


@contextmanager
def time_limit(budget_seconds: Any) -> Iterator[None]:
    """Let `time_is_up` answer yes after some seconds, or never, in this thread."""
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
    token = _end.set(time.perf_counter() + limit)
    try:
        yield
    finally:
        _end.reset(token)


def time_is_up() -> bool:
    """Return whether the optimization that is running should end."""
    return time.perf_counter() > _end.get()
