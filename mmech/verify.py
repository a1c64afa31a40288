r"""Check the evidence of a release: ``python verify.py PATH``, with NumPy and no more.

A release of the matrix mechanism is :math:`y = A x + z`: counts of records x, a matrix
of whole numbers A, noise z. Its evidence, ``evidence.json``, names A, the law and the
scale of z, what was paid, and the noisy numbers y. This file computes anew what follows
from these, in whole numbers and fractions, and believes no number that it can compute.
It imports nothing of the package that wrote the evidence: a copy of it is enough.

PATH is a folder with an ``evidence.json``, this file itself, or an archive that holds
it. The exit code is 0 if everything holds, 1 if something is refuted, and 2 if
something cannot be checked; the last line says so in one sentence.

Lines T1 to T15 are those of the theorem in ``notebooks/proofs/evidence.md``.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import math
import re
import stat
import sys
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import accumulate, chain, combinations, pairwise
from pathlib import Path
from reprlib import repr as short
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Checker", "Effort", "column_sums", "examine", "kappa", "main", "term"]

Array = NDArray[Any]
Listed = tuple[Array, Array, Array]
"""Rows, columns and values, one of each per entry that may not be zero."""

FILE, DESCRIPTION = "evidence.json", "description.json"
MOST_BYTES, MOST_PUBLISHED, MOST_TEXT, MOST_DIRECTORY = 2**24, 2**28, 2**24, 2**22
"""Bytes of evidence, published files, their tables, and an archive's directory."""

MOST_LISTED, MOST_EFFORT, MOST_RECORDS, CALL = 10**7, 3 * 10**7, 10**6, 1000
"""Numbers in one list and in all; records of a file; numbers in the time of a call."""

FITS, MOST_BITS = 2**62, 20_000
"""What is left to 64-bit integers; bits of a common denominator."""

PROVED = "Proved by arithmetic, by lines of notebooks/proofs/evidence.md:"
TRUSTED = "Trusted, because no arithmetic on these numbers can show it:"
UNSEEN, UNCHECKED, REFUTED = "Not looked at:", "Cannot be checked:", "Refuted:"


class RefutedError(Exception):
    """The evidence says what is not so."""


class UncheckedError(Exception):
    """The evidence cannot be read, or not be checked."""


class NotListedError(Exception):
    """There are too many entries to list them, or they are hidden."""


def _need(condition: Any, sentence: str, error: Any = UncheckedError) -> None:
    if not condition:
        raise error(sentence)


def _hold(condition: Any, sentence: str) -> None:
    _need(condition, sentence, RefutedError)


class Effort:
    """How many numbers may still be listed, so that no file keeps a reader busy."""

    left, depth = MOST_EFFORT, 0

    def spend(self, count: int, error: Any = UncheckedError) -> int:
        """Return the count, or raise where it is too large."""
        _need(count <= min(MOST_LISTED, self.left), "its lists are too long", error)
        self.left -= count
        return count


# ---- reading -------------------------------------------------------------------------


def _content(path: Path, most: int) -> bytes:
    """Return the bytes of a plain file: no link, no device, and not too long."""
    state = path.lstat()
    _need(stat.S_ISREG(state.st_mode), f"{short(path.name)} must be a plain file")
    _need(state.st_size <= most, f"{short(path.name)} must have at most {most} bytes")
    return path.read_bytes()


def _member(path: Path) -> bytes:
    """Return the evidence in a model file, whose directory and members may lie."""
    with open(path, "rb") as stream:
        stream.seek(max(0, path.stat().st_size - 2**17))
        tail = stream.read()
    end = tail.rfind(b"PK\5\6")
    directory = int.from_bytes(tail[end + 12 : end + 16], "little")
    plain = end >= 0 and directory <= MOST_DIRECTORY and b"PK\6\7" not in tail
    _need(plain, "an archive must have a directory of at most 4 MB")
    with zipfile.ZipFile(path) as archive:
        found = [own for own in archive.infolist() if own.filename == DESCRIPTION]
        plain = len(found) == 1 and found[0].compress_type in (0, 8)
        _need(plain, f"an archive must hold one {DESCRIPTION}, stored or deflated")
        with archive.open(found[0]) as member:
            entries = _parsed(member.read(MOST_BYTES + 1))["entries"]
    texts = [own["arguments"]["text"] for own in entries if own["class"] == "Evidence"]
    _need(len(texts) == 1, f"one evidence is needed in an archive, got {len(texts)}")
    return str(texts[0]).encode()


def _parsed(text: bytes) -> Any:
    """Return JSON without repeated names, its packed numbers unpacked."""
    effort = Effort()
    effort.left = MOST_LISTED

    def record(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        _need(len(found) == len(pairs), "a name occurs twice in a record")
        if "packed" not in found:
            return found
        n, unpacker = effort.spend(_whole(found, "n", 0)), zlib.decompressobj()
        data = base64.b64decode(found["packed"], validate=True)
        numbers = unpacker.decompress(data, 8 * n + 1)
        _need(len(numbers) == 8 * n and unpacker.eof, f"packed numbers must be {n}")
        return np.frombuffer(numbers, "<i8").astype(np.int64)

    few = len(text) <= MOST_BYTES and text.count(b"{") < MOST_RECORDS
    _need(few, f"evidence must have at most {MOST_BYTES} bytes, few of them braces")
    return json.loads(text.decode(), object_pairs_hook=record)


def _exact(record: Any, name: str) -> Fraction:
    """Return a fraction above zero that is written "7/2" or "3"."""
    text = record[name]
    found = re.fullmatch("([0-9]{1,4000})(?:/([0-9]{1,4000}))?", text)
    parts = [int(own or 1) for own in found.groups()] if found else [0]
    _need(all(parts), f"{name!r} must be a fraction above zero, got {short(text)}")
    return Fraction(*parts)


def _flag(record: Any, name: str, *default: bool) -> bool:
    value: bool = record.get(name, *default)
    _need(type(value) is bool, f"{name!r} must be true or false, got {short(value)}")
    return value


def _wholes(
    record: Any,
    name: str,
    least: int = -FITS,
    most: int = FITS,
    size: int | None = None,
) -> Array:
    """Return a list of whole numbers, or packed ones, as 64-bit integers."""
    own = record[name]
    if not isinstance(own, np.ndarray):  # neither booleans nor numbers beyond 64 bits
        known = all(type(number) is int and abs(number) <= FITS for number in own)
        _need(
            known and type(own) is list,
            f"{name!r} must be whole numbers, got {short(own)}",
        )
    array = np.array(own, np.int64)
    inside = not array.size or least <= array.min() <= array.max() <= most
    _need(inside, f"{name!r} must be whole numbers from {least}")
    _need(size in (None, array.size), f"{name!r} must have another number of entries")
    return array


def _whole(record: Any, name: str, least: int = 1, *default: int) -> int:
    return int(_wholes({name: [record.get(name, *default)]}, name, least)[0])


# ---- matrices ------------------------------------------------------------------------


class Term(NamedTuple):
    """A matrix of whole numbers.

    Attributes
    ----------
    m, n : int
        Numbers of rows and columns; n is zero where columns are hidden.
    listed : callable
        Returns all entries, or raises `NotListedError`.
    sums : callable
        From a norm and weights w of rows, () or (m,), to the sums over i of w_i f(a_ij)
        of every column j; or to one number, if all are equal; ``None`` without a closed
        form. For L1 and L2 it may be the largest, where columns are hidden or too many.
    """

    m: int
    n: int
    listed: Callable[[], Listed]
    sums: Callable[[str, Array], Any] = lambda norm, w: None


def _measured(entries: Array, norm: str) -> Array:
    """Return a, |a| or a², as sums, L1 and squared L2 norms add them up."""
    powers = {"sum": entries, "L1": abs(entries)}
    return powers[norm] if norm in powers else entries * entries


def column_sums(matrix: Term, norm: str, weights: Any, effort: Effort) -> Array:
    """Return weighted sums of columns, by structure and from all entries (T5).

    Both must agree. Structure is added up in Python integers, entries in 64 bits where
    a bound on the sums fits.
    """
    effort.spend(CALL)
    w = np.asarray(weights, object)
    w = np.asarray(w[0], object) if w.ndim and (w == w[0]).all() else w
    closed, listed = matrix.sums(norm, w), None
    with suppress(NotListedError):
        _need(matrix.n, "its columns are hidden", NotListedError)
        size = effort.spend(matrix.n, NotListedError)  # before anything is listed
        rows, columns, entries = matrix.listed()
        most = matrix.m * int(abs(entries).max(initial=1)) ** 2 * int(np.max(abs(w)))
        kind = np.int64 if most < FITS else object
        listed = np.zeros(size, kind)
        own = (w[rows] if w.ndim else w).astype(kind)
        np.add.at(listed, columns, _measured(entries.astype(kind), norm) * own)
    found = listed if closed is None else np.asarray(closed, object)
    if found is None:
        raise UncheckedError("a matrix has too many entries to add, or hides them")
    _hold(listed is None or np.all(found == listed), "two ways to the sum disagree")
    return found.astype(object)


def _grid(m: int, n: int, effort: Effort, entry: Any) -> Callable[[], Listed]:
    """Return what lists the entries of all places."""

    def listed() -> Listed:
        rows, columns = np.divmod(np.arange(effort.spend(m * n, NotListedError)), n)
        return rows, columns, entry(rows, columns)

    return listed


def _dense(record: Any, effort: Effort) -> Term:
    m, n = _wholes(record, "shape", 1, FITS, 2).tolist()
    entries = _wholes(record, "entries", size=m * n)
    return Term(m, n, _grid(m, n, effort, lambda i, j: entries))


def _diagonal(record: Any, effort: Effort) -> Term:
    entries = _wholes(record, "entries")
    places = np.arange(effort.spend(entries.size))
    return Term(places.size, places.size, lambda: (places, places, entries))


def _partition(record: Any, effort: Effort) -> Term:
    m = effort.spend(_whole(record, "groups"))
    labels = _wholes(record, "labels", -1, m - 1)
    inside = np.flatnonzero(labels >= 0)
    entries = labels[inside], inside, np.ones_like(inside)
    return Term(m, labels.size, lambda: entries)


def _sparse(record: Any, effort: Effort) -> Term:
    m, n = _wholes(record, "shape", 1, FITS, 2).tolist()
    ends = _wholes(record, "indptr", 0, size=effort.spend(m + n) - n + 1)
    entries = _wholes(record, "data", size=int(ends[-1]))
    columns = _wholes(record, "indices", 0, n - 1, entries.size)
    _need(not ends[0] and np.all(np.diff(ends) >= 0), "'indptr' must grow from zero")
    rows = np.repeat(np.arange(m), np.diff(ends))
    once = np.unique(rows * n + columns).size == rows.size
    _need(once, "an entry of a sparse matrix is listed twice")
    return Term(m, n, lambda: (rows, columns, entries))


def _identity(record: Any, effort: Effort) -> Term:
    n = _whole(record, "n")

    def listed() -> Listed:
        places = np.arange(effort.spend(n, NotListedError))
        return places, places, np.ones_like(places)

    return Term(n, n, listed, lambda norm, w: w)


def _ones(record: Any, effort: Effort) -> Term:
    m, n = _wholes(record, "shape", 1, FITS, 2).tolist()
    listed = _grid(m, n, effort, lambda i, j: np.ones_like(i))
    return Term(m, n, listed, lambda norm, w: w.sum() if w.ndim else w * m)


def _ordered(record: Any, effort: Effort) -> Term:
    """Return sums over cells from starts[r] to stops[r] - 1 of an ordered domain.

    Those are prefixes, suffixes, all ranges, given ones, or levels of blocks. Weights
    of rows are added at the starts, taken off at the stops, and summed up.
    """
    kind, n = record["kind"], effort.spend(_whole(record, "n"))
    cells, none = np.arange(n), np.zeros(n, np.int64)
    starts, stops = (none, cells + 1) if kind == "prefix" else (cells, none + n)
    if kind == "intervals":
        starts = _wholes(record, "starts", 0, n)
        stops = _wholes(record, "stops", 0, n, starts.size)
    elif kind == "all_range":
        effort.spend(n * (n + 1) // 2)
        starts, stops = np.triu_indices(n) + np.array([[0], [1]])
    elif kind == "hierarchy":
        sizes = _wholes(record, "sizes", 1).tolist()
        counts = [effort.spend(-(-n // size)) for size in sizes]
        starts = np.concatenate([cells[::size] for size in sizes])
        stops = np.minimum(starts + np.repeat(sizes, counts), n)
    _need(np.all(starts <= stops), "a range must not end before it starts")

    def sums(norm: str, w: Array) -> Array:
        steps = np.zeros(n + 1, w.dtype)
        np.add.at(steps, starts, w)
        np.subtract.at(steps, stops, w)
        return np.cumsum(steps)[:-1]

    def listed() -> Listed:
        lengths = stops - starts
        places = np.arange(effort.spend(int(lengths.sum()), NotListedError))
        columns = places + np.repeat(stops - np.cumsum(lengths), lengths)
        return np.repeat(np.arange(starts.size), lengths), columns, np.ones_like(places)

    return Term(starts.size, n, listed, sums)


def _toeplitz(record: Any, effort: Effort) -> Term:
    """Return the matrix of first_column[i - j], above the diagonal first_row[j - i]."""
    column, row = (_wholes(record, f"first_{own}") for own in ("column", "row"))
    m, n = column.size, row.size
    _need(m and n and column[0] == row[0], "'first_row' must start as 'first_column'")

    def sums(norm: str, w: Array) -> Any:
        """Take differences of running sums, along the diagonals that a column meets."""
        both = column.astype(object), row.astype(object)
        below, above = (np.cumsum(_measured(own, norm)) for own in both)
        j = np.arange(n)
        over = above - above[np.maximum(j - m, 0)]
        inside = np.where(j < m, below[np.maximum(m - 1 - j, 0)], 0)
        return None if w.ndim else (inside + over) * w

    def entry(i: Array, j: Array) -> Array:
        return np.where(i >= j, column[np.maximum(i - j, 0)], row[np.maximum(j - i, 0)])

    return Term(m, n, _grid(m, n, effort, entry), sums)


def _tau(record: Any, effort: Effort) -> Term:
    """Return the matrix of (f(i - j) - f(i + j)) s_j, for i and j from 1 to n.

    f is even; with two fixed ends it has the period 2n + 2, with a free last end
    f(t + 2n + 1) = -f(t), and a free first end reverses rows and columns.
    """
    scales, end = _wholes(record, "scales", -(2**30), 2**30), record["free_end"]
    n, fixed = scales.size, end == "none"
    _need(n and end in ("none", "first", "last"), "'free_end' must be one of three")
    symbol = _wholes(record, "symbol", -(2**30), 2**30, n + 1 + fixed)

    def f(t: Array) -> Array:
        sign = np.where((t <= n) | fixed, 1, -1)
        return sign * symbol[np.minimum(t, 2 * n + 1 + fixed - t)]

    def entry(i: Array, j: Array) -> Array:
        a, b = (n - i, n - j) if end == "first" else (i + 1, j + 1)
        return (f(abs(a - b)) - f(a + b)) * scales[j]

    return Term(n, n, _grid(n, n, effort, entry))


def _kronecker(record: Any, effort: Effort) -> Term:
    """Return the Kronecker product: sums over columns multiply."""
    factors = [term(own, effort) for own in record["factors"]]
    m, n = math.prod(f.m for f in factors), math.prod(f.n for f in factors)

    def sums(norm: str, w: Array) -> Any:
        parts = [column_sums(f, norm, 1, effort) for f in factors]
        if w.ndim:
            return None
        if all(part.ndim == 0 for part in parts) or not 0 < n <= MOST_LISTED:
            equal = all(np.all(part == part.max()) for part in parts)
            most = math.prod(part.max() for part in parts) * w
            return most if equal or norm != "sum" else None
        own = [np.broadcast_to(p, f.n) for p, f in zip(parts, factors, strict=True)]
        return reduce(lambda a, b: (a[:, None] * b).ravel(), own) * w

    def listed() -> Listed:
        _need(0 < max(m, n) < FITS, "its cells are too many", NotListedError)
        rows, columns, entries = (np.full(1, own) for own in (0, 0, 1))
        parts = [f.listed() for f in factors]
        effort.spend(math.prod(own.size for own, _, _ in parts), NotListedError)
        for f, (i, j, own) in zip(factors, parts, strict=True):
            rows = (rows[:, None] * f.m + i).ravel()
            columns = (columns[:, None] * f.n + j).ravel()
            entries = _times(entries[:, None], own).ravel()
        return rows, columns, entries

    return Term(m, n, listed, sums)


def _times(left: Array, right: Array) -> Array:
    fits = int(abs(left).max(initial=0)) * int(abs(right).max(initial=0)) < FITS
    _need(fits, "a matrix has entries beyond 64 bits")
    return left * right


def _marginal(record: Any, effort: Effort) -> Term:
    """Return the product of an identity per attribute that is kept, and of totals."""
    sizes = _wholes(record, "sizes", 1).tolist()
    kept = _wholes(record, "attributes", 0, len(sizes) - 1).tolist()
    _need(kept == sorted(set(kept)), "'attributes' must be sorted and distinct")
    factors = [{"kind": "ones", "n": n, "shape": [1, n]} for n in sizes]
    for i in kept:
        factors[i]["kind"] = "identity"
    return _kronecker({"factors": factors}, effort)


def _stack(record: Any, effort: Effort) -> Term:
    """Return blocks of rows: sums over columns add up."""
    maps = {(own["kind"], own.get("map")) for own in record["blocks"]}
    if len(maps) == 1 and all(type(own) is str for own in next(iter(maps))):
        of = {"kind": "stack", "blocks": [own["of"] for own in record["blocks"]]}
        return _hidden({"kind": next(iter(maps))[0], "of": of}, effort)
    blocks = [term(own, effort) for own in record["blocks"]]
    ends, widths = [0, *accumulate(b.m for b in blocks)], {b.n for b in blocks}
    _hold(len(widths - {0}) <= 1, "blocks of a strategy have other columns")

    def sums(norm: str, w: Array) -> Any:
        parts = [w[a:b] if w.ndim else w for a, b in pairwise(ends)]
        used = [own for own in zip(blocks, parts, strict=True) if np.any(own[1])]
        return sum(column_sums(block, norm, own, effort) for block, own in used)

    def listed() -> Listed:
        _need(min(widths), "its columns are hidden", NotListedError)
        parts = [block.listed() for block in blocks]
        rows = [start + own[0] for start, own in zip(ends, parts, strict=False)]
        columns, entries = (np.concatenate([own[k] for own in parts]) for k in (1, 2))
        return np.concatenate(rows), columns, entries

    return Term(ends[-1], min(widths), listed, sums)


def _row_scaled(record: Any, effort: Effort) -> Term:
    inner = term(record["of"], effort)
    factors = _wholes(record, "weights", size=inner.m)

    def sums(norm: str, w: Array) -> Array:
        own = _measured(factors.astype(object), norm) * w
        return column_sums(inner, norm, own, effort)

    def listed() -> Listed:
        rows, columns, entries = inner.listed()
        return rows, columns, _times(entries, factors[rows])

    return Term(inner.m, inner.n, listed, sums)


def _hidden(record: Any, effort: Effort) -> Term:
    """Return a matrix of which each column is one of another, or zero if merged."""
    inner = term(record["of"], effort)

    def sums(norm: str, w: Array) -> Any:
        found = column_sums(inner, norm, w, effort)
        unknown = norm == "sum" and (found.ndim or record["kind"] == "merged")
        return None if unknown else found.max()

    return Term(inner.m, 0, inner.listed, sums)


TERMS: dict[str, Callable[[Any, Effort], Term]] = {
    "identity": _identity, "ones": _ones, "partition": _partition, "stack": _stack,
    "diagonal": _diagonal, "dense": _dense, "sparse": _sparse, "tau": _tau,
    "prefix": _ordered, "suffix": _ordered, "all_range": _ordered,
    "intervals": _ordered, "hierarchy": _ordered, "row_scaled": _row_scaled,
    "kronecker": _kronecker, "marginal": _marginal, "toeplitz": _toeplitz,
    "merged": _hidden, "permuted": _hidden,
}  # fmt: skip
"""Kinds of matrices, by what reads them: their shape, sums over columns, entries."""


def term(record: Any, effort: Effort) -> Term:
    """Return the matrix that a record of the evidence says."""
    kind = record["kind"]
    _need(kind in TERMS, f"matrices of kind {short(kind)} cannot be checked")
    effort.depth += effort.spend(CALL) // CALL
    _need(effort.depth < 32, "a matrix is nested too deeply")
    made = TERMS[kind](record, effort)
    effort.depth -= 1
    return made


# ---- draws ---------------------------------------------------------------------------

LINES = {"laplace": "T2", "gaussian": "T3", "k_norm": "T4", "permute_and_flip": "T8"}
LINES |= dict.fromkeys(("exponential", "exponential_rows", "quantiles", "tree"), "T7")
"""The line of the theorem for each law of noise and each kind of selection."""


class Run(NamedTuple):
    """Rows with noise of one law, as the sampler noted it."""

    start: int
    stop: int
    law: str
    scale: Fraction
    groups: Any


def _runs(draw: Any) -> list[Run]:
    """Return what the sampler noted, for as many numbers as were released."""
    law, columns, start = draw["law"], _whole(draw, "columns", 1, 1), 0
    _need(law in ("laplace", "gaussian", "k_norm"), f"law {short(law)} is not known")
    runs = []
    for name, scale, shape, *groups in draw["sampled"]:
        rows, width = _wholes({"shape": shape}, "shape", 1, FITS, 2).tolist()
        known = name in (law, "laplace" if law == "k_norm" else law)
        _hold(known and width == columns, f"the noise is not {law} noise of its shape")
        start, t = start + rows, _exact({"scale": scale}, "scale")
        runs.append(Run(start - rows, start, name, t, groups))
    right = _wholes(draw, "values").size == start * columns > 0
    _hold(right, "other numbers were released than noise was drawn for")
    return runs


def _common(runs: Sequence[Run]) -> tuple[Array, int]:
    """Return whole numbers w of runs, and D, with w / D = 1 / scale."""
    whole = 1
    for own in {run.scale for run in runs}:
        whole = math.lcm(whole, own.numerator)
        _need(whole.bit_length() < MOST_BITS, "scales have no short common denominator")
    return np.array([int(whole / run.scale) for run in runs], object), whole


def kappa(moves: int, scale: Fraction) -> Fraction:
    r"""Return the rho of Laplace noise on a number that moves by m, rounded up (T9).

    .. math:: \kappa(m, t) = \frac{1}{t} \left(m - \frac{2 q (1 - q^m)}{1 - q^2}\right)
              \le \frac{m^2}{2 t^2}, \qquad q = e^{-1/t}
    """
    parabola = (moves / scale) ** 2 / 2
    if not Fraction(1, 10**40) < scale < 10**40:
        return parabola
    with localcontext(prec=99 + 4 * len(str(math.ceil(scale)))):
        x = Decimal(scale.denominator) / Decimal(scale.numerator)
        q = (-x).exp()
        price = (moves - 2 * q * (1 - (-x * moves).exp()) / (1 - q * q)) * x
    return min(parabola, Fraction(price) * (1 + Fraction(1, 10**30)))


def _of_norm(matrix: Term, run: Run, effort: Effort) -> Array:
    """Return the load of columns under noise of a norm, of one run (T4).

    The group counts that a column changes most. Groups of one list must have equal
    totals in every column, because noise keeps to those.
    """
    heights, start = np.zeros((), object), run.start
    (lists,) = run.groups if run.law == "k_norm" else [[[run.stop - run.start]]]
    for sizes in lists:
        totals = []
        for size in _wholes({"groups": sizes}, "groups", 1).tolist():
            w = np.zeros(effort.spend(matrix.m), np.int64)
            w[start : start + size], start = 1, start + size
            heights = np.maximum(heights, column_sums(matrix, "L1", w, effort))
            if len(sizes) > 1:
                totals.append(column_sums(matrix, "sum", w, effort))
        equal = all(np.all(total == totals[0]) for total in totals)
        _hold(equal, "groups whose noise has equal totals have others")
    _hold(start == run.stop, "noise was drawn for other groups than are stated")
    return heights


def _rows_in_rho(
    matrix: Term, runs: Sequence[Run], moves: int, effort: Effort
) -> Fraction:
    """Return the rho of the dearest column under Laplace noise, at most (T9).

    Entries have the price kappa, in units that are rounded up. Where they are too many
    to list, those that are 0, 1 or -1 have it, and others its parabola.
    """
    which = np.repeat(range(len(runs)), [run.stop - run.start for run in runs])
    with suppress(NotListedError):
        rows, columns, entries = matrix.listed()
        own = np.stack([abs(entries), which[rows]])
        pairs, at = np.unique(own, axis=1, return_inverse=True)
        _need(pairs.shape[1] < 5000, "its prices are too many", NotListedError)
        prices = [kappa(moves * int(a), runs[int(r)].scale) for a, r in pairs.T]
        unit = max(prices) / 2**40
        whole = np.array([math.ceil(price / unit) for price in prices])
        found = np.zeros(effort.spend(int(columns.max()) + 1), np.int64)
        np.add.at(found, columns, whole[at.ravel()])
        return int(found.max()) * unit
    norms = [column_sums(matrix, norm, 1, effort) for norm in ("L1", "L2")]
    small = np.all(norms[0] == norms[1])
    parabolas = [(moves / r.scale) ** 2 / 2 for r in runs]
    prices = [kappa(moves, r.scale) for r in runs] if small else parabolas
    unit = max(prices) / 2**40
    loads = np.array([math.ceil(price / unit) for price in prices], object)[which]
    return int(column_sums(matrix, "L2", loads, effort).max()) * unit


class Checker:
    """What all checks of one evidence share: neighbours, effort, and what was said.

    Attributes
    ----------
    said : mapping of str to Counter of str
        Sentences by their title, and how often each was said.
    """

    def __init__(self) -> None:
        self.said: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.effort = Effort()
        self.records, self.factor, self.currency = 1, 1, "epsilon"

    def say(self, title: str, sentence: str) -> None:
        """Note a sentence under a title, or under the line of the theorem it proves."""
        line = title[0] == "T" and title[1:].isdigit()
        self.said[PROVED if line else title][f"{title:4}" * line + sentence] += 1

    def attempt(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a step returns, or note why it failed and return ``None``."""
        try:
            return step(*arguments)
        except RefutedError as error:
            self.say(REFUTED, str(error))
        except UncheckedError as error:
            self.say(UNCHECKED, str(error))
        except Exception as error:  # whatever files may hold that others wrote
            words = f"it is not of version 1, or damaged: {type(error).__name__}"
            self.say(UNCHECKED, f"{words}: {short(str(error))}")
        return None

    def verdict(self, holds: Any) -> tuple[int, str]:
        """Return the exit code, and a sentence."""
        if self.said[REFUTED]:
            return 1, f"refuted: {next(iter(self.said[REFUTED]))}"
        if self.said[UNCHECKED]:
            return 2, f"cannot check: {next(iter(self.said[UNCHECKED]))}"
        return 0, f"holds: {holds}"

    # ---- what a draw costs ----

    def cost(self, draw: Any) -> dict[str, Fraction]:
        """Return what a draw costs, and say by which line of the theorem."""
        kind = draw["kind"] if draw["kind"] != "noise" else draw["law"]
        _need(kind in LINES, f"{short(kind)} is not checked: {short(draw.get('why'))}")
        costs = (self.noise if draw["kind"] == "noise" else self.selection)(draw)
        currency = "epsilon" if "epsilon" in costs else "rho"
        self.say(LINES[kind], f"{kind} costs {currency} = {_number(costs[currency])}")
        return costs

    def noise(self, draw: Any) -> dict[str, Fraction]:
        """Return what noise costs, in each currency that it has (T2 to T6, T9)."""
        runs, law, effort = _runs(draw), draw["law"], self.effort
        contribution = _whole(draw, "contribution", 1, 1)
        factor, (loads, whole) = self.factor * contribution, _common(runs)
        w = loads.repeat([run.stop - run.start for run in runs])
        if draw["strategy"] is None:
            own = [_exact({"size": s}, "size") for s in draw["sensitivity"]]
            moved = [*zip(own, runs, strict=True)]
            size = sum((s / r.scale for s, r in moved), Fraction())
            factor, line, matrix = self.factor, "T6", None
            self.say(TRUSTED, "how much one record changes numbers without a matrix")
        else:
            records = [own["matrix"] for own in draw["strategy"]]
            matrix, line = _stack({"blocks": records}, effort), "T5"
            _hold(matrix.m == w.size, "noise was drawn for other rows")
            norm, columns = "L2" if law == "gaussian" else "L1", np.zeros((), object)
            if law == "k_norm":
                for run, load in zip(runs, loads, strict=True):
                    columns = columns + _of_norm(matrix, run, effort) * load
            else:
                columns = column_sums(matrix, norm, w, effort)
            size = Fraction(int(np.max(columns)), whole)
        unit = "variances" if law == "gaussian" else "scales"
        words = f"rows: {w.size}; most by a unit change, in {unit}: {_number(size)}"
        self.say(line, words)
        if law == "gaussian":
            return {"rho": factor**2 * size / 2}
        if self.currency == "epsilon":
            return {"epsilon": factor * size}
        prices = [kappa(1, 1 / (factor * size))]
        if law == "laplace" and not matrix:  # a whole change in one number costs most
            whole_moves = [kappa(math.ceil(factor * s), r.scale) for s, r in moved]
            prices.append(sum(whole_moves, Fraction()))
        elif law == "laplace" and matrix:
            signed, moves = contribution > 1 or _flag(draw, "signed", False), factor
            with suppress(UncheckedError):  # hidden columns may have any sign
                sums = [column_sums(matrix, norm, 1, effort) for norm in ("sum", "L1")]
                if not signed and np.all(sums[0] == sums[1]):
                    moves = self.records
            price = _rows_in_rho(matrix, runs, moves, effort)
            prices.append(factor // moves * price)
        return {"epsilon": factor * size, "rho": min(prices)}

    def selection(self, draw: Any) -> dict[str, Fraction]:
        """Return what a draw among candidates costs (T7 to T9)."""
        rate, rows = _exact(draw, "rate"), _whole(draw, "rows", 1, 1)
        times = self.factor * rows * (1 if _flag(draw, "monotone", True) else 2)
        self.say(TRUSTED, "how much one record changes the scores of candidates")
        if draw["kind"] == "permute_and_flip":
            return {"epsilon": rate * times, "rho": kappa(1, 1 / (rate * times))}
        _hold(2**36 % rate.denominator == 0, "a rate is no multiple of 2^-36")
        roundings = Fraction(12 * _whole(draw, "sums", 1, 1), 2**36)
        epsilon = (rate * _exact(draw, "window") + roundings) * times
        return {"epsilon": epsilon, "rho": epsilon**2 / 8}

    # ---- what all draws cost together ----

    def together(self, costs: Sequence[tuple[Any, Fraction]]) -> Fraction:
        """Return the sum of costs (T10), of disjoint parts the dearest (T11)."""
        parts: dict[Any, Counter[Any]] = defaultdict(Counter)
        for number, (part, cost) in enumerate(costs):
            partition, name = (number, "") if part is None else part
            parts[partition][name] += cost  # type: ignore[assignment]
            named = part is None or type(partition) is type(name) is str
            _need(named, "parts need names")
        for partition, own in parts.items():
            if isinstance(partition, str):
                words = f"parts of {short(partition)} overlap by name"
                _hold(_are_disjoint(own), words)
                said = f"{len(own)} parts of {short(partition)}"
                self.say("T11", f"of {said} the dearest counts")
                self.say(TRUSTED, f"each record is in at most one of {said}")
        return sum((Fraction(max(own.values())) for own in parts.values()), Fraction())

    def payment(self, payment: Any, draws: Any) -> tuple[Any, dict[str, Fraction]]:
        """Check that a payment covers its draws (T10); return its part and costs."""
        words, currency = short(payment["released"]), payment["currency"]
        stated = {currency: _exact(payment, "cost")}
        if currency != self.currency and payment.get("other_cost") is not None:
            stated[self.currency] = _exact(payment, "other_cost")
        self.attempt(self.covered, payment["kind"], stated, draws, words)
        return payment.get("part"), stated

    def covered(self, kind: str, stated: Any, draws: Any, words: str) -> None:
        """Check stated costs, in each currency, against those of draws (T10)."""
        _need(kind != "other", f"{words} cannot be checked: it was paid by hand")
        _hold(draws, f"{words} was paid for, and no draw of it is shown")
        found = [(draw, self.attempt(self.cost, draw)) for draw in draws]
        in_bags = [draw.get("bags") is not None for draw in draws]
        alike = all(own == (kind == "random_samples") for own in in_bags)
        _hold(alike, f"{words} mixes draws in random samples with others")
        for currency, cost in stated.items() if all(own for _, own in found) else ():
            own = "epsilon" if in_bags[0] else currency
            priced = all(own in costs for _, costs in found)
            _hold(priced, f"a draw of {words} has no price in {own}")
            spent = self.drawn([(draw, costs[own]) for draw, costs in found], words)
            spent = kappa(1, 1 / spent) if own != currency else spent
            said = f"draws cost {currency} = {_number(spent)}"
            _hold(spent <= cost, f"{words}: {said}, and {_number(cost)} was paid")
            self.say("T10", f"{said}, and as much was paid at least")
            if currency == "rho" and any("epsilon" in costs for _, costs in found):
                self.say("T9", "pure epsilon has a price in rho, which was paid")

    def drawn(self, costs: Sequence[tuple[Any, Fraction]], words: str) -> Fraction:
        """Return what the draws of one payment cost together (T10, T15)."""
        dearest: dict[Any, Fraction] = {}
        for number, (draw, cost) in enumerate(costs):
            key = draw.get("part"), draw.get("bags"), draw.get("together", number)
            name = json.dumps(key)
            dearest[name] = max(dearest.get(name, Fraction()), cost)
        parts = defaultdict[Any, Counter[Any]](Counter)
        for name, most in dearest.items():
            part, bags, _ = json.loads(name)
            parts[part][json.dumps(bags)] += most  # type: ignore[assignment]
        if len(dearest) < len(costs) or len(parts) > 1:
            self.say(TRUSTED, f"draws of {words} are said to share or split records")
        sums = [[self.in_bags(*own) for own in each.items()] for each in parts.values()]
        return max(sum(each, Fraction()) for each in sums)

    def in_bags(self, bags: str, cost: Any) -> Fraction:
        r"""Return what draws cost in n bags of K ~ Poisson(1) copies of records (T15).

        A unit change of cost :math:`\epsilon` costs :math:`\log E e^{K \epsilon}
        = e^\epsilon - 1` in each, and there are `factor` of them.
        """
        if bags == "null":
            return Fraction(cost)
        number, one = json.loads(bags)[1], cost / self.factor
        _need(
            type(number) is int and number > 0 and one < 1000, "its bags are too many"
        )
        with localcontext(prec=60):
            power = (Decimal(one.numerator) / Decimal(one.denominator)).exp()
        price = Fraction(power) * (1 + Fraction(1, 10**40)) - 1
        self.say("T15", f"a bag costs epsilon = {_number(price)} of one record")
        return number * price * self.factor

    def claim(self, document: Any) -> str:
        """Check that draws are paid for, within the claim (T10 to T12)."""
        payments, draws, claim = map(document.get, ("payments", "draws", "claim"))
        currency, total = claim["currency"], _exact(claim, "cost")
        _need(currency in ("epsilon", "rho"), f"{short(currency)} is no currency")
        self.currency = currency
        own: list[list[Any]] = [[] for _ in payments]
        for draw in draws:
            at = _whole(draw, "payment", 0)
            _hold(at < len(payments), f"a draw was not paid for: no payment {at}")
            own[at].append(draw)
        paid = [self.payment(*pair) for pair in zip(payments, own, strict=True)]
        priced = all(currency in stated for _, stated in paid)
        _hold(priced, f"a payment has no price in {short(currency)}")
        spent = self.together([(part, stated[currency]) for part, stated in paid])
        said = f"all payments cost {currency} = {_number(spent)}"
        _hold(spent <= total, f"{said}, and the claim is {_number(total)}")
        self.say("T12", f"{said}, within the claim of {_number(total)}")
        return f"{currency} = {_number(total)}"

    # ---- all of it ----

    def check(self, text: bytes, folder: Path | None) -> str:
        """Check a text of evidence; return what holds if nothing was refuted."""
        document = _parsed(text)
        form = document["format"], _whole(document, "version")
        _need(form == ("mmech evidence", 1), f"{short(form)} is no known form")
        _hold(not _flag(document, "insecure"), "the noise was predictable, for tests")
        relation = document["relation"]
        kind = relation["neighbours"]
        self.records = _whole(relation, "records_per_person")
        known = kind in ("add_remove", "replace", "labels")
        _need(known, f"neighbours of kind {short(kind)} are not known")
        self.factor = self.records * (1 if kind == "add_remove" else 2)
        changes = "added or removed" if kind == "add_remove" else "replaced"
        changes = "with other labels" if kind == "labels" else changes
        words = f"one person's records, at most {self.records}, {changes}"
        self.say("T1", f"neighbours differ in {words}; unit changes: {self.factor}")
        self.say(TRUSTED, "records were counted as stated; the sampler has its laws")
        self.say(UNSEEN, "other releases of the same records, timings, who saw records")
        holds = self.claim(document)
        if document.get("published") and folder is None:
            self.say(UNSEEN, "published files, which are not beside the evidence")
        elif document.get("published"):
            self.attempt(self.published, document, folder)
        return f"{holds} for {words}, if what is trusted is so"

    def published(self, document: Any, folder: Path) -> None:
        """Check that files are those that were hashed, and their tables (T13, T14)."""
        own, left, files = document["published"], MOST_PUBLISHED, {}
        for name, digest in own["files"].items():
            plain = not set(name) & set("/\\:\0") and name not in ("", ".", "..")
            _need(plain, f"{short(name)} is no name of a file beside the evidence")
            files[name] = _content(folder / name, left)
            left -= len(files[name])
            same = hashlib.sha256(files[name]).hexdigest() == digest
            _hold(same, f"{short(name)} is not the file that was published")
        self.say("T13", f"files with the stated hashes: {len(files)}")
        sizes = _wholes(own, "sizes", 1).tolist() if own.get("tables") else []
        named = [table["file"] for table in own.get("tables", [])]
        few = sum(len(files.get(name, b"")) for name in named) <= MOST_TEXT
        _need(few and len(named) < 2000, "its tables are too long to check")
        tables = [_table(table, files, sizes) for table in own.get("tables", [])]
        self.say("T13", f"tables of whole counts, none below zero: {len(tables)}")
        if _flag(own, "margins", False):
            _margins(tables)
            self.say("T13", "tables agree in all that they have in common")
        conditioned = _flag(own, "conditioned", False)  # on totals known beforehand
        given = document["draws"] if tables and not conditioned else []
        measured = _measured_marginals(given, sizes)
        if measured is None:
            self.say(UNSEEN, "estimates and intervals: not of one noise of marginals")
            return
        known = [_estimated(table, sizes, measured) for table in tables]
        self.say("T14", f"tables whose estimates follow from y: {sum(known)}")


def _number(value: Any) -> str:
    return str(value) if value.denominator < 10**9 else f"{float(value):.9g}"


def _are_disjoint(names: Any) -> bool:
    """Return whether no name is a union of others, or a share of another number."""
    pieces = [{*re.split(r"[^\w/.-]+|_or_", name)} - {name} for name in names]
    shared = [name for name in names if re.search("[0-9]/[0-9]", name)]
    shares = {name.rpartition("/")[2] for name in shared}
    unions = any(own & {*names} for own in pieces)
    return not unions and len(shares) <= 1 and not {*names} & {"", "*", "all"}


# ---- published tables ----------------------------------------------------------------

Table = tuple[tuple[int, ...], Array, dict[str, list[str]]]
"""Attributes, counts with an axis for each, and all columns as text."""

Marginal = tuple[tuple[int, ...], Array, float]
"""Attributes, noisy counts with an axis for each, and cells times variance."""


def _table(own: Any, files: dict[str, bytes], sizes: Sequence[int]) -> Table:
    """Read a table, whose counts must be whole and not negative."""
    name, kept = own["file"], _wholes(own, "attributes", 0, len(sizes) - 1).tolist()
    _hold(name in files and kept == sorted({*kept}), f"{short(name)} is not described")
    titles, *rows = csv.reader(files[name].decode("utf-8-sig").splitlines())
    columns = dict(zip(titles, map(list, zip(*rows, strict=True)), strict=True))
    counts, shape = columns[own["column"]], [sizes[i] for i in kept]
    whole = all(re.fullmatch("[0-9]{1,18}", count) for count in counts)
    _hold(whole, f"counts of {short(name)} are not whole, or negative")
    _hold(len(counts) == math.prod(shape), f"{short(name)} has another number of rows")
    return (*kept,), np.array(counts, np.int64).reshape(shape), columns


def _onto(array: Array, held: Sequence[int], kept: Any) -> Array:
    return np.asarray(array.sum(tuple(i for i, j in enumerate(held) if j not in kept)))


def _margins(tables: Sequence[Table]) -> None:
    """Refuse tables that differ in what they have in common."""
    pairs = combinations([frozenset(held) for held, *_ in tables], 2)
    for both in {one & other for one, other in pairs}:
        found = [_onto(y, a, both) for a, y, _ in tables if both <= {*a}]
        same = all(np.array_equal(own, found[0]) for own in found)
        _hold(same, "published tables differ in a margin that they share")


def _variance(run: Run) -> float:
    t, x = float(run.scale), np.arange(-99.0, 100.0)
    if run.law == "laplace":
        return 0.5 / math.sinh(min(0.5 / t, 300.0)) ** 2
    p = np.exp(-x * x / (2 * t))
    return t if t > 99 else float((x * x * p).sum() / p.sum())


def _measured_marginals(draws: Any, sizes: Sequence[int]) -> list[Marginal] | None:
    """Return what was measured, if it is all marginals with independent noise."""
    found, start = [], 0
    strategy = draws[0].get("strategy") if len(draws) == 1 else None
    matrices = [own["matrix"] for own in strategy or ()]
    alike = all(m["kind"] == "marginal" and [*m["sizes"]] == sizes for m in matrices)
    plain = alike and matrices and draws[0]["law"] != "k_norm"
    if not plain or _whole(draws[0], "columns", 1, 1) > 1:
        return None
    values, runs = _wholes(draws[0], "values"), _runs(draws[0])
    for held in (tuple(own["attributes"]) for own in matrices):
        shape = [sizes[i] for i in held]
        stop = start + math.prod(shape)
        own = [r for r in runs if r.start <= start and stop <= r.stop]
        if not own or stop > values.size:
            return None
        size = (stop - start) * _variance(own[0])
        found.append((held, values[start:stop].reshape(shape).astype(float), size))
        start = stop
    return found


def _estimated(
    table: Table, sizes: Sequence[int], measured: Sequence[Marginal]
) -> bool:
    r"""Refuse estimates outside of their intervals, or with other errors (T14).

    With weights :math:`w_a = 1 / n_a \sigma_a^2` the interactions of attributes s have
    the weighted mean of all tables a that hold s, and an entry of table t the variance
    :math:`\sum_{s \subseteq t} n_s / (n_t^2 \kappa_s) \prod_{i \in s} (1 - 1 / n_i)`,
    where :math:`\kappa_s = \sum_{a \supseteq s} w_a`. Return whether it was measured.
    """
    attributes, counts, columns = table
    estimate, variance, n = np.zeros(counts.shape), 0.0, counts.size
    ways = [combinations(attributes, k) for k in range(len(attributes) + 1)]
    for s in chain.from_iterable(ways):
        used = [own for own in measured if {*s} <= {*own[0]}]
        held = [(_onto(y, a, s) / size, 1 / size) for a, y, size in used]
        if not held:
            return False
        precision = sum(weight for _, weight in held)
        own = np.asarray(sum(mean for mean, _ in held) / precision)
        for axis in range(len(s)):
            own = own - own.mean(axis, keepdims=True)
        cells = own.size
        shape = [sizes[i] if i in s else 1 for i in attributes]
        estimate += own.reshape(shape) * (cells / n)
        spread = math.prod(1 - 1 / sizes[i] for i in s)
        variance += cells * spread / (n * n * precision)
    ends = ("lower", "upper", "standard_error")
    low, high, error = (np.array(columns[own], float) for own in ends)
    centre, flat = estimate.ravel(), counts.ravel()
    right = abs(error - math.sqrt(variance)) <= 1e-5 * error
    right &= (low <= flat) & (flat <= high) & (centre < high + 1)
    right &= (low < centre + 1) | (low == 0)
    _hold(right.all(), "an interval or an error does not follow from the noisy numbers")
    return True


def _evidence(path: Path) -> tuple[bytes, Path | None]:
    """Return the text of evidence, and the folder of what was published."""
    path = path / FILE if path.is_dir() else path
    _need(path.is_file(), f"{short(path.name)} is no file")
    with open(path, "rb") as stream:
        archive = stream.read(2) == b"PK"
    return (
        (_member(path), None) if archive else (_content(path, MOST_BYTES), path.parent)
    )


def examine(text: bytes | Path, folder: Path | None = None) -> tuple[int, list[str]]:
    """Check evidence, as text or at a path; return the exit code and the report.

    The last line of the report is the verdict.

    Examples
    --------
    >>> from mmech.verify import examine
    >>> code, report = examine(b"{}")
    >>> print(code, report[-1])
    2 cannot check: it is not of version 1, or damaged: KeyError: "'format'"
    """
    checker = Checker()
    found = (
        (text, folder) if isinstance(text, bytes) else checker.attempt(_evidence, text)
    )
    code, verdict = checker.verdict(found and checker.attempt(checker.check, *found))
    lines: list[str] = []
    for title in (PROVED, TRUSTED, UNSEEN, UNCHECKED, REFUTED):
        said = checker.said[title].items()
        lines += [title] * bool(said)
        lines += [f"  {words}{f' ({n} times)' * (n > 1)}" for words, n in said]
    return code, [*lines, verdict]


def main(argv: Sequence[str] | None = None) -> int:
    """Check the evidence at a path and print what was found; return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    code, lines = 2, ["cannot check: name one PATH; --help says more"]
    if len(words) == 1:
        code, lines = examine(Path(words[0]))
    print(*lines, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
