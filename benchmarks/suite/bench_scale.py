"""Many records: reading, encoding and counting them, the default classifier.

Contenders are pandas and NumPy: categories found and numbered by `pandas.Categorical`,
distinct records by `numpy.unique` over rows and by `DataFrame.value_counts`, and of
files by pyarrow.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from mmech import Attribute, Counts, Domain
from mmech_rf import PrivateForestClassifier, Schema, datasets, read

from ._common import check

SIZES = (4, 4, 7, 5, 6, 5, 2, 5)


class Encoding:
    """Eight columns of 100,000 records, held in several ways."""

    params = (["integers", "bytes", "text", "categories", "numbers"],)
    param_names = ("columns",)

    def setup(self, columns):
        rng = np.random.default_rng(0)
        codes = np.stack([rng.integers(0, size, 100_000) for size in SIZES], axis=1)
        values = [[f"value number {j}" for j in range(size)] for size in SIZES]
        if columns in ("integers", "bytes"):
            values = [list(range(size)) for size in SIZES]
            self.X = codes if columns == "integers" else codes.astype(np.int8)
        elif columns == "numbers":
            self.X = codes + rng.random(codes.shape)
        else:
            words = [
                np.array(w, object)[c] for w, c in zip(values, codes.T, strict=True)
            ]
            self.X = pd.DataFrame({str(i): word for i, word in enumerate(words)})
            if columns == "categories":
                self.X = self.X.astype("category")
        attributes = [
            Attribute.numeric(str(i), lower=0, upper=size, n_bins=size)
            if columns == "numbers"
            else Attribute.categorical(str(i), words)
            for i, (size, words) in enumerate(zip(SIZES, values, strict=True))
        ]
        self.domain = Domain(attributes)
        self.values = None if columns == "numbers" else values
        check(self.domain.encode(self.X), codes)
        check(self._categorical(), codes)

    def _categorical(self):
        """Return the codes as pandas finds them; of numbers, as NumPy cuts them."""
        columns = pd.DataFrame(self.X)
        if self.values is None:
            return np.stack(
                [
                    np.digitize(columns[name], np.arange(1, size))
                    for name, size in zip(columns, SIZES, strict=True)
                ],
                axis=1,
            )
        return np.stack(
            [
                pd.Categorical(columns[name], categories=words).codes
                for name, words in zip(columns, self.values, strict=True)
            ],
            axis=1,
        )

    def time_categorical(self, columns):
        self._categorical()

    def time_encode(self, columns):
        self.domain.encode(self.X)

    def time_encode_narrow(self, columns):
        self.domain.encode(self.X, narrow=True)

    def peakmem_encode_narrow(self, columns):
        self.domain.encode(self.X, narrow=True)


class Counting:
    """Distinct records and how often each is there, of bytes in eight columns."""

    params = ([10_000, 1_000_000],)
    param_names = ("n_records",)

    def setup(self, n_records):
        rng = np.random.default_rng(0)
        self.codes = np.stack(
            [rng.integers(0, size, n_records, np.int8) for size in SIZES], axis=1
        )
        ours = Counts(self.codes, SIZES)
        check(ours._codes, self._unique()[0])
        check(ours._multiplicities, self._unique()[1])
        check(ours._multiplicities, self._value_counts().sort_index())

    def _unique(self):
        return np.unique(self.codes, axis=0, return_counts=True)

    def _value_counts(self):
        return pd.DataFrame(self.codes).value_counts(sort=False)

    def time_counts(self, n_records):
        Counts(self.codes, SIZES)

    def peakmem_counts(self, n_records):
        Counts(self.codes, SIZES)

    def time_numpy_unique(self, n_records):
        self._unique()

    def time_pandas_value_counts(self, n_records):
        self._value_counts()


class ReadCsv:
    """100,000 records of a CSV file, beside the reader of pandas alone."""

    def setup(self):
        car = datasets.load_car()
        rows = np.random.default_rng(0).integers(0, len(car.target), 100_000)
        table = pd.DataFrame(np.asarray(car.data)[rows], columns=car.schema.names)
        table[car.schema.target] = np.asarray(car.target)[rows]
        self.schema = car.schema
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "car.csv"
        table.to_csv(self.path, index=False)
        counts = [len(part.y) for part in read(self.path, self.schema)]
        assert sum(counts) == len(self.time_pandas()) == 100_000

    def teardown(self):
        self.folder.cleanup()

    def time_read(self):
        for part in read(self.path, self.schema):
            self.schema.encode(part.X)

    def time_pandas(self):
        return pd.read_csv(self.path, dtype=str)


class ReadParquet:
    """Distinct of a million records of bytes in Parquet, beside pyarrow's group-by."""

    def setup(self):
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as failure:
            raise NotImplementedError("pyarrow is not installed") from failure
        self.parquet = parquet
        rng = np.random.default_rng(0)
        pool = np.stack([rng.integers(0, s, 20_000, np.int8) for s in (*SIZES, 2)])
        columns = pool[:, rng.integers(0, 20_000, 10**6)]
        names = [*(f"a{i}" for i in range(len(SIZES))), "class"]
        sizes = zip(names[:-1], SIZES, strict=True)
        attributes = [Attribute.categorical(a, list(range(size))) for a, size in sizes]
        self.schema = Schema(attributes, [0, 1])
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "a.parquet"
        parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), self.path)
        check(self.time_count()._multiplicities.sum(), 10**6)
        check(len(self.time_count()._codes), len(self.time_pyarrow()))

    def teardown(self):
        self.folder.cleanup()

    def time_count(self):
        model = PrivateForestClassifier(self.schema, epsilon=1)
        for X, y, chunk_id in read(self.path, self.schema):
            model.count(X, y, chunk_id=chunk_id)
        return model._parts._counts

    def time_pyarrow(self):
        table = self.parquet.read_table(self.path)
        return table.group_by(table.column_names).aggregate([([], "count_all")])
