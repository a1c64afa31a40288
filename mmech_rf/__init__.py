"""Random forests under differential privacy, on the matrix mechanism of `mmech`.

A schema says what is public, `mmech_rf.forest` grows trees from it, and
`mmech_rf.workloads` compiles them into workloads that `mmech` answers. Estimators are
in `mmech_rf.paper` (the matrix mechanism), `mmech_rf.drawn` (trees drawn as a whole)
and `mmech_rf.literature`, which know nothing of each other, and share
`mmech_rf.estimator`. ``notebooks/architecture.md`` says what each folder holds.

Names are listed in ``__init__.pyi`` and imported when they are first used, so that
the command line starts at once.
"""

import logging as _logging

from mmech.lazy import lazy_names as _lazy_names

__all__, __getattr__, __dir__ = _lazy_names(__name__)

_logging.getLogger(__name__).addHandler(_logging.NullHandler())
