"""Errors and warnings of the engine, and of the forests built on it."""

__all__ = [
    "BudgetExceededError",
    "ConvergenceWarning",
    "DomainTooLargeError",
    "EntropyError",
    "PerformanceWarning",
    "PrivacyLeakWarning",
    "UnsupportedWorkloadError",
]


class UnsupportedWorkloadError(ValueError):
    """A workload row lies outside the row space of the strategy."""


class DomainTooLargeError(ValueError):
    """A domain has more cells than the chosen method can hold in memory."""


class BudgetExceededError(RuntimeError):
    """A release was refused because the privacy budget does not cover it."""


class EntropyError(RuntimeError):
    """The operating system gave no random bytes; nothing was released."""


class ConvergenceWarning(UserWarning):
    """An iterative method stopped before it reached its tolerance."""


class PerformanceWarning(UserWarning):
    """An operation materialises something large that could stay implicit."""


class PrivacyLeakWarning(UserWarning):
    """Something that should be public was read from data, or noise was seeded."""
