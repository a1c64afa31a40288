"""Random forests as arrays: growth, leaves, counts."""

from mmech_rf.forest.complete import complete_forest
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import (
    default_depth,
    fletcher_islam_depth,
    grow_random_forest,
)

__all__ = [
    "Forest",
    "complete_forest",
    "default_depth",
    "fletcher_islam_depth",
    "grow_random_forest",
]
