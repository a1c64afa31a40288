"""What a new process pays before it can work; each line runs in its own."""

PRODUCTS = {
    "AllRange": (
        "from mmech import AllRange; y = AllRange(64) @ np.arange(64.0)",
        "i, j = np.triu_indices(64); s = np.append(0, np.arange(64.0).cumsum());"
        "z = s[j + 1] - s[i]",
    ),
    "PartitionStack": (
        "from mmech import PartitionStack;"
        "y = PartitionStack(np.arange(1024)[None] % 8, [8]) @ np.ones(1024)",
        "z = np.bincount(np.arange(1024) % 8, np.ones(1024))",
    ),
}
"""Name to (first product with a kernel, the same in NumPy)."""


RELEASE = (
    "import numpy as np; from mmech import AllRange, MatrixMechanism, optimize;"
    "W = AllRange(256); x = np.arange(256)"
)
CALL = (
    "; found = optimize(W, seed=0);"
    "release = MatrixMechanism(W, found.strategy, epsilon=1).measure(x)"
)
"""A strategy and a release; twice in one process, the second finds all kernels."""


class Import:
    """The two packages, beside the libraries that they stand on.

    They load their parts when they are first used, so parts are named, too.
    """

    params = (
        [
            "import mmech",
            "from mmech import MatrixMechanism, optimize",
            "import mmech_rf",
            "from mmech_rf import BatchTrainingClassifier, datasets",
            "import scipy.sparse, scipy.optimize",
            "import sklearn.ensemble",
        ],
    )
    param_names = ("statement",)

    def setup(self, statement):
        exec(statement, {})

    def timeraw_import(self, statement):
        return statement


class FirstProduct:
    """Import and one compiled product, read from the cache on disk."""

    params = (list(PRODUCTS),)
    param_names = ("operator",)

    def setup(self, operator):
        names = {}
        for code in ("import numpy as np", *PRODUCTS[operator]):
            exec(code, names)
        assert (names["y"] == names["z"]).all()

    def timeraw_mmech(self, operator):
        return f"import numpy as np; {PRODUCTS[operator][0]}"

    def timeraw_numpy(self, operator):
        return f"import numpy as np; {PRODUCTS[operator][1]}"


class FirstRelease:
    """A new process that releases once; its contender releases a second time.

    The difference is one warm call: all else is imports and kernels from disk.
    """

    def setup(self):
        names = {}
        exec(RELEASE + CALL, names)
        exec("from mmech import loss; exact = loss(W, found.strategy)", names)
        assert abs(names["found"].loss / names["exact"] - 1) < 1e-9
        assert len(names["release"].values) == len(names["found"].strategy)

    def timeraw_once(self):
        return RELEASE + CALL

    def timeraw_twice(self):
        return RELEASE + CALL + CALL

    def timeraw_imports_numba(self):
        return RELEASE + "; import numba"
