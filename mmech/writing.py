"""Writing files: whole or not at all, and over nothing but regular files."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mmech.checks import check_path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Return the file that writing to `path` makes or replaces, links resolved.

    Raises
    ------
    OSError
        If the folder of the file does not exist, or the file must not be written. Also
        if the path is a folder, a pipe, a device or anything else that is not a regular
        file.
    """
    given = check_path(path)
    refusal = f"cannot write {given!r}: "
    target = Path(os.path.realpath(given))
    if target.is_dir() or not os.path.basename(given):
        raise IsADirectoryError(f"{refusal}it is a folder; name a file in it")
    if target.is_symlink():  # what is left unresolved leads to itself
        raise OSError(f"{refusal}its symbolic links lead in a circle; remove them")
    folder = target.parent
    if not folder.is_dir():
        named = folder if os.path.islink(given) else Path(given).parent
        raise FileNotFoundError(
            f"{refusal}there is no folder {str(named)!r}; make it first"
        )
    if target.exists() and not target.is_file():
        raise OSError(
            f"{refusal}it is a pipe or a device, not a regular file; choose another "
            "name"
        )
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(
            f"{refusal}it must not be written to (permission denied); choose another "
            "name"
        )
    with unfinished_folder(path, target) as at:
        (at / target.name).touch()  # a name may be too long, or in another encoding
        return target


@contextmanager
def unfinished_folder(path: str | os.PathLike[str], target: Path) -> Iterator[Path]:
    """Give a hidden folder beside `target` for unfinished files; remove it afterwards.

    Folders that killed processes of this machine left behind are removed, too. An
    `OSError` names `path`. Permissions may allow what a file system refuses: making the
    folder tells whether files can be written there.
    """
    parent = target.parent
    mark = f".writing-{platform.node() or 'here'}-"
    for left in parent.glob(f"{mark}*"):
        if not runs(left.name.removeprefix(mark).partition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    own = f"{mark}{os.getpid()}-"
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=own) as at:
            yield Path(at)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(f"cannot write {os.fspath(path)!r}: {reason}") from error


def runs(process: str) -> bool:
    """Return whether a process of this machine may still run, by its number."""
    if os.name != "posix" or not process.isdecimal():
        return True  # elsewhere the question would end the process
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a new file that takes the place of `path` once it is whole.

    In the same folder. An interruption or an error leaves what was there before. A
    symbolic link stays, and the file that it leads to is replaced; permissions stay as
    well. Raises `OSError` as `check_writable` does, and if the disk fails; it names
    `path`.
    """
    target = check_writable(path)
    with unfinished_folder(path, target) as at:
        unfinished = at / "file"
        yield unfinished
        if target.exists():
            shutil.copymode(target, unfinished)
        unfinished.replace(target)


def write_through(
    path: str | os.PathLike[str], text: str, mode: int | None = None
) -> None:
    """Replace a file; what is returned from is on the disk.

    With a `mode`, a file that is new is never open to others.
    """
    with replacing(path) as unfinished:
        new = os.O_WRONLY | os.O_CREAT
        own = os.open(unfinished, new, 0o666 if mode is None else mode)
        with open(own, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    if sys.platform != "win32":  # the new name, too
        folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep all other processes, and threads, that lock a path from going on.

    An empty file ``.lock`` beside it is locked, and stays. Raises `OSError` if the path
    has a hard link, which has another lock; also at the end, if the lock was removed.
    """
    name = os.fspath(path)
    lock, locks = f"{name}.lock", False
    while not locks:
        with open(lock, "a", encoding="utf-8") as stream:
            if sys.platform == "win32":
                stream.seek(0)
                msvcrt.locking(stream.fileno(), msvcrt.LK_LOCK, 1)
            else:
                fcntl.flock(stream, fcntl.LOCK_EX)
            locks = _is_named(stream, lock)
            if not locks:  # it was removed while this one waited
                continue
            if os.path.exists(name) and os.stat(name).st_nlink > 1:
                raise OSError(
                    f"{name!r} has another name, a hard link, and a lock for each; "
                    "nothing was released: remove one of the names"
                )
            yield  # closing the file unlocks it
            if not _is_named(stream, lock):
                raise OSError(
                    f"the lock {lock!r} was removed meanwhile; nothing was released: "
                    "let it stay, and try again"
                )


def _is_named(stream: IO[str], path: str) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
