"""The commands that release and use models, on small files and on real ones."""

import csv
import gzip
import io
import itertools
import json
import warnings

import pandas as pd
import pytest

from mmech_rf import (
    Attribute,
    BatchTrainingClassifier,
    BlockForestClassifier,
    DrawnForestClassifier,
    LabelForestClassifier,
    LaplaceForestClassifier,
    Schema,
    load_model,
)
from mmech_rf.cli import main
from mmech_rf.cli import models as _models
from mmech_rf.datasets import load_csv


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


TRAINING = ("--method", "training", "--depth", 3)
TRUTH = ["no"] * 5 + ["yes"] * 5


@pytest.mark.parametrize(
    "args",
    [
        ["fit", "-h"],
        ["predict", "-h"],
        ["predict-batch", "-h"],
        ["schema"],
        ["schema", "-h"],
        ["schema", "suggest", "-h"],
        ["schema", "check", "-h"],
    ],
)
def test_help_explains_and_shows_examples(run, args):
    code, out, err = run(*args)
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: mmech-rf {args[0]}")
    assert "examples:" in out
    assert max(map(len, out.splitlines())) <= 80


def test_template_names_are_those_of_the_library():
    from mmech.strategies.registry import templates

    names = {template.name for template in templates("L1")}
    assert set(_models.TEMPLATES) == {"auto", *names}


# ---- fit and predict -------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "cls"),
    [
        ([], BatchTrainingClassifier),
        (["--trees", "inf", "--depth", 2], BatchTrainingClassifier),
        (["--splits", "binary", "--voting", "weight"], BatchTrainingClassifier),
        (["--n-ensembles", 2, "--max-features", 3], BatchTrainingClassifier),
        (["--template", "identity", "--seed", 4], BatchTrainingClassifier),
        (["--method", "laplace", "--trees", 4], LaplaceForestClassifier),
        (["--method", "laplace-disjoint", "--trees", 2], LaplaceForestClassifier),
    ],
)
def test_a_fitted_model_predicts(run, files, args, cls):
    args = ["--depth", 3, *args]
    code, out, err = run(*fit(files, *args))
    assert (code, err) == (0, "")
    assert "Released by this fit: epsilon = 50 for neighbouring data sets" in out
    model = load_model(files / "fruit.npz")
    assert type(model) is cls
    code, out, err = run("predict", files / "fruit.npz", files / "new.csv")
    assert code == 0
    assert err == f"columns of {str(files / 'new.csv')!r} that the schema does not " + (
        "name are not read: 'note'\n"
    )
    assert out.split() == ["sold", *TRUTH]


def test_the_default_is_the_private_forest(run, files):
    code, out, _ = run(*(arg for arg in fit(files) if arg not in TRAINING[:2]))
    assert code == 0
    assert type(load_model(files / "fruit.npz")) is DrawnForestClassifier
    assert out.startswith("Saved ")


@pytest.mark.parametrize(
    ("method", "epsilon", "cls", "saved"),
    [
        ("private", 50, DrawnForestClassifier, "labelled leaves in"),
        ("private", "1e-6", LabelForestClassifier, "Saved a forest of "),
        ("drawn", 50, DrawnForestClassifier, "labelled leaves in"),
        ("blocks", 50, BlockForestClassifier, "Saved a forest of "),
        ("labels", 50, LabelForestClassifier, "Saved a forest of "),
    ],
)
def test_every_private_forest_has_its_method(run, files, method, epsilon, cls, saved):
    options = ("--records-per-person", 2, "--n-records", 250)
    code, out, err = run(*fit(files, "--method", method, *options, epsilon=epsilon))
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert saved in text
    assert "adding or removing one person with up to 2 records" in text
    model = load_model(files / "fruit.npz")
    assert type(model) is cls
    assert (model.n_records, model.records_per_person) == (250, 2)
    code, out, _ = run("predict", files / "fruit.npz", files / "new.csv")
    assert code == 0
    assert epsilon != 50 or out.split() == ["sold", *TRUTH]


def test_options_reach_the_model(run, files):
    options = ["--trees", 6, "--depth", 1, "--splits", "threshold", "--n-ensembles", 2]
    options += ["--max-features", 2, "--voting", "weight", "--seed", 9]
    options += ["--handle-unknown", "clip", "--handle-missing", "drop"]
    options += ["--neighbours", "replace", "--template", "identity"]
    code, *_ = run(*fit(files, *options, epsilon="1/3"))
    assert code == 0
    model = load_model(files / "fruit.npz")
    assert model.get_params() | {"schema": 0, "ledger": 0} == {
        "schema": 0,
        "ledger": 0,
        "epsilon": sum(release.cost for release in model.releases_),
        "n_trees": 6,
        "depth": 1,
        "splits": "threshold",
        "n_ensembles": 2,
        "max_features": 2,
        "voting": "weight",
        "template": "identity",
        "neighbours": "replace",
        "records_per_person": 1,
        "handle_unknown": "clip",
        "handle_missing": "drop",
        "random_state": 9,
        "insecure_rng": None,
        "n_jobs": None,
    }
    assert str(model.epsilon) == "1/3"


@pytest.mark.parametrize("stated", [[], ["--n-records", 250]])
def test_a_private_forest_predicts(run, files, stated):
    """Its cost is said, its trees are in the file, and a rule of one test is found."""
    policies = ["--neighbours", "replace", "--handle-missing", "drop"]
    code, out, err = run(*fit(files, "--method", "private", *stated, *policies))
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "drawn by the exponential mechanism, score of sensitivity 1" in text
    assert ("number of records measured" in text) == (not stated)
    model = load_model(files / "fruit.npz")
    assert type(model) is DrawnForestClassifier
    assert f"Saved {len(model.trees_)} tree" in text
    assert model.n_records == (250 if stated else None)
    assert (model.neighbours, model.handle_missing) == ("replace", "drop")
    code, out, _ = run("predict", files / "fruit.npz", files / "new.csv")
    assert code == 0
    assert out.split() == ["sold", *TRUTH]


def test_a_private_forest_may_promise_epsilon_and_delta(run, files):
    options = ["--privacy", "zcdp", "--delta", "1e-6", "--n-records", 250]
    code, out, err = run(*fit(files, "--method", "private", *options))
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "epsilon = 50 and delta = 1e-06, from pure epsilon = 50" in text
    model = load_model(files / "fruit.npz")
    assert (model.privacy, model.delta) == ("zcdp", 1e-6)


def test_the_seed_fixes_the_forest_and_not_the_noise(run, files):
    models = []
    for _ in range(2):
        code, *_ = run(*fit(files, "--force", "--depth", 2, epsilon="1/10"))
        assert code == 0
        models.append(load_model(files / "fruit.npz"))
    one, two = models
    forests = [model.ensembles_[0].forest for model in models]
    assert forests[0].feature.tolist() == forests[1].feature.tolist()
    assert one.leaf_counts_[0].tolist() != two.leaf_counts_[0].tolist()


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


def test_existing_files_are_kept_unless_forced(run, files):
    target = files / "fruit.npz"
    target.write_text("mine")
    assert_refused(run(*fit(files)), "exists already", "--force")
    assert target.read_text() == "mine"
    assert run(*fit(files, "--force"))[0] == 0
    labels = files / "labels.csv"
    labels.write_text("mine")
    again = ("--out", labels)
    assert_refused(run("predict", target, files / "new.csv", *again), "exists already")
    assert_refused(run(*batch(files, *again)), "exists already")
    template = ("schema", "suggest", files / "fruit.csv", *again)
    assert_refused(run(*template), "exists already")
    assert labels.read_text() == "mine"


def test_nothing_half_written_stays(run, files, monkeypatch):
    run(*fit(files, "--depth", 3))
    before = {path.name for path in files.iterdir()}

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmech_rf.cli.files.csv.writer", interrupt)
    target = ("--out", files / "labels.csv")
    outcome = run("predict", files / "fruit.npz", files / "new.csv", *target)
    assert outcome[0] == 130
    assert {path.name for path in files.iterdir()} == before


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


def test_a_batch_goes_to_a_file(run, files):
    code, out, _ = run(*batch(files, "--depth", 3, "--out", files / "labels.csv"))
    assert (code, out) == (0, "")
    assert (files / "labels.csv").read_text().split() == ["sold", *TRUTH]


# ---- what does not fit -------------------------------------------------------------


def test_a_quote_that_is_not_closed_swallows_no_records(run, files):
    """In a column that nobody reads, as one record of a thousand."""
    rows = [f"{'small' if i % 2 else 'large'},red,{i % 8},no,{i}" for i in range(1001)]
    rows[300] = 'small,red,1,no,"SECRET'
    text = "\n".join(["size,colour,weight,sold,note", *rows, ""])
    (files / "fruit.csv").write_text(text)
    for args in (fit(files), batch(files)):
        outcome = run(*args)
        assert_refused(outcome, "line 302 of the file opens a quote", "--multiline")
        assert "SECRET" not in outcome[2]
    assert_refused(run(*fit(files, "--multiline")), "line 302", "is not closed within")
    assert not (files / "fruit.npz").exists()


def test_fields_with_line_breaks_are_declared(run, files):
    with open(files / "fruit.csv", "a", encoding="utf-8") as stream:
        stream.write('"small",red,"1","no"\n')
    assert run(*fit(files))[0] == 0
    notes = [("size", "colour", "weight", "note"), ("large", "red", 1, "two\nlines")]
    write_rows(files / "new.csv", notes)
    args = ("predict", files / "fruit.npz", files / "new.csv")
    assert_refused(run(*args), "line 2 of the file opens a quote", "--multiline")
    assert len(run(*args, "--multiline")[1].split()) == 2


@pytest.mark.parametrize(
    "method", ["training", "laplace", "private", "drawn", "blocks", "labels"]
)
def test_a_table_without_records_is_fitted_like_any_other(run, files, method):
    """It is a neighbour of every table of one record."""
    (files / "fruit.csv").write_text("size,colour,weight,sold\n")
    code, _, err = run(*fit(files, "--method", method, epsilon=1))
    assert (code, err) == (0, "")
    assert run("predict", files / "fruit.npz", files / "new.csv")[0] == 0


def test_queries_that_do_not_match_the_schema(run, files):
    run(*fit(files, "--depth", 3))
    (files / "new.csv").write_text("size,colour,weight\nsmall,PINK,1\n")
    for args in (("predict", files / "fruit.npz", files / "new.csv"), batch(files)):
        outcome = run(*args)
        assert_refused(outcome, "new.csv", "row 0", "column 'colour'")
        assert "PINK" not in outcome[2]
        assert "`mmech-rf schema check" in outcome[2]
    assert "--handle" not in run("predict", files / "fruit.npz", files / "new.csv")[2]


def test_predict_advises_nothing_that_it_has_no_option_for(run, files):
    run(*fit(files, *TRAINING))
    (files / "new.csv").write_text("size,colour,weight\nsmall,PINK,1\n")
    outcome = run("predict", files / "fruit.npz", files / "new.csv")
    assert_refused(outcome, "outside the domain of the attribute; look at all")
    assert outcome[2].endswith("then correct it\n")


def test_hints_name_options_and_not_parameters_of_python(run, files):
    outcome = run(*fit(files, "--method", "drawn", epsilon="1e-7"))
    assert_refused(outcome, "--epsilon must be at least 1e-05 to draw trees, got 1e-07")
    assert "`fit --method labels`" in outcome[2]
    for word in ("blocks", "design", "Classifier", "="):
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


def test_a_file_that_is_read_is_not_written(run, files):
    before = (files / "fruit.csv").read_bytes()
    again = ("--out", files / "fruit.csv", "--force")
    assert_refused(run(*fit(files, *again)), "this command reads it")
    assert (files / "fruit.csv").read_bytes() == before


def test_extra_columns_can_be_an_error(run, files):
    run(*fit(files, "--depth", 3))
    args = ("predict", files / "fruit.npz", files / "new.csv")
    outcome = run(*args, "--extra-columns", "error")
    assert_refused(outcome, "has 1 columns that the schema does not name: 'note'")


def test_values_may_be_dropped_or_put_in_a_cell_of_their_own(run, files):
    with open(files / "fruit.csv", "a", encoding="utf-8") as stream:
        stream.write("small,red,,no\nsmall,red,99,no\n")
    assert run(*fit(files))[0] == 2
    for policy in ("drop", "category"):
        both = ("--handle-missing", policy, "--handle-unknown", policy, "--force")
        assert run(*fit(files, *both))[0] == 0
    (files / "new.csv").write_text("size,colour,weight\nlarge,red,\n")
    code, out, _ = run("predict", files / "fruit.npz", files / "new.csv")
    assert code == 0
    assert len(out.split()) == 2


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
        assert err.startswith("SENSITIVE, outside the privacy guarantee: ")
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
    assert out[0][2] == ""


def test_hints_send_to_the_check_first_and_never_propose_to_drop(run, numbered):
    (numbered / "odd.csv").write_text("rooms,kind,sold\n3,SECRET,0\n")
    for name in ("gaps.csv", "odd.csv"):
        outcome = run(*fit_homes(numbered, name))
        assert_refused(outcome, "`mmech-rf schema check`, then", "choose --handle-")
        assert "drop" not in outcome[2]
        assert "SECRET" not in outcome[2]


def test_check_lists_every_cell_that_does_not_fit(run, numbered):
    with open(numbered / "gaps.csv", "a", encoding="utf-8") as stream:
        stream.write(f"9,castle,{'2' * 1000}\n")
    check = ("schema", "check", numbered / "gaps.csv", numbered / "homes.json")
    code, out, err = run(*check)
    assert code == 1
    assert "for the owner of the records only" in err
    lines = out.splitlines()
    assert [line.partition(" is ")[0] for line in lines[1:-1]] == [
        "row 5, column 'rooms': ''",
        "row 7, column 'sold': ''",
        "row 300, column 'rooms': '9'",
        "row 300, column 'kind': 'castle'",
        f"row 300, column 'sold': '{'2' * 79}...",
    ]
    assert lines[-1].startswith("298 of 301 records fit the schema")


def test_check_says_by_its_exit_status_whether_all_records_fit(run, numbered):
    check = ("schema", "check", numbered / "whole.csv", numbered / "homes.json")
    code, out, _ = run(*check)
    assert code == 0
    assert out.startswith("300 of 300 records fit the schema")
    (numbered / "whole.csv").write_text("rooms,kind,sold\n")
    assert run(*check)[:2] == (0, out.replace("300", "0"))
    (numbered / "whole.csv").write_text('rooms,kind,sold\n3,flat,"1\n')
    assert_refused(run(*check), "line 2 of the file opens a quote")


def test_check_reads_queries_without_a_class(run, numbered):
    (numbered / "new.csv").write_text("rooms,kind\n3,flat\n9,flat\n")
    check = ("schema", "check", numbered / "new.csv", numbered / "homes.json")
    assert_refused(run(*check), "no column named 'sold'")
    code, out, _ = run(*check, "--queries")
    assert code == 1
    assert "row 1, column 'rooms': '9' is a value outside the domain" in out


# ---- other csv files -------------------------------------------------------------


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


def test_records_through_the_standard_input(run, files, monkeypatch):
    def piped(name):
        content = io.BytesIO((files / name).read_bytes())
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
    piped("new.csv")
    assert_refused(run("schema", "check", "-", files / "fruit.json"), "the data '-'")


# ---- wrong options ---------------------------------------------------------------


def test_domains_that_are_too_large_name_size_and_alternative(run, files):
    names = [f"a{i}" for i in range(16)]
    schema = Schema([Attribute.numeric(n, lower=0, upper=9) for n in names], [0, 1])
    schema.to_json(files / "fruit.json")
    rows = [[(i + j) % 10 for j in range(16)] + [i % 2] for i in range(20)]
    write_rows(files / "fruit.csv", [[*names, "class"], *rows])
    write_rows(files / "new.csv", [[*names, "class"], *rows])
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


# ---- schemas -----------------------------------------------------------------------


def test_a_template_reads_the_header_only(run, files):
    with open(files / "fruit.csv", "ab") as stream:
        stream.write(b"\xff\xfe no text, no table\n")
    code, out, err = run("schema", "suggest", files / "fruit.csv")
    assert (code, err) == (0, "")
    template = json.loads(out)
    names = [entry["name"] for entry in template["features"]]
    assert names == ["size", "colour", "weight"]
    assert template["target"]["name"] == "sold"
    types = [entry["type"] for entry in template["features"]]
    assert types == ["categorical", "categorical", "numeric"]
    with pytest.raises(ValueError, match="must list at least"):
        Schema.from_json(template)
    template["features"][0]["categories"] = ["small", "large"]
    template["features"][1]["categories"] = ["red", "green", "blue"]
    template["features"][2] = {"name": "weight", "type": "numeric"}
    template["features"][2] |= {"lower": 0, "upper": 8, "n_bins": 4, "other": "?"}
    template["target"]["categories"] = ["no", "yes"]
    assert Schema.from_json(template).domain_shape == (2, 3, 5)


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


def test_a_template_for_another_class_and_to_a_file(run, files):
    args = ("schema", "suggest", files / "fruit.csv", "--target", "size")
    assert run(*args, "--out", files / "s.json") == (0, "", "")
    template = json.loads((files / "s.json").read_text())
    assert template["target"]["name"] == "size"
    assert len(template["features"]) == 3
    args = ("schema", "suggest", files / "fruit.csv", "--target", "price")
    assert_refused(run(*args), "no column named 'price'; choose from size, colour")


def test_reading_values_confesses_it(run, files):
    rows = [(i / 4, "ab"[i % 2], i % 3, "no" if i % 2 else "yes") for i in range(40)]
    rows.append(("", "", 1, "no"))
    write_rows(files / "fruit.csv", [("x", "letter", "few", "sold"), *rows])
    args = ("schema", "suggest", files / "fruit.csv", "--read-values", "--bins", 4)
    code, out, err = run(*args)
    assert code == 0
    assert err.startswith("mmech-rf: PrivacyLeakWarning: categories, bounds and class")
    schema = Schema.from_json(out)
    x, letter, few = schema.attributes
    assert (x.lower, x.upper, x.size, x.other) == (0, 9.75, 5, "?")
    assert letter.categories == ("a", "b", "?")
    assert few.categories == ("0", "1", "2")
    bunch = load_csv(files / "fruit.csv", schema)
    schema.encode(bunch.data, bunch.target, handle_missing="category")


def test_a_header_that_would_swallow_records(run, files):
    (files / "fruit.csv").write_text('a,"b,class\n1,SECRET,0\n1,x",0\n')
    outcome = run("schema", "suggest", files / "fruit.csv")
    assert_refused(outcome, "line 1 of the file opens a quote")
    assert "SECRET" not in outcome[2]
    assert "multiline=True" not in outcome[2]
    (files / "fruit.csv").write_text('"two\nlines",class\n1,0\n')
    code, out, _ = run("schema", "suggest", files / "fruit.csv", "--multiline")
    assert code == 0
    assert json.loads(out)["features"][0]["name"] == "two\nlines"


# ---- real files --------------------------------------------------------------------

REAL = {"heart": ("3", "6", "drop"), "mushroom": ("5", "4", "error")}


@pytest.mark.parametrize("splits", ["binary", "multiway"])
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("mode", ["training", "laplace", "prediction", "subsample"])
def test_real_files_with_ensembles(run, data_dir, tmp_path, name, splits, mode):
    """Train on one part of a file at a large budget, predict the other."""
    q, size, missing = REAL[name]
    train, test, truth = parts_of(data_dir / f"{name}.csv.gz", tmp_path)
    options = ["--schema", data_dir / f"{name}.mrf_schema.json", "--epsilon", 20]
    options += ["--n-ensembles", q, "--max-features", size, "--splits", splits]
    options += ["--handle-missing", missing, "--depth", 3, "--trees", 60]
    out = ("--out", tmp_path / "labels.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if mode in ("training", "laplace"):
            model = tmp_path / "m.npz"
            code, _, err = run("fit", train, *options, "--method", mode, "--out", model)
            assert code == 0, err
            code, _, err = run("predict", model, test, *out)
        else:
            code, _, err = run(
                "predict-batch", train, test, *options, "--method", mode, *out
            )
    assert code == 0, err
    assert accuracy(tmp_path / "labels.csv", truth) > (
        0.6 if mode == "laplace" else 0.7
    )


def test_a_real_file_with_the_private_forest(run, data_dir, tmp_path):
    """One tree of thirteen attributes, without a word on trees."""
    train, test, truth = parts_of(data_dir / "heart.csv.gz", tmp_path)
    model, labels = tmp_path / "m.npz", tmp_path / "labels.csv"
    options = ["--schema", data_dir / "heart.mrf_schema.json", "--out", model]
    options += ["--epsilon", 20, "--handle-missing", "drop", "--method", "private"]
    code, _, err = run("fit", train, *options)
    assert code == 0, err
    code, _, err = run("predict", model, test, "--out", labels)
    assert code == 0, err
    assert accuracy(labels, truth) > 0.6


def parts_of(path, folder):
    """Write four fifths and the rest to files; return them and the classes of these."""
    with gzip.open(path, "rt", newline="") as stream:
        header, *rows = csv.reader(stream)
    train, test = folder / "train.csv", folder / "test.csv"
    write_rows(train, [header, *(row for i, row in enumerate(rows) if i % 5)])
    write_rows(test, [header, *rows[::5]])
    return train, test, [row[-1] for row in rows[::5]]


def accuracy(path, truth):
    labels = path.read_text().split()[1:]
    return sum(a == b for a, b in zip(labels, truth, strict=True)) / len(truth)
