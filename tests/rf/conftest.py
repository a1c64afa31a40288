"""Exact releases, the command line, and a server that answers as OpenML does.

The folder ``openml`` holds a few rows of every set in the format of OpenML's API: what
its servers answer to the requests that `fetch_openml` makes: which number has a name
and version, and then four about that number.
"""

import gzip
import io
import itertools
import json
import re
from pathlib import Path
from urllib.error import URLError
from urllib.request import BaseHandler, OpenerDirector, install_opener

import pytest
import rf_cases
from cli_cases import write_rows

from mmech_rf import Attribute, Schema
from mmech_rf.cli import main
from mmech_rf.estimator.base import ForestClassifier

RECORDED = Path(__file__).parent / "openml"
PATTERNS = {
    r"/json/data/(\d+)$": "description.json",
    r"/json/data/features/(\d+)$": "features.json",
    r"/json/data/qualities/(\d+)$": "qualities.json",
    r"/v1/download/(\d+)": "data.arff",
}
SEARCH = r"/json/data/list/data_name/([^/]+)/limit/2/data_version/(\d+)"


def numbers():
    """Return what the servers know: numbers by name and version."""
    found = {}
    for path in RECORDED.glob("*/description.json"):
        description = json.loads(path.read_bytes())["data_set_description"]
        place = description["name"], description["version"]
        found[place] = {"did": int(path.parent.name), "status": "active"}
    return found


class Response(io.BytesIO):
    """What OpenML answers: compressed."""

    def __init__(self, content):
        super().__init__(gzip.compress(content))

    def info(self):
        return {"Content-Encoding": "gzip"}


class Server(BaseHandler, list):
    """The addresses that were asked for; a server that is down answers none."""

    down = False

    def https_open(self, request):
        """Answer a request."""
        address = request.get_full_url()
        self.append(address)
        if self.down:
            raise URLError("no route to host")
        if found := re.search(SEARCH, address):
            answer = {"data": {"dataset": [numbers()[found[1], found[2]]]}}
            return Response(json.dumps(answer).encode())
        for pattern, name in PATTERNS.items():
            if found := re.search(pattern, address):
                return Response((RECORDED / found[1] / name).read_bytes())
        raise AssertionError(address)


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Answer requests from the recorded files; return the addresses asked for."""
    server = Server()
    opener = OpenerDirector()
    opener.add_handler(server)
    install_opener(opener)
    # scikit-learn tries again after a second, and again.
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "scikit-learn"))
    yield server
    install_opener(None)


@pytest.fixture
def noiseless(watch_all):
    """Every release is exact; the value lists the scales asked for."""
    return rf_cases.silence(watch_all)


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


@pytest.fixture
def released_numbers(monkeypatch):
    """How many records each release of counted parts had, in order."""
    numbers, release = [], ForestClassifier.release

    def noted(model, **names):
        numbers.append(model._parts.number)
        return release(model, **names)

    monkeypatch.setattr(ForestClassifier, "release", noted)
    return numbers
