"""Released models for people: trees in words, pages and cards.

Everything here is computed from the schema and from what was released; no record is
looked at.

===========  =======================================================
trees        values, tests and outcomes in words; equal branches are one
page         all of a model as one HTML file
===========  =======================================================
"""
