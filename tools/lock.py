"""Write the locks: exact pins of everything needed to build, test and check sash, and of what `make run` needs.

The pins come from a fresh environment that contains only the dependencies, the build requirements and
the `dev` group of pyproject.toml. Those of the demo are the ones that its extras need, for `make run`.
"""

import itertools
import json
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
DEMO_LOCK = ROOT / "requirements-demo.lock"
DEMO_EXTRAS = ("spark", "cli", "plot")
ENVIRONMENT = ROOT / "build" / "lock-venv"
HEADER = "# Written by `make lock` from pyproject.toml; do not edit.\n"
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+")


def metadata() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def demo_requirements() -> list[str]:
    """Return the requirements of `sash demo`."""
    project = metadata()["project"]
    extras = [project["optional-dependencies"][extra] for extra in DEMO_EXTRAS]
    return [*project["dependencies"], *itertools.chain.from_iterable(extras)]


def requirements() -> list[str]:
    """Return the requirements of a working copy according to pyproject.toml."""
    project = metadata()
    return [
        *project["project"]["dependencies"],
        *project["build-system"]["requires"],
        *group(project["dependency-groups"], "dev"),
    ]


def pip(*arguments: str) -> str:
    """Run pip in the fresh environment and return what it prints."""
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def group(groups: dict[str, list[Any]], name: str) -> list[str]:
    """Return the requirements of a dependency group, with those of the groups that it includes."""
    found: list[str] = []
    for entry in groups[name]:
        found += [entry] if isinstance(entry, str) else group(groups, entry["include-group"])
    return found


def resolve(wanted: list[str]) -> list[str]:
    """Return the pins that pip resolves in an empty environment."""
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip("install", "--quiet", *wanted)
    return pip("freeze").split("\n")[:-1]


def resolve_among(pins: list[str], wanted: list[str]) -> list[str]:
    """Return those of the pins that some requirements need."""
    constraint = ENVIRONMENT / "constraint.txt"
    constraint.write_text("\n".join(pins))
    options = ("--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--constraint", str(constraint))
    found = {normal(one["metadata"]["name"]) for one in json.loads(pip("install", *options, *wanted))["install"]}
    return [pin for pin in pins if normal(pin.split("==")[0]) in found]


def normal(name: str) -> str:
    """Return the name of a package as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Resolve the requirements, check the pins and write the files."""
    if sys.version_info[:2] != (3, 11):
        sys.exit("The lock must be written with Python 3.11, the oldest supported version; set PYTHON= to one.")
    pins = resolve(requirements())
    strange = [pin for pin in pins if not PIN.fullmatch(pin)]
    if strange:
        sys.exit(f"Every line of the lock must be name==version, got {strange[0]!r}.")
    LOCK.write_text(HEADER + "\n".join(pins) + "\n")
    DEMO_LOCK.write_text(HEADER + "\n".join(resolve_among(pins, demo_requirements())) + "\n")


if __name__ == "__main__":
    main()
