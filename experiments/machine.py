"""The stamps of every row: where and with what it was measured."""

import datetime as dt
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from experiments.case import memory_bytes
from sash import _core

ROOT = Path(__file__).resolve().parent.parent
STAMPS = ("scale", "commit", "date", "cpu", "cores", "memory", "system", "compiler", "python", "numpy", "sash")


def stamp(scale: str) -> dict[str, str]:
    """Return this machine's and this build's values of all stamps."""
    values = (
        scale,
        _commit(),
        dt.datetime.now(dt.UTC).date().isoformat(),
        _cpu(),
        str(len(os.sched_getaffinity(0))),
        f"{memory_bytes() / 2**30:.0f} GiB",
        f"{platform.system()} {platform.release()}",
        _compiler(),
        platform.python_version(),
        np.__version__,
        _version(),
    )
    return dict(zip(STAMPS, values, strict=True))


def _commit() -> str:
    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "core", "src", "experiments/*.py")
        return git("rev-parse", "--short=10", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", info, re.MULTILINE))
    name = re.sub(r"\s+", " ", found.get("model name", platform.machine()))
    return f"{name} (family {found['cpu family']}, model {found['model']})" if "cpu family" in found else name


def _compiler() -> str:
    """Return the compiler of the core, as recorded in the file."""
    built = Path(str(_core.__file__)).read_bytes()
    found = re.search(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", built)
    return found.group().decode() if found else "unknown"


def _version() -> str:
    try:
        return version("sash")
    except PackageNotFoundError:
        return "not installed"


def core_digest() -> str:
    """Return a short hash of the core, so that a run is never resumed with another one."""
    return f"{_core.hash64(Path(str(_core.__file__)).read_bytes(), 0):016x}"
