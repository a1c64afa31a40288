"""Marginals, their algebra, and residuals: orthogonal blocks, one per subset.

The marginal over a subset a of the attributes sums the data vector over all
others. With the orthogonal projectors P_s onto the 2^d ANOVA subspaces,
M_aᵀM_a = (n / n_a) Σ_{s⊆a} P_s. So grams of stacked marginals and their
pseudoinverses are of the form Σ_s κ_s P_s. Subsets are bit masks: bit i is
attribute i.

Where a marginal over s answers all interactions inside s, its residual answers only
those of exactly the attributes s. Residuals of different subsets are orthogonal. So the
gram, the pseudoinverse and the errors of a stack have closed forms over the listed
subsets, at any number of attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, singledispatch
from itertools import accumulate, combinations, pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.arrays import Subset
from mmech.checks import check_finite_array, check_integer, magnitude, sizes_label
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Symmetric,
    exact_sums,
    held,
    product_of,
    query_matrix,
    read_only,
)
from mmech.operators.basic import Diagonal, Identity, Total
from mmech.operators.compose import Scaled, VStack, check_weight
from mmech.operators.explicit import Dense
from mmech.operators.kronecker import Kronecker
from mmech.operators.subsets import TableTree, attributes_of, mask_of

MAX_TABLES = 2**12
"""Products in the marginal algebra go by way of at most this number of marginals."""

MAX_CANCELLATION = 1e5
"""Largest sum of the weights of these marginals, in units of the least eigenvalue."""


def check_domain_shape(domain_shape: Any) -> tuple[int, ...]:
    """Return attribute sizes as a tuple of positive Python integers."""
    try:
        sizes = tuple(domain_shape)
    except TypeError:
        raise TypeError(
            "domain_shape must be a sequence of attribute sizes, got "
            f"{type(domain_shape).__name__}"
        ) from None
    if not sizes:
        raise ValueError("domain_shape must name an attribute, got none; add one")
    if set(map(type, sizes)) == {int} and min(sizes) >= 1:  # as most often
        return sizes
    return tuple(check_integer(size, "an attribute size") for size in sizes)


def check_attributes(attributes: Any, d: int) -> tuple[int, ...]:
    """Return a sorted tuple of distinct attribute positions below d."""
    if isinstance(attributes, (int, np.integer)):
        attributes = (attributes,)
    if not isinstance(attributes, Iterable):
        raise TypeError(
            f"attributes must be positions, such as (0, 2), got {attributes!r}"
        )
    chosen = tuple(check_integer(i, "an attribute", minimum=0) for i in attributes)
    if any(i >= d for i in chosen):
        raise ValueError(
            f"a marginal over attribute {max(chosen)} is not defined: the domain has "
            f"attributes 0..{d - 1}"
        )
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"a marginal names each attribute once, got {chosen}")
    return tuple(sorted(chosen))


def _check_enumerable(operator: QueryMatrix) -> None:
    """Raise if the cells of a domain are too many to multiply."""
    if operator.shape[1] > LIMITS.enumerated_cells:
        raise DomainTooLargeError(
            f"a product over {magnitude(operator.shape[1])} cells does not fit in "
            "memory; measure the records of so large a domain instead of its cells"
        )


@query_matrix("Marginal", init=False)
class Marginal(Kronecker):
    """The table of counts over some attributes: sums over all the others.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute; cells are in C order.
    attributes : sequence of int
        Positions of the attributes that are kept; sorted. Empty for the total.

    Raises
    ------
    ValueError
        If an attribute is not in the domain or named twice.

    Examples
    --------
    >>> from mmech import Marginal
    >>> Marginal((2, 3), [0]) @ [1, 2, 3, 4, 5, 6]
    array([ 6, 15])
    """

    def __init__(
        self, domain_shape: Iterable[int], attributes: Iterable[int] | int
    ) -> None:
        sizes = check_domain_shape(domain_shape)
        kept = check_attributes(attributes, len(sizes))
        self._set(domain_shape=sizes, attributes=kept)

    @cached_property  # type: ignore[misc]
    def factors(self) -> Sequence[QueryMatrix]:
        """Identities and totals, made when first asked for."""
        leaves = {n: (Total(n), Identity(n)) for n in set(self.domain_shape)}
        kept = set(self.attributes)
        return tuple(leaves[n][i in kept] for i, n in enumerate(self.domain_shape))

    dtype = np.dtype(np.int64)
    is_nonnegative = True

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of table cells, and number of domain cells."""
        sizes = self.domain_shape
        return (product_of(sizes[i] for i in self.attributes), product_of(sizes))

    domain_shape: tuple[int, ...]
    attributes: tuple[int, ...]

    def _arguments(self) -> str:
        return f"{self.domain_shape}, {list(self.attributes)}"

    def _rmatmat(self, y: Array, /) -> Array:
        _check_enumerable(self)
        return super()._rmatmat(y)

    def pinv(self) -> QueryMatrix:
        summed = self.shape[1] // self.shape[0]
        return Scaled(1 / summed, self.T)

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1:
            return super()._power_sums(power, axis)
        _check_enumerable(self)
        return np.ones(self.shape[1], np.int64)  # a record lies in one cell

    def sensitivity(self) -> float:
        return 1.0

    l2_sensitivity = sensitivity


def check_weights(
    weights: Mapping[Any, float], n_attributes: int, kind: str
) -> dict[tuple[int, ...], float]:
    """Return weights by sorted subsets of attributes; at least one is not zero."""
    if not isinstance(weights, Mapping):
        raise TypeError(
            "weights must be a dict of attributes to weights, such as {(0, 1): 1.0}, "
            f"got {type(weights).__name__}"
        )
    checked: dict[tuple[int, ...], float] = {}
    for attributes, weight in dict(weights).items():
        key = check_attributes(attributes, n_attributes)
        if key in checked:
            raise ValueError(f"the {kind} over {key} is given twice")
        checked[key] = check_weight(weight)
    if not any(checked.values()):
        raise ValueError(
            f"the weights are all zero; at least one {kind} needs a weight"
            if checked
            else f"weights must name at least one {kind}, got none"
        )
    return checked


class Tables(QueryMatrix):
    """Base of weighted tables over some subsets of the attributes, stacked."""

    domain_shape: tuple[int, ...]
    weights: Mapping[Subset, float]

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return (type(self), (self.domain_shape, dict(self.weights)))

    def _arguments(self) -> str:
        return f"{len(self.weights)} of {sizes_label(self.domain_shape)}"

    @cached_property
    def counts(self) -> list[int]:
        """Number of rows of every table."""
        return [product_of(self.domain_shape[i] for i in s) for s in self.weights]

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and number of domain cells."""
        return (sum(self.counts), product_of(self.domain_shape))


@query_matrix("Marginals", init=False)
class Marginals(Tables, VStack):
    """Several weighted marginals of one domain, stacked.

    Products sum every table from a smaller one that contains it, so that marginals of
    h attributes cost about h + 1 passes over the cells together.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute.
    weights : mapping of (sequence of int) to float, or list of (sequence of int)
        Weight of the marginal over each subset of attributes; rows come in the
        order of the mapping. Weights may have any sign. A list gives them weight one.

    Attributes
    ----------
    weights : dict of tuple to float
        The same, with sorted subsets.

    Raises
    ------
    ValueError
        If there is no marginal, all weights are zero, or a subset occurs twice.

    Examples
    --------
    >>> from mmech import Marginals
    >>> A = Marginals((2, 3), {(0,): 0.25, (0, 1): 0.75})
    >>> A.shape, A.sensitivity()
    ((8, 6), 1.0)
    """

    def __init__(
        self, domain_shape: Iterable[int], weights: Mapping[Any, float] | list[Any]
    ) -> None:
        sizes = check_domain_shape(domain_shape)
        if isinstance(weights, list):
            keys = [check_attributes(key, len(sizes)) for key in weights]
            if len(set(keys)) < len(keys):
                raise ValueError(
                    f"a list of marginals names each once, got {weights}; pass a dict "
                    "of attributes to weights"
                )
            weights = dict.fromkeys(keys, 1)
        checked = check_weights(weights, len(sizes), "marginal")
        self._set(domain_shape=sizes, weights=MappingProxyType(checked))

    @cached_property  # type: ignore[misc]
    def blocks(self) -> Sequence[QueryMatrix]:
        """The weighted marginals as operators, made when first asked for."""
        shape, pairs = self.domain_shape, self.weights.items()
        return tuple(weight * Marginal(shape, key) for key, weight in pairs)

    @cached_property
    def _tables(self) -> TableTree:
        return TableTree(self.domain_shape, self.weights)

    @cached_property
    def _offsets(self) -> list[int]:
        return [0, *accumulate(self.counts)]

    def _matmat(self, x: Array, /) -> Array:
        _check_enumerable(self)
        out = np.empty((self.shape[0], x.shape[1]), x.dtype)
        weights = list(self.weights.values())
        for number, table in self._tables.sums(x):
            part = out[self._offsets[number] : self._offsets[number + 1]]
            np.multiply(table, x.dtype.type(weights[number]), out=part)
        return out

    def _rmatmat(self, y: Array, /) -> Array:
        _check_enumerable(self)
        parts = zip(pairwise(self._offsets), self.weights.values(), strict=True)
        return self._tables.spread(
            [y[start:stop] * y.dtype.type(weight) for (start, stop), weight in parts]
        )

    def sensitivity(self) -> float:
        """Return the sum of the absolute weights, at any domain size."""
        return float(sum(abs(weight) for weight in self.weights.values()))

    def l2_sensitivity(self) -> float:
        """Return the root of the summed squared weights, at any domain size."""
        return math.hypot(*self.weights.values())

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1:
            return super()._power_sums(power, axis)
        _check_enumerable(self)
        total = sum(abs(weight) ** power for weight in self.weights.values())
        return exact_sums(np.full(self.shape[1], total, np.float64), self.dtype)

    def gram(self) -> QueryMatrix:
        if len(self.domain_shape) > LIMITS.lattice_attributes:
            return super().gram()
        eigenvalues = np.zeros(2 ** len(self.domain_shape))
        for key, weight in self.weights.items():
            eigenvalues[mask_of(key)] = float(weight) ** 2
        eigenvalues *= subset_cells(self.domain_shape)
        return Anova(self.domain_shape, superset_sums(eigenvalues))

    def pinv(self) -> QueryMatrix:
        """Return (AᵀA)⁺Aᵀ, exact in the marginal algebra."""
        if len(self.domain_shape) > LIMITS.lattice_attributes:
            return super().pinv()
        return self.gram().pinv() @ self.T


@query_matrix("Anova")
class Anova(Symmetric):
    """Σ_s κ_s P_s: an operator that is diagonal in the ANOVA subspaces.

    P_s projects on the interactions of exactly the attributes s. Products cost one
    small orthogonal transform per attribute and direction, or fewer passes by way of
    marginals where few have weights.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute.
    eigenvalues : array_like, shape (2^d,)
        κ_s for every subset s as a bit mask.

    Examples
    --------
    >>> from mmech import Anova
    >>> Anova((2, 2), [1, 0, 0, 0]).to_dense()  # the average
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25]])
    """

    domain_shape: tuple[int, ...]
    eigenvalues: ArrayLike

    def __post_init__(self) -> None:
        sizes = check_domain_shape(self.domain_shape)
        check_lattice(len(sizes))
        values = check_finite_array(self.eigenvalues, "eigenvalues", ndim=1)
        if values.size != 2 ** len(sizes):
            raise ValueError(
                f"eigenvalues must be {2 ** len(sizes)} finite numbers, one per subset "
                f"of the {len(sizes)} attributes, got shape {values.shape}"
            )
        self._set(domain_shape=sizes, eigenvalues=read_only(values.astype(np.float64)))

    _values = held("eigenvalues", NDArray[np.float64])

    @property
    def shape(self) -> tuple[int, int]:
        n = product_of(self.domain_shape)
        return (n, n)

    def _arguments(self) -> str:
        return sizes_label(self.domain_shape)

    @cached_property
    def _transform(self) -> Kronecker:
        return Kronecker([Dense(_contrasts(size)) for size in self.domain_shape])

    @cached_property
    def _spectrum(self) -> NDArray[np.float64]:
        """Eigenvalue of every contrast, in cell order, shape (n,)."""
        masks = np.zeros(1, np.int64)
        for i, size in enumerate(self.domain_shape):
            bits = (np.arange(size) > 0).astype(np.int64) << i
            masks = (masks[:, None] | bits).ravel()
        return self._values[masks]

    @cached_property
    def _by_tables(self) -> tuple[TableTree, NDArray[np.float64]] | None:
        """Tables and weights u with Σ_a u_a M_aᵀM_a = Σ_s κ_s P_s, if that is faster.

        The weights are differences of eigenvalues: they are taken only where what
        cancels costs few digits of the smallest eigenvalue.
        """
        weights = superset_sums(self._values, -1.0)
        used = np.flatnonzero(weights)
        sizes = np.abs(self._values[self._values != 0])
        if not 0 < used.size <= MAX_TABLES or (
            np.abs(weights).sum() > MAX_CANCELLATION * sizes.min()
        ):
            return None
        tree = TableTree(self.domain_shape, map(attributes_of, used.tolist()))
        if tree.work > len(self.domain_shape) * self.shape[1]:
            return None
        return tree, weights[used] / subset_cells(self.domain_shape)[used]

    def _matmat(self, x: Array, /) -> Array:
        _check_enumerable(self)
        floats = x.astype(np.float64, copy=False)
        if self._by_tables is not None:
            tree, weights = self._by_tables
            tables = {number: t * weights[number] for number, t in tree.sums(floats)}
            return tree.spread(tables).astype(x.dtype, copy=False)
        contrasts = self._transform._matmat(floats) * self._spectrum[:, None]
        return self._transform._rmatmat(contrasts).astype(x.dtype, copy=False)

    def gram(self) -> Anova:
        return Anova(self.domain_shape, np.square(self._values))

    def pinv(self) -> Anova:
        """Return the operator with reciprocal eigenvalues, zero staying zero."""
        largest = np.abs(self._values).max()
        keep = np.abs(self._values) > 1e-13 * largest
        inverse = np.divide(1.0, self._values, out=np.zeros(keep.size), where=keep)
        return Anova(self.domain_shape, inverse)

    def diag(self) -> Array:
        """Return the diagonal, which is constant, shape (n,)."""
        n = self.shape[0]
        return np.full(n, self.trace() / n)

    def column_square_sums(self) -> Array:
        """Return the squared column norms, which are constant, shape (n,)."""
        return self.gram().diag()

    row_square_sums = column_square_sums

    def trace(self) -> float:
        """Return Σ_s κ_s rank(P_s), at any domain size."""
        return float(self._values @ subset_ranks(self.domain_shape))


def all_marginals(
    domain_shape: Iterable[int], order: int, *, lower_orders: bool = False
) -> Marginals:
    """Return all marginals over exactly, or at most, `order` attributes.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute.
    order : int
        Number of attributes of a marginal.
    lower_orders : bool, default=False
        Whether marginals over fewer attributes, down to the total, come first.

    Returns
    -------
    Marginals

    Examples
    --------
    >>> from mmech import all_marginals
    >>> all_marginals((2, 3, 4), 2)
    Marginals(3 of 2x3x4) shape=(26, 24)
    """
    sizes = check_domain_shape(domain_shape)
    order = check_integer(order, "order", minimum=0)
    if order > len(sizes):
        raise ValueError(
            f"order must be at most the number of attributes, {len(sizes)}, got {order}"
        )
    orders = range(order + 1) if lower_orders else [order]
    keys = [key for h in orders for key in combinations(range(len(sizes)), h)]
    return Marginals(sizes, dict.fromkeys(keys, 1))


# ---- the lattice of subsets ---------------------------------------------------


def check_lattice(d: int) -> None:
    """Raise if 2^d subsets are too many to list."""
    if d > LIMITS.lattice_attributes:
        raise DomainTooLargeError(
            f"{d} attributes have 2^{d} subsets, too many to list (at most "
            f"{LIMITS.lattice_attributes} attributes)"
        )


def lattice_product(inside: list[float], outside: list[float]) -> NDArray[np.float64]:
    """Return Π_{i∈s} inside_i Π_{i∉s} outside_i for every subset s."""
    out = np.ones(1)
    for with_i, without_i in zip(inside, outside, strict=True):
        out = np.concatenate([out * without_i, out * with_i])
    return out


def subset_cells(domain_shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return c_s = n / n_s for every subset: cells summed into one table entry."""
    return lattice_product([1.0] * len(domain_shape), [float(n) for n in domain_shape])


def subset_ranks(domain_shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return m_s = Π_{i∈s} (n_i - 1), the dimension of every ANOVA subspace."""
    return lattice_product([n - 1.0 for n in domain_shape], [1.0] * len(domain_shape))


def superset_sums(
    values: NDArray[np.float64], sign: float = 1.0
) -> NDArray[np.float64]:
    """Return Σ_{a⊇s} values_a of every subset s, or values from sums by the sign -1."""
    sums = values.copy()
    for bit in range(sums.size.bit_length() - 1):
        pairs = sums.reshape(-1, 2, 2**bit)
        pairs[:, 0] += sign * pairs[:, 1]
    return sums


def _contrasts(size: int) -> NDArray[np.float64]:
    """Return an orthogonal matrix whose first row is constant (Helmert)."""
    matrix = np.zeros((size, size))
    matrix[0] = 1 / np.sqrt(size)
    for row in range(1, size):
        norm = np.sqrt(row * (row + 1))
        matrix[row, :row] = 1 / norm
        matrix[row, row] = -row / norm
    return matrix


@singledispatch
def marginals_of(operator: QueryMatrix) -> Marginals | None:
    """Return the weighted marginals that an operator is made as, else ``None``."""
    return None


marginals_of.register(Marginals, lambda tables: tables)
marginals_of.register(
    Marginal, lambda table: Marginals(table.domain_shape, {table.attributes: 1})
)


# ---- interaction contrasts ---------------------------------------------------


@query_matrix("Residuals", init=False)
class Residuals(Tables):
    r"""Several weighted residuals of one domain, stacked.

    The residual over a subset s of the attributes is

    .. math:: R_s = \bigotimes_{i \in s} (I - J / n_i) \otimes
              \bigotimes_{i \notin s} 1^T , \qquad
              R_s^T R_s = \Big(\prod_{i \notin s} n_i\Big) P_s ,

    where J is all ones and P_s is the projector on the interactions of exactly s. It
    is the marginal over s with the means along every axis taken off: a row for every
    cell. Orthonormal contrasts have the same gram, so the same errors and L2
    sensitivity, and fewer rows, which are not whole numbers over one denominator.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute.
    weights : mapping of (sequence of int) to float
        Weight of the residual over each subset of attributes; rows come in the
        order of the mapping. Attributes of a subset have at least two values.

    Attributes
    ----------
    weights : dict of tuple to float
        The same, with sorted subsets.

    Raises
    ------
    ValueError
        If there is no residual, all weights are zero, or a subset occurs twice. If an
        attribute in a subset has a single value and so no contrast.

    See Also
    --------
    Marginals : tables of counts, whose rows are 0/1.

    References
    ----------
    .. [1] Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for
       noisy marginals under convex loss functions", NeurIPS 2023, Section 4.

    Examples
    --------
    >>> from mmech import Residuals
    >>> A = Residuals((2, 2), {(): 1, (0,): 1})
    >>> A.to_dense().round(3)
    array([[ 1. ,  1. ,  1. ,  1. ],
           [ 0.5,  0.5, -0.5, -0.5],
           [-0.5, -0.5,  0.5,  0.5]])
    """

    def __init__(
        self, domain_shape: Iterable[int], weights: Mapping[Any, float]
    ) -> None:
        sizes = check_domain_shape(domain_shape)
        checked = check_weights(weights, len(sizes), "residual")
        for i in sorted(set().union(*checked)):
            if sizes[i] == 1:
                raise ValueError(
                    f"attribute {i} has a single value and no contrast; leave it out "
                    "of the subsets"
                )
        floats = {key: float(weight) for key, weight in checked.items()}
        self._set(domain_shape=sizes, weights=MappingProxyType(floats))

    @cached_property
    def _stack(self) -> VStack:
        blocks = []
        for subset, weight in self.weights.items():
            factors: list[QueryMatrix] = [Total(n) for n in self.domain_shape]
            for i in subset:
                factors[i] = Dense(np.eye(n := self.domain_shape[i]) - 1 / n)
            blocks.append(Scaled(weight, Kronecker(factors)))
        return VStack(blocks)

    def _matmat(self, x: Array, /) -> Array:
        return self._stack._matmat(x)

    def _rmatmat(self, y: Array, /) -> Array:
        return self._stack._rmatmat(y)

    def pinv(self) -> QueryMatrix:
        """Return Aᵀ with scaled columns: blocks of A are multiples of projectors."""
        squares = self._eigenvalues()
        inverse = np.divide(1.0, squares, out=np.zeros(squares.size), where=squares > 0)
        return self.T @ Diagonal(inverse)

    def _eigenvalues(self) -> Array:
        """Return what A Aᵀ multiplies the rows of each block by, w_s² n / n_s."""
        n = self.shape[1]
        weights = zip(self.weights.values(), self.counts, strict=True)
        squares = [weight**2 * (n // count) for weight, count in weights]
        return np.repeat(np.array(squares, np.float64), self.counts)

    def column_abs_sums(self) -> Array:
        return self._stack.column_abs_sums()

    def column_square_sums(self) -> Array:
        """Return the squared L2 norms of the columns, all equal, shape (n,)."""
        return np.full(self.shape[1], self._column_square_sum())

    def _column_square_sum(self) -> float:
        """Return Σ_s w_s² rank(P_s) / n_s, at any domain size."""
        sizes = self.domain_shape
        return sum(
            weight**2 * math.prod((sizes[i] - 1) / sizes[i] for i in subset)
            for subset, weight in self.weights.items()
        )

    def row_square_sums(self) -> Array:
        """Return the squared L2 norm of every row, shape (m,)."""
        shares = [
            math.prod(1 - 1 / self.domain_shape[i] for i in subset)
            for subset in self.weights
        ]
        return self._eigenvalues() * np.repeat(shares, self.counts)

    def sensitivity(self) -> float:
        return float(self.column_abs_sums().max())

    def l2_sensitivity(self) -> float:
        """Return the L2 norm of a column, at any domain size."""
        return math.sqrt(self._column_square_sum())
