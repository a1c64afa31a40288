"""Random forests as arrays: growth, leaves, counts.

========  =================================================
forest    forests over a public domain, as flat arrays
growth    random forests, grown from the domain alone
complete  the forest of all trees of a depth
words     tests of a forest in words
checks    checks of arguments
========  =================================================
"""

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
