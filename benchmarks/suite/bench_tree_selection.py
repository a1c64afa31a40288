"""Log weights of all labelled trees, beside NumPy, table by table."""

import numpy as np

from mmech.noise import FRACTION_BITS
from mmech_rf.drawn.draw import NodeWeights
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
    """Logarithms of products of mean weights over labels, scores (..., cells, k)."""
    k = table.shape[-1]
    if table.size and int(table.max()) * rate >= 2**56:
        table = table.astype(object)
    best = table.max(axis=-1, keepdims=True)
    gaps = (best - table) * rate
    small = np.minimum(gaps, NEGLIGIBLE).astype(np.float64)
    # Weights are whole numbers, those of the best labels the largest.
    largest = 2.0 ** (62 - k.bit_length())
    terms = np.where(gaps < NEGLIGIBLE, np.rint(np.exp(-small / UNIT) * largest), 0.0)
    means = terms.astype(np.int64).sum(axis=-1) / (k * largest)
    total = (best[..., 0] * rate).sum(axis=-1)
    product = np.ones(total.shape)
    for cell in range(table.shape[-2]):
        product *= means[..., cell]
        # A product is rounded before it is too small.
        ready = (product < 1e-30) | (cell == table.shape[-2] - 1)
        total += np.where(ready, np.rint(np.log(product) * UNIT), 0).astype(np.int64)
        product[ready] = 1.0
    return total


def numpy_split_log_weights(
    cell, n_cells, views, sizes, classes, weights, k, rate, log_prior, log_stop
):
    """Log weights (n_cells, v + 1) of splitting a node by each view, or by none."""

    def leaves(place, size):
        entries = (cell * size + place) * k + classes
        # Sums of whole numbers below 2^53 are exact.
        table = np.bincount(entries, weights=weights, minlength=n_cells * size * k)
        scores = table.astype(np.int64).reshape(n_cells, size, k)
        return log_mean_weights(scores, rate)

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
    """Records and settings of a draw, from a fixed seed."""
    rng = np.random.default_rng(0)
    views = public_views(domain_shape)
    codes = rng.integers(0, domain_shape, (n_records, len(domain_shape)))
    weights = rng.integers(0, unit, n_records, endpoint=True)
    log_prior = np.rint(views.log_prior * UNIT).astype(np.int64)
    half = int(np.rint(np.log(0.5) * UNIT))
    # A class that depends on the records, so that views differ in what they tell.
    classes = (codes[:, 0] + rng.integers(0, 2, n_records)) % n_classes
    rate = int(0.3 * UNIT) // unit
    records = (views.cells(codes), classes, weights, n_classes)
    return views, records, rate, log_prior, half


def twin_tables(views, records, rate, predicted=None):
    """Arguments of the NumPy twins from `views` to `rate`."""
    cells, classes, weights, k = records
    if predicted is not None:
        # Records that are predicted right are records of a further class, too.
        right = np.flatnonzero(predicted == classes)
        cells = np.concatenate([cells, cells[:, right]], axis=1)
        classes = np.concatenate([classes, np.full(right.size, k)])
        weights = np.concatenate([weights, weights[right]])
        k += 1
    return cells, views.sizes, classes, weights, k, rate


def our_nodes(views, records, rate, predicted=None):
    """Records whose log weights we compute; every node ends, or goes on, by half."""
    cells, classes, weights, k = records
    return NodeWeights(views, cells, classes, weights, predicted, k, rate)


class TreeSelection:
    """Records of few, and of only two, values; root views are single attributes."""

    params = (["car", "binary"], [1_000, 10_000])
    param_names = ("domain", "n_records")

    def setup(self, domain, n_records):
        shape = (4, 4, 4, 3, 3, 3) if domain == "car" else (2,) * 20
        self.views, self.records, rate, log_prior, half = case(shape, n_records)
        self.rate = rate
        self.roots = np.arange(1, 7)
        self.root = (log_prior, log_prior + half, half)
        self.twin = twin_tables(self.views, self.records, rate)
        assert np.array_equal(self.time_mmech(domain, n_records), self.numpy())

    def numpy(self):
        return numpy_root_log_weights(self.roots, *self.twin, *self.root)

    def time_mmech(self, domain, n_records):
        nodes = our_nodes(self.views, self.records, self.rate)
        return in_units(nodes.roots(self.roots), self.rate)

    def time_numpy(self, domain, n_records):
        self.numpy()


class ManyClasses(TreeSelection):
    """Records of 26 classes and of 64 cells; roots are four resolutions of one."""

    params = (["letter"], [2_000, 20_000])

    def setup(self, domain, n_records):
        self.views, self.records, rate, log_prior, half = case((64,) * 4, n_records, 26)
        self.rate = rate
        self.roots = np.arange(1, 5)
        self.root = (log_prior, log_prior + half, half)
        self.twin = twin_tables(self.views, self.records, rate)
        assert np.array_equal(self.time_mmech(domain, n_records), self.numpy())
