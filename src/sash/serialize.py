"""The bytes of a window: a versioned, checked container.

    SASH | version | length of the header | header (JSON) | times | entries | hash of all before

The header names the structure, the monoid and the kinds; times and entries are the core's own arrays. Nothing in it is
executed. Only where a window holds Python objects are they pickled, and then loading asks for permission.
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
    """Give the bytes of a state."""
    named = json.dumps({**header, "times": len(times), "entries": len(entries)}).encode()
    return _core.sealed([_START.pack(_MAGIC, _VERSION, len(named)), named, times, entries])


def part(data: Any) -> tuple[dict[str, Any], memoryview, memoryview]:
    """Give the parts of a state's bytes, where they lie, or say what is wrong with them."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise KindError(f"data: {shown(data)} is no state; give the bytes that to_bytes gave.")
    data = memoryview(data).cast("B")
    if len(data) < _START.size + _CHECK_BYTES or data[:4] != _MAGIC:
        raise CorruptStateError("data: it does not begin like a state of sash; give the bytes that to_bytes gave.")
    _, version, length = _START.unpack_from(data)
    if version != _VERSION:
        raise CorruptStateError(f"data: its format is version {version}; this sash reads version {_VERSION}.")
    if not _core.seal_holds(data):
        raise CorruptStateError("data: it was cut short or changed; its check sum is wrong.")
    try:
        header = json.loads(bytes(data[_START.size : _START.size + length]))
        start, times, entries = _START.size + length, int(header["times"]), int(header["entries"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptStateError(f"data: its header cannot be read: {shown(error)}.") from None
    if min(times, entries) < 0 or start + times + entries + _CHECK_BYTES != len(data):
        raise CorruptStateError("data: its parts are not as long as its header says.")
    return header, data[start : start + times], data[start + times : start + times + entries]


def monoid_to(monoid: Monoid) -> dict[str, Any]:
    """Give a monoid as plain data: its name and, of a built-in, all that it was made with."""
    plain: dict[str, Any] = {"name": monoid.name, "version": monoid.version, "built_in": monoid.built_in}
    if monoid.built_in:
        arguments = {name: _argument_to(value) for name, value in monoid.arguments}
        plain |= {"column": monoid.column, "dtype": monoid.dtype, "arguments": arguments}
    return plain


def named_in(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give a monoid as plain data, and then those that it is made of."""
    yield plain
    for value in plain.get("arguments", {}).values():
        if isinstance(value, dict):
            yield from named_in(value["monoid"])


def monoid_from(plain: dict[str, Any]) -> Monoid:
    """Give a built-in back."""
    named = {name: plain[name] for name in ("column", "dtype") if plain[name] is not None}
    arguments = {name: _argument_from(value) for name, value in plain["arguments"].items()}
    try:
        return monoids.BUILT_IN[plain["name"]](**arguments, **named)
    except (SashError, TypeError) as error:
        raise CorruptStateError(f"data: its monoid cannot be made: {shown(error)}.") from None


def _argument_to(value: Any) -> Any:
    if isinstance(value, Monoid):
        return {"monoid": monoid_to(value)}
    return list(value) if isinstance(value, tuple) else value


def _argument_from(value: Any) -> Any:
    if isinstance(value, dict):
        return monoid_from(value["monoid"])
    return tuple(value) if isinstance(value, list) else value


def codec_to(codec: Instants | None) -> dict[str, Any] | None:
    """Give the way instants are kept as plain data."""
    if codec is None:
        return None
    return {"unit": codec.unit, "shown_as": codec.shown_as, "aware": codec.aware, "zone": _zone_to(codec.zone)}


def codec_from(plain: dict[str, Any] | None) -> Instants | None:
    """Give it back."""
    if plain is None:
        return None
    unit, shown_as = str(plain["unit"]), str(plain["shown_as"])
    known = shown_as in ("datetime", "numpy", "pandas") and (shown_as != "datetime" or unit in ("us", "ms", "s"))
    try:
        known = known and np.datetime_data(f"M8[{unit}]")[0] != "generic"
    except (TypeError, ValueError, OverflowError):
        known = False
    if not known or (bool(plain["aware"]) and plain["zone"] is None):
        raise CorruptStateError(f"data: it keeps instants as no window does, {shown(plain)}.")
    return Instants(unit, shown_as, bool(plain["aware"]), _zone_from(plain["zone"]))


def _zone_to(zone: tzinfo | None) -> str | float | None:
    if zone is None:
        return None
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # zoneinfo's, pytz's
    if isinstance(name, str):
        return name
    offset = zone.utcoffset(None)
    if offset is None:
        raise UnsupportedError(f"to_bytes: the time zone {shown(zone)} has no name; use one of zoneinfo.")
    return offset.total_seconds()


def _zone_from(plain: str | float | None) -> tzinfo | None:
    if plain is None:
        return None
    if isinstance(plain, (int, float)):
        try:
            return timezone(timedelta(seconds=plain))
        except (ValueError, OverflowError):
            raise CorruptStateError(f"data: its time zone {shown(plain)} is none.") from None
    try:
        return ZoneInfo(plain)
    except (ZoneInfoNotFoundError, ValueError):
        raise CorruptStateError(f"data: its time zone {shown(plain)} is not known here.") from None
