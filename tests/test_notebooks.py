"""Every notebook runs, is committed without outputs and says how long it takes."""

import json
import re
from pathlib import Path

import pytest

import mmech

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TIMEOUT = 600
"""Seconds after which a cell is taken to be stuck, also on a busy machine."""
LONGEST_FUNCTION = 15

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source_of(cell):
    return "".join(cell["source"])


def test_there_are_notebooks():
    assert NOTEBOOKS


@each_notebook
def test_is_committed_without_outputs(path):
    for cell in cells_of(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], f"cell {cell['id']} has outputs"
            assert cell["execution_count"] is None, f"cell {cell['id']} is numbered"


@each_notebook
def test_first_cell_says_question_data_and_run_time(path):
    first = cells_of(path)[0]
    assert first["cell_type"] == "markdown"
    for word in ("Question", "Data", "Run time"):
        assert f"**{word}.**" in source_of(first)
    assert re.search(r"\*\*Run time\.\*\* About \d+ seconds", source_of(first))


@each_notebook
def test_last_cell_asserts_the_claims(path):
    last = cells_of(path)[-1]
    assert last["cell_type"] == "code"
    assert "assert " in source_of(last)


@each_notebook
def test_functions_are_short(path):
    for cell in cells_of(path):
        if cell["cell_type"] != "code":
            continue
        for body in re.findall(r"^def .*\n(?:[ \t].*\n|\n)*", source_of(cell), re.M):
            assert len(body.rstrip().splitlines()) <= LONGEST_FUNCTION, body


@pytest.mark.slow  # and a step of .ci/run
# Jupyter's own sockets and event loops may be collected after the kernel has stopped.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@each_notebook
def test_runs(path, monkeypatch):
    reason = "notebooks run in Jupyter; install the extra 'notebooks'"
    nbclient = pytest.importorskip("nbclient", reason=reason)
    nbformat = pytest.importorskip("nbformat", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    # The kernel imports the package that this process tests, not another copy.
    monkeypatch.setenv("PYTHONPATH", str(Path(mmech.__file__).parents[1]))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": path.parent}},
    )
    client.execute()
