"""Public facts about the attributes of a data set, and encoding by them.

A schema lists for every attribute its categories, or its bounds and cut points,
and the class labels. It is public: it comes from documentation or agreement, not
from the records. Everything downstream (domain, forest, strategy) is built from
it, so nothing there depends on sensitive data.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_integer
from mmech.domain import values as io
from mmech.domain.attribute import (
    Attribute,
    as_tuple,
    check_cells,
    check_name,
    check_names,
    distinct_values,
    infer_attribute,
)
from mmech.domain.discretise import check_bins
from mmech.exceptions import PrivacyLeakWarning
from mmech.storage.writing import replacing
from mmech_rf import _encoding as encoding
from mmech_rf._encoding import Misfit

__all__ = ["Attribute", "Misfit", "Schema"]


@dataclass(frozen=True, repr=False)
class Schema:
    """Public facts about a data set: its attributes and its class labels.

    The domain is the product of the attributes' cells. Cells are numbered in C
    order, the first attribute most significant. A schema is built by hand, read
    from a file with `from_json`, or, at the price of the guarantee, read from data
    with `infer`.

    Parameters
    ----------
    attributes : sequence of Attribute
        In the order of the columns of the codes.
    class_labels : sequence of str, bool, int or float
        At least two. Their order is the order of the class codes, and their type the
        type of predictions, whatever the records hold them in.
    target : str, default="class"
        Name of the class column in files.
    name : str, optional
        Name of the data set.
    required : sequence of str, default=()
        Columns outside the domain whose missing values make a record count as one
        with a missing value (see `encode`), so that a published preprocessing can
        be repeated.
    label_type : {"int", "bool", "str"}, optional
        Type to convert `class_labels` to. Schema files may say it as ``"type"`` of
        their target: many write all labels as text.

    Attributes
    ----------
    domain_shape : tuple of int
        Number of cells of each attribute.
    n_cells : int
        Size of the domain, a Python integer of any size.
    n_features, n_classes : int
        Number of attributes and of class labels.
    feature_names : tuple of str
        Names of the attributes.

    Raises
    ------
    TypeError
        If an attribute is not an `Attribute` or a name not a string.
    ValueError
        If names repeat, or there is no attribute, or fewer than two class labels, or
        the labels cannot be written in `label_type`.

    See Also
    --------
    Attribute : one attribute, and how raw values match its cells.

    Examples
    --------
    >>> schema = Schema(
    ...     [
    ...         Attribute.ordinal("safety", ["low", "med", "high"]),
    ...         Attribute.numeric("price", lower=0, upper=100, n_bins=4),
    ...     ],
    ...     class_labels=["unacc", "acc"],
    ... )
    >>> schema.domain_shape, schema.n_cells
    ((3, 4), 12)
    >>> schema.encode([["high", 25], ["low", "99.5"]])
    array([[2, 0],
           [0, 3]])
    """

    attributes: tuple[Attribute, ...]
    class_labels: tuple[Any, ...]
    _: KW_ONLY
    target: str = "class"
    name: str | None = None
    required: tuple[str, ...] = ()
    label_type: InitVar[str | None] = None

    def __post_init__(self, label_type: str | None) -> None:
        attributes = as_tuple(self.attributes, "attributes")
        if not attributes:
            raise ValueError("a schema needs at least one attribute, got none; add one")
        for attribute in attributes:
            if not isinstance(attribute, Attribute):
                raise TypeError(
                    f"attributes must be Attribute objects, got "
                    f"{type(attribute).__name__}; use Attribute.categorical, "
                    "Attribute.ordinal or Attribute.numeric"
                )
        labels = as_tuple(self.class_labels, "class_labels (the classes)")
        if label_type is not None:
            labels = tuple(io.label_of_type(label, label_type) for label in labels)
        labels = check_cells(labels, "class_labels (the classes)", minimum=2)
        target = check_name(self.target, "target")
        required = check_names(self.required, "required")
        if self.name is not None:
            check_name(self.name, "name")
        seen = set()
        for name in (*(attribute.name for attribute in attributes), target, *required):
            if name in seen:
                raise ValueError(
                    f"the name {name!r} occurs twice among attributes, target and "
                    "required columns; rename or remove one"
                )
            seen.add(name)
        for key, value in (
            ("attributes", attributes),
            ("class_labels", labels),
            ("required", required),
        ):
            object.__setattr__(self, key, value)

    # ------------------------------------------------------------------ shape

    @cached_property
    def domain_shape(self) -> tuple[int, ...]:
        """Number of cells of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def n_cells(self) -> int:
        """Number of cells of the domain."""
        return math.prod(self.domain_shape)

    @property
    def n_features(self) -> int:
        """Number of attributes."""
        return len(self.attributes)

    @property
    def n_classes(self) -> int:
        """Number of class labels."""
        return len(self.class_labels)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)

    def select(self, features: Iterable[int | str]) -> Schema:
        """Return the schema of some attributes, given by position or name.

        Parameters
        ----------
        features : iterable of int or str
            In the order wanted, none of them twice.

        Returns
        -------
        Schema
            With the same classes and required columns.

        Examples
        --------
        >>> from mmech_rf.datasets import load_car
        >>> load_car().schema.select(["safety", 0]).feature_names
        ('safety', 'buying')
        """
        names = self.feature_names
        positions = []
        for feature in as_tuple(features, "features"):
            if isinstance(feature, str):
                if feature not in names:
                    raise ValueError(
                        f"the schema has no attribute {feature!r}; "
                        f"choose from {', '.join(names)}"
                    )
                positions.append(names.index(feature))
                continue
            position = check_integer(feature, "a selected feature", minimum=0)
            if position >= len(names):
                raise ValueError(
                    f"a selected feature must be below {len(names)}, the number of "
                    f"attributes, got {position}; positions start at 0"
                )
            positions.append(position)
        return Schema(
            tuple(self.attributes[position] for position in positions),
            self.class_labels,
            target=self.target,
            name=self.name,
            required=self.required,
        )

    # --------------------------------------------------------------- encoding

    @overload
    def encode(
        self,
        X: Any,
        y: None = None,
        *,
        columns: Iterable[str] | None = None,
        handle_unknown: str = "error",
        handle_missing: str = "error",
        return_index: Literal[False] = False,
    ) -> NDArray[np.int64]: ...

    @overload
    def encode(
        self,
        X: Any,
        y: Any,
        *,
        columns: Iterable[str] | None = None,
        handle_unknown: str = "error",
        handle_missing: str = "error",
        return_index: Literal[False] = False,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...

    @overload
    def encode(
        self,
        X: Any,
        y: Any,
        *,
        columns: Iterable[str] | None = None,
        handle_unknown: str = "error",
        handle_missing: str = "error",
        return_index: Literal[True],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...

    def encode(
        self,
        X: Any,
        y: Any = None,
        *,
        columns: Iterable[str] | None = None,
        handle_unknown: str = "error",
        handle_missing: str = "error",
        return_index: bool = False,
    ) -> Any:
        """Return the cell of every record along every attribute.

        Each value is read by itself, so a record's codes never depend on another
        record. Time is linear in the size of `X`.

        Parameters
        ----------
        X : frame, array or list of rows, shape (N, d)
            Raw values. Frames and rows that are dicts match attributes by name and
            may hold more columns in any order. Arrays and other rows hold the
            attributes in schema order, followed or not by the required columns.
        y : sequence of class labels, shape (N,), optional
            Give it for training records, leave it out for queries. Required
            columns are read only with it.
        columns : sequence of str, optional
            Names of the columns of an array or of rows, to match them by name.
        handle_unknown : {"error", "category", "drop", "clip"}, default="error"
            What to do with a value outside the domain of its attribute: raise, use
            the attribute's designated cell (`Attribute.other_code`), or leave the
            record out, without a word on how many. ``"clip"`` moves a number outside
            the bounds to the nearest bin and raises for other values. A label that is
            not one of the classes drops its record or raises.
        handle_missing : {"error", "category", "drop"}, default="error"
            The same for missing values. A missing value in a required column can
            only raise or drop; ``"category"`` accepts it. A missing label drops its
            record or raises.
        return_index : bool, default=False
            With `y`, return the positions of the records that were kept, too.

        Returns
        -------
        codes : int64 array, shape (N, d) or fewer rows with "drop"
            C-contiguous.
        class_codes : int64 array, shape (N,), only with `y`
            Positions in `class_labels`.
        index : int64 array, shape (N,), only with ``return_index=True``
            Position in `X` of every row of `codes`.

        Raises
        ------
        ValueError
            At the first value that cannot be read; the message names its row and
            column, not the value. Whether this error occurs depends on the data
            and is not covered by the privacy guarantee; ``"drop"`` avoids it, and so
            does ``"category"`` for attributes that declare a cell for it. Also if
            columns are missing, or "drop" is chosen without `y`: every query needs
            an answer.
        TypeError
            If `X` is a sparse matrix, a single record, or not a table at all.

        Examples
        --------
        >>> shape = Attribute.categorical("shape", ["round", "square", "?"])
        >>> size = Attribute.numeric("size", lower=0, upper=10, n_bins=2)
        >>> schema = Schema([shape, size], [False, True])
        >>> schema.encode([["round", 4], [None, 6]])
        array([[0, 0],
               [2, 1]])
        >>> rows, labels = [["square", 70], ["square", 3]], ["true", "false"]
        >>> schema.encode(rows, labels, handle_unknown="drop", return_index=True)
        (array([[1, 0]]), array([0]), array([1]))
        """
        return encoding.encode(
            self,
            X,
            y,
            columns=columns,
            handle_unknown=handle_unknown,
            handle_missing=handle_missing,
            return_index=return_index,
        )

    def encode_target(self, y: Any) -> NDArray[np.int64]:
        """Return the position in `class_labels` of every label.

        Parameters
        ----------
        y : sequence of class labels, shape (N,)
            They match by equality, otherwise as text.

        Returns
        -------
        int64 array, shape (N,)

        Raises
        ------
        ValueError
            If a label is missing or not one of the classes. It names the row.

        Examples
        --------
        >>> schema = Schema([Attribute.categorical("a", ["0", "1"])], ["-1", "1"])
        >>> schema.encode_target([1, -1, 1.0])
        array([1, 0, 1])
        """
        return encoding.encode_target(self, y)

    def check(
        self, X: Any, y: Any = None, *, columns: Iterable[str] | None = None
    ) -> list[Misfit]:
        """List every cell that the schema cannot read, for the owner of the records.

        The list holds values of records and is not covered by the privacy guarantee.
        Look at it before ``"drop"`` is chosen, which leaves out every record that does
        not fit and never says how many.

        Parameters
        ----------
        X, y, columns
            As in `encode`.

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
        >>> schema = Schema([Attribute.categorical("shape", ["round"])], [0, 1])
        >>> schema.check([["round"], ["squre"]], [0, 1])
        [Misfit(row=1, column='shape', value='squre',
                problem='a value outside the domain of the attribute')]
        """
        return encoding.misfits(self, X, y, columns=columns)

    @cached_property
    def _class_table(self) -> io.CategoryTable:
        return io.CategoryTable(self.class_labels)

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
        >>> from mmech_rf.datasets import load_iris
        >>> load_iris().schema.decode([0, 1, 2, 3]).tolist()
        ['<= 5', '(3, 4]', '(3, 4]', '(1.5, 2]']
        """
        return encoding.decode(self, codes)

    def decode_target(self, class_codes: ArrayLike) -> NDArray[Any]:
        """Return the raw class labels of class codes.

        Parameters
        ----------
        class_codes : int array, shape (N,)

        Returns
        -------
        array, shape (N,)
            Of the labels' own type, or of objects where they are of several types.

        Examples
        --------
        >>> Schema([Attribute.categorical("a", [0, 1])], [-1, 1]).decode_target([1, 0])
        array([ 1, -1])
        """
        return encoding.decode_target(self, class_codes)

    # ----------------------------------------------------------------- sources

    @classmethod
    def from_json(cls, source: Any, *, n_bins: int = 10) -> Schema:
        """Read a schema from a file in one of three formats.

        It reads what `to_json` writes; files with ``features`` (categories, or for a
        number bounds and ``n_bins``, ``quantiles`` or ``cut_points``, as in
        `Attribute`) and a ``target`` object; and the discretisations of the
        matrix-random-forest paper with ``attributes`` and a ``target`` name. In
        the last kind, ``dropped_after`` becomes `required`, and what
        is ``not_used`` is left out. Class labels keep their JSON type, numbers,
        ``true`` and ``false`` or text, unless a ``target`` object says another as
        ``"type"``: ``"int"``, ``"bool"`` or ``"str"``.

        Parameters
        ----------
        source : path, file object, JSON text or dict
        n_bins : int, default=10
            Number of bins of numeric attributes where a file gives only bounds.

        Returns
        -------
        Schema

        Raises
        ------
        ValueError
            If the text is not JSON, of no known kind, malformed, or describes no
            valid schema.

        Examples
        --------
        >>> text = '''{"features": [{"name": "age", "type": "numeric",
        ...     "lower": 0, "upper": 120}],
        ...     "target": {"name": "class", "categories": ["no", "yes"]}}'''
        >>> Schema.from_json(text, n_bins=6)
        Schema(domain_shape=(6,), n_cells=6, class_labels=('no', 'yes'))
        """
        n_bins = check_bins(n_bins, "n_bins")
        entries, options = io.parse_document(io.read_document(source), n_bins=n_bins)
        try:
            attributes = [Attribute(**entry) for entry in entries]
            return cls(tuple(attributes), **options)
        except TypeError as error:
            raise ValueError(
                f"the schema is malformed: {error}; correct the file"
            ) from error

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write the schema as JSON, to be read by `from_json`.

        Parameters
        ----------
        path : path, optional
            Where to write it. By default the text is returned.

        Returns
        -------
        str or None

        Examples
        --------
        >>> schema = Schema([Attribute.categorical("a", [False, True])], ["n", "y"])
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        document: dict[str, Any] = {"format": io.FORMAT, "version": io.VERSION}
        if self.name is not None:
            document["name"] = self.name
        document["target"] = {"name": self.target, "labels": self.class_labels}
        document["attributes"] = [a._to_dict() for a in self.attributes]
        if self.required:
            document["required"] = self.required
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        if path is None:
            return text
        with replacing(path) as unfinished:
            unfinished.write_text(text + "\n", encoding="utf-8")
        return None

    @classmethod
    def infer(
        cls,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        columns: Iterable[str] | None = None,
        target: str = "class",
        name: str | None = None,
    ) -> Schema:
        """Read categories, bounds and classes from data, which leaks them.

        The result depends on single records, so a release built on it carries no
        privacy guarantee. It is meant for data that are public and for first
        experiments. Columns of numbers become numeric with their least and largest
        value as bounds; all others become categorical, with a category ``"?"``
        where values are missing.

        Parameters
        ----------
        X : frame, array or list of rows, shape (N, d)
            Columns without names are called ``x0``, ``x1``, ...
        y : sequence of class labels, shape (N,)
        n_bins : int, default=10
            Number of bins of equal width per numeric column.
        columns : sequence of str, optional
            Names of the columns of an array or of rows.
        target, name : str, optional
            As in `Schema`.

        Returns
        -------
        Schema

        Raises
        ------
        ValueError
            If a number is missing or infinite, or there are fewer than two classes.

        Warns
        -----
        PrivacyLeakWarning
            Always.

        Examples
        --------
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     schema = Schema.infer([["b", 1.5], ["a", 3.5]], [1, 0], n_bins=2)
        >>> schema.attributes[1].labels
        ('[1.5, 2.5]', '(2.5, 3.5]')
        """
        warnings.warn(
            "categories, bounds and classes are read from the data, which voids the "
            "privacy guarantee unless the data are public; write a Schema from "
            "documentation instead",
            PrivacyLeakWarning,
            stacklevel=2,
        )
        n_bins = check_bins(n_bins, "n_bins")
        table = io.read_table(X, columns)
        names = table.names or [f"x{j}" for j in range(table.n_columns)]
        attributes = [
            infer_attribute(column_name, table.column(j), n_bins)
            for j, column_name in enumerate(names)
        ]
        labels, has_missing = distinct_values(io.read_vector(y), "y")
        if has_missing:
            raise ValueError(
                "y holds a missing value (empty, None or NaN); remove such records"
            )
        return cls(tuple(attributes), tuple(labels), target=target, name=name)

    # ----------------------------------------------------------------- display

    def __repr__(self) -> str:
        """Show structure and size in one line."""
        name = "" if self.name is None else f"{self.name!r}, "
        shape = ", ".join(map(str, self.domain_shape[:8]))
        if self.n_features > 8:
            shape += f", ... {self.n_features} attributes"
        elif self.n_features == 1:
            shape += ","
        size = str(self.n_cells) if self.n_cells < 10**16 else f"{self.n_cells:.3g}"
        return (
            f"Schema({name}domain_shape=({shape}), n_cells={size}, "
            f"class_labels={self.class_labels})"
        )

    def __str__(self) -> str:
        """Show one line per attribute."""
        width = max(len(name) for name in (*self.feature_names, self.target))
        rows = [(a.name, a.kind, a.size, a.labels) for a in self.attributes]
        rows.append((self.target, "classes", self.n_classes, self.class_labels))
        lines = [repr(self)]
        for name, kind, size, labels in rows:
            text = ", ".join(map(str, labels))
            text = text if len(text) <= 60 else text[:57] + "..."
            lines.append(f"  {name:<{width}}  {kind:<11}  {size:>4}  {text}")
        return "\n".join(lines)
