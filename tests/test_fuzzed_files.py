"""Files of strangers are read or refused in a sentence, within 2 seconds and 1 GB."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mmech as mm
import mmech_rf as rf

SCHEMA = rf.Schema(
    (
        mm.Attribute.categorical("a", ["x", "y", "z"]),
        mm.Attribute.numeric("b", lower=0, upper=8, n_bins=4, unit="m"),
        mm.Attribute.ordinal("c", ["s", "m", "l"]),
    ),
    ("no", "yes"),
    target="t",
)


def write_files(folder):
    """Write one file of each kind."""
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, n, 300) for n in SCHEMA.domain_shape], axis=1)
    X = [["xyz"[a], 2.0 * b + 1, "sml"[c]] for a, b, c in codes]
    y = np.where(codes[:, 0] + codes[:, 1] > 2, "yes", "no")
    models = {
        "tree": rf.PrivateForestClassifier(SCHEMA, epsilon=1, estimate_accuracy=True),
        "boosted": rf.PrivateForestClassifier(SCHEMA, epsilon=1, n_records=30_000),
        "batch": rf.BatchTrainingClassifier(SCHEMA, epsilon=1, n_trees=3, depth=2),
        "recipe": rf.RecipeForestClassifier(
            SCHEMA, epsilon=1, recipe="spe", n_records=300
        ),
    }
    for name, model in models.items():
        model.fit(X, y).save(folder / f"model-{name}.npz")
    mm.save(folder / "strategy.npz", mm.optimize(mm.AllRange(16), seed=0))
    SCHEMA.to_json(folder / "schema.json")
    begun = mm.Attribute.date("begun", "2025-01-01", "2026-12-31", "week", other="none")
    mm.Domain([*SCHEMA.attributes, begun]).to_json(folder / "domain.json")
    domain, path = mm.Domain(SCHEMA.attributes), folder / "tables.measured"
    mm.release_tables(X, domain, ways=1, epsilon=1, keep=path, handle_unknown="drop")
    ledger = mm.PrivacyLedger.open(folder / "ledger.json", total=1)
    for part in ("north", "south"):
        ledger.part("region", part).spend("1/4", "counts", sensitivity=1)
    ledger.hold("1/8")
    (folder / "ledger.json.lock").unlink()


@pytest.mark.parametrize(
    ("first", "number"),
    [
        pytest.param(0, 30, id="30 of each kind"),
        *(
            pytest.param(first, 500, marks=pytest.mark.slow)
            for first in range(0, 5000, 500)
        ),
    ],
)
def test_mutated_files_are_read_or_refused(tmp_path, first, number):
    folder = tmp_path / "whole"
    folder.mkdir()
    write_files(folder)
    command = [sys.executable, str(Path(__file__).parent / "fuzz.py"), str(folder)]
    ended = subprocess.run(
        [*command, str(first), str(number)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    read, _, refused, _ = ended.stdout.split()
    assert int(refused) > int(read) / 4
