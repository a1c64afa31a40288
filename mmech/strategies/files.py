"""Strategies as files, to be measured again elsewhere or audited."""

from __future__ import annotations

import os
from dataclasses import replace

from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.storage.codec import is_storable, read, write
from mmech.strategies.result import StrategyResult


def save(path: str | os.PathLike[str], strategy: Matrix | StrategyResult) -> None:
    """Write a strategy to one file, to be measured again elsewhere or audited.

    A strategy is public: it depends on the workload, never on data. The file is
    replaced as a whole, so that an interrupted write leaves the old one.

    Parameters
    ----------
    path : str or path-like
        File to write.
    strategy : QueryMatrix, ndarray, SciPy sparse matrix or StrategyResult
        An operator, a matrix, or a result with its candidates and workload. A workload
        that cannot be stored is left out.

    Raises
    ------
    TypeError
        If the strategy holds an operator of a class that is not storable: all of this
        package are, others where `mmech.storage.codec.storable` says so.

    See Also
    --------
    load : read the file.

    Notes
    -----
    A ZIP archive of ``description.json`` and ``.npy`` arrays, without pickle.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech import Prefix, load, optimize, save
    >>> result = optimize(Prefix(64), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(os.path.join(folder, "prefix.mmech"), result)
    ...     copy = load(os.path.join(folder, "prefix.mmech"))
    >>> copy.loss == result.loss, copy.strategy
    (True, PIdentity(p=4, n=64) shape=(68, 64))
    """
    if not isinstance(strategy, StrategyResult):
        strategy = as_query_matrix(strategy, "strategy")
    elif not is_storable(strategy.workload):
        strategy = replace(strategy, workload=None)
    write(path, "strategy", strategy)


def load(path: str | os.PathLike[str]) -> QueryMatrix | StrategyResult:
    """Read a strategy that `save` wrote, bit for bit as it was.

    Runs no code from the file: it may come from anyone, although a strategy from
    elsewhere deserves a look at its sensitivity and error.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    QueryMatrix or StrategyResult

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is damaged, of another format or version, holds something else, or
        names a class that is not storable.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech import Identity, Kronecker, Prefix, load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "strategy.mmech")
    ...     save(path, Kronecker([Prefix(3), Identity(2)]))
    ...     load(path)
    Kronecker(Prefix(3), Identity(2)) shape=(6, 6)
    """
    loaded: QueryMatrix | StrategyResult = read(
        path, "strategy", (QueryMatrix, StrategyResult)
    )
    return loaded
