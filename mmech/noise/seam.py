"""The one place that every random outcome passes through, so that tests can watch it.

A release is a function of exact values, of public settings and of fresh randomness.
Each of its draws is announced here with all three, after it was paid for. Tests watch
and replace draws; a release records them without exact values, as its evidence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from itertools import count
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from mmech.exceptions import PrivacyLeakWarning


@dataclass(frozen=True, eq=False)
class Draw:
    """What one random outcome depends on.

    Attributes
    ----------
    kind : str
        Name of a law of noise, such as ``"laplace"``, ``"gaussian"``, ``"k_norm"``:
        exact values to which noise is added; ``"exponential"``,
        ``"permute_and_flip"``, ``"tree"``: a selection by exact scores;
        ``"quantiles"``: a selection of cut points by exact counts of cells;
        ``"assignment"``: a part of the data for each of so many records; ``"ties"``,
        ``"key"``: randomness that touches released numbers only.
    exact : Any
        What comes from records. Sensitive, but for ``"ties"`` and ``"key"``.
    public : mapping of str
        Everything else that the probabilities of the outcomes follow from. For noise:
        the ``runs`` of rows with the exact ``parameters`` of their law; the ``groups``
        of a K-norm law; the ``entry`` in the ledger. For a selection:
        its ``epsilon`` and ``relation``, and the ``rate``, which one unit of score adds
        to the logarithm of a weight, in nats.
    """

    kind: str
    exact: Any
    public: Mapping[str, Any]


Sampler = Callable[[], Any]
Watcher = Callable[[Draw, Sampler], Any]
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_watcher: Watcher | None = None


class Sampled(NamedTuple):
    """Noise of one law, as its sampler was called: parameter, shape, and groups."""

    law: str
    parameter: Fraction
    shape: tuple[int, ...]
    groups: Any = None


class Payment(NamedTuple):
    """A charge, as the ledger keeps it: a `LedgerEntry`, and the relation."""

    entry: Any
    relation: Any


class Drawn(NamedTuple):
    """A random outcome that depends on records, without exact values.

    `public` is the same as in its `Draw`.
    """

    kind: str
    public: Mapping[str, Any]
    outcome: Any
    sampled: tuple[Sampled, ...]


Recorded = list[Payment | Drawn]

_recorded: ContextVar[Recorded | None] = ContextVar("recorded", default=None)
_repeated: ContextVar[Watcher | None] = ContextVar("repeated", default=None)
_sampled: ContextVar[list[Sampled] | None] = ContextVar("sampled", default=None)
_together: ContextVar[bool] = ContextVar("together", default=False)
_trees: ContextVar[tuple[int, Any]] = ContextVar("trees", default=(1, None))
_place: ContextVar[Iterator[int] | None] = ContextVar("place", default=None)


@contextmanager
def _within(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Give a variable a value within a ``with`` statement."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def drawn(kind: str, exact: Any, sample: Sampler, **public: Any) -> Any:
    """Return what `sample` draws, or what a test puts in its place."""
    record = _recorded.get()
    if record is None or exact is None:
        return _watched(kind, exact, sample, public)
    samples: list[Sampled] = []
    with _within(_sampled, samples):
        outcome = _watched(kind, exact, sample, public)
    place = _place.get()
    facts: dict[str, Any] = dict(zip(("rows", "bags"), _trees.get(), strict=True))
    if place is not None:
        facts["together"] = f"draw {next(place)}"
    record.append(Drawn(kind, facts | public, outcome, tuple(samples)))
    return outcome


def _watched(kind: str, exact: Any, sample: Sampler, public: Mapping[str, Any]) -> Any:
    again = _repeated.get()
    if again is not None and exact is not None:
        return again(Draw(kind, exact, public), sample)
    if _watcher is None:
        return sample()
    return _watcher(Draw(kind, exact, public), sample)


def sampler(law: str) -> Callable[[Decorated], Decorated]:
    """Decorate what draws noise of a law, so that records hold its very arguments.

    Its first argument is the parameter; the next are groups, if there are any, and a
    shape. Noise that is drawn on the way to other noise is not recorded.
    """

    def decorate(draw: Decorated) -> Decorated:
        @wraps(draw)
        def noting(*given: Any, **options: Any) -> Any:
            samples = _sampled.get()
            if samples is None:
                return draw(*given, **options)
            parameter, *rest = given
            groups = rest[0] if len(rest) > 1 else None
            if _repeated.get() is None:
                with _within(_sampled, None):
                    noise = draw(*given, **options)
            else:
                rows = sum(map(sum, groups or ()))
                noise = np.zeros((rows, rest[1]) if groups else rest[0], np.int64)
            samples.append(Sampled(law, Fraction(parameter), noise.shape, groups))
            return noise

        return cast(Decorated, noting)

    return decorate


def repeated(outcome: Watcher) -> AbstractContextManager[None]:
    """Let a function say how draws that depend on records come out.

    It is called with a `Draw` and a function without arguments, for what is sampled
    beside them. Noise is zero there: samplers note what they would draw with.
    """
    return _within(_repeated, outcome)


def paid(entry: Any, relation: Any) -> None:
    """Record a charge, unless it is one step of what was paid for as a whole."""
    record = _recorded.get()
    if record is not None and not _together.get():
        record.append(Payment(entry, relation))


def paid_together() -> AbstractContextManager[None]:
    """Record no further charge: the one before pays for all draws within."""
    return _within(_together, True)


@contextmanager
def unseen(why: str) -> Iterator[None]:
    """Record that draws within cannot be checked, and none of them."""
    record = _recorded.get()
    if record is not None:
        record.append(Drawn("opaque", {"rows": 1, "why": why}, None, ()))
    with _within(_recorded, None):
        yield


@contextmanager
def disjoint() -> Iterator[None]:
    """Mark draws as those of a part of the nodes, or leaves, of trees.

    The first draws of all parts under one charge cost as much as the dearest, the
    second ones as well, and so on: a record counts in one part of each tree. Where
    nothing is drawn, that is recorded, because it was paid for.
    """
    places, record = count(1), _recorded.get()
    with _within(_place, places):
        yield
    if record is not None and next(places) == 1:
        record.append(Drawn("nothing", {}, None, ()))


def in_trees(
    number: int, bags: tuple[str, int] | None = None
) -> AbstractContextManager[None]:
    """Mark draws as those of trees, in `number` of which a record counts.

    Or of random samples of the records, as many as the second of `bags` says. Each of
    them has a number of copies of a record that is Poisson with mean one.
    """
    return _within(_trees, (number, bags))


@contextmanager
def recording() -> Iterator[Recorded]:
    """Record charges, and the draws that they pay for, in order.

    What is public, keys and ties, is not recorded. Records within others go to both.
    """
    inner: Recorded = []
    outer = _recorded.get()
    try:
        with _within(_recorded, inner):
            yield inner
    finally:
        if outer is not None:
            outer += inner


@contextmanager
def watch_draws(watcher: Watcher) -> Iterator[None]:
    """Pass every random outcome of this process through a function; for tests.

    Parameters
    ----------
    watcher : callable
        Called with a `Draw` and a function without arguments that draws the outcome;
        what it returns is taken for the outcome.

    Warns
    -----
    PrivacyLeakWarning
        Always: a watcher sees exact values and may replace the noise.

    Examples
    --------
    >>> import warnings
    >>> from mmech import noisy_release
    >>> from mmech.testing import watch_draws
    >>> def without_noise(draw, sample):
    ...     return draw.exact
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with watch_draws(without_noise):
    ...         noisy_release(
    ...             [4, 0, 9], sensitivity=1, epsilon=1, released="counts"
    ...         ).values
    array([4, 0, 9])
    """
    global _watcher
    warnings.warn(
        "watched draws show exact values and may be predictable, which gives no "
        "privacy; use watch_draws in tests only",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before
