"""The table of strategy losses in the book: ``python -m benchmarks.strategy_table``.

Optimizes every workload with a fixed seed and prints the loss ‖A‖₁²‖WA⁺‖_F² beside the
best of many restarts of the reference implementation of HDMM (McKenna et al., VLDB
2018), run on NumPy 1.24 and SciPy 1.10, because it fails on newer ones. ``--quick``
leaves out what takes more than about ten seconds. ``--ratios`` prints instead how far
the losses are at most from the least loss of all strategies, by the bound that `report`
quotes, with the processor time of the search and of the report. ``--sweep N`` compares
"auto" with every template run alone, on N random workloads.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mmech import (
    AllRange,
    Dense,
    DomainTooLargeError,
    Identity,
    Kronecker,
    Prefix,
    QueryMatrix,
    Scaled,
    Sparse,
    StrategyResult,
    Total,
    UnsupportedWorkloadError,
    VStack,
    WidthRange,
    all_marginals,
    optimize,
    report,
)

CENSUS = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)


@dataclass(frozen=True)
class Row:
    """One workload, what HDMM reaches on it, and how it is optimized here."""

    name: str
    hdmm: str
    workload: Callable[[], QueryMatrix]
    options: dict[str, Any] = field(default_factory=dict)
    slow: bool = False
    seeds: int = 1
    show: Callable[[QueryMatrix, float], str] = lambda workload, loss: f"{loss:.5g}"


def _rmse(workload: QueryMatrix, loss: float) -> str:
    return f"rmse {math.sqrt(loss / workload.shape[0]):.1f}"


def _permuted(seed: int) -> QueryMatrix:
    order = np.random.default_rng(seed).permutation(64)
    return Dense(AllRange(64).to_dense()[:, order])


def _sum_of_prefixes(n: int) -> QueryMatrix:
    return VStack(
        [Kronecker([Prefix(n), Identity(n)]), Kronecker([Identity(n), Prefix(n)])]
    )


ROWS = [
    Row("AllRange(256), p = 16", "1.0698e6", lambda: AllRange(256), {"p": 16}),
    Row("Prefix(256), p = 16", "6916", lambda: Prefix(256), {"p": 16}),
    Row("AllRange(1024), p = 64", "3.216e7", lambda: AllRange(1024), {"p": 64}, True),
    Row("Prefix(1024), p = 64", "47822", lambda: Prefix(1024), {"p": 64}, True),
    Row("AllRange 64 x 64, p = (4, 4), worst of 20 seeds", "1.0293e9 (median 1.467e9)",
        lambda: Kronecker([AllRange(64)] * 2), {"p": [4, 4]}, seeds=20),
    Row("AllRange 256 x 256, p = (16, 16)", "1.1484e12",
        lambda: Kronecker([AllRange(256)] * 2), {"p": [16, 16]}),
    Row("all ≤3-way marginals, 8 attributes of 10", "1.3184e8",
        lambda: all_marginals((10,) * 8, 3, lower_orders=True)),
    Row("all ≤3-way marginals, 14 attributes of 2 to 100 (rmse at ε = √2)", "159.3",
        lambda: all_marginals(CENSUS, 3, lower_orders=True), show=_rmse),
    Row("Prefix⊗I + I⊗Prefix, 64 x 64", "2.66e5", lambda: _sum_of_prefixes(64)),
    Row("Prefix⊗I + I⊗Prefix, 256 x 256", "8.54e6", lambda: _sum_of_prefixes(256),
        slow=True),
    Row("2-way marginals of 3^7", "19695", lambda: all_marginals((3,) * 7, 2)),
    Row("2-way marginals of 2^10", "40032", lambda: all_marginals((2,) * 10, 2)),
    Row("2-way marginals of 2^8", "8569", lambda: all_marginals((2,) * 8, 2)),
    Row("2-way marginals of (4, 4, 4, 3, 3, 3)", "14133",
        lambda: all_marginals((4, 4, 4, 3, 3, 3), 2)),
]  # fmt: skip


def _sparse(m: int, n: int, density: float) -> QueryMatrix:
    rng = np.random.default_rng(0)
    count = round(m * n * density)
    places = rng.integers(0, m, count), rng.integers(0, n, count)
    return Sparse(sp.csr_array((np.ones(count, np.int64), places), shape=(m, n)))


CERTIFIED: list[Callable[[], QueryMatrix]] = [
    *(partial(AllRange, n) for n in (64, 256, 1024, 4096, 10_000, 10**6)),
    *(partial(Prefix, n) for n in (64, 1024, 10**6)),
    lambda: Kronecker([AllRange(256)] * 2),
    lambda: _sparse(2000, 4096, 0.01),
    lambda: _sparse(6000, 8192, 0.005),
    lambda: all_marginals(CENSUS, 2),
]


def random_workload(seed: int, most: int = 2000) -> QueryMatrix:
    """Return windows, ranges, unions and products with totals and weights."""
    rng = np.random.default_rng([seed, 41])

    def one(n: int) -> QueryMatrix:
        window = int(rng.integers(2, max(3, n // 3)))
        choices = (Prefix(n), AllRange(n), WidthRange(n, window), Identity(n), Total(n))
        return choices[int(rng.choice(5, p=[0.25, 0.2, 0.35, 0.1, 0.1]))]

    def product(sizes: list[int]) -> QueryMatrix:
        return one(sizes[0]) if len(sizes) == 1 else Kronecker([*map(one, sizes)])

    n = round(math.exp(rng.uniform(math.log(20), math.log(most))))
    first = max(2, round(n ** rng.uniform(0.4, 0.8)))
    sizes = [n] if rng.random() < 0.5 else [first, max(2, n // first)]
    blocks = [product(sizes) for _ in range(int(rng.integers(1, 4)))]
    if len(blocks) == 1:
        return blocks[0]
    return VStack([Scaled(float(rng.uniform(0.3, 3)), block) for block in blocks])


def behind(workload: QueryMatrix) -> tuple[float, str]:
    """Return the loss of "auto" over its best template's, and the template."""
    auto = optimize(workload, seed=0)
    losses = {auto.template: auto.loss}
    for template in ("workload", "pidentity", "kronecker", "union", "marginals"):
        with suppress(UnsupportedWorkloadError, DomainTooLargeError):
            found = optimize(workload, template=template, seed=0)
            losses[template] = min(found.loss, losses.get(template, math.inf))
    best = min(losses, key=lambda name: losses[name])
    return auto.loss / losses[best], best


def _print_sweep(number: int) -> None:
    """Print on which random workloads "auto" is behind one of its templates."""
    worst = []
    for seed in range(number):
        workload = random_workload(seed)
        started = time.process_time()
        ratio, best = behind(workload)
        worst.append(ratio)
        if ratio > 1.001:
            took = f"{time.process_time() - started:.0f} s"
            print(f"{seed}: {ratio:.4f} of {best}, {workload!r}, {took}", flush=True)
    print(f"{number} workloads, auto at most {max(worst):.4f} of its best template")


def _print_ratios() -> None:
    print("| workload | loss | template | ratio to the bound | search, s | report, s |")
    print("|---|---|---|---|---|---|")
    for make in CERTIFIED:
        workload = make()
        started = time.process_time()
        result = optimize(workload, seed=0)
        found = time.process_time()
        table = report(workload, result, epsilon=1)
        ratio = f"{table.bound_ratio:.4g} ({table.bound_name})"
        took = f"{found - started:.1f} | {time.process_time() - found:.1f}"
        reached = f"{result.loss:.5g} | {result.template}"
        print(f"| {workload._label()} | {reached} | {ratio} | {took} |", flush=True)


def _worst(row: Row) -> tuple[StrategyResult, float]:
    started = time.perf_counter()
    runs = [
        optimize(row.workload(), seed=seed, **row.options) for seed in range(row.seeds)
    ]
    seconds = (time.perf_counter() - started) / row.seeds
    return max(runs, key=lambda run: run.loss), seconds


def main(argv: list[str] | None = None) -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="skip the slow rows")
    ratios = "print ratios to lower bounds instead"
    parser.add_argument("--ratios", action="store_true", help=ratios)
    parser.add_argument("--sweep", type=int, metavar="N", help="auto beside templates")
    chosen = parser.parse_args(argv)
    if chosen.sweep:
        _print_sweep(chosen.sweep)
        return
    if chosen.ratios:
        _print_ratios()
        return
    quick = chosen.quick
    print("| workload | HDMM | mmech | template | seconds |")
    print("|---|---|---|---|---|")
    for row in ROWS:
        if quick and row.slow:
            continue
        result, seconds = _worst(row)
        shown = row.show(row.workload(), result.loss)
        cells = (row.name, row.hdmm, shown, result.template, f"{seconds:.1f}")
        print(f"| {' | '.join(cells)} |", flush=True)
    started = time.perf_counter()
    worst = max(
        optimize(_permuted(seed), template="pidentity", p=4, seed=seed).loss
        for seed in range(100)
    )
    seconds = (time.perf_counter() - started) / 100
    name = "permuted ranges n = 64, p = 4, worst of 100 seeds"
    print(f"| {name} | 45865 | {worst:.5g} | pidentity | {seconds:.2f} |")


if __name__ == "__main__":
    main()
