"""Lossless reduction of the domain: cells that no query tells apart."""
