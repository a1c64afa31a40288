r"""Log-linear model of records and classes, fitted to noisy sums of features.

With features :math:`f_j(x, y)`, released sums :math:`\hat\mu_j` per record, and a base
measure m of records,

.. math:: p_\theta(x, y) \propto m(x) \, e^{\theta \cdot f(x, y)}, \qquad
   \min_\theta \; \log \sum_{x, y} m(x) \, e^{\theta \cdot f(x, y)}
   - \theta \cdot \hat\mu + \frac{1}{2} \sum_j \lambda_j (\theta_j - \theta^0_j)^2

is convex and smooth, and the dual of the distribution nearest to m whose moments are
:math:`\hat\mu` up to their noise, at a squared cost: maximum entropy with relaxed
constraints [1]_. As in estimates of tables from noisy marginals [2]_, noise enters by
its known law; by its variance :math:`s_j^2` only, since that of norms [3]_ has no other
closed form for single rows and adds up to a bell where moments are sums.

A feature with the variance :math:`h_j` under m, alone, and :math:`\theta_j` of prior
deviation :math:`\tau`, is estimated best with

.. math:: \lambda_j = \frac{1}{N \tau^2} \Big( 1 + \frac{s_j^2}{N h_j} \Big):

the prior, and noise relative to what chance adds to N records.

References
----------
.. [1] Dudik, Phillips, Schapire, "Maximum entropy density estimation with generalized
   regularization and an application to species distribution modeling", JMLR 8, 2007,
   Section 3.
.. [2] McKenna, Sheldon, Miklau, "Graphical-model based estimation and inference for
   differential privacy", ICML 2019.
.. [3] Hardt, Talwar, "On the geometry of differential privacy", STOC 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from mmech_rf.arrays import Floats

__all__ = ["LogLinear", "Moments"]


STEPS, SOLVER_STEPS = 300, 40
"""Largest numbers of steps of the fit, and of the equations for standard errors."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Released sums of features, what is known of their noise, and a prior."""

    values: Floats  # sums of the features over records, shape (J,)
    variances: Floats  # of their noise, shape (J,)
    width: float = 1.0  # prior deviation of the parameters
    prior: float = 0.0  # their prior mean
    # Square cost in units of the variance of a feature, in place of the width.
    slack: float | None = None
    # Whether exactly one of the features is one, for every record and class, so that
    # what is known of them is moved to add up to all records.
    whole: bool = False

    def doubts(self, variance: Floats, n_records: float) -> Floats:
        """Return which part of what is missing in all each feature takes, shape (J,).

        By least squares: as noise, and what chance adds.
        """
        if not self.whole:
            return np.zeros(variance.size)
        found = np.where(variance > 0, self.variances + n_records * variance, 0.0)
        return np.asarray(found / found.sum())

    def costs(self, variance: Floats, n_records: float) -> Floats:
        """Return square costs of features of such variances under the base, (J,)."""
        if self.slack is not None:
            return np.maximum(self.slack * variance, 0.01 / n_records)
        relative = self.variances / (n_records * np.maximum(variance, 1e-12))
        return np.asarray((1 + relative) / (n_records * self.width**2))


class LogLinear:
    """Log-linear model of records and classes, fitted to noisy moments.

    The base measure of M points sums to one; features of each with every class have the
    shape (M * k, J), classes of a point together. Sums are divided by the number of
    records. Shares of the classes, (k,), are for variances of features.
    """

    def __init__(
        self,
        base: Floats,
        features: sparse.csr_array,
        moments: Sequence[Moments],
        n_records: float,
        shares: Floats,
    ) -> None:
        self._features, self._transposed = features, sparse.csr_array(features.T)
        self.n_records = n_records
        self.log_base = np.repeat(np.log(base), shares.size)
        self.sizes = [own.values.size for own in moments]
        self.prior = np.repeat([own.prior for own in moments], self.sizes)
        chance = np.outer(base, shares * (1 - shares)).ravel()
        variances = self._transposed.power(2) @ chance
        ends = np.cumsum(self.sizes)[:-1]
        parts = list(zip(moments, np.split(variances, ends), strict=True))
        self._doubts = [own.doubts(v, n_records) for own, v in parts]
        self.costs = np.concatenate([own.costs(v, n_records) for own, v in parts])
        # Features of no point have no influence, and keep to their prior.
        self.scales = np.where(variances > 0, (variances + self.costs) ** -0.5, 0.0)
        values = np.concatenate([own.values for own in moments]) / n_records
        self.targets = self._consistent(values, 1.0)

    def _consistent(self, values: Floats, total: float) -> Floats:
        """Return means, (J,) or (J, r), that add up where they have to."""
        rest = values.ndim - 1
        known = (self.scales > 0).reshape(-1, *(1,) * rest)
        parts = np.split(np.where(known, values, 0.0), np.cumsum(self.sizes)[:-1])
        return np.concatenate(
            [
                part + (total - part.sum(axis=0)) * doubt.reshape(-1, *(1,) * rest)
                for part, doubt in zip(parts, self._doubts, strict=True)
            ]
        )

    def objective(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient, shape (J,)."""
        lines = self.log_base + self._features @ parameters
        total = float(logsumexp(lines))
        away = parameters - self.prior
        cost = 0.5 * float(self.costs @ away**2)
        value = total - float(parameters @ self.targets) + cost
        slope = self._transposed @ np.exp(lines - total)
        return value, slope - self.targets + self.costs * away

    @cached_property
    def parameters(self) -> Floats:
        """Parameters at the optimum, shape (J,)."""

        def scaled(place: Floats) -> tuple[float, Floats]:
            value, slope = self.objective(self.prior + self.scales * place)
            return value, self.scales * slope

        found = minimize(
            scaled,
            np.zeros(self.prior.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-7},
        )
        return np.asarray(self.prior + self.scales * found.x)

    def response(self, values: Floats) -> Floats:
        r"""Return how parameters change with released sums, to first order, (J, r).

        Solves :math:`(H + \Lambda) \delta\theta = \delta\mu`, with H the Hessian of the
        logarithm at the optimum, by conjugate gradients.
        """
        lines = self.log_base + self._features @ self.parameters
        chances = np.exp(lines - logsumexp(lines))[:, None]
        scales, costs = self.scales[:, None], self.costs[:, None]

        def product(place: Floats) -> Floats:
            place = scales * place
            moved = chances * (self._features @ place)
            moved -= chances * moved.sum(axis=0)
            return np.asarray(scales * (self._transposed @ moved + costs * place))

        right = self._consistent(values / self.n_records, 0.0)
        return scales * _solved(product, scales * right)


def _solved(product: Callable[[Floats], Floats], right: Floats) -> Floats:
    """Solve positive definite systems of one matrix, by conjugate gradients."""
    found, rest = np.zeros_like(right), right.copy()
    step, energy = rest.copy(), np.square(rest).sum(axis=0)
    first = energy
    for _ in range(SOLVER_STEPS):
        if (energy <= 1e-6 * first).all():
            break
        moved = product(step)
        length = energy / np.maximum((step * moved).sum(axis=0), 1e-300)
        found += length * step
        rest -= length * moved
        before, energy = energy, np.square(rest).sum(axis=0)
        step = rest + energy / np.maximum(before, 1e-300) * step
    return found
