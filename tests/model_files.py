"""Changing files of released models, to see that readers refuse them."""

import json
import zipfile

from mmech.storage import archive as _archive


def rewrite(path, change=lambda content: None, arrays=()):
    """Write the file anew with a changed description and changed arrays."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["description.json"])
    change(content)
    members["description.json"] = json.dumps(content).encode()
    for index, array in dict(arrays).items():
        members[f"array_{index}.npy"] = _archive._npy(array)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)


def description(path):
    """Return the description of a file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("description.json"))


def set_in(*keys, to):
    """Return a change that sets one entry of a description."""

    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return change
