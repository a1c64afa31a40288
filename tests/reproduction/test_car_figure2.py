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


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "published"), [slow(1, 0.755), slow(2, 0.831)])
def test_batch_training(epsilon, published):
    """Figure 2, "DP batch training", hard voting; better is welcome."""
    accuracy = mean_accuracy(rf.BatchTrainingClassifier, RUNS[epsilon], epsilon=epsilon)
    assert accuracy > published - 0.03


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "published"), [(1, 0.749), slow(2, 0.837)])
def test_batch_prediction(epsilon, published):
    """Figure 2, "DP batch prediction", weight voting; better is welcome."""
    accuracy = mean_accuracy(
        rf.BatchPredictionClassifier, RUNS[epsilon], epsilon=epsilon
    )
    assert accuracy > published - 0.03


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("data", ["shared", "disjoint"])
@pytest.mark.parametrize(("epsilon", "published"), [(1, 0.34), slow(2, 0.44)])
def test_laplace_baselines(epsilon, published, data):
    """Figure 2, training with Lap(128 / ε) on all data, Lap(1 / ε) on disjoint."""
    accuracy = mean_accuracy(rf.LaplaceForestClassifier, epsilon=epsilon, data=data)
    assert accuracy == pytest.approx(published, abs=0.06)


@pytest.mark.statistical
def test_subsample_and_aggregate():
    """Appendix, Table 2: 16 trees of depth 3, weight voting, .749 at ε = 1.

    With the leaves themselves as the strategy, as in the published code.
    """
    accuracy = mean_accuracy(
        rf.SubsampleAggregateClassifier,
        epsilon=1,
        n_trees=16,
        depth=3,
        template="identity",
    )
    assert accuracy == pytest.approx(0.75, abs=0.03)


@pytest.mark.slow
@pytest.mark.statistical
def test_subsample_and_aggregate_with_an_optimized_strategy():
    """The same with a strategy for the leaves that are asked for: not worse."""
    accuracy = mean_accuracy(
        rf.SubsampleAggregateClassifier, n_runs=10, epsilon=1, n_trees=16, depth=3
    )
    assert accuracy > 0.72


def test_without_noise():
    """Appendix, Table 2: .789 for the forest without privacy, one split."""
    accuracy = mean_accuracy(rf.NonPrivateForestClassifier)
    assert accuracy > 0.789 - 0.03
