"""The core calls Python only through core/python/callbacks.hpp, and every name in it exists."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

CORE = Path(__file__).parents[2] / "core"
HEADER = CORE / "python" / "callbacks.hpp"
TEXT = HEADER.read_text()
NAMES = re.findall(r"^// ((?:sash|datetime|zoneinfo)(?:\.\w+)+)$", TEXT, re.M)
IMPORTED = re.findall(r'imported\("([\w.]+)", "(\w+)"\)', TEXT)
METHODS = re.findall(r'(?:attribute\(\w+, |PyObject_CallMethod\(\w+, |PyUnicode_InternFromString\()"(\w+)"', TEXT)


def resolve(name: str) -> Any:
    """Return what a dotted name stands for: its longest prefix that is a module, then attributes."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_callable(name: str) -> None:
    """Each name exists in Python and can be called."""
    assert callable(resolve(name))


def test_every_call_has_its_name() -> None:
    """What the functions import or call as a method is what the comments name, and nothing else."""
    called = {f"{module}.{name}" for module, name in IMPORTED}
    methods = {name for name in NAMES if name not in called}
    assert called <= set(NAMES) and len(set(NAMES)) == len(NAMES) > 10
    assert sorted(name.rpartition(".")[2] for name in methods) == sorted(METHODS)


def test_no_other_file_of_the_core_names_a_module() -> None:
    """Modules of sash are named in the header alone."""
    files = [path for pattern in ("*.hpp", "*.cpp") for path in CORE.rglob(pattern) if path != HEADER]
    assert len(files) > 50
    assert [path.name for path in files if re.search(r'"sash\.|imported\(|PyImport_Import', path.read_text())] == []
