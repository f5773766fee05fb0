"""The working directory, to which everything that a pipeline file names is relative, and how one calls us from it."""

import importlib
import os
import shutil
import sys
from pathlib import Path


def ready() -> None:
    """Have Python find modules in the working directory, for a file may name monoids in one; and require Spark."""
    importlib.import_module("sash.spark")  # which says in a sentence what is missing
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def called() -> tuple[str, str]:
    """Return what to type for sash and for its Python: plain names where the shell finds them, otherwise paths."""
    own = Path(sys.executable)
    if shutil.which("sash") == str(own.with_name("sash")):
        return "sash", "python"
    near = own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own
    return str(near.with_name("sash")), str(near)
