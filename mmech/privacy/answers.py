"""What several releases cost together, in every currency, by the best valid sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mmech.checks import check_delta
from mmech.privacy.cost import epsilon_from_rho
from mmech.privacy.entry import BOUNDED_RANGE, LedgerEntry, composed
from mmech.privacy.numerical import numerical_epsilon, shifts_of

DELTAS = (1e-5, 1e-7, 1e-9)
"""Where statements say what a rho promises."""

MOST_SPLITS = 50
"""How many ways to account for releases in epsilon and in rho are tried."""


def epsilon_delta(entries: Sequence[LedgerEntry], delta: Any) -> float:
    """Return the least epsilon that entries are known to have together at a delta.

    Those of the most rho per epsilon count in pure epsilon, and the others in rho: the
    best of some splits. Or some count numerically, see `numerical_epsilon`.
    """
    check_delta(delta)
    prices = [(e.rho / e.epsilon, e) for e in entries if e.epsilon is not None]
    prices.sort(key=lambda price: price[0], reverse=True)
    shares, pure = [share for share, _ in prices], [entry for _, entry in prices]
    others = [entry for entry in entries if entry.epsilon is None]
    # Releases of one kind count alike: less than all of them in epsilon is no better.
    steps = [i for i in range(1, len(pure)) if shares[i] != shares[i - 1]]
    epsilons = []
    for split in {0, *steps[:: 1 + len(steps) // MOST_SPLITS], len(pure)}:
        rho = composed([*pure[split:], *others], "rho")
        extra = epsilon_from_rho(rho, delta) if rho else 0.0
        epsilons.append(float(composed(pure[:split], "epsilon")) + extra)
    return min([*epsilons, *_numerically(entries, delta)])


def _numerically(entries: Sequence[LedgerEntry], delta: float) -> Iterator[float]:
    """Yield epsilons of compositions in which some privacy losses are added up.

    Added up are all entries of known loss, then those but for draws of bounded range.
    The rest counts in rho, or in epsilon.
    """
    with_loss = {i for i, entry in enumerate(entries) if shifts_of(entry)}
    unranged = {i for i in with_loss if entries[i].kind not in BOUNDED_RANGE}
    for chosen in (with_loss, unranged) if unranged != with_loss else (with_loss,):
        if not chosen:
            continue
        added = [entry for i, entry in enumerate(entries) if i in chosen]
        rest = [entry for i, entry in enumerate(entries) if i not in chosen]
        yield numerical_epsilon(added, delta, composed(rest, "rho"))
        if rest and all(entry.epsilon is not None for entry in rest):
            yield numerical_epsilon(added, delta) + float(composed(rest, "epsilon"))


def at_deltas(entries: Sequence[LedgerEntry]) -> str:
    """Return the epsilons of entries together at three deltas, in words."""
    each = [f"{epsilon_delta(entries, d):.3g} at delta = {d:g}" for d in DELTAS]
    return f"epsilon = {each[0]}, {each[1]} and {each[2]}"
