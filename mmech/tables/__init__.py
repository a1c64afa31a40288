"""Tables as a product: from records to tables that may be published.

`release_tables` measures (`plan`, `steps`). It turns the noisy numbers into counts that
are whole, non-negative and agree with each other (`whole`, `classes`, `model`,
`rounding`). They come with intervals, a statement and synthetic records (`result`).

===================  ================================================================
release              `release_tables`: records in, tables out
measured             noisy numbers that were paid for, and what is made of them
recompute            published tables beside those of their noisy numbers
columns              names of columns beside attributes
plan                 what will be measured, and how exact; reads no record
steps                measuring in steps, with pairs that are chosen privately
field                unbiased tables and their errors: one least squares for all
intervals            the laws of these errors, exactly
norm_tails           the same of single attributes under noise of equal totals
whole                whole, non-negative counts that agree, from level to level
classes              a latent class model: what pairs tell of each other
model                the model of maximum entropy, and records drawn from it
rounding             whole numbers that keep given margins
levels               levels of hierarchies: trees, and least squares over them
level_weights        weights of tables by levels
known                known totals and impossible cells, and if counts can agree
statistics           sums, means, deviations, histograms and quantiles, by group
statistic_plans      what is measured for them, their parts of the budget, what came out
result               tables with intervals, a statement, files, and synthetic records
statement            what released tables say of themselves, for people and machines
published            a folder of released tables, with its evidence
files                csv with metadata, a workbook, a page with charts
===================  ================================================================
"""

from mmech.tables.measured import MeasuredTables
from mmech.tables.plan import TablePlan
from mmech.tables.release import release_tables
from mmech.tables.result import Tables
from mmech.tables.statistics import (
    Histogram,
    Mean,
    Quantiles,
    StandardDeviation,
    Sum,
)

__all__ = ["MeasuredTables", "TablePlan", "Tables", "release_tables"]
__all__ += ["Histogram", "Mean", "Quantiles", "StandardDeviation", "Sum"]
