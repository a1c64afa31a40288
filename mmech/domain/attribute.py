"""One attribute of a schema: its cells, and how raw values reach them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import count, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_bool, check_choice
from mmech.domain import dates
from mmech.domain import values as io
from mmech.domain.discretise import (
    check_bins,
    check_number,
    equal_width,
    number_text,
)
from mmech.domain.frames import as_column
from mmech.domain.hierarchies import check_levels, read_tree
from mmech.domain.values import Dictionary, read_once

FIELDS = {
    "categorical": (
        *("categories", "groups", "value_map", "other", "monotone"),
        *("levels", "columns"),
    ),
    "ordinal": ("categories", "groups", "value_map", "other", "monotone"),
    "numeric": (
        *("lower", "upper", "cut_points", "n_bins", "categories"),
        *("integer", "unit", "other", "monotone"),
    ),
    "date": ("lower", "upper", "unit", "other", "monotone"),
}
"""What an attribute may have beside its name, by kind."""

KINDS = tuple(FIELDS)

BELOW = " / "
"""Text between the names of a path, where one label stands for it."""


# ------------------------------------------------------------------- validation


def as_tuple(values: Any, name: str) -> tuple[Any, ...]:
    """Return an iterable as a tuple of Python scalars; a set has no order to keep."""
    if isinstance(values, (str, bytes, Set)) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} must be a sequence, got {type(values).__name__}; pass a list"
        )
    return tuple(v.item() if isinstance(v, np.generic) else v for v in values)


def check_names(values: Any, name: str) -> tuple[str, ...]:
    """Return names as a tuple, or raise."""
    names = as_tuple(values, name)
    for entry in names:
        check_name(entry, f"every name in {name}")
    return names


LONGEST_NAME = 1000
"""Characters of a name, which sentences and pages repeat."""


def check_name(value: Any, name: str) -> str:
    """Return a name, or raise."""
    if not isinstance(value, str):
        raise TypeError(
            f"{name} must be a string, got {type(value).__name__}; convert it"
        )
    if not 0 < len(value) <= LONGEST_NAME:
        raise ValueError(
            f"{name} must have 1 to {LONGEST_NAME:,} characters, got {len(value):,}; "
            "rename it"
        )
    check_encodable(value, name)
    return value


def check_encodable(value: str, name: str) -> None:
    """Raise for text that no file holds, which would fail after a release is paid."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} must be text that UTF-8 can encode, got {value!r:.60}; correct "
            "its escapes, or the encoding it was read in"
        ) from None


def check_cells(values: Any, name: str, *, minimum: int = 1) -> tuple[Any, ...]:
    """Return categories or class labels: distinct scalars, none of them missing."""
    cells = as_tuple(values, name)
    if len(cells) < minimum:
        raise ValueError(
            f"{name} must list at least {minimum}, got {len(cells)}; "
            "list every value that may occur, whether or not the data hold it"
        )
    for cell in cells:
        if not isinstance(cell, (str, bool, int, float)):
            raise TypeError(
                f"{name} must be strings, booleans or numbers, "
                f"got {type(cell).__name__}; convert it"
            )
        if cell != "?" and (
            io.is_missing(cell) or (isinstance(cell, float) and math.isinf(cell))
        ):
            raise ValueError(
                f"{name} must not be empty, NaN or infinite, got {cell!r}; "
                "write '?' for a category of missing values"
            )
        check_encodable(str(cell), name)
    counts = (Counter(cells), Counter(map(str, cells)))
    if repeated := [cell for count in counts for cell, n in count.items() if n > 1]:
        raise ValueError(
            f"{name} must be distinct, also when written as text, got "
            f"{repeated[0]!r:.60} twice; remove one of them"
        )
    return cells


# -------------------------------------------------------------------- attributes


@dataclass(frozen=True, repr=False)
class Attribute:
    r"""Describe one attribute: its name, its cells and how raw values reach them.

    The helpers `categorical`, `ordinal`, `numeric` and `date` read better than the
    constructor. Cells are numbered from 0 in the order given here.

    Parameters
    ----------
    name : str
        Name of the attribute, and of its column in frames.
    kind : {"categorical", "ordinal", "numeric", "date"}
        Ordinal categories are listed in their order.
    categories : sequence of str, bool, int or float, default=()
        The categories; for a numeric attribute, optional names of its bins.
    lower, upper : float, optional
        Public bounds of a numeric attribute. Values outside them are unknown.
        Without bounds every finite number is known. A date needs both: the first and
        the last day, as dates or as text, ``"2026-01-31"``.
    cut_points : sequence of float, default=()
        Increasing inner edges :math:`c_1 < c_2 < \dots` of the bins
        :math:`(-\infty, c_1], (c_1, c_2], \dots` of a numeric attribute. When
        empty, the bounds are cut in `n_bins` bins of equal width, and the result
        is stored here.
    groups : mapping from category to sequence of raw values, optional
        Raw values that belong to a category.
    value_map : mapping from raw value to category, optional
        Codes to translate first. Where it is given only its keys are known.
    n_bins : int, default=10
        Number of bins of a numeric attribute without cut points.
    other : str or category, optional
        The designated cell for unknown and missing values: one of the categories,
        or for a number or a date the name of one more cell after the others. A
        categorical attribute with a category ``"?"`` uses that one by default.
    monotone : {1, -1}, optional
        Public knowledge on classes, for an attribute with an order. Let two records
        differ in this attribute alone. The one further on in the order of its cells is
        never less likely to have one of the later classes (1), or never more likely
        (-1). Later classes are the second of two, or any number of the last ones in the
        order in which the schema lists them. The cell for unknown and
        missing values stands outside that order. Classifiers of `mmech_rf` keep to it,
        or refuse it.
    integer : bool, optional
        Whether the values of a numeric attribute are whole numbers. `n_bins` bins are
        then cut at whole numbers, and are fewer where there are fewer of these.
        Synthetic records keep to it; values that are read are not checked.
    unit : str, optional
        Unit of a numeric attribute, such as ``"years"``: rules and pages name it. What
        one cell of a date is: ``"day"``, ``"week"``, ``"month"``, ``"quarter"`` or
        ``"year"``.
    levels : mapping from str to sequence, optional
        Levels above the categories, topmost first: by the name of a level, the node
        that holds each category. They are a tree; `hierarchy` makes them.
    columns : sequence of str, default=()
        Columns of the records that hold one value together, topmost first, such as
        region, state and city. Each category is then a path, with a name for every
        column; they also name the levels.

    Attributes
    ----------
    size : int
        Number of cells.
    labels : tuple
        What each cell is called: categories, names of bins, or intervals. Names of a
        path are put together, ``"North / Ham"``.
    other_code : int or None
        The cell for unknown and missing values.

    Raises
    ------
    TypeError
        If a name is not a string, a bound not a number, or a category not a scalar.
    ValueError
        If categories are missing or repeated, cut points not increasing or not
        inside the bounds, ``lower >= upper``, or groups do not fit the categories.

    Notes
    -----
    A raw value matches a category by equality, otherwise by its text: ``"1"``
    matches ``1``, ``1.0`` and ``True``, and ``"false"`` matches ``False``. Text that
    is the usual form of a float or boolean matches what that would: ``"1.0"`` is 1,
    as pandas writes it beside missing values. An empty field, None, NaN or ``"?"`` is
    a missing value, unless ``"?"`` is a category: then it means that one.

    A date, with or without a time, is read as its day: of ``datetime``, pandas, NumPy
    and Arrow, or text in the form of ISO 8601. So are names of cells, ``"2026-01"``.

    Examples
    --------
    >>> Attribute.ordinal("safety", ["low", "med", "high"]).size
    3
    >>> Attribute.numeric("age", lower=0, upper=100, n_bins=4).labels
    ('[0, 25]', '(25, 50]', '(50, 75]', '(75, 100]')
    >>> Attribute.numeric("petal_width", cut_points=[0.5, 1], other="unknown").labels
    ('<= 0.5', '(0.5, 1]', '> 1', 'unknown')
    >>> Attribute.ordinal("safety", ["low", "med", "high"], monotone=1).monotone
    1
    >>> Attribute.date("admitted", "2025-11-15", "2026-02-28").labels
    ('2025-11', '2025-12', '2026-01', '2026-02')
    """

    name: str
    kind: str
    categories: tuple[Any, ...] = ()
    lower: Any = None
    upper: Any = None
    cut_points: tuple[float, ...] = ()
    groups: Mapping[Any, tuple[Any, ...]] | None = field(default=None, hash=False)
    value_map: Mapping[Any, Any] | None = field(default=None, hash=False)
    _: KW_ONLY
    n_bins: int | None = None
    other: Any = None
    monotone: int | None = None
    integer: bool | None = None
    unit: str | None = None
    levels: Mapping[str, tuple[Any, ...]] | None = field(default=None, hash=False)
    columns: tuple[str, ...] = ()

    @classmethod
    def categorical(cls, name: str, categories: Iterable[Any], **options: Any) -> Self:
        """Describe an attribute whose categories have no order."""
        return cls(name, "categorical", as_tuple(categories, "categories"), **options)

    @classmethod
    def ordinal(cls, name: str, categories: Iterable[Any], **options: Any) -> Self:
        """Describe an attribute whose categories are listed in their order."""
        return cls(name, "ordinal", as_tuple(categories, "categories"), **options)

    @classmethod
    def hierarchy(
        cls,
        name: str,
        tree: Any,
        levels: Iterable[str] | None = None,
        columns: Iterable[str] = (),
        **options: Any,
    ) -> Self:
        """Describe categories in groups, these in larger groups, and so on: a tree.

        Records hold values; tables may also count them by any level above.

        Parameters
        ----------
        name : str
            Name of the attribute, and of the column of its values.
        tree : mapping, sequence of sequences, or path of a csv file
            Nested names down to lists of values, all equally deep; or paths, each a
            value after what holds it; or a file with a header, whose rows are paths.
        levels : sequence of str, optional
            Names of the levels above the values, topmost first; by default those in
            the header, or ``name_1``, ``name_2`` and so on.
        columns : sequence of str, default=()
            Columns of the records that hold a path together, topmost first, in place
            of `levels`: tables name a level by its column. A name may stand in several
            branches. A file of the tree has these columns, and maybe others.
        **options
            As for `categorical`.

        Examples
        --------
        >>> tree = {"North": {"Ham": ["Alt", "Bek"]}, "South": {"Lim": ["Cor"]}}
        >>> place = Attribute.hierarchy("city", tree, levels=("region", "county"))
        >>> place.labels
        ('Alt', 'Bek', 'Cor')
        >>> place.at_level("county").labels
        ('Ham', 'Lim')
        >>> tree = {"North": {"Ham": ["Alt"]}, "South": {"Ham": ["Alt", "Cor"]}}
        >>> columns = ("region", "county", "city")
        >>> place = Attribute.hierarchy("place", tree, columns=columns)
        >>> place.at_level("county").labels
        ('North / Ham', 'South / Ham')
        """
        from_tree = read_tree(name, tree, levels, columns)
        return cls(name, "categorical", **from_tree, **options)

    @classmethod
    def numeric(cls, name: str, **options: Any) -> Self:
        """Describe a number by public bounds, cut points or both."""
        return cls(name, "numeric", **options)

    @classmethod
    def date(
        cls, name: str, lower: Any, upper: Any, unit: str = "month", **options: Any
    ) -> Self:
        """Describe a date between two public dates, in calendar periods of a unit."""
        return cls(name, "date", lower=lower, upper=upper, unit=unit, **options)

    def __post_init__(self) -> None:
        check_name(self.name, "the name of an attribute")
        check_choice(self.kind, f"the kind of attribute {self.name!r}", KINDS)
        label = f"attribute {self.name!r}"
        for name in ("categories", "cut_points", "columns"):
            self._set(**{name: as_tuple(getattr(self, name), f"{name} of {label}")})
        if extra := sorted({*self._given()} - {"name", "kind", *FIELDS[self.kind]}):
            raise ValueError(
                f"{label} is {self.kind} and takes no {' or '.join(extra)}; "
                f"it may have {', '.join(FIELDS[self.kind])}"
            )
        if self.kind in ("numeric", "date") and self.other is not None:
            check_name(self.other, f"other of {label}")
        if self.kind == "numeric":
            self._check_numeric(label)
        elif self.kind == "date":
            self._check_date(label)
        else:
            self._check_categorical(label)
        if self.levels is not None:
            self._set(levels=check_levels(label, self.categories, self.levels))
            for level in check_names(self.levels, f"levels of {label}"):
                check_cells(self.at_level(level).labels, f"nodes of {level!r}")
        if self.monotone is not None:
            self._check_monotone(label, self.monotone)
        if self.integer is not None:
            check_bool(self.integer, f"integer of {label}")
        if self.unit is not None:
            check_name(self.unit, f"unit of {label}")

    def _check_monotone(self, label: str, direction: Any) -> None:
        if isinstance(direction, bool) or direction not in (1, -1):
            raise ValueError(
                f"monotone of {label} must be 1, -1 or None, got {direction!r}; give "
                "the direction in which later classes become more likely"
            )
        if self.kind == "categorical":
            raise ValueError(
                f"{label} is categorical and has no order to be monotone in; make it "
                "ordinal or numeric, or leave monotone out"
            )
        self._set(monotone=int(direction))

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_numeric(self, label: str) -> None:
        missing = (self.lower is None) + (self.upper is None)
        if missing == 1 or (missing and not self.cut_points):
            raise ValueError(
                f"{label} needs both lower and upper, or cut_points, got "
                f"{'neither' if missing > 1 else 'one of them'}; take them from public "
                "documentation, not from the data"
            )
        if self.lower is not None:
            remedy = "take a public bound, or cut_points without lower and upper"
            lower, upper = (
                check_number(value, f"{name} of {label}", remedy)
                for name, value in (("lower", self.lower), ("upper", self.upper))
            )
            if lower >= upper:
                raise ValueError(
                    f"lower must be below upper in {label}, got {lower} and {upper}; "
                    "correct the bounds"
                )
            self._set(lower=lower, upper=upper)
        cuts = tuple(
            check_number(cut, f"every cut point of {label}") for cut in self.cut_points
        )
        if self.n_bins is not None:
            check_bins(self.n_bins, f"n_bins of {label}")
        if not cuts:
            n_bins = 10 if self.n_bins is None else int(self.n_bins)
            cuts = equal_width(lower, upper, n_bins)
            if len(set(cuts)) < len(cuts) or upper in cuts:
                raise ValueError(
                    f"{label} has bounds too close for {n_bins} bins; widen them "
                    "or lower n_bins"
                )
            if self.integer:  # a bin without a whole number would stay empty
                ends = {cut // 1 for cut in cuts}
                cuts = tuple(sorted(end for end in ends if end >= lower))
        elif self.n_bins not in (None, len(cuts) + 1):
            raise ValueError(
                f"{label} has {len(cuts)} cut points, so {len(cuts) + 1} bins, but "
                f"n_bins is {self.n_bins}; give only one of the two"
            )
        beyond = self.lower is not None and not all(lower <= c < upper for c in cuts)
        if beyond or any(a >= b for a, b in pairwise(cuts)):
            raise ValueError(
                f"cut_points of {label} must be strictly increasing, and inside its "
                "bounds if it has some; sort them, and remove those of bins that stay "
                "empty"
            )
        n_names = len(self.categories)
        if n_names not in (0, len(cuts) + 1):
            raise ValueError(
                f"{label} has {len(cuts) + 1} bins but {n_names} categories; "
                "name every bin or none"
            )
        self._set(cut_points=cuts, n_bins=len(cuts) + 1)
        if n_names:
            check_cells(self.labels, f"categories of {label}")

    def _check_date(self, label: str) -> None:
        lower, upper = (
            dates.check_day(value, f"{name} of {label}")
            for name, value in (("lower", self.lower), ("upper", self.upper))
        )
        check_choice(self.unit, f"unit of {label}", tuple(dates.PERIODS))
        if lower > upper:
            raise ValueError(
                f"lower must not be after upper in {label}, got {lower} and {upper}; "
                "correct the dates"
            )
        self._set(lower=lower.isoformat(), upper=upper.isoformat())
        first, last = self._ends.tolist()
        check_bins(last - first + 1, f"the number of {self.unit}s of {label}")
        check_cells(self.labels, f"cells of {label}")

    def _check_categorical(self, label: str) -> None:
        if self.columns:
            self._check_paths(label)
        cells = check_cells(self.labels, f"categories of {label}")
        self._set(categories=self.categories if self.columns else cells, cut_points=())
        if self.groups is not None:
            groups = {
                category: as_tuple(members, f"groups of {label}")
                for category, members in dict(self.groups).items()
            }
            members = [member for group in groups.values() for member in group]
            if not set(groups) <= set(cells) or len(set(members)) < len(members):
                raise ValueError(
                    f"every group of {label} must be one of its categories, and a raw "
                    "value in one group only; add the category, or remove the value"
                )
            self._set(groups=groups)
        if self.value_map is not None:
            known = io.CategoryTable(cells, self.groups)
            if any(known.code(target) < 0 for target in self.value_map.values()):
                raise ValueError(
                    f"every value of value_map of {label} must be one of its "
                    "categories; add the category or correct the map"
                )
            self._set(value_map=dict(self.value_map))
        if self.other is not None and self.other not in self.categories:
            raise ValueError(
                f"other of {label} must be one of its categories, "
                f"got {self.other!r}; add it to the categories"
            )

    def _check_paths(self, label: str) -> None:
        """Check categories that are paths, and make their levels."""
        names = check_names(self.columns, f"columns of {label}")
        paths = tuple(as_tuple(path, f"a path of {label}") for path in self.categories)
        unequal = {len(path) for path in paths} != {len(names)}
        if unequal or len({*names}) < len(names) or self.name in names[:-1]:
            raise ValueError(
                f"columns of {label} must be a name for each level of its tree, "
                "topmost first and each once, and none of its own name but the last, "
                f"got {list(names)!r:.80}"
            )
        levels = {
            name: tuple(path[:k] for path in paths)
            for k, name in enumerate(names[:-1], 1)
        }
        if (self.groups, self.value_map) != (None, None) or (
            self.levels not in (None, levels)
        ):
            raise ValueError(
                f"{label} has columns, which name its levels, and takes no levels, "
                "groups or value_map; leave them out"
            )
        other = tuple(self.other) if isinstance(self.other, list) else self.other
        self._set(columns=names, categories=paths, levels=levels, other=other)
        _ = self._parts  # each name is checked

    @cached_property
    def _parts(self) -> tuple[Attribute, ...]:
        """An attribute for every column of records: itself, or the names in each."""
        if not self.columns:
            return (self,)
        columns = self._cells_by_column.items()
        return tuple(Attribute.categorical(c, dict.fromkeys(own)) for c, own in columns)

    @property
    def _lowest(self) -> str:
        """What tables call the cells: the last column of several, or the name."""
        return self.columns[-1] if self.columns else self.name

    @property
    def _cells_by_column(self) -> dict[str, tuple[Any, ...]]:
        """What each cell is called in the columns of tables, by the names of these."""
        if not self.columns:
            return {self.name: self.labels}
        return dict(zip(self.columns, zip(*self.categories, strict=True), strict=True))

    def _shown(self, codes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the columns of tables that say in which cells rows are, (N,) each."""
        shown = self._cells_by_column.items()
        return {name: as_column(cells, codes) for name, cells in shown}

    @property
    def size(self) -> int:
        """Number of cells of the attribute."""
        if self.kind == "numeric":
            return len(self.cut_points) + 1 + (self.other is not None)
        if self.kind == "date":
            return len(self._periods) + (self.other is not None)
        return len(self.categories)

    @property
    def other_code(self) -> int | None:
        """Code of the cell for unknown and missing values, None if there is none."""
        if self.kind in ("numeric", "date"):
            return None if self.other is None else self.size - 1
        name = self.other
        if name is None:
            name = ("?",) * len(self.columns) or "?"
        return self.categories.index(name) if name in self.categories else None

    @property
    def labels(self) -> tuple[Any, ...]:
        """What each cell is called."""
        extra = () if self.other is None else (self.other,)
        if self.kind == "date":
            return (*self._periods, *extra)
        if self.columns:
            return tuple(BELOW.join(map(str, path)) for path in self.categories)
        if self.kind != "numeric":
            return self.categories
        edges = pairwise([self.lower, *self.cut_points, self.upper])
        bins = self.categories or map(self._bin, count(), edges)
        return (*bins, *extra)

    def _bin(self, k: int, edges: tuple[Any, Any]) -> str:
        """Return what the bin of a number between two edges is called."""
        a, b = edges
        if a is None:
            return f"<= {number_text(b)}"
        if b is None:
            return f"> {number_text(a)}"
        first, last = a // 1 + 1 if k else -(-a // 1), b // 1
        if self.integer and first <= last:
            return " to ".join(map(number_text, sorted({first, last})))
        return f"{'(' if k else '['}{number_text(a)}, {number_text(b)}]"

    def at_level(self, name: str) -> Attribute:
        """Return the attribute whose categories are the nodes of a level, or its own.

        Parameters
        ----------
        name : str
            A level, or the attribute itself.
        """
        if self.levels is None:
            return self
        names = (*self.levels, self._lowest)
        check_choice(name, f"a level of attribute {self.name!r}", names)
        if name == self._lowest:
            attribute = replace(self, name=name, levels=None)
        else:
            columns = self.columns[: names.index(name) + 1]
            nodes = dict.fromkeys(self.levels[name])
            attribute = Attribute.categorical(name, nodes, columns=columns)
        attribute._set(levels=None)
        return attribute

    def nodes(self, name: str) -> NDArray[np.int64]:
        """Return the node of a level that holds each category: increasing numbers.

        Parameters
        ----------
        name : str
            A level, or the attribute itself.

        Returns
        -------
        int64 array, shape (size,)
        """
        if name == self._lowest:
            return np.arange(self.size)
        nodes = (self.levels or {})[name]
        return np.cumsum([0, *(a != b for a, b in pairwise(nodes))])

    @property
    def _end_days(self) -> NDArray[np.int64]:
        """First and last day of a date."""
        return np.array([self.lower, self.upper], "M8[D]").astype(np.int64)

    @property
    def _ends(self) -> NDArray[np.int64]:
        """Numbers of the first and the last period of a date."""
        return dates.periods(self._end_days, str(self.unit))

    @cached_property
    def _periods(self) -> tuple[str, ...]:
        """What the periods of a date are called."""
        first, last = self._ends
        return dates.period_names(np.arange(first, last + 1), str(self.unit))

    def _first_days(self) -> NDArray[np.int64]:
        """Return the first day of every period of a date, and the day after the last.

        Days before and after the bounds are left out.
        """
        (first, last), (lower, upper) = self._ends, self._end_days
        days = dates.first_days(np.arange(first, last + 2), str(self.unit))
        return np.clip(days, lower, upper + 1)

    @cached_property
    def _table(self) -> io.CategoryTable:
        cells = self._periods if self.kind == "date" else self.categories
        return io.CategoryTable(cells, self.groups, self.value_map)

    def _read(
        self, columns: Iterable[NDArray[Any] | Dictionary], *, clip: bool
    ) -> Iterator[tuple[str, NDArray[np.signedinteger[Any]]]]:
        """Yield the name of every column of records, and codes (N,) of its values.

        These are nodes of a level, or negative markers; in the last column cells.
        """
        codes: Any = None
        for k, (part, column) in enumerate(zip(self._parts, columns, strict=False)):
            above, codes = codes, part._codes(column, clip=clip)
            if k:
                keys, nodes = self._children[k]
                named, wanted = codes, above * np.array([part.size]) + codes
                place = np.searchsorted(keys, wanted).clip(max=keys.size - 1)
                codes, none = nodes[place], (keys[place] != wanted) | (named < 0)
                named, above = named[none], above[none]
                markers = np.where(named == part.other_code, io.MISSING, io.NO_PATH)
                markers[above < 0] = 0  # the column before has a marker already
                codes[none] = np.where(named < 0, named, markers)
            yield part.name, codes

    @cached_property
    def _children(self) -> list[tuple[NDArray[np.int64], NDArray[Any]]]:
        """For every column the sorted keys of its nodes, and the nodes.

        A key puts together the node above and the code of the name.
        """
        levels, above = [], np.zeros(self.size, np.int64)
        paths, dtype = np.array(self.categories, object), io.code_type(self.size)
        for part, names in zip(self._parts, paths.T, strict=True):
            codes = part._table.codes(names)
            keys, first = np.unique(above * part.size + codes, return_index=True)
            above = self.nodes(part.name)
            levels.append((keys, above[first].astype(dtype)))
        return levels

    def _codes(
        self, column: NDArray[Any] | Dictionary, *, clip: bool
    ) -> NDArray[np.signedinteger[Any]]:
        """Return codes (N,), with a negative marker where there is none.

        They have the narrowest type that holds both. A dictionary is read once for
        every entry.
        """
        return read_once(column, partial(self._codes_of_values, clip=clip))

    def _codes_of_values(
        self, values: NDArray[Any], *, clip: bool
    ) -> NDArray[np.signedinteger[Any]]:
        if self.kind not in ("numeric", "date"):
            return self._table.codes(values)
        if self.kind == "date":
            days, missing, bad = dates.day_values(values)
            outside, marker = days != days.clip(*self._end_days), io.OTHER_TIME
            periods = dates.periods(days, str(self.unit)).clip(*self._ends)
            codes = periods - self._ends[0]
        else:
            numbers, bad = io.number_values(values)
            missing, outside = np.isnan(numbers) & ~bad, np.isinf(numbers)
            marker = io.INFINITE if self.lower is None else io.OUTSIDE
            if self.lower is not None:
                outside = (numbers < self.lower) | (numbers > self.upper)
            codes = np.searchsorted(self.cut_points, numbers, side="left")
        codes = codes.astype(io.code_type(self.size))
        if not clip:  # the first and last bins already take what lies beyond
            codes[outside] = marker
        codes[missing] = io.MISSING
        codes[bad] = io.NO_NUMBER
        if self.kind == "date" and bad.any():  # "2026-01", or no dates
            named = self._table.codes(values[bad])
            codes[bad] = np.where(named < 0, io.NO_DATE, named)
        return codes

    def _given(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        lists = ("categories", "cut_points", "columns")
        none = [name for name in lists if not len(values[name])]
        none += ["levels"] * bool(self.columns)  # which name them
        return {k: v for k, v in values.items() if v is not None and k not in none}

    def _to_dict(self) -> dict[str, Any]:
        """Return the entry of a file; pairs, because JSON keys all become text."""
        given = self._given()
        if self.columns:
            given |= {"kind": "hierarchy", "tree": given.pop("categories")}
        return {
            "type" if key == "kind" else key: [
                [raw, target] for raw, target in value.items()
            ]
            if isinstance(value, Mapping)
            else value
            for key, value in given.items()
        }

    def __repr__(self) -> str:
        """Show what was given, as a call that rebuilds the attribute."""
        given = ", ".join(f"{key}={value!r}" for key, value in self._given().items())
        return f"Attribute({given})"


# --------------------------------------------------------- reading from data


def distinct_values(values: NDArray[Any], name: str) -> tuple[list[Any], bool]:
    """Return the sorted distinct values of a column, and whether some are missing."""
    cells = values.tolist()
    present = [cell for cell in cells if not io.is_missing(cell)]
    by_text: dict[str, Any] = {}
    for value in present:
        if not isinstance(value, (str, bool, int, float, np.generic)):
            raise TypeError(
                f"{name} holds a value of type {type(value).__name__}, but each must "
                "be a string or a number; convert it"
            )
        by_text.setdefault(str(value), value)
    mixed = len({isinstance(value, str) for value in present}) > 1
    distinct = sorted(
        dict.fromkeys(by_text.values()),
        key=lambda value: (type(value).__name__, str(value)) if mixed else value,
    )
    return distinct, len(present) < len(cells)


def infer_attribute(name: str, values: NDArray[Any], n_bins: int) -> Attribute:
    """Return the attribute that a column (N,) shows, which leaks its values."""
    present = [cell for cell in values.tolist() if not io.is_missing(cell)]
    are_numbers = bool(present) and all(
        isinstance(cell, (int, float, np.integer, np.floating))
        and not isinstance(cell, bool)
        for cell in present
    )
    if not are_numbers and values.dtype.kind not in "iuf":
        categories, has_missing = distinct_values(values, f"column {name!r} of X")
        more = ["?"] if has_missing or not categories else []
        return Attribute.categorical(name, categories + more)
    numbers, _ = io.number_values(values)
    finite = np.isfinite(numbers)
    if not finite.all():
        raise ValueError(
            f"row {int(finite.argmin())}, column {name!r} of X holds NaN, infinity or "
            "no value, for which an inferred numeric attribute has no cell; correct it"
        )
    known = numbers if numbers.size else np.array([0.0, 1.0])
    lower, upper = float(known.min()), float(known.max())
    if upper - lower <= max(1e-12 * max(abs(lower), abs(upper)), 1e-300):
        # one value in all records: any interval around it will do
        margin, most = max(abs(lower), 1.0) / 2, np.finfo(float).max
        lower, upper = max(lower - margin, -most), min(upper + margin, most)
    whole = bool(numbers.size and (numbers % 1 == 0).all()) or None
    return Attribute.numeric(
        name, lower=lower, upper=upper, n_bins=n_bins, integer=whole
    )
