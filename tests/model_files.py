"""Changing files of released models, to see that readers refuse them."""

import json
import zipfile
from functools import reduce
from operator import getitem

import numpy as np
from refusals import refused

from mmech.storage import archive as _archive


def rewrite(path, change=lambda content: None, arrays=(), drop=()):
    """Write the file anew with a changed description and changed arrays.

    With a checksum of its own, as somebody would who wants it to be read.
    """
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["description.json"])
    change(content)
    for index, array in dict(arrays).items():
        raw = isinstance(array, bytes)
        members[f"array_{index}.npy"] = array if raw else _archive._npy(array)
    members = {name: text for name, text in members.items() if name not in drop}
    if isinstance(content, dict):
        content.pop("sha256", None)
        packed = [
            members[name]
            for i in range(content.get("arrays", 0))
            if (name := f"array_{i}.npy") in members
        ]
        content["sha256"] = _archive._digest(content, packed)
    members["description.json"] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)


def refused_when_changed(path, changes, load):
    """Assert that a file is read as it is, and with none of these changes.

    A change is a function of the description, or the number of an array and a function
    of that.
    """
    whole = path.read_bytes()
    rewrite(path)
    load(path)
    for number, change in enumerate(changes):
        path.write_bytes(whole)
        if isinstance(change, tuple):
            index, edit = change
            with np.load(path) as arrays:
                rewrite(path, arrays={index: edit(arrays[f"array_{index}"])})
        else:
            rewrite(path, change)
        try:
            refused(lambda: load(path), "is not a model file or is damaged", ValueError)
        except BaseException as failure:
            failure.add_note(f"of change {number}")
            raise


def description(path):
    """Return the description of a file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("description.json"))


def find(content, *keys):
    """Return what stands in a file, following references to other objects.

    The first key is the class of an object, of which the first in the file is meant, or
    an argument of the model.
    """
    entries = content["entries"]
    classes = [entry["class"] for entry in entries]
    if keys and keys[0] in classes:
        found, keys = entries[classes.index(keys[0])]["arguments"], keys[1:]
    else:
        found = entries[-1]["arguments"]
    for key in keys:
        found = found[key]
        if isinstance(found, dict) and found.keys() & {"entry", "object", "mapping"}:
            ((kind, found),) = found.items()
            found = entries[found]["arguments"] if kind == "entry" else found
    return found


def set_in(*keys, to):
    """Return a change that sets what stands in a file."""

    def change(content):
        header = content if keys[0] in content else None
        (header or find(content, *keys[:-1]))[keys[-1]] = to

    return change


def add_to(*keys, amount=1):
    """Return a change of a number in a file."""

    def change(content):
        find(content, *keys[:-1])[keys[-1]] += amount

    return change


def in_evidence(*keys, to):
    """Return a change that sets what stands in the evidence of a file."""

    def change(content):
        own = find(content, "Evidence")
        evidence = json.loads(own["text"])
        reduce(getitem, keys[:-1], evidence)[keys[-1]] = to
        own["text"] = json.dumps(evidence)

    return change


def drop_last(*keys):
    """Return a change that takes away the last part of something in a file."""

    def change(content):
        del find(content, *keys)[-1]

    return change


def set_class(name):
    """Return a change of the class of the model."""

    def change(content):
        content["entries"][-1]["class"] = name

    return change
