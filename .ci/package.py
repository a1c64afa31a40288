"""What a built package says of itself: its version, and the README.

The version follows from the last tag ``vX.Y.Z`` and the commits since. Links of the
README are paths in the source distribution, because the repository has no public
address to make them absolute with.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")

WITHOUT_TAGS = "0.2.0"
"""Version that a clone without tags builds."""

PATHS = "Paths in this text are those of the source distribution."


def version() -> str:
    """Return the version by the tags of this clone.

    Five commits after ``v0.2.0`` it is ``0.2.0.post5``.
    """
    here = Path(__file__).parent
    describe = ["git", "-C", str(here), "describe", "--tags", "--match", "v[0-9]*"]
    try:
        said = subprocess.run(describe, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return WITHOUT_TAGS
    tag, _, since = said.stdout.strip().removeprefix("v").partition("-")
    return f"{tag}.post{since.partition('-')[0]}" if since else tag


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
