"""The table of many records: ``python -m benchmarks.scale`` prints it.

Each row runs in a process of its own, after a fit of a few records that compiles what
there is to compile. Seconds are processor seconds, so that other programs on the
machine matter less, next to those of the clock. Memory is the peak of the process less
what it held before the job, which includes records in memory; of commands on files it
is the whole peak. Files are written to a temporary folder and deleted. Adult is read
from the folder that ``MMECH_DATA_DIR`` names.

``--workers 1 2`` measures in place of the table the processor seconds of each stage at
growing sizes. Then Dask counts a Parquet folder with one worker, and with two; and one
process counts 20 csv files, beside two workers that count a file at a time.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import benchmarks.suite  # noqa: F401  limits the threads
from benchmarks.accuracy._data import load
from mmech import count
from mmech_rf import (
    Attribute,
    BatchTrainingClassifier,
    PrivateForestClassifier,
    Schema,
    datasets,
)
from mmech_rf.estimator.records import counted, encoded_blocks

Job = Callable[[], Any]

BLOCK = 10**6
"""Records that are drawn at a time."""

CSV_BYTES = 2**30

SIZES = (4, 4, 7, 5, 6, 5, 2, 5)
SCHEMA = Schema(
    [Attribute.categorical(f"a{i}", list(range(size))) for i, size in enumerate(SIZES)],
    [0, 1],
)
N_DISTINCT = 20_000
"""Adult has as many attributes of these sizes, and about as many distinct records."""


# ---- records -------------------------------------------------------------------------


def drawn(pool: NDArray[Any], n: int) -> NDArray[Any]:
    """Return n rows of a pool, with repetition, without much memory beside them."""
    rng = np.random.default_rng(0)
    rows = np.empty((n, pool.shape[1]), pool.dtype)
    for start in range(0, n, BLOCK):
        part = rows[start : start + BLOCK]
        part[:] = pool[rng.integers(0, len(pool), len(part), np.int32)]
    return rows


def records(n: int) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return codes (n, 8) and classes (n,)."""
    rng = np.random.default_rng(0)
    pool = np.stack([rng.integers(0, s, N_DISTINCT, np.int8) for s in (*SIZES, 2)], 1)
    rows = drawn(pool, n)
    return rows[:, :-1], rows[:, -1]


def coded(bunch: Any) -> tuple[Schema, NDArray[np.int8]]:
    """Return a schema of codes, and the records as codes, class last."""
    schema = bunch.schema
    codes, classes = schema.encode(bunch.data, bunch.target)
    attributes = [
        Attribute.categorical(name, list(range(size)))
        for name, size in zip(schema.feature_names, schema.domain_shape, strict=True)
    ]
    rows = np.column_stack([codes, classes]).astype(np.int8)
    return Schema(attributes, list(range(schema.n_classes))), rows


def default_on(load_it: Callable[[], Any], n: int | None = None) -> Job:
    """Return a fit of the default classifier on so many records, or all there are."""
    schema, rows = coded(load_it())
    rows = rows if n is None else drawn(rows, n)
    few = rows[:1000]
    PrivateForestClassifier(schema, epsilon=1).fit(few[:, :-1], few[:, -1])
    model = PrivateForestClassifier(schema, epsilon=1, n_records=len(rows))
    return lambda: model.fit(rows[:, :-1], rows[:, -1])


def batch_training(n: int) -> Job:
    """Return a fit of the infinite forest on codes in bytes."""
    X, y = map(np.ascontiguousarray, records(n))
    made = partial(BatchTrainingClassifier, SCHEMA, epsilon=1, n_trees=math.inf)
    made().fit(X[:1000], y[:1000])
    return lambda: made().fit(X, y)


def encoding(n: int, *, arrow: bool) -> Job:
    """Return the encoding of eight columns of text, or of Arrow dictionaries."""
    import pandas as pd

    rng = np.random.default_rng(0)
    words = [[f"value number {j}" for j in range(size)] for size in SIZES]
    columns = {
        f"a{i}": np.array(w, object)[rng.integers(0, len(w), n)]
        for i, w in enumerate(words)
    }
    names = zip(columns, words, strict=True)
    schema = Schema([Attribute.categorical(*both) for both in names], [0, 1])
    frame: Any = pd.DataFrame(columns)
    if arrow:
        import pyarrow as pa

        frame = pa.table(
            {name: pa.array(c).dictionary_encode() for name, c in columns.items()}
        )
    schema.encode(frame[:1000], narrow=True)
    return lambda: schema.encode(frame, narrow=True)


# ---- files ---------------------------------------------------------------------------


def write_csv(folder: Path, size: int) -> None:
    """Write Adult's records again and again, and their schema."""
    bunch = load("adult")
    bunch.schema.to_json(folder / "adult.json")
    header = ",".join([*bunch.schema.feature_names, bunch.schema.target])
    rows = zip(bunch.data, bunch.target, strict=True)
    text = "".join(",".join(map(str, (*x, y))) + "\n" for x, y in rows)
    with open(folder / "adult.csv", "w", encoding="utf-8") as stream:
        stream.write(header + "\n")
        for _ in range(size // len(text)):
            stream.write(text)


READ = "import sys, pyarrow.csv; pyarrow.csv.read_csv(sys.argv[1])"


def with_csv(size: int) -> None:
    """Print what a model of a CSV file costs, beside reading it with pyarrow."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_csv(folder, size)
        path, model = str(folder / "adult.csv"), str(folder / "model.npz")
        fit = ["-m", "mmech_rf", "fit", path, "--schema", str(folder / "adult.json")]
        fit += ["--epsilon", "1", "--out", model, "--force"]
        read = ["-c", READ, path]
        for label, arguments in [("pyarrow reads it", read), ("fit", fit)]:
            report(f"CSV of {size / 2**30:.1f} GB, {label}", *of_command(arguments))


def table_of(n: int) -> Any:
    """Return records as a table of pyarrow."""
    import pyarrow as pa

    codes, classes = records(n)
    columns = {f"a{i}": column for i, column in enumerate(codes.T.copy())}
    return pa.table({**columns, "class": classes})


def write_parquet(folder: str, n: int) -> None:
    """Write records into eight files."""
    from pyarrow import parquet

    table = table_of(n)
    for part in range(8):
        first, stop = (place * n // 8 for place in (part, part + 1))
        path = f"{folder}/{part}.parquet"
        parquet.write_table(table.slice(first, stop - first), path)


WRITTEN = """
import sys
from benchmarks.scale import write_parquet
write_parquet(sys.argv[1], int(sys.argv[2]))
"""
IMPORTED = """
import sys, pyarrow.parquet
from benchmarks.scale import SCHEMA
from mmech_rf import PrivateForestClassifier, read
"""
COUNTED = f"""{IMPORTED}
model = PrivateForestClassifier(SCHEMA, epsilon=1)
for X, y, chunk_id in read(sys.argv[1], SCHEMA):
    model.count(X, y, chunk_id=chunk_id)
"""
POLARS = """
import sys, polars
frame = polars.scan_parquet(sys.argv[1])
frame.group_by(polars.all()).len().collect(engine="streaming")
"""
DUCKDB = """
import sys, duckdb
files = f"'{sys.argv[1]}/*.parquet'"
duckdb.sql(f"select *, count(*) from {files} group by all").fetchall()
"""
COUNTERS = {
    "read and count": ("pyarrow", COUNTED),
    "what of it are imports": ("pyarrow", IMPORTED),
    "polars": ("polars", POLARS),
    "DuckDB": ("duckdb", DUCKDB),
}
"""By label: the library that a program needs, and the program."""


def with_parquet(n: int, rounds: int) -> None:
    """Print what counting distinct records of a Parquet folder costs, and elsewhere.

    All take turns, so that what else the machine does falls on each of them, and as
    many threads as they do by themselves. Medians.
    """
    taken: dict[str, list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        of_command(["-c", WRITTEN, folder, str(n)])
        for _ in range(rounds):
            for label, (library, code) in COUNTERS.items():
                if importlib.util.find_spec(library) is not None:
                    found = of_command(["-c", code, folder], all_threads=True)
                    taken.setdefault(label, []).append(found)
    for label, (library, _) in COUNTERS.items():
        name = f"distinct of {n:.0e} in Parquet, {label}"
        if label in taken:
            report(name, *np.median(taken[label], axis=0))
        else:
            print(f"| {name} | skipped: {library} is not installed |", flush=True)


# ---- workers -------------------------------------------------------------------------


def seconds(job: Job) -> tuple[float, Any]:
    """Return processor seconds of a job, and what it returns."""
    started = time.process_time()
    found = job()
    return time.process_time() - started, found


def stages(largest: int) -> None:
    """Print the seconds of all stages at growing sizes, and the bytes of a message."""
    policies = {"handle_unknown": "clip", "handle_missing": "error"}
    for n in (10**power for power in range(4, round(math.log10(largest)) + 1)):
        codes, classes = records(n)
        encode = partial(encoded_blocks, SCHEMA, codes, classes, policies)
        encoding, blocks = seconds(lambda: list(encode()))  # noqa: B023
        counting, counts = seconds(partial(counted, SCHEMA, blocks))
        model = PrivateForestClassifier(SCHEMA, epsilon=1, n_records=n)
        model.count(codes[:10], classes[:10])
        model._parts.add(counts)
        release, _ = seconds(model.release)
        print(
            f"{n:>13,} records: encode {encoding:.3g} s, count {counting:.3g} s, "
            f"release {release:.3g} s, {len(counts._codes):,} distinct, "
            f"{len(pickle.dumps(counts)):,} bytes",
            flush=True,
        )


def with_workers(n: int, rounds: int, numbers: Sequence[int]) -> None:
    """Print how long so many workers take to count a Parquet folder.

    They take turns, so that what else the machine does falls on all. Processor
    seconds are those of the worker that has most to do: what it would take on the clock
    where each has a core of its own.
    """
    taken: dict[int, list[tuple[float, float]]] = {number: [] for number in numbers}
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(folder, n)
        for _ in range(rounds):
            for n_workers, found in taken.items():
                found.append(_counted_by(n_workers, folder, n))
    for n_workers, found in taken.items():
        clock, processor = np.median(found, axis=0)
        print(
            f"{n:,} records of Parquet, {n_workers} workers: medians of {rounds} "
            f"{clock:.3g} s, of a processor {processor:.3g} s; load "
            f"{os.getloadavg()[1]:.0f} on {os.cpu_count()} cores",
            flush=True,
        )


def _counted_by(n_workers: int, folder: str, n: int) -> tuple[float, float]:
    """Return seconds that workers take to count a folder: all, and of a processor."""
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster

    options = {"n_workers": n_workers, "threads_per_worker": 1}
    with (
        LocalCluster(**options, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        lazy = dd.read_parquet(folder)
        model = PrivateForestClassifier(SCHEMA, epsilon=1, n_records=n)
        warm = lazy.partitions[:n_workers]
        model.count(warm, warm["class"])
        started, before = time.perf_counter(), client.run(time.process_time)
        model.count(lazy, lazy["class"])
        taken, after = time.perf_counter() - started, client.run(time.process_time)
    return taken, max(after[worker] - before[worker] for worker in after)


def files_by_workers(n: int, rounds: int, n_files: int = 20) -> None:
    """Print what it takes to count csv files in one process, and by two workers."""
    from pyarrow import csv

    taken: dict[int, list[tuple[float, ...]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n_files):
            csv.write_csv(table_of(n // n_files), f"{folder}/{i}.csv")
        for _ in range(rounds):
            for n_workers, found in taken.items():
                found.append(_files_counted_by(n_workers, folder))
    for n_workers, found in taken.items():
        clock, processor, peak = np.median(found, axis=0)
        print(
            f"{n:,} records in {n_files} csv files, {n_workers} workers: {clock:.3g} s "
            f"on the clock, of a processor {processor:.3g} s, {peak:,.0f} MB in the "
            f"largest process; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores",
            flush=True,
        )


def _files_counted_by(n_workers: int, folder: str) -> tuple[float, float, float]:
    """Return seconds of the clock and of the busier worker, and the largest peak.

    One worker counts the whole folder at once, and two a file at a time.
    """
    from dask.distributed import Client, LocalCluster

    options = {"n_workers": n_workers, "threads_per_worker": 1}
    files = sorted(map(str, Path(folder).iterdir()))
    sources = [folder] if n_workers == 1 else files
    with (
        LocalCluster(**options, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(count, files[0], SCHEMA)  # compiles and imports
        started, before = time.perf_counter(), client.run(time.process_time)
        found = client.map(count, sources, schema_or_domain=SCHEMA, pure=False)
        total = sum(client.gather(found))
        taken, after = time.perf_counter() - started, client.run(time.process_time)
        peaks = client.run(memory, "VmHWM")
    assert total._total() == len(files) * count(files[0], SCHEMA)._total()
    used = max(after[worker] - before[worker] for worker in after)
    return taken, used, max(peaks.values())


# ---- measuring -----------------------------------------------------------------------


WAIT = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
print(status, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def of_command(
    arguments: list[str], *, all_threads: bool = False
) -> tuple[float, float, float]:
    """Return processor seconds, seconds of the clock and MiB of a run of Python.

    Another process starts it: the peak of a process includes its parent's.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not (all_threads and name.endswith("_NUM_THREADS"))
    }
    command = [sys.executable, "-c", WAIT, sys.executable, *arguments]
    started = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, env=kept, check=True)
    taken = time.perf_counter() - started
    status, processor, kibibytes = map(float, done.stdout.split())
    if status:
        raise RuntimeError(f"python {' '.join(arguments)} failed")
    return processor, taken, kibibytes / 2**10


def memory(field: str) -> float:
    """Return a field of /proc/self/status in MiB."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    found = next(line for line in lines if line.startswith(field))
    return int(found.split()[1]) / 2**10


def of_job(job: Job) -> tuple[float, float, float]:
    """Return processor seconds, seconds of the clock and MiB beyond those before."""
    # From here on, the peak belongs to the job.
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before, clock, processor = memory("VmRSS"), time.perf_counter(), time.process_time()
    job()
    used = time.process_time() - processor
    return used, time.perf_counter() - clock, memory("VmHWM") - before


def report(name: str, processor: float, clock: float, mebibytes: float) -> None:
    """Print a row of the table."""
    used = f"{processor:.3g} s | {clock:.3g} s | {mebibytes:,.0f} MB"
    print(f"| {name} | {used} | {os.getloadavg()[0]:.0f} |", flush=True)


def rows(scale: float) -> dict[str, Callable[[], Job]]:
    """Return what makes the job of every row, with this share of the records."""
    few, many = int(1e6 * scale), int(1e8 * scale)
    car, fit = datasets.load_car, "default classifier"
    adult, binary = partial(load, "adult-paper-bins"), partial(load, "adult-binary")
    return {
        f"{fit}, Car, {few:.0e}": partial(default_on, car, few),
        f"{fit}, Car, {many:.0e}": partial(default_on, car, many),
        f"{fit}, Adult, {few:.0e}": partial(default_on, adult, few),
        f"{fit}, adult-binary": partial(default_on, binary),
        f"batch training, {many:.0e} x 8 bytes": partial(batch_training, many),
        f"encode {few:.0e} x 8 text": partial(encoding, few, arrow=False),
        f"encode {few:.0e} x 8 dictionaries": partial(encoding, few, arrow=True),
    }


def main(argv: list[str] | None = None) -> None:
    """Print the table, or a row of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the records")
    parser.add_argument("--rounds", type=int, default=3, help="of the Parquet folder")
    row = "only this one, in this process; CSV and Parquet are several"
    parser.add_argument("--row", help=row)
    parser.add_argument(
        "--workers", nargs="+", type=int, metavar="N", help="stages, and so many each"
    )
    args = parser.parse_args(argv)
    if args.workers:
        n = int(args.scale * 1e8)
        stages(n)
        with_workers(n, args.rounds, args.workers)
        files_by_workers(n // 20, args.rounds)
        return
    jobs = rows(args.scale)
    of_files = {
        "CSV": partial(with_csv, int(args.scale * CSV_BYTES)),
        "Parquet": partial(with_parquet, int(args.scale * 1e8), args.rounds),
    }
    if args.row in jobs:
        report(args.row, *of_job(jobs[args.row]()))
        return
    if args.row is not None:
        of_files[args.row]()
        return
    head = "| work | processor | clock | memory | load |\n|---|---|---|---|---|"
    print(head, flush=True)
    for name in jobs:
        own = ["-m", "benchmarks.scale", "--scale", str(args.scale), "--row", name]
        subprocess.run([sys.executable, *own], check=True)
    for measure in of_files.values():
        measure()


if __name__ == "__main__":
    main()
