"""Repeated comparison of private forests on one data set.

Reports test accuracy, which is not private: meant for public data.

=======  =================================================
records  a built-in data set, or a csv file and its schema
trials   fits on repeated splits, as a table and as csv
results  outcomes by key, in a file that an interrupted run goes on from
plot     the outcome as a picture
=======  =================================================
"""

# what is compared, on what
# showing
from mmech_rf.evaluation.plot import check_plot_path as check_plot_path
from mmech_rf.evaluation.plot import plot_accuracy as plot_accuracy
from mmech_rf.evaluation.records import Records as Records
from mmech_rf.evaluation.records import load_records as load_records
from mmech_rf.evaluation.records import read_schema as read_schema

# comparing
from mmech_rf.evaluation.results import Results as Results
from mmech_rf.evaluation.results import markdown_table as markdown_table
from mmech_rf.evaluation.results import standard_error as standard_error
from mmech_rf.evaluation.trials import Evaluation as Evaluation
from mmech_rf.evaluation.trials import Trial as Trial
from mmech_rf.evaluation.trials import accuracy_table as accuracy_table
from mmech_rf.evaluation.trials import evaluate as evaluate
from mmech_rf.evaluation.trials import make_methods as make_methods
from mmech_rf.evaluation.trials import write_csv as write_csv
from mmech_rf.methods import METHODS as METHODS
