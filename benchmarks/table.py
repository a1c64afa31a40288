"""The table of speeds: ``python -m benchmarks.table`` writes ``RESULTS.md`` beside it.

Every row times a benchmark of the suite and its contender in turn, in one process, on
one thread of BLAS and numba. Seconds are those of the processor, not of the clock, and
medians; the ratio is ours to the contender's, so below 1 is faster. A contender that
is not installed leaves its row out and says so. ``--quick`` leaves out whole
optimizations, which take minutes.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmarks.suite  # noqa: F401  limits the threads
from benchmarks.suite._trees import best_tree

PACKAGES = (
    *("numpy", "scipy", "numba", "scikit-learn", "pylops", "opendp"),
    "threadpoolctl",
)
TARGET = Path(__file__).with_name("RESULTS.md")
NOISE_SCALES = ((1, "1"), (2**10, "2^10"), (2**20, "2^20"))


@dataclass(frozen=True)
class Row:
    """One benchmark class of the suite with one choice of parameters."""

    job: str
    benchmark: str
    contender: str
    ours: str
    theirs: str
    params: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Whole:
    """One statement of a process of its own, which leaves a number in `value`."""

    job: str
    code: str
    unit: str
    reference: str
    reference_value: Callable[[], float]


def _rows() -> list[Row]:
    cube = "bench_operators.KroneckerCube"
    gemm = "NumPy, matrix product and transposed copy"
    csr = "SciPy, CSR matrix"
    rows = [
        Row(f"Kronecker, dense {cells}, {dtype}", cube, gemm, "mmech", "numpy", params)
        for cells in ("64^3", "32^4", "10^6")
        for dtype in ("float64", "float32", "int64")
        for params in [(cells, dtype)]
    ]
    square = "bench_operators.PrefixSquare"
    pylops = "bench_operators.BesidePylops"
    boxes = "bench_operators.ConjunctionProduct"
    partition = "bench_operators.PartitionProduct"
    rows += [
        Row(
            "Prefix⊗Prefix 1024²",
            square,
            "NumPy, two cumsum",
            *("mmech", "cumsum"),
            (1024,),
        ),
        Row(
            "Prefix⊗Prefix 1024²",
            square,
            "NumPy, matrix products",
            *("mmech", "dense"),
            (1024,),
        ),
        Row(
            "Kronecker, dense 64^3", pylops, "pylops", "mmech", "pylops", ("Kronecker",)
        ),
        Row("Prefix(65536)", pylops, "pylops", "mmech", "pylops", ("Prefix",)),
        *(
            Row(
                f"{name} of 128 trees on car, {k} columns",
                partition,
                contender,
                *sides,
                (k,),
            )
            for k in (1, 4, 64)
            for name, contender, sides in (
                ("T", csr, ("mmech", "sparse")),
                ("Tᵀ", csr, ("transpose_mmech", "transpose_sparse")),
                (
                    "TᵀT",
                    "SciPy, explicit gram, built before",
                    ("gram_mmech", "gram_sparse"),
                ),
            )
        ),
        *(
            Row(
                f"boxes of 16 trees, 4^{d}, {k} columns",
                boxes,
                csr,
                "mmech",
                "sparse",
                ((4,) * d, k),
            )
            for d in (6, 8)
            for k in (1, 4)
        ),
        Row(
            "QTᵀ, 10,000 queries, 4 columns",
            "bench_operators.SparseProduct",
            "SciPy",
            "mmech",
            "scipy",
            (10_000, 4),
        ),
        Row(
            "QTᵀ assembly, 128 trees",
            "bench_rf.Compile",
            "SciPy",
            "aggregation_mmech",
            "aggregation_scipy",
            (128,),
        ),
    ]
    objective = "bench_strategies.PIdentityObjectiveAndGradient"
    published = "the published formulas, O(n² p)"
    rows += [
        *(
            Row(
                f"p-Identity loss and gradient, {gram}({n}), p = {p}",
                objective,
                contender,
                "mmech",
                side,
                ((n, p), gram),
            )
            for n, p, gram, contender, side in (
                (1024, 64, "AllRange", "n x n matrices, solved", "dense"),
                (1024, 64, "AllRange", published, "published"),
                (2048, 128, "AllRange", published, "published"),
                (1024, 64, "Dense", published, "published"),
                (1728, 108, "Dense", published, "published"),
            )
        ),
        *(
            Row(
                f"p-Identity loss and gradient, AllRange(2^{e}), p = {p}",
                "bench_strategies.PIdentityLarge",
                "one product (n, p) x (p, p)",
                "mmech",
                "product",
                ((2**e, p),),
            )
            for e, p in ((16, 64), (20, 16))
        ),
        *(
            Row(
                f"all two-way marginals of 4^10 cells, {name}",
                "bench_marginals.MarginalTables",
                contender,
                f"{side}_mmech",
                f"{side}_{other}",
                (10,),
            )
            for name, side, contender, other in (
                ("product", "product", "a pass per table", "table_by_table"),
                ("transposed", "transposed", "a pass per table", "table_by_table"),
                ("answers", "least_squares", "contrasts by attribute", "transforms"),
            )
        ),
        Row(
            "merging equal columns, 4^7 cells",
            "bench_reduction.ReduceDomain",
            "np.unique, dense",
            "mmech",
            "numpy",
            ((4,) * 7,),
        ),
        Row(
            "growth, 1,000 trees, depth 6, 20 attributes",
            "bench_forest.Grow",
            "NumPy, level by level",
            "mmech",
            "numpy",
            (1000,),
        ),
        Row(
            "apply, 100,000 records, 128 trees",
            "bench_forest.Apply",
            "scikit-learn",
            "mmech",
            "sklearn",
            (100_000,),
        ),
        Row(
            "leaf counts, 10^6 records, 128 trees",
            "bench_forest.CountLeaves",
            "apply and np.bincount",
            "mmech",
            "numpy_bincount",
            (1_000_000,),
        ),
        Row(
            "subsample counts, 10^6 records",
            "bench_forest.CountLeaves",
            "NumPy, level by level",
            "assigned",
            "assigned_numpy",
            (1_000_000,),
        ),
        Row(
            "labels of all cells, 128 trees, 8^6",
            "bench_forest.ApplyDomain",
            "apply to a table of codes",
            "mmech",
            "table_of_codes",
            ((8,) * 6,),
        ),
        *(
            Row(
                f"car, {method}, 128 trees, fit and predict",
                "bench_rf.FitPredict",
                "ExtraTreesClassifier, not private",
                "mmech",
                "sklearn",
                (method, 1.0, 128),
            )
            for method in ("batch training", "batch prediction")
        ),
        Row(
            "QTᵀT assembly, 128 trees on car",
            "bench_rf.Compile",
            "SciPy",
            "prediction_mmech",
            "prediction_scipy",
            (128,),
        ),
        *(
            Row(
                f"10,000 exact discrete Laplace draws, scale {shown}",
                "bench_noise.OpenDP",
                "opendp",
                "laplace_mmech",
                "laplace_opendp",
                (scale,),
            )
            for scale, shown in NOISE_SCALES
        ),
        *(
            Row(
                f"10^6 exact discrete Laplace draws, scale {shown}",
                "bench_noise.Laplace",
                "NumPy, not exact",
                "laplace_mmech",
                "laplace_numpy_inexact",
                (scale,),
            )
            for scale, shown in NOISE_SCALES
        ),
    ]
    return rows


def _optimized(workload: str, options: str) -> str:
    return f"""
from mmech import AllRange, Prefix, optimize
optimize(AllRange(64), seed=0)
optimize(AllRange(8192), template="hierarchy")
start()
value = optimize({workload}, seed=0, {options}).loss
"""


HDMM = "HDMM, best of its restarts, measured apart"
HDMM_LOSS = {("AllRange", 256): 1.0698e6, ("AllRange", 1024): 3.2164e7}
"""Least loss of 25 restarts of HDMM at p = n / 16 (two at n = 1024, 12-16 s each)."""

BEST_TREE = "best b-ary tree"
"""Branching 2 to 256, empty cells beyond the domain; powers of two in any order."""

WHOLE = [
    Whole(
        f"{found} of {name}({n:,}), {shown}",
        _optimized(f"{name}({n})", options),
        "loss",
        reference,
        (lambda name=name, n=n: best_tree(name, n)[0])
        if reference == BEST_TREE
        else (lambda name=name, n=n: HDMM_LOSS[name, n]),
    )
    for found, name, n, shown, options, reference in (
        (
            "p-Identity",
            *("AllRange", 256, "p = 16, 2 starts"),
            'template="pidentity", p=16, n_starts=2',
            HDMM,
        ),
        ("p-Identity", "AllRange", 1024, "p = 64", 'template="pidentity", p=64', HDMM),
        *(
            (
                "p-Identity",
                *(name, n, f"p = {p}"),
                f'template="pidentity", p={p}',
                BEST_TREE,
            )
            for name, n, p in (
                ("AllRange", 1024, 64),
                ("AllRange", 16_384, 64),
                ("Prefix", 65_536, 32),
            )
        ),
        ('a tree, by "auto",', "AllRange", 16_384, "default options", "", BEST_TREE),
        ('a tree, by "auto",', "Prefix", 65_536, "default options", "", BEST_TREE),
    )
]

FIRST_CALL = """
import statistics
import numpy as np
{setup}
start()
{call}
first, taken = time.process_time() - began, []
for _ in range(5):
    start()
    {call}
    taken.append(time.process_time() - began)
value = statistics.median(taken)
began = time.process_time() - first
"""
"""Seconds of the first call after the imports; `value` is what it takes once warm."""

FIRST_CALLS = {
    "AllRange(256): strategy and release": (
        "from mmech import AllRange, MatrixMechanism, optimize; x = np.arange(256)",
        "MatrixMechanism(AllRange(256), optimize(AllRange(256), seed=0).strategy, "
        "epsilon=1).measure(x)",
    ),
    "Prefix⊗Prefix 1024², one product": (
        "from mmech import Kronecker, Prefix; x = np.ones(2**20)",
        "Kronecker([Prefix(1024)] * 2) @ x",
    ),
    "128 trees on car: growth, workload, one product": (
        "from mmech_rf import grow_random_forest, training_workload",
        "training_workload(grow_random_forest((4, 4, 4, 3, 3, 3), 128, 4, seed=0))"
        " @ np.ones(1728)",
    ),
}

LARGE = """
import statistics
import numpy as np
from mmech import Kronecker, PIdentity
extra = np.random.default_rng(0).random((1, 64))
(Kronecker([PIdentity(extra)] * 2).pinv()) @ np.ones(65**2, np.float32)
block, taken = np.ones(2**25, np.float32), []
for _ in range(9):
    start()
    block[: 2**24] = block[2**24 :]
    taken.append((time.process_time() - began) / 2**24)
passes = sum(64**i * 65 ** ({d} - i) + 64 ** (i + 1) * 65 ** ({d} - i - 1)
             for i in range({d})) / 2
value = passes * statistics.median(taken)
inverse = Kronecker([PIdentity(extra)] * {d}).pinv()
y = np.ones(inverse.shape[1], np.float32)
np.ones(2 * y.size, np.float32)
start()
x = inverse @ y
"""
"""Least squares of a Kronecker p-Identity; `value` is the bandwidth bound, a plain copy
of the data per axis. The memory was in use before: what the operating system asks for a
first touch is no part of it.
"""

LARGE_BYTES = 16e9
"""Memory that 64^5 cells need: measurements, and one axis' input and output."""

RUN = """
import json, pathlib, resource, time
def start():
    global began
    began = time.process_time()
start()
{code}
seconds = time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
status = pathlib.Path("/proc/self/status")
if status.exists():  # ru_maxrss starts at what the parent process holds
    (high,) = [x for x in status.read_text().splitlines() if x.startswith("VmHWM")]
    peak = int(high.split()[1]) / 1024
print(json.dumps([seconds, peak, float(value)]))
"""


def in_process(code: str) -> tuple[float, float, float]:
    """Return seconds, peak memory in MiB and `value` of code in a new process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(code=code)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    seconds, peak, value = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak, value


def in_turn(
    *functions: Callable[[], Any], seconds: float = 0.5, most: int = 25
) -> list[float]:
    """Return the median processor seconds of functions that take turns."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    began = time.process_time()
    while len(times[0]) < 3 or (
        time.process_time() - began < seconds * len(functions) and len(times[0]) < most
    ):
        for function, taken in zip(functions, times, strict=True):
            start = time.process_time()
            calls = 0
            while not calls or time.process_time() - start < 1e-3:
                function()
                calls += 1
            taken.append((time.process_time() - start) / calls)
    return [statistics.median(taken) for taken in times]


def _shown(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-3:
        return f"{1e3 * seconds:.3g} ms"
    return f"{1e6 * seconds:.3g} µs"


def _line(row: Row) -> str:
    module, name = row.benchmark.split(".")
    benchmark = getattr(importlib.import_module(f"benchmarks.suite.{module}"), name)()
    try:
        benchmark.setup(*row.params)
    except NotImplementedError as reason:
        return f"| {row.job} | {row.contender} | {reason} | | |"
    sides = [getattr(benchmark, f"time_{side}") for side in (row.ours, row.theirs)]
    ours, theirs = in_turn(*(lambda side=side: side(*row.params) for side in sides))
    cells = (_shown(ours), _shown(theirs), f"{ours / theirs:.2f}")
    return f"| {row.job} | {row.contender} | {' | '.join(cells)} |"


IMPORTS = {
    "import mmech": "import scipy.sparse, scipy.optimize",
    "from mmech_rf import BatchTrainingClassifier": "import sklearn.ensemble",
    "import mmech, numpy; mmech.AllRange(64) @ numpy.arange(64.0)": (
        "import scipy.sparse, scipy.optimize, numba"
    ),
}
"""Statements of a new process; the last one loads compiled code from disk."""


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _free_bytes() -> float:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    return 0.0


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def lines(quick: bool) -> Any:
    """Yield the lines of the table."""
    yield "# Results"
    yield ""
    yield "Written by `python -m benchmarks.table`; read it as `README.md` says."
    yield ""
    yield f"* date: {time.strftime('%Y-%m-%d')}"
    yield f"* processor: {_processor()}, one thread of {os.cpu_count()}"
    yield f"* versions: {_versions()}"
    yield ""
    yield "| job | contender | mmech | contender's time | mmech / contender |"
    yield "|---|---|---|---|---|"
    for row in _rows():
        yield _line(row)
    yield ""
    yield "New processes, whole processor time, median of three:"
    yield ""
    yield "| statement | beside | seconds | beside | ratio |"
    yield "|---|---|---|---|---|"
    for ours, theirs in IMPORTS.items():
        taken = [
            statistics.median(
                in_process(f"began = 0.0\n{code}\nvalue = 0")[0] for _ in range(3)
            )
            for code in (ours, theirs)
        ]
        shown = f"{_shown(taken[0])} | {_shown(taken[1])} | {taken[0] / taken[1]:.2f}"
        yield f"| `{ours}` | `{theirs}` | {shown} |"
    yield ""
    yield "First call in a new process, kernels on disk, imports apart:"
    yield ""
    yield "| job | first call | once warm |"
    yield "|---|---|---|"
    for job, (setup, call) in FIRST_CALLS.items():
        code = FIRST_CALL.format(setup=setup, call=call)
        runs = [in_process(code) for _ in range(3)]
        first, warm = (statistics.median(run[i] for run in runs) for i in (0, 2))
        yield f"| {job} | {_shown(first)} | {_shown(warm)} |"
    yield ""
    yield "Least squares of Kronecker p-Identities (p = 1), float32, one product:"
    yield ""
    yield "| cells | seconds | peak memory | a plain copy per axis | ratio |"
    yield "|---|---|---|---|---|"
    for d in (4,) if quick else (4, 5):
        if d == 5 and _free_bytes() < LARGE_BYTES:
            yield f"| 64^{d} | left out: less than {LARGE_BYTES:.0e} bytes free | | | |"
            continue
        seconds, peak, bound = in_process(LARGE.format(d=d))
        yield (
            f"| 64^{d} | {_shown(seconds)} | {peak:.0f} MiB | {_shown(bound)} | "
            f"{seconds / bound:.1f} |"
        )
    if quick:
        return
    yield ""
    yield "Whole optimizations, each in a new process:"
    yield ""
    yield "| job | seconds | peak memory | loss | beside | its loss | ratio |"
    yield "|---|---|---|---|---|---|---|"
    for whole in WHOLE:
        seconds, peak, value = in_process(whole.code)
        reference = whole.reference_value()
        yield (
            f"| {whole.job} | {seconds:.3g} | {peak:.0f} MiB | {value:.5g} | "
            f"{whole.reference} | {reference:.5g} | {value / reference:.3f} |"
        )


def main(argv: list[str] | None = None) -> None:
    """Write the table and print it as it grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no whole optimizations")
    parser.add_argument("--output", type=Path, default=TARGET)
    options = parser.parse_args(argv)
    written = []
    for line in lines(options.quick):
        print(line, flush=True)
        written.append(line)
        options.output.write_text("\n".join(written) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
