"""Public names by topic: what `import mmech` offers, found when first used."""

# who a record is
from mmech.domain.attribute import Attribute as Attribute
from mmech.domain.domain import Domain as Domain
from mmech.domain.parts import Part as Part
from mmech.domain.parts import read as read

# operators
from mmech.families.separable import AllRange as AllRange
from mmech.operators.marginals import Anova as Anova
from mmech.operators.partition import Conjunctions as Conjunctions
from mmech.operators.explicit import Dense as Dense
from mmech.operators.basic import Diagonal as Diagonal
from mmech.operators.basic import Identity as Identity
from mmech.operators.kronecker import Kronecker as Kronecker
from mmech.operators.marginals import Marginal as Marginal
from mmech.operators.marginals import Marginals as Marginals
from mmech.operators.compose import Merged as Merged
from mmech.operators.basic import Ones as Ones
from mmech.operators.pidentity import PIdentity as PIdentity
from mmech.operators.partition import Partition as Partition
from mmech.operators.partition import PartitionStack as PartitionStack
from mmech.families.separable import Prefix as Prefix
from mmech.operators.compose import Product as Product
from mmech.operators.base import QueryMatrix as QueryMatrix
from mmech.families.ranges import Ranges as Ranges
from mmech.operators.marginals import Residuals as Residuals
from mmech.operators.compose import Scaled as Scaled
from mmech.operators.explicit import Sparse as Sparse
from mmech.families.separable import Suffix as Suffix
from mmech.operators.compose import Sum as Sum
from mmech.operators.basic import Total as Total
from mmech.operators.compose import VStack as VStack
from mmech.families.ranges import WidthRange as WidthRange
from mmech.operators.marginals import all_marginals as all_marginals

# families: query matrices that bring strategies of their own
from mmech.families.circulant import Circulant as Circulant
from mmech.families.hierarchy import Hierarchy as Hierarchy
from mmech.families.circulant import Toeplitz as Toeplitz

# strategies and errors
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
from mmech.reduction.cells import reduce_domain as reduce_domain
from mmech.error.result import Candidate as Candidate
from mmech.error.result import StrategyResult as StrategyResult
from mmech.strategies import optimize as optimize
from mmech.error.result import load as load
from mmech.error.result import save as save

# mechanism and budget
from mmech.marginals.counts import Counts as Counts
from mmech.marginals.counts import count as count
from mmech.mechanism import MatrixMechanism as MatrixMechanism
from mmech.privacy.ledger import LedgerEntry as LedgerEntry
from mmech.privacy.ledger import PrivacyLedger as PrivacyLedger
from mmech.quantiles import joint_quantiles as joint_quantiles
from mmech.reconstruction import MarginalEstimate as MarginalEstimate
from mmech.release import Measurement as Measurement
from mmech.release import noisy_release as noisy_release
from mmech.selection import exponential_mechanism as exponential_mechanism
from mmech.selection import permute_and_flip as permute_and_flip
from mmech.stream import Stream as Stream

# tables
from mmech.tables import MeasuredTables as MeasuredTables
from mmech.tables import TablePlan as TablePlan
from mmech.tables import Tables as Tables
from mmech.tables import release_tables as release_tables

# zCDP
from mmech.privacy.cost import delta_from_rho as delta_from_rho
from mmech.privacy.cost import epsilon_from_rho as epsilon_from_rho
from mmech.privacy.cost import rho_from_epsilon_delta as rho_from_epsilon_delta

# errors and warnings
from mmech.evidence import Evidence as Evidence
from mmech.evidence import record_evidence as record_evidence
from mmech.exceptions import BudgetExceededError as BudgetExceededError
from mmech.exceptions import ConvergenceWarning as ConvergenceWarning
from mmech.exceptions import DomainTooLargeError as DomainTooLargeError
from mmech.exceptions import EntropyError as EntropyError
from mmech.exceptions import ParameterError as ParameterError
from mmech.exceptions import PerformanceWarning as PerformanceWarning
from mmech.exceptions import PrivacyLeakWarning as PrivacyLeakWarning
from mmech.exceptions import UnsupportedWorkloadError as UnsupportedWorkloadError

__version__: str
