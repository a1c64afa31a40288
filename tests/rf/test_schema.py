"""Schemas: construction, and matching of raw values."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from schema_cases import AGE, TOY, one

from mmech_rf.schema import Attribute, Schema

# ---------------------------------------------------------------- construction


def test_numpy_scalars_become_python_scalars():
    attribute = Attribute.categorical("a", np.array([1, 2]))
    schema = Schema([attribute], np.array([-1.0, 1.0]))
    assert [type(c) for c in attribute.categories] == [int, int]
    assert [type(c) for c in schema.class_labels] == [float, float]


def test_columns_of_an_array_by_their_bounds():
    lower, upper = np.array([0, -1.0]), np.array([4, 1.0])
    schema = Schema.from_bounds(lower, upper, ["no", "yes"], n_bins=2)
    assert schema.names == ("x0", "x1")
    assert schema.attributes[1].labels == ("[-1, 0]", "(0, 1]")
    assert Schema.from_bounds([0], [4], [0, 1], names=["age"]).names == ("age",)
    assert Schema.from_bounds([0], [4], [0, 1]).domain_shape == (10,)
    for call, words in (
        (lambda: Schema.from_bounds(lower, [1], [0, 1]), "got 2, 1 and 2; name every"),
        (lambda: Schema.from_bounds([0], [1], [0, 1], names="x y"), "must be a sequen"),
        (lambda: Schema.from_bounds(0, 1, [0, 1]), "lower must be a sequence, got int"),
        (lambda: Schema.from_bounds([1], [0], [0, 1]), "'x0'"),
    ):
        refused(call, words)


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"lower": 0, "upper": 3, "n_bins": 2}, ("[0, 1.5]", "(1.5, 3]")),
        ({"lower": 0, "upper": 3, "n_bins": 1}, ("[0, 3]",)),
        ({"lower": 0, "upper": 3, "cut_points": [0]}, ("[0, 0]", "(0, 3]")),
        ({"cut_points": [1, 2]}, ("<= 1", "(1, 2]", "> 2")),
        ({"cut_points": [1], "other": "none"}, ("<= 1", "> 1", "none")),
        ({"cut_points": [1], "categories": ["lo", "hi"]}, ("lo", "hi")),
    ],
)
def test_labels_of_numeric_attributes(options, labels):
    assert Attribute.numeric("a", **options).labels == labels


def test_display():
    assert repr(TOY) == (
        "Schema('toy', domain_shape=(3, 2, 4), n_cells=24, class_labels=('no', 'yes'))"
    )
    assert eval(repr(AGE)) == AGE
    assert "..." in str(Schema([Attribute.categorical("a", range(99))], [0, 1]))


# -------------------------------------------------------------------- matching


@pytest.mark.parametrize(
    ("categories", "value", "code"),
    [
        (["low", "med"], "med", 1), (["low", "med"], np.str_("med"), 1),
        (["false", "true"], True, 1), (["False", "True"], np.False_, 0),
        ([False, True], "true", 1), ([False, True], "False", 0), ([False, True], 1, 1),
        (["0", "1"], True, 1), (["0", "1"], "True", 1), ([0, 1], "False", 0),
        (["0", "1"], 1, 1), (["0", "1"], 1.0, 1), (["0", "1"], -0.0, 0),
        (["0", "1"], np.int8(1), 1), (["0", "1"], np.float32(1), 1), ([0, 1], "1", 1),
        ([0.0, 1.0], "1", 1), ([0.0, 1.0], "1.0", 1), ([0.1, 0.2], np.float32(0.2), 1),
        (["0.1", "0.2"], 0.2, 1), (["0.1", "0.2"], Decimal("0.2"), 1),
        (["-1", "1"], -1, 0), ([10**30, 1], str(10**30), 0), (["None", "x"], "None", 0),
        (["x", "?"], "", 1), (["x", "?"], None, 1), (["x", "?"], np.nan, 1),
        (["x", "?"], "?", 1), (["x", "?"], pd.NA, 1), (["x", "?"], pd.NaT, 1),
        (["x", "?"], Decimal("nan"), 1), (["x", "?"], np.datetime64("nat"), 1),
    ],
)  # fmt: skip
def test_values_match_by_equality_then_as_text(categories, value, code):
    assert one(Attribute.categorical("a", categories), value) == code


@pytest.mark.parametrize(
    ("problem", "values"),
    [
        ("outside the domain", ["Low", " low", "lo", 0, True, b"low", ["low"], {}]),
        ("missing value", [None, np.nan, pd.NA, "", "  ", "?"]),
    ],
)
def test_values_that_match_nothing(problem, values):
    attribute = Attribute.categorical("a", ["low", "med", "None", "nan", "<NA>"])
    for value in values:
        with pytest.raises(ValueError, match=problem):
            one(attribute, value)


@pytest.mark.parametrize(
    ("groups", "values", "codes"),
    [
        (
            {"x": ["State", "City", 7]},
            ["State", "City", "7", "x", "y"],
            [0, 0, 0, 0, 1],
        ),
        ({"x": ["y"], "y": ["x"]}, ["y", "x"], [0, 1]),
    ],
)
def test_groups_map_raw_values_then_their_own_names(groups, values, codes):
    attribute = Attribute.categorical("a", ["x", "y"], groups=groups)
    assert [one(attribute, value) for value in values] == codes


def test_value_map_is_read_as_text_and_strict():
    attribute = Attribute.categorical(
        "thal", ["0", "1", "2", "?"], value_map={"3": 0, "6": 1, "7": 2}
    )
    assert [one(attribute, v) for v in ("3", 6, 7.0, None)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="a value outside the domain"):
        one(attribute, "0")


def test_without_bounds_every_finite_number_is_known():
    attribute = Attribute.numeric("a", cut_points=[0])
    assert one(attribute, -1e300) == 0
    assert one(attribute, 1e300) == 1
    assert one(attribute, np.inf) == 1
    with pytest.raises(ValueError, match=r"holds infinity, or a number"):
        Schema([attribute], [0, 1]).encode([[np.inf]], handle_unknown="error")
