"""The command that lists unnoticed mistakes, on a package of one line."""

import ast
import builtins
import dis
import inspect
from functools import cache
from pathlib import Path

import pytest
from mutants.__main__ import report
from mutants._catalogue import MUTANTS, TABLE
from mutants._edits import KINDS, edits
from mutants._runner import FailingTestsError, Mutant, run

ROOT = Path(__file__).parents[1]
SOURCE = "def double(x):\n    return x + x\n"
CONFTEST = """\
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:] = [path for path in sys.path if Path(path).resolve() != ROOT]
sys.path.append(str(ROOT))
import mmech

assert not Path(mmech.__file__).resolve().is_relative_to(ROOT)
"""
"""What `conftest.py` does: modules of the clone are not those that are tested."""
TESTS = """\
from mmech import double


def test_two():
    assert double(2) == 4


def test_three():
    assert double(3) == 6
"""
KILLED = Mutant("a cube", "mmech/__init__.py", "x + x", "x**3", ("tests/test_it.py",))
SURVIVOR = Mutant(
    "a square", "mmech/__init__.py", "x + x", "x * x", ("tests/test_it.py::test_two",)
)
STALE = Mutant("stale", "mmech/__init__.py", "y + y", "0", ("tests/test_it.py",))
TWICE = Mutant("twice", "mmech/__init__.py", "x", "y", ("tests/test_it.py",))
UNTESTED = Mutant("none", "mmech/__init__.py", "x + x", "0", ("tests/test_no.py",))
BROKEN = Mutant("broken", "mmech/__init__.py", "x + x", "x +", ("tests/test_it.py",))


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starts quickly
    for name, text in {
        "mmech/__init__.py": SOURCE,
        "tests/test_it.py": TESTS,
        "tests/conftest.py": CONFTEST,
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.slow
def test_a_mistake_in_the_sources_is_seen():
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == "biased shuffle")
    (verdict,) = run([mutant], ROOT)
    assert verdict.outcome == "killed", verdict.detail


@pytest.mark.slow
def test_survivors_stale_and_untested_mistakes_are_told_apart(root, capsys):
    # One after the other in one copy: a mistake that stayed would make others stale.
    mutants = [KILLED, SURVIVOR, STALE, TWICE, UNTESTED, BROKEN]
    verdicts = list(run(mutants, root))
    assert [v.mutant for v in verdicts] == mutants
    assert [v.outcome for v in verdicts] == [
        "killed", "survived", "stale", "stale", "not tested", "not tested"
    ]  # fmt: skip
    assert verdicts[0].detail == "tests/test_it.py::test_two"
    assert (root / KILLED.file).read_text() == SOURCE
    assert report(verdicts) == 1
    assert report(verdicts[:1]) == 0
    assert "1 killed, 1 survived, 2 stale, 2 not tested" in capsys.readouterr().out


@pytest.mark.slow
def test_tests_that_fail_without_a_mistake_judge_nothing(root):
    (root / "mmech/__init__.py").write_text("def double(x):\n    return x\n")
    with pytest.raises(FailingTestsError, match="test_two"):
        list(run([KILLED], root, jobs=2))


def test_names_tell_mistakes_apart():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_named_cases_are_those_of_today(request):
    """All of the files of this run; a case that was renamed kills no mutant."""
    config = request.config
    if config.option.keyword or any("::" in argument for argument in config.args):
        pytest.skip("cases were picked by name")
    cases = {item.nodeid for item in request.session.items}
    there = cases | {case.partition("[")[0] for case in cases}
    files = {case.partition("::")[0] for case in cases}
    named = {test for mutant in MUTANTS for test in mutant.tests if "::" in test}
    assert {test for test in named if test.partition("::")[0] in files} <= there


@pytest.mark.parametrize("kind", TABLE)
def test_drawn_mistakes_are_edits_of_their_kind(kind):
    assert kind in KINDS
    for file, find, replace, _ in TABLE[kind]:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert (kind, find, replace) in set(edits(source))


def global_names(code):
    """Return names that code looks up beyond its functions, and those that it sets."""
    used, known = set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            used.add(step.argval)
        elif step.opname == "STORE_NAME":
            known.add(step.argval)
    for inner in filter(inspect.iscode, code.co_consts):
        used |= global_names(inner)[0]
    return used, known


@cache
def looked_up(file):
    """Return the text of a file of the package, its names, and where its parts end."""
    text = (ROOT / file).read_text(encoding="utf-8")
    used, known = global_names(compile(text, file, "exec"))
    return text, used | known, [own.end_lineno for own in ast.parse(text).body]


def changed_part(mutant):
    """Return the function or class of a file that a mistake is in, with it."""
    text, _, ends = looked_up(mutant.file)
    lines = text.splitlines(keepends=True)
    first = text[: text.index(mutant.find)].count("\n")
    last = first + mutant.find.rstrip("\n").count("\n") + 1
    start = max((end for end in ends if end <= first), default=0)
    stop = min(end for end in ends if end >= last)
    return "".join(lines[start:stop]).replace(mutant.find, mutant.replace)


@cache
def functions(file):
    """Return the decorators of the functions of a test file, as text by name."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = [own for own in ast.walk(tree) if isinstance(own, ast.FunctionDef)]
    return {own.name: [*map(ast.unparse, own.decorator_list)] for own in found}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mistake_fits_the_source(mutant):
    text, names, _ = looked_up(mutant.file)
    assert text.count(mutant.find) == 1
    # What is left is a program still, of names that are there: any test stops another.
    used, known = global_names(compile(changed_part(mutant), mutant.file, "exec"))
    assert used - names <= known | set(dir(builtins))
    for test in mutant.tests:
        file, _, name = test.partition("::")
        if name:  # of a test that runs by day
            assert "pytest.mark.slow" not in functions(file)[name.partition("[")[0]]
