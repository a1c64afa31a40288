"""Sets of attributes: their tables, and counts of records in them.

=======  =================================================================
counts   counts of occupied cells, which can be added up
records  answers from occupied cells, where all cells are too many to list
=======  =================================================================
"""
