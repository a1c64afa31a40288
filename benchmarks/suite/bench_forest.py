"""Growing forests, routing records and counting leaves, each beside a contender."""

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from mmech_rf.forest.growth import complete_forest, grow_random_forest

from ._common import CAR


def numpy_grow(size, n_attributes, n_trees, depth, rng):
    """Features of all trees, one level at a time; all attributes of one size."""
    used = np.zeros((n_trees, n_attributes), dtype=bool)
    levels = []
    for level in range(depth):
        keys = rng.random(used.shape, dtype=np.float32)
        keys[used] = 2.0
        feature = keys.argmin(axis=1).astype(np.int32)
        levels.append(feature)
        if level + 1 < depth:
            used[np.arange(used.shape[0]), feature] = True
            used = used.repeat(size, axis=0)
    levels.append(np.full(n_trees * size**depth, -1, dtype=np.int32))
    return levels


def numpy_apply(forest, codes):
    """Leaf ids (N, n_trees), all trees one level down at a time."""
    rows = np.arange(len(codes))[:, None]
    node = np.broadcast_to(forest.node_offsets[:-1], (len(codes), forest.n_trees))
    for _ in range(forest.depth):
        feature = forest.feature[node]
        below = forest.child[node] + codes[rows, feature]
        node = np.where(feature >= 0, below, node)
    return forest.child[node]


def numpy_count_leaves(forest, codes, classes, n_classes):
    """Leaf table by `apply` and one bincount over (N, n_trees) indices."""
    leaves = forest.apply(codes) + forest.leaf_offsets[:-1]
    cells = leaves * n_classes + classes[:, None]
    counts = np.bincount(cells.ravel(), minlength=forest.n_leaves * n_classes)
    return counts.reshape(forest.n_leaves, n_classes)


def numpy_leaf_masks(forest):
    """Masks per attribute: all leaves climb to their roots together."""
    inner = np.flatnonzero(forest.feature >= 0)
    sizes = np.array(forest.domain_shape)[forest.feature[inner]]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    parent = np.full(forest.n_nodes, -1)
    parent[np.repeat(forest.child[inner], sizes) + within] = np.repeat(inner, sizes)
    node = np.flatnonzero(forest.feature < 0)
    tree = np.searchsorted(forest.node_offsets, node, side="right") - 1
    row = forest.leaf_offsets[tree] + forest.child[node]
    masks = [np.ones((forest.n_leaves, size), bool) for size in forest.domain_shape]
    while node.size:
        row, node = row[parent[node] >= 0], node[parent[node] >= 0]
        above = parent[node]
        taken = node - forest.child[above]
        for attribute, mask in enumerate(masks):
            here = forest.feature[above] == attribute
            mask[row[here]] = False
            mask[row[here], taken[here]] = True
        node = above
    return masks


def records(n_records, domain_shape, n_classes=4):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, domain_shape, (n_records, len(domain_shape)))
    return codes, rng.integers(0, n_classes, n_records)


class Grow:
    """20 attributes of 4 values, depth 6: 5,461 nodes a tree."""

    params = ([100, 1000],)
    param_names = ("n_trees",)

    def setup(self, n_trees):
        forest = grow_random_forest((4,) * 20, 3, 6, seed=0)
        levels = numpy_grow(4, 20, 3, 6, np.random.default_rng(0))
        assert forest.n_nodes == sum(level.size for level in levels)
        assert forest.n_leaves == levels[-1].size

    def time_mmech(self, n_trees):
        grow_random_forest((4,) * 20, n_trees, 6, seed=0)

    def time_numpy(self, n_trees):
        numpy_grow(4, 20, n_trees, 6, np.random.default_rng(0))

    def peakmem_mmech(self, n_trees):
        grow_random_forest((4,) * 20, n_trees, 6, seed=0)


class GrowBesideScikitLearn:
    """20 trees: ours have 4,096 leaves, completely random ones about as many."""

    def setup(self):
        rng = np.random.default_rng(0)
        self.codes = rng.integers(0, 4, (7000, 20)).astype(np.float32)
        self.classes = rng.integers(0, 2, 7000)
        leaves = grow_random_forest((4,) * 20, 1, 6, seed=0).n_leaves
        (tree,) = self.fit(n_trees=1).estimators_
        assert 0.75 < tree.get_n_leaves() / leaves < 1.33

    def fit(self, n_trees):
        forest = ExtraTreesClassifier(n_trees, max_features=1, random_state=0)
        return forest.fit(self.codes, self.classes)

    def time_mmech(self):
        grow_random_forest((4,) * 20, 20, 6, seed=0)

    def time_sklearn(self):
        self.fit(n_trees=20)


class Apply:
    """128 trees on the car domain: 146 leaves at depth 4, scikit-learn's about 128."""

    params = ([10_000, 100_000],)
    param_names = ("n_records",)

    def setup(self, n_records):
        self.forest = grow_random_forest(CAR, 128, 4, seed=0)
        self.codes, classes = records(n_records, CAR)
        self.floats = self.codes.astype(np.float32)
        self.sklearn = RandomForestClassifier(
            128, max_depth=7, max_features=1, bootstrap=False, random_state=0
        ).fit(self.floats[:5000], classes[:5000])
        few = self.codes[:200]
        assert np.array_equal(self.forest.apply(few), numpy_apply(self.forest, few))

    def time_mmech(self, n_records):
        self.forest.apply(self.codes)

    def time_numpy(self, n_records):
        numpy_apply(self.forest, self.codes)

    def time_sklearn(self, n_records):
        self.sklearn.apply(self.floats)


class BinaryBesideScikitLearn:
    """128 trees of two-way tests on the car domain, at most 7 tests on a path.

    scikit-learn's splits are as random, but are drawn inside what the records of a
    node span: its trees need data and have about two thirds of our leaves.
    """

    def setup(self):
        self.forest = self.time_grow_mmech()
        self.codes, self.classes = records(100_000, CAR)
        self.floats = self.codes.astype(np.float32)
        self.sklearn = self.time_fit_sklearn()
        leaves = sum(tree.get_n_leaves() for tree in self.sklearn.estimators_)
        assert 0.8 < leaves / self.forest.n_leaves < 1.25
        few = self.codes[:200]
        inside = np.ones((200, self.forest.n_leaves), bool)
        for i, mask in enumerate(self.forest.leaf_masks()):
            inside &= mask[:, few[:, i]].T
        rows = self.forest.apply(few) + self.forest.leaf_offsets[:-1]
        assert np.array_equal(np.argwhere(inside)[:, 1].reshape(200, 128), rows)

    def time_grow_mmech(self):
        return grow_random_forest(CAR, 128, 7, splits="binary", seed=0)

    def time_fit_sklearn(self):
        forest = ExtraTreesClassifier(128, max_depth=7, max_features=1, random_state=0)
        return forest.fit(self.floats[:5000], self.classes[:5000])

    def time_apply_mmech(self):
        self.forest.apply(self.codes)

    def time_apply_sklearn(self):
        self.sklearn.apply(self.floats)


class GrowComplete:
    """The forest of all multiway trees, beside as many random ones."""

    def setup(self):
        assert self.time_complete().n_trees == self.time_random().n_trees == 15_504

    def time_complete(self):
        return complete_forest((2,) * 20, 5)

    def time_random(self):
        return grow_random_forest((2,) * 20, 15_504, 5, seed=0)


class ApplyDomain:
    """All cells of a domain, without and with the table of cell codes."""

    params = ([CAR, (8,) * 6],)
    param_names = ("domain_shape",)

    def setup(self, domain_shape):
        self.forest = grow_random_forest(domain_shape, 128, 4, seed=0)
        assert np.array_equal(self.forest.apply_domain(), self.by_table().T)

    def by_table(self):
        shape = self.forest.domain_shape
        return self.forest.apply(np.indices(shape).reshape(len(shape), -1).T)

    def time_mmech(self, domain_shape):
        self.forest.apply_domain()

    def time_table_of_codes(self, domain_shape):
        self.by_table()


class CountLeaves:
    """128 trees on the car domain, four classes."""

    params = ([100_000, 1_000_000],)
    param_names = ("n_records",)

    def setup(self, n_records):
        self.forest = grow_random_forest(CAR, 128, 4, seed=0)
        self.codes, self.classes = records(n_records, CAR)
        self.trees = np.random.default_rng(1).integers(0, 128, n_records)
        few = (self.codes[:2000], self.classes[:2000], 4)
        counts = numpy_count_leaves(self.forest, *few)
        assert np.array_equal(self.forest.count_leaves(*few), counts)
        assigned = self.forest.count_assigned_leaves(*few, self.trees[:2000])
        assert np.array_equal(assigned, self.numpy_assigned(2000))

    def numpy_assigned(self, n_records):
        """Every record walks down the tree it is assigned to."""
        counts = np.zeros((self.forest.n_leaves, 4), np.int64)
        for start in range(0, n_records, 100_000):
            part = slice(start, min(start + 100_000, n_records))
            trees, codes = self.trees[part], self.codes[part]
            node, rows = self.forest.node_offsets[trees], np.arange(len(codes))
            for _ in range(self.forest.depth):
                feature = self.forest.feature[node]
                below = self.forest.child[node] + codes[rows, feature]
                node = np.where(feature >= 0, below, node)
            leaves = self.forest.child[node] + self.forest.leaf_offsets[trees]
            cells = leaves * 4 + self.classes[part]
            counts += np.bincount(cells, minlength=counts.size).reshape(-1, 4)
        return counts

    def time_mmech(self, n_records):
        self.forest.count_leaves(self.codes, self.classes, 4)

    def time_assigned(self, n_records):
        self.forest.count_assigned_leaves(self.codes, self.classes, 4, self.trees)

    def time_assigned_numpy(self, n_records):
        self.numpy_assigned(n_records)

    def time_numpy_bincount(self, n_records):
        # In parts: at once, the indices of a million records take 2 GB.
        for start in range(0, n_records, 100_000):
            part = slice(start, start + 100_000)
            numpy_count_leaves(self.forest, self.codes[part], self.classes[part], 4)

    def peakmem_mmech(self, n_records):
        self.forest.count_leaves(self.codes, self.classes, 4)


class LeafMasks:
    """Per-leaf predicates of a forest whose domain is too large for labels."""

    def setup(self):
        self.forest = grow_random_forest((4,) * 20, 200, 5, seed=0)
        small = grow_random_forest(CAR, 4, 3, seed=0)
        for ours, theirs in zip(
            small.leaf_masks(), numpy_leaf_masks(small), strict=True
        ):
            assert np.array_equal(ours, theirs)

    def time_mmech(self):
        self.forest.leaf_masks()

    def time_numpy(self):
        numpy_leaf_masks(self.forest)
