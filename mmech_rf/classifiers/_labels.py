"""Class labels come back in the type that the target held them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech_rf.schema import Schema

__all__ = ["classes_like"]


def classes_like(schema: Schema, y: Any) -> NDArray[Any]:
    """Return the public class labels in the type that `y` holds them in.

    Schemas written as JSON hold labels as text; a target of integers or booleans
    should come back as such. Only the type of `y` is looked at, which is taken as
    public: a fact of the format of the data, not of a record.

    Parameters
    ----------
    schema : Schema
        With k class labels.
    y : array_like
        Target as the user gave it.

    Returns
    -------
    ndarray, shape (k,)
        The labels of the schema as they are where they cannot be written in that
        type, or `y` mixes types or is an empty list.
    """
    labels = schema.class_labels
    read = _READERS.get(_kind(y))
    if read is not None:
        try:
            classes = np.array([read(label) for label in labels])
            if np.array_equal(schema.encode_target(classes), np.arange(len(labels))):
                return classes
        except (KeyError, OverflowError, TypeError, ValueError):
            pass
    if len({type(label) for label in labels}) == 1:
        return np.array(labels)
    return np.array(labels, dtype=object)


def _kind(y: Any) -> str:
    """Return NumPy's letter for the type of the labels in `y`, or ``""``."""
    values = np.asarray(y) if hasattr(y, "dtype") else np.array(y, dtype=object)
    if values.dtype.kind != "O":
        return values.dtype.kind
    types = set(map(type, values.ravel().tolist()))
    if types & {bool, np.bool_}:
        return "b" if types <= {bool, np.bool_} else ""
    for kind, members in _MEMBERS.items():
        if types and all(issubclass(member, members) for member in types):
            return kind
    return ""


def _as_integer(label: Any) -> int:
    if isinstance(label, float) and not label.is_integer():
        raise ValueError("not an integer")
    return int(label)


def _as_text(label: Any) -> str:
    if isinstance(label, (bool, float)):
        raise TypeError("several texts stand for this label")
    return str(label)


_MEMBERS: dict[str, tuple[type, ...]] = {
    "i": (int, np.integer),
    "f": (int, float, np.integer, np.floating),
    "U": (str,),
}
_WORDS = {
    "true": True,
    "1": True,
    "1.0": True,
    "false": False,
    "0": False,
    "0.0": False,
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "b": lambda label: _WORDS[str(label).lower()],
    "i": _as_integer,
    "u": _as_integer,
    "f": float,
    "S": _as_text,
    "U": _as_text,
}
