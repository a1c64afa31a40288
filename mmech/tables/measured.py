"""Noisy numbers of tables: what was paid for, kept, and finished at no more cost."""

from __future__ import annotations

import base64
import datetime
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mmech.checks import check_callback
from mmech.evidence import Evidence
from mmech.release import Measurement
from mmech.storage.codec import read as read_file
from mmech.storage.codec import storable, write
from mmech.tables.field import Measured, Solution
from mmech.tables.plan import TablePlan
from mmech.tables.result import Tables
from mmech.tables.statistic_plans import MeasuredStatistic
from mmech.tables.steps import Steps, noise_of
from mmech.tables.whole import settle
from mmech.threads import one_blas_thread

WHAT = "measurement of tables"
"""What files hold of it."""


@storable("MeasuredTables")
@dataclass(frozen=True, eq=False)
class MeasuredTables:
    """Noisy numbers that were paid for, before tables are made of them.

    It holds nothing else of records and may be published. `release_tables` leaves it
    where it is interrupted: in the file that ``keep=`` names, and as the attribute
    ``measured`` of what was raised.

    Attributes
    ----------
    plan : TablePlan
        What was measured.
    measurement : Measurement or Steps
        The noisy numbers.
    evidence : Evidence
        How all of them were drawn, for `mmech.verify`.
    left_out : Measurement or None
        As in `Tables`.
    date : str
        Day of the measurement, as ``2026-01-31``.
    statistics : tuple of MeasuredStatistic
        Noisy numbers of statistics, which are measured after the tables.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech import Attribute, Domain, MeasuredTables, release_tables
    >>> domain = Domain([Attribute.categorical("sex", ["f", "m"])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "sex.measured")
    ...     _ = release_tables([["f"], ["m"]], domain, ways=1, epsilon=1, keep=path)
    ...     MeasuredTables.load(path).finish()
    Tables(1 table of 1 attribute, epsilon=1)
    """

    plan: TablePlan
    measurement: Measurement | Steps
    evidence: Evidence
    left_out: Measurement | None = None
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())
    statistics: tuple[MeasuredStatistic, ...] = ()

    def __post_init__(self) -> None:
        datetime.date.fromisoformat(self.date)
        if self.plan.adaptive != isinstance(self.measurement, Steps):
            raise ValueError("the measurement is of another plan")
        # A ledger of rho also pays for pure epsilon.
        if getattr(self.measurement.entry, self.plan.currency) != self.plan.cost:
            raise ValueError("the measurement is of another plan")

    @one_blas_thread()
    def finish(self, callback: Callable[[str], Any] | None = None) -> Tables:
        """Return the tables; free of privacy cost.

        Parameters
        ----------
        callback : callable, default=None
            Called with a line of text as the work goes on.

        Returns
        -------
        Tables
        """
        plan, say = self.plan, check_callback(callback, "a line of text")
        noise = noise_of(plan, self.measurement)
        estimate = noise.estimate(self.measurement.values)
        counts = settle(self._pooled(estimate), plan.subsets, say, plan.known)
        return Tables(self, noise, estimate, counts)

    def _pooled(self, estimate: Solution) -> Solution:
        """Return estimates by what tables and statistics count."""
        more, values = [], [self.measurement.values]
        for plan, made in ((each.plan, each) for each in self.statistics):
            for table, counts, variance in made.counted if plan.has_numbers else ():
                order = self.plan.held([plan.names[i] for i in table])
                if order is not None:
                    shaped = counts.reshape([plan.sizes[i] for i in table])
                    values.append(shaped.transpose(np.argsort(order)).ravel())
                    more.append(Measured(tuple(sorted(order)), variance))
        products = estimate.field.chain.beside and not self.plan.told_apart
        if not more or products:
            return estimate
        return estimate.field.with_more(more).estimate(np.concatenate(values))

    @property
    def text(self) -> str:
        """The file of it without evidence, in base 64."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "measured")
            replace(self, evidence=Evidence.nothing()).save(path)
            return base64.b64encode(path.read_bytes()).decode()

    @property
    def numbers(self) -> Iterator[Measurement]:
        """All noisy numbers."""
        main = self.measurement
        yield from (main.number, *main.tables) if isinstance(main, Steps) else (main,)
        yield from () if self.left_out is None else (self.left_out,)
        yield from (statistic.measurement for statistic in self.statistics)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, for `load`.

        Parameters
        ----------
        path : path
            Replaced as a whole.
        """
        write(path, WHAT, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MeasuredTables:
        """Read the file that `save`, or `release_tables`, wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        MeasuredTables

        Raises
        ------
        ValueError
            If the file is damaged or holds something else.
        """
        loaded: MeasuredTables = read_file(path, WHAT, cls)
        measured, mechanisms = [loaded.measurement], [loaded.plan.mechanism()]
        if isinstance(loaded.measurement, Steps):
            measured = list(loaded.measurement.tables)
            mechanisms = loaded.measurement.mechanisms(loaded.plan)
        stated = [(noisy.values.shape, noisy.entry.kind) for noisy in measured]
        out = None if loaded.left_out is None else loaded.left_out.values.shape
        left_out = {None, (1,)} if loaded.plan.drops else {None}  # counted at the end
        if stated != [((m.released.shape[0],), m.law.name) for m in mechanisms] or (
            out not in left_out
        ):
            raise ValueError(f"{os.fspath(path)} has numbers of another measurement")
        return loaded
