"""Recipes as files, and on the command line."""

import re

import numpy as np
import pytest

from mmech_rf import (
    Recipe,
    RecipeForestClassifier,
    datasets,
    limits,
    load_model,
    recipes,
)
from mmech_rf.cli.main import main

CAR = datasets.load_car()


@pytest.mark.parametrize("name", list(recipes()))
def test_a_saved_model_is_the_same(name, tmp_path):
    recipe = recipes()[name]
    settings = {"neighbours": "labels"} if recipe.guarantee == "labels" else {}
    extra = {"X_unlabelled": CAR.data[:300]} if recipe.unlabelled else {}
    model = RecipeForestClassifier(CAR.schema, epsilon=2, recipe=name, **settings)
    model.fit(CAR.data[300:], CAR.target[300:], **extra).save(tmp_path / "m.npz")
    copy = load_model(tmp_path / "m.npz")
    assert (copy.predict(CAR.data) == model.predict(CAR.data)).all()
    np.testing.assert_array_equal(
        copy.predict_proba(CAR.data[:50]), model.predict_proba(CAR.data[:50])
    )
    assert copy.describe() == model.describe()
    assert copy.privacy_statement_ == model.privacy_statement_
    assert copy.ledger_.remaining == 0


def test_a_recipe_of_ones_own_is_saved(tmp_path):
    recipe = Recipe(n_trees=2, levels=("1/4", "3/4"), depth=1, grid=3)
    model = RecipeForestClassifier(CAR.schema, epsilon=2, recipe=recipe)
    model.fit(CAR.data, CAR.target).save(tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz").recipe == recipe


def test_a_saved_model_says_how_its_preset_was_changed(tmp_path):
    recipe = recipes()["jpw"].replace(n_trees=2)
    model = RecipeForestClassifier(CAR.schema, epsilon=2, recipe=recipe, n_records=1728)
    model.fit(CAR.data, CAR.target).save(tmp_path / "m.npz")
    copy = load_model(tmp_path / "m.npz")
    assert copy.recipe_.name == "jpw with n_trees=2"
    assert copy.recipe_.replace(n_trees=10).name == "jpw"
    assert "Recipe: jpw with n_trees=2." in copy.privacy_statement_


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


def test_records_without_labels_on_the_command_line(files, capsys):
    others = "--unlabelled", str(files / "others.csv")
    options = "recipe", "--recipe", "pte", "--neighbours", "labels"
    assert fit(files, *options) == 2
    assert "give --unlabelled to the fit" in capsys.readouterr().err
    assert fit(files, "private", *others) == 2
    assert "--unlabelled does not go with --method private" in capsys.readouterr().err
    assert fit(files, *options, *others) == 0
    assert "attributes are public" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: None, r"there is no file '.*bad\.csv'"),
        (lambda text: text.replace("safety", "airbags"), r"no column named 'safety'"),
        (lambda text: text.replace("safety", "safety,class", 1).replace("\n", ",acc\n"),
         r"has a column 'class', the class, .* leave the column out"),
        (lambda text: text.replace("vhigh", "purple", 1), r"bad\.csv'.* 'buying'"),
        (lambda text: text.splitlines()[0] + "\n", r"bad\.csv': there are no records"),
        (lambda text: "", r"bad\.csv'.* empty"),
    ],
    ids=["missing", "other columns", "labels", "value", "no records", "empty"],
)  # fmt: skip
def test_bad_records_without_labels_on_the_command_line(files, capsys, change, words):
    text = change((files / "others.csv").read_text())
    if text is not None:
        (files / "bad.csv").write_text(text)
    options = "recipe", "--recipe", "pte", "--neighbours", "labels"
    assert fit(files, *options, "--unlabelled", str(files / "bad.csv")) == 2
    printed = capsys.readouterr()
    assert re.search(words, " ".join(printed.err.split()))
    assert printed.err.count("error:") == 1
    assert not printed.out
    assert not (files / "m.npz").exists()


def test_records_without_labels_are_written_as_the_others(files):
    """The separator of the records is that of both files."""
    for name in ("cars", "others"):
        path = files / f"{name}.csv"
        path.write_text(path.read_text().replace(",", ";"))
    options = "recipe", "--recipe", "pte", "--neighbours", "labels", "--sep", ";"
    assert fit(files, *options, "--unlabelled", str(files / "others.csv")) == 0


def test_refusals_on_the_command_line(files, capsys):
    assert fit(files, "recipe", "--recipe", "fi-2017") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "use --recipe fi-2021" in error
    assert fit(files, "private", "--recipe", "spe") == 2
    assert "--recipe does not go with --method private" in capsys.readouterr().err
    assert not (files / "m.npz").exists()


def test_what_does_not_fit_names_what_the_command_has(files, capsys):
    with limits.changed(count_entries=100):
        assert fit(files, "recipe", "--recipe", "fi-2021") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "do not fit in memory; use `fit --method private`, which" in error
    assert "recipes()" not in error


def test_the_table_on_the_command_line(capsys):
    assert main(["recipes"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, recipe in recipes().items():
        assert name in printed
        assert " ".join(recipe.paper.split()) in printed.replace(" - ", " ")
