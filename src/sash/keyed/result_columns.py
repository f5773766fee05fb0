"""The columns of results: their names, and the keys and boundaries that they are given at."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sash import _core, durations
from sash.errors import ArgumentError, shown
from sash.inputs import arrow
from sash.keyed.definition import Definition
from sash.keyed.spec import Asked

if TYPE_CHECKING:
    import pyarrow as pa

_LOWEST = -(2**63)


def own_columns(spec: Asked) -> list[str]:
    """Return the columns of an event that are part of its result."""
    named = [*spec.keys, spec.time, *([spec.id] if spec.id else []), *spec.carry]
    return list(dict.fromkeys(named))


def event_columns(asked: Asked) -> list[str]:
    """Give the columns of late events that come out among boundaries."""
    return [] if asked.late == "drop" else [asked.time, *([asked.id] if asked.id else [])]


def boundary_columns(
    definition: Definition, engine: _core.Keyed, asked: Asked, schema: "pa.Schema", anchors: _core.Anchors
) -> "pa.Table":
    """Return the keys of anchors, and where their windows start and end, as a table."""
    pa = arrow.pyarrow()
    kinds = [arrow.key_kind(schema.field(name).type) for name in asked.keys]
    columns = dict(zip(asked.keys, arrow.anchor_keys(engine, anchors, kinds), strict=True))
    for name in event_columns(asked):
        columns[name] = pa.nulls(len(anchors), schema.field(name).type)
    ends = np.frombuffer(anchors.times(), dtype=np.int64)
    kind = arrow.time_kind(schema.field(asked.time).type)
    if len(definition.windows) == 1:
        starts = arrow.minus(ends, definition.largest)
        columns["window_start"] = arrow.times_of(starts, kind, starts == _LOWEST)  # that is, too far back to say
    columns["window_end"] = arrow.times_of(ends, kind)
    metadata = None if asked.resolution is None else {"sash.resolution": durations.name_of(asked.resolution)}
    return pa.table(columns).replace_schema_metadata(metadata)


def result_names(definition: Definition, asked: Asked) -> list[str]:
    """Give the names of all columns that results add."""
    names = [f"{agg}_{size}" for agg in definition.names for size, _ in definition.windows]
    if asked.every is not None:
        starts = ["window_start"] if len(definition.windows) == 1 else []
        names = [*asked.keys, *event_columns(asked), *starts, "window_end", *names]
    names += ["revision", "deleted"] if asked.emit == "update" else []
    return names + (["late"] if asked.late == "emit" else [])


def require_unlike(names: list[str]) -> None:
    """Refuse results of which two have one name."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ArgumentError(f"aggs: the results would have two columns {shown(name)}; give one another name.")


def require_new(table: Any, columns: Any) -> None:
    """Refuse results whose names the table has already."""
    for name in columns:
        if name in table.column_names:
            raise ArgumentError(f"aggs: the table has a column {shown(name)} already; give the aggregate another name.")
