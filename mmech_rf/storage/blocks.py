"""Estimates of the class counts of blocks, as files have them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import MaximumEntropy, ShrunkEstimate
from mmech.operators.subsets import downward_closure
from mmech.reconstruction.shrinkage import ShrunkPart
from mmech_rf.forest.growth import complete_forest
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.schema import Schema
from mmech_rf.storage.contents import Read, Store, whole_numbers

__all__ = [
    "describe_distribution",
    "describe_estimate",
    "read_blocks",
    "read_distribution",
    "read_ensembles",
    "read_estimate",
]

Blocks = tuple[tuple[int, ...], ...]


def read_blocks(stored: Any, schema: Schema) -> Blocks:
    """Return disjoint sets of attributes, or raise."""
    d = schema.n_features
    blocks = tuple(whole_numbers(block, least=0, most=d - 1) for block in stored)
    together = [i for block in blocks for i in block]
    if len(set(together)) != len(together):
        raise ValueError("blocks that are not disjoint")
    if not all(list(block) == sorted(set(block)) for block in blocks):
        raise ValueError("blocks out of order")
    return blocks


def read_ensembles(stored: Any, blocks: Blocks, schema: Schema) -> list[Ensemble]:
    """Return the complete tree of every block, from its share of epsilon."""
    return [
        Ensemble(
            np.array(block, dtype=np.int64),
            complete_forest(schema.select(list(block)), len(block)),
            Fraction(epsilon),
        )
        for block, epsilon in zip(blocks, stored, strict=True)
    ]


# ---- shrunk tables -----------------------------------------------------------


def describe_estimate(estimate: ShrunkEstimate, store: Store) -> dict[str, Any]:
    """Return the parts of an estimate."""

    def listed(parts: dict[tuple[int, ...], ShrunkPart]) -> list[dict[str, Any]]:
        return [
            {
                "attributes": list(s),
                "table": store(part.table),
                "factor": part.factor,
                "noise": part.noise,
                "rank": part.rank,
                "evidence": part.evidence,
            }
            for s, part in parts.items()
        ]

    return {
        "columns": estimate.n_columns,
        "common": listed(estimate.common),
        "contrasts": listed(estimate.contrasts),
    }


def read_estimate(
    stored: dict[str, Any], read: Read, blocks: Blocks, schema: Schema, *, signed: bool
) -> ShrunkEstimate:
    """Return the estimate of a description; anything that does not fit raises."""
    sizes = schema.domain_shape
    k = 1 if signed else schema.n_classes
    sets = set(downward_closure(list(blocks), sizes))

    def parts(listed: Any) -> dict[tuple[int, ...], ShrunkPart]:
        found = {}
        for part in listed:
            s = whole_numbers(part["attributes"], least=0, most=len(sizes) - 1)
            found[s] = _part(part, read, (*(sizes[i] for i in s), k))
        if set(found) != sets or len(listed) != len(sets):
            raise ValueError("parts that are not those of the blocks")
        return found

    common = parts(stored["common"])
    contrasts = {} if k == 1 else parts(stored["contrasts"])
    if stored["columns"] != k or (k == 1 and stored["contrasts"]):
        raise ValueError("not one column per class")
    return ShrunkEstimate(sizes, k, common, contrasts)


def _part(stored: dict[str, Any], read: Read, shape: tuple[int, ...]) -> ShrunkPart:
    table = read(stored["table"], "float64")
    if table.shape != shape:
        raise ValueError("a table of another shape")
    (rank,) = whole_numbers([stored["rank"]], least=0, most=table.size)
    factor, noise, evidence = (
        float(stored[name]) for name in ("factor", "noise", "evidence")
    )
    if not (0 <= factor <= 1 and 0 < noise < math.inf and math.isfinite(evidence)):
        raise ValueError("shrinkage out of its range")
    return ShrunkPart(table, factor, noise, rank, evidence)


# ---- the distribution of maximum entropy -------------------------------------


def describe_distribution(fit: MaximumEntropy, store: Store) -> dict[str, Any]:
    """Return the factors of a distribution."""
    return {
        "total": fit.total,
        "groups": [list(group) for group in fit.groups],
        "log_columns": store(fit.log_columns),
        "log_tables": [store(table) for table in fit.log_tables],
        "history": list(fit.history),
        "stopped": fit.stopped,
    }


def read_distribution(
    stored: dict[str, Any], read: Read, schema: Schema
) -> MaximumEntropy:
    """Return the distribution of a description; anything that does not fit raises."""
    sizes, k = schema.domain_shape, schema.n_classes
    groups = read_blocks(stored["groups"], schema)
    columns = _logarithms(read(stored["log_columns"], "float64"), (k,))
    tables = tuple(
        _logarithms(read(table, "float64"), (math.prod(sizes[i] for i in group), k))
        for group, table in zip(groups, stored["log_tables"], strict=True)
    )
    total = float(stored["total"])
    if not 0 < total < math.inf or not isinstance(stored["stopped"], bool):
        raise ValueError("not a distribution")
    history = tuple(float(value) for value in stored["history"])
    return MaximumEntropy(
        sizes, total, groups, columns, tables, history, stored["stopped"]
    )


def _logarithms(found: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return logarithms of probabilities that add up to one, or raise."""
    if found.shape != shape or not np.allclose(np.exp(found).sum(axis=0), 1):
        raise ValueError("not logarithms of probabilities")
    return found
