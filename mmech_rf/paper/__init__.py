"""The methods of Tajima, Wu and Houmansadr, and the baselines they compare with.

===================  =======================================================
grown                forests that grow before a record is seen
per_batch            methods that spend their budget on a batch of queries
batch_training       counts of leaves through an optimized strategy
batch_prediction     votes of one batch through an optimized strategy
subsample_aggregate  votes of forests of which every record trains one tree
baselines            counts of leaves with Laplace noise, and without any
===================  =======================================================
"""
