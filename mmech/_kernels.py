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
def partition_matmat(labels, offsets, x, out):
    # Group sums of t partitions: labels (t, n) int32, offsets (t+1,) int64,
    # x (n, k) dtype -> out (offsets[t], k) dtype, zeroed.
    t, n = labels.shape
    k = x.shape[1]
    first = 0
    if k == 1:
        # Four partitions at a time: neighbours often share a group, whose sum must
        # be stored before it is read again.
        first = t - t % 4
        for tree in range(0, first, 4):
            for j in range(n):
                value = x[j, 0]
                out[offsets[tree] + labels[tree, j], 0] += value
                out[offsets[tree + 1] + labels[tree + 1, j], 0] += value
                out[offsets[tree + 2] + labels[tree + 2, j], 0] += value
                out[offsets[tree + 3] + labels[tree + 3, j], 0] += value
    for tree in range(first, t):
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
def list_sums(starts, members, x, out):
    # Sums over lists of rows of x (n, k) dtype: members[starts[r] : starts[r + 1]] of
    # uint32, which never count from the end, is list r -> out (lists, k) dtype, zeroed.
    k = x.shape[1]
    if k == 1:
        column = x.reshape(x.size)  # short lists: what a turn costs is most of it
        i = starts[0]
        for r in range(starts.size - 1):
            total = out[r, 0]
            stop = starts[r + 1]
            while i < stop:
                total += column[members[i]]
                i += 1
            out[r, 0] = total
    elif k > 8:
        for r in range(starts.size - 1):
            for i in range(starts[r], starts[r + 1]):
                row = members[i]
                for c in range(k):
                    out[r, c] += x[row, c]
    else:
        blocks = k - k % 4  # four columns at a time stay in registers
        for r in range(starts.size - 1):
            for c in range(0, blocks, 4):
                s0, s1 = out[r, c], out[r, c + 1]
                s2, s3 = out[r, c + 2], out[r, c + 3]
                for i in range(starts[r], starts[r + 1]):
                    row = members[i]
                    s0 += x[row, c]
                    s1 += x[row, c + 1]
                    s2 += x[row, c + 2]
                    s3 += x[row, c + 3]
                out[r, c], out[r, c + 1], out[r, c + 2], out[r, c + 3] = s0, s1, s2, s3
            for c in range(blocks, k):
                total = out[r, c]
                for i in range(starts[r], starts[r + 1]):
                    total += x[members[i], c]
                out[r, c] = total


@kernel
def _open_box(mask, starts, strides, allowed, first, cursor):
    # Offsets of the values that a mask (sum n_i,) uint8 allows, attribute by attribute,
    # into allowed (sum n_i + 1,) int64 from first (d+2,) int64; attributes with a
    # single value are left out, except for one if all have a single value; cursor (d,)
    # int64
    # begins with them. Returns the first cell and the last of the attributes that are
    # left, or -1 where no cell is allowed.
    d = strides.shape[0]
    filled = 0
    cell = np.int64(0)
    n_open = 0
    for i in range(d):
        begin = filled
        for v in range(starts[i + 1] - starts[i]):
            if mask[starts[i] + v]:
                allowed[filled] = v * strides[i]
                filled += 1
        if filled == begin:
            return cell, -1
        if filled == begin + 1:
            filled = begin
            cell += allowed[begin]
        else:
            first[n_open] = begin
            n_open += 1
    first[n_open] = filled
    if n_open == 0:
        allowed[0] = 0
        first[1] = 1
        n_open = 1
    for i in range(n_open - 1):
        cursor[i] = first[i]
        cell += allowed[first[i]]
    return cell, n_open - 1


@kernel
def _next_line(cell, last, allowed, first, cursor):
    # Step to the next cell in the open attributes before the last one; -1 at the end.
    i = last - 1
    while i >= 0:
        cell -= allowed[cursor[i]]
        cursor[i] += 1
        if cursor[i] < first[i + 1]:
            return cell + allowed[cursor[i]]
        cursor[i] = first[i]
        cell += allowed[first[i]]
        i -= 1
    return np.int64(-1)


@kernel
def conjunction_matmat(masks, starts, strides, x, out):
    # Sums over boxes of cells: masks (o, sum n_i) uint8; starts (d+1,) int64
    # delimits the attributes in masks; strides (d,) int64 in cells; x (n, k) dtype ->
    # out (o, k) dtype, zeroed.
    k = x.shape[1]
    d = strides.shape[0]
    allowed = np.empty(starts[d] + 1, np.int64)
    first = np.empty(d + 2, np.int64)
    cursor = np.empty(d, np.int64)
    for row in range(masks.shape[0]):
        cell, last = _open_box(masks[row], starts, strides, allowed, first, cursor)
        if last < 0:
            continue
        begin, stop = first[last], first[last + 1]
        while cell >= 0:
            if k == 1:
                total = x[cell + allowed[begin], 0]
                for v in range(begin + 1, stop):
                    total += x[cell + allowed[v], 0]
                out[row, 0] += total
            else:
                for v in range(begin, stop):
                    for c in range(k):
                        out[row, c] += x[cell + allowed[v], c]
            cell = _next_line(cell, last, allowed, first, cursor)


@kernel
def conjunction_rmatmat(masks, starts, strides, values, out):
    # Adds each box's value to its cells: values (o, k) dtype
    # -> out (n, k) dtype, zeroed; other arguments as in conjunction_matmat.
    k = values.shape[1]
    d = strides.shape[0]
    allowed = np.empty(starts[d] + 1, np.int64)
    first = np.empty(d + 2, np.int64)
    cursor = np.empty(d, np.int64)
    for row in range(masks.shape[0]):
        cell, last = _open_box(masks[row], starts, strides, allowed, first, cursor)
        if last < 0:
            continue
        begin, stop = first[last], first[last + 1]
        while cell >= 0:
            for v in range(begin, stop):
                for c in range(k):
                    out[cell + allowed[v], c] += values[row, c]
            cell = _next_line(cell, last, allowed, first, cursor)


@kernel
def box_cells(masks, starts, strides, ends, out):
    # Cells of box r -> out[ends[r]:ends[r+1]] uint32; ends (o+1,) int64, other
    # arguments as in conjunction_matmat.
    d = strides.shape[0]
    allowed = np.empty(starts[d] + 1, np.int64)
    first = np.empty(d + 2, np.int64)
    cursor = np.empty(d, np.int64)
    for row in range(masks.shape[0]):
        cell, last = _open_box(masks[row], starts, strides, allowed, first, cursor)
        if last < 0:
            continue
        place = ends[row]
        while cell >= 0:
            for v in range(first[last], first[last + 1]):
                out[place] = cell + allowed[v]
                place += 1
            cell = _next_line(cell, last, allowed, first, cursor)


# ---- marginals as blocks of listed subsets ------------------------------------------


@kernel
def pool_descend(
    theta, cells, ends, members, energies, most, tolerance, precisions, pulls
):
    # Monotone updates of the weights of blocks, normalised to sum one,
    # θ_a <- (θ_a⁴ / n_a Σ_{s⊆a} v_s/k_s²)^{1/3}: block a holds the subsets
    # members[ends[a]:ends[a+1]] int64; it has cells[a] float64 table cells; Σ_{a∋s}
    # θ_a² / cells_a is the precision of subset s of energy energies[s].
    # theta (blocks,) float64 in place; scratch precisions (subsets,), pulls (blocks,)
    # float64. Returns (loss, iterations).
    n_blocks = theta.shape[0]
    n_subsets = energies.shape[0]
    previous = np.inf
    loss = np.inf
    iteration = 0
    for iteration in range(most):
        precisions[:] = 0.0
        for a in range(n_blocks):
            square = theta[a] * theta[a] / cells[a]
            if square > 0.0:
                for j in range(ends[a], ends[a + 1]):
                    precisions[members[j]] += square
        loss = 0.0
        for s in range(n_subsets):
            if precisions[s] <= 0.0:
                return np.inf, iteration
            ratio = energies[s] / precisions[s]
            loss += ratio
            precisions[s] = ratio / precisions[s]
        if previous - loss <= tolerance * loss:
            break
        previous = loss
        total = 0.0
        for a in range(n_blocks):
            pull = 0.0
            for j in range(ends[a], ends[a + 1]):
                pull += precisions[members[j]]
            pulls[a] = (theta[a] ** 4 * pull / cells[a]) ** (1.0 / 3.0)
            total += pulls[a]
        for a in range(n_blocks):
            share = pulls[a] / total
            theta[a] = share if share >= 1e-9 else 0.0
    return loss, iteration


@kernel
def cover_greedily(
    starts, attributes, owner_starts, owners, logs, log_cap, decay, noise, out
):
    # Blocks that together contain every target. Target t has the attributes
    # attributes[starts[t]:starts[t+1]]; attribute i lies in the targets
    # owners[owner_starts[i]:owner_starts[i+1]] and has log size logs[i]. A block grows
    # by the attribute that completes most targets per log size, up to a log size of
    # log_cap; a target with r missing attributes counts decay**(r-1).
    # noise (cycles, d) in [0, 1) breaks ties; out (targets, d) uint8, zeroed.
    # Returns the number of blocks.
    n_targets = starts.shape[0] - 1
    d = logs.shape[0]
    missing = np.empty(n_targets, np.int64)
    covered = np.zeros(n_targets, np.bool_)
    base = np.zeros(d)
    longest = 0
    for t in range(n_targets):
        missing[t] = starts[t + 1] - starts[t]
        longest = max(longest, missing[t])
    powers = np.empty(longest + 1)
    powers[0] = 0.0
    for r in range(1, longest + 1):
        powers[r] = decay ** (r - 1)
    for t in range(n_targets):
        for j in range(starts[t], starts[t + 1]):
            base[attributes[j]] += powers[missing[t]]
    score = np.empty(d)
    total = 0.0
    for i in range(d):
        total += base[i]
    floor = 1e-12 * total  # what differences leave of a score that is zero
    left = n_targets
    n_blocks = 0
    while left > 0:
        block = out[n_blocks]
        for i in range(d):
            score[i] = base[i]
        size = 0.0
        while True:
            best = -1
            value = 0.0
            for i in range(d):
                if block[i] or score[i] <= floor:
                    continue
                if size + logs[i] > log_cap:
                    continue
                worth = score[i] / logs[i]
                worth *= 1.0 + 1e-2 * noise[n_blocks % noise.shape[0], i]
                if worth > value:
                    value = worth
                    best = i
            if best < 0:
                break
            block[best] = 1
            size += logs[best]
            for k in range(owner_starts[best], owner_starts[best + 1]):
                t = owners[k]
                if covered[t]:
                    continue
                change = powers[missing[t] - 1] - powers[missing[t]]
                missing[t] -= 1
                for j in range(starts[t], starts[t + 1]):
                    if not block[attributes[j]]:
                        score[attributes[j]] += change
        done = 0
        for i in range(d):
            if not block[i]:
                continue
            for k in range(owner_starts[i], owner_starts[i + 1]):
                t = owners[k]
                if not covered[t] and missing[t] == 0:
                    covered[t] = True
                    done += 1
                    length = starts[t + 1] - starts[t]
                    for j in range(starts[t], starts[t + 1]):
                        base[attributes[j]] -= powers[length]
        for i in range(d):
            if block[i]:
                for k in range(owner_starts[i], owner_starts[i + 1]):
                    if not covered[owners[k]]:
                        missing[owners[k]] += 1
        if done == 0:  # no target fits under the cap: take the first as it is
            block[:] = 0
            for t in range(n_targets):
                if not covered[t]:
                    covered[t] = True
                    done = 1
                    for j in range(starts[t], starts[t + 1]):
                        block[attributes[j]] = 1
                        base[attributes[j]] -= powers[missing[t]]
                    break
        left -= done
        n_blocks += 1
    return n_blocks


# ----------------------------------------------------------- p-Identity descent


@kernel
def separable_gram_matmat(rising, falling, diagonal, x, out):
    # V x with V_ij = rising[min(i,j)] * falling[max(i,j)] off the diagonal; the three
    # vectors (n,) dtype, x (n, k) dtype -> out (n, k) dtype.
    n, k = x.shape
    acc = np.zeros(k, x.dtype)
    for i in range(n):
        for c in range(k):
            out[i, c] = falling[i] * acc[c] + diagonal[i] * x[i, c]
            acc[c] += rising[i] * x[i, c]
    acc[:] = 0
    for i in range(n - 1, -1, -1):
        for c in range(k):
            out[i, c] += rising[i] * acc[c]
            acc[c] += falling[i] * x[i, c]


# ---- exact noise --------------------------------------------------------------


@kernel
def geometric_differences(table, stream, events, out):
    # Differences of two geometric numbers, from random bytes: table (count+1, 8)
    # uint8 holds the leading bytes of the probability of every binary digit, then
    # of the tail; stream (b,) uint8 -> out (n,) int64, filled from the front as far
    # as bytes and events (e, 3) int64 reach. An event (draw, side, digit) is a
    # trial to settle elsewhere. Returns the number of finished draws and of events.
    count = table.shape[0] - 1
    first = table[:, 0].copy()
    values = np.int64(1) << np.arange(count)
    reserve = 16 * (count + 1)  # both sides, eight bytes for every trial
    position = 0
    found = 0
    for draw in range(out.size):
        if position + reserve > stream.size or found + 2 * count + 2 > events.shape[0]:
            return draw, found
        total = 0
        for side in (1, -1):
            # Half of all digits are one, which a branch would guess wrong. So they are
            # added up at once where the first byte of every trial decides it.
            open_trials = np.int64(stream[position + count] <= first[count])
            number = 0
            for digit in range(count):
                byte = stream[position + digit]
                open_trials += byte == first[digit]
                number += values[digit] * (byte < first[digit])
            if not open_trials:
                position += count + 1
                total += side * number
                continue
            for digit in range(count + 1):
                byte = stream[position]
                position += 1
                wanted = table[digit, 0]
                depth = 1
                while byte == wanted and depth < 8:
                    byte = stream[position]
                    position += 1
                    wanted = table[digit, depth]
                    depth += 1
                if byte == wanted:
                    events[found, 0] = draw
                    events[found, 1] = side
                    events[found, 2] = digit
                    found += 1
                elif byte < wanted:
                    if digit < count:
                        total += side << digit
                    else:
                        events[found, 0] = draw
                        events[found, 1] = side
                        events[found, 2] = count + 1
                        found += 1
        out[draw] = total
    return out.size, found


@kernel
def weighted_rows(logarithms, words, weights, out):
    # One index per row, its weight exp(logarithm * 2**-36) over the sum of the row:
    # logarithms (n, m) int64, the least int64 for a weight of zero; words (n,) uint64,
    # a uniform number each; scratch weights (m,) float64 -> out (n,) int64, -1 where
    # the number is so close to a border that rounding might decide.
    n, m = logarithms.shape
    impossible = np.int64(-(2**63))
    # Errors of sums of up to m doubles and their exponentials, and of the cut-off word.
    margin = (m + 16) * 2.0**-52
    for row in range(n):
        best = impossible
        for i in range(m):
            best = max(best, logarithms[row, i])
        total = 0.0
        for i in range(m):
            weight = 0.0
            if logarithms[row, i] != impossible:
                gap = np.float64(best - logarithms[row, i]) * 2.0**-36
                if gap < 150.0:
                    weight = np.exp(-gap)
            weights[i] = weight
            total += weight
        left = np.float64(words[row] >> np.uint64(11)) * 2.0**-53 * total
        out[row] = -1
        for i in range(m):
            if left < weights[i] - margin * total:
                if left > margin * total:
                    out[row] = i
                break
            left -= weights[i]
            if left < margin * total:
                break


# ---- scans along an axis ------------------------------------------------------


@kernel
def scan(x, backward, out):
    # Running sums along the middle axis, from its end if backward is true:
    # x (left, n, right) dtype -> out (left, n, right) dtype.
    left, n, right = x.shape
    step = -1 if backward else 1
    first = n - 1 if backward else 0
    if right > 1:
        for a in range(left):
            for c in range(right):
                out[a, first, c] = x[a, first, c]
            for i in range(1, n):
                row = first + step * i
                for c in range(right):
                    out[a, row, c] = out[a, row - step, c] + x[a, row, c]
        return
    # Four rows at a time: each sum waits for the one before it.
    whole = left - left % 4
    zero = x[0, 0, 0] - x[0, 0, 0]
    for a in range(0, whole, 4):
        s0 = s1 = s2 = s3 = zero
        for i in range(n):
            j = first + step * i
            s0 += x[a, j, 0]
            s1 += x[a + 1, j, 0]
            s2 += x[a + 2, j, 0]
            s3 += x[a + 3, j, 0]
            out[a, j, 0] = s0
            out[a + 1, j, 0] = s1
            out[a + 2, j, 0] = s2
            out[a + 3, j, 0] = s3
    for a in range(whole, left):
        total = zero
        for i in range(n):
            j = first + step * i
            total += x[a, j, 0]
            out[a, j, 0] = total


# ---- exact convolutions ---------------------------------------------------------


@kernel
def number_transform(x, roots, quotients, prime):
    # Number theoretic transform of residues, in place, natural to bit-reversed order:
    # x (n,) uint32 below prime < 2^31, n a power of two; roots (n/2,) uint32 in
    # bit-reversed order and quotients (n/2,) uint32, root * 2^32 // prime.
    p = np.uint64(prime)
    half = x.size // 2
    blocks = 1
    while half > 0:
        for b in range(blocks):
            root = np.uint64(roots[b])
            quotient = np.uint64(quotients[b])
            low = x[2 * b * half : (2 * b + 1) * half]
            high = x[(2 * b + 1) * half : (2 * b + 2) * half]
            for i in range(half):
                u = np.uint64(low[i])
                v = np.uint64(high[i])
                v = v * root - ((v * quotient) >> np.uint64(32)) * p
                v = v - p if v >= p else v
                s = u + v
                d = u + p - v
                low[i] = np.uint32(s - p if s >= p else s)
                high[i] = np.uint32(d - p if d >= p else d)
        half //= 2
        blocks *= 2


@kernel
def number_transform_back(x, roots, quotients, prime):
    # The inverse but for the factor n, bit-reversed to natural order: x (n,) uint32 as
    # above, with the inverse roots.
    p = np.uint64(prime)
    half = 1
    blocks = x.size // 2
    while blocks > 0:
        for b in range(blocks):
            root = np.uint64(roots[b])
            quotient = np.uint64(quotients[b])
            low = x[2 * b * half : (2 * b + 1) * half]
            high = x[(2 * b + 1) * half : (2 * b + 2) * half]
            for i in range(half):
                u = np.uint64(low[i])
                v = np.uint64(high[i])
                s = u + v
                d = u + p - v
                low[i] = np.uint32(s - p if s >= p else s)
                d = d * root - ((d * quotient) >> np.uint64(32)) * p
                high[i] = np.uint32(d - p if d >= p else d)
        half *= 2
        blocks //= 2


@kernel
def residues(values, prime, out):
    # values (n,) int64 modulo prime -> out (n,) uint32.
    for i in range(values.size):
        out[i] = np.uint32(values[i] % prime)


@kernel
def multiply_residues(x, factors, scale, prime, out):
    # x factors scale modulo prime: x, factors (n,) uint32 -> out (n,) uint32.
    p = np.uint64(prime)
    for i in range(x.size):
        product = (np.uint64(x[i]) * np.uint64(factors[i])) % p
        out[i] = np.uint32((product * np.uint64(scale)) % p)


@kernel
def join_residues(r1, r2, r3, p1, p2, p3, inverse1, inverse12, out):
    # The integer nearest to zero with residues r1, r2, r3 (n,) uint32, modulo 2^64 ->
    # out (n,) int64. inverse1 = 1/p1 modulo p2, inverse12 = 1/(p1 p2) modulo p3.
    q1 = np.uint64(p1)
    q2 = np.uint64(p2)
    q3 = np.uint64(p3)
    first = q1 % q3
    every = q1 * q2 * q3
    for i in range(out.size):
        x1 = np.uint64(r1[i])
        gap = (np.uint64(r2[i]) + q2 - x1 % q2) % q2
        x2 = (gap * np.uint64(inverse1)) % q2
        known = (x1 + first * (x2 % q3)) % q3
        gap = (np.uint64(r3[i]) + q3 - known) % q3
        x3 = (gap * np.uint64(inverse12)) % q3
        value = x1 + q1 * (x2 + q2 * x3)
        if x3 + x3 >= q3:
            value -= every
        out[i] = np.int64(value)


@kernel
def csv_records(data, sep, n_fields, multiline, last, longest, out):
    # Whole records at the beginning of a csv file in UTF-8, or of a later part of it
    # that begins a record: data (n,) uint8 -> out (5,) int64. These are bytes, lines
    # and records that are well-formed; what is wrong with the record behind them, if
    # anything: its number of fields (1), text after a quote (2), a quote that is not
    # closed (3), or a field of more than `longest` bytes (4); and how many fields the
    # last record has. Without n_fields it is one record, of any number of fields. A
    # blank line is a record where n_fields is 1.
    n, pos = data.size, 0
    out[:] = 0
    while pos < n:
        start, breaks, fault = pos, 0, 0
        out[4] = 0
        while True:  # a field
            begun = pos
            if pos < n and data[pos] == 34:
                open_quote = True
                pos += 1
                while pos < n:
                    c = data[pos]
                    if c == 34:
                        if pos + 1 == n or data[pos + 1] != 34:
                            open_quote = False
                            pos += 1
                            break
                        pos += 1
                    elif c == 10 or c == 13:
                        if not multiline:
                            break
                        breaks += c == 10 or pos + 1 == n or data[pos + 1] != 10
                    pos += 1
                if open_quote and (last or pos < n or pos - begun > longest):
                    fault = 3
                elif pos < n and data[pos] not in (sep, 10, 13):
                    fault = 3 if breaks else 2
            else:
                while pos < n and data[pos] not in (sep, 10, 13):
                    pos += 1
            if fault == 0 and pos - begun > longest:
                fault = 4
            out[4] += 1
            if fault or pos == n or data[pos] != sep:
                break
            pos += 1
        if fault == 0:
            if not last and (pos == n or (pos + 1 == n and data[pos] == 13)):
                return
            blank = pos == start
            pos += pos + 1 < n and data[pos] == 13 and data[pos + 1] == 10
            pos += pos < n
            if blank and n_fields > 1:
                out[4] = n_fields
            elif n_fields and out[4] != n_fields:
                fault = 1
            else:
                out[2] += 1
        out[3] = fault
        if fault:
            return
        out[0] = pos
        out[1] += 1 + breaks
        if n_fields == 0:
            return
