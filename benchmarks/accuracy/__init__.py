"""Accuracy of private classifiers: ``python -m benchmarks.accuracy``."""
