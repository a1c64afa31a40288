"""What is measured, exhaustively: every column, every neighbour, exact fractions."""

import math
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
import reference as ref
import scipy.sparse as sp
from catalogue import CATALOGUE, of_all
from compositions import operators
from entropy import system_entropy
from hypothesis import given
from hypothesis import strategies as st
from replay import row_parameters, with_noise

from mmech import (
    AllRange,
    Dense,
    Diagonal,
    Identity,
    Kronecker,
    Marginals,
    MatrixMechanism,
    Merged,
    Partition,
    PIdentity,
    Prefix,
    PrivacyLedger,
    Product,
    Sparse,
    Total,
    VStack,
    all_marginals,
    expected_error,
    exponential_mechanism,
    loss,
    noisy_release,
    optimize,
    permute_and_flip,
)
from mmech.exceptions import EntropyError
from mmech.integer_strategy import integer_strategy

RNG = np.random.default_rng(7)
UNION = VStack([Kronecker([Prefix(3), Total(4)]), Kronecker([Total(3), Prefix(4)])])
STRATEGIES = {
    "identity": Identity(6),
    "workload": AllRange(4),
    "p-identity": PIdentity(RNG.random((3, 8))),
    "p-identity of zeros": PIdentity(np.zeros((2, 4))),
    "p-identity with tiny identity": PIdentity([[1e9, 1.0, 3e5, 0]]),
    "kronecker": Kronecker([PIdentity(RNG.random((2, 4))), Prefix(3)]),
    "kronecker of two": Kronecker([PIdentity([[1.0, 2, 3]]), PIdentity([[0.3, 0.1]])]),
    "marginals": Marginals((2, 3, 2), {(0,): 0.21, (1, 2): -0.33, (): 0, (0, 2): 0.4}),
    "union": VStack([0.3 * Prefix(5), -0.7 * PIdentity(RNG.random((2, 5)))]),
    "mixed stack": VStack(
        [Total(4), 0.5 * Identity(4), Dense(RNG.standard_normal((2, 4)))]
    ),
    "stack with nothing": VStack([Identity(3), 0.0 * Prefix(3)]),
    "stack of weighted rows": VStack(
        [Diagonal([0.2, 0.5, 1.0]) @ Prefix(3), 0.4 * Identity(3)]
    ),
    "merged": Merged(PIdentity([[1.0, 0.5, 0.2]]), [0, 1, 1, 2, 0]),
    "weighted rows": Diagonal([0.5, 0.0, 2.0, -1.5]) @ Prefix(4),
    "sums of queries": Dense(RNG.standard_normal((3, 5))) @ Prefix(5),
    "real": Dense(RNG.standard_normal((5, 4))),
    "sparse": Sparse(
        sp.csr_array(
            np.where(RNG.random((7, 5)) < 0.4, RNG.random((7, 5)) - 0.3, 0)
            + np.eye(7, 5)
        )
    ),
    "negative": -2.5 * Prefix(4),
    "diagonal": Diagonal([0.25, 1.0, 3.3]),
}
TEMPLATES = {
    "pidentity": (AllRange(12), {"template": "pidentity"}),
    "kronecker": (Kronecker([AllRange(5), Prefix(4)]), {"template": "kronecker"}),
    "union": (UNION, {"template": "union"}),
    "marginals": (all_marginals((3, 2, 4), 2), {"template": "marginals"}),
    "auto": (Prefix(16), {}),
    "forest": (VStack([Partition([0, 0, 1, 1, 2, 2]), Partition([0, 1] * 3)]), {}),
}
every_strategy = pytest.mark.parametrize(
    "name",
    [
        *STRATEGIES,
        *(f"optimized {t}{norm}" for t in TEMPLATES for norm in ("", ", L2")),
    ],
)
norms = pytest.mark.parametrize("norm", ["L1", "L2"])


@cache
def strategy_of(name):
    """Return one that is listed above, or the optimum of a template."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    template, _, gaussian = name.removeprefix("optimized ").partition(", ")
    workload, options = TEMPLATES[template]
    if gaussian:
        return optimize(workload, privacy="zcdp").strategy
    return optimize(workload, seed=0, **options).strategy


def check(strategy, norm):
    """Everything that must hold of an integer strategy, by brute force."""
    released = integer_strategy(strategy, norm=norm)
    assert all(block.matrix.dtype == np.int64 for block in released.blocks)
    rows, weights = ref.integer_rows(released)
    assert released.shape == rows.shape
    assert all(isinstance(k, int) and k >= 1 for k in weights)
    power = 1 if norm == "L1" else 2
    columns = [
        sum(k * abs(v) ** power for k, v in zip(weights, column, strict=True))
        for column in rows.T
    ]
    assert isinstance(released.sensitivity, int)
    assert released.sensitivity == max(columns)
    assert max(abs(v) for v in rows.flat) <= released.sensitivity
    # The form is the same matrix, row by row and up to nothing at all.
    np.testing.assert_allclose(
        released.form.to_dense(), rows.astype(float), rtol=1e-12, atol=1e-9
    )
    # Runs of equal weight cover all rows in order.
    runs = released.row_weights()
    assert [k for a, b, k in runs for _ in range(b - a)] == list(weights)
    assert [a for a, _, _ in runs] == [0, *(b for _, b, _ in runs[:-1])]
    factors = np.repeat(RNG.random(len(runs)) + 0.5, [b - a for a, b, _ in runs])
    scaled, wanted = released.scaled(factors).to_dense(), factors[:, None] * rows
    np.testing.assert_allclose(scaled, wanted.astype(float), rtol=1e-9, atol=1e-9)
    return released, rows, weights


@pytest.mark.by_day(8)
@norms
@every_strategy
def test_brute_force(name, norm):
    check(strategy_of(name), norm)


@of_all(CATALOGUE)
def test_every_operator_of_the_catalogue(name):
    strategy, dense = CATALOGUE[name]
    for norm in ("L1", "L2"):
        if np.any(dense):
            check(strategy, norm)
            continue
        with pytest.raises(ValueError, match="measures nothing"):
            _ = integer_strategy(strategy, norm=norm).sensitivity


@given(
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["L1", "L2"]),
)
def test_random_matrices(n, m, seed, norm):
    rng = np.random.default_rng(seed)
    entries = rng.standard_normal((m, n)) * 10.0 ** rng.integers(-3, 4, (m, 1))
    entries[rng.random((m, n)) < 0.3] = 0
    if not entries.any():
        return
    released, rows, _ = check(Dense(entries), norm)
    if norm == "L1":
        assert released.sensitivity <= 2**12
    # Entry by entry within one unit of the grid.
    power = 1 if norm == "L1" else 2
    size = (np.abs(entries) ** power).sum(axis=0).max() ** (1 / power)
    grid = 2.0 ** (12 if norm == "L1" else 16)
    assert np.abs(rows.astype(float) - entries * grid / size).max() <= 1 + 1e-6


@given(operators())
def test_random_compositions(pair):
    strategy, dense = pair
    for norm in ("L1", "L2"):
        if np.any(dense):
            check(strategy, norm)


every_change = pytest.mark.parametrize(
    ("neighbours", "contribution", "persons"),
    [("add_remove", 1, 1), ("add_remove", 3, 2), ("replace", 1, 1), ("replace", 3, 2)],
)


@pytest.mark.by_day(30)
@every_strategy
@every_change
@pytest.mark.parametrize("cost", [{"epsilon": "3/7"}, {"rho": "2/9"}], ids=str)
def test_every_neighbour_is_paid_for(name, neighbours, contribution, persons, cost):
    """In fractions, at most what is paid, and as much for some cell.

    Σ_i |A'_ij| / t_i under epsilon, and Σ_i A'_ij² / (2 σ_i²) under rho.
    """
    mechanism = MatrixMechanism(
        strategy_of(name), strategy_of(name), neighbours=neighbours,
        contribution=contribution, records_per_person=persons, **cost,
    )  # fmt: skip
    rows, _ = ref.integer_rows(mechanism.released)
    parameters = row_parameters(mechanism)
    assert all(isinstance(t, Fraction) for t in parameters)
    power = 1 if "epsilon" in cost else 2
    costs = [
        sum(
            Fraction(abs(v)) ** power / (power * t)
            for v, t in zip(column, parameters, strict=True)
        )
        for column in rows.T
    ]
    moved = contribution * persons * (2 if neighbours == "replace" else 1)
    assert [max(costs) * moved**power] == [*map(Fraction, cost.values())]


# ------------------------------------------------------------ the measurement path


@pytest.fixture
def injected(watch_all):
    draws = []

    def law(scale, shape):
        assert isinstance(scale, Fraction)
        noise = 1000 * (len(draws) + 1) + np.arange(math.prod(shape))
        draws.append(noise.reshape(shape))
        return draws[-1]

    watch_all(with_noise(law))
    return draws


@pytest.mark.by_day(4)
@every_strategy
def test_values_are_the_exact_counts_plus_the_noise(name, injected, rng):
    strategy = strategy_of(name)
    n, k = strategy.shape[1], 3
    mechanism = MatrixMechanism(strategy, strategy, epsilon=1)
    rows, _ = ref.integer_rows(mechanism.released)
    counts = rng.integers(0, 1000, (n, k))
    values = mechanism.measure(counts).values
    assert values.dtype == np.int64
    noise = np.concatenate(injected)
    assert noise.shape == (rows.shape[0], k)  # once per entry, no more
    exact = values - noise
    assert (exact == rows @ counts.astype(object)).all()
    # Every neighbour, for every cell and class: exactly the integer column.
    for cell in range(n):
        for label in range(k):
            more = counts.copy()
            more[cell, label] += 1
            injected.clear()
            change = mechanism.measure(more).values - np.concatenate(injected) - exact
            assert (change[:, label] == rows[:, cell]).all()
            assert not np.delete(change, label, axis=1).any()


def test_without_entropy_nothing_returns_and_the_budget_is_spent():
    def urandom(size):
        raise OSError("no entropy")

    for price in ({"epsilon": 1}, {"rho": 1}):
        mechanism = MatrixMechanism(Prefix(4), Identity(4), **price)
        with (
            system_entropy(urandom),
            pytest.raises(EntropyError, match="nothing was released"),
        ):
            mechanism.measure([1, 2, 3, 4])
        assert mechanism.ledger.spent == 1


@pytest.mark.parametrize(
    "values",
    [[2.0**53 + 2], [2**62 + 1], np.array([2**63], np.uint64), np.array([-(2**63)])],
    ids=repr,
)
def test_a_refusal_that_tells_about_the_values_is_paid_for(values, injected):
    ledger = PrivacyLedger(4)
    settings = {"epsilon": 1, "released": "x", "ledger": ledger}
    for release in (
        partial(noisy_release, sensitivity=1),
        partial(noisy_release, sensitivity=1, groups=[1]),
        exponential_mechanism,
        permute_and_flip,
    ):
        with pytest.raises(ValueError, match="in magnitude to be exact; nothing was"):
            release(values, **settings)
    assert ledger.remaining == 0
    assert not injected


def test_impossible_scales_and_other_relations_cost_nothing(injected):
    ledger = PrivacyLedger(1)
    release = partial(noisy_release, [1], released="x", ledger=ledger)
    for epsilon, sensitivity in ((1e-30, 1), (1, 2**60)):
        with pytest.raises(ValueError, match="does not fit into 64-bit integers"):
            release(sensitivity=sensitivity, epsilon=epsilon)
    with pytest.raises(ValueError, match="use the same neighbours= and records"):
        release(sensitivity=1, epsilon=1, neighbours="replace")
    assert ledger.spent == 0
    assert not injected


# ------------------------------------------------------------- rounding by itself


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", TEMPLATES)
def test_rounding_costs_next_to_nothing(name):
    """At large noise the discrete law is the continuous one: only rounding is left."""
    workload, options = TEMPLATES[name]
    strategy = optimize(workload, seed=0, **options).strategy
    mechanism = MatrixMechanism(workload, strategy, epsilon=1e-3)
    real = expected_error(workload, strategy, epsilon=1e-3)
    tolerance = 1e-4 if name in ("pidentity", "kronecker") else 1e-3
    assert mechanism.expected_error() == pytest.approx(real, rel=tolerance)
    released = integer_strategy(strategy)
    if len(released.row_weights()) == 1:
        assert loss(workload, released.form) == pytest.approx(
            loss(workload, strategy), rel=tolerance
        )


def test_weights_are_exact_where_they_can_be():
    strategy = Marginals((2, 3), {(0,): 0.1, (1,): 0.3, (0, 1): 0.6})
    released = integer_strategy(strategy)
    assert [block.weight for block in released.blocks] == [1, 3, 6]
    assert released.sensitivity == 10
    squared = integer_strategy(strategy, norm="L2")
    assert [block.weight for block in squared.blocks] == [1, 9, 36]
    irrational = integer_strategy(Marginals((2, 3), {(0,): 1, (1,): math.sqrt(2)}))
    small, large = (block.weight for block in irrational.blocks)
    assert large / small == pytest.approx(math.sqrt(2), rel=1e-5)
    assert small + large == pytest.approx(2**20, abs=1)


@pytest.mark.parametrize("norm", ["L1", "L2"])
@pytest.mark.parametrize(
    "strategy",
    [
        Marginals((2, 3), {(0,): 0.1, (1,): 0.35, (0, 1): 0.6}),
        Diagonal([0.5, 2.0, 1.25]) @ Dense([[3, -1], [0, 7], [5, 5]]),
        VStack([3 * Prefix(2), 0.5 * Identity(2)]),
        VStack([Dense([[0.9, 0.7], [0.3, 0.5]]), 0.3 * Total(2)]),
        VStack([Diagonal([0.5, 2.0]) @ Dense([[3, -1], [0, 7]]), 0.3 * Total(2)]),
        VStack([VStack([2 * Total(3), 0.1 * Identity(3)]), 0.7 * Prefix(3)]),
    ],
    ids=repr,
)
def test_noise_follows_the_heights_of_rows(strategy, norm):
    """Rows over the deviation of their noise are those of the strategy, scaled."""
    released = integer_strategy(strategy, norm=norm)
    power = 1 if norm == "L1" else 2
    runs = released.row_weights()
    weights = np.concatenate([np.full(b - a, weight) for a, b, weight in runs])
    found = np.abs(released.scaled(weights ** (1 / power)).to_dense())
    wanted = np.abs(strategy.to_dense())
    np.testing.assert_allclose(
        found / found.max(), wanted / wanted.max(), atol=1e-4, rtol=1e-4
    )
    rows, whole = ref.integer_rows(released)
    sums = np.abs(rows.astype(object).T) ** power @ whole.astype(object)
    assert released.sensitivity == max(sums)


def test_integer_strategies_stay_as_they_are():
    for strategy in (Prefix(5), AllRange(4), Dense([[3, -1], [0, 7]]), Total(4)):
        released = integer_strategy(strategy)
        assert released.form is strategy
        assert released.sensitivity == strategy.sensitivity()
    product = Dense([[3, -1, 2], [0, 7, 1]]) @ Prefix(3)
    assert (integer_strategy(product).form.to_dense() == product.to_dense()).all()


@pytest.mark.parametrize(("powers", "total", "least"), [(2, 2**12, 16), (7, 2**20, 1)])
def test_p_identity_columns_keep_their_sum(powers, total, least):
    """With tiny entries of the identity, on a finer grid."""
    theta = RNG.random((3, 50)) * 10.0 ** RNG.integers(-6, powers, (3, 50))
    rows, _ = ref.integer_rows(integer_strategy(PIdentity(theta)))
    assert (rows.sum(axis=0) == total).all()
    assert (np.diag(rows) >= least).all()
    assert (rows >= 0).all()


def test_few_real_rows_still_answer_themselves():
    """The coarse grid would turn them out of their own span."""
    workload = Dense(RNG.standard_normal((2, 5)))
    mechanism = MatrixMechanism(workload, workload, epsilon=1)
    assert mechanism.released.sensitivity > 2**20
    assert mechanism.expected_error() == pytest.approx(2 * loss(workload, workload))
    gaussian = MatrixMechanism(Dense([[1, 1, 0, 2], [0, 1, 1, 1]]), rho=1)
    assert gaussian.answer([1, 2, 3, 4]).shape == (2,)


@pytest.mark.filterwarnings("error")
def test_large_entries_with_real_weights_go_to_the_grid():
    entries = np.zeros((3, 3), np.int64)
    entries[2, 1] = 2**63 - 2**42
    strategy = Product(Diagonal(np.array([0.5, 0.5, 2.0])), Dense(entries))
    released = integer_strategy(strategy)
    assert released.form.to_dense().tolist() == [[0] * 3, [0] * 3, [0, 4096, 0]]
