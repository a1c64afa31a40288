"""Repeated comparison of private forests on one data set.

Reports test accuracy, which is not private: meant for public data.

=======  =================================================
records  a built-in data set, or a csv file and its schema
methods  what is compared, with its settings
trials   fits on repeated splits
results  outcomes by key, in a file that an interrupted run goes on from
table    the outcome as text and csv
plot     the outcome as a picture
=======  =================================================
"""

from mmech_rf.evaluation.methods import make_methods
from mmech_rf.evaluation.plot import check_plot_path, plot_accuracy
from mmech_rf.evaluation.records import Records, load_records, read_schema
from mmech_rf.evaluation.results import Results, markdown_table, standard_error
from mmech_rf.evaluation.table import accuracy_table, comparison_table, write_csv
from mmech_rf.evaluation.trials import (
    Evaluation,
    Summary,
    Trial,
    check_method,
    evaluate,
    summarize,
    warm_up,
)
from mmech_rf.methods import METHODS, Method

__all__ = [
    # what is compared, on what
    "METHODS",
    "Method",
    "Records",
    "load_records",
    "read_schema",
    "make_methods",
    # comparing
    "Evaluation",
    "Results",
    "Summary",
    "Trial",
    "check_method",
    "evaluate",
    "standard_error",
    "summarize",
    "warm_up",
    # showing
    "accuracy_table",
    "check_plot_path",
    "comparison_table",
    "markdown_table",
    "plot_accuracy",
    "write_csv",
]
