"""Recipes as files, and on the command line."""

import numpy as np
import pytest

import mmech_rf as rf
from mmech_rf.cli.main import main

CAR = rf.datasets.load_car()


@pytest.fixture
def files(tmp_path):
    """A csv file of cars, one of cars without labels, and a schema."""
    names = [*CAR.schema.feature_names, "class"]
    rows = np.column_stack([CAR.data, CAR.target]).astype(str)
    for name, part in (("cars", rows[300:]), ("others", rows[:300, :-1])):
        head = ",".join(names[: part.shape[1]])
        lines = [head, *(",".join(row) for row in part)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "car.json").write_text(CAR.schema.to_json())
    return tmp_path


def fit(files, *options):
    return main(
        [
            *("fit", str(files / "cars.csv"), "--schema", str(files / "car.json")),
            *("--epsilon", "1", "--out", str(files / "m.npz"), "--method"),
            *options,
        ]
    )


def test_fit_and_predict_on_the_command_line(files, capsys):
    assert fit(files, "recipe", "--recipe", "fi-2021") == 0
    assert "labels of leaves: epsilon = 1" in capsys.readouterr().out
    assert main(["predict", str(files / "m.npz"), str(files / "others.csv")]) == 0
    assert len(capsys.readouterr().out.split()) == 301


def test_records_without_labels_are_for_python(files, capsys):
    assert fit(files, "recipe", "--recipe", "pte", "--neighbours", "labels") == 2
    assert "give X_unlabelled to a fit in Python" in capsys.readouterr().err


def test_refusals_on_the_command_line(files, capsys):
    assert fit(files, "recipe", "--recipe", "fi-2017") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "use --recipe fi-2021" in error
    assert fit(files, "private", "--recipe", "spe") == 2
    assert "--recipe does not go with --method private" in capsys.readouterr().err
    assert not (files / "m.npz").exists()


def test_what_does_not_fit_names_what_the_command_has(files, capsys):
    with rf.limits.changed(count_entries=100):
        assert fit(files, "recipe", "--recipe", "fi-2021") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "do not fit in memory; use `fit --method private`, which" in error
    assert "recipes()" not in error


def test_the_table_on_the_command_line(capsys):
    assert main(["recipes"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, recipe in rf.recipes().items():
        assert name in printed
        assert " ".join(recipe.paper.split()) in printed.replace(" - ", " ")
