"""`QueryMatrix`: the protocol, operator sugar and generic fallbacks.

No mathematics of a particular matrix lives here. A subclass gives ``shape``,
``_matmat``, ``_rmatmat`` and ``__repr__`` data; everything else is derived, and
overridden where structure pays. Default forms, such as a sum or a transpose, are
operators themselves: the methods that return them import them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, wraps
from inspect import signature
from operator import attrgetter
from typing import Any, NoReturn, Self, TypeVar, dataclass_transform

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech.checks import magnitude
from mmech.exceptions import DomainTooLargeError, PerformanceWarning
from mmech.limits import LIMITS
from mmech.storage.codec import storable

Array = NDArray[Any]
Kind = TypeVar("Kind")
Question = TypeVar("Question", bound=Callable[..., Any])

_INT64 = np.dtype(np.int64)
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


class QueryMatrix:
    """An implicit query matrix of shape (m, n): m queries over n domain cells.

    The names ``shape, dtype, matvec, rmatvec, matmat, rmatmat`` are those that
    SciPy's iterative solvers expect. ``A @ operator`` is an operator,
    ``A @ array`` an array. Integer input to an integer operator gives exact
    int64, float32 stays float32, everything else becomes float64.

    Operators are immutable.

    Examples
    --------
    A subclass needs a shape and two products. Entries are taken for real numbers
    unless the class says that all of them are integers:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from mmech import QueryMatrix
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Differences(QueryMatrix):
    ...     n: int
    ...     dtype = np.dtype(np.int64)
    ...
    ...     @property
    ...     def shape(self):
    ...         return (self.n - 1, self.n)
    ...
    ...     def _matmat(self, x):
    ...         return x[1:] - x[:-1]
    ...
    ...     def _rmatmat(self, y):
    ...         zero = 0 * y[:1]
    ...         return np.concatenate([zero, y]) - np.concatenate([y, zero])
    >>> Differences(4) @ [1, 2, 4, 8]
    array([1, 2, 4])
    >>> Differences(4).sensitivity()
    2.0
    """

    __array_ufunc__ = None
    __array_priority__ = 100.0

    is_nonnegative: bool = False
    """Whether every entry is known to be at least zero."""

    has_row_forms: bool = False
    """Whether norms of rows have closed forms and those of columns visit all cells."""

    # ---- what a subclass gives -------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and number of domain cells n."""
        raise NotImplementedError(f"{type(self).__name__} must define shape")

    @property
    def dtype(self) -> np.dtype[Any]:
        """``float64``, unless the class states ``int64``: all entries are integers."""
        return _FLOAT64

    def _matmat(self, x: Array, /) -> Array:
        """Multiply a C-contiguous (n, k) array of a supported dtype."""
        raise NotImplementedError(f"{type(self).__name__} must define _matmat")

    def _rmatmat(self, y: Array, /) -> Array:
        """Multiply the transpose with a C-contiguous (m, k) array."""
        raise NotImplementedError(f"{type(self).__name__} must define _rmatmat")

    # ---- products --------------------------------------------------------

    def _input(self, x: ArrayLike, length: int, ndims: tuple[int, ...]) -> Array:
        array = np.asarray(x)
        if array.ndim not in ndims or array.shape[0] != length:
            shapes = " or ".join(
                f"({length},)" if ndim == 1 else f"({length}, k)" for ndim in ndims
            )
            raise ValueError(
                f"{self!r} needs an array of shape {shapes} here, got {array.shape}"
            )
        kind = array.dtype.kind
        target: np.dtype[Any]
        if kind in "biu" and self.dtype == _INT64:
            if kind == "u" and array.size and array.max() >= 2**63:
                raise ValueError(
                    f"integers must be below 2**63, got {array.max()}; use floats"
                )
            target = _INT64
        elif array.dtype == _FLOAT32:
            target = _FLOAT32
        elif kind in "biuf":
            target = _FLOAT64
        else:
            raise TypeError(f"query matrices multiply real numbers, got {array.dtype}")
        return np.ascontiguousarray(array, dtype=target)

    def _multiply(self, array: Array, transpose: bool) -> Array:
        """Return a product; integers that could wrap around are refused."""
        if array.ndim == 1:
            return self._multiply(array[:, None], transpose)[:, 0]
        product = self._rmatmat if transpose else self._matmat
        if array.dtype == _INT64 and array.size:
            largest = max(int(array.max()), -int(array.min()))
            bounds = self._norm_bounds
            bound = None if bounds is None else largest * bounds[int(transpose)]
            if bound is None or bound >= 2**63:
                # The bound may be far off; floats are not, where they lose few bits.
                close = bound is None or bound < 2**100
                floats = product(array.astype(_FLOAT64))
                if not close or float(np.abs(floats).max(initial=0.0)) >= 2.0**62:
                    raise ValueError(
                        f"the product of {self!r} with these integers does not fit "
                        "into 64-bit integers; pass floats for approximate numbers"
                    )
        return product(array)

    def matvec(self, x: ArrayLike) -> Array:
        """Return A x for x of shape (n,) or (n, 1)."""
        return self._multiply(self._input(x, self.shape[1], (1, 2)), False)

    def rmatvec(self, y: ArrayLike) -> Array:
        """Return Aᵀ y for y of shape (m,) or (m, 1)."""
        return self._multiply(self._input(y, self.shape[0], (1, 2)), True)

    def matmat(self, x: ArrayLike) -> Array:
        """Return A X for X of shape (n, k)."""
        return self._multiply(self._input(x, self.shape[1], (2,)), False)

    def rmatmat(self, y: ArrayLike) -> Array:
        """Return Aᵀ Y for Y of shape (m, k)."""
        return self._multiply(self._input(y, self.shape[0], (2,)), True)

    # ---- operator sugar --------------------------------------------------

    @property
    def T(self) -> QueryMatrix:
        """The transpose, as an operator of shape (n, m)."""
        from mmech.operators.compose import Transpose

        return Transpose(self)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, QueryMatrix):
            from mmech.operators.algebra import product

            return product(self, other)
        if sp.issparse(other):
            raise TypeError(
                "multiply by Sparse(matrix) for an operator, or by "
                "matrix.toarray() for an array"
            )
        array = np.asarray(other)
        return self.matmat(array) if array.ndim == 2 else self.matvec(array)

    def __rmatmul__(self, other: Any) -> Any:
        array = np.asarray(other)
        if array.ndim == 2:
            return self.rmatmat(array.T).T
        return self.rmatvec(array)

    def __mul__(self, weight: Any) -> QueryMatrix:
        from mmech.operators.algebra import scale

        return scale(weight, self)

    __rmul__ = __mul__

    def __neg__(self) -> QueryMatrix:
        return self * -1

    def __add__(self, other: Any) -> QueryMatrix:
        if not isinstance(other, QueryMatrix):
            raise TypeError(f"cannot add {type(other).__name__} to a query matrix")
        from mmech.operators.compose import Sum

        return Sum([self, other])

    def __sub__(self, other: Any) -> QueryMatrix:
        return self + (-other)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is implicit; call .to_dense()")

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        return True

    @cached_property
    def _answers(self) -> dict[Any, Any]:
        """What was asked of this operator; see `once`."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: kept for name, kept in vars(self).items() if name != "_answers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            freeze(value)
        self._set(**state)

    def _set(self, **values: Any) -> None:
        """Assign attributes of a frozen dataclass, while it is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _arguments(self) -> str:
        """Return the constructor arguments as `repr` shows them: numbers, operators.

        The shape stands for arguments of other kinds.
        """
        values = [
            getattr(self, name, None) for name in signature(type(self)).parameters
        ]
        if not values or not all(isinstance(v, int | QueryMatrix) for v in values):
            values = [*self.shape]
        shown = [v._label() if isinstance(v, QueryMatrix) else str(v) for v in values]
        return ", ".join(shown)

    def _label(self) -> str:
        return f"{type(self).__name__}({self._arguments()})"

    def __repr__(self) -> str:
        return f"{self._label()} shape={self.shape}"

    # ---- structure -------------------------------------------------------

    @cached_property
    def _norm_bounds(self) -> tuple[int, int] | None:
        """Bounds on the L1 norms of rows and columns; None for an unknown class."""
        from mmech.operators.known import norm_bounds

        return norm_bounds(self)

    @property
    def _entry_dtype(self) -> np.dtype[Any]:
        """float64 also for an integer operator whose entries may not fit int64."""
        if self.dtype == _INT64:
            bounds = self._norm_bounds
            if bounds is not None and min(bounds) < 2**63:
                return _INT64
        return _FLOAT64

    def _entries(self, values: Any) -> Any:
        """Return entries that were listed as floats as int64, if they are exact."""
        if self.dtype == _INT64 and self._norm_bounds is None:
            numbers = values.data if sp.issparse(values) else values
            small = float(np.abs(numbers).max(initial=0.0)) < 2.0**53
            if small and (numbers == np.rint(numbers)).all():
                return values.astype(_INT64)
        return values

    def gram(self) -> QueryMatrix:
        """Return AᵀA as an operator of shape (n, n)."""
        from mmech.operators.compose import Gram

        return Gram(self)

    def pinv(self) -> QueryMatrix:
        """Return the Moore-Penrose pseudoinverse as an operator of shape (n, m).

        `mmech.operators.pinv.pinv_method` tells how it is going to multiply.
        """
        from mmech.operators.pinv import pinv

        return pinv(self)

    def column_abs_sums(self) -> Array:
        """Return the L1 norm of every column, shape (n,)."""
        return self._power_sums(1, 0)

    def column_square_sums(self) -> Array:
        """Return the squared L2 norm of every column, shape (n,)."""
        return self._power_sums(2, 0)

    def row_abs_sums(self) -> Array:
        """Return the L1 norm of every row, shape (m,)."""
        return self._power_sums(1, 1)

    def row_square_sums(self) -> Array:
        """Return the squared L2 norm of every row, shape (m,)."""
        return self._power_sums(2, 1)

    def _power_sums(self, power: int, axis: int) -> Array:
        """Return the sums of |entry|^power of every column (axis 0) or row (axis 1)."""
        if power == 1 and self.is_nonnegative:
            product = self.matvec if axis else self.rmatvec
            return exact_sums(product(np.ones(self.shape[axis])), self.dtype)
        self._check_exhaustive()
        out = np.zeros(self.shape[1 - axis])
        for start, block in self._row_blocks() if axis else self._column_blocks():
            powers = np.abs(block.astype(np.float64, copy=False)) ** power
            out[start : start + block.shape[1 - axis]] = powers.sum(axis=axis)
        return exact_sums(out, self.dtype)

    def sensitivity(self) -> float:
        """Return ‖A‖₁, the largest L1 norm of a column.

        This is the L1 sensitivity of x ↦ A x when one record is added or
        removed, exact for weights of any sign.
        """
        return float(self.column_abs_sums().max(initial=0))

    def l2_sensitivity(self) -> float:
        """Return ‖A‖₂, the largest L2 norm of a column.

        This is the L2 sensitivity of x ↦ A x when one record is added or
        removed: what Gaussian noise is calibrated to.
        """
        return math.sqrt(float(self.column_square_sums().max(initial=0)))

    def diag(self) -> Array:
        """Return the main diagonal, shape (min(m, n),)."""
        size = min(self.shape)
        out = np.empty(size, self._entry_dtype)
        for start, block in self._column_blocks(stop=size):
            out[start : start + block.shape[1]] = np.diagonal(block, -start)[
                : block.shape[1]
            ]
        return np.asarray(self._entries(out))

    def trace(self) -> float:
        """Return the sum of the main diagonal of a square operator."""
        if self.shape[0] != self.shape[1]:
            raise ValueError(f"trace needs a square operator, got shape {self.shape}")
        return float(self.diag().sum(dtype=np.float64))

    # ---- conversion ------------------------------------------------------

    def _warn_dense(self, target: str) -> None:
        entries = self.shape[0] * self.shape[1]
        if entries > LIMITS.warned_entries:
            warnings.warn(
                f"{target} materialises {self.shape[0]} x {self.shape[1]} = "
                f"{entries} entries; keep the operator implicit if you can",
                PerformanceWarning,
                stacklevel=3,
            )

    def to_dense(self) -> Array:
        """Return the explicit matrix, shape (m, n); warns when it is large.

        Raises
        ------
        DomainTooLargeError
            If it has more entries than `Limits.exhaustive_entries`.
        """
        entries = self.shape[0] * self.shape[1]
        if entries > LIMITS.exhaustive_entries:
            raise DomainTooLargeError(
                f"{self._label()} of shape {self.shape} has too many entries "
                f"({magnitude(entries)}) to list; use its products, gram() or pinv(), "
                "which list none"
            )
        self._warn_dense("to_dense")
        return self._dense()

    def _dense(self) -> Array:
        if self._entry_dtype == self.dtype:
            return self._explicit_entries()
        return np.asarray(self._entries(QueryMatrix._explicit_entries(self)))

    def _explicit_entries(self) -> Array:
        """Return the entries, which fit the dtype."""
        m, n = self.shape
        if n <= m:
            return self._matmat(np.eye(n, dtype=self._entry_dtype))
        unit = np.eye(m, dtype=self._entry_dtype)
        return np.ascontiguousarray(self._rmatmat(unit).T)

    def to_sparse(self) -> sp.csr_array:
        """Return the explicit matrix in compressed sparse rows; warns when large."""
        self._warn_dense("to_sparse")
        m, n = self.shape
        if 0 in self.shape:
            return sp.csr_array(self.shape, dtype=self._entry_dtype)
        if m < n:
            blocks = [sp.csr_array(block) for _, block in self._row_blocks()]
            return sp.csr_array(sp.vstack(blocks, format="csr"))
        columns = [sp.csc_array(block) for _, block in self._column_blocks()]
        return sp.csr_array(sp.hstack(columns, format="csr"))

    def aslinearoperator(self) -> Any:
        """Return a SciPy ``LinearOperator`` with the same products, as float64.

        Before SciPy 1.15 the eigensolvers refuse integer operators: `eigsh` and
        `svds` take this one instead.
        """
        from scipy.sparse.linalg import LinearOperator

        products = "matvec", "rmatvec", "matmat", "rmatmat"
        own = {name: getattr(self, name) for name in products}
        return LinearOperator(self.shape, dtype=_FLOAT64, **own)

    # ---- block-wise fallbacks --------------------------------------------

    def _check_exhaustive(self) -> None:
        entries = self.shape[0] * self.shape[1]
        if entries > LIMITS.exhaustive_entries:
            raise DomainTooLargeError(
                f"{self._label()} of shape {self.shape} has no closed form here and "
                f"too many entries ({magnitude(entries)}) to visit; combine "
                "structured operators (Kronecker, VStack, Partition) instead"
            )

    def _column_blocks(self, stop: int | None = None) -> Iterator[tuple[int, Array]]:
        """Yield (first column, dense block of columns)."""
        self._check_exhaustive()
        m, n = self.shape
        stop = n if stop is None else stop
        width = max(1, LIMITS.block_entries // max(1, max(m, n)))
        for start in range(0, stop, width):
            size = min(width, stop - start)
            unit = np.zeros((n, size), self._entry_dtype)
            unit[np.arange(start, start + size), np.arange(size)] = 1
            yield start, self._entries(self._matmat(unit))

    def _row_blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row, dense block of rows)."""
        self._check_exhaustive()
        m, n = self.shape
        height = max(1, LIMITS.block_entries // max(1, max(m, n)))
        for start in range(0, m, height):
            size = min(height, m - start)
            yield start, self._rows(start, start + size)

    def _rows(self, start: int, stop: int) -> Array:
        """Return rows start..stop as a dense array."""
        unit = np.zeros((self.shape[0], stop - start), self._entry_dtype)
        unit[np.arange(start, stop), np.arange(stop - start)] = 1
        return np.ascontiguousarray(self._entries(self._rmatmat(unit)).T)


@dataclass_transform(frozen_default=True, eq_default=False)
def query_matrix(tag: str, *, init: bool = True) -> Callable[[type[Kind]], type[Kind]]:
    """Return the decorator of a class: a frozen dataclass that files hold by a tag."""
    make = dataclass(frozen=True, eq=False, repr=False, init=init)
    return lambda kind: storable(tag)(make(kind))


def once(question: Question) -> Question:
    """Return a question about operators that each of them answers once.

    Operators never change, so they keep their answers: all templates, errors and bounds
    share one normal form. Answers under other `Limits` are kept beside.
    """

    @wraps(question)
    def ask(operator: QueryMatrix, *rest: Any) -> Any:
        key = (question, rest, *vars(LIMITS).values())
        if key not in operator._answers:
            operator._answers[key] = question(operator, *rest)
            freeze(operator._answers[key])
        return operator._answers[key]

    return ask  # type: ignore[return-value]


def held(name: str, kind: type[Kind]) -> Kind:
    """Return a property that reads a field as what the constructor makes of it."""
    doc = f"The same as ``{name}``."
    return property(attrgetter(name), doc=doc)  # type: ignore[return-value]


class Symmetric(QueryMatrix):
    """Base of the operators that equal their transpose."""

    def _rmatmat(self, y: Array, /) -> Array:
        return self._matmat(y)

    @property
    def T(self) -> Self:
        """The operator itself, which is symmetric."""
        return self


class Stored(QueryMatrix):
    """Base of the operators that store their entries, and add up powers of them."""

    _entries_held: Array
    """Every entry that is not zero at least once."""

    dtype = held("_entries_held.dtype", np.dtype)

    @cached_property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no entry is negative."""
        return bool((self._entries_held >= 0).all())


class ZeroOne(QueryMatrix):
    """Base of the operators whose entries are zeros and ones: their own squares."""

    dtype = np.dtype(np.int64)
    is_nonnegative = True

    def _power_sums(self, power: int, axis: int) -> Array:
        return super()._power_sums(1, axis)

    def l2_sensitivity(self) -> float:
        return math.sqrt(self.sensitivity())


def power_sums(operator: QueryMatrix, power: int, axis: int) -> Array:
    """Return what `_power_sums` does, by the method that a class of others may have."""
    name = f"{('column', 'row')[axis]}_{('abs', 'square')[power - 1]}_sums"
    sums: Array = getattr(operator, name)()
    return sums


def exact_sums(floats: Array, dtype: np.dtype[Any]) -> Array:
    """Return float64 sums of whole numbers as int64, where they fit.

    Sums that wrap around would give a sensitivity that is too small, and with it
    too little noise. Up to 2**53 the float64 sums of numbers of one sign are exact;
    fast Fourier transforms leave whole numbers a little below or above.
    """
    if dtype == _INT64 and np.abs(floats).max(initial=0.0) < 2.0**53:
        return np.rint(floats).astype(np.int64)
    return floats


def common_dtype(parts: Any) -> np.dtype[Any]:
    """Return int64 if all operators are integer, else float64."""
    return _INT64 if all(part.dtype == _INT64 for part in parts) else _FLOAT64


def freeze(value: Any) -> None:
    """Make the arrays in a stored value read-only again, after a copy."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif sp.issparse(value):
        for part in (value.data, value.indices, value.indptr):
            part.setflags(write=False)
    elif isinstance(value, tuple):
        for part in value:
            freeze(part)


def square(name: str) -> tuple[int, int]:
    """Return a property of the shape (n, n), where an attribute of a name is n."""
    size = attrgetter(name)
    doc = "Number of rows and of columns, which are equal."
    return property(lambda own: (size(own),) * 2, doc=doc)  # type: ignore[return-value]


def read_only(array: Array) -> Array:
    """Return a C-contiguous read-only array that does not alias user memory."""
    frozen = np.array(array, order="C", copy=True)
    frozen.setflags(write=False)
    return frozen


def product_of(sizes: Any) -> int:
    """Return the product of Python integers, exact at any size."""
    return math.prod(int(size) for size in sizes)


def int64_or_float64(array: Array) -> Array:
    """Return integers and booleans as int64, other numbers as float64.

    The one integer of 64 bits whose magnitude does not fit, -2**63, is refused.
    """
    if array.dtype.kind in "biu":
        if array.dtype.itemsize == 8 and array.size:
            extreme = max(int(array.max()), int(array.min()), key=abs)
            if abs(extreme) >= 2**63:
                raise ValueError(
                    "integer entries must be below 2**63 in magnitude, got "
                    f"{extreme}; use floats"
                )
        return array.astype(np.int64)
    return array.astype(np.float64)
