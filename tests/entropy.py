"""Entropy that a test chooses, for the whole system or for one sampler."""

import os
import random
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import mmech.noise.system as system


@contextmanager
def system_entropy(urandom):
    """Let ``urandom(size)`` stand for the operating system's entropy.

    Patched, because the package has no door for it, and must have none.
    """
    with mock.patch.object(system, "os", SimpleNamespace(urandom=urandom)):
        yield


class SameEveryTime:
    """A pytest plugin: every test draws the same noise whenever it runs.

    A statistical test fails by chance with a small probability; over hundreds of them,
    run with every change, that is often. Here the noise of a test, or of a
    fixture which several tests share, follows from its name alone, whatever ran before.
    Other processes draw from the operating system, and so do forks of this one.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        with system_entropy(_named(item.nodeid)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            return (yield)
        parameter = getattr(request, "param_index", 0)
        name = f"{fixturedef.baseid}::{fixturedef.argname}[{parameter}]"
        with system_entropy(_named(name)):
            return (yield)


def _named(name):
    """Return a source of bytes that follow from a name, in this process.

    Samplers ask for a few at a time, which NumPy's generators take long to give.
    """
    own, rng = os.getpid(), random.Random(name)

    def urandom(size):
        return rng.randbytes(size) if os.getpid() == own else os.urandom(size)

    return urandom


class Script:
    """Stands for the generator of a sampler, and gives it these 64-bit words.

    Asking for more than there are is an error; `left` has the bytes that remain.
    """

    def __init__(self, *words, first=b""):
        self.left = first + np.array([int(w) for w in words], np.uint64).tobytes()

    def bytes(self, size):
        assert size <= len(self.left), "a sampler asks for more words than expected"
        taken, self.left = self.left[:size], self.left[size:]
        return taken


class Copy:
    """Stands for a generator, and keeps the bytes that it gave."""

    def __init__(self, rng):
        self.rng, self.given = rng, b""

    def bytes(self, size):
        taken = self.rng.bytes(size)
        self.given += taken
        return taken
