"""A toy schema, and the code of a single value."""

from mmech_rf.schema import Attribute, Schema

COLOUR = Attribute.categorical("colour", ["red", "green", "?"])
SIZE = Attribute.ordinal("size", ["small", "big"])
AGE = Attribute.numeric("age", lower=0, upper=100, n_bins=4)
KINDS = {"c": Attribute.categorical, "o": Attribute.ordinal}
TOY = Schema([COLOUR, SIZE, AGE], ["no", "yes"], name="toy")


def one(attribute, value, **options):
    """Return the code of one value."""
    return int(Schema([attribute], ["no", "yes"]).encode([[value]], **options)[0, 0])


def schema_of(*attributes, classes=("no", "yes")):
    """A schema from strings such as "c3" (categorical), "o4" (ordinal), "n5"."""
    made = []
    for i, text in enumerate(attributes):
        size = int(text[1:])
        if text[0] == "n":
            # squares: bins of unequal width
            cuts = [float(j * j) for j in range(1, size)] or None
            bounds = {"lower": 0, "upper": float(size * size)}
            options = {"cut_points": cuts} if cuts else {"n_bins": 1}
            made.append(Attribute.numeric(f"x{i}", **bounds, **options))
        else:
            made.append(KINDS[text[0]](f"x{i}", list(range(size))))
    return Schema(tuple(made), classes)
