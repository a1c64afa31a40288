"""The door that every noisy number goes through: whole numbers in, exact noise added.

Three things happen in this order and nowhere else: the parameters of the noise are
checked, the ledger is charged, the noise is drawn. An interruption after the charge
counts as spent.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_integer, plain_array
from mmech.noise.laws import Law, Price, k_norm, law_and_cost
from mmech.noise.norm import Blocks, Groups
from mmech.noise.seam import drawn, paid
from mmech.noise.system import Rng, check_insecure_rng
from mmech.privacy.cost import warn_if_weak
from mmech.privacy.ledger import LedgerEntry, PrivacyLedger, as_ledger
from mmech.privacy.neighbours import Relation, exact_size
from mmech.storage.codec import storable

LARGEST_VALUE = 2**62
"""Exact values stay below this, so that noise cannot take them past 64 bits. No table
of records reaches it with weights of moderate size. Values beyond are refused after the
charge, because the refusal tells about them: it is not covered by the guarantee."""

Run = tuple[int, int, Fraction]
"""Rows start..stop-1 of a release and how much one record changes them, to the power
of the law of their noise."""


@storable("Measurement")
@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers, safe to publish.

    Attributes
    ----------
    values : ndarray of int64, shape (p,) or (p, k)
        Noisy answers: exact whole numbers plus noise of whole numbers.
    scale : float or ndarray of float64, shape (p,)
        Scale t of Laplace noise, ``P(x) ∝ exp(-|x| / t)``, or σ of Gaussian noise,
        ``P(x) ∝ exp(-x² / 2σ²)``: one number where all rows share it. The exact t and
        σ² are fractions; these are the nearest doubles.
    variance : float or ndarray of float64, shape (p,)
        Variance of the noise, in squared counts.
    entry : LedgerEntry
        What the measurement cost and the sensitivity that it was calibrated to:
        neighbour relation included, in units of the rows of largest weight.

    Examples
    --------
    >>> from mmech import Identity, MatrixMechanism
    >>> measurement = MatrixMechanism(Identity(3), epsilon=0.5).measure([4, 0, 9])
    >>> measurement.values.shape, measurement.scale, measurement.epsilon
    ((3,), 2.0, Fraction(1, 2))
    >>> MatrixMechanism(Identity(3), rho="1/32").measure([4, 0, 9]).scale
    4.0
    """

    values: NDArray[np.int64]
    scale: float | NDArray[np.float64]
    variance: float | NDArray[np.float64]
    entry: LedgerEntry

    def __post_init__(self) -> None:
        scales = np.asarray(self.scale, np.float64)
        good = (scales > 0) & (scales < math.inf)
        if not good.all():
            worst = scales[~good].flat[0]
            raise ValueError(
                f"a measurement needs a noise scale > 0, got {worst}; "
                "a noiseless measurement would not be private"
            )

    @property
    def sensitivity(self) -> float:
        """Sensitivity in the norm of the noise, neighbour relation included."""
        return self.entry.sensitivity

    @property
    def cost(self) -> Fraction:
        """What the measurement cost, in the currency of its entry."""
        return self.entry.cost

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon of the measurement; ``None`` under Gaussian noise."""
        return self.entry.epsilon


def whole_numbers(values: ArrayLike) -> NDArray[Any]:
    """Return exact values as an array of any type, or raise if they are not whole."""
    array = plain_array(values, "values to release")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"values to release must be numbers, got dtype {array.dtype}")
    if (
        array.dtype.kind == "f"
        and not (np.isfinite(array) & (array == np.rint(array))).all()
    ):
        raise ValueError(
            "values to release must be whole numbers, because exact noise is made "
            "of whole numbers; count in smaller units and scale afterwards"
        )
    return array


def in_64_bits(array: NDArray[Any]) -> NDArray[np.int64]:
    """Return whole numbers as int64, or raise if they are too large; after the charge.

    What is too large depends on records, so that this refusal must not be free.
    """
    limit = 2.0**53 if array.dtype.kind == "f" else LARGEST_VALUE
    if array.size and max(abs(int(array.max())), abs(int(array.min()))) > limit:
        raise ValueError(
            f"values to release must be below {limit:.3g} in magnitude to be exact; "
            "nothing was released, but what it costs is spent, because this refusal "
            "tells about the values"
        )
    return array.astype(np.int64)


def noisy_release(
    values: ArrayLike,
    *,
    sensitivity: Any = None,
    squared_sensitivity: Any = None,
    groups: Groups | None = None,
    epsilon: Any = None,
    rho: Any = None,
    released: str,
    neighbours: str = "add_remove",
    records_per_person: int = 1,
    ledger: PrivacyLedger | None = None,
    insecure_rng: Any = None,
) -> Measurement:
    r"""Release whole numbers with exact discrete noise, paid for in a ledger.

    For `epsilon`, Laplace noise with :math:`P(x) \propto e^{-|x| \epsilon / \Delta_1}`
    [1]_; for `rho`, Gaussian noise with :math:`\sigma^2 = \Delta_2^2 / (2 \rho)`, which
    is rho-zCDP [2]_; for `epsilon` and `groups`, noise shaped like the largest L1 norm
    of a group, :math:`P(z) \propto e^{-\epsilon \max_g \|z_g\|_1 / \Delta}` [3]_. The
    ledger is charged first, then the noise is drawn.

    Parameters
    ----------
    values : array_like of int, shape (p,) or (p, k)
        Exact values, in counts. Sensitive.
    sensitivity : int, Fraction or float
        How much one added or removed record changes `values`: in L1 norm for
        `epsilon`, in L2 norm for `rho`; with `groups`, the L1 norm of every group of
        rows, in one column. A float stands for the fraction that it is.
    squared_sensitivity : int or Fraction
        Square of the L2 sensitivity, in place of `sensitivity`, for `rho`: exact where
        the sensitivity itself is irrational.
    groups : sequence of int, or of sequences of int, optional
        Sizes of consecutive groups of rows. One record may change *every* group, which
        Laplace noise would have to pay for as many times. Sizes that are put together,
        as in ``[(4, 3), 1]``, are those of groups whose totals are always equal.
        One-way tables of the same records are. Their noise has equal totals too, and is
        less.
    epsilon, rho : float, str or Fraction
        Privacy parameter in nats; exactly one of them.
    released : str
        What is released, in words, for the ledger.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation; ``"replace"`` doubles the sensitivity.
    records_per_person : int, default=1
        Largest number of records of one person, public; multiplies the sensitivity.
    ledger : PrivacyLedger, default=None
        Budget to charge; ``None`` charges nobody.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns.

    Returns
    -------
    Measurement

    Raises
    ------
    BudgetExceededError
        If the ledger does not cover the cost; nothing is drawn.
    ValueError
        If values are not whole, the sensitivity is not a finite number > 0, or the
        groups do not add up to the rows. If the noise does not fit into 64 bits, or the
        ledger is for another neighbour relation. In all of these nothing is spent. If
        values are beyond 2^62 in magnitude, or 2^53 as floats, or totals are not equal
        that are said to be; the cost is spent, and the guarantee does not cover this
        refusal.

    Notes
    -----
    **When to use groups.** The K-norm mechanism for d groups of m rows has about
    :math:`(dm + 1)(dm + 2) / (d^2 (m + 1)(m + 2))` times the variance of Laplace noise:
    for many groups 1/6 for m = 1, 1/3 for m = 2, but 0.60 for m = 5 and 0.79 for
    m = 12. Equal totals make it less between the rows of a group, by 40 % for many
    groups of m = 4 and 10 % for m = 16. Where groups differ in size, rows of small ones
    have more noise than rows of large ones. No group can be given more of the budget
    than another. The noise of a column shares one radius: rows of different
    groups are uncorrelated but for equal totals, and large all at once.

    Quantities that are not whole are counted in smaller units: means of d attributes in
    [0, 1] with 64 units to one, and ``sensitivity=64``.

    Proof: ``notebooks/proofs/laplace.md``, ``notebooks/proofs/gaussian.md`` and, with
    groups, ``notebooks/proofs/k_norm.md``.

    References
    ----------
    .. [1] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing
       privacy mechanisms", STOC 2009 (the geometric mechanism).
    .. [2] Canonne, Kamath, Steinke, "The discrete Gaussian for differential
       privacy", NeurIPS 2020, Theorem 4.
    .. [3] Hardt, Talwar, "On the geometry of differential privacy", STOC 2010; Awan,
       Slavković, "Structure and sensitivity in differential privacy: comparing K-norm
       mechanisms", JASA 2021.

    Examples
    --------
    >>> from mmech import PrivacyLedger, noisy_release
    >>> ledger = PrivacyLedger(1.0)
    >>> noisy = noisy_release(
    ...     [4, 0, 9], sensitivity=1, epsilon=0.25, released="three counts",
    ...     ledger=ledger,
    ... )
    >>> noisy.scale, ledger.remaining
    (4.0, Fraction(3, 4))

    How many of the records of two classes have each of 20 properties. Laplace noise
    would have to be scaled to 20 / epsilon, a variance of 800:

    >>> import numpy as np
    >>> noisy = noisy_release(
    ...     np.full((20, 2), 30), sensitivity=1, groups=[1] * 20, epsilon=1,
    ...     released="20 counts",
    ... )
    >>> noisy.values.shape, noisy.variance[0].round()
    ((20, 2), np.float64(154.0))
    """
    noise = check_insecure_rng(insecure_rng)
    whole = whole_numbers(values)
    law, cost = law_and_cost(epsilon, rho)
    if ledger is None:
        warn_if_weak(cost, law.currency)
    rows = whole.shape[0] if whole.ndim else 1
    if groups is not None:
        law = _checked_norm(groups, whole, law)
    size = _own_size(sensitivity, squared_sensitivity, law)
    return measure(
        whole,
        [(0, rows, size)],
        law,
        cost,
        released=released,
        relation=Relation(neighbours, records_per_person),
        ledger=ledger,
        noise=noise,
    )


def measure(
    values: NDArray[Any],
    runs: Sequence[Run],
    law: Law,
    cost: Fraction,
    *,
    released: str,
    relation: Relation,
    ledger: PrivacyLedger | None,
    noise: Rng,
    check: Callable[[], None] | None = None,
    price: Price | None = None,
    **origin: Any,
) -> Measurement:
    """Charge for noise on rows, then draw it; the only way from exact to noisy numbers.

    Parameters
    ----------
    values : ndarray, shape (p,) or (p, k)
        Exact values: whole numbers of any type. Sensitive.
    runs : sequence of (int, int, Fraction)
        Consecutive rows, and how much one added record changes them, to the power
        ``law.power``; multiplied by the relation.
    law, cost : Law and Fraction
        Law of the noise, and the cost in its currency.
    released : str
        What is released, in words.
    noise : numpy.random.Generator or None
        Predictable source for tests; ``None`` is the operating system's entropy.
    check : callable, optional
        Called after the charge; raises where the values cannot be right.
    price : Price, optional
        What is known beside the cost; ``None`` takes what follows from the sensitivity.
    **origin
        What the evidence of the release says of the values: the ``strategy``, a tuple
        of the matrices that multiplied, with the ``contribution`` of a record; or the
        ``part`` of the records.
    """
    laws, parameters, entry = planned(runs, law, cost, released, relation, price)
    entry = charge(ledger, entry, relation, noise)
    if check is not None:
        check()
    exact = in_64_bits(values)
    _check_totals(exact, law.groups)

    def add_noise() -> NDArray[np.int64]:
        noisy = exact.copy()
        flat = noisy.reshape(-1) if noisy.ndim == 0 else noisy
        for (start, stop, _), own, t in zip(runs, laws, parameters, strict=True):
            rows = flat[start:stop]
            rows += own.draw(t, rows.shape, insecure_rng=noise)
        return noisy

    noisy = drawn(
        law.name,
        exact,
        add_noise,
        runs=runs,
        parameters=parameters,
        groups=law.groups,
        entry=entry,
        **origin,
    )
    return Measurement(
        noisy,
        per_row([own.scale(t) for own, t in zip(laws, parameters, strict=True)], runs),
        per_row(
            [own.variance(t) for own, t in zip(laws, parameters, strict=True)], runs
        ),
        entry,
    )


def planned(
    runs: Sequence[Run],
    law: Law,
    cost: Fraction,
    released: str,
    relation: Relation,
    price: Price | None = None,
) -> tuple[list[Law], list[Fraction], LedgerEntry]:
    """Return laws and exact parameters of noise, one per run, and what to charge."""
    factor = relation.factor**law.power
    sizes = [factor * size for _, _, size in runs]
    laws = [law.of_rows(start, stop) for start, stop, _ in runs]
    parameters = [
        part.parameter(size, cost) for part, size in zip(laws, sizes, strict=True)
    ]
    size = min(sizes)
    sensitivity = math.sqrt(size) if law.power == 2 else float(size)
    if price is None:
        price = law.price(size, parameters[0]) if len(runs) == 1 else Price()
    entry = LedgerEntry(cost, released, law.name, sensitivity, law.currency)
    if price.rho is not None and price.rho < entry.rho:
        entry = replace(entry, other_cost=price.rho)
    starts = [start for start, _, _ in runs]
    shifts = tuple(
        (law.name, distance, parameters[bisect_right(starts, row) - 1], times)
        for row, distance, times in price.moved
    )
    return laws, parameters, replace(entry, shifts=shifts)


def ledger_or_own(ledger: Any, law: Law, relation: Relation) -> PrivacyLedger:
    """Return a ledger that was given, or one without a limit for a law."""
    if ledger is None:
        return PrivacyLedger(
            math.inf,
            currency=law.currency,
            neighbours=relation.neighbours,
            records_per_person=relation.records_per_person,
        )
    return as_ledger(ledger)


def charge(
    ledger: PrivacyLedger | None, entry: LedgerEntry, relation: Relation, noise: Rng
) -> LedgerEntry:
    """Pay for a release, if there is a ledger and it is for the same relation.

    Return the entry as it stands in the ledger.
    """
    size, insecure = float(entry.sensitivity), noise is not None
    entry = replace(entry, sensitivity=size, insecure=insecure)
    if ledger is not None:
        as_ledger(ledger).check_relation(relation)
        entry = ledger._pay(entry)
    paid(entry, relation)
    return entry


def per_row(numbers: Sequence[Any], runs: Sequence[Run]) -> Any:
    """Return one number per row, or what stands for all rows where they share it."""
    if len(numbers) == 1:
        return numbers[0]
    return np.concatenate(
        [
            np.broadcast_to(number, stop - start)
            for number, (start, stop, _) in zip(numbers, runs, strict=True)
        ]
    )


def _own_size(sensitivity: Any, squared: Any, law: Law) -> Fraction:
    """Return the sensitivity of one record, to the power of the law, exactly."""
    if (sensitivity is None) == (squared is None):
        raise TypeError("pass either sensitivity= or squared_sensitivity=")
    if squared is None:
        return exact_size(sensitivity) ** law.power
    if law.power == 1:
        raise TypeError(
            "squared_sensitivity= is for Gaussian noise, paid with rho=; pass "
            "sensitivity= for epsilon="
        )
    return exact_size(squared)


def _checked_norm(groups: Any, values: NDArray[Any], law: Law) -> Law:
    """Return the law of noise for groups of rows."""
    if law.currency != "epsilon":
        raise TypeError(
            "groups= is for noise that is paid with epsilon=; under rho=, pass "
            "squared_sensitivity= for all rows together"
        )
    if not isinstance(groups, (Sequence, np.ndarray)):
        raise TypeError(f"groups must be a sequence of sizes, got {groups!r}")
    blocks: list[Any] = [
        block if isinstance(block, (Sequence, np.ndarray)) else [block]
        for block in groups
    ]
    if not blocks or not all(map(len, blocks)):
        raise ValueError("groups must hold at least one size, got none")
    rows = sum(check_integer(size, "the size of a group") for b in blocks for size in b)
    if values.ndim not in (1, 2) or values.shape[0] != rows:
        raise ValueError(
            f"values must have one row per coordinate, {rows} in all groups, and "
            f"one or two dimensions, got shape {values.shape}"
        )
    return k_norm(blocks)


def _check_totals(values: NDArray[np.int64], blocks: Blocks) -> None:
    """Raise where totals differ that noise would not hide a difference of."""
    if not blocks:
        return
    stops = np.cumsum(np.concatenate(blocks))
    # Sums of 64-bit numbers may wrap around, and then agree.
    totals = np.add.reduceat(values.astype(object), [0, *stops[:-1]])
    ends = np.cumsum([len(block) for block in blocks])
    for block, rows in zip(blocks, np.split(totals, ends), strict=False):
        if (rows != rows[0]).any():
            raise ValueError(
                f"groups of {list(block)} rows must have equal totals, which their "
                "noise takes for granted, but they differ; put only groups together "
                "that every record adds the same amount to"
            )
