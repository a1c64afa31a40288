"""Data sets: one table of them, those made by rules, and those from OpenML."""
