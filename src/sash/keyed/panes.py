"""Panes as tables: rows combined in one engine, to be joined in another.

A batch of panes has the key columns, the time at which a pane starts, and its record as bytes; the record says how many
rows it is of.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.definition import Definition
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core

RECORD = "__sash_record"  # unlike the name of a key or a time
_ROWS = 1  # the word of a record that says how many rows it is of


def partials_of(definition: Definition, spec: Spec, table: "pa.Table") -> "pa.Table":
    """Return the panes of rows that all have a time."""
    engine = definition.engine(spec, remembers=False)
    keys = arrow.key_batch(engine, table, spec.keys, 0)
    times, _ = arrow.ticks(table, spec.time)
    status = np.empty(len(times), dtype=np.uint8)
    engine.apply(keys, times, None, None, None, definition.inputs_in(table), status)
    return _panes_in(engine, keys, spec, table)


def merged(definition: Definition, spec: Spec, table: "pa.Table") -> "pa.Table":
    """Return panes with those of one key and time joined."""
    engine = definition.engine(spec, remembers=False)
    keys = arrow.key_batch(engine, table, spec.keys, 0)
    times, _ = arrow.ticks(table, spec.time)
    engine.join(keys, times, records_of(table), None, np.empty(len(times), dtype=np.uint8))
    return _panes_in(engine, keys, spec, table)


def schema_of(spec: Spec, engine: "_core.Keyed", rows: "pa.Schema") -> "pa.Schema":
    """Return the columns of the panes of rows."""
    pa = arrow.pyarrow()
    time = rows.field(spec.time)
    fields = [*(rows.field(name) for name in spec.keys), pa.field(time.name, arrow.time_kind(time.type))]
    return pa.schema([*fields, pa.field(RECORD, pa.binary(engine.record_words * 8))])


def records_of(table: "pa.Table") -> NDArray[np.uint8]:
    """Return the records of panes, side by side."""
    column = arrow.one_array(table.column(RECORD))
    width = column.type.byte_width
    data = column.buffers()[1]
    whole = np.frombuffer(data, dtype=np.uint8) if data else np.zeros(0, dtype=np.uint8)
    return np.ascontiguousarray(whole[column.offset * width : (column.offset + len(column)) * width])


def row_counts(records: NDArray[np.uint8], words: int) -> NDArray[np.int64]:
    """Return how many rows each record is of."""
    rows: NDArray[np.int64] = records.view(np.int64).reshape(-1, words)[:, _ROWS]
    return rows


def _panes_in(engine: "_core.Keyed", keys: "_core.KeyBatch", spec: Spec, table: "pa.Table") -> "pa.Table":
    """Return all panes of an engine that holds a table's rows and nothing else."""
    pa = arrow.pyarrow()
    places, starts, records = engine.panes(keys)
    taken = pa.array(np.frombuffer(places, dtype=np.int64))
    columns = {name: table.column(name).take(taken) for name in spec.keys}
    times = arrow.times_of(np.frombuffer(starts, dtype=np.int64), table.schema.field(spec.time).type)
    width = engine.record_words * 8
    fixed = pa.Array.from_buffers(pa.binary(width), len(records) // width, [None, pa.py_buffer(records)])
    return pa.table(columns | {spec.time: times, RECORD: fixed})
