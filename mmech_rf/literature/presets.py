"""The private forests of the literature by name, and what is refused.

They are listed in ``presets.toml``. Where a paper is not private as published, the
preset of its name is a corrected one and says what was corrected; the original is
refused by name.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterator, Mapping
from typing import Any

from mmech import ParameterError
from mmech_rf.literature.recipe import WORDS, Recipe, listed_in


def _choices(name: str) -> dict[str, Any]:
    own = dict(listed_in("presets")[name])
    return (_choices(own.pop("like")) if "like" in own else {}) | own


class Recipes(Mapping[str, Recipe]):
    """The presets by name; shows them as a table."""

    def __getitem__(self, name: str) -> Recipe:
        if name == "refused":
            raise KeyError(name)
        return Recipe(**_choices(name), name=name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in listed_in("presets") if name != "refused")

    def __len__(self) -> int:
        return len(list(iter(self)))

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return name, paper, guarantee and corrections of every preset."""
        words = WORDS["guarantee"]
        return [
            (one.name, one.paper, words[one.guarantee], one.corrected or "-")
            for one in self.values()
        ]

    def __repr__(self) -> str:
        return "\n".join(
            f"{name}\n  {paper}\n  {guarantee}\n  corrected: {corrected}"
            for name, paper, guarantee, corrected in self.rows()
        )

    def _repr_html_(self) -> str:
        rows = [("recipe", "paper", "guarantee", "corrected"), *self.rows()]
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in r) for r in rows)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def recipes() -> Recipes:
    """Return the presets by name, with paper, guarantee and what was corrected.

    Returns
    -------
    Recipes
        A mapping of names to `Recipe`, which prints as a table.

    Examples
    --------
    >>> from mmech_rf import recipes
    >>> recipes()["pte"].guarantee
    'labels'
    """
    return Recipes()


def refused() -> dict[str, tuple[str, str]]:
    """Return names of what is refused: why, and the preset that is corrected."""
    rows = listed_in("presets")["refused"].items()
    return {name: (own["why"], own["instead"]) for name, own in rows}


def find_recipe(recipe: Any) -> Recipe:
    """Return a recipe by its name, or the recipe that it is.

    Raises
    ------
    ParameterError
        If no recipe has the name, or the recipe is not private as published. Also if a
        recipe with other choices has the name of a preset.
    """
    if isinstance(recipe, Recipe):
        if recipe != recipes().get(recipe.name, recipe):
            raise ParameterError(
                "recipe",
                f"{{recipe}} has the name of the preset {recipe.name!r}, but other "
                "choices",
                remedy=(
                    "give it a name of its own",
                    f"change the preset by recipes()[{recipe.name!r}].replace(...)",
                ),
            )
        return recipe
    if not isinstance(recipe, str):
        raise TypeError(
            f"recipe must be a Recipe or the name of one, got {type(recipe).__name__}; "
            "choose from recipes()"
        )
    if recipe in refused():
        why, instead = refused()[recipe]
        words = f"{{recipe={recipe!r}}} is refused: {why}"
        raise ParameterError("recipe", words, remedy=f"use {{recipe={instead!r}}}")
    found = recipes()
    if recipe not in found:
        near = difflib.get_close_matches(recipe, found, n=3, cutoff=0.3)
        known = ", ".join(found)
        remedy = f"did you mean {' or '.join(near)}" if near else f"choose {known}"
        raise ParameterError("recipe", "must be the name of a recipe", recipe, remedy)
    return found[recipe]
