"""The house rules that a reader relies on: layers, the stub of the core, and every example in the documentation."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sash
from sash import _core
from support.documentation import run_blocks

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sash"

# From the bottom up; a module imports only from layers before its own. `_core` is the compiled core, and a package is
# one layer with all its files.
LAYERS = [
    *("errors", "_core", "times", "compiled", "monoid", "monoids", "state", "rows", "records", "columns"),
    *(
        "window",
        "policy",
        "asked",
        "tables",
        "foreign",
        "answers",
        "held",
        "stream",
        "panes",
        "progress",
        "rolling",
        "keyed",
    ),
    *("testing", "look", "draw", "tour", "spark", "pipeline", "cli", "__main__"),
]


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names if node.module == "sash"}
    return {name.removeprefix("sash.").split(".")[0] for name in found if name.startswith("sash.")} & set(LAYERS)


def files_of(layer: str) -> list[Path]:
    """Give the files of a package, or the one of a module; the compiled core has none."""
    return sorted((SOURCE / layer).rglob("*.py")) or [path for path in [SOURCE / f"{layer}.py"] if path.exists()]


def test_every_module_has_a_layer():
    """A new module or package must be given its place among the layers."""
    paths = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
    assert {path.parts[0].removesuffix(".py") for path in paths} - {"__init__"} <= set(LAYERS)


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if files_of(layer)])
def test_imports_point_down(layer):
    """A module imports from lower layers only, a package also from itself."""
    lower = set(LAYERS[: LAYERS.index(layer)])
    if (SOURCE / layer).is_dir():
        lower.add(layer)
    for path in files_of(layer):
        assert imports_of(path) <= lower, path.name


def stub_members() -> dict[str, list[str]]:
    tree = ast.parse((SOURCE / "_core.pyi").read_text())
    (window,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Window")
    return {
        node.name: [argument.arg for argument in node.args.args + node.args.kwonlyargs]
        for node in window.body
        if isinstance(node, ast.FunctionDef)
    }


def own_members() -> set[str]:
    implicit = {
        "__doc__",
        "__module__",
        "__new__",
        "__nb_signature__",
        "__weakref__",
        "__dict__",
        "__qualname__",
    }
    return set(vars(_core.Window)) - implicit


def test_stub_names_what_the_core_has():
    """The stub lists the extension type's members, all of them and no other."""
    assert set(stub_members()) == own_members()


@pytest.mark.parametrize("name", sorted(stub_members()))
def test_stub_has_the_cores_parameters(name):
    """Each stubbed method has the parameters of the method in the extension."""
    member = vars(_core.Window)[name]
    if isinstance(member, property):
        assert stub_members()[name] == ["self"]
        return
    (signature, *_) = member.__nb_signature__[0]
    parameters = re.findall(r"(\w+)(?:: )", signature.split(") ->")[0].split("(", 1)[1])
    assert stub_members()[name] in (["self", *parameters], parameters)


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = ["sash", *(module_of(path) for layer in LAYERS for path in files_of(layer))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    """Every example in a docstring gives what it says."""
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


def test_examples_in_the_core():
    """Every example in the extension's docstrings gives what it says."""
    runner, parser, tried = doctest.DocTestRunner(), doctest.DocTestParser(), 0
    for name, member in vars(_core.Window).items():
        test = parser.get_doctest(member.__doc__ or "", {}, name, None, 0)
        tried += runner.run(test).attempted
    assert runner.failures == 0
    assert tried >= 15


def test_public_methods_say_what_they_give():
    """Everything public on Window has a docstring of its own."""
    for name in dir(sash.Window):
        if not name.startswith("_"):
            assert len(getattr(sash.Window, name).__doc__ or "") > 20, name


@pytest.mark.parametrize("page", ["docs/monoids.md", "docs/rolling.md"])
def test_examples_in_the_documentation(page, capsys):
    """Every Python block runs, its assertions included, and prints what its comments say."""
    assert run_blocks(ROOT / page, capsys) >= 2


def test_the_cards_are_those_of_the_registry():
    """docs/monoids.md holds the cards as the registry gives them; `make cards` writes them."""
    page = (ROOT / "docs" / "monoids.md").read_text()
    assert sash.monoids.cards_markdown() in page


def test_tour_prints_the_worked_example():
    """`python -m sash.window.tour` shows the paper's tree F after the last step."""
    shown = subprocess.run(
        [sys.executable, "-m", "sash.window.tour"], capture_output=True, text=True, check=True
    ).stdout
    assert "Step E→F, evict b: a node underflows: merge. Spent 1, billed 0" in shown
    assert "query() = cdefghijklmnopqrstuv" in shown
