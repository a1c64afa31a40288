"""The verifier of evidence: on files made by hand, without our writer of them.

Whatever it lets pass is private by an oracle of the tests, which lists matrices and
knows nothing of the verifier.
"""

import base64
import copy
import hashlib
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from catalogue import CATALOGUE

from mmech import evidence, verify
from mmech.cli import main as run_mmech
from mmech.privacy.cost import laplace_rho
from mmech.structure.exact import column_sums

FILE = Path(verify.__file__)


# ---- files made by hand --------------------------------------------------------------


def stack(*blocks):
    return [{"matrix": block, "weight": 1} for block in blocks]


def identity(n):
    return {"kind": "identity", "n": n}


def ones(m, n):
    return {"kind": "ones", "shape": [m, n]}


def marginal(sizes, attributes):
    return {"kind": "marginal", "sizes": sizes, "attributes": attributes}


def paid(cost, kind="laplace", currency="epsilon", other=None, part=None):
    return {
        "released": "counts",
        "kind": kind,
        "currency": currency,
        "cost": cost,
        "other_cost": other,
        "part": part,
    }


def noise(law, sampled, strategy, values, payment=0, **more):
    own = {"kind": "noise", "payment": payment, "law": law, "columns": 1}
    own |= {"sampled": sampled, "strategy": strategy, "values": values}
    own |= {} if strategy is None else {"contribution": 1}
    return own | more


def chosen(kind, rate, payment=0, **more):
    own = {"kind": kind, "payment": payment, "rate": rate, "window": "1", "sums": 1}
    return own | {"monotone": True, "rows": 1, "outcome": 2} | more


def document(payments, draws, currency="epsilon", cost="1", neighbours="add_remove"):
    return {
        "format": "mmech evidence",
        "version": 1,
        "date": "2026-11-25",
        "claim": {"currency": currency, "cost": cost},
        "relation": {"neighbours": neighbours, "records_per_person": 1},
        "insecure": False,
        "payments": payments,
        "draws": draws,
        "about": {"version": "0.2.0", "total": 12.5},
    }


RATE = str(Fraction(2**35 - 12, 2**36))
"""What half a nat pays for, with the roundings of one sum."""

TREE = stack(identity(4), ones(1, 4))
ONE_WAY = stack(marginal([2, 3], [0]), marginal([2, 3], [1]))
DENSE = {"kind": "dense", "shape": [2, 3], "entries": [1, -2, 0, 3, 1, 1]}

VALID = {
    "laplace": document(
        [paid("1")],
        [noise("laplace", [["laplace", "2", [5, 1]]], TREE, [3, 1, 0, 2, 9])],
    ),
    "scales of their own": document(
        [paid("1")],
        [
            noise(
                "laplace",
                [["laplace", "4/3", [4, 1]], ["laplace", "4", [1, 1]]],
                TREE,
                [3, 1, 0, 2, 9],
            )
        ],
    ),
    "entries": document(
        [paid("2")],
        [
            noise(
                "laplace",
                [["laplace", "2", [2, 2]]],
                stack(DENSE),
                [3, 1, 0, 2],
                columns=2,
            )
        ],
        cost="2",
    ),
    "replacement": document(
        [paid("1")],
        [
            noise(
                "laplace",
                [["laplace", "6", [3, 1]]],
                stack({"kind": "prefix", "n": 3}),
                [3, 1, 0],
            )
        ],
        neighbours="replace",
    ),
    "gaussian": document(
        [paid("1/4", "gaussian", "rho")],
        [noise("gaussian", [["gaussian", "4", [5, 1]]], TREE, [3, 1, 0, 2, 9])],
        "rho",
        "1/4",
    ),
    "k_norm": document(
        [paid("1", "k_norm")],
        [
            noise(
                "k_norm", [["k_norm", "1", [5, 1], [[2, 3]]]], ONE_WAY, [3, 4, 0, 2, 5]
            )
        ],
    ),
    "no matrix": document(
        [paid("1/2")],
        [noise("laplace", [["laplace", "4", [2, 1]]], None, [3, 4], sensitivity=["2"])],
    ),
    "exponential": document(
        [paid("1/2", "exponential")], [chosen("exponential", RATE)]
    ),
    "rows": document(
        [paid("1", "exponential")], [chosen("exponential_rows", RATE, rows=2)]
    ),
    "quantiles": document(
        [paid("1", "quantiles")],
        [
            chosen(
                "quantiles", str(Fraction(2**35 - 12 * 7, 2**36)), window="2", sums=14
            )
        ],
    ),
    "tree": document(
        [paid("1", "tree")],
        [
            chosen("tree", RATE),
            chosen("tree", "1/4", together="a"),
            chosen("tree", RATE, together="a"),
        ],
    ),
    "random samples": document(
        [paid("13/10", "random_samples")],
        [
            chosen("exponential", str(Fraction(RATE) / 2), bags=["trees", 2], sums=1),
            chosen("exponential", str(Fraction(RATE) / 2), bags=["trees", 2], sums=1),
        ],
        cost="13/10",
    ),
    "permute and flip": document(
        [paid("1", "permute_and_flip")],
        [chosen("permute_and_flip", "1/4", monotone=False)],
        neighbours="replace",
    ),
    "parts": document(
        [
            paid("1", part=["region", "north"]),
            paid("1", part=["region", "south"]),
            paid("1/2"),
        ],
        [
            noise("laplace", [["laplace", "1", [2, 1]]], stack(identity(2)), [3, 4], 0),
            noise("laplace", [["laplace", "1", [2, 1]]], stack(identity(2)), [8, 4], 1),
            noise("laplace", [["laplace", "2", [2, 1]]], stack(identity(2)), [8, 4], 2),
        ],
        cost="3/2",
    ),
    "left out": document(
        [paid("1")],
        [
            noise("laplace", [["laplace", "2", [5, 1]]], TREE, [3, 1, 0, 2, 9]),
            noise(
                "laplace",
                [["laplace", "1", [1, 1]]],
                None,
                [1],
                sensitivity=["1"],
                part="left out",
            ),
        ],
    ),
    "prices in rho": document(
        [
            paid("1", other="1/4"),
            paid("1/2", "exponential", other="1/32"),
            paid("1/100", "permute_and_flip", "rho"),
        ],
        [
            noise("laplace", [["laplace", "2", [5, 1]]], TREE, [3, 1, 0, 2, 9]),
            chosen("exponential", RATE, 1),
            chosen("permute_and_flip", "1/8", 2),
        ],
        "rho",
        "3/10",
    ),
    "merged": document(
        [paid("1")],
        [
            noise(
                "laplace",
                [["laplace", "2", [5, 1]]],
                [
                    {
                        "matrix": {"kind": "merged", "map": "m", "of": own["matrix"]},
                        "weight": 1,
                    }
                    for own in TREE
                ],
                [3, 1, 0, 2, 9],
            )
        ],
    ),
}


def run(path, capsys):
    """Return exit code, verdict and all that was printed."""
    code = verify.main([str(path)])
    text = capsys.readouterr().out
    return code, text.rstrip("\n").rpartition("\n")[2], text


def written(content, folder, name="evidence.json"):
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", VALID)
def test_true_evidence_holds(name, tmp_path, capsys):
    code, verdict, text = run(written(VALID[name], tmp_path), capsys)
    assert code == 0, text
    assert verdict.startswith("holds: ")
    assert verdict.endswith(", if what is trusted is so")
    assert oracle(VALID[name])


# ---- files that are wrong ------------------------------------------------------------


def changed(name, *path, to):
    found = copy.deepcopy(VALID[name])
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return found


def appended(name, key, value):
    found = copy.deepcopy(VALID[name])
    found[key].append(value)
    return found


TWICE = noise("laplace", [["laplace", "2", [4, 1]]], stack(identity(4)), [3, 1, 0, 2])

WRONG = {
    "a matrix with a larger column": (
        changed("laplace", "draws", 0, "strategy", to=stack(identity(4), ones(2, 4))),
        1,
        "noise was drawn for other rows",
    ),
    "an entry doubled": (
        changed(
            "entries",
            "draws",
            0,
            "strategy",
            0,
            "matrix",
            "entries",
            to=[1, -2, 0, 6, 1, 1],
        ),
        1,
        "draws cost epsilon = 7/2, and 2 was paid",
    ),
    "a sign that hides a sum": (
        changed(
            "entries",
            "draws",
            0,
            "strategy",
            0,
            "matrix",
            "entries",
            to=[9, -2, 0, -9, 1, 1],
        ),
        1,
        "draws cost epsilon = 9, and 2",
    ),
    "a second release left out of the sum": (
        appended("laplace", "draws", TWICE),
        1,
        "draws cost epsilon = 3/2, and 1 was paid",
    ),
    "a second payment left out of the claim": (
        appended("laplace", "payments", paid("1/2"))
        | {"draws": [*VALID["laplace"]["draws"], TWICE | {"payment": 1}]},
        1,
        "all payments cost epsilon = 3/2, and the claim is 1",
    ),
    "a scale of another law": (
        changed("laplace", "draws", 0, "sampled", 0, 0, to="gaussian"),
        1,
        "the noise is not laplace noise",
    ),
    "laplace noise called gaussian": (
        changed("gaussian", "draws", 0, "sampled", 0, 0, to="laplace"),
        1,
        "the noise is not gaussian noise",
    ),
    "gaussian noise paid with epsilon": (
        changed("gaussian", "payments", 0, "currency", to="epsilon")
        | {"claim": {"currency": "epsilon", "cost": "1"}},
        1,
        "a draw of 'counts' has no price in epsilon",
    ),
    "half of the scale": (
        changed("laplace", "draws", 0, "sampled", 0, 1, to="1"),
        1,
        "draws cost epsilon = 2",
    ),
    "half of the variance": (
        changed("gaussian", "draws", 0, "sampled", 0, 1, to="2"),
        1,
        "draws cost rho = 1/2",
    ),
    "half of the scale of a norm": (
        changed("k_norm", "draws", 0, "sampled", 0, 1, to="1/2"),
        1,
        "draws cost epsilon = 2",
    ),
    "overlapping parts called disjoint": (
        changed("parts", "payments", 1, "part", 1, to="north, south")
        | {
            "payments": [
                paid("1", part=["region", "north"]),
                paid("1", part=["region", "north, south"]),
                paid("1/2"),
            ]
        },
        1,
        "parts of 'region' overlap by name",
    ),
    "shares of different numbers called disjoint": (
        document(
            [paid("1", part=["tree", "1/2"]), paid("1", part=["tree", "1/3"])],
            [
                noise(
                    "laplace",
                    [["laplace", "1", [2, 1]]],
                    stack(identity(2)),
                    [3, 4],
                    own,
                )
                for own in (0, 1)
            ],
        ),
        1,
        "parts of 'tree' overlap by name",
    ),
    "a part without a name": (
        changed("parts", "payments", 1, "part", 1, to=""),
        1,
        "overlap by name",
    ),
    "parts that are one": (
        changed("parts", "payments", 1, "part", 1, to="north"),
        1,
        "all payments cost epsilon = 5/2, and the claim is 3/2",
    ),
    "the sum of parts beyond the claim": (
        changed("parts", "claim", "cost", to="1"),
        1,
        "all payments cost epsilon = 3/2",
    ),
    "a rate for half of the window": (
        changed("exponential", "draws", 0, "window", to="2"),
        1,
        "draws cost epsilon = ",
    ),
    "twice the rate": (
        changed("exponential", "draws", 0, "rate", to=str(2 * Fraction(RATE))),
        1,
        "draws cost epsilon = ",
    ),
    "roundings left out": (
        changed("exponential", "draws", 0, "rate", to="1/2"),
        1,
        "draws cost epsilon = ",
    ),
    "a rate that no program multiplies with": (
        changed("exponential", "draws", 0, "rate", to="1/3"),
        1,
        "no multiple of 2",
    ),
    "a factor of two left out": (
        changed("permute and flip", "draws", 0, "rate", to="1/2"),
        1,
        "draws cost epsilon = 2",
    ),
    "a replacement as an addition": (
        changed("laplace", "relation", "neighbours", to="replace"),
        1,
        "draws cost epsilon = 2",
    ),
    "a person of two records": (
        changed("gaussian", "relation", "records_per_person", to=2),
        1,
        "draws cost rho = 1",
    ),
    "a record that counts three times": (
        changed("laplace", "draws", 0, "contribution", to=3),
        1,
        "draws cost epsilon = 3",
    ),
    "groups without equal totals": (
        changed(
            "k_norm",
            "draws",
            0,
            "strategy",
            1,
            "matrix",
            to={"kind": "intervals", "n": 6, "starts": [0, 1, 2], "stops": [1, 2, 3]},
        ),
        1,
        "groups whose noise has equal totals have others",
    ),
    "groups of other rows": (
        changed("k_norm", "draws", 0, "sampled", 0, 3, to=[[2], [2]]),
        1,
        "other groups than are stated",
    ),
    "a payment without a draw": (
        changed("laplace", "draws", to=[]),
        1,
        "was paid for, and no draw of it is shown",
    ),
    "a draw without a payment": (
        changed("laplace", "draws", 0, "payment", to=1),
        1,
        "a draw was not paid for",
    ),
    "no payment": (changed("laplace", "payments", to=[]), 1, "a draw was not paid for"),
    "a number more than noise": (
        changed("laplace", "draws", 0, "values", to=[3, 1, 0, 2, 9, 4]),
        1,
        "other numbers",
    ),
    "blocks of other columns": (
        changed("laplace", "draws", 0, "strategy", to=stack(identity(4), ones(1, 3))),
        1,
        "blocks of a strategy have other columns",
    ),
    "predictable noise": (
        changed("laplace", "insecure", to=True),
        1,
        "the noise was predictable",
    ),
    "half of the price in rho": (
        changed("prices in rho", "payments", 1, "other_cost", to="1/64"),
        1,
        "draws cost rho = ",
    ),
    "epsilon at no price in rho": (
        changed("prices in rho", "payments", 0, "other_cost", to=None),
        1,
        "a payment has no price in 'rho'",
    ),
    "more bags than were paid for": (
        appended(
            "random samples",
            "draws",
            chosen("exponential", RATE, bags=["more", 1]),
        ),
        1,
        "draws cost epsilon = ",
    ),
    "draws in random samples that are paid for as others": (
        changed("random samples", "payments", 0, "kind", to="exponential"),
        1,
        "mixes draws in random samples with others",
    ),
    "a payment by hand": (
        changed("laplace", "payments", 0, "kind", to="other"),
        2,
        "cannot be checked",
    ),
    "an opaque draw": (
        changed(
            "laplace", "draws", 0, to={"kind": "opaque", "payment": 0, "why": "a tree"}
        ),
        2,
        "'opaque' is not checked: 'a tree'",
    ),
    "an opaque matrix": (
        changed(
            "laplace",
            "draws",
            0,
            "strategy",
            0,
            "matrix",
            to={"kind": "opaque", "shape": [4, 4], "what": "words"},
        ),
        2,
        "matrices of kind 'opaque' cannot be checked",
    ),
    "a law that nobody knows": (
        changed("laplace", "draws", 0, "law", to="cauchy"),
        2,
        "'cauchy' is not checked",
    ),
    "a matrix entry twice": (
        changed(
            "laplace",
            "draws",
            0,
            "strategy",
            to=stack(
                {
                    "kind": "sparse",
                    "shape": [5, 2],
                    "indptr": [0, 2, 2, 2, 2, 2],
                    "indices": [1, 1],
                    "data": [1, -1],
                }
            ),
        ),
        2,
        "an entry of a sparse matrix is listed twice",
    ),
    "another version": (changed("laplace", "version", to=2), 2, "no known form"),
    "a cost of zero": (
        changed("laplace", "payments", 0, "cost", to="0"),
        2,
        "must be a fraction above zero",
    ),
    "a cost below zero": (
        changed("laplace", "claim", "cost", to="-1"),
        2,
        "must be a fraction above zero",
    ),
    "a float for a cost": (
        changed("laplace", "claim", "cost", to=1.0),
        2,
        "not of version 1",
    ),
    "a float for a count": (
        changed("laplace", "draws", 0, "values", to=[3.0, 1, 0, 2, 9]),
        2,
        "must be whole",
    ),
    "a boolean for a count": (
        changed("laplace", "draws", 0, "values", to=[True, 1, 0, 2, 9]),
        2,
        "must be whole",
    ),
    "a boolean for a contribution": (
        changed("laplace", "draws", 0, "contribution", to=True),
        2,
        "must be whole",
    ),
    "a number for a flag": (changed("laplace", "insecure", to=0), 2, "true or false"),
}


@pytest.mark.parametrize("name", WRONG)
def test_false_evidence_is_refused(name, tmp_path, capsys):
    content, expected, words = WRONG[name]
    code, verdict, text = run(written(content, tmp_path), capsys)
    assert (code, words in verdict) == (expected, True), text
    assert verdict.startswith(("refuted: ", "cannot check: ")[expected - 1])


# ---- an oracle, and edits at random --------------------------------------------------


def dense_of(matrix):
    kind = matrix["kind"]
    if kind == "identity":
        return np.eye(matrix["n"], dtype=int)
    if kind == "ones":
        return np.ones(matrix["shape"], int)
    if kind == "prefix":
        return np.tri(matrix["n"], dtype=int)
    if kind == "dense":
        return np.reshape(matrix["entries"], matrix["shape"])
    if kind == "merged":
        return dense_of(matrix["of"])
    assert kind == "marginal"
    out = np.ones((1, 1), int)
    for i, n in enumerate(matrix["sizes"]):
        out = np.kron(out, np.eye(n) if i in matrix["attributes"] else np.ones((1, n)))
    return out.astype(int)


def price_of(draw, factor):
    """Return epsilon or ``None``, and rho, by listing matrices."""
    if draw["kind"] != "noise":
        times = factor * draw.get("rows", 1) * (1 if draw.get("monotone", True) else 2)
        rate = Fraction(draw["rate"])
        if draw["kind"] == "permute_and_flip":
            return rate * times, math.inf
        cost = rate * Fraction(draw["window"]) + Fraction(
            12 * draw.get("sums", 1), 2**36
        )
        return cost * times, (cost * times) ** 2 / 8
    scales = [Fraction(own[1]) for own in draw["sampled"] for _ in range(own[2][0])]
    if draw["strategy"] is None:
        size = sum(
            Fraction(s) / Fraction(own[1])
            for s, own in zip(draw["sensitivity"], draw["sampled"], strict=True)
        )
        return factor * size, math.inf
    factor *= draw.get("contribution", 1)
    parts = [dense_of(own["matrix"]) for own in draw["strategy"]]
    matrix = np.concatenate(parts).astype(object)
    assert len(matrix) == len(scales) == len(draw["values"]) // draw.get("columns", 1)
    weights = np.array([1 / scale for scale in scales], object)
    if draw["law"] == "gaussian":
        return None, factor**2 * (weights @ matrix**2).max() / 2
    loads = abs(matrix) * weights[:, None]
    if draw["law"] == "k_norm":
        (groups,) = draw["sampled"][0][3]
        cuts = np.cumsum(groups)[:-1]
        totals = [own.sum(axis=0).tolist() for own in np.split(matrix, cuts)]
        assert all(own == totals[0] for own in totals)
        loads = np.array([own.sum(axis=0) for own in np.split(loads, cuts)])
        return factor * loads.max(), math.inf
    rho = max(
        sum(
            laplace_rho(factor * abs(entry), scale)
            for entry, scale in zip(column, scales, strict=True)
            if entry
        )
        for column in matrix.T
    )
    return factor * loads.sum(axis=0).max(), rho


def oracle(content):
    """Return whether all that was drawn was paid for, within the claim."""
    relation = content["relation"]
    factor = relation["records_per_person"]
    factor *= 1 if relation["neighbours"] == "add_remove" else 2
    currency = content["claim"]["currency"]
    total, parts = Fraction(), {}
    for index, payment in enumerate(content["payments"]):
        drawn, bags = {}, {}
        for number, draw in enumerate(content["draws"]):
            if draw["payment"] == index:
                epsilon, rho = price_of(draw, factor)
                if payment["currency"] == "rho" and rho == math.inf:
                    rho = epsilon**2 / 2
                cost = epsilon if payment["currency"] == "epsilon" else rho
                if draw.get("bags"):
                    key = json.dumps(draw["bags"])
                    bags[key] = bags.get(key, 0) + epsilon / factor
                    drawn[key] = {}
                    continue
                own = drawn.setdefault(draw.get("part"), {})
                label = draw.get("together", number)
                own[label] = max(own.get(label, 0), cost)
        stated = Fraction(payment["cost"])
        sums = [json.loads(k)[1] * math.expm1(e) for k, e in bags.items()]
        if factor * sum(sums) > stated * (1 + 1e-9):
            return False
        if not drawn or max(sum(own.values()) for own in drawn.values()) > stated:
            return False
        if payment["currency"] != currency:
            stated = Fraction(payment["other_cost"])
        if payment.get("part"):
            partition, part = payment["part"]
            own = parts.setdefault(partition, {})
            own[part] = own.get(part, 0) + stated
        else:
            total += stated
    total += sum(max(own.values()) for own in parts.values())
    return total <= Fraction(content["claim"]["cost"])


def leaves_of(content, path=()):
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in inner:
        if isinstance(value, (dict, list)):
            yield (*path, key)
            yield from leaves_of(value, (*path, key))
        else:
            yield (*path, key)


def edited(content, rng):
    """Return a copy with one edit, and where it is."""
    found = copy.deepcopy(content)
    path = rng.choice([own for own in leaves_of(found) if own[0] != "about"])
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    value, key = inner[path[-1]], path[-1]
    if isinstance(value, bool):
        inner[key] = not value
    elif isinstance(value, int):
        inner[key] = rng.choice(
            [value + 1, value - 1, 2 * value, -value, 0, 10**25, None]
        )
    elif isinstance(value, str) and re.fullmatch("[0-9]+(/[0-9]+)?", value):
        times = rng.choice(
            [Fraction(1, 2), Fraction(2), Fraction(10**9 + 1, 10**9), 0, -1]
        )
        inner[key] = str(Fraction(value) * times)
    elif isinstance(value, str):
        inner[key] = rng.choice(
            ["", "laplace", "epsilon", "rho", "north", "replace", 3]
        )
    elif isinstance(value, list) and value and rng.random() < 0.7:
        own = rng.randrange(len(value))
        value.pop(own) if rng.random() < 0.5 else value.insert(
            own, copy.deepcopy(value[own])
        )
    elif rng.random() < 0.5:
        inner[key] = rng.choice([None, {}, [], 1])
    elif isinstance(inner, dict):
        del inner[key]
    return found, path


def test_edits_at_random_are_refused_or_harmless(seed, tmp_path, capsys):
    """What passes is private by the oracle: other words, more noise, a larger claim.

    Or numbers that nothing published follows from, or statements that are trusted: how
    much a record changes scores, or numbers that have no matrix.
    """
    rng, passed = random.Random(seed), 0
    for _ in range(500):
        content, path = edited(VALID[rng.choice(sorted(VALID))], rng)
        code, verdict, text = run(written(content, tmp_path), capsys)
        assert code in (0, 1, 2), text
        assert verdict.startswith(("holds", "refuted", "cannot check")[code])
        if code == 0:
            passed += 1
            assert oracle(content), (path, text)
    assert 20 < passed < 250


# ---- matrices ------------------------------------------------------------------------

INTEGERS = {
    name: (operator, dense)
    for name, (operator, dense) in CATALOGUE.items()
    if operator.dtype == np.int64
    and evidence.term(operator)["kind"] not in ("merged", "permuted")
    and not any(
        own in json.dumps(evidence.term(operator)) for own in ("merged", "permuted")
    )
}


def sums_of(record, norm, weights=1):
    """Return sums over columns of a term that was written as JSON."""
    record = verify._parsed(json.dumps(record).encode())
    effort = verify.Effort()
    return verify.column_sums(verify.term(record, effort), norm, weights, effort)


def listed(record):
    record = verify._parsed(json.dumps(record).encode())
    made = verify.term(record, verify.Effort())
    rows, columns, entries = made.listed()
    out = np.zeros((made.m, made.n), object)
    np.add.at(out, (rows, columns), entries)
    return out


@pytest.mark.parametrize("name", INTEGERS)
def test_matrices_are_those_of_the_package(name, rng):
    operator, dense = INTEGERS[name]
    record = evidence.term(operator)
    assert (listed(record) == dense).all()
    weights = rng.integers(0, 9, len(dense))
    for norm, power in (("L1", 1), ("L2", 2)):
        powers = abs(dense.astype(int)) ** power
        own = sums_of(record, norm)
        assert (own == powers.sum(axis=0)).all()
        assert np.max(own) == np.max(column_sums(operator, power))
        assert (sums_of(record, norm, weights) == weights @ powers).all()
    assert (sums_of(record, "sum") == dense.sum(axis=0)).all()


def test_all_kinds_of_matrices_are_tested():
    text = json.dumps([evidence.term(operator) for operator, _ in INTEGERS.values()])
    kinds = set(re.findall('"kind": "([a-z_]+)"', text))
    assert verify.TERMS.keys() - kinds == {"merged", "permuted"}


def test_large_matrices_have_closed_forms():
    large = {
        "kind": "kronecker",
        "factors": [{"kind": "prefix", "n": 10**4}, identity(10**9)],
    }
    assert np.max(sums_of(large, "L1", 3)) == 3 * 10**4
    wide = marginal([10**6] * 6, [0, 3])
    assert sums_of({"kind": "stack", "blocks": [wide, wide]}, "L2", 2) == 4
    column = [1, 2, *[0] * 9998]
    band = {"kind": "toeplitz", "first_column": column, "first_row": [1, *[0] * 9999]}
    assert sums_of(band, "L2").tolist() == [*[5] * 9999, 1]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_all_pairs_of_a_census_are_checked(law, tmp_path, capsys):
    """Their domain has 10^16 cells, so that there is a closed form or nothing."""
    sizes = [16, 9, 20, 16, 16, 7, 15, 6, 5, 2, 20, 20, 20, 42]
    sets = [own for k in (1, 2) for own in combinations(range(14), k)]
    blocks = [marginal(sizes, list(own)) for own in sets]
    rows = [math.prod(sizes[i] for i in own) for own in sets]
    scale = str(len(sets)) if law == "laplace" else str(Fraction(len(sets), 2))
    sampled = [[law, scale, [m, 1]] for m in rows]
    currency = "epsilon" if law == "laplace" else "rho"
    draw = noise(law, sampled, stack(*blocks), packed(sum(rows)))
    own = document([paid("1", law, currency)], [draw], currency)
    assert run(written(own, tmp_path), capsys)[0] == 0
    draw["sampled"][7][1] = "1"
    code, verdict, _ = run(written(own, tmp_path), capsys)
    assert (code, "and 1 was paid" in verdict) == (1, True)


def test_sums_beyond_64_bits_are_exact():
    entries = {"kind": "diagonal", "entries": [2**61, -3]}
    assert sums_of(entries, "L2", 2**70).tolist() == [2**192, 9 * 2**70]


def test_hidden_columns_count_with_the_largest():
    inner = {"kind": "prefix", "n": 4}
    one = {"kind": "merged", "of": inner}
    assert sums_of(one, "L1") == 4
    blocks = [one, {"kind": "merged", "of": {"kind": "suffix", "n": 4}}]
    assert sums_of({"kind": "stack", "blocks": blocks}, "L1") == 8
    alike = [own | {"map": "a"} for own in blocks]
    assert sums_of({"kind": "stack", "blocks": alike}, "L1") == 5
    with pytest.raises(verify.UncheckedError, match="hides them"):
        sums_of(one, "sum")


def test_two_ways_that_disagree_are_refuted(monkeypatch):
    made = verify.term(identity(3), verify.Effort())
    wrong = made._replace(sums=lambda norm, w: 2 * w)
    with pytest.raises(verify.RefutedError, match="two ways"):
        verify.column_sums(wrong, "L1", 1, verify.Effort())


@pytest.mark.parametrize("moves", [1, 2, 9, 1000])
@pytest.mark.parametrize("scale", ["1/9", "1", "7/2", "1000", "1000000007/3"])
def test_prices_in_rho_are_at_most_those_of_the_ledger(moves, scale):
    ours, theirs = (
        verify.kappa(moves, Fraction(scale)),
        laplace_rho(moves, Fraction(scale)),
    )
    assert ours <= theirs <= ours * (1 + Fraction(1, 10**8))


# ---- published files -----------------------------------------------------------------

COUNTS = {
    "sex.csv": (
        "sex,count,standard_error,lower,upper\nf,3,2.69709,0,9\nm,2,2.69709,0,8\n"
    )
}


def published(folder, files=COUNTS, **more):
    """Write a table of noisy counts 3 and 2 under Laplace noise of scale 2."""
    content = document(
        [paid("1/2")],
        [
            noise(
                "laplace", [["laplace", "2", [2, 1]]], stack(marginal([2], [0])), [3, 2]
            )
        ],
        cost="1/2",
    )
    variance = 0.5 / math.sinh(0.25) ** 2
    files = {
        name: text.replace("2.69709", f"{variance**0.5:.6g}")
        for name, text in files.items()
    }
    digests = {}
    for name, text in files.items():
        (folder / name).write_text(text)
        digests[name] = hashlib.sha256(text.encode()).hexdigest()
    tables = [
        {"file": name, "attributes": [0], "column": "count", "level": "19/20"}
        for name in files
    ]
    own = {"files": digests, "tables": tables, "sizes": [2], "margins": True}
    return written(content | {"published": own | more}, folder)


def test_published_tables_are_checked(tmp_path, capsys):
    published(tmp_path)
    code, _, text = run(tmp_path, capsys)
    assert code == 0, text
    assert "tables whose estimates follow from y: 1" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("f,3,", "f,-3,", "are not whole, or negative"),
        ("f,3,", "f,3.5,", "are not whole, or negative"),
        ("0,9", "0,2", "an interval or an error does not follow"),
        ("m,2,2.69709,0,8", "m,2,2.7,0,8", "an interval or an error does not follow"),
        ("0,9", "6,9", "an interval or an error does not follow"),
        ("m,2,2.69709,0,8\n", "", "has another number of rows"),
    ],
)
def test_published_tables_that_are_wrong(old, new, words, tmp_path, capsys):
    published(tmp_path, {"sex.csv": COUNTS["sex.csv"].replace(old, new)})
    code, verdict, text = run(tmp_path, capsys)
    assert code == 1, text
    assert words in verdict


def test_tables_that_are_too_long_to_read(tmp_path, capsys):
    published(tmp_path, {"sex.csv": COUNTS["sex.csv"] + "f,1,1,0,2\n" * 2_000_000})
    code, verdict, _ = run(tmp_path, capsys)
    assert (code, verdict) == (2, "cannot check: its tables are too long to check")


def test_margins_that_differ(tmp_path, capsys):
    files = COUNTS | {"again.csv": COUNTS["sex.csv"].replace("f,3", "f,4")}
    published(tmp_path, files)
    code, verdict, _ = run(tmp_path, capsys)
    assert (code, "differ in a margin" in verdict) == (1, True)


def test_files_that_were_changed_or_are_elsewhere(tmp_path, capsys):
    published(tmp_path)
    (tmp_path / "sex.csv").write_text("other")
    assert (
        run(tmp_path, capsys)[1]
        == "refuted: 'sex.csv' is not the file that was published"
    )
    (tmp_path / "sex.csv").unlink()
    assert run(tmp_path, capsys)[0] == 2
    for name in ("../sex.csv", "/etc/passwd", "..", "a\\b", "c:d", ""):
        published(tmp_path, tables=[], files={**COUNTS} if not name else COUNTS)
        content = json.loads((tmp_path / "evidence.json").read_text())
        content["published"]["files"] = {name: "0"}
        code, verdict, _ = run(written(content, tmp_path), capsys)
        assert (code, "is no name of a file beside" in verdict) == (2, True), name


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no links or pipes")
def test_links_and_pipes_are_not_followed(tmp_path, capsys):
    published(tmp_path)
    (tmp_path / "sex.csv").rename(tmp_path / "real.csv")
    (tmp_path / "sex.csv").symlink_to(tmp_path / "real.csv")
    assert "must be a plain file" in run(tmp_path, capsys)[1]
    (tmp_path / "sex.csv").unlink()
    os.mkfifo(tmp_path / "sex.csv")
    assert "must be a plain file" in run(tmp_path, capsys)[1]
    os.mkfifo(tmp_path / "pipe")
    assert run(tmp_path / "pipe", capsys)[0] == 2


# ---- archives, copies, hostile files -------------------------------------------------


def archived(path, *entries, how=zipfile.ZIP_DEFLATED, name="description.json"):
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.writestr(name, json.dumps({"entries": entries, "score": 0.5}))
        archive.writestr("array_0.npy", b"0")
    return path


def stored(content):
    return {"class": "Evidence", "arguments": {"text": json.dumps(content)}}


def test_archives(tmp_path, capsys):
    path, own = tmp_path / "model", stored(VALID["laplace"])
    assert run(archived(path, {"class": "Domain"}, own), capsys)[0] == 0
    assert run(archived(path, stored(WRONG["twice the rate"][0])), capsys)[0] == 1
    assert "one evidence is needed" in run(archived(path, own, own), capsys)[1]
    assert "must hold one desc" in run(archived(path, own, name="other"), capsys)[1]
    assert run(archived(path, own, how=zipfile.ZIP_LZMA), capsys)[0] == 2
    path.write_bytes(path.read_bytes()[:90])
    assert run(path, capsys)[0] == 2


def test_a_copy_needs_nothing_but_numpy(tmp_path):
    """It runs beside NumPy alone, without the folder of packages."""
    home = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (home / name).exists():
            (tmp_path / "only").mkdir(exist_ok=True)
            (tmp_path / "only" / name).symlink_to(home / name)
    shutil.copy(FILE, tmp_path / "check.py")
    written(VALID["laplace"], tmp_path)
    code = """if True:
        import runpy, sys
        sys.argv = ["check.py", "."]
        runpy.run_path("check.py", run_name="__main__")
    """
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "only")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("holds: epsilon = 1")
    assert not re.search(
        r"^\s*(from|import) (mmech|scipy)", FILE.read_text("utf-8"), re.M
    )


def packed(n, data=None):
    raw = zlib.compress(bytes(8 * n) if data is None else data, 9)
    return {"packed": base64.b64encode(raw).decode(), "n": n}


def with_matrix(matrix):
    return json.dumps(
        changed("laplace", "draws", 0, "strategy", 0, "matrix", to=matrix)
    )


def nested(depth):
    inner = '{"kind": "row_scaled", "weights": [1, 1, 1, 1], "of": '
    return with_matrix("X").replace(
        '"X"', inner * depth + '{"kind": "identity", "n": 4}' + "}" * depth
    )


TEXT = json.dumps(VALID["laplace"])
HOSTILE = {
    "nothing": "",
    "no json": "{",
    "a list": "[]",
    "not text": b"\xff\xfe{",
    "deep lists": "[" * 10**6,
    "deep records": '{"a":' * 10**6,
    "deep matrices": nested(100),
    "matrices as deep as can be": nested(30),
    "deeper matrices": nested(5000),
    "a name twice": TEXT.replace('"version": 1', '"version": 1, "version": 1'),
    "a cost that is not a number": TEXT.replace('"cost": "1"', '"cost": NaN'),
    "a count that is not a number": TEXT.replace("[3, 1,", "[NaN, 1,"),
    "a count without end": TEXT.replace("[3, 1,", "[1e999, 1,"),
    "a number of a million digits": TEXT.replace("[3, 1,", f"[{'9' * 10**6}, 1,"),
    "a fraction of a million digits": TEXT.replace('"2"', f'"{"9" * 10**6}/7"'),
    "a factor without end": TEXT.replace(
        '"contribution": 1', f'"contribution": {10**4000}'
    ),
    "a large identity": with_matrix(identity(10**18)),
    "a large square": with_matrix(ones(10**9, 10**9)),
    "many prefixes": with_matrix({"kind": "prefix", "n": 10**7}),
    "all ranges": with_matrix({"kind": "all_range", "n": 10**5}),
    "a wide sparse matrix": with_matrix(
        {
            "kind": "sparse",
            "shape": [4, 10**15],
            "indptr": [0] * 5,
            "indices": [],
            "data": [],
        }
    ),
    "a long product": with_matrix(
        {"kind": "kronecker", "factors": [identity(2)] * 10**5}
    ),
    "a product of squares": with_matrix(
        {"kind": "kronecker", "factors": [ones(3000, 3000)] * 50}
    ),
    "large lists": with_matrix({"kind": "stack", "blocks": [ones(3000, 3000)] * 2000}),
    "a bomb": with_matrix({"kind": "diagonal", "entries": packed(4, bytes(10**8))}),
    "many bombs": with_matrix(
        {
            "kind": "stack",
            "blocks": [{"kind": "diagonal", "entries": packed(9 * 10**6)}] * 50,
        }
    ),
    "packed numbers that are fewer": with_matrix(
        {"kind": "diagonal", "entries": packed(4, b"1234")}
    ),
    "packed numbers that are not packed": with_matrix(
        {"kind": "diagonal", "entries": {"packed": "AAAA", "n": 4}}
    ),
    "less than none": with_matrix(
        {"kind": "diagonal", "entries": {"packed": "", "n": -4}}
    ),
    "sizes that are deep": with_matrix(marginal([10**9] * 10**4, [1])),
    "many small lists": "[" + "{}," * (2**24 // 3 - 2) + "{}]",
    "too long": " " * (2**24 + 1),
    "scales without a common denominator": json.dumps(
        changed(
            "no matrix",
            "draws",
            0,
            "sampled",
            to=[["laplace", f"{10**3000 + k}/7", [1, 1]] for k in range(0, 400, 2)],
        )
        | {}
    ),
}

LIMITED = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
import mmech.verify as verify
for path in sys.argv[1:]:
    start = time.process_time()
    code = verify.main([path])
    print("took", code, time.process_time() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory cannot be limited")
def test_hostile_files_end_in_a_sentence(tmp_path):
    paths = {}
    for number, (name, text) in enumerate(HOSTILE.items()):
        paths[name] = tmp_path / f"{number}.json"
        paths[name].write_bytes(text if isinstance(text, bytes) else text.encode())
    directory = tmp_path / "directory.zip"
    with zipfile.ZipFile(directory, "w") as archive:
        for number in range(60_000):
            archive.writestr(f"{number:050}", b"")
    paths["a long directory"] = directory
    large = archived(tmp_path / "bomb.zip", "0" * 2**28)
    paths["an archive that is a bomb"] = large
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, paths.values())],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    parts = re.split(r"^took (\d) ([\d.e-]+)\n", done.stdout, flags=re.M)[:-1]
    found = zip(paths, parts[::3], parts[1::3], parts[2::3], strict=True)
    for name, text, code, seconds in found:
        last = text.rstrip("\n").rpartition("\n")[2]
        if name == "matrices as deep as can be":
            assert (code, last[:7]) == ("0", "holds: ")
            continue
        assert code in "12", (name, text[-300:])
        assert float(seconds) < 2, (name, seconds)
        assert last.startswith(("refuted: ", "cannot check: ")), (name, last)
        assert len(last) < 400, name


# ---- the theorem ---------------------------------------------------------------------


def test_every_check_names_its_line_of_the_theorem():
    """The page states T1 to T15, and the file carries out each of them."""
    page = FILE.parents[1] / "notebooks" / "proofs" / "evidence.md"
    stated = re.findall(r"\*\*(T\d+)\.\*\*", page.read_text(encoding="utf-8"))
    source = FILE.read_text(encoding="utf-8")
    said = set(re.findall(r'"(T\d+)"', source))
    lines = [f"T{number}" for number in range(1, 16)]
    assert stated == lines
    assert said == {*lines}
    documented = set()
    for text in re.findall(r"\"\"\"(.*?)\"\"\"", source, re.S):
        numbers = [int(own) for own in re.findall(r"T(\d+)", text)]
        for first, last in re.findall(r"T(\d+) to T(\d+)", text):
            numbers += (
                range(int(first), int(last) + 1) if "neighbours" not in text else ()
            )
        documented |= {f"T{number}" for number in numbers}
    assert documented == {*lines}


# ---- the command ---------------------------------------------------------------------


def test_help_and_wrong_arguments(capsys):
    assert verify.main(["--help"]) == verify.main(["-h"]) == 0
    assert "exit code is 0 if everything holds" in capsys.readouterr().out
    for words in ([], ["a", "b"]):
        assert verify.main(words) == 2
        assert capsys.readouterr().out.startswith("cannot check: name one PATH")


def test_the_command_of_the_package_returns_the_code(tmp_path, capsys):
    for content, code in ((VALID["laplace"], 0), (WRONG["twice the rate"][0], 1)):
        assert run_mmech(["verify", str(written(content, tmp_path))]) == code
    assert run_mmech(["verify", str(tmp_path / "nothing")]) == 2


def test_evidence_is_checked_in_memory(tmp_path, capsys):
    published(tmp_path)
    text = (tmp_path / "evidence.json").read_bytes()
    code, report = verify.examine(text)
    assert (code, report[-1][:7]) == (0, "holds: ")
    assert any("published files, which are not beside" in line for line in report)
    assert verify.examine(text, tmp_path) == verify.examine(tmp_path)
