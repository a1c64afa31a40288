"""Exact noise, beside the inexact noise of NumPy and, if installed, OpenDP's."""

import numpy as np

from mmech import Identity, Kronecker, MatrixMechanism, Prefix, noisy_release, optimize
from mmech.noise import (
    discrete_gaussian,
    discrete_gaussian_variance,
    discrete_laplace,
    discrete_laplace_variance,
    norm_noise,
    norm_noise_variance,
)

from ._common import check

DRAWS = 10**6
OPENDP_DRAWS = 10**4
"""OpenDP draws one number at a time: divide its time by a hundredth."""


def opendp_laplace(scale):
    """Return OpenDP's discrete Laplace sampler of vectors, or skip."""
    try:
        import opendp.prelude as dp
    except ImportError as failure:
        raise NotImplementedError("opendp is not installed") from failure
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return dp.m.make_laplace(*space, scale=float(scale))


class Laplace:
    """A million draws; seconds are microseconds per draw."""

    params = ([1, 2**10, 2**20],)
    param_names = ("scale",)

    def setup(self, scale):
        self.rng = np.random.default_rng()
        # Fourth moment 24 t⁴: 1 % is seven standard errors of a million draws.
        sample = self.time_laplace_mmech(scale).astype(float)
        check(np.square(sample).mean(), discrete_laplace_variance(scale), rtol=0.02)

    def time_laplace_mmech(self, scale):
        return discrete_laplace(scale, (DRAWS,))

    def time_laplace_numpy_inexact(self, scale):
        return self.rng.laplace(scale=scale, size=DRAWS)


class OpenDP:
    """Ten thousand draws of OpenDP's exact sampler beside as many of ours."""

    params = ([1, 2**10, 2**20],)
    param_names = ("scale",)

    def setup(self, scale):
        self.zeros = [0] * OPENDP_DRAWS
        self.release = opendp_laplace(scale)
        sample = np.square(np.array(self.time_laplace_opendp(scale), float))
        check(sample.mean(), discrete_laplace_variance(scale), rtol=0.2)
        self.time_laplace_mmech(scale)

    def time_laplace_mmech(self, scale):
        return discrete_laplace(scale, (OPENDP_DRAWS,))

    def time_laplace_opendp(self, scale):
        return self.release(self.zeros)


class Gaussian:
    """A million draws of the discrete Gaussian."""

    params = ([1, 2**20],)
    param_names = ("sigma",)

    def setup(self, sigma):
        self.rng = np.random.default_rng()
        sample = self.time_gaussian_mmech(sigma).astype(float)
        check(np.square(sample).mean(), discrete_gaussian_variance(sigma**2), rtol=0.02)

    def time_gaussian_mmech(self, sigma):
        return discrete_gaussian(sigma**2, (DRAWS,))

    def time_gaussian_numpy_inexact(self, sigma):
        return self.rng.normal(scale=sigma, size=DRAWS)


class Norm:
    """One-way tables in ten classes, counted in 64ths: beside Laplace noise for them.

    A record counts in every table, so that Laplace noise for `attributes` tables has as
    many times the scale; the ratio of variances is what noise for the norm saves.
    """

    params = ([10, 100], [1, 5])
    param_names = ("attributes", "values")
    classes = 10
    unit = 64

    def setup(self, attributes, values):
        self.groups = [values] * attributes
        self.shape = attributes * values, self.classes
        variance = norm_noise_variance(self.unit, self.groups)[0]
        # Columns share a radius: a standard error of up to 5 % of 400 columns.
        sample = norm_noise(self.unit, self.groups, 400).astype(float)
        check(np.square(sample).mean(), variance, rtol=0.3)
        self.time_laplace_mmech(attributes, values)

    def time_norm_mmech(self, attributes, values):
        return norm_noise(self.unit, self.groups, self.classes)

    def time_laplace_mmech(self, attributes, values):
        return discrete_laplace(self.unit * attributes, self.shape)

    def track_variance_over_laplace(self, attributes, values):
        laplace = discrete_laplace_variance(self.unit * attributes)
        return norm_noise_variance(self.unit, self.groups)[0] / laplace


class Release:
    """A million counts through the door: checked, charged, noised."""

    def setup(self):
        self.counts = np.random.default_rng(0).integers(0, 1000, DRAWS)
        self.rng = np.random.default_rng()
        values = self.time_release_mmech().values - self.counts
        check(np.square(values).mean(), discrete_laplace_variance(1), rtol=0.02)

    def time_release_mmech(self):
        return noisy_release(
            self.counts, sensitivity=1, epsilon=1, released="a million counts"
        )

    def time_release_numpy_inexact(self):
        return self.counts + self.rng.laplace(size=DRAWS)


class Product:
    """A product of p-Identities, whose grids multiply, beside as many counts of cells.

    On the grids of 2^12 that a factor has by itself the scale would be 2^24.
    """

    def setup(self):
        workload = Kronecker([Prefix(256)] * 2)
        strategy = optimize(workload, template="kronecker", seed=0).strategy
        self.product = MatrixMechanism(workload, strategy, epsilon=1)
        self.counts = np.random.default_rng(0).integers(0, 9, workload.shape[1])
        rows = Identity(self.product.released.shape[0])
        self.cells = MatrixMechanism(rows, rows, epsilon=1)
        self.zeros = np.zeros(rows.shape[0], np.int64)
        exact = self.product.released.product(self.counts[:, None])[:, 0]
        noise = self.time_product() - exact
        variance = self.product.law.variance(self.product.released.sensitivity)
        check(np.square(noise.astype(float)).mean(), variance, rtol=0.1)
        self.time_cells()

    def time_product(self):
        return self.product.measure(self.counts).values

    def time_cells(self):
        return self.cells.measure(self.zeros).values
