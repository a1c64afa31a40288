"""Seeds, data and the hypothesis profile shared by all tests."""

# ruff: noqa: E402 - what is imported depends on the path, which is set first

import datetime
import gc
import json
import os
import shutil
import sys
import tempfile
import tomllib
import warnings
import zlib
from collections import Counter
from contextlib import ExitStack
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from unittest import mock

# There is a process per core already: more threads of BLAS in each only wait for one
# another, at up to twice the processor time. Read when NumPy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# `python -m pytest` puts the working folder first. What was installed is tested; the
# clone comes last, for the benchmarks.
ROOT = Path(__file__).parents[1]
sys.path[:] = [path for path in sys.path if Path(path).resolve() != ROOT]
sys.path.append(str(ROOT))

import numpy as np
import pytest
from entropy import SameEveryTime
from hypothesis import settings
from reference import above_bound

from mmech import PrivacyLeakWarning
from mmech.error import report as of_pair
from mmech.error import result as of_search
from mmech.limits import LIMITS
from mmech.noise import check_insecure_rng
from mmech.testing import watch_draws


def pytest_addoption(parser):
    """Declare the option that takes a tenth of the tests."""
    parser.addoption(
        "--tenth",
        metavar="DAY",
        help="run the tests of one tenth: of a day as 2026-11-28, or of 'today'",
    )


def _spread(cases, number):
    """Return cases that share few values of parameters, chosen one after another."""
    left = sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))
    seen, kept = Counter(), set()
    for _ in range(min(number, len(cases))):
        item = min(left, key=lambda own: sum(seen[value] for value in _values(own)))
        seen.update(_values(item))
        left.remove(item)
        kept.add(item)
    return kept


def _values(item):
    return item.callspec.indices.items()


def _by_function(item):
    """Return where an item stands: by day or by night, its function, any order."""
    by_night = item.get_closest_marker("slow") is not None
    return by_night, item.nodeid.partition("[")[0], zlib.crc32(item.nodeid.encode())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave cases beyond those of `by_day` to the night; keep one tenth, if asked.

    A mark `by_day(n, others=False)` leaves out the others, which another test has. A
    test marked `slow(always=True)` belongs to every tenth.
    """
    functions, left_out = {}, set()
    for item in items:
        if item.get_closest_marker("by_day"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        mark = cases[0].get_closest_marker("by_day")
        kept = _spread(cases, *mark.args)
        others = {
            item
            for item in cases
            if item not in kept and item.nodeid not in NAMED_BY_MUTANTS
        }
        for item in others:
            item.add_marker(pytest.mark.slow)
        left_out |= set() if mark.kwargs.get("others", True) else others
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=[*left_out])
    day = config.getoption("--tenth")
    if day is None:
        return
    date = datetime.date
    number = (date.today() if day == "today" else date.fromisoformat(day)).toordinal()
    # One case after another of each function: each day gets its part of the dear ones.
    tenths, first = {True: [], False: []}, []
    for place, item in enumerate(sorted(items, key=_by_function)):
        mark = item.get_closest_marker("slow")
        always = bool(mark and mark.kwargs.get("always"))
        (first if always else tenths[place % 10 == number % 10]).append(item)
    items[:] = first + tenths[True]  # the long ones, so that nobody waits for them
    config.hook.pytest_deselected(items=tenths[False])


def pytest_collection_finish():
    """Refuse modules of the clone, unless the clone is what was installed."""
    url = json.loads(distribution("mmech").read_text("direct_url.json") or "{}")
    if url.get("dir_info", {}).get("editable"):
        return
    for name, module in sorted(sys.modules.items()):
        ours = name.partition(".")[0] in ("mmech", "mmech_rf")
        file = ours and getattr(module, "__file__", None)
        if file and Path(file).resolve().is_relative_to(ROOT):
            raise pytest.UsageError(
                f"{name} was loaded from the clone, not from what was installed; "
                "run `python -m pytest` from the clone, or install with -e"
            )


def pytest_configure(config):
    """Choose the noise and the examples of tests, and where their files go.

    Slow runs draw fresh examples. Files, some megabytes, are written into memory: a
    disk is waited for.
    """
    if "not slow" not in config.option.markexpr:
        settings.load_profile("fresh")
    if SEED == 0:
        config.pluginmanager.register(SameEveryTime())
    memory = Path("/dev/shm")
    known = "TMPDIR" in os.environ or not memory.is_dir()
    if not known and shutil.disk_usage(memory).free > 2**32:
        tempfile.tempdir = os.environ["TMPDIR"] = str(memory)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are collected: all of them stay until the end.

    There are half a million objects of them; afterwards it is rarely looked for.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


SEED = int(os.environ.get("MMECH_TEST_SEED", "0"))


def _tests_in(value):
    """Yield node ids anywhere in a table of mutants."""
    if isinstance(value, str) and value.startswith("tests/"):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tests_in(part)


NAMED_BY_MUTANTS = {
    name
    for path in (ROOT / "tests" / "mutants").glob("*.toml")
    for name in _tests_in(tomllib.loads(path.read_text("utf-8")))
}
"""Cases that have to notice a mistake of the table: they run by day."""

NO_DATA = "MMECH_DATA_DIR does not name the folder of data files"

# The first call of a kernel compiles it, which no deadline can foresee. With the
# default seed the examples and the noise are fixed; any other seed draws fresh ones.
settings.register_profile(
    "mmech", deadline=None, derandomize=SEED == 0, print_blob=True, max_examples=50
)
settings.register_profile(
    "thorough", settings.get_profile("mmech"), max_examples=500
)  # pytest --hypothesis-profile=thorough
settings.register_profile("fresh", settings.get_profile("mmech"), derandomize=False)
settings.load_profile("mmech")


@pytest.fixture
def seed():
    """Seed of this run: 0, or the value of MMECH_TEST_SEED."""
    return SEED


@pytest.fixture
def rng(seed):
    """Seeded generator for inputs; privacy noise never comes from it."""
    return np.random.default_rng(seed)


@pytest.fixture
def noise_rng(seed):
    """Predictable noise, for tests that need to repeat or to reject rarely."""
    with pytest.warns(PrivacyLeakWarning, match="insecure_rng"):
        return check_insecure_rng(seed)


@pytest.fixture(autouse=True)
def losses_above_their_bounds(monkeypatch):
    """A loss below its bound is a wrong number, whatever the test is about."""
    for home in (of_search, of_pair):
        monkeypatch.setattr(home, "over_bound", above_bound)


@pytest.fixture
def watch_all():
    """Pass all draws of the rest of a test through a function, see `watch_draws`.

    A second function watches the first: what is to it a sample, the first returns.
    """
    watchers = []

    def watch(draw, sample):
        for watcher in watchers:
            sample = partial(watcher, draw, sample)
        return sample()

    with ExitStack() as watching:

        def start(watcher):
            if not watchers:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivacyLeakWarning)
                    watching.enter_context(watch_draws(watch))
            watchers.append(watcher)

        yield start


@pytest.fixture
def drawn(watch_all):
    """All draws of the rest of a test, in a list that grows."""
    seen = []

    def note(draw, sample):
        seen.append(draw)
        return sample()

    watch_all(note)
    return seen


@pytest.fixture(scope="session", autouse=True)
def known_plans():
    """Search once for what tables of the same attributes measure.

    The search has a seed, and sees only its arguments and the limits. What it tells a
    callback is told again. The value is the search itself.
    """
    from mmech.tables import plan

    search, known = plan._strategy, {}

    def found(sizes, subsets, currency, callback, facts):
        if facts:
            return search(sizes, subsets, currency, callback, facts)
        key = repr(LIMITS), sizes, tuple(subsets), currency
        if key not in known:
            told = []
            known[key] = search(sizes, subsets, currency, told.append, facts), told
        result, told = known[key]
        for own in told if callback else ():
            callback(own)
        return result

    with mock.patch.object(plan, "_strategy", found):
        yield search


@pytest.fixture(scope="session")
def data_dir():
    """Folder of real data files, named by MMECH_DATA_DIR."""
    folder = os.environ.get("MMECH_DATA_DIR", "")
    if not folder:
        pytest.skip(NO_DATA)
    return Path(folder)


def pytest_terminal_summary(terminalreporter):
    """Name the files of tests that need real data in one line, where it is absent."""
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", ())
        if NO_DATA in report.longrepr[2]
    ]
    files = sorted({report.nodeid.partition("::")[0] for report in skipped})
    for report in skipped:
        report.longrepr = ("tests", None, f"{NO_DATA} of {', '.join(files)}")


@pytest.fixture
def scores_of_few(monkeypatch):
    """Private forests have scores also where public sums reach all attributes.

    Patched for estimators that take no settings of drawn forests: the toy schema, on
    which every record can be tried, has few attributes.
    """
    monkeypatch.setattr("mmech_rf.drawn.settings.most_terms", lambda *public: 0)
