"""Classifiers of other packages: private peers, and what can be reached without noise.

Peers are taken as they come, with their own defaults. Everything they need to know in
advance is public and given: bounds, classes, kinds of attributes. They see the codes of
the same schema as the classifiers of this package.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.releases._tables import peer
from mmech_rf import Attribute, Schema

DELTA = 1e-5
"""Probability of failure that DP-EBM is granted: its guarantee is (ε, δ)."""

LUMBERJACK_DELTA = 1e-6
"""Probability of failure that Lumberjack is granted by its authors."""

MBI_PYTHON = os.environ.get("MMECH_PEERS", "")
"""Interpreter of an environment with ``opendp[mbi]``, which asks for other versions."""


def missing(module: str) -> str:
    """Return why what needs a module is left out; nothing where it is installed."""
    return "" if find_spec(module) else f"{module} is not installed"


class Coded:
    """A classifier of number tables, fed with the codes of a schema.

    Parameters
    ----------
    schema : Schema
    model : estimator
        Sees codes as numbers, and classes as 0 to k - 1.
    one_hot : bool, default=False
        Whether categories become columns of zeros and ones; numbers are scaled to
        [0, 1] then.
    """

    def __init__(self, schema: Schema, model: Any, *, one_hot: bool = False) -> None:
        self.schema = schema
        self.model = model
        self.one_hot = one_hot

    def fit(self, X: Any, y: Any) -> Coded:
        """Fit the model to the codes."""
        return self.fit_codes(*self.schema.encode(X, y))

    def fit_codes(self, codes: NDArray[np.int64], classes: NDArray[np.int64]) -> Coded:
        """Fit the model to records that are encoded."""
        self.model.fit(self.table(codes), classes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every record."""
        classes = self.model.predict(self.table(self.schema.encode(X)))
        return np.asarray(self.schema.decode_target(np.asarray(classes, np.int64)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every class of the schema; all are known here."""
        return np.asarray(self.model.predict_proba(self.table(self.schema.encode(X))))

    def table(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the model sees of encoded records."""
        if not self.one_hot:
            return codes.astype(np.float64)
        columns = [
            codes[:, [i]] / max(attribute.size - 1, 1)
            if attribute.kind == "numeric"
            else np.eye(attribute.size)[codes[:, i]]
            for i, attribute in enumerate(self.schema.attributes)
        ]
        return np.hstack(columns)


class Synthetic:
    """A classifier that is trained on synthetic records of OpenDP's ``dp.mbi``.

    It takes the classifier without privacy that does best on the synthetic records, by
    cross-validation in three parts: nothing further is spent.

    Parameters
    ----------
    schema : Schema
    epsilon : float
        Pure budget of the synthetic records, of attributes and class together.
    method : {"MST", "AIM"}
    release : callable
        Runs the method in an interpreter that has it, as `peer` of the tables.
    """

    def __init__(
        self, schema: Schema, epsilon: float, method: str, release: Any = peer
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.method = method
        self.release = release

    def fit(self, X: Any, y: Any) -> Synthetic:
        """Release synthetic records, and fit the classifier to them."""
        from sklearn.dummy import DummyClassifier
        from sklearn.model_selection import cross_val_score

        target = Attribute.categorical(self.schema.target, self.schema.class_labels)
        shape = (*self.schema.domain_shape, target.size)
        real = np.column_stack(self.schema.encode(X, y))
        price = {"epsilon": str(self.epsilon)}
        made = self.release(MBI_PYTHON, self.method, shape, real, price)
        if isinstance(made, str):
            raise RuntimeError(f"{self.method}: {made}")
        codes, classes = made[2][:, :-1], made[2][:, -1]
        if not len(classes):  # Much noise may leave no records: then any class will do.
            codes, classes = np.zeros((1, codes.shape[1]), np.int64), np.zeros(1, int)
        if np.unique(classes).size < 2:
            dummy = Coded(self.schema, DummyClassifier())
            self.model_ = dummy.fit_codes(codes, classes)
            return self
        found = [make(self.schema, 0.0, 0) for make in NOT_PRIVATE.values()]
        scores = [
            cross_val_score(coded.model, coded.table(codes), classes, cv=3).mean()
            for coded in found
        ]
        self.model_ = found[int(np.argmax(scores))].fit_codes(codes, classes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every record."""
        return self.model_.predict(X)


def _bounds(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    upper = np.array(schema.domain_shape, np.float64) - 1
    return np.zeros_like(upper), np.maximum(upper, 1.0)


def diffprivlib_forest(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the random forest of diffprivlib."""
    from diffprivlib.models import RandomForestClassifier

    model = RandomForestClassifier(
        epsilon=epsilon, bounds=_bounds(schema), classes=list(range(schema.n_classes))
    )
    return Coded(schema, model)


def diffprivlib_bayes(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the Gaussian naive Bayes classifier of diffprivlib."""
    from diffprivlib.models import GaussianNB

    return Coded(schema, GaussianNB(epsilon=epsilon, bounds=_bounds(schema)))


def diffprivlib_logistic(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the logistic regression of diffprivlib; several classes one by one."""
    from diffprivlib.models import LogisticRegression

    # Columns of an attribute have a norm of at most one together.
    norm = float(np.sqrt(schema.n_features))
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=1000)
    return Coded(schema, model, one_hot=True)


def mst(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the best classifier on records of OpenDP's MST."""
    return Synthetic(schema, epsilon, "MST")


def aim(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the best classifier on records of OpenDP's AIM, of all pairs."""
    return Synthetic(schema, epsilon, "AIM")


def explainable_boosting(schema: Schema, epsilon: float, n: int) -> Any:
    """Return the explainable boosting machine of InterpretML; two classes only."""
    from interpret.privacy import DPExplainableBoostingClassifier

    kinds = [
        "nominal" if attribute.kind == "categorical" else "continuous"
        for attribute in schema.attributes
    ]
    model = DPExplainableBoostingClassifier(
        feature_types=kinds,
        privacy_bounds=np.stack(_bounds(schema), axis=1),
        epsilon=epsilon,
        delta=DELTA,
        n_jobs=1,
    )
    return Coded(schema, model)


def lumberjack(schema: Schema, epsilon: float, n: int, n_trees: int = 25) -> Any:
    """Return the authors' prototype of Lumberjack, as their own example sets it.

    Their configuration file has one tree. The prototype adds noise in floating point.
    """
    from dp_random_forest.algorithms import DPSparseExtraTreesClassifier

    names = [f"x{i}" for i in range(schema.n_features)]
    model = DPSparseExtraTreesClassifier(
        n_estimators=n_trees,
        epsilon=epsilon,
        delta=LUMBERJACK_DELTA,
        splitting_fraction=0.75,
        leaf_algorithm="exponential_mechanism",
        max_depth=100,
        bounds=_bounds(schema),
        feature_names=names,
        categorical_features=[
            name
            for name, attribute in zip(names, schema.attributes, strict=True)
            if attribute.kind == "categorical"
        ],
    )
    return Coded(schema, model)


ADULT_SETTINGS = {
    # the ensemble
    "nb_trees": 200, "subsampling_ratio": 1.0, "learning_rate": 0.1,
    "newton_boosting": True, "balance_partition": False, "lambda_reg_mode": 1,
    "l2_lambda": 5.0, "reg_delta": 2.0,
    # splits, drawn without a look at records
    "min_samples_split": 0, "ignore_split_constraints": True, "max_features": 0,
    "max_feature_values": 0, "criterion": 0, "reuse_attr": True,
    "refine_splits_rounds": 0, "num_split_candidates": 32, "refine_splits": False,
    "cyclical_feature_interactions": True, "random_splits_from_candidates": True,
    "refine_splits_subsample": 1.0, "numeric_feature_weight": 1.0,
    # noise and clipping
    "use_dp": True, "privacy_budget_init_score_ratio": 0.0,
    "privacy_budget_gain_ratio": 0.0, "leaf_denom_noise_weight": 0.04,
    "l2_threshold": 0.8, "hess_l2_threshold": 0.1, "init_score_threshold": 0.0,
    "leaf_noise": 1, "cut_off_leaf_denom": True, "custom_noise_scale": -1.0,
    # what is off
    "use_privacy_filter": False, "approximate_privacy_filter": False,
    "pf_additional_nb_trees": 0, "pf_l2_threshold": 0.1,
    "pf_hess_l2_threshold": 1.0, "pf_subsampling_ratio_factor": 1.0,
    "additional_nb_trees": 0, "gradient_filtering": False, "leaf_clipping": False,
    "verbosity": 4, "continuous_learning": False, "scale_y": True,
    # the task
    "task": "BinaryClassification", "feature_val_border": (0.0, 1.0),
}  # fmt: skip
"""What the authors of S-BDT found best on Adult at ε = .5; depth 6."""


class Boosted:
    """S-BDT as an estimator of codes: numbers are scaled to [0, 1]."""

    def __init__(self, schema: Schema, epsilon: float, depth: int) -> None:
        sizes = [attribute.size for attribute in schema.attributes]
        kinds = [attribute.kind == "categorical" for attribute in schema.attributes]
        self.widths = np.where(kinds, 1.0, np.maximum(np.array(sizes) - 1.0, 1.0))
        self.settings = ADULT_SETTINGS | {
            "privacy_budget": epsilon,
            "max_depth": depth,
            "cat_idx": [i for i, is_category in enumerate(kinds) if is_category],
            "num_idx": [i for i, is_category in enumerate(kinds) if not is_category],
            "cat_values": [
                [float(code) for code in range(size)] if is_category else []
                for size, is_category in zip(sizes, kinds, strict=True)
            ],
        }

    def fit(self, table: NDArray[np.float64], classes: NDArray[np.int64]) -> Boosted:
        """Train on codes."""
        from sbdt import S_BDT

        self.model_ = S_BDT(**self.settings)
        self.model_.train(table / self.widths, classes.astype(float), "records")
        return self

    def predict(self, table: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return classes, at the threshold of one half."""
        return (np.asarray(self.model_.predict(table / self.widths)) > 0.5).astype(int)


def boosted_trees(schema: Schema, epsilon: float, n: int, depth: int = 6) -> Any:
    """Return S-BDT with its authors' settings for Adult; two classes only, δ = 5e-8."""
    return Coded(schema, Boosted(schema, epsilon, depth))


def gradient_boosting(schema: Schema, epsilon: float, n: int) -> Any:
    """Return scikit-learn's gradient boosting; not private."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    categorical = [a.kind == "categorical" for a in schema.attributes]
    # Early stopping holds records of every class out; nursery has a class of two.
    model = HistGradientBoostingClassifier(
        categorical_features=categorical, early_stopping=False, random_state=0
    )
    return Coded(schema, model)


def random_forest(schema: Schema, epsilon: float, n: int) -> Any:
    """Return scikit-learn's random forest; not private."""
    from sklearn.ensemble import RandomForestClassifier

    return Coded(schema, RandomForestClassifier(random_state=0), one_hot=True)


def extra_trees(schema: Schema, epsilon: float, n: int) -> Any:
    """Return scikit-learn's extremely randomised trees; not private."""
    from sklearn.ensemble import ExtraTreesClassifier

    return Coded(schema, ExtraTreesClassifier(random_state=0), one_hot=True)


def logistic_regression(schema: Schema, epsilon: float, n: int) -> Any:
    """Return scikit-learn's logistic regression; not private."""
    from sklearn.linear_model import LogisticRegression

    return Coded(schema, LogisticRegression(max_iter=1000), one_hot=True)


NOT_PRIVATE = {
    "gradient boosting": gradient_boosting,
    "random forest": random_forest,
    "extra trees": extra_trees,
    "logistic regression": logistic_regression,
}
"""What can be reached without noise, or with synthetic records."""
