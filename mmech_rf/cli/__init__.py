"""The command line: ``mmech-rf``, the same as ``python -m mmech_rf``.

Only parsing, reading, writing and printing. The parts of the library that a command
uses are imported when it runs, so that ``--help`` is quick.

=======  ==============================================
main     the parser of all commands, and the run of one
common   options, their types, and what ``help.toml`` says of them
files    csv tables, models and schemas
models   fit, predict and predict-batch; show, as text, page or card
compare  demo and evaluate
=======  ==============================================
"""

from mmech_rf.cli.main import main

__all__ = ["main"]
