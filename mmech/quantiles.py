r"""Cut points of a numeric attribute at private quantiles, drawn together.

A public grid cuts a number into G fine cells. Candidates are all choices of b - 1 of
its G - 1 inner edges, which make b bins; the score of one is minus the number of
records that its bins hold beyond an equal share t of a public number of records,

.. math:: q = - \sum_{j=1}^{b} \max(0, n_j - t) .

An added record is in one bin, and lowers the score by one or leaves it unchanged. So
one draw by the exponential mechanism pays for all cut points at its full rate, as for a
count. There are far too many candidates to list, but the score is a sum over
neighbouring cut points. So the weights of all ways to reach an edge by j cut points
follow from those by j - 1 cut points,

.. math:: Z_j(g) = \sum_{g' < g} Z_{j-1}(g') e^{\rho s(g', g)} ,

and cut points are drawn one after the other, from the last to the first, from the exact
joint distribution [1]_. The score of [1]_ is another one: it needs no public number of
records, and is private at half of the rate.

References
----------
.. [1] Gillenwater, Joseph, Kulesza, "Differentially private quantiles", ICML 2021.
"""

from __future__ import annotations

import numbers
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_integer
from mmech.exceptions import ParameterError
from mmech.noise import FRACTION_BITS, check_insecure_rng, weighted_choice
from mmech.noise.seam import drawn
from mmech.noise.system import Rng
from mmech.privacy.cost import one_cost, warn_if_weak
from mmech.privacy.ledger import LedgerEntry, PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.release import charge, in_64_bits, whole_numbers
from mmech.selection import epsilon_of_draw, fixed_point_rate

LARGEST_RATE = 2**40
"""Largest rate: 16 nats for each record. More budget is not needed."""

LARGEST_LOGARITHM = 2**61
"""Logarithms of weights stay below this; larger surpluses of a bin count as less."""

MOST_CELLS = 4096
"""Cells of a grid: work and memory grow with their square. More is refused."""

MOST_RECORDS = 2**50
"""Counts of cells beyond this count as this, so that sums have 64 bits."""

Logarithms = NDArray[np.int64]


def joint_quantiles(
    counts: ArrayLike,
    n_bins: int,
    *,
    n_records: float,
    epsilon: Any = None,
    rho: Any = None,
    released: str,
    neighbours: str = "add_remove",
    records_per_person: int = 1,
    ledger: PrivacyLedger | None = None,
    insecure_rng: Any = None,
) -> NDArray[np.int64]:
    r"""Choose edges of a public grid that cut records into equal parts, privately.

    A choice of ``n_bins - 1`` edges is drawn with probability proportional to
    :math:`e^{-\rho s}`. Here s is the number of records that its bins hold beyond equal
    shares of `n_records`, and :math:`\rho = \epsilon` for ``"add_remove"``, half of it
    for ``"replace"``. G cells take time in :math:`O(b G^2)`: some tenths of a second
    for 8 bins of 1024 cells.

    Parameters
    ----------
    counts : array_like of int, shape (G,)
        Records in each cell of a public grid, in order. Sensitive.
    n_bins : int
        Number b of bins, from 2 to the number of cells.
    n_records : float
        Number of records, roughly: public, or released before. An exact one that is not
        public must not be used.
    epsilon, rho : float, str or Fraction
        Privacy parameter in nats; exactly one of them. A draw that costs rho has an
        epsilon of the root of 8 rho, because its privacy loss has bounded range.
    released : str
        What is chosen, in words, for the ledger.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation; ``"replace"`` halves the rate.
    records_per_person : int, default=1
        Largest number of records of one person, public; divides the rate.
    ledger : PrivacyLedger, default=None
        Budget to charge; ``None`` charges nobody.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable choice for tests; warns.

    Returns
    -------
    ndarray of int64, shape (b - 1,)
        Increasing; c stands for the edge between the first c cells and the rest. Safe
        to publish.

    Raises
    ------
    BudgetExceededError
        If the ledger does not cover the cost; nothing is drawn.
    ValueError
        If counts are not whole numbers >= 0 in one row, or another argument does not
        fit; nothing is spent.

    Notes
    -----
    Proof: ``notebooks/proofs/quantiles.md``.

    Examples
    --------
    >>> from mmech import joint_quantiles
    >>> ages = [50, 0, 50, 50, 50]  # records in each of five ranges
    >>> joint_quantiles(ages, 4, n_records=200, epsilon=2, released="quartiles")[1:]
    array([3, 4])
    """
    cost, currency = one_cost(epsilon, rho)
    exact = whole_numbers(counts)
    if exact.ndim != 1 or not 2 <= exact.size <= MOST_CELLS:
        raise ValueError(
            f"counts must be one row of 2 to {MOST_CELLS} cells, got shape "
            f"{exact.shape}; make the grid coarser"
        )
    if (exact < 0).any():
        raise ValueError(
            "counts must be at least 0, got negative ones; pass numbers of records"
        )
    if check_integer(n_bins, "n_bins", minimum=2) > exact.size:
        raise ParameterError(
            "n_bins",
            "must be at most the number of cells",
            n_bins,
            ("lower it", "make the grid finer"),
        )
    stated: Any = n_records
    if not isinstance(stated, numbers.Real) or not 1 <= float(stated) < np.inf:
        raise ParameterError(
            "n_records", "must be a public number of at least 1", n_records
        )
    if ledger is None:
        warn_if_weak(cost, currency)
    cuts, _ = select_quantiles(
        exact,
        n_bins,
        float(n_records),
        cost,
        currency,
        released=released,
        relation=Relation(neighbours, records_per_person),
        ledger=ledger,
        noise=check_insecure_rng(insecure_rng),
    )
    return cuts


def select_quantiles(
    counts: NDArray[Any],
    n_bins: int,
    n_records: float,
    cost: Fraction,
    currency: str,
    *,
    released: str,
    relation: Relation,
    ledger: PrivacyLedger | None,
    noise: Rng,
) -> tuple[NDArray[np.int64], LedgerEntry]:
    """Charge for cut points, then draw them."""
    epsilon = epsilon_of_draw(cost, currency)
    rate = fixed_point_rate(epsilon, monotone=True, relation=relation, roundings=n_bins)
    rate = min(rate, LARGEST_RATE)
    share = min(max(1, round(n_records / n_bins)), 2**53)
    entry = LedgerEntry(cost, released, "exponential", currency=currency)
    entry = charge(ledger, entry, relation, noise)
    exact = in_64_bits(counts)

    def choose() -> NDArray[np.int64]:
        below = np.cumsum(np.append(0, np.minimum(exact, MOST_RECORDS)))
        table = surplus_logarithms(below, share, rate, n_bins)
        return _drawn_backwards(table, n_bins, noise)

    cuts: NDArray[np.int64] = drawn(
        "quantiles",
        exact,
        choose,
        epsilon=epsilon,
        rate=Fraction(rate, 2**FRACTION_BITS),
        n_bins=n_bins,
        share=share,
        relation=relation,
        sums=n_bins,
    )
    return cuts, entry


def surplus_logarithms(
    below: NDArray[np.int64], share: int, rate: int, n_bins: int
) -> Logarithms:
    """Return logarithms of the weights of bins between any two edges, (G + 1, G + 1).

    In units of 2**-36 nats; of row h and column g < h for the bin from g to h. `below`
    counts the records below every edge (G + 1,), and is sensitive. A bin may hold
    `share` records; each one beyond costs `rate` units. A surplus is cut off at a
    public number, so that logarithms always fit into 64 bits. At epsilon = 1 this
    number is 2^25 records.
    """
    most = LARGEST_LOGARITHM // (n_bins * rate)
    surplus = below[:, None] - below[None, :] - share
    return np.asarray(-rate * np.clip(surplus, 0, most))


def _drawn_backwards(table: Logarithms, n_bins: int, noise: Rng) -> NDArray[np.int64]:
    """Draw cut points, from the last to the first."""
    last = len(table) - 1
    ways = [table[:, 0]]
    for number in range(2, n_bins):
        ways.append(_one_more(ways[-1], table, number))
    cuts = np.empty(n_bins - 1, np.int64)
    end = last
    for number in range(n_bins - 1, 0, -1):
        # So many cut points fit below this one, above the edge of the first cell.
        chances = ways[number - 1][number:end] + table[end, number:end]
        end = number + weighted_choice(chances, insecure_rng=noise)
        cuts[number - 1] = end
    return cuts


def _one_more(ways: Logarithms, table: Logarithms, number: int) -> Logarithms:
    """Return logarithms of the weights of all ways to cut `number` times up to an edge.

    Each sum is rounded once, to within a unit of 2**-36: the largest weight counts as
    one, others as doubles below it, and at most 2^12 of them add up.
    """
    first = number - 1
    found = np.zeros_like(ways)
    for edge in range(number, len(table) - 1):
        terms = ways[first:edge] + table[edge, first:edge]
        most = terms.max()
        gaps = np.ldexp((terms - most).astype(np.float64), -FRACTION_BITS)
        sums = np.log(np.exp(gaps).sum())
        found[edge] = most + int(np.rint(np.ldexp(sums, FRACTION_BITS)))
    return found
