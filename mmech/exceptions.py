"""Errors and warnings of the engine, and of the forests built on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self


class UnsupportedWorkloadError(ValueError):
    """A workload row lies outside the row space of the strategy."""


class DomainTooLargeError(ValueError):
    """A domain has more cells than the chosen method can hold in memory."""


class BudgetExceededError(RuntimeError):
    """A release was refused because the privacy budget does not cover it."""


class EntropyError(RuntimeError):
    """The operating system gave no random bytes; nothing was released."""


class ParameterError(ValueError):
    """A parameter has a value that cannot be used.

    It holds data rather than a sentence, so that a command line can word it with the
    names of its options. ``str()`` uses the names of Python's parameters.

    Parameters
    ----------
    parameter : str
        Name of the parameter.
    need : str
        What it must be: what follows its name in the sentence, or a sentence in which
        it stands in braces. In `need` and `remedy`, braces mark what Python calls by a
        name: ``{depth}``, ``{privacy='zcdp'}``, ``{max_features=}``.
    got : object, default=None
        What came, where that may be shown.
    remedy : str or tuple of str, default=()
        What to do: ways of which one is enough.
    place : str, default=""
        Where it was found, such as the name of a file.

    Examples
    --------
    >>> error = ParameterError("delta", "goes with {privacy='zcdp'} only", 0.1,
    ...                        ("leave it out", "pass {privacy='zcdp'}"))
    >>> print(error)
    delta goes with privacy='zcdp' only, got 0.1; leave it out, or pass privacy='zcdp'
    >>> print(error.render(lambda name, value: f"--{name} {value or ''}".strip()))
    --delta goes with --privacy zcdp only, got 0.1; leave it out, or pass --privacy zcdp
    """

    def __init__(
        self,
        parameter: str,
        need: str,
        got: object = None,
        remedy: str | tuple[str, ...] = (),
        place: str = "",
    ) -> None:
        super().__init__(parameter, need, got, remedy, place)
        self.parameter = parameter
        self.need = need
        self.got = got
        self.remedy = (remedy,) if isinstance(remedy, str) else remedy
        self.place = place

    def __str__(self) -> str:
        """Return the sentence with the names of Python."""
        return self.render(None)

    def at(self, place: str) -> Self:
        """Return the same error with the place where it was found."""
        given = self.parameter, self.need, self.got, self.remedy
        return type(self)(*given, f"{place}: {self.place}" if self.place else place)

    def render(self, word: Callable[[str, str | None], str | None] | None) -> str:
        """Return the sentence in words of one's own.

        Parameters
        ----------
        word : callable or None
            Called with a name and the value given to it, or None; returns the words
            for both. Where it returns None there is nothing of that name: remedies
            that need it are left out, and elsewhere the name of Python is used.

        Returns
        -------
        str
        """

        def fill(text: str) -> tuple[str, bool]:
            missing = False

            def replace(found: re.Match[str]) -> str:
                nonlocal missing
                name, value = found["name"], found["value"]
                words = word and word(name, value and value.strip("'"))
                missing = missing or (word is not None and words is None)
                return words or found[0][1:-1]

            return _NAMED.sub(replace, text), missing

        named = any(
            found["name"] == self.parameter for found in _NAMED.finditer(self.need)
        )
        need, _ = fill(self.need if named else f"{{{self.parameter}}} {self.need}")
        ways = [way for way, missing in map(fill, self.remedy) if not missing]
        sentence = f"{self.place}: {need}" if self.place else need
        if self.got is not None:
            sentence += f", got {self.got}"
        if ways:
            *first, last = ways
            between = ", or " if first else ""
            sentence += f"; {', '.join(first)}{between}{last}"
        return sentence


_NAMED = re.compile(r"\{(?P<name>[A-Za-z_][\w.]*)(?:=(?P<value>[^{}]*))?\}")
"""A name of Python in a text, with or without a value."""


@contextmanager
def located(place: str) -> Iterator[None]:
    """Let errors of a block say where they were found, such as in which file."""
    try:
        yield
    except ParameterError as error:
        raise error.at(place) from error
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


@contextmanager
def keeping(spent: str, then: str, **measured: Any) -> Iterator[None]:
    """Give what was paid for to whatever stops a block, an interruption included.

    The exception has it as an attribute and says so: what is spent, and what then does
    the rest at no more cost. An inner block, which has measured more, comes first.
    """
    try:
        yield
    except BaseException as stop:
        for name, value in measured.items():
            if hasattr(stop, name):
                continue
            setattr(stop, name, value)
            stop.add_note(
                f"{spent} is spent. What was measured is kept as the attribute "
                f"`{name}` of this exception; {then} at no more cost."
            )
        raise


class ConvergenceWarning(UserWarning):
    """An iterative method stopped before it reached its tolerance."""


class PerformanceWarning(UserWarning):
    """Something large is made explicit, or a strategy is far from what may be known."""


class PrivacyLeakWarning(UserWarning):
    """A public fact was read from data, noise was seeded, or a budget hides nothing.

    Or what is measured looks like records that were not counted.
    """
