"""``python -m mmech_rf.audit``: fits of all private forests against their claim.

What is looked at is what a model says of the only cell that there are records in: one
comes, or changes its class. A label tells little of a record, so that bounds stay below
the claim. The tests bound each draw of a fit.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from mmech import PrivacyLeakWarning
from mmech.audit import one_by_one
from mmech.audit.__main__ import SLOW_RUNS, Case, main
from mmech_rf.methods import METHODS
from mmech_rf.schema import Attribute, Schema

SCHEMA = Schema((Attribute.categorical("x", ["0", "1"]),), ("no", "yes"))
QUICK = {"n_trees": 2, "depth": 1, "template": "identity"}
"""Settings of the methods that have them."""


def cases(epsilon: float) -> Iterator[Case]:
    """Yield every method with a record that comes alone, or changes its class."""
    for neighbours, first in (("add_remove", []), ("replace", ["no"])):
        for name, method in METHODS.items():
            if not method.is_private:
                continue
            quick = {key: QUICK[key] for key in QUICK if key in method.options}
            model = method.make(SCHEMA, epsilon=epsilon, neighbours=neighbours, **quick)

            def release(classes: list[str], model: Any = model) -> Any:
                X = np.full((len(classes), 1), "0")
                with warnings.catch_warnings():
                    # Every run is a fit of the same records.
                    warnings.simplefilter("ignore", PrivacyLeakWarning)
                    fitted = clone(model).fit(X, np.array(classes, str))
                return fitted.predict([["0"]]) == "yes"

            yield Case(
                name, neighbours, epsilon, one_by_one(release), first, ["yes"],
                lambda labels: labels[:, 0], SLOW_RUNS,
            )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(cases=cases, package="mmech_rf"))
