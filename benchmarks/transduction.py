"""What training on public records with released labels gains, on simulated tasks.

``python -m benchmarks.transduction``. A released model labels 5,000 public records
without classes, and a random forest is trained on them: nothing further is spent
(Huang, Lei, Kabán, ECML PKDD 2022, of ensembles of median splits). The table has the
difference of right answers from the released model itself, paired, per task.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.simulated import SimulatedTask, simulate_task
from mmech_rf import (
    BatchTrainingClassifier,
    PrivateForestClassifier,
    RecipeForestClassifier,
)

PUBLIC, TESTED = 5000, 2000
MOST_CELLS = 2**20
RECORDS, EPSILONS = (300, 20_000), (0.1, 5.0)


def released(task: SimulatedTask, epsilon: float, n: int) -> Iterator[tuple[str, Any]]:
    """Yield the classifiers that take the task, before they are fitted."""
    schema = task.schema
    yield "private forest", PrivateForestClassifier(schema, epsilon=epsilon)
    spe = RecipeForestClassifier(schema, epsilon=epsilon, recipe="spe", n_records=n)
    yield "spe", spe
    if schema.n_cells <= MOST_CELLS:
        yield (
            "batch training",
            BatchTrainingClassifier(
                schema, epsilon=epsilon, n_trees=16, template="identity"
            ),
        )


def gains(seed: int) -> Iterator[tuple[str, float, float]]:
    """Yield name, expected share of right answers, and what training on them adds."""
    rng = np.random.default_rng([seed, 77])
    n = int(np.exp(rng.uniform(*np.log(RECORDS))))
    epsilon = float(np.exp(rng.uniform(*np.log(EPSILONS))))
    task = simulate_task(rng)
    codes, public, tested = (task.records(m, rng) for m in (n, PUBLIC, TESTED))
    labels = np.array(task.schema.class_labels)
    target, chances = labels[task.labels(codes, rng)], task.probabilities(tested)

    def right(found: Any) -> float:
        return float(chances[np.asarray(found)[:, None] == labels].mean())

    for name, teacher in released(task, epsilon, n):
        teacher.fit(codes, target)
        student = RandomForestClassifier(min_samples_leaf=5, random_state=0)
        student.fit(public, teacher.predict(public))
        own = right(teacher.predict(tested))
        yield name, own, right(student.predict(tested)) - own


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transduction")
    parser.add_argument("--tasks", type=int, default=60)
    found: dict[str, list[tuple[float, float]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(parser.parse_args().tasks):
            for name, *values in gains(seed):
                found.setdefault(name, []).append((values[0], values[1]))
    print("| released model | tasks | right | gained |\n|---|---|---|---|")
    for name, rows in found.items():
        own, gain = np.array(rows).T
        error = gain.std(ddof=1) / np.sqrt(gain.size)
        cells = f"{gain.size} | {own.mean():.3f} | {gain.mean():+.3f} ± {error:.3f}"
        print(f"| {name} | {cells} |")


if __name__ == "__main__":
    main()
