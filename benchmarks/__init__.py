"""Benchmarks: speed (asv suite and tables), accuracy, reproduction."""
