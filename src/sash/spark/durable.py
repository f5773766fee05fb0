"""Files and directories that survive a loss of power: a new name is durable once the directory it is in is synced."""

import os
from pathlib import Path


def sync(path: str | os.PathLike[str]) -> None:
    """Make a file, or the names in a directory, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(path: str | os.PathLike[str]) -> None:
    """Make a directory and all that are missing above it, durably."""
    missing = []
    at = Path(path)
    while not at.exists():
        missing.append(at)
        at = at.parent
    Path(path).mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        sync(made.parent)
