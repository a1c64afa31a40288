"""Every random outcome passes one seam: nothing is drawn beside it."""

import os
from contextlib import contextmanager

import numpy as np
import pytest
from entropy import system_entropy
from rf_cases import PER_BATCH, PRIVATE, SCHEMA, classifier, records

import mmech as mm
from mmech.testing import watch_draws
from mmech_rf import PrivateForestClassifier


@contextmanager
def watched(watcher):
    with pytest.warns(mm.PrivacyLeakWarning, match="tests only"), watch_draws(watcher):
        yield


@pytest.fixture
def kinds():
    """Kinds of all draws; entropy that is asked for outside of a draw is an error."""
    seen, inside = [], []

    def entropy(size):
        assert inside, "entropy was asked for outside of a draw"
        return os.urandom(size)

    def watcher(draw, sample):
        inside.append(draw)
        seen.append(draw.kind)
        outcome = sample()
        inside.pop()
        return outcome

    with system_entropy(entropy), watched(watcher):
        yield seen


COUNTS = np.array([5, 3])


@pytest.mark.parametrize(
    ("kind", "release"),
    [
        ("laplace",
            lambda: mm.MatrixMechanism(mm.Identity(2), epsilon=1).measure(COUNTS)),
        ("gaussian", lambda: mm.MatrixMechanism(mm.Identity(2), rho=1).measure(COUNTS)),
        ("k_norm",
         lambda: mm.noisy_release(COUNTS, sensitivity=1, groups=[1, 1], epsilon=1,
         released="sums")),
        ("exponential",
         lambda: mm.exponential_mechanism(COUNTS, epsilon=1, released="a word")),
        ("permute_and_flip",
         lambda: mm.permute_and_flip(COUNTS, epsilon=1, released="a word")),
        ("quantiles",
         lambda: mm.joint_quantiles(COUNTS, 2, n_records=9, epsilon=1,
         released="a median")),
    ],
)  # fmt: skip
def test_a_release_of_the_engine_is_one_draw(kinds, kind, release):
    release()
    assert kinds == [kind]


@pytest.mark.parametrize("name", PRIVATE)
def test_forests_draw_nothing_beside_the_seam(kinds, name):
    X, y = records(200)
    model = classifier(name).fit(X, y)
    model.predict(X)
    assert "laplace" in kinds
    assert ("assignment" in kinds) == (name in ("laplace disjoint", *PER_BATCH[1:]))


def test_private_forests_draw_nothing_beside_the_seam(kinds):
    X, y = records(3000)
    PrivateForestClassifier(SCHEMA, epsilon=4).fit(X, y).predict(X)
    assert "tree" in kinds
    assert kinds.count("key") == 1


def test_what_a_watcher_returns_is_what_is_released():
    X, y = records(200)
    with watched(lambda draw, sample: sample() * 0):
        model = classifier("laplace shared").fit(X, y)
    assert not np.concatenate(model.leaf_counts_).any()


def test_watching_ends_with_the_block():
    seen = []
    with watched(lambda draw, sample: seen.append(draw) or sample()):
        pass
    mm.MatrixMechanism(mm.Identity(2), epsilon=1).measure(COUNTS)
    assert not seen
