"""Releases with evidence: ``python tests/mutants/_releases.py OUT [tables]``.

A mutant of the package runs this; a verifier without the mistake reads what it wrote.
A release that raises is left out, with its name on standard error.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mmech
from mmech.tables import Mean, Quantiles, Sum

RNG = random.Random(0)
SIZES = (2, 3, 4)


def tables(sizes: tuple[int, ...] = SIZES, records: int = 400, **options: Any) -> Any:
    """Release tables of attributes of the given sizes."""
    domain = mmech.Domain(
        [
            mmech.Attribute.categorical(f"a{i}", [f"v{j}" for j in range(size)])
            for i, size in enumerate(sizes)
        ]
    )
    rows = [[f"v{RNG.randrange(n)}" for n in sizes] for _ in range(records)]
    return mmech.release_tables(rows, domain, **options).evidence.save


def statistics(**options: Any) -> Any:
    """Release a table with means, sums and quantiles."""
    sex = mmech.Attribute.categorical("sex", ["f", "m"])
    age = mmech.Attribute.numeric("age", lower=0, upper=90, n_bins=3)
    rows = [[RNG.choice("fm"), RNG.randrange(90)] for _ in range(200)]
    own = [Mean("age", by="sex"), Quantiles("age"), Sum("age")]
    domain = mmech.Domain([sex, age])
    made = mmech.release_tables(rows, domain, ways=1, statistics=own, **options)
    return made.evidence.save


def recorded(
    release: Callable[[], Any], cost: Any = 1, currency: str = "epsilon"
) -> Any:
    """Make a release, and return what saves its evidence with the promised cost."""
    with mmech.record_evidence() as record:
        release()
    return record.evidence(Fraction(cost), currency).save


def measured(
    strategy: Any, cost: Any = 1, currency: str = "epsilon", **options: Any
) -> Any:
    """Measure a strategy, which is the workload as well."""
    own: Any = {currency: cost, **options}
    mechanism = mmech.MatrixMechanism(strategy, strategy, **own)
    counts = list(range(strategy.shape[1]))
    claimed = (9, "rho") if "ledger" in options else (cost, currency)
    return recorded(lambda: mechanism.measure(counts), *claimed)


def in_rho(**relation: Any) -> Any:
    """Return a ledger of rho."""
    return mmech.PrivacyLedger(9, currency="rho", **relation)


def several(total: Any, **options: Any) -> Any:
    """Make three releases from one ledger, two of them on disjoint parts."""
    ledger = mmech.PrivacyLedger(total, **options)

    def release() -> None:
        own: Any = {"sensitivity": 1, **options}
        half = Fraction(total) / 2
        for part in ("north", "south"):
            own["ledger"] = ledger.part("region", part)
            mmech.noisy_release([4, 7], epsilon=half, released=part, **own)
        own["ledger"] = ledger
        mmech.noisy_release([4, 7], epsilon=half, released="all", **own)

    return recorded(release, total)


def chosen(release: Callable[..., Any], cost: Any = 1, **options: Any) -> Any:
    """Choose among three candidates."""
    own: Any = {"released": "the best", **options}
    return recorded(lambda: release([3, 9, 5], epsilon=cost, **own), cost)


PEOPLE: Any = {"neighbours": "replace", "records_per_person": 2}
KNOWN: Any = {"known": {("a0",): [200, 200]}, "impossible": [{"a0": "v0", "a1": "v2"}]}
P_IDENTITY = mmech.PIdentity([[0.5, 0.25, 1.5, 0.75], [1, 0, 0, 2]])
EQUAL = mmech.Marginals((2, 3), {(0,): 1, (1,): 1})
WEIGHTED = mmech.Marginals((2, 3), {(0,): 0.25, (1,): 0.75, (0, 1): 1})

TABLES: dict[str, Callable[[], Any]] = {
    "tables": lambda: tables(ways=(1, 2), epsilon=1),
    "tables in rho": lambda: tables(ways=(1, 2), rho="1/8"),
    "tables of people": lambda: tables(ways=(1, 2), epsilon=1, **PEOPLE),
    "tables of people in rho": lambda: tables(ways=(1, 2), rho=1, **PEOPLE),
    "tables of one attribute": lambda: tables(ways=1, epsilon=1),
    "tables of one attribute, of people": lambda: tables(ways=1, epsilon=1, **PEOPLE),
    "tables with known totals": lambda: tables(ways=(1, 2), epsilon=1, **KNOWN),
    "tables with known totals, of people": lambda: tables(
        ways=(1, 2), rho=1, **KNOWN, **PEOPLE
    ),
    "steps": lambda: tables((2, 3) * 5, ways=2, epsilon="1/2"),
    "steps in rho": lambda: tables((2, 3) * 5, ways=2, rho="1/20"),
    "statistics": lambda: statistics(epsilon=1),
    "statistics in rho": lambda: statistics(rho="1/8", **PEOPLE),
}
"""Releases of tables by name: each returns what writes evidence at a path."""

OTHERS: dict[str, Callable[[], Any]] = {
    "prefix": lambda: measured(mmech.Prefix(9)),
    "prefix, three times": lambda: measured(mmech.Prefix(9), contribution=3),
    "prefix in rho": lambda: measured(mmech.Prefix(9), "1/8", "rho", contribution=3),
    "p-identity": lambda: measured(P_IDENTITY, **PEOPLE),
    "p-identity in rho": lambda: measured(P_IDENTITY, 1, "rho", **PEOPLE),
    "weighted marginals": lambda: measured(WEIGHTED),
    "weighted marginals in rho": lambda: measured(WEIGHTED, 1, "rho"),
    "entries": lambda: measured(mmech.Dense([[5, -3, 1], [0, 2, 9]])),
    "entries in rho": lambda: measured(mmech.Dense([[5, -3, 1], [0, 2, 9]]), 1, "rho"),
    "norm": lambda: measured(EQUAL, noise="k_norm", **PEOPLE),
    "laplace noise in rho": lambda: measured(mmech.Prefix(9), ledger=in_rho()),
    "laplace noise in rho, weighted": lambda: measured(WEIGHTED, ledger=in_rho()),
    "laplace noise in rho, of people": lambda: measured(
        mmech.Prefix(9), ledger=in_rho(**PEOPLE), **PEOPLE
    ),
    "laplace noise in rho, of both signs": lambda: measured(
        mmech.Dense([[5, -3, 1], [0, 2, 9]]), ledger=in_rho(**PEOPLE), **PEOPLE
    ),
    "laplace noise in rho, signed": lambda: measured(
        mmech.Prefix(9), signed=True, ledger=in_rho(**PEOPLE), **PEOPLE
    ),
    "numbers in rho": lambda: recorded(
        lambda: mmech.noisy_release(
            [4, 7],
            sensitivity=Fraction(5, 2),
            epsilon=1,
            released="two numbers",
            ledger=in_rho(),
        ),
        9,
        "rho",
    ),
    "parts": lambda: several(1),
    "exponential": lambda: chosen(mmech.exponential_mechanism),
    "exponential, a third": lambda: chosen(mmech.exponential_mechanism, "1/3"),
    "exponential, monotone": lambda: chosen(
        mmech.exponential_mechanism, monotone=True, **PEOPLE
    ),
    "permute and flip": lambda: chosen(mmech.permute_and_flip, **PEOPLE),
    "permute and flip in rho": lambda: recorded(
        lambda: mmech.permute_and_flip(
            [3, 9],
            epsilon=1,
            released="the best",
            ledger=mmech.PrivacyLedger(9, currency="rho"),
        ),
        9,
        "rho",
    ),
    "exponential in rho": lambda: recorded(
        lambda: mmech.exponential_mechanism([3, 9], rho="1/8", released="the best"),
        "1/8",
        "rho",
    ),
    "cut points": lambda: recorded(
        lambda: mmech.joint_quantiles(
            [4, 7, 9, 30], 2, n_records=50, epsilon=1, released="cut points"
        )
    ),
}
"""All other releases, which take less time."""


def main(out: str, which: str = "others") -> None:
    """Write the evidence of releases, of tables or of others, in a folder."""
    warnings.simplefilter("ignore")
    for name, release in (TABLES if which == "tables" else OTHERS).items():
        try:
            release()(Path(out, name))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
