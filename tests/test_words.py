"""Sentences put their subject first and are short."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RIDDLES = re.compile(
    r"(?:^|[.:;!?*|] |^- )Of (?!course\b)[a-z`]"  # "Of every partition the part that"
    r"|\b[Tt]hat of\b"  # "the order is", and a pronoun
    r"|\b[Ww]hat (?:is|are) no\b"  # "leave out", and what it is not
    r"|\b[Ss]uch\b(?! as (?!\.)| as$| that\b)"  # "a sum like this"
    r"|\bas before\b"
)
TABLE = re.compile(r"={4,}.*={4,}", re.DOTALL)
CODE = re.compile(r"^import \w", re.MULTILINE)
COMMENT = re.compile(r"(?:(?:^ *|  )#.*\n)+", re.MULTILINE)
MATH = re.compile(r"^( *)\.\. math::.*(?:\n+\1 +.*)*", re.MULTILINE)
READ = ("mmech/**/*.py", "mmech_rf/**/*.py", "benchmarks/**/*.py", "notebooks/**/*.md")
READ += ("README.md", "CONTRIBUTING.md", "SECURITY.md", "notebooks/*.ipynb")
READ += ("CHANGELOG.md", "benchmarks/**/*.md", "tests/**/*.py")

MOST_WORDS = 25
FORMULA = re.compile(
    r"``.*?``|`[^`]*`|:math:`[^`]*`|\$\$[^$]*\$\$|\$[^$]*\$|\]\([^)]*\)"
)
SPLIT = re.compile(
    r"\n\s*\n|^\s*(?:[*-]|\d+\.) |^\s*\|.*$|^\s*>>>.*(?:\n.*\S.*)*", re.MULTILINE
)


@cache
def texts_of(path):
    """Return strings, comments put together line by line, and paragraphs of pages.

    Strings of tests are what they compare with, so that docstrings alone are read.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        pages = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(lines) for lines in pages)
    if path.suffix in (".md", ".ipynb"):
        return re.split(r"\n\s*\n|^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)
    tested = "tests" in path.relative_to(ROOT).parts
    texts = []
    for node in ast.walk(ast.parse(text)):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        if tested and isinstance(node, documented):
            texts.append(ast.get_docstring(node) or "")
        elif not tested and isinstance(node, ast.Constant):
            said = isinstance(node.value, str) and not CODE.search(node.value)
            texts.append(TABLE.sub("", node.value) if said else "")
    lines = (own[0].splitlines() for own in COMMENT.finditer(text))
    return texts + [" ".join(line.lstrip("# ") for line in own) for own in lines]


def riddles_in(path):
    for text in filter(RIDDLES.search, (" ".join(t.split()) for t in texts_of(path))):
        for sentence in re.split(r"(?<=[.!?]) ", text):
            if RIDDLES.search(sentence):
                yield f"{path.relative_to(ROOT)}: {sentence}"


def long_sentences_in(path):
    """Yield claims of more than 25 words; formulas count as one word."""
    for text in texts_of(path):
        for part in SPLIT.split(MATH.sub("", text)):
            claims = FORMULA.sub("]", " ".join(part.split()))
            for claim in re.split(r"(?<=[.!?:;])[*_)]{0,3} ", claims):
                words = re.findall(r"[^\W\d_][\w'’-]*|\]", claim)
                if min(len(words), len(claim.split())) > MOST_WORDS:
                    yield f"{path.relative_to(ROOT)}: {claim}"


@pytest.mark.parametrize("search", [riddles_in, long_sentences_in])
@pytest.mark.parametrize("files", READ)
def test_no_sentence_hides_its_subject_or_is_long(files, search):
    paths = sorted(ROOT.glob(files))
    assert paths
    found = [sentence for path in paths for sentence in search(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Of every block the first."""', True),
        ('"""Return a row. Of two, the first."""', True),
        ('"""Rows:\n\n* Of two, the first.\n"""', True),
        ("# the order is\n# that of the cells\n", True),
        ('raise ValueError("there is no such file")', True),
        ('"""Such a sum, and products, and unions of such."""', True),
        ('"""Of course."""', False),
        ('"""Means, such as that, of all parts."""', False),
    ],
)
def test_riddles_are_found_in_strings_and_comments(text, found, tmp_path, monkeypatch):
    path = tmp_path / "some.py"
    path.write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert bool(list(riddles_in(path))) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("word " * 25 + ".", 0),
        ("word " * 26 + ".", 1),
        ("word " * 20 + "; " + "word " * 20 + ".", 0),
        ("* " + "word " * 20 + "\n* " + "word " * 20, 0),
        ("word " * 24 + "`a b c` $x + y$", 1),
    ],
)
def test_words_of_a_claim_are_counted(text, found, tmp_path, monkeypatch):
    path = tmp_path / "some.md"
    path.write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert len(list(long_sentences_in(path))) == found
