"""A line on the terminal for work that takes more than two seconds."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mmech.terminal import say

__all__ = ["releasing", "showing"]

DELAY, PAUSE = 2.0, 0.5
"""Seconds before the line is shown first, and between its changes."""


@contextmanager
def showing(doing: Callable[[], str]) -> Iterator[None]:
    """Show what is being done, and for how long, where a person looks on.

    Parameters
    ----------
    doing : callable
        Returns words for now. It is called in another thread, and only where standard
        error is a terminal. The line is cleared in the end.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def show() -> None:
        start, shown = time.monotonic(), 0
        pause = DELAY
        while not done.wait(pause):
            pause = PAUSE
            width = shutil.get_terminal_size().columns - 1
            line = f"{doing()}, {time.monotonic() - start:.0f} s"[:width]
            say(f"\r{line:{shown}}", end="")
            shown = len(line)
        if shown:
            say(f"\r{'':{shown}}\r", end="")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def releasing(model: Any) -> Callable[[], str]:
    """Return what says the latest release of a model that is being fitted."""

    def words() -> str:
        releases = getattr(getattr(model, "model_", model), "releases_", ())
        last = f", the last: {releases[-1].released}" if releases else ""
        return f"fitting: {len(releases)} releases{last}"

    return words
