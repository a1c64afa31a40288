"""Strategies in files: bit-identical, without pickle, and refused when damaged."""

import json
import math
import zipfile
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
import scipy.sparse as sp
from catalogue import CATALOGUE, LABELS
from processes import largest_file

import mmech
from mmech import (
    Candidate,
    Dense,
    Identity,
    Kronecker,
    LedgerEntry,
    Marginal,
    Marginals,
    MatrixMechanism,
    Measurement,
    Partition,
    PartitionStack,
    PIdentity,
    Prefix,
    QueryMatrix,
    Scaled,
    StrategyResult,
    VStack,
    all_marginals,
    export_marginals,
    load,
    noisy_release,
    optimize,
    save,
)
from mmech.noise import discrete_gaussian_variance
from mmech.storage import codec as _persistence


@pytest.fixture
def path(tmp_path):
    return tmp_path / "strategy.mmech"


def assert_identical(left, right):
    """Equal classes, and stored values equal to the last bit and type."""
    assert type(left) is type(right)
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes()
    elif sp.issparse(left):
        for name in ("data", "indices", "indptr"):
            assert_identical(getattr(left, name), getattr(right, name))
    elif isinstance(left, (QueryMatrix, StrategyResult, Candidate)):
        for field in fields(left):
            assert_identical(getattr(left, field.name), getattr(right, field.name))
    elif isinstance(left, (tuple, list)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_identical(one, other)
    elif isinstance(left, float):
        assert math.copysign(1, left) == math.copysign(1, right)
        assert left == right or (math.isnan(left) and math.isnan(right))
    else:
        assert left == right


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_operator_round_trips(name, path):
    operator, _ = CATALOGUE[name]
    save(path, operator)
    loaded = load(path)
    assert_identical(loaded, operator)
    assert repr(loaded) == repr(operator)
    assert loaded.dtype == operator.dtype
    assert_identical(loaded.to_dense(), operator.to_dense())
    assert loaded.sensitivity() == operator.sensitivity()


def test_every_public_operator_can_be_named():
    known = _persistence._registry()
    for name in mmech.__all__:
        thing = getattr(mmech, name)
        if isinstance(thing, type) and issubclass(thing, QueryMatrix):
            assert thing is QueryMatrix or known[name] is thing


@pytest.mark.parametrize(
    "workload",
    [Prefix(40), all_marginals((2, 3, 2), 2), PartitionStack(LABELS, [3, 2, 1])],
    ids=str,
)
def test_results_round_trip(workload, path):
    result = optimize(workload, seed=0)
    save(path, result)
    loaded = load(path)
    assert_identical(loaded, result)
    assert loaded.candidates == result.candidates
    assert len(loaded.candidates) > 1
    assert loaded.history == result.history
    assert loaded.bound_ratio == result.bound_ratio
    MatrixMechanism(workload, loaded, epsilon=1)


def test_awkward_numbers(path):
    for strategy in (
        Scaled(-0.0, Identity(2)),
        Scaled(5e-324, Identity(2)),
        Scaled(2**62 + 1, Identity(2)),
        Marginals((2, 2), {(0,): np.int64(3), (1,): np.float64(0.1)}),
        Kronecker([Identity(10**6)] * 20),
        Dense([[0.1, -0.0], [1e308, 5e-324]]),
    ):
        save(path, strategy)
        loaded = load(path)
        assert loaded.shape == strategy.shape
        assert loaded.sensitivity() == strategy.sensitivity()
        if isinstance(strategy, Scaled):
            assert_identical(loaded.weight, strategy.weight)
    result = StrategyResult(
        Identity(2), "identity", math.inf, history=(math.inf, math.nan, -0.0)
    )
    save(path, result)
    assert_identical(load(path), result)


def test_equal_objects_are_stored_once(path):
    factor = PIdentity(np.random.default_rng(0).random((4, 500)))
    save(path, factor)
    single = path.stat().st_size
    deep = factor
    for _ in range(30):  # 2^30 leaves
        deep = VStack([deep, deep])
    save(path, deep)
    assert path.stat().st_size < single + 5000
    loaded = load(path)
    assert loaded.blocks[0] is loaded.blocks[1]
    result = optimize(Prefix(8), template="workload")
    assert result.strategy is result.workload
    save(path, result)
    loaded = load(path)
    assert loaded.strategy is loaded.workload


def test_files_are_reproducible_zips_that_numpy_opens(path, tmp_path):
    strategy = PIdentity([[0.1, 0.2]])
    save(path, strategy)
    save(tmp_path / "again", strategy)
    assert path.read_bytes() == (tmp_path / "again").read_bytes()
    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read("description.json"))
        assert archive.namelist() == ["description.json", "array_0.npy"]
    assert description["format"] == "mmech strategy"
    assert description["version"] == 1
    with np.load(path, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["array_0"], [[0.1, 0.2]])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", path.name]


@dataclass(frozen=True, eq=False, repr=False)
class Elsewhere(QueryMatrix):
    """An operator of somebody else."""

    n: int

    @property
    def shape(self):
        return (self.n, self.n)

    def _matmat(self, x):
        return x.copy()

    _rmatmat = _matmat


def test_operators_from_elsewhere(path):
    for strategy in (Elsewhere(3), VStack([Identity(3), Elsewhere(3)])):
        with pytest.raises(TypeError, match="operator class Elsewhere, which is not"):
            save(path, strategy)
    assert not path.exists()
    # A foreign workload does not keep the strategy from being saved.
    save(path, optimize(Elsewhere(3), template="identity"))
    loaded = load(path)
    assert loaded.workload is None
    assert_identical(loaded.strategy, Identity(3))

    class Identity2(Identity):
        pass

    Identity2.__name__ = "Identity"
    with pytest.raises(TypeError, match="not part of mmech"):
        save(path, Identity2(3))


def test_wrong_kinds(path):
    with pytest.raises(TypeError, match="strategy must be a query matrix or a Strat"):
        save(path, np.eye(3))


def test_a_failed_write_keeps_the_old_file(path):
    save(path, Identity(3))
    with largest_file(100), pytest.raises(OSError, match="too large"):
        save(path, Prefix(3))
    assert_identical(load(path), Identity(3))
    assert len(list(path.parent.iterdir())) == 1


# ---- files that must be refused ------------------------------------------------


def rewrite(path, change=lambda description: None, drop=()):
    """Rewrite a file with a changed description and without some members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(members["description.json"])
    change(description)
    members["description.json"] = json.dumps(description).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if name not in drop:
                archive.writestr(name, content)


def test_newer_versions(path):
    save(path, Identity(2))
    rewrite(path, lambda d: d.update(version=2))
    with pytest.raises(ValueError, match=r"has version 2 .* reads up to 1; update"):
        load(path)
    rewrite(path, lambda d: d.update(version="1"))
    with pytest.raises(ValueError, match="has version 1 of"):
        load(path)


@pytest.mark.parametrize("name", ["Hadamard", "eval", "QueryMatrix", "__import__"])
def test_unknown_classes(path, name):
    save(path, Identity(2))
    rewrite(path, lambda d: d["nodes"][0].update({"class": name}))
    with pytest.raises(ValueError, match=f"names the class '{name}', which this ver"):
        load(path)


def test_other_files(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        load(path)
    path.write_text("theta = 3")
    with pytest.raises(ValueError, match="is not a strategy file or is damaged"):
        load(path)
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="is not a strategy file or is damaged"):
        load(tmp_path / "arrays.npz")
    save(path, Identity(2))
    rewrite(path, lambda d: d.update(format="something else"))
    with pytest.raises(ValueError, match="its format is not 'mmech strategy'"):
        load(path)


def test_damaged_files(path):
    save(path, PIdentity(np.random.default_rng(0).random((3, 40))))
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="is damaged; save the strategy again"):
            load(path)
    for position in (len(whole) // 2, len(whole) // 3, len(whole) - 200):
        flipped = bytearray(whole)
        flipped[position] ^= 0xFF
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match="is damaged; save the strategy again"):
            load(path)


DAMAGE = [
    lambda d: d.update(root={"node": 7}),
    lambda d: d.update(root={"node": -1}),
    lambda d: d.update(root=3),
    lambda d: d.update(root={"tuple": []}),
    lambda d: d.update(root=[]),
    lambda d: d.update(root={"surprise": 1}),
    lambda d: d.update(arrays=5),
    lambda d: d.update(arrays=-1),
    lambda d: d.update(nodes=3),
    lambda d: d["nodes"][0].pop("named"),
    lambda d: d["nodes"][0]["named"].update(theta={"array": 3}),
    lambda d: d["nodes"][0]["named"].update(theta=None),
    lambda d: d["nodes"][0]["named"].update(surplus=1),
    lambda d: d["nodes"][0]["arguments"].append(1),
]


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_inconsistent_descriptions(path, number):
    save(path, PIdentity([[1.0, 2.0]]))
    rewrite(path, DAMAGE[number])
    with pytest.raises(ValueError, match="is damaged; save the strategy again"):
        load(path)


def test_missing_arrays_and_pickles(path):
    save(path, PIdentity([[1.0, 2.0]]))
    rewrite(path, drop=["array_0.npy"])
    with pytest.raises(ValueError, match="is damaged"):
        load(path)
    with zipfile.ZipFile(path, "a") as archive, archive.open("array_0.npy", "w") as f:
        np.save(f, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="is damaged"):
        load(path)


# ---- marginal tables -----------------------------------------------------------


PAID = LedgerEntry(Fraction(1), "counts", "laplace")


def test_export_by_hand():
    strategy = Marginals((2, 3), {(1,): -0.5, (): 0, (0, 1): 2})
    # Measured as counts, of weight 1 and 4; nothing of weight 0.
    scale = np.repeat([5.0, 1.25], [3, 6])
    variance = np.repeat([ref.discrete_laplace_variance(t) for t in (5, 1.25)], [3, 6])
    measurement = Measurement(np.arange(9), scale, variance, PAID)
    first, second = export_marginals(strategy, measurement)
    assert first[0] == (1,)
    np.testing.assert_array_equal(first[1], [0, 1, 2])
    assert first[2] ** 2 == pytest.approx(ref.discrete_laplace_variance(5))
    assert second[0] == (0, 1)
    np.testing.assert_array_equal(second[1], [[3, 4, 5], [6, 7, 8]])
    assert second[2] ** 2 == pytest.approx(ref.discrete_laplace_variance(1.25))


def test_export_has_the_tables_and_their_noise():
    shape = (2, 3, 2)
    strategy = 2 * Marginals(shape, {(0, 1): 0.25, (2,): 0.75})
    mechanism = MatrixMechanism(strategy, strategy, epsilon=1e9)
    counts = np.arange(24).reshape(12, 2)
    measurement = mechanism.measure(counts)
    tensor = counts.reshape(2, 3, 2, 2)
    (_, first, _), (_, second, std) = export_marginals(mechanism, measurement)
    np.testing.assert_allclose(first, tensor.sum(axis=2), atol=1e-6)
    np.testing.assert_allclose(second, tensor.sum(axis=(0, 1)), atol=1e-6)
    assert std < 1e-9
    at_one = MatrixMechanism(strategy, strategy, epsilon=1)
    (*_, wide), (*_, narrow) = export_marginals(at_one, at_one.measure(counts))
    assert wide**2 == pytest.approx(ref.discrete_laplace_variance(4))
    assert narrow**2 == pytest.approx(ref.discrete_laplace_variance(4 / 3))
    single = export_marginals(
        Marginal(shape, [0]), Measurement(np.ones(2), 1.0, 1.0, PAID)
    )
    assert [(a, t.tolist()) for a, t, _ in single] == [((0,), [1, 1])]
    result = optimize(all_marginals((4, 4, 4), 1), template="marginals", seed=0)
    noisy = MatrixMechanism(result.workload, result, epsilon=1).measure([1] * 64)
    assert len(export_marginals(result, noisy)) >= 1


def test_export_of_gaussian_noise():
    strategy = Marginals((2, 3), {(0,): 0.5})
    mechanism = MatrixMechanism(strategy, strategy, rho=0.5)
    measurement = mechanism.measure([1, 2, 3, 4, 5, 6])
    [(_, table, std)] = export_marginals(mechanism, measurement)
    np.testing.assert_allclose(table, measurement.values)
    assert measurement.scale == 1
    assert std**2 == pytest.approx(discrete_gaussian_variance(1))


def test_export_errors():
    grouped = noisy_release(
        [1, 2, 3, 4], sensitivity=1, groups=[2, 2], epsilon=1, released="sums"
    )
    with pytest.raises(TypeError, match="has k_norm noise, which measures no strateg"):
        export_marginals(Marginals((2, 2), {(0,): 1, (1,): 1}), grouped)
    measurement = Measurement(np.ones(4), 1.0, 1.0, PAID)
    for strategy in (Identity(4), VStack([Marginal((2, 2), [0]), Partition([0] * 4)])):
        with pytest.raises(ValueError, match="only strategies of marginals have tab"):
            export_marginals(strategy, measurement)
    with pytest.raises(ValueError, match="has 4 values but the strategy 2 queries"):
        export_marginals(Marginal((2, 2), [0]), measurement)
    with pytest.raises(TypeError, match="must be the Measurement that measure"):
        export_marginals(Marginal((2, 2), [0]), np.ones(2))
