"""Marginals measured with noise of equal totals: errors, choice and intervals."""

import math
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
from reference import norm_law
from replay import entropy

import mmech as mm
from mmech.error.shared_totals import as_sets
from mmech.limits import LIMITS
from mmech.noise.norm import norm_noise_components
from mmech.tables.intervals import Intervals

SHAPE = (2, 3, 4)
SETS = {
    "one set": {(0,): 1, (1,): 1, (2,): 1},
    "two sets": {(1,): 2, (2,): 2, (0,): 1},
    "sets of one": {(0,): 1, (1,): 2, (2,): 3},
    "pairs": {(0, 1): 1, (1, 2): 1, (0, 2): 3, (): 3},
}


def mechanism(weights, workload=None, epsilon=1, **settings):
    strategy = mm.Marginals(SHAPE, weights)
    workload = strategy if workload is None else workload
    return mm.MatrixMechanism(
        workload, strategy, epsilon=epsilon, noise="k_norm", **settings
    )


def covariance(sizes, scale, reach):
    """Return the covariance of the noise of one set, from the whole law on a box."""
    points, weights = norm_law([sizes], scale, reach)
    return (points.T * weights) @ points


# ---- errors --------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 2), (1, 3), (3,)], ids=str)
def test_total_and_contrasts_say_the_whole_covariance(sizes):
    wanted = covariance(sizes, Fraction(1, 2), 8)
    total, contrasts = norm_noise_components(Fraction(1, 2), sizes)
    starts = np.cumsum([0, *sizes])
    found = np.zeros_like(wanted)
    for i, m in enumerate(sizes):
        for j, n in enumerate(sizes):
            own = np.full((m, n), total / (m * n))
            if i == j:
                own += contrasts[i] * (np.eye(m) - 1 / m) * (m > 1)
            found[starts[i] : starts[i + 1], starts[j] : starts[j + 1]] = own
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def dense(measuring):
    """Return strategy and covariance of what a mechanism measures."""
    known = measuring.equal_totals
    sizes = [[math.prod(SHAPE[i] for i in a) for a in own] for own in known.sets]
    blocks, tau = [], iter(known.contrasts)
    for own, total in zip(sizes, known.totals, strict=True):
        u = np.concatenate([np.full(m, 1 / m) for m in own])
        block = total * np.outer(u, u)
        start = 0
        for m in own:
            contrast = next(tau) * (np.eye(m) - 1 / m) * (m > 1)
            block[start : start + m, start : start + m] += contrast
            start += m
        blocks.append(block)
    ends = np.cumsum([len(block) for block in blocks])
    whole = np.zeros((ends[-1], ends[-1]))
    for end, block in zip(ends, blocks, strict=True):
        whole[end - len(block) : end, end - len(block) : end] = block
    return measuring.released.form.to_dense().astype(float), whole


@pytest.mark.parametrize("name", SETS)
def test_errors_and_estimates_are_those_of_generalised_least_squares(name, rng):
    """By the dense pseudoinverse under the whole covariance, and a simulation of it."""
    measuring = mechanism(SETS[name])
    strategy, noise = dense(measuring)
    inverse = ref.pinv(noise, rcond=1e-10)
    solve = ref.pinv(strategy.T @ inverse @ strategy, rcond=1e-10)
    solve = solve @ strategy.T @ inverse
    workload = measuring.workload.to_dense()
    errors = np.diag(workload @ solve @ noise @ solve.T @ workload.T)
    np.testing.assert_allclose(measuring.per_query_error(), errors, rtol=1e-8)
    assert measuring.expected_error() == pytest.approx(errors.sum())
    counts = rng.integers(0, 50, 24)
    measurement = measuring.measure(counts)
    np.testing.assert_allclose(
        measuring.answer_from(measurement), workload @ solve @ measurement.values
    )
    estimate = measuring.reconstruct(measurement, "nonnegative")
    assert estimate.min() >= 0


@pytest.mark.parametrize("name", SETS)
def test_small_epsilon_has_the_errors_of_continuous_noise(name):
    strategy = mm.Marginals(SHAPE, SETS[name])
    result = mm.StrategyResult(strategy, "by hand", math.nan, noise="k_norm")
    wanted = mechanism(SETS[name], epsilon=Fraction(1, 1000)).expected_error() / 1e6
    assert mm.expected_error(strategy, result, epsilon=1) == pytest.approx(wanted, 1e-4)
    assert mm.loss(strategy, result) == pytest.approx(wanted / 2, 1e-4)
    rows = mm.per_query_error(strategy, result, epsilon=2)
    assert rows.sum() == pytest.approx(wanted / 4, 1e-4)


# ---- the choice of a strategy --------------------------------------------------


@pytest.mark.by_day(2)
@pytest.mark.parametrize("shape", [(3, 3), (2,) * 4, (4, 3, 4, 3)], ids=str)
def test_tables_of_single_attributes_are_measured_together(shape):
    workload = mm.all_marginals(shape, 1)
    weighted = mm.optimize(workload, template="marginals", seed=0)
    found = mm.optimize(workload, template="equal_totals")
    assert found.loss == mm.loss(workload, found) < 0.7 * weighted.loss
    assert as_sets(found.strategy) == [[(i,) for i in np.argsort(shape, kind="stable")]]
    assert found.bound_ratio >= 1


def test_a_mechanism_draws_the_noise_of_a_result():
    workload = mm.all_marginals((3, 3), 1)
    found = mm.optimize(workload, template="equal_totals")
    assert mm.MatrixMechanism(found, epsilon=1).law.name == "k_norm"
    assert mm.MatrixMechanism(workload, found, epsilon=1).law.groups == ((3, 3),)
    assert mm.MatrixMechanism(workload, epsilon=1, noise="k_norm").law.groups == (
        (3, 3),
    )
    named = {"noise": "laplace"}
    for strategy, settings in ((None, {}), (found, named), (found.strategy, {})):
        measuring = mm.MatrixMechanism(workload, strategy, epsilon=1, **settings)
        assert measuring.law.name == "laplace"
        assert measuring.equal_totals is None
    with pytest.raises(ValueError, match="for L1 sensitivity but this noise"):
        mm.MatrixMechanism(workload, found, rho=1)


@pytest.mark.slow
def test_attributes_of_other_sizes_are_sets_of_their_own():
    """Small tables beside large ones would have most of the noise."""
    shape = (2, 5, 40, 5, 2)
    workload = mm.all_marginals(shape, 1)
    found = mm.optimize(workload, template="equal_totals")
    assert as_sets(found.strategy) == [[(0,), (4,), (1,), (3,)], [(2,)]]
    together = mm.Marginals(shape, dict.fromkeys(found.strategy.weights, 1))
    alone = mm.StrategyResult(together, "by hand", math.nan, noise="k_norm")
    assert found.loss < 0.8 * mm.loss(workload, alone)
    assert found.loss < 0.8 * mm.optimize(workload, template="marginals", seed=0).loss


def test_the_budget_of_sets_is_at_an_optimum():
    """No other share of a set is better by more than what its total is worth."""
    shape = (2, 2, 2, 12, 12, 90)
    workload = mm.all_marginals(shape, 1)
    found = mm.optimize(workload, template="equal_totals")
    sets = as_sets(found.strategy)
    assert len(sets) == 3
    for own in sets:
        for factor in (0.8, 1.25):
            weights = {
                a: w * (factor if a in own else 1)
                for a, w in found.strategy.weights.items()
            }
            changed = mm.Marginals(shape, weights)
            result = mm.StrategyResult(changed, "by hand", math.nan, noise="k_norm")
            assert mm.loss(workload, result) > found.loss


def test_weights_of_tables_move_attributes_to_other_sets():
    """A table that counts much has a set, and more of the budget, of its own."""
    workload = mm.Marginals((4, 4, 4), {(0,): 1, (1,): 1, (2,): 20})
    found = mm.optimize(workload, template="equal_totals")
    assert as_sets(found.strategy) == [[(0,), (1,)], [(2,)]]
    assert found.strategy.weights[2,] > 2 * found.strategy.weights[0,]
    equal = mm.optimize(mm.all_marginals((4, 4, 4), 1), template="equal_totals")
    assert found.loss < mm.loss(workload, equal)


def test_many_attributes_are_cut_into_sets_that_can_be_drawn():
    workload = mm.all_marginals((2,) * 60, 1)
    whole = mm.optimize(workload, template="equal_totals")
    with LIMITS.changed(norm_dimensions=20):
        found = mm.optimize(workload, template="equal_totals")
    assert max(map(len, as_sets(found.strategy))) == 19
    # So many tables of two values have less noise with a total of its own.
    assert list(map(len, as_sets(whole.strategy))) == [1, 60]
    assert whole.loss < found.loss < 1.4 * whole.loss


def test_ranges_of_single_attributes_may_be_measured_as_tables():
    workload = mm.VStack(
        [
            mm.Kronecker([mm.AllRange(3), mm.Total(3)]),
            mm.Kronecker([mm.Total(3), mm.AllRange(3)]),
        ]
    )
    found = mm.optimize(workload, template="equal_totals")
    mechanism = mm.MatrixMechanism(workload, found, epsilon="1/1000")
    assert mechanism.expected_error() == pytest.approx(2e6 * found.loss, 1e-4)
    assert mechanism.per_query_error().sum() == pytest.approx(2e6 * found.loss, 1e-4)


def test_results_are_saved_and_reported_with_their_noise(tmp_path):
    found = mm.optimize(mm.all_marginals((3, 3), 1), template="equal_totals")
    mm.save(tmp_path / "strategy.npz", found)
    loaded = mm.load(tmp_path / "strategy.npz")
    assert (loaded.noise, loaded.loss) == ("k_norm", found.loss)
    said = mm.report(found, found, epsilon=1)
    assert said.loss == pytest.approx(found.loss)
    assert "K-norm, of equal totals" in str(said)
    assert said.bound_ratio >= 1
    assert "noise='k_norm'" in repr(loaded)


# ---- tables --------------------------------------------------------------------


def domain_of(shape):
    return mm.Domain(
        [
            mm.Attribute.ordinal(f"x{i}", list(map(str, range(n))))
            for i, n in enumerate(shape)
        ]
    )


def records_of(shape, n=2000):
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.binomial(m - 1, 0.3, n) for m in shape])
    return codes.astype(str)


def test_released_tables_of_single_attributes_are_less_noisy():
    shape = (2, 3, 4, 30)
    names = [f"x{i}" for i in range(4)]
    plan = mm.release_tables(None, domain_of(shape), ways=1, epsilon=1, dry_run=True)
    assert plan.strategy.noise == "k_norm"
    errors = plan.errors(frame="dict")["standard_error"]
    mechanism = mm.MatrixMechanism(
        plan.strategy.workload, plan.strategy.workload, epsilon=1
    )
    total = np.square(errors) @ shape
    assert total == pytest.approx(plan.mechanism().expected_error())
    assert total < 0.7 * mechanism.expected_error()
    released = mm.release_tables(records_of(shape), domain_of(shape), ways=1, epsilon=1)
    assert "K-norm noise, with equal totals in tables that are" in released.statement
    assert released.facts["noise"] == released.measurement.entry.kind == "k_norm"
    counts = [released.table(name, frame="dict")["count"] for name in names]
    assert {int(count.sum()) for count in counts} == {released.total}
    assert min(count.min() for count in counts) >= 0
    assert released.sample(5, frame="dict")["x3"].shape == (5,)


def test_noise_that_is_next_to_none_leaves_exact_tables():
    """At an epsilon whose exponential is no double, where a set is one table."""
    shape = (3, 30, 3, 2)
    records = records_of(shape, 50)
    released = mm.release_tables(records, domain_of(shape), ways=1, epsilon=5000)
    assert released.facts["noise"] == "k_norm"
    for i, size in enumerate(shape):
        found = released.table(f"x{i}", frame="dict")
        exact = np.bincount(records[:, i].astype(int), minlength=size)
        for name in ("count", "lower", "upper"):
            np.testing.assert_array_equal(found[name], exact)


def test_the_table_of_one_value_is_the_total():
    shape = (3, 1, 30, 2)
    released = mm.release_tables(records_of(shape), domain_of(shape), ways=1, epsilon=1)
    assert released.facts["noise"] == "k_norm"
    table = released.table("x1", frame="dict")
    assert table["count"].tolist() == [released.total]
    squared = released.plan.mechanism().per_query_error()[3]
    assert table["standard_error"] ** 2 == pytest.approx(squared)


@pytest.mark.parametrize(
    ("shape", "tables"),
    [((40,), None), ((2, 200), None), ((3, 3, 3), [("x0", "x1"), ("x2",)])],
)
def test_other_plans_stay_as_they_were(shape, tables):
    wanted = {"ways": 1} if tables is None else {"tables": tables}
    plan = mm.release_tables(None, domain_of(shape), **wanted, epsilon=1, dry_run=True)
    assert plan.strategy.noise is None
    assert plan.mechanism().law.name == "laplace"


def noise_of(shape, epsilon, n):
    workload = mm.all_marginals(shape, 1)
    strategy = mm.optimize(workload, template="equal_totals")
    measuring = mm.MatrixMechanism(workload, strategy, epsilon=epsilon)
    law = Intervals([measuring])
    with entropy(3):
        columns = measuring.measure(np.zeros((math.prod(shape), n), np.int64))
    return measuring, law, law.estimate(columns.values)


@pytest.mark.by_day(2)
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("shape", "epsilon"),
    [
        ((4, 4), Fraction(1, 20)),
        ((4, 4), 1),
        ((2, 3, 12), 4),
        ((2, 2, 12, 12), Fraction(1, 20)),
        ((2, 2, 12, 12), 1),
    ],
    ids=str,
)
def test_intervals_hold_the_noise_that_is_drawn(shape, epsilon):
    """One value, and all, by 2000 draws: within six standard errors, 2e-9.

    Whole intervals hold at least what they promise: where counts are few, by far more.
    """
    measuring, law, estimate = noise_of(shape, epsilon, 2000)
    assert len(as_sets(measuring.strategy)) == 1 + (shape[-1] > 4)
    for i in range(len(shape)):
        for subset in ((i,), ()):
            errors, found = estimate.marginal(subset)[0], law.law(subset)
            spread = np.square(errors).std() / math.sqrt(errors.size)
            apart = np.square(errors).mean() - found.standard_error**2
            assert abs(apart) < 6 * spread
            for level in (0.5, 0.9, 0.95, 0.99):
                half = found.half_width(level) + 1e-9
                held = np.mean(np.abs(errors) <= half)
                slack = 6 * math.sqrt(level * (1 - level) / errors.size)
                assert held > level - slack
                if found.standard_error > 15:
                    assert held < level + slack + 0.5 / found.standard_error


def test_every_row_of_a_table_has_the_error_of_the_mechanism():
    measuring, law, _ = noise_of((2, 3, 12), 1, 1)
    rows = measuring.per_query_error()
    starts = np.cumsum([0, 2, 3])
    found = [law.law((i,)).standard_error ** 2 for i in range(3)]
    assert found == pytest.approx(rows[starts])
    both = mm.Marginals((2, 3, 12), {(): 1})
    wanted = mm.MatrixMechanism(both, measuring.strategy, epsilon=1, noise="k_norm")
    assert law.law(()).standard_error ** 2 == pytest.approx(wanted.expected_error())
