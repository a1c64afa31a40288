"""Names of the columns of tables and statistics, beside those of attributes."""

OF_TABLES = ("count", "standard_error", "lower", "upper")
"""Columns of a table beside its attributes."""

OF_STATISTICS = {*OF_TABLES, "mean", "sum", "standard_deviation", "note"}
OF_STATISTICS |= {"probability", "quantile"}
"""Columns of a statistic beside its groups."""
