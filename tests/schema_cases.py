"""A toy schema, and the code of a single value."""

from mmech_rf.schema import Attribute, Schema

COLOUR = Attribute.categorical("colour", ["red", "green", "?"])
SIZE = Attribute.ordinal("size", ["small", "big"])
AGE = Attribute.numeric("age", lower=0, upper=100, n_bins=4)
TOY = Schema([COLOUR, SIZE, AGE], ["no", "yes"], name="toy")


def one(attribute, value, **options):
    """Return the code of one value."""
    return int(Schema([attribute], ["no", "yes"]).encode([[value]], **options)[0, 0])
