"""The commands that release and use models, on small files and on real ones."""

import csv
import gzip
import json
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from cli_cases import TRAINING, TRUTH, assert_refused, batch, fit, write_wide

import mmech_rf as rf
from mmech import PrivacyLedger, threads
from mmech.exceptions import PrivacyLeakWarning
from mmech.session import Session
from mmech.testing import watch_draws
from mmech_rf.cli.models import releasing
from mmech_rf.datasets import load_csv
from mmech_rf.estimator.base import ForestClassifier

# ---- fit and predict -------------------------------------------------------------


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("args", "cls"),
    [
        ([], rf.BatchTrainingClassifier),
        (["--trees", "inf", "--depth", 2], rf.BatchTrainingClassifier),
        (["--splits", "binary", "--voting", "weight"], rf.BatchTrainingClassifier),
        (["--voting", "log-odds"], rf.BatchTrainingClassifier),
        (["--method", "laplace", "--trees", 4], rf.LaplaceForestClassifier),
        (["--method", "laplace-disjoint", "--trees", 2], rf.LaplaceForestClassifier),
    ],
)
def test_a_fitted_model_predicts(run, files, args, cls):
    args = ["--depth", 3, *args]
    code, out, err = run(*fit(files, *args))
    assert (code, err) == (0, "")
    assert "Released by this fit: epsilon = 50 for neighbouring data sets" in out
    model = rf.load_model(files / "fruit.npz")
    assert type(model) is cls
    code, out, err = run("predict", files / "fruit.npz", files / "new.csv")
    assert code == 0
    assert err == f"columns of {str(files / 'new.csv')!r} that the schema does not " + (
        "name are not read: 'note'\n"
    )
    assert out.split() == ["sold", *TRUTH]


def test_options_reach_the_model(run, files):
    given = {
        "n_trees": 6, "depth": 1, "splits": "threshold", "n_ensembles": 2,
        "max_features": 2, "voting": "weight", "random_state": 9,
        "handle_unknown": "clip", "handle_missing": "drop", "neighbours": "replace",
        "template": "identity",
    }  # fmt: skip
    names = {"n_trees": "trees", "random_state": "seed"}
    options = ["--estimate-accuracy"]
    for name, value in given.items():
        options += [f"--{names.get(name, name).replace('_', '-')}", value]
    code, out, _ = run(*fit(files, *options, epsilon="1/3"))
    assert code == 0
    assert "Accuracy on new records: 0." in " ".join(out.split())
    model = rf.load_model(files / "fruit.npz")
    assert model.get_params().items() >= (given | {"estimate_accuracy": True}).items()
    assert str(model.epsilon) == "1/3"


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("options", "found", "words"),
    [
        ([], {"n_records": None}, "labelled leaves in"),
        (["--records-per-person", 2, "--n-records", 250],
         {"n_records": 250, "records_per_person": 2},
         "adding or removing one person with up to 2 records"),
        (["--n-records", 3 * 10**9], {"n_records": 3 * 10**9}, "labelled leaves in"),
        (["--settings", "ranking"], {"settings": rf.DrawnSettings.for_ranking()},
         "Saved"),
    ],
)  # fmt: skip
def test_the_default_is_a_private_forest_with_its_options(
    run, files, options, found, words
):
    given = (arg for arg in fit(files, *options) if arg not in TRAINING[:2])
    code, out, err = run(*given)
    assert (code, err) == (0, "")
    assert words in " ".join(out.split())
    model = rf.load_model(files / "fruit.npz")
    assert type(model) is rf.PrivateForestClassifier
    assert {name: getattr(model, name) for name in found} == found


@pytest.mark.parametrize("stated", [[], ["--n-records", 250]])
def test_a_private_forest_predicts(run, files, stated):
    """Its cost is said, its trees are in the file, and a rule of one test is found."""
    policies = ["--neighbours", "replace", "--handle-missing", "drop"]
    code, out, err = run(*fit(files, "--method", "private", *stated, *policies))
    assert (code, err.count("\n")) == (0, 1)
    assert "records that are dropped count in no answer" in err
    text = " ".join(out.split())
    assert "drawn by the exponential mechanism, score of sensitivity 1" in text
    assert ("number of records: epsilon" in text) == (not stated)
    model = rf.load_model(files / "fruit.npz")
    assert type(model) is rf.PrivateForestClassifier
    assert f"Saved {len(model.trees_)} tree" in text
    assert model.n_records == (250 if stated else None)
    assert (model.neighbours, model.handle_missing) == ("replace", "drop")
    code, out, _ = run("predict", files / "fruit.npz", files / "new.csv")
    assert code == 0
    assert out.split() == ["sold", *TRUTH]


def test_a_ledger_on_disk_pays_for_fits_and_batches(run, files, tmp_path):
    path = tmp_path / "budget.json"
    PrivacyLedger.open(path, total="1.5")
    code, _, err = run(*fit(files, "--ledger", path, epsilon=1))
    assert (code, err) == (0, "")
    assert PrivacyLedger.open(path).spent == 1
    again = run(*batch(files, "--ledger", path, epsilon=1))
    assert_refused(again, "needs epsilon = 1 but only 0.5 of 1.5 is left")
    assert PrivacyLedger.open(path).spent == 1
    assert json.loads(path.read_text())["held"] == {}


def test_a_model_that_can_be_saved_nowhere_is_said_to_be_lost(run, files, monkeypatch):
    full = Mock(side_effect=OSError("no space left"))
    monkeypatch.setattr(ForestClassifier, "save", full)
    assert_refused(run(*fit(files)), "no space left", "= 50 is spent; model lost")


def test_an_interrupted_fit_says_what_is_spent(run, files, monkeypatch):
    ask = Session.measure
    asked = []

    def interrupted(session, *arguments):
        asked.append(arguments)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return ask(session, *arguments)

    monkeypatch.setattr(Session, "measure", interrupted)
    args = fit(files, "--n-ensembles", 2, "--max-features", 1, "--depth", 1)
    code, out, err = run(*args)
    assert (code, out) == (130, "")
    assert "epsilon = 25 is spent on 1 releases of this fit, which are lost" in err


def test_labels_go_to_a_file_plain_or_compressed(run, files):
    run(*fit(files, "--depth", 3))
    for name, opener in (("out.csv", open), ("out.csv.gz", gzip.open)):
        code, out, _ = run(
            *("predict", files / "fruit.npz", files / "new.csv"),
            *("--out", files / name),
        )
        assert (code, out) == (0, "")
        with opener(files / name, "rt") as stream:
            assert stream.read().split() == ["sold", *TRUTH]


@pytest.mark.parametrize("method", ["private", "recipe", "training", "laplace"])
def test_probabilities_have_a_column_for_every_class(run, files, method):
    run(*fit(files, "--method", method))
    model = rf.load_model(files / "fruit.npz")
    query = ("predict", files / "fruit.npz", files / "new.csv", "--proba")
    code, out, _ = run(*query)
    assert code == 0
    header, *rows = csv.reader(out.splitlines())
    assert header == list(model.schema_.class_labels) == ["no", "yes"]
    queries = load_csv(files / "new.csv", model.schema_, with_target=False).data
    found = np.array(rows, float)
    np.testing.assert_array_equal(found, model.predict_proba(queries))
    assert run(*query, "--out", files / "out.csv")[:2] == (0, "")
    assert (files / "out.csv").read_text() == out


# ---- one batch -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "trees"),
    [
        ([], 128),
        (["--method", "subsample"], 16),
        (["--method", "subsample", "--voting", "hard", "--trees", 2], 2),
        (["--trees", "inf"], "all"),
    ],
)
def test_a_batch_is_answered_and_its_cost_is_said(run, files, args, trees):
    code, out, err = run(*batch(files, "--depth", 3, *args))
    assert code == 0
    assert out.split() == ["sold", *TRUTH]
    assert f"spent ε = 50 on 10 queries ({trees} trees" in err
    assert "another batch" in err


# ---- schemas -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "target", "names"),
    [
        ([], "sold", ["size", "colour", "weight"]),
        (["--target", "size"], "size", ["colour", "weight", "sold"]),
    ],
)
def test_a_template_reads_the_header_only(run, files, given, target, names):
    with open(files / "fruit.csv", "ab") as stream:
        stream.write(b"\xff\xfe no text, no table\n")
    args = ["schema", "suggest", files / "fruit.csv", *given]
    assert run(*args, "--out", files / "s.json") == (0, "", "")
    template = json.loads((files / "s.json").read_text())
    assert json.loads(run(*args)[1]) == template
    assert [entry["name"] for entry in template["features"]] == names
    assert template["target"]["name"] == target
    with pytest.raises(ValueError, match="must list at least"):
        rf.Schema.from_json(template)


def test_a_header_that_would_swallow_records(run, files):
    (files / "fruit.csv").write_text('a,"b,class\n1,SECRET,0\n1,x",0\n')
    assert "multiline=True" not in run("schema", "suggest", files / "fruit.csv")[2]
    (files / "fruit.csv").write_text('"two\nlines",class\n1,0\n')
    code, out, _ = run("schema", "suggest", files / "fruit.csv", "--multiline")
    assert code == 0
    assert json.loads(out)["features"][0]["name"] == "two\nlines"


# ---- progress ------------------------------------------------------------------------


def test_a_pipe_has_no_line(capsys):
    with threads.showing(lambda: pytest.fail("was asked")):
        pass
    assert capsys.readouterr().err == ""


def test_a_fit_says_what_was_released_last():
    schema = rf.Schema([rf.Attribute.categorical("x", ["a", "b"])], ["no", "yes"])
    model = rf.PrivateForestClassifier(schema, epsilon=1)
    words = releasing(model)
    assert words() == "fitting: 0 releases"
    seen = []

    def watch(draw, sample):
        seen.append(words())
        return sample()

    with pytest.warns(match="watched draws"), watch_draws(watch):
        model.fit([["a"], ["b"]], ["no", "yes"])
    assert "fitting: 2 releases, the last: tree 1 and its labels" in seen


def test_a_fit_shows_what_it_does_from_the_start(run, files, monkeypatch):
    shown = []

    class Screen(list):
        def append(self, doing):
            shown.append(doing())
            super().append(doing)

    monkeypatch.setattr(threads, "_shown", Screen([lambda: "as on a terminal"]))
    assert run(*fit(files))[0] == 0
    assert shown[:3] == ["starting", "reading", "fitting: 0 releases"]


@pytest.mark.filterwarnings("always:the schema says that its values were read")
def test_a_schema_that_was_read_from_records_is_marked_to_the_end(run, files):
    """In the file, by a warning of the fit, in the statement and in the card."""
    fruit, read, model = files / "fruit.csv", files / "read.json", files / "read.npz"
    frame = pd.read_csv(fruit)
    with pytest.warns(PrivacyLeakWarning):
        schema = rf.Schema.infer(frame, frame.pop("sold"), target="sold")
    replace(schema, read_from_records=True).to_json(read)
    assert json.loads(read.read_text())["read_from_records"] is True
    fit = ("fit", fruit, "--schema", read, "--epsilon", 1, "--out", model)
    code, _, err = run(*fit)
    assert code == 0
    assert "warning: the schema says that its values were read from the records" in err
    card = rf.load_model(model).card()
    assert not card["private"]
    assert "NOT COVERED: the schema was read from the records." in card["statement"]
    document = json.loads(read.read_text())
    del document["read_from_records"]  # all values are public after all
    read.write_text(json.dumps(document))
    code, _, err = run(*fit, "--force")
    assert (code, "read from the records" in err) == (0, False)
    assert rf.load_model(model).card()["private"]


# ---- recipes -------------------------------------------------------------------------


def test_a_recipe_that_does_not_fit_names_what_the_command_has(run, files):
    with rf.limits.changed(count_entries=100):
        outcome = run(*fit(files, "--method", "recipe", "--recipe", "fi-2021"))
    assert_refused(outcome, "do not fit in memory; use `fit --method private`, which")
    assert "recipes()" not in outcome[2]


def test_recipes_are_listed(run):
    code, out, _ = run("recipes")
    assert code == 0
    printed = " ".join(out.split())
    for name, recipe in rf.recipes().items():
        assert name in printed
        assert " ".join(recipe.paper.split()) in printed.replace(" - ", " ")


@pytest.mark.parametrize("method", ["training", "laplace", "private"])
def test_a_table_without_records_is_fitted_like_any_other(run, files, method):
    """It is a neighbour of every table of one record."""
    (files / "fruit.csv").write_text("size,colour,weight,sold\n")
    code, _, err = run(*fit(files, "--method", method, epsilon=1))
    assert (code, err) == (0, "")
    assert run("predict", files / "fruit.npz", files / "new.csv")[0] == 0


def test_training_records_as_queries_are_warned_about(run, files):
    warning = "queries are public and not protected, but these are the training records"
    records = files / "fruit.csv"
    (files / "copy.csv").write_bytes(records.read_bytes())
    (files / "link.csv").symlink_to(records)
    options = ("--schema", files / "fruit.json", "--epsilon", 1, "--depth", 2)
    for name, is_warned in (("link", True), ("copy", True), ("new", False)):
        queries = files / f"{name}.csv"
        code, _, err = run("predict-batch", records, queries, *options)
        assert code == 0
        assert (warning in err) == is_warned


def test_domains_that_are_too_large_name_size_and_alternative(run, files):
    write_wide(files, "fruit.csv", "new.csv")
    for args in (fit(files), batch(files)):
        outcome = run(*args)
        assert_refused(
            outcome, "the domain of the schema has about 10^16 cells", "--max-features"
        )
        assert "`fit --method private`, which is for any number" in outcome[2]
    assert run(*batch(files, "--method", "subsample", "--depth", 2))[0] == 0
    assert run(*fit(files, "--method", "laplace", "--trees", 2, "--depth", 2))[0] == 0
    assert run(*fit(files, "--method", "private", "--force"))[0] == 0
    deep = ("--method", "laplace", "--trees", "inf", "--depth", 9, "--force")
    assert_refused(run(*fit(files, *deep)), "all trees of depth 9")
