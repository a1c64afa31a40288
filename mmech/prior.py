"""A public guess of how much signal a table of counts holds, before it is seen.

Strategies that minimise Bayes risk and shrinkage both need to know how large the
interactions of some attributes with the class may be. Nothing here looks at records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_positive
from mmech.storage.codec import storable

__all__ = ["SignalPrior", "check_prior"]

Subset = tuple[int, ...]
Floats = NDArray[np.float64]


@storable("SignalPrior")
@dataclass(frozen=True)
class SignalPrior:
    r"""How the contrasts of a table between its classes are expected to be spread.

    A table of N records over n cells holds contrasts between classes of total squared
    size :math:`N^2 \delta^2 / n^{\gamma}`. Interactions of j attributes with the class
    hold a share proportional to :math:`\rho^{\max(j - 1, 0)}` of it, which all subsets
    of j attributes divide equally. The interactions :math:`\alpha_s` of one subset,
    summed over the attributes outside it, then have

    .. math:: E \lVert \alpha_s \rVert^2 = N^2 \delta^2 \, \min \Bigl( 1,
              \frac{n^{1 - \gamma}}{n_s} \,
              \mathrm{share}_{|s|} / \binom{d}{|s|} \Bigr)

    where the minimum says that no table shows more than the margin of its N records:
    attributes that depend on each other all show the same signal.

    Parameters
    ----------
    energy : float, default=0.25
        :math:`\delta^2`, the squared relative margin between classes, above 0.
    decay : float, default=0.35
        :math:`\rho`, ratio of the shares of successive orders, above 0.
    gamma : float, default=0.6
        Concentration: the records are expected in about :math:`n^\gamma` cells.
        1 for full factorial designs, less for attributes that depend on each other.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    A public statement like any hyperparameter; the defaults are meant for data that
    nothing is known of.

    Examples
    --------
    >>> from mmech import SignalPrior
    >>> SignalPrior().energies([(), (0,), (0, 1)], (4, 4), n_records=100).round(1)
    array([2500. ,  403.1,   70.5])
    """

    energy: float = 0.25
    decay: float = 0.35
    gamma: float = 0.6

    def __post_init__(self) -> None:
        for name, top in (("energy", math.inf), ("decay", math.inf), ("gamma", 1.0)):
            value = check_positive(getattr(self, name), name)
            if value > top:
                raise ValueError(f"{name} must be at most {top:g}, got {value:g}")

    def energies(
        self,
        subsets: Iterable[Subset],
        domain_shape: tuple[int, ...],
        *,
        n_records: float,
    ) -> Floats:
        """Return the expected squared size of the contrasts of every subset.

        Parameters
        ----------
        subsets : iterable of tuple of int
            Sets of attributes.
        domain_shape : tuple of int
            Number of values of every attribute.
        n_records : float
            Number of records, public or a noisy count.

        Returns
        -------
        ndarray of float64, shape (number of subsets,)
            In squared counts.
        """
        d = len(domain_shape)
        logs = [math.log(size) for size in domain_shape]
        spread = (1 - self.gamma) * math.fsum(logs)
        shares = [max(j - 1, 0) * math.log(self.decay) for j in range(d + 1)]
        total = max(shares)
        total += math.log(math.fsum(math.exp(share - total) for share in shares))
        # One subset of j attributes, with the concentration of all tables; by
        # logarithms, because the shares of hundreds of attributes underflow.
        levels = [
            spread + share - total - math.log(math.comb(d, j))
            for j, share in enumerate(shares)
        ]
        own = [levels[len(s)] - sum([logs[i] for i in s]) for s in subsets]
        return np.exp(np.minimum(own, 0.0)) * (n_records**2 * self.energy)


def check_prior(value: Any) -> SignalPrior:
    """Return a prior, the default one for None."""
    if value is None:
        return SignalPrior()
    if not isinstance(value, SignalPrior):
        raise TypeError(f"prior must be a SignalPrior or None, got {value!r}")
    return value
