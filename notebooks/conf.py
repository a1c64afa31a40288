"""Settings of the book, which ``sphinx-build -E -W notebooks book`` builds."""

import argparse
import importlib.resources
import os
import re
from importlib import metadata
from pathlib import Path

from mmech.cli import build_parser
from mmech_rf.cli.main import build_parser as build_forest_parser

project = "mmech"
author = "The mmech developers"
release = metadata.version("mmech")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_design",
]
exclude_patterns = ["**/.ipynb_checkpoints"]
templates_path = ["_templates"]
nitpicky = True
# A property of all estimators, documented among the attributes of each.
nitpick_ignore = [("py:obj", "ledger_")]

html_theme = "pydata_sphinx_theme"
html_title = "mmech"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
}
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_sidebars = {"index": ["globaltoc.html"]}  # other pages list their section
html_show_sourcelink = False

# Notebooks are shown with the outputs that they were committed with.
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # docstrings give types and shapes
autodoc_default_options = {"exclude-members": "set_fit_request,set_score_request"}
numpydoc_show_class_members = False


def public_names(package: str) -> dict[str, list[str]]:
    """Return the public names under the comments that they stand below."""
    stub = importlib.resources.files(package) / "__init__.pyi"
    parts = re.split(r"^# ", stub.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        part.partition("\n")[0]: re.findall(r"\b(\w+) as \1\b", part)
        for part in parts[1:]
    }


def write_api(package: str) -> str:
    """Return the page of a package in the reference: its public names by topic."""
    lines = [package, "=" * len(package), "", f".. automodule:: {package}", ""]
    lines += [f".. currentmodule:: {package}", ""]
    module = importlib.import_module(package)
    for topic, names in public_names(package).items():
        own = [name for name in names if is_own(getattr(module, name), package)]
        lines += [".. rubric:: " + topic.capitalize(), "", ".. autosummary::"]
        lines += ["   :toctree: generated", "", *(f"   {name}" for name in own), ""]
    return "\n".join(lines)


def is_own(thing: object, package: str) -> bool:
    """Whether a public thing is defined in this package, not in the one below."""
    home = getattr(thing, "__module__", None) or getattr(thing, "__name__", package)
    return home.split(".")[0] == package


def write_help(parser: argparse.ArgumentParser) -> str:
    """Return the help of a command and of all its subcommands."""
    text = parser.format_help().rstrip()
    lines = [f"## {parser.prog}", "", "```text", text, "```", ""]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines += [write_help(below) for below in action.choices.values()]
    return "\n".join(lines)


os.environ["COLUMNS"] = "80"
pages = {f"{package}.rst": write_api(package) for package in ("mmech", "mmech_rf")}
pages["command_line.md"] = "\n".join(
    [
        "# Command line",
        "",
        write_help(build_parser()),
        write_help(build_forest_parser()),
    ]
)
for page, text in pages.items():
    path = Path(__file__).parent / "reference" / page
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
