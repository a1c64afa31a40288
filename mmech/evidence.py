"""Evidence of a release: what a stranger needs to check its privacy by arithmetic.

Charges and draws are recorded where they happen: laws and parameters by the samplers
that drew, the strategy by the object that multiplied, costs by the ledger. Nothing is
copied from a plan. `mmech.verify` reads the file, and imports nothing of this package.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.integer_strategy import IntegerStrategy
from mmech.limits import LIMITS
from mmech.noise.seam import Drawn, Payment, Recorded, Sampled, recording
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import (
    AllRange,
    Diagonal,
    Identity,
    Ones,
    Prefix,
    Suffix,
    Total,
)
from mmech.operators.circulant import Toeplitz
from mmech.operators.compose import Product, Scaled
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.hierarchy import Hierarchy
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals
from mmech.operators.merged import Merged
from mmech.operators.partition import Partition, PartitionStack
from mmech.operators.ranges import WidthRange
from mmech.operators.stack import VStack
from mmech.operators.tau import Tau
from mmech.privacy.answers import composed
from mmech.privacy.entry import LedgerEntry, entry_in_rho
from mmech.storage.codec import storable
from mmech.verify import examine
from mmech.writing import replacing

__all__ = ["Evidence", "record_evidence"]

FORMAT, VERSION = "mmech evidence", 1

LONG = 64
"""Longer lists of whole numbers are packed."""

ASSIGNMENTS = frozenset({"assignment", "samples"})
"""Kinds of draws of public law that release nothing by themselves."""


@storable("Evidence")
@dataclass(frozen=True)
class Evidence:
    """All draws of a release that depend on records, and what they were paid by.

    Attributes
    ----------
    text : str
        A JSON object, as `mmech.verify` reads it.

    Examples
    --------
    >>> from mmech import MatrixMechanism, Prefix, record_evidence
    >>> with record_evidence() as record:
    ...     answers = MatrixMechanism(Prefix(4), epsilon=1).answer([4, 0, 9, 2])
    >>> evidence = record.evidence()
    >>> evidence.content["claim"]
    {'currency': 'epsilon', 'cost': '1'}
    >>> evidence.content["draws"][0]["law"]
    'laplace'
    >>> evidence.verdict.partition(":")[0]
    'holds'
    """

    text: str

    def __post_init__(self) -> None:
        found = json.loads(self.text)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError("the text is no evidence of a release")

    @property
    def content(self) -> dict[str, Any]:
        """The JSON object."""
        return dict(json.loads(self.text))

    @cached_property
    def verdict(self) -> str:
        """What `mmech.verify` finds, in a sentence: it holds, or why not."""
        return examine(self.text.encode())[1][-1]

    def including(self, **facts: Any) -> Evidence:
        """Return it with further top-level facts, such as what was published."""
        return Evidence(json.dumps({**self.content, **facts}, ensure_ascii=False))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the text to a file, which may be published."""
        with replacing(path) as unfinished:
            unfinished.write_text(self.text + "\n", encoding="utf-8")


@dataclass(frozen=True, eq=False)
class Record:
    """Charges and draws in order, of which evidence is made."""

    events: Recorded

    def evidence(
        self, claim: Fraction | None = None, currency: str | None = None, **facts: Any
    ) -> Evidence:
        """Return the evidence of what was recorded so far.

        Parameters
        ----------
        claim : Fraction, default=None
            What all of it was promised to cost; ``None`` is what the ledger charged.
        currency : {"epsilon", "rho"}, default=None
            Currency of the claim; ``None`` takes it from the last charge.
        **facts
            Further top-level facts.

        Returns
        -------
        Evidence

        Raises
        ------
        ValueError
            If nothing was charged.
        """
        payments = [event for event in self.events if isinstance(event, Payment)]
        if not payments:
            raise ValueError(
                "nothing was charged within the record; measure or select something "
                "inside of the with statement"
            )
        currency = currency or payments[-1].entry.currency
        entries = [payment.entry for payment in payments]
        if currency == "rho":
            entries = [
                entry_in_rho(entry) if entry.currency == "epsilon" else entry
                for entry in entries
            ]
        relation = payments[0].relation
        if any(payment.relation != relation for payment in payments):
            raise ValueError(
                "the releases of one record must be for one neighbour relation; make a "
                "record for each"
            )
        content = {
            "format": FORMAT,
            "version": VERSION,
            "date": datetime.date.today().isoformat(),
            "claim": {
                "currency": currency,
                "cost": str(composed(entries) if claim is None else claim),
            },
            "relation": {
                "neighbours": relation.neighbours,
                "records_per_person": relation.records_per_person,
            },
            "insecure": any(entry.insecure for entry in entries),
            "payments": [_payment(entry) for entry in entries],
            "draws": list(_draws(self.events)),
            **facts,
        }
        return Evidence(json.dumps(content, ensure_ascii=False))


@contextmanager
def record_evidence() -> Iterator[Record]:
    """Record the releases within a ``with`` statement, as evidence for strangers.

    Yields
    ------
    Record
        Its ``evidence()`` is an `Evidence`, to be saved beside what is published.

    Examples
    --------
    >>> from mmech import noisy_release, record_evidence
    >>> with record_evidence() as record:
    ...     noisy = noisy_release([4, 7], sensitivity=1, epsilon=1, released="counts")
    >>> record.evidence().content["draws"][0]["sampled"]
    [['laplace', '1', [2, 1]]]
    """
    with recording() as events:
        yield Record(events)


def _payment(entry: LedgerEntry) -> dict[str, Any]:
    other = entry.other_cost
    return {
        "released": entry.released,
        "kind": entry.kind,
        "currency": entry.currency,
        "cost": str(entry.cost),
        "other_cost": None if other is None else str(other),
        "part": None if entry.partition is None else [entry.partition, entry.part],
    }


def _draws(events: Recorded) -> Iterator[dict[str, Any]]:
    """Yield what was drawn, each with the position of the charge before it."""
    payment = -1
    for event in events:
        if isinstance(event, Payment):
            payment += 1
        elif event.kind not in ASSIGNMENTS:
            draw = _noise(event) if "runs" in event.public else _selection(event)
            for key in ("part", "together", "bags"):
                if event.public.get(key) is not None:
                    draw[key] = event.public[key]
            yield {"payment": payment, **draw}


def _noise(event: Drawn) -> dict[str, Any]:
    values = np.asarray(event.outcome)
    values = values.reshape(len(values) if values.ndim else 1, -1)
    if sum(own.shape[0] if own.shape else 1 for own in event.sampled) != len(values):
        return {
            "kind": "opaque",
            "why": f"the {event.kind} noise was drawn by no sampler of mmech",
        }
    strategy = event.public.get("strategy")
    moved: dict[str, Any] = {"strategy": None}
    if strategy is None:
        moved["sensitivity"] = [str(own) for _, _, own in event.public["runs"]]
    else:
        moved["strategy"] = _blocks(strategy)
        moved["contribution"] = event.public["contribution"]
        moved["signed"] = event.public["signed"]
    return {
        "kind": "noise",
        "law": event.kind,
        "columns": values.shape[1],
        "sampled": [_sample(own) for own in event.sampled],
        **moved,
        "values": _packed(values),
    }


def _sample(own: Sampled) -> list[Any]:
    rows, columns = (*own.shape, 1, 1)[:2]
    found = [own.law, str(own.parameter), [rows, columns]]
    return [*found, [list(block) for block in own.groups]] if own.groups else found


def _selection(event: Drawn) -> dict[str, Any]:
    public = event.public
    if "rate" not in public:
        why = public.get("why", f"a draw of the kind {event.kind!r}")
        return {"kind": "opaque", "why": why}
    window = public.get("window") or public.get("unit")
    outcome: Any = None  # a tree is in the model
    if isinstance(event.outcome, (int, np.integer)):
        outcome = int(event.outcome)
    elif isinstance(event.outcome, np.ndarray):
        outcome = _packed(event.outcome)
    return {
        "kind": event.kind,
        "rate": str(public["rate"]),
        "window": str(window or 1),
        "sums": public.get("sums", 1),
        "monotone": window is not None or public.get("monotone", True),
        "rows": public["rows"],
        "outcome": outcome,
    }


def _packed(values: NDArray[Any]) -> Any:
    """Return whole numbers as JSON: a list, or packed if it is long."""
    flat = np.asarray(values).ravel()
    if flat.size <= LONG or flat.dtype == object:
        return [int(value) for value in flat]
    whole = np.ascontiguousarray(flat, "<i8")
    text = base64.b64encode(zlib.compress(whole.tobytes(), 6)).decode()
    return {"packed": text, "n": whole.size}


# ---- strategies as terms -------------------------------------------------------------


def _blocks(strategy: IntegerStrategy) -> list[dict[str, Any]]:
    return [
        {
            "matrix": term(block.matrix),
            "weight": block.weight
            if isinstance(block.weight, int)
            else _packed(block.weight),
        }
        for block in strategy.blocks
    ]


def term(matrix: QueryMatrix) -> dict[str, Any]:
    """Return an integer matrix as a term, of its class if that is known.

    Others are listed entry by entry, and too large ones are named only.

    Examples
    --------
    >>> from mmech import Kronecker, Prefix, Total
    >>> from mmech.evidence import term
    >>> term(Kronecker([Prefix(4), Total(2)]))["factors"]
    [{'kind': 'prefix', 'n': 4}, {'kind': 'ones', 'shape': [1, 2]}]
    """
    found = TERMS[type(matrix)](matrix) if type(matrix) in TERMS else None
    if found is not None:
        return found
    m, n = matrix.shape
    if m * n <= LIMITS.rounded_entries:
        return _sparse(Sparse(matrix.to_sparse()))
    return {"kind": "opaque", "shape": [m, n], "what": repr(matrix)}


def _weighted(matrix: QueryMatrix, weight: Any) -> dict[str, Any]:
    """Return a term whose rows are multiplied by one whole number."""
    if weight == 1:
        return term(matrix)
    weights = _packed(np.full(matrix.shape[0], int(weight)))
    return {"kind": "row_scaled", "weights": weights, "of": term(matrix)}


def _stack(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return blocks[0] if len(blocks) == 1 else {"kind": "stack", "blocks": blocks}


def _sparse(matrix: Sparse) -> dict[str, Any]:
    rows = matrix.to_sparse().tocsr()
    rows.sum_duplicates()
    return {
        "kind": "sparse",
        "shape": list(rows.shape),
        **{
            name: _packed(getattr(rows, name)) for name in ("indptr", "indices", "data")
        },
    }


def _partitions(matrix: PartitionStack) -> dict[str, Any]:
    sets = zip(
        np.atleast_2d(matrix.labels), np.atleast_1d(matrix.n_groups), strict=True
    )
    return _stack(
        [
            {"kind": "partition", "labels": _packed(own), "groups": int(groups)}
            for own, groups in sets
        ]
    )


def _hierarchy(matrix: Hierarchy) -> dict[str, Any]:
    levels = []
    for size, weight in matrix.weights.items():
        level = {"kind": "hierarchy", "n": matrix.n, "sizes": [size]}
        if weight != 1:
            rows = _packed(np.full(-(-matrix.n // size), int(weight)))
            level = {"kind": "row_scaled", "weights": rows, "of": level}
        levels.append(level)
    return _stack(levels)


def _product(matrix: Product) -> dict[str, Any] | None:
    if len(matrix.factors) != 2 or type(matrix.factors[0]) is not Diagonal:
        return None
    left, right = matrix.factors
    return {"kind": "row_scaled", "weights": _packed(left.diag()), "of": term(right)}


def _hidden(kind: str, matrix: QueryMatrix, places: ArrayLike) -> dict[str, Any]:
    """Return a term of columns at other places, and a digest of these."""
    whole = np.asarray(places, "<i8")
    digest = hashlib.sha256(whole.tobytes()).hexdigest()
    return {"kind": kind, "map": digest, "of": term(matrix)}


def _window(matrix: WidthRange) -> dict[str, Any]:
    starts = np.arange(matrix.shape[0])
    return {
        "kind": "intervals",
        "n": matrix.n,
        "starts": _packed(starts),
        "stops": _packed(starts + matrix.width),
    }


def _sized(kind: str) -> Callable[[Any], dict[str, Any]]:
    return lambda matrix: {"kind": kind, "n": matrix.shape[1]}


TERMS: Mapping[type, Callable[[Any], dict[str, Any] | None]] = {
    Identity: _sized("identity"),
    Prefix: _sized("prefix"),
    Suffix: _sized("suffix"),
    AllRange: _sized("all_range"),
    Ones: lambda a: {"kind": "ones", "shape": list(a.shape)},
    Total: lambda a: {"kind": "ones", "shape": list(a.shape)},
    Diagonal: lambda a: {"kind": "diagonal", "entries": _packed(a.diag())},
    Dense: lambda a: {
        "kind": "dense",
        "shape": list(a.shape),
        "entries": _packed(a.to_dense()),
    },
    Sparse: _sparse,
    Kronecker: lambda a: {"kind": "kronecker", "factors": [*map(term, a.factors)]},
    VStack: lambda a: _stack([*map(term, a.blocks)]),
    Marginal: lambda a: {
        "kind": "marginal",
        "sizes": list(a.domain_shape),
        "attributes": list(a.attributes),
    },
    Marginals: lambda a: _stack(
        [
            _weighted(Marginal(a.domain_shape, key), weight)
            for key, weight in a.weights.items()
        ]
    ),
    Partition: _partitions,
    PartitionStack: _partitions,
    Hierarchy: _hierarchy,
    WidthRange: _window,
    Scaled: lambda a: _weighted(a.operator, a.weight),
    Product: _product,
    Toeplitz: lambda a: {
        "kind": "toeplitz",
        "first_column": _packed(a.first_column),
        "first_row": _packed(a.first_row),
    },
    Tau: lambda a: {
        "kind": "tau",
        "symbol": _packed(a.symbol),
        "free_end": a.free_end,
        "scales": _packed(a.scales),
    },
    Merged: lambda a: _hidden(
        "permuted" if a.reorders else "merged", a.operator, a.groups
    ),
}
"""The term of each class, for that very class; ``None`` where it has none."""
