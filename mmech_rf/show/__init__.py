"""Released models for people: trees in words, pictures, pages and cards.

Everything here is computed from the schema and from what was released; no record is
looked at.
"""
