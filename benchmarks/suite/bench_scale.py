"""Many records: encoding them, a whole fit of the default classifier, predictions."""

import numpy as np
import pandas as pd

from mmech import Attribute, Domain
from mmech_rf import PrivateForestClassifier, datasets

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
        assert np.array_equal(self.domain.encode(self.X), codes)

    def time_encode(self, columns):
        self.domain.encode(self.X)

    def time_encode_narrow(self, columns):
        self.domain.encode(self.X, narrow=True)

    def peakmem_encode_narrow(self, columns):
        self.domain.encode(self.X, narrow=True)


class DefaultClassifier:
    """The default classifier on records of the car rules, drawn with repetition."""

    params = ([10_000, 100_000],)
    param_names = ("n_records",)

    def setup(self, n_records):
        car = datasets.load_car()
        rows = np.random.default_rng(0).integers(0, len(car.target), n_records)
        self.X, self.y = np.asarray(car.data)[rows], np.asarray(car.target)[rows]
        self.model = PrivateForestClassifier(
            car.schema, epsilon=1, n_records=n_records, insecure_rng=0
        ).fit(self.X, self.y)

    def time_fit(self, n_records):
        self.model.fit(self.X, self.y)

    def time_predict(self, n_records):
        self.model.predict(self.X)
