"""Rows on their way through a shuffle in fewer bytes: integers and times as small distances from the least of them.

It costs a few nanoseconds per row, and every byte less is copied some ten times less, between Python, Spark and disks.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_LEAST = b"least"  # in the metadata of a column whose values are distances from it
_NARROW = (pa.uint8(), pa.uint16(), pa.uint32())
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """Return rows as bytes.

    >>> batch = pa.record_batch({"t": pa.array([10**15, 10**15 + 7], pa.timestamp("us")), "x": [None, 2**40]})
    >>> from_bytes(to_bytes(batch), batch.schema).equals(batch)
    True
    """
    found = [_narrowed(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]
    narrow = pa.schema([field for _, field in found])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, narrow, options=_OPTIONS) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays([column for column, _ in found], schema=narrow))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_bytes(data: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in bytes or a buffer, which have the columns of a schema."""
    with pa.ipc.open_stream(data) as stream:
        batch = stream.read_next_batch()
    fields = zip(batch.columns, batch.schema, schema, strict=True)
    return pa.RecordBatch.from_arrays([_widened(*field) for field in fields], schema=schema)


def _narrowed(column: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Field]:
    whole = _integers(field.type)
    if whole is None:
        return column, field
    values = column.view(whole)
    least, greatest = (bound.as_py() for bound in pc.min_max(values).values())
    narrow = None if least is None else next((kind for kind in _NARROW if greatest - least < 1 << kind.bit_width), None)
    if narrow is None or narrow.bit_width >= whole.bit_width:
        return column, field
    distances = pc.subtract(values, pa.scalar(least, whole)).cast(narrow, safe=False)  # nulls may hold anything
    return distances, pa.field(field.name, narrow, metadata={_LEAST: str(least)})


def _widened(column: pa.Array, field: pa.Field, wanted: pa.Field) -> pa.Array:
    if _LEAST not in (field.metadata or {}):
        return column
    whole = _integers(wanted.type)
    return pc.add(column.cast(whole), pa.scalar(int(field.metadata[_LEAST]), whole)).view(wanted.type)


def _integers(kind: pa.DataType) -> pa.DataType | None:
    """Return the integers that the values of a type are stored as, or None."""
    if pa.types.is_integer(kind):
        return kind
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return None
    return pa.int32() if kind.bit_width == 32 else pa.int64()
