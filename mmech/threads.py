"""One BLAS thread while anything is optimized, fitted or released.

Arrays are small there: more threads gain little, and wait for each other as soon as
something else runs beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
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


def _give_up_control() -> None:
    """Let any thread set the number next: the last that ends may not be the first.

    Newer versions of threadpoolctl heed only the thread that set it first, until it
    ends.
    """
    for pool in _thread_pools().lib_controllers:
        clear = getattr(pool, "clear_controlling_thread", None)
        if clear is not None:
            clear()
