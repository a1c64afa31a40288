r"""Pairs of attributes explained together: a latent class model of noisy tables.

Every record belongs to one of K classes, in each of which attributes are independent.
With shares :math:`\pi_k` of classes and :math:`p_{ik}` of the values of attribute i,
the table of a pair of attributes is expected to be

.. math:: N \sum_k \pi_k\, p_{ik}\, p_{jk}^\top ,

so that few parameters explain all tables at once. The tables that share an attribute
with one correct its noise.

The logarithm of :math:`p_{ik}` is the logarithm of the whole table of i plus a normal
deviation. All values of an attribute share its standard deviation. What is fitted are
interactions of pairs and tables of single attributes, with their noise and the sampling
of N records: their errors are uncorrelated. How large deviations are is chosen for
every attribute by splitting the noise. With normal errors e of the variance of the
noise, y + e and y - e have uncorrelated errors: one is fitted, and the other tells the
error of the fit. By further splits every pair has the odds of the model against
independence: each is drawn towards y + e by what the noise explains, and predicts
y - e.

Constants were looked at on car, nursery, bank-marketing, mushroom (at an epsilon of 10,
too), magic and student-por. So were seven fits to one noisy estimate of Adult.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mmech.arrays import Floats, Subset
from mmech.limits import LIMITS
from mmech.tables.field import Solution

CLASSES = 32
"""Classes of a model. Half as many explained fewer of the tables of 22 attributes."""

FITS = 8
"""Fits that are averaged, each from a start of its own. Eight of a third of the
iterations misplaced a few percent less of Adult than four that are longer."""

FITS_OF_A_ROUND = 4
"""Fits of a model that only scores pairs. On Adult scores differ from those of eight by
a quarter of the noise of the choice; with two, by a half."""

ITERATIONS, TRIAL_ITERATIONS = 400, 300
"""Most iterations of a fit, and of one that only tells how large deviations are. With
500 and 400 Adult at ε = 1 and 10, magic and bank-marketing were as far from the truth,
and took a sixth to a half longer. With 300 and 200 magic was 1.2 % farther."""

CORRECTIONS = 5
"""Steps that a fit remembers: ten took longer, and misplaced as much of Adult."""

LEAST_LOG = -700.0
"""Logarithm of the smallest share, relative to the largest of all attributes."""

WORK = 2**32
"""Most products of entries, classes and iterations of a fit: some seconds."""

SPREADS = (0.5, 1.0, 2.0)
"""Standard deviations of logarithms that are tried, beside none: independence."""

SPLITS, SPLIT_ITERATIONS = 3, 200
"""Splits that weigh the model of a pair against independence, and the most iterations
of each fit. On Car two splits of 300 misplaced .0011 more, 40 releases; on Adult and
magic as much."""

SIGNALS = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 37)])
"""Ratios that are tried: variance of the signal of an average count over the noise."""

EM_STEPS = 300
"""Steps that find how often variances of the signal are met."""

LEAST_COUNT = 0.5
"""Records of a value that has fewer, before its logarithm is taken."""


def too_many_values(sizes: Sequence[int]) -> bool:
    """Return whether attributes have more values than a model is fitted to."""
    return sum(sizes) ** 2 > LIMITS.linked_entries


def expected_pairs(
    estimate: Solution,
    shares: Sequence[Floats],
    total: int,
    pairs: Sequence[Subset],
    fits: int = FITS,
) -> tuple[dict[Subset, Floats], dict[Subset, float]]:
    """Return what a latent class model of all pairs expects of each, and its weights.

    Parameters
    ----------
    estimate : Solution
        Unbiased; its field is the law of its errors.
    shares : sequence of ndarray
        Distribution of every attribute.
    total : int
        Number of records.
    pairs : sequence of tuple of int
    fits : int, default=FITS
        Fits that are averaged.

    Returns
    -------
    dict of tuple to ndarray
        Independence where this predicts the estimates better than classes do. Also
        where there are no records, no measured pair, or `too_many_values`.
    dict of tuple to float
        Posterior probability that a measured pair is nearer to it than to
        independence. None if all are independent.

    References
    ----------
    .. [1] Lazarsfeld, Henry, "Latent structure analysis", Houghton Mifflin, 1968.
    .. [2] Aydore et al., "Differentially private query release through adaptive
       projection", ICML 2021: mixtures of products fitted to noisy answers.
    .. [3] Oliveira, Lei, Tibshirani, "Unbiased risk estimation in the normal means
       problem via coupled bootstrap techniques", Electronic Journal of Statistics 18,
       2024.
    """
    noise, sizes = estimate.field, [share.size for share in shares]
    model = _Classes(np.concatenate(shares), sizes, total)
    measured = [pair for pair in pairs if noise.measures(pair)]
    if too_many_values(sizes) or total < 1 or not measured:
        return {(i, j): total * np.outer(shares[i], shares[j]) for i, j in pairs}, {}
    places = model.places
    # All tables side by side, as shares of records (the Burt matrix).
    values = np.zeros((model.n_values, model.n_values))
    variance, sampling = np.full_like(values, np.inf), np.zeros_like(values)
    for i, j in measured:
        table = estimate.marginal((i, j)).reshape(sizes[i], sizes[j]) / total
        for a, b, block in ((i, j, table), (j, i, table.T)):
            values[places[a], places[b]] = block
            variance[places[a], places[b]] = noise.contrast_variance((i, j)) / total**2
            sampling[places[a], places[b]] = 1 / (total * block.size)
    single_variances = [
        noise.contrast_variance((i,)) / total**2 + 1 / (total * n)
        for i, n in enumerate(sizes)
    ]
    model.precision = 1 / np.repeat(single_variances, sizes)
    values = model.interactions(values)
    linked, trust = _fitted(model, measured, values, variance, sampling, fits)
    return {(i, j): total * linked[places[i], places[j]] for i, j in pairs}, trust


def _fitted(
    model: _Classes,
    measured: Sequence[Subset],
    values: Floats,
    variance: Floats,
    sampling: Floats,
    fits: int,
) -> tuple[Floats, dict[Subset, float]]:
    """Return expected shares of pairs with the best size of deviations, and weights.

    Parameters
    ----------
    model : _Classes
    measured : sequence of tuple of int
        Pairs that are measured.
    values, variance, sampling : ndarray, shape (n_values, n_values)
        Interactions of pairs, and what their errors come from.
    fits : int
    """
    scale = np.sqrt(np.where(np.isfinite(variance), variance, 0.0))
    splits = []
    for seed in range(1 + SPLITS):
        draws = np.triu(np.random.default_rng(seed).normal(size=values.shape), 1)
        splits.append(model.interactions((draws + draws.T) * scale))
    split = splits[0]
    precision = 1 / (2 * variance + sampling)

    independent = np.outer(model.shares, model.shares)
    residual = model.interactions(independent) - (values - split)
    gains = [np.zeros(len(model.sizes))]
    for spread in np.multiply.outer(SPREADS, np.ones(len(model.sizes))):
        trial = model.fit(values + split, precision, spread, 0, TRIAL_ITERATIONS)
        moved = model.interactions(trial - independent)
        gain = -model.sums((precision * moved * (2 * residual + moved)).sum(axis=0))
        # Above a standard error: where nothing is to be found, some gain by chance.
        error = 2 * np.sqrt(model.sums((precision * np.square(moved)).sum(axis=0)))
        gains.append(np.where(gain > error, gain, 0.0))
    best = np.array([0.0, *SPREADS])[np.argmax(gains, axis=0)]
    if not best.any():
        return independent, {}
    logs = np.zeros((len(measured), 2))
    for split in splits[1:]:
        trial = model.fit(values + split, precision, best, 0, SPLIT_ITERATIONS)
        both = map(model.interactions, (independent, trial))
        errors = [_half_errors(model, measured, values - m, split, scale) for m in both]
        logs -= np.transpose(errors) / (2 * SPLITS)
    trust = dict(zip(measured, posterior(logs)[:, 1].tolist(), strict=True))
    precision = 1 / (variance + sampling)
    expected = [model.fit(values, precision, best, k, ITERATIONS) for k in range(fits)]
    return np.mean(expected, axis=0), trust


def _half_errors(
    model: _Classes,
    measured: Sequence[Subset],
    residual: Floats,
    split: Floats,
    scale: Floats,
) -> Floats:
    """Return squared errors of predictions, over the variance of the noise, by pair.

    The `residual` is values less a target. The target is drawn towards values plus the
    split, as far as is likely, and predicts values minus the split.
    """
    first, last = np.transpose(measured)
    noise = 2 * np.square(scale[model.starts[first], model.starts[last]])

    def sums(values: Floats) -> Floats:
        pair_sums = model.sums(model.sums(values).T).T[first, last]
        return pair_sums / np.maximum(noise, 1e-300)

    half, other = residual + split, residual - split
    squares = sums(np.square(half))
    free = (model.sizes[first] - 1) * (model.sizes[last] - 1)
    logs = free[:, None] * np.log1p(SIGNALS) + squares[:, None] / (1 + SIGNALS)
    gain = posterior(-0.5 * logs) @ (SIGNALS / (1 + SIGNALS))
    return sums(np.square(other)) - 2 * gain * sums(half * other) + gain**2 * squares


def posterior(logs: Any) -> Floats:
    """Return probabilities of hypotheses by table, (tables, hypotheses).

    All tables tell how often each is met: `logs` are logarithms of their likelihoods.
    """
    likelihoods = np.exp(np.array(logs) - np.max(logs, axis=1, keepdims=True))
    shares = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1])
    for _ in range(EM_STEPS):
        posteriors = likelihoods * shares
        posteriors /= posteriors.sum(axis=1, keepdims=True)
        shares = posteriors.mean(axis=0)
    return posteriors


class _Classes:
    """A latent class model, before it is fitted.

    Parameters
    ----------
    shares : ndarray, shape (n_values,)
        Shares of the values of all attributes, one after another.
    sizes : sequence of int
        Number of values of every attribute.
    total : int
        Number of records.
    """

    def __init__(self, shares: Floats, sizes: Sequence[int], total: int) -> None:
        self.shares, self.sizes = shares, np.asarray(sizes)
        self.n_values = shares.size
        stops = np.cumsum(self.sizes)
        self.starts = stops - self.sizes
        self.places = [slice(*ends) for ends in zip(self.starts, stops, strict=True)]
        self.precision = np.zeros(shares.size)
        self._even = 1 / np.repeat(self.sizes, self.sizes)
        self._logs = np.log(np.maximum(shares, LEAST_COUNT / max(total, 1)))

    def sums(self, values: Floats) -> Floats:
        """Return the sum over the values of every attribute."""
        return np.add.reduceat(values, self.starts, axis=-1)

    def _repeated(self, values: Floats) -> Floats:
        """Return the sum over every attribute, at each of its values."""
        return np.repeat(self.sums(values), self.sizes, axis=-1)

    def _centred(self, values: Floats) -> Floats:
        return values - self._repeated(values) * self._even

    def interactions(self, values: Floats) -> Floats:
        """Return tables side by side without the means of their rows and columns."""
        return self._centred(self._centred(values).T).T

    def _softmax(self, logs: Floats) -> Floats:
        # One maximum for all attributes of a class is faster than one for each of them.
        below = logs - logs.max(axis=-1, keepdims=True)
        shares = np.exp(np.maximum(below, LEAST_LOG))
        return shares / self._repeated(shares)

    def _parts(self, x: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return shares of classes, and of values in each, from normal parameters."""
        weights = np.exp(x[:CLASSES] - x[:CLASSES].max())
        deviations = x[CLASSES:].reshape(CLASSES, -1)
        return weights / weights.sum(), self._softmax(self._logs + spread * deviations)

    def fit(
        self,
        values: Floats,
        precision: Floats,
        spreads: Floats,
        seed: int,
        iterations: int,
    ) -> Floats:
        """Return the shares of pairs of values at a mode of the posterior.

        Parameters
        ----------
        values, precision : ndarray, shape (n_values, n_values)
            Noisy interactions, and the inverse of the variance of their errors. Entries
            of a pair of attributes have the same.
        spreads : ndarray, shape (n_attributes,)
            Standard deviations of the logarithms of shares in classes.
        seed : int
            Seed of the random start.
        iterations : int
        """
        spread = np.repeat(spreads, self.sizes)

        def loss(x: Floats) -> tuple[float, Floats]:
            weights, shares = self._parts(x, spread)
            centred = shares - self._even
            apart = (centred.T * weights) @ centred - values
            alone = weights @ shares - self.shares
            pull = precision * apart
            pulls = centred @ pull  # centred; every pair of values is there twice
            pull_alone = self.precision * alone
            # By shares of values, then by their logarithms; by weights, then by theirs.
            slope = shares * weights[:, None] * (pulls + pull_alone)
            slope -= shares * self._repeated(slope)
            rise = 0.5 * (pulls * centred).sum(axis=1) + shares @ pull_alone
            rise = weights * (rise - weights @ rise)
            value = 0.25 * np.vdot(pull, apart) + 0.5 * pull_alone @ alone
            gradient = np.concatenate([rise, (spread * slope).ravel()])
            return float(value + 0.5 * x @ x), gradient + x

        size = CLASSES * (1 + self.n_values)
        most = max(1, min(iterations, WORK // (CLASSES * values.size)))
        optimum = minimize(
            loss,
            np.random.default_rng(seed).normal(size=size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": most, "maxfun": 2 * most, "maxcor": CORRECTIONS},
        )
        weights, shares = self._parts(optimum.x, spread)
        return np.asarray((shares.T * weights) @ shares)
