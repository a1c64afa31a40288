"""Code that runs in a copy of this process, or with less room for its files."""

import multiprocessing
from contextlib import contextmanager

import pytest

PATIENCE = 60
"""Seconds after which a process that does not answer is taken to be stuck."""


@contextmanager
def largest_file(size):
    """Let every write end in an OSError that makes a file larger than so many bytes."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def forking():
    """Return what makes forks; who asks is skipped on a system without them."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("there are no forks")
    return multiprocessing.get_context("fork")


def in_a_fork(task):
    """Return what a function without arguments returns in a forked process."""
    context = forking()
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=lambda: send.send(task()))
    process.start()
    send.close()
    try:
        assert receive.poll(PATIENCE), "the forked process is stuck"
        return receive.recv()
    finally:
        process.terminate()
        process.join()
