"""What the guarantee does not cover, and is warned of: schemas of records, many fits.

A fit without a shared ledger has a budget of its own. Each fit of one object keeps its
promise. Cross-validation fits clones: it spends one budget per fold, and no clone knows
of the others.
"""

from __future__ import annotations

import re
import uuid
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from mmech import PrivacyLeakWarning
from mmech_rf.limits import LIMITS
from mmech_rf.schema import Schema

TRANSFORMED = re.compile(
    r"\w*(onehot|encoder|scaler|discretizer|transformer)\w*__", re.I
)
"""Start of a column that scikit-learn names after what it was transformed by."""

ONE_HOT_COLUMNS = 3
"""So many columns of zeros and ones with a common start are taken for one attribute."""


def warn_of_encoders(schema: Schema) -> None:
    """Warn if names and values of a schema are those of encoded or scaled columns.

    The schema alone decides: records are not looked at. Columns of zeros and ones are
    taken for those of an encoder where several names differ only in what follows the
    last underscore.
    """
    names = [name for name in schema.feature_names if TRANSFORMED.match(name)]
    starts = {
        attribute.name: attribute.name.rpartition("_")[0]
        for attribute in schema.attributes
        if {str(value) for value in attribute.categories or ()}
        in ({"0", "1"}, {"0.0", "1.0"}, {"False", "True"})
    }
    numbers = Counter(starts.values())
    names += [n for n, s in starts.items() if s and numbers[s] >= ONE_HOT_COLUMNS]
    if names:
        warnings.warn(
            f"the columns {', '.join(map(repr, names[:3]))} of the schema look as if "
            "an encoder or a scaler had made them: if it was fitted to the records, "
            "its categories, means and ranges tell about them, which the guarantee "
            "does not cover; pass raw values, and categories or bounds that are public",
            PrivacyLeakWarning,
            stacklevel=6,
        )


def infer_schema(
    model: BaseEstimator, X: Any, y: Any
) -> tuple[Schema, NDArray[Any], NDArray[Any]]:
    """Return a schema of the records, and the records as scikit-learn takes them."""
    warnings.warn(
        "schema=None reads categories, bounds and classes from the records, which the "
        "guarantee does not cover; pass a public Schema",
        PrivacyLeakWarning,
        stacklevel=5,
    )
    X, y = validate_data(model, X, y, dtype=None)
    try:
        check_classification_targets(y)
    except ValueError as error:
        first = str(error).partition(". ")[0]
        raise ValueError(
            f"{first}; to predict numbers, cut them at public bounds, and predict the "
            "ranges as classes"
        ) from None
    _check_plain(X)
    if X.shape[0] and len(np.unique(y)) < 2:
        raise ValueError(
            "the labels hold one class only; a classifier needs at least 2 classes: "
            "pass a Schema that lists them"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        bins = int(LIMITS.inferred_cells ** (1 / X.shape[1]))
        return Schema.infer(X, y, n_bins=max(2, min(10, bins))), X, y


def _check_plain(X: NDArray[Any]) -> None:
    """Raise unless every cell of an object array is text, a number or missing."""
    if X.dtype.kind != "O":
        return
    plain = (str, bool, int, float, np.generic, type(None))
    for kind in set(map(type, X.ravel().tolist())):
        if not issubclass(kind, plain):
            raise TypeError(
                f"X holds a {kind.__name__}, but every value of this argument must be "
                "a string or a number; convert it"
            )


# ---- how often an estimator and its clones were fitted --------------------------


class Lineage:
    """An estimator, its clones and its copies before they were fitted.

    What is counted is fits, whatever they were given: whether two fits saw the same
    records must not be found out from the records. Processes count by themselves;
    copies find each other by name after pickling. Workers of a cross-validation cannot
    warn, but the process that sends them clones can.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = uuid.uuid4().hex if name is None else name
        self.budgets: list[Fraction] = []
        # What was said, and whether one was sent away since the last fit here.
        self.warned = self.warned_of_workers = self.sent = False
        _KNOWN[self.name] = self

    def fits_again(self, epsilon: Fraction) -> None:
        """Warn, once, that a fit spends a budget beside those of earlier ones."""
        if self.budgets and not self.warned:
            self.warned = True
            total = float(sum(self.budgets, epsilon))
            warnings.warn(
                "this estimator, or a clone of it as in cross-validation, was fitted "
                "before, and every fit spends a budget of its own: if the records are "
                f"the same, epsilon = {total:g} in all with this fit, and more with "
                "each that follows; pass one ledger=PrivacyLedger(total) to limit the "
                "sum",
                PrivacyLeakWarning,
                stacklevel=5,
            )

    def fitted(self, epsilon: Fraction) -> None:
        """Remember a fit that begins to look at records."""
        self.budgets.append(epsilon)
        self.sent = False

    def __deepcopy__(self, memo: Any) -> Lineage:
        return self

    def __reduce__(self) -> Any:
        """Warn, once, where another copy is pickled and none was fitted here."""
        again, self.sent = self.sent, True
        if again and not self.warned_of_workers:
            self.warned_of_workers = True
            warnings.warn(
                "this estimator, or a clone of it, was sent away again before a fit, "
                "as to the workers of a cross-validation: every fit spends a budget of "
                "its own, and on the same records they add up; pass one "
                "ledger=PrivacyLedger.open(path, total=...), which workers share, to "
                "limit the sum",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        return _known_as, (self.name,)


_KNOWN: WeakValueDictionary[str, Lineage] = WeakValueDictionary()


def _known_as(name: str) -> Lineage:
    """Return the lineage of that name in this process."""
    return _KNOWN.get(name) or Lineage(name)
