"""Released models as files: data that anyone may read, without pickle.

A file holds released and public data only: noisy counts or drawn trees, their votes,
forests, schema, parameters, and the record of costs. Exact counts, noise sources,
ledgers and timings stay out. A class of models names the stored attributes
(``_released``) and checks them when they are read (``_settle``). The class and the
classes of its attributes are `mmech.storage.codec.storable`.
"""

from __future__ import annotations

import os
from importlib import import_module

from mmech.storage.codec import read
from mmech_rf.estimator.base import ForestClassifier
from mmech_rf.methods import ESTIMATORS


def load_model(path: str | os.PathLike[str]) -> ForestClassifier:
    """Read a model that `save` wrote; it predicts the same labels, bit for bit.

    Runs no code from the file: it may come from anyone. The fit is made again without
    records, from the noisy numbers in the evidence: a model that does not follow from
    them, or states another cost, is refused. What the model was released at is in its
    ``privacy_statement_``. Predicting is free; a new `fit` is refused,
    because the budget of the model is spent: set ``ledger=None`` to spend another.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    estimator
        Fitted, with a ledger that is spent; of a `PrivateForestClassifier` what it
        chose. It has everything of the saved model but how strategies were found.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If the file is damaged, not a model, of another version, or names a class that
        is not storable. Also if the model does not follow from its evidence.

    See Also
    --------
    mmech.load : the same for strategies.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech_rf import BatchTrainingClassifier, datasets, load_model
    >>> car = datasets.load_car()
    >>> model = BatchTrainingClassifier(car.schema, epsilon=1, n_trees=8)
    >>> model = model.fit(car.data, car.target)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "car.npz"))
    ...     copy = load_model(os.path.join(folder, "car.npz"))
    >>> bool((copy.predict(car.data) == model.predict(car.data)).all())
    True
    """
    # Files may name what was imported.
    for home in {*ESTIMATORS.values(), "forest.from_sklearn"}:
        import_module(f"mmech_rf.{home}")
    model: ForestClassifier = read(path, "model", ForestClassifier)
    return model
