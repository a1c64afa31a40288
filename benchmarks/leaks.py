"""What fitted private classifiers give away: ``python -m benchmarks.leaks``.

Three probes, each a property that ε-differential privacy or plain correctness asks for
and that a data set can be made to violate:

* labels: accuracy does not change when the classes are renamed;
* support: a category that a single record has, or that none has, changes neither the
  shape nor the names in the released model;
* warning: what is read from the records instead of being declared is announced.

Run on the classifiers here, and on `diffprivlib` where it is installed
(``pip install "mmech[peers]"``), the peer that reads closest to ours. Its guarantee is
conditional on bounds that the caller passes; the probes show what happens to callers
who do not.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from mmech_rf import BatchTrainingClassifier, LaplaceForestClassifier, Schema, datasets

RENAMINGS: dict[str, list[Any]] = {
    "0, 1": [0, 1],
    "-1, 1": [-1, 1],
    "5, 9": [5, 9],
    "text": ["no", "yes"],
    "bool": [False, True],
}
LARGE_EPSILON = 1000.0
"""So little noise that accuracies under two names can be compared."""


def two_classes() -> tuple[np.ndarray, np.ndarray, Schema]:
    """Return the cars' codes, and whether a car is acceptable at all."""
    car = datasets.load_car()
    codes, classes = car.schema.encode(car.data, car.target)
    unacceptable = car.schema.class_labels.index("unacc")
    return codes, (classes != unacceptable).astype(int), car.schema


def ours(cls: type, schema: Schema, labels: list[Any]) -> Any:
    """Return one of our classifiers on codes, for two classes of any name."""
    attributes = [
        type(attribute).categorical(attribute.name, range(attribute.size))
        for attribute in schema.attributes
    ]
    return cls(
        Schema(tuple(attributes), tuple(labels)),
        epsilon=LARGE_EPSILON,
        n_trees=16,
        depth=3,
        random_state=0,
    )


def peer(labels: list[Any]) -> Any:
    """Return diffprivlib's forest, with all that it asks its caller for."""
    models = importlib.import_module("diffprivlib.models")
    return models.RandomForestClassifier(
        n_estimators=16,
        epsilon=LARGE_EPSILON,
        bounds=(np.zeros(6), np.full(6, 3)),
        classes=labels,
        max_depth=6,
        random_state=0,
    )


def accuracies(make: Callable[[list[Any]], Any]) -> dict[str, str]:
    """Return the training accuracy under every pair of class names."""
    codes, binary, _ = two_classes()
    found = {}
    for name, labels in RENAMINGS.items():
        y = np.array(labels)[binary]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predicted = make(labels).fit(codes, y).predict(codes)
            found[name] = f"{np.mean(np.asarray(predicted) == y):.3f}"
        except Exception as error:  # a peer's failure is a finding
            found[name] = type(error).__name__
    return found


def released_names(cls: type, rare: int) -> tuple[int, int]:
    """Return released leaves and classes when `rare` records have the last price."""
    codes, binary, schema = two_classes()
    last = schema.attributes[0].size - 1
    common = codes[:, 0] != last
    kept = np.concatenate([np.flatnonzero(common), np.flatnonzero(~common)[:rare]])
    model = ours(cls, schema, [0, 1]).fit(codes[kept], binary[kept])
    return sum(len(counts) for counts in model.leaf_counts_), len(model.classes_)


def warns_without_schema(make: Callable[[], Any]) -> str:
    """Return the name of the warning that undeclared facts raise, if any."""
    codes, binary, _ = two_classes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make().fit(codes, binary)
    names = {w.category.__name__ for w in caught if "Privacy" in w.category.__name__}
    return ", ".join(sorted(names)) or "silent"


def main() -> None:
    """Print the three tables."""
    _, _, schema = two_classes()
    makers: dict[str, Callable[[list[Any]], Any]] = {
        cls.__name__: lambda labels, cls=cls: ours(cls, schema, labels)
        for cls in (BatchTrainingClassifier, LaplaceForestClassifier)
    }
    try:
        importlib.import_module("diffprivlib")
        makers["diffprivlib RandomForest"] = peer
    except ImportError:
        print('diffprivlib is not installed: pip install "mmech[peers]" to compare\n')
    print("accuracy under renamed classes")
    print(f"{'':28}" + "".join(f"{name:>12}" for name in RENAMINGS))
    for name, make in makers.items():
        row = accuracies(make).values()
        print(f"{name:28}" + "".join(f"{cell[:11]:>12}" for cell in row))
    print("\nreleased (leaves, classes) with 0, 1 and all records of a rare category")
    for cls in (BatchTrainingClassifier, LaplaceForestClassifier):
        shapes = [released_names(cls, rare) for rare in (0, 1, 10**6)]
        print(f"{cls.__name__:28}{shapes}")
    print("\nwhat is said when nothing is declared")
    quiet: dict[str, Callable[[], Any]] = {
        cls.__name__: lambda cls=cls: cls(epsilon=1.0, n_trees=4, depth=2)
        for cls in (BatchTrainingClassifier, LaplaceForestClassifier)
    }
    if "diffprivlib RandomForest" in makers:
        models = importlib.import_module("diffprivlib.models")
        quiet["diffprivlib RandomForest"] = lambda: models.RandomForestClassifier(
            n_estimators=4, epsilon=1.0
        )
    for name, make_quiet in quiet.items():
        print(f"{name:28}{warns_without_schema(make_quiet)}")


if __name__ == "__main__":
    main()
