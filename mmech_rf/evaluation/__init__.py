"""Repeated comparison of private forests on one data set.

Reports test accuracy, which is not private: meant for public data.

=======  =================================================
records  a built-in data set, or a csv file and its schema
trials   fits on repeated splits, as a table and as csv
results  outcomes by key, in a file that an interrupted run goes on from
plot     the outcome as a picture
=======  =================================================
"""

from mmech_rf.evaluation.plot import check_plot_path, plot_accuracy
from mmech_rf.evaluation.records import Records, load_records, read_schema
from mmech_rf.evaluation.results import Results, markdown_table, standard_error
from mmech_rf.evaluation.trials import (
    Evaluation,
    Trial,
    accuracy_table,
    check_method,
    evaluate,
    make_methods,
    write_csv,
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
    "Trial",
    "check_method",
    "evaluate",
    "standard_error",
    # showing
    "accuracy_table",
    "check_plot_path",
    "markdown_table",
    "plot_accuracy",
    "write_csv",
]
