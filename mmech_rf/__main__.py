"""``python -m mmech_rf``, the same as the console script ``mmech-rf``."""

import sys

from mmech_rf.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
