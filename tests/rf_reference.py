"""Plain Python twins of the forest kernels, for small domains."""

import itertools

import hypothesis.strategies as st
import numpy as np
from schema_cases import schema_of

from mmech_rf import grow_random_forest
from mmech_rf.methods import SPLITS

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(state):
    """splitmix64 output function on Python integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def draw_below(bound, state):
    """Uniform integer in [0, bound) by Lemire's method with 32-bit words."""
    while True:
        product = (mix(state) >> 32) * bound
        if product % 2**32 >= 2**32 % bound:
            return product >> 32
        state ^= mix((state + GOLDEN) & MASK)


@st.composite
def schemas(draw, most=5):
    """Attributes of up to so many values, of all kinds."""
    texts = st.tuples(st.sampled_from("con"), st.integers(1, most))
    drawn = draw(st.lists(texts, min_size=1, max_size=4))
    return schema_of(*(f"{kind}{size}" for kind, size in drawn))


@st.composite
def forests(draw, most=5):
    """Small forests, grown with every kind of split."""
    return grow_random_forest(
        draw(schemas(most)),
        draw(st.integers(1, 3)),
        draw(st.integers(0, 6)),
        splits=draw(st.sampled_from(SPLITS)),
        seed=draw(st.integers(0, 2**40)),
    )


def nested(forest):
    """The trees as nested tuples (attribute, value, [children]), a leaf being None."""

    def subtree(node):
        attribute = int(forest.feature[node])
        if attribute < 0:
            return None
        value = -1 if forest.value is None else int(forest.value[node])
        width = forest.domain_shape[attribute] if value < 0 else 2
        first = int(forest.child[node])
        return attribute, value, [subtree(first + i) for i in range(width)]

    return [subtree(int(root)) for root in forest.node_offsets[:-1]]


def boxes(forest):
    """Which values of every attribute each leaf allows, as masks."""

    def walk(node, allowed):
        if node is None:
            yield allowed
            return
        attribute, value, children = node
        codes = np.arange(forest.domain_shape[attribute])
        if value < 0:
            parts = codes == codes[:, None]
        elif forest.ordered[attribute]:
            parts = codes <= value, codes > value
        else:
            parts = codes == value, codes != value
        for part, child in zip(parts, children, strict=True):
            narrowed = list(allowed)
            narrowed[attribute] = allowed[attribute] & part
            yield from walk(child, narrowed)

    everything = [np.ones(size, bool) for size in forest.domain_shape]
    return [box for tree in nested(forest) for box in walk(tree, everything)]


def inside(forest, codes):
    """Whether a leaf holds a record, shape (leaves, records)."""
    columns = np.asarray(codes).T
    return np.array(
        [
            np.logical_and.reduce([m[c] for m, c in zip(box, columns, strict=True)])
            for box in boxes(forest)
        ]
    )


def apply(forest, codes):
    """The one leaf of each tree whose box holds a record."""
    trees = np.split(inside(forest, codes), forest.leaf_offsets[1:-1])
    assert all((own.sum(axis=0) == 1).all() for own in trees)
    return np.column_stack([own.argmax(axis=0) for own in trees])


def cells(domain_shape):
    """Codes of all cells, first attribute most significant."""
    ranges = [range(size) for size in domain_shape]
    return np.array(list(itertools.product(*ranges)), dtype=np.int64)


def leaf_paths(forest, tree, schema):
    """Return the tests on the path to every leaf of a tree, by their ids."""

    def walk(node, path):
        a = forest.feature[node]
        if a < 0:
            yield " & ".join(path)
            return
        name, labels = schema.names[a], schema.attributes[a].labels
        value = -1 if forest.value is None else forest.value[node]
        tests = [f"{name}={label}" for label in labels]
        if value >= 0:
            relations = ("<=", ">") if forest.ordered[a] else ("=", "!=")
            tests = [f"{name}{relation}{labels[value]}" for relation in relations]
        for branch, test in enumerate(tests):
            yield from walk(forest.child[node] + branch, (*path, test))

    return list(walk(forest.node_offsets[tree], ()))
