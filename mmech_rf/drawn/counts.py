"""Class counts in the leaves of trees, and the log-odds that they vote with.

Noise that is known enters twice: counts are smoothed in proportion to its scale, and
what is left of it is the standard error of a vote.
"""

from __future__ import annotations

import math

import numpy as np

from mmech import Measurement
from mmech_rf.arrays import Floats, Integers

# Provenance: as `DrawnSettings`.

SMOOTHING = 1.5
"""Smoothing: count added to a leaf, in scales of its noise, beside half a record."""

LABEL_SMOOTHING = 8.0
"""Smoothing: weight of what all leaves of a label have in common, in units of the
smoothing of a leaf without a label."""


def noise_scale(measured: Measurement, unit: int) -> float:
    """Return the scale of Laplace noise, or of what has the variance of Gaussian."""
    gaussian = measured.entry.currency == "rho"
    scale = measured.scale / math.sqrt(2) if gaussian else measured.scale
    return float(scale / unit)


def leaf_votes(
    measured: Measurement, unit: int, *, even: bool = False
) -> tuple[Floats, Floats]:
    """Return log shares of the classes in every leaf, and their standard errors.

    Smoothing: towards the shares in all leaves, or towards even ones.
    """
    counts = measured.values / unit
    n_classes = counts.shape[1]
    scale = noise_scale(measured, unit)
    added = SMOOTHING * scale + 0.5
    totals = np.maximum(counts.sum(axis=0), 1.0)
    shares = np.full(n_classes, 1.0 / n_classes) if even else totals / totals.sum()
    smooth = np.maximum(counts, 0.0) + added * shares
    return _logarithms(smooth), math.sqrt(2) * scale / smooth


def labelled_votes(
    measured: Measurement, labels: Integers, n_records: float
) -> tuple[Floats, Floats]:
    """Return log shares of the classes in g leaves with labels, and standard errors.

    Both of shape (g, k); the label has the largest vote. Labels were drawn for being
    right, with more budget than counts have, so that none is outvoted: counts are moved
    to the nearest ones of which no other class has more than the label
    (`with_largest`). They are smoothed towards the shares in all leaves of the same
    label, and these towards the accuracy of all labels, by the public number of
    records.
    """
    counts = measured.values.astype(float)
    g, k = counts.shape
    scale = noise_scale(measured, 1)
    added = LABEL_SMOOTHING * (SMOOTHING * scale + 0.5)
    together = np.zeros((k, k))
    np.add.at(together, labels, counts)
    common = with_largest(together, np.arange(k))
    accuracy = accuracy_of_labels(measured, labels, n_records)
    others = (1 - accuracy) / max(k - 1, 1)
    accurate = np.where(np.eye(k, dtype=bool), accuracy, others)
    leaves = np.sqrt(np.maximum(np.bincount(labels, minlength=k), 1))[:, None]
    common = np.maximum(common, 0.0) + added * leaves * accurate
    error = math.sqrt(2) * scale * leaves / common.sum(axis=1, keepdims=True)
    common /= common.sum(axis=1, keepdims=True)
    counts = with_largest(counts, labels)
    smooth = np.maximum(counts, 0.0) + added * common[labels]
    votes = _logarithms(smooth)
    votes[np.arange(g), labels] += 1e-9  # the label wins among equal shares
    errors = np.hypot(math.sqrt(2) * scale, added * error[labels]) / smooth
    return votes, errors


def with_largest(counts: Floats, labels: Integers) -> Floats:
    """Return the nearest counts of which none is larger than the label's.

    By least squares: the label and the classes above it take their mean.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech_rf.drawn.counts import with_largest
    >>> with_largest(np.array([[2.0, 6.0, 1.0], [5.0, 3.0, -1.0]]), np.array([0, 0]))
    array([[ 4.,  4.,  1.],
           [ 5.,  3., -1.]])
    """
    rows = np.arange(len(labels))
    own = counts[rows, labels]
    others = counts.copy()
    others[rows, labels] = -np.inf
    others = np.sort(others, axis=1)[:, :0:-1]  # the label itself comes last
    level, total = own.copy(), own.copy()
    for taken, other in enumerate(others.T, 2):
        above = other > level
        total[above] += other[above]
        level[above] = total[above] / taken
    found = np.minimum(counts, level[:, None])
    found[rows, labels] = level
    return found


def accuracy_of_labels(
    measured: Measurement, labels: Integers, n_records: float
) -> float:
    """Return the accuracy of labels: the best linear estimate from class counts.

    Before anything is counted it may be anything from an even chance to one: the labels
    were drawn for being right. Parameters are those of `labelled_votes`.
    """
    counts = measured.values
    g, k = counts.shape
    even = 1.0 / k
    mean, variance = (1 + even) / 2, (1 - even) ** 2 / 12
    right = counts[np.arange(g), labels].sum()
    found = (n_records + 2 * right - counts.sum()) / (2 * n_records)
    noise = noise_scale(measured, 1) * math.sqrt(g * k / 2) / n_records
    known = variance / (variance + noise**2) if k > 1 else 1.0
    accuracy = known * found + (1 - known) * mean
    return float(min(max(accuracy, even), 1.0 - 1e-3))


def _logarithms(smooth: Floats) -> Floats:
    return np.asarray(np.log(smooth / smooth.sum(axis=1, keepdims=True)))
