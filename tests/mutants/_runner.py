"""Makes a mutant in a copy of the sources, and runs tests on it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

PACKAGES = ("mmech", "mmech_rf")
COPIED = ("tests", "benchmarks", "pyproject.toml")
"""What tests need of the repository besides."""

CLONE = "clone"
"""Folder of the latter in a tree. Tests refuse packages that lie beside them."""

MINUTES = 10
"""Longest run of the tests of one mutant."""


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes
    ----------
    name : str
        The mistake in words.
    file : str
        Source file, relative to the root.
    find, replace : str
        Text that occurs exactly once in the file, and what stands there instead.
    tests : tuple of str
        Files or node ids of the tests that should notice.
    """

    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant.

    Attributes
    ----------
    mutant : Mutant
    outcome : {"killed", "survived", "stale", "not tested"}
        Stale: its text does not occur exactly once. Not tested: its tests could not
        be run, because there are none of that name, or they took too long.
    detail : str
        The test that noticed; or what went wrong.
    """

    mutant: Mutant
    outcome: str
    detail: str = ""


class FailingTestsError(Exception):
    """Tests fail without any mistake, so that they tell nothing about mutants."""


def run(mutants: Sequence[Mutant], root: Path, jobs: int = 1) -> Iterator[Verdict]:
    """Yield what became of every mutant, in order.

    Parameters
    ----------
    mutants : sequence of Mutant
        What to try.
    root : path
        Repository; only read.
    jobs : int, default=1
        Number of copies that are tested at the same time.

    Raises
    ------
    FailingTestsError
        If the tests fail on the sources as they are.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        first = Path(folder, "0")
        _copy(root, first)
        _check_without_mistakes(mutants, first)
        # Copied with what was compiled: kernels are cached beside their source.
        trees: SimpleQueue[Path] = SimpleQueue()
        trees.put(first)
        for number in range(1, jobs):
            trees.put(
                Path(shutil.copytree(first, Path(folder, str(number)), symlinks=True))
            )

        def judge(mutant: Mutant) -> Verdict:
            tree = trees.get()
            try:
                return _judge(mutant, tree)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(judge, mutants)


def _copy(root: Path, tree: Path) -> None:
    clone = tree / CLONE
    clone.mkdir(parents=True)
    for name in (*PACKAGES, *COPIED):
        source, target = root / name, (tree if name in PACKAGES else clone) / name
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.exists():
            shutil.copy2(source, target)
        if target.parent == tree and source.exists():
            (clone / name).symlink_to(Path("..", name), target_is_directory=True)


def _check_without_mistakes(mutants: Sequence[Mutant], tree: Path) -> None:
    tests = dict.fromkeys(
        test for m in mutants for test in m.tests if _file_of(test, tree).exists()
    )
    if not tests:
        return
    code, output = _pytest(tree, tests, minutes=None)
    if code != 0:
        raise FailingTestsError(output)


def _stale(mutant: Mutant, tree: Path) -> Verdict | None:
    """Return a verdict if the text of a mutant does not occur once."""
    found = (tree / mutant.file).read_text(encoding="utf-8").count(mutant.find)
    if found == 1:
        return None
    return Verdict(mutant, "stale", f"its text occurs {found} times")


@contextmanager
def _applied(mutant: Mutant, tree: Path) -> Iterator[dict[str, str]]:
    """Put a mistake into a tree for a while; yield what processes need to run it."""
    path = tree / mutant.file
    before, stamp = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(before.replace(mutant.find, mutant.replace), encoding="utf-8")
    # No compiled file is as old, so that none passes for the mutant's.
    os.utime(path, (0, 0))
    # Nor is what a mutant compiles kept.
    extra = {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        with tempfile.TemporaryDirectory() as cache:
            if path.name == "_kernels.py":
                extra["NUMBA_CACHE_DIR"] = cache
            yield extra
    finally:
        path.write_text(before, encoding="utf-8")
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def _judge(mutant: Mutant, tree: Path) -> Verdict:
    if (stale := _stale(mutant, tree)) is not None:
        return stale
    for test in mutant.tests:
        if not (path := _file_of(test, tree)).exists():
            name = path.relative_to(tree / CLONE)
            return Verdict(mutant, "not tested", f"there is no {name}")
    try:
        with _applied(mutant, tree) as extra:
            code, output = _pytest(tree, mutant.tests, **extra)
    except subprocess.TimeoutExpired:
        return Verdict(mutant, "not tested", f"took more than {MINUTES} minutes")
    if code == 0:
        return Verdict(mutant, "survived", ", ".join(mutant.tests))
    failed = re.findall(r"^FAILED (.+?)(?: - .*)?$", output, re.MULTILINE)
    if code == 1 and failed:
        return Verdict(mutant, "killed", failed[0])
    return Verdict(mutant, "not tested", output.strip().rpartition("\n")[2])


# ---- the verifier alone --------------------------------------------------------------


def verify(mutants: Sequence[Mutant], root: Path, jobs: int = 1) -> Iterator[Verdict]:
    """Yield whether the copied verifier refuses what each mutant releases, in order.

    Outcomes are "refused", "raises" where a release fails, and "unseen".

    Raises
    ------
    FailingTestsError
        If it refuses a release without a mistake.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        checker = Path(shutil.copy(root / "mmech" / "verify.py", folder))
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            trees.put(Path(folder, str(number)))
            _copy(root, Path(folder, str(number)))
        for which in ("others", "tables"):
            outcome, detail = _released(Path(folder, "0"), checker, which)
            if outcome != "unseen":
                raise FailingTestsError(detail)

        def judge(mutant: Mutant) -> Verdict:
            tree = trees.get()
            try:
                if (stale := _stale(mutant, tree)) is not None:
                    return stale
                in_tables = mutant.file.startswith("mmech/tables/")
                which = "tables" if in_tables else "others"
                with _applied(mutant, tree) as extra:
                    return Verdict(mutant, *_released(tree, checker, which, **extra))
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(judge, mutants)


ALONE = """
import contextlib, io, pathlib, sys
sys.path.insert(0, sys.argv[1])
import verify
for path in sorted(pathlib.Path(sys.argv[2]).iterdir()):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = verify.main([str(path)])
    print(code, path.name, said.getvalue().splitlines()[-1], sep="|")
"""
"""Checks all evidence in a folder by a copy of the verifier, without the package."""


def _released(tree: Path, checker: Path, which: str, **extra: str) -> tuple[str, str]:
    """Make releases in a tree, and check their evidence without the package."""
    numpy = importlib.util.find_spec("numpy")
    packages = str(Path(str(numpy and numpy.origin)).parents[1])

    def python(path: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": path, **extra}
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True,
            timeout=60 * MINUTES, check=False,
        )  # fmt: skip

    with tempfile.TemporaryDirectory() as out:
        releases = str(Path(__file__).with_name("_releases.py"))
        made = python(str(tree), releases, out, which)
        found = python(packages, "-S", "-c", ALONE, str(checker.parent), out)
    for line in found.stdout.splitlines():
        code, name, verdict = line.split("|", 2)
        if code == "1":
            return "refused", f"{name}: {verdict}"
    said = (made.stderr + found.stderr).strip().splitlines()
    return ("raises", said[-1]) if said else ("unseen", "")


def _file_of(test: str, tree: Path) -> Path:
    return tree / CLONE / test.partition("::")[0]


def _pytest(
    tree: Path, tests: Iterable[str], *, minutes: int | None = MINUTES, **extra: str
) -> tuple[int, str]:
    """Run tests in a tree; return the exit status and what was printed."""
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment |= {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tree), "COLUMNS": "300", **extra}
    # one process: most selections take seconds
    environment |= {"PYTEST_XDIST_AUTO_NUM_WORKERS": "0"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *tests],
        cwd=tree / CLONE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=None if minutes is None else 60 * minutes,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
