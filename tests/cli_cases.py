"""Commands on the files of a shop that sells fruit, see the fixture `files`."""

import csv

from mmech_rf import Attribute, Schema

TRAINING = ("--method", "training", "--depth", 3)
TRUTH = ["no"] * 5 + ["yes"] * 5


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)


def write_wide(files, *tables):
    """Write a schema of 10^16 cells, and tables of 20 records."""
    names = [f"a{i}" for i in range(16)]
    schema = Schema([Attribute.numeric(n, lower=0, upper=9) for n in names], [0, 1])
    schema.to_json(files / "fruit.json")
    rows = [[(i + j) % 10 for j in range(16)] + [i % 2] for i in range(20)]
    for table in tables:
        write_rows(files / table, [[*names, "class"], *rows])


def fit(files, *args, epsilon=50):
    needed = ("--schema", files / "fruit.json", "--out", files / "fruit.npz")
    if "--method" not in args:
        args = ("--method", "training", *args)
    return ("fit", files / "fruit.csv", *needed, "--epsilon", epsilon, *args)


def batch(files, *args, epsilon=50):
    paths = (files / "fruit.csv", files / "new.csv")
    needed = ("--schema", files / "fruit.json", "--epsilon", epsilon)
    return ("predict-batch", *paths, *needed, *args)


def assert_refused(outcome, *reasons):
    code, out, err = outcome
    assert code == 2
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("mmech-rf: error: ")
    for reason in reasons:
        assert reason in last
