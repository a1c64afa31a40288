"""Forests of complete trees on blocks of attributes: their counts, or their labels.

=============  ==================================================================
settings       budget split, smoothing and thresholds, and where they come from
votes          how blocks vote, from their released tables
labels         labels of leaves, of which nothing else is released
classifier     the estimators
=============  ==================================================================
"""
