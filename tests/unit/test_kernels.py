"""Every numba kernel against its plain Python twin, for every dtype."""

import inspect
import pickle
from itertools import combinations

import numba
import numpy as np
import pytest
import reference

from mmech import Conjunctions, _kernels

DTYPES = [np.float64, np.float32, np.int64]

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
columns = pytest.mark.parametrize("k", [0, 1, 3])


def values(rng, shape, dtype):
    if dtype is np.int64:
        return rng.integers(-(10**6), 10**6, shape)
    return rng.standard_normal(shape).astype(dtype)


def assert_twins(name, arguments, out):
    """Run kernel and twin on copies of the output array and compare."""
    expected = out.copy()
    getattr(_kernels, name)(*arguments, out)
    getattr(reference, name)(*arguments, expected)
    assert out.dtype == expected.dtype
    if out.dtype == np.int64:
        assert np.array_equal(out, expected)
    else:
        precision = 1e-4 if out.dtype == np.float32 else 1e-11
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(out, expected, atol=precision * scale)


def test_every_kernel_has_a_twin():
    kernels = {
        name
        for name, value in vars(_kernels).items()
        if callable(value) and not name.startswith("_") and name != "kernel"
    }
    for name in kernels:
        twin = getattr(reference, name)
        kernel = getattr(_kernels, name)
        kernel = getattr(kernel, "py_func", kernel)
        assert list(inspect.signature(twin).parameters) == list(
            inspect.signature(kernel).parameters
        )


@dtypes
@columns
@pytest.mark.parametrize("n", [1, 2, 7])
def test_all_range(n, k, dtype, rng):
    x = values(rng, (n, k), dtype)
    sums = np.zeros((n + 1, k), dtype)
    np.cumsum(x, axis=0, out=sums[1:])
    rows = n * (n + 1) // 2
    assert_twins("all_range_matmat", [sums], np.empty((rows, k), dtype))
    y = values(rng, (rows, k), dtype)
    assert_twins("all_range_rmatmat", [y], np.zeros((n, k), dtype))
    vectors = [values(rng, n, dtype) for _ in range(3)]
    out = np.empty((n, k), dtype)
    assert_twins("separable_gram_matmat", [*vectors, x], out)


@dtypes
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 5, 3), (3, 4, 1), (4, 7, 1), (9, 2, 1), (2, 3, 5)], ids=str
)
def test_scan(shape, backward, dtype, rng):
    x = values(rng, shape, dtype)
    assert_twins("scan", [x, backward], np.empty(shape, dtype))


@dtypes
@columns
@pytest.mark.parametrize(("t", "n", "largest"), [(1, 1, 1), (1, 9, 4), (5, 8, 3)])
def test_partitions(t, n, largest, k, dtype, rng):
    groups = rng.integers(1, largest + 1, t)
    labels = np.stack([rng.integers(0, g, n) for g in groups]).astype(np.int32)
    groups[0] += 2  # two empty groups
    offsets = np.concatenate([[0], np.cumsum(groups)])
    labels.setflags(write=False)
    offsets.setflags(write=False)
    x = values(rng, (n, k), dtype)
    y = values(rng, (offsets[-1], k), dtype)
    out = np.zeros((offsets[-1], k), dtype)
    assert_twins("partition_matmat", [labels, offsets, x], out)
    assert_twins("partition_rmatmat", [labels, offsets, y], np.zeros((n, k), dtype))


@dtypes
@columns
@pytest.mark.parametrize(
    "sizes", [(1,), (4,), (1, 1), (2, 3), (3, 1, 2), (2, 2, 3, 2)], ids=str
)
def test_conjunctions(sizes, k, dtype, rng):
    n = int(np.prod(sizes))
    masks = (rng.random((6, sum(sizes))) < 0.6).astype(np.uint8)
    masks[0] = 1  # the whole domain
    masks[1] = 0  # nothing
    masks[2] = 1
    masks[2, -sizes[-1] :] = 0  # nothing, by the last attribute alone
    starts = np.concatenate([[0], np.cumsum(sizes)])
    strides = np.array(
        [int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))], np.int64
    )
    x, y = values(rng, (n, k), dtype), values(rng, (6, k), dtype)
    layout = [masks, starts, strides]
    for array in layout:  # as they are kept
        array.setflags(write=False)
    assert_twins("conjunction_matmat", [*layout, x], np.zeros((6, k), dtype))
    assert_twins("conjunction_rmatmat", [*layout, y], np.zeros((n, k), dtype))
    volumes = [sum(row == r for row, _ in reference._boxes(*layout)) for r in range(6)]
    ends = np.concatenate([[0], np.cumsum(volumes)])
    cells = np.zeros(ends[-1], np.uint32)
    assert_twins("box_cells", [*layout, ends], cells)
    reference.box_cells(*layout, ends, cells)
    for array in (ends, cells):
        array.setflags(write=False)
    for columns in (k, 6, 9):
        x = values(rng, (n, columns), dtype)
        assert_twins("list_sums", [ends, cells, x], np.zeros((6, columns), dtype))


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
    stops = np.cumsum([len(inner) for inner in lists])
    starts = stops - [len(inner) for inner in lists]
    return blocks, subsets, starts, stops, np.concatenate(lists).astype(np.int64)


@pytest.mark.parametrize("max_iter", [1, 3, 40])
def test_pool_descend(max_iter, rng):
    blocks, subsets, starts, stops, members = random_pool(rng)
    theta = rng.random(len(blocks))
    theta /= theta.sum()
    cells = np.array([3.0 ** len(block) for block in blocks])
    energies = rng.random(len(subsets)) + 0.1
    twin = theta.copy()
    scratch = np.empty(len(subsets)), np.empty(len(blocks))
    arguments = cells, starts, stops, members, energies, max_iter, 1e-12, *scratch
    found = _kernels.pool_descend(theta, *arguments)
    wanted = reference.pool_descend(twin, *arguments)
    assert found == (pytest.approx(wanted[0], rel=1e-12), wanted[1])
    np.testing.assert_allclose(theta, twin, rtol=1e-9, atol=1e-12)


def test_pool_counts(rng):
    _, subsets, starts, stops, members = random_pool(rng)
    found, wanted = np.zeros((2, len(subsets)), np.int64)
    _kernels.pool_counts(starts, stops, members, found)
    reference.pool_counts(starts, stops, members, wanted)
    assert np.array_equal(found, wanted)


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


@pytest.mark.parametrize("cap", [10.0, 100.0, 1e6])
@pytest.mark.parametrize("price", [1.0, 1.1])
def test_merge_blocks(cap, price, rng):
    n, d = 12, 7
    sizes = rng.integers(2, 5, d).astype(np.float64)
    inside = (rng.random((n, d)) < 0.3).astype(np.uint8)
    cells = np.array([np.prod(sizes[row > 0]) for row in inside])
    mass = rng.random(n) + 0.1
    alive = np.ones(n, np.bool_)
    own = [inside.copy(), sizes, cells.copy(), mass.copy()]
    twin = [inside.copy(), sizes, cells.copy(), mass.copy()]
    left, expected = alive.copy(), alive.copy()
    limits = np.array([cap, price])
    _kernels.merge_blocks(*own, limits, left)
    reference.merge_blocks(*twin, limits, expected)
    assert np.array_equal(left, expected)
    assert 0 < left.sum() < n or cap == 10.0
    for found, wanted in zip(own, twin, strict=True):
        if found is not own[1]:
            np.testing.assert_allclose(found[left], wanted[left], rtol=1e-12)


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


@pytest.mark.parametrize("n", [1, 2, 16])
def test_number_transforms(n, rng):
    from mmech.operators.convolution import PRIMES, _roots

    for prime, generator in PRIMES:
        x = rng.integers(0, prime, n, dtype=np.uint32)
        forth = _roots(prime, generator, n)[:2]
        back = _roots(prime, generator, n)[2:]
        for name, roots in (
            ("number_transform", forth),
            ("number_transform_back", back),
        ):
            found, expected = x.copy(), x.astype(object)
            getattr(_kernels, name)(found, *roots, prime)
            getattr(reference, name)(expected, *roots, prime)
            assert found.tolist() == expected.tolist()
        values = rng.integers(-(2**62), 2**62, n)
        assert_same_residues("residues", [values, prime], n)
        factors = rng.integers(0, prime, n, dtype=np.uint32)
        assert_same_residues("multiply_residues", [x, factors, 12345, prime], n)


def test_residues_are_joined(rng):
    p1, p2, p3 = primes = (2013265921, 2113929217, 1811939329)
    values = [0, 1, -1, 2**62, -(2**62), 2**90, 1 - 2**90]
    rests = [np.array([v % p for v in values], np.uint32) for p in primes]
    inverses = pow(p1, -1, p2), pow(p1 * p2, -1, p3)
    assert_twins("join_residues", [*rests, *primes, *inverses], np.empty(7, np.int64))


def assert_same_residues(name, arguments, n):
    found, expected = np.empty((2, n), np.uint32)
    getattr(_kernels, name)(*arguments, found)
    getattr(reference, name)(*arguments, expected)
    assert found.tolist() == expected.tolist()
