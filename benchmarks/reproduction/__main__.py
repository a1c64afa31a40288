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
    "claims": "The claims of the paper, one by one",
    "mushroom": "Mushroom: attributes dealt out, or drawn for every ensemble",
    "2": "Figure 2: accuracy against ε",
    "baselines": "Where the gain comes from: baselines tuned in hindsight",
    "3a": "Figure 3a: accuracy against the number of trees",
    "3b": "Figure 3b: accuracy against the number of queries",
    "4": "Figure 4: subsample and aggregate on Car against ε",
    "T1": "Table 1: seconds on six data sets",
    "A1": "Appendix, Figure 1: accuracy against depth",
    "A2": "Appendix, Figure 2: seconds of the stages, by data set",
    "A3": "Appendix, Figure 3: subsample and aggregate against ε",
    "A4": "Appendix, Figure 4: hard votes against the number of queries",
    "A5": "Appendix, Figure 5: voting by depth (a) and by trees (b)",
    "T2": "Appendix, Table 2: one ensemble and two",
    "seconds": "Seconds of every stage, beside the authors' code",
}
"""Sections of the report, in order, by what ``--figure`` takes."""

TIMED = ("seconds", "T1", "A2", "T2")
"""Sections that need seconds."""

INTRODUCTION = """\
# The figures and tables of the paper, measured again

Tajima, Wu, Houmansadr, *Improving Private Random Forest Prediction Using Matrix
Representation*, AAAI 2025, and its appendix. Written by
`python -m benchmarks.reproduction{options}`; every section names the command that makes
it alone. `results.csv` has a row per setting, and a run measures what it lacks: with
`--out` and an empty folder, everything. Test accuracies are not private. Every number
in a sentence about results is computed from `results.csv`.

* **Paper's split**: scikit-learn's `train_test_split`, 20 % test, `random_state=100`.
  **Random splits**: a new split with every forest.
* Published means are of one forest with five to ten draws of the noise. Here every
  forest has {draws} draws; tables say how many forests there are.
* Published numbers come from the result files of the paper (`published.csv`). Where two
  files have a setting, the one that the authors' notebook draws counts.
* Seconds here are processor time of one core; those of the paper are of the clock.
{files}
{heart}
* Adult: the data set of the table and of Figure 2 has 45,222 records and 8 attributes;
  Table 1 of the appendix lists another one of that name, with 30,956 records and 124
  columns. Rows are in the order of the authors' file, the records of adult.test first:
  a split is one of positions.
* Heart and Mushroom: all attributes are dealt out, each to one ensemble, as in the code
  that wrote the published files. Baselines see all attributes in one ensemble.
* Figure 2 prints other parameters than its files have: τ = 128, q = 2, d̄ = 4 for Heart,
  and h = 8, τ = 100, q = 4, d̄ = 10 for Adult. Those of the files are used here.
* Without privacy, the paper has Extra-Trees of scikit-learn without a limit to the
  depth. Here they stand beside the same shallow forest without noise, by hard votes.
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
    repeats = (2 if arguments.quick else 4) if arguments.jobs else 0
    timed = []
    if {*names} & {*TIMED}:
        timed = _seconds.measure(
            out / "seconds.csv", _seconds.settings(), repeats=repeats
        )
    recorded = out / "results.csv"
    table = _report.Table(_report.read_csv(recorded))
    tasks = all_tasks(names, effort, table.forests)
    results = run_all(tasks, out / "trials.csv", jobs=arguments.jobs)
    table.add(tasks, results)
    _report.write_csv(recorded, table)
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
    missing = sum(task.key not in results for task in tasks)
    if missing:
        lines += [f"**Not finished:** {missing} forests are still to be run.", ""]
    for name in names:
        if name == "gate":
            section = _report.gate(table)
        elif name == "claims":
            section = _report.claims(table)
        elif name == "mushroom":
            section = _report.mushroom(table)
        elif name == "baselines":
            section = _report.baselines(table)
        elif name == "seconds":
            section = _report.seconds(timed, out)
        elif name == "T1":
            section = _report.table_1(timed)
        elif name == "A2":
            section = _report.stages(timed, out)
        elif name == "T2":
            section = _report.table_2(table, timed)
        else:
            section = _report.figure(name, table, out)
        if section:
            command = f"`python -m benchmarks.reproduction --figure {name}`"
            lines += [f"## {TITLES[name]}", "", command, "", *section]
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
        help="folder of report, pictures and results; what is there is not run again",
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
