"""Random forests as arrays: growth, leaves, counts, votes.

============  ====================================================
forest        forests over a public domain, as flat arrays
growth        random forests and all trees of a depth, and how large they may be
from_sklearn  forests that scikit-learn has fitted
ensembles     random forests on some attributes, and how their leaves vote
checks        checks of arguments
============  ====================================================
"""

from mmech_rf.forest.forest import Forest as Forest
from mmech_rf.forest.from_sklearn import compile_forest as compile_forest
from mmech_rf.forest.growth import complete_forest as complete_forest
from mmech_rf.forest.growth import default_depth as default_depth
from mmech_rf.forest.growth import fletcher_islam_depth as fletcher_islam_depth
from mmech_rf.forest.growth import grow_random_forest as grow_random_forest
