"""The matrix mechanism of differential privacy on implicit query matrices."""

import logging as _logging

from mmech.budget import LedgerEntry, PrivacyLedger
from mmech.error import (
    expected_error,
    loss,
    per_query_error,
    rmse,
    supports,
    svd_bound,
)
from mmech.exceptions import (
    BudgetExceededError,
    ConvergenceWarning,
    DomainTooLargeError,
    PerformanceWarning,
    PrivacyLeakWarning,
    UnsupportedWorkloadError,
)
from mmech.mechanism import MatrixMechanism, Measurement, laplace_release
from mmech.operators import (
    AllRange,
    Anova,
    Conjunctions,
    Dense,
    Diagonal,
    Identity,
    Kronecker,
    Marginal,
    Marginals,
    Merged,
    Ones,
    Partition,
    PartitionStack,
    PIdentity,
    Prefix,
    Product,
    QueryMatrix,
    Scaled,
    Sparse,
    Sum,
    Total,
    VStack,
    all_marginals,
)
from mmech.reduction import reduce_domain
from mmech.strategies import Candidate, StrategyResult, optimize

__version__ = "0.1.0"

__all__ = [
    # operators
    "AllRange",
    "Anova",
    "Conjunctions",
    "Dense",
    "Diagonal",
    "Identity",
    "Kronecker",
    "Marginal",
    "Marginals",
    "Merged",
    "Ones",
    "PIdentity",
    "Partition",
    "PartitionStack",
    "Prefix",
    "Product",
    "QueryMatrix",
    "Scaled",
    "Sparse",
    "Sum",
    "Total",
    "VStack",
    "all_marginals",
    # strategies and errors
    "Candidate",
    "StrategyResult",
    "expected_error",
    "loss",
    "optimize",
    "per_query_error",
    "reduce_domain",
    "rmse",
    "supports",
    "svd_bound",
    # mechanism and budget
    "LedgerEntry",
    "MatrixMechanism",
    "Measurement",
    "PrivacyLedger",
    "laplace_release",
    # errors and warnings
    "BudgetExceededError",
    "ConvergenceWarning",
    "DomainTooLargeError",
    "PerformanceWarning",
    "PrivacyLeakWarning",
    "UnsupportedWorkloadError",
]

_logging.getLogger(__name__).addHandler(_logging.NullHandler())
