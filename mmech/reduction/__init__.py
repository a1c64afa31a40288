"""Lossless reduction of the domain: cells that no query tells apart.

=====  ===========================================================
cells  columns that are equal, and the domain with these cells merged
=====  ===========================================================
"""
