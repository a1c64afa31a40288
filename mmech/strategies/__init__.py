"""Strategy optimization: one file per template, and the selection among them.

================  =======================================================
optimize          chooses a template, runs it, compares with the rest
registry          the list of templates, what each may look at, and a time limit
closed_form       strategies that need no search
pidentity         identity and a few optimized queries
kronecker         products of such strategies, one per attribute
union             groups of queries with a product each
marginals         weighted marginals under L1 and L2 sensitivity
marginal_search   the search under L1: designs, starts, growth and local moves
spectral          sine waves for ranges, near the optimum under L2 at any size
nested            p-Identity within blocks of neighbours, and over their totals
ordered           workloads whose cells have an order, and starts of descents
dual              the optimum under L2 sensitivity
streams           rows that are whole when they are drawn, with their errors
descent           projected L-BFGS in a box
================  =======================================================
"""

from mmech.strategies.optimize import optimize

__all__ = ["optimize"]
