"""The columns of results: their names, and the keys and boundaries that they are for."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sash import _core, durations
from sash.errors import ArgumentError, shown
from sash.inputs import arrow
from sash.keyed.definition import Definition, column_name
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

_LOWEST = -(2**63)


def own_columns(spec: Spec) -> list[str]:
    """Return the columns of an event that are part of its result."""
    named = [*spec.keys, spec.time, *([spec.id] if spec.id else []), *spec.carry]
    return list(dict.fromkeys(named))


def event_columns(spec: Spec) -> list[str]:
    """Return the columns of late events that are emitted among boundaries."""
    return [] if spec.late == "drop" else [spec.time, *([spec.id] if spec.id else [])]


def boundary_columns(
    definition: Definition, engine: _core.Keyed, spec: Spec, schema: "pa.Schema", anchors: _core.Anchors
) -> "pa.Table":
    """Return the keys of anchors, and where the first of their windows starts and all of them end, as a table."""
    pa = arrow.pyarrow()
    kinds = [arrow.key_kind(schema.field(name).type) for name in spec.keys]
    columns = dict(zip(spec.keys, arrow.anchor_keys(engine, anchors, kinds), strict=True))
    for name in event_columns(spec):
        columns[name] = pa.nulls(len(anchors), schema.field(name).type)
    ends = np.frombuffer(anchors.times(), dtype=np.int64)
    kind = arrow.time_kind(schema.field(spec.time).type)
    starts = window_starts(definition, spec, ends)
    columns["window_start"] = arrow.times_of(starts, kind, starts == _LOWEST)  # that is, too far back to say
    columns["window_end"] = arrow.times_of(ends, kind)
    metadata = None if spec.resolution is None else {"sash.resolution": durations.name_of(spec.resolution)}
    return pa.table(columns).replace_schema_metadata(metadata)


def window_starts(definition: Definition, spec: Spec, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the first window listed starts at each boundary; the least int64 where that is not a time."""
    (_, kind), *_ = definition.windows
    if kind.counts:
        return np.full(len(ends), _LOWEST)
    if kind.kind == "span":
        return arrow.minus(ends, kind.size)
    calendar = definition.calendar(kind.period, spec)
    instants, places = np.unique(ends, return_inverse=True)
    starts = np.array([calendar.start_of(max(end - 1, _LOWEST)) for end in instants.tolist()], dtype=np.int64)
    return starts[places]


def result_names(definition: Definition, spec: Spec) -> list[str]:
    """Return the names of all columns that results add."""
    names = [column_name(agg, size) for agg in definition.names for size, _ in definition.windows]
    if spec.every is not None:
        names = [*spec.keys, *event_columns(spec), "window_start", "window_end", *names]
    if spec.gap is not None:
        names = [*spec.keys, *event_columns(spec), "session_start", "session_end", *names]
    names += ["revision", "deleted"] if spec.emit == "update" else []
    return names + (["late"] if spec.late == "emit" else [])


def question_names(definition: Definition, spec: Spec) -> list[str]:
    """Return the names of all columns that answers add to questions."""
    names = [f"{agg}_{size}" for agg in definition.names for size, _ in definition.windows]
    names += ["revision", "deleted"] if spec.emit == "update" else []
    return names + (["late"] if spec.late == "emit" else [])


def require_unlike(names: list[str]) -> None:
    """Raise if two columns of the results have the same name."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ArgumentError(
                f"aggs must have other names: the results would have two columns {shown(name)}.",
                argument="aggs",
                column=name,
            )


def require_new(names: Iterable[str], columns: Iterable[str]) -> None:
    """Raise if a table with these columns already has one with the name of a result."""
    known = set(names)
    for name in columns:
        if name in known:
            raise ArgumentError(
                f"aggs must have other names: the table already has a column {shown(name)}.",
                argument="aggs",
                column=name,
            )
