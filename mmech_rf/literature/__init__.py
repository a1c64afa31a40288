"""Private decision forests of the literature, as points in one space of choices.

==========  =====================================================================
recipe      the choices that make a forest, its costs, and presets by name
grow        trees whose tests are drawn from the records, and scores of tests
leaves      what is released of the leaves, what it says, and how trees vote
classifier  the estimator, and one fit: what is paid for, drawn, released and pruned
==========  =====================================================================
"""
