"""Public facts about the records of a classifier: a domain, and its classes.

A schema is public: it comes from documentation or agreement, not from the records.
Everything downstream (domain, forest, strategy) is built from it, so nothing there
depends on sensitive data.

==========  =======================================================
schema      `Schema`: how raw records and their labels become codes, or errors
files       schemas as files
thresholds  tests of scikit-learn's trees, as cut points of numbers
==========  =======================================================
"""

from mmech.domain.attribute import Attribute as Attribute
from mmech.domain.encoding import Misfit as Misfit
from mmech.domain.parts import Part as Part
from mmech.domain.parts import read as read
from mmech_rf.schema.schema import Schema as Schema
from mmech_rf.schema.schema import check_schema as check_schema
