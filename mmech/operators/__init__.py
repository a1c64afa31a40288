"""Implicit query matrices.

===========  ==============================================================
base         the protocol `QueryMatrix`, and what it does without structure
basic        identity, total and diagonals
tau          sine waves: functions of the grams of ranges and prefix sums
convolution  exact convolutions of integers
explicit     dense and sparse matrices
partition    partitions of a domain, and boxes of cells: what forests ask
compose      transposes, grams, multiples, products and sums
stack        queries under each other
kronecker    one operator per attribute of a product domain, axis by axis
marginals    sets of marginals, and their algebra
residuals    orthogonal contrasts, one block per set of attributes
merged       operators on a domain whose cells were merged, or reordered
pidentity    identity and a few further queries, with a closed inverse
algebra      how pairs of operators combine
row_scaling  operators with scaled rows, in the structure they had
known        normal form, rank and norms, by the class of an operator
pinv         pseudoinverses, by structure, by a common basis of products, or solved
subsets      sets of attributes in lists, and their tables of counts
===========  ==============================================================
"""

from mmech.operators import algebra, known, pinv, residuals, row_scaling  # noqa: F401
