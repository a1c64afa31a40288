"""Junction trees: every block in a clique, and running intersection."""

from hypothesis import given
from hypothesis import strategies as st

from mmech.tables.model import junction_tree

SUBSETS = st.sets(st.integers(0, 7), min_size=1, max_size=3).map(
    lambda found: tuple(sorted(found))
)


@given(st.lists(SUBSETS, max_size=10), st.lists(st.integers(2, 5), min_size=8))
def test_every_tree_is_a_junction_tree(blocks, sizes):
    cliques = junction_tree(blocks, sizes)
    sets = [set(clique.attributes) for clique in cliques]
    assert set().union(*sets) == {i for block in blocks for i in block}
    assert all(any(set(block) <= clique for clique in sets) for block in blocks)
    # None is in another one.
    assert not any(a <= b for a in sets for b in sets if a is not b)
    for j, clique in enumerate(cliques):
        assert list(clique.attributes) == sorted(sets[j])
        seen = set().union(*sets[:j])
        assert set(clique.separator) == sets[j] & seen
        before = [set(), *sets[:j]]
        assert any(set(clique.separator) <= other for other in before)


def test_chains_trees_and_parts_stay_small():
    chain = [(i, i + 1) for i in range(9)]
    assert [c.attributes for c in junction_tree(chain, (2,) * 10)] == chain
    star = junction_tree([(0, i) for i in range(1, 6)], (9,) * 6)
    assert all(len(c.attributes) == 2 for c in star)
    parts = junction_tree([(0,), (1,), (2, 3)], (2,) * 4)
    assert [c.separator for c in parts] == [()] * 3
    assert junction_tree([], ()) == []
    # A ring of six needs cliques of three.
    ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)]
    assert max(len(c.attributes) for c in junction_tree(ring, (2,) * 6)) == 3
