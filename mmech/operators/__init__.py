"""Implicit query matrices.

===========  ==============================================================
base         the protocol `QueryMatrix`, and what it does without structure
basic        identity, total and diagonals
tau          sine waves: functions of the grams of ranges and prefix sums
convolution  exact convolutions of integers
explicit     dense and sparse matrices
partition    partitions of a domain, and boxes of cells: what forests ask
compose      transposes, grams, multiples, products, sums, stacks, and merged cells
kronecker    one operator per attribute of a product domain, axis by axis
marginals    sets of marginals, their algebra, and orthogonal contrasts
pidentity    identity and a few further queries, with a closed inverse
algebra      how pairs of operators combine, and rows are scaled
known        normal form, rank and norms, by the class of an operator
pinv         pseudoinverses, by structure, by a common basis of products, or solved
subsets      sets of attributes in lists, and their tables of counts
===========  ==============================================================
"""

from mmech.operators import algebra, known, marginals, pinv  # noqa: F401
