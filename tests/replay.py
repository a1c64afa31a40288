"""Record what a release draws and play it to a neighbour; or draw without records.

A release is a function of exact values, public settings and outcomes of draws. Feed the
outcomes of one run to a neighbouring data set: all public values must be the same, draw
by draw and bit by bit. Only exact values may differ, by at most the sensitivity that
the noise of their draw is paid for. This is how Re:cord-play finds faults in
implementations of differential privacy (arXiv 2602.17454).
"""

import atexit
import dataclasses
import math
import pickle
import struct
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import reference as ref
from entropy import system_entropy

from mmech import PrivacyLeakWarning, PrivacyLedger
from mmech.noise.seam import _sampled
from mmech.testing import watch_draws
from mmech_rf.estimator.accuracy import HELD_OUT

FREE = ("ties", "key", "assignment", "samples")
"""Draws that cost nothing: their outcomes say nothing of records by themselves."""


TAKEN = [0]
"""How many bytes of entropy were taken so far."""


def no_clock():
    """Stand for the clock where seconds are not the subject."""
    return 0.0


@contextmanager
def watched(watcher):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        watching = watch_draws(watcher)
        watching.__enter__()
    try:
        yield
    finally:
        watching.__exit__(None, None, None)


@contextmanager
def entropy(seed):
    """Entropy of the system that is the same in every run, for tests alone."""
    rng = np.random.default_rng(seed)

    def urandom(size):
        TAKEN[0] += size
        return rng.bytes(size)

    with system_entropy(urandom):
        yield


def with_noise(law):
    """Return a watcher that lets ``law(parameter, shape)`` stand for all noise.

    The parameter is the exact one that the release draws with: a scale, or a variance.
    """

    def watcher(draw, sample):
        if "parameters" not in draw.public:
            return sample()
        noisy = np.atleast_1d(draw.exact).copy()
        for (start, stop, _), parameter in _runs(draw.public):
            noisy[start:stop] += law(parameter, noisy[start:stop].shape)
        return noisy.reshape(np.shape(draw.exact))

    return watcher


def row_parameters(mechanism):
    """Return the exact parameter of the noise of every row, as it is drawn."""
    found = []

    def note(draw, sample):
        found.extend(
            parameter
            for (start, stop, _), parameter in _runs(draw.public)
            for _ in range(stop - start)
        )
        return draw.exact

    with watched(note):
        mechanism.measure(np.zeros(mechanism.workload.shape[1], int))
    return found


# ------------------------------------------------------------------------ data sets
@dataclasses.dataclass(frozen=True)
class People:
    """Records that keep their name from one data set to another."""

    names: tuple[int, ...]
    rows: tuple[tuple, ...]
    labels: tuple
    dropped: frozenset[int] = frozenset()
    """Names of records that the policies of a fit leave out."""

    @classmethod
    def of(cls, rows, labels, dropped=()):
        rows = tuple(map(tuple, np.asarray(rows).tolist()))
        labels = tuple(np.asarray(labels).tolist())
        return cls(tuple(range(len(rows))), rows, labels, frozenset(dropped))

    @property
    def X(self):
        return list(map(list, self.rows))

    @property
    def y(self):
        return list(self.labels)

    @property
    def counted(self):
        return [name for name in self.names if name not in self.dropped]

    def without(self, i):
        return self._with(i, i + 1, (), (), ())

    def and_of(self, row, label, i=None, *, dropped=False):
        i = len(self.names) if i is None else i
        return self._with(i, i, *self._new(row, label), dropped=dropped)

    def replaced(self, i, row, label, *, dropped=False):
        return self._with(i, i + 1, *self._new(row, label), dropped=dropped)

    def relabelled(self, i, label):
        """Return the same people, one with another label."""
        labels = (*self.labels[:i], label, *self.labels[i + 1 :])
        return dataclasses.replace(self, labels=labels)

    def _new(self, row, label):
        return (max(self.names, default=-1) + 1,), (tuple(row),), (label,)

    def _with(self, start, stop, *new, dropped=False):
        parts = (self.names, self.rows, self.labels)
        return People(
            *(p[:start] + n + p[stop:] for p, n in zip(parts, new, strict=True)),
            self.dropped.union(new[0] if dropped else ()),
        )


# ------------------------------------------------------------------ record and replay
@dataclasses.dataclass(frozen=True)
class Played:
    """A draw, what came out, and how many releases had been paid for by then.

    It is dry where chance had a say, but took no entropy of the system.
    """

    draw: object
    outcome: object
    paid: int
    dry: bool


@dataclasses.dataclass(frozen=True)
class Run:
    """All draws of one run, what it paid, and what anybody sees of it."""

    people: object
    played: list[Played]
    entries: tuple | None
    seen: object


def play(run, people, ledger=None, tape=None, *, strangers=False):
    """Run on a data set; with the run on another one, by the outcomes of that.

    ``run(people, ledger)`` returns all that anybody may see. Strangers have no record
    in common: what is drawn for each record is drawn anew, unless both sets have the
    same attributes and only labels differ.
    """
    played = []

    def watcher(draw, sample):
        before = TAKEN[0]
        if tape is None:
            outcome = sample()
        else:
            if _sampled.get() is not None:  # evidence notes what samplers are asked
                sample()
            outcome = _repeated(draw, sample, played, tape, people, strangers)
        exact = _copy(draw.exact)
        paid = 0 if ledger is None else len(ledger.entries)
        chance = draw.public.get("n_parts", 2) > 1 and np.size(outcome)
        dry = chance and draw.kind not in ("ties", "key") and TAKEN[0] == before
        draw = dataclasses.replace(draw, exact=exact)
        played.append(Played(draw, _copy(outcome), paid, bool(dry)))
        return outcome

    with watched(watcher), mock.patch.object(time, "perf_counter", no_clock):
        seen = run(people, ledger)
    if tape is not None:
        same("the number of draws", len(tape.played), len(played))
    return Run(people, played, None if ledger is None else ledger.entries, seen)


def _repeated(draw, sample, played, tape, people, strangers):
    number = len(played)
    words = f"draw {number + 1}"
    assert number < len(tape.played), f"{words}, {draw.kind}, is one more than before"
    before = tape.played[number]
    same(f"the kind of {words}", before.draw.kind, draw.kind)
    same(f"the public side of {words}", dict(before.draw.public), dict(draw.public))
    if strangers and draw.kind in ("samples", "assignment"):
        # As many are the same people with other labels: exact tests show their trees.
        alike = draw.exact == before.draw.exact
        return _copy(before.outcome) if alike else sample()
    if draw.kind not in ("samples", "assignment"):
        same(f"the shape of {words}", _shape(before.draw.exact), _shape(draw.exact))
        if draw.kind == "tree":
            return _of_these_views(before, draw.public["views"])
        return _copy(before.outcome)
    ours = _assigned(people, played, draw)
    theirs = _assigned(tape.people, tape.played[:number], before.draw)
    if ours is None or theirs is None:  # other people, who are the same
        same(f"records in {words}", before.draw.exact, draw.exact)
        return _copy(before.outcome)
    # Each record keeps its part, or its places in samples.
    known = dict(zip(theirs, before.outcome.tolist(), strict=True))
    same(f"records in {words}", len(ours), draw.exact)
    if draw.kind == "samples":  # those who are new are in the last one, once
        new = np.eye(1, draw.public["n_samples"], dtype=np.int64)[0, ::-1]
        found = [known.get(name, new) for name in ours]
        return np.array(found, np.int64).reshape(-1, new.size)
    n_parts = draw.public["n_parts"]  # those who are new get any
    return np.array([known.get(name, name % n_parts) for name in ours], np.int64)


def _assigned(people, played, draw):
    """Return who is assigned: everybody, who was not held out before, or ``None``."""
    if draw.exact == len(people.counted):
        return people.counted
    firsts = [
        one
        for one in played
        if one.draw.kind == "assignment" and one.draw.public["n_parts"] == HELD_OUT
    ]
    if not firsts:
        return None
    pairs = zip(people.counted, firsts[0].outcome.tolist(), strict=True)
    training = [name for name, part in pairs if part > 0]
    return training if len(training) == draw.exact else None


def _of_these_views(before, views):
    """Return a tree as it would have been drawn from equal views."""
    theirs = before.draw.public["views"].items
    ours = {id(view): own for view, own in zip(theirs, views.items, strict=True)}
    ours[id(None)] = None
    tree = before.outcome
    branches = tuple(ours[id(branch)] for branch in tree.branches)
    return dataclasses.replace(tree, root=ours[id(tree.root)], branches=branches)


def _copy(value):
    if isinstance(value, Mapping):
        return {name: _copy(part) for name, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def _shape(exact):
    if isinstance(exact, Mapping):
        # Columns are records.
        return {name: np.shape(part)[:-1] for name, part in exact.items()}
    return np.shape(exact)


# ------------------------------------------------------------------- what a pair costs
def check_pair(before, after, *, epsilon=None, rho=None):
    """Check all but the exact values to be the same, and these to be paid for.

    In `rho` where it is given, in pure `epsilon` otherwise.

    Returns
    -------
    Fraction
        The largest privacy loss of this pair, in nats of pure epsilon, or rho.
    """
    same("the ledger", before.entries, after.entries)
    same("what is seen", before.seen, after.seen)
    losses = []
    for number, (one, other) in enumerate(
        zip(before.played, after.played, strict=True), 1
    ):
        words = f"draw {number}, {one.draw.kind},"
        price, currency = _price(one.draw)
        cost = loss(one.draw, other.draw)
        counted = currency == "rho" or rho is not None
        in_rho = loss_in_rho(one.draw, other.draw) if counted else cost
        spent = in_rho if currency == "rho" else cost
        assert spent <= price, f"{words} costs {float(spent)} but is to cost {price}"
        _check_scores(words, one.draw, other.draw)
        noted = before.entries[one.paid - 1].kind if before.entries and one.paid else ""
        flipped = one.draw.kind == "permute_and_flip"
        # Which costs more rho: its log ratios lie in no window of that width.
        assert not (flipped and noted == "exponential"), f"{words} is noted as {noted}"
        losses.append(cost if rho is None else in_rho)
    for entry in range(0 if before.entries is None else len(before.entries) + 1):
        # Draws on disjoint parts of the records share an entry.
        cost = sum(
            cost
            for one, cost in zip(before.played, losses, strict=True)
            if one.paid == entry
        )
        paid = before.entries[entry - 1].cost if entry else 0
        assert cost <= paid, f"release {entry} costs {float(cost)}, {paid} was paid"
    total = sum(losses, Fraction(0))
    limit = epsilon if rho is None else rho
    assert total <= limit, f"all draws cost {float(total)} of {float(limit)}"
    return total


def check_neighbours(run, before, others, cost, **relation):
    """Play a run to all neighbours; return it, and what each of them costs."""

    def played(people, tape=None):
        ledger = PrivacyLedger(1, currency=next(iter(cost)), **relation)
        return play(run, people, ledger, tape)

    with entropy(0):
        tape = played(before)
        return tape, [check_pair(tape, played(own, tape), **cost) for own in others]


def _price(draw):
    """Return what a draw is to cost at most, and in what."""
    if "entry" in draw.public:
        return draw.public["entry"].cost, draw.public["entry"].currency
    rows = len(draw.exact) if draw.kind == "exponential_rows" else 1
    return draw.public.get("epsilon", 0) * rows, "epsilon"


def loss(before, after):
    """Return the largest log ratio of probabilities of an outcome, or rho of noise.

    For a selection it is the width of the window that log ratios lie in.
    """
    public = before.public
    if before.kind in FREE:
        return Fraction(0)
    if before.kind == "tree":
        changed = _changed_records(before.exact, after.exact)
        # A tree may get each of them right or wrong.
        return public["rate"] * sum(
            abs(number) * weight for (*_, weight), number in changed
        )
    change = np.asarray(after.exact) - np.asarray(before.exact)
    if before.kind == "quantiles":
        # A record lowers the score of some ways to cut by one, and leaves the others.
        return public["rate"] * Fraction(int(abs(change).sum()))
    if before.kind == "exponential_rows":
        return public["rate"] * _widths(public, change).sum()
    change = change.astype(object).reshape(len(change) if change.ndim else 1, -1)
    if before.kind == "laplace":
        return sum(
            (
                Fraction(abs(change[start:stop]).sum()) / scale
                for (start, stop, _), scale in _runs(public)
            ),
            Fraction(0),
        )
    if before.kind == "gaussian":
        return sum(
            (
                Fraction((change[start:stop] ** 2).sum()) / (2 * variance)
                for (start, stop, _), variance in _runs(public)
            ),
            Fraction(0),
        )
    if before.kind == "k_norm":
        total, row, blocks = Fraction(0), 0, iter(public["groups"])
        for (_, stop, _), scale in _runs(public):
            norms = []
            while row < stop:
                sizes = next(blocks)
                ends = row + np.cumsum(sizes)
                groups = np.split(change[row : ends[-1]], ends[:-1] - row)
                if np.ptp([group.sum(axis=0) for group in groups], axis=0).any():
                    return math.inf  # totals that noise does not hide
                norms += [abs(group).sum(axis=0) for group in groups]
                row = ends[-1]
            # The noise of columns is independent, and so is the noise of runs.
            total += Fraction(np.max(norms, axis=0).sum()) / scale
        return total
    assert before.kind in ("exponential", "permute_and_flip"), before.kind
    return public["rate"] * Fraction(change.max() - change.min())


def _widths(public, change):
    """Return how far apart the changes of the scores of every row are."""
    if public["possible"] is None:
        return np.ptp(change, axis=1) if change.size else np.zeros(1, np.int64)
    above = np.where(public["possible"], change, change.min(initial=0)).max(axis=1)
    below = np.where(public["possible"], change, change.max(initial=0)).min(axis=1)
    return above - below


def loss_in_rho(before, after):
    """Return what a pair costs in zCDP.

    The Kullback-Leibler divergence of Laplace noise. An eighth of the square of the
    loss of draws by the exponential mechanism, whose log ratios lie in a window of that
    width. For all other draws, what randomised response costs for the same loss.
    """
    kind, cost = before.kind, loss(before, after)
    if kind == "gaussian" or not cost:
        return cost
    if kind in ("exponential", "quantiles", "tree"):
        return cost**2 / 8
    if kind != "laplace":
        return _below(ref.laplace_rho(1, 1 / cost))
    change = np.abs(np.asarray(after.exact) - np.asarray(before.exact)).astype(object)
    change = change.reshape(len(change) if change.ndim else 1, -1)
    return _below(
        sum(
            ref.laplace_rho(moved, scale)
            for (start, stop, _), scale in _runs(before.public)
            for moved in change[start:stop].ravel()
            if moved
        )
    )


def _below(price):
    """Return a float as a fraction that is below what it was rounded from."""
    return Fraction(price * (1 - 1e-12))


def _runs(public):
    return zip(public["runs"], public["parameters"], strict=True)


def _check_scores(words, before, after):
    """Check that scores change as little as their draw says."""
    public = before.public
    if "rate" not in public:
        return
    records = public["relation"].records_per_person
    steps = public["relation"].factor
    if before.kind == "tree":
        changed = _changed_records(before.exact, after.exact)
        numbers = [number for _, number in changed]
        assert sum(map(abs, numbers)) <= steps, f"{words} sees other records"
        assert abs(sum(numbers)) <= records, f"{words} sees more records change"
        assert all(0 <= weight <= public["unit"] for (*_, weight), _ in changed)
        return
    change = after.exact - before.exact
    if before.kind == "quantiles":
        assert abs(change).sum() <= steps, f"{words} sees other records"
        assert abs(change.sum()) <= records, f"{words} sees more records change"
        return
    if before.kind == "exponential_rows":
        most = public["window"] * steps
        assert _widths(public, change).max() <= most, f"{words} moves scores by more"
        return
    if public.get("window") is not None:
        return
    most = records if public["monotone"] else steps
    assert abs(change).max() <= most, f"{words} has scores that change by more"
    if public["monotone"] and steps == records:
        assert change.min() >= 0 or change.max() <= 0, f"{words} is not monotone"


def _changed_records(before, after):
    """Return records that scores of trees differ by, with how many more there are."""
    changed = _numbers(after)
    changed.subtract(_numbers(before))
    return [(record, number) for record, number in changed.items() if number]


def _numbers(exact):
    """Return how often every record is there."""
    parts = [exact["class_codes"], exact["weights"]]
    if exact["predicted"] is not None:
        parts.insert(0, exact["predicted"])
    found = Counter()
    columns = np.vstack([exact["cells"], *parts]).T.tolist()
    for record, number in zip(columns, exact["multiplicities"].tolist(), strict=True):
        found[tuple(record)] += number
    return found


# ------------------------------------------------------------------------ what is seen
FOLDER = tempfile.TemporaryDirectory()
atexit.register(FOLDER.cleanup)

UNPUBLISHED = ("timings_",)
"""Attributes of a fitted model that depend on records, as their documentation says."""


def facts(model, cells):
    """Return all that anybody sees of a fitted model, to be compared by `same`."""
    hidden = UNPUBLISHED + (("_counts",) if model._holds_counts() else ())
    seen = {"labels": model.predict(cells), "repr": repr(model), "card": model.card()}
    for name in ("predict_proba", "describe"):
        if hasattr(model, name):
            seen[name] = getattr(model, name)(*[cells] * (name == "predict_proba"))
    attributes = {n: value for n, value in vars(model).items() if n not in hidden}
    seen["attributes"] = attributes
    if not model._holds_counts():
        seen["pickle"] = pickle.dumps(model)
    if not model._holds_secrets:
        file = Path(FOLDER.name, "model")
        model.save(file)
        seen["file"] = file.read_bytes()
    return seen


def facts_of_tables(released):
    """Return all that anybody sees of released tables."""
    shown = [released.table(names, frame="dict") for names in released.tables]
    return {
        # In words, because a number that is missing does not equal itself.
        "tables": [{k: str(v.tolist()) for k, v in own.items()} for own in shown],
        "records": {
            k: v.tolist() for k, v in released.sample(seed=1, frame="dict").items()
        },
        "statement": released.statement,
        "facts": released.facts,
        "text": repr(released),
    }


def same(words, before, after):
    """Assert that two things are equal in all their parts, bit for bit."""
    found = list(differences(before, after))
    assert not found, f"{words} differs: " + "; ".join(found[:5])


def differences(a, b, path="", known=None, rtol=0.0):
    """Yield in words where two things differ, floats by more than a tolerance."""
    # Keeps what was compared: a number that stands for an object is not given again.
    known = {} if known is None else known
    if a is b or (type(a) is type(b) and type(a) in (int, str, bytes) and a == b):
        return
    if (id(a), id(b)) in known:
        return
    known[id(a), id(b)] = a, b
    if type(a) is not type(b):
        yield f"{path} is a {type(a).__name__}, and a {type(b).__name__}"
    elif isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            yield f"{path} is {a.dtype} {a.shape}, and {b.dtype} {b.shape}"
        elif a.dtype == object:
            yield from differences(a.tolist(), b.tolist(), path, known, rtol)
        elif a.tobytes() != b.tobytes():
            yield f"{path} is {_short(a.tolist())}, and {_short(b.tolist())}"
    elif isinstance(a, Mapping):
        yield from differences(list(a), list(b), f"{path} keys", known, rtol)
        for key in [key for key in a if key in b]:
            yield from differences(a[key], b[key], f"{path}.{key}", known, rtol)
    elif isinstance(a, (tuple, list)):
        if len(a) != len(b):
            yield f"{path} has length {len(a)}, and {len(b)}"
        for i, (one, other) in enumerate(zip(a, b, strict=False)):
            yield from differences(one, other, f"{path}[{i}]", known, rtol)
    elif isinstance(a, float):
        near = rtol and math.isclose(a, b, rel_tol=rtol, abs_tol=rtol)
        if not near and struct.pack("d", a) != struct.pack("d", b):
            yield f"{path} is {a!r}, and {b!r}"
    elif isinstance(a, PrivacyLedger):
        yield from differences(a.to_json(), b.to_json(), path, known, rtol)
    elif dataclasses.is_dataclass(a) and not isinstance(a, type):
        # Without what is remembered of them, which follows from the fields.
        for field in dataclasses.fields(a):
            one, other = getattr(a, field.name), getattr(b, field.name)
            yield from differences(one, other, f"{path}.{field.name}", known, rtol)
    elif hasattr(a, "__dict__") and not isinstance(a, (type, np.dtype)):
        yield from differences(vars(a), vars(b), path, known, rtol)
    elif a != b:
        # Long texts are shown from where they differ.
        start = 0
        if isinstance(a, (str, bytes)):
            pairs = enumerate(zip(a, b, strict=False))
            start = next((i for i, (c, d) in pairs if c != d), min(len(a), len(b)))
            start = max(0, start - 40)
            a, b = a[start:], b[start:]
        yield f"{path} is {_short(a)}, and {_short(b)}" + f" from {start}" * (start > 0)


def _short(value):
    text = repr(value)
    return text if len(text) < 120 else f"{text[:120]}..."
