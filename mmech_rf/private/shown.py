"""What models show of themselves: trees in words, importances, pages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmech import ParameterError
from mmech.checks import check_bool, check_integer
from mmech.domain.attribute import Attribute
from mmech.noise import LAPLACE, random_key
from mmech.privacy.neighbours import Relation
from mmech.terminal import printable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.forest.ensembles import Ensemble
from mmech_rf.forest.forest import Forest
from mmech_rf.private.accuracy import HELD_OUT, Accuracy
from mmech_rf.private.classifier import ForestClassifier
from mmech_rf.private.cuts import in_bins
from mmech_rf.private.estimator import estimator
from mmech_rf.private.records import EncodedRecords
from mmech_rf.schema import Schema
from mmech_rf.show.page import ClassShare, class_shares, html_page
from mmech_rf.show.trees import Node, ShownTree, by_values

MOST_LEAVES = 10_000
"""Legibility: leaves of a tree that is put into words."""

MADE_UP = 2000
"""Accuracy: made-up records; importances stand within some percent."""

EVENED = "What trees say together is evened out where it would break a direction:"

RANGES = "The upper end of a range belongs to it."


@estimator
class ShownForest(ForestClassifier):
    """Base of the forests that are released as a model, which people can look at.

    Parameters
    ----------
    estimate_accuracy : bool, default=False
        Whether one record in five is held out, and noisy counts of its right and wrong
        labels are released as `accuracy_`. No more of epsilon is spent, because no
        record is used for both; every fit pays for its own. Proof:
        ``notebooks/proofs/held_out_records.md``.

    Attributes
    ----------
    accuracy_ : Accuracy or None
        How often the model is right, with an interval, if `estimate_accuracy`.
    """

    estimate_accuracy: bool = False

    accuracy_: Accuracy | None = field(init=False)

    # ---- accuracy ----------------------------------------------------------

    def _check_parameters(self) -> Fraction:
        check_bool(self.estimate_accuracy, "estimate_accuracy")
        ledger = self.ledger
        if self.estimate_accuracy and getattr(ledger, "whole", ledger) is not ledger:
            raise ParameterError(
                "estimate_accuracy",
                "splits the records once more, which a part of a ledger has no account "
                "of",
                remedy=("pass the whole ledger", "leave {estimate_accuracy} out"),
            )
        epsilon = super()._check_parameters()
        if self.estimate_accuracy:
            # Noise that cannot be drawn is refused before the forest is paid for.
            persons = Relation(self.neighbours, self.records_per_person)
            LAPLACE.parameter(Fraction(persons.factor), epsilon)
        return epsilon

    @property
    def _counts_distinct(self) -> bool:
        # Held out is every record by itself, and not as often as it is there.
        return self._distinct and not self.estimate_accuracy

    @property
    def _training_share(self) -> float:
        """Share of the records that the forest is released from."""
        return 1 - 1 / HELD_OUT if self.estimate_accuracy else 1.0

    def _measure(self, records: EncodedRecords) -> None:
        """Release the forest; where records are held out, from the others alone."""
        known, self.accuracy_ = vars(self).get("accuracy_"), None
        if not self.estimate_accuracy:
            super()._measure(records)
            return
        # Persons of this fit: who is held out here may train another model.
        partition = f"records of fit {random_key(None):x}"
        if self._again:  # a name that the fit made up is public
            partition = str(known and known.entry.partition)
        session = self._session
        session.ledger = session.ledger.part(partition, "training")
        training, held_out = records.divided(HELD_OUT, session.noise)
        if self._distinct:
            training = training.added_up(self.schema_)
        read_in = self.schema_
        super()._measure(training)
        held_out = in_bins(held_out, read_in, self.schema_)
        cost, whole = session.ledger.spent, session.ledger.whole
        with self._timed("prediction"):
            right = self._predict_classes(held_out.codes) == held_out.class_codes
        session.ledger = whole.part(partition, "held out")
        counts = np.array([right.sum(), (~right).sum()])
        what = "right and wrong labels of held-out records"
        with self._timed("measurement"):
            measured = session.add_noise(counts, cost, what, currency=whole.currency)
        session.ledger = whole
        n_right, n_wrong = measured.values.tolist()
        self.accuracy_ = Accuracy(n_right, n_wrong, measured.entry)

    def _remarks(self) -> list[str]:
        if self.accuracy_ is None:
            return super()._remarks()
        return [
            *super()._remarks(),
            "Every record is in one of the two parts, drawn for it by itself, so that "
            "together they cost as much as one.",
            f"Accuracy on new records: {self.accuracy_}, for records that are drawn "
            f"like those held out, one in {HELD_OUT}.",
        ]

    def card(self) -> dict[str, Any]:
        """Return the card of all classifiers, with the ``accuracy`` if released.

        Returns
        -------
        dict
            ``accuracy`` has the ``estimate``, the bounds ``lower`` and ``upper`` at a
            ``level``, and the noisy counts ``right`` and ``wrong``; or is None.
        """
        card = super().card()
        found = self.accuracy_
        return card | {"accuracy": None if found is None else found.card()}

    @classmethod
    def _stored(cls) -> dict[str, str]:
        return super()._stored() | {"accuracy": "accuracy_"}

    @property
    def _evident(self) -> list[str]:
        return [*super()._evident, "accuracy_"]

    # ---- what is shown -----------------------------------------------------

    @abstractmethod
    def _shown_trees(self) -> Iterator[ShownTree]:
        """Yield the trees in words."""

    def _notes(self) -> list[str]:
        """Return sentences that explain the words of trees."""
        numeric = any(a.kind == "numeric" for a in self.schema_.attributes)
        notes = [RANGES] if numeric else []
        if self.schema_.monotone:
            notes.append(EVENED)
        for name, direction in self.schema_.monotone.items():
            rarer = "less" if direction > 0 else "more"
            notes.append(
                f"Later classes are never {rarer} likely for more of {printable(name)}."
            )
        return notes

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
        the schema, before directions of monotone attributes are kept: no record is
        looked at, and nothing is spent. Importances on records, by permutation for
        instance, are not private.
        """
        check_is_fitted(self)
        return importances(self._probabilities, self.schema_.domain_shape)

    def to_html(self, *, n_trees: int = 10, title: str | None = None) -> str:
        """Return a page with rules, importances, costs and the privacy statement.

        Parameters
        ----------
        n_trees : int, default=10
            Trees to show, at most.
        title : str, default=None
            Name of the model; ``None`` takes the schema's, or the predicted column.

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
            title or self.schema_.name or f"Model of {self.schema_.target}",
            trees[:n_trees],
            self.named_importances(),
            self.card(),
            notes=notes,
            statement=self.privacy_statement_,
            shares=self._class_shares(),
        )

    def _class_shares(self) -> list[ClassShare]:
        """Return how common classes are, by released counts; none without these."""
        codes = made_up(self.schema_.domain_shape, np.random.default_rng(0))
        found = self._counted_leaves(codes)
        if found is None:
            return []
        predicted = self._probabilities_in_order(codes).argmax(axis=1)
        return class_shares(self.schema_.class_labels, *found, predicted)

    def _counted_leaves(self, codes: Integers) -> tuple[Floats, Integers] | None:
        """Return released class counts of leaves (n, k), and a leaf of each record."""
        return None

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


def made_up(domain_shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Return encoded records that are spread evenly over the domain, (MADE_UP, d)."""
    return rng.integers(
        0, np.array(domain_shape, np.int64), (MADE_UP, len(domain_shape))
    )


def importances(
    shares: Callable[[Integers], Floats], domain_shape: tuple[int, ...]
) -> Floats:
    """Return how far class probabilities move when one attribute is drawn anew, (d,).

    Made-up records are spread evenly over the domain, from a fixed seed: no record of
    anybody is looked at, so that nothing is spent. Distances of probabilities
    (`shares`, of encoded records) are total variation, and their means are scaled to a
    sum of one; all zero for a model that says the same of every record.
    """
    rng = np.random.default_rng(0)
    codes, others = (made_up(domain_shape, rng) for _ in range(2))
    before = shares(codes)
    moved = np.zeros(len(domain_shape))
    for i in range(moved.size):
        changed = codes.copy()
        changed[:, i] = others[:, i]
        moved[i] = np.abs(shares(changed) - before).sum() / 2
    total = moved.sum()
    return moved / total if total > 0 else moved


def grown_trees(
    ensembles: Sequence[Ensemble],
    leaves: Callable[[int, slice], Sequence[Node]],
    schema: Schema,
) -> Iterator[ShownTree]:
    """Yield the trees of random forests in words.

    `leaves` says what some leaves of an ensemble, given by its position, stand for; it
    is asked for one tree after the other.
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
