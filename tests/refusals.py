"""What wrong input is told: one sentence of ours, which shows no value."""

import pathlib
import re

import pytest

import mmech

HOME = pathlib.Path(mmech.__file__).parents[1]
ERRORS = (ValueError, TypeError, RuntimeError, OSError)


def refused(call, words, kind=ERRORS):
    """Return the error of a call: one sentence of ours with these words."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    raised = pathlib.Path(caught.traceback[-1].path)
    is_ours = any(raised.is_relative_to(HOME / name) for name in ("mmech", "mmech_rf"))
    assert is_ours, f"raised in {raised}: {message}"
    assert not any(mark in message for mark in ("\n", ". ", "SECRET", " object at 0x"))
    assert 10 < len(message) < 400
    assert re.search(words, message), message
    return caught.value
