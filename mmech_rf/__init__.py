"""Random forests under differential privacy, on the matrix mechanism of `mmech`.

A schema says what is public, `mmech_rf.forest` grows trees from it, and
`mmech_rf.workloads` compiles them into workloads that `mmech` answers. Estimators are
in `mmech_rf.private` (the matrix mechanism), `mmech_rf.drawn` (trees drawn as a whole)
and `mmech_rf.literature`. ``notebooks/architecture.md`` says what each folder holds.

Names are imported when they are first used, so that the command line starts at once.
"""

import logging as _logging
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from mmech import Counts as Counts
    from mmech_rf import datasets as datasets
    from mmech_rf.drawn.classifier import (
        PrivateForestClassifier as PrivateForestClassifier,
    )
    from mmech_rf.drawn.settings import DrawnSettings as DrawnSettings
    from mmech_rf.forest.complete import complete_forest as complete_forest
    from mmech_rf.forest.forest import Forest as Forest
    from mmech_rf.forest.growth import default_depth as default_depth
    from mmech_rf.forest.growth import fletcher_islam_depth as fletcher_islam_depth
    from mmech_rf.forest.growth import grow_random_forest as grow_random_forest
    from mmech_rf.literature.classifier import (
        RecipeForestClassifier as RecipeForestClassifier,
    )
    from mmech_rf.literature.presets import recipes as recipes
    from mmech_rf.literature.recipe import Recipe as Recipe
    from mmech_rf.private.batch_prediction import (
        BatchPredictionClassifier as BatchPredictionClassifier,
    )
    from mmech_rf.private.batch_training import (
        BatchTrainingClassifier as BatchTrainingClassifier,
    )
    from mmech_rf.private.laplace_forest import (
        LaplaceForestClassifier as LaplaceForestClassifier,
    )
    from mmech_rf.private.nonprivate import (
        NonPrivateForestClassifier as NonPrivateForestClassifier,
    )
    from mmech_rf.private.subsample_aggregate import (
        SubsampleAggregateClassifier as SubsampleAggregateClassifier,
    )
    from mmech_rf.schema import Attribute as Attribute
    from mmech_rf.schema import Part as Part
    from mmech_rf.schema import Schema as Schema
    from mmech_rf.schema import read as read
    from mmech_rf.storage import load_model as load_model
    from mmech_rf.tuning import TunedSetting as TunedSetting
    from mmech_rf.tuning import Tuning as Tuning
    from mmech_rf.tuning import tune as tune
    from mmech_rf.workloads import aggregation_workload as aggregation_workload
    from mmech_rf.workloads import prediction_workload as prediction_workload
    from mmech_rf.workloads import training_workload as training_workload

if not _TYPE_CHECKING:
    from mmech.lazy import lazy_names as _lazy_names
    from mmech_rf.methods import ESTIMATORS as _ESTIMATORS

    _PUBLIC = {
        # public facts
        "schema": "Attribute Part Schema read",
        "": "datasets",
        # records, counted in parts
        "private.records": "Counts",
        # forests and workloads
        "forest.forest": "Forest",
        "forest.complete": "complete_forest",
        "forest.growth": "default_depth fletcher_islam_depth grow_random_forest",
        "workloads": "aggregation_workload prediction_workload training_workload",
        # forests of the literature
        "literature.presets": "recipes",
        "literature.recipe": "Recipe",
        # settings of classifiers, with their provenance
        "drawn.settings": "DrawnSettings",
        # released models as files
        "storage": "load_model",
        # choosing settings
        "tuning": "TunedSetting Tuning tune",
    }
    _HOMES = {name: home for home in _PUBLIC for name in _PUBLIC[home].split()}
    __all__, __getattr__, __dir__ = _lazy_names(__name__, {**_HOMES, **_ESTIMATORS})

_logging.getLogger(__name__).addHandler(_logging.NullHandler())
