"""``python -m mmech.audit``: every mechanism of the package against its claim."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import (
    AllRange,
    Attribute,
    Dense,
    Diagonal,
    Domain,
    Identity,
    Kronecker,
    Marginals,
    MatrixMechanism,
    PIdentity,
    Prefix,
    QueryMatrix,
    VStack,
    all_marginals,
    epsilon_from_rho,
    exponential_mechanism,
    joint_quantiles,
    noisy_release,
    permute_and_flip,
    release_tables,
)
from mmech.audit import (
    AuditResult,
    Release,
    Statistic,
    check_runs,
    epsilon_lower_bound,
    one_by_one,
)
from mmech.checks import check_epsilon
from mmech.marginals.counts import Counts as CellCounts
from mmech.noise.norm import as_blocks
from mmech.tables.release import release as release_by_plan

Counts = NDArray[np.int64]

RHO_DELTA = 1e-3
"""Delta at which mechanisms under zCDP are audited."""

NORM_GROUPS = {"groups": (1, 1, 2), "equal totals": ((2, 2), 1)}
"""Groups of rows that a record adds one to each of."""

SLOW_RUNS = 500
"""Most runs of a release that takes milliseconds."""

NO_POWER = "not refuted (no power at so few runs)"
"""The verdict where a bound is zero: a broken release might have shown no more."""

RARE = 3.0
"""How far the rare candidate lies behind, as a logarithm: seen often enough."""


@dataclass(frozen=True)
class Case:
    """One release on one pair of neighbours, and what it claims."""

    name: str
    neighbours: str
    claimed: float
    release: Release
    first: Any
    second: Any
    statistic: Statistic | None = None
    most_runs: int | None = None
    delta: float = 0.0


def strategies() -> dict[str, tuple[QueryMatrix, QueryMatrix]]:
    """Return one small (workload, strategy) pair per kind of strategy."""
    halves = PIdentity([[1.0, 0.7, 0.0, 0.0], [0.0, 0.0, 0.4, 1.0]])
    return {
        "identity": (Prefix(8), Identity(8)),
        "the workload itself": (AllRange(4), AllRange(4)),
        "p-Identity": (AllRange(4), halves),
        "Kronecker": (
            Kronecker([AllRange(4), Prefix(3)]),
            Kronecker([halves, PIdentity([[0.5, 1.0, 1.5]])]),
        ),
        "marginals": (
            all_marginals((3, 3, 3), 1),
            Marginals((3, 3, 3), {(0, 1): 0.6, (2,): 0.4}),
        ),
        "union of products": (
            Prefix(16),
            VStack(
                [
                    0.7 * Kronecker([halves, Identity(4)]),
                    0.3 * Kronecker([Identity(4), halves]),
                ]
            ),
        ),
        "weighted rows": (Prefix(4), Diagonal([0.5, 1.0, 0.25, 2.0]) @ Prefix(4)),
        "real entries": (
            Identity(3),
            Dense([[1.0, -0.3, 0.0], [0.2, 0.9, 0.1], [0.4, 0.0, 0.7]]),
        ),
    }


def cases(epsilon: float) -> Iterator[Case]:
    """Yield every mechanism with the pair of neighbours that strains it most."""
    for neighbours in ("add_remove", "replace"):
        yield _laplace_case(epsilon, neighbours)
        for name in NORM_GROUPS:
            yield _norm_case(epsilon, neighbours, name)
        yield _sets_case(epsilon, neighbours)
    for neighbours in ("add_remove", "replace"):
        for monotone in (True, False):
            yield _choice_case(exponential_mechanism, epsilon, neighbours, monotone)
        yield _choice_case(permute_and_flip, epsilon, neighbours, True)
        yield cut_case(epsilon, neighbours)
        yield tables_case(epsilon, neighbours)
    for kind, (workload, strategy) in strategies().items():
        for neighbours in ("add_remove", "replace"):
            mechanism = MatrixMechanism(
                workload, strategy, epsilon=epsilon, neighbours=neighbours
            )
            yield _mechanism_case(f"MatrixMechanism, {kind}", mechanism, epsilon)
    rho = epsilon**2 / 2
    claimed = epsilon_from_rho(rho, RHO_DELTA)
    workloads = {"Prefix": Prefix(8), "marginals": all_marginals((3, 3), 1)}
    for name, workload in workloads.items():
        gaussian = MatrixMechanism(workload, rho=rho)
        title = f"MatrixMechanism in rho, {name}"
        yield _mechanism_case(title, gaussian, claimed, delta=RHO_DELTA)


def _mechanism_case(name: str, mechanism: Any, claimed: float, **options: Any) -> Case:
    release, pair = partial(_measure, mechanism), worst_pair(mechanism)
    return Case(name, mechanism.neighbours, claimed, release, *pair, **options)


def _noisy(epsilon: float, neighbours: str, **options: Any) -> Release:
    """Return what adds noise to many copies of the same sums."""

    def release(sums: Counts, runs: int) -> Counts:
        noisy = noisy_release(
            np.tile(sums, (1, runs)),
            sensitivity=1,
            epsilon=epsilon,
            released="audit",
            neighbours=neighbours,
            **options,
        )
        return _by_run(noisy.values, runs)

    return release


def _laplace_case(epsilon: float, neighbours: str) -> Case:
    pair, release = _pair(2, 1, neighbours), _noisy(epsilon, neighbours)
    return Case("noisy_release", neighbours, epsilon, release, *pair)


def _norm_case(epsilon: float, neighbours: str, name: str) -> Case:
    """Add a record to every group, scored by the ratio of the two densities."""
    sizes = np.concatenate(as_blocks(NORM_GROUPS[name]))
    starts = np.cumsum(sizes) - sizes
    first, second = _pair(sizes.sum(), starts, neighbours)

    def norms(noise: Counts) -> Counts:
        groups = np.add.reduceat(np.abs(noise), starts, axis=1)
        return np.asarray(groups.max(axis=1).sum(axis=-1))

    return Case(
        f"noisy_release, {name}",
        neighbours,
        epsilon,
        _noisy(epsilon, neighbours, groups=NORM_GROUPS[name]),
        first,
        second,
        lambda outputs: norms(outputs - first) - norms(outputs - second),
    )


def _sets_case(epsilon: float, neighbours: str) -> Case:
    """Measure marginals in sets of equal totals, scored by the ratio of densities."""
    tables = Marginals((2, 3, 2), {(0,): 2, (1,): 2, (2,): 1})
    mechanism = MatrixMechanism(
        tables, tables, epsilon=epsilon, neighbours=neighbours, noise="k_norm"
    )
    first, second = worst_pair(mechanism)

    def norms(outputs: Counts, counts: Counts) -> Counts:
        noise = np.abs(outputs - mechanism.released.product(counts))
        groups = np.add.reduceat(noise, [0, 2, 5], axis=1)
        own = 2 * groups[:, :2].max(axis=1) + groups[:, 2]
        return np.asarray(own.sum(axis=-1))

    return _mechanism_case(
        "MatrixMechanism, equal totals",
        mechanism,
        epsilon,
        statistic=lambda outputs: norms(outputs, first) - norms(outputs, second),
    )


def _choice_case(
    choose: Callable[..., int], epsilon: float, neighbours: str, monotone: bool
) -> Case:
    """Choose between a rare and a frequent candidate; a record favours the rare one.

    Then the normalisation hardly changes and the rare one's chance by all of epsilon:
    monotone scores only rise with a record, others fall as well, and replacing one is
    a removal and an addition.
    """

    def release(scores: Counts) -> int:
        return choose(
            scores,
            epsilon=epsilon,
            released="audit",
            monotone=monotone,
            neighbours=neighbours,
        )

    changes = {
        (True, "add_remove"): (1, 0),
        (True, "replace"): (1, -1),
        (False, "add_remove"): (1, -1),
        (False, "replace"): (2, -2),
    }
    up, down = changes[monotone, neighbours]
    first = np.array([0, math.ceil(RARE * (up - down) / epsilon)])
    return Case(
        f"{choose.__name__}{', monotone' if monotone else ''}",
        neighbours,
        epsilon,
        one_by_one(release),
        first,
        first + np.array([up, down]),
        np.negative,
    )


def cut_case(epsilon: float, neighbours: str, behind: float = RARE) -> Case:
    """Cut three cells in two; a record is one too many where they mostly are cut.

    The rare cut is the first edge, which leaves too many records on its right; at the
    second edge both sides have their share, until one more comes to the first cell.
    One that leaves the last cell favours the rare cut as well.
    """
    steps = 1 if neighbours == "add_remove" else 2
    share = math.ceil(behind * steps / epsilon)

    def release(counts: Counts) -> Counts:
        return joint_quantiles(
            counts,
            2,
            n_records=2 * share,
            epsilon=epsilon,
            released="audit",
            neighbours=neighbours,
        )

    first = np.array([0, share, share])
    return Case(
        "joint_quantiles",
        neighbours,
        epsilon,
        one_by_one(release),
        first,
        first + np.array([1, 0, 1 - steps]),
        lambda cuts: -cuts[:, 0],
    )


def tables_case(epsilon: float, neighbours: str) -> Case:
    """Publish tables of few records, one of whom comes, or moves to the other corner.

    What is looked at is published: whole counts, after all that makes them agree.
    """
    names = ("one", "other")
    domain = Domain(tuple(Attribute.categorical(name, ["0", "1"]) for name in names))
    options: dict[str, Any] = {"epsilon": epsilon, "neighbours": neighbours}
    plan = release_tables(None, domain, ways=1, dry_run=True, **options)

    def release(codes: Counts) -> Counts:
        records = CellCounts(codes, domain.shape)
        tables = release_by_plan(
            plan, records, ledger=None, say=lambda text: None, insecure_rng=None
        )
        found = [tables.table(name, frame="dict")["count"] for name in names]
        return np.concatenate(found)

    first = np.repeat(np.eye(2, dtype=np.int64), 8, axis=0)
    last = [[1, 1]]
    if neighbours == "replace":
        first = np.concatenate([first, [[0, 0]]])
    second = np.concatenate([first[:16], last])
    return Case(
        "release_tables",
        neighbours,
        epsilon,
        one_by_one(release),
        first,
        second,
        lambda counts: counts[:, 1] + counts[:, 3] - counts[:, 0] - counts[:, 2],
        SLOW_RUNS,
    )


def _measure(mechanism: Any, counts: Counts, runs: int) -> Counts:
    """Return independent measurements of a table (n, 2), shape (runs, p, 2).

    The columns of one long table get independent noise: one call is many runs.
    """
    measured = mechanism.measure(np.tile(counts, (1, runs)))
    return _by_run(measured.values, runs)


def _by_run(values: Counts, runs: int) -> Counts:
    return values.reshape(values.shape[0], runs, -1).transpose(1, 0, 2)


def worst_pair(mechanism: Any) -> tuple[Counts, Counts]:
    """Return neighbours that differ where the integer strategy counts the most."""
    costs = sum(
        block.weight * np.abs(block.matrix.to_dense()).sum(axis=0)
        for block in mechanism.released.blocks
    )
    return _pair(costs.size, int(np.argmax(costs)), mechanism.neighbours)


def _pair(n: int, cells: Any, neighbours: str) -> tuple[Counts, Counts]:
    """Return tables of two classes: a record joins cells, or changes its class."""
    first = np.full((n, 2), 5)
    second = first.copy()
    second[cells, 0] += 1
    if neighbours == "replace":
        second[cells, 1] -= 1
    return first, second


def main(
    arguments: list[str] | None = None,
    cases: Callable[[float], Iterator[Case]] = cases,
    package: str = "mmech",
) -> int:
    """Print the table; return 1 if a claim was refuted."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}.audit",
        description=f"Audit {package}: run each release on neighbouring inputs and "
        "compare a lower confidence bound on epsilon with the claim.",
    )
    parser.add_argument("--epsilon", type=float, default=1.0, help="claim (default 1)")
    parser.add_argument(
        "--runs",
        type=int,
        default=100_000,
        help="runs per input (default 100000); slow releases have fewer",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.999,
        help="probability that a bound is right (default 0.999)",
    )
    options = parser.parse_args(arguments)
    try:
        check_epsilon(options.epsilon)
        check_runs(options.runs, options.confidence)
        return _print_table(cases(options.epsilon), options.runs, options.confidence)
    except ValueError as error:
        parser.error(str(error))


def verdict(result: AuditResult, claimed: float) -> str:
    """Return what an audit says of a claim: never that it holds."""
    if result.refutes(claimed):
        return "REFUTED"
    return "not refuted" if result.epsilon > 0 else NO_POWER


def _print_table(cases: Iterator[Case], runs: int, confidence: float) -> int:
    print(
        "lower bounds on epsilon from runs on each of two neighbouring inputs;\n"
        f"each is above the true epsilon with probability at most {1 - confidence:.2g}"
        "\n"
    )
    print(
        f"{'release':38}{'neighbours':12}{'runs':>9}{'claimed':>9}{'delta':>8}"
        f"{'found':>8}  verdict"
    )
    verdicts, started = [], time.monotonic()
    for case in cases:
        result = epsilon_lower_bound(
            case.release,
            case.first,
            case.second,
            runs=min(runs, case.most_runs or runs),
            confidence=confidence,
            delta=case.delta,
            statistic=case.statistic,
        )
        verdicts.append(verdict(result, case.claimed))
        print(
            f"{case.name:38}{case.neighbours:12}{result.runs:9,}{case.claimed:9.3f}"
            f"{case.delta:8.3g}{result.epsilon:8.3f}  {verdicts[-1]}",
            flush=True,
        )
    refuted = verdicts.count("REFUTED")
    print(
        f"\n{len(verdicts)} releases in {time.monotonic() - started:.0f} s: {refuted} "
        f"refuted, {verdicts.count(NO_POWER)} without power. An audit proves no claim: "
        "the proofs do."
    )
    return 1 if refuted else 0


if __name__ == "__main__":
    sys.exit(main())
