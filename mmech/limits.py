"""Size limits: how large a thing may get before it is refused, or done another way.

Limits keep a call from taking all memory, or hours, by mistake. They depend on public
sizes only, and a release is as private with any others. On a larger machine:

>>> from mmech import limits
>>> with limits.changed(table_entries=2**30):
...     limits.LIMITS.table_entries
1073741824
>>> limits.LIMITS.table_entries
134217728
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from mmech.checks import check_integer


def limit(default: int, *, least: int = 0, most: int | None = None) -> Any:
    """Return the field of a limit, and what it may be changed to."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass
class ChangeableLimits:
    """Base of tables of limits, all of them whole numbers."""

    @contextmanager
    def changed(self, **values: int) -> Iterator[None]:
        """Give limits other values within a block, in all threads of the process.

        Parameters
        ----------
        **values : int
            New values by name.

        Raises
        ------
        TypeError
            If there is no limit of a name, or a value is not a whole number.
        ValueError
            If a value is negative, or more than the code can count.
        """
        known = {field.name: field.metadata for field in fields(self)}
        new = {}
        for name, value in values.items():
            if name not in known:
                names = ", ".join(known)
                raise TypeError(f"there is no limit {name!r}; limits are {names}")
            least, most = known[name].get("least", 0), known[name].get("most")
            new[name] = check_integer(value, name, minimum=least)
            if most is not None and value > most:
                raise ValueError(f"{name} must be at most {most}, got {value}")
        before = {name: getattr(self, name) for name in new}
        vars(self).update(new)
        try:
            yield
        finally:
            vars(self).update(before)


@dataclass
class Limits(ChangeableLimits):
    """Size limits of the engine.

    Attributes
    ----------
    table_entries : int
        Largest table of counts that is made from records, or that an estimate returns:
        1 GiB of 8 bytes each. More is refused.
    listed_cells : int
        Largest domain of which an estimate from marginals lists all cells. Above it
        only marginals are computed.
    file_bytes, description_bytes : int
        Largest size that a file unpacks to, and of the description in it, whose objects
        are many times as large. More is refused.
    bins : int
        Most bins of an attribute: each takes time to cut. More is refused.
    warned_entries : int
        Entries of an explicit matrix, 1 GiB of float64, above which making it warns.
    exhaustive_entries : int
        Most entries that are visited where an operator has no closed form, and that
        `to_dense` lists. More is refused.
    block_entries : int
        Entries that are explicit at a time there: 32 MiB of float64.
    enumerated_cells : int
        Largest domain with a number for every cell. Products over more are refused.
    listed_members : int
        Most cells of sets of cells, or nonzeros of their gram, that are listed so that
        products are faster: 128 MiB. Above it they read labels or masks.
    listed_entries : int
        Most entries of an integer operator of unknown class, or sums of its columns,
        that are listed. More entries are refused, and one bound stands for more sums.
    wide_sums : int
        The same of sums that do not fit into 64 bits.
    lattice_attributes : int
        Most attributes, 20 of them a million subsets, all of whose subsets have a place
        in one array. Above it only subsets that are asked for are listed.
    listed_subsets : int
        Most subsets of attributes that are listed. More is refused.
    summed_subsets : int
        Most subsets of attributes that a search of marginals projects sums of boxes on,
        one by one, where a lattice has too many attributes. More is refused.
    box_visits : int
        Most labels times attributes of partitions that are looked at as boxes.
    box_terms : int
        Most pairs of a kind of box and a subset of what it restricts. More is refused.
    dense_cells : int
        Largest domain of an n x n matrix whose eigenvalues, or sums over blocks, are
        computed.
    direct_size, direct_entries : int
        Smaller side, and entries, up to which a pseudoinverse is factorised once, and
        not solved for column by column.
    spectrum_cells, spectrum_factor : int
        Largest domain whose joint spectrum under stacked products is formed, and
        largest attribute of it.
    rounded_entries : int
        Most real entries of a strategy that are rounded one by one. More is refused.
    merged_cells : int
        Most cells, or queries, of a workload whose equal columns are merged. A larger
        one is left as it is.
    scored_entries : int
        Scores of an exponential mechanism, rows times options, that are weighted at a
        time, so that they stay in the cache.
    compared_entries : int
        Most entries of a workload of fractions whose columns are compared.
    pidentity_cells : int
        Largest domain without an order for template "pidentity". More is refused.
    union_cells : int
        Largest domain of template "union". More is refused.
    norm_dimensions : int
        Most dimensions of K-norm noise that template "equal_totals" takes for a set:
        drawing it starts with a polynomial of that degree. Attributes beyond make
        another set, which costs next to nothing.
    dual_cells : int
        Largest smaller side of a workload for the dual bound, and for template "dense"
        which starts from it. More is refused.
    dual_entries : int
        Most entries of an explicit workload of few rows for the same bound, and of an
        explicit strategy of template "dense": 1 GiB. More is refused.
    dual_distribution : int
        Largest domain over which bounds have a distribution, or reduce cells first.
    quick_dual_cells, quick_spectrum_cells : int
        Largest smaller side of a workload of which a bound without a stated cost, as
        `report` has it, iterates, and takes all singular values.
    summed_entries : int
        Most entries of listed ranges whose errors under waves are added up one by one.
    reported_queries, reported_entries : int
        Most queries, and entries of a workload without structure, whose errors a report
        lists one by one. A loss adds up as many entries; more is refused.
    published_cells : int
        Largest table that `release_tables` makes. More is refused.
    level_cells : int
        The same where a hierarchy has several levels in tables.
    model_cells : int
        Cells of the cliques of a model of maximum entropy that is fitted to released
        tables. Tables beyond are left out of the model.
    linked_entries : int
        Most pairs of values of all attributes that a latent class model is fitted to.
        Above it tables of pairs are shrunk towards independence, then towards a tree.
    """

    table_entries: int = 2**27
    listed_cells: int = 2**24
    file_bytes: int = 2**31
    description_bytes: int = 2**26
    bins: int = 100_000
    warned_entries: int = 2**27
    exhaustive_entries: int = 2**33
    block_entries: int = limit(2**22, least=1)
    enumerated_cells: int = 2**31
    listed_members: int = 2**24
    listed_entries: int = 2**25
    wide_sums: int = 2**22
    lattice_attributes: int = limit(20, most=30)
    listed_subsets: int = 2**22
    summed_subsets: int = 2**14
    box_visits: int = 2**30
    box_terms: int = 2**26
    dense_cells: int = 4096
    direct_size: int = 2048
    direct_entries: int = 2**28
    spectrum_cells: int = 2**24
    spectrum_factor: int = 2048
    rounded_entries: int = 2**25
    merged_cells: int = 2**22
    scored_entries: int = limit(2**16, least=1)
    compared_entries: int = 2**24
    pidentity_cells: int = 2**15
    union_cells: int = 2**22
    norm_dimensions: int = 400
    dual_cells: int = 3000
    dual_entries: int = 2**27
    dual_distribution: int = 2**22
    quick_dual_cells: int = 1024
    quick_spectrum_cells: int = 2048
    summed_entries: int = 2**28
    reported_queries: int = 2**22
    reported_entries: int = 2**26
    published_cells: int = 2**17
    level_cells: int = 2**22
    model_cells: int = 2**16
    linked_entries: int = 2**22


LIMITS = Limits()
"""Limits in force."""

changed = LIMITS.changed
