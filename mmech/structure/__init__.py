"""Questions about operators, one file per question."""

import mmech.operators  # noqa: F401  first: some operators ask, too
