"""The privacy ledger: every release is paid for here before anything is drawn."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from fractions import Fraction
from typing import Any

from mmech.checks import (
    MALFORMED,
    check_choice,
    check_epsilon,
    check_file,
    check_path,
)
from mmech.exceptions import BudgetExceededError, ParameterError
from mmech.privacy.answers import epsilon_delta
from mmech.privacy.cost import one_cost, warn_if_weak
from mmech.privacy.entry import (
    CURRENCIES,
    LedgerEntry,
    Shift,
    as_json,
    checked_kind,
    composed,
    entry_in_rho,
    entry_of,
)
from mmech.privacy.guards import Settled, check_process
from mmech.privacy.ledger_file import NO_LEDGER, LedgerFile, chain, dated
from mmech.privacy.neighbours import Relation, exact_size
from mmech.storage.codec import exact_number
from mmech.threads import charged
from mmech.writing import check_writable, runs

__all__ = ["LedgerEntry", "PrivacyLedger", "as_ledger"]


class PrivacyLedger(Settled):
    """A budget that several mechanisms and estimators can share.

    Releases add up (sequential composition), in exact fractions: three releases
    at ``0.1`` fit a ledger of ``0.3``. Releases on disjoint parts of the records cost
    as much as the dearest part (parallel composition, see `part`). A release that
    does not fit is refused before anything is drawn, and one that was paid for counts
    even if it is interrupted. The account is in memory and ends with the program; one
    that lasts is a file, see `open`. Safe to use from several threads. In a process
    that was forked from its own it refuses every release, because both copies would
    spend the same budget.

    Parameters
    ----------
    total : float, str, Fraction or ``math.inf``
        Budget; ``math.inf`` records releases without limiting them.
    currency : {"epsilon", "rho"}, default="epsilon"
        Pure epsilon, or rho of zero-concentrated differential privacy (zCDP). A ledger
        of rho takes releases of pure epsilon too, at their price: Laplace noise on
        many rows costs next to nothing, other noise at most epsilon tanh(epsilon / 2)
        [1]_, draws of the exponential mechanism epsilon² / 8 [2]_. A ledger of epsilon
        takes nothing else.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation that the budget refers to.
    records_per_person : int, default=1
        Largest number of records of one person, public; the budget is per person.

    Warns
    -----
    PrivacyLeakWarning
        If epsilon is above 20, where exact counts are as good as published; of rho at
        delta = 1e-5.

    Notes
    -----
    Proof: ``notebooks/proofs/composition.md`` and, for prices in rho,
    ``notebooks/proofs/price_in_rho.md``; with the extra ``mmech[accounting]``,
    ``notebooks/proofs/numerical_composition.md``.

    References
    ----------
    .. [1] Harrison, Manurangsi, "Exact zCDP characterizations for fundamental
       differentially private mechanisms", FORC 2026.
    .. [2] Cesar, Rogers, "Bounding, concentrating, and truncating: unifying privacy
       loss composition for data analytics", ALT 2021, Lemma 3.2.

    Examples
    --------
    >>> from mmech import PrivacyLedger
    >>> ledger = PrivacyLedger("0.3")
    >>> for _ in range(3):
    ...     entry = ledger.spend(0.1, "a histogram", sensitivity=1)
    >>> ledger.remaining
    Fraction(0, 1)
    """

    _kind = "ledger"

    def __init__(
        self,
        total: Any,
        *,
        currency: str = "epsilon",
        neighbours: str = "add_remove",
        records_per_person: int = 1,
    ) -> None:
        self._begin(total, currency, Relation(neighbours, records_per_person))
        if not isinstance(self.total, float):
            warn_if_weak(self.total, self.currency)

    def _begin(self, total: Any, currency: str, relation: Relation) -> None:
        self.relation = relation
        self.currency = check_choice(currency, "currency", CURRENCIES)
        self.total: Fraction | float = _checked_total(total)
        self._entries: list[LedgerEntry] = []
        self._lock = threading.RLock()
        self._held: dict[str, Fraction] = {}  # by thread: what it is about to spend
        self._process = os.getpid()
        self._closed = ""  # why it pays for nothing more
        self._file: LedgerFile | None = None
        self._releases: list[dict[str, Any]] = []  # entries as in the file
        self._state: Any = None  # of the file, when it was read

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        total: Any = None,
        currency: str | None = None,
        neighbours: str | None = None,
        records_per_person: int | None = None,
    ) -> PrivacyLedger:
        """Open a ledger on disk, or make it where there is none.

        It outlives the program. Any number of processes may spend from it at a time,
        one after the other: every charge is on the disk before noise is drawn. A
        process that is killed loses no charge; what it kept for a fit is free again.

        Parameters
        ----------
        path : path
            JSON file, on a disk of this machine. An empty file ``.lock`` stays beside
            it.
        total, currency, neighbours, records_per_person
            As of a `PrivacyLedger`. A new file needs `total`; an existing file has all
            of them, and what is given must agree with it.

        Returns
        -------
        PrivacyLedger
            A copy or a pickle of it is the same ledger: workers share its budget.

        Raises
        ------
        FileNotFoundError
            If there is no file, and no `total` to make one.
        ValueError
            If the file is no ledger or was changed, or promises something else.

        Notes
        -----
        Every entry has a date and the SHA-256 of all before it, so that an edit in the
        middle is refused. An older copy of the whole file is not told apart, nor are
        hashes that someone made anew: keep the file where only its owner writes.

        Examples
        --------
        >>> import os, tempfile
        >>> from mmech import PrivacyLedger, noisy_release
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "budget.json")
        ...     january = PrivacyLedger.open(path, total=1)
        ...     noisy = noisy_release(
        ...         [3, 4], sensitivity=1, epsilon="1/4", released="two counts",
        ...         ledger=january,
        ...     )
        ...     PrivacyLedger.open(path).remaining
        Fraction(3, 4)
        """
        file = LedgerFile(os.path.realpath(check_path(path)))
        if not os.path.exists(file.path):
            if total is None:
                raise FileNotFoundError(
                    f"there is no ledger {os.fspath(path)!r}; check the name, or give "
                    "the total to make it (total=, or mmech budget FILE --total E)"
                )
            per_person = 1 if records_per_person is None else records_per_person
            relation = Relation(neighbours or "add_remove", per_person)
            made = object.__new__(cls)
            made._begin(total, currency or "epsilon", relation)
            check_writable(file.path)
            with file.locked():
                if not os.path.exists(file.path):
                    made._file = file
                    made._keep([], [], {})
        check_file(path, "ledger")
        content = file.read()
        try:
            whole = content["total"]
            ledger = cls(
                math.inf if whole == "inf" else exact_number(whole),
                **{name: content[name] for name in _PROMISED},
            )
        except (ValueError, TypeError):
            raise file.refusal(NO_LEDGER) from None
        ledger._file = file
        ledger._refresh()
        if total is not None:
            total = _checked_total(total)
        ours = ledger.total, ledger.currency, *vars(ledger.relation).values()
        asked = total, currency, neighbours, records_per_person
        for name, kept, given in zip(("total", *_PROMISED), ours, asked, strict=True):
            if given not in (None, kept):
                raise ParameterError(
                    name,
                    f"must be {kept}, which the ledger {os.fspath(path)!r} promises",
                    given,
                    (f"leave {{{name}}} out", "name another file"),
                )
        return ledger

    @property
    def whole(self) -> PrivacyLedger:
        """The ledger that a part belongs to; of a whole one itself."""
        return self

    @property
    def neighbours(self) -> str:
        """Name of the neighbour relation."""
        return self.relation.neighbours

    def check_relation(self, relation: Relation) -> None:
        """Raise if a release is for another neighbour relation than this ledger."""
        if self.relation != relation:
            raise ParameterError(
                "ledger",
                f"the {{ledger}} accounts for data sets that differ "
                f"{self.relation.words} but the release is for ones that differ "
                f"{relation.words}",
                remedy="use the same {neighbours=} and {records_per_person=} for both",
            )

    # ---- what was spent ----------------------------------------------------

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All releases so far, in order."""
        return tuple(self._now())

    @property
    def spent(self) -> Fraction:
        """Cost of all releases so far: their sum, but for parts of a partition.

        Parts of a partition are disjoint, so only the dearest part is charged.
        """
        return composed(self._now())

    @property
    def remaining(self) -> Fraction | float:
        """What is left of the budget."""
        if isinstance(self.total, float):
            return math.inf
        return self.total - self.spent

    def epsilon(self) -> Fraction | float:
        """Return the pure epsilon of all releases so far, whatever the currency.

        Returns
        -------
        Fraction or ``math.inf``
            Infinite if a release, such as Gaussian noise, has no pure epsilon.

        Notes
        -----
        This and the next two say what was spent. Where costs were chosen by what had
        been released, it is the total of the ledger that is promised.
        """
        entries = self.entries
        if any(entry.epsilon is None for entry in entries):
            return math.inf
        return composed(entries, "epsilon")

    def rho(self) -> Fraction:
        """Return the rho of zCDP of all releases so far, whatever the currency.

        Examples
        --------
        >>> from mmech import PrivacyLedger
        >>> ledger = PrivacyLedger(1)
        >>> entry = ledger.spend("1/10", "a histogram", sensitivity=1)
        >>> ledger.epsilon(), float(ledger.rho())
        (Fraction(1, 10), 0.004995837496)
        """
        return composed(self.entries, "rho")

    def epsilon_delta(self, delta: Any) -> float:
        """Return the least epsilon that all releases so far are known to have at delta.

        Each of them counts in pure epsilon or in rho, which is converted, or by its
        privacy loss where the extra ``mmech[accounting]`` is installed [1]_: whichever
        is less together.

        Parameters
        ----------
        delta : float
            Probability in (0, 1), well below one over the number of records.

        Returns
        -------
        float
            In nats.

        Notes
        -----
        Proof: ``notebooks/proofs/numerical_composition.md``.

        References
        ----------
        .. [1] ``dp-accounting``, github.com/google/differential-privacy.

        Examples
        --------
        One hundred histograms have epsilon = 4.78 at this delta, or 5.22 without the
        extra:

        >>> from mmech import PrivacyLedger
        >>> ledger = PrivacyLedger(10)
        >>> for _ in range(100):
        ...     entry = ledger.spend("1/10", "a histogram", sensitivity=1)
        >>> float(ledger.epsilon()), 4.77 < ledger.epsilon_delta(1e-6) < 5.23
        (10.0, True)
        """
        return epsilon_delta(self.entries, delta)

    def what_if(self, planned: Iterable[Any]) -> PrivacyLedger:
        """Return what this ledger would say after planned releases; nothing is spent.

        Parameters
        ----------
        planned : sequence of MatrixMechanism, LedgerEntry or dict
            Mechanisms that will measure once; entries; or costs, such as
            ``{"epsilon": 0.5}`` or ``{"rho": "1/50", "kind": "exponential"}``.

        Returns
        -------
        PrivacyLedger
            Without a limit, in memory, with what was and what would be released. It
            pays for nothing.

        Raises
        ------
        TypeError
            If a release is none of these, or costs rho and the ledger is of epsilon.
        ValueError
            If a mechanism is for another neighbour relation.

        Examples
        --------
        >>> from mmech import MatrixMechanism, Marginals, PrivacyLedger
        >>> ledger = PrivacyLedger("1/10", currency="rho")
        >>> tables = Marginals((3, 4, 5), {(0, 1): 1, (0, 2): 1, (1, 2): 1})
        >>> mechanism = MatrixMechanism(tables, tables, epsilon="1/2")
        >>> after = ledger.what_if([mechanism, {"epsilon": "1/10"}])
        >>> round(float(after.spent), 4), float(after.epsilon()), ledger.spent
        (0.0466, 0.6, Fraction(0, 1))
        """
        other = object.__new__(PrivacyLedger)
        other._begin(math.inf, self.currency, self.relation)
        if isinstance(planned, Mapping) or not isinstance(planned, Iterable):
            raise TypeError(
                "planned must be a list of releases, got "
                f"{type(planned).__name__}; put it in a list"
            )
        for release in planned:
            self.check_relation(getattr(release, "relation", self.relation))
            other._entries.append(other._fitting(_planned(release)))
        other._entries[:0] = self.entries
        other._closed = (
            "this ledger shows planned releases and pays for nothing; nothing was "
            "released: use the ledger that what_if() was asked of"
        )
        return other

    # ---- the file of a ledger on disk --------------------------------------

    def _now(self) -> list[LedgerEntry]:
        """Return all entries, those of other processes included."""
        if self._file is not None and self._file.state != self._state:
            self._refresh()
        return self._entries

    def _refresh(self) -> None:
        """Read what all processes spent and hold."""
        if self._file is None:
            return
        with self._lock:
            state, content = self._file.state, self._file.read()
            releases, rest = content["releases"], ("held", "releases")
            try:
                entries = [entry_of(release, self.currency) for release in releases]
                held = {
                    who: check_epsilon(exact_number(cost))
                    for who, cost in content["held"].items()
                }
                # Values must be those that are written, to the letter.
                again = [as_json(*numbered) for numbered in enumerate(entries, 1)]
                dates = [{"date": r["date"], "sha256": r["sha256"]} for r in releases]
                same = [a | b for a, b in zip(again, dates, strict=True)] == releases
                head = {k: part for k, part in content.items() if k not in rest}
                same = same and head == self._head(entries)
                same = same and all(map(_HOLDER.fullmatch, held))
            except MALFORMED:
                same = False
            if not same:
                raise self._file.refusal(NO_LEDGER)
            if releases[: len(self._releases)] != self._releases:
                raise self._file.refusal("is older than what this program released")
            self._entries[:], self._releases[:] = entries, releases
            self._held.clear()
            self._held.update({who: held[who] for who in held if _lives(who)})
            self._state = state

    @contextmanager
    def _settling(self) -> Iterator[None]:
        """Keep other threads and processes from spending, and know what they spent."""
        # Before the lock: a fork may have copied it while a thread held it.
        check_process(self._process, "a PrivacyLedger")
        with self._lock, nullcontext() if self._file is None else self._file.locked():
            self._refresh()
            yield

    def _keep(
        self,
        entries: Sequence[LedgerEntry],
        releases: Sequence[dict[str, Any]],
        held: Mapping[str, Fraction],
    ) -> None:
        """Write the file."""
        assert self._file is not None
        if self._state and self._state != self._file.state:
            raise self._file.refusal("was written by another program meanwhile")
        head = self._head(entries)
        parts = {who: str(cost) for who, cost in held.items() if cost}
        self._file.write(
            head | {"held": parts, "releases": chain(head, releases)},
        )
        self._refresh()

    # ---- paying ------------------------------------------------------------

    def check(
        self, cost: Any, *, currency: str = "epsilon", kind: str = "other"
    ) -> Fraction:
        """Return a cost in the currency of this ledger, or raise if it does not fit.

        Parameters
        ----------
        cost : float, str or Fraction
            Cost of a release.
        currency : {"epsilon", "rho"}, default="epsilon"
            What `cost` is counted in.
        kind : str, default="other"
            How the release is made private: one of `KINDS`, or the name of another law
            of noise.

        Raises
        ------
        BudgetExceededError
            If the remaining budget is smaller, or the ledger is another process's.
        TypeError
            If the cost is in rho and the ledger in pure epsilon.
        """
        exact = check_epsilon(cost, check_choice(currency, "currency", CURRENCIES))
        kind = checked_kind(kind)
        return self._fitting(LedgerEntry(exact, "x", kind, currency=currency)).cost

    def _fitting(self, entry: LedgerEntry) -> LedgerEntry:
        """Return an entry in the currency of this ledger, or raise if it does not fit.

        As it is, but for its currency and cost.
        """
        check_process(self._process, "a PrivacyLedger")
        if entry.currency != self.currency:
            if self.currency == "epsilon":
                raise TypeError(
                    "a ledger of pure epsilon cannot pay for Gaussian noise of "
                    f"rho = {float(entry.cost):g}, which no finite epsilon covers; use "
                    'PrivacyLedger(total, currency="rho"), or Laplace noise'
                )
            entry = entry_in_rho(entry)
        exact = entry.cost
        self._refuse_if_closed()
        left = self.remaining
        here = _holder()
        held = sum(cost for thread, cost in self._held.items() if thread != here)
        if exact > left - held:
            kept = f" ({float(held):g} more is kept for other fits)" * bool(held)
            raise BudgetExceededError(
                f"this release needs {self.currency} = {float(exact):g} but only "
                f"{float(left - held):g} of {float(self.total):g} is left"
                f"{kept}; "
                "nothing was released: use a larger ledger or reuse what was released"
            )
        return entry

    def hold(self, cost: Any, *, currency: str = "epsilon") -> None:
        """Keep what this thread will spend from other threads and processes, or raise.

        Several releases that are useful only together begin when all of them can be
        paid for. Each charge reduces what is held; `let_go` gives the rest back.

        Parameters
        ----------
        cost : float, str or Fraction
            Cost of all of them.
        currency : {"epsilon", "rho"}, default="epsilon"
            What `cost` is counted in.

        Raises
        ------
        BudgetExceededError
            If the remaining budget is smaller; nothing is spent.
        """
        with self._settling():
            exact = self.check(cost, currency=currency)
            if isinstance(self.total, float):
                warn_if_weak(exact, self.currency)
            held = {**self._held, _holder(): exact}
            if self._file is not None:
                self._keep(self._entries, self._releases, held)
            self._held.update(held)

    def let_go(self) -> None:
        """Give back what this thread holds and has not spent."""
        if self._held.pop(_holder(), None) and self._file is not None:
            # What cannot be written is free again when the process ends.
            with suppress(OSError, ValueError), self._settling():
                self._held.pop(_holder(), None)
                self._keep(self._entries, self._releases, self._held)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise BudgetExceededError(self._closed)

    def spend(
        self,
        cost: Any,
        released: str,
        *,
        sensitivity: float,
        currency: str = "epsilon",
        kind: str = "other",
        insecure: bool = False,
        other_cost: Fraction | None = None,
        shifts: tuple[Shift, ...] = (),
    ) -> LedgerEntry:
        """Pay for a release, before anything is drawn.

        Parameters
        ----------
        cost : float, str or Fraction
            Cost of the release.
        released : str
            What is released, in words.
        sensitivity : float
            Sensitivity that the noise is calibrated to.
        currency : {"epsilon", "rho"}, default="epsilon"
            What `cost` is counted in.
        kind : str, default="other"
            How the release is made private: one of `KINDS`, or the name of another law
            of noise.
        insecure : bool, default=False
            Whether the noise is predictable.
        other_cost : Fraction, default=None
            The cost in the other currency, where it is known: the rho of a release of
            pure epsilon, or the pure epsilon of one in rho. ``None`` takes what follows
            from the kind.
        shifts : tuple, default=()
            What neighbours change at most, as of a `LedgerEntry`.

        Returns
        -------
        LedgerEntry

        Raises
        ------
        BudgetExceededError
            If the remaining budget is smaller; nothing is spent.
        TypeError
            If the cost is in rho and the ledger in pure epsilon; nothing is spent.
        """
        entry = LedgerEntry(
            check_epsilon(cost, check_choice(currency, "currency", CURRENCIES)),
            released,
            checked_kind(kind),
            float(exact_size(sensitivity)),
            currency,
            insecure,
            other_cost=None
            if other_cost is None
            else check_epsilon(other_cost, "other_cost"),
            shifts=shifts,
        )
        return self._pay(entry)

    def _pay(self, entry: LedgerEntry) -> LedgerEntry:
        """Pay what an entry says, and return it as it stands here; or raise."""
        with self._settling():
            entry = self._fitting(entry)
            if isinstance(self.total, float) and _holder() not in self._held:
                warn_if_weak(entry.cost, self.currency, stacklevel=4)
            charged.set()
            return self._record(entry)

    def _record(self, entry: LedgerEntry) -> LedgerEntry:
        here, held = _holder(), dict(self._held)
        if here in held:
            held[here] = max(held[here] - entry.cost, Fraction(0))
        if self._file is None:
            self._entries.append(entry)
        else:
            release = dated(as_json(len(self._entries) + 1, entry))
            self._keep([*self._entries, entry], [*self._releases, release], held)
        self._held.update(held)
        return entry

    def part(self, partition: str, part: str) -> PrivacyLedger:
        """Return a ledger for one part of a partition of the records.

        Releases on disjoint parts add nothing up: of each partition only the part
        that cost most counts. Which part a record belongs to must follow from the
        record alone, by a public rule.

        Parameters
        ----------
        partition : str
            Name of the partition, such as ``"region"``.
        part : str
            Name of the part, such as ``"north"``.

        Returns
        -------
        PrivacyLedger
            Accepted wherever a ledger is; it spends from this one.

        Notes
        -----
        Under ``"replace"`` a record may move from one part to another and change
        both. Mechanisms calibrate to twice the sensitivity under that relation. So each
        of the two changes costs half; in rho it costs a quarter, and the two add up to
        half.

        References
        ----------
        .. [1] McSherry, "Privacy integrated queries", SIGMOD 2009, Theorem 4.

        Examples
        --------
        >>> from mmech import PrivacyLedger
        >>> ledger = PrivacyLedger(1.0)
        >>> for region in ("north", "south"):
        ...     ledger.part("region", region).spend(0.6, "counts", sensitivity=1).part
        'north'
        'south'
        >>> ledger.spent
        Fraction(3, 5)
        """
        return _LedgerPart(self, partition, part)

    # ---- showing and copying -----------------------------------------------

    def to_json(self) -> str:
        """Return what was released, in order, as JSON text.

        Returns
        -------
        str
            An object with the budget, the relation, what was spent, and one object per
            release. Costs are exact fractions as text, such as ``"1/10"``. A release
            that is ``"insecure"``, of predictable noise, is not private. A ledger on
            disk returns the text of its file.

        Examples
        --------
        >>> import json
        >>> from mmech import PrivacyLedger
        >>> ledger = PrivacyLedger("0.5")
        >>> entry = ledger.spend(0.1, "counts", sensitivity=1, kind="laplace")
        >>> json.loads(ledger.to_json())["releases"]
        [{'order': 1, 'released': 'counts', 'epsilon': '1/10', 'kind': 'laplace',
        'sensitivity': 1.0, 'insecure': False}]
        """
        if self._file is not None:
            return json.dumps(self._file.read(), indent=2)
        entries = self.entries
        releases = [as_json(order, entry) for order, entry in enumerate(entries, 1)]
        return json.dumps(self._head(entries) | {"releases": releases}, indent=2)

    def _head(self, entries: Sequence[LedgerEntry]) -> dict[str, Any]:
        """Return what JSON says before the releases."""
        return {
            "format": "mmech privacy ledger",
            "version": 1,
            "neighbours": self.neighbours,
            "records_per_person": self.relation.records_per_person,
            "currency": self.currency,
            "total": str(self.total),
            "spent": str(composed(entries)),
        }

    def _itself(self, *_: Any) -> PrivacyLedger:
        """Return the ledger itself: a copy would double the budget."""
        return self

    __copy__ = __deepcopy__ = __sklearn_clone__ = _itself

    def __reduce__(self) -> Any:
        if self._file is not None:
            return PrivacyLedger.open, (self._file.path,)
        raise TypeError(
            "a PrivacyLedger cannot be pickled, because a copy in another process "
            "would spend the same budget again; use n_jobs=1, threads, or a ledger on "
            "disk (PrivacyLedger.open)"
        )

    def __repr__(self) -> str:
        insecure = sum(entry.insecure for entry in self.entries)
        return (
            f"PrivacyLedger({float(self.total):g}, currency={self.currency!r}, "
            f"spent={float(self.spent):g}, neighbours={self.neighbours!r}, "
            f"releases={len(self.entries)}{f', insecure={insecure}' * bool(insecure)})"
        )


def as_ledger(value: Any) -> PrivacyLedger:
    """Return a ledger that was given, or raise if it is none."""
    if not isinstance(value, PrivacyLedger):
        raise TypeError(
            f"ledger must be a PrivacyLedger, got {type(value).__name__}; use "
            "PrivacyLedger(total)"
        )
    return value


class _LedgerPart(PrivacyLedger):
    """The view of a ledger that the releases on one part of the records see."""

    def __init__(self, ledger: PrivacyLedger, partition: str, part: str) -> None:
        for value, name in ((partition, "partition"), (part, "part")):
            if not isinstance(value, str) or not value:
                raise TypeError(f"{name} must be a name, got {value!r}")
        if isinstance(ledger, _LedgerPart):
            raise TypeError(
                "a part of a partition cannot be split again; name the finer parts in "
                "one partition of the whole ledger"
            )
        # The whole ledger's state is shared, but for the place of this part.
        self.__dict__.update(ledger.__dict__)
        self._ledger = ledger
        self._partition, self._part = partition, part

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        place = (self._partition, self._part)
        return tuple(e for e in self._now() if (e.partition, e.part) == place)

    @property
    def spent(self) -> Fraction:
        return sum((entry.cost for entry in self.entries), Fraction(0))

    @property
    def remaining(self) -> Fraction | float:
        if isinstance(self.total, float):
            return math.inf
        others = [e for e in self._now() if e.partition != self._partition]
        return self.total - composed(others) - self.spent

    @property
    def whole(self) -> PrivacyLedger:
        return self._ledger

    def __reduce__(self) -> Any:
        return type(self), (self._ledger, self._partition, self._part)

    def __repr__(self) -> str:
        return f"{super().__repr__()}.part({self._partition!r}, {self._part!r})"

    def _record(self, entry: LedgerEntry) -> LedgerEntry:
        values = {**entry.__dict__, "partition": self._partition, "part": self._part}
        return super()._record(LedgerEntry(**values))


def _checked_total(total: Any) -> Fraction | float:
    """Return a budget, which may be infinite."""
    unlimited = isinstance(total, float) and total == math.inf
    return math.inf if unlimited else check_epsilon(total, "total")


_PROMISED = ("currency", "neighbours", "records_per_person")
"""What a file promises beside its total."""


def _planned(release: Any) -> LedgerEntry:
    """Return the entry of a planned release."""
    entry = getattr(release, "planned", release)
    if isinstance(entry, Mapping):
        cost, currency = one_cost(entry.get("epsilon"), entry.get("rho"))
        kind = checked_kind(entry.get("kind", "other"))
        return LedgerEntry(cost, "a planned release", kind, currency=currency)
    if not isinstance(entry, LedgerEntry):
        raise TypeError(
            "a planned release must be a mechanism, a LedgerEntry or a dict of its "
            f'cost, such as {{"epsilon": 0.5}}, got {type(release).__name__}'
        )
    return entry


_HOLDER = re.compile(r"[^/]*/[0-9]+/[0-9]+", re.ASCII)
"""Machine, process and thread, in the name of who holds a part of the budget."""


def _holder() -> str:
    """Return the name of this thread, among those of all machines."""
    return f"{platform.node()}/{os.getpid()}/{threading.get_ident()}"


def _lives(holder: str) -> bool:
    """Return whether a thread may still spend what it holds."""
    machine, _, process = holder.rpartition("/")[0].rpartition("/")
    return machine != platform.node() or runs(process)
