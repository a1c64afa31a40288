"""Releases of the engine stay what they were, bit for bit; see `recordings`.

Forests are recorded where they are played to others, in `test_record_and_replay`.
"""

import warnings
from hashlib import blake2b
from itertools import product

import numpy as np
import pytest
from catalogue import CATALOGUE
from entropy import system_entropy
from recordings import check_recorded, recordings, summary_of
from rf_cases import CELLS, CLASSES, SCHEMA, classifier, records

import mmech as mm
from mmech.testing import watch_draws
from mmech_rf import PrivateForestClassifier

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
    found = {"mechanism": mechanism.measure(COUNTS).values}
    trees = PrivateForestClassifier(SCHEMA, epsilon=1, insecure_rng=3)
    training = classifier("batch training", insecure_rng=3)
    for name, model in {"training": training, "trees": trees}.items():
        labels = model.fit(*records(60)).predict(CELLS.astype(str))
        found[name] = np.searchsorted(sorted(CLASSES), labels)
    return found


CASES = {
    "noise on values": noise_on_values,
    "selections": selections,
    "strategies, laplace": lambda: strategies("epsilon"),
    "strategies, gaussian": lambda: strategies("rho"),
    "marginals of records": marginals_of_records,
    "insecure noise": insecure_noise,
}


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


@pytest.mark.by_day(4)
@pytest.mark.parametrize("case", CASES)
def test_a_release_is_what_was_recorded(case):
    draws = []

    def note(draw, sample):
        draws.append((draw.kind, sample()))
        return draws[-1][1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.PrivacyLeakWarning)
        with system_entropy(Stream()), watch_draws(note):
            results = CASES[case]()
    check_recorded("releases", case, draws, results)


def test_every_recording_has_its_case():
    assert set(recordings("releases")) == set(CASES)


def test_a_changed_number_is_noticed(monkeypatch):
    draws, results = [("laplace", np.arange(9))], {"one": np.arange(9.0)}
    monkeypatch.setenv("MMECH_RECORD", "0")
    recorded = {"it": summary_of(draws, results)}
    monkeypatch.setattr("recordings.recordings", lambda name: recorded)
    check_recorded("", "it", draws, results)
    changed = np.arange(9)
    changed[7] += 1
    with pytest.raises(AssertionError, match=r"draws\.laplace\.digest"):
        check_recorded("", "it", [("laplace", changed)], results)
    with pytest.raises(AssertionError, match=r"results\.one\.sum"):
        check_recorded("", "it", draws, {"one": changed * 1.0})
