"""Numbers are cut by public facts: cut points or bounds."""

import pytest

from mmech_rf import Attribute, Schema


def schema_of(**entry):
    document = {
        "features": [{"name": "income", "type": "numeric", **entry}],
        "target": {"name": "class", "categories": ["no", "yes"]},
    }
    return Schema.from_json(document, n_bins=5).attributes[0]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"lower": 0, "upper": 10}, {"n_bins": 5}),
        ({"lower": 0, "upper": 10, "n_bins": 2}, {"cut_points": [5]}),
        ({"lower": 0, "upper": 10, "cut_points": [1, 7]}, {"cut_points": [1, 7]}),
        ({"cut_points": [1, 7]}, {"cut_points": [1, 7], "lower": None, "upper": None}),
        ({"lower": 0, "upper": 10, "n_bins": 2, "other": "?"},
         {"cut_points": [5], "other": "?"}),
    ],
)  # fmt: skip
def test_schema_files_declare_how_numbers_are_cut(entry, expected):
    given = {"lower": 0, "upper": 10} | expected
    assert schema_of(**entry) == Attribute.numeric("income", **given)
