"""Figures and tables of the paper: ``python -m benchmarks.reproduction``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.reproduction import _report, _seconds
from benchmarks.reproduction._settings import FULL, QUICK, all_tasks
from benchmarks.reproduction._trials import run_all

HERE = Path(__file__).parent

TITLES = {
    "gate": "The gate: not below the published means",
    "2": "Figure 2: accuracy against ε",
    "baselines": "Where the gain comes from: baselines tuned in hindsight",
    "3a": "Figure 3a: accuracy against the number of trees",
    "3b": "Figure 3b: accuracy against the number of queries",
    "4": "Figure 4: subsample and aggregate on Car against ε",
    "A1": "Appendix, Figure 1: accuracy against depth",
    "A2": "Appendix, Figure 2: seconds beside forests without privacy",
    "A3": "Appendix, Figure 3: subsample and aggregate against ε",
    "A4": "Appendix, Figure 4: hard votes against the number of queries",
    "A5": "Appendix, Figure 5: voting by depth (a) and by trees (b)",
    "T2": "Appendix, Table 2: one ensemble and two",
    "seconds": "Seconds of every stage, beside the authors' code",
}
"""Sections of the report, in order, by what ``--figure`` takes."""

TIMED = ("seconds", "A2", "T2")
"""Sections that need seconds."""

INTRODUCTION = """\
# The figures and tables of the paper, measured again

Tajima, Wu, Houmansadr, *Improving Private Random Forest Prediction Using Matrix
Representation*, AAAI 2025, and its appendix. Written by
`python -m benchmarks.reproduction{options}`; `results.csv` has a row per setting. Test
accuracies are not private. Every number in a sentence about results is computed from
the results of this run.

* **Paper's split**: scikit-learn's `train_test_split`, 20 % test, `random_state=100`.
  **Random splits**: a new split with every forest.
* Published means are of one forest with five to ten draws of the noise. Here every
  forest has {draws} draws; tables say how many forests there are.
* Published numbers come from the result files of the paper (`published.csv`). Pictures
  whose original was not at hand are rebuilt from them.
{files}
{heart}
* Adult: the data set of the table and of Figure 2 has 45,222 records and 8 attributes;
  Table 1 of the appendix lists another one of that name, with 30,956 records and 124
  columns. Rows are in the order of the authors' file, the records of adult.test first:
  a split is one of positions.
* Heart and Mushroom: all attributes are dealt out, each to one ensemble, as in the code
  that wrote the published files. Baselines see all attributes in one ensemble.
* The authors' hard votes go to the first class where they tie (`ties="first"`); here
  ties are drawn, but for rows that say so.
* The optimization of the published code, p-Identity with p = 1, returns the identity on
  the cells of the domain: measure each cell once with noise Lap(1/ε), and add up cells
  to leaves, where the baseline measures leaves τ times.
{measured}
"""


def main() -> None:
    arguments = _arguments()
    effort = QUICK if arguments.quick else FULL
    names = [arguments.figure] if arguments.figure else [*TITLES]
    # A part does not replace the whole report.
    part = "" if "2" in names and "T2" in names else f"-{'-'.join(names)}"
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    repeats = (3 if arguments.quick else 7) if arguments.jobs else 0
    timed = []
    if {*names} & {*TIMED}:
        timed = _seconds.measure(
            out / "seconds.csv", _seconds.settings(), repeats=repeats
        )
    tasks = all_tasks(names, effort)
    results = run_all(tasks, out / "trials.csv", jobs=arguments.jobs)
    wanted = {task.key for task in tasks}
    there = {key: rows for key, rows in results.items() if key in wanted}
    table = _report.Table(there)
    if tasks:
        _report.write_csv(out / f"results{part}.csv", table, names)
    options = " --quick" if arguments.quick else ""
    options += f" --figure {arguments.figure}" if arguments.figure else ""
    text = INTRODUCTION.format(
        options=options,
        draws=effort.draws,
        files=_report.about_files(),
        heart=_report.about_heart(),
        measured="\n".join(_report.measured(table)),
    )
    lines = [*text.rstrip().splitlines(), ""]
    if len(there) < len(wanted):
        lines += [
            f"**Not finished:** {len(there)} of {len(wanted)} forests were run.",
            "",
        ]
    for name in names:
        if name == "gate":
            section = _report.gate(table)
        elif name == "baselines":
            section = _report.baselines(table)
        elif name == "seconds":
            section = _report.seconds(timed, out)
        elif name == "A2":
            section = _report.beside_non_private(timed, out)
        elif name == "T2":
            section = _report.table_2(table, timed)
        else:
            section = _report.figure(name, table, out)
        if section:
            lines += [f"## {TITLES[name]}", "", *section]
    while lines and not lines[-1]:
        lines.pop()
    report = out / f"REPORT{part}.md"
    report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    took = time.perf_counter() - started
    print(f"{report} written after {took:.0f} s")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reproduction", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="fewer forests")
    parser.add_argument(
        "--figure", choices=[*TITLES], help="one section instead of all"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=HERE,
        help="folder of report, pictures and results; a run is resumed from there",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=2,
        help="processes, default 2; with 0 the report is of the runs that are there",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
