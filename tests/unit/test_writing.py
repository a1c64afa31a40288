"""Writing files: whole or not at all, through links, and nothing but regular files."""

import os
import platform
import stat
import subprocess
import sys
import tempfile
from unittest.mock import Mock

import pytest

from mmech import Identity, optimize, save
from mmech.writing import check_writable, replacing
from mmech_rf import Attribute, PrivateForestClassifier, Schema

SCHEMA = Schema([Attribute.categorical("x", [0, 1])], [0, 1])


def save_strategy(path):
    save(path, optimize(Identity(2)))


def save_model(path):
    model = PrivateForestClassifier(SCHEMA, epsilon=1)
    model.fit([[0], [1]], [0, 1]).save(path)


def write_text(path):
    with replacing(path) as unfinished:
        unfinished.write_text("new")


def fail(path, error):
    with replacing(path) as unfinished:
        unfinished.write_text("half")
        raise error


WRITERS = {
    "strategy": save_strategy,
    "model": save_model,
    "schema": SCHEMA.to_json,
    "text": write_text,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one of everything that is no file to replace."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDWR)  # so that opening it never waits
    os.symlink("pipe", "link-to-pipe")
    os.symlink("circle", "circle")
    os.mkdir("folder")
    (tmp_path / "file").write_text("old")
    yield tmp_path
    os.close(reader)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize(
    ("path", "kind", "reason"),
    [
        ("pipe", OSError, "not a regular file"),
        ("link-to-pipe", OSError, "not a regular file"),
        ("circle", OSError, "symbolic links lead in a circle"),
        (".", IsADirectoryError, "it is a folder"),
        ("folder", IsADirectoryError, "it is a folder"),
        ("new/", IsADirectoryError, "it is a folder"),
        ("no/such/x", FileNotFoundError, "there is no folder 'no/such'"),
        ("file/x", FileNotFoundError, "there is no folder 'file'"),
    ],
)
def test_what_is_no_file_is_refused_and_stays(folder, write, path, kind, reason):
    before = listing(folder)
    with pytest.raises(kind) as caught:
        write(path)
    text = str(caught.value)
    assert text.startswith(f"cannot write {path!r}: ")
    assert reason in text
    assert "\n" not in text
    assert listing(folder) == before


def listing(folder):
    return {entry.name: entry.lstat().st_mode for entry in folder.iterdir()}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_link_stays_and_its_file_is_written(folder, write):
    """Also where the link leads to a name that nothing has yet."""
    for name in ("file", "later"):
        os.symlink(f"../{name}", f"folder/to-{name}")
        write(f"folder/to-{name}")
        assert os.path.islink(f"folder/to-{name}")
        assert (folder / name).stat().st_size
        assert (folder / name).read_bytes() != b"old"


def test_a_replaced_file_keeps_its_permissions(folder):
    os.chmod("file", 0o640)
    write_text("file")
    assert stat.S_IMODE(os.stat("file").st_mode) == 0o640


def test_what_a_killed_process_left_goes_with_the_next_file(folder):
    """Those of a live process and of other machines stay."""
    left, others = [], []
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    for process, host in [(child.pid, None), (os.getpid(), None), (child.pid, "far")]:
        name = f".writing-{host or platform.node() or 'here'}-{process}-abc"
        (folder / name).mkdir()
        (folder / name / "file").write_text("half")
        (others if left else left).append(name)
    write_text("file")
    names = set(listing(folder))
    assert not names & set(left)
    assert set(others) <= names


def test_an_error_while_writing_leaves_what_was_there(folder):
    before = listing(folder)
    with pytest.raises(KeyError):
        fail("file", KeyError())
    assert (folder / "file").read_text() == "old"
    assert listing(folder) == before


def test_an_error_of_the_disk_names_the_file_that_was_asked_for(folder):
    full = OSError(28, "No space left on device", "/hidden/name")
    with pytest.raises(OSError, match=r"^cannot write 'file': No space left"):
        fail("file", full)


def test_checking_writes_nothing(folder):
    before = listing(folder)
    assert check_writable("new") == folder.resolve() / "new"
    assert listing(folder) == before


def test_a_device_is_refused(folder):
    """Only checked, never written: no fault may replace the device of this machine."""
    os.symlink(os.devnull, "link-to-device")
    for path in (os.devnull, "link-to-device"):
        with pytest.raises(OSError, match="not a regular file"):
            check_writable(path)


def test_checking_finds_out_that_a_folder_takes_no_files(folder, monkeypatch):
    """Permissions may allow what the file system refuses."""
    refusal = Mock(side_effect=OSError(30, "Read-only file system"))
    monkeypatch.setattr(tempfile, "mkdtemp", refusal)
    with pytest.raises(OSError, match=r"^cannot write 'new': Read-only file system$"):
        check_writable("new")
