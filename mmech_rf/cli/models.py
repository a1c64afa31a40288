"""The commands that release, use and show models."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

from mmech.cli.files import (
    check_new,
    check_output,
    kept_elsewhere,
)
from mmech.limits import LIMITS
from mmech.privacy.neighbours import NEIGHBOURS
from mmech.terminal import (
    InputError,
    Parser,
    print_wrapped,
    read_epsilon,
    whole,
)
from mmech.threads import say, showing
from mmech_rf.cli.common import (
    HELP,
    PROG,
    add,
    add_forest,
    among,
    as_option,
    methods_of,
    read_features,
    read_settings,
)
from mmech_rf.cli.files import (
    add_columns,
    add_output,
    answers_to_queries,
    count_records,
    same_content,
    write_table,
)
from mmech_rf.methods import METHODS, VOTINGS

if TYPE_CHECKING:
    from mmech_rf.estimator.base import ForestClassifier

_NOT_PROTECTED = (
    f"{PROG}: warning: queries are public and not protected, but these are the "
    "training records: their labels tell of them; use fit and predict, or other queries"
)

_POLICIES = ("handle_unknown", "handle_missing")

_QUERY_WORDS = {"Schema.check": f"`{PROG} schema check --queries`"}


def _options(command: str) -> list[str]:
    """Return the parameters that only some of its methods have, each once."""
    rows = map(METHODS.__getitem__, methods_of(command))
    return list(dict.fromkeys(option for row in rows for option in row.options))


# ---- options ---------------------------------------------------------------


def add_fit(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``fit``."""
    command = HELP.command(commands, "fit", _fit)
    add(command, "data", metavar="CSV")
    add_output(command, required=True)
    names = methods_of("fit")
    add(command, "--method", choices=names, metavar="NAME", default="private")
    _add_budget(command)
    add_forest(command)
    _add_ensembles(command)
    add(command, "--n-records", type=whole(1, 10**15), metavar="N")
    add(command, "--private-bins", type=_read_names, metavar="NAME,NAME")
    add(command, "--settings", type=read_settings, metavar="ranking")
    add(command, "--recipe", metavar="NAME")
    add(command, "--estimate-accuracy", action="store_true")
    _add_records(command)
    command.set_defaults(**dict.fromkeys(_options("fit")))


def add_predict(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``predict``."""
    command = HELP.command(commands, "predict", _predict)
    add(command, "model", metavar="MODEL")
    add(command, "data", metavar="CSV")
    add_output(command)
    add(command, "--proba", action="store_true")
    add_columns(command)
    # The schema of a model is what it is.
    command.set_defaults(words={"schema": None, **_QUERY_WORDS})


def add_recipes(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``recipes``."""
    HELP.command(commands, "recipes", _recipes)


def add_predict_batch(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``predict-batch``."""
    command = HELP.command(commands, "predict-batch", _predict_batch)
    add(command, "data", metavar="CSV")
    add(command, "queries", metavar="QUERIES")
    add_output(command)
    names = methods_of("predict-batch")
    add(command, "--method", choices=names, default="prediction")
    _add_budget(command)
    add_forest(command)
    _add_ensembles(command)
    _add_records(command)
    command.set_defaults(**dict.fromkeys(_options("predict-batch")))


def _add_budget(command: argparse.ArgumentParser) -> None:
    add(command, "--schema", required=True, metavar="FILE")
    add(command, "--bins", type=whole(1, LIMITS.bins), default=10, metavar="N")
    add(command, "--epsilon", type=read_epsilon, required=True, metavar="E")
    add(command, "--ledger", metavar="FILE")
    add(command, "--neighbours", choices=NEIGHBOURS, default="add_remove")
    add(command, "--records-per-person", type=whole(1), default=1, metavar="N")


def _add_ensembles(command: argparse.ArgumentParser) -> None:
    add(command, "--n-ensembles", type=whole(1), default=1, metavar="Q")
    add(command, "--max-features", type=read_features, metavar="D")
    add(command, "--voting", choices=VOTINGS)
    add(command, "--template", default="auto", metavar="NAME")


def _read_names(text: str) -> str | tuple[str, ...]:
    return text if text == "all" else tuple(text.split(","))


def _add_records(command: argparse.ArgumentParser) -> None:
    unknown = ("clip", "error", "category", "drop")
    add(command, "--handle-unknown", choices=unknown, default="clip")
    add(command, "--handle-missing", choices=unknown[1:], default="error")
    add_columns(command)
    seeds = {"dest": "random_state", "type": whole(0, 2**31), "default": 0}
    add(command, "--seed", metavar="N", **seeds)


# ---- commands --------------------------------------------------------------


def _fit(args: argparse.Namespace) -> None:
    check_output(args)
    model = _unfitted(args, "fit")
    model.set_params(estimate_accuracy=args.estimate_accuracy)
    count_records(args, args.data, model)
    with showing(releasing(model)):
        model.release()
        _keep("model", model, args.out, model.save)
    print_wrapped(f"Saved {_structure(model)} in {args.out}.")
    for line in model.privacy_statement_.splitlines():
        print_wrapped(line.strip(), bullet=True)


def _keep(
    what: str, model: ForestClassifier, out: str | None, write: Callable[[Any], None]
) -> None:
    """Write what is paid for; if that fails, write it where it can be found."""
    from mmech_rf.estimator.terms import cost_in_words

    cost = cost_in_words(model.releases_)
    try:
        write(out)
    except BaseException as stop:
        name = f"{what}.csv" if out is None else os.path.basename(out)
        at = kept_elsewhere(name, write)
        place = "lost" if at is None else f"kept in {at!r}"
        stop.add_note(f"{cost} is spent; {what} {place}")
        raise


def _recipes(args: argparse.Namespace) -> None:
    from mmech_rf import recipes

    for name, paper, guarantee, corrected in recipes().rows():
        print(name)
        for line in (paper, guarantee, f"corrected: {corrected}"):
            print_wrapped(line, bullet=True)


@showing(lambda: "starting")
def _unfitted(args: argparse.Namespace, command: str) -> Any:
    """Return the classifier of a method; raise if an option does not go with it."""
    from mmech_rf.evaluation import read_schema

    schema = read_schema(args.schema, n_bins=args.bins)
    method = METHODS[args.method]
    options = {name: getattr(args, name) for name in _options(command)}
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name in method.options or method.parameters.get(name) == value:
            continue
        raise InputError(
            f"{as_option(name)} does not go with --method {args.method}; leave it out, "
            f"or choose --method {among(name, command)}"
        )
    if "random_state" in method.options:
        given.setdefault("random_state", 0)
    shared = ("epsilon", "neighbours", "records_per_person")
    given |= {name: getattr(args, name) for name in (*shared, *_POLICIES)}
    if args.ledger is not None:
        from mmech import PrivacyLedger

        given["ledger"] = PrivacyLedger.open(args.ledger)
    return method.make(schema, **given)


def releasing(model: ForestClassifier) -> Callable[[], str]:
    """Return what says the latest release of a model that is being fitted."""

    def words() -> str:
        releases = getattr(model, "releases_", ())
        last = f", the last: {releases[-1].released}" if releases else ""
        return f"fitting: {len(releases)} releases{last}"

    return words


def _structure(model: ForestClassifier) -> str:
    parts = getattr(model, "trees_", None) or [e.forest for e in model.ensembles_]
    trees = sum(getattr(part, "n_trees", 1) for part in parts)
    leaves = sum(part.n_leaves for part in parts)
    return f"{trees:,} tree{'s' * (trees > 1)} with {leaves:,} labelled leaves"


def _predict(args: argparse.Namespace) -> None:
    check_output(args)
    from mmech_rf import load_model

    try:
        model = load_model(args.model)
    except ValueError as error:
        if is_zipfile(args.data):
            error.add_note(f"{args.data!r} may be the model, which comes first")
        raise
    if model._terms.inferred:
        raise InputError(
            f"the model {args.model!r} was fitted without a schema and does not name "
            "its columns as a csv file does; use it from Python"
        )
    if not args.proba:
        labels = answers_to_queries(args, args.data, model).tolist()
        write_table(args.out, [model.schema_.target], ([label] for label in labels))
        return
    probabilities = answers_to_queries(args, args.data, model, proba=True)
    write_table(args.out, model.schema_.class_labels, probabilities.tolist())


def _predict_batch(args: argparse.Namespace) -> None:
    check_output(args)
    model = _unfitted(args, "predict-batch")
    if same_content(args.data, args.queries):
        say(_NOT_PROTECTED)
    count_records(args, args.data, model)
    with showing(releasing(model)):
        model.release()
    labels = answers_to_queries(args, args.queries, model)
    model.close()
    target, rows = model.schema.target, [[label] for label in labels.tolist()]
    _keep("labels", model, args.out, lambda out: write_table(out, [target], rows))
    trees = "all" if model.n_trees == math.inf else model.n_trees
    say(
        f"spent ε = {float(args.epsilon):g} on {labels.size:,} queries ({trees} trees, "
        f"{args.method}); another batch on the same records costs its ε on top"
    )


LISTED = 15
"""Attributes whose importances the text lists."""


def add_show(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``show``."""
    command = HELP.command(commands, "show", _show)
    add(command, "model", metavar="MODEL")
    form = command.add_mutually_exclusive_group()
    add(form, "--html", metavar="FILE")
    add(form, "--json", action="store_true")
    shown = {"dest": "shown_trees", "type": whole(1, 1000), "default": 10}
    add(command, "--trees", metavar="N", **shown)
    add(command, "--force", action="store_true")


def _show(args: argparse.Namespace) -> None:
    if args.html is not None:
        check_new(args, args.html)
    from mmech.writing import replacing
    from mmech_rf import load_model

    model: Any = load_model(args.model)
    if args.json:
        print(json.dumps(model.card(), indent=2))
    elif args.html is not None:
        name = Path(args.model).stem
        page = model.to_html(n_trees=args.shown_trees, title=name)
        with replacing(args.html) as unfinished:
            unfinished.write_text(page, encoding="utf-8")
    else:
        _print(model, args.shown_trees)


def _print(model: ForestClassifier, n_trees: int) -> None:
    from mmech_rf.show.page import opening

    for line in opening(model.card()):
        print_wrapped(line)
    print()
    print(model.describe(n_trees=n_trees))
    print("\nimportances, for made-up records spread evenly over the schema:")
    for name, share in model.named_importances()[:LISTED]:
        print(f"  {share:6.1%}  {name}")
    print()
    for line in model.privacy_statement_.splitlines():
        print_wrapped(line.strip(), bullet=True)
