"""The house rules that a reader relies on: layers, the stub of the core, and every example in the documentation."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

import sash
import sash.spark as sash_spark
from sash import _core
from support.documentation import run_blocks

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sash"

# From the bottom up: a group of modules imports from itself and from lower layers, never from another group of its own
# layer. A package is one module with all its files, `_core` is the compiled core, `__init__` is what `sash` exports.
LAYERS: list[dict[str, tuple[str, ...]]] = [
    {"base": ("errors", "_core", "times", "durations", "locations", "formatting", "plot_style", "equality")},
    {"monoids": ("numba_compile", "monoid", "monoids", "serialize")},
    {"inputs": ("inputs",)},
    {"window": ("window",), "keyed": ("keyed",)},
    {"sash": ("__init__", "testing")},
    {"spark": ("spark",), "explore": ("explore",)},
    {"pipeline": ("pipeline",)},
    {"demo": ("demo",)},
    {"cli": ("cli", "__main__")},
]
GROUPS = {group: modules for layer in LAYERS for group, modules in layer.items()}
GROUP_OF = {module: group for group, modules in GROUPS.items() for module in modules}
FILES = sorted(SOURCE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = [module_of(path) for path in FILES]


def imports_of(path: Path) -> set[str]:
    """The modules of sash that a file imports, inside of functions too; for a name in a package the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {full if full in {*MODULES, "sash._core"} else node.module for full in named.values()}
    return {name for name in found if name.split(".")[0] == "sash"}


def group_of(module: str) -> str:
    return GROUP_OF[module.split(".")[1] if "." in module else "__init__"]


def below(group: str) -> set[str]:
    """The groups that one may import from: itself and those of lower layers."""
    place = next(i for i, layer in enumerate(LAYERS) if group in layer)
    return {group, *(lower for layer in LAYERS[:place] for lower in layer)}


def test_every_module_has_a_group():
    """Every module or package has a place, and every place a module or package."""
    there = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    assert there | {"_core"} == set(GROUP_OF)


@pytest.mark.parametrize("group", GROUPS)
def test_imports_point_down(group):
    """A file imports from its own group and from lower ones; `window` and `keyed` know nothing of each other."""
    for path in FILES:
        if group_of(module_of(path)) == group:
            assert {group_of(name) for name in imports_of(path)} <= below(group), path


def test_no_file_imports_itself_by_way_of_others():
    """Files of a group have an order too, though nobody writes it down."""
    graph = {module_of(path): imports_of(path) for path in FILES if path.name != "__init__.py"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_a_function_of_sash_is_not_a_module_too():
    """`sash.rolling` is the function and nothing else; the same for all that `sash.spark` exports."""
    for name in ("sash.rolling", *(f"sash.spark.{name}" for name in sash_spark.__all__)):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_names_that_the_core_calls_exist():
    """The core finds functions of sash by their names, which no linter follows."""
    text = "".join(path.read_text() for path in (ROOT / "core").rglob("*.[ch]pp"))
    called = re.findall(r'imported\("(sash[\w.]*)", "(\w+)"\)', text)
    assert len(called) >= 5
    for module, name in called:
        assert callable(getattr(importlib.import_module(module), name)), (module, name)


# --- the stub of the core -------------------------------------------------------------------------

IMPLICIT = {"__doc__", "__module__", "__new__", "__nb_signature__", "__weakref__", "__dict__", "__qualname__"}
MADE_BY_THE_CORE = {"KeyBatch", "Anchors", "Frame"}  # whose constructor, which nanobind adds, is of no use
STUB = ast.parse((SOURCE / "_core.pyi").read_text()).body


def stub_functions(body: list[ast.stmt]) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


STUB_CLASSES = {node.name: stub_functions(node.body) for node in STUB if isinstance(node, ast.ClassDef)}
CORE_CLASSES = {name: one for name, one in vars(_core).items() if isinstance(one, type)}
STUB_MEMBERS = [(name, member) for name, members in STUB_CLASSES.items() for member in members]


def parameters_of(function: Any) -> list[str]:
    """The parameters of a function of the core, without `self`."""
    (signature, *_) = function.__nb_signature__[0]
    return re.findall(r"(\w+)(?:: )", signature.split(") ->")[0].split("(", 1)[1])


def test_stub_names_what_the_core_has():
    """The stub lists the extension's classes and functions, and each class's members: all of them and no other."""
    functions = {name for name, one in vars(_core).items() if not isinstance(one, type) and callable(one)}
    assert set(stub_functions(STUB)) == {name for name in functions if not name.startswith("__")}
    assert set(STUB_CLASSES) == set(CORE_CLASSES)
    for name, members in STUB_CLASSES.items():
        implicit = IMPLICIT | {"__init__"} if name in MADE_BY_THE_CORE else IMPLICIT
        assert set(members) == set(vars(CORE_CLASSES[name])) - implicit, name


@pytest.mark.parametrize("name, member", STUB_MEMBERS)
def test_stub_has_the_cores_parameters(name, member):
    """Each stubbed method has the parameters of the method in the extension, and properties are properties."""
    stub, core = STUB_CLASSES[name][member], vars(CORE_CLASSES[name])[member]
    stubbed = [argument.arg for argument in stub.args.args + stub.args.kwonlyargs]
    is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in stub.decorator_list)
    assert is_property == isinstance(core, property)
    assert stubbed == ["self", *([] if is_property else parameters_of(core))]


@pytest.mark.parametrize("name", sorted(stub_functions(STUB)))
def test_stub_has_the_parameters_of_functions(name):
    """Each stubbed function of the module has the parameters of the one in the extension."""
    stub = stub_functions(STUB)[name]
    stubbed = [argument.arg for argument in stub.args.args + stub.args.kwonlyargs]
    assert stubbed == parameters_of(getattr(_core, name))


# --- examples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    """Every example in a docstring returns what it shows."""
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


def test_examples_in_the_core():
    """Every example in the extension's docstrings returns what it shows."""
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


@pytest.mark.parametrize(
    ("page", "scope"),
    [
        ("monoids", None),
        ("rolling", None),
        ("features", {}),
        ("tutorials/ten-minutes", None),
        ("tutorials/features-without-leakage", {}),
        ("tutorials/your-own-monoid", {}),
    ],
)
def test_examples_in_the_documentation(page, scope, capsys):
    """Every Python block runs, its assertions included, and prints what its comments say; or one leans on the other."""
    assert run_blocks(ROOT / "docs" / f"{page}.md", capsys, scope) >= 2


def test_the_cards_are_those_of_the_registry():
    """docs/monoids.md has the cards of the registry; `make cards` writes them."""
    page = (ROOT / "docs" / "monoids.md").read_text()
    assert sash.monoids.cards_markdown() in page


def test_tour_prints_the_worked_example():
    """`python -m sash.window.tour` shows the paper's tree F after the last step."""
    shown = subprocess.run(
        [sys.executable, "-m", "sash.window.tour"], capture_output=True, text=True, check=True
    ).stdout
    assert "Step E→F, evict b: a node underflows: merge. Spent 1, billed 0" in shown
    assert "query() = cdefghijklmnopqrstuv" in shown
