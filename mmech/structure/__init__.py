"""Questions about operators, one file per question.

============  ==============================================================
shape         rank, norms, singular values
exact         largest magnitudes, in whole numbers
spectrum      what a workload asks of the interactions of attributes
attributes    which attributes a workload is over, and whether it asks for boxes
blocks        what it asks of blocks of neighbours
waves         what it asks of waves
by_marginals  its answers, from marginals alone
============  ==============================================================
"""

import mmech.operators  # noqa: F401  first: some operators ask, too
