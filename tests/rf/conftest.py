"""Exact releases, and the command line."""

import itertools

import pytest
import rf_cases
from cli_cases import write_rows

from mmech_rf import Attribute, Schema
from mmech_rf.cli import main


@pytest.fixture
def noiseless(watch_all):
    """Every release is exact; the value lists the scales asked for."""
    return rf_cases.silence(watch_all)


@pytest.fixture
def run(capsys):
    """Call the command line; return exit code, output and errors."""

    def call(*args):
        capsys.readouterr()
        return main([str(arg) for arg in args]), *capsys.readouterr()

    return call


@pytest.fixture
def files(tmp_path):
    """A csv file of 240 records, ten queries, and the schema."""
    sizes, colours = ["small", "large"], ["red", "green", "blue"]
    schema = Schema(
        [
            Attribute.ordinal("size", sizes),
            Attribute.categorical("colour", colours),
            Attribute.numeric("weight", lower=0, upper=8, n_bins=2, other="?"),
        ],
        ["no", "yes"],
        target="sold",
        name="fruit",
    )
    schema.to_json(tmp_path / "fruit.json")
    cells = list(itertools.product(sizes, colours, range(8)))
    rows = [(*cell, "yes" if cell[0] == "large" else "no") for cell in cells * 5]
    write_rows(tmp_path / "fruit.csv", [("size", "colour", "weight", "sold"), *rows])
    queries = [(w, "q", s, c) for s, c, w in cells[::5]]
    write_rows(tmp_path / "new.csv", [("weight", "note", "size", "colour"), *queries])
    return tmp_path
