"""Validation of user input: the one place where input errors are worded.

Every function returns the normalised value or raises. ``TypeError`` means the
wrong kind of object, ``ValueError`` the wrong value. A message is one sentence:
what is needed, what came, and what to do. NumPy is imported by what needs it only, so
that commands can check their options at once.
"""

from __future__ import annotations

import difflib
import json
import math
import numbers
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mmech.exceptions import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LISTED_SIZES = 8
"""Up to this number of attributes a label lists the size of each."""

MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What reading a file fails with whose parts are of another kind."""


def _describe(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__} object"


def magnitude(size: int) -> str:
    """Return the order of magnitude of a Python integer of any size."""
    return f"{size}" if size < 10**6 else f"about 10^{len(str(size)) - 1}"


def nearest(name: Any, known: Iterable[str], otherwise: str) -> str:
    """Return a question for the known name that is most like one, or other words.

    >>> nearest("Agee", ["age", "sex"], "choose another")
    "did you mean 'age'?"
    """
    folded = {str(entry).strip().casefold(): entry for entry in known}
    text = str(name).strip().casefold()
    near = difflib.get_close_matches(text, folded, n=1, cutoff=0.75)
    return f"did you mean {folded[near[0]]!r}?" if near else otherwise


def sizes_label(sizes: Sequence[int]) -> str:
    """Return attribute sizes as text, such as 2x3x3; of many, runs as powers."""
    if len(sizes) <= LISTED_SIZES:
        return "x".join(str(size) for size in sizes)
    runs = [(size, len(list(run))) for size, run in groupby(sizes)]
    if len(runs) > LISTED_SIZES:
        return f"{len(sizes)} attributes"
    return "x".join(
        f"{size}^{times}" if times > 1 else f"{size}" for size, times in runs
    )


def check_bool(value: Any, name: str) -> bool:
    """Return a switch; text such as "no", which is true, is refused."""
    import numpy as np

    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {_describe(value)}")
    return bool(value)


def check_integer(value: Any, name: str, *, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(
            f"{name} must be an integer >= {minimum}, got {_describe(value)}"
        )
    if value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value}")
    return int(value)


def check_codes(
    codes: Any, sizes: Sequence[int], names: Sequence[str] | None = None
) -> NDArray[Any]:
    """Return encoded records (N, d) as integers inside of a domain.

    Messages tell no value and no row, which may be sensitive.

    Parameters
    ----------
    codes : array_like of int, shape (N, d)
    sizes : sequence of int
        Number of values of every attribute.
    names : sequence of str, optional
        What attributes are called in messages; their positions by default.
    """
    array = plain_array(codes, "codes")
    d = len(sizes)
    if array.ndim != 2 or array.shape[1] != d:
        two = array.ndim == 2
        got = f"{array.shape[1]} columns" if two else f"{array.ndim} dimensions"
        raise ValueError(
            f"codes must have shape (N, {d}), one column per attribute, got {got}; "
            "pass what encode returns"
        )
    if not array.size:  # NumPy makes floats of no record
        return array.astype("int64")
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"codes must be integers, got dtype {array.dtype}; pass what encode returns"
        )
    for i, size in enumerate(sizes):
        column = array[:, i]
        if column.size and not (column.min() >= 0 and column.max() < size):
            raise ValueError(
                f"codes of attribute {i if names is None else names[i]!r} must be at "
                f"least 0 and below {size}; pass what encode returns"
            )
    return array


def check_seed(value: Any, name: str, remedy: str = "") -> np.random.Generator:
    """Return NumPy's generator for a seed, or raise in words of `name`."""
    import numpy as np

    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name} must be an integer >= 0, a generator of NumPy, or None, got "
            f"{_describe(value)}{remedy}"
        ) from None


def check_choice(
    value: Any, name: str, choices: Collection[str], others: str = ""
) -> str:
    """Return `value` if it is one of `choices`; `others` names what else may come."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(choice) for choice in choices)
        need = f"{others} or {options}" if others else f"one of {options}"
        hint = nearest(value, choices, "")
        raise ValueError(
            f"{name} must be {need}, got {_describe(value)}"
            + (f"; {hint}" if hint else "")
        )
    return value


def check_path(value: Any) -> str:
    """Return the path of a file as text."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(
            f"a file is named by its path, a string or Path, got {_describe(value)}; "
            "name one"
        )
    if "\0" in text:
        raise ValueError(f"a path must not hold zero bytes, got {text!r}; correct it")
    return text


def check_file(value: Any, what: str = "file") -> str:
    """Return the path of what is read, or raise unless it is there and no folder."""
    path = check_path(value)
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path!r} is a folder; name the {what} in it")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no {what} {path!r}; check the name")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"the {what} {path!r} must not be read; ask its owner")
    return path


_KINDS = {
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "compressed with gzip",
    b"PK\x03\x04": "a workbook (.xlsx) or another zip archive",
}
"""What files that are no text begin with."""


def check_text(head: bytes, what: str, remedy: str) -> None:
    """Raise for the first bytes of a file that are those of another kind."""
    kind = next((kind for mark, kind in _KINDS.items() if head.startswith(mark)), None)
    if kind is not None:
        kind = "an archive of NumPy (.npz)" if b".npy" in head else kind
        raise ValueError(f"{what} is {kind}, not text; {remedy}")


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a record of JSON whose names differ, or raise `ValueError`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {name!r:.60} occurs twice in an object")
    return found


def parsed_json(text: str | bytes, record: Callable[..., Any] = distinct) -> Any:
    """Return what a JSON text of a file says, or raise `ValueError`.

    A name that an object has twice is refused: another reader may take the other one.
    """
    try:
        return json.loads(text, object_pairs_hook=record)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_level(level: Any) -> float:
    """Return the probability of an interval, or raise."""
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise ParameterError("level", "must lie between 0 and 1", level)
    return level


def check_callback(value: Any, told: str) -> Callable[[Any], Any]:
    """Return a function of what it is told, which does nothing where none is given."""
    if value is not None and not callable(value):
        raise TypeError(f"callback must be a function of {told}, got {value!r}")
    return value or (lambda _: None)


def check_nonnegative(value: Any, name: str) -> float:
    """Return `value` as a float of zero or above."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number >= 0, got {_describe(value)}")
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"{name} must be a number >= 0, got {value}")
    return float(value)


def read_float(value: Any) -> float:
    """Return a value as a float; text of Python's own form, as 1_000, is refused.

    >>> read_float(" 1e3 ")
    1000.0
    """
    if isinstance(value, str) and "_" in value:
        raise ValueError(f"must be a number without underscores, got {value!r:.60}")
    return float(value)


def check_epsilon(value: Any, name: str = "epsilon") -> Fraction:
    """Return a privacy parameter as an exact fraction.

    A float counts as the decimal number it prints as, so that three releases
    of ``0.1`` fit a budget of ``0.3``; strings such as ``"0.1"`` or ``"1/3"``,
    integers and fractions are exact.
    """
    need = f"{name} must be a finite number > 0"
    if value is None or isinstance(value, bool):
        raise TypeError(f"{need}, got {value!r}; there is no default")
    if isinstance(value, (str, Decimal)) and _is_beyond_doubles(value):
        raise ValueError(f"{need} within the range of a double, got {value}")
    if isinstance(value, str):
        try:
            exact = Fraction(value if "_" not in value else "")
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"{need}, got the string {value!r}") from None
    elif isinstance(value, numbers.Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, (numbers.Real, Decimal)):
        try:
            exact = Fraction(str(value))
        except ValueError:  # infinite, or no number
            raise ValueError(f"{need}, got {value}") from None
    else:
        raise TypeError(f"{need}, got {_describe(value)}")
    if exact.numerator <= 0:
        raise ValueError(f"{need}, got {value}")
    try:
        as_float = float(exact)
    except OverflowError:
        as_float = math.inf
    if not 0.0 < as_float < math.inf:
        raise ValueError(f"{need} within the range of a double, got {value}")
    return exact


def _is_beyond_doubles(value: str | Decimal) -> bool:
    """Whether an exponent is too large to write a number as a fraction in no time."""
    try:
        return "e" in str(value).lower() and abs(float(value)) in (0.0, math.inf)
    except ValueError:
        return False


def check_delta(value: Any) -> float:
    """Return the delta of (epsilon, delta)-privacy, a probability inside (0, 1)."""
    need = "delta must be a probability between 0 and 1, both excluded"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{need}, got {_describe(value)}")
    if not 0.0 < float(value) < 1.0:
        raise ParameterError("delta", need.removeprefix("delta "), value)
    return float(value)


def plain_array(value: Any, name: str) -> NDArray[Any]:
    """Return a value as an array; raise for ragged rows, and for a mask."""
    import numpy as np

    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be masked, got a masked array; fill what the mask hides, "
            "or leave it out"
        )
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{name} must have rows of equal length, got {_describe(value)}"
        ) from None


def number_of(n: int, noun: str) -> str:
    """Return a number with its noun, in the plural but for one."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def check_finite_array(value: Any, name: str, *, ndim: int) -> NDArray[Any]:
    """Return a real array with `ndim` dimensions and no NaN or infinity."""
    import numpy as np

    array = plain_array(value, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != ndim:
        raise ValueError(
            f"{name} must have {number_of(ndim, 'dimension')}, got shape {array.shape}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(
            f"{name} must hold finite numbers, got NaN or infinity; remove them first"
        )
    return array


def check_counts(
    value: Any, n_cells: int, *, signed: bool = False
) -> NDArray[np.int64]:
    """Return a data vector (n,) or table (n, k) of counts as int64."""
    import numpy as np

    array = plain_array(value, "counts")
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"counts must hold integers, got dtype {array.dtype}; pass whole counts"
        )
    if (
        array.ndim not in (1, 2)
        or array.shape[0] != n_cells
        or (array.ndim == 2 and not array.shape[1])
    ):
        raise ValueError(
            f"counts must have shape ({n_cells},) or ({n_cells}, k), one row per "
            f"domain cell, got {array.shape}"
        )
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ValueError(
                "counts must be finite integers, got NaN or infinity; count again"
            )
        if (array != np.rint(array)).any():
            raise ValueError(
                "counts must be whole numbers of records, got fractions; "
                "the sensitivity is defined for records that count one each"
            )
        if (np.abs(array) >= 2.0**53).any():
            raise ValueError(
                "counts must be below 2**53 in magnitude to be exact, got larger "
                "floats; pass integers"
            )
    elif array.dtype.kind == "u" and array.size and array.max() > 2**62:
        raise ValueError(
            "counts must be below 2**62 in magnitude to be exact, got larger ones; "
            "count fewer records at once"
        )
    integers = np.ascontiguousarray(array, dtype=np.int64)
    if not signed and (integers < 0).any():
        raise ValueError(
            "counts must be non-negative, got negative entries; "
            "pass signed=True for differences of counts"
        )
    return integers
