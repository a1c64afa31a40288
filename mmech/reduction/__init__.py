"""Lossless reduction of the domain: cells that no query tells apart.

=======  ==================================================
columns  columns of a workload that are equal, or multiples
cells    merges the cells that no query tells apart
=======  ==================================================
"""
