"""The private forest of drawn trees: what it costs, in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import rf_cases
from rf_cases import CELLS, SCHEMA, records

from mmech import PrivacyLeakWarning
from mmech.privacy.neighbours import Relation
from mmech_rf import DrawnSettings, PrivateForestClassifier
from mmech_rf.drawn.scores import SUMS
from mmech_rf.drawn.settings import Plan
from mmech_rf.drawn.trees import UNIT
from mmech_rf.drawn.views import GRID

pytestmark = pytest.mark.usefixtures("scores_of_few")

RAW = CELLS.astype(str)
MODES = {
    "one tree": {"n_records": 1},
    "votes": {"n_records": 1, "epsilon": 8},
    "scores": {"n_records": 1000},
    "noisy number": {},
    "several trees": {"n_records": 16_000},
}
ALL = pytest.mark.parametrize("mode", MODES)
RELATIONS = pytest.mark.parametrize("neighbours", ["add_remove", "replace"])


def make(mode, **parameters):
    settings = {"schema": SCHEMA, "epsilon": 1}
    return PrivateForestClassifier(**(settings | MODES[mode] | parameters))


@pytest.fixture
def watched(watch_all):
    """What is public of every tree."""
    trees = []

    def note(draw, sample):
        if draw.kind == "tree":
            trees.append(draw.public)
        return sample()

    watch_all(note)
    return trees


@ALL
def test_the_order_of_records_does_not_matter(mode):
    X, y = records(40)
    order = np.random.default_rng(1).permutation(40)
    found = set()
    for own in (np.arange(40), order):
        model = make(mode, insecure_rng=7)
        with pytest.warns(PrivacyLeakWarning, match="insecure_rng"):
            model.fit(X[own], y[own])
        found.add((model.describe(n_trees=99), model.predict_proba(RAW).tobytes()))
    assert len(found) == 1


# ----------------------------------------------------------------------- its price
@RELATIONS
@ALL
def test_price_rate_and_noise(mode, neighbours, watched, watch_all):
    scales = rf_cases.silence(watch_all)
    epsilon = Fraction(7, 10) * MODES[mode].get("epsilon", 1)
    n_records = {"n_records": 24_000} if mode == "several trees" else {}
    model = make(mode, epsilon=epsilon, neighbours=neighbours, **n_records)
    model.fit(*records(30))
    choice = model.choice_
    left = epsilon if choice.stated else Fraction(97, 100) * epsilon
    plan = Plan.of(choice.n_records, left, 3, 3)
    assert choice.rounds == plan.rounds
    assert (plan.rounds > 0) == (mode == "several trees")
    assert (plan.votes > 1) == (mode == "votes")
    assert choice.n_trees == plan.votes + plan.rounds
    releases = (not choice.stated) + bool(plan.scores) + 2 * choice.n_trees
    assert len(model.releases_) == releases
    relation = 2 if neighbours == "replace" else 1
    assert sum(entry.cost for entry in model.releases_) == epsilon
    assert model.ledger_.entries == model.releases_
    assert model.ledger_.remaining == 0
    drawn = [e for e in model.releases_ if e.released.startswith("tree")]
    summed = [e for e in model.releases_ if e.released == SUMS]
    assert [e.cost for e in summed] == [left * plan.scores] * bool(plan.scores)
    assert [e.sensitivity for e in summed] == [relation * GRID] * len(summed)
    counted = [e for e in model.releases_ if e not in drawn]
    assert [tree["epsilon"] for tree in watched] == [e.cost for e in drawn]
    for tree in watched:
        assert tree["relation"].neighbours == neighbours
        rate = tree["rate"] * tree["unit"] * relation
        assert 0.999 < rate / tree["epsilon"] <= 1
    assert scales == [Fraction(e.sensitivity) / e.cost for e in counted]
    units = {1, UNIT} if plan.rounds else {1}
    sizes = {e.sensitivity for e in counted if e not in summed}
    assert sizes == {relation * unit for unit in units}


@pytest.mark.by_day(3)
@RELATIONS
@pytest.mark.parametrize("mode", MODES)
def test_records_of_one_person_are_paid_for_together(mode, neighbours, watch_all):
    """Noise twice as large, and draws at half the rate."""
    rates, scales, statements = [], [], []
    given = MODES[mode]

    def note(draw, sample):
        if draw.kind == "tree":
            rates.append(draw.public["rate"] * draw.public["unit"])
        elif "parameters" in draw.public:
            scales.extend(draw.public["parameters"])
            return draw.exact.copy()
        return sample()

    watch_all(note)
    for size in (1, 2):
        # Trees are planned by the number of records of so many persons.
        stated = {"epsilon": 1} | given
        if "n_records" in given:
            stated["n_records"] *= size
        persons = {"neighbours": neighbours, "records_per_person": size}
        model = PrivateForestClassifier(SCHEMA, **stated, **persons)
        statements.append(model.fit(*records(40)).privacy_statement_)
        assert model.ledger_.relation == Relation(neighbours, size)
    half = len(scales) // 2
    assert half
    assert scales[half:] == [2 * scale for scale in scales[:half]]
    half = len(rates) // 2
    for one, two in zip(rates[:half], rates[half:], strict=True):
        assert float(two) == pytest.approx(float(one) / 2, rel=1e-4)
    assert "one record." in statements[0]
    assert "one person with up to 2 records." in statements[1]


@ALL
def test_the_statement_tells_draws_from_counts(mode):
    model = make(mode).fit(*records(20))
    lines = model.privacy_statement_.splitlines()[1:-3]
    assert len(lines) == len(model.releases_)
    for line, entry in zip(lines, model.releases_, strict=True):
        drawn = entry.released.startswith("tree")
        summed = entry.released == SUMS
        assert ("exponential mechanism, score of sensitivity 1" in line) == drawn
        assert ("exact noise shaped like this norm" in line) == summed
        assert (f"sensitivity {GRID} in the largest norm" in line) == summed
        assert ("exact discrete Laplace noise" in line) != (drawn or summed)
    # The trees depend on records, through what was paid for.
    assert "forests" not in model.privacy_statement_
    assert "all the rest follows from the releases" in model.privacy_statement_


# ------------------------------------------------------------------- large and small
LITTLE = {"epsilon": "1/4000", "n_records": 10**13}
MANY = {"epsilon": 10**15, "records_per_person": 10**9}
EXTREMES = [
    LITTLE | {"records_per_person": 10},
    LITTLE | {"neighbours": "replace"},
    # Each of the records of a person has a part of epsilon.
    MANY | {"n_records": 1},
    MANY | {"n_records": 10**13},
] + [
    {"epsilon": epsilon, "n_records": 10**12, "settings": settings}
    for epsilon in ("1e-5", "5e-5", "2e-4", "1e-3")
    for settings in (None, DrawnSettings.for_ranking())
]


@pytest.mark.parametrize("settings", EXTREMES, ids=str)
def test_extremes_of_public_numbers_pay_for_the_whole_fit(settings):
    model = PrivateForestClassifier(SCHEMA, **settings)
    assert model.fit(*records(20)).ledger_.remaining == 0
