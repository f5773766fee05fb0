"""sash doctor: check that everything pipelines need is installed, and say how to fix what is not."""

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
_OPTIONAL = {"matplotlib": "plot", "datasketches": "sketches", "numba": "jit", "confluent-kafka": "kafka"}
_FOR = {
    "plot": "the figures of sash demo",
    "sketches": "sketch monoids such as kll",
    "jit": "Monoid.compiled",
    "kafka": "sash demo --kafka",
}
_MODULES = {"protobuf": "google.protobuf", "confluent-kafka": "confluent_kafka"}
_BOUND = re.compile(r"(>=|<=|==|<|>)\s*([\d.]+)")


@dataclass(frozen=True)
class Check:
    """The outcome of one check: its state, what was found, and how to fix it."""

    name: str
    state: State
    found: str
    advice: str = ""


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check the installation: Python, the compiled core, Java and all packages. Says how to fix what is missing.

    Exit codes: 0 nothing required is missing, 1 something is.
    """
    checks = list(all_checks())
    failed = any(check.state == "fail" for check in checks)
    if json:
        report = {"ok": not failed, "checks": [asdict(check) for check in checks]}
        print(notation.dumps(report, indent=2, ensure_ascii=False))
    else:
        _show(checks, failed)
    raise typer.Exit(1 if failed else 0)


def _show(checks: list[Check], failed: bool) -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("", "check", "found", "how to fix"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        table.add_row(_MARKS[check.state], check.name, check.found, check.advice)
    console.print(table)
    console.print()
    if failed:
        console.print("[bold red]Something required is missing.[/] The last column says how to fix it.")
    else:
        console.print("[green]Everything required is installed.[/] Try [bold]sash demo[/].")


def all_checks() -> Iterator[Check]:
    """Yield every check, the required ones first; none of them raises."""
    yield _guarded("Python", _python)
    yield _guarded("sash core", _core)
    for name, extra in _NEEDED.items():
        yield _guarded(name, lambda name=name, extra=extra: _package(name, extra, needed=True))  # type: ignore[misc]
    yield _guarded("Java", _java)
    yield _guarded("loopback", _loopback)
    for name, extra in _OPTIONAL.items():
        yield _guarded(name, lambda name=name, extra=extra: _package(name, extra, needed=False))  # type: ignore[misc]
    for title, check in (
        ("Kafka connector", _kafka_connector),
        ("compiler", _compiler),
        ("memory", _memory),
        ("cores", _cores),
        ("disk", _disk),
        ("terminal", _terminal),
    ):
        yield _guarded(title, check)


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """Return the outcome of a check, a failure where the check itself raises an error."""
    try:
        return check()
    except Exception as error:
        return Check(name, "fail", f"{type(error).__name__}: {error}".splitlines()[0], "reinstall sash")


# --- required -------------------------------------------------------------------------------------------


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
        return Check("sash core", "fail", f"{__version__}, returns wrong results", "reinstall sash")
    return Check("sash core", "ok", f"{__version__}, compiled, self-test passed")


def _package(name: str, extra: str, *, needed: bool) -> Check:
    """Check that a package is installed, within its version bounds, and can be imported."""
    missing: State = "fail" if needed else "warn"
    install = f'pip install "sash[{extra}]"' if extra else "pip install sash"
    why = "" if needed else f", for {_FOR[extra]}"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, missing, "not installed", install + why)
    bounds = bounds_of(name, metadata_of("sash"))
    if not within(version, bounds):
        return Check(name, missing, f"{version}, needs {bounds}", f'pip install "{name}{bounds}"')
    try:
        import_module(_MODULES.get(name, name))
    except Exception as error:
        return Check(name, missing, f"{version}, import failed: {str(error).splitlines()[0]}", f"reinstall: {install}")
    return Check(name, "ok", f"{version}" + (f" ({bounds})" if bounds else ""))


def metadata_of(package: str) -> list[str]:
    """Return the requirements of an installed package, none where it runs from its sources."""
    try:
        return metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []


def bounds_of(name: str, requirements: list[str]) -> str:
    """Return the version bounds of a package in a list of requirements.

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
    """Return the numbers of a version; a pre-release counts as its release."""
    leading = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in (leading[0] if leading else "0").split(".")]
    return tuple(numbers + [0] * (4 - len(numbers)))


def _java() -> Check:
    try:
        from sash.spark.java import OLDEST, java_home
    except SashError:
        return Check("Java", "warn", "not checked without pyspark", 'pip install "sash[spark]" includes it')
    try:
        home = java_home()
    except SashError as error:
        return Check("Java", "fail", str(error), 'pip install "sash[spark]" includes it, or set JAVA_HOME')
    return Check("Java", "ok", f"{OLDEST} or newer, at {home}")


def _loopback() -> Check:
    """Check that 127.0.0.1 accepts connections, which Spark needs even on a single machine."""
    try:
        with socket.socket() as server, socket.socket() as client:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            client.connect(server.getsockname())
    except OSError as error:
        return Check("loopback", "fail", f"127.0.0.1: {error}", "allow connections to 127.0.0.1")
    return Check("loopback", "ok", "127.0.0.1 accepts connections")


# --- optional -------------------------------------------------------------------------------------------


def _kafka_connector() -> Check:
    """Look for Spark's Kafka connector on this machine, without fetching it."""
    try:
        from sash.spark.jars import cached_connector, installed_connector, kafka_connector
    except SashError:
        return Check("Kafka connector", "warn", "not checked without pyspark", 'pip install "sash[spark]" first')
    found = installed_connector() or cached_connector()
    if found is not None:
        return Check("Kafka connector", "ok", str(found))
    advice = f"the first pipeline with Kafka fetches {kafka_connector()}; where it cannot, set spark.jars in the file"
    return Check("Kafka connector", "warn", "not on this machine", advice)


def _compiler() -> Check:
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if found is None:
        return Check("compiler", "warn", "not found", "only needed to build sash from source")
    return Check("compiler", "ok", f"{found}, only needed to build sash from source")


def _memory() -> Check:
    meminfo = Path("/proc/meminfo")
    line = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text()) if meminfo.exists() else None
    if line is None:
        return Check("memory", "warn", "unknown", "Spark on one machine needs about 2 GB")
    free = int(line[1]) * 1024
    if free < 2e9:
        return Check("memory", "warn", f"{size(free)} free", "Spark on one machine needs about 2 GB")
    return Check("memory", "ok", f"{size(free)} free")


def _cores() -> Check:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count == 1:
        return Check("cores", "warn", "1", "Spark is much faster with two or more")
    return Check("cores", "ok", str(count))


def _disk() -> Check:
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    if not os.access(here, os.W_OK):
        return Check("disk", "warn", f"{here} is not writable", "change to a writable directory, or use --out")
    if free < 1e9:
        state: State = "fail" if free < 1e8 else "warn"
        return Check("disk", state, f"{size(free)} free in {here}", "state and results need about 1 GB")
    return Check("disk", "ok", f"{size(free)} free in {here}")


def _terminal() -> Check:
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding != "utf8":
        return Check("terminal", "warn", f"encoding {sys.stdout.encoding}", "set PYTHONUTF8=1 for bars and sparklines")
    if not sys.stdout.isatty():
        return Check("terminal", "ok", "not a terminal: runs print plain lines")
    width, height = shutil.get_terminal_size()
    if width < 80:
        return Check("terminal", "warn", f"{width} columns", "the live view needs 80 or more")
    return Check("terminal", "ok", f"{width} × {height}")
