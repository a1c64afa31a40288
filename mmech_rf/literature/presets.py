"""The private forests of the literature by name, and what is refused.

Depths, shares and numbers of trees are those of the papers. Where a paper is not
private as published, the preset of its name is a corrected one and says what was
corrected; the original is refused by name.

References
----------
.. [1] Fletcher, Islam, "Differentially private random decision forests using smooth
   sensitivity", Expert Systems with Applications 78, 2017, with the addendum of 2021.
.. [2] Fletcher, Islam, "Decision tree classification with differential privacy: a
   survey", ACM Computing Surveys 52(4), 2019.
.. [3] Huang, Lei, Kaban, "Noise-efficient learning of differentially private
   partitioning machine ensembles", ECML PKDD 2022.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from mmech import ParameterError
from mmech_rf.literature.recipe import GUARANTEES, Recipe

__all__ = ["REFUSED", "Recipes", "find_recipe", "recipes"]

RANDOM: dict[str, Any] = {"structure": "random", "splits": "threshold"}
MEDIANS: dict[str, Any] = {
    "n_trees": 10,
    "depth": "attributes",
    "stopping": "size",
    "candidates": 1,
    "score": "median",
}
EXACT: dict[str, Any] = MEDIANS | {
    "selection": "exact",
    "guarantee": "labels",
    "unlabelled": True,
}

_SHUFFLE = "records are assigned one by one, because cutting a shuffled list moves \
others when one arrives"
_BAG = "bags cost e^eps - 1, so that trees have log(1 + eps / trees) inside"
_PUBLIC_CUTS = "cut points are public"
_LABEL = "a replaced label changes two counts: noise of 2 / epsilon"

_PRESETS = (
    Recipe(
        **RANDOM,
        name="jpw",
        paper="Jagannathan, Pillaipakkamnatt, Wright, Transactions on Data Privacy 5 "
        "(2012)",
        n_trees=10,
        depth="half-or-log",
        records="all",
    ),
    Recipe(
        name="friedman-schuster",
        paper="Friedman, Schuster, KDD 2010",
        n_trees=1,
        depth=5,
        splits="threshold",
        score="max",
        levels="alternating",
        stopping="noisy-counts",
    ),
    Recipe(
        name="sulq-id3",
        paper="Blum, Dwork, McSherry, Nissim, PODS 2005",
        n_trees=1,
        depth=4,
        splits="threshold",
        selection="noisy-counts",
        score="entropy",
        leaf_share=Fraction(1, 5),
        corrected="counts of a value and of its classes are one release of twice the "
        "budget",
    ),
    Recipe(
        name="patil-singh",
        paper="Patil, Singh, ICACCI 2014",
        n_trees=20,
        depth=5,
        score="gini",
        records="poisson",
        corrected=f"{_BAG}; {_PUBLIC_CUTS}",
    ),
    Recipe(
        name="rana",
        paper="Rana, Gupta, Venkatesh, ICDM 2015",
        n_trees=10,
        depth="half",
        candidates="sqrt",
        selection="cut-then-attribute",
        cuts="class-means",
        splits="threshold",
        records="all",
        corrected="the strict variant: the original promises less than differential "
        "privacy, as its trees share records without sharing the budget",
    ),
    Recipe(
        structure="random",
        splits="multiway",
        name="fi-2015",
        paper="Fletcher, Islam, AusDM 2015",
        n_trees="support",
        depth="support",
        records="all",
        vote="most-confident",
        pruning="signal-to-noise",
    ),
    Recipe(
        name="bojarski",
        paper="Bojarski, Choromanska, Choromanski, LeCun, arXiv 1412.6348 (2014)",
        structure="random",
        n_trees="log-records",
        depth=6,
        records="all",
        vote="hard",
    ),
    Recipe(
        name="li-gini",
        paper="Li et al., random forest by the Gini index, as surveyed by [2]",
        n_trees=20,
        depth=5,
        records="poisson",
        corrected=f"{_PUBLIC_CUTS}; {_BAG}",
    ),
    Recipe(
        **RANDOM,
        name="fi-2021",
        paper="Fletcher, Islam, Expert Systems with Applications 78 (2017), as "
        "corrected in 2021",
        n_trees=100,
        depth="fletcher-islam",
        leaves="exponential",
        vote="hard",
        corrected=f"the exponential mechanism for labels; {_SHUFFLE}",
    ),
    Recipe(
        name="hou",
        paper="Hou et al., DPRF, as surveyed by [2]",
        n_trees=50,
        depth=6,
        score="gain",
        levels="hou",
        leaves="levels",
        corrected="gains are divided by the logarithm of the number of values, which "
        f"is public; {_SHUFFLE}",
    ),
    Recipe(
        name="guan",
        paper="Guan et al., as surveyed by [2]",
        n_trees=50,
        depth="half",
        levels="guan",
        leaves="levels",
        pruning="selective",
        corrected="shares of levels are normalised; bins are public; which trees vote "
        "is drawn, and paid for",
    ),
    Recipe(
        name="max-tree",
        paper="Liu, Li, Li, Zhang, MaxForest (2018)",
        n_trees=50,
        depth=5,
        score="max",
        records="all",
    ),
    Recipe(
        name="zhang",
        paper="Zhang et al., as surveyed by [2]",
        n_trees=50,
        depth=5,
        candidates="sqrt",
        score="max",
        records="all",
        corrected="the max operator, which one record moves by one, for F_max, which "
        "it moves by half the records",
    ),
    Recipe(
        name="diprime",
        paper="DiPriMe forests (2021)",
        n_trees=10,
        depth=8,
        candidates="sqrt",
        selection="cut-then-attribute",
        corrected="the medians of all candidates are paid for; the score of an "
        "attribute is minus its impurity",
    ),
    Recipe(
        name="liu",
        paper="Liu et al., two-phase forest, as surveyed by [2]",
        structure="two-phase",
        n_trees=30,
        depth=4,
        levels="liu",
        records="poisson",
        corrected=f"{_BAG}; a record's weight follows from the record alone; what was "
        "unpaid is dropped",
    ),
    Recipe(
        **MEDIANS,
        name="spe",
        paper="Huang, Lei, Kaban, ECML PKDD 2022",
        levels="geometric",
        corrected=f"public bounds and a public stop; {_SHUFFLE}",
    ),
    Recipe(
        **MEDIANS,
        name="sspe-1",
        paper="Huang, Lei, Kaban, ECML PKDD 2022",
        levels="geometric",
        unlabelled=True,
        corrected=f"public bounds and a public stop; {_SHUFFLE}",
    ),
    Recipe(
        **EXACT,
        name="sspe-2",
        paper="Huang, Lei, Kaban, ECML PKDD 2022",
        corrected=_LABEL,
    ),
    Recipe(
        **EXACT,
        name="pte",
        paper="Huang, Lei, Kaban, ECML PKDD 2022",
        leaves="permute-and-flip",
        vote="hard",
        corrected=f"{_LABEL}; no second noise, which protects nothing more",
    ),
    Recipe(
        name="dprf-thesis",
        paper="thesis on DiPriMe forests, chapter 5",
        n_trees=10,
        depth="half",
        candidates="sqrt",
        selection="cut-then-attribute",
        leaves="permute-and-flip",
        vote="hard",
        corrected="the medians of all candidates are paid for; the score of an "
        "attribute is minus its impurity; nodes stop by a public depth only",
    ),
    Recipe(
        name="ssrdt",
        paper="named in Huang, Lei, Kaban, ECML PKDD 2022",
        structure="random",
        n_trees=10,
        depth="half",
        guarantee="labels",
        corrected="no more than a line describes it; our reading: random trees, counts "
        f"of disjoint labelled records; {_LABEL}",
    ),
    Recipe(
        **EXACT | {"n_trees": 1, "candidates": "all"},
        name="top",
        paper="named in Huang, Lei, Kaban, ECML PKDD 2022",
        corrected="no more than a line describes it; our reading: one tree of exact "
        f"medians over all attributes; {_LABEL}",
    ),
)

REFUSED: dict[str, tuple[str, str]] = {
    "fi-2017": (
        "its smooth sensitivity is not private: counts (3, 0) and (2, 0) at epsilon = "
        "1 show a loss of 6.3, and larger counts more without a limit",
        "fi-2021",
    ),
    "diprime-as-published": (
        "the medians of K attributes are paid for once: a loss of 2.9 at K = 3 is "
        "accounted as 2",
        "diprime",
    ),
    "dprf-thesis-as-published": (
        "trees stop at pure nodes, so that one record changes their shape, and "
        "medians of K attributes are paid for once",
        "dprf-thesis",
    ),
    "spe-as-published": (
        "trees stop at 10 records and cut between the least and the largest value, so "
        "that one record changes their shape",
        "spe",
    ),
    "patil-singh-as-published": (
        "a bag of a mechanism of epsilon costs e^epsilon - 1, which is more",
        "patil-singh",
    ),
    "li-gini-as-published": ("its cut points come from the records", "li-gini"),
    "zhang-as-published": (
        "one record moves F_max by 499.5 among 1,000 records, not by one",
        "zhang",
    ),
    "hou-as-published": (
        "one record moves the gain ratio from 0 to 1, where a smaller sensitivity was "
        "assumed",
        "hou",
    ),
    "guan-as-published": (
        "its shares of leaf levels sum to 1.26 or 1.59 of their budget",
        "guan",
    ),
    "liu-as-published": (
        "weights normalised over all records let one record change every weight",
        "liu",
    ),
    "rana-as-published": (
        "it promises less than differential privacy",
        "rana",
    ),
    "sspe-2-as-published": (
        "a replaced label changes two counts, so that noise of 1 / epsilon costs 2 "
        "epsilon",
        "sspe-2",
    ),
    "pte-as-published": (
        "a replaced label changes two counts, so that noise of 1 / epsilon costs 2 "
        "epsilon",
        "pte",
    ),
}
"""Names of what is refused: why, and the preset that is corrected."""


class Recipes(Mapping[str, Recipe]):
    """The presets by name; shows them as a table."""

    def __init__(self) -> None:
        self._presets = {recipe.name: recipe for recipe in _PRESETS}

    def __getitem__(self, name: str) -> Recipe:
        return self._presets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._presets)

    def __len__(self) -> int:
        return len(self._presets)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return name, paper, guarantee and corrections of every preset."""
        return [
            (one.name, one.paper, GUARANTEES[one.guarantee], one.corrected or "-")
            for one in self.values()
        ]

    def __repr__(self) -> str:
        return "\n".join(
            f"{name}\n  {paper}\n  {guarantee}\n  corrected: {corrected}"
            for name, paper, guarantee, corrected in self.rows()
        )

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th>{word}</th>" for word in ("recipe", "paper", "guarantee", "corrected")
        )
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows()
        )
        return f"<table><tr>{head}</tr>{body}</table>"


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


def find_recipe(recipe: Any) -> Recipe:
    """Return a recipe by its name, or the recipe that it is.

    Raises
    ------
    ParameterError
        If there is none of that name, or it is not private as published.
    """
    if isinstance(recipe, Recipe):
        return recipe
    if not isinstance(recipe, str):
        raise TypeError(
            f"recipe must be a Recipe or the name of one, got {type(recipe).__name__}"
        )
    found = recipes()
    if recipe in REFUSED:
        why, instead = REFUSED[recipe]
        raise ParameterError(
            "recipe", f"{{recipe={recipe!r}}} is refused: {why}",
            remedy=f"use {{recipe={instead!r}}}",
        )  # fmt: skip
    if recipe not in found:
        near = difflib.get_close_matches(recipe, found, n=3, cutoff=0.3)
        raise ParameterError(
            "recipe",
            "must be the name of a recipe",
            recipe,
            f"did you mean {' or '.join(near)}"
            if near
            else f"use one of {list(found)}",
        )
    return found[recipe]
