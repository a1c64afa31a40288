"""Every numba kernel of ``mmech``, and nothing but kernels.

All kernels live in this one file because numba's on-disk cache does not notice
an edit of a callee in another file. Arguments are scalars and C-contiguous
arrays, the output array comes last; the callers validate. ``dtype`` below means
float64, float32 or int64, the same for input and output.
"""

import numba
import numpy as np

kernel = numba.njit(cache=True, nogil=True, error_model="numpy")


@kernel
def all_range_matmat(sums, out):
    # Range sums from prefix sums: sums (n+1, k) dtype -> out (n(n+1)/2, k) dtype.
    n = sums.shape[0] - 1
    k = sums.shape[1]
    row = 0
    for lo in range(n):
        for hi in range(lo + 1, n + 1):
            for c in range(k):
                out[row, c] = sums[hi, c] - sums[lo, c]
            row += 1


@kernel
def all_range_rmatmat(values, out):
    # Transposed range sums: values (n(n+1)/2, k) dtype -> out (n, k) dtype, zeroed.
    n = out.shape[0]
    k = out.shape[1]
    row = 0
    for lo in range(n):
        for hi in range(lo, n):
            for c in range(k):
                out[lo, c] += values[row, c]
                if hi + 1 < n:
                    out[hi + 1, c] -= values[row, c]
            row += 1
    for j in range(1, n):
        for c in range(k):
            out[j, c] += out[j - 1, c]


@kernel
def all_range_gram_matmat(x, out):
    # V x with V_ij = (min(i,j)+1)(n-max(i,j)), x (n, k) dtype -> out (n, k) dtype.
    n, k = x.shape
    acc = np.zeros(k, x.dtype)
    for i in range(n):
        for c in range(k):
            acc[c] += (i + 1) * x[i, c]
            out[i, c] = (n - i) * acc[c]
    acc[:] = 0
    for i in range(n - 1, -1, -1):
        for c in range(k):
            out[i, c] += (i + 1) * acc[c]
            acc[c] += (n - i) * x[i, c]


@kernel
def partition_matmat(labels, offsets, x, out):
    # Group sums of t partitions: labels (t, n) int32, offsets (t+1,) int64,
    # x (n, k) dtype -> out (offsets[t], k) dtype, zeroed.
    t, n = labels.shape
    k = x.shape[1]
    for tree in range(t):
        base = offsets[tree]
        for j in range(n):
            row = base + labels[tree, j]
            for c in range(k):
                out[row, c] += x[j, c]


@kernel
def partition_rmatmat(labels, offsets, values, out):
    # Sum of the group values of each cell: values (offsets[t], k) dtype
    # -> out (n, k) dtype, zeroed.
    t, n = labels.shape
    k = values.shape[1]
    for tree in range(t):
        base = offsets[tree]
        for j in range(n):
            row = base + labels[tree, j]
            for c in range(k):
                out[j, c] += values[row, c]


@kernel
def partition_gram_matmat(labels, offsets, x, buffer, out):
    # TᵀT x tree by tree: buffer (max groups, k) dtype is scratch,
    # x (n, k) dtype -> out (n, k) dtype, zeroed.
    t, n = labels.shape
    k = x.shape[1]
    for tree in range(t):
        groups = offsets[tree + 1] - offsets[tree]
        buffer[:groups] = 0
        for j in range(n):
            row = labels[tree, j]
            for c in range(k):
                buffer[row, c] += x[j, c]
        for j in range(n):
            row = labels[tree, j]
            for c in range(k):
                out[j, c] += buffer[row, c]


@kernel
def conjunction_matmat(masks, starts, strides, x, out):
    # Sums over boxes of cells: masks (o, sum n_i) uint8, starts (d+1,) int64
    # delimits the attributes in masks, strides (d,) int64 in cells,
    # x (n, k) dtype -> out (o, k) dtype, zeroed.
    o = masks.shape[0]
    d = strides.shape[0]
    k = x.shape[1]
    allowed = np.empty(starts[d], np.int64)
    first = np.empty(d + 1, np.int64)
    cursor = np.empty(d, np.int64)
    for row in range(o):
        filled = 0
        empty = False
        for i in range(d):
            first[i] = filled
            for v in range(starts[i + 1] - starts[i]):
                if masks[row, starts[i] + v]:
                    allowed[filled] = v * strides[i]
                    filled += 1
            empty = empty or filled == first[i]
        first[d] = filled
        if empty:
            continue
        cell = np.int64(0)
        for i in range(d):
            cursor[i] = first[i]
            cell += allowed[first[i]]
        while True:
            for c in range(k):
                out[row, c] += x[cell, c]
            i = d - 1
            while i >= 0 and cursor[i] + 1 == first[i + 1]:
                cell += allowed[first[i]] - allowed[cursor[i]]
                cursor[i] = first[i]
                i -= 1
            if i < 0:
                break
            cell += allowed[cursor[i] + 1] - allowed[cursor[i]]
            cursor[i] += 1


@kernel
def conjunction_rmatmat(masks, starts, strides, values, out):
    # Adds each box's value to its cells: values (o, k) dtype
    # -> out (n, k) dtype, zeroed; other arguments as in conjunction_matmat.
    o = masks.shape[0]
    d = strides.shape[0]
    k = values.shape[1]
    allowed = np.empty(starts[d], np.int64)
    first = np.empty(d + 1, np.int64)
    cursor = np.empty(d, np.int64)
    for row in range(o):
        filled = 0
        empty = False
        for i in range(d):
            first[i] = filled
            for v in range(starts[i + 1] - starts[i]):
                if masks[row, starts[i] + v]:
                    allowed[filled] = v * strides[i]
                    filled += 1
            empty = empty or filled == first[i]
        first[d] = filled
        if empty:
            continue
        cell = np.int64(0)
        for i in range(d):
            cursor[i] = first[i]
            cell += allowed[first[i]]
        while True:
            for c in range(k):
                out[cell, c] += values[row, c]
            i = d - 1
            while i >= 0 and cursor[i] + 1 == first[i + 1]:
                cell += allowed[first[i]] - allowed[cursor[i]]
                cursor[i] = first[i]
                i -= 1
            if i < 0:
                break
            cell += allowed[cursor[i] + 1] - allowed[cursor[i]]
            cursor[i] += 1


@kernel
def superset_sums(values):
    # In place: values[s] becomes the sum over all a ⊇ s; values (2^d,) float64.
    size = values.shape[0]
    step = 1
    while step < size:
        for start in range(0, size, 2 * step):
            for s in range(start, start + step):
                values[s] += values[s + step]
        step *= 2


@kernel
def superset_differences(values):
    # In place inverse of superset_sums (Möbius transform); values (2^d,) float64.
    size = values.shape[0]
    step = 1
    while step < size:
        for start in range(0, size, 2 * step):
            for s in range(start, start + step):
                values[s] -= values[s + step]
        step *= 2


@kernel
def subset_sums(values):
    # In place: values[a] becomes the sum over all s ⊆ a; values (2^d,) float64.
    size = values.shape[0]
    step = 1
    while step < size:
        for start in range(0, size, 2 * step):
            for s in range(start, start + step):
                values[s + step] += values[s]
        step *= 2


@kernel
def subset_differences(values):
    # In place inverse of subset_sums (Möbius transform); values (2^d,) float64.
    size = values.shape[0]
    step = 1
    while step < size:
        for start in range(0, size, 2 * step):
            for s in range(start, start + step):
                values[s + step] -= values[s]
        step *= 2


@kernel
def marginals_loss(theta, cells, energies, eigenvalues, gradient):
    # (Σθ)² Σ_s v_s / κ_s of the strategy {θ_a M_a}; cells c_a = n / n_a and energies
    # v_s (2^d,) float64; fills eigenvalues κ and the gradient in θ, (2^d,) float64.
    size = theta.shape[0]
    total = 0.0
    for a in range(size):
        total += abs(theta[a])
        eigenvalues[a] = theta[a] * theta[a] * cells[a]
    superset_sums(eigenvalues)
    gain = 0.0
    for s in range(size):
        if energies[s] > 0.0:
            ratio = energies[s] / eigenvalues[s]
            gain += ratio
            gradient[s] = ratio / eigenvalues[s]
        else:
            gradient[s] = 0.0
    subset_sums(gradient)
    for a in range(size):
        sign = 1.0 if theta[a] >= 0.0 else -1.0
        gradient[a] = 2.0 * total * gain * sign - 2.0 * total * total * (
            theta[a] * cells[a] * gradient[a]
        )
    return total * total * gain


@kernel
def marginals_descend(theta, cells, energies, max_iter, tolerance, scratch):
    # Monotone updates θ_a <- (c_a θ_a⁴ Σ_{s⊆a} v_s/κ_s²)^{1/3}, normalised to sum one,
    # in place; scratch (2, 2^d) float64. Returns (loss, iterations).
    size = theta.shape[0]
    eigenvalues = scratch[0]
    pull = scratch[1]
    previous = np.inf
    loss = np.inf
    iteration = 0
    for iteration in range(max_iter):
        for a in range(size):
            eigenvalues[a] = theta[a] * theta[a] * cells[a]
        superset_sums(eigenvalues)
        loss = 0.0
        for s in range(size):
            if energies[s] > 0.0:
                if eigenvalues[s] <= 0.0:
                    return np.inf, iteration
                ratio = energies[s] / eigenvalues[s]
                loss += ratio
                pull[s] = ratio / eigenvalues[s]
            else:
                pull[s] = 0.0
        if previous - loss <= tolerance * loss:
            break
        previous = loss
        subset_sums(pull)
        total = 0.0
        for a in range(size):
            if theta[a] > 0.0:
                theta[a] = (cells[a] * theta[a] ** 4 * pull[a]) ** (1.0 / 3.0)
                total += theta[a]
        for a in range(size):
            theta[a] /= total
            if theta[a] < 1e-9:
                theta[a] = 0.0
    return loss, iteration
