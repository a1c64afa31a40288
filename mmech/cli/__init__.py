"""The command line: ``mmech``, the same as ``python -m mmech``.

The parts of the library that a command uses are imported when it runs, so that
``--help`` is quick. The commands of forests use the same files for records and schemas.

=======  ========================================================================
main     the parser of all commands; tables, resume, budget, verify and show
files    records that are read, by options that say how, and files that are written
schemas  suggest and check: domains and schemas as files
=======  ========================================================================
"""

from mmech.cli.main import build_parser, main

__all__ = ["build_parser", "main"]
