"""Commands on files that do not fit: what they refuse, and what they make of it."""

import json

import pandas as pd
import pytest
from cli_cases import TRAINING, assert_refused, batch, fit, write_rows, write_wide

from mmech_rf import Attribute, Schema, load_model

# ---- what does not fit -------------------------------------------------------------


def test_fields_with_line_breaks_are_declared(run, files):
    with open(files / "fruit.csv", "a", encoding="utf-8") as stream:
        stream.write('"small",red,"1","no"\n')
    assert run(*fit(files))[0] == 0
    notes = [("size", "colour", "weight", "note"), ("large", "red", 1, "two\nlines")]
    write_rows(files / "new.csv", notes)
    args = ("predict", files / "fruit.npz", files / "new.csv")
    assert_refused(run(*args), "line 2 of the file opens a quote", "--multiline")
    assert len(run(*args, "--multiline")[1].split()) == 2


@pytest.mark.parametrize("method", ["training", "laplace", "private"])
def test_a_table_without_records_is_fitted_like_any_other(run, files, method):
    """It is a neighbour of every table of one record."""
    (files / "fruit.csv").write_text("size,colour,weight,sold\n")
    code, _, err = run(*fit(files, "--method", method, epsilon=1))
    assert (code, err) == (0, "")
    assert run("predict", files / "fruit.npz", files / "new.csv")[0] == 0


def test_hints_name_options_and_not_parameters_of_python(run, files):
    outcome = run(*fit(files, "--method", "private", epsilon="1e-7"))
    assert_refused(outcome, "--epsilon must be at least 1e-05 to draw trees, got 1e-07")
    for word in ("design", "Classifier", "="):
        assert word not in outcome[2]
    colour = Attribute.categorical("colour", ["red", "green", "blue"])
    Schema([colour], ["no", "yes"], target="sold").to_json(files / "fruit.json")
    outcome = run(*fit(files, "--handle-missing", "category"))
    assert_refused(outcome, "--handle-missing category needs a designated category")
    assert outcome[2].endswith("""add a category '?' to the attributes that need it, \
or set "other" there\n""")


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


# ---- files that pandas wrote -----------------------------------------------------


@pytest.fixture
def numbered(tmp_path):
    """Files of 300 records with integers, as pandas writes them, and their schema."""
    document = {
        "features": [
            {"name": "rooms", "type": "ordinal", "categories": ["3", "4", "5"]},
            {"name": "kind", "type": "categorical", "categories": ["flat", "house"]},
        ],
        "target": {"name": "sold", "categories": ["0", "1"], "type": "int"},
    }
    (tmp_path / "homes.json").write_text(json.dumps(document))
    frame = pd.DataFrame({"rooms": [3, 4, 5] * 100, "kind": ["flat", "house"] * 150})
    frame["sold"] = frame["rooms"] // 5
    frame.to_csv(tmp_path / "whole.csv", index=False)
    frame.loc[5, "rooms"] = None
    frame.loc[7, "sold"] = None
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    assert "5.0,flat,1.0" in (tmp_path / "gaps.csv").read_text()
    return tmp_path


def fit_homes(folder, name, *args):
    needed = ("--schema", folder / "homes.json", "--out", folder / "homes.npz")
    return ("fit", folder / name, *needed, "--epsilon", 50, "--force", *args)


@pytest.mark.parametrize("method", ["training", "private"])
def test_whole_numbers_beside_missing_values_are_read(run, numbered, method):
    """And the labels are those of the schema, whatever the file made of them."""
    options = ("--method", method, "--handle-missing", "drop", "--show-counts")
    (numbered / "new.csv").write_text("rooms,kind\n3,flat\n5.0,house\n")
    for name, used in (("whole.csv", 300), ("gaps.csv", 298)):
        code, out, err = run(*fit_homes(numbered, name, *options))
        assert code == 0
        assert "\nSENSITIVE, outside the privacy guarantee: " in err
        assert f"{used} of 300 records" in err
        assert str(used) not in out
        assert load_model(numbered / "homes.npz").classes_.tolist() == [0, 1]
        labels = run("predict", numbered / "homes.npz", numbered / "new.csv")[1]
        assert labels.split() == ["sold", "0", "1"]


def test_nothing_is_counted_where_it_is_not_asked_for(run, numbered):
    out = [
        run(*fit_homes(numbered, name, "--handle-missing", "drop", *TRAINING[:2]))
        for name in ("whole.csv", "gaps.csv")
    ]
    assert out[0] == out[1]
    assert out[0][2].startswith("records that are dropped count in no answer")


def test_hints_send_to_the_check_first_and_never_propose_to_drop(run, numbered):
    (numbered / "odd.csv").write_text("rooms,kind,sold\n3,SECRET,0\n")
    for name in ("gaps.csv", "odd.csv"):
        outcome = run(*fit_homes(numbered, name))
        assert_refused(outcome, "`mmech-rf schema check`, then", "choose --handle-")
        assert "drop" not in outcome[2]
        assert "SECRET" not in outcome[2]


def test_check_lists_what_does_not_fit(run, numbered):
    with open(numbered / "gaps.csv", "a", encoding="utf-8") as stream:
        stream.write(f"9,castle,{'2' * 1000}\n")
    check = ("schema", "check", numbered / "gaps.csv", numbered / "homes.json")
    code, out, err = run(*check)
    assert code == 1
    assert "for the owner of the records only" in err
    lines = out.splitlines()
    assert lines[1:-1] == [
        "column 'rooms': a missing value (empty, None or NaN), in 1 row",
        "  '' in row 5",
        "column 'sold': a missing value (empty, None or NaN), in 1 row",
        "  '' in row 7",
        "column 'rooms': a value outside the domain of the attribute, in 1 row",
        "  '9' in row 300",
        "column 'kind': a value outside the domain of the attribute, in 1 row",
        "  'castle' in row 300",
        "column 'sold': a label that is not one of the classes, in 1 row",
        f"  '{'2' * 79}... in row 300",
    ]
    assert lines[-1].startswith("298 of 301 records fit the schema")


def test_check_reads_queries_without_a_class(run, numbered):
    (numbered / "new.csv").write_text("rooms,kind\n3,flat\n9,flat\n")
    check = ("schema", "check", numbered / "new.csv", numbered / "homes.json")
    assert_refused(run(*check), "no column named 'sold'")
    code, out, _ = run(*check, "--queries")
    assert code == 1
    assert "column 'rooms': a value outside the domain" in out
    assert "  '9' in row 1" in out


# ---- wrong options ---------------------------------------------------------------


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
