"""What wrong input is told, by the table `refusals.toml`: one sentence of ours.

Nothing is drawn or spent, no file changes, and no value of a record is shown.
"""

import gzip
import itertools
import re
import shlex
import tomllib
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import inf, nan
from pathlib import Path
from string import Template

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import rf_cases
import scipy.sparse as sp
from refusals import refused
from schema_cases import TOY

import mmech
import mmech_rf
from mmech.cli import main as of_tables
from mmech.error.result import StrategyResult
from mmech.integer_strategy import IntegerBlock, integer_strategy
from mmech.operators.convolution import IntegerFilter
from mmech.operators.tau import Tau
from mmech.reconstruction import least_squares
from mmech_rf.cli import main
from mmech_rf.literature.recipe import find_recipe

TABLE = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text("utf-8"))

COLOUR = mmech.Attribute.categorical("colour", ["red", "blue"])
AGE = mmech.Attribute.numeric("age", lower=0, upper=120, n_bins=4)
SCHEMA = mmech_rf.Schema([COLOUR, AGE], ["no", "yes"])
X, Y = [["red", 20], ["blue", 70], ["red", 90]], ["no", "yes", "yes"]
READY = {name: getattr(mmech, name) for name in mmech.__all__}
READY |= {name: getattr(mmech_rf, name) for name in mmech_rf.__all__}
READY |= {"np": np, "pa": pa, "sp": sp, "inf": inf, "nan": nan, "replace": replace}
READY |= {"COLOUR": COLOUR, "SCHEMA": SCHEMA, "X": X, "Y": Y}
READY |= {"pd": pd, "TOY": TOY, "AGE": AGE, "Fraction": Fraction}
READY |= {"numbers": mmech.tables, "noise": mmech.noise}
READY |= {"Tau": Tau, "IntegerFilter": IntegerFilter}
READY |= {"integer_strategy": integer_strategy, "IntegerBlock": IntegerBlock}
READY |= {"least_squares": least_squares, "find_recipe": find_recipe}
READY["by_hand"] = lambda **own: mmech_rf.Forest(**rf_cases.HAND | own)
READY["by_tests"] = lambda **own: mmech_rf.Forest(**rf_cases.TESTED | own)
READY["PEOPLE"] = mmech.Domain(
    [
        mmech.Attribute.categorical("sex", ["f", "m"]),
        mmech.Attribute.numeric("age", lower=0, upper=60, n_bins=4, integer=True),
        mmech.Attribute.categorical("status", ["single", "married", "widowed"]),
    ]
)
READY["forest_limits"] = mmech_rf.limits
READY["DOMAIN"] = mmech.Domain([COLOUR, AGE])
READY["UNBOUNDED"] = mmech.Domain([mmech.Attribute.numeric("age", cut_points=[30, 60])])
DAY = mmech.Attribute.date("day", "2025-01-01", "2025-12-31")
READY["DATED"] = mmech.Domain([DAY])
READY["PLACE"] = mmech.Attribute.categorical(
    "city", ["x", "y"], levels={"region": ["N", "S"]}
)
READY["CUT"] = mmech_rf.Schema(
    [
        mmech.Attribute.categorical("a", ["x", "y"]),
        mmech.Attribute.numeric("n", cut_points=[2]),
    ],
    [0, 1],
    target="label",
)
RISING = mmech.Attribute.ordinal("level", ["low", "high"], monotone=1)
READY["RISING"] = mmech_rf.Schema([RISING], [0, 1])
READY["INTEGERS"] = replace(SCHEMA, class_labels=(-1, 1))
READY["FRAME"] = pd.DataFrame(X, columns=["colour", "age"])
READY["result"] = StrategyResult(mmech.Identity(4), "given", 1.0, workload=None)


def file(text, name="a.csv"):
    Path(name).write_text(text)
    return name


def wide(n):
    one = [mmech.Attribute.categorical(f"x{i}", [0, 1, 2, 3]) for i in range(n)]
    return mmech_rf.Schema(one, ["no", "yes"])


def tables(records=(("f", 5, "single"),), domain=READY["PEOPLE"], **options):
    return mmech.release_tables(records, domain, **options)


@cache
def made():
    return tables([["f", 5, "single"]], ways=2, epsilon=1)


def as_words(sentence):
    return re.escape(sentence).replace(r"\.\.\.", ".*")


def spending(ledger):
    """Return what pays from a ledger: fits, a release and a mechanism."""
    own = {"epsilon": 1, "ledger": ledger}
    few = rf_cases.records(3)
    return {
        "ledger": ledger,
        "tables": lambda *records, **options: tables(
            *records, **{"ledger": ledger} | options
        ),
        "fit": lambda name, X=few[0], y=few[1], **parameters: rf_cases.classifier(
            name, **own | parameters
        ).fit(X, y),
        "forest": lambda schema=SCHEMA, **parameters: mmech_rf.PrivateForestClassifier(
            schema, **own | parameters
        ),
        "recipe_forest": lambda schema=SCHEMA, **more: mmech_rf.RecipeForestClassifier(
            schema, **own | more
        ),
        "release": lambda values, **options: mmech.noisy_release(
            values, released="counts", ledger=ledger, **options
        ),
        "mechanism": mmech.MatrixMechanism(mmech.Prefix(4), mmech.Identity(4), **own),
    }


@pytest.mark.filterwarnings("ignore:schema=None reads")
@pytest.mark.filterwarnings("ignore:categories, bounds and classes are read")
@pytest.mark.parametrize("call", TABLE["calls"])
def test_calls(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, _, sentence = TABLE["calls"][call].partition(": ")
    ledger = mmech.PrivacyLedger(2)
    own = READY | {"file": file, "wide": wide, "made": made} | spending(ledger)
    error = refused(lambda: eval(call, own), as_words(sentence))
    assert type(error).__name__ == kind
    assert (ledger.spent, ledger.entries) == (0, ())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with 48 records, queries, their schema, a model and two ledgers."""
    path = tmp_path_factory.mktemp("shop")
    sizes, colours = ["small", "large"], ["red", "green", "blue"]
    attributes = [
        mmech.Attribute.ordinal("size", sizes),
        mmech.Attribute.categorical("colour", colours),
        mmech.Attribute.numeric("weight", lower=0, upper=8, n_bins=2),
    ]
    schema = mmech_rf.Schema(attributes, ["no", "yes"], target="sold")
    schema.to_json(path / "fruit.json")
    rows = list(itertools.product(sizes, colours, range(8)))
    frame = pd.DataFrame(rows, columns=["size", "colour", "weight"])
    frame[::5].to_csv(path / "new.csv", index=False)
    frame["sold"] = ["yes" if size == "large" else "no" for size, *_ in rows]
    frame.to_csv(path / "fruit.csv", index=False)
    model = mmech_rf.BatchTrainingClassifier(schema, epsilon=1, depth=2, n_trees=2)
    model.fit(rows, frame["sold"]).save(path / "fruit.npz")
    (path / "mine.txt").write_text("mine")
    mmech.PrivacyLedger.open(path / "rho.json", total=1, currency="rho")
    mmech.PrivacyLedger.open(path / "other.json", total=1, neighbours="replace")
    return {file.name: file.read_bytes() for file in path.iterdir()}


CUT_OFF = gzip.compress(TABLE["short"]["HEADER"].encode() * 9, mtime=0)[:-9]
SHORT = TABLE["short"] | {
    "CUT_OFF": CUT_OFF.decode("latin-1"),
    "DEEP": "[" * 100_000,
}
COMMANDS = [("mine.txt", "mine", *row) for row in TABLE["commands"].items()]


@pytest.mark.by_day(20)
@pytest.mark.parametrize(
    ("name", "text", "line", "words"), [*COMMANDS, *TABLE["files"]["rows"]]
)
def test_commands(
    name, text, line, words, folder, tmp_path, monkeypatch, capsys, drawn
):
    monkeypatch.chdir(tmp_path)
    text, line = (Template(part).substitute(SHORT) for part in (text, line))
    before = folder | {name: text.encode("latin-1")}
    for own, content in before.items():
        Path(own).write_bytes(content)
    line = Template(line).substitute(SHORT)  # of names that stand for names
    program, run = ("mmech", of_tables) if line[:6] == "mmech " else ("mmech-rf", main)
    code = run(shlex.split(line.removeprefix("mmech ")))
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"{program}: error: ")
    assert not any(mark in err for mark in (". ", "Traceback", "SECRET", " 0x"))
    assert re.search(as_words(words), err), err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    # a model that is loaded draws among equal votes, which were released
    assert {draw.kind for draw in drawn} <= {"key", "ties"}


def test_classes_of_errors():
    assert issubclass(mmech.UnsupportedWorkloadError, ValueError)
    assert issubclass(mmech.DomainTooLargeError, ValueError)
    assert issubclass(mmech.BudgetExceededError, RuntimeError)
