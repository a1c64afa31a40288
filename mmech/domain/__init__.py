"""Who a record is: named attributes, their values, and the cells of the domain.

===========  ==============================================================
attribute    one attribute: its cells, and how raw values reach them
hierarchies  levels of an attribute: a tree of its values
discretise   cut points of numbers from public bounds
domain       named attributes, and the cells that they make together
dates        days of raw values, and the periods of the calendar
values       which raw values are missing, and what the others mean, read once each
encoding     columns of raw values to codes of cells, and what does not fit
frames       tables in memory: read as columns, and made of columns
csv_files    csv files, read strictly
parts        records of files, folders and frames, so many rows at a time
files        domains as JSON, described by ``schema.json``
===========  ==============================================================
"""
