"""Naive twins: explicit matrices, kernels in plain Python, dense formulas.

Nothing here imports the package, so that an error cannot hide on both sides.
"""

import itertools
import math
from fractions import Fraction
from functools import reduce

import numpy as np
from scipy import stats
from scipy.special import logsumexp

# ------------------------------------------------------------ explicit matrices


def identity(n):
    return np.eye(n, dtype=int)


def ones(m, n):
    return np.ones((m, n), int)


def prefix(n):
    return np.tri(n, dtype=int)


def all_range(n):
    pairs = [(lo, hi) for lo in range(n) for hi in range(lo, n)]
    return np.array([[int(lo <= j <= hi) for j in range(n)] for lo, hi in pairs])


def suffix(n):
    return prefix(n).T


def toeplitz(column, row):
    m, n = range(len(column)), range(len(row))
    return np.array([[column[i - j] if i >= j else row[j - i] for j in n] for i in m])


def width_range(n, width):
    starts = range(n - width + 1)
    return np.array([[int(lo <= j < lo + width) for j in range(n)] for lo in starts])


def cells_of(sizes):
    return np.array([*itertools.product(*map(range, sizes))])


def ranges(domain_shape, lower, upper):
    cells = cells_of(domain_shape)
    boxes = zip(lower, upper, strict=True)
    inside = [((a <= cells) & (cells <= b)).all(axis=1) for a, b in boxes]
    return np.array(inside).astype(int)


def permuted(matrix, permutation):
    return np.asarray(matrix)[:, permutation]


def diagonal(values):
    return np.diag(values)


def partition(labels, n_groups):
    return np.array([[int(label == g) for label in labels] for g in range(n_groups)])


def partition_stack(labels, n_groups):
    return stack(*(partition(row, g) for row, g in zip(labels, n_groups, strict=True)))


def conjunctions(masks):
    cells = cells_of([len(mask[0]) for mask in masks])
    parts = [np.asarray(m)[:, c] for m, c in zip(masks, cells.T, strict=True)]
    return np.logical_and.reduce(parts).astype(int)


def pidentity(theta, norm="L1"):
    rows = np.vstack([np.eye(len(theta[0])), theta])
    return rows / np.linalg.norm(rows, int(norm[1]), axis=0)


def subsets(d):
    """Return every subset of 0..d-1, at the position of its bit mask."""
    return [{i for i in range(d) if mask >> i & 1} for mask in range(2**d)]


def marginal(domain_shape, attributes):
    cells = cells_of(domain_shape)[:, list(attributes)]
    rows = cells_of([domain_shape[i] for i in attributes])
    return np.array([(cells == row).all(axis=1) for row in rows]).astype(int)


def residuals(domain_shape, weights):
    """Sums over all other attributes, with the means of all values taken off."""
    blocks = []
    for attributes, weight in weights.items():
        block = np.ones((1, 1))
        for i, size in enumerate(domain_shape):
            factor = np.ones((1, size))
            if i in attributes:
                factor = np.eye(size) - np.full((size, size), 1 / size)
            block = np.kron(block, factor)
        blocks.append(weight * block)
    return np.concatenate(blocks)


def anova(domain_shape, eigenvalues):
    """Σ_s κ_s P_s with P_s = ⊗ (I - J/n_i if i in s else J/n_i)."""
    total = 0.0
    for subset, value in zip(subsets(len(domain_shape)), eigenvalues, strict=True):
        projector = np.eye(1)
        for i, size in enumerate(domain_shape):
            average = np.full((size, size), 1 / size)
            factor = np.eye(size) - average if i in subset else average
            projector = np.kron(projector, factor)
        total = total + value * projector
    return total


def stack(*matrices):
    return np.concatenate(matrices)


def kronecker(*matrices):
    return reduce(np.kron, matrices, np.ones((1, 1), int))


def product(*matrices):
    return reduce(np.matmul, matrices)


def pinv(matrix, **options):
    options = {"rcond": 1e-10} | options
    return np.linalg.pinv(np.asarray(matrix, dtype=float), **options)


def conditioned(A, scaled, C):
    """Return what estimates x are of `scaled` y and of c, where C x = c.

    By least squares with linear constraints; the first is the covariance of x.
    """
    system = np.block([[scaled @ A, C.T], [C, np.zeros((len(C), len(C)))]])
    return np.split(pinv(system, rcond=1e-12)[: A.shape[1]], [A.shape[1]], axis=1)


# -------------------------------------------------- kernels, same name and arguments


def pool_descend(
    theta, cells, ends, members, energies, most, tolerance, precisions, pulls
):
    inside = np.zeros((theta.size, energies.size))
    for a in range(theta.size):
        inside[a, members[ends[a] : ends[a + 1]]] = 1
    previous = np.inf
    for iteration in range(most):
        kappa = (np.square(theta) / cells) @ inside
        if (kappa <= 0).any():
            return np.inf, iteration
        loss_now = (energies / kappa).sum()
        if previous - loss_now <= tolerance * loss_now:
            break
        previous = loss_now
        theta[:] = np.cbrt(theta**4 * (inside @ (energies / kappa**2)) / cells)
        theta /= theta.sum()
        theta[theta < 1e-9] = 0
    return loss_now, iteration


def cover_greedily(
    starts, attributes, owner_starts, owners, logs, log_cap, decay, noise, out
):
    """Scores from scratch for every attribute; owners are not needed."""
    targets = [set(attributes[a:b].tolist()) for a, b in itertools.pairwise(starts)]
    left = set(range(len(targets)))
    n_blocks = 0
    while left:
        block = set()
        while True:
            room = log_cap - sum(logs[i] for i in block)
            scores = {}
            for i in set(range(logs.size)) - block:
                missing = [len(targets[t] - block) for t in left if i in targets[t]]
                score = sum(decay ** (r - 1) for r in missing)
                if score > 1e-12 and logs[i] <= room + 1e-12:
                    favour = 1 + 1e-2 * noise[n_blocks % len(noise), i]
                    scores[i] = score / logs[i] * favour
            if not scores:
                break
            block.add(max(scores, key=scores.get))
        done = {t for t in left if targets[t] <= block}
        if not done:
            done = {min(left)}
            block = targets[min(left)]
        out[n_blocks, list(block)] = 1
        left -= done
        n_blocks += 1
    return n_blocks


def geometric_differences(table, stream, events, out):
    """Trial by trial; stops where bytes or room for events might not suffice."""
    count = len(table) - 1
    position = found = 0
    for draw in range(len(out)):
        room = len(stream) - position >= 2 * (count + 1) * 8
        if not room or len(events) - found < 2 * (count + 1):
            return draw, found
        total = 0
        for side in (1, -1):
            for digit, expansion in enumerate(table):
                read = 0
                while read < 8 and stream[position + read] == expansion[read]:
                    read += 1
                is_one = read < 8 and stream[position + read] < expansion[read]
                position += min(read + 1, 8)
                if is_one and digit < count:
                    total += side * 2**digit
                elif is_one or read == 8:
                    events[found] = draw, side, digit + int(is_one)
                    found += 1
        out[draw] = total
    return len(out), found


def weighted_rows(logarithms, words, weights, out):
    """Return the index that a number of 64 bits falls on, in exact fractions."""
    for row, word in enumerate(words.tolist()):
        possible = np.flatnonzero(logarithms[row] > -(2**63))
        best = int(logarithms[row].max())
        gaps = [best - int(logarithms[row, i]) for i in possible]
        shares = [Fraction(math.exp(-gap / 2**36)) for gap in gaps]
        left = Fraction(word, 2**64) * sum(shares)
        for i, share in zip(possible.tolist(), shares, strict=True):
            left -= share
            if left < 0:
                out[row] = i
                break


# ---------------------------------------------------------------- dense formulas


def sensitivity(matrix):
    matrix = np.asarray(matrix)
    return max((sum(abs(v) for v in column) for column in matrix.T), default=0)


def integer_rows(released):
    """Rows A' and whole row weights k of an integer strategy, as Python integers."""
    blocks = [(b.matrix.to_dense(), b.weight) for b in released.blocks]
    rows = np.vstack([matrix for matrix, _ in blocks])
    weights = np.concatenate([np.broadcast_to(w, len(m)) for m, w in blocks])
    return rows.astype(object), weights.astype(object)


def measured_rows(mechanism):
    """Return the rows that a mechanism measures, and the noise's parameter of each."""
    rows, _ = integer_rows(mechanism.released)
    runs = zip(mechanism._runs(), mechanism._parameters(), strict=True)
    return rows, [own for (start, stop, _), own in runs for _ in range(start, stop)]


def cost(released, change):
    """Σ_i k_i |(A' change)_i| over all columns: what the noise has to hide."""
    rows, weights = integer_rows(released)
    moved = abs(rows @ np.asarray(change).astype(int).astype(object))
    return int((weights @ moved).sum())


def laplace_rho(distance, scale):
    """Return D_1 of discrete Laplace noise around whole numbers at a distance.

    E(|x - j| - |x - j + 1|) = 1 - 2 P(X >= j), added up over j = 1..distance.
    """
    b = float(scale)
    first = -math.log1p(math.expm1(-1 / b) / 2)
    return float(-np.expm1(first - np.arange(1.0, int(distance) + 1) / b).sum() / b)


def laplace_divergences(distance, scale, orders):
    """Return D_a of the same for orders a > 1, of all outputs with a probability."""
    reach = math.ceil(800 * float(scale)) + int(distance)
    x = np.arange(-reach, reach + int(distance) + 1.0)
    centres = np.array([0, int(distance)])[:, None]
    rate = 1 / float(scale)
    before, after = np.log(np.tanh(rate / 2)) - rate * np.abs(x - centres)
    return np.array([logsumexp(a * before + (1 - a) * after) / (a - 1) for a in orders])


def discrete_laplace_variance(scale):
    """Σ x² P(x) over the integers, P(x) ∝ exp(-|x| / scale)."""
    if scale > 1e4:
        return 2 * float(scale) ** 2 - 1 / 6  # and terms of order scale^-2
    x = np.arange(1, 60 * math.ceil(scale) + 1, dtype=float)
    weights = np.exp(-x / float(scale))
    return float(2 * (x**2 @ weights) / (1 + 2 * weights.sum()))


def n_rows(groups):
    """Number of rows of groups, some of which are put together."""
    return int(sum(np.sum(block) for block in groups))


def group_norm(z, groups):
    """Largest L1 norm of a group of coordinates, along the last axis.

    Infinite where totals of groups that are put together differ.
    """
    norm, start = np.zeros(z.shape[:-1]), 0
    for block in groups:
        totals = []
        for size in np.atleast_1d(block):
            part = z[..., start : start + size]
            norm = np.maximum(norm, np.abs(part).sum(axis=-1))
            totals.append(part.sum(axis=-1))
            start += size
        norm = np.where(np.ptp(totals, axis=0) > 0, np.inf, norm)
    return norm


def norm_law(groups, scale, reach):
    """All points of a box and P(z) ∝ exp(-‖z‖ / scale), normalised on the box."""
    axis = np.arange(-reach, reach + 1)
    points = np.array(list(itertools.product(axis, repeat=n_rows(groups))))
    weights = np.exp(-group_norm(points, groups) / float(scale))
    return points, weights / weights.sum()


def deviations(released, epsilon, size=1):
    """Standard deviation of the noise on every row; `size` times one record."""
    _, weights = integer_rows(released)
    K = released.sensitivity
    return np.array(
        [math.sqrt(discrete_laplace_variance(size * K / k / epsilon)) for k in weights]
    )


def weighted_pinv(released, sigma):
    """Least squares with noise of these standard deviations, (n, p)."""
    rows, _ = integer_rows(released)
    return pinv(rows.astype(float) / sigma[:, None]) / sigma


def released_error(workload, released, epsilon, size=1):
    """Expected squared error of every query under exact noise."""
    sigma = deviations(released, epsilon, size)
    return np.square(workload @ weighted_pinv(released, sigma) * sigma).sum(axis=1)


def supported(workload, strategy):
    projected = workload @ pinv(strategy) @ strategy
    return bool(np.allclose(projected, workload, atol=1e-6 * np.abs(workload).max()))


def per_query_loss(workload, strategy, norm="L1"):
    """Row i: ‖A‖² ‖(W A⁺)_i‖², by the longest column in L1 or L2 norm."""
    lengths = np.linalg.norm(np.asarray(strategy, float), int(norm[1]), axis=0)
    gains = np.square(workload @ pinv(strategy)).sum(axis=1)
    return lengths.max(initial=0.0) ** 2 * gains


def loss(workload, strategy, norm="L1"):
    return float(per_query_loss(workload, strategy, norm).sum())


def svd_bound(workload, epsilon):
    values = np.linalg.svd(np.asarray(workload, dtype=float), compute_uv=False)
    return 2 / epsilon**2 * values.sum() ** 2 / workload.shape[1]


def above_bound(loss, bound, tolerance=1e-6):
    """Return a loss over its bound, which no loss is below."""
    assert loss >= bound * (1 - tolerance), f"a loss {loss} below its bound {bound}"
    return loss / bound if bound else 1.0 if loss == 0 else np.inf


def pidentity_loss(gram, theta, norm="L1"):
    """tr(V (AᵀA)⁻¹), the p-Identity objective, by explicit inversion."""
    strategy = pidentity(theta, norm)
    return float(np.trace(gram @ np.linalg.inv(strategy.T @ strategy)))


def finite_differences(function, point, step=1e-6):
    gradient = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        plus, minus = point.copy(), point.copy()
        plus[index] += step
        minus[index] -= step
        gradient[index] = (function(plus) - function(minus)) / (2 * step)
    return gradient


# --------------------------------------------------------------------- false alarms


def changes(cells, neighbours, records):
    """Return all differences of neighbouring tables of a few cells."""
    tables = map(np.array, itertools.product(range(records + 1), repeat=cells))
    small = [table for table in tables if table.sum() <= records]
    if neighbours == "add_remove":
        return small
    return [t - u for t in small for u in small if t.sum() == u.sum()]


def margin(samples, false_alarm=1e-6):
    """Return how far the mean of independent samples may be from what is expected.

    It is farther at this rate by Student's t, which normal means follow and means of
    many samples nearly do: with fewer than 20 it would allow nearly everything.
    """
    n = len(samples)
    assert n >= 20, f"a margin needs 20 samples, got {n}"
    error = np.std(samples, ddof=1) / math.sqrt(n)
    return stats.t.isf(false_alarm / 2, n - 1) * error


# ------------------------------------------------------------ exact convolutions


def circular_convolution(a, b):
    """Return exact sums of products around a circle, as Python integers."""
    n = len(a)
    return [sum(int(a[j]) * int(b[(i - j) % n]) for j in range(n)) for i in range(n)]


def tau(f, n, scales):
    """Return the matrix of f(i - j) - f(i + j) for i, j from 1, columns scaled."""
    at = range(1, n + 1)
    return np.array([[(f(i - j) - f(i + j)) * scales[j - 1] for j in at] for i in at])
