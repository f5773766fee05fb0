"""The working directory of a command, and the names to call sash and Python by."""

import importlib
import os
import shutil
import sys
from pathlib import Path


def ready() -> None:
    """Require Spark, and add the working directory to the module path, because a file may name custom monoids."""
    importlib.import_module("sash.spark")  # raises an error that names what is missing
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def commands() -> tuple[str, str]:
    """Return the commands for sash and its Python: plain names where the shell finds them, otherwise paths."""
    own = Path(sys.executable)
    if shutil.which("sash") == str(own.with_name("sash")):
        return "sash", "python"
    near = own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own
    return str(near.with_name("sash")), str(near)
