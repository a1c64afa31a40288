"""Check the evidence of a release by python verify.py PATH, with NumPy and no more.

A release of the matrix mechanism is y = A x + z: counts of records x, a matrix of whole
numbers A, noise z. Its evidence, evidence.json, names A, the law and the scale of z,
what was paid, and the noisy numbers y. This file computes anew what follows from these,
in whole numbers and fractions, and believes no number that it can compute. It imports
nothing of the package that wrote the evidence: a copy of it is enough.

PATH is an evidence.json, a folder with one, or the file of a model.
The exit code is 0 if everything holds, 1 if something is refuted, and 2 if something
cannot be checked; the last line says so in one sentence.

Lines T1 to T16 are those of the theorem in ``notebooks/proofs/evidence.md``.
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
import unicodedata
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import accumulate, chain, combinations, pairwise, repeat
from pathlib import Path
from reprlib import repr as short
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Norm = Callable[[Array], Array]
Remake = Callable[[Path, Callable[[str, str], None]], Iterable[str]]
SUM, L1, L2 = POWERS = np.positive, np.abs, np.square
"""What is added up of entries: they, |a| or a², which multiply where entries do."""

FILE, DESCRIPTION = "evidence.json", "description.json"
MOST_BYTES, MOST_PUBLISHED, MOST_DIRECTORY = 2**24, 2**28, 2**22
"""Bytes of evidence, of published files, and of an archive's directory."""

MOST_LISTED, MOST_EFFORT, MOST_NODES, CALL = 10**7, 3 * 10**7, 50_000, 2000
"""Numbers in one list and in all; lists of a file; numbers in the time of a call."""

FITS, SMALL, MOST_BITS = 2**62, 2**45, 20_000
"""What 64-bit integers are left, alone and 10^5 added up; bits of a denominator."""

NAMES = {
    "how": "how of released paid order kind sensitivity insecure epsilon rho shifts "
    "partition part names bags",
    "law": "law why place columns sampled contribution sensitivity strategy signs "
    "values rate window sums rows outcome released paid",
    "runs": "kind shape rows starts lengths values", "waves": "kind shape f g scales",
    "marginal": "kind sizes attributes", "kronecker": "kind left right",
    "stack": "kind blocks", "merged": "kind of", "opaque": "kind shape what",
}  # fmt: skip
"""What may be said of payments, of draws, and of matrices by their kind."""

UNITS = 2**200
"""Prices are rounded up to one over this."""

TOLERANCE = 0.001
"""What the level of an interval may miss, for the error of an integral."""

FLOOR = 1e-24
"""Least squares take no variance of noise to be below this."""

PROVED = "Proved by arithmetic, by lines of notebooks/proofs/evidence.md:"
TRUSTED = "Trusted, because no arithmetic on these numbers can show it:"
UNSEEN, UNCHECKED, REFUTED = "Not looked at:", "Cannot be checked:", "Refuted:"
OTHER = "it is no evidence; name a folder, its evidence.json or a model"


class RefutedError(Exception):
    """The evidence says what is not so."""


class UncheckedError(Exception):
    """The evidence cannot be read, or not be checked."""


def _need(condition: Any, sentence: str, error: Any = UncheckedError) -> None:
    if not condition:
        raise error(sentence)


def _hold(condition: Any, sentence: str) -> None:
    _need(condition, sentence, RefutedError)


class Effort:
    """How many numbers may still be listed, so that no file keeps a reader busy."""

    left = MOST_EFFORT

    def __init__(self) -> None:
        self.prices: dict[tuple[int, Fraction], Fraction] = {}

    def allows(self, count: int) -> bool:
        """Return whether as many numbers may be listed."""
        return count <= min(MOST_LISTED, self.left)

    def spend(self, count: int) -> int:
        """Return the count, or raise where it is too large."""
        if not self.allows(count):
            self.left = -1  # nothing more is tried
            raise UncheckedError("its lists are too long")
        self.left -= count
        return count

    def total(self, costs: list[Fraction], loads: Any = None) -> Fraction:
        """Return an exact sum of costs, each times a load, in the dearest column."""
        whole = 1
        for part in {cost.denominator for cost in costs}:
            whole = math.lcm(whole, part)
            few = whole.bit_length() < MOST_BITS
            _need(few, "costs have no short common denominator")
        weights = [cost.numerator * (whole // cost.denominator) for cost in costs]
        each = zip(weights, loads or repeat(1), strict=False)
        pairs = [(weight, np.asarray(load)) for weight, load in each]
        most = sum(w * (1 + int(load.max())) for w, load in pairs)
        kind = np.int64 if most < FITS else object
        bits = 0 if kind is np.int64 else 2 + whole.bit_length() // 1000
        self.spend(bits * sum(load.size for _, load in pairs))
        sums = sum(load.astype(kind) * weight for weight, load in pairs)
        return Fraction(int(np.max(sums)), whole)

    def price(self, moves: int, scale: Fraction) -> Fraction:
        """Return `kappa`, rounded up to whole `UNITS`."""
        key = moves, scale
        if key not in self.prices:
            self.spend(5 * CALL // 2)
            price = Fraction(math.ceil(kappa(*key) * UNITS), UNITS)
            self.prices[key] = min(price, moves / scale)
        return self.prices[key]


# ---- reading -------------------------------------------------------------------------


def _content(path: Path, most: int) -> bytes:
    """Return the bytes of a plain file: no link, no device, and not too long."""
    state = path.lstat()
    _need(stat.S_ISREG(state.st_mode), f"{short(path.name)} must be a plain file")
    _need(state.st_size <= most, f"{short(path.name)} must have at most {most} bytes")
    return path.read_bytes()


def _member(path: Path, say: Callable[..., None]) -> bytes:
    """Return the evidence in a model file, whose directory and members may lie (T13).

    The hash covers the description without the hash, keys sorted, and all arrays.
    """
    with open(path, "rb") as stream:
        stream.seek(max(0, path.stat().st_size - 2**17))
        tail = stream.read()
    end = tail.rfind(b"PK\5\6")
    directory = int.from_bytes(tail[end + 12 : end + 16], "little")
    _need(end >= 0, "the archive is not whole: copy it again from its source")
    plain = directory <= MOST_DIRECTORY and b"PK\6\7" not in tail
    _need(plain, "an archive must have a directory of at most 4 MB")
    with zipfile.ZipFile(path) as archive:
        found = archive.infolist()
        plain = {file.compress_type for file in found} <= {0, 8}
        plain = plain and sum(file.file_size for file in found) <= MOST_PUBLISHED
        _need(plain, f"an archive must hold at most {MOST_PUBLISHED} bytes, deflated")
        _need(len({f.filename for f in found}) == len(found), "a name occurs twice")
        description = parsed(archive.read(DESCRIPTION))
        stated = description.pop("sha256")
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        for index in range(len(found) - 1):
            digest.update(archive.read(f"array_{index}.npy"))
    _hold(digest.hexdigest() == stated, "the archive has another hash than it states")
    say("T13", "the description and all arrays have the hash that the file states")
    texts = [e["arguments"] for e in description["entries"] if e["class"] == "Evidence"]
    _need(len(texts) == 1, f"one evidence is needed in an archive, got {len(texts)}")
    return str(texts[0]["text"]).encode()


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a record whose names differ, in every Unicode form."""
    forms = {_form(name) for name, _ in pairs}
    _need(len(forms) == len(pairs), "a name occurs twice in a record")
    return dict(pairs)


def _form(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


def check_names(node: Any, insecure: Any) -> None:
    """Refuse facts that nobody reads, and predictable noise that the root denies."""
    kinds = [key for key in ("law", "how") if key in node] or [node["kind"]]
    known = " ".join(NAMES.get(kind, " ".join(node)) for kind in kinds).split()
    unknown = short(sorted(node.keys() - known)[:1])
    _need(unknown == "[]", f"a record has names that are not known: {unknown}")
    sure = insecure is True or node.get("insecure", False) is False
    _hold(sure, "the noise of a part was predictable, for tests")
    inner = [node[key] for key in ("left", "right", "strategy") if node.get(key)]
    for part in [*inner, *node.get("blocks", ()), *_several(node.get("of", ()))]:
        check_names(part, insecure)


def _several(one: Any) -> Any:
    return [one] if isinstance(one, dict) else one


def parsed(text: bytes) -> Any:
    """Return JSON without repeated names, its packed numbers unpacked and summed up."""
    effort = Effort()
    effort.left = 2 * MOST_LISTED

    def record(pairs: list[tuple[str, Any]]) -> Any:
        found = unique(pairs)
        if "packed" not in found:
            return found
        n, unpacker = effort.spend(_whole(found, "n", 0)), zlib.decompressobj()
        data = base64.b64decode(found["packed"], validate=True)
        numbers = unpacker.decompress(data, 8 * n + 1)
        _need(len(numbers) == 8 * n and unpacker.eof, f"packed numbers must be {n}")
        return np.cumsum(np.frombuffer(numbers, "<i8").astype(np.int64))

    few = len(text) <= MOST_BYTES and text.count(b"{") + text.count(b"[") < MOST_NODES
    _need(few, f"evidence must have at most {MOST_BYTES} bytes, few of them brackets")
    try:
        return json.loads(text.decode(), object_pairs_hook=record)
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise UncheckedError(OTHER) from None


def _exact(record: Any, name: Any) -> Fraction:
    """Return a fraction above zero that is written "7/2" or "3"."""
    text = record[name]
    plain = re.fullmatch("[1-9][0-9]{0,999}(/[1-9][0-9]{0,999})?", text)
    _need(plain, f"{name!r} must be a fraction above zero, got {short(text)}")
    return Fraction(text)


def _wholes(record: Any, name: Any, least: int = -FITS, most: int = FITS) -> Array:
    """Return whole numbers of a list, or packed ones; booleans are no numbers."""
    given = record[name]
    exact = isinstance(given, np.ndarray)
    exact = exact or (type(given) is list and {*map(type, given)} <= {int})
    array = np.array(given if exact else [], np.int64)
    inside = not array.size or least <= array.min() <= array.max() <= most
    if not exact or not inside:
        words = f"{name!r} must be whole numbers from {least}, got {short(given)}"
        raise UncheckedError(words)
    return array


def _whole(record: Any, name: str, least: int = 1, most: int = FITS) -> int:
    return int(_wholes({name: [record[name]]}, name, least, most)[0])


# ---- matrices ------------------------------------------------------------------------


class Term(NamedTuple):
    """A matrix of whole numbers.

    Attributes
    ----------
    m, n, size : int
        Numbers of rows, of columns, and of entries that `listed` returns; n is zero
        where columns are hidden.
    span : (int, int)
        Bounds of all entries, and of zero.
    listed : callable
        Returns columns and values of all entries that may not be zero.
    sums : callable
        Takes a norm. Returns the sums over i of f(a_ij) of every column j, or one
        number, if all are equal; ``None`` without a closed form. But for SUM, one
        number may be the largest, where columns are hidden or too many.
    kept : list of list of int
        Of a marginal, the sizes of all attributes and those that it keeps.
    blocks : list of Term
        Of a stack, the matrices in it.
    """

    m: int
    n: int
    size: int
    span: tuple[int, int]
    listed: Callable[[], tuple[Array, Array]]
    sums: Callable[[Norm], Any]
    kept: Any = None
    blocks: Any = None


def _span(entries: Array) -> tuple[int, int]:
    return int(entries.min(initial=0)), int(entries.max(initial=0))


def _product(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return bounds of products; a matrix has entries of 64 bits."""
    corners = [a * b for a in one for b in other]
    _need(max(map(abs, corners)) < FITS, "a matrix has entries beyond 64 bits")
    return min(corners), max(corners)


def _kind(most: int) -> Any:
    return np.int64 if most < SMALL else object


def _normed(norm: Norm, entries: Array, effort: Effort) -> Array:
    """Return f(a_ij) of entries, in 64 bits if sums of all of them fit."""
    most = int(abs(entries).max(initial=1)) ** (2 if norm is L2 else 1)
    kind = _kind(most * entries.size)
    effort.spend(0 if kind == np.int64 and norm in POWERS else 6 * entries.size)
    return np.asarray(norm(entries.astype(kind)))


def column_sums(matrix: Term, norm: Norm, effort: Effort) -> Array:
    """Return sums of columns, by structure and from all entries (T5).

    Both must agree, where there are both.
    """
    effort.spend(CALL)
    closed = matrix.sums(norm)
    if not matrix.n > 0 or not effort.allows(matrix.n + matrix.size):
        known = closed is not None
        _need(known, "a matrix has too many entries to add, or hides them")
        return np.asarray(closed)
    effort.spend(matrix.n + matrix.size)
    columns, entries = matrix.listed()
    terms = _normed(norm, entries, effort)
    found = np.zeros(matrix.n, terms.dtype)
    np.add.at(found, columns, terms)
    same = closed is None or np.all(found == closed)
    _hold(same, "two ways to the sum disagree")
    return found if closed is None else np.asarray(closed)


def _runs(record: Any, effort: Effort) -> Term:
    """Return a matrix of runs: a value in a row, over some columns after another.

    One number of a list may stand for all. Values are added where runs start, taken off
    where they stop, and summed up along the columns.
    """
    m, n = _wholes(record, "shape", 1).tolist()
    least = {"rows": (0, m - 1), "starts": (0, n - 1), "lengths": (1, n), "values": ()}
    lists = [_wholes(record, name, *inside) for name, inside in least.items()]
    rows, starts, lengths, values = np.broadcast_arrays(*lists)
    effort.spend(4 * rows.size)
    stops = starts + lengths
    order = np.lexsort((starts, rows))
    later, before = order[1:], order[:-1]
    apart = (rows[later] > rows[before]) | (starts[later] >= stops[before])
    _need(apart.all() and np.all(stops <= n), "runs of a row overlap, or are too long")

    def sums(norm: Norm) -> Array:
        terms = _normed(norm, values, effort)
        effort.spend((n + 1) * (1 if terms.dtype == np.int64 else 3))
        steps = np.zeros(n + 1, terms.dtype)
        np.add.at(steps, starts, terms)
        np.subtract.at(steps, stops, terms)
        return np.cumsum(steps)[:-1]

    def listed() -> tuple[Array, Array]:
        columns = np.arange(size) + np.repeat(stops - np.cumsum(lengths), lengths)
        return columns, np.repeat(values, lengths)

    size = int(lengths.sum())
    return Term(m, n, size, _span(values), listed, sums)


def _waves(record: Any, effort: Effort) -> Term:
    """Return the matrix of (f(i - j) + g(i + j)) s_j; one number may stand for all.

    A Toeplitz matrix has no g: its sums are differences of running sums of f.
    """
    m, n = _wholes(record, "shape", 1).tolist()
    long = effort.spend(m + n) - 1
    f, g, scales = (
        np.broadcast_to(_wholes(record, key, -(2**30), 2**30), size)
        for key, size in (("f", long), ("g", long), ("scales", n))
    )

    def sums(norm: Norm) -> Any:
        if g.any() or norm not in POWERS:
            return None
        total = np.cumsum([0, *norm(f.astype(object))])
        starts = np.arange(n)[::-1]
        return (total[starts + m] - total[starts]) * norm(scales.astype(object))

    def listed() -> tuple[Array, Array]:
        i, j = np.divmod(np.arange(m * n), n)
        return j, (f[i - j + n - 1] + g[i + j]) * scales[j]

    (low, high), (least, most) = _span(f), _span(g)
    span = _product((low + least, high + most), _span(scales))
    return Term(m, n, m * n, span, listed, sums)


def _marginal(record: Any, effort: Effort) -> Term:
    """Return sums over cells by the values of some attributes: one 1 in a column."""
    sizes = _wholes(record, "sizes", 1).tolist()
    kept = _wholes(record, "attributes", 0, len(sizes) - 1).tolist()
    _need(kept == sorted({*kept}), "'attributes' must be sorted and distinct")
    m, n = math.prod(sizes[i] for i in kept), math.prod(sizes)

    def listed() -> tuple[Array, Array]:
        return np.arange(n), np.ones(n, np.int64)

    def sums(norm: Norm) -> Any:
        return norm(np.ones(1, np.int64))

    return Term(m, n, n, (0, 1), listed, sums, [sizes, kept])


def _kronecker(record: Any, effort: Effort) -> Term:
    """Return the Kronecker product of two: sums over columns multiply.

    Prices multiply with numbers of entries, where one of both has entries of size 1.
    """
    left, right = (term(record[side], effort) for side in ("left", "right"))
    m, n = left.m * right.m, left.n * right.n
    span = _product(left.span, right.span)

    def sums(norm: Norm) -> Any:
        ones = [max(map(abs, factor.span)) < 2 for factor in (left, right)]
        if norm not in POWERS and not any(ones):
            return None
        f, g = (norm, norm) if norm in POWERS else (norm, L1) if ones[1] else (L1, norm)
        a, b = column_sums(left, f, effort), column_sums(right, g, effort)
        alike = np.all(a == a[0]) and np.all(b == b[0])
        if not alike and n > 0 and effort.allows(n):
            a, b = np.broadcast_to(a, left.n), np.broadcast_to(b, right.n)
        elif alike or norm is not SUM:
            a, b = a.max(keepdims=True), b.max(keepdims=True)
        else:
            return None
        kind = _kind(int(abs(a).max()) * int(abs(b).max()))
        effort.spend(a.size * b.size * (1 if kind is np.int64 else 6))
        return np.multiply.outer(a.astype(kind), b.astype(kind)).ravel()

    def listed() -> tuple[Array, Array]:
        effort.spend(left.size + right.size + size)
        (j, a), (c, b) = left.listed(), right.listed()
        columns = np.add.outer(j * right.n, c)
        return columns.ravel(), np.multiply.outer(a, b).ravel()

    size = left.size * right.size
    return Term(m, n, size, span, listed, sums)


def _stack(record: Any, effort: Effort) -> Term:
    """Return blocks of rows: sums over columns add up."""
    _hold(record["blocks"], "a strategy without rows measures nothing")
    blocks = [term(block, effort) for block in record["blocks"]]
    widths, spans = {b.n for b in blocks}, [b.span for b in blocks]
    _hold(len(widths - {0}) <= 1, "blocks of a strategy have other columns")

    def sums(norm: Norm) -> Any:
        return sum(column_sums(block, norm, effort) for block in blocks)

    def listed() -> tuple[Array, Array]:
        effort.spend(CALL // 4 * len(blocks) + size)
        columns, entries = zip(*[block.listed() for block in blocks], strict=True)
        return np.concatenate(columns), np.concatenate(entries)

    m, size = sum(b.m for b in blocks), sum(b.size for b in blocks)
    span = min(map(min, spans)), max(map(max, spans))
    return Term(m, min(widths), size, span, listed, sums, blocks=blocks)


def _merged(record: Any, effort: Effort) -> Term:
    """Return a matrix of which each column is zero, or one of another matrix."""
    inner = term(record["of"], effort)

    def sums(norm: Norm) -> Any:
        sums = None if norm is SUM else column_sums(inner, norm, effort)
        return sums if sums is None else sums.max(keepdims=True)

    return inner._replace(n=0, sums=sums, kept=None, blocks=None)


TERMS: dict[str, Callable[[Any, Effort], Term]] = {
    "runs": _runs, "waves": _waves, "marginal": _marginal, "kronecker": _kronecker,
    "stack": _stack, "merged": _merged,
}  # fmt: skip
"""Kinds of matrices, by what reads them: their shape, sums over columns, entries."""


def term(record: Any, effort: Effort) -> Term:
    """Return the matrix that a record of the evidence says."""
    kind = record["kind"]
    _need(kind in TERMS, f"matrices of kind {short(kind)} cannot be checked")
    effort.spend(CALL)
    return TERMS[kind](record, effort)


# ---- draws ---------------------------------------------------------------------------

LINES = {"laplace": "T2", "gaussian": "T3", "k_norm": "T4", "permute_and_flip": "T8"}
LINES |= dict.fromkeys(("exponential", "exponential_rows", "quantiles", "tree"), "T7")
"""The line of the theorem for each law of noise and each kind of selection."""


class Run(NamedTuple):
    """Rows with noise of one law, as the sampler noted it; groups are those of T4."""

    law: str
    scale: Fraction
    rows: int = 0
    groups: Any = ()


def _sampled(draw: Any) -> list[Run]:
    """Return what the sampler noted, for as many numbers as were released."""
    law, columns, runs = draw["law"], _whole(draw, "columns"), []
    for name, scale, shape, *groups in draw["sampled"]:
        rows, width = _wholes({"shape": shape}, "shape", 1).tolist()
        known = name in (law, "laplace" if law == "k_norm" else law)
        _hold(known and width == columns, f"the noise is not {law} noise of its shape")
        (lists,) = groups if name == "k_norm" else [[[rows]]]
        lists = [_wholes({"groups": each}, "groups", 1).tolist() for each in lists]
        runs.append(Run(name, _exact({"scale": scale}, "scale"), rows, lists))
    size = sum(run.rows for run in runs) * columns
    right = _wholes(draw, "values").size == size > 0
    _hold(right, "other numbers were released than noise was drawn for")
    return runs


def _split(blocks: list[Term], rows: Iterable[int]) -> list[list[Term]]:
    """Return the blocks of consecutive numbers of rows."""
    ends = accumulate((block.m for block in blocks), initial=0)
    places = {end: k for k, end in enumerate(ends)}
    cuts = [places.get(cut) for cut in accumulate(rows, initial=0)]
    whole = None not in cuts and cuts[-1] == len(blocks)
    _hold(whole, "noise was drawn for other rows, or other groups, than blocks have")
    return [blocks[a:b] for a, b in pairwise(cuts)]


def _load(blocks: list[Term], run: Run, norm: Norm, effort: Effort) -> Any:
    """Return sums of columns, each in the group that it changes most (T4).

    Groups of one list must have equal totals in every column, because noise keeps to
    those.
    """
    groups = iter(_split(blocks, chain.from_iterable(run.groups)))
    loads = []
    for sizes in run.groups:
        parts = [next(groups) for _ in sizes]
        loads += [_summed(group, norm, effort) for group in parts]
        totals = [_summed(group, SUM, effort) for group in parts if len(parts) > 1]
        equal = all(np.all(total == totals[0]) for total in totals)
        _hold(equal, "groups whose noise has equal totals have others")
    return reduce(np.maximum, loads)


def _summed(blocks: Iterable[Term], norm: Norm, effort: Effort) -> Any:
    return sum(column_sums(block, norm, effort) for block in blocks)


def kappa(moves: int, scale: Fraction) -> Fraction:
    r"""Return the rho of Laplace noise on a number that moves by m, rounded up (T9).

    .. math:: \kappa(m, t) = \frac{1}{t} \left(m - \frac{2 q (1 - q^m)}{1 - q^2}\right)
              \le \frac{m^2}{2 t^2}, \qquad q = e^{-1/t}
    """
    parabola = (moves / scale) ** 2 / 2
    if not Fraction(1, 10**40) < scale < 10**40:
        return parabola
    with localcontext(prec=40 + 4 * len(str(math.ceil(scale)))):
        x = Decimal(scale.denominator) / Decimal(scale.numerator)
        q = (-x).exp()
        price = (moves - 2 * q * (1 - (-x * moves).exp()) / (1 - q * q)) * x
    return min(parabola, Fraction(price) * (1 + Fraction(1, 10**20)))


def _priced(moves: int, scale: Fraction, effort: Effort) -> Norm:
    """Return the price in rho of entries that move by so much, in `UNITS`."""

    def price(entries: Array) -> Array:
        sizes, at = np.unique(abs(entries), return_inverse=True)
        prices = [int(effort.price(moves * int(a), scale) * UNITS) for a in sizes]
        return np.array(prices, object)[at.reshape(entries.shape)]

    return price


class Checker:
    """What all checks of one evidence share: neighbours, effort, and what was said.

    Attributes
    ----------
    said : mapping of str to Counter of str
        Sentences by their title, and how often each was said.
    again : callable
        As in `examine`.
    alone : bool
        Whether a folder was given, which must hold nothing but the release.
    """

    def __init__(self, again: Remake, *, alone: bool) -> None:
        self.said: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.effort = Effort()
        self.again, self.alone = again, alone
        self.records, self.factor = 1, 1
        self.measured: list[list[tuple[Any, Array, Run]]] = []

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
            words = (
                f"it is no evidence of version 1, or damaged: {type(error).__name__}"
            )
            self.say(UNCHECKED, f"{words}: {short(str(error))}")
        return None

    # ---- what a draw costs ----

    def drawn(self, draw: Any, currency: str) -> Fraction:
        """Return what a draw costs, and say by which line of the theorem."""
        law = draw["law"]
        if law == "nothing":
            _hold(len(draw) == 1, "numbers are shown where nothing was drawn")
            self.say(TRUSTED, "nothing was drawn where that is said")
            return Fraction()
        _need(law in LINES, f"{short(law)} is not checked: {short(draw.get('why'))}")
        _hold(law != "gaussian" or currency == "rho", "Gaussian noise has no epsilon")
        step = self.selection if LINES[law] in ("T7", "T8") else self.noise
        cost = step(draw, law, currency)
        self.say(LINES[law], f"{law} costs {currency} = {_number(cost)}")
        if law != "gaussian" and currency == "rho":
            self.say("T9", "pure epsilon has a price in rho")
        return cost

    def noise(self, draw: Any, law: str, currency: str) -> Fraction:
        """Return what noise costs, on a product with a matrix or as stated (T2 to T6).

        Laplace noise has a price in rho of its own (T9).
        """
        runs, effort = _sampled(draw), self.effort
        contribution = _whole(draw, "contribution")
        units, rates = self.factor * contribution, [1 / run.scale for run in runs]
        if "strategy" in draw:
            matrix = term(draw["strategy"], effort)
            _hold(any(matrix.span), "a strategy of zeros measures nothing")
            parts = self.multiplied(matrix, draw, runs)
            norm = L2 if law == "gaussian" else L1
            size = effort.total(rates, [_load(*part, norm, effort) for part in parts])
            unit = "variances" if law == "gaussian" else "scales"
            said = f"most by a unit change, in {unit}: {_number(size)}"
            self.say("T5", f"rows: {matrix.m}; {said}")
        else:
            stated = draw["sensitivity"]
            moved = [_exact(stated, i) for i in range(len(stated))]
            changes = zip(moved, rates, strict=True)
            size = effort.total([change * rate for change, rate in changes])
            self.say("T6", f"most by a unit change, as is stated: {_number(size)}")
            self.say(TRUSTED, "how much one record changes numbers without a matrix")
        if law == "gaussian":
            return units**2 * size / 2
        if currency == "epsilon":
            return units * size
        whole = effort.price(1, 1 / (units * size))
        if law == "k_norm":
            return whole
        if "strategy" not in draw:  # a whole change in one number costs most
            steps = [math.ceil(units * change) for change in moved]
            pairs = zip(steps, runs, strict=True)
            prices = [effort.price(step, run.scale) for step, run in pairs]
            return min(whole, effort.total(prices))
        alike = _whole(draw, "signs") * contribution == 1
        step = self.records if alike and matrix.span[0] == 0 else units
        norms = [_priced(step, run.scale, effort) for run in runs]
        each = zip(parts, norms, strict=True)
        loads = [_load(*part, norm, effort) for part, norm in each]
        found = effort.total([Fraction(1, UNITS)] * len(runs), loads)
        return min(whole, units // step * found)

    def multiplied(
        self, matrix: Term, draw: Any, runs: list[Run]
    ) -> list[tuple[list[Term], Run]]:
        """Return the blocks that noise of each run was added to; note marginals."""
        blocks = matrix.blocks or [matrix]
        parts = [*zip(_split(blocks, [run.rows for run in runs]), runs, strict=True)]
        kept = [block.kept for block in blocks]
        if all(kept) and draw["law"] != "k_norm" and draw["columns"] == 1:
            cuts = [*accumulate(block.m for block in blocks)][:-1]
            values = np.split(_wholes(draw, "values").astype(float), cuts)
            laws = [Run(run.law, run.scale) for many, run in parts for _ in many]
            self.measured.append([*zip(kept, values, laws, strict=True)])
        return parts

    def selection(self, draw: Any, law: str, currency: str) -> Fraction:
        """Return what a draw among candidates costs (T7 to T9)."""
        rate, flips = _exact(draw, "rate"), law == "permute_and_flip"
        whole = flips or 2**36 % rate.denominator == 0
        _hold(whole, "a rate is no multiple of 2^-36")
        roundings = Fraction(12 * _whole(draw, "sums", 0 if flips else 1), 2**36)
        times = self.factor * _whole(draw, "rows") * _whole(draw, "signs", 1, 2)
        window = _exact(draw, "window")
        _hold(window.denominator == 1, "a window of whole scores is no whole number")
        epsilon = (rate * window + roundings) * times
        self.say(TRUSTED, "how much one record changes the scores of candidates")
        if currency == "epsilon":
            return epsilon
        price = self.effort.price(1, 1 / epsilon)
        return price if flips else min(price, epsilon**2 / 8)

    # ---- what all draws cost together ----

    def cost(self, node: Any, currency: str) -> Fraction | None:
        """Return what a draw costs, or draws together: what was paid, if it is known.

        ``None`` where that cannot be checked, and nothing was paid.
        """
        found: Fraction | None = self.attempt(self.covered, node, currency)
        return _exact(node, "paid") if "paid" in node else found

    def covered(self, node: Any, currency: str) -> Fraction | None:
        """Return what one draw or several cost, which was paid (T10, T12)."""
        self.effort.spend(CALL)
        _need(("law" in node) != ("of" in node), "a draw is not what draws cost")
        step = self.drawn if "law" in node else self.composed
        total = step(node, currency)
        if total is not None and "paid" in node:
            words, paid = short(node.get("released", "a draw")), _exact(node, "paid")
            said = f"costs {currency} = {_number(total)}, and {_number(paid)} was paid"
            _hold(total <= paid, f"{words} {said}")
            self.say("T12" if words == "'all of it'" else "T10", said)
        return total

    def composed(self, node: Any, currency: str) -> Fraction | None:
        """Return what draws cost together (T10, T11, T15)."""
        how, words = node["how"], short(node.get("released", "a draw"))
        _need(how in ("sum", "largest", "bags"), f"{short(how)} is no composition")
        shown = isinstance(node["of"], list) and node["of"]
        _hold(shown, f"{words} was paid for, and no draw of it is shown")
        asked = "epsilon" if how == "bags" else currency
        parts = [self.cost(part, asked) for part in node["of"]]
        costs = [part for part in parts if part is not None]
        if len(costs) < len(parts):
            return None
        total = max(costs) if how == "largest" else self.effort.total(costs)
        if how == "largest":
            self.disjoint(node, len(parts))
        if how == "bags":
            total = self.in_bags(total, _whole(node, "bags"))
            total = self.effort.price(1, 1 / total) if asked != currency else total
        return total

    def disjoint(self, node: Any, number: int) -> None:
        """Refuse parts that overlap by their names (T11)."""
        words = f"{number} parts of {short(node['partition'])}"
        if "names" in node:
            right = len(node["names"]) == number and _are_disjoint(node["names"])
            _hold(right, f"{words} overlap by name")
        self.say("T11", f"of {words} the dearest counts")
        self.say(TRUSTED, f"each record is in at most one of {words}")

    def in_bags(self, cost: Fraction, number: int) -> Fraction:
        r"""Return what draws cost in n bags of K ~ Poisson(1) copies of records (T15).

        A unit change of cost :math:`\epsilon` costs :math:`\log E e^{K \epsilon}
        = e^\epsilon - 1` in each, and there are `factor` of them.
        """
        one = cost / self.factor
        _need(one < 1000, "a cost in random samples is too large")
        with localcontext(prec=60):
            power = (Decimal(one.numerator) / Decimal(one.denominator)).exp()
        price = Fraction(power) * (1 + Fraction(1, 10**40)) - 1
        self.say("T15", f"a bag costs epsilon = {_number(price)} of one record")
        return number * price * self.factor

    # ---- all of it ----

    def check(self, text: bytes, folder: Path | None) -> str:
        """Check a text of evidence; return what holds if nothing was refuted."""
        document = parsed(text)
        _need(type(document) is dict and "format" in document, OTHER)
        form = document["format"], _whole(document, "version")
        _need(form == ("mmech evidence", 1), f"{short(form)} is no known form")
        _hold(document["insecure"] is False, "the noise was predictable, for tests")
        relation, root = document["relation"], document["cost"]
        check_names(root, False)
        kind, self.records = relation["neighbours"], _whole(relation, "records")
        known = {"add_remove": "added or removed", "replace": "replaced"}
        known |= {"labels": "with other labels"}
        _need(kind in known, f"neighbours of kind {short(kind)} are not known")
        self.factor = self.records * (1 if kind == "add_remove" else 2)
        words = f"one person's records, at most {self.records}, {known[kind]}"
        self.say("T1", f"neighbours differ in {words}; unit changes: {self.factor}")
        self.say(TRUSTED, "records were counted as stated; the sampler has its laws")
        self.say(UNSEEN, "other releases of the same records, timings, who saw records")
        currency = document["currency"]
        _need(currency in ("epsilon", "rho"), f"{short(currency)} is no currency")
        claim = _exact(root, "paid")
        self.cost(root, currency)
        published = document.get("published")
        if published and folder is None:
            self.say(UNSEEN, "published files, which are not beside the evidence")
        elif published:
            self.attempt(self.published, published, folder)
        elif self.alone and folder:
            self.attempt(self.listed, {}, folder)
        holds = f"{currency} = {_number(claim)}"
        return f"{holds} for {words}, if what is trusted is so"

    def listed(self, files: Any, folder: Path) -> None:
        """Refuse a folder with other files than those that the evidence lists."""
        others = {path.name for path in folder.iterdir()} - {FILE, *files}
        words = f"{short(min(others, default=''))} is no part of what was published"
        _hold(not others, words)

    def made_again(self, facts: Any, folder: Path) -> None:
        """Say which files are those that are made of the noisy numbers anew (T13)."""
        alike = {*self.again(folder, self.say)} & {*facts["files"]}
        others = ", ".join(short(name) for name in facts["files"] if name not in alike)
        words = "published counts, pages and workbooks were made"
        if alike:
            self.say("T13", f"files made again of y, and alike: {len(alike)}")
            words = f"files that were not made again alike ({others}) were made"
        if others:
            self.say(TRUSTED, f"{words} of the noisy numbers alone")

    def published(self, facts: Any, folder: Path) -> None:
        """Check that files are those that were hashed, and their tables (T13, T14)."""
        left, files = MOST_PUBLISHED, {}
        for name, digest in facts["files"].items():
            plain = not set(name) & set("/\\:\0") and name not in ("", ".", "..")
            _need(plain, f"{short(name)} is no name of a file beside the evidence")
            files[name] = _content(folder / name, left)
            left -= len(files[name])
            same = hashlib.sha256(files[name]).hexdigest() == digest
            _hold(same, f"{short(name)} is not the file that was published")
        self.say("T13", f"files with the stated hashes: {len(files)}")
        self.attempt(self.listed, files, folder)
        self.attempt(self.made_again, facts, folder)
        if facts.get("conditioned") is True:
            self.say(TRUSTED, "known totals, rules and hierarchies were public before")
        if not facts.get("tables"):
            return
        sizes = _wholes(facts, "sizes", 1).tolist()
        tables = [_table(table, files, sizes, self.effort) for table in facts["tables"]]
        _margins(tables, self.effort)
        said = f"{len(tables)} tables of whole counts, none below zero"
        self.say("T13", f"{said}, which agree in all that they have in common")
        found = [draw for draw in self.measured if all(k[0] == sizes for k, *_ in draw)]
        if len(found) != 1 or facts.get("conditioned") is not False:
            self.say(UNSEEN, "estimates and intervals: not of one noise of marginals")
            return
        measured = [
            Table((*kept,), values.reshape([sizes[i] for i in kept]), {}, law)
            for (_, kept), values, law in found[0]
        ]
        level = float(_exact(facts, "level"))
        known = []
        for table in tables:
            self.effort.spend(CALL // 25 * len(measured) + 9 * table.counts.size)
            known.append(_estimated(table, measured, level, self.effort))
        said = "tables with errors of y, whose intervals hold estimates and counts"
        self.say("T14", f"{said}: {sum(known)}")
        self.say("T16", f"tables with intervals of level {level:g}: {sum(known)}")


def _number(value: Any) -> str:
    return str(value) if value.denominator < 10**9 else f"{float(value):.9g}"


def _are_disjoint(names: Any) -> bool:
    """Return whether no name is a union of others, or a share of another number."""
    known = {_form(name) for name in names}
    pieces = [{*re.split(r"[^\w/.-]+|_or_", name)} - {name} for name in known]
    shares = {name.split("/")[-1] for name in known if re.search(r"\d/\d", name)}
    apart = len(known) == len(names) and not any(piece & known for piece in pieces)
    return apart and len(shares) <= 1 and not known & {"", "*", "all"}


# ---- published tables ----------------------------------------------------------------


class Table(NamedTuple):
    """Counts with an axis for each attribute: as published, or as measured.

    With all columns of the file as text, or with the `Run` of noise on all counts.
    """

    held: tuple[int, ...]
    counts: Array
    columns: dict[str, list[str]]
    noise: Any = None


def _table(
    facts: Any, files: dict[str, bytes], sizes: Sequence[int], effort: Effort
) -> Table:
    """Read a table, whose counts must be whole and not negative."""
    name, kept = facts["file"], _wholes(facts, "attributes", 0, len(sizes) - 1).tolist()
    _hold(name in files and kept == sorted({*kept}), f"{short(name)} is not described")
    text = files[name]
    effort.spend(CALL + len(text) + 20 * (text.count(b",") + text.count(b"\n")))
    titles, *rows = csv.reader(text.decode("utf-8-sig").splitlines())
    columns = dict(zip(titles, map(list, zip(*rows, strict=True)), strict=True))
    _hold(len(columns) == len(titles), f"a column of {short(name)} occurs twice")
    counts, shape = columns["count"], [sizes[i] for i in kept]
    whole = re.fullmatch("([0-9]{1,18} )*", " ".join([*counts, ""]))
    _hold(whole, f"counts of {short(name)} are not whole, or negative")
    _hold(len(counts) == math.prod(shape), f"{short(name)} has another number of rows")
    return Table((*kept,), np.array(counts, np.int64).reshape(shape), columns)


def _onto(table: Table, kept: Any) -> Array:
    """Return the margin of some attributes."""
    others = tuple(i for i, axis in enumerate(table.held) if axis not in kept)
    return np.asarray(table.counts.sum(others))


def _margins(tables: Sequence[Table], effort: Effort) -> None:
    """Refuse tables that differ in what they have in common."""
    held = [frozenset(table.held) for table in tables]
    effort.spend(2 * len(held) * sum(map(len, held)))
    for both in {one & other for one, other in combinations(held, 2)}:
        effort.spend(2 * len(held))
        these = [table for table, k in zip(tables, held, strict=True) if both <= k]
        effort.spend(sum(100 * len(table.held) + table.counts.size for table in these))
        found = [_onto(table, both) for table in these]
        same = all(np.array_equal(margin, found[0]) for margin in found)
        _hold(same, "published tables differ in a margin that they share")


def _law(run: Run, u: Array) -> tuple[float, Array]:
    """Return the variance of noise on a row, and its characteristic function (T16).

    Discrete Gaussian noise of variance 1 or more is like continuous noise to eight
    digits; the mass of other noise beyond 9 is below them.
    """
    t = float(run.scale)
    if run.law != "gaussian":
        half = math.sinh(min(0.5 / t, 300.0))
        return 0.5 / half**2, 1 / (1 + (np.sin(u / 2) / half) ** 2)
    if t >= 1:
        return t, np.exp(-t * u * u / 2)
    k = np.arange(10)
    mass = np.exp(-k * k / (2 * t)) * np.where(k, 2, 1)
    mass /= mass.sum()
    return float(mass @ (k * k)), np.cos(np.multiply.outer(u, k)) @ mass


def _estimated(
    table: Table, measured: Sequence[Table], level: float, effort: Effort
) -> bool:
    r"""Refuse intervals without estimate and count, and other errors (T14, T16).

    The Fourier transform of a marginal a is the transform of all cells, at frequencies
    that are zero for other attributes. Noise on it has the variance
    :math:`n_a \sigma_a^2`, so that least squares are weighted means at each frequency.
    Return whether all frequencies of the table were measured.
    """
    axes = [*zip(table.held, table.counts.shape, strict=True)]
    found, precision = (np.zeros(table.counts.shape, kind) for kind in (complex, float))
    variance = {a.noise: max(_law(a.noise, np.zeros(0))[0], FLOOR) for a in measured}
    given = []
    for a in measured:
        shape = [n if i in a.held else 1 for i, n in axes]
        place, each = tuple(map(slice, shape)), 1 / (a.counts.size * variance[a.noise])
        given.append((a, place, each))
        found[place] += each * np.fft.fftn(_onto(a, table.held).reshape(shape))
        precision[place] += each
    if not precision.all():
        return False
    terms: Counter[tuple[float, Run]] = Counter()
    for a, place, each in given:
        inverse = np.fft.fftn(1 / precision[place])
        shares = (each / precision.size * abs(inverse.real)).round(12)
        for share, times in Counter(shares.flat).items():
            terms[share, a.noise] += times * a.counts.size // shares.size
    effort.spend(CALL // 20 * len(terms))
    squares = [k * c**2 * variance[run] for (c, run), k in terms.items()]
    deviation = math.sqrt(sum(squares))
    ends = ("lower", "upper", "standard_error")
    low, high, error = (np.array(table.columns[title], float) for title in ends)
    centre = np.fft.ifftn(found / precision).real.ravel()
    flat = table.counts.ravel()
    right = abs(error - deviation) <= 1e-5 * deviation
    right &= (low <= flat) & (flat <= high) & (centre < high + 1)
    right &= (low < centre + 1) | (low == 0)
    _hold(right.all(), "an interval or an error does not follow from the noisy numbers")
    # The least error with which a whole exact count is outside of its interval.
    beyond = np.append(high + 1 - centre, (centre - low + 1)[low > 0]).min()
    chance = _probability(beyond, terms, deviation, len(measured) == 1, effort)
    words = f"intervals hold with probability {chance:.3f}, and not {level:g}"
    _hold(chance >= level - TOLERANCE, words)
    return True


def _probability(
    beyond: float,
    terms: Counter[tuple[float, Run]],
    error: float,
    whole: bool,
    effort: Effort,
) -> float:
    r"""Return the probability of an error below h, whose law is symmetric (T16).

    .. math:: \frac{2}{\pi} \int_0^\infty \frac{\sin(u h)}{u} \phi(u) du

    :math:`\phi` is the characteristic function of the error, to which a uniform one of
    the width of its widest gap is added.
    """
    gap = max(weight for weight, _ in terms)
    u = np.linspace(0.0, 60.0, 6001)[1:] / max(error, gap / 50)
    found, normal = np.sinc(u * gap / (2 * math.pi)), 0.0
    for (weight, run), number in terms.items():
        if run.law == "gaussian" and run.scale >= 1:
            normal += number * weight**2 * float(run.scale)
        else:
            effort.spend(2 * CALL)
            found *= _law(run, weight * u)[1] ** number
    found *= np.exp(-normal * u * u / 2)
    reach = beyond - gap / 2 * whole  # whole errors below are at most one less
    mass = (np.sin(u * reach) / u * found).sum() + reach / 2
    return float(2 / math.pi * u[0] * mass)


def _evidence(path: Path, say: Callable[..., None]) -> tuple[bytes, Path | None]:
    """Return the text of evidence, and the folder of what was published."""
    path = path / FILE if path.is_dir() else path
    _need(path.is_file(), f"there is no file {short(path.name)}")
    with open(path, "rb") as stream:
        archive = stream.read(2) == b"PK"
    if archive:
        return _member(path, say), None
    return _content(path, MOST_BYTES), path.parent


def examine(
    text: bytes | Path, folder: Path | None = None, again: Remake = lambda *_: ()
) -> tuple[int, list[str]]:
    """Check evidence, as text or at a path; return the exit code and the report.

    The last line of the report is the verdict. What `again` is given, a folder and
    `Checker.say`, lets the package make files of the noisy numbers anew. It says what
    differs, and returns the names of files that are alike.

    Examples
    --------
    >>> from mmech.verify import examine
    >>> code, report = examine(b"{}")
    >>> print(code, report[-1])
    2 cannot check: it is no evidence; name a folder, its evidence.json or a model
    """
    given = isinstance(text, bytes)
    checker = Checker(again, alone=isinstance(text, Path) and text.is_dir())
    found = (text, folder) if given else checker.attempt(_evidence, text, checker.say)
    verdict = f"holds: {found and checker.attempt(checker.check, *found)}"
    code, lines = 0, []
    for wrong, title, words in (2, UNCHECKED, "cannot check"), (1, REFUTED, "refuted"):
        for reason in [*checker.said[title]][:1]:
            code, verdict = wrong, f"{words}: {reason}"
    everything = sum(map(len, checker.said.values()))
    for title in (PROVED, TRUSTED, UNSEEN, UNCHECKED, REFUTED):
        said = checker.said[title].items() if everything > 1 else ()
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
