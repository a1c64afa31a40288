"""Commands on the files of a shop that sells fruit, see the fixture `files`."""

import csv

TRAINING = ("--method", "training", "--depth", 3)
TRUTH = ["no"] * 5 + ["yes"] * 5


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)


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
