r"""Choosing trees, depth, ensembles, mode and strategy without spending privacy.

Nothing here looks at records: a setting is judged by what is public, the schema, the
budget and a public number of records. The error of the matrix mechanism alone cannot
judge a forest. Measured on the cells, the leaf counts of n_trees trees have the same
expected error :math:`2 \tau n k / \varepsilon^2` at every depth, and the error of a
vote always prefers the deepest trees, which have the least to say. So a prior on the
signal is needed, and the criterion is how well the noisy votes are expected to
correlate with the exact class frequencies of the cells.

===========  ====================================================
tune         the search over settings
correlation  the prior on the signal, and how it judges a setting
result       settings in order, and how they are shown
===========  ====================================================
"""

from mmech_rf.tuning.correlation import Prior
from mmech_rf.tuning.result import TunedSetting, Tuning
from mmech_rf.tuning.tune import tune

__all__ = ["Prior", "TunedSetting", "Tuning", "tune"]
