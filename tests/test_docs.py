"""README code runs, public names are documented, releases proven, imports light."""

import ast
import doctest
import inspect
import os
import re
import runpy
import shlex
import subprocess
import sys
import types
from functools import cached_property
from importlib import import_module
from pathlib import Path

import pytest

import mmech
import mmech_rf
from mmech import PrivacyLedger, verify
from mmech.audit.__main__ import main as run_audit
from mmech.cli import main as run_engine
from mmech.noise import assign_records, keyed_argmax, random_argmax, weighted_choice
from mmech_rf.cli import main as run_forests
from mmech_rf.drawn.draw import select_tree
from mmech_rf.literature.recipe import recipes, refused

ROOT = Path(__file__).parents[1]
PACKAGES = (mmech, mmech_rf)
LOCAL_PATH = re.compile(
    r"(?<![\w./-])/(?:work|home|root|tmp|usr|opt|mnt|var|Users)/\w|\b[A-Z]:\\\w"
)

public_names = pytest.mark.parametrize(
    ("package", "name"),
    [
        pytest.param(package, name, id=f"{package.__name__}.{name}")
        for package in PACKAGES
        for name in package.__all__
    ],
)


def parameters_of(thing):
    function = thing.__init__ if isinstance(thing, type) else thing
    return inspect.signature(function).parameters if callable(function) else {}


PAGES = [
    ROOT / "README.md",
    ROOT / "notebooks" / "forests.md",
    ROOT / "notebooks" / "operators_and_strategies.md",
    *sorted((ROOT / "notebooks" / "howto").glob("*.md")),
]
NEEDED = {
    "scale": ("dask.distributed", "pandas", "pyarrow"),
    "add_up_losses": ("dp_accounting",),
}
"""Packages of extras, by the page that needs them."""

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = {
    "mmech-rf": run_forests,
    "mmech": run_engine,
    "python -m mmech.audit": run_audit,
}


def blocks_of(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run_python(*arguments, folder=ROOT):
    """Run Python in a new process, with this process's import path."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# ---- pages -------------------------------------------------------------------


RUN = [
    # Workers of a cluster take seconds to start, and an audit of every release runs.
    pytest.param(page, marks=pytest.mark.slow(always=page.stem == "scale"))
    if page.stem in ("audit", "scale")
    else page
    for page in PAGES
]


@pytest.mark.by_day(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_a_page_runs(page, tmp_path, monkeypatch):
    """Blocks run in order, in one folder and one namespace.

    Python blocks with ``>>>`` are doctests with their output, others plain code;
    console blocks have a command after each ``$``.
    """
    for package in NEEDED.get(page.stem, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=flags)
    names = {}
    for language, code in blocks_of(page):
        if language == "console":
            for command in re.findall(r"^\$ (.+)$", code, re.MULTILINE):
                (name,) = (n for n in COMMANDS if command.startswith(f"{n} "))
                words = shlex.split(command.removeprefix(name))
                assert COMMANDS[name](words) == 0, "see the captured output"
        elif ">>> " in code:
            test = doctest.DocTestParser().get_doctest(code, names, page.stem, None, 0)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
            assert runner.failures == 0, "see the captured output"
        else:
            exec(compile(code, page.stem, "exec"), names)


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--runs", "20"], "an integer >= 100"), (["--confidence", "2"], "0 and 1")],
)
def test_an_audit_of_wrong_size_prints_no_table(words, message, capsys):
    with pytest.raises(SystemExit):
        run_audit(words)
    printed = capsys.readouterr()
    assert not printed.out
    assert message in printed.err


def test_the_readme_repeats_what_the_report_found():
    report = ROOT / "benchmarks" / "reproduction" / "REPORT.md"
    said = r"^\*\*\d+ of \d+\*\* published .*? reached: \d+\."
    (line,) = re.findall(said, report.read_text(encoding="utf-8"), re.MULTILINE)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert line.replace("*", "").removesuffix(".") in readme


def test_the_page_of_papers_names_what_is_there():
    page = (ROOT / "notebooks" / "papers.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[^:`]+)::(\w+)`", page)
    assert len(named) > 30
    for path, test in named:
        assert f"\ndef {test}(" in (ROOT / path).read_text(encoding="utf-8"), test
    for package, name in re.findall(r"`(mmech(?:_rf)?)\.(\w+)`", page):
        assert name in {*import_module(package).__all__, "datasets"}, name
    lists = re.findall(r"recipes? ((?:`[\w-]+`,? ?)+)", page)
    systems = {name for names in lists for name in re.findall("`([\\w-]+)`", names)}
    assert {*recipes()} <= systems <= {*recipes(), *refused()}
    sources = re.split("^## ", page, flags=re.MULTILINE)[1:]
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8").split("- type: ")[1:]
    assert len(sources) == len(cited) >= 5
    for source, reference in zip(sources, cited, strict=True):
        for author in re.findall(r"family-names: (\w+)", reference):
            assert author in source, author
    for path in re.findall(r"`(benchmarks/[^`]+)`|\]\(([^)]+)\)", page):
        assert any(
            (folder / "".join(path)).exists() for folder in (ROOT, ROOT / "notebooks")
        ), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_imports_only_public_names(page):
    for _, code in blocks_of(page):
        for package in PACKAGES:
            pattern = rf"^(?:>>> )?from {package.__name__} import (.+)$"
            for names in re.findall(pattern, code, re.MULTILINE):
                for name in re.findall(r"\w+", names):
                    assert name in package.__all__


# ---- docstrings --------------------------------------------------------------


@public_names
def test_public_name_is_documented(package, name):
    """Classes and functions show an example; errors and warnings say it in a line."""
    thing = getattr(package, name)
    documentation = inspect.getdoc(thing)
    assert documentation, f"{name} has no docstring"
    summary = documentation.splitlines()[0]
    assert summary.endswith("."), f"{name}: the summary is not a sentence: {summary}"
    if isinstance(thing, types.ModuleType):
        return
    assert thing.__doc__, f"{name} only inherits a docstring"
    if isinstance(thing, type) and issubclass(thing, (Exception, Warning)):
        return
    assert re.search(r"^Examples\n-{8}$", documentation, re.MULTILINE), (
        f"{name} has no Examples section"
    )
    assert ">>> " in documentation.split("Examples\n--------", 1)[1]


def assert_documented(kind):
    """Methods and properties that a class defines have a docstring, or inherit one."""
    methods = types.FunctionType, classmethod, property, cached_property
    for name, value in vars(kind).items():
        if not name.startswith("_") and isinstance(value, methods):
            assert inspect.getdoc(getattr(kind, name)), (
                f"{kind.__name__}.{name} has no docstring"
            )


def test_methods_are_documented():
    """Those of operators of no public class, too, which no linter asks for."""
    kinds = [getattr(package, name) for package in PACKAGES for name in package.__all__]
    for kind in kinds:
        if isinstance(kind, type):
            assert_documented(kind)
    kinds = [mmech.QueryMatrix]
    for kind in kinds:
        kinds += kind.__subclasses__()  # and so on, down to the last one
        home = kind.__module__
        own = getattr(sys.modules.get(home), kind.__name__, None)
        # Classes of doctests have the name of the module, too.
        if home.startswith("mmech.operators.") and own is kind:
            assert_documented(kind)


# ---- proofs ------------------------------------------------------------------

PROOFS = ROOT / "notebooks" / "proofs"
PROOF_PAGES = sorted(PROOFS.glob("*.md"))
PROOF_SECTIONS = [
    "Claim", "Neighbour relation", "Public inputs", "Argument", "What is outside",
]  # fmt: skip
PROVEN = [
    getattr(package, name)
    for package in (mmech, mmech_rf)
    for name in package.__all__
    if "insecure_rng" in parameters_of(getattr(package, name))
] + [
    PrivacyLedger, assign_records, random_argmax, keyed_argmax, weighted_choice,
    select_tree, verify,
]  # fmt: skip
"""Everything public that releases, by the argument that all of it takes in tests; and
what these functions are made of."""


def pages_named_by(thing):
    return re.findall(r"``notebooks/proofs/(\w+\.md)``", inspect.getdoc(thing) or "")


@pytest.mark.parametrize("thing", PROVEN, ids=lambda thing: thing.__name__)
def test_a_release_names_its_proof(thing):
    pages = pages_named_by(thing)
    assert pages, f"the Notes of {thing.__name__} name no page of notebooks/proofs"
    assert all((PROOFS / page).is_file() for page in pages), pages


def test_every_proof_is_named_by_what_it_proves_and_listed():
    named = {page for thing in PROVEN for page in pages_named_by(thing)}
    promise = (ROOT / "notebooks" / "privacy_promise.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\(proofs/(\w+\.md)\)", promise))
    assert named == listed == {page.name for page in PROOF_PAGES}


@pytest.mark.parametrize("page", PROOF_PAGES, ids=lambda page: page.stem)
def test_a_proof_has_all_sections(page):
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    assert parts[1::2] == PROOF_SECTIONS
    assert all(body.strip() for body in parts[2::2])


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *sorted((ROOT / "notebooks").rglob("*.md")),
    ],
    ids=lambda page: page.stem,
)
def test_pages_name_files_that_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([\w/.]+)\)", text):
        assert (page.parent / target).is_file(), target
    for target in re.findall(r"`(mmech[a-z_/]*\.py)`", text):
        assert (ROOT / target).is_file(), target


TOP_LEVEL = {
    *(".ci", ".github", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md",
        "LICENSE"),
    *("README.md", "SECURITY.md", "benchmarks", "mmech", "mmech_rf", "notebooks"),
    *("pyproject.toml", "tests"),
}  # fmt: skip


def test_the_top_level_holds_nothing_else():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a clone with git")
    files = listed.stdout.decode().split("\0")
    assert {name.split("/")[0] for name in files if name} == TOP_LEVEL


# ---- imports -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import mmech, mmech_rf", ("numpy",)),
        ("from mmech import *",
         ("mmech_rf", "sklearn", "joblib", "numba", "matplotlib", "pandas")),
    ],
)  # fmt: skip
def test_import_is_light(statement, absent):
    run = run_python("-c", f"{statement}; import sys; print(*sys.modules, sep=chr(10))")
    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.split())
    assert loaded & {"mmech", "mmech_rf"}
    assert not loaded & set(absent)


WITHOUT_LEARNING = """
import sys

absent = ("sklearn", "joblib", "tqdm")
for name in absent:
    sys.modules[name] = None  # importing it fails

import mmech
from mmech import *
from mmech.cli import main
from mmech_rf.cli import main as run_forests

W = AllRange(16)
found = optimize(W, seed=0, n_starts=1)
assert MatrixMechanism(W, found, epsilon=1).answer([1] * 16).shape == (136,)
domain = Domain([Attribute.categorical(name, ["x", "y"]) for name in "ab"])
tables = release_tables([["x", "y"]] * 9, domain, ways=(2,), epsilon=1)
assert len(tables.sample(5)) == 5
open("domain.json", "w").write(domain.to_json())
open("records.csv", "w").write("a,b\\n" + "x,y\\n" * 9)
tables = ["tables", "records.csv", "--domain", "domain.json", "--epsilon", "1"]
assert main([*tables, "--ways", "1", "2", "--out", "out"]) == 0
assert run_forests(["demo"]) == 2
assert all(sys.modules[name] is None for name in absent)
assert "matplotlib" not in sys.modules
"""


def test_the_engine_works_without_what_only_forests_need(tmp_path):
    """Tables, workloads and the command, with scikit-learn and the like missing."""
    run = run_python("-c", WITHOUT_LEARNING, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stderr.startswith(
        "mmech-rf: error: sklearn is not installed, which this c"
    )


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_names_of_the_stub_are_there_once(package):
    stub = Path(package.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    names = re.findall(r"\b(\w+) as \1\b", stub)
    assert package.__doc__
    assert sorted(names) == sorted(package.__all__)
    assert len(names) == len(set(names)) > 20
    assert {*names} <= {*dir(package)}


def test_modules_are_attributes_and_what_is_not_there_is_none():
    run = run_python("-c", "import mmech; print(mmech.operators.known.__name__)")
    assert run.stdout.strip() == "mmech.operators.known"
    with pytest.raises(AttributeError, match="'mmech' has no attribute 'shape'"):
        _ = mmech.shape


@pytest.mark.parametrize("first", ["structure.shape", "structure.exact"])
def test_rules_are_there_whatever_module_is_imported_first(first):
    code = (
        f"import mmech.{first}\n"
        + """if True:
        from mmech.families.circulant import Circulant
        from mmech.operators.known import BOUNDS
        from mmech.structure.shape import known_rank
        ring = Circulant([1, 0, 1, 0])
        print(known_rank(ring), BOUNDS[Circulant](ring))
    """
    )
    run = run_python("-c", code)
    assert run.stdout.strip() == "2 (2, 2)", run.stderr


# ---- folders -----------------------------------------------------------------


@pytest.mark.parametrize("package", ["mmech", "mmech_rf"])
def test_the_docstring_of_every_folder_lists_its_files(package):
    for path in sorted((ROOT / package).glob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        listed = re.findall(r"^(\w+)  +\S", text, re.MULTILINE)
        if path.parent.name == "families":  # the public names are their table
            names = (ROOT / package / "__init__.pyi").read_text(encoding="utf-8")
            listed = set(re.findall(r"mmech\.families\.(\w+)", names))
        files = {file.stem for file in path.parent.glob("[!_]*.py")}
        assert sorted(listed) == sorted(files), path.parent.name


# ---- files -------------------------------------------------------------------


def package_files():
    folders = ("mmech", "mmech_rf", "benchmarks", "notebooks")
    suffixes = {".py", ".md", ".json", ".toml", ".ipynb", ".csv", ".txt"}
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    names = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    files += [ROOT / name for name in names]
    files.append(ROOT / "pyproject.toml")
    return [path for path in files if path.suffix in suffixes and path.is_file()]


def test_no_file_mentions_a_local_path():
    for path in package_files():
        found = LOCAL_PATH.search(path.read_text(encoding="utf-8"))
        assert not found, f"{path.relative_to(ROOT)}: {found and found.group()}"


@pytest.fixture
def package(monkeypatch):
    hatchling = types.ModuleType("hatchling.metadata.plugin.interface")
    hatchling.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, hatchling.__name__, hatchling)
    return runpy.run_path(ROOT / ".ci" / "package.py")


CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("v0.3.0", "0.3.0"),
        ("v1.0.0-12-g0d8057f", "1.0.0.post12"),
        (
            None,
            re.search(r"\n## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"))[1],
        ),
    ],
    ids=str,
)
def test_the_version_follows_from_the_tag_or_the_changelog(
    package, monkeypatch, said, version
):
    def describe(command, **settings):
        if said is None:
            raise subprocess.CalledProcessError(128, command)
        return subprocess.CompletedProcess(command, 0, stdout=f"{said}\n")

    monkeypatch.setattr(subprocess, "run", describe)
    assert package["version"]() == version
    if said is None:
        assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_a_package_index_shows_the_readme_without_relative_links(package):
    hook = package["ReadmeHook"]()
    hook.root = str(ROOT)
    metadata = {}
    hook.update(metadata)
    text = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert any(link.startswith("notebooks/") for link in links)
    for link in links:
        assert link.endswith(".png") or f"`{link}`" in text
    assert not re.search(r"\]\((?!https://)", text)
