"""Random outcomes under predictable entropy stay what they were, and so do results.

A change that only moves code keeps every number in ``tests/fixtures``. One that is to
change a release records it anew, and its commit says which numbers changed and why:

    MMECH_RECORD=1 python -m pytest -m "slow or not slow" tests/rf -k record

Whole numbers are compared exactly, floating-point ones to 1e-9, relative.
"""

import json
import os
import re
from collections import defaultdict
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from replay import differences

from mmech_rf.drawn.draw import SelectedTree


def whole(outcome):
    """Return the whole numbers of an outcome as one row."""
    if isinstance(outcome, SelectedTree):
        return np.concatenate([labels.ravel() for labels in outcome.labels])
    return np.asarray(outcome).ravel()


def summary(value):
    """Return something short that changes with every number, for a JSON file."""
    if isinstance(value, (str, int, float)):
        return value
    array = np.asarray(value)
    first = array.ravel()[:5].tolist()
    short = {"shape": list(array.shape), "first": first}
    if array.dtype.kind == "f":
        mixed = np.cos(np.arange(1, array.size + 1))
        return short | {"sum": array.sum(), "mixed": array.ravel() @ mixed}
    digest = blake2b(array.astype("<i8").tobytes(), digest_size=16).hexdigest()
    return short | {"digest": digest}


def recordings(name):
    """Return what was recorded in a file, by case."""
    file = Path(__file__).with_name("fixtures") / f"{name}.json"
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def summary_of(draws, results):
    """Return all outcomes, by kind of draw, and results as they are recorded."""
    outcomes = defaultdict(list)
    for kind, outcome in draws:
        outcomes[kind].append(whole(outcome))
    found = {
        "draws": {k: summary(np.concatenate(rows)) for k, rows in outcomes.items()},
        "results": {key: summary(value) for key, value in results.items()},
    }
    return json.loads(json.dumps(found, sort_keys=True))


def check_recorded(name, case, draws, results):
    """Check what was drawn and made of it; or record it where asked."""
    found, recorded = summary_of(draws, results), recordings(name)
    if os.environ.get("MMECH_RECORD") == "1":
        text = json.dumps(recorded | {case: found}, indent=1, sort_keys=True)
        text = re.sub(r"\n(?: {4,}|   (?=[\]}]))", "", text)  # a line per result
        file = Path(__file__).with_name("fixtures") / f"{name}.json"
        file.write_text(text + "\n", encoding="utf-8")
        pytest.skip(f"recorded {case}")
    assert case in recorded, f"{case} is new: record it by MMECH_RECORD=1"
    found = list(differences(recorded[case], found, rtol=1e-9))
    assert not found, "; ".join(found[:5])
