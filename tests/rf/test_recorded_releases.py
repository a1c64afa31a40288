"""Releases and fits under predictable entropy stay what they were, bit for bit.

A change that only moves code keeps every number in ``tests/fixtures/releases.json``.
One that is meant to change a release records it anew, and its commit says which
numbers changed and why:

    MMECH_RECORD=1 python -m pytest tests/rf/test_recorded_releases.py

Of every case all random outcomes are kept, by kind of draw, and what was made of them.
Whole numbers are compared exactly; floating-point ones to 1e-9, relative, and losses of
strategies that were found by descent to 1e-6.
"""

import json
import os
import re
import warnings
from collections import defaultdict
from hashlib import blake2b
from itertools import product
from pathlib import Path

import numba
import numpy as np
import pytest
from catalogue import CATALOGUE
from entropy import system_entropy
from rf_cases import CELLS, PER_BATCH, PRIVATE, classifier, records

import mmech as mm
from mmech.testing import watch_draws
from mmech_rf import (
    PrivateForestClassifier,
    datasets,
)
from mmech_rf.drawn.draw import SelectedTree

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="so many fits need compiled kernels"
)

FILE = Path(__file__).parents[1] / "fixtures" / "releases.json"
RECORDING = os.environ.get("MMECH_RECORD") == "1"
RELATIONS = ("add_remove", "replace")
COUNTS = np.arange(24) ** 2 % 29


# ---- what is released ----------------------------------------------------------


def noise_on_values():
    """Laplace, Gaussian and K-norm noise without a strategy."""
    found = {}
    for relation in RELATIONS:
        common = {"neighbours": relation, "released": "counts"}
        for epsilon in ("1/3", "2"):
            for sensitivity in (1, 7):
                mm.noisy_release(
                    COUNTS, sensitivity=sensitivity, epsilon=epsilon, **common
                )
        for rho in ("1/8", "3"):
            mm.noisy_release(COUNTS, sensitivity=2, rho=rho, **common)
        for groups in ([24], [1] * 24, [1, 2, 3, 18]):
            noisy = mm.noisy_release(
                COUNTS, sensitivity=1, groups=groups, epsilon="1/2", **common
            )
            found[f"variance {relation} {groups[:3]}"] = noisy.variance
    table = COUNTS.reshape(4, 6)
    mm.noisy_release(
        table, groups=[2, 2], sensitivity=64, epsilon=1, released="sums of columns"
    )
    return found


def selections():
    """Both mechanisms of selection, in every setting."""
    for relation, monotone, epsilon in product(RELATIONS, (True, False), ("1/4", "2")):
        for choose in (mm.exponential_mechanism, mm.permute_and_flip):
            for _ in range(10):
                choose(
                    COUNTS[:9],
                    epsilon=epsilon,
                    monotone=monotone,
                    neighbours=relation,
                    released="the largest",
                )
    return {}


STRATEGIES = (
    "identity", "total", "ones-tall", "prefix", "all-range", "diagonal-signed",
    "diagonal-float", "dense-signed", "dense-float", "sparse-signed", "sparse-float",
    "suffix", "width-range-narrow", "ranges", "permuted-float", "partition",
    "stack-of-partitions", "boxes", "hierarchy", "hierarchy-real", "pidentity",
    "pidentity-l2", "marginal", "marginals", "marginals-negative", "residuals",
    "merged", "merged-pidentity", "scaled-float", "kronecker-float",
    "kronecker-mixed-shapes", "vstack-int-and-float", "vstack-union-of-products",
    "side-by-side", "product-of-forest", "product-low-rank", "sum",
)  # fmt: skip
"""A strategy of every type in the catalogue."""


def strategies(parameter):
    """Measurements of two columns, in every setting."""
    found = {}
    for name in STRATEGIES:
        operator = CATALOGUE[name][0]
        n = operator.shape[1]
        counts = np.stack([COUNTS[:n], COUNTS[::-1][:n]], axis=1)
        rows = []
        for relation, cost in product(RELATIONS, ("1/2", "3")):
            noisy = mm.MatrixMechanism(
                operator, operator, neighbours=relation, **{parameter: cost}
            )
            measurement = noisy.measure(counts)
            answers = operator @ noisy.reconstruct(measurement)
            rows.append((measurement.values, answers, noisy.expected_error()))
        for what, column in zip(
            ("values", "answers", "error"), zip(*rows, strict=True), strict=True
        ):
            found[f"{name} {what}"] = np.array(column)
    return found


def marginals_of_records():
    """Marginals over many attributes, measured from signed counts."""
    sizes = (3, 2, 4, 2)
    codes = np.stack([COUNTS % size for size in sizes], axis=1)
    signed = np.zeros(48, np.int64)
    np.add.at(signed, np.ravel_multi_index(codes.T, sizes), 1 - 2 * (COUNTS % 2))
    workload = mm.all_marginals(sizes, 2)
    found = {}
    for name, parameter in (("laplace", "epsilon"), ("gaussian", "rho")):
        noisy = mm.MatrixMechanism(
            workload, workload, signed=True, **{parameter: "1/2"}
        )
        found[name] = noisy.answer(signed)
    return found


def insecure_noise():
    """Noise of a seed, from mechanism and classifiers."""
    mechanism = mm.MatrixMechanism(
        mm.Prefix(24), mm.Identity(24), epsilon=1, insecure_rng=3
    )
    X, y = records(60)
    return {
        "mechanism": mechanism.measure(COUNTS).values,
        "training": fitted(classifier("batch training", insecure_rng=3), X, y),
        "trees": fitted(private_forest("monks", epsilon=1, insecure_rng=3)),
    }


# ---- classifiers ---------------------------------------------------------------


def fitted(model, X=None, y=None, queries=CELLS):
    """Fit on records, or those of the model, and return predictions as codes."""
    if X is None:
        model, X, y, queries = model
    model.fit(X, y)
    predicted = model.predict(np.asarray(queries).astype(str))
    return np.searchsorted(np.sort(model.classes_), predicted)


def forests(name):
    """One of the classifiers on random forests."""
    X, y = records(60)
    found = {}
    ensembles = {"n_trees": 4, "n_ensembles": 2, "max_features": 2}
    for relation, settings in product(RELATIONS, ({}, ensembles)):
        for voting in ("hard", "weight") if name == "batch training" else (None,):
            chosen = settings | ({} if voting is None else {"voting": voting})
            model = classifier(name, neighbours=relation, epsilon="3/2", **chosen)
            key = f"{relation} {len(settings)} {voting}"
            found[f"{key} classes"] = fitted(model, X, y)
            if name in PER_BATCH:
                found[f"{key} error"] = model.expected_error_
            found[f"{key} spent"] = str(model.ledger_.spent)
    return found


SETS = {"car": datasets.load_car, "monks": datasets.load_monks}


def private_forest(name, **settings):
    """A classifier and every seventh record of a set, so that fits are quick."""
    bunch = SETS[name]()
    X = np.asarray(bunch.data)[::7].astype(str)
    y = np.asarray(bunch.target)[::7]
    return PrivateForestClassifier(bunch.schema, **settings), X, y, X


def private_forests(relation):
    """Two and four classes."""
    found = {}
    for name in SETS:
        model, *seen = private_forest(name, epsilon=2, neighbours=relation)
        key = f"{name} trees"
        found[f"{key} classes"] = fitted((model, *seen))
        found[f"{key} probabilities"] = model.predict_proba(seen[0][:5])
    return found


def many_records():
    """What a large public number of records calls for: boosting, and zCDP."""
    found = {}
    for name, relation, privacy in product(SETS, RELATIONS, ("pure", "zcdp")):
        settings = {"neighbours": relation, "epsilon": 2, "n_records": 40_000}
        if privacy == "zcdp":
            settings |= {"privacy": "zcdp", "delta": 1e-5}
        model, *seen = private_forest(name, **settings)
        key = f"{name} {relation} trees {privacy}"
        found[key] = fitted((model, *seen))
        found[f"{key} probabilities"] = model.predict_proba(seen[0][:5])
    return found


# ---- losses --------------------------------------------------------------------


def losses():
    """What every template of the optimizer reaches."""
    square = mm.Kronecker([mm.Prefix(6), mm.Identity(6)])
    other = mm.Kronecker([mm.Identity(6), mm.Prefix(6)])
    workloads = {
        "identity": (mm.Prefix(16), {}),
        "workload": (mm.Prefix(16), {}),
        "pidentity": (mm.AllRange(32), {"p": 3}),
        "kronecker": (mm.Kronecker([mm.Prefix(8), mm.AllRange(6)]), {"p": [2, 2]}),
        "union": (mm.VStack([square, other]), {}),
        "marginals": (mm.all_marginals((3, 3, 2, 2), 2), {}),
        "hierarchy": (mm.AllRange(64), {}),
        "auto": (mm.Prefix(24), {}),
    }
    found = {}
    for template, (workload, options) in workloads.items():
        result = mm.optimize(workload, template=template, seed=0, **options)
        found[template] = result.loss
    for name, workload in {
        "prefix": mm.Prefix(24),
        "union": mm.VStack([square, other]),
    }.items():
        found[f"gaussian {name}"] = mm.optimize(workload, privacy="zcdp", seed=0).loss
    return found


CASES = (
    {
        "noise on values": noise_on_values,
        "selections": selections,
        "strategies, laplace": lambda: strategies("epsilon"),
        "strategies, gaussian": lambda: strategies("rho"),
        "marginals of records": marginals_of_records,
        "insecure noise": insecure_noise,
        "private forest, many records": many_records,
        "losses": losses,
    }
    | {name: lambda name=name: forests(name) for name in PRIVATE}
    | {f"private forest, {r}": lambda r=r: private_forests(r) for r in RELATIONS}
)


# ---- recording and comparing -----------------------------------------------------


class Stream:
    """Bytes of a seed in place of the operating system's, whatever the portions."""

    def __init__(self, seed=b"mmech"):
        self.seed, self.block, self.left = seed, 0, b""

    def __call__(self, size):
        while len(self.left) < size:
            counter = self.block.to_bytes(8, "little")
            self.left += blake2b(counter, key=self.seed).digest()
            self.block += 1
        taken, self.left = self.left[:size], self.left[size:]
        return taken


def whole(outcome):
    """Return the whole numbers of an outcome as one row."""
    if isinstance(outcome, SelectedTree):
        return np.concatenate([labels.ravel() for labels in outcome.labels])
    return np.asarray(outcome).ravel()


def summary(value):
    """Return something short that changes with every number, for a JSON file."""
    if isinstance(value, (str, int, float)):
        return value
    array = np.asarray(value)
    first = array.ravel()[:5].tolist()
    short = {"shape": list(array.shape), "first": first}
    if array.dtype.kind == "f":
        mixed = np.cos(np.arange(1, array.size + 1))
        return short | {"sum": array.sum(), "mixed": array.ravel() @ mixed}
    digest = blake2b(array.astype("<i8").tobytes(), digest_size=16).hexdigest()
    return short | {"digest": digest}


def play(case):
    """Run a case under predictable entropy; return its summary."""
    draws = defaultdict(list)

    def note(draw, sample):
        outcome = sample()
        draws[draw.kind].append(whole(outcome))
        return outcome

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.PrivacyLeakWarning)
        with system_entropy(Stream()), watch_draws(note):
            results = CASES[case]()
    outcomes = {kind: np.concatenate(parts) for kind, parts in sorted(draws.items())}
    return {
        "draws": {kind: summary(row) for kind, row in outcomes.items()},
        "results": {key: summary(value) for key, value in results.items()},
    }


def differences(found, recorded, rtol=1e-9, where=""):
    """Yield where two summaries differ, with both values."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        for key in sorted({*found, *recorded}):
            inner = found.get(key), recorded.get(key)
            yield from differences(*inner, rtol, f"{where}/{key}")
    elif isinstance(found, list) and isinstance(recorded, list):
        if len(found) != len(recorded):
            yield where, found, recorded
        for i, pair in enumerate(zip(found, recorded, strict=False)):
            yield from differences(*pair, rtol, f"{where}/{i}")
    elif isinstance(found, float) and isinstance(recorded, float):
        if found != pytest.approx(recorded, rel=rtol, abs=rtol):
            yield where, found, recorded
    elif found != recorded:
        yield where, found, recorded


def recordings():
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


@pytest.mark.by_day(4)
@pytest.mark.parametrize("case", CASES)
def test_a_release_is_what_was_recorded(case):
    found = play(case)
    if RECORDING:
        kept = {name: old for name, old in recordings().items() if name in CASES}
        text = json.dumps(kept | {case: found}, indent=1, sort_keys=True)
        text = re.sub(r"\n(?: {4,}|   (?=[\]}]))", "", text)  # a line per result
        FILE.write_text(text + "\n", encoding="utf-8")
        pytest.skip(f"recorded {case}")
    # Descents stop where a sum of doubles says so, which depends on the BLAS library.
    rtol = 1e-6 if case == "losses" else 1e-9
    assert not list(differences(found, recordings()[case], rtol))


def test_every_recording_has_its_case():
    assert set(recordings()) == set(CASES)


def test_a_changed_number_is_noticed(monkeypatch):
    monkeypatch.setitem(CASES, "one", lambda: {"of": np.arange(9)})
    before = play("one")
    after = json.loads(json.dumps(before))
    assert not list(differences(before, after))
    changed = np.arange(9)
    changed[7] += 1
    after["results"]["of"] = summary(changed)
    ((where, *_),) = differences(before, after)
    assert where == "/results/of/digest"
