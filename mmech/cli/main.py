"""The command ``mmech``: tables from a csv file, their budget, and their evidence."""

from __future__ import annotations

import argparse
import datetime
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
    TABLE,
    add_csv,
    add_memory,
    check_ledger,
    check_memory,
    check_readable,
    csv_format,
    kept_elsewhere,
    opened,
    parts_of,
)
from mmech.cli.schemas import Described, add_schema
from mmech.exceptions import located
from mmech.limits import LIMITS
from mmech.terminal import (
    InputError,
    Parser,
    add_command,
    command_line,
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

CODE = 4
"""Memory: bytes of a value as a code, with the copy that is measured."""

_DESCRIPTION = """\
The matrix mechanism of differential privacy.

All randomness that protects records comes from the operating system, so two runs
differ. Input files are csv with a header row, plain or .gz, or Parquet.
"""
_EXAMPLES = f"""\
example:
  {PROG} tables people.csv --domain people.json --ways 2 --epsilon 1 --out out

`{PROG} COMMAND --help` explains the options of a command.
"""
_TABLES = """\
Release tables of counts: whole, non-negative, consistent with each other, with
intervals that hold, a privacy statement, and synthetic records on request.

The domain lists what is public about the records: the attributes with their categories,
or bounds and cut points. With --dry-run no record is read and nothing is spent: the
errors to expect are printed.
"""
_TABLES_EXAMPLES = f"""\
A domain file:
  {{"features": [
    {{"name": "sex", "type": "categorical", "categories": ["f", "m"]}},
    {{"name": "size", "type": "ordinal", "categories": ["s", "m", "l"]}},
    {{"name": "age", "type": "numeric", "lower": 0, "upper": 120, "n_bins": 6}}]}}

examples:
  {PROG} tables --domain people.json --ways 2 --epsilon 1 --dry-run
      the errors to expect, before any record is read
  {PROG} tables people.csv --domain people.json --ways 1 2 --epsilon 1 --out out
      all tables of one and two attributes
  {PROG} tables people.csv --domain people.json --table age,sex \\
      --table age,size --epsilon 1/2 --out out --synthetic 10000
      two tables, and records drawn from a model of them
  {PROG} tables people.csv --domain people.json --ways 1 --epsilon 1 --out out \\
      --mean age --by sex --quantiles age --probabilities .5,.9
      means and quantiles from the same budget
  {PROG} tables people.csv --domain people.json --ways 1 --epsilon 1 --out out \\
      --share 1/2 --mean age
      half of the budget for tables
  {PROG} tables people.csv --domain people.json --auto --rho 1/9 --out out
      tables of one and two attributes, measured where worth their budget
  {PROG} tables people.csv --domain people.json --ways 2 --epsilon 1 --out out \\
      --known sex.csv --impossible rules.json
      totals that were published before stay as they are
  {PROG} tables people.csv --domain people.json --ways 1 --epsilon 1/4 \\
      --out out --ledger budget.json
      paid from a budget that other releases of these records share
"""
_STATISTICS = {
    "mean": "the mean of a number, from the budget of the tables; options from --by to "
    "--step that follow are for it. It may be repeated, as the next four",
    "sum": "the sum of a number",
    "standard-deviation": "the standard deviation of a number",
    "histogram": "counts of a number in ten bins, or in bins of a width of --step",
    "quantiles": "quartiles of a number, or quantiles of --probabilities",
}
"""Options of statistics, and what they are for."""

_AS_GIVEN: tuple[str, ...] = ("share", "epsilon", "rho", "neighbours", "dry_run")
_AS_GIVEN += ("records_per_person", "handle_unknown", "handle_missing")
"""Options that `release_tables` takes as they are."""

_RESUME = """\
Finish tables that were paid for. If `tables` is interrupted after the measurement,
its noisy numbers are in a file beside the folder of --out. This command makes tables of
them at no more cost. The file may be published.
"""
_BUDGET = """\
Print what a ledger on disk promises, what was spent and what is left, or make a new
one. What is released from the same records adds up: name one ledger for all
of it, with --ledger. What does not fit into its total is refused.
"""
_BUDGET_EXAMPLES = f"""\
examples:
  {PROG} budget budget.json --total 1
      make a ledger of epsilon = 1
  {PROG} budget budget.json
      what was spent, when and on what
"""
_VERIFY = """\
Check the evidence of a release: a folder of tables, an evidence.json, or the file of
a model. What was released from records, and at what cost, is computed anew in whole
numbers and fractions. The file mmech/verify.py does it alone: a copy of it and NumPy
are enough. This command also makes the release again from its noisy numbers: all cells
of a folder of tables, or a model. That takes as long as it did for the release.

The exit code is 0 if everything holds, 1 if something is refuted, and 2 if something
cannot be checked; the last line says so in one sentence.
"""
_SHOW = """\
Print the statement of released tables, and whether their evidence holds today.
`mmech verify` prints each check, and has the same exit code.
"""
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
    parser, commands = command_line(PROG, _DESCRIPTION, _EXAMPLES)
    _add_tables(commands)
    _add_resume(commands)
    _add_budget(commands)
    _add_verify(commands)
    _add_show(commands)
    add_schema(commands, Described(PROG, "domain", _read_domain))
    return parser


def _read_domain(path: str) -> Domain:
    from mmech.tables.plan import read_domain

    return read_domain(path)


def _add_tables(commands: argparse._SubParsersAction[Parser]) -> None:
    command = add_command(
        commands,
        "tables",
        _tables,
        short="release tables of counts, ready to be published",
        description=_TABLES,
        epilog=_TABLES_EXAMPLES,
    )
    add = command.add_argument
    add(
        "data",
        metavar="CSV",
        nargs="?",
        help=f"records: {TABLE}; not needed for --dry-run",
    )
    add("--domain", metavar="FILE", required=True, help="JSON file of the domain")
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--ways",
        type=whole(1),
        nargs="+",
        metavar="N",
        help="all tables of N attributes (default: tables of the groups of statistics)",
    )
    which.add_argument(
        "--table",
        dest="tables",
        action="append",
        metavar="NAME,NAME",
        help="one table, by its attributes; may be repeated",
    )
    which.add_argument(
        "--auto",
        action="store_const",
        const="auto",
        help="all tables of one attribute and of two",
    )
    add(
        "--measure",
        choices=("chosen", "all"),
        default="chosen",
        help="with ten pairs or more, --ways and --auto measure those that are chosen "
        "privately, and estimate the others without intervals; `all` measures all",
    )
    of: dict[str, Any] = {"dest": "statistics", "action": _OfStatistics}
    for option, text in _STATISTICS.items():
        add(f"--{option}", metavar="NAME", help=text, **of)
    for option, (metavar, kind, text) in _OF_STATISTICS.items():
        add(f"--{option}", metavar=metavar, type=kind, help=text, **of)
    add(
        "--known",
        metavar="CSV",
        action="append",
        help="totals that are public already: a column per attribute and one called "
        "count, or this alone for the number of records; may be repeated",
    )
    add(
        "--impossible",
        metavar="FILE",
        help='JSON rules of impossible cells: [{"age": "<15", "status": ["married"]}]',
    )
    command.set_defaults(share=None)
    cost = command.add_mutually_exclusive_group(required=True)
    cost.add_argument(
        "--epsilon",
        type=read_epsilon,
        metavar="E",
        help="cost of all tables and statistics together: pure differential privacy",
    )
    cost.add_argument(
        "--rho",
        type=read_epsilon,
        metavar="R",
        help="the same as zero-concentrated differential privacy",
    )
    add(
        "--ledger",
        metavar="FILE",
        help=f"pay from this ledger, which `{PROG} budget` makes (default: from none)",
    )
    add(
        "--dry-run",
        action="store_true",
        help="print the errors to expect, and neither read records nor spend anything",
    )
    _add_output(command, required=False)
    _add_relation(command, "add_remove", 1)
    for option, what, choices in (
        ("unknown", "values outside the domain", ("clip", "error", "category", "drop")),
        ("missing", "missing values", ("error", "category", "drop")),
    ):
        add(
            f"--handle-{option}",
            choices=choices,
            default=choices[0],
            help=f"what to do with {what}; drop leaves the record out of all tables, "
            f"and releases about how many there are (default: {choices[0]})",
        )
    add_memory(command, "the values of all records, a few bytes each")
    add_csv(command)


def _names(table: str) -> list[str]:
    return [name.strip() for name in table.split(",")]


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
    try:
        return [read_float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"it must be numbers, got {text!r}") from None


_OF_STATISTICS: dict[str, tuple[str, Any, str]] = {
    "by": ("NAME,NAME", _names, "attributes that the last statistic is grouped by"),
    "bounds": ("LOW,HIGH", _numbers, "public bounds that its numbers are clipped to"),
    "probabilities": ("P,P", _numbers, "probabilities of its quantiles"),
    "step": ("STEP", _number, "what its numbers are rounded to, from LOW on"),
    "share": (
        "S",
        read_epsilon,
        "its part of the budget; before all statistics, the part of the tables "
        "(default: the best parts)",
    ),
}
"""Options of the statistic before them: what they take, and what they are for."""


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
    from mmech.domain.csv_files import read_cells, read_header

    form, known, rules = csv_format(args), {}, []
    for path in args.known or ():
        with located(f"cannot use the known totals {path!r}"):
            names = tuple(
                n for n in read_header(check_file(path), **form) if n != "count"
            )
            cells = read_cells(path, [*names, "count"], ("count",), **form).T
            columns = dict(zip(names, cells, strict=False))
            try:
                counts = [read_float(text) for text in cells[-1]]
            except ValueError:
                raise ValueError(
                    "column 'count' must hold numbers; correct it"
                ) from None
            if names in known:
                raise ValueError("another file has counts of the same attributes")
            known[names] = {**columns, "count": counts} if names else counts
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
                    'they must be a JSON list of objects, such as [{"age": "<15"}]; '
                    "correct the file"
                )
    return known, rules


def _add_output(command: argparse.ArgumentParser, *, required: bool) -> None:
    add = command.add_argument
    add(
        "--out",
        metavar="FOLDER",
        required=required,
        help="new folder for the tables and the statement",
    )
    add(
        "--synthetic",
        type=whole(0),
        metavar="N",
        help="write N synthetic records as well",
    )
    add(
        "--level",
        type=_read_level,
        default=0.95,
        metavar="P",
        help="probability with which an interval holds the exact count (default: 0.95)",
    )
    add(
        "--excel",
        action="store_true",
        default=None,
        help="write an Excel workbook, which needs openpyxl (default: if it is there)",
    )


def _add_resume(commands: argparse._SubParsersAction[Parser]) -> None:
    command = add_command(
        commands,
        "resume",
        _resume,
        short="finish tables that were paid for and interrupted; free",
        description=_RESUME,
        epilog=f"example:\n  {PROG} resume out.measured --out out\n",
    )
    command.add_argument("measured", metavar="FILE", help="what was measured")
    _add_output(command, required=True)


def _add_relation(
    command: argparse.ArgumentParser, neighbours: str | None, records: int | None
) -> None:
    command.add_argument(
        "--neighbours",
        choices=("add_remove", "replace"),
        default=neighbours,
        help="neighbouring data sets differ by adding or removing one record, or by "
        "replacing one (default: add_remove)",
    )
    command.add_argument(
        "--records-per-person",
        type=whole(1),
        default=records,
        metavar="N",
        help="largest number of records of one person; the cost is per person "
        "(default: 1)",
    )


def _add_budget(commands: argparse._SubParsersAction[Parser]) -> None:
    command = add_command(
        commands,
        "budget",
        _budget,
        short="print what a ledger on disk paid for, or make one",
        description=_BUDGET,
        epilog=_BUDGET_EXAMPLES,
    )
    add = command.add_argument
    add("ledger", metavar="FILE", help="JSON file of the ledger")
    add("--total", type=read_epsilon, metavar="E", help="budget of a new ledger")
    add(
        "--currency",
        choices=("epsilon", "rho"),
        help="what it counts: pure epsilon, or rho of zero-concentrated differential "
        "privacy (default: epsilon)",
    )
    _add_relation(command, None, None)


def _add_verify(commands: argparse._SubParsersAction[Parser]) -> None:
    command = add_command(
        commands,
        "verify",
        _verify,
        short="check the evidence of a release by arithmetic",
        description=_VERIFY,
        epilog=f"example:\n  {PROG} verify out\n",
    )
    command.add_argument(
        "path", metavar="PATH", help="folder, evidence.json or archive"
    )
    command.add_argument(
        "--recompute",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="make tables or a model again from their noisy numbers; without, the "
        "report says that they are trusted (default: --recompute)",
    )


def _add_show(commands: argparse._SubParsersAction[Parser]) -> None:
    command = add_command(
        commands,
        "show",
        _show,
        short="print the statement of released tables, and check their evidence",
        description=_SHOW,
        epilog=f"example:\n  {PROG} show out\n",
    )
    command.add_argument("out", metavar="FOLDER", help="folder of released tables")


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
                report.insert(
                    -1, f"{UNSEEN} {unseen.format('the model made again from its')}"
                )
    return code, report


def _read_level(text: str) -> float:
    try:
        level = read_float(text)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
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
            None if args.dry_run else _records(args, domain, said, described),
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
    args: argparse.Namespace, domain: Domain, said: list[str], described: set[str]
) -> Iterator[Part]:
    """Return the records in parts, as long as their codes fit into memory.

    Once all are read, columns are named that nothing describes.
    """
    from mmech.domain.parts import columns_of

    parts = parts_of(args, args.data, domain, said)

    def bounded() -> Iterator[Part]:
        held = 0
        for part in parts:
            held += len(part.X) * len(domain.shape) * CODE
            check_memory(args.memory, held, "the records")
            yield part
        columns = columns_of(opened(args, args.data), domain, **csv_format(args))
        others = ", ".join(name for name in columns if name not in described)
        if others:
            say(f"{PROG}: columns that the domain does not name: {printable(others)}")

    return bounded()


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
    with open(args.measured, "rb"):  # before anything that takes time
        pass
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
    made.write(args.out, **own)


def _opened(args: argparse.Namespace) -> PrivacyLedger:
    """Return the ledger that pays, or raise before anything takes time."""
    from mmech.privacy.ledger import PrivacyLedger

    check_ledger(args.ledger)
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

    if args.total is None:
        check_ledger(args.ledger)
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
    print(f"{'table':{width}}  cells  std. error  90 % within  95 % within")
    rows = zip(*errors.values(), strict=True)
    for name, cells, *numbers, _ in islice(rows, len(plan.tables)):
        name = printable(name)
        error, ninety, more = (f"{number:.1f}" for number in numbers)
        print(f"{name:{width}}  {cells:5d}  {error:>10}  {ninety:>11}  {more:>11}")
    expected = [own.expected for own in plan.statistics]
    for words in (*expected, *unequal(plan.statistics)):
        print_wrapped(printable(words), bullet=True)
    if plan.parts:
        print_wrapped(
            "Tables of each hierarchy are measured apart, with shares of the budget "
            "of their own: these errors are smaller than those of all together."
        )
    if plan.adaptive:
        print_wrapped(
            "These are the errors if all tables are measured. Where records are few, "
            "tables of single attributes are measured, and a tree of pairs or none; "
            "the others are estimates without intervals."
        )
    print_wrapped(
        "Errors of the unbiased estimates, in counts; published counts are closer "
        "where there are many small ones. No record was read and nothing was spent."
    )


def _print_statement(args: argparse.Namespace) -> None:
    text = Path(args.out, "statement.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        print_wrapped(printable(line))
    page = os.path.join(args.out, "index.html")
    print_wrapped(f"The tables are in {os.fspath(args.out)!r}. Open {page!r} first.")
