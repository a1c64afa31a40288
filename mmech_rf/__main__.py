"""The command line: ``mmech-rf``, the same as ``python -m mmech_rf``.

Only parsing and printing; what it does is in `mmech_rf.evaluation`. That package is
imported when a command runs, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from mmech_rf.evaluation import Evaluation, Records

__all__ = ["main"]

PROG = "mmech-rf"

# Repeated here because importing them would make --help slow.
DATASETS = (
    "car",
    "nursery",
    "balance-scale",
    "tic-tac-toe",
    "monks-1",
    "monks-2",
    "monks-3",
    "iris",
)
METHODS = (
    "batch-training",
    "batch-prediction",
    "subsample-aggregate",
    "laplace-shared",
    "laplace-disjoint",
    "non-private",
    "majority",
)
SPLITS = ("multiway", "binary", "threshold")
DEMO_DEPTH = 4
DEMO_SUBSAMPLE_TREES, DEMO_SUBSAMPLE_DEPTH = 16, 3

NOT_PRIVATE = (
    "The test accuracies and seconds above are themselves not private: they come from "
    "the records without noise. Publish them for public data only."
)

_DESCRIPTION = """\
Random forests under differential privacy, on the matrix mechanism.

All randomness that protects records comes from the operating system, so two
runs differ; --seed fixes the forests and the splits only.
"""
_EXAMPLES = f"""\
examples:
  {PROG} demo
      compare all methods on 1,728 cars at ε = 1, in a few seconds
  {PROG} evaluate --data car --epsilon 0.5 1 2 --depth 4 --plot car.png
      the same at three budgets, mean ± std over 10 splits, as table and picture
  {PROG} evaluate --data mine.csv --schema mine.json --csv results.csv
      your own records; the schema lists public categories, bounds and classes

`{PROG} COMMAND --help` explains the options of a command.
"""
_DEMO = """\
Compare all methods on the built-in car evaluation data: 1,728 cars, split at
random into 80 % for training and 20 % for testing. Prints a table of test accuracy
(mean ± std over the splits), expected error and seconds per stage.
"""
_DEMO_EXAMPLES = f"""\
examples:
  {PROG} demo
  {PROG} demo --epsilon 2 --repeats 10
"""
_EVALUATE = """\
Fit and test methods on repeated random 80/20 splits of a data set, at one or more
privacy budgets. Prints mean ± std of the test accuracy.

Test accuracy is computed without noise and is not private: use public data.
"""
_EVALUATE_EXAMPLES = f"""\
methods:
  batch-training       leaf counts through the matrix mechanism; a model for ever
  batch-prediction     votes of one batch of queries through the matrix mechanism
  subsample-aggregate  votes of one batch; every record trains one tree only
  laplace-shared       baseline: noise on every leaf, all records in every tree
  laplace-disjoint     baseline: noise on every leaf, every record in one tree
  non-private          the same forest with exact counts
  majority             the most frequent class of the training split, exact

examples:
  {PROG} evaluate --data car --epsilon 0.5 1 2 --depth 4 --plot car.png
  {PROG} evaluate --data nursery --repeats 3 --methods batch-training majority
  {PROG} evaluate --data mine.csv --schema mine.json --missing drop --csv out.csv

A schema file is JSON: {{"features": [{{"name": "age", "type": "numeric", "lower": 0,
"upper": 120}}, {{"name": "sex", "type": "categorical", "categories": ["f", "m"]}}],
"target": {{"name": "class", "categories": ["no", "yes"]}}}}
"""


class _InputError(ValueError):
    """What the user typed cannot be used."""


class _Parser(argparse.ArgumentParser):
    """Raises instead of printing usage and ending the interpreter."""

    def error(self, message: str) -> NoReturn:
        """Raise, to be reported in one sentence."""
        raise _InputError(f"{message}; see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit code: 0, 2 for wrong input, 130 where it was interrupted.
    """
    if hasattr(sys.stdout, "reconfigure"):  # terminals that do not know ε or ±
        sys.stdout.reconfigure(errors="replace")
    try:
        parser = _parser()
        args = parser.parse_args(argv)
        if args.version:
            from mmech import __version__

            print(f"{PROG} {__version__}")
        elif args.run is None:
            parser.print_help()
        else:
            args.run(args)
        sys.stdout.flush()
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except KeyboardInterrupt:
        _say(f"{PROG}: interrupted")
        return 130
    except BrokenPipeError:  # the reader of the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        reason = error.strerror or str(error)
        place = f"{str(error.filename)!r}: " if error.filename else ""
        return _fail(f"cannot open {place}{reason}")
    except ValueError as error:
        # The library's own message, with the option as it is called here.
        return _fail(str(error).replace("handle_missing=", "--missing drop"))
    return 0


def _fail(message: str) -> int:
    _say(f"{PROG}: error: {' '.join(message.split())}")
    return 2


def _say(message: str, end: str = "\n") -> None:
    print(message, end=end, file=sys.stderr, flush=True)


# ---- options ---------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROG,
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="store_true", help="print the version and end"
    )
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_demo(commands)
    _add_evaluate(commands)
    return parser


def _add_command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    *,
    short: str,
    description: str,
    epilog: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=short,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = _add_command(
        commands,
        "demo",
        _demo,
        short="compare all methods on built-in data, in seconds",
        description=_DEMO,
        epilog=_DEMO_EXAMPLES,
    )
    command.add_argument(
        "--epsilon",
        type=_epsilon,
        default=Fraction(1),
        metavar="E",
        help="privacy budget of every release, in nats; smaller is more private "
        "(default: 1)",
    )
    _add_forest(command, depth=str(DEMO_DEPTH))
    _add_repeats(command, default=3)


def _add_evaluate(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = _add_command(
        commands,
        "evaluate",
        _evaluate,
        short="accuracy of methods at several budgets, on your data or built-in data",
        description=_EVALUATE,
        epilog=_EVALUATE_EXAMPLES,
    )
    command.add_argument(
        "--data",
        required=True,
        metavar="NAME|CSV",
        help=f"a built-in data set ({', '.join(DATASETS)}), or a csv file with a "
        "header row, plain or .gz",
    )
    command.add_argument(
        "--schema",
        metavar="FILE",
        help="JSON file with the public attributes and classes; needed for a csv file",
    )
    command.add_argument(
        "--missing",
        choices=("error", "drop"),
        default="error",
        help="what to do with records that have missing values (default: error)",
    )
    command.add_argument(
        "--epsilon",
        type=_epsilon,
        nargs="+",
        default=[Fraction(1)],
        metavar="E",
        help="privacy budgets, in nats, each spent by one release; smaller is more "
        "private (default: 1)",
    )
    command.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        default=list(METHODS),
        metavar="METHOD",
        help="which to compare, see below (default: all)",
    )
    _add_forest(command, depth="auto")
    command.add_argument(
        "--subsample-trees",
        type=_whole(1),
        default=16,
        metavar="N",
        help="number of trees of subsample-aggregate; few, because they share out "
        "the records (default: 16)",
    )
    command.add_argument(
        "--subsample-depth",
        type=_depth,
        default="auto",
        metavar="D",
        help="depth of the trees of subsample-aggregate (default: auto)",
    )
    command.add_argument(
        "--voting",
        choices=("hard", "weight"),
        help="whether a tree votes for the label of its leaf (hard) or with its counts "
        "(weight); batch-prediction always votes by weight (default: weight for "
        "subsample-aggregate, hard for the others)",
    )
    _add_repeats(command, default=10)
    command.add_argument(
        "--plot",
        metavar="FILE",
        help="draw accuracy against epsilon into a .png, .pdf or .svg file; needs "
        "matplotlib",
    )
    command.add_argument(
        "--csv",
        metavar="FILE",
        help="write every single trial as a row: accuracy, expected error in squared "
        "counts, seconds per stage",
    )
    command.add_argument(
        "--quiet", action="store_true", help="no progress, only the results"
    )


def _add_forest(command: argparse.ArgumentParser, *, depth: str) -> None:
    command.add_argument(
        "--trees",
        type=_trees,
        default=128,
        metavar="N",
        help="number of trees of a forest, or inf: the limit of many multiway trees, "
        "one per subset of attributes (default: 128)",
    )
    command.add_argument(
        "--depth",
        type=_depth,
        default=_depth(depth),
        metavar="D",
        help="how many tests there are on a path of a tree, or auto: half of the "
        "attributes, or more of them where attributes can be tested again "
        f"(default: {depth})",
    )
    command.add_argument(
        "--splits",
        choices=SPLITS,
        default="multiway",
        help="multiway: one child per value; binary: equal to a value or not, for "
        "attributes with an order at most a value or above; threshold: ordered "
        "attributes by thresholds, others multiway (default: multiway)",
    )


def _add_repeats(command: argparse.ArgumentParser, *, default: int) -> None:
    command.add_argument(
        "--repeats",
        type=_whole(1),
        default=default,
        metavar="N",
        help="number of random 80/20 splits, each with its own forest "
        f"(default: {default})",
    )
    command.add_argument(
        "--seed",
        type=_whole(0, 2**31),
        default=0,
        metavar="N",
        help="fixes the splits and forests, never the noise (default: 0)",
    )


def _whole(minimum: int, maximum: int = 10**9) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdecimal() else minimum - 1
        if not minimum <= number <= maximum:
            raise argparse.ArgumentTypeError(
                f"it must be a whole number from {minimum} to {maximum:,}, got {text!r}"
            )
        return number

    return read


def _trees(text: str) -> float:
    if text == "inf":
        return math.inf
    try:
        return _whole(1)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or inf") from None


def _depth(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return _whole(0)(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"it must be a whole number >= 0 or auto, got {text!r}"
        ) from None


def _epsilon(text: str) -> Fraction:
    from mmech._validation import check_epsilon

    try:
        return check_epsilon(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# ---- commands --------------------------------------------------------------


def _demo(args: argparse.Namespace) -> None:
    from mmech_rf import evaluation

    records = evaluation.load_records("car")
    n_test = -(-len(records.y) // 5)
    epsilon = f"{float(args.epsilon):g}"
    methods = evaluation.make_methods(
        n_trees=args.trees,
        depth=args.depth,
        splits=args.splits,
        subsample_trees=DEMO_SUBSAMPLE_TREES,
        subsample_depth=DEMO_SUBSAMPLE_DEPTH,
    )
    splits = f"{args.repeats} random splits" if args.repeats > 1 else "a random split"
    _print_wrapped(
        f"Which of {records.schema.n_classes} classes does a car belong to? Forests of "
        f"{_how_many(args.trees)} trees of depth {args.depth} (subsample-aggregate: "
        f"{DEMO_SUBSAMPLE_TREES} of depth {DEMO_SUBSAMPLE_DEPTH}) train on "
        f"{len(records.y) - n_test:,} cars and are tested on {n_test}, in {splits}."
    )
    _print_wrapped(
        "The attributes, the classes, the trees, which grow at random, and the cars to "
        "predict are public. The training cars are private: only counts of them are "
        f"measured, with Laplace noise, at ε = {epsilon} for one car more or less in "
        "each line of the table."
    )
    print(flush=True)
    _warm_up(METHODS)
    found = evaluation.evaluate(
        records,
        methods,
        [args.epsilon],
        repeats=args.repeats,
        seed=args.seed,
        progress=sys.stderr.isatty(),
    )
    summaries = evaluation.summarize(found.trials)
    print(evaluation.comparison_table(summaries, width=_table_width()))
    print()
    _print_skipped(found)
    _print_wrapped(
        "Expected error is the sum of the squared noise of all released answers, in "
        "counts², and ± per answer its root mean square, in counts. Compare them where "
        "the same answers are released: batch training with Laplace, shared data. "
        "Where a car counts in one tree only (Laplace, disjoint data and "
        "subsample-aggregate) the noise is small, but so are the counts.",
        bullet=True,
    )
    leaves = [
        trial.n_answers // records.schema.n_classes
        for trial in found.trials
        if trial.method.name == "batch-training"
    ]
    if leaves and args.trees != math.inf:
        _print_wrapped(
            f"Where the gain comes from: a car is in {args.trees} leaves, one per "
            f"tree, so plain Laplace noise has scale {args.trees}/ε on each of the "
            f"{leaves[0]:,} leaves; the matrix mechanism measures every car once, with "
            "noise of scale 1/ε, and derives all leaves from that.",
            bullet=True,
        )
    _print_wrapped(NOT_PRIVATE, bullet=True)


def _evaluate(args: argparse.Namespace) -> None:
    from mmech_rf import evaluation

    if args.plot is not None:
        evaluation.check_plot_path(args.plot)
    for path in (args.plot, args.csv):
        if path is not None:
            _check_writable(path)
    records = evaluation.load_records(args.data, args.schema, missing=args.missing)
    methods = evaluation.make_methods(
        args.methods,
        n_trees=args.trees,
        depth=args.depth,
        splits=args.splits,
        voting=args.voting,
        subsample_trees=args.subsample_trees,
        subsample_depth=args.subsample_depth,
    )
    _warm_up(args.methods, quiet=args.quiet)
    found = evaluation.evaluate(
        records,
        methods,
        args.epsilon,
        repeats=args.repeats,
        seed=args.seed,
        progress=sys.stderr.isatty() and not args.quiet,
    )
    forest = f"{_how_many(args.trees)} trees, depth {args.depth}"
    if args.splits != "multiway":
        forest += f", {args.splits} splits"
    title = f"{records.name}, {forest}"
    spread = "mean ± std over " if args.repeats > 1 else ""
    splits = f"{args.repeats} random 80/20 split{'s' if args.repeats > 1 else ''}"
    print(f"{title}: test accuracy, {spread}{splits} of {len(records.y):,} records\n")
    if found.trials:
        summaries = evaluation.summarize(found.trials)
        print(evaluation.accuracy_table(summaries))
        print()
        if args.csv is not None:
            evaluation.write_csv(args.csv, found.trials)
        if args.plot is not None:
            evaluation.plot_accuracy(summaries, args.plot, title=title)
    _print_skipped(found)
    _print_notes(records)


def _how_many(n_trees: float) -> str:
    return "all multiway" if n_trees == math.inf else str(n_trees)


def _check_writable(path: str) -> None:
    """Raise before the work starts, rather than after it."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise _InputError(f"cannot write {path!r}: there is no folder {folder!r}")
    if os.path.isdir(path):
        raise _InputError(f"cannot write {path!r}: it is a folder")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise _InputError(f"cannot write {path!r}: permission denied")


def _warm_up(names: Sequence[str], *, quiet: bool = False) -> None:
    """Compile or load all kernels first, so that no method pays for it."""
    from mmech_rf import evaluation

    if not quiet:
        _say("preparing kernels (compiled on the first run only) ... ", end="")
    seconds = evaluation.warm_up(names)
    if not quiet:
        _say(f"{seconds:.1f} s")


def _print_skipped(found: Evaluation) -> None:
    for label, reason in found.skipped.items():
        _print_wrapped(f"Skipped {label}: {reason}.", bullet=True)


def _print_notes(records: Records) -> None:
    if records.n_dropped:
        _print_wrapped(
            f"{records.n_dropped:,} records with missing values were left out.",
            bullet=True,
        )
    if records.caveat is not None:
        _print_wrapped(records.caveat, bullet=True)
    _print_wrapped(NOT_PRIVATE, bullet=True)


def _table_width() -> int:
    """Return the width of a terminal; files and pipes take any table."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 200


def _print_wrapped(text: str, *, bullet: bool = False) -> None:
    width = min(100, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 100
    start, indent = ("* ", "  ") if bullet else ("", "")
    print(
        textwrap.fill(
            text,
            width,
            initial_indent=start,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
