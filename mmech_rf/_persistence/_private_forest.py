"""What a `PrivateForestClassifier` chose and released, as files have it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from mmech import SignalPrior
from mmech._validation import check_choice
from mmech_rf._persistence._blocks import (
    describe_distribution,
    describe_estimate,
    read_blocks,
    read_distribution,
    read_ensembles,
    read_estimate,
)
from mmech_rf._persistence._contents import Contents, Read, Store, whole_numbers
from mmech_rf._persistence._label_forest import describe_labels, read_labels
from mmech_rf._persistence._selected_trees import describe_trees, read_trees
from mmech_rf.classifiers._block_design import DESIGNS
from mmech_rf.classifiers._choice import Choice
from mmech_rf.classifiers._experts import (
    Differences,
    Distribution,
    Experts,
    LogOdds,
    Weights,
)
from mmech_rf.classifiers._label_forest import LabelForest
from mmech_rf.classifiers._selected_trees import SelectedTrees
from mmech_rf.schema import Schema

__all__ = ["ChosenRelease"]

UNKNOWN = ("risk", "log_evidence")
"""Numbers of a choice that may be NaN, which JSON does not have."""


class ChosenRelease(Contents):
    """Drawn trees, labels, or the estimate that blocks vote with."""

    own = ("delta", "prior")

    def describe(self, model: Any, store: Store) -> dict[str, Any]:
        """Return entries of the description."""
        choice = asdict(model.choice_)
        for name in UNKNOWN:
            choice[name] = None if math.isnan(choice[name]) else choice[name]
        described: dict[str, Any] = {
            "prior": None if model.prior is None else asdict(model.prior),
            "delta": None if model.delta is None else float(model.delta),
            "choice": choice,
        }
        experts = model._experts
        if isinstance(experts, SelectedTrees):
            return described | describe_trees(experts, store)
        described["shares"] = [str(ensemble.epsilon) for ensemble in model.ensembles_]
        if isinstance(experts, LabelForest):
            return described | describe_labels(experts, store)
        described["estimate"] = describe_estimate(model.estimate_, store)
        if isinstance(experts, Distribution):
            described["distribution"] = describe_distribution(experts.fit, store)
        return described

    def parameters(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return delta and the prior."""
        prior = content["prior"]
        return {
            "delta": content.get("delta"),  # files written before it existed
            "prior": None if prior is None else SignalPrior(**prior),
        }

    def restore(self, model: Any, content: dict[str, Any], read: Read) -> None:
        """Give a model its choice and its votes."""
        schema = model.schema_
        choice = _choice(content["choice"], schema)
        model.ensembles_, model.trees_ = [], ()
        if choice.method == "trees":
            experts: Experts = read_trees(content, read, schema)
            assert isinstance(experts, SelectedTrees)
            model.trees_ = experts.trees
            n_scores = 0 if experts.additive is None else len(experts.additive.views)
            if choice.n_scores != n_scores:
                raise ValueError("scores that were not chosen")
        else:
            model.ensembles_ = read_ensembles(content["shares"], choice.blocks, schema)
        if choice.method == "labels":
            experts = read_labels(content, read, choice.blocks, schema)
        elif choice.method == "blocks":
            model.estimate_ = read_estimate(
                content["estimate"], read, choice.blocks, schema, signed=choice.signed
            )
            if choice.signed:
                experts = Differences(model.estimate_, choice.n_records)
            elif choice.voting == "weight":
                experts = Weights(model.estimate_, choice.n_records)
            elif choice.voting == "maximum-entropy":
                distribution = content["distribution"]
                experts = Distribution(read_distribution(distribution, read, schema))
            else:
                experts = LogOdds(model.estimate_, choice.blocks)
        n_trees = len(model.trees_) + len(model.ensembles_)
        if experts.voting != choice.voting or choice.n_trees != n_trees:
            raise ValueError("votes that were not chosen")
        model.choice_, model._experts = choice, experts


def _choice(stored: dict[str, Any], schema: Schema) -> Choice:
    stored = {"design": "disjoint"} | stored
    check_choice(stored["design"], "design", DESIGNS)
    disjoint = stored["design"] != "covering"
    blocks = read_blocks(stored["blocks"], schema, disjoint=disjoint)
    shares = tuple(float(share) for share in stored["shares"])
    for name in UNKNOWN:
        stored = stored | {name: math.nan if stored[name] is None else stored[name]}
    choice = Choice(**(stored | {"blocks": blocks, "shares": shares}))
    check_choice(choice.method, "method", ("trees", "blocks", "labels"))
    check_choice(choice.accounting, "accounting", ("pure", "zcdp"))
    whole_numbers([choice.n_trees], least=1, most=2**31)
    if not all(isinstance(fact, bool) for fact in (choice.stated, choice.signed)):
        raise ValueError("neither true nor false")
    if not 1 <= float(choice.n_records) < math.inf:
        raise ValueError("no number of records")
    if len(shares) != len(blocks) * (choice.method == "blocks") or (
        choice.signed and schema.n_classes != 2
    ):
        raise ValueError("a choice that does not fit the schema")
    return choice
