"""Files of commands: how records are read, and what is written."""

from __future__ import annotations

import argparse
import gzip
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from mmech.checks import check_file
from mmech.terminal import Help, InputError
from mmech.writing import check_writable, replacing

if TYPE_CHECKING:
    from mmech.domain.domain import Domain

READ = ("data", "queries", "model", "schema", "domain")
"""Arguments that name a file which is read."""

_FOLDERS = ("data", "queries")
"""Those that may also name a folder, or the standard input."""

STANDARD_INPUT = "- reads the standard input"
TABLE = f"a csv or Parquet file, or a folder of them; {STANDARD_INPUT}"
"""What an argument may name, in words."""

# ---- options ---------------------------------------------------------------

FILLED_IN = {"table": TABLE, "stdin": STANDARD_INPUT}
NO_CLASSES = dict.fromkeys(("and_classes", "classes", "queries"), "")
HELP = Help("mmech", prog="mmech", noun="domain", **FILLED_IN, **NO_CLASSES)
"""What the program says of itself. Other programs fill in other names."""


def add_csv(command: argparse.ArgumentParser) -> None:
    """Add how csv files are written."""
    HELP.add(command, "--sep", default=",", metavar="C")
    HELP.add(command, "--encoding", default="utf-8", metavar="NAME")
    HELP.add(command, "--decimal", default=".", metavar="C")
    HELP.add(command, "--thousands", metavar="C")
    HELP.add(command, "--na", action="append", metavar="TEXT")
    HELP.add(command, "--multiline", action="store_true")


def csv_format(args: argparse.Namespace) -> dict[str, Any]:
    """Return how the csv files of a command are written."""
    return {
        "multiline": args.multiline,
        "sep": "\t" if args.sep == r"\t" else args.sep,
        "encoding": args.encoding,
        "decimal": args.decimal,
        "thousands": args.thousands,
        "na": tuple(args.na or ()),
    }


# ---- files -----------------------------------------------------------------


class _Piped(io.BytesIO):
    """What came through the standard input, to be read more than once."""

    name = "-"


def opened(args: argparse.Namespace, path: str) -> Any:
    """Return a path; of ``-`` the content of the standard input."""
    if path != "-":
        return path
    if not hasattr(args, "piped"):
        args.piped = _Piped(sys.stdin.buffer.read())
    return args.piped


def check_readable(args: argparse.Namespace) -> None:
    """Raise for a file that cannot be opened, before the library is imported."""
    for name in READ:
        path = getattr(args, name, None)
        table = name in _FOLDERS and (path == "-" or os.path.isdir(path or ""))
        if isinstance(path, str) and not table:
            check_file(path)


def check_new(args: argparse.Namespace, path: str) -> None:
    """Raise, before the work starts, unless a file may be written.

    It must not be one that the command reads, nor exist already without ``--force``.
    """
    target = check_writable(path)
    if not target.exists():
        return
    for name in READ:
        source = getattr(args, name, None)
        if source and os.path.exists(source) and os.path.samefile(source, target):
            raise InputError(
                f"cannot write {path!r}: this command reads it; choose another name"
            )
    if not args.force:
        raise InputError(
            f"{path!r} exists already; choose another name, or overwrite it with "
            "--force"
        )


def check_output(args: argparse.Namespace) -> None:
    """Raise before any budget is spent, rather than after it."""
    check_readable(args)
    if args.out is not None:
        check_new(args, args.out)


@contextmanager
def writing(path: str | None) -> Iterator[TextIO]:
    """Give a stream to the file, whole or not at all, or to the standard output."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()  # fails here, if at all
        return
    opening: Any = gzip.open if path.endswith(".gz") else open
    form = {"encoding": "utf-8", "newline": ""}
    with replacing(path) as unfinished, opening(unfinished, "wt", **form) as stream:
        yield stream


def read_header(
    args: argparse.Namespace, path: str, domain: Domain | None = None
) -> list[str]:
    """Return the names of the columns; nothing below them is looked at."""
    from mmech.domain.parts import columns_of

    return columns_of(opened(args, path), domain, **csv_format(args))


def kept_elsewhere(name: str, write: Callable[[str], Any]) -> str | None:
    """Write what is paid for to a temporary folder; return its path, or no path."""
    try:
        path = os.path.join(tempfile.mkdtemp(prefix="mmech-"), name)
        write(path)
    except Exception:  # the error that led here is told
        return None
    return path
