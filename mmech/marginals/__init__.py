"""Sets of attributes: their tables, and counts of records in them.

=============  =================================================================
junction_tree  cliques in a tree, which add up a distribution exactly
counts         counts of occupied cells, which can be added up
records        answers from occupied cells, where all cells are too many to list
=============  =================================================================
"""
