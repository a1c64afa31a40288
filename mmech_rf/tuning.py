r"""Choosing the depth of the complete forest without spending privacy.

Nothing here looks at records: a depth is judged by what is public, the schema, the
budget and a public number of records. The error of the matrix mechanism alone cannot
judge a forest. Measured on the cells, the leaf counts of n_trees trees have the same
expected error :math:`2 \tau n k / \varepsilon^2` at every depth. So a prior on the
signal is needed. The criterion is the expected correlation of the noisy votes with the
exact class frequencies of the cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mmech import Marginals, optimize
from mmech.checks import check_epsilon, check_integer
from mmech.operators.subsets import marginal_precisions
from mmech.threads import one_blas_thread
from mmech_rf.arrays import Floats
from mmech_rf.forest.growth import (
    OTHERWISE,
    TableTooLargeError,
    complete_size,
    elementary_sums,
)
from mmech_rf.limits import LIMITS
from mmech_rf.paper.batch_training import BatchTrainingClassifier
from mmech_rf.schema import Schema, check_schema

SEARCH = 400
"""Evaluations of the search for marginals, as a bound on the time."""

CONCENTRATION, CONTRAST, DECAY = 0.7, 0.25, 0.35
"""Prior of the signal, see `tune`: where records are, how pure cells are, and how much
less of it interactions of one attribute more have."""


@dataclass(frozen=True)
class TunedSetting:
    """One depth of a private forest, with what is publicly known of it.

    Attributes
    ----------
    depth : int
        Tests on a path.
    measured : {"identity", "marginals"}
        The strategy that the classifier is expected to measure.
    correlation : float
        Predicted correlation between the noisy votes and the exact class
        frequencies, over the cells of the domain.

    Examples
    --------
    >>> from mmech_rf import datasets, tune
    >>> tune(datasets.load_car().schema, epsilon=1, n_records=1400).best.measured
    'identity'
    """

    depth: int
    measured: str
    correlation: float


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """Depths from best to worst; prints as a table.

    Attributes
    ----------
    settings : tuple of TunedSetting
        All that were compared, best first.
    schema : Schema
        Public attributes and classes.
    epsilon : Fraction
        Privacy budget, in nats; none of it is spent.

    Examples
    --------
    >>> from mmech_rf import datasets, tune
    >>> tune(datasets.load_car().schema, epsilon=1, n_records=1400)
    depth  measured   correlation
        3  identity        0.8871
        4  identity        0.8809
        2  marginals       0.8539
        1  marginals       0.8011
        5  identity        0.7353
        6  identity        0.3911
    """

    settings: tuple[TunedSetting, ...]
    schema: Schema
    epsilon: Fraction

    @property
    def best(self) -> TunedSetting:
        """The setting that comes first."""
        return self.settings[0]

    def classifier(self, **parameters: Any) -> BatchTrainingClassifier:
        """Return an unfitted classifier of the best depth, which votes by weight.

        Parameters
        ----------
        **parameters
            Further parameters, such as `ledger` or `neighbours`; they win over the
            tuned ones.

        Returns
        -------
        BatchTrainingClassifier

        Examples
        --------
        >>> from mmech_rf import datasets, tune
        >>> found = tune(datasets.load_iris().schema, epsilon=2, n_records=120)
        >>> found.classifier(neighbours="replace").n_trees
        inf
        """
        tuned = {"n_trees": math.inf, "depth": self.best.depth, "voting": "weight"}
        given: dict[str, Any] = {"epsilon": self.epsilon} | tuned | parameters
        return BatchTrainingClassifier(self.schema, **given)

    def __repr__(self) -> str:
        return "\n".join(
            [
                "depth  measured   correlation",
                *(
                    f"{s.depth:5}  {s.measured:9}  {s.correlation:11.4f}"
                    for s in self.settings
                ),
            ]
        )


@one_blas_thread()
def tune(
    schema: Schema,
    *,
    epsilon: Any,
    n_records: int,
    depths: Iterable[int] | None = None,
) -> Tuning:
    r"""Choose the depth of the complete forest from public facts alone.

    Let :math:`P_s` be the projector on the interactions of exactly the attributes s, of
    rank :math:`m_s`. The votes of all multiway trees of a depth are
    :math:`\sum_s \lambda_s P_s D`. The strategy gives the noise a variance :math:`v_s`
    per coordinate. A record more or less in a cell is sampling noise of variance
    :math:`u = N / (n k)`. With a prior variance :math:`g_s` of the signal, the
    predicted correlation of votes and truth is

    .. math:: \rho = \frac{\sum_s \lambda_s g_s m_s}{\sqrt{\sum_s g_s m_s \;
              \sum_s \lambda_s^2 (g_s + u + v_s) m_s}}

    over the cells of the domain. Everything is in closed form for the marginal
    algebra: no data, no noise, and no forest is grown. Time O(2^d) per depth.

    Parameters
    ----------
    schema : Schema
        Public attributes and classes.
    epsilon : float, str or Fraction
        Privacy budget that the forest will have, in nats. Nothing is spent here.
    n_records : int
        About how many records there are. A public statement of yours: never pass the
        number of sensitive records that you counted without paying for it.
    depths : iterable of int, optional
        What to compare; all depths by default.

    Returns
    -------
    Tuning
        With `settings` in order, the `best` one, and a `classifier()`.

    Raises
    ------
    ValueError
        If a parameter is not valid, or the domain is too large for a complete forest.

    Notes
    -----
    The prior: records lie in about :math:`n^\gamma` of the n cells, with a squared
    difference :math:`\delta^2` of class frequencies in these. So the table of one class
    contrast has the energy :math:`E = N^2 \delta^2 / n^\gamma`. The energy is divided
    among the orders j of interaction in proportion to :math:`\beta^j`, and equally
    among the subsets of an order. The constants are :math:`\gamma = .7`,
    :math:`\delta^2 = .25` and :math:`\beta = .35`. No order gets more than N records
    can have. The criterion is derived for weight votes; hard votes behave alike. Fewer
    trees, ensembles, and votes of a batch were judged as well, and gained nothing on
    simulated tasks (``benchmarks/RETIRED.md``).

    References
    ----------
    .. [1] Tajima, Wu, Houmansadr, "Improving Private Random Forest Prediction
       Using Matrix Representation", AAAI 2025, Section on hyperparameters.

    Examples
    --------
    >>> from mmech_rf import datasets, tune
    >>> car = datasets.load_car().schema
    >>> tune(car, epsilon=0.1, n_records=1400, depths=[2, 4]).best.depth
    2
    >>> tune(car, epsilon=8, n_records=1400, depths=[2, 4]).best.depth
    4
    """
    check_schema(schema)
    budget = check_epsilon(epsilon)
    n_records = check_integer(n_records, "n_records")
    sizes = tuple(size for size in schema.domain_shape if size > 1)
    m, k = len(sizes), schema.n_classes
    if m > LIMITS.tuned_attributes or math.prod(sizes) * k > LIMITS.count_entries:
        raise TableTooLargeError(
            "schema",
            f"the {m} attributes of the {{schema}} have too many subsets or cells for "
            f"a complete forest (at most {LIMITS.tuned_attributes} attributes, and "
            f"{LIMITS.count_entries:,} cells times classes)",
            remedy=OTHERWISE,
        )
    given = range(1, m + 1) if depths is None else depths
    asked = sorted({min(check_integer(depth, "depths"), m) for depth in given})
    judge = _Judge(sizes, k, n_records, float(budget))
    fit = [
        h for h in asked if 0 < k * complete_size(sizes, h)[1] <= LIMITS.count_entries
    ]
    if not fit:
        raise ValueError(
            f"depths must hold one that fits in memory, got {asked}; name smaller ones"
        )
    settings = [judge.setting(h) for h in fit]
    # To nine digits, then what is simpler to use.
    order = sorted(settings, key=lambda one: (-round(one.correlation, 9), one.depth))
    return Tuning(tuple(order), schema, budget)


class _Judge:
    """The prior of `tune`, and the closed forms that judge a depth by it."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        n_classes: int,
        n_records: int,
        epsilon: float,
    ) -> None:
        self.sizes, m = sizes, len(sizes)
        bits = range(2**m)
        self.subsets = [tuple(i for i in range(m) if b >> i & 1) for b in bits]
        self.orders = np.array([len(s) for s in self.subsets])
        self.ranks, self.cells = (
            np.array(
                [math.prod(sizes[i] - less for i in s) for s in self.subsets], float
            )
            for less in (1, 0)
        )
        n = self.cells[-1]
        self.variance = 2.0 / epsilon**2  # of a unit measurement
        self.sampling = n_records / (n * n_classes)
        # No table of N records has more than N² / n for every one of their ranks.
        most = np.array(elementary_sums([size - 1 for size in sizes], m), float)
        spread = DECAY ** np.arange(m + 1.0)
        spread *= CONTRAST / n**CONCENTRATION / spread.sum()
        scale = n_records**2 / (n_classes - 1)
        self.energies = scale * np.minimum(spread, most / n)
        combinations = [math.comb(m, j) for j in range(m + 1)]
        self.signal = (self.energies / combinations)[self.orders]

    def setting(self, depth: int) -> TunedSetting:
        """Return a depth with its predicted correlation."""
        # The sum over the trees of 1 / n_a, for the subsets inside a.
        votes = np.where(self.orders == depth, 1.0 / self.cells, 0.0)
        for i in range(len(self.sizes)):
            pairs = votes.reshape(-1, 2, 2**i)
            pairs[:, 0] += pairs[:, 1]
        measured, precisions = self.strategy(depth)
        inside = votes > 0
        noise = self.cells * self.ranks * self.variance / self.cells[-1]
        noise[inside] /= precisions[inside]
        squares = self.signal + self.sampling * self.ranks + noise
        spread = math.sqrt(self.energies.sum() * (votes**2 * squares).sum())
        return TunedSetting(
            depth, measured, float((votes * self.signal).sum() / spread)
        )

    def strategy(self, depth: int) -> tuple[str, Floats]:
        """Return what is measured, of unit sensitivity, as `marginal_precisions`."""
        m, trees = len(self.sizes), math.comb(len(self.sizes), depth)
        cells = "identity", self.cells / self.cells[-1]
        if 2 * depth > m:
            return cells  # marginals of that order are never cheaper than the cells
        subsets = [s for s in self.subsets if len(s) == depth]
        asked = Marginals(self.sizes, dict.fromkeys(subsets, 1))
        result = optimize(asked, template="marginals", seed=0, max_evaluations=SEARCH)
        if result.loss >= trees * self.cells[-1] * (1 - 1e-6):
            return cells
        weights = getattr(result.strategy, "weights", {tuple(range(m)): 1.0})
        total = sum(weights.values())
        terms = [(subset, (w / total) ** 2) for subset, w in weights.items()]
        return "marginals", marginal_precisions(terms, self.subsets, self.sizes)
