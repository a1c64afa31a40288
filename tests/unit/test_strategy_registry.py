"""The registry of templates: what it takes to add one, and what "auto" does with it.

`LEVELS` is the template of the page ``adding_a_strategy_template.md``; tests that use
it register it and take it out again.
"""

import functools
import importlib
import io
import re
import time
import warnings
from contextlib import redirect_stderr

import numpy as np
import pytest
import reference as ref
from maintainer_pages import code_of

import mmech as mm
from mmech.error.result import StrategyResult
from mmech.strategies import registry
from mmech.strategies.registry import PRIVACY, Template, register, templates
from mmech_rf import grow_random_forest, training_workload

NORMS = ("L1", "L2")
COSTS = {"L1": "epsilon", "L2": "rho"}
each_norm = pytest.mark.parametrize("norm", NORMS)


PAGE = code_of("adding_a_strategy_template")
LEVELS, levels_strategy = PAGE.LEVELS, PAGE.levels_strategy


@pytest.fixture
def registered(monkeypatch):
    """Register templates that are taken out again after the test."""
    registry._load()
    monkeypatch.setattr(registry, "_registry", registry._registry.copy())
    return register


def notes(result):
    return {found.template: found.note for found in result.candidates}


@each_norm
def test_a_registered_template_is_found_and_tried(norm, registered):
    privacy = PRIVACY[norm]
    workload = mm.Prefix(8)
    with pytest.raises(ValueError, match=f"under {norm} .*got 'levels'"):
        mm.optimize(workload, template="levels", privacy=privacy)
    registered(LEVELS)
    seen = []
    result = mm.optimize(
        workload,
        template="levels",
        privacy=privacy,
        seed=3,
        callback=seen.append,
        weight=2,
    )
    assert result.norm == norm
    assert result.message == "seed 3"
    assert result.strategy.blocks[1].weight == 2
    assert [intermediate.norm for intermediate in seen] == [norm]
    assert seen[0].workload is workload
    assert notes(mm.optimize(workload, privacy=privacy, seed=0))["levels"] == ""
    skipped = mm.optimize(mm.Prefix(17), privacy=privacy, seed=0)
    (levels,) = [c for c in skipped.candidates if c.template == "levels"]
    assert (levels.note, levels.loss) == ("more than 16 cells", 17.0)


@each_norm
def test_templates_are_walked_by_rank_and_differ(norm, registered):
    ranks = [template.rank for template in templates(norm)]
    assert ranks == sorted(set(ranks))
    registered(LEVELS)
    assert [template.name for template in templates(norm)][1] == "levels"
    for name, rank in (("levels", 16), ("others", 15)):
        with pytest.raises(ValueError, match="must differ in name and rank"):
            register(Template(name, levels_strategy, rank, (norm,)))


@each_norm
def test_a_look_may_end_the_walk(norm, registered):
    def settled(workload, found):
        return levels_strategy(workload, norm=found.norm)

    registered(Template("levels", levels_strategy, 1, (norm,), settled))
    result = mm.optimize(mm.Prefix(8), privacy=PRIVACY[norm], seed=0)
    assert result.template == "levels"
    others = {name: note for name, note in notes(result).items() if name != "levels"}
    assert set(others.values()) == {"seed None"}


@each_norm
def test_auto_notes_a_template_that_fails(norm, registered):
    def broken(workload):
        raise mm.UnsupportedWorkloadError("too close to dependent")

    registered(Template("levels", broken, 15, (norm,)))
    workload = mm.Dense(np.random.default_rng(0).random((3, 8)))
    result = mm.optimize(workload, privacy=PRIVACY[norm], seed=0)
    assert notes(result)["levels"] == "failed: too close to dependent"


@each_norm
def test_of_equal_losses_the_lower_rank_wins(norm, registered):
    def cells(workload, *, norm="L1"):
        strategy = mm.Identity(workload.shape[1])
        value = mm.loss(workload, strategy, privacy=PRIVACY[norm])
        return StrategyResult(strategy, "cells", value)

    registered(Template("cells", cells, 1, NORMS))
    workload = mm.Dense(np.eye(5))
    assert mm.optimize(workload, privacy=PRIVACY[norm], seed=0).template == "cells"


UNION = mm.VStack(
    [
        mm.Kronecker([mm.Prefix(8), mm.Identity(6)]),
        mm.Kronecker([mm.Identity(8), mm.AllRange(6)]),
    ]
)


RANGES = mm.VStack(
    [
        mm.Kronecker([mm.AllRange(32), mm.Identity(3)]),
        mm.Kronecker([mm.AllRange(32), mm.Total(3)]),
    ]
)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("template", "workload", "norm"),
    [
        ("pidentity", mm.Prefix(24), "L1"),
        ("pidentity", mm.Prefix(24), "L2"),
        ("kronecker", RANGES, "L1"),
    ],
)
def test_seeds_decide_the_starts(template, workload, norm):
    def strategy(seed):
        result = mm.optimize(
            workload, template=template, privacy=PRIVACY[norm], seed=seed, max_iter=3
        )
        return result.strategy.to_dense()

    first, rng = strategy(1), np.random.default_rng(1)
    np.testing.assert_array_equal(strategy(1), first)
    assert not np.array_equal(strategy(2), first)
    np.testing.assert_array_equal(strategy(rng), first)
    assert not np.array_equal(strategy(rng), first)
    assert not np.array_equal(strategy(None), strategy(None))


TABLES = mm.all_marginals((3, 4, 5), 2, lower_orders=True)
ASKED = {
    "nested": mm.Suffix(144),
    "marginals": TABLES,
    "residuals": TABLES,
    "equal_totals": mm.all_marginals((3, 3), 1),
    "kronecker": UNION,
    "union": UNION,
    "circulant": mm.Circulant([2, 1, 0, 0, 1]),
}
"""Workloads of the templates that are not for prefix sums."""

SEARCHES = [(norm, found.name, None) for norm in NORMS for found in templates(norm)]
SEARCHES += [(norm, "auto", None) for norm in NORMS]
SEARCHES += [(norm, "kronecker", RANGES.blocks[0]) for norm in NORMS]


@pytest.mark.by_day(4)
@pytest.mark.parametrize(("norm", "template", "workload"), SEARCHES, ids=str)
def test_every_template_keeps_to_its_contract(norm, template, workload, rng, watch_all):
    """Losses are those of strategies; seed, callback and time limit are heeded."""
    workload = workload or ASKED.get(template, mm.Prefix(24))
    settings = {"template": template, "privacy": PRIVACY[norm]}
    search = functools.partial(mm.optimize, workload, **settings)
    seen, told = [], []
    result = search(seed=3, callback=seen.append)
    assert (result.norm, result.workload, result.success) == (norm, workload, True)
    wanted = ref.loss(workload.to_dense(), result.strategy.to_dense(), norm)
    if result.noise is None:
        assert result.loss == pytest.approx(wanted)
    losses = [own.loss for own in seen]
    assert losses == sorted(losses, reverse=True)
    assert all(loss >= result.loss * (1 - 1e-9) for loss in (*losses, *result.history))
    assert (np.diff(result.history) <= 1e-9 * result.loss).all()
    assert {own.norm for own in seen} <= {norm}
    assert search(seed=np.random.SeedSequence(3)).loss == result.loss
    stopped = search(seed=3, callback=lambda own: told.append(own) or True)
    assert len(told) == min(len(seen), 1)
    short = search(seed=3, budget_seconds=1e-9)
    assert not short.success
    assert short.message.startswith("stopped after 1e-09 s; ")
    assert short.n_iter <= max(result.n_iter, 1)
    for own in (result, stopped, short):
        assert own.loss == pytest.approx(mm.loss(workload, own, privacy=PRIVACY[norm]))
        assert own.loss >= result.loss * (1 - 1e-9)
    watch_all(lambda draw, sample: draw.exact)
    counts = rng.integers(0, 50, (workload.shape[1], 2))
    mechanism = mm.MatrixMechanism(workload, result, **{COSTS[norm]: 1})
    np.testing.assert_allclose(mechanism.answer(counts), workload @ counts, atol=1e-7)


STOPPED = [
    mm.Dense(np.random.default_rng(0).integers(0, 2, (30, 70))),
    mm.AllRange(20),
    mm.Marginals((3, 4, 2), {(0, 1): 1, (1, 2): 2}),
    UNION,
    training_workload(grow_random_forest((2, 3, 2, 2), 5, 1, seed=386)),
    pytest.param(
        training_workload(grow_random_forest((3, 3, 3, 3), 3, 2, seed=210)),
        marks=pytest.mark.slow,
    ),
]
"""Cells of these forests merge, and a search of marginals follows on all of them."""


class _Timed(registry._Run):
    """An optimization whose time is up after so many steps."""

    last = 0
    end = property(lambda own: -np.inf if own.steps > own.last else np.inf)
    end = end.setter(lambda own, value: None)


@each_norm
@pytest.mark.parametrize("workload", STOPPED, ids=str)
@pytest.mark.parametrize(
    "last", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 5, 30))]
)
def test_the_least_loss_is_returned_however_a_search_is_stopped(
    workload, norm, last, monkeypatch
):
    """A callback stops every search at its calls from one on, or time after steps."""
    options = {"L1": {"max_evaluations": 1000}, "L2": {}}[norm]
    search = functools.partial(
        mm.optimize, workload, privacy=PRIVACY[norm], seed=3, max_iter=60, **options
    )
    cells = mm.loss(workload, mm.Identity(workload.shape[1]), privacy=PRIVACY[norm])
    by_call, by_time = [cells], [cells]

    def stop(found):
        by_call.append(found.loss)
        return len(by_call) > last

    called = search(callback=stop)
    monkeypatch.setattr(registry, "_Run", _Timed)
    monkeypatch.setattr(_Timed, "last", last)
    timed = search(budget_seconds=1, callback=lambda found: by_time.append(found.loss))
    for result, told in ((called, by_call), (timed, by_time)):
        tried = [own.loss for own in result.candidates if not own.note]
        assert result.loss <= min(told + tried) * (1 + 1e-8)
        assert result.candidates[0].loss == pytest.approx(result.loss)
        own = mm.loss(workload, result, privacy=PRIVACY[norm])
        assert result.loss == pytest.approx(own)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (mm.Identity(9), "closed form; nothing better was found: tried hierarchy, pid"),
        (
            mm.all_marginals((2, 2), 1),
            "of .* cells; nothing better was found: tried marginals",
        ),
    ],
    ids=str,
)
def test_auto_says_of_the_cells_what_was_tried(workload, words):
    result = mm.optimize(workload, seed=0)
    assert result.template == "identity"
    assert re.search(words, result.message)
    assert mm.optimize(workload, template="identity").message == "closed form"


@pytest.mark.parametrize("far", [1.0, 2.0])
def test_an_answer_far_from_its_bound_warns_of_what_was_left_out(far, monkeypatch):
    module = importlib.import_module("mmech.strategies.optimize")
    monkeypatch.setattr(module, "FAR", far)
    with mm.limits.changed(dual_cells=8), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = mm.optimize(mm.Prefix(64), privacy="zcdp")
    assert notes(result)["dense"].startswith("too large: ")
    assert bool(seen) == (far == 1.0)
    for warning in seen:
        words = (
            r"'spectral' for Prefix\(64\).* a loss 1\.1 times .* 'dense' was left out"
        )
        assert re.search(words, str(warning.message))
        assert warning.category is mm.PerformanceWarning
        assert warning.filename == __file__


LONG_CIRCLE = mm.Circulant((np.arange(32_771) < 64).astype(int))
"""Filters over a prime number of cells."""


@pytest.mark.parametrize(
    ("workload", "privacy", "words", "loss"),
    [
        (LONG_CIRCLE, "pure", "'pidentity' was left", 64 * 32_771),
        (mm.Suffix(2**40), "zcdp", "without a lower bound", 2**39 * (2**40 + 1)),
    ],
)
def test_cells_warn_where_a_search_was_left_out(workload, privacy, words, loss):
    with pytest.warns(mm.PerformanceWarning, match=f"'identity'.* {words}"):
        result = mm.optimize(workload, privacy=privacy)
    assert (result.template, result.loss) == ("identity", loss)


@pytest.mark.parametrize(
    "workload",
    [
        mm.WidthRange(1500, 9),
        mm.Kronecker([mm.WidthRange(1500, 9), mm.Identity(2)]),
        mm.VStack([mm.WidthRange(1500, 9), mm.Identity(1500)]),
    ],
    ids=str,
)
def test_no_known_bound_is_no_warning(workload):
    """Nor is the largest column, which says little."""
    with mm.limits.changed(dual_cells=8, quick_spectrum_cells=0):
        result = mm.optimize(workload, privacy="zcdp")  # a warning would be an error
    assert result.template != "identity"
    assert result.bound_ratio > 2


@pytest.mark.slow
def test_trees_do_not_warn_and_memory_that_is_not_there_is_an_error_of_ours():
    mm.optimize(mm.Prefix(32_768))  # five times the bound, by a search
    huge = Template("huge", lambda workload: np.empty(2**59), 1)
    with pytest.raises(mm.DomainTooLargeError, match=r"memory than .* for Prefix\(4\)"):
        huge.search(mm.Prefix(4), registry.Request("L1"))


class Screen(io.StringIO):
    """What a person looks on."""

    def isatty(self):
        return True


def test_a_terminal_shows_the_template_and_its_steps(monkeypatch):
    at_once = functools.partial(mm.threads.showing, delay=0, pause=0)
    monkeypatch.setattr(registry, "showing", at_once)
    screen, words = Screen(), "a table, optimize: pidentity, "

    def wait(_):
        end = time.monotonic() + 60
        while words not in screen.getvalue() and time.monotonic() < end:
            time.sleep(0.001)

    with redirect_stderr(screen), mm.threads.showing(lambda: "a table", 0, 0):
        mm.optimize(mm.AllRange(8), template="pidentity", callback=wait)
    assert re.search(words + r"\d+ steps, \d+ s", screen.getvalue())
    assert screen.getvalue().endswith("\r")
