"""Columns as a frame of the library that the reader likes best."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice
from mmech.exceptions import ParameterError

FRAMES = {
    "pandas": ("pandas", "DataFrame"),
    "polars": ("polars", "DataFrame"),
    "pyarrow": ("pyarrow", "table"),
    "dict": ("builtins", "dict"),
}
"""Kind of frame to the module and function that make one of a dict of columns."""


def kind_of_frame(data: Any) -> str | None:
    """Return the kind of frame that data are, or ``None`` if they are no frame."""
    library = type(data).__module__.partition(".")[0]
    return library if library in FRAMES and library != "dict" else None


def as_frame(columns: Mapping[str, NDArray[Any]], kind: str | None = None) -> Any:
    """Return columns as a frame; of pandas by default, or a dict without it."""
    if kind is None:
        kind = "pandas" if importlib.util.find_spec("pandas") else "dict"
    check_choice(kind, "frame", tuple(FRAMES))
    module, name = FRAMES[kind]
    try:
        make = getattr(importlib.import_module(module), name)
    except ImportError:
        raise ParameterError(
            "frame",
            f"needs a library that is not installed, {module}",
            kind,
            ("install it", "choose {frame='dict'}"),
        ) from None
    return make(dict(columns))


def as_column(values: tuple[Any, ...], codes: NDArray[np.int64]) -> NDArray[Any]:
    """Return the values that codes stand for, as text or numbers where all are."""
    kinds = {type(value) for value in values}
    plain = kinds <= {str} or kinds <= {bool} or kinds <= {int, float}
    table = np.empty(len(values), dtype=object)
    table[:] = values
    return (np.array(list(values)) if plain else table)[codes]
