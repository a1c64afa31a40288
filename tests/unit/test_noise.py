"""The noise source: shapes, seeds, entropy and exact tie-breaking."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from entropy import Script, system_entropy
from processes import in_a_fork

from mmech import noise
from mmech.exceptions import EntropyError
from mmech.noise import (
    discrete_gaussian,
    discrete_laplace,
    integers_below,
    keyed_argmax,
    random_argmax,
)
from mmech.noise.system import random_words


def test_words_come_from_the_operating_system():
    asked = []

    def urandom(size):
        asked.append(size)
        return bytes(range(size))

    with system_entropy(urandom):
        first, second = random_words(2, None).tolist()
    assert (first, second) == (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    assert asked == [16]
    assert random_words(0, None).shape == (0,)


def test_processes_never_share_their_noise():
    draws = [in_a_fork(lambda: random_words(4, None).tolist()) for _ in range(2)]
    assert draws[0] != draws[1] != random_words(4, None).tolist() != draws[0]


@pytest.mark.parametrize("failure", [OSError("none"), NotImplementedError()])
@pytest.mark.parametrize(
    "draw",
    [
        lambda: random_words(1, None),
        lambda: discrete_laplace(1, (3,)),
        lambda: discrete_gaussian(1, (3,)),
        lambda: integers_below([5]),
        lambda: random_argmax([[1, 1]]),
    ],
)
def test_without_entropy_nothing_is_drawn(draw, failure):
    def urandom(size):
        raise failure

    with (
        system_entropy(urandom),
        pytest.raises(EntropyError, match="nothing was released; a budget") as caught,
    ):
        draw()
    assert caught.value.__cause__ is failure


def test_default_noise_differs_from_call_to_call():
    assert not np.array_equal(discrete_laplace(9, (50,)), discrete_laplace(9, (50,)))
    bounds = np.full(50, 2**40)
    assert not np.array_equal(integers_below(bounds), integers_below(bounds))


def test_no_global_seed_reaches_the_noise():
    draws = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        draws.append(discrete_laplace(9, (50,)))
    assert not np.array_equal(*draws)


@pytest.mark.parametrize(
    ("draw", "most"), [(discrete_laplace, 2**48 + 1), (discrete_gaussian, 2**96)]
)
def test_wrong_scales(draw, most):
    """Scales that no mechanism asks for, because it was checked before."""
    for scale in (0, -1, math.nan, math.inf, most, "1/0"):
        with pytest.raises((ValueError, OverflowError, ZeroDivisionError)):
            draw(scale, (3,))


def test_integers_below_reject_the_words_that_would_favour_small_numbers():
    # 2**64 mod 3 = 1: the last word is drawn again, for that entry alone.
    words = Script(2**64 - 1, 5, 2**64 - 2)
    drawn = integers_below([3, 3], insecure_rng=words)
    assert drawn.tolist() == [(2**64 - 2) % 3, 2]
    assert not words.left


def test_integers_below_stay_below(rng):
    bounds = rng.integers(1, 2**62, 200)
    drawn = integers_below(bounds)
    assert drawn.dtype == np.int64
    assert ((drawn >= 0) & (drawn < bounds)).all()
    assert integers_below(np.ones(5, int)).tolist() == [0] * 5
    assert integers_below([]).shape == (0,)
    powers = integers_below(np.full(100, 2**63 - 1))
    assert (powers >= 0).all()


def test_argmax_without_ties():
    scores = np.array([[1.0, 3.0, 2.0], [5.0, 0.0, -1.0], [-2.0, -1.0, -0.5]])
    for chosen in (random_argmax(scores), keyed_argmax(scores, [0, 1, 2], key=5)):
        assert chosen.tolist() == [1, 0, 2]
        assert chosen.dtype == np.int64
    assert random_argmax(np.zeros((0, 3))).shape == (0,)
    assert random_argmax(np.ones((4, 1))).tolist() == [0] * 4


def test_argmax_picks_the_tied_column_that_was_drawn():
    tied = np.array([[1, 7, 0, 7, 7], [3, 3, 1, 1, 1]])
    for words, expected in [([0, 0], [1, 0]), ([1, 1], [3, 1]), ([2, 2], [4, 0])]:
        assert random_argmax(tied, insecure_rng=Script(*words)).tolist() == expected


def test_keyed_ties_are_a_function_of_item_and_key(rng):
    scores = np.zeros((500, 4))
    items = np.arange(500)
    first = keyed_argmax(scores, items, key=2**63 + 11)
    assert np.array_equal(first, keyed_argmax(scores, items, key=2**63 + 11))
    order = rng.permutation(500)
    assert np.array_equal(
        keyed_argmax(scores, items[order], key=2**63 + 11), first[order]
    )
    other = keyed_argmax(scores, items, key=12)
    assert 50 < (other != first).sum() < 500


def test_keyed_ties_favour_no_column():
    # A fixed function: 8000 items and 20 keys, so the counts are constants.
    scores = np.zeros((8000, 3))
    for key in range(20):
        counts = np.bincount(keyed_argmax(scores, np.arange(8000), key), minlength=3)
        assert abs(counts - 8000 / 3).max() < 5 * math.sqrt(8000 * 2 / 9)


def test_no_other_module_draws_noise():
    folder = Path(noise.__file__).parent
    package = folder.parent
    sources = {
        path.relative_to(package).as_posix(): path.read_text()
        for path in package.rglob("*.py")
    }
    assert "os.urandom" in sources.pop("noise/system.py")
    forbidden = (
        r"urandom|^\s*import (?:secrets|random)\b|SystemRandom|np\.random\.[a-z]+\("
    )
    for name, source in sources.items():
        found = set(re.findall(forbidden, source, re.MULTILINE)) - {
            "np.random.default_rng("
        }
        assert not found, f"{name} uses {found}"
