"""What one record can change, and how much noise that is paid with.

Sensitivities are found by trying every change of one record on a small domain,
on the very counts that reach the mechanism; scales are those that reach the
noise; the ledger is compared in exact fractions.
"""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
import rf_cases
from entropy import system_entropy
from scipy.stats import beta

from mmech import PrivacyLeakWarning, PrivacyLedger
from mmech.noise import assign_records
from mmech_rf import Attribute, PrivateForestClassifier, Schema

ALL = pytest.mark.parametrize("name", rf_cases.PRIVATE)
RAW = rf_cases.CELLS.astype(str)
EVERY_RECORD = [(cell, label) for cell in RAW.tolist() for label in rf_cases.CLASSES]
EVERY_CELL = list(zip(RAW.tolist(), itertools.cycle(rf_cases.CLASSES), strict=False))
"""Records of all cells; of each in one class."""


@pytest.fixture
def watched(monkeypatch, watch_all):
    """Exact releases, each noted with its counts; see `rf_cases.watch`."""
    rf_cases.silence(watch_all)
    return rf_cases.watch(monkeypatch)


@pytest.fixture
def draws(watch_all):
    """The tree of every record of the coming fits: clear and fill it before each."""
    carried = []

    def assign(draw, sample):
        if draw.kind != "assignment":
            return sample()
        assert len(carried) == draw.exact
        return np.array(carried, dtype=np.int64) % draw.public["n_parts"]

    watch_all(assign)
    return carried


def counts_of(watched, draws, model, data):
    """Exact counts per ensemble that a data set of (row, label, draw) leads to."""
    watched.clear()
    draws[:] = [draw for _, _, draw in data]
    rows = np.array([row for row, _, _ in data]).reshape(-1, len(RAW[0]))
    rf_cases.release(model, rows, np.array([label for _, label, _ in data], dtype=str))
    return [(seen.counts, seen.mechanism) for seen in watched]


def largest_change(watched, draws, model, data, others):
    """Return the largest cost of a change from the data to any of the others."""
    ((before, _),) = counts_of(watched, draws, model, data)
    found = []
    for other in others:
        ((after, mechanism),) = counts_of(watched, draws, model, other)
        found.append(ref.cost(mechanism.released, after - before))
    return max(found)


def random_data(n_records, seed=0):
    X, y = rf_cases.records(n_records, seed)
    trees = np.random.default_rng(seed + 1).integers(0, 60, n_records)
    return list(zip(X.tolist(), y.tolist(), trees.tolist(), strict=True))


def check_change(name, before, after, mechanism, forest):
    """Check which exact counts a record has changed; return the L1 change."""
    change = after - before
    rows, columns = np.nonzero(change)
    if name == "subsample hard":
        # One leaf changes its label: one entry goes down, another one up.
        assert len(rows) in (0, 2)
        assert len(set(rows)) <= 1
        assert sorted(change[rows, columns].tolist()) in ([], [-1, 1])
    elif name == "laplace shared":
        trees = np.searchsorted(forest.leaf_offsets, rows, side="right") - 1
        assert sorted(trees.tolist()) == list(range(forest.n_trees))
        assert len(set(columns)) == 1
        assert len(set(change[rows, columns].tolist())) == 1
    else:
        assert len(rows) == 1
    assert np.abs(change).max(initial=0) <= 1
    return ref.cost(mechanism.released, change)


# -------------------------------------------------------- every change of one record
@pytest.mark.by_day(4)
@pytest.mark.parametrize("size", [0, 25])
@ALL
def test_every_addition_of_a_record(name, size, watched, draws):
    """All 12 cells times 3 classes in front of the others; and some behind them."""
    model = rf_cases.classifier(name, n_trees=3, n_ensembles=2, max_features=2)
    data = random_data(size)
    before = counts_of(watched, draws, model, data)
    draws[:] = []
    forests = [e.forest for e in model.fit([], []).ensembles_]
    largest = [0, 0]
    for position, step in {size: 5, 0: 1}.items():
        for number, (row, label) in enumerate(EVERY_RECORD[::step]):
            more = [*data[:position], (row, label, number % 6), *data[position:]]
            after = counts_of(watched, draws, model, more)
            for i, forest in enumerate(forests):
                change = check_change(
                    name, before[i][0], after[i][0], after[i][1], forest
                )
                largest[i] = max(largest[i], change)
    claimed = [seen.measurement.sensitivity for seen in watched]
    if name == "subsample hard":
        assert all(a <= b for a, b in zip(largest, claimed, strict=True))
    else:
        # The sensitivity is the exact maximum, not a bound.
        assert largest == claimed


def test_hard_voting_reaches_its_sensitivity(watched, draws):
    """A record that breaks a tie flips a label: two entries of one leaf."""
    model = rf_cases.classifier("subsample hard", n_trees=1)
    data = [(RAW[0].tolist(), "no", 0)]
    ((before, _),) = counts_of(watched, draws, model, data)
    flipped = 0
    for extra in range(1, 3):
        more = data + [(RAW[0].tolist(), "yes", 0)] * extra
        ((after, mechanism),) = counts_of(watched, draws, model, more)
        flipped = max(flipped, ref.cost(mechanism.released, after - before))
        before = after
    assert flipped == 2 == watched[-1].measurement.sensitivity


@pytest.mark.by_day(2)
@pytest.mark.parametrize("template", ["pidentity", "workload"])
@pytest.mark.parametrize(
    "name", ["batch training", "batch prediction", "subsample weight"]
)
def test_sensitivity_of_other_strategies_is_the_maximum_over_records(
    name, template, watched, draws, monkeypatch
):
    rf_cases.remember(monkeypatch)
    model = rf_cases.classifier(name, n_trees=3, template=template)
    data = random_data(10)
    more = [[*data, (*own, tree)] for tree in range(3) for own in EVERY_CELL]
    largest = largest_change(watched, draws, model, data, more)
    assert largest == watched[-1].measurement.sensitivity


@pytest.mark.parametrize("removed", [0, 12, 24], ids=["first", "middle", "last"])
@ALL
def test_removing_a_record_moves_no_other(name, removed, watched, draws):
    """The assignment travels with the record: every other keeps its tree."""
    model = rf_cases.classifier(name, n_trees=6)
    data = random_data(25)
    ((before, mechanism),) = counts_of(watched, draws, model, data)
    draws[:] = []
    forest = model.fit([], []).ensembles_[0].forest
    fewer = data[:removed] + data[removed + 1 :]
    ((after, _),) = counts_of(watched, draws, model, fewer)
    check_change(name, before, after, mechanism, forest)
    if name not in ("laplace shared", "subsample hard"):
        assert before.sum() - after.sum() == 1
    shuffled = [data[i] for i in np.random.default_rng(0).permutation(len(data))]
    ((same, _),) = counts_of(watched, draws, model, shuffled)
    np.testing.assert_array_equal(same, before)


@ALL
def test_every_replacement_of_a_record_is_within_the_sensitivity(name, watched, draws):
    """The new record may fall to another tree than the old one did."""
    model = rf_cases.classifier(name, n_trees=2, neighbours="replace")
    data, others = random_data(8), itertools.product([7], (0, 1), EVERY_CELL)
    replaced = [[*data[:i], (*own, tree), *data[i + 1 :]] for i, tree, own in others]
    largest = largest_change(watched, draws, model, data, replaced)
    claimed = watched[-1].measurement.sensitivity
    assert largest <= claimed
    if name != "subsample hard":
        assert largest == claimed


# ------------------------------------------------------------------- the assignment
@pytest.mark.parametrize("name", rf_cases.ASSIGNING)
def test_the_assignment_comes_from_the_system_and_one_draw_per_record(name, watch_all):
    """One word for each, also where the noise comes from a generator."""
    asked = []

    def note(draw, sample):
        if draw.kind != "assignment":
            return sample()
        sizes = []

        def entropy(size):
            sizes.append(size)
            return bytes(range(1, size + 1))

        with system_entropy(entropy):
            outcome = sample()
        asked.append((draw.exact, draw.public["n_parts"], sum(sizes) // 8))
        return outcome

    watch_all(note)
    model = rf_cases.classifier(name, n_trees=5, n_ensembles=2, insecure_rng=0)
    for n_records in (0, 1, 7, 31):
        asked.clear()
        with pytest.warns(PrivacyLeakWarning, match="insecure_rng"):
            rf_cases.release(model, *rf_cases.records(n_records))
        # The bound is the number of trees alone.
        assert asked == [(n_records, 3, n_records), (n_records, 2, n_records)]


@pytest.mark.statistical
def test_the_assignment_is_uniform_and_independent():
    """Counts of trees and of pairs of neighbours, 7 standard errors: < 1e-10."""
    trees = assign_records(60_000, 3)
    for counts in (
        np.bincount(trees, minlength=3),
        np.bincount(3 * trees[::2] + trees[1::2], minlength=9),
    ):
        p = 1 / counts.size
        deviation = math.sqrt(counts.sum() * p * (1 - p))
        assert np.abs(counts - counts.sum() * p).max() < 7 * deviation


# ------------------------------------------------------------- the noise and its price
@pytest.mark.by_day(4)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("n_ensembles", [1, 3])
@ALL
def test_scale_of_the_noise(name, n_ensembles, neighbours, monkeypatch, watch_all):
    scales = rf_cases.silence(watch_all)
    seen = rf_cases.watch(monkeypatch)
    X, y = rf_cases.records(30)
    model = rf_cases.classifier(
        name, epsilon="0.7", n_trees=9, n_ensembles=n_ensembles, neighbours=neighbours
    )
    if "template" in model.get_params():
        rf_cases.remember(monkeypatch)
        model.set_params(template="pidentity")
    fitted = rf_cases.release(model, X, y)
    share = Fraction(7, 10) / n_ensembles
    contributions = {"subsample hard": 2, "laplace shared": 9 // n_ensembles}
    size = contributions.get(name, 1) * (2 if neighbours == "replace" else 1)
    rows = [np.abs(one.mechanism.released.form.to_dense()) for one in seen]
    expected = [size * int(own.sum(axis=0).max()) / share for own in rows]
    assert scales == expected
    assert [entry.cost for entry in fitted.releases_] == [share] * n_ensembles
    assert [entry.cost for entry in fitted.ledger_.entries] == [share] * n_ensembles
    assert fitted.ledger_.spent == Fraction(7, 10)
    assert fitted.ledger_.remaining == 0
    for entry, scale in zip(fitted.releases_, scales, strict=True):
        assert scale == Fraction(entry.sensitivity) / entry.cost


@pytest.mark.parametrize("name", rf_cases.PER_BATCH)
def test_later_parameters_cannot_thin_the_noise(name, watch_all):
    """What was counted at fit decides: "hard" labels need twice the noise."""
    X, y = rf_cases.records(30)
    scales = rf_cases.silence(watch_all)
    untouched = rf_cases.classifier(name, neighbours="replace").fit(X, y)
    untouched.predict(RAW)
    tampered = rf_cases.classifier(name, neighbours="replace").fit(X, y)
    thinner = {"voting": "weight", "neighbours": "add_remove", "epsilon": 100}
    tampered.set_params(**thinner, n_trees=1, n_ensembles=3, ledger=PrivacyLedger(1000))
    tampered.predict(RAW)
    assert scales[1] == scales[0] == (4 if name == "subsample hard" else 2)
    assert tampered.ledger_.remaining == 0


# ------------------------------------------------------------------------ the audit
def audited_epsilon(model, alpha):
    """A lower confidence bound on epsilon from noisy counts of two neighbours.

    The event is that the count of a leaf is at least 1, with and without the one
    record in it: P(X >= 0) = exp(epsilon) P(X >= 1) for discrete Laplace noise of
    scale 1 / epsilon. Clopper-Pearson bounds, each at alpha / 2. All 12 leaves of a fit
    have a record each, or none has.
    """
    n = 50 * 12
    present, without = (
        sum((model.fit(*data).leaf_counts_[0][:, 0] >= 1).sum() for _ in range(50))
        for data in ((RAW, ["no"] * 12), ([], []))
    )
    at_least = beta.ppf(alpha / 2, present, n - present + 1)
    at_most = beta.ppf(1 - alpha / 2, without + 1, n - without)
    return math.log(at_least / at_most)


@pytest.mark.by_day(1)
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["batch training", "laplace disjoint"])
def test_audit_of_leaf_counts(name, monkeypatch, watch_all):
    """False alarm at most 1e-6; a mutant with half the noise must be caught.

    The mutant's true epsilon is 2, its bound about 1.45 with a standard error of
    0.09, so that it escapes less than once in 10 ** 6 runs.
    """
    rf_cases.remember(monkeypatch)
    model = rf_cases.classifier(name, n_trees=1, depth=3, epsilon=1)
    assert audited_epsilon(model, 1e-6) <= 1
    watch_all(rf_cases.half_the_noise)
    assert audited_epsilon(model, 1e-6) > 1


# ---- encoders and scalers upstream ---------------------------------------------------

COLOURS = ("colour_red", "colour_green", "colour_blue")


def of_columns(*names, categories=("0", "1")):
    return Schema([Attribute.categorical(name, categories) for name in names], [0, 1])


SCALED = Attribute.numeric("minmaxscaler__age", lower=0, upper=1)


@pytest.mark.parametrize(
    ("warned", "schema"),
    [
        (True, of_columns("size", *COLOURS)),
        (True, of_columns(*COLOURS, categories=(0.0, 1.0))),
        (True, of_columns(*COLOURS, categories=(False, True))),
        (True, of_columns("onehotencoder__size_small")),
        (True, Schema([SCALED], [0, 1])),
        (False, of_columns("size", *COLOURS[:2])),
        (False, of_columns(*COLOURS, categories=("no", "yes"))),
        (False, of_columns("a", "b", "c", "d")),
        (False, of_columns("_a", "_b", "_c")),
        (False, of_columns("my__age")),
    ],
)
def test_columns_of_an_encoder_are_warned_of(schema, warned):
    """By the schema alone, of no records at all."""
    model = PrivateForestClassifier(schema, epsilon=1, n_records=9)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(np.empty((0, schema.n_features)), [])
    words = "an encoder or a scaler had made"
    assert [words in str(w.message) for w in said] == [True] * warned
