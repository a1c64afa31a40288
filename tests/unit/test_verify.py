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
import tracemalloc
import zipfile
import zlib
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import reference as ref
from catalogue import CATALOGUE

from mmech import evidence, verify
from mmech.privacy.cost import laplace_rho
from mmech.structure.exact import column_sums
from mmech.tables.field import VARIANCE_FLOOR

FILE = Path(verify.__file__)


# ---- files made by hand --------------------------------------------------------------


def stack(*blocks):
    return {"kind": "stack", "blocks": list(blocks)}


def runs(shape, rows, starts, lengths=(1,), values=(1,)):
    own = {"kind": "runs", "shape": list(shape), "rows": list(rows)}
    own |= {"starts": list(starts), "lengths": list(lengths)}
    return own | {"values": list(values)}


def identity(n):
    return runs([n, n], range(n), range(n))


def ones(m, n):
    return runs([m, n], range(m), [0], [n])


def prefix(n):
    return runs([n, n], range(n), [0], range(1, n + 1))


def marginal(sizes, attributes):
    return {"kind": "marginal", "sizes": sizes, "attributes": attributes}


def kronecker(left, right):
    return {"kind": "kronecker", "left": left, "right": right}


def paid(cost, *draws, **more):
    return {"how": "sum", "released": "counts", "paid": cost, "of": list(draws)} | more


def bags(number, *draws):
    return {"how": "bags", "bags": number, "of": list(draws)}


def largest(partition, *parts, **names):
    return {"how": "largest", "partition": partition, "of": list(parts)} | names


def noise(law, scale, strategy, values, *scales, **more):
    """Return noise on a strategy, of one scale, or of pairs of scales and rows."""
    own = scales or [(scale, len(values))]
    sampled = [[law, str(t), [rows, 1]] for t, rows in own]
    draw = {"law": law, "columns": 1, "sampled": sampled, "values": values}
    return draw | {"strategy": strategy, "contribution": 1, "signs": 1} | more


def stated(scale, sensitivity, values):
    draw = noise("laplace", scale, None, values, sensitivity=[sensitivity])
    return {
        key: value for key, value in draw.items() if key not in ("strategy", "signs")
    }


def chosen(law, rate, **more):
    own = {"law": law, "rate": rate, "window": "1", "sums": 1, "signs": 1, "rows": 1}
    return own | {"outcome": [2]} | more


def document(*payments, cost="1", currency="epsilon", neighbours="add_remove"):
    root = {"how": "sum", "released": "all of it", "paid": cost, "of": list(payments)}
    return {
        "format": "mmech evidence",
        "version": 1,
        "date": "2026-11-25",
        "currency": currency,
        "relation": {"neighbours": neighbours, "records": 1},
        "insecure": False,
        "cost": root,
        "about": {"version": "0.2.0", "total": 12.5},
    }


HALF = str(Fraction(2**35 - 12, 2**36))
"""The rate that half a nat pays for, with the roundings of one sum."""

TREE = stack(identity(4), ones(1, 4))
ONE_WAY = stack(marginal([2, 3], [0]), marginal([2, 3], [1]))
SPLIT = runs([2, 3], [0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 2], [1, -2, 3, 1])
FLAT = {"kind": "waves", "shape": [3, 3], "f": [0, 0, 4, 2, 1], "g": [0], "scales": [1]}
COUNTS = [3, 1, 0, 2, 9]


def on_tree(**more):
    return noise("laplace", 2, TREE, COUNTS, **more)


VALID = {
    "laplace": document(paid("1", on_tree())),
    "scales of their own": document(
        paid("1", noise("laplace", 0, TREE, COUNTS, ("4/3", 4), (4, 1)))
    ),
    "entries": document(
        paid("2", noise("laplace", 2, SPLIT, [3, 1], contribution=1)), cost="2"
    ),
    "waves": document(paid("7", noise("laplace", 1, FLAT, [3, 1, 0])), cost="7"),
    "replacement": document(
        paid("1", noise("laplace", 6, prefix(3), [3, 1, 0])), neighbours="replace"
    ),
    "gaussian": document(
        paid("1/4", noise("gaussian", 4, TREE, COUNTS)), cost="1/4", currency="rho"
    ),
    "k_norm": document(paid("1", noise("k_norm", 1, ONE_WAY, [3, 4, 0, 2, 5]))),
    "no matrix": document(paid("1/2", stated(4, "2", [3, 4]))),
    "exponential": document(paid("1/2", chosen("exponential", HALF))),
    "rows": document(paid("1", chosen("exponential_rows", HALF, rows=2))),
    "quantiles": document(
        paid(
            "1",
            chosen(
                "quantiles",
                str(Fraction(2**35 - 12 * 7, 2**36)),
                window="2",
                sums=14,
            ),
        )
    ),
    "tree": document(
        paid(
            "1",
            chosen("tree", HALF),
            largest("leaves", chosen("tree", "1/4"), chosen("tree", HALF)),
        )
    ),
    "random samples": document(
        paid(
            "13/10",
            bags(2, *[chosen("exponential", str(Fraction(HALF) / 2))] * 2),
        ),
        cost="13/10",
    ),
    "permute and flip": document(
        paid("1", chosen("permute_and_flip", "1/4", sums=0, signs=2)),
        neighbours="replace",
    ),
    "parts": document(
        largest(
            "region",
            *[paid("1", noise("laplace", 1, identity(2), [3, 4])) for _ in range(2)],
            names=["north", "south"],
        ),
        paid("1/2", noise("laplace", 2, identity(2), [8, 4])),
        cost="3/2",
    ),
    "left out": document(paid("1", largest("all", on_tree(), stated(1, "1", [1])))),
    "prices in rho": document(
        paid("1/4", on_tree()),
        paid("1/32", chosen("exponential", HALF)),
        paid("1/100", chosen("permute_and_flip", "1/8", sums=0)),
        cost="3/10",
        currency="rho",
    ),
    "merged": document(
        paid(
            "1",
            noise(
                "laplace",
                2,
                stack(*[{"kind": "merged", "of": own} for own in TREE["blocks"]]),
                COUNTS,
            ),
        )
    ),
}
VALID["k_norm"]["cost"]["of"][0]["of"][0]["sampled"][0].append([[2, 3]])


def run(path, capsys):
    """Return exit code, verdict and all that was printed."""
    code = verify.main([str(path)])
    text = capsys.readouterr().out
    return code, text.rstrip("\n").rpartition("\n")[2], text


def code_of(content):
    return verify.examine(json.dumps(content).encode())[0]


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

PAYMENT = "cost.of.0."
DRAW = "cost.of.0.of.0."


def changed(name, **edits):
    """Return a valid file with other values at places; ``None`` takes one away."""
    found = copy.deepcopy(VALID[name])
    for place, value in edits.items():
        *path, last = (int(k) if k.isdigit() else k for k in place.split("."))
        inner = found
        for key in path:
            inner = inner[key]
        if value is None:
            del inner[last]
        elif last == "append":
            inner.append(value)
        else:
            inner[last] = value
    return found


TWICE = noise("laplace", 2, identity(4), [3, 1, 0, 2])
PRICED = "{} costs epsilon = {}, and {} was paid"
OVERLAP = "parts of 'region' overlap by name"
UNKNOWN = "names that are not known: ['{}']"
OF_GROUPS = {DRAW + "sampled.0": ["laplace", "1", [5, 1], [[4, 1]]]}
IN_A_BLOCK = {DRAW + "sampled": [["laplace", "2", [rows, 1]] for rows in (2, 3)]}
WRONG = {
    ("laplace", 1): {
        "groups of independent noise": (OF_GROUPS, "= 2, and 1 was paid"),
        "noise that changes in a block": (IN_A_BLOCK, "other rows"),
        "a larger column": ({DRAW + "strategy.blocks.1": ones(2, 4)}, "other rows"),
        "a release left out of the sum": (
            {PAYMENT + "of.append": TWICE},
            PRICED.format("'counts'", "3/2", 1),
        ),
        "a payment left out of the claim": (
            {"cost.of.append": paid("1/2", TWICE)},
            PRICED.format("'all of it'", "3/2", 1),
        ),
        "a draw beside payments": (
            {"cost.of.append": TWICE},
            PRICED.format("'all of it'", "3/2", 1),
        ),
        "a draw that says what it was paid": (
            {DRAW + "sampled.0.1": "1/9", DRAW + "paid": "1"},
            PRICED.format("'a draw'", 18, 1),
        ),
        "a claim that is a draw": (
            {
                "cost": on_tree()
                | {"sampled": [["laplace", "1/9", [5, 1]]], "paid": "1"}
            },
            PRICED.format("'a draw'", 18, 1),
        ),
        "numbers that are called nothing": (
            {DRAW + "law": "nothing"},
            "numbers are shown where nothing was drawn",
        ),
        "a payment without a draw": ({PAYMENT + "of": []}, "no draw of it is shown"),
        "no payment": ({"cost.of": []}, "no draw of it is shown"),
        "other columns": (
            {DRAW + "strategy.blocks.1": ones(1, 3)},
            "blocks of a strategy have other columns",
        ),
        "a strategy without rows": (
            {DRAW + "strategy.blocks": []},
            "a strategy without rows",
        ),
        "predictable noise of a part": (
            {PAYMENT + "insecure": True},
            "the noise of a part was predictable",
        ),
    },
    ("entries", 1): {
        "a sign that hides a sum": (
            {DRAW + "strategy.values": [9, -2, -9, 1]},
            PRICED.format("'counts'", 9, 2),
        ),
        "a strategy of zeros": (
            {DRAW + "strategy.values": [0], "cost.paid": "1"},
            "a strategy of zeros",
        ),
    },
    ("waves", 1): {
        "a wave across": ({DRAW + "strategy.g": [1, 1, 1, 1, 1]}, "epsilon = 10"),
        "a wave scaled": ({DRAW + "strategy.scales": [1, 1, 2]}, "epsilon = 8"),
    },
    ("laplace", 2): {
        "a payment that is called nothing": (
            {"cost.of.0.law": "nothing"},
            "a draw is not what draws cost",
        ),
        "an opaque draw": (
            {PAYMENT + "of.0": {"law": "opaque", "why": "a tree"}},
            "'opaque' is not checked: 'a tree'",
        ),
        "an opaque matrix": (
            {DRAW + "strategy": {"kind": "opaque", "shape": [4, 4], "what": "words"}},
            "matrices of kind 'opaque' cannot be checked",
        ),
        "a fact of a payment that nobody reads": (
            {PAYMENT + "price": "1"},
            UNKNOWN.format("price"),
        ),
        "a fact of a draw that nobody reads": (
            {DRAW + "scale": "9"},
            UNKNOWN.format("scale"),
        ),
        "a fact of a matrix that nobody reads": (
            {DRAW + "strategy.blocks.0.weight": 9},
            UNKNOWN.format("weight"),
        ),
        "a name in another Unicode form": (
            {PAYMENT + "ｐaid": "9"},
            "a name occurs twice",
        ),
    },
    ("parts", 1): {
        "overlapping parts": ({"cost.of.0.names": ["north", "north, south"]}, OVERLAP),
        "a union of parts": ({"cost.of.0.names": ["north", "south_or_north"]}, OVERLAP),
        "shares of different numbers": ({"cost.of.0.names": ["1/2", "1/3"]}, OVERLAP),
        "a part in capitals": ({"cost.of.0.names": ["a", "A "]}, OVERLAP),
        "parts that are one": ({"cost.of.0.names": ["north"] * 2}, OVERLAP),
        "parts in two Unicode forms": ({"cost.of.0.names": ["é", "é"]}, OVERLAP),
        "parts that are compatible": ({"cost.of.0.names": ["ﬁ", "fi"]}, OVERLAP),
    },
    ("exponential", 1): {
        "a window between scores": (
            {DRAW + "window": "1/2"},
            "a window of whole scores is no whole number",
        ),
        "roundings left out": ({DRAW + "rate": "1/2"}, "epsilon = "),
        "a rate between units": ({DRAW + "rate": "1/3"}, "no multiple of 2"),
    },
    ("k_norm", 1): {
        "groups without equal totals": (
            {DRAW + "strategy.blocks.1": runs([3, 6], range(3), range(3))},
            "have others",
        ),
        "groups of other rows": ({DRAW + "sampled.0.3": [[2], [2]]}, "other groups"),
    },
    ("random samples", 1): {
        "bags as a sum of more": (
            {PAYMENT + "of.append": chosen("exponential", HALF)},
            "epsilon = ",
        ),
    },
    ("entries", 2): {
        "runs that overlap": ({DRAW + "strategy.lengths": [2, 1, 1, 2]}, "overlap"),
        "runs that are too long": (
            {DRAW + "strategy.lengths": [1, 1, 1, 3]},
            "too long",
        ),
    },
}


@pytest.mark.parametrize(
    ("base", "expected", "edits", "words"),
    [(*key, *case) for key, cases in WRONG.items() for case in cases.values()],
    ids=[name for cases in WRONG.values() for name in cases],
)
def test_false_evidence_is_refused(base, expected, edits, words, tmp_path, capsys):
    code, verdict, text = run(written(changed(base, **edits), tmp_path), capsys)
    assert (code, words in verdict) == (expected, True), text
    assert verdict.startswith(("refuted: ", "cannot check: ")[expected - 1])


@pytest.mark.parametrize(
    ("entry", "cost", "expected"), [(1, "1", 0), (-1, "1", 1), (-1, "13/10", 0)]
)
def test_a_replaced_record_moves_rows_of_both_signs_twice_as_far(entry, cost, expected):
    """2 kappa(1, 1) = .92, kappa(2, 1) = 1.26: one step of two costs more than two."""
    matrix = runs([1, 2], [0, 0], [0, 1], [1], [1, entry])
    payment = paid(cost, noise("laplace", 1, matrix, [3]))
    found = document(payment, cost=cost, currency="rho", neighbours="replace")
    assert code_of(found) == expected


@pytest.mark.parametrize(("cost", "expected"), [("1/20", 1), ("7/100", 0)])
def test_a_change_of_a_part_of_a_step_is_priced_as_a_whole_one(cost, expected):
    """A number that moves by 3/2 costs kappa(1, 8/3) = .069; kappa(1, 4) is .03."""
    found = document(paid(cost, stated(4, "3/2", [3])), cost=cost, currency="rho")
    assert code_of(found) == expected


@pytest.mark.parametrize(("cost", "expected"), [("5/2", 1), ("13/5", 0)])
def test_a_replaced_record_is_in_bags_twice(cost, expected):
    """Two bags cost 4 (exp(1/2) - 1) = 2.595: each record by half of epsilon = 1."""
    draws = [chosen("exponential", str(Fraction(HALF) / 2))] * 2
    found = document(paid(cost, bags(2, *draws)), cost=cost, neighbours="replace")
    assert code_of(found) == expected


def test_sums_and_prices_are_rounded_up_and_do_not_wrap():
    effort = verify.Effort()
    assert effort.price(1, Fraction(10**41)) >= verify.kappa(1, Fraction(10**41)) > 0
    loads = [np.array([1, 2**61])] * 2
    assert effort.total([Fraction(3), Fraction(1, 7)], loads) == 2**61 * Fraction(22, 7)


# ---- an oracle, and edits at random --------------------------------------------------


def dense_of(matrix):
    kind = matrix["kind"]
    if kind == "runs":
        out = np.zeros(matrix["shape"], int)
        lists = [matrix[own] for own in ("rows", "starts", "lengths", "values")]
        for k in range(min(map(len, lists)) and max(map(len, lists))):
            row, start, length, value = (own[k * (len(own) > 1)] for own in lists)
            out[row, start : start + length] += value
        return out
    if kind == "merged":
        return dense_of(matrix["of"])
    if kind == "stack":
        return stacked(matrix["blocks"])
    if kind == "waves":
        (m, n), f = matrix["shape"], matrix["f"]
        across = matrix["g"] * (m + n - 1 if len(matrix["g"]) == 1 else 1)
        scales = matrix["scales"] * (n if len(matrix["scales"]) == 1 else 1)
        i, j = np.indices((m, n))
        return (np.array(f)[i - j + n - 1] + np.array(across)[i + j]) * scales
    assert kind == "marginal"
    return ref.marginal(matrix["sizes"], matrix["attributes"])


def stacked(blocks):
    """Return blocks of rows; columns of merged ones may meet all others."""
    found = [dense_of(own) for own in blocks]
    hidden = [own["kind"] == "merged" for own in blocks]
    pairs = [*zip(found, hidden, strict=True)]
    sizes = [max((own.shape[1] for own, away in pairs if not away), default=1)]
    sizes += [own.shape[1] for own, away in pairs if away]
    shared, *ways = np.indices(sizes).reshape(len(sizes), -1)
    return np.concatenate(
        [own[:, ways.pop(0) if away else shared] for own, away in pairs]
    )


def price_of(draw, factor, currency):
    """Return the cost of a draw, by listing matrices."""
    if "rate" in draw:
        flips = draw["law"] == "permute_and_flip"
        roundings = Fraction(12 * draw["sums"], 2**36)
        cost = Fraction(draw["rate"]) * Fraction(draw["window"]) + roundings
        cost *= factor * draw["rows"] * draw["signs"]
        return cost if currency == "epsilon" else cost**2 / (2 if flips else 8)
    scales = [Fraction(own[1]) for own in draw["sampled"] for _ in range(own[2][0])]
    if "strategy" not in draw:
        pairs = zip(draw["sensitivity"], draw["sampled"], strict=True)
        cost = factor * sum(Fraction(s) / Fraction(own[1]) for s, own in pairs)
        return cost if currency == "epsilon" else cost**2 / 2
    factor *= draw["contribution"]
    matrix = dense_of(draw["strategy"]).astype(object)
    assert len(matrix) == len(scales) == len(draw["values"])
    weights = np.array([1 / scale for scale in scales], object)
    if draw["law"] == "gaussian":
        assert currency == "rho"
        return factor**2 * (weights @ matrix**2).max() / 2
    loads = abs(matrix) * weights[:, None]
    if draw["law"] == "k_norm":
        (groups,) = draw["sampled"][0][3]
        cuts = np.cumsum(groups)[:-1]
        totals = [own.sum(axis=0).tolist() for own in np.split(matrix, cuts)]
        assert all(own == totals[0] for own in totals)
        loads = np.array([own.sum(axis=0) for own in np.split(loads, cuts)])
        cost = factor * loads.max()
        return cost if currency == "epsilon" else cost**2 / 2
    if currency == "epsilon":
        return factor * loads.sum(axis=0).max()
    return max(
        sum(
            laplace_rho(factor * abs(entry), scale)
            for entry, scale in zip(column, scales, strict=True)
            if entry
        )
        for column in matrix.T
    )


def oracle(content):
    """Return whether all that was drawn was paid for, within the claim."""
    relation, currency = content["relation"], content["currency"]
    factor = relation["records"]
    factor *= 1 if relation["neighbours"] == "add_remove" else 2

    def cost(node):
        if "law" in node:
            return price_of(node, factor, currency)
        parts = [cost(own) for own in node["of"]]
        total = max(parts) if node["how"] == "largest" else sum(parts)
        if node["how"] == "bags":
            total = node["bags"] * factor * math.expm1(total / factor)
        if "paid" not in node:
            return total
        assert total <= Fraction(node["paid"]) * (1 + Fraction(1, 10**9))
        return Fraction(node["paid"])

    assert cost(content["cost"]) == Fraction(content["cost"]["paid"])
    return True


def leaves_of(content, path=()):
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in inner:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from leaves_of(value, (*path, key))


NAMES = ["", "laplace", "gaussian", "exponential", "epsilon", "rho", "sum", "bags"]
NAMES += ["replace", 3]


def other_values(value):
    """Return what else a place in a file may hold."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int):
        own = [value + 1, value - 1, 2 * value, -value, 0, 10**25]
        return [*own, None, bool(value), float(value)]
    if isinstance(value, str) and re.fullmatch("[0-9]+(/[0-9]+)?", value):
        times = [Fraction(1, 2), Fraction(2), Fraction(10**9 + 1, 10**9), 0, -1]
        return [*(str(Fraction(value) * own) for own in times), 1.0]
    if isinstance(value, list):
        return [value[:-1], value[1:], value + value[-1:], None, {}, 1]
    return NAMES if isinstance(value, str) else [None, [], 1]


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", VALID)
def test_every_edit_is_refused_or_harmless(name):
    """What passes is private by the oracle: other words, more noise, a larger claim.

    Or numbers that nothing published follows from, or statements that are trusted: how
    much a record changes scores, or numbers that have no matrix.
    """
    passed = []
    for *path, last in leaves_of(VALID[name]):
        if path[:1] == ["about"]:
            continue
        content = copy.deepcopy(VALID[name])
        inner = content
        for key in path:
            inner = inner[key]
        for value in other_values(inner[last]):
            inner[last] = value
            code, report = verify.examine(json.dumps(content).encode())
            assert report[-1].startswith(("holds", "refuted", "cannot check")[code])
            passed.append(code == 0)
            assert code or oracle(content), (path, last, value)
        del inner[last]
        assert code_of(content) or oracle(content), (path, last)
    assert 0 < sum(passed) < len(passed) / 2


# ---- matrices ------------------------------------------------------------------------

INTEGERS = {
    name: (operator, dense)
    for name, (operator, dense) in CATALOGUE.items()
    if operator.dtype == np.int64 and "merged" not in str(evidence.term(operator))
}


def read(record):
    """Return a term that was written as JSON."""
    return verify.term(verify.parsed(json.dumps(record).encode()), verify.Effort())


def sums_of(record, norm):
    return verify.column_sums(read(record), getattr(verify, norm), verify.Effort())


def listed(record):
    """Return the values of every column that are not zero, in order."""
    made = read(record)
    columns, entries = made.listed()
    assert columns.size <= made.size
    return [sorted(entries[(columns == j) & (entries != 0)]) for j in range(made.n)]


@pytest.mark.by_day(18)
@pytest.mark.parametrize("name", INTEGERS)
def test_matrices_are_those_of_the_package(name):
    operator, dense = INTEGERS[name]
    record = evidence.term(operator)
    assert listed(record) == [sorted(own[own != 0]) for own in dense.T]
    for norm, power in (("L1", 1), ("L2", 2)):
        powers = abs(dense.astype(int)) ** power
        own = sums_of(record, norm)
        assert (own == powers.sum(axis=0)).all()
        assert np.max(own) == np.max(column_sums(operator, power))
    assert (sums_of(record, "SUM") == dense.sum(axis=0)).all()


def test_all_kinds_of_matrices_are_tested():
    text = json.dumps([evidence.term(operator) for operator, _ in INTEGERS.values()])
    kinds = set(re.findall('"kind": "([a-z_]+)"', text))
    assert verify.TERMS.keys() - kinds == {"merged"}


def test_large_matrices_have_closed_forms():
    long = {"kind": "runs", "shape": [10**4] * 2, "values": [1]}
    long |= {"rows": [*range(10**4)], "starts": [0], "lengths": [*range(1, 10**4 + 1)]}
    large = kronecker(long, marginal([10**9], [0]))
    assert np.max(sums_of(large, "L1")) == 10**4
    wide = marginal([10**6] * 6, [0, 3])
    assert sums_of(stack(wide, wide), "L2") == 2
    band = {"kind": "waves", "shape": [10**4] * 2, "g": [0], "scales": [3]}
    band["f"] = [*[0] * 9999, 1, 2, *[0] * 9998]
    assert sums_of(band, "L2").tolist() == [*[45] * 9999, 9]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_all_pairs_of_a_census_are_checked(law, tmp_path, capsys):
    """Their domain has 10^16 cells, so that there is a closed form or nothing."""
    sizes = [16, 9, 20, 16, 16, 7, 15, 6, 5, 2, 20, 20, 20, 42]
    sets = [own for k in (1, 2) for own in combinations(range(14), k)]
    blocks = [marginal(sizes, list(own)) for own in sets]
    rows = [math.prod(sizes[i] for i in own) for own in sets]
    scale = len(sets) if law == "laplace" else Fraction(len(sets), 2)
    pairs = [(scale, m) for m in rows]
    draw = noise(law, 0, stack(*blocks), packed(sum(rows)), *pairs)
    currency = "epsilon" if law == "laplace" else "rho"
    own = document(paid("1", draw), currency=currency)
    assert run(written(own, tmp_path), capsys)[0] == 0
    draw["sampled"][7][1] = "1"
    code, verdict, _ = run(written(own, tmp_path), capsys)
    assert (code, "and 1 was paid" in verdict) == (1, True)


@pytest.mark.parametrize("sizes", [[2, 3], [2, 10**9]], ids=["small", "large"])
def test_prices_of_products_are_those_of_entries(sizes, tmp_path, capsys):
    """Three times a marginal costs what a change by three costs."""
    matrix = kronecker(runs([1, 1], [0], [0], values=[3]), marginal(sizes, [0]))
    price = verify.kappa(3, Fraction(5))
    for share, code in ((1, 0), (Fraction(99, 100), 1)):
        cost = str(Fraction(math.floor(price * share * 10**12) + 1, 10**12))
        own = document(
            paid(cost, noise("laplace", 5, matrix, [4, 7])), cost=cost, currency="rho"
        )
        assert run(written(own, tmp_path), capsys)[0] == code


def test_sums_beyond_64_bits_are_exact():
    entries = runs([2, 2], [0, 1], [0, 1], values=[2**61, -3])
    assert sums_of(entries, "L2").tolist() == [2**122, 9]


def test_merged_columns_count_with_the_largest():
    one = {"kind": "merged", "of": prefix(4)}
    assert sums_of(one, "L1") == 4
    assert sums_of(stack(one, one), "L1") == 8
    assert sums_of({"kind": "merged", "of": stack(prefix(4), ones(2, 4))}, "L1") == 6
    with pytest.raises(verify.UncheckedError, match="hides them"):
        sums_of(one, "SUM")


def test_two_ways_that_disagree_are_refuted(monkeypatch):
    made = verify.term(identity(3), verify.Effort())
    wrong = made._replace(sums=lambda norm: 2)
    with pytest.raises(verify.RefutedError, match="two ways"):
        verify.column_sums(wrong, verify.L1, verify.Effort())


@pytest.mark.parametrize("moves", [1, 2, 9, 1000])
@pytest.mark.parametrize("scale", ["1/9", "1", "7/2", "1000", "1000000007/3"])
def test_prices_in_rho_are_at_most_those_of_the_ledger(moves, scale):
    ours, theirs = (f(moves, Fraction(scale)) for f in (verify.kappa, laplace_rho))
    assert ours <= theirs <= ours * (1 + Fraction(1, 10**8))


# ---- published files -----------------------------------------------------------------

HEADER = "sex,count,standard_error,lower,upper\n"
TABLE = {"sex.csv": HEADER + "f,3,2.79918,0,10\nm,2,2.79918,0,9\n"}
OF_SCALE_TWO = document(
    paid("1/2", noise("laplace", 2, marginal([2], [0]), [3, 2])), cost="1/2"
)


def published(folder, files=TABLE, content=OF_SCALE_TWO, **more):
    """Write a table of noisy counts 3 and 2, by default of Laplace noise."""
    digests = {}
    for name, text in files.items():
        (folder / name).write_text(text)
        digests[name] = hashlib.sha256(text.encode()).hexdigest()
    tables = [{"file": name, "attributes": [0]} for name in files]
    own = {"files": digests, "tables": tables, "sizes": [2], "level": "19/20"}
    return written(content | {"published": own | {"conditioned": False} | more}, folder)


def test_published_tables_are_checked(tmp_path, capsys):
    published(tmp_path)
    code, _, text = run(tmp_path, capsys)
    assert code == 0, text
    assert "whose intervals hold estimates and counts: 1" in text
    assert "  published counts, pages and workbooks were made of the noisy" in text
    published(tmp_path, conditioned=True)
    known = "  known totals, rules and hierarchies were public before\n"
    assert known in run(tmp_path, capsys)[2]
    assert known not in text
    assert "T16 tables with intervals of level 0.95: 1" in text


def test_counts_that_are_all_but_exact_hold(tmp_path, capsys):
    """An interval may be one whole number."""
    error = math.sqrt(2 * math.exp(-10)) / (1 - math.exp(-10))
    table = f"{HEADER}f,3,{error:.9g},3,3\nm,2,{error:.9g},2,2\n"
    draw = noise("laplace", "1/10", marginal([2], [0]), [3, 2])
    published(tmp_path, {"sex.csv": table}, document(paid("10", draw), cost="10"))
    assert run(tmp_path, capsys)[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("f,3,", "f,-3,", "are not whole, or negative"),
        ("sex,count", "count,count", "a column of 'sex.csv' occurs twice"),
        ("f,3,", "f,3.5,", "are not whole, or negative"),
        ("0,10", "0,2", "an interval or an error does not follow"),
        ("m,2,2.79918,", "m,2,2.8,", "an interval or an error does not follow"),
        ("m,2,2.79918,", "m,2,inf,", "an interval or an error does not follow"),
        ("0,10", "6,10", "an interval or an error does not follow"),
        ("0,10", "0,8", "intervals hold with probability 0.938, and not 0.95"),
        ("m,2,2.79918,0,9\n", "", "has another number of rows"),
    ],
)
def test_published_tables_that_are_wrong(old, new, words, tmp_path, capsys):
    published(tmp_path, {"sex.csv": TABLE["sex.csv"].replace(old, new)})
    code, verdict, text = run(tmp_path, capsys)
    assert code == 1, text
    assert words in verdict


@pytest.mark.parametrize(
    ("law", "scale", "away"),
    [("laplace", "2", 5), ("laplace", "2", 6), ("gaussian", "1/2", 1),
     ("gaussian", "9/10", 1)],
)  # fmt: skip
def test_levels_are_those_of_the_law(law, scale, away, tmp_path, capsys):
    """Counts are at most so far away with a known probability."""
    k, t = np.arange(-200, 201), float(Fraction(scale))
    mass = np.exp(-abs(k) / t if law == "laplace" else -(k**2) / (2 * t))
    mass /= mass.sum()
    error, held = math.sqrt(k**2 @ mass), mass[abs(k) <= away].sum()
    table = HEADER + "".join(
        f"{sex},{n},{error:.6g},{max(n - away, 0)},{n + away}\n"
        for sex, n in (("f", 3), ("m", 2))
    )
    cost = str(1 / Fraction(scale) / (1 if law == "laplace" else 2))
    currency = "epsilon" if law == "laplace" else "rho"
    draw = noise(law, scale, marginal([2], [0]), [3, 2])
    own = document(paid(cost, draw), cost=cost, currency=currency)
    for level, code in ((held - 0.003, 0), (held + 0.003, 1)):
        published(tmp_path, {"sex.csv": table}, own, level=str(Fraction(level)))
        assert run(tmp_path, capsys)[0] == code


@pytest.mark.parametrize("name", [".hidden", "more.csv", "folder"])
@pytest.mark.parametrize("lists", [True, False])
def test_files_that_nobody_lists_are_refuted(name, lists, tmp_path, capsys):
    """In a folder that is given; evidence alone may lie beside anything."""
    if lists:
        published(tmp_path)
    else:
        written(VALID["laplace"], tmp_path)
    assert run(tmp_path, capsys)[0] == 0
    (tmp_path / name).mkdir()
    code, verdict, _ = run(tmp_path, capsys)
    assert (code, verdict) == (1, f"refuted: {name!r} is no part of what was published")
    assert run(tmp_path / "evidence.json", capsys)[0] == lists


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", ["1/60", "1/9", "1/5"])
@pytest.mark.parametrize("level", ["1/2", "19/20", "999/1000"])
def test_intervals_of_next_to_no_noise(law, scale, level, tmp_path, capsys):
    """Errors are next to none, and no less than least squares take them to be."""
    assert verify.FLOOR == VARIANCE_FLOOR
    noisy = noise(law, scale, marginal([2], [0]), [3, 2])
    run_of = verify.Run(law, Fraction(scale))
    error = math.sqrt(max(verify._law(run_of, np.zeros(0))[0], VARIANCE_FLOOR))
    table = {"sex.csv": f"{HEADER}3,3,{error:.6g},2,4\n2,2,{error:.6g},1,3\n"}
    currency = "epsilon" if law == "laplace" else "rho"
    own = document(paid("60", noisy), cost="60", currency=currency)
    published(tmp_path, table, own, level=level)
    code, _, text = run(tmp_path, capsys)
    assert code == 0, text
    published(tmp_path, {"sex.csv": table["sex.csv"].replace("3,3,", "3,5,")}, own)
    assert run(tmp_path, capsys)[0] == 1


def test_margins_that_differ(tmp_path, capsys):
    files = TABLE | {"again.csv": TABLE["sex.csv"].replace("f,3", "f,4")}
    published(tmp_path, files)
    code, verdict, _ = run(tmp_path, capsys)
    assert (code, "differ in a margin" in verdict) == (1, True)


def test_files_that_were_changed_or_are_elsewhere(tmp_path, capsys):
    published(tmp_path)
    (tmp_path / "sex.csv").write_text("other")
    words = "refuted: 'sex.csv' is not the file that was published"
    assert run(tmp_path, capsys)[1] == words
    (tmp_path / "sex.csv").unlink()
    assert run(tmp_path, capsys)[0] == 2
    for name in ("../sex.csv", "/etc/passwd", "..", "a\\b", "c:d", ""):
        published(tmp_path, tables=[], files={**TABLE} if not name else TABLE)
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


REFUTED = changed("laplace", **{"cost.paid": "1/2"})


def archived(
    path, *entries, how=zipfile.ZIP_DEFLATED, name="description.json", array=b"0"
):
    """Write an archive with the hash of all that is in it."""
    own = {"arrays": 1, "entries": entries, "score": 0.5}
    digest = hashlib.sha256(json.dumps(own, sort_keys=True).encode() + b"0").hexdigest()
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.writestr(name, json.dumps(own | {"sha256": digest}))
        archive.writestr("array_0.npy", array)
    return path


def stored(content):
    return {"class": "Evidence", "arguments": {"text": json.dumps(content)}}


def test_archives(tmp_path, capsys):
    path, own = tmp_path / "model", stored(VALID["laplace"])
    assert run(archived(path, {"class": "Domain"}, own), capsys)[0] == 0
    assert run(archived(path, stored(REFUTED)), capsys)[0] == 1
    assert "one evidence is needed" in run(archived(path, own, own), capsys)[1]
    assert "There is no" in run(archived(path, own, name="x"), capsys)[1]
    assert run(archived(path, own, how=zipfile.ZIP_LZMA), capsys)[0] == 2
    code, verdict, _ = run(archived(path, own, array=b"1"), capsys)
    assert (code, verdict[:35]) == (1, "refuted: the archive has another ha")
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
    (tmp_path / "out").mkdir()
    written(VALID["laplace"], tmp_path / "out")
    code = """if True:
        import runpy, sys
        sys.argv = ["check.py", "out"]
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


def test_no_more_numbers_are_unpacked_than_there_are():
    text = json.dumps(packed(0, bytes(10**7))).encode()
    tracemalloc.start()
    with pytest.raises(verify.UncheckedError, match="packed numbers must be 0"):
        verify.parsed(text)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def of_values(values):
    return identity(4) | {"values": values}


def with_matrix(matrix):
    return json.dumps(changed("laplace", **{DRAW + "strategy": matrix}))


def nested(depth):
    inner, last = '{"kind": "merged", "of": ', json.dumps(TREE)
    return with_matrix("X").replace('"X"', inner * depth + last + "}" * depth)


def deep(depth):
    inner = '{"how": "sum", "of": ['
    last = json.dumps(on_tree())
    return json.dumps(changed("laplace", **{PAYMENT + "of.0": "X"})).replace(
        '"X"', inner * depth + last + "]}" * depth
    )


def long_product(depth):
    inner = '{"kind": "kronecker", "left": ' + json.dumps(identity(2)) + ', "right": '
    return json.loads(inner * depth + "1" + "}" * depth) if depth < 900 else "X"


TEXT = json.dumps(VALID["laplace"])
FAR_APART = [f"{10**3000 + k}/7" for k in range(0, 400, 2)]
HOSTILE = {
    "nothing": "",
    "no json": "{",
    "a list": "[]",
    "not text": b"\xff\xfe{",
    "deep lists": "[" * 10**6,
    "deep records": '{"a":' * 10**6,
    "deep matrices": nested(600),
    "deep sums": deep(600),
    "a name twice": TEXT.replace('"version": 1', '"version": 1, "version": 1'),
    "a cost that is not a number": TEXT.replace('"paid": "1"', '"paid": NaN'),
    "a count that is not a number": TEXT.replace("[3, 1,", "[NaN, 1,"),
    "a count without end": TEXT.replace("[3, 1,", "[1e999, 1,"),
    "a number of a million digits": TEXT.replace("[3, 1,", f"[{'9' * 10**6}, 1,"),
    "a fraction of a million digits": TEXT.replace('"2"', f'"{"9" * 10**6}/7"'),
    "a factor without end": TEXT.replace(
        '"contribution": 1', f'"contribution": {10**4000}'
    ),
    "a large square": with_matrix(runs([10**9] * 2, range(5), [0], [10**9])),
    "a large wave": with_matrix(FLAT | {"shape": [10**9] * 2, "f": [1], "g": [1]}),
    "a listed wave": with_matrix(FLAT | {"shape": [3000] * 2, "f": [1], "g": [1]}),
    "a product of much and nothing": with_matrix(
        kronecker(runs([999, 10**6], range(999), [0], [10**6]), runs([1, 1], [], []))
    ),
    "a long product": with_matrix(long_product(600)),
    "large lists": with_matrix(stack(*[ones(3000, 3000)] * 80)),
    "many blocks": with_matrix(stack(*[ones(1, 4)] * 30_000)),
    "a bomb": with_matrix(of_values(packed(4, bytes(10**8)))),
    "many bombs": with_matrix(stack(*[of_values(packed(9 * 10**6))] * 50)),
    "a bomb that is a matrix": with_matrix(
        {"kind": "runs", "shape": [4, 10**7], "rows": packed(9 * 10**6)}
        | {"starts": [0], "lengths": [1], "values": [1]}
    ),
    "packed numbers that are fewer": with_matrix(of_values(packed(4, b"1234"))),
    "less than none": with_matrix(of_values({"packed": "", "n": -4})),
    "sizes that are deep": with_matrix(marginal([10**9] * 10**4, [1])),
    "many small lists": "[" + "{}," * (2**24 // 3 - 2) + "{}]",
    "too long": " " * (2**24 + 1),
    "text for draws": json.dumps(changed("laplace", **{PAYMENT + "of": "x" * 10**6})),
    "scales without a common denominator": json.dumps(
        changed(
            "no matrix",
            **{DRAW + "strategy": identity(200), DRAW + "values": [0] * 200},
            **{DRAW + "sampled": [["laplace", own, [1, 1]] for own in FAR_APART]},
        )
    ),
}


def many(number, draw, scales, currency="rho", **more):
    """Return a payment of draws, by default stated, each with a scale of its own."""
    draws = [draw | {"sampled": [["laplace", scale, [1, 1]]]} for scale in scales]
    return json.dumps(document(paid(number, *draws), cost=number, currency=currency))


def text_of(draw, **more):
    return json.dumps(document(paid("1", draw), **more))


ALONE = stated(1, "1", [3])
MANY_NAMES = [*map(str, range(1, 9000)), "1, 2"]
WIDE = runs([2_400_000] * 2, [], [], values=[2**60])
WIDE |= dict.fromkeys(["rows", "starts"], packed(2_400_000))
IN_RUNS = noise("laplace", 1, identity(3000), [0] * 3000)
HOSTILE |= {
    "draws in rho": many("9" * 9, ALONE, [f"{own}/7" for own in range(7, 9800)]),
    "costs without a common denominator": many(
        "9" * 9, ALONE, [f"{10**800 + own}/7" for own in range(0, 9000, 2)], "epsilon"
    ),
    "runs without end": text_of(
        ALONE
        | {"sampled": [["laplace", "1", [1, 1]]] * 400_000}
        | {"sensitivity": ["1"] * 400_000, "values": packed(400_000)}
    ),
    "a price for each of many rows": text_of(
        IN_RUNS | {"sampled": [["laplace", str(2**k), [1, 1]] for k in range(3000)]},
        currency="rho",
    ),
    "many names of parts": json.dumps(
        document(largest("region", *[{"law": "nothing"}] * 9000, names=MANY_NAMES))
    ),
    "large sums of products": with_matrix(
        stack(*[kronecker(prefix(3000), SPLIT | {"shape": [2, 3000]})] * 5)
    ),
    "entries beyond 64 bits": text_of(
        noise("laplace", 0, WIDE, packed(2_400_000), (4, 2_399_999), (5, 1))
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory cannot be limited")
def test_hostile_files_end_in_a_sentence(tmp_path):
    paths = {}
    draw = random.Random(1)
    some = [[0, *sorted(draw.sample(range(1, 41), 20))] for _ in range(1900)]
    long = "count\n" + "1\n" * 8_388_000
    for name, text, sets, sizes in (
        ("tables of many attributes", TABLE["sex.csv"], some, [2] + [1] * 40),
        ("a table of many rows", long, [[0]], [8_388_000]),
    ):
        paths[name] = tmp_path / name / "evidence.json"
        paths[name].parent.mkdir()
        tables = [{"file": "a.csv", "attributes": own} for own in sets]
        published(paths[name].parent, {"a.csv": text}, tables=tables, sizes=sizes)
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
        assert code in "12", (name, text[-300:])
        assert float(seconds) < 2, (name, seconds)
        assert last.startswith(("refuted: ", "cannot check: ")), (name, last)
        assert len(last) < 400, name


# ---- the theorem ---------------------------------------------------------------------


def test_every_check_names_its_line_of_the_theorem():
    """The page states T1 to T16, and the file carries out each of them."""
    page = Path(__file__).parents[2] / "notebooks" / "proofs" / "evidence.md"
    stated = re.findall(r"\*\*(T\d+)\.\*\*", page.read_text(encoding="utf-8"))
    source = FILE.read_text(encoding="utf-8")
    said = set(re.findall(r'"(T\d+)"', source))
    lines = [f"T{number}" for number in range(1, 17)]
    assert stated == lines
    assert said == {*lines}


# ---- the command ---------------------------------------------------------------------


def test_wrong_arguments(capsys):
    assert verify.main(["--help"]) == verify.main(["-h"]) == 0
    capsys.readouterr()
    for words in ([], ["a", "b"]):
        assert verify.main(words) == 2
        assert capsys.readouterr().out.startswith("cannot check: name one PATH")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(
            (text, "it is no evidence; name a folder, its evidence.json or a model\n")
            for text in (b"", b"sex,age\nf,3\n", b"\xff\xfe", b"{}", b"[]", b"3")
        ),
        (b"PK\3\4 cut off", "the archive is not whole: copy it again from its source"),
    ],
)
def test_files_of_another_kind_say_so(tmp_path, capsys, text, words):
    path = tmp_path / "a"
    path.write_bytes(text)
    assert verify.main([str(path)]) == 2
    said = capsys.readouterr().out
    assert said.startswith(f"cannot check: {words}")
    assert said.count("\n") == 1
    assert verify.main([str(tmp_path / "b")]) == 2
    assert capsys.readouterr().out == "cannot check: there is no file 'b'\n"


def test_evidence_is_checked_in_memory(tmp_path, capsys):
    published(tmp_path)
    text = (tmp_path / "evidence.json").read_bytes()
    code, report = verify.examine(text)
    assert (code, report[-1][:7]) == (0, "holds: ")
    assert any("published files, which are not beside" in line for line in report)
    assert verify.examine(text, tmp_path) == verify.examine(tmp_path)
