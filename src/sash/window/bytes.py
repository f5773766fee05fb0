"""The parts of a window's bytes that only windows have: the monoid, the kinds, and entries that are Python objects."""

import json
import pickle
from typing import Any

import numpy as np

from sash import _core, monoids, serialize
from sash.errors import ArgumentError, KindError, SashError, shown
from sash.inputs import record
from sash.inputs.batch import Kinds, is_record
from sash.monoid import Monoid
from sash.monoids import syntax
from sash.times import Instants


def monoid_of(header: dict[str, Any], monoid: Monoid | str | None) -> Monoid:
    """Return the monoid that a header describes; `monoid`, if set, must match it."""
    saved = header["monoid"]
    if monoid is None:
        for one in serialize.named_in(saved):
            if not one["built_in"] or one["name"] not in monoids.BUILT_IN:
                whole = "it" if one is saved else "the whole monoid"
                raise ArgumentError(
                    f"This window was saved with the custom monoid {shown(one['name'])}; pass {whole} as monoid=.",
                    argument="monoid",
                )
        return serialize.monoid_from(saved)
    monoid = syntax.monoid_of(monoid, "monoid")
    if not isinstance(monoid, Monoid):
        raise KindError(f"monoid must be a Monoid, got {shown(monoid)}.", argument="monoid")
    if json.loads(json.dumps(serialize.monoid_to(monoid))) != saved:
        raise ArgumentError(
            f"monoid must be the one that this window was saved with, {shown(saved['name'])}, got {shown(monoid)}.",
            argument="monoid",
        )
    return monoid


def native_kinds(kinds: Kinds, monoid: Monoid) -> Kinds:
    """Return the kinds, or raise if no native window can have them."""
    valid = kinds[0] in ("int", "float", "pair", "instant") and (kinds[0] == "instant") == (kinds[1] is not None)
    fits = str(kinds[2]) in dict(monoid.native)
    if is_record(monoid):
        fits = record.fits(monoid.layout(), str(kinds[2]))
    if not valid or not fits:
        raise serialize.corrupt(f"data describes kinds that no window can have: {shown(kinds)}.")
    return kinds


def load_objects(window: _core.Window, kinds: Kinds, entries: memoryview, allow_pickle: bool) -> None:
    """Load pickled entries into a window, or raise if that is not allowed."""
    if not allow_pickle:
        raise ArgumentError(
            "allow_pickle must be True to load a window of Python objects, which runs code from the bytes, got False.",
            argument="allow_pickle",
        )
    try:
        times, states = pickle.loads(entries)
        window._load(kinds, times, states, False)
    except Exception as error:
        raise serialize.corrupt(f"data has objects that cannot be loaded: {shown(error)}.") from error


def require_instants(codec: Instants | None, times: memoryview) -> None:
    """Raise for ticks that are not valid instants."""
    if codec is None or len(times) % 8:
        return
    try:
        codec.ticks(np.frombuffer(times, dtype=np.int64).view(f"datetime64[{codec.unit}]"))
    except SashError as error:
        raise serialize.corrupt(f"data has an invalid time: {error}") from None
