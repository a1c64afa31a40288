"""Many records and many workers: ``python -m benchmarks.cluster`` measures.

Records have Adult's eight attributes and two classes, and are drawn from 20,000
distinct ones, about as many as Adult has. The benchmark measures the processor seconds
of each stage at up to ``--largest`` records (codes in bytes). It also measures how long
Dask takes to count a Parquet folder with one worker and with two.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import benchmarks.suite  # noqa: F401  limits the threads
from mmech_rf import Attribute, PrivateForestClassifier, Schema
from mmech_rf.private.records import counted, encoded_blocks

SIZES = (4, 4, 7, 5, 6, 5, 2, 5)
SCHEMA = Schema(
    [Attribute.categorical(f"a{i}", list(range(size))) for i, size in enumerate(SIZES)],
    [0, 1],
)
N_DISTINCT = 20_000


def records(n: int) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return codes (n, 8) and classes (n,)."""
    rng = np.random.default_rng(0)
    pool = np.stack([rng.integers(0, s, N_DISTINCT, np.int8) for s in (*SIZES, 2)], 1)
    rows = pool[rng.integers(0, N_DISTINCT, n, np.int32)]
    return rows[:, :-1], rows[:, -1]


def seconds(job: Callable[[], Any]) -> tuple[float, Any]:
    """Return processor seconds of a job, and what it returns."""
    started = time.process_time()
    found = job()
    return time.process_time() - started, found


def encoded(codes: NDArray[np.int8], classes: NDArray[np.int8]) -> list[Any]:
    """Return codes in blocks, as a worker encodes a partition."""
    policies = {"handle_unknown": "clip", "handle_missing": "error"}
    return list(encoded_blocks(SCHEMA, codes, classes, policies))


def stages(largest: int) -> None:
    """Print the seconds of all stages at growing sizes, and the bytes of a message."""
    sizes = [10**power for power in range(4, round(math.log10(largest)) + 1)]
    for n in sizes:
        codes, classes = records(n)
        encoding, blocks = seconds(lambda: encoded(codes, classes))  # noqa: B023
        counting, counts = seconds(lambda: counted(SCHEMA, blocks))  # noqa: B023
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


def write_parquet(folder: str, n: int) -> None:
    """Write records into eight files."""
    import pyarrow as pa
    from pyarrow import parquet

    codes, classes = records(n)
    columns = {f"a{i}": column for i, column in enumerate(codes.T.copy())}
    table = pa.table({**columns, "class": classes})
    for part in range(8):
        first, stop = (place * n // 8 for place in (part, part + 1))
        path = f"{folder}/{part}.parquet"
        parquet.write_table(table.slice(first, stop - first), path)


def with_workers(n: int, rounds: int) -> None:
    """Print how long one worker, and two, take to count a Parquet folder.

    The two take turns, so that what else the machine does falls on both. Processor
    seconds are those of the worker that has most to do: what it would take on the clock
    where each has a core of its own.
    """
    taken: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
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


def main(argv: list[str] | None = None) -> None:
    """Print what is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=float, default=1e7)
    parser.add_argument("--parquet", type=float, default=1e7)
    parser.add_argument("--rounds", type=int, default=3, help="of the Parquet folder")
    args = parser.parse_args(argv)
    stages(int(args.largest))
    with_workers(int(args.parquet), args.rounds)


if __name__ == "__main__":
    main()
