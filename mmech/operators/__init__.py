"""Implicit query matrices."""

from mmech.operators._base import QueryMatrix
from mmech.operators._basic import (
    AllRange,
    AllRangeGram,
    Diagonal,
    Identity,
    Ones,
    Prefix,
    Suffix,
    Total,
)
from mmech.operators._compose import Gram, Product, Scaled, Sum, Transpose
from mmech.operators._explicit import Dense, Sparse
from mmech.operators._hierarchy import Hierarchy
from mmech.operators._kronecker import Kronecker
from mmech.operators._marginals import Anova, Marginal, Marginals, all_marginals
from mmech.operators._merged import Merged
from mmech.operators._partition import Conjunctions, Partition, PartitionStack
from mmech.operators._pidentity import PIdentity
from mmech.operators._pinv import Pinv
from mmech.operators._ranges import Permuted, Ranges, WidthRange
from mmech.operators._residuals import Residuals
from mmech.operators._stack import HStack, VStack

__all__ = [
    "AllRange",
    "AllRangeGram",
    "Anova",
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
    "Total",
    "Transpose",
    "VStack",
    "WidthRange",
    "all_marginals",
]
