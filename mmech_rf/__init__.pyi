"""Public names by topic: what `import mmech_rf` offers, found when first used."""

# public facts
from mmech_rf.schema import Attribute as Attribute
from mmech_rf.schema import Part as Part
from mmech_rf.schema import Schema as Schema
from mmech_rf.schema import read as read
from mmech_rf import datasets as datasets

# records, counted in parts
from mmech import Counts as Counts

# forests and workloads
from mmech_rf.forest.forest import Forest as Forest
from mmech_rf.forest.from_sklearn import compile_forest as compile_forest
from mmech_rf.forest.growth import complete_forest as complete_forest
from mmech_rf.forest.growth import default_depth as default_depth
from mmech_rf.forest.growth import fletcher_islam_depth as fletcher_islam_depth
from mmech_rf.forest.growth import grow_random_forest as grow_random_forest
from mmech_rf.workloads import aggregation_workload as aggregation_workload
from mmech_rf.workloads import prediction_workload as prediction_workload
from mmech_rf.workloads import training_workload as training_workload

# forests of the literature
from mmech_rf.literature.recipe import recipes as recipes
from mmech_rf.literature.recipe import Recipe as Recipe

# settings of classifiers, with their provenance
from mmech_rf.drawn.settings import DrawnSettings as DrawnSettings

# released models as files
from mmech_rf.storage import load_model as load_model

# choosing a depth
from mmech_rf.tuning import TunedSetting as TunedSetting
from mmech_rf.tuning import Tuning as Tuning
from mmech_rf.tuning import tune as tune

# classifiers
from mmech_rf.drawn.classifier import PrivateForestClassifier as PrivateForestClassifier
from mmech_rf.literature.classifier import (
    RecipeForestClassifier as RecipeForestClassifier,
)
from mmech_rf.paper.per_batch import (
    BatchPredictionClassifier as BatchPredictionClassifier,
)
from mmech_rf.paper.batch_training import (
    BatchTrainingClassifier as BatchTrainingClassifier,
)
from mmech_rf.paper.baselines import (
    LaplaceForestClassifier as LaplaceForestClassifier,
)
from mmech_rf.paper.baselines import (
    NonPrivateForestClassifier as NonPrivateForestClassifier,
)
from mmech_rf.paper.per_batch import (
    SubsampleAggregateClassifier as SubsampleAggregateClassifier,
)
