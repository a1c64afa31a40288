"""Checks of the arguments of forests: each returns the normalised value or raises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.exceptions import DomainTooLargeError
from mmech.operators.marginals import check_domain_shape

if TYPE_CHECKING:
    from mmech_rf.forest.forest import Forest

_UNSOUND = {
    1: "holds an attribute outside the domain",
    2: "splits on an attribute already used on its path",
    3: "has children out of depth-first order",
    4: "is a leaf whose id does not count the leaves of its tree from the left",
    5: "leaves its tree with more or fewer nodes than node_offsets says",
    6: "ends a tree with more or fewer leaves than leaf_offsets says",
    7: "has a test that not every child can pass",
}


class HasDomainShape(Protocol):
    """Anything that names the sizes of its attributes, such as a schema."""

    @property
    def domain_shape(self) -> tuple[int, ...]:
        """Number of values of every attribute."""


Domain = HasDomainShape | Sequence[int]
"""A schema, or the sizes of the attributes."""


def check_shape(domain: Any) -> tuple[int, ...]:
    """Return attribute sizes, or those of a schema, as whole numbers, or raise."""
    shape = check_domain_shape(getattr(domain, "domain_shape", domain))
    if max(shape) > np.iinfo(np.int32).max:
        raise DomainTooLargeError(
            f"an attribute may have at most {np.iinfo(np.int32).max:,} values, got "
            f"{max(shape):,}; bin it first"
        )
    return shape


def check_labels(
    labels: ArrayLike, name: str, n_records: int, n_labels: int
) -> NDArray[Any]:
    """Return one label in 0..n_labels - 1 per record."""
    array = np.asarray(labels)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(
            f"{name} must hold integers, got dtype {array.dtype}; convert them"
        )
    if array.shape != (n_records,):
        raise ValueError(
            f"{name} must have one entry for each of the {n_records} records, "
            f"got shape {array.shape}; give one per record"
        )
    bad = array.size and (array.min() < 0 or array.max() >= n_labels)
    if bad:
        row = int(np.argmax((array < 0) | (array >= n_labels)))
        raise ValueError(
            f"{name} must lie in 0..{n_labels - 1}, row {row} does not; correct it"
        )
    return array


def read_only_vector(value: ArrayLike, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a one-dimensional read-only array of its own, copied if need be."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    if array.dtype == dtype and not array.flags.writeable and array.base is None:
        return array
    limits = np.iinfo(dtype)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise ValueError(f"{name} must fit {dtype}, got {brief(array)}")
    frozen = np.array(array, dtype=dtype, order="C")
    frozen.flags.writeable = False
    return frozen


def brief(array: NDArray[Any]) -> str:
    """Print the first entries of an array."""
    shown = ", ".join(str(entry) for entry in array[:8].tolist())
    return f"[{shown}, ...]" if array.size > 8 else f"[{shown}]"


def in_words(number: int) -> str:
    """Print a count that may be astronomically large."""
    return f"{number:,}" if number < 10**15 else f"about 10^{len(str(number)) - 1}"


def check_flags(flags: Iterable[bool] | None, name: str, size: int) -> tuple[bool, ...]:
    """Return one bool per attribute."""
    given = () if flags is None else tuple(flags)
    if len(given) != size:
        raise ValueError(
            f"{name} must say yes or no for each of the {size} attributes, got "
            f"{len(given)} entries"
        )
    return tuple(bool(flag) for flag in given)


def check_layout(forest: Forest) -> int:
    """Raise unless the arrays are sound; return the depth of the forest."""
    from mmech_rf import _kernels

    n_nodes = forest.feature.size
    for name in ("child", "value"):
        of_nodes = getattr(forest, name)
        if of_nodes is not None and of_nodes.size != n_nodes:
            raise ValueError(
                f"{name} must have one entry for each of the {n_nodes} nodes, got "
                f"{of_nodes.size}"
            )
    for name, offsets in (
        ("node_offsets", forest.node_offsets),
        ("leaf_offsets", forest.leaf_offsets),
    ):
        if offsets.size < 2 or offsets[0] != 0 or (np.diff(offsets) < 1).any():
            raise ValueError(
                f"{name} must start at 0 and increase strictly, with one entry "
                f"more than there are trees, got {brief(offsets)}"
            )
    if forest.node_offsets.size != forest.leaf_offsets.size:
        raise ValueError(
            "node_offsets and leaf_offsets must have one entry per tree and one "
            f"more, got {forest.node_offsets.size} and {forest.leaf_offsets.size}"
        )
    if forest.node_offsets[-1] != n_nodes:
        raise ValueError(
            f"node_offsets must end at the number of nodes {n_nodes}, got "
            f"{forest.node_offsets[-1]}"
        )
    report = np.empty(3, np.int64)
    sizes, value, ordered = forest._sizes, forest.value, forest.ordered
    if value is None:
        value = np.full(n_nodes, -1, np.int32)
        value.flags.writeable = False  # one type, and so one compiled kernel
    longest = min(int((sizes - 1).sum()), int(np.diff(forest.node_offsets).max()))
    _kernels.check_trees(
        sizes, np.array(ordered or sizes < 0, np.bool_), forest.feature, forest.child,
        value, forest.node_offsets, forest.leaf_offsets, longest, report,
    )  # fmt: skip
    if report[0]:
        raise ValueError(f"node {report[1]} of the forest {_UNSOUND[int(report[0])]}")
    return int(report[2])


def frozen(**arrays: NDArray[Any]) -> dict[str, Any]:
    """Make new arrays read-only, so that a forest need not copy them."""
    for array in arrays.values():
        array.flags.writeable = False
    return arrays
