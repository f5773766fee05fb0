"""Tables of questions: keys and instants that results are wanted for, read as the events they are about are read."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash.errors import ArgumentError, KindError, shown
from sash.inputs import arrow
from sash.keyed.spec import Spec, require_name

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def require_askable(at: Any, at_time: Any, every: Any) -> None:
    """Raise for arguments of a call that do not go with questions."""
    if at is not None and every is not None:
        raise ArgumentError(
            f"every must be left out with at=, whose rows say when, got {shown(every)}.", argument="every"
        )
    if at_time is not None:
        if at is None:
            raise ArgumentError(f"at_time must be passed with at=, got {shown(at_time)}.", argument="at_time")
        require_name(at_time, "at_time")


def require_has(columns: list[str], names: tuple[str, ...], argument: str) -> None:
    """Raise unless a table of questions with these columns has each of some once."""
    for name in names:
        if columns.count(name) != 1:
            raise ArgumentError(
                f"{argument} must be a table that has the column {shown(name)} once, got the columns {shown(columns)}.",
                argument=argument,
                column=name,
            )


def widened(events: "pa.Table", table: "pa.Table", time: str, spec: Spec) -> "pa.Table":
    """Return events with wider types where questions need them.

    A key that has no form among the events' has one in the type of the questions; monoids that depend on time see
    instants as fine as those of the questions.
    """
    for name in spec.keys:
        column = table.column(name)
        if arrow.cast_exactly(column, arrow.plain_kind(events.field(name).type)) is None:
            wider = arrow.cast_exactly(arrow.plain(events.column(name)), arrow.plain_kind(column.type))
            if wider is not None and not arrow.pyarrow().types.is_floating(wider.type):
                events = events.set_column(events.column_names.index(name), name, wider)
    if spec.needs_exact_times is not None:
        events = _finer(events, spec, table.schema.field(time).type)
    return events


def _finer(events: "pa.Table", spec: Spec, own: "pa.DataType") -> "pa.Table":
    """Return events with their times in the unit of the questions if that is a finer one."""
    name = spec.time
    pa, kind = arrow.pyarrow(), events.field(name).type
    is_a = pa.types.is_timestamp
    if not (is_a(own) and is_a(kind)) or _TICKS[own.unit] <= _TICKS[kind.unit]:
        return events
    try:
        column = events.column(name).cast(pa.timestamp(own.unit, kind.tz))
    except pa.ArrowInvalid:
        raise ArgumentError(
            f"at must hold times in {kind.unit}, as the events do, because {spec.needs_exact_times} and those of some "
            f"events do not fit {own}.",
            argument="at",
            column=name,
        ) from None
    return events.set_column(events.column_names.index(name), name, column)


def keys_in(table: Any, names: tuple[str, ...], events: "pa.Schema", argument: str) -> "pa.Table":
    """Return the key columns of a table in the types that the events' keys have."""
    columns = {name: _typed(table.column(name), events.field(name), argument) for name in names}
    return arrow.pyarrow().table(columns)


def _typed(column: "pa.ChunkedArray", field: "pa.Field", argument: str) -> "pa.ChunkedArray":
    kind = arrow.plain_kind(field.type)
    if arrow.pyarrow().types.is_null(kind):  # null is the same key in every type, and no other was seen
        return arrow.plain(column)
    cast = arrow.cast_exactly(arrow.plain(column), kind)
    if cast is None:
        raise KindError(
            f"{argument} must hold {kind} in the column {shown(field.name)}, as the events do, got {column.type}; "
            "cast it.",
            argument=argument,
            column=field.name,
        )
    return cast


def instants_in(
    table: "pa.Table", name: str, spec: Spec, events: "pa.Schema"
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return a column of instants in ticks of the events' times, and the mask of its nulls or None.

    Between two ticks of the events, no event lies: an instant there has the windows of the tick before it, or of the
    one after it where windows are closed on the left.
    """
    kind, own = events.field(spec.time).type, table.schema.field(name).type
    pa = arrow.pyarrow()
    if pa.types.is_null(own):
        return np.zeros(table.num_rows, dtype=np.int64), np.ones(table.num_rows, dtype=bool)
    require_alike(own, kind, name)
    ticks, nulls = arrow.ticks(table, name)
    if not pa.types.is_timestamp(kind) or own.unit == kind.unit:
        return ticks, nulls
    more, less = _TICKS[kind.unit] // _TICKS[own.unit], _TICKS[own.unit] // _TICKS[kind.unit]
    if less:
        return ticks // less if spec.ends_inside else -(-ticks // less), nulls
    wide = (ticks > _HIGHEST // more) | (ticks < -(_HIGHEST // more))
    if nulls is not None:
        wide &= ~nulls
    if wide.any():
        raise ArgumentError(
            f"at must hold times that fit {kind} in the column {shown(name)}, got "
            f"{table.column(name)[int(np.argmax(wide))].cast(pa.string())}.",
            argument="at",
            column=name,
        )
    return ticks * more, nulls


def require_alike(own: "pa.DataType", kind: "pa.DataType", name: str) -> None:
    """Raise unless instants of one type can be compared with those of another."""
    is_a = arrow.pyarrow().types
    if is_a.is_timestamp(kind):
        alike = is_a.is_timestamp(own) and (own.tz is None) == (kind.tz is None)
        wanted = f"timestamps {'without' if kind.tz is None else 'with'} a time zone"
    else:
        alike, wanted = is_a.is_integer(own), "integers"
    if not alike:
        raise KindError(
            f"at must hold {wanted} in the column {shown(name)}, as the events do, got {own}.",
            argument="at",
            column=name,
        )


def asked(
    engine: "_core.Keyed", keys: "pa.Table | None", names: tuple[str, ...], times: NDArray[np.int64]
) -> "_core.Anchors":
    """Return the anchors of questions: an instant for each row of a table of keys, or for the one key that there is."""
    schema, array = (None, None) if keys is None else arrow.keys_of(keys, names)
    return engine.asked(schema, array, np.ascontiguousarray(times))
