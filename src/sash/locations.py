"""Where files are: a path of this machine, or a URI as Spark reads it. Parsed here, for every place that takes one."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sash.errors import ArgumentError, KindError, UnsupportedError, shown

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)
_HERE = ("", "localhost")


@dataclass(frozen=True)
class Location:
    """A place for files, such as `out/results`, `file:/out/results`, `dbfs:/results` or `s3a://bucket/results`."""

    text: str  # an absolute path, or a URI as it was given
    local: Path | None  # the path on this machine, None for other file systems

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> "Location":
        """Return the location of a file below this one."""
        return Location(f"{self.text.rstrip('/')}/{name}", None if self.local is None else self.local / name)


def location(value: Any, argument: str) -> Location:
    """Return the location that a path or a URI names; a relative path starts from the working directory.

    >>> location("/tmp/x", "path"), location("file:/tmp/x", "path").local
    (Location(text='/tmp/x', local=PosixPath('/tmp/x')), PosixPath('/tmp/x'))
    >>> location("hdfs:/tmp/x", "path"), str(location("s3a://bucket/x", "path") / "y")
    (Location(text='hdfs:/tmp/x', local=None), 's3a://bucket/x/y')
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise KindError(f"{argument} must be a path or a URI, got {shown(value)}.", argument=argument)
    uri = _URI.fullmatch(text)
    if not text or (uri is not None and len(uri[1]) == 1):  # the letter of a drive
        raise ArgumentError(f"{argument} must be a path on Linux or a URI, got {shown(text)}.", argument=argument)
    if uri is None:
        return Location(os.path.abspath(text), Path(os.path.abspath(text)))
    if uri[1].lower() != "file":
        return Location(text, None)
    return Location(text, _file(uri[2], text, argument))


def _file(rest: str, text: str, argument: str) -> Path:
    """Return the path of a URI that begins with "file:", which has two spellings."""
    host, path = "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        path = slash + path
    if host not in _HERE or not path.startswith("/"):
        raise ArgumentError(
            f"{argument} must be an absolute path on this machine after file:, as in file:///out, got {shown(text)}.",
            argument=argument,
        )
    return Path(os.path.normpath("/" + path.lstrip("/")))


def local_path(value: Any, argument: str, wanted: str = "a path on a mounted file system") -> Path:
    """Return the path of files that Python reads and writes, or raise for those on another file system.

    >>> local_path("dbfs:/", "path")
    Traceback (most recent call last):
    sash.errors.UnsupportedError: path must be a path on a mounted file system, got 'dbfs:/', which only Spark can open.
    """
    found = location(value, argument)
    if found.local is None:
        raise UnsupportedError(
            f"{argument} must be {wanted}, got {shown(found.text)}, which only Spark can open.", argument=argument
        )
    return found.local
