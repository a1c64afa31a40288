"""Code that runs in a copy of this process."""

import multiprocessing

PATIENCE = 60
"""Seconds after which a process that does not answer is taken to be stuck."""


def in_a_fork(task):
    """Return what a function without arguments returns in a forked process."""
    context = multiprocessing.get_context("fork")
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
