"""The package that pip installed holds the files of the clone, and no others."""

from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_the_files_of_the_clone():
    """Compared by their bytes; compiled modules are no files of either."""
    installed = {
        str(file): file.locate().read_bytes()
        for file in distribution("mmech").files
        if file.parts[0] in ("mmech", "mmech_rf") and "__pycache__" not in file.parts
    }
    if not installed:
        pytest.skip("an editable installation has no files of its own")
    ours = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for package in ("mmech", "mmech_rf")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert installed == ours
