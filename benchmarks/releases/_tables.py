"""Errors of all two-way tables.

Every method gets the same records and the same pure epsilon for all tables of two
attributes. The error of a table is Σ |released - exact| / N, averaged over tables, and
the root of the mean squared error of all cells. Adult has its 14 raw attributes,
numbers in ten bins of equal width between public bounds, and no record that misses a
value; car is generated.

Peers are MST and AIM of OpenDP's ``dp.mbi``, and private-pgm beneath them by itself
(the extra ``peers`` does not hold them; ``pip install "opendp[mbi]"`` into an
environment of its own). "pgm-AIM" is the mechanism in
private-pgm's repository, whose folder ``mechanisms`` is found by ``PYTHONPATH`` of the
peer (``--pgm FOLDER``). Seconds are processor time of a release; a peer that takes half
an hour of it is stopped (``--limit``). Parameters follow the name of a peer, as in
``--methods "AIM max_size=1"``. ``--rho`` compares under zCDP in place of pure epsilon,
and ``--classify`` also trains a classifier on synthetic records.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import (
    Attribute,
    Counts,
    Domain,
    MatrixMechanism,
    all_marginals,
    optimize,
    release_tables,
)
from mmech.domain.csv_files import read_cells
from mmech.tables.intervals import Intervals
from mmech_rf import Schema
from mmech_rf.datasets import load_car

Codes = NDArray[np.int64]
Tables = dict[tuple[int, int], NDArray[np.float64]]
EPSILONS, RELEASES = ["1"], 1
LIMIT = 1800
"""Processor seconds that a peer has for one release."""
Release = Callable[..., tuple[Tables, float, Codes] | str]
PEER = Path(__file__).with_name("_peer.py")


def load(name: str) -> tuple[Domain, Codes]:
    """Return a domain, the class last, and the codes of all records."""
    if name == "car":
        bunch = load_car()
        schema, X, y = bunch.schema, bunch.data, bunch.target
        target = Attribute.categorical("class", schema.class_labels)
        domain = Domain((*schema.attributes, target), name=name)
        return domain, domain.encode(np.column_stack([X, y]))
    folder = Path(os.environ["MMECH_DATA_DIR"])
    schema = Schema.from_json(folder / f"{name}.schema.json")
    target = Attribute.categorical(schema.target, schema.class_labels)
    domain = Domain((*schema.attributes, target), name=name)
    cells = read_cells(folder / f"{name}.csv.gz", domain.names)
    return domain, domain.encode(cells, handle_missing="drop")


def exact_tables(codes: Codes, shape: Sequence[int]) -> Tables:
    found = {}
    for i, j in combinations(range(len(shape)), 2):
        place = codes[:, i] * shape[j] + codes[:, j]
        counts = np.bincount(place, minlength=shape[i] * shape[j])
        found[i, j] = counts.reshape(shape[i], shape[j]).astype(np.float64)
    return found


# ---- methods -----------------------------------------------------------------


def ours(
    domain: Domain, codes: Codes, price: dict[str, str], truth: Tables
) -> dict[str, Any]:
    """Release with `release_tables`; also the share of counts that intervals hold."""
    raw = readable(domain, codes)
    start = time.process_time()
    released = release_tables(raw, domain, ways=2, **price)
    seconds = time.process_time() - start
    tables, held = {}, {0.90: [], 0.95: []}
    for pair, names in zip(released.plan.subsets, released.tables, strict=True):
        for level, shares in held.items():
            table = released.table(names, level=level, frame="dict")
            exact = truth[pair].ravel()
            if released.noise.measures(pair):
                shares.append(
                    np.mean((table["lower"] <= exact) & (exact <= table["upper"]))
                )
        tables[pair] = table["count"].reshape(truth[pair].shape)
    return {
        "mmech release_tables": (tables, seconds),
        "held": {level: float(np.mean(own)) for level, own in held.items() if own},
        "sample": lambda n: domain.encode(released.sample(n)),
    }


def readable(domain: Domain, codes: Codes) -> Any:
    """Return records that the domain reads as these codes."""
    columns = {}
    for j, attribute in enumerate(domain.attributes):
        values = attribute.categories
        if attribute.kind == "numeric":
            edges = (attribute.lower, *attribute.cut_points, attribute.upper)
            values = tuple(np.convolve(edges, [0.5, 0.5], "valid"))
        columns[attribute.name] = np.array(values, dtype=object)[codes[:, j]]
    import pandas as pd

    return pd.DataFrame(columns)


def peer(
    python: str,
    method: str,
    shape: Sequence[int],
    codes: Codes,
    price: dict[str, str],
    limit: float = LIMIT,
    pgm: str = "",
    records: bool = True,
) -> tuple[Tables, float, Codes] | str:
    """Run a method in an environment of its own; a sentence where that fails."""
    ((currency, cost),) = price.items()
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(given, codes=codes, shape=shape)
        command = [python, str(PEER), method, currency, cost, str(given), str(made)]
        command += ["records"] * records
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": pgm},
            preexec_fn=partial(
                resource.setrlimit, resource.RLIMIT_CPU, (round(limit), round(limit))
            ),
        )
        if run.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"did not finish in {limit:g} s"
        if run.returncode:
            return (run.stderr.strip().splitlines() or ["it failed"])[-1]
        with np.load(made) as found:
            pairs = combinations(range(len(shape)), 2)
            tables = {pair: found[f"{pair[0]}_{pair[1]}"] for pair in pairs}
            drawn = found["records"] if records else codes[:0]
            return tables, float(found["seconds"]), drawn


def label(method: str) -> str:
    """Return the name of a peer in tables."""
    return method if "pgm" in method else f"OpenDP {method}"


def say(line: str) -> None:
    print(line, flush=True)


# ---- measures ----------------------------------------------------------------


def errors(tables: Tables, truth: Tables) -> tuple[float, float]:
    """Return the mean share of misplaced records, and the error of a cell."""
    apart = {pair: tables[pair] - truth[pair] for pair in truth}
    n = next(iter(truth.values())).sum()
    shares = [np.abs(table).sum() / n for table in apart.values()]
    squares = np.concatenate([np.square(table).ravel() for table in apart.values()])
    return float(np.mean(shares)), float(np.sqrt(squares.mean()))


def accuracy(train: Codes, test: Codes) -> float:
    """Return the accuracy on real records of a forest that was trained on others."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(train[:, :-1], train[:, -1])
    return float(model.score(test[:, :-1], test[:, -1]))


def compare(
    name: str,
    price: dict[str, str],
    release: Release,
    methods: Sequence[str],
    repeats: int = 1,
) -> None:
    """Print a row per method: means over releases, with standard errors."""
    domain, codes = load(name)
    domain, codes = domain.select(domain.names[:-1]), codes[:, :-1]
    truth = exact_tables(codes, domain.shape)
    ((currency, cost),) = price.items()
    stopped: dict[str, str] = {}
    rows, held = defaultdict(list), defaultdict(list)
    for _ in range(repeats):
        found = ours(domain, codes, price, truth)
        own = {"mmech release_tables": found["mmech release_tables"]}
        for level, share in found["held"].items():
            held[level].append(share)
        for method in methods:
            if method not in stopped:  # once is enough
                own[label(method)] = release(method, domain.shape, codes, price)
            if isinstance(own.get(label(method)), str):
                stopped[method] = own.pop(label(method))
        for method, (tables, seconds, *_) in own.items():
            rows[method].append((*errors(tables, truth), seconds))
            share, error, _ = rows[method][-1]
            print(f"{name} {currency}={cost} {method}: {share:.4f} {error:.1f} "
                  f"{seconds:.1f} s", file=sys.stderr, flush=True)  # fmt: skip
    start = f"| {name} | {currency} = {cost} |"
    for method, values in rows.items():
        n = len(values)
        share, error, seconds = np.mean(values, axis=0)
        spread = np.std(values, axis=0, ddof=min(1, n - 1))[0] / math.sqrt(n)
        say(f"{start} {method} | {n} | {share:.4f} ± {spread:.4f} | {error:.1f} | "
            f"{seconds:.1f} |")  # fmt: skip
    for method, words in stopped.items():
        say(f"{start} {label(method)} | | {words} | | |")
    words = ", ".join(f"{level:.0%}: {np.mean(own):.1%}" for level, own in held.items())
    if held:
        say(f"{start} counts held by intervals | | {words} | | |")


def classify(
    name: str,
    price: dict[str, str],
    release: Release,
    methods: Sequence[str],
) -> None:
    """Train on synthetic records of four fifths, test on the real other fifth."""
    domain, codes = load(name)
    codes = codes[np.random.default_rng(0).permutation(len(codes))]
    test, train = np.split(codes, [len(codes) // 5])
    truth = exact_tables(train, domain.shape)
    say(f"| {name} | no privacy | real records | {accuracy(train, test):.3f} |")
    common = np.bincount(test[:, -1]).max() / len(test)
    say(f"| {name} | | the most common class | {common:.3f} |")
    ((currency, cost),) = price.items()
    start = f"| {name} | {currency} = {cost} |"
    own = ours(domain, train, price, truth)["sample"](len(train))
    say(f"{start} mmech release_tables | {accuracy(own, test):.3f} |")
    for method in methods:
        found = release(method, domain.shape, train, price)
        result = found if isinstance(found, str) else f"{accuracy(found[2], test):.3f}"
        say(f"{start} {label(method)} | {result} |")


BY_HAND = """
import json, sys
import opendp.prelude as dp
dp.enable_features("contrib")
counts, scale = json.load(sys.stdin)
space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
print(json.dumps(dp.m.make_laplace(*space, scale=scale)(counts)))
"""
"""Laplace noise of OpenDP on all counts, of which a record changes one per table."""


def single(
    n_releases: int,
    name: str,
    price: dict[str, str],
    release: Any,
    methods: Sequence[str],
) -> None:
    """Compare tables of single attributes, as means over several releases."""
    domain, codes = load(name)
    shape, raw = domain.shape, readable(domain, codes)
    truth = [np.bincount(codes[:, i], minlength=n) for i, n in enumerate(shape)]
    whole, stops = np.concatenate(truth), np.cumsum(shape)[:-1]
    tables = all_marginals(shape, 1)
    before = optimize(tables, template="marginals", seed=0)
    epsilon = price["epsilon"]
    weighted = MatrixMechanism(tables, before, epsilon=epsilon)
    found: dict[str, list[Codes]] = defaultdict(list)
    for _ in range(n_releases):
        released = release_tables(raw, domain, ways=1, epsilon=epsilon)
        own = [released.table(each, frame="dict")["count"] for each in domain.names]
        estimates = [released.estimate.marginal([i]) for i in range(len(shape))]
        found["mmech release_tables"].append(np.concatenate(own))
        found["the same, unbiased"].append(np.concatenate(estimates))
        noisy = weighted.measure(Counts(codes, shape))
        law = Intervals([weighted]).estimate(noisy.values)
        estimates = [law.marginal([i]) for i in range(len(shape))]
        found["before: weighted marginals, unbiased"].append(np.concatenate(estimates))
        if methods:
            scale = len(shape) / float(Fraction(epsilon))
            given = json.dumps([whole.tolist(), scale])
            command = [release.args[0], "-c", BY_HAND]
            run = subprocess.run(
                command, input=given, capture_output=True, text=True, check=True
            )
            found["OpenDP, Laplace by hand"].append(np.array(json.loads(run.stdout)))
    for method, all_counts in found.items():
        apart = np.array(all_counts) - whole
        share = np.mean(
            [np.abs(part).sum() for one in apart for part in np.split(one, stops)]
        )
        error = math.sqrt(np.square(apart).mean())
        say(f"| {name} | epsilon = {epsilon} | {method} | {n_releases} | "
            f"{share / len(codes):.5f} | {error:.2f} | |")  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", default=["car", "adult"])
    parser.add_argument("--rho", nargs="+", help="in place of epsilon")
    parser.add_argument("--pgm", default="", help="mechanisms of private-pgm")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a peer")
    parser.add_argument("--methods", nargs="+", default=["MST", "AIM", "private-pgm"])
    parser.add_argument("--classify", action="store_true")
    parser.add_argument("--single", action="store_true", help="single attributes")


def main(options: argparse.Namespace) -> None:
    if options.classify:
        say("| records | cost | trained on | accuracy |\n|---|---|---|---|")
    else:
        say("| records | cost | method | releases | Σ abs. error / N | error of a cell "
            "| seconds |\n|---|---|---|---|---|---|---|")  # fmt: skip
    run: Callable[..., None] = partial(compare, repeats=options.releases)
    if options.classify or options.single:
        run = classify if options.classify else partial(single, options.releases)
    release = partial(
        peer, options.peers, limit=options.limit, pgm=options.pgm,
        records=options.classify,
    )  # fmt: skip
    methods = options.methods if options.peers else ()
    currency = "rho" if options.rho else "epsilon"
    for name in options.data:
        for cost in options.rho or options.epsilon:
            run(name, {currency: cost}, release, methods)
