"""Numba kernels against plain Python twins, where no operator has their answers."""

import inspect
import pickle
from itertools import combinations

import numba
import numpy as np
import pytest
import reference

from mmech import Conjunctions, _kernels

PRODUCTS = {
    *("all_range_matmat", "all_range_rmatmat", "separable_gram_matmat", "scan"),
    *("partition_matmat", "partition_rmatmat", "list_sums", "box_cells"),
    *("conjunction_matmat", "conjunction_rmatmat", "number_transform"),
    *("number_transform_back", "residues", "multiply_residues", "join_residues"),
    "csv_records",
}
"""Kernels of products: their operators are compared with explicit matrices, and their
convolutions with Python integers. Records of csv files with those of Python's reader,
in test_reading."""


def test_every_other_kernel_has_a_twin():
    kernels = {
        name
        for name, value in vars(_kernels).items()
        if callable(value) and not name.startswith("_") and name != "kernel"
    }
    assert kernels > PRODUCTS
    for name in kernels - PRODUCTS:
        twin, kernel = getattr(reference, name), getattr(_kernels, name)
        kernel = getattr(kernel, "py_func", kernel)
        assert inspect.signature(twin) == inspect.signature(kernel)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_nothing_is_compiled_anew_for_a_copy_of_an_operator():
    boxes = Conjunctions([[[True, False]], [[True, True]]])
    kernel = _kernels.conjunction_matmat
    boxes @ np.ones(4)
    known = kernel.signatures.copy()
    pickle.loads(pickle.dumps(boxes)) @ np.ones(4)
    assert kernel.signatures == known


def random_pool(rng, n_blocks=9, d=6):
    """Blocks of a few attributes with the subsets inside them, numbered."""
    blocks = [
        tuple(sorted(rng.choice(d, int(rng.integers(1, 4)), replace=False).tolist()))
        for _ in range(n_blocks)
    ]
    subsets = sorted(
        {s for b in blocks for r in range(len(b) + 1) for s in combinations(b, r)}
    )
    lists = [
        [i for i, s in enumerate(subsets) if set(s) <= set(block)] for block in blocks
    ]
    ends = np.cumsum([0, *map(len, lists)])
    return blocks, subsets, ends, np.concatenate(lists).astype(np.int64)


@pytest.mark.parametrize("max_iter", [1, 3, 40])
def test_pool_descend(max_iter, rng):
    blocks, subsets, ends, members = random_pool(rng)
    theta = rng.random(len(blocks))
    theta /= theta.sum()
    cells = np.array([3.0 ** len(block) for block in blocks])
    energies = rng.random(len(subsets)) + 0.1
    twin = theta.copy()
    scratch = np.empty(len(subsets)), np.empty(len(blocks))
    arguments = cells, ends, members, energies, max_iter, 1e-12, *scratch
    found = _kernels.pool_descend(theta, *arguments)
    wanted = reference.pool_descend(twin, *arguments)
    assert found == (pytest.approx(wanted[0], rel=1e-12), wanted[1])
    np.testing.assert_allclose(theta, twin, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("log_cap", [1.0, 3.0, 5.0, 100.0])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_cover_greedily(log_cap, decay, rng):
    d = 8
    targets = [
        np.sort(rng.choice(d, int(rng.integers(1, 4)), False)) for _ in range(15)
    ]
    starts = np.cumsum([0, *map(len, targets)])
    attributes = np.concatenate(targets)
    owner = np.repeat(np.arange(len(targets)), np.diff(starts))
    order = np.argsort(attributes, kind="stable")
    owner_starts = np.searchsorted(attributes[order], np.arange(d + 1))
    arguments = (
        *(starts, attributes, owner_starts, owner[order]),
        *(np.log(rng.integers(2, 5, d)), log_cap, decay, rng.random((4, d))),
    )
    found, wanted = np.zeros((2, len(targets), d), np.uint8)
    assert _kernels.cover_greedily(*arguments, found) == reference.cover_greedily(
        *arguments, wanted
    )
    assert np.array_equal(found, wanted)


def test_weighted_rows(rng):
    """An index that the kernel is sure of is the one of exact fractions."""
    logarithms = rng.integers(-(2**40), 2**36, (500, 5))
    logarithms[rng.random((500, 5)) < 0.2] = -(2**63)
    logarithms[:, 2] = 0
    words = rng.integers(0, 2**64, 500, dtype=np.uint64)
    words[:3] = 0, 2**63, 2**64 - 1
    words.setflags(write=False)
    out, exact = np.empty((2, 500), np.int64)
    _kernels.weighted_rows(logarithms, words, np.empty(5), out)
    reference.weighted_rows(logarithms, words, np.empty(5), exact)
    decided = out >= 0
    assert np.array_equal(out[decided], exact[decided])
    assert (~decided).sum() <= 3  # at the ends there may be candidates that are rare
