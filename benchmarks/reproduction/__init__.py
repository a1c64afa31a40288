"""The figures and tables of Tajima, Wu and Houmansadr (AAAI 2025), measured again.

Run ``python -m benchmarks.reproduction --quick`` in the root of the repository.
"""
