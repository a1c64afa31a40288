"""Class labels: their types in files, their codes, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mmech.checks import check_choice
from mmech.domain.encoding import PROBLEMS, look
from mmech.domain.values import MISSING, UNKNOWN
from mmech.exceptions import ParameterError

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
