"""Public facts about the records of a classifier: a domain, and its classes.

A schema is public: it comes from documentation or agreement, not from the records.
Everything downstream (domain, forest, strategy) is built from it, so nothing there
depends on sensitive data.

======  =======================================================
schema  `Schema`: how raw records and their labels become codes
labels  class labels: types, codes, and what is wrong with them
files   schemas as files
======  =======================================================
"""

from mmech.domain.attribute import Attribute
from mmech.domain.encoding import Misfit
from mmech.domain.parts import Part, read
from mmech_rf.schema.schema import Schema, check_schema

__all__ = ["Attribute", "Misfit", "Part", "Schema", "check_schema", "read"]
