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

__all__ = [
    "AllRange",
    "AllRangeGram",
    "Anova",
    "Conjunctions",
    "Dense",
    "Diagonal",
    "Gram",
    "Identity",
    "Kronecker",
    "Marginal",
    "Marginals",
    "Merged",
    "Ones",
    "PIdentity",
    "Partition",
    "PartitionStack",
    "Pinv",
    "Prefix",
    "Product",
    "QueryMatrix",
    "Scaled",
    "Sparse",
    "Sum",
    "Total",
    "Transpose",
    "VStack",
    "all_marginals",
]
