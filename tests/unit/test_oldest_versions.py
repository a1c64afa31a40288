"""The oldest versions that are tested are those that the metadata promise."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST = ROOT / ".ci" / "oldest.txt"
EXTRAS = ("accounting", "dask", "excel", "plot", "notebooks", "test")


@pytest.mark.skipif(not OLDEST.exists(), reason="no constraints in this copy")
def test_constraints_are_the_lower_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = list(project["dependencies"])
    for extra in EXTRAS:
        required += project["optional-dependencies"][extra]
    bounds = {}
    for requirement in required:
        if not requirement.startswith(project["name"] + "["):
            name, version = re.fullmatch(
                r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement
            ).groups()
            bounds[name] = version
    lines = [line for line in OLDEST.read_text().splitlines() if line[:1] != "#"]
    pinned = dict(line.split("==") for line in lines)
    assert pinned.keys() == bounds.keys()
    for name, version in pinned.items():
        assert re.fullmatch(re.escape(bounds[name]) + r"(\.0)*", version), name
