"""Public facts about records: named attributes, and the cells they make.

A domain lists for every attribute its categories, or its bounds and cut points. It
is public: it comes from documentation or agreement, not from the records. Everything
downstream is built from it, so nothing there depends on sensitive data.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_bool, check_choice, check_codes, parsed_json
from mmech.domain import files
from mmech.domain.attribute import Attribute, as_tuple, check_name
from mmech.domain.discretise import check_bins
from mmech.domain.encoding import Misfit, check_policies, encode_columns, list_misfits
from mmech.domain.frames import Table, read_table
from mmech.exceptions import PrivacyLeakWarning
from mmech.storage.codec import storable

_LISTED_SIZES = 8
"""Up to this number of attributes the text of a domain shows the size of each."""


def warn_if_read(domain: Domain, noun: str, stacklevel: int = 3) -> None:
    """Warn where a domain says that its values were read from the records."""
    if domain.read_from_records:
        warnings.warn(
            f"the {noun} says that its values were read from the records: no guarantee "
            "covers what is released with it; take them from public documentation, or "
            f"take {files.READ!r} out if all values are public",
            PrivacyLeakWarning,
            stacklevel=stacklevel + 1,
        )


@storable("Domain")
@dataclass(frozen=True, repr=False)
class Domain:
    """Public facts about records: the names of their attributes and their values.

    The domain is the product of the attributes' cells. Cells are numbered in C
    order, the first attribute most significant. A domain is built by hand or read
    from a file with `from_json`.

    Parameters
    ----------
    attributes : sequence of Attribute
        In the order of the columns of the codes.
    name : str, optional
        Name of the data set.
    read_from_records : bool, default=False
        Whether values were read from the records, which no guarantee covers. Files
        carry the mark. Whoever knows that all values are public takes it out.

    Attributes
    ----------
    names : tuple of str
        Names of the attributes.
    shape : tuple of int
        Number of cells of each attribute.
    n_cells : int
        Size of the domain, a Python integer of any size.

    Raises
    ------
    TypeError
        If an attribute is not an `Attribute` or a name not a string.
    ValueError
        If names repeat, or there is no attribute.

    See Also
    --------
    Attribute : one attribute, and how raw values match its cells.

    Examples
    --------
    >>> from mmech import Attribute, Domain
    >>> domain = Domain(
    ...     [
    ...         Attribute.ordinal("safety", ["low", "med", "high"]),
    ...         Attribute.numeric("price", lower=0, upper=100, n_bins=4),
    ...     ]
    ... )
    >>> domain
    Domain(shape=(3, 4), n_cells=12)
    >>> domain.encode([["high", 25], ["low", "99.5"]])
    array([[2, 0],
           [0, 3]])
    """

    attributes: tuple[Attribute, ...]
    _: KW_ONLY
    name: str | None = None
    read_from_records: bool = False

    _noun: ClassVar[str] = "domain"
    """What messages and files call it."""
    _named: ClassVar[str] = "attributes"
    """What has a name in it."""

    def __post_init__(self) -> None:
        attributes = as_tuple(self.attributes, "attributes")
        if not attributes:
            raise ValueError(
                f"a {self._noun} needs at least one attribute, got none; add one"
            )
        for attribute in attributes:
            if not isinstance(attribute, Attribute):
                raise TypeError(
                    f"attributes must be Attribute objects, got "
                    f"{type(attribute).__name__}; use Attribute.categorical, "
                    "Attribute.ordinal or Attribute.numeric"
                )
        object.__setattr__(self, "attributes", attributes)
        if self.name is not None:
            check_name(self.name, "name")
        check_bool(self.read_from_records, "read_from_records")
        self._check_distinct(
            name
            for own in attributes
            for name in dict.fromkeys((*(own.levels or ()), own._lowest, own.name))
        )

    def _check_distinct(self, names: Iterable[str]) -> None:
        seen = set()
        for name in names:
            if name in seen:
                raise ValueError(
                    f"the name {name!r} occurs twice among {self._named}; rename or "
                    "remove one"
                )
            seen.add(name)

    # ---- shape -----------------------------------------------------------------

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def n_cells(self) -> int:
        """Number of cells of the domain."""
        return math.prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def levels(self) -> dict[str, str]:
        """Attributes by what tables may name: their levels, and themselves.

        Examples
        --------
        >>> from mmech import Attribute, Domain
        >>> place = Attribute.hierarchy("city", {"North": ["Ham", "Alt"]}, ["region"])
        >>> Domain([place]).levels
        {'region': 'city', 'city': 'city'}
        """
        return {
            name: own.name
            for own in self.attributes
            for name in (*(own.levels or ()), own._lowest)
        }

    def by_level(self) -> Domain:
        """Return a domain with an attribute for each of these names."""
        if tuple(self.levels) == self.names:
            return self
        owners = {own.name: own for own in self.attributes}
        made = [owners[owner].at_level(name) for name, owner in self.levels.items()]
        return Domain(
            tuple(made), name=self.name, read_from_records=self.read_from_records
        )

    def at_levels(self, codes: NDArray[Any], names: Sequence[str]) -> NDArray[Any]:
        """Return the nodes of some levels, (N, levels), for codes of attributes."""
        if tuple(names) == self.names:
            return codes[:, : len(names)]
        columns = [np.zeros((len(codes), 0), np.uint8)]
        for name in names:
            i = self.names.index(self.levels[name])
            nodes = self.attributes[i].nodes(name)
            columns.append(nodes.astype(np.min_scalar_type(nodes[-1]))[codes[:, [i]]])
        return np.concatenate(columns, axis=1)

    def _columns(self, *, with_target: bool) -> tuple[list[str], str | None]:
        """Return the columns of records, and the one of their class if it is read."""
        return [own.name for own in self._parts], None

    @cached_property
    def _parts(self) -> tuple[Attribute, ...]:
        """An attribute for every column of records."""
        return tuple(part for own in self.attributes for part in own._parts)

    def select(self, names: Iterable[str]) -> Self:
        """Return the domain of some attributes.

        Parameters
        ----------
        names : iterable of str
            Attributes in the order wanted, none of them twice.

        Returns
        -------
        Domain
            All else stays as it is.

        Examples
        --------
        >>> from mmech import Attribute, Domain
        >>> domain = Domain([Attribute.categorical(name, [0, 1]) for name in "abc"])
        >>> domain.select(["c", "a"]).names
        ('c', 'a')
        """
        known, given = self.names, as_tuple(names, "names")
        chosen = [check_choice(name, "a selected attribute", known) for name in given]
        attributes = tuple(self.attributes[known.index(name)] for name in chosen)
        return replace(self, attributes=attributes)

    # ---- records ---------------------------------------------------------------

    def encode(
        self,
        X: Any,
        *,
        handle_unknown: str = "clip",
        handle_missing: str = "error",
        narrow: bool = False,
        first_row: int = 0,
    ) -> NDArray[Any]:
        """Return the cell of every record along every attribute.

        Each value is read by itself, so a record's codes never depend on another
        record. Time is linear in the size of `X`; of columns that a frame holds as a
        dictionary (pandas and polars categories, Arrow), every entry is read once.

        Parameters
        ----------
        X : frame, array, dictionary of columns or list of rows, shape (N, d)
            Raw values. Columns with names match attributes, and there may be more of
            them in any order: of frames (pandas, polars, pyarrow, lazy ones),
            dictionaries, and rows that are dicts.
            Arrays and other rows hold the attributes in the order of the domain. A
            hierarchy over several columns has all of them.
        handle_unknown : {"clip", "error", "category", "drop"}, default="clip"
            What to do with a value outside the domain of its attribute. ``"clip"``
            moves a number outside the public bounds, or infinity, to the nearest bin,
            and raises for other values; ``"error"`` raises for all. Others use the
            attribute's designated cell (`Attribute.other_code`), or leave the record
            out, without a word on how many.
        handle_missing : {"error", "category", "drop"}, default="error"
            The same for missing values.
        narrow : bool, default=False
            Whether to return the narrowest unsigned integers that hold all codes,
            column by column. Attributes of up to 256 cells take an eighth of memory.
        first_row : int, default=0
            Number of the first row in messages, where `X` is a part of a file.

        Returns
        -------
        codes : int64 array, shape (N, d) or fewer rows with "drop"
            C-contiguous; Fortran-contiguous if narrow.

        Raises
        ------
        ValueError
            At the first value that cannot be read; the message names its row and
            column, not the value. Whether this error occurs depends on the data
            and is not covered by the privacy guarantee; ``"drop"`` avoids it, and so
            does ``"category"`` for attributes that declare a cell for it. Also if
            columns are missing.
        TypeError
            If `X` is a sparse matrix, a single record, or not a table at all.

        Examples
        --------
        >>> from mmech import Attribute, Domain
        >>> shape = Attribute.categorical("shape", ["round", "square", "?"])
        >>> size = Attribute.numeric("size", lower=0, upper=10, n_bins=2)
        >>> domain = Domain([shape, size])
        >>> domain.encode([["round", 4], [None, 6]])
        array([[0, 0],
               [2, 1]])
        >>> domain.encode([["square", 70], ["square", 3]], handle_unknown="drop")
        array([[1, 0]])
        """
        codes, keep = self._encode(
            X,
            narrow=narrow,
            first_row=first_row,
            handle_unknown=handle_unknown,
            handle_missing=handle_missing,
        )
        return codes if keep.all() else codes[keep]

    def _encode(
        self,
        X: Any,
        *,
        narrow: bool,
        first_row: int = 0,
        **policies: str,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the cells of all records, and which records are not left out."""
        check_policies(self.attributes, **policies)
        table = read_table(X)
        names, _ = self._columns(with_target=False)
        positions, _ = table.locate(names, self._noun)
        return encode_columns(
            self.attributes,
            table,
            positions,
            self._noun,
            narrow=narrow,
            first_row=first_row,
            **policies,
        )

    def check(
        self,
        X: Any,
        *,
        handle_unknown: str = "clip",
    ) -> list[Misfit]:
        """List every cell that cannot be read, for the owner of the records.

        The list holds values of records and is not covered by the privacy guarantee.
        Look at it before ``"drop"`` is chosen, which leaves out every record that does
        not fit and never says how many.

        Parameters
        ----------
        X, handle_unknown
            As in `encode`. Numbers outside the bounds fit where they are clipped.

        Returns
        -------
        list of Misfit
            Named tuples ``(row, column, value, problem)`` in the order of the rows,
            without those that read as a category ``"?"``; empty where all records fit.

        Raises
        ------
        ValueError
            If columns are missing.

        Examples
        --------
        >>> from mmech import Attribute, Domain
        >>> domain = Domain([Attribute.categorical("shape", ["round"])])
        >>> domain.check([["round"], ["squre"]])
        [Misfit(row=1, column='shape', value='squre',
                problem='a value outside the domain of the attribute')]
        """
        check_policies(self.attributes, handle_unknown=handle_unknown)
        table = read_table(X)
        names, _ = self._columns(with_target=False)
        positions, _ = table.locate(names, self._noun)
        found = self._misfits(table, positions, clip=handle_unknown == "clip")
        return sorted(found, key=lambda misfit: misfit.row)

    def _misfits(
        self, table: Table, positions: Iterable[int], *, clip: bool
    ) -> list[Misfit]:
        found, places = [], map(table.column, positions)
        for attribute in self.attributes:
            columns = [*islice(places, len(attribute._parts))]
            own = attribute._read(columns, clip=clip)
            for values, (name, codes) in zip(columns, own, strict=True):
                found += list_misfits(name, values, codes)
        return found

    def decode(self, codes: ArrayLike) -> NDArray[np.object_]:
        """Return what the cells are called: categories, or intervals of numbers.

        Parameters
        ----------
        codes : int array, shape (N, d) or (d,)

        Returns
        -------
        object array of the same shape

        Examples
        --------
        >>> from mmech import Attribute, Domain
        >>> domain = Domain([Attribute.numeric("width", cut_points=[0.5, 1])])
        >>> domain.decode([[0], [2]]).tolist()
        [['<= 0.5'], ['> 1']]
        """
        array = np.asarray(codes)
        rows = check_codes(np.atleast_2d(array), self.shape, self.names)
        out = np.empty(rows.shape, dtype=object)
        for j, attribute in enumerate(self.attributes):
            names = np.empty(attribute.size, dtype=object)
            names[:] = attribute.labels
            out[:, j] = names[rows[:, j]]
        return out.reshape(array.shape)

    # ---- files -----------------------------------------------------------------

    @classmethod
    def from_json(cls, source: Any, *, n_bins: int = 10) -> Self:
        """Read a domain from a file with ``features``, as `to_json` writes it.

        An entry has categories, or for a number bounds and ``n_bins`` or
        ``cut_points``, as in `Attribute`. Where a file has classes, a ``target``, it is
        the last attribute.

        Parameters
        ----------
        source : path, file object, JSON text or dict
        n_bins : int, default=10
            Number of bins of numeric attributes where a file gives only bounds.

        Returns
        -------
        Domain

        Raises
        ------
        ValueError
            If the text is not JSON, of no known kind, malformed, or describes no
            valid domain.

        Examples
        --------
        >>> from mmech import Domain
        >>> text = '''{"features": [
        ...     {"name": "age", "type": "numeric", "lower": 0, "upper": 120},
        ...     {"name": "sex", "type": "categorical", "categories": ["f", "m"]}]}'''
        >>> Domain.from_json(text, n_bins=6).shape
        (6, 2)
        """
        n_bins = check_bins(n_bins, "n_bins")
        document = files.read_document(source, cls._noun)
        with files.parsing(cls._noun):
            entries, options = cls._parse(document, n_bins)
        try:
            return cls(tuple(Attribute(**entry) for entry in entries), **options)
        except TypeError as error:
            raise ValueError(f"the {cls._noun} is malformed: {error}") from error

    @classmethod
    def _parse(
        cls, document: dict[str, Any], n_bins: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the arguments of the attributes, and the others of this class."""
        if "features" not in document:
            raise files.unknown_kind(cls._noun, "'features'", document)
        more = ("target", files.READ)
        entries = files.described_attributes(document, cls._noun, n_bins, more)
        if "target" in document:  # a schema: the class is one more attribute
            entries.append(files.described_target(document["target"]))
        marks = files.marked(document)
        return entries, {"name": document.get("name"), **marks}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write it as JSON, as ``mmech/domain/schema.json`` describes it.

        Parameters
        ----------
        path : path, optional
            Where to write it. By default the text is returned.

        Returns
        -------
        str or None

        Examples
        --------
        >>> from mmech import Attribute, Domain
        >>> domain = Domain([Attribute.categorical("a", [False, True])])
        >>> Domain.from_json(domain.to_json()) == domain
        True
        """
        document: dict[str, Any] = {} if self.name is None else {"name": self.name}
        document |= {files.READ: True} if self.read_from_records else {}
        return files.write_document(document | self._entries(), path)

    @property
    def document(self) -> dict[str, Any]:
        """What `to_json` writes, as an object."""
        return dict(parsed_json(self.to_json() or ""))

    @classmethod
    def _stored(cls) -> dict[str, str]:
        return {"document": "document"}

    @classmethod
    def _restored(cls, document: Any) -> Self:
        return cls.from_json(dict(document))

    def _entries(self) -> dict[str, Any]:
        """Return what a file says beside the name."""
        return {"features": [attribute._to_dict() for attribute in self.attributes]}

    # ---- display ---------------------------------------------------------------

    def __repr__(self) -> str:
        """Show structure and size in one line."""
        return f"Domain({self._summary('shape')})"

    def _summary(self, word: str) -> str:
        name = "" if self.name is None else f"{self.name!r}, "
        shape = ", ".join(map(str, self.shape[:_LISTED_SIZES]))
        if len(self.shape) > _LISTED_SIZES:
            shape += f", ... {len(self.shape)} attributes"
        elif len(self.shape) == 1:
            shape += ","
        size = str(self.n_cells) if self.n_cells < 10**16 else f"{self.n_cells:.3g}"
        return f"{name}{word}=({shape}), n_cells={size}"

    def __str__(self) -> str:
        """Show one line per attribute."""
        rows = self._rows()
        width = max(len(name) for name, *_ in rows)
        lines = [repr(self)]
        for name, kind, size, labels in rows:
            text = ", ".join(map(str, labels))
            text = text if len(text) <= 60 else text[:57] + "..."
            lines.append(f"  {name:<{width}}  {kind:<11}  {size:>4}  {text}")
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, str, int, tuple[Any, ...]]]:
        """Return name, kind, size and labels of every line of the text."""
        return [(a.name, a.kind, a.size, a.labels) for a in self.attributes]
