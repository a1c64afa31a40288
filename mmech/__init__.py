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
    from mmech.domain.attribute import Attribute as Attribute
    from mmech.domain.domain import Domain as Domain
    from mmech.domain.parts import Part as Part
    from mmech.domain.parts import read as read
    from mmech.error.bounds import BoundResult as BoundResult
    from mmech.error.bounds import dual_bound as dual_bound
    from mmech.error.bounds import svd_bound as svd_bound
    from mmech.error.expected import expected_error as expected_error
    from mmech.error.expected import loss as loss
    from mmech.error.expected import per_query_error as per_query_error
    from mmech.error.expected import rmse as rmse
    from mmech.error.expected import supports as supports
    from mmech.error.report import Report as Report
    from mmech.error.report import confidence_interval as confidence_interval
    from mmech.error.report import report as report
    from mmech.exceptions import BudgetExceededError as BudgetExceededError
    from mmech.exceptions import ConvergenceWarning as ConvergenceWarning
    from mmech.exceptions import DomainTooLargeError as DomainTooLargeError
    from mmech.exceptions import EntropyError as EntropyError
    from mmech.exceptions import ParameterError as ParameterError
    from mmech.exceptions import PerformanceWarning as PerformanceWarning
    from mmech.exceptions import PrivacyLeakWarning as PrivacyLeakWarning
    from mmech.exceptions import UnsupportedWorkloadError as UnsupportedWorkloadError
    from mmech.export import export_marginals as export_marginals
    from mmech.marginals.counts import Counts as Counts
    from mmech.marginals.records import Records as Records
    from mmech.mechanism import MatrixMechanism as MatrixMechanism
    from mmech.operators import AllRange as AllRange
    from mmech.operators import Anova as Anova
    from mmech.operators import Circulant as Circulant
    from mmech.operators import Conjunctions as Conjunctions
    from mmech.operators import Dense as Dense
    from mmech.operators import Diagonal as Diagonal
    from mmech.operators import Hierarchy as Hierarchy
    from mmech.operators import HStack as HStack
    from mmech.operators import Identity as Identity
    from mmech.operators import Kronecker as Kronecker
    from mmech.operators import Marginal as Marginal
    from mmech.operators import Marginals as Marginals
    from mmech.operators import Merged as Merged
    from mmech.operators import Ones as Ones
    from mmech.operators import Partition as Partition
    from mmech.operators import PartitionStack as PartitionStack
    from mmech.operators import Permuted as Permuted
    from mmech.operators import PIdentity as PIdentity
    from mmech.operators import Prefix as Prefix
    from mmech.operators import Product as Product
    from mmech.operators import QueryMatrix as QueryMatrix
    from mmech.operators import Ranges as Ranges
    from mmech.operators import Residuals as Residuals
    from mmech.operators import Scaled as Scaled
    from mmech.operators import Sparse as Sparse
    from mmech.operators import Suffix as Suffix
    from mmech.operators import Sum as Sum
    from mmech.operators import Toeplitz as Toeplitz
    from mmech.operators import Total as Total
    from mmech.operators import VStack as VStack
    from mmech.operators import WidthRange as WidthRange
    from mmech.operators import all_marginals as all_marginals
    from mmech.prior import SignalPrior as SignalPrior
    from mmech.privacy.cost import delta_from_rho as delta_from_rho
    from mmech.privacy.cost import epsilon_from_rho as epsilon_from_rho
    from mmech.privacy.cost import rho_from_epsilon_delta as rho_from_epsilon_delta
    from mmech.privacy.ledger import LedgerEntry as LedgerEntry
    from mmech.privacy.ledger import PrivacyLedger as PrivacyLedger
    from mmech.quantiles import joint_quantiles as joint_quantiles
    from mmech.reconstruction import MarginalEstimate as MarginalEstimate
    from mmech.reconstruction import ShrunkEstimate as ShrunkEstimate
    from mmech.reconstruction import shrink as shrink
    from mmech.reduction.boxes import CellGroups as CellGroups
    from mmech.reduction.boxes import reduce_boxes as reduce_boxes
    from mmech.reduction.cells import reduce_domain as reduce_domain
    from mmech.release import Measurement as Measurement
    from mmech.release import noisy_release as noisy_release
    from mmech.selection import exponential_mechanism as exponential_mechanism
    from mmech.selection import permute_and_flip as permute_and_flip
    from mmech.strategies import Candidate as Candidate
    from mmech.strategies import StrategyResult as StrategyResult
    from mmech.strategies import bayes_risk_strategy as bayes_risk_strategy
    from mmech.strategies import optimize as optimize
    from mmech.strategies import reweight as reweight
    from mmech.strategies.files import load as load
    from mmech.strategies.files import save as save
    from mmech.tables import MeasuredTables as MeasuredTables
    from mmech.tables import TablePlan as TablePlan
    from mmech.tables import Tables as Tables
    from mmech.tables import release_tables as release_tables

__version__ = "0.1.0"

if not _TYPE_CHECKING:
    from mmech.lazy import lazy_names as _lazy_names

    _PUBLIC = {
        # who a record is
        "domain.attribute": "Attribute",
        "domain.domain": "Domain",
        "domain.parts": "Part read",
        # operators
        "operators": """
            AllRange Anova Circulant Conjunctions Dense Diagonal HStack Hierarchy
            Identity Kronecker Marginal Marginals Merged Ones PIdentity Partition
            PartitionStack Permuted Prefix Product QueryMatrix Ranges Residuals Scaled
            Sparse Suffix Sum Toeplitz Total VStack WidthRange all_marginals
        """,
        # strategies and errors
        "error.bounds": "BoundResult dual_bound svd_bound",
        "error.expected": "expected_error loss per_query_error rmse supports",
        "error.report": "Report confidence_interval report",
        "export": "export_marginals",
        "prior": "SignalPrior",
        "reduction.boxes": "CellGroups reduce_boxes",
        "reduction.cells": "reduce_domain",
        "strategies": "Candidate StrategyResult bayes_risk_strategy optimize reweight",
        "strategies.files": "load save",
        # mechanism and budget
        "marginals.counts": "Counts",
        "marginals.records": "Records",
        "mechanism": "MatrixMechanism",
        "privacy.ledger": "LedgerEntry PrivacyLedger",
        "quantiles": "joint_quantiles",
        "reconstruction": """
            MarginalEstimate ShrunkEstimate shrink
        """,
        "release": "Measurement noisy_release",
        "selection": "exponential_mechanism permute_and_flip",
        # tables
        "tables": "MeasuredTables TablePlan Tables release_tables",
        # zCDP
        "privacy.cost": "delta_from_rho epsilon_from_rho rho_from_epsilon_delta",
        # errors and warnings
        "exceptions": """
            BudgetExceededError ConvergenceWarning DomainTooLargeError EntropyError
            ParameterError PerformanceWarning PrivacyLeakWarning
            UnsupportedWorkloadError
        """,
    }
    _HOMES = {name: home for home in _PUBLIC for name in _PUBLIC[home].split()}
    __all__, __getattr__, __dir__ = _lazy_names(__name__, _HOMES)

_logging.getLogger(__name__).addHandler(_logging.NullHandler())
