"""Counts that arrive one after the other, answered at once and charged once."""

from __future__ import annotations

import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import MALFORMED, check_integer, parsed_json
from mmech.error.report import quantile_of_whole_noise
from mmech.families.separable import Prefix
from mmech.noise import LAPLACE, check_insecure_rng, law_and_cost, random_key
from mmech.noise.seam import unseen
from mmech.privacy.guards import Settled, check_process
from mmech.privacy.ledger import LedgerEntry, PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.release import charge, ledger_or_own, measure
from mmech.strategies.streams import ToeplitzRows, TreeRows, weights_of, whole_numbers
from mmech.threads import one_blas_thread
from mmech.writing import check_writable, locked, write_through

MOST_TIMES = 2**20
"""Longest horizon: a push takes some milliseconds there."""

VARIANCE_FLOOR = 1e-24
"""Least variance of noise, over the square of its scale, that estimates weigh by."""

CHANGED = "is not a stream, or was changed"
START = 40
NAME = re.compile("[0-9a-f]{16}")
FORMAT = {"format": "mmech stream", "version": 2}


class Stream(Settled):
    r"""Answer a workload over time, each answer when its count has come.

    The counts :math:`x_0, x_1, \ldots` come one by one, and every `push` returns the
    answer for its time: the sum so far (``"prefix"``), of the last counts
    (`WidthRange`), or a weighted sum (`Toeplitz`). All answers together cost `rho`, or
    `epsilon`, however late counts depend on early answers. It is charged once, at the
    first push.

    Under `rho` a row of a lower triangular Toeplitz matrix of integers is measured at
    every time, with Gaussian noise. Under `epsilon` it is the nodes of a tree, with
    Laplace noise that is drawn ahead, at the first time of the largest node. Memory is
    O(T), and a push takes O(T) operations.

    Parameters
    ----------
    workload : "prefix", Prefix, WidthRange or Toeplitz, default="prefix"
        What is answered. A `WidthRange` answers early times by the sum of all counts so
        far. A `Toeplitz` is lower triangular.
    horizon : int
        Number of times T, at most 2^20; public.
    epsilon, rho : float, str or Fraction
        Cost of all T answers together, in nats; exactly one of the two.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Whether neighbouring streams differ by an added or removed record, or by a
        record that is replaced by one of any time.
    records_per_person : int, default=1
        Largest number of records of one person over the whole stream, public: the cost
        is per person. Who may have one record at every time has T of them.
    ledger : PrivacyLedger, default=None
        Budget to charge; ``None`` keeps a record in `ledger` without a limit.
    path : path, default=None
        File that keeps the stream, with mode 0600: **never publish it, it holds the
        exact counts**, and under `epsilon` the noise of later times. What a push
        returns is on the disk before. A stream that is made with the same arguments
        continues where the file ends, in any process.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns.

    Attributes
    ----------
    law : Law
        Law of the noise.
    cost : Fraction
        Cost of all answers, in the currency of the law.
    horizon : int
        Number of times.
    ledger : PrivacyLedger
        What was spent.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is another one.
    TypeError
        If not exactly one of `epsilon` and `rho` is given.
    ValueError
        If the horizon is too long, or the file is of another stream.

    See Also
    --------
    MatrixMechanism : for counts that are there all at once.

    Notes
    -----
    Proof: ``notebooks/proofs/streams.md``.

    An older copy of the file is not told apart: whoever puts it back lets noise be
    drawn again for times that were answered. The same holds for copies of an object in
    memory, which are refused.

    References
    ----------
    .. [1] Denisov, McMahan, Rush, Smith, Guha Thakurta, "Improved differential privacy
       for SGD via optimal private linear operators on adaptive streams", NeurIPS 2022,
       Theorem 2.1.
    .. [2] Dwork, Naor, Pitassi, Rothblum, "Differential privacy under continual
       observation", STOC 2010.

    Examples
    --------
    >>> from mmech import Stream
    >>> stream = Stream(horizon=12, rho=0.1)
    >>> [round(stream.standard_error(time), 1) for time in (0, 5, 11)]
    [3.3, 3.6, 3.9]
    >>> for count in (120, 95, 143):
    ...     total = stream.push(count)
    >>> stream.time, stream.ledger.spent
    (3, Fraction(1, 10))
    >>> stream.push(143, time=2) == total
    True
    """

    _kind = "stream"

    @one_blas_thread()
    def __init__(
        self,
        workload: Any = "prefix",
        *,
        horizon: int,
        epsilon: Any = None,
        rho: Any = None,
        neighbours: str = "add_remove",
        records_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        path: str | os.PathLike[str] | None = None,
        insecure_rng: Any = None,
    ) -> None:
        self.law, self.cost = law_and_cost(epsilon, rho)
        self.horizon = check_integer(horizon, "horizon")
        if self.horizon > MOST_TIMES:
            raise ValueError(
                f"horizon must be at most {MOST_TIMES} times, got {horizon}; count "
                "longer periods, or begin another stream after it"
            )
        self.relation = Relation(neighbours, records_per_person)
        self.ledger = ledger_or_own(ledger, self.law, self.relation)
        self._noise = check_insecure_rng(insecure_rng)
        if isinstance(workload, str) and workload == "prefix":
            workload = Prefix(self.horizon)
        weights = weights_of(workload)
        if weights.size != self.horizon:
            raise ValueError(
                f"workload has {weights.size} columns but horizon={horizon}; both are "
                "the number of times"
            )
        self.workload = workload
        promised = {
            "workload": repr(workload),
            "weights": np.trim_zeros(weights, "b").tolist(),
            "horizon": self.horizon,
            self.law.currency: str(self.cost),
            **vars(self.relation),
        }
        self._process, self._lock = os.getpid(), threading.RLock()
        self._time, self._last, self._is_paid, self._name = 0, -1, False, ""
        self._answers = np.zeros(self.horizon)
        self._file = None if path is None else _StreamFile(path, promised)
        known: Any = ToeplitzRows if self.law.norm == "L2" else TreeRows
        self._rows_of = partial(known, weights, self._variance)
        self._rows: Any = None
        with self._settling():
            if self._rows is None:
                self._rows = known.best(weights, self._variance)
        self._parameter(self._rows.largest)  # raises where the noise does not fit
        LAPLACE.draw(Fraction(1), (0,))  # loads the sampler, of Gaussian noise too

    def __repr__(self) -> str:
        return (
            f"Stream({self.workload._label()}, horizon={self.horizon}, "
            f"{self.law.currency}={float(self.cost):g}, time={self._time})"
        )

    def _itself(self, *_: Any) -> Stream:
        """Return the stream itself: a copy would answer the same times again."""
        return self

    __copy__ = __deepcopy__ = _itself

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Stream cannot be pickled, because a copy would draw noise again for the "
            "same times; give it a path, and make it with the same arguments elsewhere"
        )

    # ---- what was answered -------------------------------------------------------

    @property
    def time(self) -> int:
        """Time of the next count, from 0; after the last one the horizon."""
        return self._time

    @property
    def answers(self) -> NDArray[np.float64]:
        """Answers so far, shape (time,); may be published."""
        return self._answers[: self._time].copy()

    @one_blas_thread()
    def push(self, count: int, time: int | None = None) -> float:
        """Take the count of a time, and return the answer for it.

        The first push spends the cost of all.

        Parameters
        ----------
        count : int
            Number of records at this time. Sensitive.
        time : int, default=None
            Time of the count, from 0: the next one, which ``None`` stands for, or the
            last one again, with the same count, whose stored answer is returned: for
            programs that do not know whether their last push was kept.

        Returns
        -------
        float
            In counts.

        Raises
        ------
        ValueError
            If the horizon is used up, or the time is another one; if the count is
            negative, too large for exact sums, or not the one that was stored. Nothing
            is spent, and the guarantee does not cover these three refusals.
        TypeError
            If the count is no integer.
        BudgetExceededError
            If the ledger does not cover the cost, or the stream is a copy in a forked
            process; nothing is spent.
        """
        with self._settling():
            now = self._time
            asked = now if time is None else check_integer(time, "time", minimum=0)
            whole = check_integer(count, "count", minimum=0)
            if asked == now - 1:
                if whole != self._last:
                    raise ValueError(
                        f"time {asked} was answered for another count, which stands; "
                        f"push the same count, or time {now}"
                    )
                return float(self._answers[asked])
            if asked >= self.horizon:
                raise ValueError(
                    f"time must be below the horizon of {self.horizon}, got {asked}; "
                    "begin another stream for what comes after"
                )
            if asked != now:
                raise ValueError(
                    f"time must be {now}, the next one, got {asked}; answers has what "
                    "was released, and a time without records has the count 0"
                )
            if whole > self._rows.largest_count:
                raise ValueError(
                    f"count must be at most {self._rows.largest_count} at a horizon of "
                    f"{self.horizon} for exact sums; count in larger units"
                )
            self._pay()
            noisy, runs = self._rows.sums(now, whole), self._rows.runs(now)
            if runs:
                with unseen("draws of a stream share a charge over all times"):
                    noisy = measure(
                        noisy,
                        runs,
                        self.law,
                        self.cost,
                        released=self._words,
                        relation=self.relation,
                        ledger=None,
                        noise=self._noise,
                    ).values
            self._rows.take(now, whole, noisy)
            answer = self._rows.answer(now)
            file = self._file
            written = file.add([now, whole, noisy.tolist(), answer]) if file else 0
            self._go_on(now, whole, answer)
            if file:
                file.end += written  # last: until then the line counts as news
            return answer

    def _go_on(self, time: int, count: int, answer: float) -> None:
        """Keep an answer, whose row is taken in."""
        self._answers[time], self._last = answer, count
        self._time = time + 1

    # ---- paying ------------------------------------------------------------------

    @property
    def _words(self) -> str:
        return (
            f"stream of {self.workload._label()}{f', {self._name}' * bool(self._name)}"
        )

    def _pay(self) -> None:
        """Charge for all times, unless the ledger has the entry of this very stream."""
        if self._is_paid:
            return
        if self._file is not None and not self._name:
            # Known before it is paid for, so that a program that is killed in between
            # finds what it paid.
            name = f"{random_key():016x}"
            self._file.begin(name, self._rows.settings)
            self._name = name
        what, entries = (self._words, self.cost), self.ledger.entries
        paid = [(e.released, getattr(e, self.law.currency)) for e in entries]
        if not self._name or what not in paid:
            size = self.relation.factor**self.law.power * self._rows.sensitivity
            sensitivity = math.sqrt(size) if self.law.power == 2 else float(size)
            entry = LedgerEntry(
                self.cost, self._words, self.law.name, sensitivity, self.law.currency
            )
            charge(self.ledger, entry, self.relation, self._noise)
        self._is_paid = True

    @contextmanager
    def _settling(self) -> Iterator[None]:
        """Keep other threads and processes out, and know what they pushed."""
        check_process(self._process, "a Stream")
        file = self._file
        with self._lock, nullcontext() if file is None else locked(file.path):
            if file is not None:
                file.read_on(self._take_in)
            yield

    def _take_in(self, line: Any) -> None:
        """Take in a line of the file, or raise."""
        if isinstance(line, dict):
            if not NAME.fullmatch(line["name"]):
                raise ValueError("a name of another kind")
            self._rows = self._rows_of(*line["rows"])
            self._name = line["name"]
            return
        time, count, noisy, answer = line
        last = self._time - 1, self._last, self._answers[self._time - 1]
        if (time, count, answer) == last:
            return  # an interruption came before the line was passed
        counted = whole_numbers([time, count], 2, 0, self._rows.largest_count)
        rows = self._rows.runs(self._time)
        noisy = whole_numbers(noisy, rows[-1][1] if rows else 0)
        known = type(answer) is float and math.isfinite(answer)
        if counted[0] != self._time or not known:
            raise ValueError("a time or an answer of another kind")
        self._rows.take(time, count, noisy)
        self._go_on(time, count, answer)

    # ---- errors ------------------------------------------------------------------

    def _parameter(self, size: Fraction) -> Fraction:
        factor = self.relation.factor**self.law.power
        return self.law.parameter(factor * size, self.cost)

    def _variance(self, size: Fraction) -> float:
        least = VARIANCE_FLOOR * float(size) ** (2 / self.law.power)
        return max(float(self.law.variance(self._parameter(size))), least)

    @one_blas_thread()
    def expected_error(self) -> float:
        """Return the expected total squared error of all answers, before paying.

        Returns
        -------
        float
            In squared counts. Exact for the integers that are measured and the noise
            that is drawn; takes seconds at a horizon of 65,536, O(T) for each scale of
            a count, and O(T log T) without scales and under `epsilon`.
        """
        return float(self._rows.total_error())

    @one_blas_thread()
    def standard_error(self, time: int) -> float:
        """Return the standard error of the answer for a time, before paying.

        Parameters
        ----------
        time : int
            From 0.

        Returns
        -------
        float
            In counts.
        """
        if check_integer(time, "time", minimum=0) >= self.horizon:
            raise ValueError(
                f"time must be below the horizon of {self.horizon}, got {time}"
            )
        return math.sqrt(self._rows.squared_error(time))

    def confidence_interval(
        self, time: int, level: float = 0.95
    ) -> tuple[float, float]:
        """Return an interval that holds the exact answer with a stated probability.

        Parameters
        ----------
        time : int
            A time that was answered.
        level : float, default=0.95
            Probability for this one answer, not for all together. It is a lower bound,
            for the noise of whole numbers that is drawn.

        Returns
        -------
        lower, upper : float
        """
        error = self.standard_error(time)
        if time >= self._time:
            raise ValueError(
                f"time must be below {self._time}, the next one, got {time}; "
                "standard_error tells the errors of answers to come"
            )
        unit = math.sqrt(self._variance(self._rows.least))
        half = quantile_of_whole_noise(level, self.law.norm, unit) * error
        return float(self._answers[time] - half), float(self._answers[time] + half)


class _StreamFile:
    """What a stream keeps on disk: a line of what it is, then one for every time.

    Lines are added, and synced, under a lock. A last line without an end is of a write
    that was interrupted; nothing that depends on it was returned, and it goes.
    """

    def __init__(self, path: str | os.PathLike[str], promised: dict[str, Any]) -> None:
        self.path, self._promised = str(check_writable(path)), promised
        self._promise = json.dumps(promised)  # now, since the first push is long enough
        self.end, self._start = 0, b""  # of what is known

    def read_on(self, take_in: Callable[[Any], None]) -> None:
        """Take in the lines that were not read yet, the first as a dict."""
        if not self.end and not os.path.exists(self.path):
            return
        with open(self.path, "rb") as stream:
            start = stream.read(START)  # with the name
            size = os.fstat(stream.fileno()).st_size
            if self.end and (start != self._start or size < self.end):
                raise self.refusal("is not what this program wrote, or older")
            self._start = start
            stream.seek(self.end)
            for line in stream:
                if line.endswith(b"\n"):
                    found = self._read(line)
                    try:
                        take_in(found)
                    except MALFORMED:
                        raise self.refusal(CHANGED) from None
                    self.end += len(line)
        if not self.end:
            raise self.refusal(CHANGED)

    def _read(self, line: bytes) -> Any:
        try:
            found = parsed_json(line)
            if self.end:
                return list(found)
            known, promised = found["stream"], dict(found["promised"])
        except MALFORMED:
            raise self.refusal(CHANGED) from None
        if known != FORMAT:
            raise self.refusal("is of another version")
        for name, value in self._promised.items():
            if promised.get(name) != value:
                raise self.refusal(f"is of a stream with another {name}")
        return found

    def begin(self, name: str, settings: Any) -> None:
        """Write the first line, of a stream with a new name."""
        rows = [np.asarray(numbers).tolist() for numbers in settings]
        head = json.dumps({"name": name, "stream": FORMAT, "rows": rows})
        line = f'{head[:-1]}, "promised": {self._promise}}}\n'
        write_through(self.path, line, 0o600)
        self.end, self._start = len(line), line[:START].encode()

    def add(self, line: list[Any]) -> int:
        """Write a line behind those that are known; return how long it is."""
        text = json.dumps(line).encode() + b"\n"
        with open(self.path, "r+b") as stream:
            stream.truncate(self.end)
            stream.seek(self.end)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        return len(text)

    def refusal(self, why: str) -> ValueError:
        """Return the error of a file that cannot be used."""
        return ValueError(
            f"{self.path!r} {why}; nothing was drawn: pass the arguments that it was "
            "made with, or another path"
        )
