"""Evidence of a release: what a stranger needs to check its privacy by arithmetic.

Charges and draws are recorded where they happen: laws and parameters by the samplers
that drew, the strategy by the object that multiplied, costs by the ledger. Nothing is
copied from a plan. `mmech.verify` reads the file, and imports nothing of this package.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import parsed_json
from mmech.families.circulant import Toeplitz
from mmech.families.hierarchy import Hierarchy
from mmech.families.ranges import WidthRange
from mmech.families.separable import Prefix, Suffix
from mmech.limits import LIMITS
from mmech.noise.seam import (
    Draw,
    Drawn,
    Payment,
    Recorded,
    Sampled,
    recording,
    repeated,
)
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal, Identity, Ones, Total
from mmech.operators.compose import Merged, Scaled, VStack
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals
from mmech.operators.partition import Partition, PartitionStack
from mmech.operators.tau import Tau
from mmech.privacy.entry import LedgerEntry, as_json, composed, entry_in_rho, entry_of
from mmech.storage.codec import storable
from mmech.verify import (
    RefutedError,
    UncheckedError,
    check_names,
    examine,
    parsed,
    unique,
)
from mmech.writing import replacing

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
    >>> evidence.content["currency"], evidence.content["cost"]["paid"]
    ('epsilon', '1')
    >>> evidence.content["cost"]["of"][0]["of"][0]["law"]
    'laplace'
    >>> evidence.verdict.partition(":")[0]
    'holds'
    """

    text: str

    def __post_init__(self) -> None:
        try:
            found, why = parsed_json(self.text, unique), ""
            if found["format"] != FORMAT:
                raise ValueError
            if "cost" in found:
                check_names(found["cost"], found["insecure"])
        except (RefutedError, UncheckedError) as error:
            why = f", because {error}"
        except (TypeError, ValueError, LookupError, AttributeError):
            why = " that can be read"
        if why:
            raise ValueError(
                f"the text is no evidence of a release{why}; pass the content of its "
                "file, evidence.json"
            )

    @property
    def content(self) -> dict[str, Any]:
        """The JSON object."""
        return dict(parsed_json(self.text))

    @cached_property
    def verdict(self) -> str:
        """What `mmech.verify` finds, in a sentence: it holds, or why not."""
        return examine(self.text.encode())[1][-1]

    @classmethod
    def nothing(cls) -> Evidence:
        """Return what stands for evidence that is stored elsewhere."""
        return cls(json.dumps({"format": FORMAT}))

    @property
    def values(self) -> list[NDArray[np.int64]]:
        """The whole numbers that draws released, in order: noisy ones, and outcomes."""
        return [numbers for _, numbers in self._outcomes()]

    def _outcomes(self) -> list[tuple[str, NDArray[np.int64]]]:
        """Return the law of each draw, and what it released, in order."""
        draws = [*_having("law", parsed(self.text.encode())["cost"])]
        draws.sort(key=lambda draw: draw.get("place", 0))
        numbers = [(d["law"], d.get("values", d.get("outcome"))) for d in draws]
        return [(law, np.array(o, np.int64)) for law, o in numbers if o is not None]

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Let draws come out as they did, of a release that is made without records.

        Trees come as whole numbers. Raises `ValueError` unless draws are of the same
        laws, and as many.
        """
        outcomes = iter(self._outcomes())

        def again(draw: Draw, sample: Callable[[], Any]) -> Any:
            if draw.kind in ASSIGNMENTS:
                return sample()
            law, numbers = next(outcomes, ("", None))
            if law != draw.kind or numbers is None:
                raise ValueError("the evidence has other draws")
            if "runs" in draw.public:
                return numbers.reshape(sample().shape)
            single = draw.kind in ("exponential", "permute_and_flip")
            return int(numbers[0]) if single else numbers

        with repeated(again):
            yield
        if next(outcomes, None) is not None:
            raise ValueError("the evidence has more draws")

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """What the ledger charged, in order, in the currency of the claim."""
        currency = self.content["currency"]
        found = sorted(_having("order", self.content["cost"]), key=itemgetter("order"))
        return tuple(entry_of(own | {currency: own["paid"]}, currency) for own in found)

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
        root = {
            "how": "sum",
            "released": "all of it",
            "paid": str(composed(entries) if claim is None else claim),
            "of": _payments(self.events, entries, currency),
        }
        content = {
            "format": FORMAT,
            "version": VERSION,
            "date": datetime.date.today().isoformat(),
            "currency": currency,
            "relation": {
                "neighbours": relation.neighbours,
                "records": relation.records_per_person,
            },
            "insecure": any(entry.insecure for entry in entries),
            "cost": root,
            **facts,
        }
        return Evidence(json.dumps(content, ensure_ascii=False))


def _having(fact: str, node: Any) -> Iterator[Any]:
    """Yield draws, or payments, of which a fact is stated."""
    if fact in node:
        yield node
    for part in node.get("of", ()):
        yield from _having(fact, part)


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
    >>> record.evidence().content["cost"]["of"][0]["of"][0]["sampled"]
    [['laplace', '1', [2, 1]]]
    """
    with recording() as events:
        yield Record(events)


def _payments(
    events: Recorded, entries: Sequence[LedgerEntry], currency: str
) -> list[dict[str, Any]]:
    """Return what was paid for, as trees of draws; parts of a partition in one."""
    drawn: list[list[Drawn]] = [[] for _ in entries]
    payment = -1
    for place, event in enumerate(events):
        if isinstance(event, Payment):
            payment += 1
        elif event.kind not in ASSIGNMENTS:
            public = {**event.public, "place": place}
            drawn[payment].append(event._replace(public=public))
    alone: list[dict[str, Any]] = []
    parts: dict[str, dict[str, list[Any]]] = {}
    for order, (entry, events_of) in enumerate(zip(entries, drawn, strict=True), 1):
        by_hand = entry.kind == "other"
        of = [_opaque("paid by hand")] if by_hand else _together(events_of)
        paid = {"how": "sum", "of": of, **as_json(order, entry)}
        if currency in paid:
            paid["paid"] = paid.pop(currency)
        if entry.partition is None:
            alone.append(paid)
        else:
            names = parts.setdefault(entry.partition, {})
            names.setdefault(str(entry.part), []).append(paid)
    for partition, names in parts.items():
        sums = [{"how": "sum", "of": paid} for paid in names.values()]
        alone.append(_largest(partition, sums, names=[*names]))
    return alone


def _largest(
    partition: str, of: Sequence[dict[str, Any]], **names: Any
) -> dict[str, Any]:
    """Return draws on disjoint parts of the records, of which the dearest counts."""
    return {"how": "largest", "partition": partition, **names, "of": of}


def _together(
    draws: Sequence[Drawn], keys: Sequence[str] = ("part", "bags", "together")
) -> list[dict[str, Any]]:
    """Return the draws of one payment, those that share records by what they share."""
    if not keys:
        return [_draw(event) for event in draws]
    key, groups = keys[0], dict[Any, list[Drawn]]()
    for event in draws:
        groups.setdefault(event.public.get(key), []).append(event)
    made = {name: _together(same, keys[1:]) for name, same in groups.items()}
    if key == "part" and len(made) > 1:
        sums = [{"how": "sum", "of": of} for of in made.values()]
        return [_largest("records, by whether tables count them", sums)]
    found = made.pop(None, [])
    for name, of in made.items():
        if key == "bags":
            of = [{"how": "bags", "bags": name[1], "of": of}]
        elif key == "together" and len(of) > 1:
            of = [_largest("nodes or leaves of trees", of)]
        found += of
    return found


def _opaque(why: str) -> dict[str, Any]:
    return {"law": "opaque", "why": why}


def _draw(event: Drawn) -> dict[str, Any]:
    if event.kind == "nothing":
        return {"law": "nothing"}
    return _noise(event) if "runs" in event.public else _selection(event)


def _noise(event: Drawn) -> dict[str, Any]:
    values, public = np.asarray(event.outcome), event.public
    values = values.reshape(len(values) if values.ndim else 1, -1)
    if sum(x.shape[0] if x.shape else 1 for x in event.sampled) != len(values):
        return _opaque(f"the {event.kind} noise was drawn by no sampler of mmech")
    if public.get("strategy") is None:
        moved: dict[str, Any] = {"sensitivity": [str(x) for _, _, x in public["runs"]]}
    else:
        strategy = _stacked(public["strategy"])
        if strategy["kind"] == "merged":  # all columns are those of the matrix inside
            strategy = strategy["of"]
        moved = {"strategy": strategy, "signs": 1 + public["signed"]}
    return {
        "law": event.kind,
        "place": public["place"],
        "columns": values.shape[1],
        "sampled": [_sample(x) for x in event.sampled],
        "contribution": public.get("contribution", 1),
        **moved,
        "values": _packed(values),
    }


def _sample(drawn: Sampled) -> list[Any]:
    rows, columns = (*drawn.shape, 1, 1)[:2]
    found = [drawn.law, str(drawn.parameter), [rows, columns]]
    return [*found, [list(block) for block in drawn.groups]] if drawn.groups else found


def _selection(event: Drawn) -> dict[str, Any]:
    public, outcome = event.public, event.outcome
    if "rate" not in public:
        return _opaque(public.get("why", f"a draw of the kind {event.kind!r}"))
    window = public.get("window") or public.get("unit")
    if event.kind == "tree" and not isinstance(outcome, np.ndarray):
        outcome = outcome.numbers(public["views"])
    return {
        "law": event.kind,
        "place": public["place"],
        "rate": str(public["rate"]),
        "window": str(window or 1),
        "sums": 0 if event.kind == "permute_and_flip" else public.get("sums", 1),
        "signs": 1 if window is not None or public.get("monotone", True) else 2,
        "rows": public["rows"],
        "outcome": _packed(np.asarray(outcome)),
    }


def _packed(values: NDArray[Any]) -> Any:
    """Return whole numbers as JSON: a list, or if it is long, packed differences."""
    flat = np.asarray(values).ravel()
    if flat.size <= LONG or flat.dtype == object:
        return [int(value) for value in flat]
    steps = np.diff(flat.astype(np.int64), prepend=0).astype("<i8")
    text = base64.b64encode(zlib.compress(steps.tobytes(), 6)).decode()
    return {"packed": text, "n": flat.size}


# ---- strategies as terms -------------------------------------------------------------


def term(matrix: QueryMatrix) -> dict[str, Any]:
    """Return an integer matrix as a term, of its class if that is known.

    Others are listed entry by entry, and too large ones are named only.

    Examples
    --------
    >>> from mmech import Prefix
    >>> from mmech.evidence import term
    >>> found = term(Prefix(3))
    >>> found["rows"], found["starts"], found["lengths"], found["values"]
    ([0, 1, 2], [0], [1, 2, 3], [1])
    """
    if type(matrix) in TERMS:
        return TERMS[type(matrix)](matrix)
    m, n = matrix.shape
    if type(matrix) in FEW or m * n <= LIMITS.rounded_entries:
        return _listed(matrix)
    return {"kind": "opaque", "shape": [m, n], "what": repr(matrix)}


def _runs(
    shape: tuple[int, int],
    rows: ArrayLike,
    starts: ArrayLike,
    lengths: ArrayLike = 1,
    values: ArrayLike = 1,
) -> dict[str, Any]:
    """Return a term of values in rows, each in so many columns from one on."""
    arrays = {"rows": rows, "starts": starts, "lengths": lengths, "values": values}
    size = np.size(rows)
    found: dict[str, Any] = {"kind": "runs", "shape": list(shape)}
    for name, given in arrays.items():
        array = np.broadcast_to(np.asarray(given, np.int64), size)
        alike = name != "rows" and size and (array == array[0]).all()
        found[name] = _packed(array[:1] if alike else array)
    return found


def _listed(matrix: QueryMatrix) -> dict[str, Any]:
    """Return a term of all entries, those that are alike and neighbours in one run."""
    rows = matrix.to_sparse().tocsr()
    rows.sum_duplicates()
    entries = rows.tocoo()
    i, j, values = entries.row, entries.col.astype(np.int64), entries.data
    new = (np.diff(i) != 0) | (np.diff(j) != 1) | (np.diff(values) != 0)
    first = np.flatnonzero(np.concatenate([[True], new])[: i.size])
    lengths = np.diff(np.append(first, i.size))
    return _runs(rows.shape, i[first], j[first], lengths, values[first])


def _product(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "kronecker", "left": left, "right": right}


def _kronecker(matrix: Kronecker) -> dict[str, Any]:
    """Return a product; columns that are too many to list without their copies."""
    parts = list(matrix.factors)
    if matrix.shape[1] > LIMITS.listed_cells:
        parts = [f for f in parts if type(f) not in (Ones, Total) or f.shape[0] > 1]
    found = reduce(_product, map(term, parts or [Ones(1, 1)]))
    whole = len(parts) == len(matrix.factors)
    return found if whole else {"kind": "merged", "of": found}


def _weighted(matrix: QueryMatrix, weight: Any) -> dict[str, Any]:
    """Return a term whose rows are multiplied by one whole number."""
    inner = term(matrix)
    return inner if weight == 1 else _product(_runs((1, 1), [0], 0, 1, weight), inner)


def _stacked(matrices: Sequence[QueryMatrix]) -> dict[str, Any]:
    """Return a stack, inside of what merges cells where that is the same for all."""
    first = matrices[0]
    if len(matrices) > 1 and all(
        type(m) is Merged and np.array_equal(m.groups, first.groups)  # type: ignore[attr-defined]
        for m in matrices
    ):
        inner = [m.operator for m in matrices]  # type: ignore[attr-defined]
        return {"kind": "merged", "of": _stacked(inner)}
    blocks = [term(m) for m in matrices]
    return blocks[0] if len(blocks) == 1 else {"kind": "stack", "blocks": blocks}


def _toeplitz(matrix: Toeplitz) -> dict[str, Any]:
    column, row = np.asarray(matrix.first_column), np.asarray(matrix.first_row)
    f = np.concatenate([row[:0:-1], column])
    return _waves(matrix.shape, f, [0], [1])


def _tau(matrix: Tau) -> dict[str, Any]:
    """Return f(i - j) - f(i + j), for i and j from 1 to n, as functions of places."""
    n, fixed = matrix.shape[0], matrix.free_end == "none"
    symbol = np.asarray(matrix.symbol)

    def f(t: NDArray[np.int64]) -> NDArray[np.int64]:
        sign = np.where((t <= n) | fixed, 1, -1)
        return np.asarray(sign * symbol[np.minimum(t, 2 * n + 1 + fixed - t)])

    places = np.arange(2 * n - 1)
    sums = 2 * n - places if matrix.free_end == "first" else places + 2
    return _waves(matrix.shape, f(abs(places - n + 1)), -f(sums), matrix.scales)


def _waves(shape: tuple[int, int], f: Any, g: Any, scales: Any) -> dict[str, Any]:
    """Return a term with the entries (f(i - j) + g(i + j)) s_j."""
    arrays = {"f": f, "g": g, "scales": scales}
    packed = {name: _packed(np.asarray(array)) for name, array in arrays.items()}
    return {"kind": "waves", "shape": list(shape), **packed}


def _ones(matrix: QueryMatrix) -> dict[str, Any]:
    return _runs(matrix.shape, np.arange(matrix.shape[0]), 0, matrix.shape[1])


def _marginal(matrix: Marginal) -> dict[str, Any]:
    sizes, attributes = list(matrix.domain_shape), list(matrix.attributes)
    return {"kind": "marginal", "sizes": sizes, "attributes": attributes}


def _marginals(matrix: Marginals) -> dict[str, Any]:
    return _stacked(
        [
            Scaled(weight, Marginal(matrix.domain_shape, key))
            for key, weight in matrix.weights.items()
        ]
    )


TERMS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    Prefix: lambda a: _runs(a.shape, np.arange(a.n), 0, np.arange(a.n) + 1),
    Suffix: lambda a: _runs(
        a.shape, np.arange(a.n), np.arange(a.n), a.n - np.arange(a.n)
    ),
    Ones: _ones,
    Total: _ones,
    Kronecker: _kronecker,
    VStack: lambda a: _stacked(a.blocks),
    Marginal: _marginal,
    Marginals: _marginals,
    Scaled: lambda a: _weighted(a.operator, a.weight),
    Toeplitz: _toeplitz,
    Tau: _tau,
    Merged: lambda a: {"kind": "merged", "of": term(a.operator)},
}
"""The term of each class, for that very class."""

FEW = {
    Dense,
    Diagonal,
    Hierarchy,
    Identity,
    Partition,
    PartitionStack,
    Sparse,
    WidthRange,
}
"""Classes whose entries are listed however many they are."""
