"""The one place that every random outcome passes through, so that tests can watch it.

A release is a function of exact values, of public settings and of fresh randomness.
Each of its draws is announced here with all three, after it was paid for. Nothing
listens outside of tests: then the call below is the call of the sampler.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mmech.exceptions import PrivacyLeakWarning

__all__ = ["Draw", "drawn", "watch_draws"]


@dataclass(frozen=True, eq=False)
class Draw:
    """What one random outcome depends on.

    Attributes
    ----------
    kind : str
        Name of a law of noise, such as ``"laplace"``, ``"gaussian"``, ``"k_norm"``:
        exact values to which noise is added; ``"exponential"``,
        ``"permute_and_flip"``, ``"tree"``: a selection by exact scores;
        ``"quantiles"``: a selection of cut points by exact counts of cells;
        ``"assignment"``: a part of the data for each of so many records; ``"ties"``,
        ``"key"``: randomness that touches released numbers only.
    exact : Any
        What comes from records. Sensitive, but for ``"ties"`` and ``"key"``.
    public : mapping of str
        Everything else that the probabilities of the outcomes follow from. For noise:
        the ``runs`` of rows, the exact ``parameters`` of its law for each of them, the
        ``groups`` of a K-norm law, and the ``entry`` in the ledger. For a selection:
        its ``epsilon`` and ``relation``, and the ``rate``, which one unit of score adds
        to the logarithm of a weight, in nats.
    """

    kind: str
    exact: Any
    public: Mapping[str, Any]


Sampler = Callable[[], Any]
Watcher = Callable[[Draw, Sampler], Any]

_watcher: Watcher | None = None


def drawn(kind: str, exact: Any, sample: Sampler, **public: Any) -> Any:
    """Return what `sample` draws, or what a test puts in its place."""
    if _watcher is None:
        return sample()
    return _watcher(Draw(kind, exact, public), sample)


@contextmanager
def watch_draws(watcher: Watcher) -> Iterator[None]:
    """Pass every random outcome of this process through a function; for tests.

    Parameters
    ----------
    watcher : callable
        Called with a `Draw` and a function without arguments that draws the outcome;
        what it returns is taken for the outcome.

    Warns
    -----
    PrivacyLeakWarning
        Always: a watcher sees exact values and may replace the noise.

    Examples
    --------
    >>> import warnings
    >>> from mmech import noisy_release
    >>> from mmech.testing import watch_draws
    >>> def without_noise(draw, sample):
    ...     return draw.exact
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with watch_draws(without_noise):
    ...         noisy_release(
    ...             [4, 0, 9], sensitivity=1, epsilon=1, released="counts"
    ...         ).values
    array([4, 0, 9])
    """
    global _watcher
    warnings.warn(
        "watched draws show exact values and may be predictable, which gives no "
        "privacy; use watch_draws in tests only",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before
