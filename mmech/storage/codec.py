"""What files hold: objects of storable classes, as their constructors' arguments.

The description of a file lists entries: an object is the tag and the version of its
class and its arguments by name, which may refer to earlier entries and to arrays.
Reading calls constructors of storable classes and nothing else: arguments must have
the types that the class annotates, and the constructor checks what they mean.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.lazy import load_families
from mmech.storage.archive import DTYPES, ArchiveError, read_archive, write_archive

Stored = TypeVar("Stored", bound=type)
Loaded = TypeVar("Loaded")


# ---- classes that files may name ---------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """A storable class, with the tag and the version that entries of files call it."""

    cls: Any
    tag: str
    version: int

    @cached_property
    def signature(self) -> inspect.Signature:
        """How the constructor is called."""
        return inspect.signature(self.cls)

    @cached_property
    def attributes(self) -> dict[str, str]:
        """Names of arguments in files, and of the attributes that hold them."""
        if hasattr(self.cls, "_stored"):
            return dict(self.cls._stored())
        return {name: name for name in self.signature.parameters}

    @cached_property
    def hints(self) -> dict[str, Any]:
        """Types of arguments, where the class annotates their attributes."""
        hints = get_type_hints(self.cls)
        return {
            name: hints[attribute]
            for name, attribute in self.attributes.items()
            if attribute in hints
        }

    def take(self, value: Any) -> dict[str, Any]:
        """Return the arguments that give an equal object."""
        cls = self.cls
        if cls.__reduce__ is not object.__reduce__ and not hasattr(cls, "_stored"):
            bound = self.signature.bind(*value.__reduce__()[1])
            bound.apply_defaults()
            return dict(bound.arguments)
        return {
            name: getattr(value, attribute)
            for name, attribute in self.attributes.items()
        }

    def make(self, arguments: Mapping[str, Any]) -> Any:
        """Return the object of the arguments of a file."""
        for name, hint in self.hints.items():
            if not _fits(arguments[name], hint):
                raise TypeError(f"a {name} of another type")
        if hasattr(self.cls, "_restored"):
            return self.cls._restored(**arguments)
        ordered = OrderedDict((name, arguments[name]) for name in self.attributes)
        bound = inspect.BoundArguments(self.signature, ordered)
        return self.cls(*bound.args, **bound.kwargs)


EXACT_NUMBER = re.compile(r"-?[0-9]{1,4000}(/[1-9][0-9]{0,3999})?", re.ASCII)
"""What exact numbers of files look like; Python reads no more digits by default."""

_KINDS: dict[str, _Kind] = {}
"""Storable classes by tag."""


def storable(tag: str, version: int = 1) -> Callable[[Stored], Stored]:
    """Let files hold objects of a class: its constructor's arguments, nothing else.

    Arguments are taken from the attributes of their names, or as ``__reduce__`` gives
    them. They may be numbers, text, fractions, tuples, mappings, arrays, sparse
    matrices and storable objects. A file may come from anyone: annotate the types of
    attributes, which are checked when it is read, and check in the constructor what
    they do not say.

    Parameters
    ----------
    tag : str
        Name of the class in files, the same in all versions of the package.
    version : int, default=1
        Version of the arguments; to be raised when they change their meaning. A file
        with another one is refused, as is one with other names of arguments.

    Returns
    -------
    callable
        Decorator of the class; classes derived from it need one of their own.

    Raises
    ------
    ValueError
        If the tag belongs to another class.

    Notes
    -----
    A class that is not made of constructor arguments has two class methods:
    ``_stored()`` returns names of arguments with those of the attributes that hold
    them, and ``_restored(**arguments)`` makes an object of them.

    Examples
    --------
    >>> import os, tempfile
    >>> from dataclasses import dataclass
    >>> from mmech import Dense, load, save
    >>> from mmech.storage.codec import storable
    >>> @storable("example.Columns", version=1)
    ... @dataclass(frozen=True, eq=False, repr=False)
    ... class Columns(Dense):
    ...     pass
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(os.path.join(folder, "columns.mmech"), Columns([[1, 2]]))
    ...     load(os.path.join(folder, "columns.mmech"))
    Columns(1 x 2) shape=(1, 2)
    """

    def register(cls: Stored) -> Stored:
        known = _KINDS.get(tag)
        if known and known.cls.__qualname__ != cls.__qualname__:
            raise ValueError(
                f"the tag {tag!r} belongs to {known.cls.__qualname__}; choose another"
            )
        _KINDS[tag] = _Kind(cls, tag, version)
        return cls

    return register


def is_storable(value: Any) -> bool:
    """Return whether files can hold an object."""
    try:
        _Writer().encode(value)
    except TypeError:
        return False
    return True


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value of a file has an annotated type.

    Where the annotation names no type of files, constructors convert and check.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin in (np.ndarray, NDArray):  # an alias with a name since NumPy 2.5
        (kind,) = parts if origin is NDArray else get_args(parts[1])
        return isinstance(value, np.ndarray) and kind in (Any, value.dtype.type)
    if origin is tuple and parts[1:] != (...,):
        return (
            type(value) is tuple
            and len(value) == len(parts)
            and all(map(_fits, value, parts))
        )
    if origin in (tuple, list):
        return type(value) is tuple and all(_fits(part, parts[0]) for part in value)
    if origin in (dict, Mapping):
        return type(value) is dict and all(
            _fits(k, parts[0]) and _fits(v, parts[1]) for k, v in value.items()
        )
    if hint is float:
        return type(value) in (int, float)
    if hint in (bool, int):
        return type(value) is hint
    return hint is Any or not isinstance(hint, type) or isinstance(value, hint)


# ---- writing -----------------------------------------------------------------------


def write(path: str | os.PathLike[str], what: str, value: Any) -> None:
    """Write a file that holds `what`, an object of a storable class.

    An old file is replaced as a whole. Raises `TypeError` if the object, or one inside
    of it, cannot be stored.
    """
    writer = _Writer()
    writer.encode(value)
    write_archive(path, what, {"entries": writer.entries}, writer.arrays)


def fingerprint(value: Any) -> str:
    """Return a text that only equal objects of a storable class share."""
    writer = _Writer()
    digest = hashlib.sha256(repr((writer.encode(value), writer.entries)).encode())
    for array in writer.arrays:
        digest.update(repr((array.dtype, array.shape)).encode() + array.tobytes())
    return digest.hexdigest()


class _Writer:
    """Collects entries and arrays; an object that is met again is stored once."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.arrays: list[NDArray[Any]] = []
        self._known: dict[int, Any] = {}
        self._alive: list[Any] = []

    def encode(self, value: Any) -> Any:
        """Return a JSON value: as it is, or an object of one key that says its kind."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):  # JSON has no infinities
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, Fraction):
            return {"fraction": str(value)}
        if isinstance(value, (tuple, list)):
            return [self.encode(part) for part in value]
        if isinstance(value, Mapping) and all(type(k) is str for k in value):
            return {"object": {k: self.encode(v) for k, v in value.items()}}
        if isinstance(value, Mapping):
            pairs = [[self.encode(k), self.encode(v)] for k, v in value.items()]
            return {"mapping": pairs}
        if sp.issparse(value):
            parts = [value.data, value.indices, value.indptr, value.shape]
            return {"csr": [self.encode(part) for part in parts]}
        if id(value) not in self._known:
            store = self._array if isinstance(value, np.ndarray) else self._entry
            self._known[id(value)] = store(value)
            self._alive.append(value)  # an id is unique only while its object lives
        return self._known[id(value)]

    def _array(self, array: NDArray[Any]) -> dict[str, int]:
        if str(array.dtype) not in DTYPES or not np.isfinite(array).all():
            raise TypeError(
                f"cannot save an array of dtype {array.dtype}, or with numbers that "
                "are not finite"
            )
        self.arrays.append(array)
        return {"array": len(self.arrays) - 1}

    def _entry(self, value: Any) -> dict[str, int]:
        cls = type(value)
        kind = next((known for known in _KINDS.values() if known.cls is cls), None)
        if kind is None:
            raise TypeError(
                f"cannot save an object of the class {cls.__name__}, which is not "
                "storable; decorate it with mmech.storage.codec.storable, or wrap the "
                "entries of an operator with Dense or Sparse"
            )
        arguments = {name: self.encode(part) for name, part in kind.take(value).items()}
        self.entries.append(
            {"class": kind.tag, "version": kind.version, "arguments": arguments}
        )
        return {"entry": len(self.entries) - 1}


# ---- reading -----------------------------------------------------------------------


def read(
    path: str | os.PathLike[str], what: str, kinds: type[Loaded] | tuple[type, ...]
) -> Any:
    """Read the object of a file that must hold `what`; it may come from anyone.

    A file that is refused, or whose object is of none of the `kinds`, raises
    `ValueError`; one that cannot be opened, `OSError`.
    """

    def build(content: dict[str, Any], arrays: list[NDArray[Any]]) -> Any:
        reader = _Reader(arrays)
        for entry in content["entries"]:
            reader.build(entry)
        loaded = reader.objects[-1]
        if not isinstance(loaded, kinds):
            raise TypeError("an object of another kind")
        return loaded

    return read_archive(path, what, build)


class _Reader:
    """Builds the objects of entries in order."""

    def __init__(self, arrays: list[NDArray[Any]]) -> None:
        self.arrays = arrays
        self.objects: list[Any] = []

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(self.decode(part) for part in value)
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "array":
            return self.arrays[_position(content)]
        if kind == "entry":
            return self.objects[_position(content)]
        if kind == "float":
            return float(content)
        if kind == "fraction":
            return exact_number(content)
        if kind == "object":
            return {k: self.decode(v) for k, v in content.items()}
        if kind == "mapping":
            return {self.decode(k): self.decode(v) for k, v in content}
        if kind == "csr":
            *parts, shape = (self.decode(part) for part in content)
            matrix = sp.csr_array(tuple(parts), shape=shape)
            matrix.check_format()
            return matrix
        raise ValueError("an unknown kind of value")

    def build(self, entry: dict[str, Any]) -> None:
        tag, version, stored = (entry[k] for k in ("class", "version", "arguments"))
        if tag not in _KINDS:
            load_families()
        kind = _KINDS.get(tag)
        if kind is None:
            raise ArchiveError(
                f"names the class {tag!r:.60}, which this mmech does not know; import "
                "the package that has it, update mmech, or check where the file comes "
                "from"
            )
        again = "use the mmech that wrote it, or write it again"
        if type(version) is not int or version != kind.version:
            raise ArchiveError(
                f"has {tag} in version {version!r:.60} but this mmech reads "
                f"{kind.version}; {again}"
            )
        if other := stored.keys() ^ kind.attributes.keys():
            names = ", ".join(map(repr, sorted(other)))
            raise ArchiveError(
                f"has {tag} with other arguments than this mmech reads ({names:.60}); "
                f"{again}"
            )
        arguments = {name: self.decode(part) for name, part in stored.items()}
        self.objects.append(kind.make(arguments))


def exact_number(text: Any) -> Fraction:
    """Return a fraction of a file, in digits that are read in no time, or raise.

    A power of ten is refused: a few of its characters stand for gigabytes of digits.
    """
    if not isinstance(text, str) or not EXACT_NUMBER.fullmatch(text):
        raise ValueError("a number that is neither whole nor a fraction")
    return Fraction(text)


def _position(value: Any) -> int:
    """Return a position in a list, as a file gives it, or raise."""
    if type(value) is not int or value < 0:
        raise ValueError("a reference that is not a position")
    return value
