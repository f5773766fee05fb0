"""Rows that come out again, or are looked at again: some of their columns, by their places in the stream."""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import tables
from sash.errors import CorruptStateError, shown

_CHUNKS = 64  # of what is held; a column in more pieces is slow to take rows from


class Held:
    """Some columns of the rows that are kept: keys, time, id, what a row carries, and what Python aggregates."""

    def __init__(self, columns: list[str], schema: Any) -> None:
        pa = tables.arrow()
        self.columns = columns
        self.table = pa.schema([schema.field(name) for name in columns]).empty_table()
        self.places = Places()
        self._pruned = 0

    def add(self, table: Any, first: int, keep: NDArray[np.bool_], times: NDArray[np.int64]) -> None:
        """Keep the rows of a batch that were taken."""
        if not self.columns:
            return
        pa = tables.arrow()
        kept = table.select(self.columns)
        kept = kept if keep.all() else kept.filter(pa.array(keep))
        self.table = pa.concat_tables([self.table, kept.cast(self.table.schema)])
        self.places.extend(first + np.flatnonzero(keep), times[keep])
        if self.table.column(0).num_chunks > _CHUNKS:
            self.table = self.table.combine_chunks()

    def to_bytes(self, schema: Any) -> bytes:
        """Give what is held, and the schema of batches, as Arrow's own bytes."""
        pa = tables.arrow()
        seqs, times = self.places.get()
        table = pa.table({"seq": pa.array(seqs), "ticks": pa.array(times)})
        for i, name in enumerate(self.columns):
            table = table.append_column(name, self.table.column(i))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        shape: bytes = schema.serialize().to_pybytes()
        return struct.pack("<Q", len(shape)) + shape + bytes(sink.getvalue().to_pybytes())

    @staticmethod
    def parts(data: Any) -> tuple[Any, Any]:
        """Give the schema of batches, and what was held."""
        pa = tables.arrow()
        try:
            (length,) = struct.unpack_from("<Q", data)
            schema = pa.ipc.read_schema(pa.py_buffer(data[8 : 8 + length]))
            return schema, pa.ipc.open_stream(pa.py_buffer(data[8 + length :])).read_all()
        except (pa.ArrowInvalid, struct.error, OSError) as error:
            raise CorruptStateError(f"data: what it holds cannot be read: {shown(error)}.") from None

    def restore(self, kept: Any) -> None:
        """Take back what was held."""
        self.places.extend(kept.column(0).to_numpy(), kept.column(1).to_numpy())
        if self.columns:
            self.table = kept.select(list(range(2, kept.num_columns))).rename_columns(self.columns)

    def rows(self, seqs: NDArray[np.int64]) -> Any:
        """Give rows by their places in the stream."""
        return self.table.take(tables.arrow().array(np.searchsorted(self.places.get()[0], seqs)))

    def values(self, names: list[str], seqs: NDArray[np.int64]) -> Any:
        """Give some columns of rows by their places in the stream."""
        places = tables.arrow().array(np.searchsorted(self.places.get()[0], seqs))
        return self.table.select(names).take(places)

    def expire(self, bound: int) -> None:
        """Let go of rows at or before a time, when there are enough of them to be worth it."""
        seqs, times = self.places.get()
        if len(seqs) < 2 * self._pruned + 1024:
            return
        keep = times > bound
        self.table = self.table.filter(tables.arrow().array(keep)).combine_chunks()
        self.places = Places()
        self.places.extend(seqs[keep], times[keep])
        self._pruned = int(keep.sum())


class Places:
    """Places in the stream and times of rows, which grow without being copied each time."""

    def __init__(self) -> None:
        self._words = np.empty((2, 16), dtype=np.int64)
        self._size = 0

    def get(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give the places, ascending, and the times."""
        return self._words[0, : self._size], self._words[1, : self._size]

    def extend(self, seqs: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        """Add some at the end."""
        size = self._size + len(seqs)
        if size > self._words.shape[1]:
            grown = np.empty((2, 2 * size), dtype=np.int64)
            grown[:, : self._size] = self._words[:, : self._size]
            self._words = grown
        self._words[0, self._size : size] = seqs
        self._words[1, self._size : size] = times
        self._size = size
