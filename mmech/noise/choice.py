"""Samples and orders of records, and arg max with ties broken at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.noise.exact import exp_bits
from mmech.noise.seam import drawn
from mmech.noise.system import Rng, integers_below, random_words


def assign_records(
    n_records: int, n_parts: int, *, insecure_rng: Rng = None
) -> NDArray[np.int64]:
    """Draw the part of the data that every record goes to, each by itself.

    Parameters
    ----------
    n_records : int
        Number of records.
    n_parts : int
        Number of parts, all equally likely.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (n_records,)
        A part from 0 to n_parts - 1 for every record.

    Notes
    -----
    No record's part depends on another record, so that a record that is added or
    removed changes one part only.

    Proof: ``notebooks/proofs/disjoint_samples.md``.

    Examples
    --------
    >>> from mmech.noise import assign_records
    >>> assign_records(1000, 4).max() < 4
    np.True_
    """

    def assign() -> NDArray[np.int64]:
        return integers_below(np.full(n_records, n_parts), insecure_rng=insecure_rng)

    return np.asarray(drawn("assignment", n_records, assign, n_parts=n_parts))


def poisson_bags(
    n_records: int, n_bags: int, *, insecure_rng: Rng = None
) -> NDArray[np.int64]:
    """Draw how often each record is in each of several bags: Poisson with mean one.

    Exactly: a uniform number is compared with the distribution function, 64 bits at a
    time, until it is known between which two of its values it lies.

    Parameters
    ----------
    n_records, n_bags : int
        Number of records, and of bags.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (n_records, n_bags)

    Examples
    --------
    >>> from mmech.noise import poisson_bags
    >>> poisson_bags(100, 4).shape
    (100, 4)
    """

    def sample() -> NDArray[np.int64]:
        words = random_words(n_records * n_bags, insecure_rng)
        below = np.array(poisson_thresholds(64), np.uint64)
        counts = np.searchsorted(below, words, side="right")
        # A word that is a threshold itself leaves open on which side the number lies.
        for place in np.flatnonzero(np.isin(words, below)):
            number, bits = int(words[place]), 64
            while number in poisson_thresholds(bits):
                number = number << 64 | int(random_words(1, insecure_rng)[0])
                bits += 64
            counts[place] = sum(number > t for t in poisson_thresholds(bits))
        return counts.reshape(n_records, n_bags).astype(np.int64)

    return np.asarray(drawn("samples", n_records, sample, n_samples=n_bags))


@lru_cache(maxsize=8)
def poisson_thresholds(bits: int) -> tuple[int, ...]:
    """Return floor(2**bits P(K <= k)) for k = 0, 1, ... until it is 2**bits - 1.

    For K that is Poisson with mean one, where P(K <= k) is a rational times exp(-1).
    """
    guard = 64
    inverse_e = exp_bits(Fraction(1), bits + guard)
    found: list[int] = []
    term = total = Fraction(1)
    while not found or found[-1] < 2**bits - 1:
        below = inverse_e * total
        above = (inverse_e + 1) * total
        floor = math.floor(below / 2**guard)
        assert floor == math.floor(above / 2**guard), "a threshold needs more bits"
        found.append(floor)
        term /= len(found)
        total += term
    return tuple(found)


def random_permutation(n: int, *, insecure_rng: Rng = None) -> NDArray[np.int64]:
    """Return 0..n-1 in an order drawn uniformly from all (Fisher and Yates).

    Parameters
    ----------
    n : int
        Number of items.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> from mmech.noise import random_permutation
    >>> sorted(random_permutation(4).tolist())
    [0, 1, 2, 3]
    """
    order = np.arange(n)
    others = integers_below(np.arange(n, 0, -1), insecure_rng=insecure_rng)
    for place, ahead in enumerate(others.tolist()):
        other = place + ahead
        order[place], order[other] = order[other], order[place]
    return order


def random_argmax(scores: ArrayLike, *, insecure_rng: Rng = None) -> NDArray[np.int64]:
    """Return the column of each row's maximum, ties broken uniformly at random.

    Breaking ties by column would favour the classes that happen to come first.

    Parameters
    ----------
    scores : array_like, shape (n, k)
        Released scores; the choice is post-processing.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (n,)

    Notes
    -----
    Proof: ``notebooks/proofs/ties.md``.

    Examples
    --------
    >>> from mmech.noise import random_argmax
    >>> random_argmax([[1.0, 3.0, 2.0], [5.0, 0.0, 0.0]])
    array([1, 0])
    """

    def pick(tied: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        draw = partial(integers_below, sizes, insecure_rng=insecure_rng)
        return drawn("ties", None, draw, bounds=sizes)

    return _argmax(scores, pick)


def keyed_argmax(scores: ArrayLike, items: ArrayLike, key: int) -> NDArray[np.int64]:
    """Return the column of each row's maximum, ties broken by a keyed hash.

    With a key drawn once by `random_key` every tie is broken as if at random. The same
    item always gets the same answer: a released model is a function of its input.

    Parameters
    ----------
    scores : array_like, shape (n, k)
        Released scores; the choice is post-processing.
    items : array_like of int, shape (n,)
        Identity of every row, such as its domain cell.
    key : int
        64-bit key of the model.

    Returns
    -------
    ndarray of int64, shape (n,)

    Notes
    -----
    Proof: ``notebooks/proofs/ties.md``.

    References
    ----------
    .. [1] Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
       OOPSLA 2014 (the mixing function).

    Examples
    --------
    >>> from mmech.noise import keyed_argmax
    >>> keyed_argmax([[1.0, 3.0, 2.0], [5.0, 0.0, 0.0]], [7, 8], key=1)
    array([1, 0])
    """

    def pick(tied: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        mixed = np.asarray(items)[tied].astype(np.uint64)
        with np.errstate(over="ignore"):
            mixed = mixed * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(key)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
        return (mixed % sizes.astype(np.uint64)).astype(np.int64)

    return _argmax(scores, pick)


def _argmax(
    scores: ArrayLike,
    pick: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return the column of each row's maximum.

    `pick` gets the tied rows, and how many maxima each has; it returns which to take.
    """
    array = np.asarray(scores)
    if np.isnan(array).any():
        raise ValueError("scores must be numbers, got NaN")
    best = array == array.max(axis=1, keepdims=True)
    winners = best.argmax(axis=1)
    tied = np.flatnonzero(best.sum(axis=1) > 1)
    if tied.size:
        ranks = np.cumsum(best[tied], axis=1)
        picks = pick(tied, ranks[:, -1])
        winners[tied] = (ranks > picks[:, None]).argmax(axis=1)
    return winners.astype(np.int64)
