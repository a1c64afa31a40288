"""Domains as JSON, in the form that ``schema.json`` describes.

What describes attributes and more, such as classes, has files of its own that hold
attributes in the same words. Messages call it by a `noun`, such as ``"domain"``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mmech.checks import check_choice, check_file, check_text, nearest, parsed_json
from mmech.domain.attribute import FIELDS, KINDS
from mmech.domain.hierarchies import read_tree
from mmech.writing import replacing

_REMARKS = frozenset(
    [
        *("bounds_note", "derivation", "description", "dropped_lines"),
        *("feature_domain_size", "integer", "interval_rule", "missing", "n_rows"),
        *("note", "notes", "one_hot_groups", "paper_name", "shape", "source"),
        *("split", "unit", "value_map_to_mrf"),
    ]
)
"""Keys that say something to people, and may stand anywhere."""

READ = "read_from_records"
"""The mark of a document whose values were read from the records."""

_PAIRS = ("groups", "value_map", "levels")

_NEEDED = {"numeric": ("lower", "upper"), "date": ("lower", "upper", "unit")}
"""Keys that an entry needs if it has no cut points; others need categories."""


# ---- documents -----------------------------------------------------------------


def read_document(source: Any, noun: str) -> dict[str, Any]:
    """Return the JSON object in a path, an open file, a JSON text or a dict.

    Files of codes that a document in a path names lie beside it.
    """
    folder = ""
    if isinstance(source, Mapping):
        return dict(source)
    if hasattr(source, "read"):
        text = source.read()
    elif isinstance(source, str) and source.lstrip().startswith("{"):
        text = source
    elif isinstance(source, (str, os.PathLike)):
        path = check_file(source)
        folder = os.path.dirname(path)
        with open(path, "rb") as stream:
            text = stream.read()
        check_text(text, f"the {noun}", "name the JSON file")
    else:
        raise TypeError(
            f"a {noun} is read from a path, an open file, a JSON text or a dict, "
            f"got {type(source).__name__}; pass one of those"
        )
    try:
        document = parsed_json(text)
        if not isinstance(document, dict):
            raise ValueError(f"an object is needed, got {type(document).__name__}")
    except ValueError as error:
        raise ValueError(
            f"the {noun} is not valid JSON ({error}); correct the file, and check "
            f"that it is the {noun}, not the records"
        ) from None
    features = document.get("features")
    for entry in features if folder and isinstance(features, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("tree"), str):
            entry["tree"] = os.path.join(folder, entry["tree"])
    return document


def write_document(
    document: Mapping[str, Any], path: str | os.PathLike[str] | None
) -> str | None:
    """Write JSON to a file, whole or not at all, or return it."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    if path is None:
        return text
    with replacing(path) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
    return None


# ---- checks --------------------------------------------------------------------


@contextmanager
def parsing(noun: str) -> Iterator[None]:
    """Say where a document is malformed, whatever its entries fail with."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"the {noun} is malformed near {error}; compare it with a file "
            f"written by {noun.capitalize()}.to_json"
        ) from error


def unknown_kind(noun: str, kinds: str, document: Mapping[str, Any]) -> ValueError:
    """Return the error for a document of none of the kinds that are read."""
    found = ", ".join(map(repr, list(document)[:5])) or "nothing"
    return ValueError(
        f"the {noun} is of no known kind: it needs {kinds}, got {found}; add what is "
        "missing"
    )


def check_keys(
    entry: Mapping[str, Any],
    known: Sequence[str] | None,
    what: str,
    needed: Sequence[str] = (),
) -> None:
    """Raise for a key that is missing, or that is not known and would be ignored."""
    if not isinstance(entry, Mapping):
        raise TypeError(f"{what}, which must be an object, got {entry!r:.40}")
    for key in needed:
        if key not in entry:
            raise ValueError(f"{key!r} is missing in {what}; add it")
    for key in entry:
        if known is not None and key not in known and key not in _REMARKS:
            hint = nearest(key, known, f"it may have {', '.join(known)}")
            raise ValueError(f"unknown key {key!r:.60} of {what}; {hint}")


# ---- attributes ----------------------------------------------------------------


def marked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mark of a document that has one, as an argument."""
    return {READ: document[READ]} if READ in document else {}


def described_target(entry: Any) -> dict[str, Any]:
    """Return the arguments of an attribute whose categories are classes."""
    known, needed = ("name", "type", "categories"), ("name", "categories")
    check_keys(entry, known, "the target", needed)
    categories = entry["categories"]
    return {"name": entry["name"], "kind": "categorical", "categories": categories}


def _described_tree(entry: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the arguments of an attribute whose categories are a tree."""
    known = ("name", "type", "other", "monotone", "tree", "levels", "columns")
    check_keys(entry, known, what, ("tree",))
    tree = entry["tree"], entry.get("levels"), entry.get("columns", ())
    own = {key: entry[key] for key in ("name", "other", "monotone") if key in entry}
    return {**own, "kind": "categorical", **read_tree(entry["name"], *tree)}


def described_attributes(
    document: Mapping[str, Any], noun: str, n_bins: int, more: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the arguments of the attributes in the ``features`` of a document."""
    check_keys(document, ("name", "features", *more), f"the {noun}")
    if not isinstance(document["features"], list | tuple):
        got = type(document["features"]).__name__
        raise ValueError(
            f"'features' must be a list with an entry for each attribute, got {got}"
        )
    attributes = []
    for entry in document["features"]:
        check_keys(entry, None, "an entry of features", ("name", "type"))
        fields: dict[str, Any] = {"name": entry["name"]}
        what = f"attribute {entry['name']!r:.60}"
        check_choice(entry["type"], f"the type of {what}", (*KINDS, "hierarchy"))
        if entry["type"] == "hierarchy":
            attributes.append(_described_tree(entry, what))
            continue
        what, kind = f"{what}, which is {entry['type']}", entry["type"]
        own_keys: tuple[str, ...] = FIELDS[kind]
        if kind not in _NEEDED:
            own_keys = (*FIELDS["categorical"], "ordered")
        needed = () if "cut_points" in entry else _NEEDED.get(kind, ("categories",))
        check_keys(entry, ("name", "type", *own_keys), what, needed)
        if kind == "numeric" and "cut_points" not in entry:
            fields |= {"n_bins": n_bins}
        fields |= {key: entry[key] for key in own_keys if key in entry}
        kind = "ordinal" if fields.pop("ordered", False) else kind
        pairs = {key: dict(map(tuple, entry[key])) for key in _PAIRS if key in entry}
        attributes.append({**fields, "kind": kind, **pairs})
    return attributes
