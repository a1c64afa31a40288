"""``python -m mmech``, the same as the console script ``mmech``."""

import sys

from mmech.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
