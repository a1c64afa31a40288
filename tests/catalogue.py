"""Named small operators, each with its explicit matrix computed independently.

``CATALOGUE[name]`` is a pair (operator, dense matrix). Every public operator and
its edge cases are here; a new operator is tested by adding a line.
"""

import inspect
from functools import wraps
from itertools import product

import numpy as np
import pytest
import reference as ref
import scipy.sparse as sp
from scipy.linalg import circulant

from mmech import (
    AllRange,
    Anova,
    Circulant,
    Conjunctions,
    Dense,
    Diagonal,
    Hierarchy,
    Identity,
    Kronecker,
    Marginal,
    Marginals,
    Merged,
    Ones,
    Partition,
    PartitionStack,
    PIdentity,
    Prefix,
    Product,
    Ranges,
    Residuals,
    Scaled,
    Sparse,
    Suffix,
    Sum,
    Toeplitz,
    Total,
    VStack,
    WidthRange,
)
from mmech.operators.pidentity import ColumnScaledPIdentity
from mmech.operators.tau import Tau

SIGNED = np.array([[1, -2, 0], [0, 3, -1]])
TALL = np.array([[1, 0], [2, -1], [0, 4], [1, 1]])
ZERO_ROWS = np.array([[0, 0, 0], [1, 2, 3], [0, 0, 0]])
RANK_ONE = np.array([[1, 2, 3], [2, 4, 6], [-1, -2, -3]])
FRACTIONS = np.array([[0.5, -1.25, 0.0, 2.0], [0.0, 0.75, -0.5, 1.0]])
CENTRED = np.array([[2, -1, -1], [-1, 2, -1], [-1, -1, 2]])  # rank 2, zero sums

THETA = np.array([[0.5, 0.0, 2.0, 1.0], [0.25, 3.0, 0.0, 1.0]])
LARGE_THETA = np.array([[1e3, 1e3, 1e3], [0.0, 1e3, 1.0]])

LABELS = np.array([[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0]])
GROUPS = [3, 2, 1]
FIVE = np.array([[0, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 1, 1]])
GAP_LABELS = np.array([[3, 1, 1, 3], [0, 0, 2, 2]])  # groups 0, 2 and 1 are empty
GAP_GROUPS = [5, 3]

MASKS = [
    np.array([[1, 0], [1, 1], [0, 1]], bool),
    np.array([[1, 0, 1], [1, 1, 1], [0, 1, 0]], bool),
]
EMPTY_BOX = [
    np.array([[1, 1], [0, 0], [1, 0]], bool),
    np.array([[1, 0, 1], [1, 1, 1], [0, 0, 0]], bool),
]
SIZE_ONE = [
    np.array([[1], [1], [0]], bool),
    np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], bool),
    np.array([[1], [1], [1]], bool),
]
FOUR_ATTRIBUTES = [
    np.array([[1, 1], [1, 0], [0, 1], [1, 1]], bool),
    np.array([[1, 0, 1], [1, 1, 1], [0, 1, 0], [1, 1, 1]], bool),
    np.array([[0, 1], [1, 1], [1, 0], [1, 1]], bool),
    np.array([[1, 1], [1, 0], [0, 1], [1, 1]], bool),
]

LOWER = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0], [2, 1, 1], [2, 1, 1]])
UPPER = np.array([[2, 1, 1], [2, 1, 1], [2, 1, 1], [2, 1, 1], [2, 1, 1]])

COO = sp.coo_array(
    (np.array([1, 2, -4, 3]), ([0, 0, 1, 1], [1, 1, 0, 2])), shape=(3, 4)
)
"""Entries of one cell repeat (1 + 2), row 2 and column 3 are empty."""
COO_DENSE = np.array([[0, 3, 0, 0], [-4, 0, 3, 0], [0, 0, 0, 0]])
QUERY_LEAVES = np.array([[1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 1, 1]])

I2, I3 = ref.identity(2), ref.identity(3)
P2, P3 = ref.prefix(2), ref.prefix(3)
T3 = ref.ones(1, 3)
DECAY = [1, 0.5, 0.375, 0.3125]
TOEPLITZ = ref.toeplitz([2, -1, 5], [2, 3, 0, 4])
TRIANGLE = ref.toeplitz([2, 0, 0], [2, 1, -1])
STACK = ref.partition_stack(LABELS, GROUPS)
PI = ref.pidentity(THETA)


def even(values):
    """Return the even function with values at 0, 1, ..., mirrored at the last."""
    return lambda t: (values + values[-2:0:-1])[t % (2 * len(values) - 2)]


CATALOGUE = {
    # leaves
    "identity-1": (Identity(1), [[1]]),
    "identity": (Identity(4), ref.identity(4)),
    "total-1": (Total(1), [[1]]),
    "total": (Total(5), ref.ones(1, 5)),
    "ones-1": (Ones(1, 1), [[1]]),
    "ones-tall": (Ones(3, 2), ref.ones(3, 2)),
    "ones-wide": (Ones(2, 4), ref.ones(2, 4)),
    "prefix-1": (Prefix(1), [[1]]),
    "prefix": (Prefix(5), ref.prefix(5)),
    "all-range-1": (AllRange(1), [[1]]),
    "all-range": (AllRange(4), ref.all_range(4)),
    "diagonal-1": (Diagonal([-3]), [[-3]]),
    "diagonal-signed": (Diagonal([1, -2, 3]), ref.diagonal([1, -2, 3])),
    "diagonal-zeros": (Diagonal([0, 2, 0, 5]), ref.diagonal([0, 2, 0, 5])),
    "diagonal-float": (Diagonal([0.5, 1.5]), ref.diagonal([0.5, 1.5])),
    "dense-1": (Dense([[-2]]), [[-2]]),
    "dense-bool": (Dense([[True, False], [True, True]]), [[1, 0], [1, 1]]),
    "dense-signed": (Dense(SIGNED), SIGNED),
    "dense-tall": (Dense(TALL), TALL),
    "dense-zero-rows": (Dense(ZERO_ROWS), ZERO_ROWS),
    "dense-zero": (Dense(np.zeros((2, 3))), np.zeros((2, 3))),
    "dense-rank-one": (Dense(RANK_ONE), RANK_ONE),
    "dense-centred": (Dense(CENTRED), CENTRED),
    "dense-float": (Dense(FRACTIONS), FRACTIONS),
    "dense-fortran": (Dense(np.asfortranarray(FRACTIONS)), FRACTIONS),
    "sparse-1": (Sparse(sp.csr_array([[5]])), [[5]]),
    "sparse-signed": (Sparse(sp.csc_array(SIGNED)), SIGNED),
    "sparse-repeated-entries": (Sparse(COO), COO_DENSE),
    "sparse-zero": (Sparse(sp.csr_array((2, 3), dtype=np.int64)), np.zeros((2, 3))),
    "sparse-float": (Sparse(sp.lil_array(FRACTIONS)), FRACTIONS),
    # circulant matrices
    "circulant-1": (Circulant([3]), [[3]]),
    "circulant": (Circulant([2, -1, 0, 5]), circulant([2, -1, 0, 5])),
    "circulant-odd": (Circulant([1, 1, 0, 0, 3]), circulant([1, 1, 0, 0, 3])),
    "circulant-float": (Circulant([0.5, 0.25, 0]), circulant([0.5, 0.25, 0])),
    "circulant-singular": (Circulant([1, -1, 0, 0]), circulant([1, -1, 0, 0])),
    "circulant-zero": (Circulant([0, 0, 0]), np.zeros((3, 3))),
    "toeplitz-1": (Toeplitz([3]), [[3]]),
    "toeplitz": (Toeplitz([2, -1, 5], [2, 3, 0, 4]), TOEPLITZ),
    "toeplitz-symmetric": (Toeplitz([2, 1, 0]), ref.toeplitz([2, 1, 0], [2, 1, 0])),
    "toeplitz-column": (Toeplitz([1, -2, 0, 3], [1]), [[1], [-2], [0], [3]]),
    "toeplitz-row": (Toeplitz([0], [0, 1, 2]), [[0, 1, 2]]),
    "toeplitz-float": (Toeplitz(DECAY, [1, 0.5]), ref.toeplitz(DECAY, [1, 0.5])),
    "toeplitz-lower": (Toeplitz(DECAY, [1, 0, 0, 0]), ref.toeplitz(DECAY, 4 * [0.0])),
    "toeplitz-upper": (Toeplitz([2, 0, 0], [2, 1, -1]), TRIANGLE),
    "toeplitz-section": (
        Toeplitz([4, 1, 0, 0, 2], [4, 2, 0]),
        ref.toeplitz([4, 1, 0, 0, 2], [4, 2, 0]),
    ),
    "toeplitz-zero": (Toeplitz([0, 0], [0, 0, 0]), np.zeros((2, 3))),
    # sine waves
    "tau-1": (Tau([3, 1, 1]), [[2]]),
    "tau": (Tau([4, -1, 2, 0, 3, 1]), ref.tau(even([4, -1, 2, 0, 3, 1]), 4, [1] * 4)),
    "tau-scaled": (Tau([5, 1, 0, 2, 1], scales=[2, 1, -3]),
        ref.tau(even([5, 1, 0, 2, 1]), 3, [2, 1, -3])),
    "tau-free": (Tau([4, 1, -2, 5], "last"),
        ref.tau(even([4, 1, -2, 5, -5, 2, -1, -4]), 3, [1] * 3)),
    "tau-free-first": (
        Tau([4, 1, -2, 5], "first", [3, 2, 1]),
        ref.tau(even([4, 1, -2, 5, -5, 2, -1, -4]), 3, [1] * 3)[::-1, ::-1] * [3, 2, 1],
    ),
    "tau-float": (Tau([0.5, 0.25, 0.125], scales=[0.5]),
        ref.tau(even([0.5, 0.25, 0.125]), 1, [0.5])),
    "tau-singular": (Tau([0, 0, 0, 0]), np.zeros((2, 2))),
    "tau-inverse": (Tau([4, 1, 0, 0, 0]).pinv(),
        np.linalg.inv(ref.tau(even([4, 1, 0, 0, 0]), 3, [1] * 3))),
    # ranges and relabelled domains
    "suffix-1": (Suffix(1), [[1]]),
    "suffix": (Suffix(5), ref.suffix(5)),
    "width-range-1": (WidthRange(1, 1), [[1]]),
    "width-range-of-cells": (WidthRange(4, 1), ref.identity(4)),
    "width-range-of-all": (WidthRange(4, 4), ref.ones(1, 4)),
    "width-range-narrow": (WidthRange(7, 2), ref.width_range(7, 2)),
    "width-range-wide": (WidthRange(7, 5), ref.width_range(7, 5)),
    "ranges": (Ranges((3, 2, 2), LOWER, UPPER), ref.ranges((3, 2, 2), LOWER, UPPER)),
    "ranges-one-attribute": (Ranges((6,), [[0], [2], [1], [5]], [[5], [3], [5], [5]]),
        ref.ranges((6,), [[0], [2], [1], [5]], [[5], [3], [5], [5]])),
    "ranges-size-one": (
        Ranges((1, 4, 1), [[0, 1, 0], [0, 0, 0]], [[0, 3, 0], [0, 1, 0]]),
        [[0, 1, 1, 1], [1, 1, 0, 0]],
    ),
    "ranges-one-cell": (Ranges((1,), [[0]], [[0]]), [[1]]),
    "permuted-ranges": (Merged(AllRange(4), [2, 0, 3, 1]),
        ref.permuted(ref.all_range(4), [2, 0, 3, 1])),
    "permuted-1": (Merged(Total(1), [0]), [[1]]),
    "permuted-signed": (Merged(Dense(SIGNED), [1, 2, 0]),
        ref.permuted(SIGNED, [1, 2, 0])),
    "permuted-float": (Merged(PIdentity(THETA), [3, 1, 0, 2]),
        ref.permuted(ref.pidentity(THETA), [3, 1, 0, 2])),
    "permuted-twice": (Merged(Merged(Prefix(3), [1, 2, 0]), [1, 2, 0]),
        ref.permuted(P3, [2, 0, 1])),
    "permuted-product": (Dense(TALL.T) @ Merged(Prefix(4), [3, 1, 0, 2]),
        ref.product(TALL.T, ref.permuted(ref.prefix(4), [3, 1, 0, 2]))),
    # partitions and boxes
    "partition-1": (Partition([0]), [[1]]),
    "partition": (Partition([0, 1, 0, 2]), ref.partition([0, 1, 0, 2], 3)),
    "partition-one-group": (Partition([0, 0, 0], 1), T3),
    "partition-permutation": (Partition([2, 0, 1], 3), ref.partition([2, 0, 1], 3)),
    "partition-empty-groups": (Partition([4, 1, 1], 6), ref.partition([4, 1, 1], 6)),
    "stack-of-partitions": (PartitionStack(LABELS, GROUPS), STACK),
    "stack-of-five": (PartitionStack(FIVE, [2] * 5),
        ref.partition_stack(FIVE, [2] * 5)),
    "stack-empty-groups": (PartitionStack(GAP_LABELS, GAP_GROUPS),
        ref.partition_stack(GAP_LABELS, GAP_GROUPS)),
    "stack-of-one-cell": (PartitionStack([[0], [1]], [1, 2]),
        ref.partition_stack([[0], [1]], [1, 2])),
    "boxes": (Conjunctions(MASKS), ref.conjunctions(MASKS)),
    "boxes-empty": (Conjunctions(EMPTY_BOX), ref.conjunctions(EMPTY_BOX)),
    "boxes-size-one": (Conjunctions(SIZE_ONE), ref.conjunctions(SIZE_ONE)),
    "boxes-one-attribute": (Conjunctions(MASKS[1:]), ref.conjunctions(MASKS[1:])),
    "boxes-one-cell": (Conjunctions([[[True]]]), [[1]]),
    "boxes-four-attributes": (Conjunctions(FOUR_ATTRIBUTES),
        ref.conjunctions(FOUR_ATTRIBUTES)),
    # p-Identity
    "hierarchy": (Hierarchy(4, {1: 2, 2: -1}),
        np.vstack([2 * np.eye(4), -np.kron(np.eye(2), [[1, 1]])]).astype(int)),
    "hierarchy-real": (Hierarchy(4, {2: 0.5, 4: 1.5}),
        np.vstack([0.5 * np.kron(np.eye(2), [[1, 1]]), 1.5 * np.ones((1, 4))])),
    "hierarchy-cut": (Hierarchy(3, {1: 2, 2: 1}),
        [[2, 0, 0], [0, 2, 0], [0, 0, 2], [1, 1, 0], [0, 0, 1]]),
    "hierarchy-cut-twice": (
        Hierarchy(5, {1: 0.5, 2: 1.0, 4: -1.5}),
        np.vstack(
            [
                0.5 * np.eye(5),
                ref.partition([0, 0, 1, 1, 2], 3),
                -1.5 * ref.partition([0, 0, 0, 0, 1], 2),
            ]
        ),
    ),
    "hierarchy-beyond": (Hierarchy(3, {2: 1, 8: 2}), [[1, 1, 0], [0, 0, 1], [2, 2, 2]]),
    "pidentity": (PIdentity(THETA), PI),
    "pidentity-column-scaled": (
        ColumnScaledPIdentity(THETA, np.arange(1, 1 + np.shape(THETA)[1]) / 4),
        np.vstack([np.eye(np.shape(THETA)[1]), THETA])
        * (4 / np.arange(1, 1 + np.shape(THETA)[1])),
    ),
    "pidentity-1": (PIdentity([[2.0]]), ref.pidentity([[2.0]])),
    "pidentity-p-0": (PIdentity(np.zeros((0, 3))), I3),
    "pidentity-zero-row": (PIdentity([[0, 0], [1, 2]]),
        ref.pidentity([[0, 0], [1, 2]])),
    "pidentity-large": (PIdentity(LARGE_THETA), ref.pidentity(LARGE_THETA)),
    "pidentity-more-rows-than-cells": (PIdentity(THETA.T[:, :1]),
        ref.pidentity(THETA.T[:, :1])),
    "pidentity-inverse-gram": (PIdentity(THETA).inverse_gram(),
        np.linalg.inv(PI.T @ PI)),
    "pidentity-pinv-transposed": (PIdentity(THETA).pinv().T, ref.pinv(PI).T),
    "pidentity-l2": (PIdentity(THETA - 0.5, norm="L2"),
        ref.pidentity(THETA - 0.5, norm="L2")),
    # marginals
    "marginal": (Marginal((2, 3, 2), [2, 0]), ref.marginal((2, 3, 2), [0, 2])),
    "marginal-total": (Marginal((2, 3), []), ref.ones(1, 6)),
    "marginal-of-all": (Marginal((2, 1, 3), [0, 1, 2]), ref.identity(6)),
    "marginal-one-cell": (Marginal((1,), [0]), [[1]]),
    "marginals": (Marginals((2, 3), {(0,): 1, (1,): 2}),
        ref.stack(ref.marginal((2, 3), [0]), 2 * ref.marginal((2, 3), [1]))),
    "marginals-negative": (
        Marginals((2, 2, 2), {(1, 0): -0.5, (): 0.25, (2,): 1}),
        ref.stack(-0.5 * ref.marginal((2, 2, 2), [0, 1]), 0.25 * ref.ones(1, 8),
            ref.marginal((2, 2, 2), [2])),
    ),
    "marginals-of-two-domains": (
        VStack([Marginal((3, 4), (0,)), Kronecker([Identity(4), Total(3)])]),
        ref.stack(ref.marginal((3, 4), [0]), ref.kronecker(ref.identity(4), T3)),
    ),
    "marginals-zero-weight": (Marginals((3, 2), {(0, 1): 1, (1,): 0}),
        ref.stack(ref.identity(6), 0 * ref.marginal((3, 2), [1]))),
    "marginals-shared-tables": (
        Marginals((2, 1, 3, 2), {(0, 2): 3, (0,): -1, (0, 1): 2, (2, 3): 1, (): 1}),
        ref.stack(3 * ref.marginal((2, 1, 3, 2), [0, 2]),
            -1 * ref.marginal((2, 1, 3, 2), [0]),
            2 * ref.marginal((2, 1, 3, 2), [0, 1]), ref.marginal((2, 1, 3, 2), [2, 3]),
            ref.ones(1, 12)),
    ),
    "anova": (Anova((2, 3), [1, 0, 2.5, -3]), ref.anova((2, 3), [1, 0, 2.5, -3])),
    "anova-product": (Anova((2, 3), [1, 0, 2.5, -3]) @ Anova((2, 3), [2, 1, -1, 1]),
        ref.anova((2, 3), [2, 0, -2.5, -3])),
    "anova-sum": (Anova((2, 3), [1, 0, 2.5, -3]) - Anova((2, 3), [2, 1, -1, 1]),
        ref.anova((2, 3), [-1, -1, 3.5, -4])),
    "anova-one-attribute": (Anova((4,), [0, 2]), ref.anova((4,), [0, 2])),
    "anova-zero": (Anova((2, 1), [0] * 4), np.zeros((2, 2))),
    "residuals": (Residuals((2, 3), {(): 1, (1,): 2, (0, 1): -0.5}),
        ref.residuals((2, 3), {(): 1, (1,): 2, (0, 1): -0.5})),
    "residuals-size-one": (Residuals((2, 1, 2), {(0, 2): 1, (2,): 0}),
        ref.residuals((2, 1, 2), {(0, 2): 1, (2,): 0})),
    # merged cells
    "merged": (Merged(Prefix(2), [1, 0, 1, -1]), P2[:, [1, 0, 1, 1]] * [1, 1, 1, 0]),
    "merged-signed": (Merged(Dense(SIGNED), [2, 0, 1, 0]), SIGNED[:, [2, 0, 1, 0]]),
    "merged-nothing": (Merged(Prefix(3), [0, 1, 2]), P3),
    "merged-pidentity": (Merged(PIdentity(THETA), [0, 1, 2, 3, 3, 0]),
        PI[:, [0, 1, 2, 3, 3, 0]]),
    # scaling
    "scaled-minus-identity": (-1 * Identity(3), -I3),
    "scaled-negative": (Scaled(-3, Prefix(3)), -3 * P3),
    "scaled-float": (Scaled(-0.5, Dense(SIGNED)), -0.5 * SIGNED),
    "scaled-zero": (Scaled(0, Prefix(3)), 0 * P3),
    "scaled-twice": (Scaled(2, Scaled(-3, Dense(SIGNED))), -6 * SIGNED),
    "scaled-numpy-weight": (np.float64(1.5) * Total(3), 1.5 * T3),
    # Kronecker products
    "kronecker-of-one": (Kronecker([Prefix(3)]), P3),
    "kronecker-identities": (Kronecker([Identity(2), Identity(3)]), ref.identity(6)),
    "kronecker": (Kronecker([Prefix(3), Identity(2)]), ref.kronecker(P3, I2)),
    "kronecker-of-three": (Kronecker([Total(3), Dense(SIGNED), Prefix(2)]),
        ref.kronecker(T3, SIGNED, P2)),
    "kronecker-mixed-shapes": (Kronecker([Dense(TALL), Total(3), AllRange(2)]),
        ref.kronecker(TALL, T3, ref.all_range(2))),
    "kronecker-size-one": (Kronecker([Identity(1), Prefix(2), Total(1)]), P2),
    "kronecker-float": (Kronecker([PIdentity(THETA[:, :2]), Dense(SIGNED)]),
        ref.kronecker(ref.pidentity(THETA[:, :2]), SIGNED)),
    "kronecker-with-zero": (Kronecker([Prefix(2), Dense(np.zeros((1, 2), int))]),
        np.zeros((2, 4))),
    "kronecker-not-square-but-square": (Kronecker([Dense(SIGNED), Dense(SIGNED.T)]),
        ref.kronecker(SIGNED, SIGNED.T)),
    "kronecker-of-partitions": (
        Kronecker([Partition([0, 2, 2], 3), PartitionStack([[0, 1], [0, 0]], [2, 1])]),
        ref.kronecker(ref.partition([0, 2, 2], 3),
            ref.partition_stack([[0, 1], [0, 0]], [2, 1])),
    ),
    "kronecker-nested": (
        Kronecker([Kronecker([Prefix(2), Total(2)]), VStack([Identity(2), Total(2)])]),
        ref.kronecker(P2, ref.ones(1, 2), ref.stack(I2, ref.ones(1, 2))),
    ),
    # stacks
    "vstack-of-products": (
        VStack(
            [
                Kronecker([Prefix(3), Identity(2)]),
                -2 * Kronecker([Identity(3), PIdentity(THETA[:, :2])]),
                Kronecker([Prefix(3), PIdentity(THETA[:, :2])]),
            ]
        ),
        ref.stack(ref.kronecker(P3, I2),
            -2 * ref.kronecker(I3, ref.pidentity(THETA[:, :2])),
            ref.kronecker(P3, ref.pidentity(THETA[:, :2]))),
    ),
    "vstack-of-one": (VStack([Prefix(3)]), P3),
    "vstack": (VStack([Total(3), Identity(3), Prefix(3)]), ref.stack(T3, I3, P3)),
    "vstack-opposite": (VStack([Prefix(3), Prefix(3).T]), ref.stack(P3, P3.T)),
    "vstack-cancelling-signs": (VStack([Identity(3), -1 * Identity(3)]),
        ref.stack(I3, -I3)),
    "vstack-int-and-float": (VStack([Total(3), Scaled(0.5, Prefix(3))]),
        ref.stack(T3, 0.5 * P3)),
    "vstack-nested": (VStack([VStack([Total(3), Scaled(-2, Total(3))]), Dense(SIGNED)]),
        ref.stack(T3, -2 * T3, SIGNED)),
    "vstack-union-of-products": (
        VStack(
            [
                Kronecker([Prefix(3), Total(2)]),
                Scaled(-2, Kronecker([Total(3), Identity(2)])),
            ]
        ),
        ref.stack(ref.kronecker(P3, ref.ones(1, 2)), -2 * ref.kronecker(T3, I2)),
    ),
    # operators side by side: a stack of transposes, transposed
    "side-by-side": (
        VStack([-1 * Prefix(3).T, Total(3), 0.5 * Identity(3)]).T,
        np.hstack([-np.array(P3), np.array(T3).T, 0.5 * np.array(I3)]),
    ),
    # products and sums
    "product-of-forest": (
        Product(Sparse(sp.csr_array(QUERY_LEAVES)), PartitionStack(LABELS, GROUPS)),
        ref.product(QUERY_LEAVES, STACK),
    ),
    "product-signed": (Product(Dense(TALL), Dense(SIGNED), Prefix(3)),
        ref.product(TALL, SIGNED, P3)),
    "product-low-rank": (Product(Dense(TALL[:, :1]), Total(4)),
        ref.product(TALL[:, :1], ref.ones(1, 4))),
    "product-of-one": (Product(Prefix(3)), P3),
    "product-operator": (Dense(SIGNED) @ Prefix(3), ref.product(SIGNED, P3)),
    "sum": (Sum([Prefix(3), Identity(3)]), P3 + I3),
    "sum-cancelling": (Prefix(3) - Identity(3), P3 - I3),
    "sum-to-zero": (Prefix(3) - Prefix(3), 0 * P3),
    "sum-not-square": (Sum([Dense(SIGNED), Scaled(0.5, Ones(2, 3))]), SIGNED + 0.5),
    "gram-of-gram": (Product(Dense(TALL), Dense(SIGNED)).gram().gram(),
        ref.product(*[SIGNED.T, TALL.T, TALL, SIGNED] * 2)),
    "pinv-vstack-transposed": (VStack([Total(3), Identity(3)]).pinv().T,
        ref.pinv(ref.stack(T3, I3)).T),
}  # fmt: skip
TRANSPOSED = (
    "toeplitz", "suffix", "permuted-signed", "marginal", "merged-signed", "total",
    "prefix", "all-range", "stack-of-partitions", "boxes", "kronecker-mixed-shapes",
    "vstack", "product-signed", "scaled-negative",
)  # fmt: skip
GRAMS = (
    "circulant", "toeplitz", "suffix", "width-range-narrow", "ranges",
    "permuted-ranges", "permuted-signed", "pidentity", "prefix", "all-range-1",
    "all-range", "stack-of-partitions", "total", "dense-signed", "vstack-nested",
    "kronecker",
)  # fmt: skip
PINVS = (
    "toeplitz-upper", "toeplitz-section", "permuted-signed", "permuted-signed-gram",
    "pidentity", "pidentity-l2", "marginals", "residuals", "total", "ones-wide",
    "prefix-1", "prefix", "prefix-gram", "all-range", "dense-rank-one",
    "diagonal-zeros", "partition-empty-groups", "stack-of-partitions",
    "kronecker-mixed-shapes", "scaled-negative", "scaled-zero",
)  # fmt: skip


def _derive(names, end, operation, reference):
    for name in names:
        operator, dense = CATALOGUE[name]
        made, matrix = operation(operator), reference(np.asarray(dense))
        matrix = np.rint(matrix).astype(int) if made.dtype == np.int64 else matrix
        CATALOGUE[f"{name}-{end}"] = made, matrix


_derive(TRANSPOSED, "transposed", lambda operator: operator.T, np.transpose)
_derive(GRAMS, "gram", lambda operator: operator.gram(), lambda a: a.T @ a)
_derive(PINVS, "pinv", lambda operator: operator.pinv(), ref.pinv)
CATALOGUE = {
    name: (operator, np.asarray(dense)) for name, (operator, dense) in CATALOGUE.items()
}


def of_all(names=None, /, **grid):
    """Return a decorator: one test of all names, or cells of a grid; all must pass.

    Thousands of parametrized tests of a millisecond each would take longer to be
    collected and reported than to run. Every failure tells of which cell it is.
    """
    grid = grid if names is None else {"name": names}

    def decorate(test):
        @wraps(test)
        def run(**fixtures):
            failures = []
            for values in product(*grid.values()):
                cell = dict(zip(grid, values, strict=True))
                try:
                    test(**cell, **fixtures)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"of {cell}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} cells", failures)

        signature = inspect.signature(test)
        others = [p for p in signature.parameters.values() if p.name not in grid]
        run.__signature__ = signature.replace(parameters=others)
        return run

    return decorate
