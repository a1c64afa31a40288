"""Build hook: the README as a package index shows it, without relative links.

There is no public address of the repository to make them absolute with. What they lead
to is in the source distribution, by the same path.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")

PATHS = "Paths in this text are those of the source distribution."


class ReadmeHook(MetadataHookInterface):
    """Hatchling's interface: sets the long description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": without_relative_links(text),
        }


def without_relative_links(text: str) -> str:
    """Return Markdown with paths for relative links, and no pictures of files."""

    def named(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        return "" if picture else f"{words} (`{path}`)"

    return f"{RELATIVE.sub(named, text)}\n{PATHS}\n"
