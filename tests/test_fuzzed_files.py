"""Files of strangers are read or refused in a sentence, within 2 seconds and 1 GB."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzz import read_and_show, texts_with_a_name_twice

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
    domain, path = mm.Domain(SCHEMA.attributes), folder / "tables.measured"
    mm.release_tables(X, domain, ways=1, epsilon=1, keep=path, handle_unknown="drop")
    write_small_files(folder)
    mm.save(folder / "strategy.npz", mm.optimize(mm.AllRange(16), seed=0))


def write_small_files(folder):
    """Write one file of each kind that is made in no time."""
    mm.save(folder / "strategy.npz", mm.PIdentity([[0.5, 1, 0.25], [1, 0, 2]]))
    SCHEMA.to_json(folder / "schema.json")
    begun = mm.Attribute.date("begun", "2025-01-01", "2026-12-31", "week", other="none")
    mm.Domain([*SCHEMA.attributes, begun]).to_json(folder / "domain.json")
    for currency in ("epsilon", "rho"):
        path = folder / f"stream-{currency}"
        mm.Stream(horizon=4, path=path, **{currency: "1/8"}).push(3)
    with mm.record_evidence() as record:
        mm.MatrixMechanism(mm.Prefix(4), epsilon=1).answer([4, 0, 9, 2])
    record.evidence().save(folder / "evidence.json")
    ledger = mm.PrivacyLedger.open(folder / "ledger.json", total=1)
    for part in ("north", "south"):
        ledger.part("region", part).spend("1/4", "counts", sensitivity=1)
    ledger.hold("1/8")
    for lock in folder.glob("*.lock"):
        lock.unlink()


def members_of(path):
    """Return the members of an archive, or a file by no name."""
    if not zipfile.is_zipfile(path):
        return {None: path.read_bytes()}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members):
    """Write what `members_of` returns."""
    if None in members:
        path.write_bytes(members[None])
        return
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_name_that_occurs_twice_is_refused_in_every_file(tmp_path):
    """Readers of one file may take different ones of two values."""
    write_small_files(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        members = members_of(path)
        name = None if None in members else "description.json"
        texts = [*texts_with_a_name_twice(members[name].decode())]
        for text in texts:
            write_members(path, members | {name: text.encode()})
            with pytest.raises(ValueError, match=f"twice|{path.stem}"):
                read_and_show(path)
        write_members(path, members)
        read_and_show(path)
        assert texts


@pytest.mark.skipif(sys.platform != "linux", reason="memory cannot be limited")
@pytest.mark.parametrize(
    ("first", "number"),
    [
        pytest.param(0, 6, id="6 of each kind"),
        *(
            pytest.param(first, 200, marks=pytest.mark.slow)
            for first in range(10, 610, 200)
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
