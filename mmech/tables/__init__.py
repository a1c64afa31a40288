"""Tables as a product: from records to tables that may be published.

`release_tables` measures (`plan`, `steps`), turns the noisy numbers into counts that
are whole, non-negative and agree with each other (`counts`, `classes`, `model`,
`rounding`), and returns them with intervals, a statement and synthetic records
(`result`).

============  ===============================================================
release       `release_tables`: records in, tables out
measured      noisy numbers that were paid for, and what is made of them
recompute     published tables beside those that their noisy numbers make
plan          what will be measured and how exact it will be; reads no record
counts        whole, non-negative counts that agree across tables
classes       what pairs of attributes tell of each other: a latent class model
rounding      whole numbers that keep given margins
levels        several levels of hierarchies: weights, least squares, errors
level_counts  whole counts that add up from level to level
model         the model of maximum entropy, and records drawn from it
noise         the law of the errors of tables, exactly
shared_noise  the same of single attributes under noise of equal totals
statistics    sums, means, histograms and quantiles of a number, by group
known         known totals and impossible cells, and what follows from them
steps         what is measured next by what was measured; privately chosen pairs
result        tables with intervals, a statement, and files
files         csv with metadata, a workbook, a page with charts
============  ===============================================================
"""

from mmech.tables.measured import MeasuredTables
from mmech.tables.plan import TablePlan
from mmech.tables.release import release_tables
from mmech.tables.result import Tables
from mmech.tables.statistics import Histogram, Mean, Quantiles, Sum

__all__ = ["MeasuredTables", "TablePlan", "Tables", "release_tables"]
__all__ += ["Histogram", "Mean", "Quantiles", "Sum"]
