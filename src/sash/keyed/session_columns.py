"""The columns of sessions: keys, when they start and end."""

from typing import TYPE_CHECKING

import numpy as np

from sash.inputs import arrow
from sash.keyed.result_columns import event_columns
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core

START, END = "session_start", "session_end"
_HIGHEST = 2**63 - 1


def session_columns(
    engine: "_core.Keyed", spec: Spec, gap: int, schema: "pa.Schema", sessions: "_core.Anchors"
) -> "pa.Table":
    """Return the keys of sessions, and where they start and end, as a table."""
    pa = arrow.pyarrow()
    kinds = [arrow.key_kind(schema.field(name).type) for name in spec.keys]
    columns = dict(zip(spec.keys, arrow.anchor_keys(engine, sessions, kinds), strict=True))
    for name in event_columns(spec):
        columns[name] = pa.nulls(len(sessions), schema.field(name).type)
    kind = arrow.time_kind(schema.field(spec.time).type)
    starts, lasts = (np.frombuffer(part, dtype=np.int64) for part in (sessions.times(), sessions.seqs()))
    ends = arrow.plus(lasts, gap)
    columns[START] = arrow.times_of(starts, kind)
    columns[END] = arrow.times_of(ends, kind, ends == _HIGHEST)  # that is, too far ahead to say
    return pa.table(columns)


def session_fields(spec: Spec, schema: "pa.Schema") -> "list[pa.Field]":
    """Return the columns of sessions before their aggregates."""
    pa = arrow.pyarrow()
    fields = [pa.field(name, arrow.key_kind(schema.field(name).type)) for name in spec.keys]
    fields += [pa.field(name, schema.field(name).type) for name in event_columns(spec)]
    kind = arrow.time_kind(schema.field(spec.time).type)
    return [*fields, pa.field(START, kind), pa.field(END, kind)]
