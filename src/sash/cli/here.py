"""The working directory, to which everything that a pipeline file names is relative."""

import importlib
import os
import sys


def ready() -> None:
    """Have Python find modules in the working directory, for a file may name monoids in one; and require Spark."""
    importlib.import_module("sash.spark")  # which says in a sentence what is missing
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
