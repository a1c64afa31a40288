"""Private random forest classifiers in scikit-learn style.

===================  ============================================================
base                 fit and predict, policies, spent ledgers of copies
accounted            forests that first ask for the number of records
settings             what settings of a method are made of
choice               what a fit went by, and chose
concentrated         whether a fit may be accounted in zCDP
payments             draws, counts and sums, charged before they are drawn
votes                how released models vote
private_forest       the forest that is chosen for the budget at hand
batch_training       counts of leaves through an optimized strategy
batch_prediction     votes of one batch through an optimized strategy
laplace_forest       counts of leaves with Laplace noise
subsample_aggregate  votes of forests of which every record trains one tree
per_batch            what classifiers have in common that release votes of a batch
ensembles            random forests on some of the attributes, and their strategies
voting               hard and weighted votes of random forests
nonprivate           the same forests without privacy
lineage              how often an estimator and its clones were fitted
sizes                refusal of what is too large, with what does fit
===================  ============================================================
"""
