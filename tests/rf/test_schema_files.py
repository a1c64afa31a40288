"""Schemas as files, those that were published, and inference from data."""

import csv
import gzip
import io
import json
import os
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_cases import TOY, one

from mmech.exceptions import PrivacyLeakWarning
from mmech_rf.schema import Attribute, Schema

DATA_DIR = os.environ.get("MMECH_DATA_DIR", "")
SCHEMA_FILES = [
    path.name for path in sorted(Path(DATA_DIR).glob("*schema.json")) if DATA_DIR
]
needs_data = pytest.mark.skipif(
    not DATA_DIR, reason="MMECH_DATA_DIR does not name the folder of data files"
)


@cache
def read_frame(name):
    with gzip.open(Path(DATA_DIR) / f"{name}.csv.gz", "rt", newline="") as stream:
        header, *rows = csv.reader(stream)
    return pd.DataFrame(np.array(rows, dtype=object), columns=header)


# ----------------------------------------------------------------------- files

WORDS = st.text(
    st.characters(codec="utf-8", exclude_characters="?"), min_size=1, max_size=5
).filter(str.strip)
SCALARS = st.one_of(
    WORDS, st.booleans(), st.integers(-9, 9), st.floats(-9, 9).filter(bool)
)
CATEGORIES = st.lists(SCALARS, min_size=2, max_size=5, unique_by=(str, lambda v: v))


@st.composite
def attributes(draw, name):
    if draw(st.booleans()):
        categories = draw(CATEGORIES)
        options = {}
        if draw(st.booleans()):
            words = [c for c in categories if isinstance(c, str)]
            options["other"] = draw(st.sampled_from(words or [None]))
        if draw(st.booleans()):
            options["groups"] = {categories[0]: ["raw 1", 17.5]}
        if draw(st.booleans()):
            options["value_map"] = {"raw 2": categories[1], 99: categories[0]}
        kind = draw(st.sampled_from(["categorical", "ordinal"]))
        return Attribute(name, kind, categories, **options)
    cuts = draw(st.lists(st.floats(-1e6, 1e6), unique=True, max_size=4).map(sorted))
    cuts = [c + 0.0 for c in cuts]
    options = {"other": draw(st.sampled_from([None, "none"]))}
    if draw(st.booleans()) or not cuts:
        options |= {"lower": -2e6, "upper": draw(st.floats(2e6, 1e9))}
    if cuts and draw(st.booleans()):
        options["categories"] = [f"bin {k}" for k in range(len(cuts) + 1)]
    if not cuts:
        options["n_bins"] = draw(st.integers(1, 7))
    return Attribute.numeric(name, cut_points=cuts, **options)


@st.composite
def schemas(draw):
    d = draw(st.integers(1, 4))
    return Schema(
        [draw(attributes(f"a{j}")) for j in range(d)],
        draw(CATEGORIES),
        target=draw(st.sampled_from(["class", "y"])),
        name=draw(st.sampled_from([None, "toy"])),
        required=draw(st.sampled_from([(), ("r", "s")])),
    )


@given(schemas(), st.data())
def test_decode_then_encode_is_the_identity(schema, data):
    kinds = [(a.kind, a.value_map) for a in schema.attributes]
    invertible = [j for j, (k, v) in enumerate(kinds) if k != "numeric" and v is None]
    if not invertible:
        return
    schema = schema.select([schema.names[j] for j in invertible])
    codes = [data.draw(st.integers(0, size - 1)) for size in schema.domain_shape]
    assert schema.encode([schema.decode(codes)]).tolist() == [codes]
    labels = schema.decode_target([0, schema.n_classes - 1])
    assert schema.encode_target(labels).tolist() == [0, schema.n_classes - 1]


@given(schemas(), st.data())
def test_every_known_value_gets_a_code_inside_the_domain(schema, data):
    for attribute in schema.attributes:
        if attribute.kind == "numeric":
            bounds = (-2e6, attribute.upper or 1e9)
            value = data.draw(st.floats(*bounds))
            code = one(attribute, value)
            assert 0 <= code <= len(attribute.cut_points)
            assert code == sum(value > cut for cut in attribute.cut_points)


def test_sources_of_json(tmp_path):
    text = TOY.to_json()
    path = tmp_path / "toy.json"
    assert TOY.to_json(path) is None
    with open(path, "rb") as stream:
        assert Schema.from_json(stream) == TOY
    for source in (path, str(path), text, io.StringIO(text), json.loads(text)):
        assert Schema.from_json(source) == TOY


FEATURES = {
    "name": "toy",
    "features": [{"name": "a", "type": "categorical", "categories": ["x", "y"]},
        {"name": "b", "type": "categorical", "categories": ["1"], "ordered": True},
        {"name": "n", "type": "numeric", "lower": 0, "upper": 90, "integer": True}],
    "target": {"name": "label", "categories": ["0", "1"]},
}  # fmt: skip


def test_files_with_features():
    schema = Schema.from_json(FEATURES)
    assert [a.kind for a in schema.attributes] == ["categorical", "ordinal", "numeric"]
    assert schema.domain_shape == (2, 1, 10)
    assert (schema.name, schema.target) == ("toy", "label")
    assert Schema.from_json(FEATURES, n_bins=3).domain_shape == (2, 1, 3)


@pytest.mark.parametrize(
    ("labels", "kind", "expected"),
    [
        (["0", "1"], None, ["0", "1"]),
        ([0, 1], None, [0, 1]),
        ([False, True], None, [False, True]),
        (["0", "-1"], "int", [0, -1]),
        (["0", "1"], "bool", [False, True]),
        (["true", "False"], "bool", [True, False]),
        ([1, 0], "str", ["1", "0"]),
    ],
)
def test_files_say_the_type_of_the_labels(labels, kind, expected):
    target = {"name": "c", "categories": labels}
    schema = Schema.from_json(
        FEATURES | {"target": target if kind is None else target | {"type": kind}}
    )
    for twin in (schema, Schema.from_json(schema.to_json())):
        assert list(twin.class_labels) == expected
        assert list(map(type, twin.class_labels)) == list(map(type, expected))
    again = Schema(schema.attributes, labels, label_type=kind)
    assert again.class_labels == schema.class_labels
    own = json.loads(again.to_json())
    own["target"] |= {"categories": labels} | ({} if kind is None else {"type": kind})
    assert Schema.from_json(own) == again


# ------------------------------------------------------- the published schemas


@pytest.mark.by_day(4)
@needs_data
@pytest.mark.parametrize("file", SCHEMA_FILES)
def test_published_schemas_load_and_encode_their_data(file):
    schema = Schema.from_json(Path(DATA_DIR) / file)
    document = json.loads((Path(DATA_DIR) / file).read_text())
    X = read_frame(schema.name)
    y = X["class"]
    assert len(X) == document.get("n_rows", len(X))
    if "shape" in document:
        names = [entry["name"] for entry in document["attributes"]]
        sizes = dict(zip(names, document["shape"], strict=True))
        assert schema.domain_shape == tuple(sizes[n] for n in schema.feature_names)
        assert schema.n_classes == sizes["class"]
    complete = not (X[[*schema.feature_names, *schema.required]] == "").any(axis=None)
    errors = complete or schema.name == "mushroom"
    mode = "error" if errors and file != "mushroom.schema.json" else "drop"
    codes, labels = schema.encode(X, y, handle_missing=mode)
    assert codes.shape[1] == schema.n_features
    assert ((codes >= 0) & (codes < np.array(schema.domain_shape))).all()
    assert len(np.unique(labels)) == schema.n_classes
    if mode == "error":
        assert len(codes) == len(X)
    assert Schema.from_json(schema.to_json()) == schema


# ------------------------------------------------------------------- inference


def infer(X, y, **options):
    with pytest.warns(PrivacyLeakWarning, match="are read from the data, which voids"):
        return Schema.infer(X, y, **options)


def test_infer_reads_numbers_as_bounds_and_the_rest_as_categories():
    numbers = np.array([0.5, 1, 0], dtype=object)
    columns = {"n": [1, 2, 5], "m": numbers, "b": [True, False, True]}
    X = pd.DataFrame(columns | {"s": ["y", "x", None]})
    schema = infer(X, [2, 0, 2], n_bins=4, target="t", name="toy")
    n, m, b, s = schema.attributes
    assert (n.kind, n.lower, n.upper, n.size) == ("numeric", 1, 5, 4)
    assert (m.kind, m.lower, m.upper) == ("numeric", 0, 1)
    assert (b.kind, b.categories) == ("categorical", (False, True))
    assert s.categories == ("x", "y", "?")
    assert schema.class_labels == (0, 2)
    assert (schema.target, schema.name) == ("t", "toy")
    assert schema.encode(X).shape == (3, 4)


def test_infer_from_arrays_and_rows():
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = X[:, 0] > 0
    schema = infer(X, y)
    assert schema.feature_names == ("x0", "x1", "x2")
    assert schema.domain_shape == (10, 10, 10)
    assert schema.class_labels == (False, True)
    assert infer(X.tolist(), y.tolist()) == schema
    assert infer(dict(zip("abc", X.T, strict=True)), y).feature_names == ("a", "b", "c")
    assert (schema.encode(X).min(0) == 0).all()
    assert (schema.encode(X).max(0) == 9).all()


@pytest.mark.parametrize("value", [0.0, 5, -3.5, 1e308, -1e308, 1e-320])
def test_infer_from_a_constant_column(value):
    schema = infer([[value], [value]], ["a", "b"])
    assert schema.attributes[0].lower < value < schema.attributes[0].upper
    assert schema.encode([[value]]).shape == (1, 1)


def test_infer_mixed_and_empty_columns():
    schema = infer([["x", None], [1, ""], ["1", None]], ["a", "b", "b"])
    assert schema.attributes[0].categories == (1, "x")
    assert schema.attributes[1].categories == ("?",)
    assert schema.encode([["1", None]]).tolist() == [[0, 0]]


# ----------------------------------------------------------------- the JSON Schema

KEYS = json.loads(resources.files("mmech.domain").joinpath("schema.json").read_text())


@given(schemas())
def test_a_file_holds_its_schema_and_keeps_to_the_json_schema(schema):
    assert Schema.from_json(schema.to_json()) == schema
    written = json.loads(schema.to_json())
    validator(KEYS).validate(written)
    wrong = {**written, "features": [{**written["features"][0], "kind": "numeric"}]}
    assert not validator(KEYS).is_valid(wrong)


@needs_data
@pytest.mark.parametrize("file", [f for f in SCHEMA_FILES if ".mrf_" not in f])
def test_the_json_schema_describes_published_features(file):
    """Beside remarks to people, which only reading forgives."""
    document = json.loads((Path(DATA_DIR) / file).read_text())
    known = KEYS["$defs"]["feature"]["properties"]
    document = {k: v for k, v in document.items() if k in KEYS["properties"]}
    for entry in document["features"]:
        for key in entry.keys() - known.keys():
            del entry[key]
    target = document["target"]
    for key in target.keys() - KEYS["properties"]["target"]["properties"].keys():
        del target[key]
    validator(KEYS).validate(document)


def validator(keys):
    return pytest.importorskip("jsonschema").Draft202012Validator(keys)
