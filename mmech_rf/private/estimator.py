"""What makes a class a scikit-learn estimator: `__init__`, and texts of its parameters.

Estimators have most parameters in common. A parameter is a field with a default, as in
a dataclass, and its text is written once, below: ``$name`` in a docstring.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import wraps
from inspect import cleandoc, signature
from string import Template
from typing import TypeVar, dataclass_transform

__all__ = ["estimator", "refuse_weights"]

_Class = TypeVar("_Class")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def estimator(cls: type[_Class]) -> type[_Class]:
    """Give a class an ``__init__`` that assigns its fields, and complete its docstring.

    Its fields, with those of its bases, become parameters.

    Examples
    --------
    >>> @estimator
    ... class Constant:
    ...     '''Answer always the same.
    ...
    ...     Parameters
    ...     ----------
    ...     $insecure_rng
    ...     '''
    ...
    ...     insecure_rng: object = None
    >>> Constant(insecure_rng=3).insecure_rng
    3
    >>> print(Constant.__doc__.splitlines()[4])
    insecure_rng : int or numpy.random.Generator, default=None
    """
    made = dataclass(eq=False, repr=False, kw_only=True)(cls)
    assign = made.__init__

    @wraps(assign)
    def init(self: object, *args: object, **parameters: object) -> None:
        refuse_weights(parameters)
        assign(self, *args, **parameters)

    made.__init__ = init  # type: ignore[method-assign]
    if made.__doc__ is not None:  # python -OO has none
        taken = signature(made).parameters
        defaults = {name: parameter.default for name, parameter in taken.items()}
        text = Template(cleandoc(made.__doc__)).substitute(TEXTS)
        made.__doc__ = Template(text).substitute(defaults | TEXTS)
    return made


def refuse_weights(given: Collection[str]) -> None:
    """Raise for weights, which scikit-learn's classifiers take and these cannot."""
    for name in ("sample_weight", "class_weight"):
        if name in given:
            raise TypeError(
                f"{name} is not supported, because noise hides one record that counts "
                "once, and a weight would let it change more; leave it out"
            )


TEXTS = {
    "schema": """\
schema : Schema, default=None
    Public attributes and classes. ``None`` reads them from the records, which
    the guarantee does not cover, and warns.""",
    "ordered_schema": """\
schema : Schema, default=None
    Public attributes and classes. An order among categories helps if it means
    something, and so do related attributes next to each other. ``None`` reads
    the schema from the records, which the guarantee does not cover, and warns.""",
    "epsilon": """\
epsilon : float, str or Fraction
    Privacy budget of a fit, in nats. Required.""",
    "epsilon_of_batch": """\
epsilon : float, str or Fraction
    Privacy budget of one batch, in nats. Required.""",
    "forest": """\
n_trees : int, inf or sequence of q of them, default=$n_trees
    Trees in all, shared out among the ensembles, or a sequence with the trees of
    each; ``math.inf`` for the limit of many multiway trees, one per subset of
    `depth` attributes of an ensemble.
depth : int, "auto" or sequence of q of them, default="auto"
    Tests on a path, for all ensembles or for each; "auto" is half the number of
    attributes for multiway trees and `fletcher_islam_depth` for others.
splits : {"multiway", "binary", "threshold"}, default="multiway"
    Whether nodes have a child per value or compare with one, see
    `grow_random_forest`.
n_ensembles : int, default=1
    Number q of ensembles, each with a random subset of the attributes and
    epsilon / q. Where records are assigned to trees, every ensemble does so anew.
max_features : int, "partition" or None, default=None
    Attributes per ensemble, drawn anew for each; "partition" shares out all
    attributes, each to one ensemble; ``None`` for all.""",
    "voting": """\
voting : {"hard", "weight"}, default="hard"
    Whether a tree votes for its leaf's label or with its leaf's counts.""",
    "ties": """\
ties : {"random", "first"}, default="random"
    Which of several best classes wins. "first", the one that the schema lists first,
    is the rule of published code, to reproduce its figures: accuracy then depends on
    the order of the classes.""",
    "answers": """\
answers : {"batch", "per_query"}, default="batch"
    Whether a batch is measured as a whole, or each of its b queries with epsilon / b
    of its own, which is the baseline of [1]_: noise ``Lap(b m / ε)``, where m is what
    one record moves of a query's votes: n_trees in batch prediction, 1 where records
    are assigned to trees, and 2 there under hard voting.""",
    "optimization": """\
template : str, default="auto"
    Strategy template, see `mmech.optimize`.
n_jobs : int, default=None
    Processes that optimize the strategies of the ensembles, see
    ``joblib.Parallel``; they see public workloads only, and the results are
    those of one process.""",
    "delta": """\
privacy : {"pure", "zcdp"}, default="pure"
    What a fit guarantees: pure epsilon, or (epsilon, delta), which promises less:
    with a probability of up to delta more than epsilon may be learnt. Releases are
    then accounted in zCDP where that leaves less noise, which is where there are
    many of them: many records times epsilon.
delta : float, default=None
    Probability for ``privacy="zcdp"``, well below one over the number of records.""",
    "n_records": """\
n_records : int, default=None
    Number of records, roughly, where it is public; ``None`` pays for a noisy count
    with 3 % of epsilon.""",
    "private_bins": """\
private_bins : sequence of str or "all", default=()
    Numeric attributes with public bounds that are cut where their records are, in
    place of their bins in the schema, for a fifth of epsilon; "all" for all with
    bounds. Pays where these bounds may be far too wide, and costs where bins were
    well chosen.""",
    "guarantee": """\
neighbours : {"add_remove", "replace"}, default="add_remove"
    Neighbour relation of the guarantee.
$policies""",
    "policies": """\
records_per_person : int, default=1
    Largest number of records of one person, public: the budget is per person.
handle_unknown : str, default="clip"
    What happens to values outside the schema, see `Schema.encode`: numbers beyond
    their bounds count as the nearest bound, other values are errors. Queries are never
    dropped, "drop" counts as "error" for them.
handle_missing : str, default="error"
    The same of missing values.""",
    "drawn_settings": """\
settings : DrawnSettings, default=None
    Budget split, priors, smoothing and learning rate, public; ``None`` for the
    defaults, which are for the most right classes. `DrawnSettings.for_ranking` is for
    records in the order of their probabilities.""",
    "accuracy": """\
estimate_accuracy : bool, default=False
    Whether one record in five is held out, and noisy counts of its right and wrong
    labels are released as `accuracy_`. No more of epsilon is spent, because no record
    is used for both; every fit pays for its own. Proof:
    ``notebooks/proofs/held_out_records.md``.""",
    "ledger": """\
ledger : PrivacyLedger, default=None
    Budget shared with other releases; ``None`` allows exactly `epsilon` (and
    `delta`, where there is one) per fit. A copied or unpickled model comes with a
    ledger that is spent. A fit with ``privacy="zcdp"`` takes one of rho.""",
    "ledger_of_batch": """\
ledger : PrivacyLedger, default=None
    Budget shared with other releases; ``None`` allows exactly one batch.""",
    "seed": """\
random_state : int, RandomState, Generator or SeedSequence, default=None
    Shapes the forests, never the noise or which record trains which tree.""",
    "no_seed": """\
random_state : int, RandomState, Generator or SeedSequence, default=None
    Without effect: nothing but the noise is random, and noise has no seed.""",
    "insecure_rng": """\
insecure_rng : int or numpy.random.Generator, default=None
    Predictable noise for tests; warns and voids the guarantee.""",
    # attributes of a fit
    "fitted": """\
classes_ : ndarray, shape (k,)
    Class labels, as the schema has them.
schema_ : Schema
    Public facts in use.
ledger_ : PrivacyLedger
    What the releases were paid from.
timings_ : dict of str to float
    Seconds per stage; depends on the records, not for publication.
privacy_statement_ : str
    What was released at which epsilon, or rho.""",
    "accuracy_": """\
accuracy_ : Accuracy or None
    How often the model is right, with an interval, if `estimate_accuracy`.""",
    "choice_": """\
choice_ : Choice
    What was released and how it votes.""",
    "ensembles_": """\
ensembles_ : list of Ensemble
    Forests, attributes and budget shares.""",
    "leaf_counts_": """\
leaf_counts_ : list of ndarray, each of shape (n_leaves, k)
    Released counts.
leaf_labels_ : list of ndarray, each of shape (n_leaves,)
    Class index of every leaf.
expected_error_ : float
    Expected total squared error of all released leaf counts.""",
    "batch_": """\
strategies_ : list of StrategyResult
    What was measured for the batch, per ensemble.
expected_error_ : float
    Expected total squared error of the batch's votes; set by `predict`.""",
}
"""Texts of docstrings, by name; ``$name`` in a text stands for another text, or for the
default of a parameter."""
