"""The manifest of an upserted dataset: its live files, and how one generation replaces another; independent of Spark.

    target/_manifest.json     the current generation, replaced by one atomic rename
    target/_lock              locked by the current writer
    target/_data/…            files that are written once and never change

Data files are written before the rename, so a reader with any manifest finds complete files. A writer that is killed
leaves files that no manifest names, and the next writer removes them. A file that a generation replaced stays for some
more generations, for readers with an older manifest. Names begin with "_" so that nobody reads the directory itself,
including old files, by mistake.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from sash.errors import ArgumentError, ConcurrentUseError, CorruptStateError, shown
from sash.spark.durable import make_directory, sync

FORMAT = 1
_MANIFEST, _LOCK, _DATA = "_manifest.json", "_lock", "_data"


@dataclass(frozen=True)
class Definition:
    """The fixed properties of a dataset; with other ones its rows would belong in other files."""

    keys: tuple[str, ...]
    revision: str | None
    deleted: str | None
    partition_by: tuple[str, ...]
    buckets: int

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Definition":
        """Return a definition from JSON, in which tuples are lists."""
        return cls(**{**plain, **{name: tuple(plain[name]) for name in ("keys", "partition_by")}})


@dataclass(frozen=True)
class File:
    """A live file: its path below the target, and the part of the dataset that it contains."""

    path: str
    part: str


@dataclass(frozen=True)
class Dead:
    """A file that a generation replaced."""

    path: str
    since: int


@dataclass(frozen=True)
class Manifest:
    """One generation of a dataset: its files, its columns, and the last micro-batch of each query that wrote it."""

    definition: Definition
    schema: dict[str, Any]
    generation: int = 0
    queries: dict[str, int] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    dead: tuple[Dead, ...] = ()

    def next_generation(self, parts: set[str], written: Iterable[File], query: str | None, batch: int) -> "Manifest":
        """Return the next generation, in which these parts have new files."""
        generation = self.generation + 1
        replaced = tuple(Dead(old.path, generation) for old in self.files if old.part in parts)
        return replace(
            self,
            generation=generation,
            queries=self.queries if query is None else {**self.queries, query: batch},
            files=(*(old for old in self.files if old.part not in parts), *written),
            dead=(*self.dead, *replaced),
        )

    def without_expired(self, keep: int) -> "Manifest":
        """Return the same generation without files that were replaced `keep` generations ago or earlier."""
        return replace(self, dead=tuple(old for old in self.dead if old.since + keep > self.generation))


def load(root: Path) -> Manifest | None:
    """Return the current generation, or None if there is none yet."""
    try:
        text = (root / _MANIFEST).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        plain = json.loads(text)
        if plain["format"] != FORMAT:
            raise CorruptStateError(
                f"target {shown(root)} has format {plain['format']}, but this version of sash reads {FORMAT}; "
                "upgrade sash.",
                argument="target",
            )
        return Manifest(
            definition=Definition.from_plain(plain["definition"]),
            schema=plain["schema"],
            generation=plain["generation"],
            queries=plain["queries"],
            files=tuple(File(**file) for file in plain["files"]),
            dead=tuple(Dead(**file) for file in plain["dead"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, CorruptStateError):
            raise
        raise CorruptStateError(
            f"target has a file {shown(root / _MANIFEST)} that is not a manifest of sash; restore it.",
            argument="target",
        ) from error


def commit(root: Path, manifest: Manifest) -> None:
    """Make a generation the current one by an atomic rename."""
    draft = root / f"{_MANIFEST}.{uuid4().hex}"
    with draft.open("w") as file:
        json.dump({"format": FORMAT, **asdict(manifest)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, root / _MANIFEST)
    sync(root)


def prepare(root: Path) -> None:
    """Make the directory of a target; raise ArgumentError if it contains other files."""
    try:
        make_directory(root)
    except OSError as error:
        raise ArgumentError(
            f"target must be a directory that can be created, got {shown(root)}: {error.strerror}.", argument="target"
        ) from error
    for found in root.iterdir():
        if found.name not in (_LOCK, _DATA) and not found.name.startswith(_MANIFEST):
            raise ArgumentError(
                f"target must be a new or empty directory, got {shown(root)}, which has {shown(found.name)} and no "
                "manifest.",
                argument="target",
            )


def fresh_directory(root: Path, generation: int) -> Path:
    """Return a directory for the files of a generation that no other attempt at it uses."""
    return root / _DATA / f"{generation:08d}-{uuid4().hex[:8]}"


def sweep(root: Path, manifest: Manifest) -> None:
    """Remove drafts and files that killed writers left and the current generation does not name; needs the lock."""
    known = {file.path for file in manifest.files} | {file.path for file in manifest.dead}
    for draft in root.glob(f"{_MANIFEST}.*"):
        draft.unlink(missing_ok=True)
    # Directories come after their contents, and are removed only when empty.
    for found in sorted((root / _DATA).rglob("*"), reverse=True):
        name = str(found.relative_to(root))
        if found.is_dir():
            _remove_if_empty(found)
        elif name not in known:
            found.unlink(missing_ok=True)


def remove(root: Path, paths: Iterable[str]) -> None:
    """Remove files, and directories that this leaves empty."""
    for path in paths:
        (root / path).unlink(missing_ok=True)
        _remove_if_empty((root / path).parent)


def _remove_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()


@contextmanager
def locked(root: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of the target; the kernel releases it when the process dies, so no lock outlives its writer."""
    with _lock_file(root) as file:
        _acquire(file, root, seconds)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
            fcntl.flock(file, fcntl.LOCK_UN)


def _lock_file(root: Path) -> IO[str]:
    try:
        return (root / _LOCK).open("a+")
    except OSError as error:
        raise ArgumentError(
            f"target must be writable, got {shown(root)}: {error.strerror}.", argument="target"
        ) from error


def _acquire(file: IO[str], root: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                file.seek(0)
                holder = file.read() or "another writer"
                raise ConcurrentUseError(
                    f"target {shown(root)} is being written by {holder}; stop it, or pass a longer wait.",
                    argument="target",
                ) from None
            time.sleep(0.02)
