"""Random forests that grow before a record is seen, and are then measured.

Everything public (forests, strategies, budget shares) is settled first.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmech import (
    MatrixMechanism,
    ParameterError,
    QueryMatrix,
    StrategyResult,
    optimize,
)
from mmech.checks import check_choice, check_integer
from mmech.limits import LIMITS as ENGINE_LIMITS
from mmech.noise import assign_records
from mmech.storage.codec import fingerprint
from mmech_rf.arrays import Floats, Integers
from mmech_rf.estimator.base import ForestClassifier
from mmech_rf.estimator.options import estimator
from mmech_rf.estimator.records import EncodedRecords
from mmech_rf.estimator.shown import counted_leaves, grown_trees
from mmech_rf.estimator.votes import alike, check_labels, check_that
from mmech_rf.forest.ensembles import (
    Ensemble,
    features_of,
    spawn,
    trees_of,
    vote_shares,
    weight_votes,
)
from mmech_rf.forest.forest import Forest, check_forest
from mmech_rf.forest.growth import (
    check_cells,
    check_depth,
    check_leaves,
    complete_forest,
    complete_size,
    default_depth,
    grow_random_forest,
)
from mmech_rf.limits import LIMITS
from mmech_rf.methods import SPLITS
from mmech_rf.schema import Schema
from mmech_rf.show.trees import ShownTree

GROWTH = ("n_trees", "depth", "splits", "n_ensembles", "max_features")
"""Parameters that say how trees grow."""

GIVEN = (
    "The trees were given, without a statement of where they come from: as "
    "grow_random_forest draws them, they depend on no record, and the guarantee rests "
    "on that."
)


@estimator
class GrownForest(ForestClassifier):
    """Base of the classifiers that measure counts in random forests.

    Parameters
    ----------
    n_trees : int or inf, default=128
        Trees in all, shared out among the ensembles; ``math.inf`` for the limit of many
        multiway trees, one per subset of `depth` attributes of an ensemble.
    depth : int or "auto", default="auto"
        Tests on a path; "auto" is half the number of attributes for multiway trees and
        `fletcher_islam_depth` for others.
    splits : {"multiway", "binary", "threshold"}, default="multiway"
        Whether nodes have a child per value or compare with one, see
        `grow_random_forest`.
    n_ensembles : int, default=1
        Number q of ensembles, each with a random subset of the attributes and
        epsilon / q. Where records are assigned to trees, every ensemble does so anew.
    max_features : int, "partition" or None, default=None
        Attributes per ensemble, drawn anew for each; "partition" shares out all
        attributes, each to one ensemble; ``None`` for all.
    voting : {"hard", "weight"}, default="hard"
        Whether a tree votes for its leaf's label or with its leaf's counts.
    forest : Forest, default=None
        Public trees over the schema whose leaves are measured, such as those of
        `compile_forest`; ``None`` grows random ones as the parameters above say.
    ties : {"random", "first"}, default="random"
        Which of several best classes wins. "first", the one that the schema lists
        first, is the rule of published code, to reproduce its figures: accuracy then
        depends on the order of the classes.

    Attributes
    ----------
    ensembles_ : list of Ensemble
        Forests, attributes and budget shares.
    """

    n_trees: float = 128
    depth: int | str = "auto"
    splits: str = "multiway"
    n_ensembles: int = 1
    max_features: int | str | None = None
    voting: str = "hard"
    forest: Forest | None = None
    ties: str = "random"

    _votings: ClassVar[tuple[str, ...]] = ("hard", "weight")
    _needs_cells = True
    _tree_cells = "tree_cells"
    _what = "counts"

    def _check_parameters(self) -> Fraction:
        check_integer(self.n_ensembles, "n_ensembles")
        n_trees = trees_of(self.n_trees, self.n_ensembles)
        if isinstance(self.depth, str):
            check_choice(self.depth, "depth", ("auto",), "an integer >= 0")
        else:
            check_integer(self.depth, "depth", minimum=0)
        check_choice(self.splits, "splits", SPLITS)
        if math.inf in n_trees and self.splits != "multiway":
            raise ParameterError(
                "splits",
                "{n_trees=inf} is the forest of all multiway trees and needs "
                "{splits='multiway'}",
                self.splits,
                "use a finite number of trees",
            )
        check_choice(self.voting, "voting", self._votings)
        check_choice(self.ties, "ties", ("random", "first"))
        if self.forest is not None:
            check_forest(self.forest)
        for name in GROWTH if self.forest is not None else ():
            if getattr(self, name) != getattr(type(self), name):
                raise ParameterError(
                    name,
                    "says how trees grow, which the {forest} has already",
                    getattr(self, name),
                    ("leave it out", "leave {forest} out"),
                )
        epsilon = super()._check_parameters()
        if self.schema is not None:
            self._check_trees(self.schema)
        return epsilon

    def _check_trees(self, schema: Schema) -> None:
        """Raise unless trees of this depth, or those that are given, fit a schema."""
        forest = self.forest
        if forest is None:
            if self.depth != "auto":
                check_depth(schema, int(self.depth), self.splits)
            return
        if not forest.suits(schema):
            same = forest.domain_shape == schema.domain_shape
            raise ParameterError(
                "forest",
                f"must be of the domain {schema.domain_shape} of the {{schema}}",
                "other attributes of these sizes" if same else forest.domain_shape,
                "make it with this schema",
            )
        if self._needs_cells:
            check_cells(
                schema,
                forest.n_trees,
                most=getattr(LIMITS, self._tree_cells),
                remedy="pass a {forest} of fewer trees, over coarser attributes",
            )

    def _grow(self, schema: Schema, epsilon: Fraction) -> list[Ensemble]:
        d, q = schema.n_features, self.n_ensembles
        self._check_trees(schema)
        if self.forest is not None:
            return [Ensemble(np.arange(d), self.forest, epsilon, given=True)]
        *seeds, deal = spawn(self.random_state, q + 1)
        rngs = [np.random.default_rng(seed) for seed in seeds]
        ensembles = []
        depth = self.depth
        for n_trees, features, rng in zip(
            trees_of(self.n_trees, q),
            features_of(self.max_features, d, rngs, deal),
            rngs,
            strict=True,
        ):
            named = [schema.names[j] for j in features]
            visible = schema.select(named) if len(named) < d else schema
            levels = (
                default_depth(visible, self.splits) if depth == "auto" else int(depth)
            )
            self._check_size(visible, n_trees, levels, self.splits)
            if n_trees == math.inf:
                forest: Forest = complete_forest(visible, levels)
            else:
                forest = grow_random_forest(
                    visible, int(n_trees), levels, splits=self.splits, seed=rng
                )
            ensembles.append(Ensemble(features, forest, epsilon / q))
        return ensembles

    @classmethod
    def _check_size(
        cls, visible: Schema, n_trees: float, depth: int, splits: str
    ) -> None:
        """Raise before any work where an ensemble is too large for this method."""
        if cls._needs_cells:
            trees = n_trees
            if trees == math.inf:
                listed, _ = complete_size(visible.domain_shape, depth)
                trees = max(listed, 1)
            check_cells(visible, trees, most=getattr(LIMITS, cls._tree_cells))
        check_leaves(visible, n_trees, depth, splits)

    @property
    def _public(self) -> str:  # type: ignore[override]
        if self._origins:
            return (
                "The schema, the strategy and the parameters do not depend on records."
            )
        return super()._public

    @property
    def _origins(self) -> list[str]:
        """What is known of trees that were given."""
        return [e.forest.origin or GIVEN for e in self.ensembles_ if e.given]

    def _remarks(self) -> list[str]:
        return [*self._origins, *super()._remarks()]

    def _count_table(self, ensemble: Ensemble, records: EncodedRecords) -> Integers:
        """Return the exact table D, cells by classes. Sensitive."""
        k = self.schema_.n_classes
        n = ensemble.forest.n_cells
        table = np.zeros(n * k, np.int64)
        entries = ensemble.cells(records.codes) * k + records.class_codes
        np.add.at(table, entries, records.multiplicities)
        return table.reshape(n, k)

    def _reserve(self) -> None:
        """Raise before anything is drawn unless the releases of all ensembles fit."""
        costs = [self.ledger_.check(e.epsilon) for e in self.ensembles_]
        self.ledger_.hold(sum(costs, Fraction(0)), currency=self.ledger_.currency)

    def _break_ties(self, scores: NDArray[Any], codes: Integers) -> Integers:
        if self.ties == "first":
            return np.argmax(scores, axis=1)
        return super()._break_ties(scores, codes)

    def _random_argmax(self, scores: NDArray[Any]) -> Integers:
        if self.ties == "first":
            return np.argmax(scores, axis=1)
        return super()._random_argmax(scores)

    def _assigned_counts(self, ensemble: Ensemble, records: EncodedRecords) -> Integers:
        """Return leaf counts of records, each assigned to one tree. Sensitive."""
        codes, class_codes = records.one_by_one()
        trees = assign_records(len(codes), ensemble.forest.n_trees)
        return ensemble.forest.count_assigned_leaves(
            ensemble.select(codes), class_codes, self.schema_.n_classes, trees
        )

    def _mechanisms(
        self,
        workloads: Sequence[QueryMatrix],
        strategies: Sequence[QueryMatrix],
        moved: Sequence[int],
    ) -> list[MatrixMechanism]:
        """Return a mechanism for every ensemble.

        `moved` is the largest L1 change of its exact counts through one record.
        """
        every = zip(self.ensembles_, workloads, strategies, moved, strict=True)
        return [
            self._session.mechanism(
                workload, strategy, epsilon=ensemble.epsilon, contribution=contribution
            )
            for ensemble, workload, strategy, contribution in every
        ]

    def _answer(self, mechanism: MatrixMechanism, counts: Integers) -> Floats:
        """Release the workload's answers on exact counts, and remember it."""
        measured = self._session.measure(mechanism, counts, self._what)
        return mechanism.answer_from(measured)

    def _expected_error(self, mechanisms: list[MatrixMechanism]) -> float:
        errors = [mechanism.expected_error() for mechanism in mechanisms]
        return float(self.schema_.n_classes * sum(errors))


@estimator
class CountedForest(GrownForest):
    """Base of the classifiers whose leaf counts are released once.

    Attributes
    ----------
    leaf_counts_ : list of ndarray, each of shape (n_leaves, k)
        Released counts.
    leaf_labels_ : list of ndarray, each of shape (n_leaves,)
        Class index of every leaf.
    expected_error_ : float
        Expected total squared error of all released leaf counts.
    """

    leaf_counts_: list[Integers | Floats] = field(init=False)
    leaf_labels_: list[Integers] = field(init=False)
    expected_error_: float = field(init=False)
    _what = "leaf counts"
    _released: ClassVar[tuple[str, ...]] = (
        "ensembles_",
        "leaf_counts_",
        "leaf_labels_",
        "expected_error_",
    )

    def _release_leaves(
        self, mechanisms: list[MatrixMechanism], exact: Callable[[Ensemble], Integers]
    ) -> None:
        """Release the class counts of all leaves, and label the leaves by them."""
        self._reserve()
        with self._timed("measurement"):
            self.leaf_counts_ = [
                self._answer(mechanism, exact(ensemble))
                for ensemble, mechanism in zip(self.ensembles_, mechanisms, strict=True)
            ]
            self.leaf_labels_ = [self._random_argmax(c) for c in self.leaf_counts_]

    def _predict_classes(self, codes: Integers) -> Integers:
        return self._break_ties(self._votes(codes), codes)

    def _votes(self, codes: Integers) -> Floats:
        """Let the trees vote by their labelled or counted leaves, shape (b, k)."""
        tables: list[NDArray[Any]] = self.leaf_counts_
        if self.voting == "hard":
            one_hot = np.eye(self.schema_.n_classes)
            tables = [one_hot[labels] for labels in self.leaf_labels_]
        votes = [
            weight_votes(ensemble.forest, table, ensemble.select(codes))
            for ensemble, table in zip(self.ensembles_, tables, strict=True)
        ]
        return np.asarray(sum(votes))

    def _probabilities(self, codes: Integers) -> Floats:
        return vote_shares(self._votes(codes))

    def _shown_trees(self) -> Iterator[ShownTree]:
        trees = [(e.features, e.forest) for e in self.ensembles_]
        n_leaves = sum(e.forest.n_leaves for e in self.ensembles_)
        error = math.sqrt(self.expected_error_ / n_leaves)
        tables = self.leaf_labels_, self.leaf_counts_
        return grown_trees(trees, *tables, self.schema_, error)

    def _counted_leaves(self, codes: Integers) -> tuple[Floats, Integers]:
        first = self.ensembles_[0]
        return counted_leaves(first.features, first.forest, self.leaf_counts_[0], codes)

    def _settle(self) -> None:
        super()._settle()
        k = self.schema_.n_classes
        check_that(len(self.ensembles_) > 0, "forests")
        for ensemble, counts, labels in zip(
            self.ensembles_, self.leaf_counts_, self.leaf_labels_, strict=True
        ):
            ensemble.check(self.schema_.domain_shape)
            check_that(counts.shape == (ensemble.forest.n_leaves, k), "counts")
            check_labels(labels, ensemble.forest.n_leaves, k)
            at_labels = np.take_along_axis(counts, labels[:, None], axis=1)[:, 0]
            check_that(alike(at_labels + 0.0, counts.max(axis=1) + 0.0), "labels")

    @property
    def _evident(self) -> list[str]:
        # Ties of leaves are broken by nothing that stays.
        return [name for name in super()._evident if name != "leaf_labels_"]


MOST_KNOWN = 32
_known: dict[tuple[str, ...], bytes] = {}


def optimized(workload: QueryMatrix, template: str) -> StrategyResult:
    """Return a strategy, which is searched once for equal workloads. Public.

    Matrices keep what products have cost them. So each fit has a copy of its own, and
    what it holds does not tell of earlier fits.
    """
    key = fingerprint(workload), template, repr(ENGINE_LIMITS)
    if key not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[key] = pickle.dumps(optimize(workload, template=template, seed=0))
    result: StrategyResult = pickle.loads(_known[key])  # written by the line above
    return result
