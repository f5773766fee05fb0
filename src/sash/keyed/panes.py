"""Panes on their way between engines: rows combined where they are, and joined elsewhere.

A batch of partials has the key columns, the time at which a pane starts, and its record as bytes; the record says how
many rows it is of. `partials_of` makes one of rows, and `PaneStream` takes them where `BoundaryStream` takes rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import _core
from sash.inputs import arrow
from sash.keyed.definition import Definition
from sash.keyed.spec import Asked
from sash.keyed.stream import LATE, BoundaryStream

RECORD = "record"
_ROWS = 1  # which word of a record says how many rows it is of


def partials_of(definition: Definition, asked: Asked, table: Any) -> Any:
    """Give the panes of rows that all have a time."""
    engine = definition.engine(asked, remembers=False)
    schema, array = arrow.keys_of(table, asked.keys)
    engine.begin(schema, array, table.num_rows)
    times, _ = arrow.ticks(table, asked.time)
    status = np.empty(len(times), dtype=np.uint8)
    engine.apply(times, None, None, None, 0, definition.inputs_in(table), status)
    return _panes_in(engine, asked, table)


def _panes_in(engine: _core.Keyed, asked: Asked, table: Any) -> Any:
    """Give all panes of an engine that holds a table's rows and nothing else."""
    pa = arrow.pyarrow()
    places, starts, records = engine.panes()
    keys = table.select(list(asked.keys)).take(pa.array(np.frombuffer(places, dtype=np.int64)))
    times = arrow.times_of(np.frombuffer(starts, dtype=np.int64), table.schema.field(asked.time).type)
    width = engine.record_words * 8
    fixed = pa.Array.from_buffers(pa.binary(width), len(records) // width, [None, pa.py_buffer(records)])
    return keys.append_column(asked.time, times).append_column(RECORD, fixed)


class PaneStream(BoundaryStream):
    """A stream whose batches are partials; it is made for the table of which they are."""

    def __init__(self, asked: Asked, table: Any, counts: dict[str, int]) -> None:
        super().__init__(asked, table, counts)
        pa = arrow.pyarrow()
        time = table.schema.field(asked.time)
        fields = [*(table.schema.field(name) for name in asked.keys), pa.field(time.name, arrow.time_kind(time.type))]
        self.schema = pa.schema([*fields, pa.field(RECORD, pa.binary(self.engine.record_words * 8))])

    def _inputs(self, table: Any) -> Any:
        column = arrow.one_array(table.column(RECORD))
        width = column.type.byte_width
        data = column.buffers()[1]
        whole = np.frombuffer(data, dtype=np.uint8) if data else np.zeros(0, dtype=np.uint8)
        return np.ascontiguousarray(whole[column.offset * width : (column.offset + len(column)) * width])

    def _taken(self, times: NDArray[np.int64], late: Any, inputs: Any) -> NDArray[np.uint8]:
        status = np.empty(len(times), dtype=np.uint8)
        self.engine.join(times, inputs, late.view(np.uint8), status)
        self.counts["late"] += int(self._rows(inputs)[status == LATE].sum())
        return status

    def _rows(self, inputs: Any) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = inputs.view(np.int64).reshape(-1, self.engine.record_words)[:, _ROWS]
        return rows

    def _rows_in(self, table: Any) -> int:
        return int(self._rows(self._inputs(table)).sum())

    def merged(self, table: Any) -> Any:
        """Give partials of which each pane is there once."""
        engine = self.definition.engine(self.asked, remembers=False)
        schema, array = arrow.keys_of(table, self.asked.keys)
        engine.begin(schema, array, table.num_rows)
        times, _ = arrow.ticks(table, self.asked.time)
        engine.join(times, self._inputs(table), None, np.empty(len(times), dtype=np.uint8))
        return _panes_in(engine, self.asked, table)
