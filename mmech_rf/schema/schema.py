"""`Schema`: how raw records and their labels become codes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_choice
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
from mmech.domain.domain import Domain
from mmech.domain.encoding import (
    PROBLEMS,
    Misfit,
    cell_error,
    check_policies,
    encode_columns,
    list_misfits,
    look,
)
from mmech.domain.frames import read_held, read_table, read_vector
from mmech.domain.values import MISSING, UNKNOWN, CategoryTable, is_missing, read_once
from mmech.exceptions import ParameterError, PrivacyLeakWarning
from mmech.storage.codec import storable
from mmech_rf.schema.files import parsed
from mmech_rf.schema.thresholds import fitted_nodes


@storable("Schema")
@dataclass(frozen=True, repr=False)
class Schema(Domain):
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
        Columns outside the domain. A record with a missing value in one of them counts
        as a record with a missing value (see `encode`), as in some published
        preprocessings.
    label_type : {"int", "bool", "str"}, optional
        Type to convert `class_labels` to. Schema files may say it as ``"type"`` of
        their target: many write all labels as text.

    Attributes
    ----------
    domain_shape : tuple of int
        Number of cells of each attribute.
    n_cells, n_features, n_classes : int
        Size of the domain, and number of attributes and of class labels.
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
    mmech.Attribute : one attribute, and how raw values match its cells.

    Examples
    --------
    >>> from mmech_rf import Attribute, Schema
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

    class_labels: tuple[Any, ...]
    _: KW_ONLY
    target: str = "class"
    required: tuple[str, ...] = ()
    label_type: InitVar[str | None] = None

    _noun: ClassVar[str] = "schema"
    _named: ClassVar[str] = "attributes, target and required columns"

    def __post_init__(self, label_type: str | None) -> None:
        super().__post_init__()
        for attribute in self.attributes:
            if attribute.columns:
                raise ValueError(
                    f"attribute {attribute.name!r} of a schema must be in one column, "
                    f"got a hierarchy over {len(attribute.columns)}; describe one of "
                    "its columns"
                )
        labels = as_tuple(self.class_labels, "class_labels (the classes)")
        if label_type is not None:
            labels = tuple(label_of_type(label, label_type) for label in labels)
        labels = check_cells(labels, "class_labels (the classes)", minimum=2)
        check_name(self.target, "target")
        required = check_names(self.required, "required")
        object.__setattr__(self, "class_labels", labels)
        object.__setattr__(self, "required", required)
        self._check_distinct((*self.names, self.target, *required))

    # ---- shape -----------------------------------------------------------------

    @property
    def domain_shape(self) -> tuple[int, ...]:
        """Number of cells of each attribute."""
        return self.shape

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
        return self.names

    @property
    def monotone(self) -> dict[str, int]:
        """Directions of the monotone attributes, by name; see `mmech.Attribute`."""
        return {a.name: a.monotone for a in self.attributes if a.monotone is not None}

    def _columns(self, *, with_target: bool) -> tuple[list[str], str | None]:
        if not with_target:
            return list(self.names), None
        return [*self.names, *self.required], self.target

    # ---- records ---------------------------------------------------------------

    def encode(
        self,
        X: Any,
        y: Any = None,
        *,
        handle_unknown: str = "clip",
        handle_missing: str = "error",
        narrow: bool = False,
        return_index: bool = False,
        first_row: int = 0,
    ) -> Any:
        """Return the cell of every record along every attribute.

        Each value is read by itself, so a record's codes never depend on another
        record. Time is linear in the size of `X`.

        Parameters
        ----------
        X, handle_unknown, handle_missing, narrow
            As in `Domain.encode`. Arrays and rows without names hold the attributes in
            schema order, followed or not by the required columns. ``"drop"`` needs
            `y`: every query needs an answer. A missing value in a required column
            can only raise or drop; ``"category"`` accepts it. A label that is
            missing, or not one of the classes, drops its record or raises.
        y : sequence of class labels, shape (N,), optional
            Give it for training records, leave it out for queries. Required
            columns are read only with it.
        return_index : bool, default=False
            With `y`, return the positions of the records that were kept, too.
        first_row : int, default=0
            Number of the first row in messages, where `X` is a part of a file.

        Returns
        -------
        codes : int64 array, shape (N, d) or fewer rows with "drop"
            C-contiguous; Fortran-contiguous if narrow.
        class_codes : int64 array, shape (N,), only with `y`
            Positions in `class_labels`.
        index : int64 array, shape (N,), only with ``return_index=True``
            Position in `X` of every row of `codes`.

        Raises
        ------
        ValueError, TypeError
            As in `Domain.encode`, and for labels as for values. Also if "drop" is
            chosen without `y`.

        Examples
        --------
        >>> from mmech_rf import Attribute, Schema
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
        policies = {"handle_unknown": handle_unknown, "handle_missing": handle_missing}
        check_policies(self.attributes, **policies)
        if y is None:
            _check_queries(policies, return_index=return_index)
        table = read_table(X)
        features, required = table.locate(
            self.names,
            self._noun,
            self.required,
            read_required=y is not None and handle_missing != "category",
        )
        codes, keep = encode_columns(
            self.attributes,
            table,
            features,
            self._noun,
            narrow=narrow,
            first_row=first_row,
            **policies,
        )
        for name, position in zip(self.required, required, strict=False):
            missing = np.fromiter(
                map(is_missing, table.column(position)), bool, table.n_rows
            )
            if handle_missing == "error" and missing.any():
                row = first_row + int(missing.argmax())
                raise cell_error(row, name, MISSING, self._noun)
            keep &= ~missing
        if y is None:
            return codes
        class_codes = self._read_labels(y, table.n_rows)
        for marker, choice in ((MISSING, handle_missing), (UNKNOWN, handle_unknown)):
            bad = class_codes == marker
            if choice == "drop":
                keep &= ~bad
            elif bad.any():
                row = first_row + int(bad.argmax())
                facts = read_vector(y), self.n_classes
                raise label_error(row, marker, *facts, policies=True)
        index = np.flatnonzero(keep) if return_index or not keep.all() else None
        if index is not None and index.size < table.n_rows:
            codes, class_codes = codes[index], class_codes[index]
        dtype = np.min_scalar_type(self.n_classes - 1) if narrow else np.int64
        class_codes = class_codes.astype(dtype, copy=False)
        return (codes, class_codes, index) if return_index else (codes, class_codes)

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
        >>> from mmech_rf import Attribute, Schema
        >>> schema = Schema([Attribute.categorical("a", ["0", "1"])], ["-1", "1"])
        >>> schema.encode_target([1, -1, 1.0])
        array([1, 0, 1])
        """
        codes = read_once(read_held(y), self._class_table.codes)
        if codes.size and codes.min() < 0:
            row = int((codes < 0).argmax())
            facts = read_vector(y), self.n_classes
            raise label_error(row, int(codes[row]), *facts, policies=False)
        return codes.astype(np.int64, copy=False)

    def check(
        self,
        X: Any,
        y: Any = None,
        *,
        handle_unknown: str = "clip",
    ) -> list[Misfit]:
        """List every cell that the schema cannot read, for the owner of the records.

        The list holds values of records and is not covered by the privacy guarantee,
        see `Domain.check`.

        Parameters
        ----------
        X, y, handle_unknown
            As in `encode`. Numbers outside the bounds fit where they are clipped.

        Returns
        -------
        list of Misfit
            Named tuples ``(row, column, value, problem)`` in the order of the rows.

        Examples
        --------
        >>> from mmech_rf import Attribute, Schema
        >>> schema = Schema([Attribute.categorical("shape", ["round"])], [0, 1])
        >>> schema.check([["round"], ["squre"]], [0, 1])
        [Misfit(row=1, column='shape', value='squre',
                problem='a value outside the domain of the attribute')]
        """
        check_policies(self.attributes, handle_unknown=handle_unknown)
        table = read_table(X)
        features, required = table.locate(
            self.names, self._noun, self.required, read_required=y is not None
        )
        misfits = self._misfits(table, features, clip=handle_unknown == "clip")
        for name, position in zip(self.required, required, strict=False):
            values = table.column(position)
            missing = [MISSING if is_missing(value) else 0 for value in values]
            misfits += list_misfits(name, values, np.array(missing, np.int64))
        if y is not None:
            codes = self._read_labels(y, table.n_rows)
            misfits += list_misfits(self.target, read_vector(y), codes, LABEL_PROBLEMS)
        return sorted(misfits, key=lambda misfit: misfit.row)

    def _read_labels(self, y: Any, n_rows: int) -> NDArray[np.signedinteger[Any]]:
        """Return the codes of raw labels, with a marker where there is none."""
        codes = read_once(read_held(y), self._class_table.codes)
        if codes.shape[0] != n_rows:
            raise ValueError(
                f"X has {n_rows} rows but y has {codes.shape[0]} labels; "
                "give one label per row"
            )
        return codes

    @cached_property
    def _class_table(self) -> CategoryTable:
        return CategoryTable(self.class_labels)

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
        >>> from mmech_rf import Attribute, Schema
        >>> Schema([Attribute.categorical("a", [0, 1])], [-1, 1]).decode_target([1, 0])
        array([ 1, -1])
        """
        labels = self.class_labels
        known = np.empty(len(labels), dtype=object)
        known[:] = labels
        if len({type(label) for label in labels}) == 1:
            known = np.array(labels)
        codes = np.asarray(class_codes, dtype=np.int64)
        if codes.size and not (codes.min() >= 0 and codes.max() < len(labels)):
            raise ValueError(
                f"class codes must be at least 0 and below {len(labels)}; "
                "pass what encode_target returns"
            )
        return known[codes]

    # ---- sources ---------------------------------------------------------------

    @classmethod
    def from_json(cls, source: Any, *, n_bins: int = 10) -> Self:
        """Read a schema from a file.

        It has ``features`` (categories, or for a number bounds and ``n_bins`` or
        ``cut_points``, as in `Attribute`) and a ``target`` object:
        what `to_json` writes, and ``mmech/domain/schema.json`` (JSON Schema) describes.
        The discretisations of the matrix-random-forest paper, with ``attributes`` and
        a ``target`` name, are read too: ``dropped_after`` becomes `required`, and what
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
        return super().from_json(source, n_bins=n_bins)

    @classmethod
    def _parse(
        cls, document: dict[str, Any], n_bins: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        return parsed(document, cls._noun, n_bins)

    def _entries(self) -> dict[str, Any]:
        target = {"name": self.target, "categories": self.class_labels}
        required = {"required": self.required} if self.required else {}
        return super()._entries() | {"target": target} | required

    @classmethod
    def from_bounds(
        cls,
        lower: Any,
        upper: Any,
        class_labels: Any,
        *,
        names: Iterable[str] | None = None,
        n_bins: int = 10,
    ) -> Self:
        """Describe the columns of an array of numbers by their public bounds.

        Parameters
        ----------
        lower, upper : sequence of float, length d
            Least and largest value that a column may have. They come from
            documentation: ``X.min(axis=0)`` tells about single records.
        class_labels : sequence of str, bool, int or float
            As in `Schema`.
        names : sequence of str, optional
            Names of the columns, ``x0``, ``x1``, ... by default.
        n_bins : int, default=10
            Number of bins of equal width of every column.

        Returns
        -------
        Schema

        Raises
        ------
        TypeError
            If bounds are not sequences of numbers.
        ValueError
            If there are not as many lower bounds as upper ones and names, or a lower
            bound is not below the upper one.

        Examples
        --------
        >>> Schema.from_bounds([0, 18], [1, 90], [False, True], n_bins=4)
        Schema(domain_shape=(4, 4), n_cells=16, class_labels=(False, True))
        """
        least, most = as_tuple(lower, "lower"), as_tuple(upper, "upper")
        given = [f"x{j}" for j in range(len(least))] if names is None else names
        columns = as_tuple(given, "names")
        if not len(least) == len(most) == len(columns):
            raise ValueError(
                "lower, upper and names must have one entry for each column, got "
                f"{len(least)}, {len(most)} and {len(columns)}; name every column once"
            )
        attributes = [
            Attribute.numeric(name, lower=a, upper=b, n_bins=n_bins)
            for name, a, b in zip(columns, least, most, strict=True)
        ]
        return cls(tuple(attributes), class_labels)

    def with_cut_points(self, model: Any) -> Self:
        """Return the schema whose numbers are cut where a public model tests them.

        In its cells, records reach the leaves that ``model.apply`` finds for them.
        scikit-learn rounds numbers to 32 bits before it compares them. Hence a cut
        point is the largest number that it finds to be at most a threshold. Attributes
        that the model does not test stay as they are.

        Parameters
        ----------
        model : estimator of scikit-learn
            Fitted to raw values of these columns, as for `compile_forest`. Its
            thresholds tell about the records that it was fitted to: it has to be
            public.

        Returns
        -------
        Schema

        Raises
        ------
        TypeError
            If the model is not of a kind that `compile_forest` takes.
        ValueError
            If it has other columns, or tests an attribute that is not a number between
            these bounds.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from mmech_rf import Schema
        >>> schema = Schema.from_bounds([0], [100], ["no", "yes"])
        >>> tree = DecisionTreeClassifier().fit([[20], [41], [60]], ["no", "yes", "no"])
        >>> schema.with_cut_points(tree).encode([[30.5], [30.6], [51]]).ravel()
        array([0, 1, 2])
        """
        nodes = fitted_nodes(model, self.names)
        attributes = []
        for j, attribute in enumerate(self.attributes):
            if cuts := nodes.cuts_of(j, attribute):
                attribute = replace(
                    attribute, cut_points=cuts, n_bins=None, categories=()
                )
            attributes.append(attribute)
        return replace(self, attributes=tuple(attributes))

    @classmethod
    def infer(
        cls,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        target: str = "class",
        name: str | None = None,
    ) -> Self:
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
        table = read_table(X)
        names = table.names or [f"x{j}" for j in range(len(table.columns))]
        attributes = [
            infer_attribute(column_name, table.column(j), n_bins)
            for j, column_name in enumerate(names)
        ]
        labels, has_missing = distinct_values(read_vector(y), "y")
        if has_missing:
            raise ValueError(
                "y holds a missing value (empty, None or NaN); remove these records"
            )
        return cls(tuple(attributes), tuple(labels), target=target, name=name)

    # ---- display ---------------------------------------------------------------

    def __repr__(self) -> str:
        """Show structure and size in one line."""
        summary = self._summary("domain_shape")
        return f"Schema({summary}, class_labels={self.class_labels})"

    def _rows(self) -> list[tuple[str, str, int, tuple[Any, ...]]]:
        classes = (self.target, "classes", self.n_classes, self.class_labels)
        return [*super()._rows(), classes]


# ---- errors --------------------------------------------------------------------


def _check_queries(policies: Mapping[str, str], *, return_index: bool) -> None:
    """Raise for what would leave a query without an answer."""
    for option, choice in policies.items():
        if choice == "drop":
            raise ParameterError(
                option,
                f"{{{option}='drop'}} needs y, because every query needs an answer",
                remedy=(
                    "give y for training records",
                    "choose another way for queries",
                ),
            )
    if return_index:
        raise ValueError(
            "return_index=True needs y, because no query is ever dropped; leave it out"
        )


def check_schema(schema: Any) -> None:
    """Raise unless it is a schema."""
    if not isinstance(schema, Schema):
        raise TypeError(
            f"schema must be a Schema, got {type(schema).__name__}; read one with "
            "Schema.from_json"
        )


LABEL_PROBLEMS = {
    MISSING: PROBLEMS[MISSING],
    UNKNOWN: "a label that is not one of the classes",
}
_TYPES: dict[str, type] = {"int": int, "bool": bool, "str": str}
_WORDS = {"true": True, "1": True, "false": False, "0": False}


def label_of_type(label: Any, kind: str) -> Any:
    """Return a public class label as an integer, a boolean or text, or raise.

    >>> label_of_type("-1", "int"), label_of_type("False", "bool")
    (-1, False)
    """
    check_choice(kind, "the type of the class labels", _TYPES)
    if isinstance(label, _TYPES[kind]) and not (
        kind == "int" and isinstance(label, bool)
    ):
        return label
    try:
        if kind == "int":
            return int(str(label).replace("_", "?"))
        if kind == "bool":
            return _WORDS[str(label).lower()]
    except (KeyError, ValueError):
        raise ValueError(
            f"the class label {label!r} cannot be written as {kind}; correct the label "
            "or the type"
        ) from None
    return str(label)


def label_error(
    row: int, marker: int, labels: NDArray[Any], n_classes: int, *, policies: bool
) -> ParameterError:
    """Return the error for one of all labels, which policies may settle or not."""
    way = "{handle_missing=}" if marker == MISSING else "{handle_unknown=}"
    extend = "add it to {class_labels} of the schema"
    if policies:
        first = f"{look('schema')}, then "
        remedy = {
            MISSING: (f"{first}fill it in", f"choose {way}"),
            UNKNOWN: (f"{first}correct it", extend, f"choose {way}"),
        }
    else:
        remedy = {
            MISSING: ("fill it in", "leave its record out"),
            UNKNOWN: ("correct it", extend),
        }
    need = f"row {row} of {{y}} holds {LABEL_PROBLEMS[marker]}"
    if labels.dtype.kind in "iu" and 0 <= labels.min() <= labels.max() < n_classes:
        numbers = f"0 to {n_classes - 1}"
        encoded = f"{numbers}, as ensembles and cross_val_predict encode classes"
        as_codes = (
            f"give a Schema the {{class_labels}} {numbers}, and fit to what "
            "{Schema.encode_target} makes of your labels"
        )
        return ParameterError("y", need, encoded, ("correct it", as_codes))
    return ParameterError("y", need, remedy=remedy[marker])
