"""Implicit query matrices."""

from mmech.operators._base import QueryMatrix
from mmech.operators._basic import (
    AllRange,
    AllRangeGram,
    Dense,
    Diagonal,
    Identity,
    Ones,
    Prefix,
    Sparse,
    Total,
)
from mmech.operators._compose import (
    Gram,
    HStack,
    Kronecker,
    Product,
    Scaled,
    Sum,
    Transpose,
    VStack,
)
from mmech.operators._marginals import Anova, Marginal, Marginals, all_marginals
from mmech.operators._merged import Merged
from mmech.operators._partition import Conjunctions, Partition, PartitionStack
from mmech.operators._pidentity import PIdentity
from mmech.operators._pinv import Pinv
from mmech.operators._ranges import Permuted, Ranges, Suffix, WidthRange
from mmech.operators._residuals import Residuals

__all__ = [
    "AllRange",
    "AllRangeGram",
    "Anova",
    "Conjunctions",
    "Dense",
    "Diagonal",
    "Gram",
    "HStack",
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
