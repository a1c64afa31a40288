"""Questions about operators, one file per question.

============  ==============================================================
shape         rank, norms, singular values
exact         largest magnitudes, in whole numbers
spectrum      which attributes a workload asks for, and what of their interactions
blocks        what it asks of blocks of neighbours, and of waves
by_marginals  its answers, from marginals alone
============  ==============================================================
"""

import mmech.operators  # noqa: F401  first: some operators ask, too
