"""What models show of themselves: trees in words, importances, pictures, pages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmech.checks import check_integer
from mmech.domain.attribute import Attribute
from mmech_rf.forest.forest import Forest
from mmech_rf.private.base import ForestClassifier
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.schema import Schema
from mmech_rf.show.importances import importances
from mmech_rf.show.page import html_page
from mmech_rf.show.pictures import draw_trees
from mmech_rf.show.trees import Node, ShownTree, by_values
from mmech_rf.show.words import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ShownForest", "grown_trees"]

MOST_LEAVES = 10_000
"""Legibility: leaves of a tree that is put into words."""

RANGES = "The upper end of a range belongs to it."


class ShownForest(ForestClassifier):
    """Base of the forests that are released as a model, which people can look at."""

    @abstractmethod
    def _shown_trees(self) -> Iterator[ShownTree]:
        """Yield the trees in words."""

    @abstractmethod
    def _probabilities(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return class probabilities, or shares of votes, shape (b, k)."""

    def _notes(self) -> list[str]:
        """Return sentences that explain the words of trees."""
        numeric = any(a.kind == "numeric" for a in self.schema_.attributes)
        return [RANGES] if numeric else []

    def describe(self, *, n_trees: int = 10, n_rules: int = 50) -> str:
        """Return what was released as rules, in the words of the schema.

        Branches of a tree that say the same are joined. Nothing is spent.

        Parameters
        ----------
        n_trees : int, default=10
            Trees to describe, at most.
        n_rules : int, default=50
            Rules of each, at most.

        Returns
        -------
        str
            Per tree a title, and one line per leaf: ``age 60 to 75 and margin
            spiculated: malignant``.
        """
        trees = self._first_trees(n_trees)
        check_integer(n_rules, "n_rules")
        texts = [tree.text(n_rules) for tree in trees[:n_trees]]
        if len(trees) > n_trees:
            texts.append("further trees are left out")
        return "\n".join([*texts, *self._notes()])

    def _first_trees(self, n_trees: int) -> list[ShownTree]:
        """Return so many trees, and one more where there are more."""
        check_is_fitted(self)
        return list(islice(self._shown_trees(), check_integer(n_trees, "n_trees") + 1))

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """How far predictions move with each attribute, (d,); they sum to one.

        Computed from the released model on made-up records that are spread evenly over
        the schema: no record is looked at, and nothing is spent. Importances on
        records, by permutation for instance, are not private.
        """
        check_is_fitted(self)
        return importances(self._probabilities, self.schema_.domain_shape)

    def plot(self, *, n_trees: int = 3) -> Figure:
        """Draw importances and the first trees; needs matplotlib (extra ``plot``).

        Parameters
        ----------
        n_trees : int, default=3
            Trees to draw, at most.

        Returns
        -------
        matplotlib.figure.Figure
        """
        trees = self._first_trees(n_trees)[:n_trees]
        return draw_trees(
            trees,
            self.named_importances(),
            title=f"{type(self).__name__}, {self._cost_in_short()}",
        )

    def to_html(self, *, n_trees: int = 10) -> str:
        """Return a page with trees, importances, costs and the privacy statement.

        Parameters
        ----------
        n_trees : int, default=10
            Trees to show, at most.

        Returns
        -------
        str
            A whole HTML file without scripts; names are escaped.
        """
        trees = self._first_trees(n_trees)
        notes = self._notes()
        if len(trees) > n_trees:
            notes = ["Further trees are left out.", *notes]
        return html_page(
            trees[:n_trees],
            self.named_importances(),
            self.card(),
            notes=notes,
            statement=self.privacy_statement_,
        )

    def named_importances(self) -> list[tuple[str, float]]:
        """Return attributes with their importances, the largest first.

        Returns
        -------
        list of (str, float)
            Names, and entries of `feature_importances_`.
        """
        names = map(printable, self.schema_.feature_names)
        pairs = zip(names, self.feature_importances_.tolist(), strict=True)
        return sorted(pairs, key=lambda pair: -pair[1])

    def _cost_in_short(self) -> str:
        card = self.card()
        if not card["private"]:
            return "not private"
        parts = [
            f"{sign} = {card[name]:g}"
            for name, sign in (("epsilon", "ε"), ("delta", "δ"), ("rho", "ρ"))
            if card[name]
        ]
        return ", ".join(parts)


def grown_trees(
    ensembles: Sequence[Ensemble],
    leaves: Callable[[int, slice], Sequence[Node]],
    schema: Schema,
) -> Iterator[ShownTree]:
    """Yield the trees of random forests in words.

    Parameters
    ----------
    ensembles : sequence of Ensemble
    leaves : callable
        What some leaves of an ensemble, given by its position, stand for. It is asked
        for one tree after the other.
    schema : Schema
    """
    number = 0
    for position, ensemble in enumerate(ensembles):
        forest = ensemble.forest
        attributes = [schema.attributes[i] for i in ensemble.features]
        bounds = pairwise(forest.leaf_offsets.tolist())
        for root, (start, stop) in zip(forest.node_offsets, bounds, strict=False):
            number += 1
            if stop - start > MOST_LEAVES:
                node = Node(f"{stop - start:,} leaves, too many to show")
            else:
                nodes = leaves(position, slice(start, stop))
                node = _below(int(root), forest, attributes, nodes)
            yield ShownTree(f"tree {number}", node)


def _below(
    node: int, forest: Forest, attributes: Sequence[Attribute], leaves: Sequence[Node]
) -> Node:
    """Return a node of a forest, and what is below it, in words."""
    feature, child = int(forest.feature[node]), int(forest.child[node])
    if feature < 0:
        return leaves[child]
    codes = range(attributes[feature].size)
    value = -1 if forest.value is None else int(forest.value[node])
    if value < 0:
        parts = [[code] for code in codes]
    elif forest.ordered is not None and forest.ordered[feature]:
        parts = [[*codes[: value + 1]], [*codes[value + 1 :]]]
    else:
        parts = [[value], [code for code in codes if code != value]]
    return by_values(
        attributes[feature],
        [
            (part, _below(child + i, forest, attributes, leaves))
            for i, part in enumerate(parts)
        ],
    )
