"""The file of a ledger: a chain of hashes, written whole, with a lock beside it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mmech.checks import MALFORMED, parsed_json
from mmech.limits import LIMITS
from mmech.writing import locked, write_through

NO_LEDGER = "is not a ledger that mmech made"
HEADER = (
    *("format", "version", "neighbours", "records_per_person", "currency", "total"),
)
"""What a ledger promises; it never changes, and the chain of hashes begins with it."""


@dataclass(frozen=True)
class LedgerFile:
    """Where a ledger is kept.

    Attributes
    ----------
    path : str
        Real path of the file. The file ``.lock`` beside it is locked while a process
        reads and writes; it is empty and stays.
    """

    path: str

    def locked(self) -> AbstractContextManager[None]:
        """Keep all other processes, and threads, from spending."""
        return locked(self.path)

    @property
    def state(self) -> tuple[int, int, int]:
        """What changes when the file is written."""
        found = os.stat(self.path)
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> dict[str, Any]:
        """Return the content, or raise unless its chain of hashes is whole."""
        try:
            if os.stat(self.path).st_size > LIMITS.description_bytes:
                raise ValueError("too large")
            with open(self.path, encoding="utf-8") as stream:
                content = parsed_json(stream.read())
            known = content["format"], content["version"]
            if known != ("mmech privacy ledger", 1):
                raise ValueError("another format")
            whole = chain(content, content["releases"])
        except MALFORMED:
            raise self.refusal(NO_LEDGER) from None
        if whole != content["releases"]:
            raise self.refusal("was changed after it was written: its hashes differ")
        return dict(content)

    def write(self, content: Mapping[str, Any]) -> None:
        """Replace the file; what is returned from is on the disk."""
        write_through(self.path, json.dumps(content, indent=2))

    def refusal(self, why: str) -> ValueError:
        """Return the error of a file that cannot be trusted."""
        return ValueError(
            f"{self.path!r} {why}; nothing was spent: restore the file, or account by "
            "hand for what was released and open a new ledger for what is left"
        )


def chain(
    header: Mapping[str, Any], releases: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return releases with their hashes, each of which covers all that is before."""
    last = _digest("", {name: header[name] for name in HEADER})
    linked = []
    for release in releases:
        plain = {name: part for name, part in release.items() if name != "sha256"}
        last = _digest(last, plain)
        linked.append({**plain, "sha256": last})
    return linked


def dated(release: Mapping[str, Any]) -> dict[str, Any]:
    """Return a release with the time of now, in UTC."""
    return {**release, "date": datetime.now(UTC).isoformat(timespec="seconds")}


def _digest(before: str, part: Mapping[str, Any]) -> str:
    text = json.dumps(part, sort_keys=True)
    return hashlib.sha256((before + text).encode()).hexdigest()
