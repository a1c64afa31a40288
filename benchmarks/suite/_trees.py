"""Trees of ranges as contenders: their exact loss at any size, without n x n matrices.

A tree counts the records in blocks of neighbours, level by level: `sizes` are the
lengths of the blocks from the root to single cells, each a multiple of the next. With
weight w_l on level l, AᵀA = Σ_l w_l² B_l, where B_l sums inside blocks of length s_l.
All B_l commute: on what level l tells beyond the level above, AᵀA is
λ_l = Σ_{k>=l} w_k² s_k. So the loss is (Σ w)² Σ_l c_l / λ_l with c_l = e_l - e_{l-1}
and e_l = Σ_blocks 1ᵀV1 / s_l.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np


def block_energy(workload: str, n: int, size: int) -> float:
    """Σ over blocks of 1ᵀ V 1 / size for the gram V of "AllRange" or "Prefix".

    The domain has n cells; a last block may reach beyond them.
    """
    i = np.arange(-(-n // size) * size, dtype=np.float64)
    if workload == "AllRange":  # V_ij = (min + 1) (n - max)
        rising, falling = np.where(i < n, i + 1.0, 0.0), np.maximum(n - i, 0.0)
    else:  # V_ij = n - max
        rising, falling = np.where(i < n, 1.0, 0.0), np.maximum(n - i, 0.0)
    before = np.cumsum(rising.reshape(-1, size), axis=1)
    twice = 2.0 * before - rising.reshape(-1, size)
    return float((falling.reshape(-1, size) * twice).sum() / size)


def tree_loss(sizes: list[int], energies: list[float]) -> tuple[float, np.ndarray]:
    """Loss of a tree under the best weights of its levels, and those weights.

    Weights by monotone cube-root updates from equal ones:
    w_l <- (s_l w_l⁴ Σ_{k<=l} c_k / λ_k²)^{1/3}, normalised.
    """
    lengths = np.array(sizes, float)
    gains = np.maximum(np.diff(energies, prepend=0.0), 0.0)
    weights = np.full(lengths.size, 1.0 / lengths.size)
    previous = math.inf
    for _ in range(10_000):
        spectrum = np.cumsum((weights**2 * lengths)[::-1])[::-1]
        loss = float((gains / spectrum).sum())
        if previous - loss <= 1e-12 * loss:
            break
        previous = loss
        pull = np.cumsum(gains / spectrum**2)
        weights = np.cbrt(lengths * weights**4 * pull)
        weights /= weights.sum()
    return loss, weights


def best_tree(workload: str, n: int, largest: int = 256) -> tuple[float, str]:
    """The least loss of any tree here, and its name.

    b-ary trees with b = 2..`largest` on the next power of b; cells beyond n stay empty.
    For powers of two also trees of every sequence of branchings that are powers of two
    and at most `largest`.
    """
    energy: dict[int, float] = {}

    def loss_of(sizes: list[int]) -> float:
        for size in sizes:
            if size not in energy:
                energy[size] = block_energy(workload, n, size)
        return tree_loss(sizes, [energy[size] for size in sizes])[0]

    best, name = math.inf, ""
    for b in range(2, largest + 1):
        height = math.ceil(math.log(n) / math.log(b) - 1e-9)
        loss = loss_of([b**level for level in range(height, -1, -1)])
        if loss < best:
            best, name = loss, f"{b}-ary"
    exponent = n.bit_length() - 1
    if 2**exponent == n:
        for parts in _compositions(exponent, int(math.log2(largest))):
            if len(parts) > 5:
                continue  # long trees are never the best, but there are many
            below = np.cumsum([0, *reversed(parts)])[::-1]
            loss = loss_of([2 ** int(power) for power in below])
            if loss < best:
                best, name = loss, "x".join(str(2**part) for part in parts)
    return best, name


def _compositions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for first in range(1, min(total, largest) + 1):
        for rest in _compositions(total - first, largest):
            yield (first, *rest)
