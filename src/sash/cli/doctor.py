"""sash doctor: is everything there that pipelines need, and what to do about what is not."""

import json as notation
import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from sash.errors import SashError
from sash.formatting import size

State = Literal["ok", "warn", "fail"]
_MARKS = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "fail": "[bold red]fail[/]"}
_OLDEST_PYTHON = (3, 11)
_NEEDED = {"numpy": "", "pyarrow": "arrow", "pandas": "spark", "pyspark": "spark", "protobuf": "spark"}
_OPTIONAL = {"matplotlib": "plot", "datasketches": "sketches", "numba": "jit"}
_FOR = {"plot": "the pictures of sash demo", "sketches": "sketch monoids such as kll", "jit": "Monoid.compiled"}
_MODULES = {"protobuf": "google.protobuf"}
_BOUND = re.compile(r"(>=|<=|==|<|>)\s*([\d.]+)")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: how it is, what was found, and what to do."""

    name: str
    state: State
    found: str
    advice: str = ""


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check that Python, the compiled core, Java and all packages are there, and say what to do about the rest.

    The exit code is 0 when all that is needed is there, and 1 when something is missing.
    """
    checks = list(examined())
    failed = any(check.state == "fail" for check in checks)
    if json:
        told = {"ok": not failed, "checks": [asdict(check) for check in checks]}
        print(notation.dumps(told, indent=2, ensure_ascii=False))
    else:
        _show(checks, failed)
    raise typer.Exit(1 if failed else 0)


def _show(checks: list[Check], failed: bool) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("", "what", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        table.add_row(_MARKS[check.state], check.name, check.found, check.advice)
    console.print(table)
    console.print()
    if failed:
        console.print("[bold red]Something that is needed is missing.[/] Do what the last column says.")
    else:
        console.print("[green]All that is needed is there.[/] Try [bold]sash demo[/].")


def examined() -> Iterator[Check]:
    """Return every check, the needed things first; none of them raises."""
    yield _guarded("Python", _python)
    yield _guarded("sash core", _core)
    for name, extra in _NEEDED.items():
        yield _guarded(name, lambda name=name, extra=extra: _package(name, extra, needed=True))  # type: ignore[misc]
    yield _guarded("Java", _java)
    yield _guarded("loopback", _loopback)
    for name, extra in _OPTIONAL.items():
        yield _guarded(name, lambda name=name, extra=extra: _package(name, extra, needed=False))  # type: ignore[misc]
    for title, look in (
        ("compiler", _compiler),
        ("memory", _memory),
        ("cores", _cores),
        ("disk", _disk),
        ("terminal", _terminal),
    ):
        yield _guarded(title, look)


def _guarded(name: str, look: Callable[[], Check]) -> Check:
    """Look, and call it a failure when even that fails: a doctor must not be what breaks."""
    try:
        return look()
    except Exception as error:
        return Check(name, "fail", f"{type(error).__name__}: {error}".splitlines()[0], "install sash anew")


# --- what is needed -------------------------------------------------------------------------------------


def _python() -> Check:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < _OLDEST_PYTHON:
        return Check("Python", "fail", found, "use Python 3.11 or newer")
    return Check("Python", "ok", found)


def _core() -> Check:
    from sash import Window, __version__, monoids

    window = Window(monoids.max())
    window.insert_many([17, 19, 18, 16], [4, 3, 5, 9])
    window.evict(16)
    if (window.query(), window.query(19, None), len(window)) != (5, 3, 3):
        return Check("sash core", "fail", f"{__version__}, which answers wrongly", "install sash anew")
    return Check("sash core", "ok", f"{__version__}, compiled, answers as it should")


def _package(name: str, extra: str, *, needed: bool) -> Check:
    """Check that a package is there, is within the bounds, and can be imported."""
    missing: State = "fail" if needed else "warn"
    install = f'pip install "sash[{extra}]"' if extra else "pip install sash"
    why = "" if needed else f", for {_FOR[extra]}"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, missing, "not installed", install + why)
    bounds = bounds_of(name, metadata_of("sash"))
    if not within(version, bounds):
        return Check(name, missing, f"{version}, out of {bounds}", f'pip install "{name}{bounds}"')
    try:
        import_module(_MODULES.get(name, name))
    except Exception as error:
        return Check(name, missing, f"{version}, broken: {str(error).splitlines()[0]}", f"reinstall it: {install}")
    return Check(name, "ok", f"{version}" + (f" ({bounds})" if bounds else ""))


def metadata_of(package: str) -> list[str]:
    """Return what an installed package requires, nothing where it runs from its sources."""
    try:
        return metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []


def bounds_of(name: str, requirements: list[str]) -> str:
    """Return the bounds that requirements put on a package.

    >>> bounds_of("pyspark", ["pyarrow<27,>=18", 'pyspark<4.4,>=4.1; extra == "spark"'])
    '>=4.1,<4.4'
    """
    for requirement in requirements:
        named = re.match(r"[\w.-]+", requirement)
        if named and named[0].lower() == name:
            bounds = _BOUND.findall(requirement.split(";")[0])
            return ",".join(sign + version for sign, version in sorted(bounds, reverse=True))
    return ""


def within(version: str, bounds: str) -> bool:
    """Return whether a version is within bounds.

    >>> within("4.3.0", ">=4.1,<4.4"), within("4.4.0", ">=4.1,<4.4"), within("3.0.0rc1", "<3")
    (True, False, False)
    """
    holds = {
        ">=": lambda a, b: a >= b,
        "<=": lambda a, b: a <= b,
        "==": lambda a, b: a == b,
        "<": lambda a, b: a < b,
        ">": lambda a, b: a > b,
    }
    return all(holds[sign](_numbers(version), _numbers(bound)) for sign, bound in _BOUND.findall(bounds))


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers; an early version of a release stands with the release, as a bound means it."""
    leading = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in (leading[0] if leading else "0").split(".")]
    return tuple(numbers + [0] * (4 - len(numbers)))


def _java() -> Check:
    try:
        from sash.spark.java import OLDEST, java_home
    except SashError:
        return Check("Java", "warn", "not looked for without pyspark", 'pip install "sash[spark]" brings one')
    try:
        home = java_home()
    except SashError as error:
        return Check("Java", "fail", str(error), 'pip install "sash[spark]" brings one, or set JAVA_HOME')
    return Check("Java", "ok", f"{OLDEST} or newer, at {home}")


def _loopback() -> Check:
    """Spark's parts talk to each other on 127.0.0.1, also where all of it is on one machine."""
    try:
        with socket.socket() as server, socket.socket() as client:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            client.connect(server.getsockname())
    except OSError as error:
        return Check("loopback", "fail", f"127.0.0.1: {error}", "allow connections to 127.0.0.1")
    return Check("loopback", "ok", "127.0.0.1 can be connected to")


# --- what is good to have -------------------------------------------------------------------------------


def _compiler() -> Check:
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if found is None:
        return Check("compiler", "warn", "none", "only needed to build sash from its sources")
    return Check("compiler", "ok", f"{found}, only needed to build sash from its sources")


def _memory() -> Check:
    told = Path("/proc/meminfo")
    line = re.search(r"MemAvailable:\s+(\d+) kB", told.read_text()) if told.exists() else None
    if line is None:
        return Check("memory", "warn", "unknown", "Spark on one machine wants 2 GB")
    free = int(line[1]) * 1024
    if free < 2e9:
        return Check("memory", "warn", f"{size(free)} free", "Spark on one machine wants 2 GB")
    return Check("memory", "ok", f"{size(free)} free")


def _cores() -> Check:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count == 1:
        return Check("cores", "warn", "1", "two or more make Spark a good deal quicker")
    return Check("cores", "ok", str(count))


def _disk() -> Check:
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    if not os.access(here, os.W_OK):
        return Check("disk", "warn", f"{here} cannot be written to", "work in a directory of your own, or give --out")
    if free < 1e9:
        state: State = "fail" if free < 1e8 else "warn"
        return Check("disk", state, f"{size(free)} free in {here}", "state and results want 1 GB")
    return Check("disk", "ok", f"{size(free)} free in {here}")


def _terminal() -> Check:
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        return Check("terminal", "warn", f"encoding {sys.stdout.encoding}", "set PYTHONUTF8=1 for bars and sparklines")
    if not sys.stdout.isatty():
        return Check("terminal", "ok", "none: runs print plain lines")
    width, height = shutil.get_terminal_size()
    if width < 80:
        return Check("terminal", "warn", f"{width} columns", "80 or more show the live view whole")
    return Check("terminal", "ok", f"{width} × {height}")
