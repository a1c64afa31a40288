"""Settings of forests on blocks of attributes, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass

from mmech.storage.codec import storable
from mmech_rf.private.settings import CountSettings, setting

__all__ = ["BlockSettings"]


@storable("BlockSettings")
@dataclass(frozen=True)
class BlockSettings(CountSettings):
    """Budget split, smoothing and thresholds of forests on blocks of attributes.

    Provenance: the defaults were set by hand, looking at test accuracy on public sets:
    some or all of car, balance-scale, iris, heart, mushroom, adult, adult-binary,
    nursery, claves, magic, wall-robot, tic-tac-toe and student-por, at epsilon from 0.1
    to 2, with one setting for all sets and budgets. Accuracies on these sets may
    therefore flatter the forests a little. Releases are private whatever the settings,
    as long as they do not come from the records at hand.

    Attributes
    ----------
    $count_settings
    differences_below : float
        Variance against bias: records times epsilon below which ``voting="auto"``
        measures only how two classes differ, with half the variance. Such votes take
        attributes for evenly spread, a bias that weighs more with more records.
    label_records : float
        Depth of label trees: records times epsilon that a leaf needs, so that the label
        drawn for it is mostly right.
    smoothing : float
        Smoothing: smallest count added to a cell, shared out as the classes are; the
        standard deviation of the count where that is more.
    prior_floor : float
        Prior floor: no class counts for less than this part of an equal share.

    Examples
    --------
    >>> from mmech_rf import BlockForestClassifier, BlockSettings, datasets
    >>> car = datasets.load_car()
    >>> settings = BlockSettings(smoothing=2)
    >>> model = BlockForestClassifier(car.schema, epsilon=2, settings=settings)
    >>> model.fit(car.data, car.target).settings.smoothing
    2.0
    """

    differences_below: float = setting(500.0)
    label_records: float = setting(4.0)
    smoothing: float = setting(0.5, least=1e-6)
    prior_floor: float = setting(0.01, least=1e-9, most=1)
