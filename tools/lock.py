"""Write requirements-dev.lock: exact pins for all that building, testing and checking sash needs.

The pins come from a fresh environment that holds the dependencies, the build requirements and
the `dev` group of pyproject.toml, and nothing else.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
ENVIRONMENT = ROOT / "build" / "lock-venv"
HEADER = "# Written by `make lock` from pyproject.toml; do not edit.\n"
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+")


def requirements() -> list[str]:
    """What pyproject.toml asks of a working copy."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [
        *project["project"]["dependencies"],
        *project["build-system"]["requires"],
        *project["dependency-groups"]["dev"],
    ]


def resolve(wanted: list[str]) -> list[str]:
    """The pins pip settles on in an empty environment."""
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", *wanted], check=True)
    frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True)
    return frozen.stdout.split("\n")[:-1]


def main() -> None:
    """Resolve, look the pins over, write the file."""
    if sys.version_info[:2] != (3, 11):
        sys.exit("The lock must hold for Python 3.11, the oldest supported; name one with PYTHON=.")
    pins = resolve(requirements())
    strange = [pin for pin in pins if not PIN.fullmatch(pin)]
    if strange:
        sys.exit(f"A lock holds name==version alone, and not {strange[0]!r}.")
    LOCK.write_text(HEADER + "\n".join(pins) + "\n")


if __name__ == "__main__":
    main()
