"""Least squares without a closed form: weights of rows, preconditioned LSMR."""

import numpy as np
import pytest
import reference as ref
import scipy.sparse.linalg as spla

from mmech import (
    Dense,
    Identity,
    Kronecker,
    MatrixMechanism,
    PIdentity,
    Prefix,
    Scaled,
    Total,
    VStack,
    limits,
)
from mmech.operators.pinv import preconditioner
from mmech.reconstruction import least_squares


@pytest.fixture
def iterative():
    """Every pseudoinverse without a closed form goes to LSMR."""
    with limits.changed(direct_size=0):
        yield


@pytest.fixture
def iterations(monkeypatch):
    """Collect how many iterations LSMR took.

    SciPy's function is patched: what is solved tells its solution only.
    """
    counts, original = [], spla.lsmr

    def counted(*arguments, **options):
        solution = original(*arguments, **options)
        counts.append(solution[2])
        return solution

    monkeypatch.setattr(spla, "lsmr", counted)
    return counts


def three_groups(n, rng):
    """Three products on n x n cells without a common basis."""
    return VStack(
        [
            Scaled(share, Kronecker([PIdentity(3 * rng.random((p, n))) for p in rows]))
            for share, rows in ((0.2, (3, 4)), (0.3, (2, 5)), (0.5, (1, 2)))
        ]
    )


def weighted_pinv(dense, scale):
    """The textbook (AᵀΣ⁻¹A)⁻¹AᵀΣ⁻¹."""
    inverse = np.diag(1 / np.square(scale))
    return np.linalg.solve(dense.T @ inverse @ dense, dense.T @ inverse)


def strategies(rng):
    return {
        "three groups": three_groups(6, rng),
        "unstructured": VStack([Dense(rng.standard_normal((9, 8))), Identity(8)]),
        "common basis": VStack(
            [
                Kronecker([Prefix(3), Identity(4)]),
                Kronecker([Identity(3), Prefix(4)]),
                Kronecker([Prefix(3), Prefix(4)]),
            ]
        ),
        "tall": Dense(rng.standard_normal((12, 5))),
        "scaled": -3 * VStack([Prefix(6), Total(6)]),
    }


@pytest.mark.parametrize("name", strategies(np.random.default_rng(0)))
@pytest.mark.parametrize("weights", ["per row", "per block"])
@pytest.mark.usefixtures("iterative")
def test_weighted_least_squares_equals_the_textbook(name, weights, rng):
    strategy = strategies(rng)[name]
    m = strategy.shape[0]
    scale = rng.uniform(0.1, 5, m)
    if weights == "per block":
        inner = strategy.operator if isinstance(strategy, Scaled) else strategy
        start = 0
        for block in getattr(inner, "blocks", []):
            scale[start : start + block.shape[0]] = scale[start]
            start += block.shape[0]
    values = rng.standard_normal((m, 3))
    expected = weighted_pinv(strategy.to_dense(), scale) @ values
    estimate = least_squares(strategy, values, scale)
    np.testing.assert_allclose(estimate, expected, atol=1e-7)
    single = least_squares(strategy, values[:, 0], scale)
    np.testing.assert_allclose(single, expected[:, 0], atol=1e-7)


@pytest.mark.usefixtures("iterative")
def test_the_solution_of_deficient_strategies_keeps_its_minimum_norm(rng):
    """A preconditioner would change the norm that is minimal."""
    for deficient in (
        VStack([Kronecker([Prefix(3), Total(4)]), Kronecker([Total(3), Prefix(4)])]),
        VStack([Dense(rng.standard_normal((2, 6))), Total(6)]),
    ):
        assert preconditioner(deficient) is None
        values = rng.standard_normal(deficient.shape[0])
        expected = ref.pinv(deficient.to_dense()) @ values
        estimate = least_squares(deficient, values)
        np.testing.assert_allclose(estimate, expected, atol=1e-8)


@pytest.mark.parametrize(("weights", "limit"), [("equal", 60), ("per block", 80)])
def test_few_iterations_on_64_x_64(weights, limit, rng, iterations):
    """Without a preconditioner 600 to 1500 iterations."""
    strategy = three_groups(64, rng)
    counts = rng.integers(0, 50, 64 * 64)
    scale = None
    if weights == "per block":
        sizes = [block.shape[0] for block in strategy.blocks]
        scale = np.repeat([1.0, 3.0, 0.5], sizes)
    estimate = least_squares(strategy, strategy @ counts, scale)
    np.testing.assert_allclose(estimate, counts, atol=1e-4)
    assert 0 < sum(iterations) <= limit


def test_equal_scales_change_nothing(rng):
    strategy = VStack([Prefix(5), Identity(5)])
    values = rng.standard_normal(10)
    np.testing.assert_array_equal(
        least_squares(strategy, values, np.full(10, 7.0)),
        least_squares(strategy, values),
    )


def test_a_mechanism_reconstructs_through_lsmr(rng, iterations):
    strategy = three_groups(48, rng)
    workload = Kronecker([Prefix(48), Identity(48)])
    counts = rng.integers(0, 9, 48 * 48)
    mechanism = MatrixMechanism(workload, strategy, epsilon=1e12)
    answers = mechanism.answer(counts)
    np.testing.assert_allclose(answers, workload @ counts, atol=1e-2)
    assert iterations
