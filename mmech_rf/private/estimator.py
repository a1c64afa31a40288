"""What makes a class a scikit-learn estimator: `__init__`, and texts of its parameters.

Estimators have most parameters in common. A parameter is a field with a default, as in
a dataclass. Its text is written once, in the docstring of its class.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import wraps
from inspect import Parameter, cleandoc, signature
from typing import TypeVar, dataclass_transform

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
    own: Collection[str] = (),
    error: type[Exception] = TypeError,
) -> None:
    """Raise for parameters of scikit-learn's classifiers that are none of these."""
    for name in OURS.keys() & given:
        remedy = f"pass {OURS[name]}=" if OURS[name] in own else "leave it out"
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
