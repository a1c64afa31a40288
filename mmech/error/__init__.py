"""Expected errors of strategies, lower bounds on them, and reports.

===============  ====================================================
expected         expected errors, in closed form
pairs            what is asked of a workload and a strategy, without a rule
rules            the tables of rules for pairs
shared_totals    marginals whose K-norm noise has equal totals: the best, and errors
bounds           what no strategy can beat: by singular values, and the dual
result           what an optimization returns, and strategies as files
report           tables of errors, and confidence intervals
===============  ====================================================
"""
