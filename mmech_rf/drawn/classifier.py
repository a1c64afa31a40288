"""The forest of labelled trees that are drawn as a whole."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import ParameterError, PrivacyLedger
from mmech.privacy.cost import bounded_range_epsilon
from mmech.storage.codec import storable
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.plan import Plan, concentrated_plan
from mmech_rf.drawn.settings import DrawnSettings
from mmech_rf.drawn.trees import SelectedTrees
from mmech_rf.private.accounted import LEAST_EPSILON, AccountedForest
from mmech_rf.private.choice import Choice
from mmech_rf.private.votes import check_that
from mmech_rf.schema import Schema

__all__ = ["DrawnForestClassifier"]


@storable("DrawnForestClassifier")
class DrawnForestClassifier(AccountedForest):
    r"""Forest of labelled trees, each drawn as a whole by the exponential mechanism.

    Trees have two levels and are drawn for the number of records that they get right
    (`mmech_rf.drawn.draw`). Their tests are public views of the domain: attributes
    at several resolutions, pairs, and signed sums of attributes in the order of their
    cells. With few records times epsilon all of the budget goes into one tree. More
    pays for class counts and sums of all attributes, released together with noise that
    is shaped for them (`mmech.noisy_release` with groups): leaves may then stand for
    what these scores say, in place of a class. Some thousand records times epsilon pay
    for class counts in leaves and for further trees, which weigh the records that
    those before them get wrong (boosting).

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes. An order among categories helps if it means
        something, and so do related attributes next to each other. ``None`` reads
        the schema from the records, which the guarantee does not cover, and warns.
    epsilon : float, str or Fraction
        Privacy budget of a fit, in nats. Required.
    privacy : {"pure", "zcdp"}, default="pure"
        What a fit guarantees: pure epsilon, or (epsilon, delta), which promises less:
        with a probability of up to delta more than epsilon may be learnt. Releases are
        then accounted in zCDP where that leaves less noise, which is where there are
        many of them: many records times epsilon.
    delta : float, default=None
        Probability for ``privacy="zcdp"``, well below one over the number of records.
    n_records : int, default=None
        Number of records, roughly, where it is public; ``None`` pays for a noisy count
        with 3 % of epsilon.
    settings : DrawnSettings, default=None
        Budget split, priors, smoothing and learning rate, public; ``None`` for the
        defaults.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation of the guarantee.
    records_per_person : int, default=1
        Largest number of records of one person, public: the budget is per person.
    handle_unknown, handle_missing : str, default="error"
        What happens to values outside the schema, see `Schema.encode`; queries are
        never dropped, "drop" counts as "error" for them.
    ledger : PrivacyLedger, default=None
        Budget shared with other releases; ``None`` allows exactly `epsilon` (and
        `delta`) per fit. A copied or unpickled model comes with a ledger that is spent.
        ``privacy="zcdp"`` takes one of rho.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Without effect: nothing but the noise is random, and noise has no seed.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns and voids the guarantee.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        Class labels, in the type of the schema.
    schema_ : Schema
        Public facts in use.
    choice_ : Choice
        What was released and how it votes.
    trees_ : tuple of SelectedTree
        Released trees.
    ledger_ : PrivacyLedger
        What the releases were paid from.
    timings_ : dict of str to float
        Seconds per stage; depends on the records, not for publication.
    privacy_statement_ : str
        What was released at which epsilon, or rho.

    Notes
    -----
    Proofs: ``notebooks/proofs/labelled_trees.md``, ``notebooks/proofs/k_norm.md``,
    ``notebooks/proofs/composition.md``.

    See Also
    --------
    PrivateForestClassifier : chooses between this and other forests.

    Examples
    --------
    >>> from mmech_rf import DrawnForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = DrawnForestClassifier(car.schema, epsilon=0.5, n_records=1728)
    >>> model = model.fit(car.data, car.target)
    >>> model.choice_.n_trees
    1
    >>> print(model.describe())  # doctest: +ELLIPSIS
    by ...
    """

    trees_: tuple[SelectedTree, ...]
    _experts: SelectedTrees
    _settings_type = DrawnSettings
    _method = "trees"

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        epsilon: Any,
        privacy: str = "pure",
        delta: float | None = None,
        n_records: int | None = None,
        settings: DrawnSettings | None = None,
        neighbours: str = "add_remove",
        records_per_person: int = 1,
        handle_unknown: str = "error",
        handle_missing: str = "error",
        ledger: PrivacyLedger | None = None,
        random_state: Any = None,
        insecure_rng: Any = None,
    ) -> None:
        super().__init__(
            schema,
            epsilon=epsilon,
            privacy=privacy,
            delta=delta,
            n_records=n_records,
            neighbours=neighbours,
            records_per_person=records_per_person,
            handle_unknown=handle_unknown,
            handle_missing=handle_missing,
            ledger=ledger,
            random_state=random_state,
            insecure_rng=insecure_rng,
        )
        self.settings = settings

    def _check_parameters(self) -> Fraction:
        epsilon = super()._check_parameters()
        if epsilon < LEAST_EPSILON:
            raise ParameterError(
                "epsilon",
                f"must be at least {float(LEAST_EPSILON):g} to draw trees",
                f"{float(epsilon):g}",
                ("raise it", "use {LabelForestClassifier}"),
            )
        return epsilon

    def _release_model(
        self,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
        epsilon: Fraction,
        n_records: float,
    ) -> None:
        domain_shape = self.schema_.domain_shape
        d, rho = len(domain_shape), self._remaining_rho()
        shared = self._accounting == "zcdp"
        cost = bounded_range_epsilon(rho) if shared else epsilon
        settings = self._settings
        plan = Plan.of(n_records, cost, d, self.schema_.n_classes, settings)
        other = concentrated_plan(
            plan, n_records, cost, rho, d, better=not shared, settings=settings
        )
        if shared:
            cost, plan = rho, other or plan
        elif other is not None:
            cost, plan = rho, other
            self._concentrate()
        grower = Grower(
            domain_shape,
            codes,
            class_codes,
            n_classes=self.schema_.n_classes,
            n_records=n_records,
            payments=self._payments(),
            settings=settings,
        )
        with self._timed("measurement"):
            experts = grower.grow(cost, plan)
        self._experts = experts
        self.trees_ = experts.trees
        self.choice_ = Choice(
            n_records=n_records,
            stated=self.n_records is not None,
            method=self._method,
            voting=experts.voting,
            n_trees=len(experts.trees),
            rounds=plan.rounds,
            n_scores=experts.n_scores,
            accounting=self._accounting,
        )

    def _settle(self) -> None:
        super()._settle()
        experts, choice = self._experts, self.choice_
        numbers = len(experts.trees), experts.n_scores
        check_that(numbers == (choice.n_trees, choice.n_scores), "trees")
        self.trees_ = experts.trees

    def _describe(self) -> str:
        names = self.schema_.feature_names
        labels = self.classes_.tolist()
        trees = [tree.describe(names, labels) for tree in self.trees_]
        additive = self._experts.additive
        if additive is not None:
            parts = ", ".join(view.describe(names) for view in additive.views)
            trees.insert(0, f"score of {parts}")
        return "\n".join(trees)
