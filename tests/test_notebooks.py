"""Every notebook runs, shows outputs that are current and says how long it takes.

``python tests/test_notebooks.py`` writes the outputs anew, of the notebooks that are
named, or of all.
"""

import base64
import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

import mmech

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TIMEOUT = 600
"""Seconds after which a cell is taken to be stuck, also on a busy machine."""
LONGEST_FUNCTION = 15
MOST_BYTES = 300_000

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source_of(cell):
    return "".join(cell["source"])


def executed(path):
    """Return the cells of a notebook after a run in Jupyter."""
    reason = "notebooks run in Jupyter; install the extra 'notebooks'"
    nbclient = pytest.importorskip("nbclient", reason=reason)
    nbformat = pytest.importorskip("nbformat", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": path.parent}},
        # The kernel imports the package that this process tests, not another copy.
    ).execute(env=os.environ | {"PYTHONPATH": str(Path(mmech.__file__).parents[1])})
    return notebook.cells


def in_256_colours(picture):
    """Return a picture of an output as a smaller one, both PNG in base64."""
    from PIL import Image  # matplotlib has it

    made = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        image.convert("RGB").quantize(256).save(made, "PNG", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def write_outputs(path):
    """Run a notebook and put its outputs into the file; nothing else changes."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for cell, ran in zip(document["cells"], executed(path), strict=True):
        if cell["cell_type"] == "code":
            cell["outputs"] = ran["outputs"]
            for data in (output.get("data", {}) for output in cell["outputs"]):
                if "image/png" in data:
                    data["image/png"] = in_256_colours(data["image/png"])
            cell["execution_count"] = ran["execution_count"]
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def kinds_of(cells):
    """Return what sort of outputs each cell has: these do not depend on noise."""
    return [
        [(o["output_type"], o.get("name"), *sorted(o.get("data", ()))) for o in outputs]
        for outputs in (cell.get("outputs", ()) for cell in cells)
    ]


@each_notebook
def test_is_committed_with_outputs_that_are_small(path):
    code = [cell for cell in cells_of(path) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    kinds = {kind[:2] for cell in kinds_of(code) for kind in cell}
    assert kinds
    assert not kinds & {("error", None), ("stream", "stderr")}
    assert path.stat().st_size < MOST_BYTES


@each_notebook
def test_begins_with_a_question_and_ends_with_asserted_claims(path):
    first, *cells = cells_of(path)
    assert first["cell_type"] == "markdown"
    for words in ("Question.** ", "Data.** ", r"Run time.** About \d+ seconds"):
        assert re.search(words.replace("*", r"\*"), source_of(first)), words
    assert "assert " in source_of(cells[-1])
    code = [source_of(cell) for cell in cells if cell["cell_type"] == "code"]
    for body in re.findall(r"^def .*\n(?:[ \t].*\n|\n)*", "\n\n".join(code), re.M):
        assert len(body.rstrip().splitlines()) <= LONGEST_FUNCTION, body


@pytest.mark.slow(always=True)
# Jupyter's own sockets and event loops may be collected after the kernel has stopped.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@each_notebook
def test_runs_and_shows_what_is_committed(path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # pictures are shown in line
    assert kinds_of(executed(path)) == kinds_of(cells_of(path)), (
        f"outputs are of other kinds; run python tests/test_notebooks.py {path.stem}"
    )


if __name__ == "__main__":
    for path in NOTEBOOKS:
        if path.stem in (sys.argv[1:] or [path.stem]):
            write_outputs(path)
