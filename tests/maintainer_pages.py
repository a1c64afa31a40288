"""The code of the pages for maintainers, run as a plug-in would be."""

import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from mmech.noise import LAWS

PAGES = Path(__file__).parents[1] / "notebooks" / "maintainers"


@cache
def code_of(page, module=None):
    """Return what the first block of Python on a page defines, as a module of its own.

    The module has a name that pickles find.
    """
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    (code, *_) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    name = module or f"plugin_{page}"
    made = sys.modules[name] = ModuleType(name)
    exec(compile(code, str(PAGES / f"{page}.md"), "exec"), vars(made))
    return made


def law_of_the_page():
    """Return the law of noise of a page, which lists it for good: it is taken out."""
    law = code_of("adding_a_noise_law").TWO_SERVERS
    LAWS.pop(law.name, None)
    return law
