"""Expected errors of strategies, lower bounds on them, and reports.

===============  ====================================================
expected         expected errors, in closed form
pairs            what a strategy knows of a workload: a rule per type
shared_totals    marginals whose K-norm noise has equal totals
bounds           what no strategy can beat
singular_bounds  bounds from singular values
dual_iteration   bounds from the best probabilities of the cells
tau_gains        errors of ranges under strategies of sine waves
section_gains    errors of windows under columns of a circulant matrix
report           tables of errors, and confidence intervals
===============  ====================================================
"""
