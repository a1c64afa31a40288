"""Implicit query matrices.

===========  ==============================================================
base         the protocol `QueryMatrix`, and what it does without structure
basic        identity, total, prefix and suffix sums, all ranges, diagonals
circulant    one query moved along a domain
tau          sine waves: functions of the grams of ranges and prefix sums
convolution  exact convolutions of integers
ranges       ranges of an ordered domain, and permuted domains
hierarchy    trees of sums over nested blocks of neighbours
explicit     dense and sparse matrices
partition    partitions of a domain, and boxes of cells: what forests ask
compose      transposes, grams, multiples, products and sums
stack        queries under each other
kronecker    one operator per attribute of a product domain
marginals    sets of marginals, and their algebra
residuals    orthogonal contrasts, one block per set of attributes
merged       operators on a domain whose cells were merged
pidentity    identity and a few further queries, with a closed inverse
joint        the inverse gram of stacked Kronecker products
algebra      how pairs of operators combine
row_scaling  operators with scaled rows, in the structure they had
known        terms, rank and norms that the class of an operator tells
pinv         pseudoinverses, by structure or solved
lsmr         least squares for operators too large to factorise
axes         products along one axis of a tensor
subsets      lists of sets of attributes, where all would be too many
table_tree   tables of counts, each summed from a smaller one
===========  ==============================================================
"""

from mmech.operators.base import QueryMatrix
from mmech.operators.basic import (
    AllRange,
    AllRangeGram,
    Diagonal,
    Identity,
    Ones,
    Prefix,
    Suffix,
    Total,
)
from mmech.operators.circulant import Circulant, Toeplitz
from mmech.operators.compose import Gram, Product, Scaled, Sum, Transpose
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.hierarchy import Hierarchy
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Anova, Marginal, Marginals, all_marginals
from mmech.operators.merged import Merged
from mmech.operators.partition import Conjunctions, Partition, PartitionStack
from mmech.operators.pidentity import PIdentity
from mmech.operators.pinv import Pinv
from mmech.operators.ranges import Permuted, Ranges, WidthRange
from mmech.operators.residuals import Residuals
from mmech.operators.stack import VStack
from mmech.operators.tau import Tau
from mmech.structure import circulant  # noqa: F401  registers its rules

__all__ = [
    "AllRange",
    "AllRangeGram",
    "Anova",
    "Circulant",
    "Conjunctions",
    "Dense",
    "Diagonal",
    "Gram",
    "Hierarchy",
    "Identity",
    "Kronecker",
    "Marginal",
    "Marginals",
    "Merged",
    "Ones",
    "PIdentity",
    "Partition",
    "PartitionStack",
    "Permuted",
    "Pinv",
    "Prefix",
    "Product",
    "QueryMatrix",
    "Ranges",
    "Residuals",
    "Scaled",
    "Sparse",
    "Suffix",
    "Sum",
    "Tau",
    "Toeplitz",
    "Total",
    "Transpose",
    "VStack",
    "WidthRange",
    "all_marginals",
]
