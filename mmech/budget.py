"""The privacy ledger: every release is paid for here before noise is drawn."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from mmech._guards import Settled, check_process
from mmech._validation import check_choice, check_epsilon
from mmech.exceptions import BudgetExceededError

__all__ = ["LedgerEntry", "PrivacyLedger"]

NEIGHBOURS = ("add_remove", "replace")


@dataclass(frozen=True)
class LedgerEntry:
    """One release that was paid for.

    Attributes
    ----------
    epsilon : Fraction
        What the release cost.
    released : str
        What was measured, in words.
    sensitivity : float
        L1 sensitivity that the noise was calibrated to.
    partition, part : str or None
        The partition of the records and the part of it that was measured, if the
        release was paid for through `PrivacyLedger.part`.
    insecure : bool
        Whether the noise was predictable, from ``insecure_rng``: then nothing is
        private.

    Examples
    --------
    >>> from mmech import PrivacyLedger
    >>> entry = PrivacyLedger("1/2").spend("1/8", "a histogram", sensitivity=1)
    >>> entry.epsilon, entry.released, entry.sensitivity
    (Fraction(1, 8), 'a histogram', 1.0)
    """

    epsilon: Fraction
    released: str
    sensitivity: float
    partition: str | None = None
    part: str | None = None
    insecure: bool = False


class PrivacyLedger(Settled):
    """A budget that several mechanisms and estimators can share.

    Releases add up (sequential composition), in exact fractions: three releases
    at ``0.1`` fit a ledger of ``0.3``. Releases on disjoint parts of the records cost
    as much as the dearest part (parallel composition, see `part`). A release that
    does not fit is refused before any noise is drawn, and one whose noise was drawn
    counts even if the program stops before it returns. Safe to use from several
    threads. In a process that was forked from its own it refuses every release,
    because both copies would spend the same budget.

    Parameters
    ----------
    epsilon_total : float, str, Fraction or ``math.inf``
        Budget; ``math.inf`` records releases without limiting them.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation that the budget refers to.

    Notes
    -----
    Proof: ``notebooks/proofs/composition.md``.

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

    def __init__(self, epsilon_total: Any, *, neighbours: str = "add_remove") -> None:
        self.neighbours = check_choice(neighbours, "neighbours", NEIGHBOURS)
        self.epsilon_total: Fraction | float = (
            math.inf
            if isinstance(epsilon_total, float) and epsilon_total == math.inf
            else check_epsilon(epsilon_total, "epsilon_total")
        )
        self._entries: list[LedgerEntry] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All releases so far, in order."""
        return tuple(self._entries)

    @property
    def spent(self) -> Fraction:
        """Cost of all releases so far: their sum, but for parts of a partition.

        Of every partition the part that cost most counts.
        """
        return _composed(self._entries)

    @property
    def remaining(self) -> Fraction | float:
        """What is left of the budget."""
        if isinstance(self.epsilon_total, float):
            return math.inf
        return self.epsilon_total - self.spent

    def check(self, epsilon: Any) -> Fraction:
        """Return `epsilon` as a fraction, or raise if it no longer fits.

        Raises
        ------
        BudgetExceededError
            If the remaining budget is smaller, or in a forked process.
        """
        check_process(self._process, "a PrivacyLedger")
        exact = check_epsilon(epsilon)
        if exact > self.remaining:
            raise BudgetExceededError(
                f"this release needs epsilon = {float(exact):g} but only "
                f"{float(self.remaining):g} of {float(self.epsilon_total):g} is left; "
                "nothing was released: use a larger ledger or reuse what was released"
            )
        return exact

    def spend(
        self,
        epsilon: Any,
        released: str,
        *,
        sensitivity: float,
        insecure: bool = False,
    ) -> LedgerEntry:
        """Pay for a release, before its noise is drawn.

        Parameters
        ----------
        epsilon : float, str or Fraction
            Cost of the release.
        released : str
            What is measured, in words.
        sensitivity : float
            L1 sensitivity that the noise is calibrated to.
        insecure : bool, default=False
            Whether the noise is predictable, as in a test.

        Returns
        -------
        LedgerEntry

        Raises
        ------
        BudgetExceededError
            If the remaining budget is smaller, or in a forked process; nothing is
            spent.
        """
        # Before the lock: a fork may have copied it while a thread held it.
        check_process(self._process, "a PrivacyLedger")
        with self._lock:
            entry = LedgerEntry(
                self.check(epsilon), released, float(sensitivity), insecure=insecure
            )
            self._entries.append(entry)
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
        both. Mechanisms calibrate to twice the sensitivity under that relation, so
        that each of the two changes costs half.

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

    def to_json(self) -> str:
        """Return what was released, in order, as JSON text.

        Returns
        -------
        str
            An object with the budget, the relation, what was spent, and one object
            per release. Epsilons are exact fractions as text, such as ``"1/10"``. A
            release that is ``"insecure"``, of predictable noise, is not private.

        Examples
        --------
        >>> import json
        >>> from mmech import PrivacyLedger
        >>> ledger = PrivacyLedger("0.5")
        >>> entry = ledger.spend(0.1, "a histogram", sensitivity=1)
        >>> json.loads(ledger.to_json())["releases"]
        [{'order': 1, 'released': 'a histogram', 'epsilon': '1/10', 'sensitivity': 1.0,
        'insecure': False}]
        """
        releases = []
        for order, entry in enumerate(self.entries, 1):
            record: dict[str, Any] = {
                "order": order,
                "released": entry.released,
                "epsilon": str(entry.epsilon),
                "sensitivity": entry.sensitivity,
                "insecure": entry.insecure,
            }
            if entry.partition is not None:
                record |= {"partition": entry.partition, "part": entry.part}
            releases.append(record)
        content = {
            "format": "mmech privacy ledger",
            "version": 1,
            "neighbours": self.neighbours,
            "epsilon_total": str(self.epsilon_total),
            "spent": str(self.spent),
            "releases": releases,
        }
        return json.dumps(content, indent=2)

    def __copy__(self) -> PrivacyLedger:
        """Return the ledger itself: a copy would double the budget."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyLedger:
        """Return the ledger itself: a copy would double the budget."""
        return self

    def __sklearn_clone__(self) -> PrivacyLedger:
        """Return the ledger itself: a copy would double the budget."""
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a PrivacyLedger cannot be pickled, because a copy in another process "
            "would spend the same budget again; use n_jobs=1 or threads"
        )

    def __repr__(self) -> str:
        insecure = sum(entry.insecure for entry in self.entries)
        return (
            f"PrivacyLedger(epsilon_total={float(self.epsilon_total):g}, "
            f"spent={float(self.spent):g}, neighbours={self.neighbours!r}, "
            f"releases={len(self.entries)}{f', insecure={insecure}' * bool(insecure)})"
        )


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
        self._ledger = ledger
        self._partition, self._part = partition, part
        self.neighbours = ledger.neighbours
        self.epsilon_total = ledger.epsilon_total
        self._process = ledger._process

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """The releases on this part so far, in order."""
        return tuple(
            entry
            for entry in self._ledger.entries
            if (entry.partition, entry.part) == (self._partition, self._part)
        )

    @property
    def spent(self) -> Fraction:
        """Sum of the epsilons of the releases on this part."""
        return sum((entry.epsilon for entry in self.entries), Fraction(0))

    @property
    def remaining(self) -> Fraction | float:
        """What a release on this part may still cost."""
        if isinstance(self.epsilon_total, float):
            return math.inf
        others = [e for e in self._ledger.entries if e.partition != self._partition]
        return self.epsilon_total - _composed(others) - self.spent

    def spend(
        self,
        epsilon: Any,
        released: str,
        *,
        sensitivity: float,
        insecure: bool = False,
    ) -> LedgerEntry:
        """Pay for a release on this part, before its noise is drawn."""
        check_process(self._process, "a PrivacyLedger")
        with self._ledger._lock:
            entry = LedgerEntry(
                self.check(epsilon),
                released,
                float(sensitivity),
                self._partition,
                self._part,
                insecure,
            )
            self._ledger._entries.append(entry)
        return entry

    def __repr__(self) -> str:
        return f"{super().__repr__()}.part({self._partition!r}, {self._part!r})"


def _composed(entries: Iterable[LedgerEntry]) -> Fraction:
    """Return the sum of the entries, of each partition only the dearest part."""
    total = Fraction(0)
    parts: dict[str, dict[str | None, Fraction]] = {}
    for entry in entries:
        if entry.partition is None:
            total += entry.epsilon
        else:
            costs = parts.setdefault(entry.partition, {})
            costs[entry.part] = costs.get(entry.part, Fraction(0)) + entry.epsilon
    return total + sum((max(costs.values()) for costs in parts.values()), Fraction(0))
