"""Commands on csv files of other kinds, pipes, and schemas of Parquet files."""

import io
import json

import pytest
from cli_cases import TRUTH, assert_refused, fit


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
    suggested = run("schema", "suggest", files / "fruit.csv", *form, "--read-values")
    assert "grün" in suggested[1]
    data = ("--data", files / "fruit.csv", "--schema", files / "fruit.json")
    majority = ("--methods", "majority", "--repeats", 1, "--quiet")
    assert run("evaluate", *data, *form, *majority)[0] == 0


def test_a_file_without_a_header_is_not_shown(run, files):
    (files / "fruit.csv").write_text("small,SECRET,3,no\nlarge,red,4,yes\n")
    majority = ("--methods", "majority", "--repeats", 1, "--quiet")
    data = ("--data", files / "fruit.csv", "--schema", files / "fruit.json")
    check = ("schema", "check", files / "fruit.csv", files / "fruit.json")
    for line in (
        ("schema", "suggest", files / "fruit.csv"),
        ("schema", "suggest", files / "fruit.csv", "--target", "sold"),
        check,
        (*check, "--queries"),
        fit(files),
        fit(files, "--extra-columns", "error"),
        ("evaluate", *data, *majority),
    ):
        outcome = run(*line)
        assert_refused(outcome, "the first line of the file looks like a record")
        assert "SECRET" not in outcome[2]


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
    columns = {"age": ["1", "2"], "n": [1, 2], "held": held, "sold": [True, False]}
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    code, out, _ = run("schema", "suggest", tmp_path / "a.parquet")
    assert (code, "SECRET" in out) == (0, False)
    types = [entry["type"] for entry in json.loads(out)["features"]]
    assert types == ["categorical", "numeric", "categorical"]
    (tmp_path / "b.parquet").write_text("size\n")
    outcome = run("schema", "suggest", tmp_path / "b.parquet")
    assert_refused(outcome, "is not a Parquet file, or is damaged")
