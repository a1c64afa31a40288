"""Releases beside peers: ``python -m benchmarks.releases tables|statistics|levels``.

Peers run in the interpreter of ``--peers PYTHON``, which needs no package of ours.
Adult is read from the folder in ``MMECH_DATA_DIR``.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

from benchmarks.releases import _levels, _statistics, _tables

KINDS = {"tables": _tables, "statistics": _statistics, "levels": _levels}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of one kind of release, row by row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.releases")
    kinds = parser.add_subparsers(dest="kind", required=True)
    for name, module in KINDS.items():
        title = (module.__doc__ or "").partition("\n")[0]
        own = kinds.add_parser(name, help=title, description=module.__doc__)
        own.add_argument("--epsilon", nargs="+", default=module.EPSILONS)
        own.add_argument("--releases", type=int, default=module.RELEASES)
        own.add_argument("--peers", metavar="PYTHON", help="interpreter of the peers")
        module.add_options(own)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    KINDS[options.kind].main(options)


if __name__ == "__main__":
    main()
