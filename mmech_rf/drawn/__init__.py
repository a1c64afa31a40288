"""Labelled trees that are drawn as a whole, and scores beside them."""
