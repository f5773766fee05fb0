"""What has expired of each key, where a window is unbounded: the times of its first and last row, and their aggregate.

Stored rows may begin with it: then it is in a column of its own, with the keys and the last time in theirs.
"""

from typing import TYPE_CHECKING

import numpy as np

from sash import _core
from sash.errors import CorruptStateError
from sash.inputs import arrow
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

EXPIRED = "__sash_expired"


def expired_of(engine: _core.Keyed, spec: Spec, schema: "pa.Schema") -> "pa.Table":
    """Return what has expired of each key, in the form of stored rows."""
    pa = arrow.pyarrow()
    anchors, words = engine.expired()
    kinds = [arrow.key_kind(schema.field(name).type) for name in spec.keys]
    columns = dict(zip(spec.keys, arrow.anchor_keys(engine, anchors, kinds), strict=True))
    columns = {name: column.cast(schema.field(name).type) for name, column in columns.items()}
    times = np.frombuffer(anchors.times(), dtype=np.int64)
    columns[spec.time] = arrow.times_of(times, schema.field(spec.time).type)
    width = len(words) // max(len(times), 1)
    kind = pa.binary(width) if len(times) else pa.binary(8)
    columns[EXPIRED] = pa.Array.from_buffers(kind, len(times), [None, pa.py_buffer(words)])
    return pa.table(columns)


def load_expired(engine: _core.Keyed, spec: Spec, table: "pa.Table") -> None:
    """Put what has expired of keys into an engine that has none of their rows."""
    column = arrow.one_array(table.column(EXPIRED))
    width = column.type.byte_width
    words = np.frombuffer(column.buffers()[1], dtype=np.uint8)[column.offset * width :][: len(column) * width]
    if not engine.load_expired(arrow.key_batch(engine, table, spec.keys, 0), words.tobytes()):
        raise CorruptStateError("The state has aggregates of expired rows that are damaged.", argument="checkpoint")


def apart(stored: "pa.Table") -> "tuple[pa.Table | None, pa.Table]":
    """Return what has expired, if stored rows have it, and the rows."""
    if EXPIRED not in stored.column_names:
        return None, stored
    pa = arrow.pyarrow()
    marks = stored.column(EXPIRED).is_valid()
    return stored.filter(marks), stored.filter(pa.compute.invert(marks)).drop_columns([EXPIRED])
