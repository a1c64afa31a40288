"""Log weights of all labelled trees of two levels, beside NumPy, table by table."""

import numpy as np

from mmech.noise import FRACTION_BITS
from mmech_rf._kernels import root_log_weights, split_log_weights
from mmech_rf.drawn.views import public_views

UNIT = 2.0**FRACTION_BITS
NEGLIGIBLE = 45 * 2**FRACTION_BITS


def in_units(found, rate):
    """Logarithms that the kernels keep as scores and rests."""
    return found[..., 0].astype(object) * rate + found[..., 1]


def log_sums(logarithms):
    """Logarithms of sums of weights along the last axis, in whole units."""
    best = logarithms.max(axis=-1, keepdims=True)
    gaps = best - logarithms
    small = np.minimum(gaps, NEGLIGIBLE).astype(np.float64)
    terms = np.where(gaps < NEGLIGIBLE, np.exp(-small / UNIT), 0.0)
    return best[..., 0], terms.sum(axis=-1)


def log_mean_weights(table, rate):
    """Logarithms of mean weights over the labels of leaves, scores (..., k)."""
    if table.size and int(table.max()) * rate >= 2**56:
        table = table.astype(object)
    best, total = log_sums(table * rate)
    return best + np.rint(np.log(total / table.shape[-1]) * UNIT).astype(np.int64)


def numpy_split_log_weights(
    cell, n_cells, views, sizes, classes, weights, k, rate, log_prior, log_stop
):
    """Log weights (n_cells, v + 1) of splitting a node by each view, or by none."""

    def leaves(place, size):
        entries = (cell * size + place) * k + classes
        # Sums of whole numbers below 2^53 are exact.
        table = np.bincount(entries, weights=weights, minlength=n_cells * size * k)
        scores = table.astype(np.int64).reshape(n_cells, size, k)
        return log_mean_weights(scores, rate).sum(axis=1)

    by_view = [
        prior + leaves(row, size)
        for row, size, prior in zip(views, sizes, log_prior.tolist(), strict=True)
    ]
    return np.stack([*by_view, int(log_stop) + leaves(0, 1)], axis=1)


def numpy_root_log_weights(
    roots, views, sizes, classes, weights, k, rate, log_prior, log_split, log_stop
):
    """Log weights (r,) of root views, summed over all ways their nodes may go on."""
    out = []
    for root in roots:
        ways = numpy_split_log_weights(
            views[root].astype(np.int64), sizes[root], views, sizes, classes, weights,
            k, rate, log_split, log_stop,
        )  # fmt: skip
        best, total = log_sums(ways)
        nodes = best + np.rint(np.log(total) * UNIT).astype(np.int64)
        out.append(int(log_prior[root]) + nodes.sum())
    return np.array(out)


def case(domain_shape, n_records, n_classes=4, unit=1):
    """Arguments that both kernels take after the records' cells, from a fixed seed."""
    rng = np.random.default_rng(0)
    views = public_views(domain_shape)
    codes = rng.integers(0, domain_shape, (n_records, len(domain_shape)))
    weights = rng.integers(0, unit, n_records, endpoint=True)
    log_prior = np.rint(views.log_prior * UNIT).astype(np.int64)
    half = int(np.rint(np.log(0.5) * UNIT))
    # A class that depends on the records, so that views differ in what they tell.
    classes = (codes[:, 0] + rng.integers(0, 2, n_records)) % n_classes
    rate = int(0.3 * UNIT) // unit
    cells = views.cells(codes)
    tables = (cells, views.sizes, classes, weights, n_classes, rate)
    return tables, log_prior, half


class TreeSelection:
    """Records of the car domain; root views are single attributes."""

    params = ([1_000, 10_000],)
    param_names = ("n_records",)

    def setup(self, n_records):
        tables, log_prior, half = case((4, 4, 4, 3, 3, 3), n_records)
        self.roots = np.arange(6)
        self.root = (*tables, log_prior, log_prior + half, half)
        first = tables[0][1].astype(np.int64)
        self.split = (first, int(tables[1][1]), *tables, log_prior + half, half)
        assert np.array_equal(self.time_roots_mmech(n_records), self.numpy_roots())
        assert np.array_equal(self.time_splits_mmech(n_records), self.numpy_splits())

    def numpy_roots(self):
        return numpy_root_log_weights(self.roots, *self.root)

    def numpy_splits(self):
        return numpy_split_log_weights(*self.split)

    def time_roots_mmech(self, n_records):
        out = np.empty((self.roots.size, 2), np.int64)
        root_log_weights(self.roots, *self.root, out)
        return in_units(out, self.root[5])

    def time_roots_numpy(self, n_records):
        self.numpy_roots()

    def time_splits_mmech(self, n_records):
        out = np.empty((self.split[1], self.split[3].size + 1, 2), np.int64)
        split_log_weights(*self.split, out)
        return in_units(out, self.split[7])

    def time_splits_numpy(self, n_records):
        self.numpy_splits()
