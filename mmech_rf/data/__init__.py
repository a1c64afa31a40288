"""Data sets: one table of them, those made by rules, and those from OpenML.

=========  =====================================================
catalogue  what each data set is called, and where it comes from
generated  data sets made by rules
openml     data sets of OpenML, with public schemas
=========  =====================================================
"""
