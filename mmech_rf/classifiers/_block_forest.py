"""Forests of complete trees on blocks of attributes: their counts, or their labels."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmech import (
    GaussianMeasurement,
    Marginals,
    Measurement,
    Records,
    SignalPrior,
    bayes_risk_strategy,
    maximum_entropy,
    shrink,
)
from mmech._validation import check_epsilon
from mmech.noise import discrete_gaussian_variance, discrete_laplace_variance
from mmech.release import charge
from mmech_rf.classifiers._accounted import AccountedForest
from mmech_rf.classifiers._block_design import block_pool, overlap
from mmech_rf.classifiers._choice import Choice
from mmech_rf.classifiers._concentrated import remaining_rho
from mmech_rf.classifiers._ensembles import Ensemble
from mmech_rf.classifiers._experts import (
    Differences,
    Distribution,
    Experts,
    LogOdds,
    Weights,
)
from mmech_rf.classifiers._label_forest import LABELS, draw_labels, label_blocks
from mmech_rf.growth import complete_forest
from mmech_rf.tree_selection import SelectedTree

__all__ = ["BlockForest"]

FEW = 500.0
"""Below this number of records times epsilon noise weighs more than the bias of weight
votes, which take attributes for evenly spread: two classes are then told apart by
their measured difference, which has half the variance."""

NEGLIGIBLE = 1e-6
"""Least variance of noise in a count: that of a huge epsilon rounds to zero."""


class BlockForest(AccountedForest):
    """A classifier that can release the counts or the labels of blocks."""

    n_records: int | None
    voting: str
    design: str
    prior: SignalPrior | None
    delta: float | None

    trees_: tuple[SelectedTree, ...]
    _experts: Experts

    def _release_labels(
        self,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
        epsilon: Fraction,
        rho: Fraction,
        n_records: float,
    ) -> None:
        sizes = self.schema_.domain_shape
        blocks = label_blocks(sizes, epsilon=float(epsilon), n_records=n_records)
        with self._timed("trees"):
            # Every record trains one tree: each has all of epsilon.
            self.ensembles_ = [self._tree(block, epsilon) for block in blocks]
        with self._timed("measurement"):
            charge(
                self.ledger_, epsilon, LABELS, self._terms.neighbours, 1,
                insecure=self._terms.insecure,
            )  # fmt: skip
            self._note(epsilon, LABELS, 1.0)
            self._experts = draw_labels(
                codes,
                class_codes,
                domain_shape=sizes,
                n_classes=self.schema_.n_classes,
                blocks=blocks,
                epsilon=epsilon,
                neighbours=self._terms.neighbours,
                insecure_rng=self._insecure_rng,
            )
        self.trees_ = ()
        self.choice_ = Choice(
            n_records=n_records,
            stated=self.n_records is not None,
            method="labels",
            voting=self._experts.voting,
            n_trees=len(blocks),
            blocks=tuple(blocks),
        )

    def _release_blocks(
        self,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
        epsilon: Fraction,
        rho: Fraction,
        n_records: float,
    ) -> None:
        schema = self.schema_
        signed = self._is_signed(n_records * float(epsilon))
        best = partial(
            bayes_risk_strategy,
            schema.domain_shape,
            n_records=n_records,
            n_columns=1 if signed else schema.n_classes,
            prior=self.prior,
        )
        with self._timed("optimization"):
            settings, spent = block_pool(
                self.design,
                codes,
                class_codes,
                schema=schema,
                epsilon=epsilon,
                n_records=n_records,
                find=best,
                draw=self._draw,
            )
            cost = epsilon - spent
            if spent and rho > 0:
                assert self.delta is not None
                total = check_epsilon(self.epsilon)
                rho = remaining_rho(total, self.delta, self.releases_)
            self.strategy_ = best(epsilon=cost, **settings)
            if rho > 0:
                other = best(rho=rho, **settings)
                if other.loss < self.strategy_.loss:
                    self.strategy_, cost = other, rho
                    self._concentrate()
        strategy = self.strategy_.strategy
        assert isinstance(strategy, Marginals)
        shares = self._shares(strategy)
        with self._timed("trees"):
            self.ensembles_ = self._trees(shares, cost)
        with self._timed("measurement"):
            if signed:
                what = "class differences of blocks"
                signs = 1 - 2 * class_codes
                records = Records(codes, schema.domain_shape, signs=signs)
            else:
                what = "class counts of blocks"
                records = Records(
                    codes,
                    schema.domain_shape,
                    columns=class_codes,
                    n_columns=schema.n_classes,
                )
            measurement = self._release(strategy, cost, records, what)
        self.trees_ = ()
        with self._timed("prediction"):
            self._interpret(strategy, measurement, n_records, signed)

    def _is_signed(self, information: float) -> bool:
        """Whether to measure differences of two classes, from public facts."""
        if self.schema_.n_classes != 2:
            return False
        return self.voting == "weight" or (self.voting == "auto" and information < FEW)

    def _shares(self, strategy: Marginals) -> dict[tuple[int, ...], Fraction]:
        """Return the share of the cost of every block; its variance is one over it."""
        power = 2 if self.ledger_ is None else 1
        costs = {s: Fraction(w) ** power for s, w in strategy.weights.items()}
        total = sum(costs.values())
        return {s: cost / total for s, cost in costs.items()}

    def _trees(
        self, shares: dict[tuple[int, ...], Fraction], cost: Fraction
    ) -> list[Ensemble]:
        return [self._tree(block, cost * share) for block, share in shares.items()]

    def _tree(self, block: tuple[int, ...], epsilon: Fraction) -> Ensemble:
        """Return the complete tree of a block."""
        features = np.array(block, dtype=np.int64)
        forest = complete_forest(self.schema_.select(list(block)), len(block))
        return Ensemble(features, forest, epsilon)

    def _interpret(
        self,
        strategy: Marginals,
        measurement: Measurement | GaussianMeasurement,
        n_records: float,
        signed: bool,
    ) -> None:
        """Shrink the released tables and choose how they vote."""
        tables = Marginals(strategy.domain_shape, dict.fromkeys(strategy.weights, 1))
        scales = np.broadcast_to(measurement.scale, (tables.shape[0],))
        kinds, place = np.unique(scales, return_inverse=True)
        if isinstance(measurement, GaussianMeasurement):
            exact = [discrete_gaussian_variance(t * t) for t in kinds.tolist()]
        else:
            exact = [discrete_laplace_variance(t) for t in kinds.tolist()]
        variances = np.maximum(exact, NEGLIGIBLE)
        values, variance = measurement.values, variances[place]
        self.estimate_ = shrink(
            tables, values, variance=variance, n_records=n_records, prior=self.prior
        )
        blocks = list(strategy.weights)
        if signed:
            self._experts = Differences(self.estimate_, n_records)
        elif self.voting == "weight" or (self.voting == "auto" and overlap(blocks)):
            self._experts = Weights(self.estimate_, n_records)
        elif self.voting == "maximum-entropy":
            fit = maximum_entropy(tables, values, variance=variance, total=n_records)
            self._experts = Distribution(fit)
        else:
            self._experts = LogOdds(self.estimate_, blocks)
        self.choice_ = Choice(
            n_records=n_records,
            stated=self.n_records is not None,
            method="blocks",
            voting=self._experts.voting,
            n_trees=len(blocks),
            blocks=tuple(blocks),
            shares=tuple(map(float, self._shares(strategy).values())),
            signed=signed,
            design=self.design,
            risk=self.strategy_.loss,
            log_evidence=self.estimate_.log_evidence,
            accounting=self._accounting,
        )
