"""All probabilities of the draw of a tree, found by following every path."""

import math
from contextlib import contextmanager
from fractions import Fraction
from unittest import mock

import numpy as np
from scipy.special import logsumexp

import mmech_rf.drawn.draw as tree_selection
from mmech.noise import FRACTION_BITS
from mmech.privacy.neighbours import Relation
from mmech_rf.drawn.draw import select_tree
from mmech_rf.drawn.views import public_views

ONE = 2.0**FRACTION_BITS
SMALL = public_views((2, 2))


def draw(
    views,
    codes,
    classes,
    *,
    n_classes=2,
    epsilon="1",
    predict=None,
    neighbours="add_remove",
    ledger=None,
    noise=None,
    **settings,
):
    """Draw a tree; `predict` has a class for every cell of the domain."""
    price = Fraction(epsilon)
    codes = np.asarray(codes, np.int64).reshape(len(classes), 2)
    if predict is not None:
        settings["predicted"] = np.asarray(predict, np.int64)[*codes.T]
    return select_tree(
        views,
        views.cells(codes),
        np.asarray(classes, np.int64),
        n_classes=n_classes,
        epsilon=price,
        n_records=settings.pop("n_records", 100),
        relation=Relation(neighbours),
        pay=lambda: ledger and ledger.spend(price, "a tree", sensitivity=1),
        noise=noise,
        **settings,
    )


class Script:
    """Stands for `weighted_choice`: follows a script and notes all probabilities."""

    def __init__(self, script=()):
        self.script = list(script)
        self.seen = []

    def __call__(self, log_weights, *, insecure_rng=None):
        exact = np.asarray(log_weights)
        logarithms = (exact - exact.max()).astype(np.float64) / ONE
        self.seen.append(logarithms - logsumexp(logarithms))
        place = len(self.seen) - 1
        return self.script[place] if place < len(self.script) else 0


@contextmanager
def choosing(device, module=tree_selection):
    """Let a device stand for `weighted_choice` in a module.

    Patched, because a tree is one draw of the seam: its law is the product of the
    laws of many choices, which pass below.
    """
    with mock.patch.object(module, "weighted_choice", device):
        yield


def conditionals(views, codes, classes, *, draw=draw, **settings):
    """Return log probabilities of roots, then per root and cell: ways, labels."""

    def follow(script):
        device = Script(script)
        with choosing(device):
            draw(views, codes, classes, **settings)
        return device.seen

    n_views = len(views.items)
    roots = follow([])[0]
    tree = {}
    for root in range(n_views):
        for way in range(n_views + 1):
            leaves = int(views.sizes[way]) if way < n_views else 1
            size = int(views.sizes[root])
            script = [root, *([way] + [0] * leaves) * size]
            seen = follow(script)
            for cell in range(size):
                start = 1 + cell * (1 + leaves)
                tree[root, cell, "ways"] = seen[start]
                tree[root, cell, way] = seen[start + 1 : start + 1 + leaves]
    return roots, tree


def largest_log_ratio(first, second, views):
    """Return the largest log of P(tree) / P'(tree) over all trees."""
    (roots, tree), (other_roots, other) = first, second
    best = -math.inf
    for root in range(len(views.items)):
        total = roots[root] - other_roots[root]
        for cell in range(int(views.sizes[root])):
            options = []
            for way in range(len(views.items) + 1):
                ways = tree[root, cell, "ways"][way] - other[root, cell, "ways"][way]
                labels = sum(
                    (a - b).max()
                    for a, b in zip(
                        tree[root, cell, way], other[root, cell, way], strict=True
                    )
                )
                options.append(ways + labels)
            total += max(options)
        best = max(best, total)
    return best


def largest_of_neighbours(first, second, views):
    """Return the largest log ratio of a tree, either way."""
    return max(
        largest_log_ratio(first, second, views), largest_log_ratio(second, first, views)
    )


PREDICT = {"constant": [[0, 0], [0, 0]], "either": [[0, 1], [1, 0]]}
"""Classes for every cell, as an earlier release may predict them."""

DATA = [((), ()), (((0, 0),), (1,)), (((0, 1), (1, 1), (0, 1)), (0, 0, 1))]
