"""Sentences put their subject first; the patterns that most often hide it are found."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RIDDLES = re.compile(
    r"(?:^|[.:;!?] )Of (?!course\b)[a-z`]"  # Of every partition the part that ...
    r"|\bthat of\b"  # the order is that of the eigenvector
    r"|\bwhat (?:is )?no\b"  # leave out what is no union
    r"|\bsuch (?!as\b)"  # such a sum is symmetric
    r"|\bas before\b"
)
TABLE = re.compile(r"={4,}.*={4,}", re.DOTALL)
READ = ("mmech/**/*.py", "mmech_rf/**/*.py", "benchmarks/**/*.py", "notebooks/**/*.md")
READ += ("README.md", "CONTRIBUTING.md", "SECURITY.md")


def texts_of(path):
    """Yield strings, comments put together line by line, and paragraphs of pages."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from re.split(
            r"\n\s*\n|^```.*?^```", text, flags=re.MULTILINE | re.DOTALL
        )
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield TABLE.sub("", node.value)
    comment = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment.append(token.string.lstrip("# "))
        elif token.type != tokenize.NL:
            yield " ".join(comment)
            comment = []


def riddles_in(path):
    for text in texts_of(path):
        for sentence in re.split(r"(?<=[.!?]) ", " ".join(text.split())):
            if RIDDLES.search(sentence):
                yield f"{path.relative_to(ROOT)}: {sentence}"


@pytest.mark.parametrize("files", READ)
def test_no_sentence_hides_its_subject(files):
    paths = sorted(ROOT.glob(files))
    assert paths
    found = [riddle for path in paths for riddle in riddles_in(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Of every block the first."""', True),
        ('"""Return a row. Of two, the first."""', True),
        ("x = 1  # the order is\n# that of the cells\n", True),
        ('raise ValueError("there is no such file")', True),
        ('"""Of course."""', False),
        ('"""Means, such as that, of all parts."""', False),
    ],
)
def test_riddles_are_found_in_strings_and_comments(text, found, tmp_path, monkeypatch):
    path = tmp_path / "some.py"
    path.write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert bool(list(riddles_in(path))) is found
