"""Data sets: one table of them, and the functions that make them.

=========  ================================================
catalogue  what each data set is called, and what makes it
generated  data sets made by rules, and iris
=========  ================================================
"""
