"""New processes: a second one compiles nothing, and other interpreters do as well."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

numba = pytest.importorskip("numba")

TYPICAL = """
import json
import numpy as np
import mmech
import mmech_rf
from mmech import _kernels as engine
from mmech_rf import _kernels as forests

found = mmech.optimize(mmech.AllRange(16), seed=0, n_starts=1)
mechanism = mmech.MatrixMechanism(mmech.AllRange(16), found.strategy, epsilon=1)
mechanism.measure(np.ones(16, np.int64))
forest = mmech_rf.grow_random_forest((2, 3, 4), 2, 2, seed=0)
workload = mmech_rf.training_workload(forest)
mmech.optimize(workload, seed=0)
workload.rmatvec(workload @ np.ones(24))
mmech.Kronecker([mmech.Prefix(200), mmech.Prefix(200)]) @ np.ones(40_000)
codes = np.zeros((5, 3), np.int64)
forest.apply(codes)
forest.count_leaves(codes, np.zeros(5, np.int64), 2)
stats = {
    name: [sum(found.stats.cache_hits.values()), sum(found.stats.cache_misses.values())]
    for module in (engine, forests)
    for name, found in vars(module).items()
    if hasattr(found, "stats")
}
print(json.dumps({name: both for name, both in stats.items() if any(both)}))
"""


def run():
    """Return loads and compilations by kernel of one new process."""
    done = subprocess.run(
        [sys.executable, "-c", TYPICAL],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_second_process_compiles_nothing():
    """The first may find kernels on disk, too: what it had to compile is there now."""
    first, second = run(), run()
    typical = {"separable_gram_matmat", "scan", "partition_matmat", "grow_trees"}
    assert typical <= second.keys()
    assert {name: compiled for name, (_, compiled) in second.items() if compiled} == {}
    assert second.keys() <= first.keys()
    assert all(loaded <= sum(first[name]) for name, (loaded, _) in second.items())


# ---- other interpreters -------------------------------------------------------------

ROOT = Path(__file__).parents[1]
UNIT = ("arguments", "domain", "noise", "layers")
"""Unit tests that other interpreters run: messages, reading, exact draws, imports."""


def interpreter(version):
    """Return a Python of a version that starts, on the path or among pyenv's."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [shutil.which(f"python{version}")]
    found += sorted(versions.glob(f"{version}.*/bin/python"))
    said = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in filter(None, found):
        asked = subprocess.run(
            [path, "-c", said], capture_output=True, text=True, check=False
        )
        if asked.stdout.strip() == version:
            return path
    return None


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.13", "3.14"])
def test_other_interpreters_install_and_run(tmp_path, version):
    base = interpreter(version)
    if base is None:
        pytest.skip(f"no Python {version} on the path or among the versions of pyenv")
    python = tmp_path / "venv" / "bin" / "python"
    files = [str(ROOT / "tests" / "unit" / f"test_{name}.py") for name in UNIT]
    for command in (
        [base, "-m", "venv", tmp_path / "venv"],
        [python, "-m", "pip", "install", "--quiet", f"{ROOT}[test]"],
        [python, "-c", "import mmech, mmech_rf"],
        [python, "-m", "mmech_rf", "demo", "--trees", "4", "--repeats", "1"],
        [python, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *files],
    ):
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
