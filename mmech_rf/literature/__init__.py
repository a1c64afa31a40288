"""Private decision forests of the literature, as points in one space of choices.

==========  =====================================================================
recipe      the choices that make a forest; ``choices.toml`` has them in words
presets     the forests of the literature by name, and what is refused
budgets     which records train which tree, what that costs, and shares of every level
scores      what makes a test good, in whole numbers of bounded sensitivity
grow        trees whose tests are drawn from the records
leaves      what is released of the leaves, what it says, and how trees vote
fitting     one fit: what is paid for, drawn, released and pruned
classifier  the estimator
==========  =====================================================================
"""
