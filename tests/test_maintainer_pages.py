"""The pages for maintainers are right: their code makes what they say, as a plug-in."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
from maintainer_pages import PAGES, code_of, law_of_the_page

import mmech as mm
from mmech import lazy
from mmech.audit import epsilon_lower_bound
from mmech.integer_strategy import integer_strategy
from mmech.noise import LAWS
from mmech.strategies import registry
from mmech.strategies.registry import Template
from mmech.tables.intervals import Intervals
from mmech.testing import assert_query_matrix
from mmech_rf import load_model, methods
from mmech_rf.datasets import load_car


def test_what_the_pages_name_is_in_the_file_that_they_say():
    said = []
    for page in [*PAGES.glob("*.md"), PAGES.parent / "architecture.md"]:
        text = " ".join(page.read_text(encoding="utf-8").split())
        said += re.findall(r"`([\w.]+)` (?:of|in) `((?:\w+/)+\w+\.\w+)`", text)
    assert len(said) > 15
    root = PAGES.parents[1]
    for name, path in said:
        homes = [root / path, root / "mmech_rf" / path]
        (text,) = (home.read_text("utf-8") for home in homes if home.exists())
        assert re.search(rf"\b{name.split('.')[-1]}\b", text), (name, path)


# ------------------------------------------------------------------ an operator


@pytest.fixture(scope="module")
def band():
    return code_of("adding_an_operator").Band


@pytest.mark.parametrize("weights", [[2, 1], [0.5, 0, -1.5], [0, 3], [1]], ids=str)
def test_the_operator_conforms(band, weights):
    n = 5
    dense = sum(w * np.eye(n, k=-lag) for lag, w in enumerate(weights))
    dense = dense.astype(np.asarray(weights).dtype)
    assert_query_matrix(band(n, weights), dense)
    with pytest.raises(ValueError, match=r"must be 1 to n = 2 numbers, got 3"):
        band(2, [1, 2, 3])


def test_the_operator_is_measured_and_optimized(band):
    workload = band(6, [3, 2, 1])
    dense = workload.to_dense()
    released = integer_strategy(workload)
    assert released.form is workload  # its rules are trusted: no matrix is listed
    assert released.sensitivity == 6
    assert mm.loss(workload, workload) == pytest.approx(36 * 6)
    both = mm.Kronecker([workload, mm.Total(2)])
    assert mm.loss(both, both) == pytest.approx(
        ref.loss(both.to_dense(), both.to_dense())
    )
    long = band(40, np.ones(20, int))
    found = mm.optimize(long, seed=0)
    assert found.loss < 0.9 * mm.loss(long, mm.Identity(40))
    assert found.loss == pytest.approx(
        ref.loss(long.to_dense(), found.strategy.to_dense())
    )
    counts = [4, 0, 9, 1, 2, 7]
    answers = mm.MatrixMechanism(workload, workload, epsilon=1e6).answer(counts)
    np.testing.assert_allclose(answers, dense @ counts, atol=0.01)


def test_a_family_is_loaded_by_its_line_in_the_list_alone(monkeypatch):
    page = (PAGES / "adding_an_operator.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^```pyi\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    home, name = re.fullmatch(r"from (\S+) import (\w+) as \w+\n", line).groups()
    assert home == "mmech.families.band"
    assert "`band.py` there" in page
    made = code_of("adding_an_operator", home)
    made.TEMPLATE = Template("band", lambda workload: None, 1000)
    registry._load()
    monkeypatch.setattr(registry, "_registry", registry._registry.copy())
    monkeypatch.setitem(lazy._homes("mmech"), name, home)
    lazy.load_families.cache_clear()
    registry._load.cache_clear()
    try:
        assert made in lazy.load_families()
        assert registry.find("band", "L1") is made.TEMPLATE
    finally:
        lazy.load_families.cache_clear()
    workload, strategy = made.Band(5, [3, 2, 1]), made.Band(5, [2, -1])
    wanted = ref.per_query_loss(workload.to_dense(), strategy.to_dense())
    found = mm.per_query_error(workload, strategy, epsilon=1) / 2
    np.testing.assert_allclose(found, wanted)


# ------------------------------------------------------------------ a law of noise


@pytest.fixture
def two_servers(monkeypatch):
    law = law_of_the_page()
    monkeypatch.setitem(LAWS, law.name, law)
    return law


@pytest.mark.statistical
def test_the_law_is_audited(two_servers):
    """At a false alarm of 1e-6."""
    mechanism = mm.MatrixMechanism(
        mm.Total(2), mm.Identity(2), epsilon=1, noise=two_servers.name
    )
    assert mechanism.expected_error() == pytest.approx(2 * two_servers.variance(1))

    def release(counts, runs):
        return mechanism.measure(np.tile(np.array(counts)[:, None], (1, runs))).values.T

    settings = {"runs": 20_000, "confidence": 1 - 1e-6}
    clipped = {"statistic": lambda values: np.clip(values[:, 0], 1, 6)}
    found = epsilon_lower_bound(release, [3, 3], [4, 3], **settings, **clipped)
    assert not found.refutes(1)
    assert found.refutes(0.2)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), 3])
def test_tables_under_a_law_that_nobody_wrote_have_right_intervals(
    two_servers, epsilon, rng, monkeypatch
):
    """By 10,000 releases: within six standard errors of the level, 1e-9 below.

    The law is the sum of a random number of noises of the page.
    """
    n = int(rng.integers(2, 9))
    made = replace(
        two_servers,
        draw=lambda *of, **by: sum(two_servers.draw(*of, **by) for _ in range(n)),
        variance=lambda scale: n * two_servers.variance(scale),
        characteristic=lambda *of: two_servers.characteristic(*of) ** n,
    )
    monkeypatch.setitem(LAWS, made.name, made)
    sizes, runs = (3, 4), 10_000
    workload = mm.Marginals(sizes, {(0,): 1, (1,): 2, (0, 1): 1})
    mechanism = mm.MatrixMechanism(
        workload, workload, epsilon=epsilon, noise=two_servers.name
    )
    assert mechanism.law is made
    known = Intervals([mechanism])
    estimate = known.estimate(mechanism.measure(np.zeros((12, runs), int)).values)
    for subset in [(0,), (1,), (0, 1)]:
        errors = np.asarray(estimate.marginal(subset))[0]
        law = known.law(subset)
        squares = np.square(errors)
        assert abs(squares.mean() - law.standard_error**2) < ref.margin(squares)
        for level in (0.9, 0.95):
            half = law.half_width(level)
            held = (np.abs(errors) <= half + 1e-9).mean()
            slack = 6 * np.sqrt(level * (1 - level) / runs)
            assert held > level - slack
            if law.standard_error > 5:
                assert held < level + slack + 0.5 / law.standard_error


# ------------------------------------------------------------------ a classifier


@pytest.fixture
def frequent(monkeypatch):
    home = "mmech_rf.estimator.frequent_class"
    made = code_of("adding_a_classifier", home).FrequentClassClassifier
    row = methods.Method(
        "frequent-class", made.__name__, "private.frequent_class", "frequent class",
        "class counts", "the most frequent class", ("#E7298A", "h", "-"), "fit",
    )  # fmt: skip
    monkeypatch.setattr(methods, "METHODS", {**methods.METHODS, row.name: row})
    return made


def test_the_classifier_is_private_and_travels(frequent, tmp_path):
    car = load_car()
    ledger = mm.PrivacyLedger(2)
    model = frequent(car.schema, epsilon=1, ledger=ledger).fit(car.data, car.target)
    assert ledger.spent == 1
    assert [entry.released.split(" measured")[0] for entry in model.releases_] == [
        "number of records",
        "class counts",
    ]
    assert (model.predict(car.data[:5]) == "unacc").all()
    assert "class counts" in model.privacy_statement_
    model.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert (loaded.predict(car.data[:5]) == "unacc").all()
