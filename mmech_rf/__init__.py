"""Random forests under differential privacy, on the matrix mechanism of `mmech`.

A schema says what is public, `mmech_rf.forest` grows trees from it, and
`mmech_rf.workloads` compiles them into workloads that `mmech` answers. Estimators are
in `mmech_rf.private` (the matrix mechanism), `mmech_rf.drawn` (trees drawn as a whole)
and `mmech_rf.blocks`. ``notebooks/architecture.md`` says what each folder holds.

Names are imported when they are first used, so that the command line starts at once.
"""

import logging as _logging
from typing import TYPE_CHECKING as _TYPE_CHECKING

from mmech_rf.methods import ESTIMATORS as _ESTIMATORS

if _TYPE_CHECKING:
    from mmech_rf import datasets, fetch
    from mmech_rf.blocks.classifier import BlockForestClassifier, LabelForestClassifier
    from mmech_rf.blocks.settings import BlockSettings
    from mmech_rf.drawn.classifier import DrawnForestClassifier
    from mmech_rf.drawn.settings import DrawnSettings
    from mmech_rf.forest.complete import complete_forest
    from mmech_rf.forest.forest import Forest
    from mmech_rf.forest.growth import (
        default_depth,
        fletcher_islam_depth,
        grow_random_forest,
    )
    from mmech_rf.literature.classifier import RecipeForestClassifier
    from mmech_rf.literature.presets import recipes
    from mmech_rf.literature.recipe import Recipe
    from mmech_rf.private.batch_prediction import BatchPredictionClassifier
    from mmech_rf.private.batch_training import BatchTrainingClassifier
    from mmech_rf.private.laplace_forest import LaplaceForestClassifier
    from mmech_rf.private.nonprivate import NonPrivateForestClassifier
    from mmech_rf.private.private_forest import PrivateForestClassifier
    from mmech_rf.private.subsample_aggregate import SubsampleAggregateClassifier
    from mmech_rf.reading import Part, read
    from mmech_rf.schema import Attribute, Schema
    from mmech_rf.storage import load_model
    from mmech_rf.tuning import TunedSetting, Tuning, tune
    from mmech_rf.workloads import (
        aggregation_workload,
        prediction_workload,
        training_workload,
    )

__all__ = [
    # public facts
    "Attribute",
    "Schema",
    "datasets",
    "fetch",
    # records of files
    "Part",
    "read",
    # forests and workloads
    "Forest",
    "aggregation_workload",
    "complete_forest",
    "default_depth",
    "fletcher_islam_depth",
    "grow_random_forest",
    "prediction_workload",
    "training_workload",
    # classifiers
    "BatchPredictionClassifier",
    "BatchTrainingClassifier",
    "BlockForestClassifier",
    "DrawnForestClassifier",
    "LabelForestClassifier",
    "LaplaceForestClassifier",
    "NonPrivateForestClassifier",
    "PrivateForestClassifier",
    "RecipeForestClassifier",
    "SubsampleAggregateClassifier",
    # forests of the literature
    "Recipe",
    "recipes",
    # settings of classifiers, with their provenance
    "BlockSettings",
    "DrawnSettings",
    # released models as files
    "load_model",
    # choosing settings
    "TunedSetting",
    "Tuning",
    "tune",
]
__all__ += [name for name in _ESTIMATORS if name not in __all__]

if not _TYPE_CHECKING:
    from mmech.lazy import lazy_names as _lazy_names

    _HOMES = {
        "blocks.settings": "BlockSettings",
        "drawn.settings": "DrawnSettings",
        "forest.forest": "Forest",
        "forest.complete": "complete_forest",
        "forest.growth": """
            default_depth fletcher_islam_depth grow_random_forest
        """,
        "literature.presets": "recipes",
        "literature.recipe": "Recipe",
        "reading": "Part read",
        "schema": "Attribute Schema",
        "storage": "load_model",
        "tuning": "TunedSetting Tuning tune",
        "workloads": "aggregation_workload prediction_workload training_workload",
    }
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {name: home for home in _HOMES for name in _HOMES[home].split()}
        | dict(_ESTIMATORS),
    )

_logging.getLogger(__name__).addHandler(_logging.NullHandler())
