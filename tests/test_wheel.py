"""The wheel as users get it: installed where there is no compiler, it runs the tour."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "tools/wheel.py", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_it_runs_on_other_distributions(wheel: Path) -> None:
    """Its name says from which glibc on, and it brings the core and the files that type checkers read."""
    assert wheel.name.startswith(f"sash-0.1.0-cp3{sys.version_info.minor}-")
    assert ".manylinux_2_" in wheel.name or "-manylinux_2_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert {"sash/py.typed", "sash/_core.pyi", "sash/demo/demo.toml"} <= set(names)
    assert not any(name.startswith(("tests/", "core/")) for name in names)


def test_it_needs_no_compiler(wheel: Path, tmp_path: Path) -> None:
    """In a fresh environment whose PATH is its own programs alone."""
    fresh = tmp_path / "venv"
    venv.create(fresh, with_pip=True)
    alone = {"PATH": str(fresh / "bin"), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    alone |= {name: value for name, value in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()}
    python = str(fresh / "bin" / "python")

    def run(*command: str) -> str:
        done = subprocess.run([python, *command], env=alone, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-c", "import shutil, sys; sys.exit(any(map(shutil.which, ['c++', 'g++', 'clang++', 'cc', 'cmake'])))")
    run("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:", str(wheel))
    here = subprocess.run([sys.executable, "-m", "sash.window.tour"], capture_output=True, text=True, check=True)
    assert run("-m", "sash.window.tour") == here.stdout
    assert run("-c", "from sash import *; w = Window(monoids.mean()); w.insert(1, 2); print(w.query())") == "2.0\n"
