"""The sets of the matrix-random-forest paper, built in or read from csv."""

from collections import Counter

import pytest

from mmech_rf import Schema
from mmech_rf.data.catalogue import CATALOGUE
from mmech_rf.data.openml import load_schema
from mmech_rf.datasets import DATASETS, fetch, load_csv

# name: cells of the domain, records that remain, records per class
PAPER = {
    "car": (1_728, 1_728, {"unacc": 1_210, "acc": 384, "good": 69, "vgood": 65}),
    "iris": (360, 150,
        {"Iris-setosa": 50, "Iris-versicolor": 50, "Iris-virginica": 50}),
    "balance-scale": (625, 625, {"L": 288, "B": 49, "R": 288}),
    "heart": (1_119_744, 297, {"0": 160, "1": 137}),
    "mushroom": (1_638_333_457_367_040, 8_124, {"e": 4_208, "p": 3_916}),
    "adult": (168_000, 45_222, {"<=50K": 34_014, ">50K": 11_208}),
    "adult-binary": (2**123, 30_956, {"-1": 23_510, "1": 7_446}),
}  # fmt: skip


@pytest.fixture
def encoded(request):
    """Return the schema of a set, codes of its complete records, and their classes."""

    def encode(name, **bins):
        if name in DATASETS:
            bunch = fetch(name, **bins)
        else:
            folder = request.getfixturevalue("data_dir")
            if name in CATALOGUE:
                schema = load_schema(name, **bins)
            else:
                schema = Schema.from_json(folder / f"{name}.mrf_schema.json")
            bunch = load_csv(folder / f"{name}.csv.gz", schema)
        kept = {"handle_missing": "drop"}
        return bunch.schema, *bunch.schema.encode(bunch.data, bunch.target, **kept)

    return encode


@pytest.mark.parametrize("name", PAPER)
def test_sets_of_the_paper_have_its_cells_and_records(name, encoded):
    n_cells, n_records, n_per_class = PAPER[name]
    schema, codes, classes = encoded(name)
    assert schema.n_cells == n_cells
    assert codes.shape == (n_records, schema.n_features)
    assert Counter(schema.decode_target(classes).tolist()) == n_per_class
