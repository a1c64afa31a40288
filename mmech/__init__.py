"""The matrix mechanism of differential privacy on implicit query matrices.

A workload (`mmech.operators`) is answered from a strategy (`mmech.strategies`) that
was compared by expected errors (`mmech.error`). It is measured through the one door for
noisy numbers (`mmech.release`, `mmech.noise`), paid for in a ledger (`mmech.privacy`),
and turned into estimates (`mmech.reconstruction`); `MatrixMechanism` does it in one
call. ``notebooks/architecture.md`` says what each folder holds and may import.

Names are imported when they are first used, so that commands start at once.
"""

import logging as _logging
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from mmech.domain.attribute import Attribute
    from mmech.domain.domain import Domain
    from mmech.error.bounds import BoundResult, dual_bound, svd_bound
    from mmech.error.expected import (
        expected_error,
        loss,
        per_query_error,
        rmse,
        supports,
    )
    from mmech.error.report import Report, confidence_interval, report
    from mmech.exceptions import (
        BudgetExceededError,
        ConvergenceWarning,
        DomainTooLargeError,
        EntropyError,
        ParameterError,
        PerformanceWarning,
        PrivacyLeakWarning,
        UnsupportedWorkloadError,
    )
    from mmech.export import export_marginals
    from mmech.marginals.counts import Counts
    from mmech.marginals.records import Records
    from mmech.mechanism import MatrixMechanism
    from mmech.operators import (
        AllRange,
        Anova,
        Circulant,
        Conjunctions,
        Dense,
        Diagonal,
        Hierarchy,
        HStack,
        Identity,
        Kronecker,
        Marginal,
        Marginals,
        Merged,
        Ones,
        Partition,
        PartitionStack,
        Permuted,
        PIdentity,
        Prefix,
        Product,
        QueryMatrix,
        Ranges,
        Residuals,
        Scaled,
        Sparse,
        Suffix,
        Sum,
        Toeplitz,
        Total,
        VStack,
        WidthRange,
        all_marginals,
    )
    from mmech.prior import SignalPrior
    from mmech.privacy.cost import (
        delta_from_rho,
        epsilon_from_rho,
        rho_from_epsilon_delta,
    )
    from mmech.privacy.ledger import LedgerEntry, PrivacyLedger
    from mmech.quantiles import joint_quantiles
    from mmech.reconstruction import (
        MarginalEstimate,
        MaximumEntropy,
        ShrunkEstimate,
        maximum_entropy,
        shrink,
    )
    from mmech.reduction.boxes import CellGroups, reduce_boxes
    from mmech.reduction.cells import reduce_domain
    from mmech.release import Measurement, noisy_release
    from mmech.selection import exponential_mechanism, permute_and_flip
    from mmech.strategies import (
        Candidate,
        StrategyResult,
        bayes_risk_strategy,
        optimize,
        reweight,
    )
    from mmech.strategies.files import load, save
    from mmech.tables import TablePlan, Tables, release_tables

__version__ = "0.1.0"

__all__ = [
    # who a record is
    "Attribute",
    "Domain",
    # operators
    "AllRange",
    "Anova",
    "Circulant",
    "Conjunctions",
    "Dense",
    "Diagonal",
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
    "VStack",
    "WidthRange",
    "all_marginals",
    # strategies and errors
    "BoundResult",
    "Candidate",
    "Report",
    "SignalPrior",
    "StrategyResult",
    "bayes_risk_strategy",
    "CellGroups",
    "confidence_interval",
    "dual_bound",
    "expected_error",
    "export_marginals",
    "load",
    "loss",
    "optimize",
    "per_query_error",
    "reduce_boxes",
    "reduce_domain",
    "reweight",
    "report",
    "rmse",
    "save",
    "supports",
    "svd_bound",
    # mechanism and budget
    "LedgerEntry",
    "MarginalEstimate",
    "MatrixMechanism",
    "MaximumEntropy",
    "Measurement",
    "PrivacyLedger",
    "Counts",
    "Records",
    "ShrunkEstimate",
    "exponential_mechanism",
    "joint_quantiles",
    "maximum_entropy",
    "noisy_release",
    "permute_and_flip",
    "shrink",
    # tables
    "TablePlan",
    "Tables",
    "release_tables",
    # zCDP
    "delta_from_rho",
    "epsilon_from_rho",
    "rho_from_epsilon_delta",
    # errors and warnings
    "BudgetExceededError",
    "ConvergenceWarning",
    "DomainTooLargeError",
    "EntropyError",
    "ParameterError",
    "PerformanceWarning",
    "PrivacyLeakWarning",
    "UnsupportedWorkloadError",
]

if not _TYPE_CHECKING:
    from mmech.lazy import lazy_names as _lazy_names

    _HOMES = {
        "domain.attribute": "Attribute",
        "domain.domain": "Domain",
        "error.bounds": "BoundResult dual_bound svd_bound",
        "error.expected": "expected_error loss per_query_error rmse supports",
        "error.report": "Report confidence_interval report",
        "exceptions": """
            BudgetExceededError ConvergenceWarning DomainTooLargeError
            EntropyError ParameterError PerformanceWarning PrivacyLeakWarning
            UnsupportedWorkloadError
        """,
        "export": "export_marginals",
        "marginals.counts": "Counts",
        "marginals.records": "Records",
        "mechanism": "MatrixMechanism",
        "operators": """
            AllRange Anova Circulant Conjunctions Dense Diagonal Hierarchy HStack
            Identity Kronecker Marginal Marginals Merged Ones Partition
            PartitionStack Permuted PIdentity Prefix Product QueryMatrix Ranges
            Residuals Scaled Sparse Suffix Sum Toeplitz Total VStack WidthRange
            all_marginals
        """,
        "prior": "SignalPrior",
        "privacy.cost": "delta_from_rho epsilon_from_rho rho_from_epsilon_delta",
        "privacy.ledger": "LedgerEntry PrivacyLedger",
        "quantiles": "joint_quantiles",
        "reconstruction": """
            MarginalEstimate MaximumEntropy ShrunkEstimate maximum_entropy shrink
        """,
        "reduction.boxes": "CellGroups reduce_boxes",
        "reduction.cells": "reduce_domain",
        "release": "Measurement noisy_release",
        "selection": "exponential_mechanism permute_and_flip",
        "strategies": """
            Candidate StrategyResult bayes_risk_strategy optimize reweight
        """,
        "strategies.files": "load save",
        "tables": "TablePlan Tables release_tables",
    }
    __getattr__, __dir__ = _lazy_names(
        __name__, {name: home for home in _HOMES for name in _HOMES[home].split()}
    )

_logging.getLogger(__name__).addHandler(_logging.NullHandler())
