"""Commands on csv files of other kinds, pipes, and schemas of Parquet files."""

import datetime
import io
import json

import pandas as pd
import pytest
from cli_cases import TRAINING, TRUTH, assert_refused, fit, write_rows

from mmech_rf import load_model


def test_csv_files_of_other_kinds(run, files):
    """Separators, encodings and the standard input are read by every command."""
    schema = json.loads((files / "fruit.json").read_text())
    schema["features"][1]["categories"] = ["rot", "grün", "blau"]
    (files / "fruit.json").write_text(json.dumps(schema), encoding="utf-8")
    text = (files / "fruit.csv").read_text()
    text = text.replace("red", "rot").replace("green", "grün").replace("blue", "blau")
    (files / "fruit.csv").write_bytes(text.replace(",", "\t").encode("latin-1"))
    form = ("--sep", r"\t", "--encoding", "latin-1")
    assert run(*fit(files, *form))[0] == 0
    code, out, _ = run("predict", files / "fruit.npz", files / "fruit.csv", *form)
    assert (code, len(out.split())) == (0, 241)
    check = ("schema", "check", files / "fruit.csv", files / "fruit.json", *form)
    assert run(*check)[:2] == (
        0,
        f"240 of 240 records fit the schema {str(check[3])!r}.\n",
    )
    data = ("--data", files / "fruit.csv", "--schema", files / "fruit.json")
    majority = ("--methods", "majority", "--repeats", 1, "--quiet")
    assert run("evaluate", *data, *form, *majority)[0] == 0


def test_records_through_the_standard_input(run, files, monkeypatch):
    def piped(name):
        content = io.BytesIO((files / name).read_bytes())
        # pytest has no standard input to write to.
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))

    piped("fruit.csv")
    code, *_ = run(
        *("-" if a == files / "fruit.csv" else a for a in fit(files, "--depth", 3))
    )
    assert code == 0
    piped("new.csv")
    assert run("predict", files / "fruit.npz", "-")[1].split() == ["sold", *TRUTH]
    piped("fruit.csv")
    assert run("schema", "check", "-", files / "fruit.json")[0] == 0
    majority = ("--methods", "majority", "--repeats", 1, "--quiet")
    evaluate = ("evaluate", "--data", "-", *majority)
    piped("fruit.csv")
    code, out, _ = run(*evaluate, "--schema", files / "fruit.json")
    assert (code, "80/20 split of 240 records" in out) == (0, True)
    piped("fruit.csv")
    assert_refused(run(*evaluate), "--schema must name", "of the file '-'")
    (files / "empty.csv").write_bytes(b"")
    piped("empty.csv")
    assert_refused(run(*evaluate, "--schema", files / "fruit.json"), "data '-'")
    piped("new.csv")
    assert_refused(run("schema", "check", "-", files / "fruit.json"), "the data '-'")


def test_a_template_from_the_types_that_a_file_declares(run, tmp_path):
    """Never from the values, not even from those that its dictionaries list."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    held = arrow.array(["SECRET", "b"]).dictionary_encode()
    days = [datetime.date(2025, 3, 5)] * 2
    columns = {"age": ["1", "2"], "n": [1, 2], "held": held, "day": days}
    columns["sold"] = [True, False]
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    code, out, _ = run("schema", "suggest", tmp_path / "a.parquet")
    assert (code, "SECRET" in out) == (0, False)
    types = [entry["type"] for entry in json.loads(out)["features"]]
    assert types == ["categorical", "numeric", "categorical", "date"]
    (tmp_path / "b.parquet").write_text("size\n")
    outcome = run("schema", "suggest", tmp_path / "b.parquet")
    assert_refused(outcome, "is not a Parquet file, or is damaged")


def test_fields_with_line_breaks_are_declared(run, files):
    with open(files / "fruit.csv", "a", encoding="utf-8") as stream:
        stream.write('"small",red,"1","no"\n')
    assert run(*fit(files))[0] == 0
    notes = [("size", "colour", "weight", "note"), ("large", "red", 1, "two\nlines")]
    write_rows(files / "new.csv", notes)
    args = ("predict", files / "fruit.npz", files / "new.csv")
    assert_refused(run(*args), "line 2 of the file opens a quote", "--multiline")
    assert len(run(*args, "--multiline")[1].split()) == 2


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
def test_whole_numbers_beside_missing_values_are_read(
    run, numbered, method, released_numbers
):
    """And the labels are those of the schema, whatever the file made of them."""
    options = ("--method", method, "--handle-missing", "drop")
    (numbered / "new.csv").write_text("rooms,kind\n3,flat\n5.0,house\n")
    for name, used in (("whole.csv", 300), ("gaps.csv", 298)):
        code, out, err = run(*fit_homes(numbered, name, *options))
        assert code == 0
        assert released_numbers[-1] == used
        assert str(used) not in (out + err).replace(str(numbered), "")
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
