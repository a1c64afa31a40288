"""The matrix mechanism of differential privacy on implicit query matrices.

A workload (`mmech.operators`) is answered from a strategy (`mmech.strategies`) that
was compared by expected errors (`mmech.error`). It is measured through the one door for
noisy numbers (`mmech.release`, `mmech.noise`), paid for in a ledger (`mmech.privacy`),
and turned into estimates (`mmech.reconstruction`); `MatrixMechanism` does it in one
call. ``notebooks/architecture.md`` says what each folder holds and may import.

Names are listed in ``__init__.pyi`` and imported when they are first used, so that
commands start at once.
"""

import logging as _logging

from mmech.lazy import lazy_names as _lazy_names

__all__, __getattr__, __dir__ = _lazy_names(__name__)

_logging.getLogger(__name__).addHandler(_logging.NullHandler())
