"""Released tables: counts with intervals, a statement, synthetic records, files."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice, check_integer
from mmech.domain.attribute import Attribute
from mmech.exceptions import ParameterError
from mmech.reconstruction import MarginalEstimate
from mmech.release import Measurement
from mmech.tables.counts import ROUNDING, Counts
from mmech.tables.frames import as_column, as_frame
from mmech.tables.model import draw_codes
from mmech.tables.plan import TablePlan

__all__ = ["Tables", "check_new_folder"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Subset = tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Tables:
    """Tables that may be published, made by `release_tables`; holds no records.

    All counts are whole and non-negative, and all tables agree: what two of them have
    in common, down to the total, is the same in both.

    Attributes
    ----------
    plan : TablePlan
        What was measured.
    measurement : Measurement
        The noisy numbers that everything is made from.
    estimate : MarginalEstimate
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

    plan: TablePlan
    measurement: Measurement
    estimate: MarginalEstimate
    counts: Counts

    def __repr__(self) -> str:
        return repr(self.plan).replace("TablePlan", "Tables", 1)

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """Names of the attributes of every table."""
        return self.plan.tables

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
        cumulative: Iterable[str] | str = (),
        frame: str | None = None,
    ) -> Any:
        """Return a table, one row per combination of values.

        Parameters
        ----------
        names : str or sequence of str
            Attributes of one of the tables, or some of those of one, in any order.
        level : float, default=0.95
            Probability with which an interval holds the exact count.
        cumulative : str or sequence of str, default=()
            Attributes with an order, ordinal or numeric, whose rows count the records
            up to a value: the last row of each counts all.
        frame : {"pandas", "polars", "pyarrow", "dict"}, default=None
            Kind of frame; ``None`` is that of the records, or else pandas where it is
            installed.

        Returns
        -------
        frame
            A column per attribute, then ``count``, the released count; and for the
            unbiased estimate that it was made from ``standard_error`` and the ends of
            an interval, ``lower`` and ``upper``, which are whole, non-negative, and
            hold the count.

        Raises
        ------
        ValueError
            If no table holds the attributes together, or an attribute of `cumulative`
            has no order.

        Notes
        -----
        The error of an unbiased estimate has the same known law for all records.
        Its quantiles give intervals that hold the exact count with at least the given
        probability, each by itself and whatever the records are; they are cut off at
        zero and stretched to the published count, which only helps. The published count
        also uses that counts are non-negative and agree, and is closer on average.
        """
        columns, _ = self._columns(names, level, cumulative)
        return as_frame(columns, frame or self.plan.frame)

    def _columns(
        self, names: Iterable[str] | str, level: float, cumulative: Iterable[str] | str
    ) -> tuple[dict[str, NDArray[Any]], Subset]:
        if not (isinstance(level, (int, float)) and 0 < level < 1):
            raise ParameterError("level", "must lie between 0 and 1", level)
        order = self._positions(names)
        subset = tuple(sorted(order))
        own = [self.plan.domain.names[i] for i in order]
        summed = [
            order.index(i)
            for i in self._ordered(
                (cumulative,) if isinstance(cumulative, str) else cumulative
            )
            if self._inside(i, own)
        ]
        shape = [self.plan.domain.shape[i] for i in subset]
        turn = [order.index(i) for i in subset]

        def turned(values: NDArray[Any]) -> NDArray[Any]:
            """Return axes in the order asked for, summed where cumulative."""
            array = values.reshape(*shape, -1).transpose(
                *(subset.index(i) for i in order), len(order)
            )
            for axis in summed:
                array = array.cumsum(axis=axis)
            return array.reshape(-1, array.shape[-1])

        count = turned(self._count(subset))[:, 0]
        centre = turned(self.estimate.marginal(subset))[:, 0]
        codes = np.indices([self.plan.domain.shape[i] for i in order]).reshape(
            len(order), -1
        )
        # How many values of every attribute a row counts together.
        summed_up = np.ones_like(codes)
        for axis in summed:
            summed_up[axis] += codes[axis]
        kinds, which = np.unique(summed_up[turn], axis=1, return_inverse=True)
        noise = self.plan.noise
        laws = [noise.law(subset, tuple(kind)) for kind in kinds.T.tolist()]
        error = np.array([law.standard_error for law in laws])[which.ravel()]
        width = np.array([law.half_width(level) for law in laws])[which.ravel()]
        lower = np.maximum(np.ceil(centre - width), 0).astype(np.int64)
        upper = np.maximum(np.floor(centre + width), 0).astype(np.int64)
        values = {
            name: as_column(self._values(i, cumulative=place in summed), codes[place])
            for place, (name, i) in enumerate(zip(own, order, strict=True))
        }
        own_columns = {
            "count": count,
            "standard_error": error,
            "lower": np.minimum(lower, count),
            "upper": np.maximum(upper, count),
        }
        return {**values, **own_columns}, subset

    def _positions(self, names: Iterable[str] | str) -> Subset:
        given = (names,) if isinstance(names, str) else tuple(names)
        known = self.plan.domain.names
        for name in given:
            check_choice(name, "an attribute", known)
        order = tuple(known.index(name) for name in given)
        if not order or len(set(order)) < len(order):
            raise ParameterError(
                "names", "must name one attribute or more, once", given
            )
        if not any(set(order) <= set(subset) for subset in self.plan.subsets):
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

    def _inside(self, position: int, own: Iterable[str]) -> bool:
        name = self.plan.domain.names[position]
        if name not in own:
            raise ParameterError(
                "cumulative", "must name attributes of the table", repr(name)
            )
        return True

    def _ordered(self, names: Iterable[str]) -> list[int]:
        positions = []
        for name in names:
            check_choice(name, "an attribute", self.plan.domain.names)
            position = self.plan.domain.names.index(name)
            attribute = self.plan.domain.attributes[position]
            if attribute.kind == "categorical" or attribute.other_code is not None:
                raise ParameterError(
                    "cumulative",
                    "is for attributes whose values all have an order, ordinal or "
                    "numeric and without a cell for other values",
                    repr(name),
                )
            positions.append(position)
        return positions

    def _values(self, position: int, *, cumulative: bool) -> tuple[Any, ...]:
        """Return what the rows of an attribute are called."""
        labels = self.plan.domain.attributes[position].labels
        if not cumulative:
            return labels
        return tuple(f"up to {label}" for label in labels)

    def _count(self, subset: Subset) -> Integers:
        """Return published counts, summed from a table that holds the attributes."""
        for whole, table in self.counts.tables.items():
            if set(subset) <= set(whole):
                others = tuple(a for a, i in enumerate(whole) if i not in subset)
                return table.sum(axis=others)
        raise AssertionError(subset)

    # ---- records ---------------------------------------------------------------

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
            One column per attribute, with values that `Domain.encode` reads: a number
            is the middle of its bin.
        """
        number = self.total if n is None else check_integer(n, "n", minimum=0)
        codes = draw_codes(self.counts.model, number, np.random.default_rng(seed))
        columns = {
            attribute.name: as_column(_readable(attribute), codes[:, i])
            for i, attribute in enumerate(self.plan.domain.attributes)
        }
        return as_frame(columns, frame or self.plan.frame)

    # ---- words -----------------------------------------------------------------

    @property
    def statement(self) -> str:
        """What was released, at what cost, and what its readers may rely on."""
        facts = self.facts
        kind = "pure" if self.plan.currency == "epsilon" else "zero-concentrated"
        lines = [
            f"{len(self.tables)} tables of counts over {len(facts['attributes'])} "
            f"attributes: {', '.join(facts['attributes'])}.",
            f"Privacy: {self.plan.currency} = {self.plan.cost} ({kind} differential "
            f"privacy), for data sets that differ {self.plan.relation.words}.",
            f"Measured: {facts['measured']}, once, with exact discrete "
            f"{facts['noise']} noise from the operating system's entropy. All else "
            "follows from these noisy numbers and from public facts: the total, the "
            "tables, their intervals and all synthetic records.",
            f"Counts are whole and non-negative, and tables agree: {self.rounding}.",
            "Intervals hold the exact count with the stated probability, each by "
            "itself, over the noise. standard_error is that of the unbiased estimate.",
            "Not covered: an error message about a value that could not be read, how "
            "long the release took, and other releases about the same persons, whose "
            "costs add up.",
        ]
        if self.measurement.entry.insecure:
            lines.insert(
                0,
                "NOT PRIVATE: the noise came from insecure_rng and can be predicted; "
                "for tests only.",
            )
        return "\n".join(lines)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the statement, for machines."""
        entry = self.measurement.entry
        return {
            "attributes": list(self.plan.domain.names),
            "tables": [list(names) for names in self.tables],
            "currency": self.plan.currency,
            "cost": str(self.plan.cost),
            "neighbours": self.plan.relation.neighbours,
            "records_per_person": self.plan.relation.records_per_person,
            "noise": entry.kind,
            "measured": entry.released,
            "sensitivity": entry.sensitivity,
            "insecure": entry.insecure,
            "rounding": self.counts.rounding,
            "total": self.total,
        }

    # ---- files -----------------------------------------------------------------

    def write(
        self,
        folder: str | os.PathLike[str],
        *,
        level: float = 0.95,
        synthetic: int | None = None,
    ) -> Path:
        """Write all tables as csv files into a new folder, whole or not at all.

        Parameters
        ----------
        folder : path
            Must not exist, or be empty.
        level : float, default=0.95
            Of the intervals.
        synthetic : int, default=None
            Number of synthetic records for ``synthetic.csv``.

        Returns
        -------
        Path
            The folder: a csv file per table, ``statement.txt`` and ``release.json``.
        """
        target = check_new_folder(folder)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".writing-") as at:
            made = Path(at, "tables")
            made.mkdir()
            files = self._write_tables(made, level)
            if synthetic is not None:
                _write_csv(made / "synthetic.csv", self.sample(synthetic, frame="dict"))
            facts = {**self.facts, "level": level, "files": files}
            text = json.dumps(facts, indent=1, ensure_ascii=False)
            (made / "release.json").write_text(text + "\n", encoding="utf-8")
            (made / "statement.txt").write_text(self.statement + "\n", encoding="utf-8")
            made.replace(target)
        return target

    def _write_tables(self, folder: Path, level: float) -> dict[str, list[str]]:
        files: dict[str, list[str]] = {}
        for names in self.tables:
            plain = "_x_".join(map(_in_file_name, names))
            name = next(
                name
                for number in range(len(self.tables) + 1)
                if (name := f"{plain}{f'_{number}' if number else ''}.csv").lower()
                not in {known.lower() for known in (*files, "synthetic.csv")}
            )
            columns, _ = self._columns(names, level, ())
            _write_csv(folder / name, columns)
            files[name] = list(names)
        return files


def check_new_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the folder that tables can be written to, or raise."""
    given = os.fspath(folder)
    target = Path(os.path.realpath(given))
    refusal = f"cannot write to {given!r}: "
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{refusal}it is a file; name a new folder")
    if target.is_dir() and any(target.iterdir()):
        raise FileExistsError(f"{refusal}the folder is not empty; name a new one")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{refusal}there is no folder {str(Path(given).parent)!r}; make it first"
        )
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(
            f"{refusal}{str(target.parent)!r} must not be written to (permission "
            "denied)"
        )
    return target


def _in_file_name(name: str) -> str:
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    return kept.strip(".")[:60] or "_"


def _write_csv(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(columns)
        texts = [map(_text, column.tolist()) for column in columns.values()]
        rows.writerows(zip(*texts, strict=True))


def _text(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) and value % 1 else value


def _readable(attribute: Attribute) -> tuple[Any, ...]:
    """Return a raw value for every cell of an attribute."""
    if attribute.kind != "numeric":
        return attribute.categories
    cuts = attribute.cut_points
    first = attribute.lower if attribute.lower is not None else _beyond(cuts, 0)
    last = attribute.upper if attribute.upper is not None else _beyond(cuts, -1)
    edges = (first, *cuts, last)
    middles = tuple((a + b) / 2 for a, b in pairwise(edges))
    return (*middles, "?") if attribute.other is not None else middles


def _beyond(cuts: tuple[float, ...], end: int) -> float:
    """Return a bound for an open bin, as far off as the next one is wide."""
    width = 1.0 if len(cuts) < 2 else abs(cuts[end] - cuts[1 if end == 0 else -2])
    return cuts[end] - width if end == 0 else cuts[end] + width
