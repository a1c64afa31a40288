"""``python -m tests.mutants``: list mistakes, and which test notices each."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ._catalogue import MUTANTS, UNSEEN, of_costs
from ._edits import draw
from ._runner import FailingTestsError, Verdict, run, verify

ROOT = Path(__file__).parents[2]


def report(verdicts: Iterable[Verdict]) -> int:
    """Print a line for each; return 1 unless all were killed."""
    outcomes: Counter[str] = Counter()
    for verdict in verdicts:
        outcomes[verdict.outcome] += 1
        name = verdict.mutant.name
        print(f"{name:64} {verdict.outcome:10} {verdict.detail}", flush=True)
    print(", ".join(f"{n} {outcome}" for outcome, n in outcomes.items()))
    return int(set(outcomes) != {"killed"})


def report_unseen(verdicts: Iterable[Verdict]) -> int:
    """Print what the verifier refuses; return 1 if it misses one without a reason."""
    outcomes: Counter[str] = Counter()
    unexplained = []
    for verdict in verdicts:
        name, detail = verdict.mutant.name, verdict.detail
        outcomes[verdict.outcome] += 1
        if verdict.outcome in ("unseen", "raises"):
            detail = UNSEEN.get(name, f"NO REASON IS GIVEN {detail}")
            unexplained += [name] * (name not in UNSEEN and verdict.outcome == "unseen")
        print(f"{name:64} {verdict.outcome:8} {detail}", flush=True)
    seen = outcomes["refused"] + outcomes["unseen"]
    share = outcomes["refused"] / max(seen, 1)
    print(f"{dict(outcomes)}; refused of those that release: {share:.0%}")
    return int(bool(unexplained))


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Put mistakes into copies of the sources, one at a time, and run "
        "the tests that should notice. Fails if a mistake goes unnoticed.",
    )
    parser.add_argument("--list", action="store_true", help="name the mistakes and go")
    parser.add_argument(
        "--only",
        action="append",
        metavar="WORDS",
        help="only mistakes with these words in their name; may be repeated",
    )
    parser.add_argument(
        "-j", "--jobs", type=int, default=1, metavar="N", help="copies at a time"
    )
    parser.add_argument(
        "--draw", type=int, metavar="N", help="print so many new mistakes, and go"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="release tables and more with each mistake about costs, and let a copy of "
        "mmech/verify.py alone look at the evidence",
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    options = parser.parse_args(arguments)
    if options.draw is not None:
        for number, mutant in enumerate(draw(ROOT, options.draw, options.seed)):
            print(f"{number}: {mutant.name}, {mutant.file}")
            print(f"{mutant.find.rstrip()}\n  becomes\n{mutant.replace.rstrip()}\n")
        return 0
    chosen = [
        mutant
        for mutant in MUTANTS
        if options.only is None or any(words in mutant.name for words in options.only)
        if not options.verify or of_costs(mutant)
    ]
    if not chosen:
        parser.error(f"no mistake is named so: {', '.join(options.only)}; see --list")
    if options.jobs < 1:
        parser.error(f"-j needs a number of at least 1, got {options.jobs}")
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:64} {mutant.file}")
        return 0
    try:
        if options.verify:
            return report_unseen(verify(chosen, ROOT, options.jobs))
        return report(run(chosen, ROOT, options.jobs))
    except FailingTestsError as failure:
        print(failure, "\nThese tests fail without a mistake: mend them first.")
        return 2


if __name__ == "__main__":
    sys.exit(main())
