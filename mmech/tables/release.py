"""`release_tables`: records in, tables out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from mmech.checks import check_bool, check_callback
from mmech.domain.domain import Domain
from mmech.domain.frames import kind_of_frame
from mmech.evidence import record_evidence
from mmech.exceptions import ParameterError, keeping
from mmech.marginals.counts import Counts, encoded_records
from mmech.noise import OF_CURRENCY, Price, check_insecure_rng
from mmech.noise.seam import paid_together
from mmech.noise.system import Rng
from mmech.privacy.cost import one_cost
from mmech.privacy.ledger import PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.release import Measurement, measure
from mmech.tables.files import file_names
from mmech.tables.measured import MeasuredTables
from mmech.tables.plan import TablePlan, make_plan, read_domain
from mmech.tables.result import Tables
from mmech.tables.statistic_plans import ReadDomain, listed, plan_statistics
from mmech.tables.statistics import Statistic
from mmech.tables.steps import check_budget, measure_in_steps
from mmech.threads import one_blas_thread
from mmech.writing import check_writable


@one_blas_thread()
def release_tables(
    data: Any,
    domain: Any,
    *,
    ways: int | Iterable[int] | None = None,
    tables: Iterable[Iterable[str] | str] | str | None = None,
    statistics: Iterable[Statistic] = (),
    share: Any = None,
    known: Mapping[Any, Any] | None = None,
    impossible: Iterable[Mapping[Any, Any]] = (),
    epsilon: Any = None,
    rho: Any = None,
    neighbours: str = "add_remove",
    records_per_person: int = 1,
    ledger: PrivacyLedger | None = None,
    handle_unknown: str = "clip",
    handle_missing: str = "error",
    dry_run: bool = False,
    keep: str | os.PathLike[str] | None = None,
    callback: Callable[[str], Any] | None = None,
    insecure_rng: Any = None,
) -> Any:
    """Release tables of counts under differential privacy, ready to be published.

    Tables that are listed are measured at once, by a strategy that is optimized for
    them. With ten pairs of attributes or more, ``ways=2`` and ``tables="auto"`` measure
    in steps what is worth its budget: tables of single attributes, these and pairs that
    are chosen privately, or all.

    What comes back is whole, non-negative and consistent: every margin and the total
    are the same in all tables. It has intervals that hold, a privacy statement, and a
    model from which synthetic records are drawn.

    Parameters
    ----------
    data : frame, array, list of rows, path, parts, Dask collection or Counts
        Records: frames of pandas, polars or pyarrow, and rows that are dicts, match
        attributes by name; arrays and other rows hold all attributes in the order of
        the domain. A path is a csv or Parquet file, or a folder of them; `mmech.read`
        takes files that are written in other ways, and returns parts. Parts may also
        be frames or arrays that an iterator yields. Partitions that Dask holds are
        counted where they are. `Counts` are those of `count`, without `statistics`.
        Sensitive.
    domain : Domain, or path
        The attributes and their values. Public.
    ways : int or sequence of int
        All tables of so many attributes, such as ``ways=(1, 2)``; of a hierarchy, by
        each of its levels.
    tables : sequence of (sequence of str), or "auto"
        In place of `ways`: the attributes of each table, or levels of them, one of a
        hierarchy. ``"auto"`` is all tables of one attribute and of two. Without both,
        tables count the groups of `statistics`.
    statistics : sequence of Statistic, default=()
        `Mean`, `Sum`, `StandardDeviation`, `Histogram` or `Quantiles` of numbers by
        group, from the same budget. Its parts make the sum of expected squared errors
        least: of an average cell of each table, and of an average number of each
        statistic, in records. A statistic may have a `share`.
        `Sum` by cities and by states add up. `Sum` and `Mean` of a number by the same
        groups agree. They agree with the table of these groups, if it is released and
        every record has a number: its counts are made of both measurements.
    share : float, str or Fraction, default=None
        What part of the budget the tables have, beside `statistics`, such as ``"1/4"``;
        ``None`` is the best one.
    known : mapping of names to table, optional
        Published totals, which stay as they are: ``{("sex",): [40, 60]}``, or
        ``{(): 100}`` for the number of records. A table is whole numbers in the order
        of its cells, or a frame with a column ``count``. Public.
    impossible : sequence of mapping, default=()
        Rules for cells that are impossible, and zero, by labels of each attribute:
        ``{"age": "0 to 15", "status": ["married", "widowed"]}``. Public.
    epsilon, rho : float, str or Fraction
        Cost of all tables and statistics together: pure epsilon, or rho of zCDP;
        exactly one of them.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation.
    records_per_person : int, default=1
        Largest number of records of one person, public: the cost is per person.
    ledger : PrivacyLedger, default=None
        Budget to charge, once.
    handle_unknown : {"clip", "error", "category", "drop"}, default="clip"
        What to do with values outside the domain, as in `Domain.encode`: a number
        beyond the bounds of its attribute counts as the nearest one, and any other
        value stops.
    handle_missing : {"error", "category", "drop"}, default="error"
        What to do with missing values. Records that either policy drops count in no
        table; how many they are is released with the tables (`Tables.left_out`) and
        costs nothing more.
    dry_run : bool, default=False
        Return a `TablePlan`, which tells the errors to expect, without a look at the
        records (`data` may be None) and without cost.
    keep : path, default=None
        File for the noisy numbers, written as soon as they are paid for: if the work
        is interrupted afterwards, `MeasuredTables` finishes it at no more cost. The
        file may be published, and stays until you remove it. A file that exists is
        refused.
    callback : callable, default=None
        Called with a line of text as the work goes on.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns.

    Returns
    -------
    Tables or TablePlan

    Raises
    ------
    TypeError
        If both `ways` and `tables` are given, or neither and no statistics, or not
        exactly one of `epsilon` and `rho`.
    ValueError
        If a table names an unknown attribute or has more than 2^17 cells, or a value
        cannot be read, or what is known contradicts itself; nothing is spent.
    BudgetExceededError
        If the ledger does not cover the cost; nothing is released.
    UserWarning
        If the error of a sum is more than a tenth of it in some groups, by the noisy
        numbers.
    BaseException
        Whatever stops the work after the measurement, ``KeyboardInterrupt`` included,
        has what was paid for as its attribute ``measured``, a `MeasuredTables`:
        tables, and the statistics that were measured after them.

    See Also
    --------
    MeasuredTables : finishes what was interrupted.
    MatrixMechanism : the measurement alone, for workloads of any kind.

    Notes
    -----
    Proof: ``notebooks/proofs/tables.md``. The strategy depends on the domain and the
    tables only; all that follows the one measurement depends on its noisy values and on
    public facts.

    Tables of one and two attributes are rounded to the rounded tables of single
    attributes, which is always possible. Where a table has three attributes or more,
    whole tables with given whole margins need not exist: then all are tabulated from
    one set of whole records of the fitted model. ``Tables.rounding`` says which. Tables
    may have several levels of hierarchies (`Attribute.hierarchy`): counts of each level
    are divided among the nodes of the one below.

    References
    ----------
    .. [1] McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of high-dimensional
       statistical queries under differential privacy", VLDB 2018.
    .. [2] Efron, Morris, "Stein's estimation rule and its competitors: an empirical
       Bayes approach", Journal of the American Statistical Association 68, 1973.
    .. [3] Aydore et al., "Differentially private query release through adaptive
       projection", ICML 2021: latent classes that explain noisy tables together.
    .. [4] Cox, "A constructive procedure for unbiased controlled rounding", Journal of
       the American Statistical Association 82(398), 1987.

    Examples
    --------
    >>> from mmech import Attribute, Domain, release_tables
    >>> domain = Domain(
    ...     [
    ...         Attribute.categorical("sex", ["f", "m"]),
    ...         Attribute.numeric("age", lower=0, upper=90, n_bins=3),
    ...         Attribute.categorical("smokes", ["no", "yes"]),
    ...     ]
    ... )
    >>> plan = release_tables(None, domain, ways=2, epsilon=1, dry_run=True)
    >>> plan.errors(frame="dict")["standard_error"].round(1)
    array([1.9, 2.4, 1.9])
    >>> records = [["f", 25, "no"], ["m", 70, "yes"], ["f", 45, "no"]] * 100
    >>> released = release_tables(records, domain, ways=2, epsilon=1)
    >>> table = released.table(("age", "sex"), frame="dict")
    >>> table["age"].tolist()
    ['[0, 30]', '[0, 30]', '(30, 60]', '(30, 60]', '(60, 90]', '(60, 90]']
    >>> bool((table["lower"] <= table["count"]).all())
    True
    """
    cost, currency = one_cost(epsilon, rho)
    domain, say = read_domain(domain), check_callback(callback, "a line of text")
    dry_run = check_bool(dry_run, "dry_run")
    if keep is not None and check_writable(keep).exists() and not dry_run:
        raise ParameterError(
            "keep",
            "must name a new file, since what is in it may be paid for",
            repr(os.fspath(keep)),
            ("finish it with MeasuredTables.load", "remove it", "name another"),
        )
    plan, reading = _plan(
        domain,
        listed(statistics) if statistics else [],
        share,
        say,
        ways=ways,
        tables=tables,
        currency=currency,
        cost=cost,
        relation=Relation(neighbours, records_per_person),
        policies={"handle_unknown": handle_unknown, "handle_missing": handle_missing},
        frame=kind_of_frame(data),
        known=known,
        impossible=impossible,
    )
    if dry_run:
        return plan
    if keep is not None:
        file_names(plan.outputs)  # raises for those that cannot be written
    records, left_out = _read(data, plan, reading, domain)
    return release(
        plan,
        records,
        left_out,
        promised=cost,
        ledger=ledger,
        say=say,
        insecure_rng=insecure_rng,
        keep=keep,
        reading=reading,
    )


@one_blas_thread()
def release(
    plan: TablePlan,
    records: Counts,
    left_out: int = 0,
    *,
    say: Callable[[str], None],
    keep: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Tables:
    """Measure encoded records by a plan, and make tables of what was measured.

    `left_out` is the number of records that the policies of the plan drop. Sensitive.
    """
    with ExitStack() as paid:  # whatever stops the work has what was paid for
        measured = _measure(plan, records, left_out, say, keep, paid, **options)
        return _publish(measured, say, keep)


def _plan(
    domain: Domain,
    statistics: Sequence[Statistic],
    share: Any,
    say: Callable[[str], None],
    *,
    tables: Any,
    **asked: Any,
) -> tuple[TablePlan, ReadDomain | None]:
    """Choose what to measure, by public facts, and what reads records for it."""
    say("choosing what to measure")
    if share is not None and not statistics:
        raise ParameterError(
            "share",
            "is the part of tables beside statistics, of which there are none",
            share,
            "leave it out",
        )
    if asked["ways"] is None and tables is None:
        tables = [statistic.by or statistic.name for statistic in statistics] or None
    plan = make_plan(
        domain,
        tables=tables,
        callback=lambda trial: say(f"choosing what to measure: {trial.message}"),
        **asked,
    )
    if not statistics:
        return plan, None
    reading, left = plan_statistics(statistics, domain, plan, share)
    return replace(plan, cost=left, statistics=reading.plans), reading


def _read(
    data: Any, plan: TablePlan, reading: ReadDomain | None, domain: Domain
) -> tuple[Counts, int]:
    """Return records, and the number of those left out. Sensitive."""
    read_as = plan.domain
    if reading:  # workers have copies, without mechanisms, which do not travel
        read_as = replace(reading, plans=tuple(map(replace, reading.plans)))
    if data is None:
        raise ParameterError(
            "data",
            "must be the records, unless {dry_run=True} asks for the plan only, got "
            "None",
            remedy="pass a frame, rows or the path of a csv file",
        )
    if isinstance(data, Counts) and (reading or plan.drops):
        raise ParameterError(
            "data",
            "must be the records where statistics are asked for, or some left out, got "
            "Counts, which hold cells only",
            remedy="pass a frame, rows or files",
        )
    sizes = reading.sizes if reading else read_as.shape
    return encoded_records(data, read_as, domain, sizes, plan.policies)


def _measure(
    plan: TablePlan,
    records: Counts,
    left_out: int,
    say: Callable[[str], None],
    keep: str | os.PathLike[str] | None,
    paid: ExitStack,
    *,
    ledger: PrivacyLedger | None,
    insecure_rng: Any,
    reading: ReadDomain | None = None,
    promised: Fraction | None = None,
) -> MeasuredTables:
    """Pay for all noisy numbers, and draw them: tables, then statistics.

    `reading` made the codes, where they have places of statistics. The evidence claims
    the cost that is `promised`, by default what the plan costs.
    """
    noise, cost = check_insecure_rng(insecure_rng), promised or plan.total_cost
    tables, attributes = plan.sizes
    words = f"{tables} of counts over {attributes}"
    words += ", and how many records they leave out" * plan.drops
    if plan.adaptive:
        check_budget(plan)
    with record_evidence() as record:
        later = reading.measure(records, plan, ledger, noise) if reading else ()
        records = plan.on_axes(records)
        say("measuring")

        def kept(measurement: Any, dropped: Any = None, *parts: Any) -> MeasuredTables:
            """Keep what was measured so far, whatever stops the work from now."""
            rest = plan.statistics[len(parts) :]
            done = plan
            if rest:
                done = replace(plan, statistics=tuple(each.plan for each in parts))
            claim = cost - sum(each.cost for each in rest)
            evidence = record.evidence(claim, plan.currency)
            measured = MeasuredTables(
                done, measurement, evidence, dropped, statistics=parts
            )
            spent = f"{plan.currency} = {done.total_cost}"
            then = "measured.finish() makes the tables"
            paid.enter_context(keeping(spent, then, measured=measured))
            if keep is not None:
                with suppress(Exception):  # all of it is saved at the end
                    measured.save(keep)
            return measured

        if plan.adaptive:
            measurement: Any = measure_in_steps(
                plan, records, words, ledger, noise, say, kept
            )
        else:
            mechanism = plan.mechanism(ledger, noise)
            # The number that is left out may cost as much as any release of this price.
            price = Price() if plan.drops else mechanism._price
            measurement = mechanism._measured(records, words, price)
        measured, dropped = kept(measurement), None
        if plan.drops:
            # A record is in the tables or left out: one charge pays for both.
            dropped = _count_dropped(plan, left_out, noise)
            measured = kept(measurement, dropped)
        for statistic in later:
            measured = kept(measurement, dropped, *measured.statistics, statistic)
    return measured


def _publish(
    measured: MeasuredTables,
    say: Callable[[str], None],
    keep: str | os.PathLike[str] | None,
) -> Tables:
    """Make tables of noisy numbers and public facts: there is nothing else here."""
    if keep is not None:
        measured.save(keep)
    made = measured.finish(say)
    for words in made.cautions:
        warnings.warn(words, UserWarning, stacklevel=6)
    return made


def _count_dropped(plan: TablePlan, left_out: int, noise: Rng) -> Measurement:
    """Measure how many records are left out; the tables paid."""
    with paid_together():
        return measure(
            np.array([left_out]),
            [(0, 1, Fraction(1))],
            OF_CURRENCY[plan.currency],
            plan.cost,
            released="how many records are left out",
            relation=plan.relation,
            ledger=None,
            noise=noise,
            part="left out",
        )
