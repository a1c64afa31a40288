"""What makes a class a scikit-learn estimator: `__init__`, and texts of its parameters.

Estimators have most parameters in common. A parameter is a field with a default, as in
a dataclass. Its text is written once, in the docstring of its class.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from functools import wraps
from inspect import Parameter, cleandoc, signature
from typing import Any, TypeVar, dataclass_transform

from mmech import ParameterError
from mmech.checks import check_epsilon, check_integer

_Class = TypeVar("_Class")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def estimator(cls: type[_Class]) -> type[_Class]:
    r"""Give a class an ``__init__`` that assigns its fields; complete its docstring.

    Its fields, with those of its bases, become parameters. Texts of parameters and
    attributes come from the docstrings of bases where the class has none of its own.

    Examples
    --------
    >>> @estimator
    ... class Constant:
    ...     '''Answer always the same.
    ...
    ...     Parameters
    ...     ----------
    ...     answer : int, default=1
    ...         What is answered.
    ...     '''
    ...
    ...     answer: int = 1
    >>> @estimator
    ... class Other(Constant):
    ...     '''Answer otherwise.'''
    ...
    ...     answer: int = 2
    >>> Other(answer=3).answer
    3
    >>> Other.__doc__.split("----\n")[1]
    'answer : int, default=2\n    What is answered.'
    """
    made = dataclass(eq=False, repr=False, kw_only=True)(cls)
    assign = made.__init__

    @wraps(assign)
    def init(self: object, *args: object, **parameters: object) -> None:
        refuse_foreign(parameters, signature(assign).parameters)
        assign(self, *args, **parameters)

    made.__init__ = init  # type: ignore[method-assign]
    if made.__doc__ is not None:  # python -OO has none
        made.__doc__ = _completed(made, cleandoc(made.__doc__))
    return made


_OWN: dict[type, dict[str, dict[str, str]]] = {}
"""Texts of the docstrings of classes, by section and name."""


def _completed(cls: type, text: str) -> str:
    """Return a docstring with the texts of all parameters and attributes."""
    head, *sections = re.split(r"\n\n(?=\w[\w ]*\n-+\n)", text)
    rest = [s for s in sections if not s.startswith(("Parameters", "Attributes"))]
    _OWN[cls] = {}
    for section in sections:
        if section not in rest:
            title, _, body = section.split("\n", 2)
            parts = re.split(r"\n(?=\w)", body)
            _OWN[cls][title] = {part.partition(" : ")[0]: part for part in parts}
    parts = [head]
    for title in ("Parameters", "Attributes"):
        texts: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            texts |= _OWN.get(base, {}).get(title, {})
        if title == "Parameters":
            taken = signature(cls).parameters.values()
            texts = {
                p.name: _with_default(texts[p.name], p)
                for p in taken
                if p.name in texts
            }
        if texts:
            parts.append("\n".join([title, "-" * len(title), *texts.values()]))
    return "\n\n".join([*parts, *rest])


def _with_default(text: str, parameter: Parameter) -> str:
    shown = str(parameter.default)
    shown = f'"{shown}"' if isinstance(parameter.default, str) else shown
    return re.sub("(?<=default=).*", lambda _: shown, text, count=1)


OURS = {"n_estimators": "n_trees", "max_depth": "depth"}
"""Our names of parameters, by those of scikit-learn's forests."""


def refuse_foreign(
    given: Collection[str],
    known: Collection[str] = (),
    error: type[Exception] = TypeError,
) -> None:
    """Raise for parameters of scikit-learn's classifiers that are none of these."""
    for name in OURS.keys() & given:
        remedy = f"pass {OURS[name]}=" if OURS[name] in known else "leave it out"
        raise error(
            f"{name} is a parameter of scikit-learn's forests, which these forests "
            f"call {OURS[name]} where they have it; {remedy}"
        )
    for name in ("sample_weight", "class_weight"):
        if name in given:
            raise TypeError(
                f"{name} is not supported, because noise hides one record that counts "
                "once, and a weight would let it change more; leave it out"
            )


# ---- numbers that were looked at on data --------------------------------------


def setting(default: Any, *, least: float = 0, most: float = math.inf) -> Any:
    """Return a dataclass field with limits; the type of its default is its own.

    A fraction is a share or a budget: exact, and above zero.
    """
    return field(default=default, metadata={"least": least, "most": most})


def checked(value: Any, entry: Any) -> Any:
    """Return the value of a field that is a `setting`, or raise."""
    name, least, most = entry.name, entry.metadata["least"], entry.metadata["most"]
    if isinstance(entry.default, Fraction):
        number: Any = check_epsilon(value, name)
    elif isinstance(entry.default, int):
        number = check_integer(value, name, minimum=least)
    elif isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    else:
        number = float(value)
    if not least <= number <= most:
        raise ParameterError(
            name, f"must be a number from {least:g} to {most:g}", number
        )
    return number
