"""Two-way tables and synthetic records by OpenDP's ``dp.mbi``, in its environment.

Called by `_tables.py`: method, "epsilon" or "rho", its amount, a file to read
and one to write. Needs only numpy and ``opendp[mbi]``, which brings private-pgm.
Parameters of a method follow its name, as in "AIM rounds=28 max_size=1". The method
"private-pgm" is this library as its README shows it: Laplace noise by hand on the
tables that are asked for, mirror descent to the model of maximum entropy. That model is
exact, and so it takes domains that fit in memory only. "pgm-AIM" is the mechanism of
its repository, under rho, whose folder ``mechanisms`` has to be found.

Three steps are faster than in the peer, with the same results. `quick_search` looks for
a scale of noise where it must be. `eliminate` projects models by NumPy, which compiles
nothing. AIM and MST accept `mirror_descent` as their ``estimator``; it compiles once
for each structure of a model instead of once for each fit.
"""

import contextlib
import json
import sys
import time
from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import mbi
import numpy as np
import opendp.extras.mbi._aim as aim
import opendp.extras.mbi._mst as mst
import opendp.extras.mbi._table as table
import opendp.prelude as dp
import polars as pl
from mbi import marginal_oracles
from mbi.clique_utils import maximal_subset
from mbi.estimation import minimum_variance_unbiased_total
from mbi.marginal_oracles import message_passing_fast

# OpenDP 0.16 splits a pure epsilon in floating point and then refuses its own parts,
# which add up to 1e-17 too much: its step down is made a little larger.
for module in (aim, mst, table):
    module.prior = lambda cost: cost * (1 - 1e-9)

dp.enable_features("contrib", "honest-but-curious")


def quick_search(make, d_in, d_out, T):
    """Return what `binary_search_param` does: the least scale of the noise.

    The loss of all chains here is inverse to that scale, but for rounding.
    """
    scale = make(1.0).map(d_in) / d_out
    try:
        bounds = scale * (1 - 1e-6), scale * (1 + 1e-6)
        return dp.binary_search_param(make, d_in, d_out, bounds, T)
    except ValueError:
        return dp.binary_search_param(make, d_in, d_out, T=T)


def quick_chain(make, d_in, d_out, T):
    """Return what `binary_search_chain` does: the chain with the least noise."""
    return make(quick_search(make, d_in, d_out, T))


aim.binary_search_chain = mst.binary_search_chain = quick_chain
table.binary_search_param = quick_search


def eliminate(potentials, clique, total=1.0, evidence=None, mesh=None):
    """Return a margin of a model, as `mbi.marginal_oracles.variable_elimination`."""
    assert evidence is None
    domain = potentials.active_domain
    left = [
        (own.domain.attributes, np.asarray(own.values, float))
        for own in potentials.arrays.values()
    ]
    cliques = [*(names for names, _ in left), tuple(clique)]
    elim = domain.invert(clique)
    for name in mbi.junction_tree.greedy_order(domain, cliques, elim=elim)[0]:
        names, table = added([own for own in left if name in own[0]])
        left = [own for own in left if name not in own[0]]
        axis = names.index(name)
        top = table.max(axis=axis, keepdims=True)
        summed = np.log(np.exp(table - top).sum(axis=axis)) + top.squeeze(axis)
        left.append((names[:axis] + names[axis + 1 :], summed))
    own = potentials.domain.project(clique)
    _, table = added([*left, (own.attributes, np.zeros(own.shape))], own.attributes)
    shares = np.exp(table - table.max())
    return mbi.Factor(own, jnp.asarray(total * shares / shares.sum()))


def added(factors, names=None):
    """Return the sum of logarithms, an axis for each of the attributes."""
    names = names or tuple(dict.fromkeys(name for own, _ in factors for name in own))
    total = 0.0
    for own, logs in factors:
        order = sorted(range(len(own)), key=lambda axis: names.index(own[axis]))
        missing = [axis for axis, name in enumerate(names) if name not in own]
        total = total + np.expand_dims(logs.transpose(order), missing)
    return names, total


marginal_oracles.variable_elimination = eliminate


def mirror_descent(domain, measurements, *, potentials=None):
    """Fit a model as `mbi.estimation.mirror_descent` does, by the same iterates.

    Measurements are arguments of the compiled function and not constants in it.
    Measurements of one table are combined, and marginals after a step are kept for the
    next.
    """
    total = minimum_variance_unbiased_total(measurements)
    by_clique = {}
    for own in measurements:
        assert own.query == mbi.Factor.datavector
        weight, values = 1 / own.stddev**2, jnp.asarray(own.noisy_measurement)
        before, mean = by_clique.get(own.clique, (0.0, 0.0))
        both = before + weight
        by_clique[own.clique] = both, (before * mean + weight * values) / both
    cliques = sorted(maximal_subset(list(by_clique)))
    if potentials is None:
        potentials = mbi.CliqueVector.zeros(domain, cliques)
    observed = dict(sorted(by_clique.items()))
    potentials, marginals = descend(
        potentials.expand(cliques), list(observed.values()), total, tuple(observed)
    )
    return mbi.MarkovRandomField(
        potentials=potentials, marginals=marginals, total=total
    )


@partial(jax.jit, static_argnums=3)
def descend(potentials, observed, total, cliques):
    """Return potentials and marginals after the default of 1000 iterations."""

    def loss_of(mu):
        loss = 0.0
        for (weight, values), clique in zip(observed, cliques, strict=True):
            apart = mu.project(clique).datavector() - values
            loss += 0.5 * weight * jnp.vdot(apart, apart)
        return loss

    gradient = jax.value_and_grad(loss_of)
    zeros = potentials * 0.0

    def norm(vector):
        return jnp.sqrt(vector.dot(vector))

    def power(_, state):
        vector, _ = state
        image = jax.jvp(jax.grad(loss_of), (zeros,), (vector,))[1]
        return image / (norm(image) + 1e-12), norm(image)

    ones = zeros + 1.0
    lipschitz = jax.lax.fori_loop(0, 50, power, (ones / norm(ones), 0.0))[1]

    def update(_, state):
        theta, mu, alpha = state
        loss, slope = gradient(mu)
        theta2 = theta - alpha * slope
        mu2 = message_passing_fast(theta2, total)
        is_enough = loss - loss_of(mu2) >= 0.5 * alpha * slope.dot(mu - mu2)
        theta, mu = jax.lax.cond(is_enough, lambda: (theta2, mu2), lambda: (theta, mu))
        return theta, mu, jnp.where(is_enough, 1.01 * alpha, 0.5 * alpha)

    state = potentials, message_passing_fast(potentials, total), 2 / (lipschitz * total)
    return jax.lax.fori_loop(0, 1000, update, state)[:2]


MOST_CELLS = 10**7
"""A model with all pairs of attributes has a clique of all of them."""


def by_hand(codes, shape, epsilon):
    """Return tables, seconds and records of private-pgm."""
    if np.prod(shape, dtype=float) > MOST_CELLS:
        sys.exit(f"all pairs need a model of {np.prod(shape, dtype=float):.0e} cells")
    names = [f"a{i}" for i in range(len(shape))]
    pairs = list(combinations(range(len(shape)), 2))
    rng = np.random.default_rng()
    start = time.process_time()
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
    return {"seconds": time.process_time() - start, **found}, model.synthetic_data


def pgm_aim(codes, shape, rho, **settings):
    """Return tables, seconds and records of AIM as private-pgm's repository has it."""
    import aim as mechanism

    def fit(domain, measurements, iters, potentials=None, callback_fn=None):
        return mirror_descent(domain, measurements, potentials=potentials)

    mechanism.estimation.mirror_descent = fit
    names = [f"a{i}" for i in range(len(shape))]
    columns = dict(zip(names, codes.T, strict=True))
    records = mbi.Dataset(columns, mbi.Domain(names, shape))
    start = time.process_time()
    own = mechanism.AIM(1.0, 0.0, **settings)
    own.rho = rho
    pairs = list(combinations(names, 2))
    draw, mbi.MarkovRandomField.synthetic_data = (
        mbi.MarkovRandomField.synthetic_data,
        lambda model, rows: None,  # where records are asked for, later
    )
    with contextlib.redirect_stdout(None):
        model, _ = own.run(records, [(pair, 1.0) for pair in pairs])
    found = {
        f"{a[1:]}_{b[1:]}": model.project((a, b)).datavector(flatten=False)
        for a, b in pairs
    }
    return {"seconds": time.process_time() - start, **found}, partial(draw, model)


def opendp(kind, codes, shape, currency, cost, **settings):
    """Return tables, seconds, and what draws records, of an algorithm of OpenDP."""
    names = [f"a{i}" for i in range(len(shape))]
    records = pl.LazyFrame({name: codes[:, i] for i, name in enumerate(names)})
    if kind == "AIM":
        settings |= {"queries": 2}
    algorithm = getattr(dp.mbi, kind)(estimator=mirror_descent, **settings)
    context = dp.Context.compositor(
        data=records,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**{currency: float(cost)}),
    )
    start = time.process_time()
    keys = {name: list(range(n)) for name, n in zip(names, shape, strict=True)}
    released = (
        context.query(**{currency: float(cost)})
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
    return {"seconds": time.process_time() - start, **found}, released.synthesize


def main(method, currency, cost, given, made, *records):
    with np.load(given) as found:
        codes, shape = found["codes"], found["shape"].tolist()
    kind, *words = method.split()
    pairs = (word.split("=") for word in words)
    settings = {name: json.loads(value) for name, value in pairs}
    if kind == "private-pgm":
        assert currency == "epsilon"
        found, draw = by_hand(codes, shape, float(cost))
    elif kind == "pgm-AIM":
        assert currency == "rho"
        found, draw = pgm_aim(codes, shape, float(cost), **settings)
    else:
        found, draw = opendp(kind, codes, shape, currency, cost, **settings)
    if records:
        drawn = draw()
        if isinstance(drawn, pl.LazyFrame):
            drawn = drawn.collect()
        if isinstance(drawn, pl.DataFrame):
            drawn = drawn.drop_nulls()
        columns = drawn.to_dict()
        codes = np.column_stack([columns[f"a{i}"] for i in range(len(shape))])
        found["records"] = codes.astype(np.int64)
    np.savez(made, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
