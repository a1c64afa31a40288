"""What Python says to wrong input: one sentence of ours, and nothing is spent.

Every row of a table is a call that cannot work, and words of what is said. Parameters
of the classifiers are in `test_classifier_errors`, of operators in `test_errors`, of
attributes in `test_schema`, and those of the command line in `test_wrong_commands`.
"""

import math
import pathlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from refusals import refused

import mmech
import mmech_rf
from mmech import (
    Attribute,
    Dense,
    Domain,
    Identity,
    Marginal,
    MatrixMechanism,
    Prefix,
    PrivacyLedger,
    noisy_release,
    optimize,
)
from mmech_rf import (
    BatchPredictionClassifier,
    BatchTrainingClassifier,
    PrivateForestClassifier,
    Schema,
    datasets,
)

COLOUR = Attribute.categorical("colour", ["red", "blue"])
AGE = Attribute.numeric("age", lower=0, upper=120, n_bins=4)
DOMAIN = Domain([COLOUR, AGE])
SCHEMA = Schema([COLOUR, AGE], ["no", "yes"])
X, Y = [["red", 20], ["blue", 70], ["red", 90]], ["no", "yes", "yes"]
FRAME = pd.DataFrame(X, columns=["colour", "age"])
SEVERAL = "column 'colour' holds several values in each cell .*; put each of them in a"
UNBOUNDED = Domain([Attribute.numeric("age", cut_points=[30, 60])])
NO_BOUNDS = "infinity, or a .*; look at all .*, then correct it, or choose handle_unk"


def fitted(ledger, X=X, y=Y, schema=SCHEMA, cls=BatchTrainingClassifier, **options):
    small = {"n_trees": 2, "depth": 1} if cls is BatchTrainingClassifier else {}
    return cls(schema, epsilon=1, ledger=ledger, **small, **options).fit(X, y)


def released(values, **options):
    return noisy_release(values, released="counts", **options)


RAGGED = [[1, 2], [3]]


def file(text, name="a.csv"):
    path = pathlib.Path(name)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


SCHEMAS = [
    (lambda: Schema.from_json("none.json"), "there is no file 'none.json'; check"),
    (lambda: Domain.from_json("."), "'.' is a folder; name the file in it"),
    (
        lambda: Domain.from_json({**SCHEMA.document, "goal": 1}),
        "unknown key 'goal' of",
    ),
]

RECORDS = [
    (lambda: DOMAIN.encode(None), "X must be two-dimensional"),
    (lambda: SCHEMA.encode(X, Y[:2]), "X has 3 rows but y has 2 labels"),
    (lambda: SCHEMA.encode(X, ["no", "yes", "SECRET"]), "row 2 of y holds a label"),
    (lambda: SCHEMA.encode_target(["SECRET"]), "row 0 of y holds a label"),
    (lambda: datasets.fetch("cars"), "there is no data set 'cars'; choose from"),
    (lambda: datasets.load_csv("none.csv", SCHEMA), "none.csv"),
    (lambda: datasets.load_csv("none.csv", "s.json"), "schema must be a Schema, got s"),
    (lambda: datasets.load_csv(None, SCHEMA), "source must be a path, a frame"),
    (lambda: datasets.load_csv(file(""), SCHEMA, sep=None), "sep must be one charact"),
    (lambda: datasets.fetch(["car"]), r"no data set \['car'\]; choose from"),
    (lambda: datasets.load_csv(file(""), SCHEMA), "the file is empty; its first"),
    (lambda: mmech_rf.load_model(file("x", "m.npz")), "damaged: it is not a whole ZIP"),
    (lambda: DOMAIN.encode(Y), "give X before y"),
    (lambda: DOMAIN.encode(FRAME.rename(columns=str.upper)), "mean 'COLOUR'\\?"),
    (lambda: DOMAIN.encode(pa.table({"colour": [["red"]], "age": [1]})), SEVERAL),
    (lambda: DOMAIN.encode(pa.table({"colour": [{"a": 1}], "age": [1]})), SEVERAL),
    (lambda: DOMAIN.encode([["red", "1.234,5"]]), "not a number.* decimal=, thousands"),
    (lambda: DOMAIN.encode([["red", "12 %"]]), "'age' of X holds a value that is not"),
    (lambda: UNBOUNDED.encode([[math.inf]], handle_unknown="error"), NO_BOUNDS),
    (lambda: DOMAIN.encode([["red", 130]], handle_unknown="error"), "widen the bounds"),
]  # fmt: skip

ENGINE = [
    (lambda: Dense([["a"]]), "real numbers"),
    (lambda: Marginal((2, 3), (5,)), "5"),
    (lambda: Identity(3) @ np.ones(4), "4"),
    (lambda: optimize(Prefix(4), template="best"), "template must be one of"),
    (lambda: optimize(Prefix(4), norm="L3"), "norm|L3"),
    (lambda: mmech.report(Prefix(4), Identity(4), epsilon="1/0"), "epsilon must be"),
    (lambda: MatrixMechanism(Prefix(4), Identity(4), epsilon=-1), "got -1"),
    (lambda: MatrixMechanism(Prefix(4), Identity(5), epsilon=1), "4.*5|5.*4"),
    (lambda: PrivacyLedger(1, currency="euro"), "currency must be one of"),
    (lambda: mmech.load(file("x", "s.npz")), "s.npz"),
    (lambda: mmech.load("s.npz"), "there is no file 's.npz'; check the name"),
    (lambda: mmech.load("s\0"), "a path must not hold zero bytes"),
    (lambda: mmech.Evidence("evidence.json"), "no evidence of a release that can be"),
    (lambda: PrivacyLedger.open("."), "'.' is a folder; name the ledger in it"),
    (lambda: mmech.Merged(Prefix(3), RAGGED), "groups must have rows of equal length"),
    (lambda: mmech.Ranges((5,), RAGGED, [[1]]), "lower must have rows of equal len"),
    (lambda: mmech.Conjunctions(None), "masks must be a sequence of arrays"),
    (lambda: mmech.Hierarchy(8, 2), "weights must map block sizes to weights, got 2"),
    (lambda: mmech.Marginal((2, 3), None), "attributes must be positions, such as"),
    (lambda: mmech.Anova((2, 2), "abcd"), "eigenvalues must hold real numbers"),
]  # fmt: skip

SPENDING = [
    (lambda ledger: fitted(ledger, neighbours="replace"), "same neighbours="),
    (lambda ledger: fitted(ledger, estimate_accuracy=1), "estimate_accuracy must be"),
    (lambda ledger: fitted(ledger, class_weight="balanced"), "class_weight is not su"),
    (
        lambda ledger: PrivateForestClassifier(SCHEMA, epsilon=1, ledger=ledger).fit(
            X, Y, sample_weight=[1, 2, 3]
        ),
        "sample_weight is not supported, because noise hides one record that counts",
    ),
    (
        lambda ledger: PrivateForestClassifier(SCHEMA, epsilon=1).fit(X, Y, weights=Y),
        "fit takes X and y, got weights",
    ),
    (lambda ledger: fitted(ledger, y=np.array([0.5, 1, 2])), "as for regression; put"),
    (lambda ledger: fitted(ledger, delta=1e-6, cls=PrivateForestClassifier), "zcdp"),
    (
        lambda ledger: fitted(ledger, n_records=-1, cls=PrivateForestClassifier),
        "n_records must be a public number from 1 to 1e\\+18",
    ),
    (
        lambda ledger: fitted(ledger, privacy="rdp", cls=PrivateForestClassifier),
        "privacy must be one of",
    ),
    (lambda ledger: released([1.5], sensitivity=1, epsilon=1, ledger=ledger), "whole"),
    (lambda ledger: released([1], sensitivity=0, epsilon=1, ledger=ledger), "> 0"),
    (lambda ledger: released([1], sensitivity=1, epsilon=9, ledger=ledger), "left"),
    (
        lambda ledger: MatrixMechanism(
            Prefix(4), Identity(4), epsilon=1, ledger=ledger
        ).measure([1, 2, 3]),
        r"counts must have shape \(4,\)",
    ),
    (
        lambda ledger: MatrixMechanism(
            Prefix(4), Identity(4), epsilon=1, ledger=ledger
        ).measure([1, -2, 3, 4]),
        "counts must be non-negative",
    ),
    (
        lambda ledger: fitted(ledger, cls=BatchPredictionClassifier).predict([["red"]]),
        "X has 1 columns",
    ),
    (
        lambda ledger: PrivateForestClassifier(epsilon=1, ledger=ledger).fit(
            [[0.0], [1.0]], [0.5, 1.5]
        ),
        "Unknown label type: continuous; .* predict the ranges as classes",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), [*SCHEMAS, *RECORDS, *ENGINE])
def test_calls(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(call, words)


@pytest.mark.filterwarnings("ignore:schema=None reads")
@pytest.mark.parametrize(("call", "words"), SPENDING)
def test_calls_that_would_spend(call, words):
    ledger = PrivacyLedger(2)
    refused(lambda: call(ledger), words)
    assert (ledger.spent, ledger.entries) == (0, ())
