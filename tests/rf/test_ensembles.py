"""Algorithm 3: ensembles of different sizes, optimized anywhere, voting together."""

import math

import numpy as np
import pytest
from rf_cases import CELLS, SCHEMA, classifier, records

from mmech_rf.forest.ensembles import trees_of


@pytest.mark.parametrize(
    ("n_trees", "q", "expected"),
    [
        (7, 3, [3, 2, 2]),
        (math.inf, 2, [math.inf, math.inf]),
    ],
)
def test_trees_of_every_ensemble(n_trees, q, expected):
    assert trees_of(n_trees, q) == expected


def test_a_partition_gives_every_attribute_to_one_ensemble():
    options = {"n_ensembles": 2, "max_features": "partition", "n_trees": 4, "depth": 1}
    seen = set()
    for seed in range(8):
        model = classifier("batch training", random_state=seed, **options)
        parts = [e.features.tolist() for e in model.fit(*records(40)).ensembles_]
        assert [len(part) for part in parts] == [2, 1]
        assert sorted(parts[0] + parts[1]) == [0, 1, 2]
        again = classifier("batch training", random_state=seed, **options)
        assert [e.features.tolist() for e in again.fit(*records(40)).ensembles_] == (
            parts
        )
        seen.add(parts[1][0])
    assert seen == {0, 1, 2}  # dealt out at random, by the public seed


@pytest.mark.parametrize("voting", ["hard", "weight"])
def test_votes_are_added_up_over_the_ensembles(voting):
    """By hand from the released leaf counts, tree by tree."""
    model = classifier(
        "batch training",
        n_trees=7,
        depth=2,
        n_ensembles=2,
        max_features=2,
        voting=voting,
    ).fit(*records(200))
    votes = np.zeros((len(CELLS), 3))
    for i, (ensemble, counts) in enumerate(
        zip(model.ensembles_, model.leaf_counts_, strict=True)
    ):
        forest = ensemble.forest
        leaves = forest.apply(CELLS[:, ensemble.features]) + forest.leaf_offsets[:-1]
        for tree in leaves.T:
            chosen = counts[tree]
            if voting == "hard":
                # Ties of whole counts were broken at random, once and for all.
                chosen = np.eye(3)[model.leaf_labels_[i][tree]]
            votes += chosen
    top = np.sort(votes, axis=1)
    clear = top[:, -1] > top[:, -2] + 1e-9
    expected = np.array(SCHEMA.class_labels)[votes.argmax(axis=1)]
    assert clear.any()
    assert np.array_equal(model.predict(CELLS.astype(str))[clear], expected[clear])
