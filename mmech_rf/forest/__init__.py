"""Random forests as arrays: growth, leaves, counts, votes.

============  ====================================================
forest        forests over a public domain, as flat arrays
growth        random forests, grown from the domain alone
complete      the forest of all trees of a depth
from_sklearn  forests that scikit-learn has fitted
levels        trees level by level, laid out as these arrays
ensembles     random forests on some attributes, their strategies
voting        from leaf counts or labels to votes
checks        checks of arguments
sizes         refusal of what is too large, with what does fit
============  ====================================================
"""

from mmech_rf.forest.complete import complete_forest as complete_forest
from mmech_rf.forest.forest import Forest as Forest
from mmech_rf.forest.from_sklearn import compile_forest as compile_forest
from mmech_rf.forest.growth import default_depth as default_depth
from mmech_rf.forest.growth import fletcher_islam_depth as fletcher_islam_depth
from mmech_rf.forest.growth import grow_random_forest as grow_random_forest
