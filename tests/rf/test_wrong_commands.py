"""What the command line says to wrong input: one sentence, and nothing happens.

Every row of a table is a command that cannot work, and words of what is said. The
commands run in a folder with the files of `folder`; a row may replace some of them.
"""

import gzip
import itertools
import shlex
import subprocess
import sys

import pytest

from mmech import PrivacyLedger
from mmech_rf import Attribute, BatchTrainingClassifier, Schema
from mmech_rf.cli import main

SIZES, COLOURS = ["small", "large"], ["red", "green", "blue"]
HEADER = "size,colour,weight,sold\n"


@pytest.fixture(scope="module")
def contents():
    """Files by name: 48 records, queries, their schema and a model."""
    schema = Schema(
        [
            Attribute.ordinal("size", SIZES),
            Attribute.categorical("colour", COLOURS),
            Attribute.numeric("weight", lower=0, upper=8, n_bins=2),
        ],
        ["no", "yes"],
        target="sold",
    )
    rows = list(itertools.product(SIZES, COLOURS, range(8)))
    labels = ["yes" if size == "large" else "no" for size, *_ in rows]
    model = BatchTrainingClassifier(schema, epsilon=1, depth=2, n_trees=2)
    model.fit(rows, labels)
    lines = [",".join(map(str, row)) for row in rows]
    records = [f"{line},{label}\n" for line, label in zip(lines, labels, strict=True)]
    return model, {
        "fruit.json": schema.to_json(),
        "fruit.csv": HEADER + "".join(records),
        "new.csv": "size,colour,weight\n" + "\n".join(lines[::5]) + "\n",
        "mine.txt": "mine",
    }


@pytest.fixture
def refused(contents, tmp_path, monkeypatch, capsys, watch_all):
    """Run a command line that cannot work; return what is said."""
    model, files = contents
    monkeypatch.chdir(tmp_path)
    model.save("fruit.npz")
    PrivacyLedger.open("rho.json", total=1, currency="rho")
    PrivacyLedger.open("other.json", total=1, neighbours="replace")
    draws = []

    def note(draw, sample):
        if draw.kind != "key":
            draws.append(draw.kind)
        return sample()

    watch_all(note)

    def call(line, changed=None):
        for name, text in {**files, **(changed or {})}.items():
            data = text if isinstance(text, bytes) else text.encode()
            (tmp_path / name).write_bytes(data)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        capsys.readouterr()
        code = main(shlex.split(line))
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("mmech-rf: error: ")
        assert err.count(". ") == 0  # one sentence
        assert not any(word in err for word in ("Traceback", "SECRET", " 0x"))
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
        assert draws == []
        return err

    return call


FIT = "fit fruit.csv --schema fruit.json --out m.npz"
TRAINING = f"{FIT} --epsilon 1 --method training --depth 2 --trees 4"
PRIVATE = f"{FIT} --epsilon 1 --method private"
LAPLACE = f"{FIT} --epsilon 1 --method laplace --depth 2 --trees 4"
RECIPE = f"{FIT} --epsilon 1 --method recipe --recipe"
BATCH = "predict-batch fruit.csv new.csv --schema fruit.json --epsilon 1 --depth 2"
PREDICT = "predict fruit.npz new.csv"
EVALUATE = "evaluate --quiet --data"
OWN = f"{EVALUATE} fruit.csv --schema fruit.json --methods majority --repeats 2"
SUGGEST = "schema suggest fruit.csv"
CHECK = "schema check fruit.csv fruit.json"
WHOLE = "must be a whole number from"

OPTIONS = [
    ("bogus", "invalid choice: 'bogus'"),
    ("--colour", "unrecognized arguments: --colour"),
    ("demo --depth 100", "--depth must be at most 6"),
    ("demo --epsilon -1", "argument --epsilon: it must be a finite number > 0, got -1"),
    ("demo --trees 0", f"{WHOLE} 1"),
    ("demo --depth deep", "got 'deep'; or auto"),
    (
        "schema check mine.csv --schema mine.json",
        "unrecognized arguments: --schema (SCHEMA is given without its name)",
    ),
    ("demo --colour", "unrecognized arguments: --colour; see mmech-rf demo --help"),
    ("demo --epsilonn 1", "--epsilonn 1 (did you mean '--epsilon'?); see mmech-rf d"),
    (f"{PRIVATE} --privatebins weight", "did you mean '--private-bins'?"),
    (f"{PRIVATE} --private-bins wieght", "did you mean 'weight'?"),
    ("fit fruit.json --schema fruit.csv --epsilon 1 --out m.npz", "not the records"),
    ("predict new.csv fruit.npz", "'fruit.npz' may be the model, which comes first"),
    ("evaluate", "required: --data"),
    (f"{EVALUATE} nope", "no data set and no file named"),
    (f"{EVALUATE} nope --schema s", "there is no file 's'"),
    (f"{EVALUATE} car --schema s", "brings its own schema"),
    (f"{EVALUATE} car --methods x", "invalid choice: 'x'"),
    (f"{EVALUATE} car --csv no/out.csv", "no folder 'no'"),
    (f"{EVALUATE} car --csv .", "it is a folder"),
    (f"{EVALUATE} car --csv mine.txt", "exists already"),
    (f"{EVALUATE} car --plot a.txt", "must end in .png"),
    (f"{EVALUATE} car --methods laplace --depth 100", "--depth must be at most 6"),
    (f"{EVALUATE} car --trees 8", "--trees is a setting of training, "),
    (f"{EVALUATE} car --depth auto", "leave it out, or add one to --methods"),
    (f"{EVALUATE} car --methods majority --voting hard", "--voting is a setting"),
    (f"{EVALUATE} fruit.csv", "--schema must name the public attributes"),
    (FIT, "required: --epsilon"),
    ("fit fruit.csv --epsilon 1 --out m.npz", "required: --schema"),
    ("fit fruit.csv --schema fruit.json --epsilon 1", "required: --out"),
    (f"{FIT} --epsilon 1e-9 --method private", "--epsilon must be at least 1e-05"),
    (f"{PRIVATE} --bins 1e9", "from 1 to 100,000"),
    (f"{TRAINING} --max-features 9", "--max-features must be at most the number of"),
    (f"{TRAINING} --max-features some", "or partition"),
    (f"{TRAINING} --n-ensembles 9", "--trees must be at least --n-ensembles"),
    (f"{TRAINING} --trees inf --splits binary", "needs --splits multiway"),
    (f"{LAPLACE} --template union", "does not go with --method"),
    (f"{TRAINING} --template levels", "template must be one of 'auto', 'identity'"),
    (f"{RECIPE} q", "the name of a recipe, got q; choose jpw, friedman-schuster, "),
    (f"{PRIVATE} --ledger none.json", "make it with `mmech budget none.json --total E"),
    (f"{PRIVATE} --ledger rho.json", "--ledger must count epsilon with --privacy pure,"
     " but counts rho; use one with the currency epsilon, or leave --ledger out"),
    (f"{PRIVATE} --ledger other.json", "the same --neighbours and --records-per-per"),
    (f"{RECIPE} fi-2017", "use --recipe fi-2021"),
    (f"{RECIPE} pte --neighbours labels", "give X_unlabelled to a fit in Python"),
    (f"{PRIVATE} --recipe spe", "--recipe does not go with --method private"),
    (f"{TRAINING} --n-records 99", "--n-records does not go with --method training"),
    (f"{PRIVATE} --template union", "choose --method training"),
    (f"{LAPLACE} --voting log-odds", "voting must be one of 'hard', 'weight', got"),
    (f"{PRIVATE} --settings best", """it must be "ranking", got 'best'"""),
    (f"{TRAINING} --settings ranking", "choose --method private"),
    (f"{TRAINING} --privacy zcdp", "--privacy does not go with --method training"),
    (f"{PRIVATE} --privacy zcdp", "--privacy zcdp needs --delta"),
    (f"{PRIVATE} --delta 0.1", "--delta goes with --privacy zcdp only, got 0.1"),
    (f"{PRIVATE} --delta tiny", "must be a number between 0 and 1, got 't"),
    (f"{PRIVATE} --privacy zcdp --delta 2", "--delta must be a probability"),
    (f"{PRIVATE} --trees 4", "--trees does not go with --method private"),
    (f"{TRAINING} --depth 100", "--depth must be at most 3"),
    (f"{TRAINING} --seed -1", f"{WHOLE} 0"),
    (f"{TRAINING} --handle-missing category", "--handle-missing category needs a"),
    (f"{TRAINING} --out no/model.npz", "there is no folder 'no'"),
    (f"{TRAINING} --out mine.txt", "exists already"),
    (f"{TRAINING} --out fruit.csv --force", "this command reads it"),
    ("fit . --schema fruit.json --epsilon 1 --out m.npz", "the data 'new.csv': the"),
    (f"{BATCH} --voting hard", "choose --method subsample"),
    (f"{BATCH} --privacy zcdp", "unrecognized arguments"),
    (f"{BATCH} --out new.csv --force", "this command reads it"),
    (f"{BATCH} --out mine.txt", "exists already"),
    ("predict-batch fruit.csv --schema fruit.json", "required: QUERIES, --epsilon"),
    ("predict fruit.csv new.csv", "is not a model file or is damaged"),
    ("predict . new.csv", "'.' is a folder"),
    (f"{PREDICT} --out mine.txt", "exists already"),
    ("show fruit.npz --html fruit.npz --force", "this command reads it"),
    ("show mine.txt", "is not a model file or is damaged"),
    (f"{PREDICT} --epsilon 1", "unrecognized arguments: --epsilon"),
    (f"{TRAINING} --sep ;;", "--sep must be one character"),
    (f"{TRAINING} --sep '\"'", "--sep must be one character"),
    (f"{TRAINING} --encoding klingon", "--encoding must be one that Python knows"),
    (f"{TRAINING} --encoding utf-16", "is not encoded in UTF-16, the --encoding to"),
    (f"{TRAINING} --sep ;", "one column at this --sep, with ',' in its name"),
    ("schema bogus", "invalid choice: 'bogus'"),
    (f"{SUGGEST} --target price", "no column named 'price'; choose from size, colour"),
    (f"{SUGGEST} --out fruit.csv --force", "this command reads it"),
    (f"{SUGGEST} --out mine.txt", "exists already"),
    ("schema check new.csv fruit.json", "no column named 'sold'"),
]  # fmt: skip


@pytest.mark.by_day(11)
@pytest.mark.parametrize(("line", "reason"), OPTIONS, ids=[row[0] for row in OPTIONS])
def test_options(refused, line, reason):
    assert reason in refused(line)


CUT_OFF = gzip.compress(HEADER.encode() * 9, mtime=0)[:-9]
RECORDS = [
    (HEADER[1:], ["no column named 'size'"]),
    ("size,colour,sold\nsmall,red,no\n", ["no column named 'weight'"]),
    ("size,size,colour,weight,sold\n", ["2 columns named 'size'"]),
    (f"{HEADER}small,red\n", ["line 2 of the file has 2 fields"]),
    (f"{HEADER}1,small,red,1,SECRET\n", ["5 fields but the header has 4; correct the "
     "line or quote its separators, or name the first column, which R leaves unnamed"]),
    (f'{HEADER}"SECRET\nred,1,no"\n', ["line 2 of the file opens a quote", "--multi"]),
    (f"{HEADER}small,SECRET,1,no\n", ["row 0, column 'colour' of the records"]),
    (f"{HEADER}small,red,SECRET,no\n", ["'weight' of the records (row 0 is below"]),
    (HEADER.replace("weight", "Weight"), ["did you mean 'Weight'?"]),
    (f"{HEADER}small,red,,no\n", ["row 0", "'weight'", "holds a missing value"]),
    (f"{HEADER}small,red,1,SECRET\n", ["row 0", "class column", "not one of the"]),
    (f"{HEADER}small,red,1,\n", ["row 0", "class column", "missing value"]),
    (f"{HEADER}small,red,1,\xe9\n".encode("latin-1"), ["line 2", "UTF-8"]),
    (HEADER.replace(",", ";"), ["with ';' in its name", "pass --sep ';'"]),
    ("", ["the file is empty; its first line must name the columns"]),
]  # fmt: skip


@pytest.mark.by_day(6)
@pytest.mark.parametrize("command", [TRAINING, BATCH, OWN])
@pytest.mark.parametrize(("text", "reasons"), RECORDS)
def test_records_that_do_not_match_the_schema(refused, text, reasons, command):
    said = refused(command, {"fruit.csv": text})
    assert "cannot use the data 'fruit.csv': " in said
    assert any(reason in said for reason in reasons)


ONE = '{"features": [{"name": "size", "type": "categorical", "categories": %s%s}], '
SOLD = '"target": {"name": "sold", "categories": ["no", "yes"]}}'
ENTRIES = [
    ('{"name": "a", "type": "nominal", "categories": ["a"]}', "got 'nominal'\n"),
    ('{"name": "a", "type": "int"}', "'date', 'hierarchy', got 'int'"),
    ('{"name": "a", "type": "numeric", "lower": 0}', "'a', which is numeric, needs"),
    ('{"name": "a", "type": "numeric", "lower": NaN, "upper": 1}', "'a'"),
    ('{"name": "a", "type": ["x"], "categories": ["a", "b"]}', "'a'"),
    ('{"name": "a", "categories": ["a", "b"]}', "of features needs 'type'"),
    ("3", "which must be an object"),
    ('{"name": "a", "type": "categorical", "categories": ["a"], "monotone": 1}',
     "has no order to be monotone in"),
]  # fmt: skip
FILES = [
    ("fruit.json", "{no json", TRAINING, "'fruit.json': the schema is not valid JSON"),
    ("fruit.json", "[]", TRAINING, "must be a JSON object, got list"),
    ("fruit.json", "[]", CHECK, "must be a JSON object, got list"),
    ("fruit.json", b"\xff\xfe", TRAINING, "'fruit.json'"),
    ("fruit.json", "{}", TRAINING, "of no known kind"),
    ("fruit.json", '{"features": []}', OWN, "'fruit.json': the schema"),
    ("fruit.json", '{"features": 3, ' + SOLD, TRAINING, "list with an entry for each"),
    ("fruit.json", '{"features": [], ' + SOLD, TRAINING, "at least one attribute"),
    ("fruit.json", ONE % ('["a"]', ', "othr": "a"') + SOLD, OWN, "mean 'other'?"),
    (
        "fruit.json",
        ONE % ('["a"]', "") + SOLD.replace("categories", "labels"),
        TRAINING,
        "unknown key 'labels' of the target",
    ),
    *(
        ("fruit.json", f'{{"features": [{entry}], {SOLD}', TRAINING, reason)
        for entry, reason in ENTRIES
    ),
    ("fruit.json", "[" * 100_000, TRAINING, "is not valid JSON"),
    ("fruit.json", ONE % ('["a"]', "") + '"target": "sold"}', TRAINING, "the target"),
    ("new.csv", "size,colour,weight\nsmall,SECRET,1\n", PREDICT, "'colour'"),
    ("new.csv", "size,colour,weight\nsmall,SECRET,1\n", BATCH, "'colour'"),
    ("new.csv", "size,colour\nsmall,red\n", PREDICT, "exactly one is needed; add it"),
    ("new.csv", "", PREDICT, "'new.csv': the file is empty;"),
    ("fruit.npz", "size,colour\n", PREDICT, "is not a model file or is damaged"),
    ("fruit.npz", b"PK\x03\x04", PREDICT, "is not a model file or is damaged"),
    ("fruit.csv", "a,a,class\n", SUGGEST, "a name of its own, got 'a', 'a', 'class'"),
    ("fruit.csv", "class\n", SUGGEST, "at least two columns"),
    ("fruit.csv", "a,,class\n", SUGGEST, "each with a name of its own"),
    ("fruit.csv", "", SUGGEST, "its first line must name the columns"),
    ("fruit.csv", 'a,"b\nc",class\n', SUGGEST, "line 1 of the file opens a quote"),
    ("fruit.csv", f'{HEADER}small,red,1,"no\n', CHECK, "line 2 of the file opens"),
    ("fruit.csv", f"{HEADER}small,red,1,no\n", OWN, "at least 5"),
    ("a.csv.gz", HEADER, OWN.replace("fruit.csv", "a.csv.gz"), "is not a gzip file"),
    ("a.csv.gz", CUT_OFF, OWN.replace("fruit.csv", "a.csv.gz"), "or cut off"),
]  # fmt: skip


@pytest.mark.by_day(5)
@pytest.mark.parametrize(
    ("name", "text", "line", "reason"), FILES, ids=[case[-1] for case in FILES]
)
def test_files_that_cannot_be_used(refused, name, text, line, reason):
    assert reason in refused(line, {name: text})


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"{TRAINING} --schema none.json", "none.json"),
        (TRAINING.replace("fruit.csv", "none.csv"), "none.csv"),
        ("predict none.npz fruit.csv", "none.npz"),
        ("schema check none.csv fruit.json", "none.csv"),
    ],
)
def test_files_are_looked_for_before_libraries_are_imported(refused, line, name):
    assert f"there is no file '{name}'" in refused(line)
    code = "import sys; from mmech_rf.cli import main; main(sys.argv[1:])"
    code += "; sys.exit('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *shlex.split(line)], capture_output=True
    )
    assert done.returncode == 0
