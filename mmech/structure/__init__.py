"""Questions about operators, one file per question.

============  ==============================================================
shape         rank, norms, singular values
exact         largest magnitudes, in whole numbers
spectrum      what it asks of subsets of attributes, and answers from their tables
blocks        what it asks of blocks of neighbours, and of waves
============  ==============================================================
"""

import mmech.operators  # noqa: F401  first: some operators ask, too
