"""Forests of complete trees on blocks of attributes: their counts, or their labels."""
