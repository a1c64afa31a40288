"""Mutated files, read one after the other within limits of time and memory.

``python tests/fuzz.py FOLDER FIRST NUMBER`` reads NUMBER mutants of each kind of files
in a folder; a kind is how a name begins. A mutant must be read, or refused in a
sentence, within `SECONDS` and `BYTES`. The first that is not ends the run with a
message.
"""

import contextlib
import copy
import io
import json
import os
import random
import re
import signal
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
from model_files import rewrite

from mmech import Domain, MeasuredTables, PrivacyLedger, Stream, load
from mmech.evidence import Evidence
from mmech.verify import examine
from mmech_rf import Schema, load_model

SECONDS, BYTES = 2, 2**30

EXTREMES = (
    *("1e99999999", "1/0", "9" * 5000, "1/" + "9" * 4000, "", "x" * 10**6,
        "\u202e\x1b[", "-100", "-1/2", "0"),
    *(0, -1, 1, 2**31, 2**63, -(2**63), 10**300, 0.5, 1e308, -1e-308, float("nan")),
    *(float("inf"), None, True, [], {}, [[]], [1] * 1000, {"a": 1}, {"entry": 0}),
    *({"fraction": "1e99999999"}, {"fraction": "1/0"}, {"float": "nan"}, {"array": 0}),
    *({"fraction": "9" * 4000}, {"mapping": []}, {"object": {}}, "categorical", "a"),
)  # fmt: skip


def places(value, path=()):
    """Yield the paths of all parts of a JSON value."""
    yield path
    parts = value.items() if isinstance(value, dict) else ()
    parts = enumerate(value[:50]) if isinstance(value, list) else parts
    for key, part in parts:
        yield from places(part, (*path, key))


def mutated(document, rng):
    """Return a JSON value with some parts replaced, dropped, repeated or swapped."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        paths = [path for path in places(document) if path]
        if not paths:
            break
        *path, key = rng.choice(paths)
        home = document
        for step in path:
            home = home[step]
        kind = rng.randrange(7)
        if kind < 3:
            home[key] = copy.deepcopy(rng.choice(EXTREMES))
        elif kind == 3:
            del home[key]
        elif kind == 6 and isinstance(home, dict):
            name = rng.choice([key + " ", key.upper(), rng.choice([*home]), "x"])
            home[name] = home.pop(key)
        elif kind == 4 and isinstance(home, list):
            home.append(copy.deepcopy(home[key]))
        elif isinstance(home[key], (int, float)) and not isinstance(home[key], bool):
            home[key] = rng.choice([-1, 2, 10**6]) * home[key] + rng.choice([-1, 0, 1])
        else:
            other = document
            for step in rng.choice(paths):
                other = other[step]
            home[key] = copy.deepcopy(other)
    return document


def mutated_array(array, rng):
    """Return an array with other numbers, shape or type."""
    array = array.copy()
    kind = rng.randrange(5)
    if kind == 0 and array.size:
        extreme = rng.choice([-1, 0, 1, 10**9, 2**31 - 1, -(2**31)])
        array.flat[rng.randrange(array.size)] = extreme
    elif kind == 1:
        array = array.reshape(-1)
    elif kind == 2:
        array = array.astype(rng.choice(["float64", "int64", "int32", "bool"]))
    elif kind == 3:
        array = array[: array.shape[0] // 2] if array.ndim else array.reshape(1)
    else:
        array = np.concatenate([array.ravel()] * 2)
    return array


def mutate_archive(path, rng):
    """Change a file of ours in place."""
    if rng.random() < 0.2:
        content = bytearray(path.read_bytes())
        for _ in range(rng.choice([1, 3])):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(
            content[: rng.choice([None, None, rng.randrange(len(content))])]
        )
        return
    with zipfile.ZipFile(path) as archive:
        before = json.loads(archive.read("description.json"))
        number = before["arrays"]
        arrays = {}
        if number and rng.random() < 0.4:
            i = rng.randrange(number)
            array = np.load(io.BytesIO(archive.read(f"array_{i}.npy")))
            arrays = {i: mutated_array(array, rng)}

    def change(content):
        inner = [e["arguments"] for e in content["entries"] if e["class"] == "Evidence"]
        if inner and rng.random() < 0.3:
            inner[0]["text"] = json.dumps(mutated(json.loads(inner[0]["text"]), rng))
        elif not arrays:
            found = mutated(content["entries"], rng)
            content["entries"] = found

    rewrite(path, change, arrays)


def texts_with_a_name_twice(text):
    """Yield JSON texts, in each of which an object repeats its first name."""
    for found in re.finditer(r'\{\s*("(?:[^"\\]|\\.)*"):', text):
        yield f"{text[: found.end()]} 0, {found[1]}:{text[found.end() :]}"


def read_and_show(path):
    """Read a file, and look at all that a person may look at."""
    name = path.name
    if name.startswith("strategy"):
        return repr(load(path))
    if name.startswith("tables"):
        return MeasuredTables.load(path).plan.errors(frame="dict")
    if name.startswith("ledger"):
        return PrivacyLedger.open(path).to_json()
    if name.startswith(("schema", "domain")):
        made = (Schema if name.startswith("schema") else Domain).from_json(path)
        return f"{made!r}{made.to_json()}"
    if name.startswith("stream"):
        currency = name.split("-")[1]
        made = Stream(horizon=4, path=path, **{currency: "1/8"})
        return made.answers, made.expected_error(), made.push(3, made.time)
    if name.startswith("evidence"):
        code, report = examine(path)
        if code:
            raise ValueError(report[-1])
        return Evidence(path.read_text()).content
    model = load_model(path)
    json.dumps(model.card())
    queries = np.zeros((2, model.n_features_in_), int)
    codes = model.schema_.domain_shape
    return model.describe(), model.to_html(), model.named_importances(), queries, codes


def main(folder, first, number):
    """Read mutants of all files in turn."""
    import resource  # of Linux, where this runs

    files = sorted(Path(folder).iterdir())
    for path in files:
        read_and_show(path)  # kernels are compiled
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf(
        "SC_PAGESIZE"
    )
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES,) * 2)

    def too_long(*_):
        os.write(2, f"mutant {seed} of {original.name} took too long\n".encode())
        os._exit(3)

    signal.signal(signal.SIGPROF, too_long)  # of processor time, whatever else runs
    kinds = {}
    for path in files:
        kinds.setdefault(re.split(r"\W", path.name)[0], []).append(path)
    refused, kinds = 0, [*kinds.values()]
    for seed in range(first * len(kinds), (first + number) * len(kinds)):
        rng, of = random.Random(seed), kinds[seed % len(kinds)]
        original = of[seed // len(kinds) % len(of)]
        path = Path(folder).parent / original.name
        path.write_bytes(original.read_bytes())
        if zipfile.is_zipfile(path):
            mutate_archive(path, rng)
        else:
            lines = path.read_text().splitlines() if "stream" in path.name else ()
            documents = map(json.loads, lines or [path.read_text()])
            texts = [json.dumps(mutated(own, rng)) + "\n" for own in documents]
            path.write_text("[" * 10**5 * (rng.random() < 0.02) + "".join(texts))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            read_and_show(path)
        except (ValueError, TypeError, OSError) as reason:
            refused += 1
            words = str(reason)
            if not words or len(words) > 1500 or "Traceback" in words:
                print(f"mutant {seed} of {path.name}: {words[:300]!r}", file=sys.stderr)
                return 1
        except BaseException as reason:
            print(f"mutant {seed} of {path.name}: {reason!r}", file=sys.stderr)
            return 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    print(f"{number * len(kinds)} read, {refused} refused")
    return 0


if __name__ == "__main__":
    with contextlib.suppress(AttributeError):
        sys.set_int_max_str_digits(4300)
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
