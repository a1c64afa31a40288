"""Private random forest classifiers in scikit-learn style."""

from mmech_rf.classifiers._batch_prediction import BatchPredictionClassifier
from mmech_rf.classifiers._batch_training import BatchTrainingClassifier
from mmech_rf.classifiers._laplace_forest import LaplaceForestClassifier
from mmech_rf.classifiers._nonprivate import NonPrivateForestClassifier
from mmech_rf.classifiers._private_forest import PrivateForestClassifier
from mmech_rf.classifiers._subsample_aggregate import SubsampleAggregateClassifier

__all__ = [
    "BatchPredictionClassifier",
    "BatchTrainingClassifier",
    "LaplaceForestClassifier",
    "NonPrivateForestClassifier",
    "PrivateForestClassifier",
    "SubsampleAggregateClassifier",
]
