"""The bytes of a window as far as they are its own: its monoid, its kinds, and entries that are Python objects."""

import json
import pickle
from typing import Any

import numpy as np

from sash import _core, monoids, serialize
from sash.errors import ArgumentError, CorruptStateError, SashError, shown
from sash.inputs import record
from sash.inputs.batch import Kinds, is_record
from sash.monoid import Monoid
from sash.times import Instants


def monoid_of(header: dict[str, Any], monoid: Monoid | None) -> Monoid:
    """Return the monoid that a header names, which must be the one that is given if there is one."""
    named = header["monoid"]
    if monoid is None:
        for one in serialize.named_in(named):
            if not one["built_in"] or one["name"] not in monoids.BUILT_IN:
                raise ArgumentError(
                    f"monoid: None, but this window's is {shown(one['name'])}, which is not built in; give it."
                    if one is named
                    else f"monoid: None, but {shown(one['name'])} in this window's is not built in; give the whole."
                )
        return serialize.monoid_from(named)
    if json.loads(json.dumps(serialize.monoid_to(monoid))) != named:
        raise ArgumentError(
            f"monoid: {shown(monoid)} is not the one of this window, {shown(named['name'])}; give that one."
        )
    return monoid


def native_kinds(kinds: Kinds, monoid: Monoid) -> Kinds:
    """Refuse kinds that no native window has."""
    known = kinds[0] in ("int", "float", "pair", "instant") and (kinds[0] == "instant") == (kinds[1] is not None)
    fits = str(kinds[2]) in dict(monoid.native)
    if is_record(monoid):
        fits = record.fits(monoid.layout(), str(kinds[2]))
    if not known or not fits:
        raise CorruptStateError(f"data: it names kinds that no window has, {shown(kinds)}.")
    return kinds


def load_objects(window: _core.Window, kinds: Kinds, entries: memoryview, allow_pickle: bool) -> None:
    """Put pickled entries into a window, where that is allowed."""
    if not allow_pickle:
        raise ArgumentError(
            "allow_pickle: False, but this window holds Python objects, and loading them runs code; give "
            "allow_pickle=True if you trust the bytes."
        )
    try:
        times, states = pickle.loads(entries)
        window._load(kinds, times, states, False)
    except Exception as error:
        raise CorruptStateError(f"data: its objects cannot be read: {shown(error)}.") from error


def require_instants(codec: Instants | None, times: memoryview) -> None:
    """Refuse ticks that are no instants: they could not be shown."""
    if codec is None or len(times) % 8:
        return
    try:
        codec.ticks(np.frombuffer(times, dtype=np.int64).view(f"datetime64[{codec.unit}]"))
    except SashError as error:
        raise CorruptStateError(f"data: a time in it is none: {error}") from None
