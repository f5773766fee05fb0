"""The parts of a saved stream, checked against each other before anything relies on them.

Bytes may come from anyone. The core checks what it reads by itself (core/keyed/bytes.cpp); here are the checks that
need the aggregates, the types of the columns, or the rows that Python retains.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sash import monoids, serialize
from sash.errors import ArgumentError, CorruptStateError, KindError, shown
from sash.inputs import arrow
from sash.keyed.emit import HIGHEST, LOWEST, Position
from sash.keyed.retained_rows import RetainedRows
from sash.keyed.spec import Spec
from sash.monoid import Monoid
from sash.monoids.syntax import monoids_of
from sash.times import is_integer

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core

_MOST_ROWS = 2**47  # places in the stream that the core can tell apart


def aggs_of(saved: dict[str, Any], given: Any) -> dict[str, Any]:
    """Return the aggregates that a state was saved with; those that the caller passes must be the same."""
    if given is None:
        for name, plain in saved.items():
            for one in serialize.named_in(plain):
                if not one["built_in"] or one["name"] not in monoids.BUILT_IN:
                    raise ArgumentError(
                        f"aggs must be passed, because {shown(name)} was saved with the custom monoid "
                        f"{shown(one['name'])}.",
                        argument="aggs",
                        column=name,
                    )
        return {name: serialize.monoid_from(plain) for name, plain in saved.items()}
    given = monoids_of(given)
    if not isinstance(given, dict) or not all(isinstance(monoid, Monoid) for monoid in given.values()):
        raise KindError(f"aggs must be a dict from names to monoids, got {shown(given)}.", argument="aggs")
    if given.keys() != saved.keys():
        raise ArgumentError(f"aggs must be those that were saved, {list(saved)}, got {list(given)}.", argument="aggs")
    for name, plain in saved.items():
        if json.loads(json.dumps(serialize.monoid_to(given[name]))) != plain:
            raise ArgumentError(
                f"aggs must be those that were saved, but {name} was {_told(plain)}, got {shown(given[name])}.",
                argument="aggs",
                column=name,
            )
    return {name: given[name] for name in saved}


def _told(plain: dict[str, Any]) -> str:
    arguments = {"column": plain.get("column"), "dtype": plain.get("dtype"), **plain.get("arguments", {})}
    words = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
    return shown(f"{plain['name']}({', '.join(words)})")


def counts_of(saved: dict[str, Any], names: Any) -> dict[str, int]:
    """Return the counters of a state."""
    if set(saved) - set(names):
        raise _damaged(f"it counts {sorted(saved)}")
    for name in names:
        _require_integer(saved.get(name, 0), 0, 2**100, name)
    return {name: saved.get(name, 0) for name in names}


def require_position(saved: dict[str, Any]) -> None:
    """Raise unless it says where a stream can be."""
    bounds = {"seq": (0, _MOST_ROWS), "revision": (0, 2**62), "finished": (LOWEST, HIGHEST), "shown": (LOWEST, HIGHEST)}
    for name, (least, most) in bounds.items():
        _require_integer(saved[name], least, most, name)
    for name in ("newest", "horizon"):
        if saved[name] is not None:
            _require_integer(saved[name], 2 * LOWEST, HIGHEST, name)
    if set(saved) != {*vars(Position()), "horizon"}:
        raise _damaged(f"its position has the parts {sorted(saved)}")


def bound_of(header: dict[str, Any], name: str, least: int) -> int:
    """Return a time up to which rows were dropped: that of the last expiry, or later where the user dropped more."""
    bound = header.get(name, least)  # states that were saved before do not have it
    _require_integer(bound, LOWEST, HIGHEST, name)
    return max(int(bound), least)


def _require_integer(value: Any, least: int, most: int, name: str) -> None:
    if not is_integer(value) or not least <= value <= most:
        raise _damaged(f"{name} is {shown(value)}")


def load(engine: "_core.Keyed", spec: Spec, schema: "pa.Schema", rows: Any, seq: int) -> None:
    """Load the rows of a state into an engine that has none, for batches of this schema."""
    kinds = [arrow.key_kind(schema.field(name).type) for name in spec.keys]
    if not engine.load(rows, arrow.key_widths(kinds), seq, spec.id is not None):
        raise _damaged("its rows cannot be those of a stream")
    _require_keys(engine, spec, kinds)


def _require_keys(engine: "_core.Keyed", spec: Spec, kinds: "list[pa.DataType]") -> None:
    """Raise unless every key is the one form of values of these types."""
    if not kinds:
        return
    pa = arrow.pyarrow()
    columns = arrow.held_keys(engine, kinds)
    table = pa.table(columns, names=list(spec.keys))
    table.validate(full=True)
    before = engine.live_keys
    arrow.key_batch(engine, table, spec.keys, 0)
    if engine.live_keys != before:  # another form of a key that there is, or none at all
        raise _damaged("its keys have values that no column has")


def require_retained(engine: "_core.Keyed", spec: Spec, retained: RetainedRows, after: int) -> None:
    """Raise unless every row of the engine is there once, with the columns that are retained of it; panes have none.

    Of rows up to `after`, which are there because windows count them, no columns are.
    """
    seqs, times = (np.frombuffer(part, dtype=np.int64) for part in engine.held([])[:2])
    if len(np.unique(seqs)) < len(seqs):
        raise _damaged("two of its rows have one place in the stream")
    if not retained.columns:
        return
    seqs, times = seqs[times > after], times[times > after]
    places, kept = retained.places()
    at = places.searchsorted(seqs)
    if len(seqs) and not (len(places) and (places.take(at, mode="clip") == seqs).all()):
        raise _damaged("columns of a row are missing")
    same = kept[at] >= times if spec.resolution is not None else kept[at] == times  # which rounds down
    if spec.time in retained.columns:
        ticks, bad = arrow.ticks(retained.values([spec.time], seqs), spec.time)
        same &= (ticks == kept[at]) & (bad is None)
    if not same.all():
        raise _damaged("a row has two times")


def _damaged(what: str) -> CorruptStateError:
    return CorruptStateError(f"data must be what to_bytes returned, but {what}.", argument="data")
