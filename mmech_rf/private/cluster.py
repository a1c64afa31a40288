"""Records that Dask holds: counted where they are, and added up as a tree.

Each partition is counted by one task, whatever process runs it, and what moves between
processes are counts, not records. No task draws anything at random: records are
assigned to trees, and noise is drawn, by the process that fits, from the sum of all
partitions. So a partition that is lost with its worker is counted again, to the same
counts; and it has a number, so that no sum holds it twice or lacks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import add
from typing import Any

from mmech import Counts
from mmech.exceptions import located
from mmech_rf.private.records import counted, encoded_blocks
from mmech_rf.schema import Schema

FAN_IN = 8
"""Memory: partial counts that one task adds up."""


def is_on_cluster(X: Any) -> bool:
    """Whether records are a Dask frame, a Dask array, or a list of delayed parts."""
    if isinstance(X, (list, tuple)):
        return bool(X) and all(map(_is_lazy, X))
    return _is_lazy(X)


def _is_lazy(X: Any) -> bool:
    return hasattr(X, "__dask_graph__")


def count_partitions(
    schema: Schema, X: Any, y: Any, policies: Mapping[str, str]
) -> Counts:
    """Return the counts of all records, class last: sensitive.

    The same, with whatever scheduler, partitions and workers; schema and policies go to
    these. Errors name the partition, and the row in it; the records themselves are
    neither in the message nor in the logs of the workers.
    """
    from dask import delayed

    parts = _counted_partitions(schema, X, y, partial(_count, schema, policies))
    names = range(len(parts))
    sums = [
        delayed(_named)(part, name) for name, part in zip(names, parts, strict=True)
    ]
    while len(sums) > 1:
        groups = range(0, len(sums), FAN_IN)
        sums = [delayed(_add)(sums[first : first + FAN_IN]) for first in groups]
    total: Counts = sums[0].compute()
    if total._chunks != frozenset(names):
        raise RuntimeError(
            "the cluster lost a partition; nothing was released: fit again"
        )
    return total


def _counted_partitions(schema: Schema, X: Any, y: Any, count: Any) -> Sequence[Any]:
    """Return a delayed result of `count` for every partition."""
    from dask import delayed

    if hasattr(type(X), "columns") and hasattr(type(y), "map_partitions"):
        _check_as_many(X.npartitions, y.npartitions)
        columns, names = list(X.columns), [*schema.feature_names, *schema.required]
        if all(columns.count(name) == 1 for name in names):
            X = X[names]
        # One expression, so that both are read at once, and nothing else is.
        counted = X.map_partitions(
            count,
            y,
            meta=(None, object),
            align_dataframes=False,
            enforce_metadata=False,
        )
        found: Sequence[Any] = counted.to_delayed()
        return found
    if hasattr(type(X), "rechunk"):
        X = X.rechunk({1: -1}) if X.ndim == 2 else X
        if hasattr(type(y), "rechunk") and y.shape[0] == X.shape[0]:
            y = y.rechunk({0: X.chunks[0]})
    records, labels = _delayed_parts(X, "X"), _delayed_parts(y, "y")
    _check_as_many(len(records), len(labels))
    return [delayed(count)(*both) for both in zip(records, labels, strict=True)]


def _delayed_parts(values: Any, name: str) -> list[Any]:
    if not is_on_cluster(values):
        raise TypeError(
            f"{name} must be lazy where the other of X and y is, got "
            f"{type(values).__name__}; give both to Dask, or compute() both"
        )
    if isinstance(values, (list, tuple)):
        if len({part.key for part in values}) < len(values):
            raise ValueError(
                f"{name} has a delayed part twice; every record counts once"
            )
        return list(values)
    if not hasattr(type(values), "to_delayed"):
        raise TypeError(
            f"{name} must be a Dask frame, a Dask array or a list of delayed parts, "
            f"got {type(values).__name__}; put it into a list"
        )
    parts = values.to_delayed()
    return list(parts.ravel() if hasattr(parts, "ravel") else parts)


def _check_as_many(records: int, labels: int) -> None:
    if records != labels:
        raise ValueError(
            f"X has {records} partitions but y has {labels}; take both from one frame, "
            "or rechunk them alike"
        )


# ---- what workers run ----------------------------------------------------------------


def _count(
    schema: Schema, policies: Mapping[str, str], X: Any, y: Any
) -> Counts | Exception:
    """Return the counts of a partition, or what is wrong with it.

    It is returned because workers log the arguments of tasks that raise.
    """
    try:
        return counted(schema, encoded_blocks(schema, X, y, policies))
    except (TypeError, ValueError) as error:
        return error.with_traceback(None)


def _named(found: Counts | Exception, number: int) -> Counts:
    """Return the counts of a partition under its number, or raise what it has found."""
    with located(f"partition {number}"):
        if isinstance(found, Exception):
            raise found
    return found._named(number)


def _add(sums: Sequence[Counts]) -> Counts:
    return reduce(add, sums)
