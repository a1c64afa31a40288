"""What all private classifiers share, in scikit-learn style.

============  =======================================================
estimator     what makes a class an estimator of scikit-learn
classifier    the face: fit and predict, copies, files, statement, card
accounted     forests that first ask for the number of records
votes         how released models vote
records       encoded records, added up from the parts they came in
cuts          private bins of numbers
accuracy      the accuracy of a model, on records held out
terms         what a fit settled and chose, its statement and card
shown         views of models: trees, importances, pages
monotone      predictions that keep public directions
settings      base classes of the settings of a method
cautions      warnings: schemas read from records, fits that add up
============  =======================================================
"""
