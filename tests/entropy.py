"""Entropy that a test chooses: that of the whole system, or of one sampler."""

from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import numpy as np

import mmech.noise.system as system


@contextmanager
def system_entropy(urandom):
    """Let ``urandom(size)`` stand for the operating system's entropy.

    Patched, because the package has no door for it, and must have none.
    """
    with mock.patch.object(system, "os", SimpleNamespace(urandom=urandom)):
        yield


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
