"""The private forest: labelled trees that are drawn as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from fractions import Fraction

from mmech import ParameterError
from mmech.privacy.neighbours import Relation
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.settings import DEFAULTS, DrawnSettings, Plan
from mmech_rf.drawn.trees import SelectedTrees
from mmech_rf.drawn.words import drawn_trees, notes_on
from mmech_rf.estimator.accounted import AccountedForest
from mmech_rf.estimator.options import estimator
from mmech_rf.estimator.records import EncodedRecords
from mmech_rf.estimator.votes import check_that
from mmech_rf.show.trees import ShownTree

LEAST_EPSILON = Fraction(1, 100_000)
"""Numerical guard: smallest epsilon that trees are drawn with, for each record that
comes or goes. Roundings of the arithmetic, which are paid for, would use up a smaller
one."""


@storable("PrivateForestClassifier")
@estimator
class PrivateForestClassifier(AccountedForest):
    r"""Forest of labelled trees, each drawn as a whole; the classifier to start with.

    It asks for nothing but public facts.

    Trees have two levels. The exponential mechanism draws each of them; its
    score is the number of records that it gets right (`mmech_rf.drawn.draw`). Their
    tests are public views of the domain: attributes at several resolutions, pairs, and
    signed sums of attributes in the order of their cells. With few records times
    epsilon all of the budget goes into one tree. More pays for class counts and sums of
    all attributes, released together with K-norm noise (`mmech.noisy_release` with
    groups). They give every record a score per class, and a leaf may predict by the
    scores in place of a label. Some thousand records times epsilon pay for class counts
    in leaves and for further trees. These weigh the records that earlier trees get
    wrong (boosting).

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes. An order among categories helps if it means
        something, and so do related attributes next to each other. ``None`` reads
        the schema from the records, which the guarantee does not cover, and warns.
    settings : DrawnSettings, default=None
        Thresholds, budget split and priors, public; ``None`` for the defaults, which
        are for the most right classes. `DrawnSettings.for_ranking` is
        for records in the order of their probabilities.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Without effect: nothing but the noise is random, and noise has no seed.

    Attributes
    ----------
    trees_ : tuple of SelectedTree
        Released trees.

    Notes
    -----
    Proofs: ``notebooks/proofs/labelled_trees.md``, ``notebooks/proofs/k_norm.md``,
    ``notebooks/proofs/composition.md``.

    Examples
    --------
    >>> from mmech_rf import PrivateForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = PrivateForestClassifier(car.schema, epsilon=0.5, n_records=1728)
    >>> model = model.fit(car.data, car.target)
    >>> model.choice_.n_trees
    1
    >>> print(model.describe())  # doctest: +ELLIPSIS
    tree:
      ...
    """

    settings: DrawnSettings | None = None

    trees_: tuple[SelectedTree, ...] = field(init=False)
    _experts: SelectedTrees = field(init=False)
    _distinct = True

    def _check_parameters(self) -> Fraction:
        if not isinstance(self.settings, DrawnSettings | None):
            raise TypeError(
                "settings must be None or DrawnSettings, got "
                f"{type(self.settings).__name__}; leave it out for the defaults"
            )
        epsilon = super()._check_parameters()
        relation = Relation(self.neighbours, self.records_per_person)
        least = LEAST_EPSILON * relation.factor
        if epsilon < least:
            raise ParameterError(
                "epsilon",
                f"must be at least {float(least):g} to draw trees",
                f"{float(epsilon):g}",
                "raise it: roundings of a draw would use a smaller budget up",
            )
        return epsilon

    def _release_model(
        self, records: EncodedRecords, epsilon: Fraction, n_records: float
    ) -> None:
        domain_shape = self.schema_.domain_shape
        d = len(domain_shape)
        settings = self.settings or DEFAULTS
        # Noise that hides r records of a person is r times as large: n records stand
        # out of it as n / r do.
        relation, k = self._terms.relation, self.schema_.n_classes
        signal = n_records / relation.records_per_person
        plan = Plan.of(signal, epsilon, d, k, settings, factor=relation.factor)
        grower = Grower(
            domain_shape,
            records,
            n_classes=k,
            n_records=n_records,
            session=self._session,
            settings=settings,
        )
        with self._timed("measurement"):
            experts = grower.grow(epsilon, plan)
        self._experts = experts
        self.trees_ = experts.trees
        self._choose(
            n_records,
            n_trees=len(experts.trees),
            rounds=plan.rounds,
            n_scores=experts.n_scores,
        )

    def _settle(self) -> None:
        super()._settle()
        experts, choice = self._experts, self.choice_
        numbers = len(experts.trees), experts.n_scores
        check_that(numbers == (choice.n_trees, choice.n_scores), "trees")
        self.trees_ = experts.trees

    def _shown_trees(self) -> Iterator[ShownTree]:
        return drawn_trees(self._experts, self.schema_)

    def _counted_leaves(self, codes: Integers) -> tuple[Floats, Integers] | None:
        return self._experts.counted_leaves(codes)

    def _notes(self) -> list[str]:
        return super()._notes() + notes_on(self._experts, self.schema_)
