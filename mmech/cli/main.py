"""The command ``mmech``: tables from a csv file, their budget, and their evidence."""

from __future__ import annotations

import argparse
import csv
import datetime
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmech.checks import check_file, parsed_json, read_float
from mmech.cli.files import (
    HELP,
    NO_CLASSES,
    add_csv,
    check_readable,
    csv_format,
    kept_elsewhere,
    opened,
)
from mmech.cli.schemas import Described, add_schema
from mmech.exceptions import located
from mmech.limits import LIMITS
from mmech.terminal import (
    InputError,
    Parser,
    in_words,
    print_wrapped,
    printable,
    read_epsilon,
    run_command,
    whole,
)
from mmech.threads import say, showing

if TYPE_CHECKING:
    from mmech.domain.domain import Domain
    from mmech.domain.parts import Part
    from mmech.privacy.ledger import PrivacyLedger
    from mmech.tables import MeasuredTables, TablePlan, Tables

PROG = "mmech"

_STATISTICS = ("mean", "sum", "standard-deviation", "histogram", "quantiles")
"""Options of statistics."""

_AS_GIVEN: tuple[str, ...] = ("share", "epsilon", "rho", "neighbours", "dry_run")
_AS_GIVEN += ("records_per_person", "handle_unknown", "handle_missing")
"""Options that `release_tables` takes as they are."""

_WORDS = {
    "X": "the records (row 0 is below the header)",
    "domain": "domain",
    "other": '"other"',
    "tables": "--table",
    "statistics": "statistics",
    "Domain.check": f"`{PROG} schema check`",
}
"""What is in files, and what Python calls it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for wrong input, or 130 where it was interrupted."""
    return run_command(PROG, build_parser, argv, partial(in_words, words=_WORDS))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser, commands = HELP.program(PROG)
    _add_tables(commands)
    _add_others(commands)
    add_schema(commands, Described(PROG, "domain", _read_domain, NO_CLASSES))
    return parser


def _read_domain(path: str) -> Domain:
    from mmech.tables.plan import read_domain

    return read_domain(path)


def _add_tables(commands: argparse._SubParsersAction[Parser]) -> None:
    command = HELP.command(commands, "tables", _tables)
    add = partial(HELP.add, command)
    add("data", metavar="CSV", nargs="?")
    add("--domain", metavar="FILE", required=True)
    which = command.add_mutually_exclusive_group()
    HELP.add(which, "--ways", type=whole(1), nargs="+", metavar="N")
    HELP.add(which, "--table", dest="tables", action="append", metavar="NAME,NAME")
    HELP.add(which, "--auto", action="store_const", const="auto")
    add("--measure", choices=("chosen", "all"), default="chosen")
    of: dict[str, Any] = {"dest": "statistics", "action": _OfStatistics}
    for option in _STATISTICS:
        add(f"--{option}", metavar="NAME", **of)
    for option, (metavar, kind) in _OF_STATISTICS.items():
        add(f"--{option}", metavar=metavar, type=kind, **of)
    add("--known", metavar="CSV", action="append")
    add("--impossible", metavar="FILE")
    command.set_defaults(share=None)
    cost = command.add_mutually_exclusive_group(required=True)
    HELP.add(cost, "--epsilon", type=read_epsilon, metavar="E")
    HELP.add(cost, "--rho", type=read_epsilon, metavar="R")
    add("--ledger", metavar="FILE")
    add("--dry-run", action="store_true")
    _add_output(command, required=False)
    _add_relation(command, "add_remove", 1)
    policies = ("error", "category", "drop")
    add("--handle-unknown", choices=("clip", *policies), default="clip")
    add("--handle-missing", choices=policies, default="error")
    add_csv(command)


def _names(table: str) -> list[str]:
    """Read a row of a csv file: quotes hold a name that has a comma."""
    line = " ".join(table.splitlines()) or '""'
    (row,) = csv.reader([line], skipinitialspace=True)
    return [name.strip() for name in row]


class _OfStatistics(argparse.Action):
    """Adds a statistic about an attribute, or gives an option to the last one."""

    def __call__(self, parser: Any, args: Any, value: Any, option: Any = None) -> None:
        name, listed = option[2:], args.statistics or []
        if name == "share" and not listed:
            args.share = value
        elif name in _STATISTICS:
            args.statistics = [*listed, (name, {"name": value})]
        elif listed:
            listed[-1][1][name] = value
        else:
            raise argparse.ArgumentError(
                self, "must follow a statistic, such as --mean"
            )


def _number(text: str) -> float:
    try:
        return read_float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"it must be a number, got {text!r}") from None


def _numbers(text: str) -> list[float]:
    return [_number(part) for part in text.split(",")]


_OF_STATISTICS: dict[str, tuple[str, Any]] = {
    "by": ("NAME,NAME", _names),
    "bounds": ("LOW,HIGH", _numbers),
    "probabilities": ("P,P", _numbers),
    "step": ("STEP", _number),
    "share": ("S", read_epsilon),
}
"""Options of the statistic before them, and what they take."""


def _statistics(args: argparse.Namespace) -> list[Any]:
    """Return the statistics that are asked for."""
    from mmech.tables import Histogram, Mean, Quantiles, StandardDeviation, Sum

    kinds: Any = Mean, Sum, StandardDeviation, Histogram, Quantiles
    made = {own.noun.replace(" ", "-"): own for own in kinds}
    found: list[Any] = []
    for kind, given in args.statistics or ():
        bounds = given.pop("bounds", None)
        if bounds is not None and len(bounds) != 2:
            raise InputError(f"--bounds must be LOW,HIGH, got {len(bounds)} numbers")
        given["lower"], given["upper"] = bounds or (None, None)
        if "probabilities" in given and kind != "quantiles":
            raise InputError(f"--probabilities is for --quantiles, got --{kind}")
        found.append(made[kind](**given))
    return found


def _known(args: argparse.Namespace) -> tuple[dict[Any, Any], list[Any]]:
    """Return known totals by the names of their attributes, and rules."""
    from mmech.domain.csv_files import CsvFormat, read_cells, read_header

    form, known, rules = CsvFormat(**csv_format(args)), {}, []
    for path in args.known or ():
        with located(f"cannot use the known totals {path!r}"):
            header = read_header(check_file(path), form)
            names = tuple(name for name in header if name != "count")
            cells = read_cells(path, [*names, "count"], ["count"], form).T
            if names in known:
                raise ValueError("another file has counts of the same attributes")
            columns = dict(zip((*names, "count"), cells, strict=True))
            known[names] = columns if names else cells[-1]
    if args.impossible is not None:
        with located(f"cannot use the rules {args.impossible!r}"):
            try:
                rules = parsed_json(Path(check_file(args.impossible)).read_bytes())
            except ValueError as error:
                raise ValueError(f"not valid JSON ({error}); correct it") from None
            if not (
                isinstance(rules, list) and all(isinstance(r, dict) for r in rules)
            ):
                raise ValueError(
                    'they must be a JSON list of objects, such as [{"sex": "f"}]; '
                    "correct the file"
                )
    return known, rules


def _add_output(command: argparse.ArgumentParser, *, required: bool) -> None:
    HELP.add(command, "--out", metavar="FOLDER", required=required)
    HELP.add(command, "--synthetic", type=whole(0), metavar="N")
    HELP.add(command, "--level", type=_read_level, default=0.95, metavar="P")
    HELP.add(command, "--excel", action="store_true", default=None)


def _add_relation(
    command: argparse.ArgumentParser, neighbours: str | None, records: int | None
) -> None:
    choices, one = ("add_remove", "replace"), whole(1)
    HELP.add(command, "--neighbours", choices=choices, default=neighbours)
    HELP.add(command, "--records-per-person", type=one, default=records, metavar="N")


def _add_others(commands: argparse._SubParsersAction[Parser]) -> None:
    resume = HELP.command(commands, "resume", _resume)
    HELP.add(resume, "measured", metavar="FILE")
    _add_output(resume, required=True)
    budget = HELP.command(commands, "budget", _budget)
    HELP.add(budget, "ledger", metavar="FILE")
    HELP.add(budget, "--total", type=read_epsilon, metavar="E")
    HELP.add(budget, "--currency", choices=("epsilon", "rho"))
    _add_relation(budget, None, None)
    verify = HELP.command(commands, "verify", _verify)
    HELP.add(verify, "path", metavar="PATH")
    yes_or_no = argparse.BooleanOptionalAction
    HELP.add(verify, "--recompute", action=yes_or_no, default=True)
    show = HELP.command(commands, "show", _show)
    HELP.add(show, "out", metavar="FOLDER")


def _show(args: argparse.Namespace) -> None:
    if not Path(args.out, "statement.txt").is_file():
        raise InputError(
            f"{args.out!r} is no folder of released tables; name one that `{PROG} "
            "tables` wrote"
        )
    code, report = _examined(args.out)
    _print_statement(args)
    today = datetime.date.today()
    print_wrapped(f"Evidence: checked on {today}: {printable(report[-1])}.")
    if code:
        raise SystemExit(code)


def _model_checked(path: str) -> tuple[int, str]:
    """Return exit code and verdict of whether a model follows from its evidence."""
    from mmech.storage.archive import EvidenceError

    try:
        import_module("mmech_rf").load_model(path)
    except EvidenceError as error:
        return 1, f"refuted: {printable(error)}"
    except ValueError as error:
        return 2, f"cannot check: {printable(error)}"
    return 0, "holds: the model follows from the noisy numbers, and costs what is said"


def _verify(args: argparse.Namespace) -> None:
    code, report = _examined(args.path, recompute=args.recompute)
    print(*report, sep="\n")
    raise SystemExit(code)


def _examined(path: str, *, recompute: bool = True) -> tuple[int, list[str]]:
    """Return what the verifier finds, and the package that makes the release again."""
    from mmech.verify import UNSEEN, examine

    unseen = "{} noisy numbers: --no-recompute"

    def again(folder: Path, say: Callable[[str, str], None]) -> list[str]:
        if recompute:
            from mmech.tables.recompute import recomputed

            return recomputed(folder, say)
        say(UNSEEN, unseen.format("tables made again from their"))
        return []

    with showing(lambda: "making the release again"):
        code, report = examine(Path(path), again=again)
        if code == 0 and zipfile.is_zipfile(path):
            if recompute:
                code, verdict = _model_checked(path)
                report.append(verdict)
            else:
                words = unseen.format("the model made again from its")
                report.insert(-1, f"{UNSEEN} {words}")
    return code, report


def _read_level(text: str) -> float:
    if not 0 < (level := _number(text)) < 1:
        raise argparse.ArgumentTypeError(f"it must lie between 0 and 1, got {text!r}")
    return level


def _tables(args: argparse.Namespace) -> None:
    if not args.dry_run and (args.data is None or args.out is None):
        raise InputError(
            "the records and --out are needed to release tables; give both, or "
            "--dry-run to see the errors to expect"
        )
    if args.ways is args.tables is args.auto is args.statistics is None:
        raise InputError("one of --ways, --table, --auto and --mean is needed")
    check_readable(args)
    ledger = None if args.ledger is None else _opened(args)
    if "drop" in (args.handle_unknown, args.handle_missing) and not args.dry_run:
        say(
            f"{PROG}: records that are dropped will count in no table; about how many "
            "they are is released with the tables"
        )
    kept = None if args.dry_run else f"{os.path.normpath(args.out)}.measured"
    if kept is not None and os.path.exists(kept):
        raise InputError(
            f"{kept!r} has what an earlier run paid for; make its tables with "
            f"`{PROG} resume`, or remove it"
        )
    said = ["starting"]
    with showing(lambda: said[-1]), _keeping(kept) as paid:
        from mmech.tables import release_tables
        from mmech.tables.files import check_excel
        from mmech.tables.plan import listed_tables, read_domain
        from mmech.tables.published import check_new_folder

        if args.out is not None:
            check_new_folder(args.out)
            check_excel(args.excel)
        domain = read_domain(args.domain)
        described = set(domain.levels)
        most = LIMITS.table_entries // len(described)
        if (args.synthetic or 0) > most:
            raise InputError(
                f"--synthetic must be at most {most:,} with so many attributes, got "
                f"{args.synthetic:,}; draw more with Tables.sample, in parts"
            )
        tables = args.tables and [_names(table) for table in args.tables]
        statistics = _statistics(args)
        known, rules = _known(args)
        used = {domain.levels.get(n, n) for n in set().union(*tables or ())}
        for own in statistics if used or not (args.ways or args.auto) else ():
            used |= {domain.levels.get(n, n) for n in (own.name, *own.by)}
        if used and used <= set(domain.names):  # other columns need not be there
            domain = domain.select([name for name in domain.names if name in used])
        ways, listed = args.ways, args.auto or tables
        if args.measure == "all" and (ways or args.auto):
            ways, listed = None, listed_tables(domain, ways)
        made: Any = release_tables(
            None if args.dry_run else _records(args, domain, described),
            domain,
            ways=ways,
            tables=listed,
            statistics=statistics,
            known=known,
            impossible=rules,
            ledger=ledger,
            keep=kept,
            callback=said.append,
            **{name: getattr(args, name) for name in _AS_GIVEN},
        )
        if not args.dry_run:
            said.append("writing")
            paid.append(made.measured)
            _write(made, args)
    if args.dry_run:
        _print_plan(made)
    else:
        _print_statement(args)
    if ledger is not None:
        print_wrapped(f"Left in {args.ledger!r}: {_left(ledger)}.")


def _records(
    args: argparse.Namespace, domain: Domain, described: set[str]
) -> Iterator[Part]:
    """Yield the records in parts, then name columns that nothing describes."""
    from mmech.domain.parts import columns_of, read

    source, form = opened(args, args.data), csv_format(args)
    yield from read(source, domain, **form)
    columns = columns_of(source, domain, **form)
    others = ", ".join(name for name in columns if name not in described)
    if others:
        say(f"{PROG}: columns that the domain does not name: {printable(others)}")


@contextmanager
def _keeping(kept: str | None) -> Iterator[list[MeasuredTables]]:
    """Remove what was measured once tables are made of it, or say where it is kept.

    Where its place takes no file, that is another one. Gives a list for what is made.
    """
    paid: list[MeasuredTables] = []
    try:
        yield paid
    except BaseException as stop:
        measured = paid[0] if paid else getattr(stop, "measured", None)
        if kept is None or measured is None:
            raise
        at: str | None = kept
        try:
            measured.save(kept)
        except Exception:
            at = kept_elsewhere(os.path.basename(kept), measured.save)
        spent = f"{measured.plan.currency} = {measured.plan.total_cost}"
        stop.__notes__ = [f"{spent} is spent, and not kept"]
        if at is not None:
            stop.__notes__ = [
                f"{spent} is spent; what was measured is kept in {at!r}; "
                f"`{PROG} resume {at} --out FOLDER` makes the tables at no more cost"
            ]
        raise
    if kept is not None:
        with suppress(OSError):  # the tables are there
            os.unlink(kept)


def _resume(args: argparse.Namespace) -> None:
    check_file(args.measured)  # before anything that takes time
    said = ["starting"]
    with showing(lambda: said[-1]):
        from mmech.tables import MeasuredTables
        from mmech.tables.files import check_excel
        from mmech.tables.published import check_new_folder

        check_new_folder(args.out)
        check_excel(args.excel)
        _write(MeasuredTables.load(args.measured).finish(said.append), args)
    _print_statement(args)


def _write(made: Tables, args: argparse.Namespace) -> None:
    own = {"level": args.level, "synthetic": args.synthetic, "excel": args.excel}
    data = getattr(args, "data", "-")
    made.write(args.out, title=None if data == "-" else Path(data).name, **own)


def _opened(args: argparse.Namespace) -> PrivacyLedger:
    """Return the ledger that pays, or raise before anything takes time."""
    from mmech.privacy.ledger import PrivacyLedger

    ledger = PrivacyLedger.open(args.ledger)
    if args.rho is None:
        ledger.check(args.epsilon)
    elif ledger.currency == "rho":
        ledger.check(args.rho, currency="rho")
    else:
        raise InputError(
            f"the ledger {args.ledger!r} counts pure epsilon, which cannot pay for "
            "--rho; use --epsilon, or make a ledger with --currency rho"
        )
    return ledger


def _left(ledger: PrivacyLedger) -> str:
    return f"{ledger.currency} = {ledger.remaining} of {ledger.total}"


def _budget(args: argparse.Namespace) -> None:
    from mmech.privacy.ledger import PrivacyLedger

    ledger = PrivacyLedger.open(
        args.ledger,
        total=args.total,
        currency=args.currency,
        neighbours=args.neighbours,
        records_per_person=args.records_per_person,
    )
    print_wrapped(f"Data sets differ {ledger.relation.words}.")
    print_wrapped(f"Spent: {ledger.currency} = {ledger.spent}.")
    print_wrapped(f"Left: {_left(ledger)}.")
    for entry in parsed_json(ledger.to_json())["releases"]:
        part = f" (part: {entry['part']})" if "part" in entry else ""
        unsafe = " (PREDICTABLE NOISE, not private)" if entry["insecure"] else ""
        print_wrapped(
            f"{entry['date']}: {ledger.currency} = {entry[ledger.currency]}, "
            f"{entry['released']}{part}{unsafe}",
            bullet=True,
        )


def _print_plan(plan: TablePlan) -> None:
    from mmech.tables.statistic_plans import unequal

    errors = plan.errors(frame="dict")
    width = max(5, *map(len, errors["table"].tolist()))
    print(f"{'table':{width}}  cells  std. error  10 % from  90 % within  95 % within")
    rows = zip(*errors.values(), strict=True)
    for name, cells, *numbers, _ in islice(rows, len(plan.tables)):
        name = printable(name)
        error, ninety, more = numbers
        shown = f"{cells:5d}  {error:10.1f}  {math.ceil(10 * error):9,d}"
        print(f"{name:{width}}  {shown}  {ninety:11.1f}  {more:11.1f}")
    expected = [own.expected for own in plan.statistics]
    for words in (*expected, *unequal(plan.statistics)):
        print_wrapped(printable(words), bullet=True)
    if plan.told_apart:
        each = [[" x ".join(t) or "the total" for t in own] for own in plan.measured]
        sets = [" with ".join(own) for own in each]
        asked = {*sets} == {" x ".join(table) for table in plan.tables}
        what = "only these tables" if asked else printable("; ".join(sets))
        print_wrapped(
            f"Measured: {what}. Each table is told by the levels of one hierarchy, or "
            "by those that it is measured with: these errors are smaller than by all "
            "levels together."
        )
    if plan.adaptive:
        print_wrapped(
            "These are the errors if all tables are measured. Where records are few, "
            "tables of single attributes are measured, and a tree of pairs or none; "
            "the others are estimates without intervals."
        )
    print_wrapped(
        "Errors of the unbiased estimates, in counts, and the counts from which the "
        "standard error is at most 10 %; published counts are closer where there are "
        "many small ones. No record was read and nothing was spent."
    )


def _print_statement(args: argparse.Namespace) -> None:
    text = Path(args.out, "statement.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        print_wrapped(printable(line))
    page = os.path.join(args.out, "index.html")
    print_wrapped(f"The tables are in {os.fspath(args.out)!r}. Open {page!r} first.")
