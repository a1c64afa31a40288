"""The Markdown report: every number beside the published one, with its spread."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduction import _plots
from benchmarks.reproduction._published import (
    TABLE_2_PUBLISHED,
    Published,
    best_of_grid,
    published,
    twice_published,
)
from benchmarks.reproduction._seconds import (
    AUTHORS,
    LAPTOP,
    RERUN,
    TABLE_1,
    TIMED_METHODS,
    TIMED_SETS,
    Timed,
    timed_setting,
)
from benchmarks.reproduction._settings import (
    BASELINES,
    GATE,
    GRID,
    GRID_DEPTHS,
    GRID_TREES,
    METHODS,
    OPTIMIZED,
    PANELS,
    POINTS,
    PROBLEMS,
    READ_AS_PRINTED,
    TABLE_2,
    TIED,
    Panel,
    Point,
    Setting,
    Task,
    figure_setting,
    gate_setting,
    records_of,
    table_2_settings,
)
from benchmarks.reproduction._trials import Found, split_of
from benchmarks.results import markdown_table

Results = dict[str, list[Found]]


# ---- statistics ------------------------------------------------------------------


@dataclass(frozen=True)
class Accuracy:
    """Accuracies of one setting and budget, over forests and draws of the noise.

    Attributes
    ----------
    std : float
        Spread of single runs, over forests and noise.
    std_error : float
        Standard error of the mean; 0 where there is one forest.
    forest_std, noise_std : float
        Spread between forests less what the noise puts there, and within a forest.
    worst, best : float
        Means of two forests; NaN where they were not kept.
    tied : float
        Share of the queries with several most voted classes, see `Found`.
    measures : str
        What was measured.
    """

    mean: float
    std: float
    std_error: float
    forest_std: float
    noise_std: float
    worst: float
    best: float
    tied: float
    measures: str
    forests: int
    draws: int

    @classmethod
    def of(
        cls,
        by_forest: Iterable[Sequence[float]],
        tied: float = math.nan,
        what: str = "",
    ) -> Accuracy:
        """Return the statistics of accuracies, by forest and draw of the noise."""
        own = [list(accuracies) for accuracies in by_forest]
        draws = min(map(len, own))
        means = [statistics.fmean(accuracies) for accuracies in own]
        runs = [value for accuracies in own for value in accuracies]
        noise = 0.0
        if draws > 1:
            noise = statistics.fmean(map(statistics.variance, own))
        between = statistics.variance(means) if len(own) > 1 else 0.0
        return cls(
            statistics.fmean(means),
            statistics.stdev(runs) if len(runs) > 1 else 0.0,
            math.sqrt(between / len(own)),
            math.sqrt(max(0.0, between - noise / draws)),
            math.sqrt(noise),
            min(means),
            max(means),
            tied,
            what,
            len(own),
            draws,
        )


Place = tuple[Setting, float]
"""A setting and a budget."""


class Table:
    """Results by setting and budget."""

    def __init__(self, found: Mapping[Place, Accuracy]) -> None:
        self.found = dict(found)

    @property
    def forests(self) -> dict[Place, int]:
        return {place: own.forests for place, own in self.found.items()}

    def add(self, tasks: Iterable[Task], results: Results) -> None:
        """Add what the trials of some tasks came to."""
        rows: dict[Place, list[list[Found]]] = {}
        for task in tasks:
            there = results.get(task.key, [])
            for epsilon in {row.epsilon for row in there}:
                own = [row for row in there if row.epsilon == epsilon]
                rows.setdefault((task.setting, epsilon), []).append(own)
        for place, forests in rows.items():
            if len(forests) <= self.forests.get(place, 0):
                continue
            self.found[place] = Accuracy.of(
                [[row.accuracy for row in own] for own in forests],
                statistics.fmean(row.tied for own in forests for row in own),
                " or ".join(sorted({row.template for own in forests for row in own})),
            )

    def get(self, setting: Setting, epsilon: float) -> Accuracy | None:
        return self.found.get((setting, epsilon))

    def templates(self, setting: Setting) -> str:
        """Return what was measured, over all budgets."""
        own = [a.measures for (other, _), a in self.found.items() if other == setting]
        names = {name for measures in own for name in measures.split(" or ")}
        return " or ".join(sorted(filter(None, names)))


def _cell(found: Accuracy | None) -> str:
    return "-" if found is None else f"{found.mean:.3f} ± {found.std:.3f}"


def _counted(found: Accuracy | None) -> tuple[str, str]:
    """Return a cell, and the number of its forests."""
    return _cell(found), "-" if found is None else str(found.forests)


def _mean(found: Accuracy) -> str:
    """Return the mean with its standard error, where `_cell` has the spread."""
    return f"{found.mean:.4f} ± {found.std_error:.4f}"


def _rows(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    return [*markdown_table(head, body, n_texts=1).splitlines(), ""]


# ---- the gate --------------------------------------------------------------------

AGREEMENT, RESAMPLES = 0.99, 1000


def verdict(found: Accuracy, target: float, published_noise: float) -> str:
    """Return "reached", "below", or "open" where other forests might say otherwise.

    A published mean, of one forest, is reached by a mean of ours that is at most two
    standard errors of the difference below it. As many forests are drawn again, with
    normal accuracies, `RESAMPLES` times; where fewer than a share of `AGREEMENT` of
    these come to the same, the verdict is open.
    """
    rng = np.random.default_rng(0)
    n = found.forests
    between = found.std_error**2 * n * rng.chisquare(n - 1, RESAMPLES) / (n - 1)
    means = found.mean + found.std_error * rng.standard_normal(RESAMPLES)
    forest = np.maximum(0.0, between - found.noise_std**2 / found.draws)
    errors = np.sqrt(between / n + forest + published_noise)
    reached = found.mean >= target - 2 * _error(found, published_noise)
    if np.mean((means >= target - 2 * errors) == reached) < AGREEMENT:
        return "open"
    return "reached" if reached else "**below**"


def _error(found: Accuracy, published_noise: float) -> float:
    """Return the standard error of the difference from a published mean.

    The published mean is of one forest under a few draws of the noise.
    """
    return math.sqrt(found.std_error**2 + found.forest_std**2 + published_noise)


def gate(table: Table) -> list[str]:
    """Return what was reached of the published means, and the rows behind it."""
    body, verdicts, tied = [], [], []
    for own in GATE:
        drawn = gate_setting(own)
        dataset, method, voting, epsilon, target = own
        rules = [drawn]
        if dataset in TIED and voting == "hard":
            rules.append(replace(drawn, ties="first"))
        for setting in rules:
            found = table.get(setting, epsilon)
            if found is None or found.forests < 2:
                continue
            row = published(drawn, epsilon)
            noise = found.noise_std**2 / 5
            if row is not None and not math.isnan(row.squared_error):
                noise = row.squared_error
            error = _error(found, noise)
            said = verdict(found, target, noise)
            named = METHODS[method]
            if len(rules) > 1:
                named += f", ties {'drawn' if setting is drawn else 'to the first'}"
                tied.append((dataset, epsilon, setting.ties, found, target, said))
            if setting is rules[-1]:
                verdicts.append(said)
            elsewhere = table.get(replace(setting, split="random"), epsilon)
            cells = [dataset, named, f"{epsilon:g}", f"{target:.3f}", *_counted(found)]
            cells += [f"{found.mean - target:+.3f}", f"{error:.3f}", said]
            body.append([*cells, *_counted(elsewhere)])
    if not body:
        return []
    head = ["data set", "method", "ε", "published", "measured, paper's split"]
    head += ["forests", "difference", "its std error", "verdict"]
    head += ["random splits", "forests"]
    return [
        f"{summary(verdicts)} Reached: the measured mean is at least the published "
        "one less two standard errors of the difference. These include the variance "
        "between forests once more, because the published mean is of one forest. "
        f"A verdict is open where fewer than {AGREEMENT:.0%} of {RESAMPLES} draws of "
        "as many forests, with normal accuracies, agree with it. Where a setting is "
        "there with both rules for ties, the authors' rule counts.",
        "",
        *_rows(head, body),
        *_of_ties(tied),
    ]


def summary(verdicts: Sequence[str]) -> str:
    """Return the sentence that the README repeats."""
    reached, open_ = verdicts.count("reached"), verdicts.count("open")
    return (
        f"**{reached} of {len(verdicts)}** published accuracies are reached; open: "
        f"{open_}, not reached: {len(verdicts) - reached - open_}."
    )


def _of_ties(
    found: Sequence[tuple[str, float, str, Accuracy, float, str]],
) -> list[str]:
    """Return what the rule for ties comes to, where both were run."""
    by_place: dict[tuple[str, float], dict[str, tuple[Accuracy, float, str]]] = {}
    for dataset, epsilon, rule, accuracy, target, said in found:
        by_place.setdefault((dataset, epsilon), {})[rule] = accuracy, target, said
    lines = []
    for (dataset, epsilon), rules in by_place.items():
        if len(rules) < 2:
            continue
        (drawn, target, before), (first, _, after) = rules["random"], rules["first"]
        lines.append(
            f"* {dataset}, ε = {epsilon:g}: {drawn.tied:.1%} of the hard votes tie. "
            f"Ties drawn: {_mean(drawn)}, {before.strip('*')}; ties to the first "
            f"class: {_mean(first)}, {after.strip('*')}; published {target:.3f}."
        )
    if not lines:
        return []
    return ["With an even number of trees, votes of two classes tie:", "", *lines, ""]


READINGS = {
    "dealt out": tuple(figure_setting("mushroom", method) for method in OPTIMIZED),
    "drawn": READ_AS_PRINTED,
}
"""Mushroom: every attribute in one ensemble; d̄ = 4 drawn for every ensemble."""


def mushroom(table: Table) -> list[str]:
    """Return what can be said of Mushroom, in both readings of Algorithm 3."""
    budgets = PROBLEMS["mushroom"].budgets
    head, body, lines = ["method", "ε", "published"], [], []
    for reading in READINGS:
        head += [f"{reading}: mean", "worst forest", "best forest"]
    for i, method in enumerate(OPTIMIZED):
        counts = {reading: [0, 0, 0] for reading in READINGS}
        for epsilon in budgets:
            row = published(READINGS["dealt out"][i], epsilon)
            assert row is not None
            cells = [METHODS[method], f"{epsilon:g}", f"{row.mean:.3f}"]
            for reading, settings in READINGS.items():
                found = table.get(settings[i], epsilon)
                if found is None:
                    return []
                near, covered, _ = counts[reading]
                near += _is_near(found, row)
                covered += found.best >= row.mean
                counts[reading] = [near, covered, found.forests]
                shown = (found.mean, found.worst, found.best)
                cells += [f"{value:.3f}" for value in shown]
            body.append(cells)
        lines += [
            f"* {METHODS[method].capitalize()}, attributes {reading}, {n} forests: "
            f"{near} of {len(budgets)} published means are within two standard errors. "
            f"{covered} of {len(budgets)} are at most the mean of the best forest."
            for reading, (near, covered, n) in counts.items()
        ]
    without = table.get(figure_setting("mushroom", "non-private"), 0.0)
    return [
        "Algorithm 3 draws d̄ attributes for every ensemble, and Figure 2 prints d̄ = 4. "
        "The code that wrote the result files deals the 22 attributes out, each to one "
        "ensemble; the code of today draws four. A published row is of one forest: one "
        "draw of the attributes decides all its budgets.",
        "",
        *_rows(head, body),
        *lines,
        f"* Without privacy, one ensemble of all attributes has {_cell(without)}.",
        "",
    ]


# ---- claims ----------------------------------------------------------------------

Pair = tuple[Setting, Setting, float]
"""Two settings that are compared, and the budget."""


def _widest(pairs: Sequence[Pair], mean_of: Any) -> str:
    """Return the largest gap between the settings of a pair, and where it is."""
    gaps = []
    for one, other, epsilon in pairs:
        means = mean_of(one, epsilon), mean_of(other, epsilon)
        if None not in means:
            where = f"{METHODS[one.method]}, on {one.dataset}, ε = {epsilon:g}"
            gaps.append((means[0] - means[1], where))
    gap, where = max(gaps)
    return f"{gap:+.3f} ({where})"


def claims(table: Table) -> list[str]:
    """Return a sentence for each claim of the abstract, and one for its baselines."""

    def measured_mean(setting: Setting, epsilon: float) -> float | None:
        found = table.get(setting, epsilon)
        return found.mean if found else None

    def published_mean(setting: Setting, epsilon: float) -> float | None:
        row = published(setting, epsilon)
        return None if row is None or row.reason else row.mean

    trained: list[Pair] = [
        (figure_setting(name, own), figure_setting(name, "laplace-shared"), epsilon)
        for name, problem in PROBLEMS.items()
        for epsilon in problem.budgets
        for own in OPTIMIZED
    ]
    asked: list[Pair] = [
        (setting, replace(setting, method="per-query-subsample"), epsilon)
        for panel in PANELS["4"]
        for points in panel.lines.values()
        for _, setting, epsilon in points
        if setting.method == "subsample"
    ]
    lines = []
    for claim, above, pairs in (
        ("up to 40 %", f"{METHODS['laplace-shared']} in Figure 2", trained),
        ("up to 50 %", f"{METHODS['per-query-subsample']} in Figure 4", asked),
    ):
        if not any(measured_mean(*pair[::2]) for pair in pairs):
            return []
        lines.append(
            f'* "{claim.capitalize()}" above {above}: at most '
            f"{_widest(pairs, measured_mean)} here, and "
            f"{_widest(pairs, published_mean)} in the published files."
        )
    ahead: dict[str, list[str]] = {}
    gaps = []
    for dataset, epsilon, ours, _, best in _against_grids(table):
        tuned = max(own[0] for own in best.values())
        gaps.append(tuned - ours.mean)
        if gaps[-1] > 0:
            ahead.setdefault(dataset, []).append(f"{epsilon:g}")
    if gaps:
        where = "; ".join(f"{name}, ε = {', '.join(e)}" for name, e in ahead.items())
        lines.append(
            f"* Baselines tuned in hindsight are ahead of batch training in "
            f"{sum(gap > 0 for gap in gaps)} of {len(gaps)} settings, by "
            f"{np.mean(gaps):+.3f} on average over all ({where})."
        )
    return [*lines, ""]


# ---- figures ---------------------------------------------------------------------


def _line(table: Table, label: str, points: Sequence[Point]) -> _plots.Line | None:
    """Return a line through points, where there are results."""
    xs, means, stds, known = [], [], [], []
    for x, setting, epsilon in points:
        found = table.get(setting, epsilon)
        if found is None:
            continue
        row = published(setting, epsilon)
        xs.append(x)
        means.append(found.mean)
        stds.append(found.std)
        known.append(math.nan if row is None or row.reason else row.mean)
    if not xs:
        return None
    faint = label.endswith("hard votes")
    return _plots.Line(points[0][1].method, label, xs, means, stds, known, faint)


def _panel_lines(table: Table, panel: Panel) -> list[_plots.Line]:
    lines = (_line(table, label, points) for label, points in panel.lines.items())
    return [line for line in lines if line is not None]


def _panel_table(table: Table, panel: Panel) -> list[str]:
    """Return methods by points, measured over published."""
    own = {k: v for k, v in panel.lines.items() if v[0][0]}
    symbol = panel.axis.split()[-1]
    head = ["method", "forests"]
    head += [f"{symbol} = {x:g}" for x, _, _ in next(iter(own.values()))]
    body = []
    reasons: dict[str, None] = {}
    for label, points in own.items():
        cells, forests = [], {0}
        for _, setting, epsilon in points:
            found, row = table.get(setting, epsilon), published(setting, epsilon)
            cell = _cell(found)
            forests.add(found.forests if found else 0)
            if row is not None:
                cell += f" ({row.mean:.3f}{'*' if row.reason else ''})"
            if row is not None and row.reason:
                reasons[row.reason] = None
            cells.append(cell)
        fewest, most = sorted({*forests} - {0} or {0})[0], max(forests)
        body.append(
            [label, str(most) if fewest == most else f"{fewest}-{most}", *cells]
        )
    lines = _rows(head, body)
    if reasons:
        lines += [f"\\* not to be compared: {'; '.join(reasons)}.", ""]
    return lines


REMARKS = {
    "3b": [
        "In the paper all of Car trains the forest, and queries are drawn from it. "
        "That is possible for a figure and not for anyone who wants privacy; queries "
        "of a batch are public. Here are both: all of Car, and test records."
    ],
    "A3": ["Adult is drawn by the authors' notebook, and not printed in the appendix."],
    "A4": ["As in Figure 3b, the forest is trained on all of Car in the appendix."],
}
"""What a reader must know about settings; findings are computed."""


def figure(name: str, table: Table, out: Path) -> list[str]:
    """Return picture and tables of a figure."""
    drawn = [(panel, _panel_lines(table, panel)) for panel in PANELS[name]]
    drawn = [(panel, lines) for panel, lines in drawn if lines]
    lines = [line for line in REMARKS.get(name, ()) if line]
    for dataset in dict.fromkeys(s.dataset for s, _ in POINTS[name]):
        if isinstance(records_of(dataset), str):
            lines.append(f"**{dataset}** was skipped: {records_of(dataset)}.")
    if not drawn:
        return lines
    picture = f"figure-{name}.png"
    panels = [(panel.title, panel.axis, found) for panel, found in drawn]
    _plots.draw(out / picture, panels)
    body = [f"![Figure {name}]({picture})", ""]
    for panel, _ in drawn:
        about = f"**{panel.title}.**"
        if name == "2":
            dataset = panel.title.split(":")[0]
            measures = table.templates(figure_setting(dataset, "batch-training"))
            without, trees = (
                table.get(figure_setting(dataset, method), 0.0)
                for method in ("non-private", "extra-trees")
            )
            known = published(figure_setting(dataset, "extra-trees"), 0.0)
            about += f" Batch training measures: {measures}. Without privacy,"
            about += f" hard votes: {_cell(without)}; Extra-Trees of any depth: "
            about += f"{_cell(trees)} ({known.mean:.3f})." if known else "-."
        body += [about, "", *_panel_table(table, panel)]
    return [*body, *(f"{line}\n" for line in lines)]


def table_2(table: Table, timed: Sequence[Timed]) -> list[str]:
    """Return Table 2 of the appendix: accuracies and seconds, one and two ensembles."""
    seconds = {one.setting: one.seconds["total"] for one in timed}
    body, notes = [], []
    for row in TABLE_2:
        method = row[0]
        epsilon = 0.0 if method == "non-private" else 1.0
        found = []
        for setting in table_2_settings(row):
            own = table.get(setting, epsilon)
            known = TABLE_2_PUBLISHED[method, setting.q]
            found.append((own, known))
            where = f"{METHODS[method]}, q = {setting.q}, d̄ = {setting.features or 6}, "
            where += f"τ = {setting.trees}, h = {setting.depth}"
            stages = AUTHORS.get((method, setting.q), {}).get(LAPTOP)
            theirs = f"{sum(stages.values()):.2f}" if stages else "-"
            took = f"{seconds[setting]:.4f}" if setting in seconds else "-"
            body.append([where, theirs, took, known.text, *_counted(own)])
        one, two = found[0][0], found[1][0]
        if one is not None and two is not None:
            notes.append(
                f"* {METHODS[method]}: two ensembles change the mean by "
                f"{two.mean - one.mean:+.3f}; the standard deviation between forests "
                f"is {two.forest_std:.3f}, against {one.forest_std:.3f} of one "
                f"ensemble; the best of {two.forests} forests has {two.best:.3f}, "
                f"published is {found[1][1].mean:.3f}."
            )
    if not notes:
        return []
    head = ["Car, ε = 1", "seconds, published", "processor time here"]
    head += ["accuracy, published", "here"]
    return [
        *_rows([*head, "forests"], body),
        "With q = 2 every ensemble sees four attributes drawn at random:",
        "",
        *notes,
        "",
        "† The published run spends 2ε. ‡ A copy of the row of q = 1.",
        "",
    ]


def _is_near(found: Accuracy, row: Published) -> bool:
    """Return whether a published mean is within two standard errors of ours."""
    error = _error(found, row.squared_error)
    return abs(found.mean - row.mean) <= 2 * error


# ---- where the gain comes from ----------------------------------------------------


Best = tuple[float, str]
"""The largest mean of a grid, and where it is."""


def _against_grids(
    table: Table,
) -> Iterator[tuple[str, float, Accuracy, dict[str, Accuracy], dict[str, Best]]]:
    """Yield batch training, the baselines on its forest, and the best of their grids.

    By data set and budget, where all of them were run.
    """
    for dataset in GRID:
        for epsilon in PROBLEMS[dataset].budgets:
            ours = table.get(figure_setting(dataset, "batch-training"), epsilon)
            same, best = {}, {}
            for method in BASELINES:
                own = table.get(figure_setting(dataset, method), epsilon)
                tuned = _best(table, dataset, method, epsilon)
                if own is not None and tuned is not None:
                    same[method], best[method] = own, tuned
            if ours is not None and len(same) == len(BASELINES):
                yield dataset, epsilon, ours, same, best


def baselines(table: Table) -> list[str]:
    """Return the optimized forests beside baselines tuned in hindsight."""
    head = ["data set", "ε", METHODS["batch-training"]]
    for method in BASELINES:
        head += [f"{METHODS[method]}, same τ, h", "best of grid", "best published"]
    body = []
    gains: dict[str, list[tuple[float, float]]] = {method: [] for method in BASELINES}
    for dataset, epsilon, ours, same, best in _against_grids(table):
        row = [dataset, f"{epsilon:g}", _cell(ours)]
        for method in BASELINES:
            gain = ours.mean - same[method].mean, ours.mean - best[method][0]
            gains[method].append(gain)
            known = best_of_grid(dataset, method, epsilon)
            row += [_cell(same[method]), _placed(best[method]), _placed(known)]
        body.append(row)
    if not body:
        return []
    lines = []
    for method, found in gains.items():
        same_forest, grid = np.mean(found, axis=0)
        ahead = sum(own > 0 for _, own in found)
        lines.append(
            f"* {METHODS[method]}: batch training, optimized, is on average "
            f"{same_forest:+.3f} from the same forest and {grid:+.3f} from the best of "
            f"the grid; it is ahead of the latter in {ahead} of {len(found)} settings."
        )
    return [
        "The baselines of the paper grow as many trees as the optimized forest, and "
        "every one of their leaves pays for that. Here they also grow few and shallow "
        "trees; the best of the grid is chosen by the test accuracies themselves, "
        "which flatters it.",
        "",
        *lines,
        "",
        *_rows(head, body),
    ]


def measured(table: Table) -> list[str]:
    """Return which strategies batch training measured, by data set."""
    names: dict[str, list[str]] = {}
    for dataset in PROBLEMS:
        found = table.templates(figure_setting(dataset, "batch-training"))
        if found:
            names.setdefault(found, []).append(dataset)
    return [
        f"* Batch training measures {templates} on {', '.join(own)}."
        for templates, own in names.items()
    ]


def _best(table: Table, dataset: str, method: str, epsilon: float) -> Best | None:
    best: Best | None = None
    for depth in GRID_DEPTHS:
        for trees in GRID_TREES:
            found = table.get(Setting(dataset, method, "hard", depth, trees), epsilon)
            if found is not None and (best is None or found.mean > best[0]):
                best = found.mean, f"h={depth}, τ={trees}"
    return best


def _placed(best: Best | None) -> str:
    return "-" if best is None else f"{best[0]:.3f} ({best[1]})"


# ---- about the data --------------------------------------------------------------


def about_files() -> str:
    """Return how far published files agree where they have the same setting."""
    apart, all_ = twice_published()
    return (
        f"* {all_} settings are in two published files with the noise that they should "
        f"have; in {apart} of them the two means are more than two standard errors of "
        "their difference apart."
    )


def about_heart() -> str:
    """Return how our split of Heart compares with theirs."""
    if isinstance(records_of("heart"), str):
        return "* Heart was not at hand."
    _, _, y, truth = split_of(figure_setting("heart", "non-private"), 0)
    labels, counts = np.unique(y, return_counts=True)
    share = np.mean(truth == labels[counts.argmax()])
    return (
        "* Heart: rows are in the order of the authors' file, "
        "heart_cleveland_upload.csv (`heart_order.txt`). The most frequent class of "
        "the training records has .483 of the test records in their results, here "
        f"{share:.3f}."
    )


# ---- seconds ---------------------------------------------------------------------


def seconds(timed: Sequence[Timed], out: Path) -> list[str]:
    """Return seconds of the stages."""
    if not timed:
        return ["Not measured in this run.", ""]
    by_setting = {one.setting: one.seconds for one in timed}
    body = []
    for row in TABLE_2[1:]:
        setting, _ = table_2_settings(row)
        where = f"{METHODS[row[0]]}, τ = {setting.trees}, h = {setting.depth}"
        for who, theirs in AUTHORS[row[0], 1].items():
            cells = [f"{theirs[s]:g}" if s in theirs else "-" for s in COLUMNS]
            body.append([where, who, *cells])
        own = by_setting[setting]
        cells = [f"{own[s]:.4f}" if s in own else "" for s in COLUMNS]
        body.append([where, "**this code**", *cells])
    lines = _rows(["Car, ε = 1", "", *COLUMNS], body)
    for row in TABLE_2[1:3]:
        own = by_setting[table_2_settings(row)[0]]
        total = AUTHORS[row[0], 1][RERUN]["total"]
        lines.append(
            f"* {METHODS[row[0]].capitalize()}: {total} s end to end with their code; "
            f"here {1000 * own['total']:.0f} ms of processor time, "
            f"{total / own['total']:.0f} times less."
        )
    lines.append("")
    _draw_seconds(_seconds_by_trees(timed), out / "figure-seconds.png")
    return ["![Seconds](figure-seconds.png)", "", *lines]


def _four_stages(own: dict[str, float]) -> dict[str, float]:
    """Return seconds of trees, optimization, prediction, and training as the rest."""
    rest = own["total"] - own["trees"] - own["optimization"] - own["prediction"]
    names = ("trees", "optimization", "training", "prediction")
    return {name: rest if name == "training" else own[name] for name in names}


def _by_data_set(timed: Sequence[Timed]) -> dict[str, dict[str, dict[str, float]]]:
    """Return seconds of the four stages, by data set and method."""
    by_setting = {one.setting: one.seconds for one in timed}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for dataset in TIMED_SETS:
        for method in TIMED_METHODS:
            own = by_setting.get(timed_setting(dataset, method))
            if own is not None:
                found.setdefault(dataset, {})[method] = _four_stages(own)
    return found


def table_1(timed: Sequence[Timed]) -> list[str]:
    """Return Table 1: seconds of optimization, training and prediction."""
    shown = ("optimization", "training", "prediction")
    head = ["data set", "method"]
    head += [text for stage in shown for text in (f"{stage}, published", "here")]
    body = []
    for dataset, methods in _by_data_set(timed).items():
        for method, own in methods.items():
            setting = timed_setting(dataset, method)
            where = f"{dataset}, τ = {setting.trees:g}, h = {setting.depth}"
            where += f", q = {setting.q}" if setting.q > 1 else ""
            cells = [where, METHODS[method]]
            theirs = TABLE_1.get(dataset, {}).get(method, {})
            for stage in shown:
                known = f"{theirs[stage]:.2f}" if stage in theirs else "-"
                cells += [known, f"{own[stage]:.3f}"]
            body.append(cells)
    if not body:
        return ["Not measured in this run.", ""]
    return [
        *_rows(head, body),
        "Table 1 prints Heart, Mushroom and Adult with 124 columns, and Table 2 of the "
        "appendix Car; Iris and Balance are bars of Figure 2 of the appendix. Trees "
        "are grown before, as there. Published seconds are of an M2 laptop with eight "
        "threads, those here are processor time of one core.",
        "",
    ]


def stages(timed: Sequence[Timed], out: Path) -> list[str]:
    """Return Figure 2 of the appendix: seconds of the stages, by data set."""
    names = {"batch-prediction": "DP pred.", "batch-training": "DP train"}
    names["non-private"] = "non-DP"
    panels = [
        (dataset, {label: methods[m] for m, label in names.items() if m in methods})
        for dataset, methods in _by_data_set(timed).items()
    ]
    if not panels:
        return ["Not measured in this run.", ""]
    _plots.draw_stages(out / "figure-A2.png", panels)
    body = [
        [f"{dataset}, {label}", *(f"{own[stage]:.4f}" for stage in own)]
        for dataset, methods in panels
        for label, own in methods.items()
    ]
    head = ["ε = 1, processor time", "trees", "optimization", "training", "prediction"]
    return ["![Figure A2](figure-A2.png)", "", *_rows(head, body)]


def _seconds_by_trees(timed: Sequence[Timed]) -> list[_plots.Line]:
    """Return seconds on Car against the number of trees, beside the authors' code."""
    lines = []
    for method in OPTIMIZED:
        own = sorted(
            (one.setting.trees, one.seconds["total"])
            for one in timed
            if (one.setting.dataset, one.setting.method) == ("car", method)
            and (one.setting.depth, one.setting.q) == (PROBLEMS["car"].depth, 1)
        )
        xs, ys = zip(*own, strict=True)
        known = [math.nan] * len(xs)
        known[-1] = AUTHORS[method, 1][RERUN]["total"]
        lines.append(
            _plots.Line(method, METHODS[method], xs, ys, [0.0] * len(xs), known)
        )
    return lines


def _draw_seconds(lines: list[_plots.Line], path: Path) -> None:
    title = f"car, h = {PROBLEMS['car'].depth}, ε = 1: fit and predict"
    panels = [(title, "number of trees τ", lines)]
    known = "authors' code, two cores"
    y_label = "seconds (log scale)"
    _plots.draw(path, panels, y_label=y_label, known_label=known, log_y=True)


COLUMNS = ("trees", "optimization", "measurement", "training", "prediction", "total")


# ---- files -----------------------------------------------------------------------


SETTINGS = [field.name for field in fields(Setting)]
MEASURED = [field.name for field in fields(Accuracy)]


def read_csv(path: Path) -> dict[Place, Accuracy]:
    """Return what a file of `write_csv` has; nothing where there is no file."""
    found: dict[Place, Accuracy] = {}
    if not path.exists():
        return found
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            names: dict[str, Any] = {name: row[name] for name in SETTINGS}
            for name in ("depth", "trees", "q", "queries"):
                names[name] = int(names[name])
            features = names["features"]
            drawn = features not in ("", "partition")
            names["features"] = int(features) if drawn else features or None
            own: dict[str, Any] = {name: row[name] for name in MEASURED}
            for name in own.keys() - {"measures"}:
                whole = name in ("forests", "draws")
                own[name] = int(own[name]) if whole else float(own[name] or "nan")
            found[Setting(**names), float(row["epsilon"])] = Accuracy(**own)
    return found


def write_csv(path: Path, table: Table) -> None:
    """Write one row per setting and budget, measured and published."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        theirs = ("published_mean", "published_std", "published_runs")
        writer.writerow([*SETTINGS, "epsilon", *MEASURED, *theirs])
        for place in dict.fromkeys(place for own in POINTS.values() for place in own):
            found = table.get(*place)
            if found is None:
                continue
            setting, epsilon = place
            own = [getattr(setting, name) for name in SETTINGS]
            numbers = [getattr(found, name) for name in MEASURED]
            cells = [f"{x:.5f}" if isinstance(x, float) else x for x in numbers]
            row = published(*place)
            known = (row.mean, row.std, row.runs) if row else ("", "", "")
            writer.writerow([*own, epsilon, *cells, *known])
