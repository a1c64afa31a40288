"""Errors that hold data, to be worded by what calls parameters by other names."""

import copy
import pickle

import pytest

from mmech import ParameterError


def options(name, value):
    """Words of a command line that has two options."""
    if name not in ("depth", "n_trees"):
        return None
    return f"--{name.replace('_', '-')}" + (f" {value}" if value else "")


@pytest.mark.parametrize(
    ("error", "python", "worded"),
    [
        (ParameterError("depth", "must be at most 3", 9),
         "depth must be at most 3, got 9", "--depth must be at most 3, got 9"),
        (ParameterError("n_trees", "{n_trees=inf} needs {splits='multiway'}"),
         "n_trees=inf needs splits='multiway'",
         "--n-trees inf needs splits='multiway'"),
        (ParameterError("depth", "is bad", None, ("choose {depth=}", "fix {other=}")),
         "depth is bad; choose depth=, or fix other=",
         "--depth is bad; choose --depth"),
        (ParameterError("X", "row 0 of {X} is bad", None, ("mend it", "use {a='b'}")),
         "row 0 of X is bad; mend it, or use a='b'", "row 0 of X is bad; mend it"),
        (ParameterError("depth", "is bad", None, ("a", "b", "c {depth='auto'}")),
         "depth is bad; a, b, or c depth='auto'",
         "--depth is bad; a, b, or c --depth auto"),
    ],
)  # fmt: skip
def test_one_error_in_the_words_of_two(error, python, worded):
    """A remedy for which there is no option is left out."""
    assert str(error) == python
    assert error.render(options) == worded
    assert isinstance(error, ValueError)


def test_the_place_is_said_first_and_copies_say_the_same():
    error = ParameterError("depth", "is bad", 1, "mend it").at("'s.json'").at("data")
    assert str(error) == "data: 's.json': depth is bad, got 1; mend it"
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(other) == str(error)
        assert other.remedy == ("mend it",)
