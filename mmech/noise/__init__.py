"""Everything that draws from the operating system's entropy, drawn exactly.

Noise, private choices, assignments of records and tie-breaks all come from this
folder: the source of a guarantee can be read in one place. Everything else
that is random in this package (starts of an optimizer, forests) uses ordinary seeded
generators and is public.

Noise is made of integers and follows its law exactly, not up to rounding: scales are
fractions, probabilities are compared bit by bit with their binary expansion, and the
expansions come from integer arithmetic with rigorous bounds. So no low-order bit of
a released number carries anything about the count beneath it. Mironov's attack reads
these bits of floats ("On significance of the least significant bits for differential
privacy", CCS 2012).

==========  =============================================================
system      the operating system's entropy, the only source
seam        the one place that all outcomes pass, so that tests can watch
exact       trials, and choices by weights, of exactly given probabilities
laws        Laplace, Gaussian, K-norm: norm, cost, variance and sampler
laplace     discrete Laplace noise
gaussian    discrete Gaussian noise
norm        noise whose density falls with a norm
tails       the exact law of a sum of noise, and half the width of its intervals
choice      samples and orders of records, and arg max with random ties
==========  =============================================================
"""

from mmech.noise.choice import (
    assign_records,
    keyed_argmax,
    poisson_bags,
    random_argmax,
    random_permutation,
)
from mmech.noise.exact import (
    FRACTION_BITS,
    IMPOSSIBLE,
    flip_negative_exponential,
    weighted_choice,
    weighted_choices,
)
from mmech.noise.gaussian import discrete_gaussian, discrete_gaussian_variance
from mmech.noise.laplace import discrete_laplace, discrete_laplace_variance
from mmech.noise.laws import (
    GAUSSIAN,
    K_NORM,
    LAPLACE,
    LAWS,
    OF_CURRENCY,
    Law,
    Price,
    k_norm,
    law_and_cost,
)
from mmech.noise.norm import norm_noise, norm_noise_variance
from mmech.noise.system import check_insecure_rng, integers_below, random_key

__all__ = [
    "FRACTION_BITS",
    "IMPOSSIBLE",
    "GAUSSIAN",
    "K_NORM",
    "LAPLACE",
    "LAWS",
    "OF_CURRENCY",
    "Law",
    "Price",
    "assign_records",
    "check_insecure_rng",
    "discrete_gaussian",
    "discrete_gaussian_variance",
    "discrete_laplace",
    "discrete_laplace_variance",
    "flip_negative_exponential",
    "integers_below",
    "k_norm",
    "keyed_argmax",
    "law_and_cost",
    "norm_noise",
    "norm_noise_variance",
    "poisson_bags",
    "random_argmax",
    "random_key",
    "random_permutation",
    "weighted_choice",
    "weighted_choices",
]
