"""Measured marginals as tables for other tools."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mmech.integer_strategy import integer_strategy
from mmech.mechanism import MatrixMechanism
from mmech.noise import LAWS
from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.operators.known import normal_form
from mmech.operators.marginals import Marginal
from mmech.release import Measurement
from mmech.strategies.result import StrategyResult

__all__ = ["export_marginals"]


def export_marginals(
    mechanism: MatrixMechanism | Matrix | StrategyResult, measurement: Measurement
) -> list[tuple[tuple[int, ...], NDArray[np.float64], float]]:
    """Return measured marginals as tables with the standard deviation of an entry.

    What tools for graphical models take: noisy tables of counts, each with the
    attributes it is over and its noise level (in Private-PGM a
    ``LinearMeasurement(table.ravel(), attributes, std)``). The weight of a marginal
    is divided out; marginals of weight zero carry nothing and are left out. The
    tables are a release that is paid for already: using them is free.

    Parameters
    ----------
    mechanism : MatrixMechanism, QueryMatrix or StrategyResult
        What was measured: a strategy of marginals.
    measurement : Measurement
        What the mechanism's `measure` returned for it.

    Returns
    -------
    list of (attributes, table, std)
        Attribute positions; noisy counts with one axis per attribute, and a last axis
        for the classes where the counts had several columns; standard deviation of the
        noise of every entry. Under K-norm noise entries are not independent, although
        these tools assume it.

    Raises
    ------
    ValueError
        If the strategy does not consist of marginals, or the measurement is one of
        another strategy.

    Examples
    --------
    >>> from mmech import Marginals, MatrixMechanism, export_marginals
    >>> strategy = Marginals((2, 3), {(0,): 0.5, (1,): 0.5})
    >>> mechanism = MatrixMechanism(strategy, strategy, epsilon=1.0)
    >>> measurement = mechanism.measure([4, 1, 0, 2, 2, 5])
    >>> for attributes, table, std in export_marginals(mechanism, measurement):
    ...     print(attributes, table.shape, round(std, 3))
    (0,) (2,) 2.799
    (1,) (3,) 2.799
    """
    if not isinstance(measurement, Measurement):
        raise TypeError(
            "measurement must be the Measurement that measure() returned, got "
            f"{type(measurement).__name__}"
        )
    if isinstance(mechanism, MatrixMechanism):
        strategy, form = mechanism.strategy, mechanism.released.form
    else:
        strategy = as_query_matrix(mechanism, "mechanism")
        law = LAWS.get(measurement.entry.kind)
        if law is None:
            raise TypeError(
                f"the measurement has {measurement.entry.kind} noise, which measures "
                "no strategy; pass what the measure() of a mechanism returned"
            )
        form = integer_strategy(strategy, norm=law.norm).form
    parts = _weighted_marginals(form)
    if parts is None:
        raise ValueError(
            f"only strategies of marginals have tables to export, got {strategy!r}; "
            'optimize with template="marginals"'
        )
    values = np.asarray(measurement.values)
    if values.shape[0] != form.shape[0]:
        raise ValueError(
            f"the measurement has {values.shape[0]} values but the strategy "
            f"{form.shape[0]} queries; pass the strategy that was measured"
        )
    variances = np.broadcast_to(measurement.variance, values.shape[0])
    tables = []
    start = 0
    for weight, marginal in parts:
        stop = start + marginal.shape[0]
        sizes = [marginal.domain_shape[i] for i in marginal.attributes]
        shaped = (values[start:stop] / weight).reshape(*sizes, *values.shape[1:])
        deviation = math.sqrt(variances[start]) / abs(weight)
        tables.append((marginal.attributes, shaped, deviation))
        start = stop
    return tables


def _weighted_marginals(strategy: QueryMatrix) -> list[tuple[float, Marginal]] | None:
    parts = normal_form(strategy).blocks
    marginals = [(weight, part) for weight, part in parts if isinstance(part, Marginal)]
    return marginals if len(marginals) == len(parts) else None
