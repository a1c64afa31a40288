"""Private random forest classifiers in scikit-learn style."""
