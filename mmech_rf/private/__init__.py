"""Private random forest classifiers in scikit-learn style.

===================  =======================================================
estimator            what makes a class an estimator of scikit-learn
base                 fit and predict, policies, spent ledgers of copies
accounted            forests that first ask for the number of records
grown                forests that grow before a record is seen
per_batch            methods that spend their budget on a batch of queries
batch_training       counts of leaves through an optimized strategy
batch_prediction     votes of one batch through an optimized strategy
laplace_forest       counts of leaves with Laplace noise
subsample_aggregate  votes of forests of which every record trains one tree
nonprivate           the same forests without privacy
ensembles            random forests on some attributes, and their strategies
voting               from leaf counts or labels to votes
votes                how released models vote
records              encoded records, added up from the parts they came in
cluster              records that Dask holds, counted where they are
cuts                 private bins of numbers
accuracy             the accuracy of a model, on records held out
choice               what a fit went by, and chose
terms                what a fit settled, and its privacy statement
card                 the same as fields that programs read
public_model         what of an estimator leaves the process
shown                what models show: trees, importances, pictures
monotone             predictions that keep public directions
settings             what settings of a method are made of
inferred             schemas read from records, which void the guarantee
lineage              how often an estimator and its clones were fitted
sizes                refusal of what is too large, with what does fit
===================  =======================================================
"""
