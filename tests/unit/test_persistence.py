"""Strategies in files: bit-identical, without pickle, and refused when damaged."""

from __future__ import annotations

import io
import json
import math
import zipfile
from dataclasses import dataclass, field, fields
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from catalogue import CATALOGUE, LABELS, of_all
from model_files import rewrite
from processes import largest_file
from refusals import refused

import mmech as mm
from mmech.storage import codec as _codec
from mmech.storage.codec import storable


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
    elif isinstance(left, (mm.QueryMatrix, mm.StrategyResult, mm.Candidate)):
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


@of_all(CATALOGUE)
def test_every_operator_round_trips(name, path):
    operator, _ = CATALOGUE[name]
    mm.save(path, operator)
    assert_identical(mm.load(path), operator)


def kinds_of(base):
    """Return the classes of the package that are derived from a class."""
    found = {
        cls for child in base.__subclasses__() for cls in {child} | kinds_of(child)
    }
    return {cls for cls in found if cls.__module__.startswith("mmech.")}


def test_every_operator_of_the_package_can_be_saved():
    known = {kind.cls for kind in _codec._KINDS.values()}
    whole = {
        cls
        for cls in kinds_of(mm.QueryMatrix)
        if cls._matmat is not mm.QueryMatrix._matmat
    }
    left = {cls.__name__ for cls in whole - known}
    assert not {name for name in left if not name.startswith("_")}


@pytest.mark.parametrize(
    "workload",
    [
        mm.Prefix(40),
        mm.all_marginals((2, 3, 2), 2),
        mm.PartitionStack(LABELS, [3, 2, 1]),
    ],
    ids=str,
)
def test_results_round_trip(workload, path):
    result = mm.optimize(workload, seed=0)
    mm.save(path, result)
    loaded = mm.load(path)
    assert_identical(loaded, result)
    assert len(loaded.candidates) > 1
    mm.MatrixMechanism(workload, loaded, epsilon=1)


def test_awkward_numbers(path):
    for strategy in (
        mm.Scaled(-0.0, mm.Identity(2)),
        mm.Scaled(5e-324, mm.Identity(2)),
        mm.Scaled(2**62 + 1, mm.Identity(2)),
        mm.Marginals((2, 2), {(0,): np.int64(3), (1,): np.float64(0.1)}),
        mm.Kronecker([mm.Identity(10**6)] * 20),
        mm.Dense([[0.1, -0.0], [1e308, 5e-324]]),
    ):
        mm.save(path, strategy)
        loaded = mm.load(path)
        assert loaded.shape == strategy.shape
        assert loaded.sensitivity() == strategy.sensitivity()
        if isinstance(strategy, mm.Scaled):
            assert_identical(loaded.weight, strategy.weight)
    result = mm.StrategyResult(
        mm.Identity(2), "identity", math.inf, history=(math.inf, math.nan, -0.0)
    )
    mm.save(path, result)
    assert_identical(mm.load(path), result)


def test_equal_objects_are_stored_once(path):
    factor = mm.PIdentity(np.random.default_rng(0).random((4, 500)))
    mm.save(path, factor)
    single = path.stat().st_size
    deep = factor
    for _ in range(30):  # 2^30 leaves
        deep = mm.VStack([deep, deep])
    mm.save(path, deep)
    assert path.stat().st_size < single + 5000
    loaded = mm.load(path)
    assert loaded.blocks[0] is loaded.blocks[1]
    result = mm.optimize(mm.Prefix(8), template="workload")
    assert result.strategy is result.workload
    mm.save(path, result)
    loaded = mm.load(path)
    assert loaded.strategy is loaded.workload


def test_files_are_reproducible_zips_that_numpy_opens(path, tmp_path):
    strategy = mm.PIdentity([[0.1, 0.2]])
    mm.save(path, strategy)
    mm.save(tmp_path / "again", strategy)
    assert path.read_bytes() == (tmp_path / "again").read_bytes()
    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read("description.json"))
        assert archive.namelist() == ["description.json", "array_0.npy"]
        assert b"\n" not in archive.read("description.json")  # as C writes it: sooner
    assert (description["format"], description["version"]) == ("mmech", 1)
    assert description["holds"] == "strategy"
    with np.load(path, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["array_0"], [[0.1, 0.2]])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", path.name]


@dataclass(frozen=True, eq=False, repr=False)
class Elsewhere(mm.QueryMatrix):
    """An operator of somebody else."""

    n: int

    @property
    def shape(self):
        return (self.n, self.n)

    def _matmat(self, x):
        return x.copy()

    _rmatmat = _matmat


def test_operators_from_elsewhere(path):
    for strategy in (Elsewhere(3), mm.VStack([mm.Identity(3), Elsewhere(3)])):
        with pytest.raises(TypeError, match="class Elsewhere, which is not storable"):
            mm.save(path, strategy)
    assert not path.exists()
    # A foreign workload does not keep the strategy from being saved.
    mm.save(path, mm.optimize(Elsewhere(3), template="identity"))
    loaded = mm.load(path)
    assert loaded.workload is None
    assert_identical(loaded.strategy, mm.Identity(3))

    class Identity2(mm.Identity):
        pass

    Identity2.__name__ = "Identity"
    refused(lambda: mm.save(path, Identity2(3)), "is not storable", TypeError)


@pytest.fixture
def own_kinds():
    """Classes that a test makes storable are forgotten after it."""
    with mock.patch.dict(_codec._KINDS):
        yield


def test_operators_from_elsewhere_can_be_made_storable(path, own_kinds):
    storable("elsewhere.Elsewhere", 3)(Elsewhere)
    mm.save(path, mm.VStack([mm.Identity(3), Elsewhere(3)]))
    assert_identical(mm.load(path), mm.VStack([mm.Identity(3), Elsewhere(3)]))
    with pytest.raises(ValueError, match="the tag 'Prefix' belongs to Prefix; choose"):
        storable("Prefix")(Elsewhere)
    storable("elsewhere.Elsewhere", 4)(Elsewhere)
    with pytest.raises(ValueError, match=r"Elsewhere in version 3 but .* reads 4; use"):
        mm.load(path)
    del _codec._KINDS["elsewhere.Elsewhere"]
    refused(lambda: mm.load(path), "names the class 'elsewhere", ValueError)


@storable("test.Fields")
@dataclass(frozen=True)
class Fields:
    """One field of every kind that annotations tell apart."""

    whole: int = 1
    real: float = 0.5
    flag: bool = True
    text: str | None = "a"
    pair: tuple[int, float] = (1, 2.0)
    several: tuple[tuple[int, ...], ...] = ((1, 2), ())
    table: np.typing.NDArray[np.int32] | None = None
    tables: tuple[np.typing.NDArray[np.float64], ...] = ()
    weights: dict[tuple[int, ...], float] = field(default_factory=dict)
    cost: Fraction = Fraction(1, 3)
    inner: Fields | None = None
    free: object = None


ROUND_TRIPS = [
    {},
    {"real": 2, "text": None, "several": (), "cost": Fraction(10**30, 7)},
    {"real": math.inf, "weights": {(): 1.0, (0, 1): -math.inf}, "free": ((), None)},
    {"table": np.arange(3, dtype=np.int32), "tables": (np.ones((2, 2)), np.ones(0))},
    {"inner": Fields(whole=2**70), "free": {"a": {1: True}}},
]


@pytest.mark.parametrize("fields", ROUND_TRIPS, ids=str)
def test_all_kinds_of_fields_round_trip(fields, path):
    _codec.write(path, "test", Fields(**fields))
    loaded = _codec.read(path, "test", Fields)
    assert repr(loaded) == repr(Fields(**fields))


MISFITS = {
    "whole": [1.0, True, "1", None, [1]],
    "real": ["1", True, None, {"fraction": "1/2"}],
    "flag": [0, 1, "yes", None],
    "text": [1, ["a"], True],
    "pair": [[1], [1, 2.0, 3], [1.0, 2], 1, {"mapping": []}],
    "several": [[1], [[1.0]], [[[1]]], "ab", None],
    "table": [{"array": 1}, [1, 2], 3, {"array": 9}, {"array": -1}, {"array": True}],
    "tables": [{"array": 1}, [{"array": 0}], [[{"array": 1}]]],
    "weights": [[], {"mapping": [[0, 1.0]]}, {"mapping": [[[0], "1"]]}, {"mapping": 1}],
    "cost": [1, 0.5, "1/3", {"fraction": "1/0"}, {"fraction": None}],
    "inner": [{"entry": 1}, {"entry": 99}, {"entry": -1}, {"surprise": 1}, {}],
}


@pytest.mark.parametrize("name", MISFITS)
def test_fields_of_other_types_than_annotated_are_refused(name, path):
    both = np.zeros(1, np.int32), np.zeros(1)
    _codec.write(path, "test", Fields(table=both[0], tables=both[1:]))
    _codec.read(path, "test", Fields)
    whole = path.read_bytes()
    for value in MISFITS[name]:
        path.write_bytes(whole)
        rewrite(path, lambda d, v=value: d["entries"][0]["arguments"].update({name: v}))
        with pytest.raises(ValueError, match="is not a test file or is damaged"):
            _codec.read(path, "test", Fields)


@pytest.mark.parametrize(
    "array", [np.ones(1, "f4"), np.array([math.nan]), np.array("")]
)
def test_arrays_that_no_file_holds(array, path):
    with pytest.raises(TypeError, match="cannot save an array of dtype"):
        _codec.write(path, "test", Fields(free=array))
    assert not path.exists()


def test_a_failed_write_keeps_the_old_file(path):
    mm.save(path, mm.Identity(3))
    with largest_file(100), pytest.raises(OSError, match="too large"):
        mm.save(path, mm.Prefix(3))
    assert_identical(mm.load(path), mm.Identity(3))
    assert len(list(path.parent.iterdir())) == 1


# ---- files that must be refused ------------------------------------------------


LONG = "\x1b[2J\n" * 10**3
VERSIONS = [0, 2, "1", None, True, LONG]
NAMES = ["Hadamard", "eval", "QueryMatrix", "__import__", LONG]
"""What a description says, and is shown little of where it is long."""
EDITS = [
    *((lambda d, v=v: d.update(version=v), "has version .*; use") for v in VERSIONS),
    *((lambda d, v=v: d["entries"][0].update(version=v),
       r"has PIdentity in version .* reads \d; use") for v in VERSIONS),
    *((lambda d, a=a: d["entries"][0].update(arguments=a),
       r"PIdentity with other arg.* reads \(.*\); use")
      for a in ({"m": 2}, {}, {LONG: 1})),
    *((lambda d, n=n: d["entries"][0].update({"class": n}),
       "names the class '.*, which this mmech") for n in NAMES),
    (lambda d: d.update(format=LONG), "of the format '.* but this m"),
    (lambda d: d.update(holds=LONG), "holds a '.*, not a strategy"),
    *((change, "is damaged; save the strategy again") for change in (
        lambda d: d.update(entries=[]),
        lambda d: d.update(entries=3),
        lambda d: d.pop("entries"),
        lambda d: d.pop("format"),
        lambda d: d.update(arrays=5),
        lambda d: d.update(arrays=-1),
        lambda d: d.update(arrays=0),
        lambda d: d["entries"][0].pop("arguments"),
        lambda d: d["entries"][0].pop("version"),
        lambda d: d["entries"][0].update({"class": []}),
        lambda d: d["entries"][0]["arguments"].update(theta={"array": 3}),
        lambda d: d["entries"][0]["arguments"].update(theta={"entry": 0}),
        lambda d: d["entries"][0]["arguments"].update(theta=None),
        lambda d: d["entries"][0].update(arguments=[]),
    )),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_descriptions_that_are_refused(path, number):
    change, words = EDITS[number]
    mm.save(path, mm.PIdentity([[1.0, 2.0]]))
    rewrite(path, change)
    with pytest.raises(ValueError, match=words) as caught:
        mm.load(path)
    text = str(caught.value).removeprefix(str(path))
    assert text.isprintable()
    assert len(text) < 250


def test_entries_of_ledgers_have_all_their_arguments(path):
    paid = mm.LedgerEntry(Fraction(1), "counts", "laplace")
    _codec.write(path, "a measurement", mm.Measurement(np.arange(2), 1.0, 2.0, paid))
    rewrite(path, lambda d: d["entries"][0]["arguments"].pop("other_cost"))
    with pytest.raises(ValueError, match="LedgerEntry with other arguments"):
        _codec.read(path, "a measurement", mm.Measurement)


def test_other_files(path, tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="is not a strategy file or is damaged"):
        mm.load(tmp_path / "arrays.npz")
    _codec.write(path, "test", Fields())
    refused(lambda: mm.load(path), "holds a 'test', not a strategy", ValueError)
    rewrite(path, lambda d: d.update(holds="strategy"))
    refused(lambda: mm.load(path), "is not a strategy file or is damaged", ValueError)


@pytest.mark.parametrize("name", ["description_bytes", "file_bytes"])
def test_files_that_unpack_to_too_much_are_not_unpacked(path, name):
    mm.save(path, mm.Dense(np.zeros((300, 1000))))
    assert path.stat().st_size < 10_000
    need = rf"unpacks to .* bytes, too many .*limits.changed\({name}="
    with mm.limits.changed(**{name: 100}), pytest.raises(ValueError, match=need):
        mm.load(path)
    mm.load(path)


def promises_more(path):
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**13, 2)}
    np.lib.format.write_array_header_1_0(stream, header)
    rewrite(path, arrays={0: stream.getvalue() + bytes(16)})


def is_packed_otherwise(path):
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("array_1.npy", bytes(10**6))


def has_no_array(path):
    rewrite(path, drop=["array_0.npy"])


def is_a_pickle(path):
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    rewrite(path, arrays={0: stream.getvalue()})


@pytest.mark.parametrize(
    "change", [promises_more, is_packed_otherwise, has_no_array, is_a_pickle]
)
def test_arrays_that_no_file_of_ours_has(path, change):
    mm.save(path, mm.PIdentity([[1.0, 2.0]]))
    change(path)
    words = r"is damaged.*\((Value|Key)Error\)"
    refused(lambda: mm.load(path), words, ValueError)


def test_what_was_changed_by_hand_is_refused(path):
    mm.save(path, mm.PIdentity([[1.0, 2.0]]))
    whole = path.read_bytes()
    rewrite(path, lambda d: d.update(sha256="0" * 64))
    rewritten = path.read_bytes()
    assert rewritten != whole
    mm.load(path)  # a checksum does not stop somebody who makes another one
    for name, change in (
        ("description.json", lambda text: text.replace(b"PIdentity", b"PIdentify")),
        ("description.json", lambda text: text.replace(b"sha256", b"sha25")),
        ("array_0.npy", lambda content: content[:-1] + bytes([content[-1] ^ 1])),
    ):
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            members = {one: archive.read(one) for one in archive.namelist()}
        members[name] = change(members[name])
        with zipfile.ZipFile(path, "w") as archive:
            for one, content in members.items():
                archive.writestr(one, content)
        with pytest.raises(ValueError, match="was changed after it was written"):
            mm.load(path)


@pytest.mark.parametrize(
    "text",
    ["1e99999999", "1e9", "0.5", "1/" + "1" * 5000, "1_0", "١", " 1", "", "1/2/3"],
)
def test_exact_numbers_are_digits(path, text):
    """A power of ten of ten characters stands for gigabytes of digits."""
    _codec.write(path, "test", Fields(cost=Fraction(10**30, 7)))
    rewrite(
        path, lambda d: d["entries"][-1]["arguments"].update(cost={"fraction": text})
    )
    with pytest.raises(ValueError, match=r"is damaged.*\(ValueError\)"):
        _codec.read(path, "test", Fields)
