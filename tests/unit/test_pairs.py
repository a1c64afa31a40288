"""Every question of every pair of listed families: right, or refused, and in time."""

import re
import time
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import reference as ref

import mmech as mm
from mmech import limits
from mmech.operators.pinv import pinv_method

REFUSED = (mm.DomainTooLargeError, mm.UnsupportedWorkloadError)


def kinds(n):
    """Queries over n cells by their names: each family, cells and a total."""
    decay = 0.9 ** np.arange(float(n))
    size = n + n // 8
    circle = np.exp(-np.minimum(np.arange(size), size - np.arange(size)) / 2.0)
    ends = np.arange(1, 1 + min(n - 2, 50))
    return {
        "all ranges": mm.AllRange(n),
        "prefix": mm.Prefix(n),
        "suffix": mm.Suffix(n),
        "windows": mm.WidthRange(n, n // 8),
        "listed ranges": mm.Ranges((n,), ends // 2, ends),
        "circular windows": mm.Circulant(-np.arange(n) % n < n // 8),
        "circular filter": mm.Circulant(decay),
        "causal filter": mm.Toeplitz(decay, np.eye(1, n)[0]),
        "columns of a circle": mm.Toeplitz(circle, [1.0, *circle[::-1][: n - 1]]),
        "tree": mm.Hierarchy(n, {1: 1, 4: 2, 16: 1}),
        "cells": mm.Identity(n),
        "total": mm.Total(n),
        "union": mm.VStack([mm.Prefix(n), 2 * mm.Identity(n)]),
    }


NAMES = list(kinds(16))
PAIRS = [*product(NAMES, NAMES)]


def test_all_listed_families_are_asked():
    stub = Path(mm.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    listed = set(re.findall(r"^from mmech\.families\.\w+ import (\w+)", stub, re.M))
    assert listed <= {type(operator).__name__ for operator in kinds(16).values()}


@pytest.mark.parametrize("name", NAMES)
def test_pairs_are_right_or_refused(name):
    """Without dense matrices, and with few entries that may be visited."""
    n = 20
    strategy = kinds(n)[name]
    dense = strategy.to_dense().astype(float)
    for workload in kinds(n).values():
        asked = workload.to_dense().astype(float)
        with limits.changed(dense_cells=4, reported_entries=2**12):
            try:
                found = mm.loss(workload, strategy)
                rows = mm.per_query_error(workload, strategy, epsilon=1) / 2
            except mm.DomainTooLargeError:
                continue
            except mm.UnsupportedWorkloadError:
                assert not mm.supports(workload, strategy)
                assert not ref.supported(asked, dense)
                continue
        wanted = ref.per_query_loss(asked, dense)
        assert found == pytest.approx(wanted.sum(), rel=1e-6)
        np.testing.assert_allclose(rows, wanted, rtol=1e-6, atol=1e-9 * found)
        assert mm.supports(workload, strategy)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "measured"), PAIRS)
def test_a_question_about_a_large_pair_takes_ten_seconds_at_most(asked, measured):
    large = kinds(2**16)
    workload, strategy = large[asked], large[measured]
    for question in (
        mm.loss,
        lambda *pair: len(mm.per_query_error(*pair, rho=1)),
        lambda *pair: mm.report(*pair, rho=1),
    ):
        before = time.process_time()
        with suppress(REFUSED):
            question(workload, strategy)
        assert time.process_time() - before < 10


def test_what_a_pseudoinverse_does_is_known_before():
    products = [
        mm.Kronecker([mm.Prefix(4), mm.Identity(3)]),
        mm.Kronecker([mm.Identity(4), mm.Suffix(3)]),
    ]
    assert pinv_method(mm.VStack(products)) == "common basis"
    assert pinv_method(mm.Dense(np.eye(2))) == "eigenvectors"
    with limits.changed(direct_size=4):
        assert pinv_method(mm.AllRange(4)) == "eigenvectors"
        assert pinv_method(2 * mm.AllRange(5)) == "LSMR"
    assert pinv_method(mm.Hierarchy(9, {1: 1, 3: 1})) == "closed form"
