"""Numba kernels of the forests: growth, routing, counting and leaf predicates.

Every array is C-contiguous. Kernels trust their arguments; `forest.py` and
`growth.py` check them. The layout of a forest is described in
`mmech_rf.forest.forest.Forest`: nodes of all trees one after the other. `feature`
(n_nodes,) int32 is -1 at a leaf; `child` (n_nodes,) int32 is the first child, or the
leaf id at a leaf.

Forests with two-way tests come with `tests` (n_nodes, 4) int32: feature, child, the
lowest code that passes and the number of codes above it that pass, -1 where there is
a child for every value. It is empty for multiway forests, of one type with the others.
"""

import numba
import numpy as np

kernel = numba.njit(cache=True, nogil=True, error_model="numpy")

# Records routed through one tree before the next tree is touched: enough to pay for
# loading the tree, few enough for their one-byte codes to stay in a fast cache.
BLOCK = 1024

# splitmix64 (Steele, Lea, Flood 2014): increment and the two multipliers
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_LOW_WORD = np.uint64(0xFFFFFFFF)
_TWO_TO_32 = np.uint64(1 << 32)


@kernel
def _mix(state):
    # splitmix64 output function: uint64 -> uint64, a bijection
    state = (state ^ (state >> _30)) * _MULTIPLIER_1
    state = (state ^ (state >> _27)) * _MULTIPLIER_2
    return state ^ (state >> _31)


@kernel
def _child_state(state, branch):
    # random state of child number `branch` (int64) of a node with `state` (uint64)
    return _mix(state + np.uint64(branch + 1) * _GOLDEN)


@kernel
def _draw_below(bound, state):
    # exactly uniform int64 in [0, bound), 0 < bound < 2**31, from a uint64 state
    # (Lemire 2019: multiply, and reject the few words that would bias)
    width = np.uint64(bound)
    product = (_mix(state) >> _32) * width
    if (product & _LOW_WORD) < width:
        threshold = (_TWO_TO_32 - width) % width
        while (product & _LOW_WORD) < threshold:
            state = state ^ _mix(state + _GOLDEN)
            product = (_mix(state) >> _32) * width
    return np.int64(product >> _32)


@kernel
def _swap(values, i, j):
    # exchange two entries of values (n,) int64
    kept = values[i]
    values[i] = values[j]
    values[j] = kept


@kernel
def _next_sibling(level, node, last):
    # step a depth-first walk past a leaf at `level`: node, last (depth + 1,) int64
    # hold the current node and its last sibling; returns the new level, -1 = done
    while level >= 0 and node[level] == last[level]:
        level -= 1
    if level >= 0:
        node[level] += 1
    return level


@kernel
def _route_tests(tests, root, codes, leaves, place, step):
    # leaf id of records in one tree of two-way tests, as in _route
    root = np.uint32(root)
    for i in range(codes.shape[0]):
        record = np.uint32(i)
        node = root
        attribute = tests[node, 0]
        while attribute >= 0:
            code = np.int32(codes[record, np.uint32(attribute)])
            above = tests[node, 3]
            if above < 0:
                branch = np.uint32(code)
            else:
                # Unsigned: codes below the lowest wrap around, and are too large.
                over = np.uint32(code - tests[node, 2])
                branch = np.uint32(over > np.uint32(above))
            node = np.uint32(np.uint32(tests[node, 1]) + branch)
            attribute = tests[node, 0]
        leaves[place] = tests[node, 1]
        place += step


@kernel
def _route(feature, child, tests, root, codes, leaves, place, step):
    # leaf id of records in one tree: feature, child (n_nodes,) int32, tests
    # (n_nodes, 4) int32 or empty, codes (N, d) uint8 or int32; written to
    # leaves[place], leaves[place + step] and so on, one array of int32; unsigned 64
    if tests.shape[0]:
        _route_tests(tests, root, codes, leaves, place, step)
        return
    # Unsigned indices: signed ones may be negative, and the test for that costs half
    # the time.
    root = np.uint32(root)
    for i in range(codes.shape[0]):
        record = np.uint32(i)
        node = root
        attribute = feature[node]
        while attribute >= 0:
            branch = np.uint32(codes[record, np.uint32(attribute)])
            node = np.uint32(np.uint32(child[node]) + branch)
            attribute = feature[node]
        leaves[place] = child[node]
        place += step


@kernel
def apply_trees(feature, child, tests, node_offsets, codes, leaves, by_record, by_tree):
    # leaf ids of records: feature, child (n_nodes,) int32, tests (n_nodes, 4) int32 or
    # empty, node_offsets (n_trees + 1,) int64, codes (N, d) uint8 or int32; record i
    # and tree t have leaves[i * by_record + t * by_tree], int32
    step = np.uint64(by_record)
    for start in range(0, codes.shape[0], BLOCK):
        block = codes[start : start + BLOCK]
        for tree in range(node_offsets.shape[0] - 1):
            place = np.uint64(start * by_record + tree * by_tree)
            _route(
                feature, child, tests, node_offsets[tree], block, leaves, place, step
            )


@kernel
def count_leaves(
    feature, child, tests, node_offsets, leaf_offsets, codes, classes, counts
):
    # add records to their leaf in every tree: feature, child (n_nodes,) int32, tests
    # (n_nodes, 4) int32 or empty, offsets (n_trees + 1,) int64, codes (N, d) uint8 or
    # int32, classes (N,) int64, counts (n_leaves, k) int64
    routed = np.empty(BLOCK, np.int32)
    first, step = np.uint64(0), np.uint64(1)
    for start in range(0, codes.shape[0], BLOCK):
        block = codes[start : start + BLOCK]
        for tree in range(node_offsets.shape[0] - 1):
            root = node_offsets[tree]
            _route(feature, child, tests, root, block, routed, first, step)
            tree_counts = counts[leaf_offsets[tree] : leaf_offsets[tree + 1]]
            for i in range(block.shape[0]):
                leaf = np.uint32(routed[i])
                tree_counts[leaf, np.uint32(classes[start + i])] += 1


@kernel
def count_assigned_leaves(
    feature, child, tests, node_offsets, leaf_offsets, codes, classes, trees, counts
):
    # add record i to its leaf in tree trees[i] only: feature, child (n_nodes,) int32;
    # tests (n_nodes, 4) int32 or empty; offsets (n_trees + 1,) int64; codes (N, d)
    # uint8 or int32; classes, trees (N,) int64; counts (n_leaves, k) int64
    leaf = np.empty(1, np.int32)
    first, step = np.uint64(0), np.uint64(1)
    for i in range(codes.shape[0]):
        tree = trees[i]
        root, record = node_offsets[tree], codes[i : i + 1]
        _route(feature, child, tests, root, record, leaf, first, step)
        counts[leaf_offsets[tree] + leaf[0], classes[i]] += 1


@kernel
def leaf_masks(sizes, depth, feature, child, tests, node_offsets, leaf_offsets, masks):
    # which values a leaf's path allows: sizes (d,) int64, depth of the forest, feature,
    # child (n_nodes,) int32, tests (n_nodes, 4) int32 or empty, offsets (n_trees + 1,)
    # int64; masks (n_leaves * sum(sizes),) bool: one (n_leaves, n_i) block per
    # attribute, on entry all true
    n_attributes = sizes.shape[0]
    n_leaves = leaf_offsets[-1]
    block = np.zeros(n_attributes, np.int64)
    for attribute in range(1, n_attributes):
        block[attribute] = block[attribute - 1] + n_leaves * sizes[attribute - 1]
    node = np.empty(depth + 1, np.int64)
    last = np.empty(depth + 1, np.int64)
    for tree in range(node_offsets.shape[0] - 1):
        level = 0
        node[0] = node_offsets[tree]
        last[0] = node[0]
        while level >= 0:
            current = node[level]
            if feature[current] >= 0:
                n_children = sizes[feature[current]]
                if tests.shape[0] and tests[current, 3] >= 0:
                    n_children = 2
                level += 1
                node[level] = child[current]
                last[level] = node[level] + n_children - 1
                continue
            row = leaf_offsets[tree] + child[current]
            for above in range(level):
                tested = node[above]
                attribute = feature[tested]
                size = sizes[attribute]
                taken = node[above + 1] - child[tested]
                start = block[attribute] + row * size
                if tests.shape[0] and tests[tested, 3] >= 0:
                    low = tests[tested, 2]
                    stop = low + tests[tested, 3] + 1
                    if taken == 1:
                        masks[start + low : start + stop] = False
                    else:
                        masks[start : start + low] = False
                        masks[start + stop : start + size] = False
                    continue
                for value in range(size):
                    masks[start + value] = value == taken
            level = _next_sibling(level, node, last)


# ---- growth ---------------------------------------------------------------------

# Kinds of test of an attribute: a child for every value; equal to a value or not; at
# most a value or above it.
MULTIWAY, EQUALITY, THRESHOLD = 0, 1, 2

# A branch that no node has: its state draws the value that a node tests.
_VALUE_DRAW = 2**32


@kernel
def _narrow(kind, size, branch, a, value, slot, start, table, low, remaining):
    # restrict attribute a to the values of a branch of a test: value tested, slot in
    # table where an equality test found it, start of the attribute in table; low,
    # remaining (d,) int64: first possible code of thresholds, number of possible codes
    if kind == THRESHOLD:
        below = value + 1 - low[a]
        if branch == 0:
            remaining[a] = below
        else:
            low[a] += below
            remaining[a] -= below
    elif kind == EQUALITY and branch == 1:
        # Values that are excluded come first in the attribute's part of the table.
        _swap(table, slot, start + size - remaining[a])
        remaining[a] -= 1
    else:
        remaining[a] = 1


@kernel
def grow_trees(
    seeds, sizes, kinds, starts, table, splittable, depth, max_nodes, write,
    node_offsets, leaf_offsets, feature, child, value,
):  # fmt: skip
    # random trees, depth first, with tests of several kinds: seeds (n_trees,) uint64,
    # sizes, kinds, starts (d,) int64; table (any,) int64 from starts[i]: the values of
    # an attribute of kind EQUALITY, left as found, or the cumulative weights of the
    # cuts of a THRESHOLD one, (n_i,) from 0; splittable (m,) int64; offsets
    # (n_trees + 1,) int64, written unless `write`; feature, child, value (n_nodes,)
    # int32, written if `write`; returns the number of trees, less than n_trees if
    # max_nodes is passed
    low = np.zeros_like(sizes)
    remaining = sizes.copy()
    node = np.empty(depth + 1, np.int64)
    last = np.empty(depth + 1, np.int64)
    first = np.empty(depth + 1, np.int64)
    tested = np.empty(depth + 1, np.int64)
    cut = np.empty(depth + 1, np.int64)
    slot = np.empty(depth + 1, np.int64)
    kept_low = np.empty(depth + 1, np.int64)
    kept_remaining = np.empty(depth + 1, np.int64)
    state = np.empty(depth + 1, np.uint64)
    if not write:
        node_offsets[0] = 0
        leaf_offsets[0] = 0
    for tree in range(seeds.shape[0]):
        root = node_offsets[tree]
        n_nodes = 1
        n_leaves = 0
        n_open = splittable.shape[0]
        level = 0
        node[0] = root
        last[0] = root
        state[0] = seeds[tree]
        while level >= 0:
            current = node[level]
            if level > 0:
                above = level - 1
                a = tested[above]
                branch = current - first[above]
                state[level] = _child_state(state[above], branch)
                kept_low[above] = low[a]
                kept_remaining[above] = remaining[a]
                _narrow(
                    kinds[a], sizes[a], branch, a, cut[above], slot[above], starts[a],
                    table, low, remaining,
                )  # fmt: skip
                n_open -= remaining[a] == 1
            descend = False
            if level < depth and n_open > 0:
                # the attribute: one of those with more than one possible value
                skip = _draw_below(n_open, state[level])
                position = -1
                while skip >= 0:
                    position += 1
                    skip -= remaining[splittable[position]] > 1
                a = splittable[position]
                tested[level] = a
                n_children = 2
                cut[level] = -1
                if kinds[a] == MULTIWAY:
                    n_children = sizes[a]
                elif kinds[a] == EQUALITY:
                    word = _child_state(state[level], _VALUE_DRAW)
                    slot[level] = (
                        starts[a] + sizes[a] - remaining[a]
                        + _draw_below(remaining[a], word)
                    )  # fmt: skip
                    cut[level] = table[slot[level]]
                else:
                    word = _child_state(state[level], _VALUE_DRAW)
                    lowest = starts[a] + low[a]
                    highest = lowest + remaining[a] - 1
                    weight = table[lowest] + _draw_below(
                        table[highest] - table[lowest], word
                    )
                    while highest - lowest > 1:
                        middle = (lowest + highest) // 2
                        if table[middle] <= weight:
                            lowest = middle
                        else:
                            highest = middle
                    cut[level] = lowest - starts[a]
                first[level] = root + n_nodes
                n_nodes += n_children
                if root + n_nodes > max_nodes:
                    return tree
                if write:
                    feature[current] = a
                    child[current] = first[level]
                    value[current] = cut[level]
                descend = level + 1 < depth
                if not descend:
                    # All children are leaves: most nodes are written here.
                    if write:
                        for i in range(n_children):
                            feature[first[level] + i] = -1
                            child[first[level] + i] = n_leaves + i
                            value[first[level] + i] = -1
                    n_leaves += n_children
            else:
                if write:
                    feature[current] = -1
                    child[current] = n_leaves
                    value[current] = -1
                n_leaves += 1
            if descend:
                level += 1
                node[level] = first[level - 1]
                last[level] = node[level] + n_children - 1
                continue
            while level >= 0:
                # The subtree is done: give the attribute its values back.
                if level > 0:
                    above = level - 1
                    a = tested[above]
                    n_open += remaining[a] == 1
                    low[a] = kept_low[above]
                    remaining[a] = kept_remaining[above]
                    if kinds[a] == EQUALITY and node[level] != first[above]:
                        _swap(table, slot[above], starts[a] + sizes[a] - remaining[a])
                if node[level] < last[level]:
                    node[level] += 1
                    break
                level -= 1
        if not write:
            node_offsets[tree + 1] = root + n_nodes
            leaf_offsets[tree + 1] = leaf_offsets[tree] + n_leaves
    return seeds.shape[0]


@kernel
def check_trees(
    sizes, ordered, feature, child, value, node_offsets, leaf_offsets, max_depth, report
):
    # verify the layout: sizes (d,) int64; ordered (d,) bool; feature, child, value
    # (n_nodes,) int32; offsets (n_trees + 1,) int64; max_depth bounds the tests of a
    # path; report (3,) int64 = reason, node, depth of the forest; reason 0 = sound, 1 =
    # bad attribute, 2 = a child per value of an attribute tested before, 3 = bad child;
    # 4 = bad leaf id, 5 = wrong number of nodes, 6 = wrong number of leaves; 7 = a test
    # that not every child can pass
    n_attributes = sizes.shape[0]
    low = np.zeros(n_attributes, np.int64)
    remaining = sizes.copy()
    kept_low = np.empty(max_depth + 1, np.int64)
    kept_remaining = np.empty(max_depth + 1, np.int64)
    node = np.empty(max_depth + 1, np.int64)
    last = np.empty(max_depth + 1, np.int64)
    report[:] = 0
    for tree in range(node_offsets.shape[0] - 1):
        stop = node_offsets[tree + 1]
        n_leaves = leaf_offsets[tree + 1] - leaf_offsets[tree]
        leaf = 0
        free = node_offsets[tree] + 1
        level = 0
        node[0] = node_offsets[tree]
        last[0] = node[0]
        while level >= 0:
            current = node[level]
            attribute = feature[current]
            tested = value[current]
            report[1] = current
            if attribute < -1 or attribute >= n_attributes:
                report[0] = 1
                return
            if level > 0:
                above = node[level - 1]
                a = feature[above]
                kept_low[level] = low[a]
                kept_remaining[level] = remaining[a]
                branch = current - child[above]
                if value[above] < 0:
                    remaining[a] = 1
                elif ordered[a]:
                    below = value[above] + 1 - low[a]
                    low[a] += below * branch
                    remaining[a] = below if branch == 0 else remaining[a] - below
                else:
                    remaining[a] = 1 if branch == 0 else remaining[a] - 1
            if attribute >= 0:
                n_children = 2
                sound = remaining[attribute] > 1 and tested >= -1
                if tested == -1:
                    n_children = sizes[attribute]
                    sound = remaining[attribute] == n_children
                elif ordered[attribute]:
                    over = tested - low[attribute]
                    sound = sound and 0 <= over < remaining[attribute] - 1
                else:
                    sound = sound and tested < sizes[attribute]
                    for i in range(level):
                        twice = feature[node[i]] == attribute
                        sound = sound and not (twice and value[node[i]] == tested)
                if not sound:
                    again = tested == -1 and remaining[attribute] < n_children
                    report[0] = 2 if again else 7
                    return
                if child[current] != free:
                    report[0] = 3
                    return
                if free + n_children > stop:
                    report[0] = 5
                    return
                level += 1
                node[level] = free
                free += n_children
                last[level] = free - 1
                continue
            if child[current] != leaf or tested != -1:
                report[0] = 4
                return
            leaf += 1
            report[2] = max(report[2], level)
            while level >= 0:
                if level > 0:
                    a = feature[node[level - 1]]
                    low[a] = kept_low[level]
                    remaining[a] = kept_remaining[level]
                if node[level] < last[level]:
                    node[level] += 1
                    break
                level -= 1
        if free != stop:
            report[0] = 5
            return
        if leaf != n_leaves:
            report[0] = 6
            return


# ------------------------------------------------------- selection of labelled trees
#
# The logarithm of a weight is rate * score + rest, in units of 2**-36, and stays two
# int64 numbers (score, rest): the product would leave 64 bits where there are many
# records, or much budget. Rests are sums of few logarithms of priors and of means.
# A table of scores has k columns; sums over labels are means, that is, weights of
# labels are 1/k before any record.

_UNIT = 2.0**36
NEGLIGIBLE = np.int64(45) << np.int64(36)
_FAR = np.int64(1) << np.int64(60)
_SMALL = 1e-30

# Records are counted one by one, or 64 at a time. Then they are sorted by class, and
# are bits of a map that
# are set in a node and a cell; a weight is then a map for each of its binary digits.
_WORDS_PER_RECORD = 5  # words that are counted in the time of a record
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_PAIRS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SUM_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@kernel
def _add_log_mean_weights(table, size, k, rate, exps, out):
    # adds the log of the product over cells of the mean of exp(rate * score) over k
    # labels to out (2,) int64; table (size * k,) of scores, exps of drawn.bits; a score
    # that is lower by more than negligible = NEGLIGIBLE // rate adds nothing
    negligible = NEGLIGIBLE // rate
    n = exps.shape[0]
    product = 1.0
    for z in range(size):
        scores = table[z * k : (z + 1) * k]
        best = scores[0]
        for c in range(1, k):
            best = max(best, scores[c])
        if best == 0:
            continue
        total = 0
        if best < n:
            for c in range(k):
                total += exps[np.uint64(best - scores[c])]
        else:
            for c in range(k):
                below = best - scores[c]
                if below < n:
                    total += exps[below]
                elif below <= negligible:
                    gap = below * rate
                    total += np.int64(np.rint(np.exp(-gap / _UNIT) * exps[0]))
        out[0] += best
        product *= total / (np.float64(k) * exps[0])
        if product < _SMALL:
            out[1] += np.int64(np.rint(np.log(product) * _UNIT))
            product = 1.0
    out[1] += np.int64(np.rint(np.log(product) * _UNIT))


@kernel
def _gap(first, second, rate, far):
    # how far one logarithm (2,) lies above another; where the scores are further apart
    # than far = _FAR // rate only the sign and that it is large are right
    above = min(max(first[0] - second[0], -far - 1), far + 1)
    return above * rate + (first[1] - second[1])


@kernel
def _add_log_sum(logarithms, n, rate, far, out):
    # adds the log of the sum of n weights, logarithms (n, 2) int64, to out (2,)
    best = 0
    for v in range(1, n):
        if _gap(logarithms[v], logarithms[best], rate, far) > 0:
            best = v
    total = 0.0
    for v in range(n):
        gap = _gap(logarithms[best], logarithms[v], rate, far)
        if gap < NEGLIGIBLE:
            total += np.exp(-gap / _UNIT)
    out[0] += logarithms[best, 0]
    out[1] += logarithms[best, 1] + np.int64(np.rint(np.log(total) * _UNIT))


@kernel
def _population(word):
    # number of bits that are set in a uint64; compiles to one instruction
    word = word - ((word >> _1) & _PAIRS)
    word = (word & _NIBBLES) + ((word >> _2) & _NIBBLES)
    return np.int64((((word + (word >> _4)) & _BYTES) * _SUM_BYTES) >> _56)


@kernel
def pack_views(views, sizes, slots, starts, maps):
    # bit maps of all cells of a view except its last: views (v, n) uint8; sizes (v,)
    # int64; slots (n,) int64, the bit of every record; starts (v,) int64, the first map
    # of every view, -1 for views without maps; maps (m, words) uint64, zeros before
    for v in range(views.shape[0]):
        if starts[v] < 0:
            continue
        for i in range(slots.shape[0]):
            if views[v, i] < sizes[v] - 1:
                bit = np.uint64(1) << np.uint64(slots[i] & 63)
                maps[starts[v] + views[v, i], slots[i] >> 6] |= bit


@kernel
def pack_weights(weights, slots, planes):
    # planes (p, words) uint64, zeros before: the binary digits of weights (n,) int64,
    # each less than 2**p; slots as above
    for i in range(weights.shape[0]):
        bit = np.uint64(1) << np.uint64(slots[i] & 63)
        for b in range(planes.shape[0]):
            if (weights[i] >> b) & 1:
                planes[b, slots[i] >> 6] |= bit


@kernel
def _in_common(one, other):
    # number of bits that are set in both of two maps (words,) uint64
    count = 0
    for w in range(one.shape[0]):
        count += _population(one[w] & other[w])
    return count


@kernel
def _add_bits(masks, map_, words, k, n_planes, table, start):
    # add to table[start : start + k] the weights by class of records that are in masks
    # (p, words) and in map_ (words,); masks are the binary digits of weights in a node;
    # further digits, after n_planes, are added to the entries after these
    for c in range(k):
        own = map_[words[c] : words[c + 1]]
        for b in range(n_planes):
            table[start + c] += _in_common(masks[b, words[c] : words[c + 1]], own) << b
    for b in range(n_planes, masks.shape[0]):
        table[start + k] += _in_common(masks[b], map_) << (b - n_planes)


@kernel
def _mask_planes(rows, slots, planes, masks):
    # masks (p, words) uint64: the bits of planes at slots (n,) int64 of some rows
    mask = np.zeros(planes.shape[1], np.uint64)
    for i in rows:
        mask[slots[i] >> 6] |= np.uint64(1) << np.uint64(slots[i] & 63)
    for b in range(planes.shape[0]):
        for w in range(mask.shape[0]):
            masks[b, w] = planes[b, w] & mask[w]


@kernel
def _count_cells(
    v, rows, views, sizes, classes, weights, right, k, words, maps, starts, masks,
    n_planes, node, out
):  # fmt: skip
    # class weights (cell, class) of one node in a view: out (cells * columns,)
    # rows (n,) int64 of its records in views, and their own classes, weights and right
    # weights; masks (p, words) with the digits of right weights after n_planes of them,
    # if there are any; node (columns,) sums of all
    n_columns = node.shape[0]
    out[:] = 0
    row = views[v]
    n_maps = sizes[v] - 1
    work = n_maps * masks.shape[0] * maps.shape[1]
    if starts[v] < 0 or work > _WORDS_PER_RECORD * rows.shape[0]:
        for i in range(rows.shape[0]):
            place = np.uint64(row[rows[i]] * n_columns)
            out[place + np.uint64(classes[i])] += weights[i]
            if n_columns > k:
                out[place + np.uint64(k)] += right[i]
        return
    # What the last cell holds is the rest.
    last = out.shape[0] - n_columns
    for c in range(n_columns):
        out[last + c] = node[c]
    for z in range(n_maps):
        place = z * n_columns
        _add_bits(masks, maps[starts[v] + z], words, k, n_planes, out, place)
        for c in range(n_columns):
            out[last + c] -= out[place + c]


@kernel
def _merge_cells(v, merged, n_columns, table, out):
    # class weights of a node in a view that follows from a finer one: table, out
    # (cells * columns,); merged (v, cells of the finer one) the cell that each is in
    out[:] = 0
    for z in range(table.shape[0] // n_columns):
        for c in range(n_columns):
            out[merged[v, z] * n_columns + c] += table[z * n_columns + c]


@kernel
def _join(joined, width, tables):
    # adds up nodes that a node holds, tables (m, width or more)
    for x in range(joined.shape[0]):
        if joined[x] >= 0:
            own, sums = tables[x, :width], tables[joined[x], :width]
            for i in range(width):
                sums[i] += own[i]


@kernel
def _sums_by_class(classes, weights, right, k, node):
    # node (columns,): class weights of records, and right weights after them
    node[:] = 0
    for i in range(classes.shape[0]):
        node[classes[i]] += weights[i]
        if node.shape[0] > k:
            node[k] += right[i]


@kernel
def view_tables(
    views, sizes, order, finer, merged, classes, weights, right, k, slots, words, maps,
    starts, planes, n_planes, offsets, out
):  # fmt: skip
    # class weights of all records in every view: out (offsets[v],), see below
    rows = np.arange(views.shape[1])
    node = np.empty(k + (planes.shape[0] > n_planes), np.int64)
    _sums_by_class(classes, weights, right, k, node)
    for v in order:
        own = out[offsets[v] : offsets[v + 1]]
        if finer[v] < 0:
            _count_cells(
                v, rows, views, sizes, classes, weights, right, k, words, maps, starts,
                planes, n_planes, node, own
            )  # fmt: skip
            continue
        above = out[offsets[finer[v]] : offsets[finer[v] + 1]]
        _merge_cells(v, merged, node.shape[0], above, own)


@kernel
def split_log_weights(
    cell, n_cells, joined, views, sizes, order, finer, merged, classes, weights, right,
    k, slots, words, maps, starts, planes, n_planes, offsets, exps, totals,
    rate, log_prior, log_stop, out
):  # fmt: skip
    # log weights of the choices of a node, for the n_cells nodes that hold records and
    # for further nodes: out (m, v + 1, 2) int64, one for each view v to split by, the
    # last for a leaf
    # cell (n,) uint8; joined (m,) int64: a further node that contains the node, or -1;
    # views (v, n) uint8; sizes (v,);
    # order, finer (v,), merged (v, cells) of Views: which views follow from finer ones;
    # classes, weights (n,) int64; right (n,) int64: weights where a prediction is
    # right, empty without predictions;
    # slots (n,), words (k + 1,), maps, starts (v,), planes: bit maps of drawn.bits;
    # offsets (v + 1,) of tables in totals, made by view_tables; exps of drawn.bits;
    # rate from 1 to 2**60; log_prior (v,) int64 includes splitting
    n, n_nodes, n_views = cell.shape[0], out.shape[0], sizes.shape[0]
    n_columns = k + (planes.shape[0] > n_planes)
    stops = np.zeros(n_cells, np.int64)
    for i in range(n):
        stops[cell[i]] += 1
    largest = 0
    for x in range(n_cells):
        if stops[x] > stops[largest]:
            largest = x
    for x in range(1, n_cells):
        stops[x] += stops[x - 1]
    rows = np.empty(n, np.int64)
    own_classes = np.empty(n, np.int64)
    own_weights = np.empty(n, np.int64)
    own_right = np.empty(right.shape[0], np.int64)
    place = stops.copy()
    for j in range(n):
        i = n - 1 - j
        place[cell[i]] -= 1
        row = place[cell[i]]
        rows[row] = i
        own_classes[row] = classes[i]
        own_weights[row] = weights[i]
        if right.shape[0]:
            own_right[row] = right[i]
    nodes = np.zeros((n_nodes, n_columns), np.int64)
    masks = np.empty((n_cells, planes.shape[0], planes.shape[1]), np.uint64)
    for x in range(n_cells):
        start, stop = stops[x - 1] if x else 0, stops[x]
        _mask_planes(rows[start:stop], slots, planes, masks[x])
        _sums_by_class(
            own_classes[start:stop], own_weights[start:stop], own_right[start:stop], k,
            nodes[x]
        )  # fmt: skip
    _join(joined, n_columns, nodes)
    out[:] = 0
    for x in range(n_nodes):
        out[x, n_views, 1] = log_stop
        _add_log_mean_weights(
            nodes[x], np.int64(1), n_columns, rate, exps, out[x, n_views]
        )
    # A view that follows from a finer one comes after it.
    tables = np.empty((2, n_nodes, sizes.max() * n_columns), np.int64)
    now = 0
    for v in order:
        width = sizes[v] * n_columns
        now = 1 - now
        if finer[v] < 0:
            # The node with most records holds what the others do not.
            rest = tables[now, largest]
            for i in range(width):
                rest[i] = totals[offsets[v] + i]
            for x in range(n_cells):
                if x == largest:
                    continue
                start, stop = stops[x - 1] if x else 0, stops[x]
                own = tables[now, x, :width]
                _count_cells(
                    v, rows[start:stop], views, sizes, own_classes[start:stop],
                    own_weights[start:stop], own_right[start:stop], k, words, maps,
                    starts, masks[x], n_planes, nodes[x], own
                )  # fmt: skip
                for i in range(width):
                    rest[i] -= own[i]
        else:
            width_above = sizes[finer[v]] * n_columns
            for x in range(n_cells):
                above, own = tables[1 - now, x, :width_above], tables[now, x, :width]
                _merge_cells(v, merged, n_columns, above, own)
        tables[now, n_cells:, :width] = 0
        _join(joined, width, tables[now])
        for x in range(n_nodes):
            own = tables[now, x, :width]
            out[x, v, 1] = log_prior[v]
            _add_log_mean_weights(own, sizes[v], n_columns, rate, exps, out[x, v])


@kernel
def add_log_sums(ways, rate, out):
    # adds logs of sums of weights, ways (n, m, 2) int64, to out (2,) int64
    for x in range(ways.shape[0]):
        _add_log_sum(ways[x], ways.shape[1], rate, _FAR // rate, out)


# ---- recipes ------------------------------------------------------------------


@kernel
def node_histograms(codes, class_codes, record, weight, node, first, stop, starts, out):
    # Counts of the values of every attribute and of the classes in the nodes from
    # first to stop: codes (N, d), class_codes (N,) int64; a row per record and tree:
    # record, weight, node (M,) int64; starts (d + 1,) int64, where the values of an
    # attribute begin -> out (stop - first, values, k) int64, added to
    for row in range(record.shape[0]):
        here = node[row] - first
        if node[row] < first or node[row] >= stop:
            continue
        one = record[row]
        label = class_codes[one]
        for a in range(codes.shape[1]):
            out[here, starts[a] + codes[one, a], label] += weight[row]
