"""The methods of Tajima, Wu and Houmansadr, and the baselines they compare with.

==============  ===============================================================
grown           forests that grow before a record is seen
batch_training  counts of leaves through an optimized strategy
per_batch       votes of one batch: batch prediction, subsample and aggregate
baselines       counts of leaves with Laplace noise, and without any
==============  ===============================================================
"""
