"""The command line: ``mmech-rf``, the same as ``python -m mmech_rf``.

Only parsing, reading, writing and printing. The parts of the library that a command
uses are imported when it runs, so that ``--help`` is quick.
"""

from mmech_rf.cli.main import main

__all__ = ["main"]
