"""Labelled trees that are drawn as a whole, and scores beside them.

==========  ===============================================================
views       public ways to look at a record: attributes, pairs, signed sums
draw        one tree with all its labels, by the exponential mechanism
scores      additive scores of all attributes, from sums released together
settings    budget split, priors, smoothing, and where they come from
grow        draws, counts and boosts the trees of a forest; votes of their leaves
trees       released trees together, and how they vote
words       drawn trees in the words of a schema
classifier  the estimator
==========  ===============================================================
"""
