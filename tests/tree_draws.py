"""All probabilities of the draw of a tree, found by following every path."""

import itertools
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from unittest import mock

import numpy as np

import mmech_rf.drawn.draw as tree_selection
from mmech import PrivacyLeakWarning
from mmech.noise import FRACTION_BITS
from mmech.privacy.neighbours import Relation
from mmech.testing import watch_draws
from mmech_rf.drawn.draw import select_tree
from mmech_rf.drawn.views import public_views

ONE = 2.0**FRACTION_BITS
SMALL = public_views((2, 2))


def draw(views, codes, classes, *, epsilon="1", predict=None, ledger=None, **settings):
    """Draw a tree; `predict` has a class for every cell of the domain."""
    price = Fraction(epsilon)
    codes = np.asarray(codes, np.int64).reshape(len(classes), 2)
    if predict is not None:
        settings["predicted"] = np.asarray(predict, np.int64)[*codes.T]
    settings = {"n_classes": 2, "n_records": 100, "noise": None} | settings
    settings["relation"] = Relation(settings.pop("neighbours", "add_remove"))
    settings["pay"] = lambda: ledger and ledger.spend(price, "a tree", sensitivity=1)
    classes = np.asarray(classes, np.int64)
    return select_tree(views, views.cells(codes), classes, epsilon=price, **settings)


class Script:
    """Stands for `weighted_choice`: follows a script and notes all probabilities."""

    def __init__(self, script=()):
        self.script = list(script)
        self.seen = []

    def __call__(self, log_weights, *, insecure_rng=None):
        exact = np.asarray(log_weights)
        logarithms = (exact - exact.max()).astype(np.float64) / ONE
        self.seen.append(logarithms - np.log(np.exp(logarithms).sum()))
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


@dataclass
class Choice:
    """A choice in the draw of a tree.

    Attributes
    ----------
    logs : ndarray of float64
        Log probabilities of its options.
    below : list of list of Choice
        What is chosen next, after each option, independently of each other.
    """

    logs: np.ndarray
    below: list

    @classmethod
    def of_label(cls, logs):
        return cls(logs, [[] for _ in logs])

    def outcomes(self):
        """Yield all that can come of it, with log probabilities."""
        for option, (log, below) in enumerate(zip(self.logs, self.below, strict=True)):
            for rest in itertools.product(*map(Choice.outcomes, below)):
                keys = tuple(key for key, _ in rest)
                yield (option, *keys), log + sum(value for _, value in rest)


def conditionals(views, codes, classes, *, draw=draw, **settings):
    """Return the choice of a root, with all that is chosen after it."""
    found = []

    def watcher(_, sample):
        found.append(_conditionals(views, sample))
        return sample()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        with watch_draws(watcher):
            draw(views, codes, classes, **settings)
    (choice,) = found
    return choice


def _conditionals(views, sample):
    def follow(script):
        device = Script(script)
        with choosing(device):
            sample()
        return device.seen

    def parts(root, way):
        """Return what is drawn in every cell of a root that goes the same way."""
        n_cells = int(views.sizes[root])
        seen = follow([root, *way * n_cells])[1:]
        assert len(seen) == len(way) * n_cells
        return [seen[i : i + len(way)] for i in range(0, len(seen), len(way))]

    def ends(parts):
        """Return a choice of ways, from what was drawn along each."""
        return Choice(parts[0][0], [list(map(Choice.of_label, p[1:])) for p in parts])

    # What a cell may do: a view and labels, or one label.
    ways = [[way] + [0] * int(size) for way, size in enumerate([*views.sizes, 1])]
    roots = follow([])[0]
    below = []
    for root in range(roots.size):
        found = [parts(root, way) for way in ways]
        below.append([ends(cell) for cell in zip(*found, strict=True)])
    return Choice(roots, below)


def largest_log_ratio(first, second):
    """Return the largest log of P(tree) / P'(tree) over all trees."""
    return max(
        one - other + sum(map(largest_log_ratio, ones, others))
        for one, other, ones, others in zip(
            first.logs, second.logs, first.below, second.below, strict=True
        )
    )


def largest_of_neighbours(first, second):
    """Return the largest log ratio of a tree, either way."""
    return max(largest_log_ratio(first, second), largest_log_ratio(second, first))


PREDICT = {"constant": [[0, 0], [0, 0]], "either": [[0, 1], [1, 0]]}
"""Classes for every cell, as an earlier release may predict them."""

DATA = [((), ()), (((0, 0),), (1,)), (((0, 1), (1, 1), (0, 1)), (0, 0, 1))]


def every_neighbour(codes, classes, neighbours="add_remove"):
    """Yield what may be added, or put in the place of the last record."""
    kept = len(classes) - (neighbours == "replace")
    for cell in itertools.product(range(2), repeat=2):
        for label in range(2):
            yield (*codes[:kept], cell), (*classes[:kept], label)
