"""The classifier that chooses one of the private forests for the budget at hand."""

from __future__ import annotations

import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from mmech_rf.blocks.classifier import LabelForestClassifier
from mmech_rf.drawn.classifier import DrawnForestClassifier
from mmech_rf.private.accounted import LEAST_EPSILON, AccountedForest

__all__ = ["PrivateForestClassifier"]


class PrivateForestClassifier(AccountedForest):
    """Private forest that is chosen for the budget at hand; the one to start with.

    Takes `DrawnForestClassifier`, whose labelled trees are drawn as a whole, except
    where epsilon is so small that roundings of such a draw would use it up: then
    `LabelForestClassifier`. It asks for nothing but public facts. The model that was
    chosen is `model_`; predictions, files and statements are its own.

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
    model_ : DrawnForestClassifier or LabelForestClassifier
        The forest that was chosen, fitted. Its attributes are also those of this
        object.
    classes_ : ndarray, shape (k,)
        Class labels, in the type of the schema.
    schema_ : Schema
        Public facts in use.
    choice_ : Choice
        What was released and how it votes.
    ledger_ : PrivacyLedger
        What the releases were paid from.
    timings_ : dict of str to float
        Seconds per stage; depends on the records, not for publication.
    privacy_statement_ : str
        What was released at which epsilon, or rho.

    Notes
    -----
    Proofs: ``notebooks/proofs/labelled_trees.md``, ``notebooks/proofs/leaf_labels.md``,
    ``notebooks/proofs/k_norm.md``, ``notebooks/proofs/composition.md``.

    Examples
    --------
    >>> from mmech_rf import PrivateForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = PrivateForestClassifier(car.schema, epsilon=0.5, n_records=1728)
    >>> model = model.fit(car.data, car.target)
    >>> type(model.model_).__name__, model.choice_.n_trees
    ('DrawnForestClassifier', 1)
    >>> model.predict_proba(car.data[:5]).shape
    (5, 4)
    >>> print(model.describe())  # doctest: +ELLIPSIS
    by ...
    """

    model_: AccountedForest

    def _fit(self, X: Any, y: Any) -> None:
        epsilon = self._check_parameters()
        parameters = self.get_params(deep=False)
        if epsilon >= LEAST_EPSILON:
            model: AccountedForest = DrawnForestClassifier(**parameters)
        else:
            # Pure epsilon implies (epsilon, delta).
            del parameters["privacy"], parameters["delta"]
            model = LabelForestClassifier(**parameters)
        model._lineage = self._family()
        model._fit(X, y)
        own = model.get_params(deep=False)
        for name, value in vars(model).items():
            if name not in own:
                setattr(self, name, value)
        self.model_ = model

    def _describe(self) -> str:
        return self.model_._describe()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chosen model to one file, to be read by `mmech_rf.load_model`.

        Parameters
        ----------
        path : str or path-like
            File to write; it is read as a model of the class of `model_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        self.model_.save(path)
