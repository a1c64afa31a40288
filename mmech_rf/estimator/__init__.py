"""What all private classifiers share, in scikit-learn style.

============  =======================================================
options       parameters and settings: what makes a class an estimator
base          fit and predict, copies, files, statement, card, pages
accounted     forests that first ask for the number of records; private bins
votes         how released models vote
records       encoded records, added up from the parts they came in
accuracy      the accuracy of a model, on records held out
terms         what a fit released: its statement and card
shown         trees in words, and importances
monotone      predictions that keep public directions
cautions      warnings: schemas read from records, fits that add up
============  =======================================================
"""
