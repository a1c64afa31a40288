"""Values of attributes in words, such as ``age 60 to 75`` or ``safety low or med``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from mmech.domain.attribute import Attribute
from mmech.domain.discretise import number_text
from mmech.terminal import printable


def any_of(words: Sequence[str]) -> str:
    """Join alternatives: ``a, b or c``."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def values_in_words(attribute: Attribute, codes: Collection[int]) -> str:
    """Return the name of an attribute with some of its values: at least one, not all.

    Numbers as ranges with their unit, whose upper ends belong to them; values with an
    order from the first to the last; others as a list, or as all but a few.

    Examples
    --------
    >>> from mmech_rf import Attribute
    >>> from mmech_rf.show.words import values_in_words
    >>> age = Attribute.numeric("age", lower=0, upper=100, n_bins=5, unit="years")
    >>> [values_in_words(age, codes) for codes in ([0, 1], [2], [4])]
    ['age up to 40 years', 'age 40 to 60 years', 'age above 80 years']
    >>> margin = Attribute.categorical("margin", ["sharp", "lobed", "spiculated"])
    >>> values_in_words(margin, [2]), values_in_words(margin, [0, 1])
    ('margin spiculated', 'margin sharp or lobed')
    """
    name = printable(attribute.name)
    codes = sorted(codes)
    labels = [printable(label) for label in attribute.labels]
    if attribute.kind != "categorical":
        return f"{name} {any_of([*_ranges(attribute, codes, labels)])}"
    others = [code for code in range(attribute.size) if code not in set(codes)]
    if len(codes) > 2 * len(others):
        return f"{name} not {any_of([labels[code] for code in others])}"
    return f"{name} {any_of([labels[code] for code in codes])}"


def _ranges(
    attribute: Attribute, codes: Sequence[int], labels: Sequence[str]
) -> Iterator[str]:
    """Yield runs of neighbouring cells; the cell of unknown numbers is none of them."""
    cuts = [number_text(cut) for cut in attribute.cut_points]
    other = attribute.other_code if attribute.kind in ("numeric", "date") else None
    unit = f" {printable(attribute.unit)}" if attribute.unit and cuts else ""
    runs = groupby(enumerate(codes), lambda pair: (pair[1] == other, pair[1] - pair[0]))
    for (is_other, _), run in runs:
        neighbours = [code for _, code in run]
        first, last = neighbours[0], neighbours[-1]
        if is_other or attribute.categories or not cuts:
            yield from _named(labels[first : last + 1])
        elif first == 0 and last == len(cuts):
            yield f"any but {labels[-1]}"
        elif first == 0:
            yield f"up to {cuts[last]}{unit}"
        elif last == len(cuts):
            yield f"above {cuts[first - 1]}{unit}"
        else:
            yield f"{cuts[first - 1]} to {cuts[last]}{unit}"


def _named(labels: Sequence[str]) -> Sequence[str]:
    return labels if len(labels) < 3 else [f"{labels[0]} to {labels[-1]}"]
