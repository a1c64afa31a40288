"""The table of speeds: ``python -m benchmarks.table`` writes ``suite/RESULTS.md``.

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
TARGET = Path(__file__).parent / "suite" / "RESULTS.md"
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
    reference: str
    reference_value: Callable[[], float]


def _rows() -> list[Row]:
    rows: list[Row] = []

    def row(job: str, where: str, contender: str, sides: str, *params: Any) -> None:
        rows.append(Row(job, f"bench_{where}", contender, *sides.split(), params))

    gemm = "NumPy, matrix product and transposed copy"
    for cells in ("64^3", "32^4", "10^6"):
        for kind in ("float64", "float32", "int64"):
            job = f"Kronecker, dense {cells}, {kind}"
            row(job, "operators.KroneckerCube", gemm, "mmech numpy", cells, kind)
    job, where = "Prefix⊗Prefix 1024²", "operators.PrefixSquare"
    row(job, where, "NumPy, two cumsum", "mmech cumsum", 1024)
    row(job, where, "NumPy, matrix products", "mmech dense", 1024)
    where, sides = "operators.BesidePylops", "mmech pylops"
    row("Kronecker, dense 64^3", where, "pylops", sides, "Kronecker")
    row("Prefix(65536)", where, "pylops", sides, "Prefix")

    csr, built = "SciPy, CSR matrix", "SciPy, explicit gram, built before"
    sides, where = "mmech sparse", "operators.PartitionProduct"
    both = "transpose_mmech transpose_sparse"
    for k in (1, 4, 64):
        job = f"of 128 trees on car, {k} columns"
        row(f"T {job}", where, csr, sides, k)
        row(f"Tᵀ {job}", where, csr, both, k)
        row(f"TᵀT {job}", where, built, "gram_mmech gram_sparse", k)
    for d in (6, 8):
        for k in (1, 4):
            job = f"boxes of 16 trees, 4^{d}, {k} columns"
            row(job, "operators.ConjunctionProduct", csr, sides, (4,) * d, k)
    job = "QTᵀ, 10,000 queries, 4 columns"
    row(job, "operators.SparseProduct", "SciPy", "mmech sparse", 10_000, 4)
    sides = "aggregation_mmech aggregation_scipy"
    row("QTᵀ assembly, 128 trees", "rf.Compile", "SciPy", sides, 128)

    where = "strategies.PIdentityObjectiveAndGradient"
    solved, published = "n x n matrices, solved", "the published formulas, O(n² p)"
    for n, p, gram, contender, side in (
        (1024, 64, "AllRange", solved, "dense"),
        (1024, 64, "AllRange", published, "published"),
        (2048, 128, "AllRange", published, "published"),
        (1024, 64, "Dense", published, "published"),
        (1728, 108, "Dense", published, "published"),
    ):
        job = f"p-Identity loss and gradient, {gram}({n}), p = {p}"
        row(job, where, contender, f"mmech {side}", (n, p), gram)
    where, contender = "strategies.PIdentityLarge", "one product (n, p) x (p, p)"
    for e, p in ((16, 64), (20, 16)):
        job = f"p-Identity loss and gradient, AllRange(2^{e}), p = {p}"
        row(job, where, contender, "mmech product", (2**e, p))
    for name, side, contender, other in (
        ("product", "product", "a pass per table", "table_by_table"),
        ("transposed", "transposed", "a pass per table", "table_by_table"),
        ("answers", "least_squares", "contrasts by attribute", "transforms"),
    ):
        job, sides = f"4^10 cells, {name}", f"{side}_mmech {side}_{other}"
        job = f"all two-way marginals of {job}"
        row(job, "marginals.MarginalTables", contender, sides, 10)
    job, where = "merging equal columns, 4^7 cells", "reduction.ReduceDomain"
    row(job, where, "np.unique, dense", "mmech numpy", (4,) * 7)

    levels = "NumPy, level by level"
    job = "growth, 1,000 trees, depth 6, 20 attributes"
    row(job, "forest.Grow", levels, "mmech numpy", 1000)
    job = "apply, 100,000 records, 128 trees"
    row(job, "forest.Apply", "scikit-learn", "mmech sklearn", 100_000)
    where, sides = "forest.CountLeaves", "mmech numpy_bincount"
    job = "leaf counts, 10^6 records, 128 trees"
    row(job, where, "apply and np.bincount", sides, 10**6)
    job = "subsample counts, 10^6 records"
    row(job, where, levels, "assigned assigned_numpy", 10**6)
    job, sides = "labels of all cells, 128 trees, 8^6", "mmech table_of_codes"
    row(job, "forest.ApplyDomain", "apply to a table of codes", sides, (8,) * 6)
    contender, sides = "ExtraTreesClassifier, not private", "mmech sklearn"
    for method in ("batch training", "batch prediction"):
        job = f"car, {method}, 128 trees, fit and predict"
        row(job, "rf.FitPredict", contender, sides, method, 1.0, 128)
    job, sides = "QTᵀT assembly, 128 trees on car", "prediction_mmech prediction_scipy"
    row(job, "rf.Compile", "SciPy", sides, 128)
    for draws, where, contender, other in (
        ("10,000", "noise.OpenDP", "opendp", "opendp"),
        ("10^6", "noise.Laplace", "NumPy, not exact", "numpy_inexact"),
    ):
        for scale, shown in NOISE_SCALES:
            job = f"{draws} exact discrete Laplace draws, scale {shown}"
            row(job, where, contender, f"laplace_mmech laplace_{other}", scale)
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
        reference,
        (lambda name=name, n=n: best_tree(name, n)[0])
        if reference == BEST_TREE
        else (lambda name=name, n=n: HDMM_LOSS[name, n]),
    )
    for found, name, n, shown, options, reference in (
        *(
            (
                *("p-Identity", name, n, f"p = {p}{', 2 starts' * bool(more)}"),
                *(f'template="pidentity", p={p}{more}', reference),
            )
            for name, n, p, more, reference in (
                ("AllRange", 256, 16, ", n_starts=2", HDMM),
                ("AllRange", 1024, 64, "", HDMM),
                ("AllRange", 1024, 64, "", BEST_TREE),
                ("AllRange", 16_384, 64, "", BEST_TREE),
                ("Prefix", 65_536, 32, "", BEST_TREE),
            )
        ),
        ('by "auto",', "AllRange", 16_384, "default options", "", BEST_TREE),
        ('by "auto",', "Prefix", 65_536, "default options", "", BEST_TREE),
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
    yield "# Speed beside contenders"
    yield ""
    how = "`../RESULTS.md` says how to read it"
    yield f"Written by `python -m benchmarks.table`; {how}."
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
