"""A folder of released tables: its files, and their evidence."""

from __future__ import annotations

import hashlib
import os
import platform
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from mmech import __version__
from mmech.evidence import Evidence
from mmech.tables.files import Sheet, file_names, write_csv, write_files
from mmech.tables.statement import facts_of, statement_of
from mmech.threads import blas_libraries
from mmech.writing import unfinished_folder

if TYPE_CHECKING:
    from mmech.tables.result import Tables


def write_folder(
    made: Tables,
    folder: str | os.PathLike[str],
    level: float,
    synthetic: int | None,
    title: str,
    *,
    excel: bool,
) -> Path:
    """Write all tables and statistics into a new folder; see `Tables.write`."""
    target = check_new_folder(folder)
    with unfinished_folder(folder, target) as at:
        new = at / "tables"
        new.mkdir()
        sheets, text = _sheets(made, level), statement_of(made, level)
        names = made.plan.names
        by = ", ".join(names) if len(names) < 6 else made.plan.sizes[1]
        write_files(new, sheets, f"{title}: counts by {by}", text, level, excel=excel)
        if synthetic is not None:
            records = made.sample(synthetic, frame="dict")
            write_csv(new / "synthetic.csv", records, "synthetic records")
        (new / "statement.txt").write_text(text + "\n", encoding="utf-8")
        _evidence(made, new, sheets, level, title).save(new / "evidence.json")
        if target.is_dir():  # Windows replaces no folder
            target.rmdir()
        new.replace(target)
    return target


def _evidence(
    made: Tables, new: Path, sheets: list[Sheet], level: float, title: str
) -> Evidence:
    """Return the evidence, with facts on the files that were written."""
    plan, names = made.plan, made.plan.names
    facts = {**facts_of(made), "level": level}
    files = [sheet.file for sheet in sheets]
    facts["files"] = dict(zip(files, facts["tables"], strict=False))
    for entry, file in zip(facts["statistics"], files[len(made.tables) :], strict=True):
        entry["file"] = file
    facts["standard_errors"] = {
        file: made.noise.law(subset).standard_error
        for file, subset in zip(files, plan.subsets, strict=False)
        if made.noise.measures(subset)
    }
    # Files have their columns in the order of the domain.
    order = [name for name in plan.domain.levels if name in names]
    sizes = dict(zip(names, plan.axes.shape, strict=True))
    published = {
        "files": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(new.iterdir())
        },
        "tables": [
            {"file": file, "attributes": [order.index(name) for name in table]}
            for file, table in zip(files, made.tables, strict=False)
        ],
        "sizes": [sizes[name] for name in order],
        "level": str(Fraction(str(level))),
        "title": title,
        "conditioned": "on steps"
        if plan.adaptive
        else plan.known is not None or plan.chain is not None,
        "versions": versions(),
    }
    return made.evidence.including(
        measured=made.measured.text, about=facts, published=published
    )


def versions() -> dict[str, str]:
    """Return what the last bits of numbers depend on: versions, and the processor."""
    libraries = {name: version(name) for name in ("numpy", "scipy")}
    machine = platform.system(), *platform.libc_ver(), platform.machine()
    words = " ".join((*machine, *blas_libraries()))
    return {"mmech": __version__, **libraries, "processor": words}


def _sheets(made: Tables, level: float) -> list[Sheet]:
    """Return all tables, then all statistics."""
    contents = [("count", made._columns(table, level)) for table in made.tables]
    contents += [(s.value, made._of_statistic(s, level)) for _, s in made.plan.asked]
    across = {a.name: len(a.columns) for a in made.plan.axes.attributes}
    sheets, outputs = [], made.plan.outputs
    for names, file, (value, columns) in zip(
        outputs, file_names(outputs), contents, strict=True
    ):
        keys = tuple(columns)[: list(columns).index(value)]
        last = across.get(names[-1]) or 1
        sheets.append(Sheet(file, " x ".join(names), keys, value, columns, last))
    return sheets


def check_new_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the folder that tables can be written to, or raise."""
    given = os.fspath(folder)
    target = Path(os.path.realpath(given))
    refusal = f"cannot write to {given!r}: "
    if not given:
        raise FileNotFoundError(f"{refusal}it has no name; name a new folder")
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{refusal}it is a file; name a new folder")
    if target.is_dir() and any(target.iterdir()):
        raise FileExistsError(f"{refusal}the folder is not empty; name a new one")
    if os.path.ismount(target):
        raise OSError(f"{refusal}it is mounted; name a new folder in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{refusal}there is no folder {str(Path(given).parent)!r}; make it first"
        )
    with unfinished_folder(folder, target) as at:
        (at / target.name).mkdir()
        return target
