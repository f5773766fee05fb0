"""Write requirements-dev.lock: exact pins of everything needed to build, test and check sash.

The pins come from a fresh environment that contains only the dependencies, the build requirements and
the `dev` group of pyproject.toml.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
ENVIRONMENT = ROOT / "build" / "lock-venv"
HEADER = "# Written by `make lock` from pyproject.toml; do not edit.\n"
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+")


def requirements() -> list[str]:
    """Return the requirements of a working copy according to pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [
        *project["project"]["dependencies"],
        *project["build-system"]["requires"],
        *group(project["dependency-groups"], "dev"),
    ]


def group(groups: dict[str, list[Any]], name: str) -> list[str]:
    """Return the requirements of a dependency group, with those of the groups that it includes."""
    found: list[str] = []
    for entry in groups[name]:
        found += [entry] if isinstance(entry, str) else group(groups, entry["include-group"])
    return found


def resolve(wanted: list[str]) -> list[str]:
    """Return the pins that pip resolves in an empty environment."""
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", *wanted], check=True)
    frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True)
    return frozen.stdout.split("\n")[:-1]


def main() -> None:
    """Resolve the requirements, check the pins and write the file."""
    if sys.version_info[:2] != (3, 11):
        sys.exit("The lock must be written with Python 3.11, the oldest supported version; set PYTHON= to one.")
    pins = resolve(requirements())
    strange = [pin for pin in pins if not PIN.fullmatch(pin)]
    if strange:
        sys.exit(f"Every line of the lock must be name==version, got {strange[0]!r}.")
    LOCK.write_text(HEADER + "\n".join(pins) + "\n")


if __name__ == "__main__":
    main()
