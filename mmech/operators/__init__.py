"""Implicit query matrices."""

from mmech.operators import algebra  # noqa: F401  fills the tables of operators
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
from mmech.operators.stack import HStack, VStack
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
    "HStack",
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
    "Toeplitz",
    "Total",
    "Transpose",
    "VStack",
    "WidthRange",
    "all_marginals",
]
