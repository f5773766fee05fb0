"""Which rows of a log are still needed, where their times alone do not tell: what a stream made of it still holds.

A window of the last rows needs them however old they are, and one that is unbounded needs their aggregate. So the log
is replayed as after a restart, and what the engine holds then is what stays. All records are read at once, so a delete
leaves the log only together with its insert: neither is held, or both may still meet and are in time.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.expired import EXPIRED, expired_of
from sash.keyed.question_columns import ASKED
from sash.keyed.stream import Stream
from sash.spark.stream.plan import Plan


def needed_rows(plan: Plan, tables: Iterable[pa.Table], position: dict[str, Any]) -> pa.Table:
    """Return the rows that a log with these records has to have for a stream at a position."""
    stream, read = plan.stream(), []
    for table in tables:
        stream.replay(table)
        read.append(table)
    stream.resume(position)
    none = stream.schema.empty_table().select(plan.logged)
    whole = pa.concat_tables([none, *read], promote_options="default")
    kept = whole.filter(pa.array(_needed(plan, stream, whole)))
    return _with_expired(plan, stream, kept) if plan.definition.unbounded else kept


def _with_expired(plan: Plan, stream: Stream, rows: pa.Table) -> pa.Table:
    """Return rows with what has expired of each key in front of them."""
    rows = rows.drop_columns([EXPIRED]) if EXPIRED in rows.column_names else rows
    expired = expired_of(stream.engine, plan.spec, stream.schema)
    if not expired.num_rows:
        return rows
    columns = [*rows.column_names, EXPIRED]
    return pa.concat_tables([expired, rows], promote_options="default").select(columns)


def _needed(plan: Plan, stream: Stream, rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows are held, or may still meet others that are in time."""
    times, _ = arrow.ticks(rows, plan.spec.time)
    events = ~_has(rows, ASKED) & ~_has(rows, EXPIRED)
    held = np.zeros(len(times), dtype=bool)
    held[np.flatnonzero(events)[stream.held()]] = True
    horizon = stream.horizon.at
    if horizon is None:
        return held | ~_has(rows, EXPIRED)
    in_time = times >= np.where(events, stream.emitter.late_before(horizon), horizon)
    return held | (in_time & ~_has(rows, EXPIRED))


def _has(rows: pa.Table, name: str) -> NDArray[np.bool_]:
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, dtype=bool)
    return np.asarray(rows.column(name).is_valid(), dtype=bool)
