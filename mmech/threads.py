"""Around long work: one BLAS thread, a line that shows it, a Ctrl-C that waits.

While anything is optimized, fitted or released, arrays are small: more threads gain
little, and wait for each other as soon as something else runs beside them.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class _Limit:
    """The limit in force, and how many blocks hold it.

    The number of BLAS threads is a setting of the whole process. So a block must not
    simply restore the number that it found: if it began during a block of another
    thread, it would restore the limit of one thread after both have ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limiter: Any = None

    def hold(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._limiter = _thread_pools().limit(limits=1, user_api="blas")
                _give_up_control()
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._limiter.restore_original_limits()
                _give_up_control()


_LIMIT = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread; the last block that ends restores the number.

    It decorates functions, too, and costs next to nothing inside of another one.
    """
    _LIMIT.hold()
    try:
        yield
    finally:
        _LIMIT.release()


@cache
def _thread_pools() -> Any:
    """Return the BLAS libraries in use, looked for once: that takes milliseconds."""
    import scipy.linalg  # noqa: F401  (brings a library of its own)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def blas_libraries() -> list[str]:
    """Return the BLAS libraries in use, and for which processor they are."""
    return sorted(
        " ".join(
            str(pool.get(key)) for key in ("internal_api", "version", "architecture")
        )
        for pool in _thread_pools().info()
        if pool["user_api"] == "blas"
    )


def _give_up_control() -> None:
    """Let any thread set the number next: the last that ends may not be the first.

    Newer versions of threadpoolctl heed only the thread that set it first, until it
    ends.
    """
    for pool in _thread_pools().lib_controllers:
        clear = getattr(pool, "clear_controlling_thread", None)
        if clear is not None:
            clear()


# ---- shown, and interrupted ------------------------------------------------------


def say(message: str, end: str = "\n") -> None:
    """Print a message for the person at the terminal, on standard error."""
    print(message, end=end, file=sys.stderr, flush=True)


charged = threading.Event()
"""Set before a ledger of this process is charged, for who says what was spent."""

_shown: list[Callable[[], str]] = []
"""What is shown now, the outermost first."""


@contextmanager
def showing(
    doing: Callable[[], str], delay: float = 1.0, pause: float = 0.5
) -> Iterator[None]:
    """Show what is being done, and for how long, where a person looks on.

    Parameters
    ----------
    doing : callable
        Returns words for now. It is called in another thread, and only where standard
        error is a terminal. The line is cleared in the end. A call within another adds
        its words to the line.
    delay, pause : float
        Seconds before the line is shown first, and between its changes.
    """
    if _shown:
        _shown.append(doing)
        try:
            yield
        finally:
            _shown.remove(doing)
        return
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    _shown.append(doing)

    def show() -> None:
        start, shown = time.monotonic(), 0
        wait = delay
        while not done.wait(wait):
            wait = pause
            width = shutil.get_terminal_size().columns - 1
            words = ", ".join(each() for each in tuple(_shown))
            line = f"{words}, {time.monotonic() - start:.0f} s"[:width]
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
        _shown.remove(doing)


@contextmanager
def finishing(spent: Callable[[], str]) -> Iterator[None]:
    """Let the first Ctrl-C wait once a budget is spent; the second one interrupts.

    Parameters
    ----------
    spent : callable
        Returns what is spent, in words, or an empty text. An interruption before
        anything is spent takes effect at once.

    Notes
    -----
    Python delivers signals to the main thread alone, and a program may have a handler
    of its own: elsewhere, and there, nothing changes.
    """
    standard = signal.default_int_handler
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not standard
    ):
        yield
        return

    def wait(number: int, frame: Any) -> None:
        words = spent()
        signal.signal(signal.SIGINT, standard)
        if not words:
            standard(number, frame)
        say(
            f"\n{words} is spent, so the work goes on to its end; interrupt again to "
            "stop and lose it"
        )

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, standard)
