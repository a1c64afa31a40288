"""Released tables: counts with intervals, a statement, synthetic records, files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Integers, Subset
from mmech.checks import check_choice, check_integer, check_level, check_seed
from mmech.domain.frames import as_frame
from mmech.evidence import Evidence
from mmech.exceptions import ParameterError
from mmech.limits import LIMITS
from mmech.noise.tails import SLACK
from mmech.operators.base import product_of
from mmech.release import Measurement
from mmech.tables.field import Solution
from mmech.tables.files import check_excel
from mmech.tables.intervals import Intervals
from mmech.tables.known import margin
from mmech.tables.model import raw_values
from mmech.tables.plan import TablePlan
from mmech.tables.published import write_folder
from mmech.tables.statement import facts_of, statement_of
from mmech.tables.statistic_plans import MeasuredStatistic, StatisticPlan
from mmech.tables.statistics import Statistic, TableCounts
from mmech.tables.steps import Steps
from mmech.tables.whole import ROUNDING, Counts
from mmech.terminal import printable
from mmech.threads import one_blas_thread

if TYPE_CHECKING:
    from mmech.tables.measured import MeasuredTables


@dataclass(frozen=True, eq=False, repr=False)
class Tables:
    """Tables that may be published, made by `release_tables`; holds no records.

    All counts are whole and non-negative, and all tables agree: what two of them have
    in common, down to the total, is the same in both.

    Attributes
    ----------
    measured : MeasuredTables
        The noisy numbers that everything is made from.
    noise : Intervals
        The law of the errors of the tables.
    estimate : Solution
        Unbiased tables, by least squares.
    counts : Counts
        Whole tables, and the model of maximum entropy.

    Examples
    --------
    >>> from mmech import Attribute, Domain, release_tables
    >>> domain = Domain(
    ...     [
    ...         Attribute.categorical("sex", ["f", "m"]),
    ...         Attribute.ordinal("size", ["s", "m", "l"]),
    ...     ]
    ... )
    >>> records = [["f", "s"], ["m", "l"], ["f", "m"]] * 200
    >>> released = release_tables(records, domain, ways=(1, 2), epsilon=1)
    >>> released
    Tables(3 tables of 2 attributes, epsilon=1)
    >>> table = released.table("sex", frame="dict")
    >>> list(table), table["sex"].tolist()
    (['sex', 'count', 'standard_error', 'lower', 'upper'], ['f', 'm'])
    >>> both = released.table(("size", "sex"), frame="dict")
    >>> int(both["count"].sum()) == int(table["count"].sum()) == released.total
    True
    >>> released.sample(4, frame="dict")["size"].shape
    (4,)
    """

    measured: MeasuredTables
    noise: Intervals
    estimate: Solution
    counts: Counts

    def __repr__(self) -> str:
        return repr(self.plan).replace("TablePlan", "Tables", 1)

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """Names of the attributes of every table."""
        return self.plan.tables

    @property
    def plan(self) -> TablePlan:
        """What was measured."""
        return self.measured.plan

    @property
    def measurement(self) -> Measurement | Steps:
        """The noisy numbers of the tables."""
        return self.measured.measurement

    @property
    def evidence(self) -> Evidence:
        """How all noisy numbers were drawn, for `mmech.verify`."""
        return self.measured.evidence

    @property
    def left_out(self) -> Measurement | None:
        """Noisy number of the records that no table counts, where some may be."""
        return self.measured.left_out

    @property
    def statistics(self) -> tuple[MeasuredStatistic, ...]:
        """Noisy numbers of statistics."""
        return self.measured.statistics

    @property
    def cost(self) -> Fraction:
        """Cost of tables and statistics together."""
        return self.plan.total_cost

    @property
    def total(self) -> int:
        """Number of records in every table: released, not exact."""
        return self.counts.total

    @property
    def rounding(self) -> str:
        """How counts were made whole, in words."""
        return ROUNDING[self.counts.rounding]

    # ---- tables ----------------------------------------------------------------

    def table(
        self,
        names: Iterable[str] | str,
        *,
        level: float = 0.95,
        frame: str | None = None,
    ) -> Any:
        """Return a table, one row per combination of values.

        Parameters
        ----------
        names : str or sequence of str
            Attributes of one of the tables, or levels of them, or some of those of one,
            in any order.
        level : float, default=0.95
            Probability with which an interval holds the exact count.
        frame : {"pandas", "polars", "pyarrow", "dict"}, default=None
            Kind of frame; ``None`` is the kind of the records, or else pandas where it
            is installed.

        Returns
        -------
        frame
            A column per attribute, or per column of the records down to a level, then
            ``count``, the released count. The unbiased estimate that it was made from
            has a ``standard_error``, and an interval from ``lower`` to ``upper``:
            whole, non-negative, and with the count inside. These three are NaN in a
            table that was not measured.

        Raises
        ------
        ValueError
            If no table holds the attributes together.

        Notes
        -----
        The error of an unbiased estimate has the same known law for all records.
        Its quantiles give intervals that hold the exact count with at least the given
        probability, each by itself and whatever the records are; they are cut off at
        zero and stretched to the published count, which only helps. The published count
        also uses that counts are non-negative and agree, and is closer on average.
        """
        return as_frame(self._columns(names, level), frame or self.plan.frame)

    def statistic(
        self, name: Any, *, level: float = 0.95, frame: str | None = None
    ) -> Any:
        """Return a statistic, one row per number.

        Parameters
        ----------
        name : str or Statistic
            Which one, such as ``"mean of income by region"``.
        level : float, default=0.95
            Probability with which an interval holds the exact number.
        frame : {"pandas", "polars", "pyarrow", "dict"}, default=None
            As in `table`.

        Returns
        -------
        frame
            A column per attribute of the groups, then ``mean``, ``sum``, ``count`` or
            ``quantile`` with the ends of an interval, ``lower`` and ``upper``. Sums and
            counts have a ``standard_error``. Means, and sums beside them, have the
            number of records with a value in ``count``: the sum is this times the mean.
            Where a group is too small to tell, its mean or quantile is NaN, the
            interval is the whole range, and ``note`` says so.

        Raises
        ------
        ValueError
            If no statistic has this name, or the level is not between 0 and 1.

        Notes
        -----
        Exact numbers are those of values that were clipped, as the statement says.
        Intervals hold them whatever the records are, each by itself: they include what
        rounding to the grid changes.
        """
        check_level(level)
        made = {str(statistic): statistic for _, statistic in self.plan.asked}
        if not made:
            raise ValueError(
                "no statistics were released with these tables; pass statistics= to "
                "release_tables"
            )
        check_choice(str(name), "name of a statistic", tuple(made))
        columns = self._of_statistic(made[str(name)], level)
        return as_frame(columns, frame or self.plan.frame)

    def _of_statistic(self, asked: Statistic, level: float) -> dict[str, NDArray[Any]]:
        (made,) = (each for each in self.statistics if asked in each.plan.statistics)
        counts = {t: self._counts_of(made.plan, t) for t in made.plan.tables}
        return made.columns(level, counts, asked)

    @property
    def cautions(self) -> list[str]:
        """What is said of sums with errors beyond a tenth of them, by noisy numbers."""
        sentences = []
        for _, statistic in self.plan.asked:
            if statistic.value == "sum":
                made = self._of_statistic(statistic, 0.95)
                few = int((10 * made["standard_error"] > np.abs(made["sum"])).sum())
                if few:
                    sentences.append(
                        f"{statistic}: the standard error is more than a tenth of the "
                        f"sum in {few} of {len(made['sum'])} groups; read these with "
                        "their intervals, or take fewer groups or narrower bounds"
                    )
        return sentences

    def _counts_of(self, plan: StatisticPlan, table: Subset) -> TableCounts:
        """Return what tables tell of the groups of a statistic."""
        most = min(
            (
                product_of(self.plan.axes.shape[i] for i in subset)
                * self.noise.law(subset).standard_error,
                float(self._estimate_of(subset).marginal(subset).sum()),
            )
            for subset in self.plan.subsets
            if self.noise.measures(subset)
        )
        bound = TableCounts(most[1] + 40 * (1 + most[0]))  # tails are exponential
        names = [plan.names[i] for i in table]
        order = self.plan.held(names)
        if not plan.has_numbers:
            return bound
        if order is None:
            return bound._replace(published=self._summed(names))
        if not order:
            return bound._replace(published=np.array([self.total]))
        subset = tuple(sorted(order))
        counts = bound._replace(published=self._turned(self._count(subset), order))
        if not self.noise.measures(subset):
            return counts
        estimate = self._turned(self._estimate_of(subset).marginal(subset), order)
        error = self.noise.law(subset).standard_error
        return counts._replace(estimate=estimate, variance=error**2)

    def _summed(self, names: list[str]) -> Integers | None:
        """Return counts of groups by levels above those of a table, if there is one."""
        domain, axes = self.plan.domain, self.plan.axes
        owners = {each.name: each for each in domain.attributes}
        rank = [*domain.levels].index
        for subset, table in self.counts.tables.items():
            levels = {domain.levels[axes.names[i]]: axes.names[i] for i in subset}
            below = [levels.get(domain.levels.get(name, ""), "") for name in names]
            pairs = list(zip(names, below, strict=True))
            if all(own and rank(name) <= rank(own) for name, own in pairs):
                place: Any = np.zeros(1, np.int64)
                cells = np.indices([axes.shape[i] for i in subset])
                for name, own in pairs:
                    i, owner = axes.names.index(own), owners[domain.levels[name]]
                    above = np.arange(axes.shape[i])
                    if name != own:
                        _, first = np.unique(owner.nodes(own), return_index=True)
                        above = owner.nodes(name)[first]
                    place = place * (above[-1] + 1) + above[cells[subset.index(i)]]
                return np.bincount(place.ravel(), table.ravel()).astype(np.int64)
        return None

    def _turned(self, table: NDArray[Any], order: Subset) -> NDArray[Any]:
        """Return a number per row, with axes in the order asked for."""
        axes = sorted(order)
        shape = [self.plan.axes.shape[i] for i in axes]
        return table.reshape(shape).transpose([axes.index(i) for i in order]).ravel()

    def _columns(
        self, names: Iterable[str] | str, level: float
    ) -> dict[str, NDArray[Any]]:
        check_level(level)
        order = self._positions(names)
        subset, turned = tuple(sorted(order)), partial(self._turned, order=order)
        count, axes = turned(self._count(subset)), self.plan.axes
        grid = np.indices([axes.shape[i] for i in order]).reshape(len(order), -1)
        values: dict[str, NDArray[Any]] = {}
        for i, rows in zip(order, grid, strict=True):
            values |= axes.attributes[i]._shown(rows)
        if not self.noise.measures(subset):
            unknown = np.full(count.size, np.nan)
            none = dict.fromkeys(("standard_error", "lower", "upper"), unknown)
            return values | {"count": count} | none
        centre = turned(self._estimate_of(subset).marginal(subset))
        error, width = map(turned, self.noise.errors(subset, level))
        width = width + SLACK
        lower = np.maximum(np.ceil(centre - width), 0).astype(np.int64)
        upper = np.maximum(np.floor(centre + width), 0).astype(np.int64)
        return values | {
            "count": count,
            "standard_error": error,
            "lower": np.minimum(lower, count),
            "upper": np.maximum(upper, count),
        }

    def _estimate_of(self, subset: Subset) -> Solution:
        """Return the estimate that a table has its intervals around."""
        noise, measured = self.noise, self.measurement
        if len(noise.steps) == 1 or not isinstance(measured, Steps):
            return self.estimate
        step = noise.step(subset)
        return noise.steps[step].estimate(measured.tables[step].values)

    def _positions(self, names: Iterable[str] | str) -> Subset:
        """Return the positions of attributes that a table holds together."""
        if not isinstance(names, Iterable):
            raise TypeError(
                "names must be the attributes of a table, such as ('age', 'sex'), got "
                f"{names!r}"
            )
        known, given = self.plan.names, (names,) if isinstance(names, str) else names
        given = tuple(check_choice(name, "an attribute", known) for name in given)
        if not given or len({*given}) < len(given):
            raise ParameterError(
                "names", "must name one attribute or more, once", given
            )
        order = self.plan.held(given)
        if order is None:
            shown = [", ".join(table) for table in self.tables[:4]]
            more = "; ..." if len(self.tables) > len(shown) else ""
            raise ParameterError(
                "names",
                "must be attributes of one of the released tables "
                f"({'; '.join(shown)}{more})",
                given,
                "release tables that hold them together, from a new budget",
            )
        return order

    def _count(self, subset: Subset) -> Integers:
        """Return published counts, summed from a table that holds the attributes."""
        tables = self.counts.tables
        whole = next(each for each in tables if {*subset} <= {*each})
        return margin(tables[whole], whole, subset)

    # ---- records ---------------------------------------------------------------

    @one_blas_thread()
    def sample(
        self, n: int | None = None, *, seed: Any = None, frame: str | None = None
    ) -> Any:
        """Return synthetic records, drawn from the model of maximum entropy.

        The model explains those of the tables that tell most, as many as its size
        allows; it was fitted to released numbers only, so that any number of records
        is free. Tables of synthetic records are near the released ones, not equal.

        Parameters
        ----------
        n : int, default=None
            Number of records; ``None`` is the released total.
        seed : int or Generator, default=None
            For records that can be drawn again. Not the seed of any noise.
        frame : {"pandas", "polars", "pyarrow", "dict"}, default=None
            As in `table`.

        Returns
        -------
        frame
            Columns as records have them, with values that `Domain.encode` reads. A
            number is uniform within its bin, and whole where the attribute says
            ``integer``.
        """
        number = self.total if n is None else check_integer(n, "n", minimum=0)
        most = LIMITS.table_entries // len(self.plan.names)
        if number > most:
            raise ParameterError(
                "n",
                f"must be at most {most:,}, as many records as are drawn at once",
                f"{number:,}",
                "draw parts, each with a seed of its own",
            )
        rng = check_seed(seed, "seed")
        codes = self.counts.records(number, rng)
        rng = np.random.default_rng(0) if rng is None else rng
        columns: dict[str, Any] = {}
        for attribute, cells in zip(self.plan.axes.attributes, codes.T, strict=True):
            columns |= raw_values(attribute, cells, rng)
        return as_frame(columns, frame or self.plan.frame)

    # ---- words and files -------------------------------------------------------

    @property
    def statement(self) -> str:
        """What was released, at what cost, and what its readers may rely on."""
        return statement_of(self, 0.95)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the statement, for machines."""
        return facts_of(self)

    def write(
        self,
        folder: str | os.PathLike[str],
        *,
        level: float = 0.95,
        synthetic: int | None = None,
        excel: bool | None = None,
        title: str | None = None,
    ) -> Path:
        """Write all tables and statistics into a new folder, whole or not at all.

        Parameters
        ----------
        folder : path
            Must not exist, or be empty.
        level : float, default=0.95
            Of the intervals.
        synthetic : int, default=None
            Number of synthetic records for ``synthetic.csv``.
        excel : bool, default=None
            Whether to write a workbook, ``tables.xlsx``, which needs openpyxl; ``None``
            is where that is installed (the extra ``excel``).
        title : str, default=None
            What the records are, for the title of the page, such as the name of their
            file; public. ``None`` says "Records".

        Returns
        -------
        Path
            The folder: ``index.html``, a page with all charts; a csv file per table and
            statistic, with its columns described beside it (CSVW); the workbook;
            ``statement.txt``; and ``evidence.json``, the record of the release, which
            `mmech.verify` checks.
        """
        workbook = check_excel(excel)
        check_level(level)
        shown = printable(title or "Records")
        return write_folder(self, folder, level, synthetic, shown, excel=workbook)
