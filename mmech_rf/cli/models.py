"""The commands that release and use models: fit, predict and predict-batch."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mmech_rf.cli.common import (
    MAX_BINS,
    PROG,
    InputError,
    Parser,
    add_command,
    add_forest,
    print_wrapped,
    read_epsilon,
    say,
    whole,
)
from mmech_rf.cli.files import (
    add_columns,
    add_output,
    check_output,
    read_queries,
    read_records,
    same_content,
    write_labels,
)

if TYPE_CHECKING:
    from mmech_rf.private.base import ForestClassifier
    from mmech_rf.schema import Schema

__all__ = ["add_fit", "add_predict", "add_predict_batch"]

# Repeated here because importing them would make --help slow.
DEFAULT_SEED = 0
TEMPLATES = (
    "auto",
    "identity",
    "workload",
    "marginals",
    "hierarchy",
    "pidentity",
    "kronecker",
    "union",
    "low_rank",
)

_FIT = """\
Release a private forest and save it. The model holds only noisy numbers and privately
drawn trees: it may be published, and predicts as often as you like at no further cost.

Every run spends epsilon on the records anew; two models of the same records cost the
sum of both.
"""
_FIT_EXAMPLES = f"""\
methods:
  private           what is best for the budget: drawn, or labels where
                    epsilon is below 0.00001; nothing to set but what is
                    public: options of forests do not go with it
  drawn             small trees, drawn with their labels for what they get
                    right; often the most accurate, any number of attributes
  blocks            class counts of neighbouring attributes, one complete tree
                    for each block of them
  labels            nothing but the labels of leaves, of trees that share out
                    the records
  training          leaf counts through the matrix mechanism
  laplace           baseline: noise on every leaf, all records in every tree
  laplace-disjoint  baseline: noise on every leaf, every record in one tree

examples:
  {PROG} fit mine.csv --schema mine.json --epsilon 1 --out mine.npz
  {PROG} fit mine.csv --schema mine.json --epsilon 1 --out mine.npz \\
      --n-records 5000
      where it is no secret that there are about 5,000 records; without that,
      a noisy count is paid for with 3 % of epsilon
  {PROG} fit mine.csv --schema mine.json --epsilon 1 --out mine.npz \\
      --privacy zcdp --delta 1e-6
      (epsilon, delta) in place of pure epsilon
  {PROG} fit mine.csv --schema mine.json --epsilon 1 --out mine.npz \\
      --method training --trees inf
      leaf counts of all multiway trees instead of some
  {PROG} fit mine.csv --schema mine.json --epsilon 1 --out mine.npz \\
      --method training --n-ensembles 5 --max-features partition
      many attributes: five forests over a fifth of them each, at epsilon / 5
"""
_PREDICT = """\
Predict the classes of records with a saved model. Spends no budget. Prints the labels,
one a line under the name of the class, in the order of the records.
"""
_PREDICT_EXAMPLES = f"""\
The records need the columns of the attributes, in any order; a column with the
class is not looked at. Values that the schema does not know are treated as at
the fit, and "drop" counts as "error", because every record needs an answer.

examples:
  {PROG} predict mine.npz new.csv
  {PROG} predict mine.npz new.csv --out labels.csv
"""
_BATCH = """\
Release the classes of one batch of queries, without releasing a model. This often is
more accurate than a model where the queries are few.

Every run spends epsilon on the training records anew. They are protected; the queries
are public and are not: never pass training records as queries.
"""
_BATCH_EXAMPLES = f"""\
methods:
  prediction  weighted votes of the batch through the matrix mechanism
  subsample   every record trains one tree only; works for any number of
              attributes (16 trees where --trees is not given, because they
              share the records)

examples:
  {PROG} predict-batch train.csv new.csv --schema mine.json --epsilon 1
  {PROG} predict-batch train.csv new.csv --schema mine.json --epsilon 1 \\
      --method subsample --trees 16 --depth 3 --out labels.csv
"""

_GROWN = (
    "trees",
    "depth",
    "splits",
    "n_ensembles",
    "max_features",
    "template",
    "voting",
    "seed",
)
"""Options of forests that grow before the records are looked at."""

_NOT_PROTECTED = (
    f"{PROG}: warning: queries are public and not protected, but these are the "
    "training records: their labels tell of them; use fit and predict, or other queries"
)

_CHOSEN = ("n_records", "privacy", "delta")
"""Options of the forests that choose for themselves."""

_COUNTED = tuple(name for name in _GROWN if name != "template")


@dataclass(frozen=True)
class _Method:
    """A value of ``fit --method``.

    Attributes
    ----------
    estimator : str
        Name of the classifier in `mmech_rf`, which is imported when it is used.
    options : tuple of str
        Options that go with it; None stands for one that was not given.
    settings : mapping of str
        Further parameters of the classifier.
    """

    estimator: str
    options: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


_METHODS = {
    "private": _Method("PrivateForestClassifier", _CHOSEN),
    "drawn": _Method("DrawnForestClassifier", _CHOSEN),
    "blocks": _Method("BlockForestClassifier", _CHOSEN),
    "labels": _Method("LabelForestClassifier", ("n_records",)),
    "training": _Method("BatchTrainingClassifier", _GROWN),
    "laplace": _Method("LaplaceForestClassifier", _COUNTED, {"data": "shared"}),
    "laplace-disjoint": _Method(
        "LaplaceForestClassifier", _COUNTED, {"data": "disjoint"}
    ),
}
"""The methods of ``fit``, in the order of its help."""

_PARAMETERS = {"trees": "n_trees", "seed": "random_state"}
"""Parameters that are called otherwise than their options."""

_WORDS = {
    "n_trees": "--trees",
    "PrivateForestClassifier": "`fit --method private`",
    "DrawnForestClassifier": "`fit --method drawn`",
    "BlockForestClassifier": "`fit --method blocks`",
    "LabelForestClassifier": "`fit --method labels`",
    "BatchTrainingClassifier": "`fit --method training`",
    "LaplaceForestClassifier": "`fit --method laplace`",
    "SubsampleAggregateClassifier": "`predict-batch --method subsample`",
}
"""What is called otherwise on the command line; see `in_options`."""

_QUERY_WORDS = {"Schema.check": f"`{PROG} schema check --queries`"}


# ---- options ---------------------------------------------------------------


def add_fit(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``fit``."""
    command = add_command(
        commands,
        "fit",
        _fit,
        short="release a private model of the records in a csv file; spends budget",
        description=_FIT,
        epilog=_FIT_EXAMPLES,
    )
    command.add_argument("data", metavar="CSV", help="training records; sensitive")
    add_output(command, required=True, help="file to save the model in, such as m.npz")
    command.add_argument(
        "--method",
        choices=tuple(_METHODS),
        metavar="NAME",
        default="private",
        help="how the forest is released, see below (default: private)",
    )
    _add_budget(command)
    add_forest(command, depth="auto")
    _add_ensembles(command)
    command.add_argument(
        "--voting",
        choices=("hard", "weight"),
        default="hard",
        help="whether a tree votes for the label of its leaf (hard) or with its counts "
        "(weight) (default: hard)",
    )
    command.add_argument(
        "--n-records",
        type=whole(1),
        metavar="N",
        help="roughly how many records there are, where that is public; for --method "
        "private, drawn, blocks or labels (default: a noisy count, for 3 %% of "
        "epsilon)",
    )
    command.add_argument(
        "--privacy",
        choices=("pure", "zcdp"),
        default="pure",
        help="guarantee of --method private, drawn or blocks: pure epsilon, or "
        "(epsilon, delta), which promises less and is more accurate where there are "
        "many records, accounted in zCDP (default: pure)",
    )
    command.add_argument(
        "--delta",
        type=float,
        metavar="P",
        help="for --privacy zcdp: probability that epsilon may not hold, well below "
        "one over the number of records",
    )
    _add_records(command)
    command.set_defaults(**dict.fromkeys((*_GROWN, *_CHOSEN)))


def add_predict(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``predict``."""
    command = add_command(
        commands,
        "predict",
        _predict,
        short="predict with a saved model; free",
        description=_PREDICT,
        epilog=_PREDICT_EXAMPLES,
    )
    command.add_argument("model", metavar="MODEL", help=f"file that `{PROG} fit` wrote")
    command.add_argument("data", metavar="CSV", help="records to classify")
    add_output(command, help="csv file for the labels (default: print them)")
    add_columns(command)
    # The schema of a model is what it is.
    command.set_defaults(words={"schema": None, **_QUERY_WORDS})


def add_predict_batch(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``predict-batch``."""
    command = add_command(
        commands,
        "predict-batch",
        _predict_batch,
        short="release the classes of one batch of queries; spends budget every time",
        description=_BATCH,
        epilog=_BATCH_EXAMPLES,
    )
    command.add_argument("data", metavar="CSV", help="training records; sensitive")
    command.add_argument("queries", metavar="QUERIES", help="csv of queries; public")
    add_output(command, help="csv file for the labels (default: print them)")
    command.add_argument(
        "--method",
        choices=("prediction", "subsample"),
        default="prediction",
        help="how the votes are released, see below (default: prediction)",
    )
    _add_budget(command)
    add_forest(command, depth="auto")
    _add_ensembles(command)
    command.add_argument(
        "--voting",
        choices=("hard", "weight"),
        default="weight",
        help="whether a tree votes for the label of its leaf (hard, subsample only) or "
        "with its counts (weight) (default: weight)",
    )
    _add_records(command)
    command.set_defaults(**dict.fromkeys(_GROWN))


def _add_budget(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--schema",
        required=True,
        metavar="FILE",
        help="JSON file with the public attributes and classes; "
        f"`{PROG} schema suggest` prints one to fill in",
    )
    command.add_argument(
        "--bins",
        type=whole(1, MAX_BINS),
        default=10,
        metavar="N",
        help="number of bins of numeric attributes for which the schema gives only "
        "bounds (default: 10)",
    )
    command.add_argument(
        "--epsilon",
        type=read_epsilon,
        required=True,
        metavar="E",
        help="privacy budget to spend, in nats; smaller is more private",
    )
    command.add_argument(
        "--neighbours",
        choices=("add_remove", "replace"),
        default="add_remove",
        help="what is hidden: that a record is there (add_remove), or what it holds "
        "where the number of records is public (replace) (default: add_remove)",
    )
    command.add_argument(
        "--records-per-person",
        type=whole(1),
        default=1,
        metavar="N",
        help="largest number of records of one person, public; the budget is per "
        "person, so that more of them cost accuracy (default: 1)",
    )


def _add_ensembles(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--n-ensembles",
        type=whole(1),
        default=1,
        metavar="Q",
        help="number of ensembles that share out trees and epsilon, each over its own "
        "random subset of the attributes (default: 1)",
    )
    command.add_argument(
        "--max-features",
        type=_read_features,
        metavar="D",
        help="number of attributes of an ensemble, drawn anew for each; or partition: "
        "share out all of them, each to one ensemble (default: all)",
    )
    command.add_argument(
        "--template",
        choices=TEMPLATES,
        default="auto",
        metavar="NAME",
        help=f"kind of strategy to measure: {', '.join(TEMPLATES)} (default: auto, the "
        "best of those that fit)",
    )


def _read_features(text: str) -> int | str:
    if text == "partition":
        return text
    try:
        return whole(1)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or partition") from None


def _add_records(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--handle-unknown",
        choices=("error", "category", "drop", "clip"),
        default="error",
        help="what to do with values outside the schema: stop, use the cell that the "
        "attribute declares for them, leave the record out without a word (look at "
        f"`{PROG} schema check` first), or move a number to the nearest bound "
        "(default: error)",
    )
    command.add_argument(
        "--handle-missing",
        choices=("error", "category", "drop"),
        default="error",
        help="the same for empty fields (default: error)",
    )
    command.add_argument(
        "--show-counts",
        action="store_true",
        help="say how many of the records are used, n of N; sensitive: this number is "
        "not private, keep it to yourself",
    )
    add_columns(command)
    command.add_argument(
        "--seed",
        type=whole(0, 2**31),
        default=0,
        metavar="N",
        help="fixes the forests, never the noise (default: 0)",
    )
    command.set_defaults(words=_WORDS)


def _parameters(args: argparse.Namespace, options: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameters of a classifier; options left out are at its defaults."""
    given = {name: getattr(args, name) for name in options}
    if "seed" in given and args.seed is None:
        given["seed"] = DEFAULT_SEED
    return {
        "epsilon": args.epsilon,
        "neighbours": args.neighbours,
        "records_per_person": args.records_per_person,
        "handle_unknown": args.handle_unknown,
        "handle_missing": args.handle_missing,
        **{
            _PARAMETERS.get(name, name): value
            for name, value in given.items()
            if value is not None
        },
    }


# ---- commands --------------------------------------------------------------


def _fit(args: argparse.Namespace) -> None:
    check_output(args)
    from mmech_rf.evaluation import read_schema

    schema = read_schema(args.schema, n_bins=args.bins)
    model = _unfitted(args, schema)
    bunch = read_records(args, args.data, schema)
    model.fit(bunch.data, bunch.target)
    model.save(args.out)
    print_wrapped(f"Saved {_structure(model)} in {args.out}.")
    for line in model.privacy_statement_.splitlines():
        print_wrapped(line.strip(), bullet=True)


def _unfitted(args: argparse.Namespace, schema: Schema) -> ForestClassifier:
    """Return the classifier of a method; raise if an option does not go with it."""
    import mmech_rf

    method = _METHODS[args.method]
    for name in (*_GROWN, *_CHOSEN):
        if name not in method.options and getattr(args, name) is not None:
            others = [other for other in _METHODS if name in _METHODS[other].options]
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{option} does not go with --method {args.method}; leave it out, or "
                f"choose --method {' or '.join(others)}"
            )
    parameters = {**_parameters(args, method.options), **method.settings}
    model: ForestClassifier = getattr(mmech_rf, method.estimator)(schema, **parameters)
    return model


def _structure(model: ForestClassifier) -> str:
    if hasattr(model, "trees_"):
        trees, leaves = len(model.trees_), sum(tree.n_leaves for tree in model.trees_)
        return (
            f"{trees:,} tree{'s' if trees > 1 else ''} with {leaves:,} labelled leaves"
        )
    forests = [ensemble.forest for ensemble in model.ensembles_]
    trees = sum(forest.n_trees for forest in forests)
    leaves = sum(forest.n_leaves for forest in forests)
    groups = "" if len(forests) == 1 else f" in {len(forests)} ensembles"
    depths = sorted({forest.depth for forest in forests})
    depth = " or ".join(map(str, depths))
    return (
        f"a forest of {trees:,} tree{'s' if trees > 1 else ''}{groups}, depth {depth}, "
        f"{leaves:,} leaves"
    )


def _predict(args: argparse.Namespace) -> None:
    check_output(args)
    from mmech_rf import load_model

    model = load_model(args.model)
    if model._terms.inferred:
        raise InputError(
            f"the model {args.model!r} was fitted without a schema and does not name "
            "its columns as a csv file does; use it from Python"
        )
    queries = read_queries(
        args,
        args.data,
        model.schema_,
        handle_unknown=model.handle_unknown,
        handle_missing=model.handle_missing,
    )
    write_labels(args.out, model.schema_.target, model.predict(queries))


def _predict_batch(args: argparse.Namespace) -> None:
    check_output(args)
    from mmech_rf import BatchPredictionClassifier, SubsampleAggregateClassifier
    from mmech_rf.evaluation import read_schema

    schema = read_schema(args.schema, n_bins=args.bins)
    is_subsample = args.method == "subsample"
    if not is_subsample and args.voting == "hard":
        raise InputError("--voting hard goes with --method subsample only")
    cls = SubsampleAggregateClassifier if is_subsample else BatchPredictionClassifier
    model = cls(schema, **_parameters(args, _GROWN))
    if same_content(args.data, args.queries):
        say(_NOT_PROTECTED)
    bunch = read_records(args, args.data, schema)
    queries = read_queries(
        args,
        args.queries,
        schema,
        handle_unknown=args.handle_unknown,
        handle_missing=args.handle_missing,
    )
    labels = model.fit(bunch.data, bunch.target).predict(queries)
    model.close()
    write_labels(args.out, schema.target, labels)
    trees = "all" if model.n_trees == math.inf else model.n_trees
    say(
        f"spent ε = {float(args.epsilon):g} on {labels.size:,} queries ({trees} trees, "
        f"{args.method}); another batch on the same records costs its ε on top"
    )
