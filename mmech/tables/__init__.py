"""Tables as a product: from records to tables that may be published.

`release_tables` measures once (`plan`), turns the noisy numbers into counts that are
whole, non-negative and agree with each other (`counts`, `model`, `rounding`), and
returns them with intervals, a statement and synthetic records (`result`).
"""

from mmech.tables.plan import TablePlan
from mmech.tables.release import release_tables
from mmech.tables.result import Tables

__all__ = ["TablePlan", "Tables", "release_tables"]
