"""Schemas in files: the form that is written, and a paper's form that is only read."""

from __future__ import annotations

from typing import Any

from mmech.domain import files

Parsed = tuple[list[dict[str, Any]], dict[str, Any]]
"""Arguments of every `Attribute`, and the other arguments of the `Schema`."""


def parsed(document: dict[str, Any], noun: str, n_bins: int) -> Parsed:
    """Return what a file in either form says about a schema."""
    if "features" not in document:
        if "attributes" in document:
            return _parse_mrf(document)
        raise files.unknown_kind(
            noun, "'features' with 'target', or 'attributes' with 'target'", document
        )
    if "target" not in document:  # a domain has all but the class
        raise ValueError(
            f"the {noun} has no 'target', which names the class and its "
            "categories; add it, or use the file as a domain, with `mmech`"
        )
    entries = files.described_attributes(
        document, noun, n_bins, ("target", "required", files.READ)
    )
    target = document["target"]
    files.check_keys(target, ("name", "type", "categories"), "the target")
    return entries, {
        "class_labels": target["categories"],
        "label_type": target.get("type"),
        "target": target["name"],
        "name": document.get("name"),
        "required": document.get("required", ()),
        **files.marked(document),
    }


# ---- files of the matrix-random-forest paper -----------------------------------

_MRF_KEYS = ("name", "type", "categories", "cutoffs", "groups", "value_map")


def _parse_mrf(document: dict[str, Any]) -> Parsed:
    keys = ("name", "attributes", "target", "dropped_after", "not_used")
    files.check_keys(document, keys, "the schema")
    target = document["target"]
    required = tuple(document.get("dropped_after", ()))
    left_out = {target, *required, *document.get("not_used", ())}
    attributes, class_labels = [], None
    for entry in document["attributes"]:
        files.check_keys(entry, _MRF_KEYS, f"attribute {entry['name']!r}")
        if entry["name"] == target:
            class_labels = entry["categories"]
        if entry["name"] in left_out:
            continue
        fields = {"name": entry["name"], "kind": entry["type"]}
        fields["categories"] = entry.get("categories", ())
        if entry["type"] == "numeric":
            fields["cut_points"] = entry["cutoffs"]
        for key in ("groups", "value_map"):
            if entry.get(key):
                fields[key] = entry[key]
        attributes.append(fields)
    if class_labels is None:
        raise ValueError(
            f"the schema names the target {target!r} but has no attribute of that "
            "name with its categories; add it"
        )
    return attributes, {
        "class_labels": class_labels,
        "target": target,
        "name": document.get("name"),
        "required": required,
    }
