"""The table of strategy losses in the book: ``python -m benchmarks.strategy_table``.

Every workload is optimized with a fixed seed. Its loss ‖A‖₁²‖WA⁺‖_F² is printed beside
the best of many restarts of the reference implementation of HDMM (McKenna et al., VLDB
2018). HDMM ran on NumPy 1.24 and SciPy 1.10, because it fails on newer ones.
``--quick`` leaves out rows of more than about ten seconds. ``--ratios`` prints the
ratios of losses to the bound that `report` quotes, with the processor time of the
search and of the report. ``--gaussian`` and ``--pure`` print errors per query of ranges
and prefix sums of many sizes, beside the strategies that others use. Their unit is the
variance of the noise at sensitivity one. ``--draw FILE`` draws both. ``--sweep N``
compares "auto" with every template run alone, on N random workloads of all families.
"""

from __future__ import annotations

import argparse
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mmech import (
    AllRange,
    Circulant,
    Dense,
    Diagonal,
    DomainTooLargeError,
    Hierarchy,
    Identity,
    Kronecker,
    Prefix,
    QueryMatrix,
    Ranges,
    Scaled,
    Sparse,
    StrategyResult,
    Toeplitz,
    Total,
    UnsupportedWorkloadError,
    VStack,
    WidthRange,
    all_marginals,
    loss,
    optimize,
    report,
    svd_bound,
)
from mmech.strategies.registry import templates
from mmech_rf import grow_random_forest, prediction_workload, training_workload

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


def workload_of_any_family(seed: int) -> QueryMatrix:
    """Return a workload of the family that a seed stands for, of 16 to 65,536 cells."""
    rng = np.random.default_rng([seed, 57])
    n = round(math.exp(rng.uniform(math.log(16), math.log(2**16))))
    reach = int(rng.integers(2, max(3, n // int(rng.choice([3, 12, 50])))))
    taps = 0.5 ** (np.arange(n) / reach) if rng.random() < 0.5 else np.arange(n) < reach
    ends = np.sort(rng.integers(0, n, (min(1000, 2 * n), 2)), axis=1)
    side, parts = max(2, math.isqrt(n)), max(2, round(math.log(n, 4)))
    depth = int(rng.integers(1, 4))
    forest = grow_random_forest((4,) * parts, 32, depth, seed=seed)
    queries = rng.integers(0, 4, (64, parts))
    families: list[Callable[[], QueryMatrix]] = [
        lambda: Prefix(n),
        lambda: AllRange(n),
        lambda: WidthRange(n, reach),
        lambda: Circulant(taps),
        lambda: Toeplitz(taps, np.eye(1, n)[0] * taps[0]),
        lambda: Ranges((n,), ends[:, :1], ends[:, 1:]),
        lambda: AllRange(n) @ Diagonal(rng.integers(1, 5, n)),
        lambda: Kronecker([Prefix(max(2, n // 4)), Identity(4)]),
        lambda: Kronecker([AllRange(side), WidthRange(side, max(2, side // 5))]),
        lambda: all_marginals((4,) * parts, min(2, parts), lower_orders=True),
        lambda: _sparse(min(n, 300), n, min(0.5, 16 / n)),
        lambda: VStack([Identity(n), Total(n), WidthRange(n, reach)]),
        lambda: training_workload(forest),
        lambda: prediction_workload(forest, queries),
    ]
    return families[seed // 2 % len(families)]()


def losses_by_template(
    workload: QueryMatrix, privacy: str = "pure", seconds: float | None = None
) -> dict[str, float]:
    """Return the losses of all templates that suit a workload, run alone by name."""
    losses = {}
    for template in templates("L1" if privacy == "pure" else "L2"):
        own: dict[str, Any] = {"template": template.name, "privacy": privacy, "seed": 0}
        refused = suppress(UnsupportedWorkloadError, DomainTooLargeError, TimeoutError)
        with refused, _at_most(seconds):
            found = optimize(workload, **own)
            if not found.noise:  # K-norm noise is another mechanism
                losses[template.name] = found.loss
    return losses


@contextmanager
def _at_most(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` after some seconds of processor time."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def behind(workload: QueryMatrix) -> tuple[float, str]:
    """Return the loss of "auto" over its best template's, and the template."""
    auto = optimize(workload, seed=0)
    losses = {auto.template: auto.loss} | losses_by_template(workload)
    best = min(losses, key=lambda name: losses[name])
    return auto.loss / losses[best], best


def _print_sweep(number: int, seconds: float) -> None:
    """Print "auto" beside its best template by name, in both currencies in turn."""
    print("| workload | privacy | auto | loss | s | best by name | auto over it |")
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for seed in range(number):
        workload, privacy = workload_of_any_family(seed), ("pure", "zcdp")[seed % 2]
        started, name, loss = time.process_time(), "out of time", math.inf
        with suppress(TimeoutError), _at_most(seconds):
            auto = optimize(workload, privacy=privacy, seed=0)
            name, loss = auto.template, auto.loss
        took = time.process_time() - started
        losses = losses_by_template(workload, privacy, seconds)
        best = min(losses, key=lambda own: losses[own])
        worst = max(worst, loss / losses[best])
        shown = f"{loss:.5g} | {took:.1f} | {best} | {loss / losses[best]:.4f}"
        print(f"| {workload._label()} | {privacy} | {name} | {shown} |", flush=True)
    print(f"\n{number} workloads, auto at most {worst:.4f} of its best template")


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


# ---- errors per query at many sizes ------------------------------------------

SIZES = tuple(2**exponent for exponent in range(10, 21, 2))


def toeplitz_root(n: int) -> tuple[float, float]:
    """Return the mean and the largest error of the square root of `Prefix`, per query.

    Users of DP-FTRL measure it: the Toeplitz matrix of binom(2k, k) / 4^k
    (Fichtenberger, Henzinger and Upadhyay 2023).
    """
    k = np.arange(1, n, dtype=np.float64)
    squares = np.square(np.concatenate([[1.0], np.cumprod(1 - 0.5 / k)]))
    return float(np.cumsum(squares).mean() * squares.sum()), float(squares.sum() ** 2)


def haar(workload: QueryMatrix) -> float:
    """Return the loss of Haar wavelets on 2^k cells under L2, at their best weights.

    Rows are orthogonal and a column has one entry of 1 or -1 in each level. So level l
    with rows r has the energy ``e_l = Σ ‖W r‖² / ‖r‖⁴``, and the loss is ``(Σ √e_l)²``.
    """
    n = workload.shape[1]
    widths = 2.0 ** np.arange(1, n.bit_length())
    # Running sums of a wave are a triangle of height h; those of the total a ramp.
    h, ramp = widths / 2, np.arange(n + 1.0)
    energies = np.append(n / widths * h * (2 * h**2 + 1) / 3, np.square(ramp).sum())
    if isinstance(workload, AllRange):  # ranges are differences of running sums
        energies = (n + 1) * energies - np.append(n / widths * h**4, ramp.sum() ** 2)
    return float(np.sqrt(energies / np.append(widths, n) ** 2).sum() ** 2)


def tree(workload: QueryMatrix, privacy: str) -> float:
    """Return the loss of the best tree whose levels have one branching and weight."""
    n = workload.shape[1]
    depths = {b: math.ceil(math.log(n, b) - 1e-9) for b in (2, 3, 4, 8, 16, 32, 64)}
    trees = [Hierarchy(n, {b**i: 1 for i in range(d + 1)}) for b, d in depths.items()]
    return min(loss(workload, found, privacy=privacy) for found in trees)


def elders(n: int) -> float:
    """Return the error per query of k-ary trees with subtraction, at the best odd k.

    The mean squared error of Andersson, Pagh and Torkamani, "Count on Your Elders"
    (2024), is h³ (k - 1 / k) / (2 ε²) for k^h cells.
    """
    heights = {k: math.ceil(math.log(n, k) - 1e-9) for k in range(3, 101, 2)}
    return min(h**3 * (k - 1 / k) / 4 for k, h in heights.items())


OTHERS: dict[str, dict[str, Callable[[QueryMatrix], float]]] = {
    "zcdp": {
        "Toeplitz root": lambda w: toeplitz_root(w.shape[1])[0] * w.shape[0],
        "Haar wavelets": haar,
        "trees": lambda workload: tree(workload, "zcdp"),
    },
    "pure": {
        "k-ary, subtraction": lambda w: elders(w.shape[1]) * w.shape[0],
        "trees": lambda workload: tree(workload, "pure"),
    },
}
"""What others measure; the first of both is for prefix sums only."""


def errors_per_query(workload: QueryMatrix, privacy: str) -> dict[str, float | str]:
    """Return losses over the number of queries, with our template and seconds."""
    m, found = workload.shape[0], OTHERS[privacy]
    started = time.process_time()
    result = optimize(workload, privacy=privacy, seed=0)
    seconds = time.process_time() - started
    ours = {"mmech": result.loss / m, "by": result.template, "s": f"{seconds:.2f}"}
    names = list(found)[0 if isinstance(workload, Prefix) else 1 :]
    ranges = isinstance(workload, Prefix | AllRange)
    others = {name: found[name](workload) / m for name in names if ranges}
    identity = loss(workload, Identity(workload.shape[1]), privacy=privacy) / m
    bounds = {}
    with suppress(DomainTooLargeError):  # the singular values of long windows
        bounds["bound"] = svd_bound(workload, epsilon=1) / 2 / m
    return ours | others | {"identity": identity} | bounds


def _print_sizes(privacy: str) -> None:
    names = ("mmech", "by", "s", *OTHERS[privacy], "identity", "bound")
    print(f"| workload | {' | '.join(names)} |")
    print("|---" * (len(names) + 1) + "|")
    makes: list[Callable[[int], QueryMatrix]] = [Prefix, AllRange]
    if privacy == "zcdp":
        makes.append(lambda n: WidthRange(n, 64))
    for make in makes:
        for n in SIZES:
            found = errors_per_query(make(n), privacy)
            cells = [found.get(name, "") for name in names]
            shown = [c if isinstance(c, str) else f"{c:.4g}" for c in cells]
            print(f"| {' | '.join([make(n)._label(), *shown])} |", flush=True)


def _draw(path: str) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for panel, privacy, title in zip(
        panels, OTHERS, ("Gaussian noise, ρ-zCDP", "Laplace noise, pure ε"), strict=True
    ):
        rows = [errors_per_query(Prefix(n), privacy) for n in SIZES]
        for name in ("mmech", *OTHERS[privacy], "bound"):
            style = {"mmech": "o-", "bound": "k:"}.get(name, "--")
            panel.plot(SIZES, [row[name] for row in rows], style, label=name)
        panel.set(xscale="log", yscale="log", xlabel="cells n", title=title)
        panel.legend(frameon=False)
    panels[0].set_ylabel("squared error per prefix sum,\nin variances of noise")
    figure.savefig(path, dpi=150)


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
    limit = "processor time for every template of --sweep, in seconds"
    parser.add_argument("--limit", type=float, default=60.0, help=limit)
    parser.add_argument("--gaussian", action="store_true", help="zCDP at many sizes")
    parser.add_argument("--pure", action="store_true", help="epsilon at many sizes")
    parser.add_argument("--draw", metavar="FILE", help="draw both for prefix sums")
    chosen = parser.parse_args(argv)
    for privacy, wanted in (("zcdp", chosen.gaussian), ("pure", chosen.pure)):
        if wanted:
            _print_sizes(privacy)
            return
    if chosen.draw:
        _draw(chosen.draw)
        return
    if chosen.sweep:
        _print_sweep(chosen.sweep, chosen.limit)
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
