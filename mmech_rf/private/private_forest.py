"""The classifier that chooses one of the private forests for the budget at hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmech.checks import check_epsilon
from mmech_rf.blocks.classifier import LabelForestClassifier
from mmech_rf.drawn.classifier import DrawnForestClassifier
from mmech_rf.drawn.settings import DrawnSettings
from mmech_rf.private.accounted import AccountedForest
from mmech_rf.private.estimator import estimator
from mmech_rf.show.trees import ShownTree

__all__ = ["PrivateForestClassifier"]


@estimator
class PrivateForestClassifier(AccountedForest):
    """Private forest that is chosen for the budget at hand; the one to start with.

    Takes `DrawnForestClassifier`, whose labelled trees are drawn as a whole, except
    where epsilon is so small that roundings of such a draw would use it up: then
    `LabelForestClassifier`. It asks for nothing but public facts. The model that was
    chosen is `model_`; predictions, files and statements are its own.

    Parameters
    ----------
    $ordered_schema
    $epsilon
    $delta
    $n_records
    $private_bins
    $drawn_settings
    $guarantee
    $accuracy
    $ledger
    $no_seed
    $insecure_rng

    Attributes
    ----------
    model_ : DrawnForestClassifier or LabelForestClassifier
        The forest that was chosen, fitted. Its attributes are also those of this
        object.
    $fitted
    $accuracy_
    $choice_

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
    tree:
      ...
    """

    settings: DrawnSettings | None = None
    _settings_type = DrawnSettings

    model_: AccountedForest = field(init=False)

    @property
    def _distinct(self) -> bool:  # type: ignore[override]
        return check_epsilon(self.epsilon) >= self._least_epsilon

    def _fit(self, X: Any, y: Any) -> None:
        epsilon = self._check_parameters()
        parameters = self.get_params(deep=False)
        if epsilon >= self._least_epsilon:
            model: AccountedForest = DrawnForestClassifier(**parameters)
        else:
            # Pure epsilon implies (epsilon, delta).
            for name in ("privacy", "delta", "settings"):
                del parameters[name]
            model = LabelForestClassifier(**parameters)
        model._lineage = self._family()
        self.model_ = model  # now, so that one can look at it while it is fitted
        model._fit(X, y)
        own = model.get_params(deep=False)
        for name, value in vars(model).items():
            if name not in own:
                setattr(self, name, value)

    def predict_interval(
        self, X: Any, *, level: float = 0.95
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of every probability that allow for the noise of the release.

        As `DrawnForestClassifier.predict_interval`, whose notes say what they hold for.

        Parameters
        ----------
        X : frame, list of rows or array, shape (b, d)
            Inference queries in the schema's raw values; public.
        level : float, default=0.95
            Share of the intervals that hold, each by itself, at about this level.

        Returns
        -------
        lower, upper : ndarray of float64, shape (b, k)
            Bounds of `predict_proba`, around it.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError
            If `model_` is a forest of labels, which releases no counts.
        ValueError
            If a value is not valid, or the level is not between 0 and 1.
        """
        check_is_fitted(self)
        if not isinstance(self.model_, DrawnForestClassifier):
            raise TypeError(
                "predict_interval needs released counts, got a forest of labels, which "
                f"epsilon below {float(self._least_epsilon):g} pays for; raise epsilon"
            )
        return self.model_.predict_interval(X, level=level)

    def _shown_trees(self) -> Iterator[ShownTree]:
        return self.model_._shown_trees()

    def _notes(self) -> list[str]:
        return self.model_._notes()

    def card(self) -> dict[str, Any]:
        """Return the card of the forest that was chosen.

        Returns
        -------
        dict
        """
        check_is_fitted(self)
        return self.model_.card()

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
        self._refuse_parts()
        self.model_.save(path)
