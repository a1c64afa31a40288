"""Releases of the engine beside peers: ``python -m benchmarks.releases``."""
