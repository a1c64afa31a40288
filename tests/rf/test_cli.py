"""The command line, called as a function and once as a process."""

import argparse
import os
import subprocess
import sys
import warnings

import pytest
from cli_cases import assert_refused, write_wide

import mmech.cli
from mmech.cli import files as of_domains
from mmech_rf import evaluation
from mmech_rf.cli.common import HELP
from mmech_rf.cli.main import build_parser

FORESTS = ("--trees", "4", "--depth", "2")
FAST = (*FORESTS, "--repeats", "2")


def fruit(files, *args):
    data, schema = files / "fruit.csv", files / "fruit.json"
    needed = ("evaluate", "--data", data, "--schema", schema, "--repeats", 2)
    if "--methods" not in args:
        args = ("--methods", "all", *args)
    return (*needed, *(() if "majority" in args else FORESTS), *args)


@pytest.mark.parametrize("args", [[], ["schema"], ["fit", "-h"]], ids=str)
def test_who_names_no_command_is_shown_them(run, args):
    code, out, err = run(*args)
    assert (code, err) == (0, "")
    assert out.startswith("usage: mmech-rf")


def explained(parser):
    """Yield what a command and all below it say of their options and arguments."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from explained(below)
        else:
            yield action.help


def test_every_option_is_explained_and_nothing_else_is():
    said = [*explained(build_parser()), *explained(mmech.cli.build_parser())]
    assert all(said)
    for own in (HELP, of_domains.HELP):
        for name, text in own.texts["options"].items():
            assert any(words.startswith(text) for words in said), name


def test_demo_shows_every_method_with_its_release(run):
    small = ("--trees", 8, "--depth", 3, "--repeats", 1)
    code, out, err = run("demo", *small, "--epsilon", "1.5")
    assert (code, err) == (0, "")
    table = [line for line in out.splitlines() if "  " in line.strip()]
    for method in evaluation.make_methods():
        (line,) = (line for line in table if line.startswith(f"{method.label}  "))
        assert method.released in line
    assert "ε = 1.5" in table[0]
    assert "not private: they come from the records" in " ".join(out.split())


def test_evaluate_built_in_data_at_several_budgets(run):
    code, out, err = run(
        *("evaluate", "--data", "monks-1", "--epsilon", "2", "1/2", "2", *FAST),
        *("--methods", "laplace", "majority", "--quiet"),
    )
    assert (code, err) == (0, "")
    header, laplace, majority, *_ = out.splitlines()[2:]
    assert " ".join(header.split()) == "method released ε = 0.5 ε = 2"
    assert laplace.startswith("Laplace, shared data (hard)")
    assert laplace.count("±") == 2
    first, second = majority.split("not private")[1].split(" ± ")[:2]
    assert first.strip() in second  # the same at every budget


def test_evaluate_a_set_of_openml(run, asked):
    """A fetched set is used as a built-in one is; a failure is one sentence."""
    args = ("evaluate", "--methods", "majority", "--repeats", 1, "--data")
    code, out, _ = run(*args, "heart", "--missing", "drop")
    assert code == 0
    assert "1 records with missing values were left out" in out
    assert_refused(run(*args, "heart"), "or choose --missing drop")
    asked.down = True
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, out, err = run(*args, "adult")
    *said, error = err.splitlines(keepends=True)
    assert said
    assert all(line.startswith("mmech-rf: warning: ") for line in said)
    assert_refused((code, out, error), "error: cannot fetch 'adult'")
    assert "no route to host" in error


def test_evaluate_a_csv_file(run, files):
    code, out, _ = run(*fruit(files, "--epsilon", 1, 50))
    assert code == 0
    assert "fruit.csv, trees 4, depth 2: test accuracy, mean ± std over 2" in out
    training, recalls = (line for line in out.splitlines() if "batch training" in line)
    assert training.count("±") == 2
    assert "ε = 50" in recalls


def test_the_voting_rule_is_applied_and_shown(run, files):
    code, out, _ = run(*fruit(files, "--voting", "weight", "--methods", "training"))
    assert code == 0
    assert "batch training (weight)" in out
    assert "(hard)" not in out


def test_a_method_whose_domain_is_too_large_is_skipped(run, files):
    write_wide(files, "fruit.csv")
    code, out, _ = run(*fruit(files, "--methods", "training", "laplace"))
    assert code == 0
    assert "* Skipped batch training (hard): the domain of the schema has" in out
    assert "Laplace, shared data (hard)" in out


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("small,,3,yes", "column 'colour' of the records (row 0 is below"),
        ("small,red,3,", "class column (row 0 is below the header) holds a missing"),
    ],
)
def test_records_that_miss_a_value_can_be_left_out(run, files, record, words):
    with open(files / "fruit.csv", "a", encoding="utf-8") as stream:
        stream.write(f"{record}\n")
    args = fruit(files, "--methods", "majority")
    outcome = run(*args)
    assert_refused(outcome, words)
    assert outcome[2].index("`mmech-rf schema check`") < outcome[2].index("--missing d")
    code, out, _ = run(*args, "--missing", "drop")
    assert code == 0
    assert "1 records with missing values were left out" in out


def test_schemas_made_with_knowledge_of_the_data_are_named(run):
    args = ("evaluate", "--methods", "majority", "--repeats", 1, "--data")
    assert "schema of iris is not wholly independent" in run(*args, "iris")[1]
    assert "not wholly independent" not in run(*args, "monks-1")[1]


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")


@pytest.mark.by_day(2)
@FULL
@pytest.mark.parametrize(
    "args", [["--version"], ["--help"], ["demo", "--help"], ["schema"]]
)
def test_a_full_disk_is_one_sentence(args):
    """Python itself complains once more where its buffer is left full."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mmech_rf", *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "mmech-rf: error: cannot write the output: No space left on device\n"
    )


def test_an_interrupt_ends_with_one_line(run, watch_all):
    def interrupt(draw, sample):
        if draw.kind == "laplace":  # which is paid for
            raise KeyboardInterrupt
        return sample()

    watch_all(interrupt)
    args = ("evaluate", "--data", "monks-1", "--methods", "laplace", "--quiet")
    said = "mmech-rf: interrupted; what it paid for is spent\n"
    assert run(*args) == (130, "", said)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "line",
    [
        "fit fruit.csv --schema none --epsilon 1 --out m.npz",
        "fit none --schema fruit.json --epsilon 1 --out m.npz",
        "predict none fruit.csv",
        "schema check none fruit.json",
    ],
)
def test_files_are_looked_for_before_libraries_are_imported(files, line):
    code = "import sys; from mmech_rf.cli import main; main(sys.argv[1:])"
    code += "; sys.exit('numpy' in sys.modules)"
    command = [sys.executable, "-c", code, *line.split()]
    done = subprocess.run(command, capture_output=True, cwd=files)
    assert done.returncode == 0
    assert b"there is no file 'none'" in done.stderr
