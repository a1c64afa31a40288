"""What drawn forests and forests of blocks chose and released, as files have it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from mmech import SignalPrior
from mmech.checks import check_choice
from mmech_rf.blocks.settings import BlockSettings
from mmech_rf.blocks.votes import Differences, Distribution, LogOdds, Weights
from mmech_rf.drawn.settings import DrawnSettings
from mmech_rf.private.choice import Choice
from mmech_rf.private.settings import CountSettings
from mmech_rf.private.votes import Experts
from mmech_rf.schema import Schema
from mmech_rf.storage.blocks import (
    describe_distribution,
    describe_estimate,
    read_blocks,
    read_distribution,
    read_ensembles,
    read_estimate,
)
from mmech_rf.storage.contents import Contents, Read, Store, whole_numbers
from mmech_rf.storage.label_forest import describe_labels, read_labels
from mmech_rf.storage.selected_trees import describe_trees, read_trees

__all__ = ["BlockContents", "DrawnContents", "LabelContents"]

UNKNOWN = ("risk", "log_evidence")
"""Numbers of a choice that may be NaN, which JSON does not have."""


class ChosenContents(Contents):
    """What a forest holds that first asks for the number of records."""

    own: tuple[str, ...] = ("delta", "settings")
    method: str
    settings: type[CountSettings]

    def describe(self, model: Any, store: Store) -> dict[str, Any]:
        """Return entries of the description."""
        choice = asdict(model.choice_)
        for name in UNKNOWN:
            choice[name] = None if math.isnan(choice[name]) else choice[name]
        return {
            "delta": None if model.delta is None else float(model.delta),
            "settings": None if model.settings is None else model.settings.as_json(),
            "choice": choice,
        }

    def parameters(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the `own` parameters of a description."""
        return {"delta": content["delta"], "settings": self._read_settings(content)}

    def _read_settings(self, content: dict[str, Any]) -> CountSettings | None:
        stored = content["settings"]
        return None if stored is None else self.settings.from_json(stored)

    def restore(self, model: Any, content: dict[str, Any], read: Read) -> None:
        """Give a model its choice."""
        choice = _choice(content["choice"], model.schema_)
        if choice.method != self.method:
            raise ValueError("a choice of another method")
        model.choice_, model.ensembles_ = choice, []


class DrawnContents(ChosenContents):
    """Drawn trees, and the scores that their leaves stand for."""

    method = "trees"
    settings = DrawnSettings

    def describe(self, model: Any, store: Store) -> dict[str, Any]:
        """Return entries of the description."""
        return super().describe(model, store) | describe_trees(model._experts, store)

    def restore(self, model: Any, content: dict[str, Any], read: Read) -> None:
        """Give a model its choice and its trees."""
        super().restore(model, content, read)
        experts = read_trees(content, read, model.schema_)
        n_scores = 0 if experts.additive is None else len(experts.additive.views)
        if model.choice_.n_scores != n_scores:
            raise ValueError("scores that were not chosen")
        model.trees_ = experts.trees
        _give(model, experts, len(experts.trees))


class LabelContents(ChosenContents):
    """Labels of the leaves of complete trees."""

    method = "labels"
    settings = BlockSettings
    own = ("settings",)

    def parameters(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the `own` parameters of a description."""
        return {"settings": self._read_settings(content)}

    def describe(self, model: Any, store: Store) -> dict[str, Any]:
        """Return entries of the description."""
        shares = [str(ensemble.epsilon) for ensemble in model.ensembles_]
        described = super().describe(model, store) | {"shares": shares}
        return described | describe_labels(model._experts, store)

    def restore(self, model: Any, content: dict[str, Any], read: Read) -> None:
        """Give a model its choice and its labels."""
        super().restore(model, content, read)
        schema, blocks = model.schema_, model.choice_.blocks
        model.ensembles_ = read_ensembles(content["shares"], blocks, schema)
        _give(model, read_labels(content, read, blocks, schema), len(blocks))


class BlockContents(ChosenContents):
    """The estimate that blocks vote with."""

    method = "blocks"
    settings = BlockSettings
    own = ("delta", "settings", "prior")

    def parameters(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the `own` parameters of a description."""
        prior = content["prior"]
        return super().parameters(content) | {
            "prior": None if prior is None else SignalPrior(**prior)
        }

    def describe(self, model: Any, store: Store) -> dict[str, Any]:
        """Return entries of the description."""
        described = super().describe(model, store) | {
            "prior": None if model.prior is None else asdict(model.prior),
            "shares": [str(ensemble.epsilon) for ensemble in model.ensembles_],
            "estimate": describe_estimate(model.estimate_, store),
        }
        if isinstance(model._experts, Distribution):
            fit = model._experts.fit
            described["distribution"] = describe_distribution(fit, store)
        return described

    def restore(self, model: Any, content: dict[str, Any], read: Read) -> None:
        """Give a model its choice and its votes."""
        super().restore(model, content, read)
        schema, choice = model.schema_, model.choice_
        model.ensembles_ = read_ensembles(content["shares"], choice.blocks, schema)
        estimate = read_estimate(
            content["estimate"], read, choice.blocks, schema, signed=choice.signed
        )
        if choice.signed:
            experts: Experts = Differences(estimate, choice.n_records)
        elif choice.voting == "weight":
            experts = Weights(estimate, choice.n_records)
        elif choice.voting == "maximum-entropy":
            stored = content["distribution"]
            experts = Distribution(read_distribution(stored, read, schema))
        else:
            experts = LogOdds(estimate, choice.blocks, model.settings)
        model.estimate_ = estimate
        _give(model, experts, len(choice.blocks))


def _give(model: Any, experts: Experts, n_trees: int) -> None:
    if experts.voting != model.choice_.voting or model.choice_.n_trees != n_trees:
        raise ValueError("votes that were not chosen")
    model._experts = experts


def _choice(stored: dict[str, Any], schema: Schema) -> Choice:
    blocks = read_blocks(stored["blocks"], schema)
    shares = tuple(float(share) for share in stored["shares"])
    for name in UNKNOWN:
        stored = stored | {name: math.nan if stored[name] is None else stored[name]}
    choice = Choice(**(stored | {"blocks": blocks, "shares": shares}))
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
