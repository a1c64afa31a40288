"""The registry of templates, and the walk over it that ``template="auto"`` is.

A template is a family of strategies: a name, the norms it is for, a look that tells
whether a search pays, and the search. One registry holds those for L1 sensitivity and
those for L2, of the files in `MODULES`. A time limit only truncates searches: the best
that was found is kept.
"""

from __future__ import annotations

import inspect
import math
import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np

from mmech.checks import nearest
from mmech.error.result import Callback, Candidate, StrategyResult
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.lazy import load_families
from mmech.operators.base import QueryMatrix
from mmech.threads import showing

PRIVACY = {"L1": "pure", "L2": "zcdp"}
"""The value of ``privacy=`` that belongs to a norm."""

TIE = 1e-9
"""Relative gain below which the template of lower rank, the simpler one, is kept."""

NOT_OPTIONS = ("workload", "norm", "seed", "callback")
"""Parameters of a search that `optimize` names itself."""


TOO_LARGE = "too large: "
"""How the note on a template begins that was left out for the size of a workload."""


@dataclass(frozen=True)
class Skip:
    """Why "auto" leaves a template out.

    Attributes
    ----------
    reason : str
        What the candidate's note says.
    bound : float
        What is known of the loss of the template; infinity for nothing.
    is_last : bool
        Whether no later template does better than what is known, which is the answer.
    """

    reason: str
    bound: float = math.inf
    is_last: bool = False


@dataclass(frozen=True)
class Request:
    """What is asked for beside the workload, and what was found so far.

    Attributes
    ----------
    norm : {"L1", "L2"}
        Norm of the columns that the loss is about.
    options : mapping of str to Any
        Options that the caller of `optimize` gave.
    runs : tuple of StrategyResult
        What the templates of lower rank found, in their order.
    seed : int, SeedSequence, Generator or None
        Seed of the searches.
    callback : callable or None
        What searches call with intermediate results.
    is_near : bool
        Whether a template has run that is near the optimum.
    """

    norm: str
    options: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[StrategyResult, ...] = ()
    seed: Any = None
    callback: Callback | None = None
    is_near: bool = False

    @property
    def best_loss(self) -> float:
        """Least loss so far, infinity if nothing has run."""
        return min((run.loss for run in self.runs), default=math.inf)


Seen = Skip | StrategyResult | None
"""Why to leave a template out, what settles the search, or nothing."""

Look = Callable[[QueryMatrix, Request], Seen]


@dataclass(frozen=True)
class Template:
    """One family of strategies.

    Attributes
    ----------
    name : str
        Value of ``template=``.
    run : callable
        ``run(workload, **options)`` returns a `StrategyResult` or raises
        `UnsupportedWorkloadError` or `DomainTooLargeError`. Its keyword parameters
        are the options of the template; ``seed``, ``callback`` and ``norm`` are
        passed if it has them.
    rank : int
        Place in the walk of "auto", lowest first; of equal losses the lower rank wins.
    norms : tuple of {"L1", "L2"}
        Norms whose loss it minimises.
    look : callable
        ``look(workload, found)`` tells "auto" what to do: `Skip` to leave the
        template out, a `StrategyResult` to take as the answer without trying any other,
        None to run the search.
    adapt : callable
        ``adapt(workload, options)`` returns the options with which "auto" runs it.
    by_name : bool
        Whether "auto" leaves it to those who name it.
    is_near : bool
        Whether it is near the optimum where its look lets it run.
    """

    name: str
    run: Callable[..., StrategyResult]
    rank: int
    norms: tuple[str, ...] = ("L1",)
    look: Look = lambda workload, found: None
    adapt: Callable[..., dict[str, Any]] = lambda workload, options: options
    by_name: bool = False
    is_near: bool = False

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of the parameters of the search."""
        return frozenset(inspect.signature(self.run).parameters)

    @property
    def options(self) -> frozenset[str]:
        """Names of the options."""
        return self.parameters.difference(NOT_OPTIONS)

    def search(self, workload: QueryMatrix, asked: Request) -> StrategyResult:
        """Run the search with what it takes of all that is asked for."""
        given = {"norm": asked.norm, "seed": asked.seed, "callback": asked.callback}
        given |= asked.options
        known = {name: given[name] for name in given if name in self.parameters}
        with self._in_memory(workload):
            return self.run(workload, **known)

    def search_in_auto(self, workload: QueryMatrix, asked: Request) -> StrategyResult:
        """Run the search as "auto" does: without what is not among its options."""
        kept = {k: v for k, v in asked.options.items() if k in self.options}
        return self.search(workload, replace(asked, options=self.adapt(workload, kept)))

    def glance(self, workload: QueryMatrix, found: Request) -> Seen:
        """Look at a workload; out of time, or out of reach, is a reason to skip it."""
        if found.runs and time_is_up():
            return Skip("the time was up")
        with self._in_memory(workload):
            return self.look(workload, found)

    @contextmanager
    def _in_memory(self, workload: QueryMatrix) -> Iterator[None]:
        """Raise `DomainTooLargeError` in place of `MemoryError`."""
        try:
            yield
        except MemoryError as error:
            raise DomainTooLargeError(
                f"template {self.name!r} needs more memory than there is for "
                f"{workload!r} ({error}); merge cells, or ask for fewer queries"
            ) from None


MODULES = "closed_form marginals nested pidentity kronecker union spectral dual"
"""Modules of `mmech.strategies` with templates; ``mmech/__init__.pyi`` lists those of
`mmech.families`."""

_registry: dict[tuple[str, str], Template] = {}


@cache
def _load() -> None:
    """Register the templates of all modules that are listed."""
    names = [f"mmech.strategies.{name}" for name in MODULES.split()]
    for module in (*map(import_module, names), *load_families()):
        for value in vars(module).values():
            if isinstance(value, Template) and value not in _registry.values():
                register(value)


def register(template: Template) -> Template:
    """Add a template to the registry, and return it.

    Raises
    ------
    ValueError
        If a template of the same norm has its name or its rank.
    """
    for norm in template.norms:
        for other in _registered(norm):
            if other.name == template.name or other.rank == template.rank:
                raise ValueError(
                    f"template {template.name!r} of rank {template.rank} must differ "
                    f"in name and rank from those under {norm}, got {other.name!r} of "
                    f"rank {other.rank} there already"
                )
    for norm in template.norms:
        _registry[norm, template.name] = template
    return template


def templates(norm: str) -> list[Template]:
    """Return the templates for a norm, lowest rank first."""
    _load()
    return _registered(norm)


def _registered(norm: str) -> list[Template]:
    kept = [found for (of, _), found in _registry.items() if of == norm]
    return sorted(kept, key=lambda template: template.rank)


def find(name: Any, norm: str) -> Template:
    """Return a template by its name; raise `ValueError` if none for the norm has it."""
    _load()
    if isinstance(name, str) and (norm, name) in _registry:
        return _registry[norm, name]
    known = ["auto", *(template.name for template in templates(norm))]
    names = ", ".join(map(repr, known))
    others = [PRIVACY[of] for of, other in _registry if other == name]
    hint = f"it is for privacy={others[0]!r}" if others else nearest(name, known, "")
    raise ValueError(
        f"template must be one of {names} under {_norm_in_words(norm)}, got {name!r}"
        + (f"; {hint}" if hint else "")
    )


def check_options(template: str, norm: str, options: Mapping[str, Any]) -> None:
    """Raise `TypeError` unless a template, or for "auto" any, has all the options."""
    tried = templates(norm) if template == "auto" else [find(template, norm)]
    accepted = frozenset[str]().union(*(found.options for found in tried))
    unknown = sorted(set(options) - accepted)
    if unknown:
        known = ", ".join(sorted(accepted)) or "none"
        raise TypeError(
            f"template {template!r} has no option {unknown[0]!r} under "
            f"{_norm_in_words(norm)}; its options are: {known}"
        )


def _norm_in_words(norm: str) -> str:
    return f"{norm} sensitivity (privacy={PRIVACY[norm]!r})"


# ---- the walk, and its time ------------------------------------------------------


@dataclass(eq=False)
class _Run:
    """An optimization that is going on: its end in seconds, and how far it is."""

    end: float = math.inf
    template: str = "preparing"
    steps: int = 0

    def words(self) -> str:
        """Return what a person who waits is shown."""
        return f"optimize: {self.template}, {self.steps} steps"


_run: ContextVar[_Run] = ContextVar("the optimization", default=_Run())  # noqa: B039


@contextmanager
def time_limit(budget_seconds: Any) -> Iterator[None]:
    """Let `time_is_up` answer yes after some seconds, or never, in this thread.

    A terminal shows the template and its number of steps meanwhile.
    """
    if budget_seconds is not None:
        if isinstance(budget_seconds, bool) or not isinstance(
            budget_seconds, numbers.Real
        ):
            raise TypeError(
                f"budget_seconds must be a number > 0 or None, got {budget_seconds!r}"
            )
        if not float(budget_seconds) > 0:
            raise ValueError(f"budget_seconds must be > 0, got {budget_seconds}")
    limit = math.inf if budget_seconds is None else float(budget_seconds)
    run = _Run(time.perf_counter() + limit)
    token = _run.set(run)
    try:
        with showing(run.words):
            yield
    finally:
        _run.reset(token)


def start_template(name: str) -> None:
    """Tell whoever waits which template is searched from now on."""
    run = _run.get()
    run.template, run.steps = name, 0


def time_is_up() -> bool:
    """Count a step, and return whether the optimization that runs should end."""
    run = _run.get()
    run.steps += 1
    return time.perf_counter() > run.end


def try_all(workload: QueryMatrix, found: Request) -> StrategyResult:
    """Walk the templates in the order of their ranks and return the best strategy.

    Every template gets those of the options that it has. All start from the same seed,
    for which a generator gives one number. All are candidates, also if left out.

    Raises
    ------
    UnsupportedWorkloadError, DomainTooLargeError
        If no template suits the workload; the latter if size is the only reason.
    """
    if isinstance(found.seed, np.random.Generator):
        found = replace(found, seed=int(found.seed.integers(2**63)))
    tried: list[Candidate] = []
    failures: list[Exception] = []
    settled: StrategyResult | None = None
    for template in templates(found.norm):
        if template.by_name:
            continue
        start_template(template.name)
        started = time.perf_counter()
        note, bound = "", math.inf
        run = None
        if settled is not None:
            note = settled.message
        else:
            try:
                seen = template.glance(workload, found)
                if isinstance(seen, Skip):
                    note, bound = seen.reason, seen.bound
                    if seen.is_last:
                        settled = replace(best_of(found.runs, ()), message=note)
                elif seen is None:
                    run = template.search_in_auto(workload, found)
                else:
                    run = settled = seen
            except (DomainTooLargeError, UnsupportedWorkloadError) as reason:
                failures.append(reason)
                large = isinstance(reason, DomainTooLargeError)
                note = f"{TOO_LARGE if large else 'failed: '}{reason}"
        if run is not None:
            near = found.is_near or template.is_near
            found = replace(found, runs=(*found.runs, run), is_near=near)
            bound = run.loss
        seconds = time.perf_counter() - started
        tried.append(Candidate(template.name, bound, seconds, note))
    if not found.runs:
        kind: type[ValueError] = UnsupportedWorkloadError
        if failures and all(isinstance(f, DomainTooLargeError) for f in failures):
            kind = DomainTooLargeError
        notes = "; ".join(f"{left.template}: {left.note}" for left in tried)
        raise kind(f"no template of 'auto' suits the workload {workload!r}: {notes}")
    return best_of((settled,) if settled else found.runs, tried)


def best_of(
    runs: Iterable[StrategyResult], tried: Iterable[Candidate]
) -> StrategyResult:
    """Return the run of the least loss, the first of those that tie.

    Its candidates are what was tried, best first.
    """
    best, *others = runs
    for run in others:
        if run.loss < best.loss * (1 - TIE):
            best = run
    order = sorted(tried, key=lambda candidate: (candidate.note != "", candidate.loss))
    return replace(best, candidates=tuple(order))
