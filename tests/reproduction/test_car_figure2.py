"""Car in Figure 2 of Tajima, Wu, Houmansadr (AAAI 2025), with 128 trees of depth 4.

The paper reports one 80/20 split and one forest, with fresh noise in each of five
runs; its figures scatter by .01 to .05. Here 20 splits and forests are fixed and
the noise is new each time. Our means are five of their standard deviations or more
from the limits, .03 from what was published and .06 for the Laplace baselines: a false
alarm below 1e-6.
The baselines get the wider interval because their accuracy comes from ties among
almost pure noise, broken at random here and by class order there.
"""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

import mmech_rf as rf

RUNS = {1: 10, 2: 50}  # by epsilon: our means are nearer to the limit at 2


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def mean_accuracy(cls, n_runs=20, **parameters):
    car = rf.datasets.load_car()
    settings = {"n_trees": 128, "depth": 4} | parameters
    scores = []
    for run in range(n_runs):
        train_X, test_X, train_y, test_y = train_test_split(
            car.data, car.target, test_size=0.2, random_state=run
        )
        model = cls(car.schema, random_state=run, **settings)
        scores.append(model.fit(train_X, train_y).score(test_X, test_y))
    return np.mean(scores)


TRAINING, PREDICTION = rf.BatchTrainingClassifier, rf.BatchPredictionClassifier
AGGREGATE, LAPLACE = rf.SubsampleAggregateClassifier, rf.LaplaceForestClassifier
AT_LEAST, WITHIN = {"least": 0.03}, {"least": 0.06, "most": 0.06}
SIXTEEN = {"n_trees": 16, "depth": 3}
LEAVES = SIXTEEN | {"template": "identity"}
"""Appendix, Table 2: weight voting, the leaves as the strategy, as published."""


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("cls", "epsilon", "published", "apart", "settings"),
    [
        slow(TRAINING, 1, 0.755, AT_LEAST, {}),
        slow(TRAINING, 2, 0.831, AT_LEAST, {}),
        slow(PREDICTION, 1, 0.749, AT_LEAST, {}),
        slow(PREDICTION, 2, 0.837, AT_LEAST, {}),
        slow(LAPLACE, 1, 0.34, WITHIN, {"data": "shared"}),
        slow(LAPLACE, 1, 0.34, WITHIN, {"data": "disjoint"}),
        slow(LAPLACE, 2, 0.44, WITHIN, {"data": "shared"}),
        slow(LAPLACE, 2, 0.44, WITHIN, {"data": "disjoint"}),
        (AGGREGATE, 1, 0.75, {"least": 0.03, "most": 0.03}, LEAVES),
        # With a strategy for the leaves that are asked for: not worse.
        slow(AGGREGATE, 1, 0.75, AT_LEAST, SIXTEEN),
        (rf.NonPrivateForestClassifier, None, 0.789, AT_LEAST, {}),
    ],
)
def test_accuracies_are_as_published(cls, epsilon, published, apart, settings):
    """Better is welcome, but for the baselines."""
    budget = {} if epsilon is None else {"epsilon": epsilon}
    n_runs = RUNS[epsilon] if cls in (TRAINING, PREDICTION) else 20
    accuracy = mean_accuracy(cls, n_runs, **budget, **settings)
    assert -apart["least"] < accuracy - published < apart.get("most", 1)
