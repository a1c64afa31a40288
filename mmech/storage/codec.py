"""Strategies as artefacts: one file without pickle, and tables for other tools.

A file is a ZIP archive with a JSON description and the arrays as NumPy ``.npy``
members (so that ``numpy.load`` opens the arrays too). The description lists nodes:
an operator is the name of a class of this package and its constructor arguments,
which may refer to earlier nodes and to arrays. Loading calls constructors of a closed
list of classes and nothing else.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.integer_strategy import integer_strategy
from mmech.mechanism import MatrixMechanism
from mmech.noise import LAWS
from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.operators.marginals import Marginal
from mmech.release import Measurement
from mmech.storage.archive import ArchiveError, position, read_archive, write_archive
from mmech.strategies.result import Candidate, StrategyResult
from mmech.structure.shape import weighted_blocks

__all__ = ["export_marginals", "load_strategy", "save_strategy"]

FORMAT = "mmech strategy"
VERSION = 1
"""Version of the file format; a change that old readers misread raises it."""

DTYPES = {"bool", "int32", "int64", "float64"}
"""Types of the arrays that operators hold."""


def _registry() -> dict[str, type]:
    """Return the classes that files may name: operators of this package, results."""
    found: dict[str, type] = {
        "StrategyResult": StrategyResult,
        "Candidate": Candidate,
    }
    unvisited: list[type[QueryMatrix]] = [QueryMatrix]
    while unvisited:
        parent = unvisited.pop()
        for cls in parent.__subclasses__():
            unvisited.append(cls)
            own = cls.__module__.startswith("mmech.")
            if own and not cls.__name__.startswith("_"):
                found[cls.__name__] = cls
    return found


# ---- saving ------------------------------------------------------------------


class _Writer:
    """Collects nodes and arrays; equal objects are stored once."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.arrays: list[NDArray[Any]] = []
        self._known: dict[int, Any] = {}
        self._alive: list[Any] = []
        self._registry = _registry()

    def _once(self, value: Any, store: Callable[[], Any]) -> Any:
        if id(value) not in self._known:
            self._known[id(value)] = store()
            self._alive.append(value)  # an id is unique only while its object lives
        return self._known[id(value)]

    def encode(self, value: Any) -> Any:
        """Return a JSON value for an argument."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, (float, np.floating)):
            number = float(value)  # JSON has no infinities
            return number if math.isfinite(number) else {"float": repr(number)}
        if isinstance(value, np.ndarray):
            return self._once(value, lambda: self._array(value))
        if sp.issparse(value):
            parts = [value.data, value.indices, value.indptr]
            shape = [int(size) for size in value.shape]
            return {"csr": [self.encode(part) for part in parts], "shape": shape}
        if isinstance(value, Mapping):
            pairs = [[self.encode(k), self.encode(v)] for k, v in value.items()]
            return {"mapping": pairs}
        if isinstance(value, (tuple, list)):
            return {"tuple": [self.encode(part) for part in value]}
        if isinstance(value, (QueryMatrix, StrategyResult, Candidate)):
            return self._once(value, lambda: self._node(value))
        raise TypeError(f"cannot save a value of type {type(value).__name__}")

    def _array(self, array: NDArray[Any]) -> dict[str, int]:
        if str(array.dtype) not in DTYPES:
            raise TypeError(f"cannot save an array of dtype {array.dtype}")
        self.arrays.append(array)
        return {"array": len(self.arrays) - 1}

    def _node(self, value: Any) -> dict[str, int]:
        cls = type(value)
        if self._registry.get(cls.__name__) is not cls:
            raise TypeError(
                f"cannot save the operator class {cls.__name__}, which is not part of "
                "mmech; wrap its entries with Dense or Sparse"
            )
        positional, named = _arguments(value)
        node = {
            "class": cls.__name__,
            "arguments": [self.encode(argument) for argument in positional],
            "named": {name: self.encode(part) for name, part in named.items()},
        }
        self.nodes.append(node)
        return {"node": len(self.nodes) - 1}


def _arguments(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return constructor arguments that give an equal object."""
    cls: Any = type(value)
    if isinstance(value, (StrategyResult, Candidate)):
        return (), {field.name: getattr(value, field.name) for field in fields(value)}
    if cls.__reduce__ is not object.__reduce__:
        reduced = value.__reduce__()
        assert reduced[0] is cls
        return tuple(reduced[1]), {}
    names = inspect.signature(cls).parameters
    return (), {name: getattr(value, name) for name in names}


def _is_saveable(operator: QueryMatrix | None) -> bool:
    if operator is None:
        return True
    try:
        _Writer().encode(operator)
    except TypeError:
        return False
    return True


def save_strategy(
    path: str | os.PathLike[str], strategy: Matrix | StrategyResult
) -> None:
    """Write a strategy to one file, to be measured again elsewhere or audited.

    A strategy is public: it depends on the workload, never on data. The file is
    replaced as a whole, so that an interrupted write leaves the old one.

    Parameters
    ----------
    path : str or path-like
        File to write.
    strategy : QueryMatrix, ndarray, SciPy sparse matrix or StrategyResult
        An operator of this package, a matrix, or a result with its candidates and
        workload. A workload with operators from elsewhere is left out.

    Raises
    ------
    TypeError
        If the strategy holds an operator class that is not part of this package.

    See Also
    --------
    load : read the file.

    Notes
    -----
    A ZIP archive of ``description.json`` and ``.npy`` arrays, without pickle.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech import Prefix, load, optimize, save
    >>> result = optimize(Prefix(64), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(os.path.join(folder, "prefix.mmech"), result)
    ...     copy = load(os.path.join(folder, "prefix.mmech"))
    >>> copy.loss == result.loss, copy.strategy
    (True, PIdentity(p=4, n=64) shape=(68, 64))
    """
    if not isinstance(strategy, StrategyResult):
        strategy = as_query_matrix(strategy, "strategy")
    elif not _is_saveable(strategy.workload):
        strategy = replace(strategy, workload=None)
    writer = _Writer()
    root = writer.encode(strategy)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "nodes": writer.nodes,
        "root": root,
    }
    write_archive(path, description, writer.arrays)


# ---- loading -----------------------------------------------------------------


class _Reader:
    """Builds the nodes of a description in order."""

    def __init__(self, arrays: list[NDArray[Any]], path: Path) -> None:
        self.arrays = arrays
        self.nodes: list[Any] = []
        self._path = path
        self._registry = _registry()

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            raise ValueError("a bare list")
        if not isinstance(value, dict):
            return value
        if "array" in value:
            return self.arrays[position(value["array"])]
        if "node" in value:
            return self.nodes[position(value["node"])]
        if "float" in value:
            return float(value["float"])
        if "tuple" in value:
            return tuple(self.decode(part) for part in value["tuple"])
        if "mapping" in value:
            return {self.decode(k): self.decode(v) for k, v in value["mapping"]}
        if "csr" in value:
            parts = tuple(self.decode(part) for part in value["csr"])
            matrix = sp.csr_array(parts, shape=tuple(value["shape"]))
            matrix.check_format()
            return matrix
        raise ValueError("an unknown kind of value")

    def build(self, node: dict[str, Any]) -> None:
        name = node["class"]
        if name not in self._registry:
            raise ArchiveError(
                f"{self._path} names the class {name!r}, which this version of mmech "
                "does not know; update mmech, or check where the file comes from"
            )
        arguments = [self.decode(part) for part in node["arguments"]]
        named = {key: self.decode(part) for key, part in node["named"].items()}
        self.nodes.append(self._registry[name](*arguments, **named))


def load_strategy(path: str | os.PathLike[str]) -> QueryMatrix | StrategyResult:
    """Read a strategy that `save` wrote, bit for bit as it was.

    Runs no code from the file: it may come from anyone, although a strategy from
    elsewhere deserves a look at its sensitivity and error.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    QueryMatrix or StrategyResult

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, not of this format, of a newer version, or names a
        class that this package does not have.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech import Identity, Kronecker, Prefix, load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "strategy.mmech")
    ...     save(path, Kronecker([Prefix(3), Identity(2)]))
    ...     load(path)
    Kronecker(Prefix(3), Identity(2)) shape=(6, 6)
    """
    return read_archive(
        path,
        partial(_build, Path(path)),
        what="strategy",
        form=FORMAT,
        version=VERSION,
        dtypes=DTYPES,
    )


def _build(
    source: Path, description: dict[str, Any], arrays: list[NDArray[Any]]
) -> QueryMatrix | StrategyResult:
    reader = _Reader(arrays, source)
    for node in description["nodes"]:
        reader.build(node)
    loaded = reader.decode(description["root"])
    if not isinstance(loaded, (QueryMatrix, StrategyResult)):
        raise TypeError("a file of something else")
    return loaded


# ---- measurements for other tools ----------------------------------------------


def export_marginals(
    mechanism: MatrixMechanism | Matrix | StrategyResult,
    measurement: Measurement,
) -> list[tuple[tuple[int, ...], NDArray[np.float64], float]]:
    """Return measured marginals as tables with the standard deviation of an entry.

    What tools for graphical models take: noisy tables of counts, each with the
    attributes it is over and its noise level (in Private-PGM a
    ``LinearMeasurement(table.ravel(), attributes, std)``). The weight of a marginal
    is divided out; marginals of weight zero carry nothing and are left out. The
    tables are a release that is paid for already: using them is free.

    Parameters
    ----------
    mechanism : MatrixMechanism, QueryMatrix or StrategyResult
        What was measured: a strategy of marginals.
    measurement : Measurement
        What the mechanism's `measure` returned for it.

    Returns
    -------
    list of (attributes, table, std)
        Attribute positions; noisy counts with one axis per attribute, and a last
        axis for the classes where the counts had several columns; standard
        deviation of the noise of every entry.

    Raises
    ------
    ValueError
        If the strategy does not consist of marginals, or the measurement is one of
        another strategy.

    Examples
    --------
    >>> from mmech import Marginals, MatrixMechanism, export_marginals
    >>> strategy = Marginals((2, 3), {(0,): 0.5, (1,): 0.5})
    >>> mechanism = MatrixMechanism(strategy, strategy, epsilon=1.0)
    >>> measurement = mechanism.measure([4, 1, 0, 2, 2, 5])
    >>> for attributes, table, std in export_marginals(mechanism, measurement):
    ...     print(attributes, table.shape, round(std, 3))
    (0,) (2,) 2.799
    (1,) (3,) 2.799
    """
    if not isinstance(measurement, Measurement):
        raise TypeError(
            "measurement must be the Measurement that measure() returned, got "
            f"{type(measurement).__name__}"
        )
    if isinstance(mechanism, MatrixMechanism):
        strategy, form = mechanism.strategy, mechanism.released.form
    else:
        strategy = as_query_matrix(mechanism, "mechanism")
        law = LAWS.get(measurement.entry.kind)
        if law is None:
            raise TypeError(
                f"the measurement has {measurement.entry.kind} noise, which measures "
                "no strategy; pass what the measure() of a mechanism returned"
            )
        form = integer_strategy(strategy, norm=law.norm).form
    parts = _weighted_marginals(form)
    if parts is None:
        raise ValueError(
            f"only strategies of marginals have tables to export, got {strategy!r}; "
            'optimize with template="marginals"'
        )
    values = np.asarray(measurement.values)
    if values.shape[0] != form.shape[0]:
        raise ValueError(
            f"the measurement has {values.shape[0]} values but the strategy "
            f"{form.shape[0]} queries; pass the strategy that was measured"
        )
    variances = np.broadcast_to(measurement.variance, values.shape[0])
    tables = []
    start = 0
    for weight, marginal in parts:
        stop = start + marginal.shape[0]
        sizes = [marginal.domain_shape[i] for i in marginal.attributes]
        shaped = (values[start:stop] / weight).reshape(*sizes, *values.shape[1:])
        deviation = math.sqrt(variances[start]) / abs(weight)
        tables.append((marginal.attributes, shaped, deviation))
        start = stop
    return tables


def _weighted_marginals(strategy: QueryMatrix) -> list[tuple[float, Marginal]] | None:
    parts = list(weighted_blocks(strategy))
    marginals = [(weight, part) for weight, part in parts if isinstance(part, Marginal)]
    return marginals if len(marginals) == len(parts) else None
