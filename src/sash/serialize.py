"""The bytes of a window: a versioned container with a checksum.

    SASH | version | length of the header | header (JSON) | times | entries | hash of everything before it

The header names the structure, the monoid and the kinds; times and entries are the core's own arrays. Nothing in it is
executed. Only Python objects are pickled, and loading those requires `allow_pickle=True`.
"""

import json
import struct
from collections.abc import Iterator
from datetime import timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from sash import _core, monoids
from sash.errors import CorruptStateError, KindError, SashError, UnsupportedError, shown
from sash.monoid import Monoid
from sash.times import Instants

_MAGIC = b"SASH"
_VERSION = 2
_START = struct.Struct("<4sHI")
_CHECK_BYTES = 8


def join(header: dict[str, Any], times: bytes, entries: bytes) -> bytes:
    """Return the bytes of a state."""
    head = json.dumps({**header, "times": len(times), "entries": len(entries)}).encode()
    return _core.sealed([_START.pack(_MAGIC, _VERSION, len(head)), head, times, entries])


def part(data: Any) -> tuple[dict[str, Any], memoryview, memoryview]:
    """Return the header, times and entries of a state's bytes without copying, or raise if they are corrupt."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise KindError(f"data must be the bytes that to_bytes returned, got {shown(data)}.", argument="data")
    data = memoryview(data).cast("B")
    if len(data) < _START.size + _CHECK_BYTES or data[:4] != _MAGIC:
        raise corrupt("data must be the bytes that to_bytes returned, got bytes that do not start as such.")
    _, version, length = _START.unpack_from(data)
    if version != _VERSION:
        raise corrupt(f"data must be in format version {_VERSION}, got version {version}.")
    if not _core.seal_holds(data):
        raise corrupt("data is truncated or corrupted: its checksum does not match.")
    try:
        header = json.loads(bytes(data[_START.size : _START.size + length]))
        start, times, entries = _START.size + length, int(header["times"]), int(header["entries"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise corrupt(f"data has an unreadable header: {shown(error)}.") from None
    if min(times, entries) < 0 or start + times + entries + _CHECK_BYTES != len(data):
        raise corrupt("data is corrupted: the lengths in its header do not match its size.")
    return header, data[start : start + times], data[start + times : start + times + entries]


def corrupt(message: str) -> CorruptStateError:
    """Return the error for bytes that cannot be loaded."""
    return CorruptStateError(message, argument="data")


def monoid_to(monoid: Monoid) -> dict[str, Any]:
    """Return a monoid as plain data: its name and, for a built-in, its arguments."""
    plain: dict[str, Any] = {"name": monoid.name, "version": monoid.version, "built_in": monoid.built_in}
    if monoid.built_in:
        arguments = {name: _argument_to(value) for name, value in monoid.arguments}
        plain |= {"column": monoid.column, "dtype": monoid.dtype, "arguments": arguments}
    return plain


def named_in(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a monoid as plain data, then those that it contains."""
    yield plain
    for value in plain.get("arguments", {}).values():
        if isinstance(value, dict):
            yield from named_in(value["monoid"])


def monoid_from(plain: dict[str, Any]) -> Monoid:
    """Return the built-in monoid that plain data describes."""
    keywords = {name: plain[name] for name in ("column", "dtype") if plain[name] is not None}
    arguments = {name: _argument_from(value) for name, value in plain["arguments"].items()}
    if plain["name"] == "struct" and not all(isinstance(value, Monoid) for value in arguments.values()):
        raise corrupt(f"data describes an invalid monoid: {shown(plain)}.")  # text may import what it names
    try:
        monoid = monoids.BUILT_IN[plain["name"]](**arguments, **keywords)
    except (SashError, TypeError) as error:
        raise corrupt(f"data describes an invalid monoid: {shown(error)}.") from None
    if monoid.version != plain["version"]:
        raise corrupt(f"data has states of {monoid!r} in a form that this version of sash does not read.")
    return monoid


def _argument_to(value: Any) -> Any:
    if isinstance(value, Monoid):
        return {"monoid": monoid_to(value)}
    return list(value) if isinstance(value, tuple) else value


def _argument_from(value: Any) -> Any:
    if isinstance(value, dict):
        return monoid_from(value["monoid"])
    return tuple(value) if isinstance(value, list) else value


def codec_to(codec: Instants | None) -> dict[str, Any] | None:
    """Return the storage of instants as plain data."""
    if codec is None:
        return None
    return {"unit": codec.unit, "shown_as": codec.shown_as, "aware": codec.aware, "zone": _zone_to(codec.zone)}


def codec_from(plain: dict[str, Any] | None) -> Instants | None:
    """Return the storage of instants that plain data describes."""
    if plain is None:
        return None
    unit, shown_as = str(plain["unit"]), str(plain["shown_as"])
    valid = shown_as in ("datetime", "numpy", "pandas") and (shown_as != "datetime" or unit in ("us", "ms", "s"))
    try:
        valid = valid and np.datetime_data(f"M8[{unit}]")[0] != "generic"
    except (TypeError, ValueError, OverflowError):
        valid = False
    if not valid or (bool(plain["aware"]) and plain["zone"] is None):
        raise corrupt(f"data describes invalid instants: {shown(plain)}.")
    return Instants(unit, shown_as, bool(plain["aware"]), _zone_from(plain["zone"]))


def _zone_to(zone: tzinfo | None) -> str | float | None:
    if zone is None:
        return None
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # zoneinfo's, pytz's
    if isinstance(name, str):
        return name
    offset = zone.utcoffset(None)
    if offset is None:
        raise UnsupportedError(f"to_bytes needs a time zone with a name, such as one of zoneinfo, got {shown(zone)}.")
    return offset.total_seconds()


def _zone_from(plain: str | float | None) -> tzinfo | None:
    if plain is None:
        return None
    if isinstance(plain, (int, float)):
        try:
            return timezone(timedelta(seconds=plain))
        except (ValueError, OverflowError):
            raise corrupt(f"data has an invalid time zone: {shown(plain)}.") from None
    try:
        return ZoneInfo(plain)
    except (ZoneInfoNotFoundError, ValueError):
        raise corrupt(f"data has a time zone that is not installed here: {shown(plain)}.") from None
