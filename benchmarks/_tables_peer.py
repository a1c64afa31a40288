"""Two-way tables and synthetic records by OpenDP's ``dp.mbi``, in its environment.

Called by `benchmarks.tables`: method, epsilon, a file to read and one to write. Needs
only numpy and ``opendp[mbi]``, which brings private-pgm. The method "private-pgm" is
this library as its README shows it: Laplace noise by hand on the tables that are asked
for, mirror descent to the model of maximum entropy. That model is exact, and so it
takes domains that fit in memory only.
"""

import sys
import time
from itertools import combinations

import numpy as np
import opendp.extras.mbi._aim as aim
import opendp.extras.mbi._mst as mst
import opendp.extras.mbi._table as table
import opendp.prelude as dp
import polars as pl

# OpenDP 0.16 splits a pure epsilon in floating point and then refuses its own parts,
# which add up to 1e-17 too much: its step down is made a little larger.
for module in (aim, mst, table):
    module.prior = lambda cost: cost * (1 - 1e-9)

dp.enable_features("contrib", "honest-but-curious")


MOST_CELLS = 10**7
"""A model with all pairs of attributes has a clique of all of them."""


def by_hand(codes, shape, epsilon):
    """Return tables, seconds and records of private-pgm."""
    import mbi

    if np.prod(shape, dtype=float) > MOST_CELLS:
        sys.exit(f"all pairs need a model of {np.prod(shape, dtype=float):.0e} cells")
    names = [f"a{i}" for i in range(len(shape))]
    pairs = list(combinations(range(len(shape)), 2))
    rng = np.random.default_rng()
    start = time.perf_counter()
    scale = len(pairs) / epsilon
    measured = []
    for i, j in pairs:
        place = codes[:, i] * shape[j] + codes[:, j]
        counts = np.bincount(place, minlength=shape[i] * shape[j])
        noisy = counts + rng.laplace(scale=scale, size=counts.size)
        clique = (names[i], names[j])
        measured.append(mbi.LinearMeasurement(noisy, clique, stddev=scale * 2**0.5))
    model = mbi.estimation.mirror_descent(mbi.Domain(names, shape), measured)
    found = {
        f"{i}_{j}": model.project((names[i], names[j])).datavector(flatten=False)
        for i, j in pairs
    }
    seconds = time.perf_counter() - start
    drawn = model.synthetic_data()
    records = np.column_stack([drawn.to_dict()[name] for name in names])
    return {"seconds": seconds, "records": records.astype(np.int64), **found}


def main(method, epsilon, given, made):
    with np.load(given) as found:
        codes, shape = found["codes"], found["shape"].tolist()
    if method == "private-pgm":
        np.savez(made, **by_hand(codes, shape, float(epsilon)))
        return
    names = [f"a{i}" for i in range(len(shape))]
    records = pl.LazyFrame({name: codes[:, i] for i, name in enumerate(names)})
    algorithm = dp.mbi.MST() if method == "MST" else dp.mbi.AIM(queries=2)
    context = dp.Context.compositor(
        data=records,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=float(epsilon)),
    )
    start = time.perf_counter()
    keys = {name: list(range(n)) for name, n in zip(names, shape, strict=True)}
    released = (
        context.query(epsilon=float(epsilon))
        .select(*names)
        .contingency_table(keys=keys, algorithm=algorithm)
        .release()
    )
    found = {}
    for i, j in combinations(range(len(shape)), 2):
        both = np.asarray(released.project((names[i], names[j])))
        # A last row and column are for values that are not in the keys.
        both = both.reshape(shape[i] + 1, shape[j] + 1)
        found[f"{i}_{j}"] = both[:-1, :-1]
    seconds = time.perf_counter() - start
    drawn = released.synthesize()
    drawn = drawn.collect() if isinstance(drawn, pl.LazyFrame) else drawn
    drawn = drawn.drop_nulls().select(names).to_numpy().astype(np.int64)
    np.savez(made, seconds=seconds, records=drawn, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
