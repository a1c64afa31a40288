"""Releases in a ledger: what one costs, and all together, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from mmech.checks import check_epsilon
from mmech.privacy.cost import RESOLUTION, bounded_range_epsilon, in_rho
from mmech.privacy.neighbours import Relation, exact_size
from mmech.storage.codec import exact_number, storable

# Command lines read the relation before NumPy is loaded, which files need.
storable("Relation")(Relation)

Shift = tuple[str, int, Fraction, int]
"""The fields: the law of noise on whole numbers; the largest distance m by which
neighbours move one number; the parameter of the law (scale b, or σ²); how many numbers
are moved by m, independently."""

CURRENCIES = ("epsilon", "rho")

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "laplace": "L1 sensitivity {:g}, exact discrete Laplace noise",
        "gaussian": "L2 sensitivity {:g}, exact discrete Gaussian noise",
        "k_norm": "sensitivity {:g} in the largest norm of an attribute, exact noise "
        "shaped like this norm",
        "exponential": "drawn by the exponential mechanism, score of sensitivity {:g}",
        "permute_and_flip": "drawn by permute-and-flip, scores of sensitivity {:g} in "
        "one leaf",
        "random_samples": "all releases on random samples of the records, at the price "
        "of samples",
        "steps": "in steps that share the cost, each with exact noise or an exact draw "
        "for changes of {:g} record",
        "other": "sensitivity {:g}",
    }
)
"""Kind of release to how it was made private, given its sensitivity. A law of noise
that is not among them goes by its name."""

NUMERICAL = ("laplace", "gaussian")
"""Laws whose losses are composed numerically."""

BOUNDED_RANGE = frozenset({"exponential"})
"""Kinds whose privacy loss has a range of epsilon: they cost epsilon² / 8 in rho."""


@storable("LedgerEntry")
@dataclass(frozen=True)
class LedgerEntry:
    """One release that was paid for.

    Attributes
    ----------
    cost : Fraction
        What the release cost, in `currency`.
    released : str
        What was released, in words.
    kind : str
        How it was made private: one of `KINDS`, or the name of another law of noise.
    sensitivity : float
        Sensitivity that the noise, or the draw, was calibrated to, neighbour relation
        included: L1, L2 for Gaussian noise, of a score for a draw.
    currency : {"epsilon", "rho"}
        Pure epsilon, or rho of zCDP, as the ledger counts.
    insecure : bool
        Whether the noise was predictable (``insecure_rng``), which voids the guarantee.
    partition, part : str or None
        The partition of the records and the part of it that was measured, if the
        release was paid for through `PrivacyLedger.part`.
    other_cost : Fraction or None
        Cost in the other currency, where it is known closer than from the kind.
    shifts : tuple of (str, int, Fraction, int), default=()
        What neighbours change at most: "laplace" or "gaussian", a distance, the scale
        or the variance parameter of the noise, and how many numbers are moved that far.
        All neighbours are as private as these, see `numerical_epsilon`. An entry of
        which nothing is known has none.

    Examples
    --------
    >>> from mmech import PrivacyLedger
    >>> entry = PrivacyLedger("1/2").spend("1/8", "a histogram", sensitivity=1)
    >>> entry.cost, entry.released, entry.sensitivity
    (Fraction(1, 8), 'a histogram', 1.0)
    >>> entry.epsilon, float(entry.rho)
    (Fraction(1, 8), 0.007802343344)
    """

    cost: Fraction
    released: str
    kind: str = "other"
    sensitivity: float = 1.0
    currency: str = "epsilon"
    insecure: bool = False
    partition: str | None = None
    part: str | None = None
    other_cost: Fraction | None = None
    shifts: tuple[Shift, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.released, str) or not self.released:
            raise TypeError(
                "released must say in words what is released, for the ledger, got "
                f"{self.released!r}"
            )
        if self.other_cost is not None and self.other_cost <= 0:
            raise ValueError(f"other_cost must be > 0, got {self.other_cost}")
        for law, distance, parameter, times in self.shifts:
            good = distance > 0 and parameter > 0 and times > 0
            if law not in NUMERICAL or not good:
                raise ValueError(
                    f"shifts must be of {' or '.join(NUMERICAL)} noise, with numbers "
                    f"> 0, got {(law, distance, parameter, times)}"
                )

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon of the release; ``None`` if it has none."""
        if self.currency == "epsilon":
            return self.cost
        if self.other_cost is None and self.kind in BOUNDED_RANGE:
            return bounded_range_epsilon(self.cost) + Fraction(1, RESOLUTION)
        return self.other_cost

    @property
    def rho(self) -> Fraction:
        """The rho of zCDP that the release costs at most."""
        if self.currency == "rho":
            return self.cost
        most = in_rho(self.cost, bounded_range=self.kind in BOUNDED_RANGE)
        return most if self.other_cost is None else min(most, self.other_cost)

    @property
    def how(self) -> str:
        """How the release was made private, in words."""
        if self.kind in KINDS:
            text = KINDS[self.kind].format(self.sensitivity)
        else:
            text = f"{self.kind} noise of sensitivity {self.sensitivity:g}"
        return f"{text}; PREDICTABLE NOISE" if self.insecure else text


def as_json(order: int, entry: LedgerEntry) -> dict[str, Any]:
    """Return an entry as JSON values."""
    release: dict[str, Any] = {
        "order": order,
        "released": entry.released,
        entry.currency: str(entry.cost),
        "kind": entry.kind,
        "sensitivity": entry.sensitivity,
        "insecure": entry.insecure,
    }
    if entry.other_cost is not None:
        release[_other(entry.currency)] = str(entry.other_cost)
    if entry.shifts:
        release["shifts"] = [[n, d, str(b), times] for n, d, b, times in entry.shifts]
    if entry.partition is not None:
        release |= {"partition": entry.partition, "part": entry.part}
    return release


def entry_of(release: Mapping[str, Any], currency: str) -> LedgerEntry:
    """Return the entry of JSON values."""
    other = release.get(_other(currency))
    return LedgerEntry(
        check_epsilon(exact_number(release[currency])),
        release["released"],
        str(release["kind"]),
        float(exact_size(float(release["sensitivity"]))),
        currency,
        bool(release["insecure"]),
        release.get("partition"),
        release.get("part"),
        None if other is None else check_epsilon(exact_number(other)),
        tuple(
            (str(law), int(distance), exact_number(parameter), int(times))
            for law, distance, parameter, times in release.get("shifts", ())
        ),
    )


def _other(currency: str) -> str:
    """Return the other one of the two currencies."""
    return CURRENCIES[currency == CURRENCIES[0]]


def checked_kind(kind: Any) -> str:
    """Return the kind of a release, or raise if it is no name."""
    if not isinstance(kind, str) or not kind:
        raise TypeError(f"kind must be a name, got {kind!r}")
    return kind


def entry_in_rho(entry: LedgerEntry) -> LedgerEntry:
    """Return an entry of pure epsilon at its price in rho."""
    return replace(entry, cost=entry.rho, currency="rho", other_cost=entry.epsilon)


def composed(entries: Iterable[LedgerEntry], cost: str = "cost") -> Fraction:
    """Return what entries cost together: of each partition only the dearest part.

    In the currency of the ledger, or in the one that `cost` names.
    """
    total = Fraction(0)
    parts: dict[str, dict[str | None, Fraction]] = {}
    for entry in entries:
        price = getattr(entry, cost)
        if entry.partition is None:
            total += price
        else:
            costs = parts.setdefault(entry.partition, {})
            costs[entry.part] = costs.get(entry.part, Fraction(0)) + price
    return total + sum((max(costs.values()) for costs in parts.values()), Fraction(0))
