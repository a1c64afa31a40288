"""Laws of noise: in which norm it is calibrated, what it costs, how it is drawn.

A law is what a release, a mechanism, an error formula and an audit need to know of
noise. No other file knows how a law differs from the others. To add one, describe it
here as a `Law` and list it in `LAWS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats
from mmech.checks import check_choice
from mmech.noise.gaussian import (
    check_variance,
    discrete_gaussian,
    discrete_gaussian_variance,
)
from mmech.noise.laplace import check_scale, discrete_laplace, discrete_laplace_variance
from mmech.noise.norm import (
    Blocks,
    Groups,
    as_blocks,
    check_norm_scale,
    norm_noise,
    norm_noise_variance,
)
from mmech.noise.system import Rng
from mmech.privacy.cost import laplace_rho, one_cost


class Price(NamedTuple):
    """What is known of a release beside its cost.

    Attributes
    ----------
    rho : Fraction or None
        What noise of pure epsilon costs in rho, where it is known closer.
    moved : tuple of (int, int, int)
        A row, how far neighbours move it at most, and how many rows with its noise they
        move that far. Empty where some neighbours may cost more than that.
    """

    rho: Fraction | None = None
    moved: tuple[tuple[int, int, int], ...] = ()


class Pricing(NamedTuple):
    """How releases with noise of a law are priced closer than by their cost.

    Attributes
    ----------
    of_size : callable
        From a sensitivity, to the power of the law, and the parameter of noise that all
        rows share, to a `Price`.
    of_strategy : callable
        From an integer strategy, the cost, the unit changes between neighbours, and how
        many of these move together, to rho; ``None`` where nothing is known.
    """

    of_size: Callable[[Fraction, Fraction], Price]
    of_strategy: Callable[[Any, Fraction, int, int], Fraction | None]


@dataclass(frozen=True)
class Law:
    """A law of noise on whole numbers, drawn exactly.

    Attributes
    ----------
    name : str
        Name, and kind of its entries in a ledger.
    currency : {"epsilon", "rho"}
        What a release costs: pure epsilon, or rho of zCDP.
    norm : {"L1", "L2"}
        Norm of the sensitivity that it is calibrated to.
    parameter : callable
        From the sensitivity to the power `power`, and a cost, to the exact parameter
        of the law; raises where the noise does not fit into 64 bits.
    draw : callable
        From the parameter and a shape to noise, int64; takes ``insecure_rng=``.
    variance, scale : callable
        From the parameter to the variance of the noise, and to the scale that a
        measurement shows. Numbers, or one per row.
    continuous : callable
        From a cost to the variance of continuous noise for sensitivity one, by which
        strategies are compared.
    characteristic : callable
        From the parameter and frequencies to the characteristic function of the noise
        of one row, of which intervals are made.
    tail : callable
        From the parameter and a probability to a whole distance that the noise of one
        row exceeds with at most this probability.
    words : str
        The noise in a sentence, such as "Laplace noise".
    groups : tuple of tuple of int, default=()
        Sizes of the groups of rows of a K-norm law, in blocks of equal totals; empty
        where rows are independent.
    grouped : callable, optional
        From the groups of rows that are measured to the law of their joint noise;
        ``None`` where rows are independent.
    template : str, default="auto"
        Template of the strategies that a mechanism optimizes for this noise.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech.noise import LAPLACE
    >>> scale = LAPLACE.parameter(Fraction(3), Fraction(1, 2))
    >>> scale, LAPLACE.draw(scale, (2, 2)).shape
    (Fraction(6, 1), (2, 2))
    """

    name: str
    currency: str
    norm: str
    parameter: Callable[[Fraction, Fraction], Fraction]
    draw: Callable[..., NDArray[np.int64]]
    variance: Callable[[Fraction], Any]
    scale: Callable[[Fraction], Any]
    continuous: Callable[[Fraction], float]
    characteristic: Callable[[Any, Floats], Floats]
    tail: Callable[[Fraction, float], int]
    words: str
    groups: Blocks = ()
    grouped: Callable[[Groups], Law] | None = None
    template: str = "auto"

    @property
    def power(self) -> int:
        """Power of sensitivities that is handed on: squares of L2 ones are exact."""
        return 2 if self.norm == "L2" else 1

    @property
    def privacy(self) -> str:
        """Kind of privacy that `optimize` names: "pure", or "zcdp" under L2."""
        return "zcdp" if self.norm == "L2" else "pure"

    @property
    def pricing(self) -> Pricing | None:
        """How releases are priced closer, if that is known of this very law."""
        return PRICING.get(self.name) if LAWS.get(self.name) is self else None

    def price(self, size: Fraction, parameter: Fraction) -> Price:
        """Return what follows from the sensitivity of whole numbers with equal noise.

        Parameters
        ----------
        size : Fraction
            Sensitivity to the power of the law, neighbour relation included.
        parameter : Fraction
            Parameter of the noise on every row.
        """
        return self.pricing.of_size(size, parameter) if self.pricing else Price()

    def of_rows(self, start: int, stop: int) -> Law:
        """Return the law of the noise of some rows of a release, a run of it.

        Rows of a K-norm law are whole blocks with noise of their own. K-norm noise of a
        single group is Laplace noise.
        """
        ends = np.cumsum([sum(block) for block in self.groups])
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        groups = self.groups[first : last + 1]
        if groups == self.groups:
            return self
        return LAPLACE if len(groups) == len(groups[0]) == 1 else k_norm(groups)


def _laplace_scale(size: Fraction, epsilon: Fraction) -> Fraction:
    return check_scale(size / epsilon)


def _gaussian_variance(squared: Fraction, rho: Fraction) -> Fraction:
    return check_variance(squared / (2 * rho))


def _continuous_laplace_variance(epsilon: Fraction) -> float:
    scale = 1.0 / float(epsilon)
    return 2.0 * scale * scale


def _continuous_gaussian_variance(rho: Fraction) -> float:
    return 1.0 / (2.0 * float(rho))


def _laplace_characteristic(scale: Any, frequencies: Floats) -> Floats:
    half = np.sin(frequencies / 2) / math.sinh(min(0.5 / float(scale), 700.0))
    return np.asarray(1 / (1 + np.square(half)))


def _gaussian_characteristic(variance: Any, frequencies: Floats) -> Floats:
    """Return a sum over values, or from σ² = 1 on what is alike to eight digits."""
    t = float(variance)
    if t >= 1:
        return np.asarray(np.exp(-t / 2 * np.square(frequencies)))
    x = np.arange(10)
    mass = np.exp(-np.square(x) / (2 * t)) * np.where(x, 2, 1)
    return np.asarray(np.cos(np.multiply.outer(frequencies, x)) @ mass / mass.sum())


def _laplace_tail(scale: Fraction, risk: float) -> int:
    r"""Return a distance by :math:`P(|x| > q) \le e^{-q / t}`, for whole q."""
    return math.ceil(float(scale) * math.log(1 / risk))


def _gaussian_tail(variance: Fraction, risk: float) -> int:
    r"""Return a distance by :math:`P(|x| > q) \le 2 e^{-q^2 / 2 \sigma^2}`."""
    return math.ceil(math.sqrt(2 * variance * math.log(2 / risk)))


LAPLACE = Law(
    name="laplace",
    currency="epsilon",
    norm="L1",
    parameter=_laplace_scale,
    draw=discrete_laplace,
    variance=discrete_laplace_variance,
    scale=float,
    continuous=_continuous_laplace_variance,
    characteristic=_laplace_characteristic,
    tail=_laplace_tail,
    words="Laplace noise",
)
r"""Discrete Laplace noise of scale Δ₁ / ε: pure epsilon."""

GAUSSIAN = Law(
    name="gaussian",
    currency="rho",
    norm="L2",
    parameter=_gaussian_variance,
    draw=discrete_gaussian,
    variance=discrete_gaussian_variance,
    scale=math.sqrt,
    continuous=_continuous_gaussian_variance,
    characteristic=_gaussian_characteristic,
    tail=_gaussian_tail,
    words="Gaussian noise",
)
r"""Discrete Gaussian noise of σ² = Δ₂² / (2 ρ): zCDP."""


def _rows_depend(*_: Any) -> Any:
    raise TypeError(
        "rows of K-norm noise depend on each other: no law of one row gives intervals; "
        "use mmech.tables.norm_tails"
    )


def k_norm(groups: Groups) -> Law:
    r"""Return the law of noise shaped like :math:`\max_g \|z_g\|_1`: pure epsilon.

    Its sensitivity is the largest L1 norm of what one record adds to a group.

    Parameters
    ----------
    groups : sequence of int, or of sequences of int
        Sizes of consecutive groups of rows; together, of groups of equal totals.
    """
    sizes = as_blocks(groups)

    def parameter(size: Fraction, epsilon: Fraction) -> Fraction:
        return check_norm_scale(size / epsilon, sizes)

    def draw(
        scale: Fraction, shape: tuple[int, ...], *, insecure_rng: Rng = None
    ) -> NDArray[np.int64]:
        columns = shape[1] if len(shape) == 2 else 1
        noise = norm_noise(scale, sizes, columns, insecure_rng=insecure_rng)
        return noise.reshape(shape)

    variance = partial(norm_noise_variance, groups=sizes)
    return replace(
        LAPLACE,
        name="k_norm",
        parameter=parameter,
        draw=draw,
        variance=variance,
        characteristic=_rows_depend,
        tail=_rows_depend,
        words="K-norm noise, with equal totals in tables that are measured together,",
        groups=sizes,
        grouped=k_norm,
        template="equal_totals",
    )


K_NORM = k_norm(())
"""K-norm noise of groups that follow from what is measured."""

LAWS = {law.name: law for law in (LAPLACE, GAUSSIAN, K_NORM)}
"""The laws that a mechanism can be asked for by name."""


OF_CURRENCY = {law.currency: law for law in (LAPLACE, GAUSSIAN)}
"""The law of independent rows that a currency pays for, unless another one is named."""


def _laplace_price(size: Fraction, scale: Fraction) -> Price:
    """Price the whole change in one number, which costs most."""
    whole = math.floor(size)
    moved = ((0, whole, 1),) if whole else ()
    return Price(laplace_rho(math.ceil(size), scale), moved)


def _laplace_strategy(
    strategy: Any, epsilon: Fraction, changes: int, together: int
) -> Fraction:
    scale = changes * strategy.sensitivity / epsilon
    rho: Fraction = changes // together * strategy.laplace_rho(scale, together)
    return rho


def _gaussian_price(squared: Fraction, variance: Fraction) -> Price:
    """Price a number as moved by one where squares add up to less than four."""
    whole = math.floor(squared)
    return Price(moved=((0, 1, whole),) if 0 < whole < 4 else ())


PRICING = {
    "laplace": Pricing(_laplace_price, _laplace_strategy),
    "gaussian": Pricing(_gaussian_price, lambda *_: None),
}
"""Name of a law in `LAWS` to its pricing; no other law inherits it."""


def law_and_cost(
    epsilon: Any, rho: Any, noise: str | None = None
) -> tuple[Law, Fraction]:
    """Return the law of noise for a budget, and the cost as a fraction.

    Parameters
    ----------
    epsilon, rho : float, str, Fraction or None
        Cost in nats; exactly one of the two.
    noise : str, default=None
        Name of a law in `LAWS`; ``None`` is Laplace noise for epsilon and Gaussian
        noise for rho.

    Raises
    ------
    TypeError
        If not exactly one cost is given.
    ValueError
        If the noise is for the other kind of budget.
    """
    exact, currency = one_cost(epsilon, rho)
    if noise is None:
        return OF_CURRENCY[currency], exact
    law = LAWS[check_choice(noise, "noise", tuple(LAWS))]
    if law.currency != currency:
        raise ValueError(
            f"{noise} noise is paid for with {law.currency}=, got {currency}=; pass "
            f"{law.currency}= or leave noise out"
        )
    return law, exact
