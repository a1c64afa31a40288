"""Expected errors of strategies, lower bounds on them, and reports.

===============  ====================================================
expected         expected errors, in closed form
pairs            what is asked of a workload and a strategy, without a rule
rules            the tables of rules for pairs
shared_totals    marginals whose K-norm noise has equal totals
bounds           what no strategy can beat
singular_bounds  bounds from singular values
dual_iteration   bounds from the best probabilities of the cells
tau_gains        errors of ranges under strategies of sine waves
section_gains    errors of windows under columns of a circulant matrix
result           what an optimization returns, and strategies as files
report           tables of errors, and confidence intervals
===============  ====================================================
"""

from mmech.error import section_gains, tau_gains  # noqa: F401  register their rules
