"""The manifest of an upserted dataset: which files are live, and how one generation follows another; no Spark.

    target/_manifest.json     the present generation, replaced by one atomic rename
    target/_lock              held by the writer of the moment
    target/_data/…            files that are written once and never again

Data files come first and the rename after, so a reader that opened any manifest finds whole files, and a writer that is
killed leaves files that no manifest names: the next writer sweeps them away. A file that a generation replaced stays
for some generations more, for readers that hold an older manifest. Names begin with "_" so that nobody reads the
directory itself, old files and all, by mistake.
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
from typing import Any
from uuid import uuid4

from sash.errors import ArgumentError, ConcurrentUseError, CorruptStateError, shown

FORMAT = 1
_MANIFEST, _LOCK, _DATA = "_manifest.json", "_lock", "_data"


@dataclass(frozen=True)
class Definition:
    """What a dataset is made by, and cannot change: another one would look for rows in other files."""

    keys: tuple[str, ...]
    revision: str | None
    deleted: str | None
    partition_by: tuple[str, ...]
    buckets: int


@dataclass(frozen=True)
class File:
    """A live file, by its path below the target, and the part of all identities whose rows it holds."""

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

    def followed(self, parts: set[str], written: Iterable[File], query: str | None, batch: int) -> "Manifest":
        """Give the next generation, in which parts have new files."""
        generation = self.generation + 1
        replaced = tuple(Dead(old.path, generation) for old in self.files if old.part in parts)
        return replace(
            self,
            generation=generation,
            queries=self.queries if query is None else {**self.queries, query: batch},
            files=(*(old for old in self.files if old.part not in parts), *written),
            dead=(*self.dead, *replaced),
        )

    def buried(self, keep: int) -> "Manifest":
        """Give the same generation without the files that died `keep` generations ago or earlier."""
        return replace(self, dead=tuple(old for old in self.dead if old.since + keep > self.generation))


def load(root: Path) -> Manifest | None:
    """Give the present generation, or None where there is none yet."""
    try:
        text = (root / _MANIFEST).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        told = json.loads(text)
        if told["format"] != FORMAT:
            raise CorruptStateError(
                f"target: {shown(root)} is of format {told['format']}, and this sash reads {FORMAT}; upgrade sash."
            )
        made = told["definition"]
        lists = {name: tuple(made[name]) for name in ("keys", "partition_by")}
        return Manifest(
            definition=Definition(**{**made, **lists}),
            schema=told["schema"],
            generation=told["generation"],
            queries=told["queries"],
            files=tuple(File(**file) for file in told["files"]),
            dead=tuple(Dead(**file) for file in told["dead"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, CorruptStateError):
            raise
        raise CorruptStateError(f"target: {shown(root / _MANIFEST)} is no manifest of sash; restore it.") from error


def commit(root: Path, manifest: Manifest) -> None:
    """Make a generation the present one, by one rename that readers see as a whole or not at all."""
    draft = root / f"{_MANIFEST}.{uuid4().hex}"
    with draft.open("w") as file:
        json.dump({"format": FORMAT, **asdict(manifest)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, root / _MANIFEST)
    _sync_directory(root)


def prepare(root: Path) -> None:
    """Make the directory of a target; one that holds something else is refused."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(
            f"target: {shown(root)} cannot be made a directory: {error.strerror}; give another."
        ) from error
    for found in root.iterdir():
        if found.name not in (_LOCK, _DATA) and not found.name.startswith(_MANIFEST):
            raise ArgumentError(
                f"target: {shown(root)} holds {shown(found.name)} and no manifest; give a new or empty directory."
            )


def fresh_directory(root: Path, generation: int) -> Path:
    """Give a directory for the files of a generation that no other attempt at it uses."""
    return root / _DATA / f"{generation:08d}-{uuid4().hex[:8]}"


def sweep(root: Path, manifest: Manifest) -> None:
    """Remove what killed writers left, drafts and files that the present generation does not name; under the lock."""
    known = {file.path for file in manifest.files} | {file.path for file in manifest.dead}
    for draft in root.glob(f"{_MANIFEST}.*"):
        draft.unlink(missing_ok=True)
    # Directories come after what is in them, and fall only when empty.
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
    """Hold the target's lock; the kernel frees it when the process dies, so no lock outlives its writer."""
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


def _lock_file(root: Path) -> Any:
    try:
        return (root / _LOCK).open("a+")
    except OSError as error:
        raise ArgumentError(f"target: {shown(root)} cannot be written: {error.strerror}; give another.") from error


def _acquire(file: Any, root: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                file.seek(0)
                holder = file.read() or "another writer"
                raise ConcurrentUseError(
                    f"target: {shown(root)} is being written by {holder}; stop it, or give a longer wait."
                ) from None
            time.sleep(0.02)


def _sync_directory(path: Path) -> None:
    """Make a rename last through a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
