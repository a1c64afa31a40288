"""Numbers are cut by public facts: cut points, bounds or published quantiles."""

import numpy as np
import pytest

from mmech_rf import Attribute, Schema

PUBLISHED = [(0.1, 9_000), (0.5, 30_000), (0.9, 80_000)]


def numeric(**options):
    own = {"kind": "numeric", "lower": 0, "upper": 1_000_000}
    return Attribute("income", **own | options)


def test_bins_of_equal_probability_invert_the_published_distribution():
    for n_bins in (1, 2, 3, 4, 10, 40):
        attribute = numeric(n_bins=n_bins, quantiles=PUBLISHED)
        probabilities = [0, *(p for p, _ in PUBLISHED), 1]
        values = [0, *(v for _, v in PUBLISHED), 1_000_000]
        expected = np.interp(np.arange(1, n_bins) / n_bins, probabilities, values)
        np.testing.assert_allclose(attribute.cut_points, expected, rtol=1e-12)
        assert attribute.size == n_bins


def test_without_quantiles_bins_have_equal_width():
    assert numeric(n_bins=4, quantiles=[]).cut_points == numeric(n_bins=4).cut_points


def test_quantiles_are_stored_as_cut_points():
    attribute = numeric(n_bins=4, quantiles=PUBLISHED)
    assert attribute == numeric(cut_points=attribute.cut_points)
    schema = Schema([attribute], [0, 1])
    assert Schema.from_json(schema.to_json()) == schema


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
        ({"lower": 0, "upper": 10, "n_bins": 2, "quantiles": [[0.5, 3]]},
         {"cut_points": [3]}),
        ({"lower": 0, "upper": 10, "n_bins": 2, "other": "?"},
         {"cut_points": [5], "other": "?"}),
    ],
)  # fmt: skip
def test_schema_files_declare_how_numbers_are_cut(entry, expected):
    given = {"lower": 0, "upper": 10} | expected
    assert schema_of(**entry) == Attribute.numeric("income", **given)
