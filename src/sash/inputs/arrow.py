"""Arrow columns for the rolling engines: times as ticks, keys and ids as the core reads them, and back."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash import _core
from sash.errors import ArgumentError, KindError, UnsupportedError, shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.compute import Expression

_PLAIN_KEYS = (
    *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL", "DATE32", "DATE64"),
    *("TIMESTAMP", "STRING", "LARGE_STRING", "BINARY", "LARGE_BINARY", "FIXED_SIZE_BINARY", "DECIMAL128"),
)


def pyarrow() -> Any:
    """Return the pyarrow module, or raise if it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise UnsupportedError('This needs pyarrow, which is not installed; run pip install "sash[arrow]".') from error
    return pyarrow


def require_columns(table: Any, names: Iterable[str], argument: str) -> None:
    """Raise if a table lacks a column, or has two of that name."""
    for name in names:
        if table.column_names.count(name) > 1:
            raise ArgumentError(
                f"{argument} must name a column that the table has once, got {shown(name)}, which it has "
                f"{table.column_names.count(name)} times.",
                argument=argument,
                column=name,
            )
        if name not in table.column_names:
            columns = ", ".join(table.column_names)
            raise ArgumentError(
                f"{argument} must name columns of the table ({columns}), got {shown(name)}.",
                argument=argument,
                column=name,
            )


def unit_of(table: "pa.Table", name: str) -> str | None:
    """Return the unit of a timestamp column, or None for an integer column."""
    pa = pyarrow()
    kind = table.schema.field(name).type
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    if pa.types.is_integer(kind):
        return None
    raise KindError(
        f"time must be a column of timestamps or integers, got {shown(name)} of {kind}.", argument="time", column=name
    )


def ticks(table: "pa.Table", name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return a column of times as int64, and the mask of its nulls or None."""
    pa = pyarrow()
    column = table.column(name)
    found = words_of(column)
    if found is not None:
        return found
    nulls = np.asarray(column.is_null(), dtype=bool) if column.null_count else None
    try:
        words = column.cast(pa.int64()) if column.type != pa.int64() else column
    except pa.ArrowInvalid as error:  # unsigned
        raise ArgumentError(
            f"time must fit int64, got a column {shown(name)} that does not: {shown(error)}.",
            argument="time",
            column=name,
        ) from None
    if nulls is not None:
        words = words.fill_null(0)
    return np.ascontiguousarray(words.to_numpy()), nulls


def words_of(column: "pa.ChunkedArray") -> tuple[NDArray[np.int64], NDArray[np.bool_] | None] | None:
    """Return a column of 64-bit values as they lie in memory, and the mask of its nulls or None.

    Nulls are 0. None if they are not 64 bits wide, or in several chunks: a small batch has one, and Arrow's own
    conversions would take longer than all else that is done with it.
    """
    if column.num_chunks != 1 or column.type.id not in _ids("INT64", "DOUBLE", "TIMESTAMP"):
        return None
    chunk = column.chunk(0)
    data = chunk.buffers()[1]
    if data is None:
        return None
    words = np.frombuffer(data, dtype=np.int64, count=len(chunk), offset=8 * chunk.offset)
    if not chunk.null_count:
        return words, None
    nulls = np.asarray(chunk.is_null(), dtype=bool)
    return np.where(nulls, 0, words), nulls


@cache
def _ids(*names: str) -> frozenset[int]:
    """Return the numbers of Arrow types by their names: a type itself is hashed as text, which takes longer."""
    return frozenset(getattr(pyarrow().lib, f"Type_{name}") for name in names)


def is_view(kind: "pa.DataType") -> bool:
    """Return whether values of a type are views of text or bytes, with which Arrow can do little."""
    return kind.id in _ids("STRING_VIEW", "BINARY_VIEW")


def is_stored_as(kind: "pa.DataType", number: str) -> bool:
    """Return whether a column of a type is an array of int64 or float64 in memory."""
    return kind.id in _ids("INT64" if number == "int64" else "DOUBLE")


def keys_of(table: "pa.Table", names: Sequence[str]) -> tuple[Any, Any]:
    """Return the key columns as two capsules of the Arrow C data interface, or None twice if there are none."""
    if not names:
        return None, None
    pa = pyarrow()
    if all(_is_plain_key(table.schema.field(name).type) for name in names):
        batches = table.select(names).to_batches()
        if len(batches) == 1:  # as it lies in memory
            schema, array = batches[0].__arrow_c_array__()
            return schema, array
    columns = [_plain_key(table.column(name), name) for name in names]
    batch = pa.RecordBatch.from_arrays(columns, names=list(names))
    schema, array = batch.__arrow_c_array__()
    return schema, array


def _is_plain_key(kind: "pa.DataType") -> bool:
    """Return whether keys of this type are read as they are."""
    return kind.id in _ids(*_PLAIN_KEYS)


def _plain_key(column: "pa.ChunkedArray", name: str) -> "pa.Array":
    """Return a key column as one array of a type whose values are equal if their bytes are."""
    column = plain(column)
    if pyarrow().types.is_floating(column.type):
        raise KindError(
            f"keys must not be floats because of NaN and rounding, got column {shown(name)} of {column.type}.",
            argument="keys",
            column=name,
        )
    return one_array(column)


def plain_kind(kind: "pa.DataType") -> "pa.DataType":
    """Return the type that `plain` turns a column of a type into."""
    pa = pyarrow()
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(kind), kind)


def plain(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Return a column without a dictionary, and with views as text or bytes."""
    pa = pyarrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_view(column.type):
        column = column.cast(pa.large_string() if str(column.type) == "string_view" else pa.large_binary())
    return column


def cast_exactly(column: "pa.ChunkedArray", kind: "pa.DataType") -> "pa.ChunkedArray | None":
    """Return a column in a type of the same family, or None if some of its values have no such form."""
    pa = pyarrow()
    if column.type == kind:
        return column
    try:
        if pa.types.is_null(column.type) or _family_of(column.type) == _family_of(kind):
            return column.cast(kind)  # which refuses to lose anything
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return None


def _family_of(kind: "pa.DataType") -> object:
    """Return what types must have in common for one to be cast to the other."""
    pa = pyarrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind):
        return "timestamp", kind.tz is None
    names = {"large_string": "string", "string_view": "string", "large_binary": "binary", "binary_view": "binary"}
    return names.get(str(kind), str(kind))


def row_hashes(columns: Sequence["pa.Array"], rows: int) -> NDArray[np.uint64]:
    """Return a hash of the bytes that each row has in some columns, the same in every process."""
    names = [str(place) for place in range(len(columns))]
    schema, array = pyarrow().RecordBatch.from_arrays(columns, names).__arrow_c_array__()
    hashes = np.empty(rows, dtype=np.uint64)
    _core.hashes(schema, array, hashes)
    return hashes


def is_bytewise(kind: "pa.DataType") -> bool:
    """Return whether the core can compare values of a type by their bytes."""
    is_a = pyarrow().types
    plain = is_a.is_integer(kind) or is_a.is_boolean(kind) or is_a.is_null(kind) or is_a.is_decimal(kind)
    timely = is_a.is_date(kind) or is_a.is_time(kind) or is_a.is_timestamp(kind)
    return bool(plain or timely or _is_text(kind) or is_a.is_fixed_size_binary(kind))


def with_columns(table: "pa.Table", columns: dict[str, Any]) -> "pa.Table":
    """Return a table with columns appended."""
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def stacked(columns: Sequence["pa.Array"]) -> "pa.ChunkedArray":
    """Return the concatenation of columns; those of the null type take the type of the others."""
    pa = pyarrow()
    kind = next((column.type for column in columns if not pa.types.is_null(column.type)), pa.null())
    return pa.chunked_array([pa.nulls(len(c), kind) if pa.types.is_null(c.type) else c for c in columns], type=kind)


def spread(column: "pa.Array", there: NDArray[np.bool_]) -> "pa.Array":
    """Return a column whose values fill the rows where `there` is true, and null elsewhere."""
    return column.take(pyarrow().array(np.cumsum(there) - 1, mask=~there))


def minus(ticks: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return times minus a size, clipped at the smallest int64."""
    floor = np.iinfo(np.int64).min
    early = ticks < floor + size
    return np.where(early, floor, ticks - np.where(early, 0, size))


def plus(ticks: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return times plus a size, clipped at the largest int64."""
    ceiling = np.iinfo(np.int64).max
    beyond = ticks > ceiling - size
    return np.where(beyond, ceiling, ticks + np.where(beyond, 0, size))


def evaluated(table: "pa.Table", what: "str | Expression") -> "pa.ChunkedArray":
    """Return a column by its name, or the value of an expression over the table's columns."""
    if isinstance(what, str):
        return table.column(what)
    pa = pyarrow()
    try:
        import pyarrow.dataset as dataset

        return dataset.dataset(table).to_table(columns={"value": what}).column("value")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, KeyError) as error:
        raise ArgumentError(
            f'retract must be a boolean column or an expression such as pc.field("op") == "delete", '
            f"got {shown(what)}: {shown(error)}.",
            argument="retract",
        ) from None


def times_of(ticks: NDArray[np.int64], kind: "pa.DataType", nulls: NDArray[np.bool_] | None = None) -> "pa.Array":
    """Return ticks as a column of times."""
    pa = pyarrow()
    column = pa.array(ticks, mask=nulls if nulls is not None and nulls.any() else None)
    return column.view(kind) if pa.types.is_timestamp(kind) else column


def time_kind(kind: "pa.DataType") -> "pa.DataType":
    """Return the type of result times: that of the time column, or int64 for integers."""
    pa = pyarrow()
    return kind if pa.types.is_timestamp(kind) else pa.int64()


# --- keys and ids ---------------------------------------------------------------------------------


def key_batch(engine: "_core.Keyed", table: "pa.Table", keys: Sequence[str], seq: int) -> "_core.KeyBatch":
    """Return the keys of a table's rows, as an engine numbers them; its first row has the place `seq` in the stream."""
    schema, array = keys_of(table, keys)
    return engine.batch(schema, array, table.num_rows, seq)


def anchor_keys(engine: "_core.Keyed", anchors: "_core.Anchors", kinds: list["pa.DataType"]) -> list["pa.Array"]:
    """Return the key columns of anchors."""
    pa = pyarrow()
    places, parts = engine.keys(anchors, key_widths(kinds))
    at = pa.array(np.frombuffer(places, dtype=np.int64))
    return [_key_column(kind, part).take(at) for kind, part in zip(kinds, parts, strict=True)]


def held_keys(engine: "_core.Keyed", kinds: list["pa.DataType"]) -> list["pa.Array"]:
    """Return the key columns of all keys that an engine holds."""
    _, _, parts = engine.held(key_widths(kinds))
    return [_key_column(kind, part) for kind, part in zip(kinds, parts, strict=True)]


def key_widths(kinds: list["pa.DataType"]) -> list[int]:
    """Return the bytes of a value of each key column, 0 for text."""
    return [_width(kind) for kind in kinds]


def key_kind(kind: "pa.DataType") -> "pa.DataType":
    """Return the type of a key column in the results."""
    return kind.value_type if pyarrow().types.is_dictionary(kind) else kind


def _is_text(kind: "pa.DataType") -> bool:
    is_a = pyarrow().types
    views = str(kind) in ("string_view", "binary_view")
    return bool(
        is_a.is_string(kind)
        or is_a.is_binary(kind)
        or is_a.is_large_string(kind)
        or is_a.is_large_binary(kind)
        or views
    )


def _width(kind: "pa.DataType") -> int:
    is_a = pyarrow().types
    if _is_text(kind) or is_a.is_null(kind):
        return 0
    return 1 if is_a.is_boolean(kind) else int(kind.bit_width) // 8


def _key_column(kind: "pa.DataType", parts: tuple[bytes, bytes, bytes]) -> "pa.Array":
    pa = pyarrow()
    there, values, offsets = parts
    count = len(there)
    if pa.types.is_null(kind):
        return pa.nulls(count)
    mask = np.frombuffer(there, dtype=np.uint8) == 0
    valid = None if not mask.any() else pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
    if pa.types.is_boolean(kind):
        return pa.array(np.frombuffer(values, dtype=np.uint8).astype(bool), mask=mask)
    if not _is_text(kind):
        return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(values)])
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers).cast(kind)


def ids_are_named(kind: "pa.DataType") -> bool:
    """Return whether the core stores ids of a type as bytes; all others are numbers."""
    return _is_text(kind) or bool(pyarrow().types.is_decimal(kind))


def ids_of(column: "pa.ChunkedArray") -> Any:
    """Return ids as numbers, or as offsets and bytes, in the order of the ids."""
    pa = pyarrow()
    kind = column.type
    if pa.types.is_decimal(kind):
        return _decimal_bytes(one_array(column))
    if _is_text(kind):
        text = one_array(column.cast(pa.large_binary()))
        _, offsets, data = text.buffers()
        where = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
        return np.ascontiguousarray(where), data or b""
    if pa.types.is_uint64(kind):
        return np.ascontiguousarray(column.to_numpy() - np.uint64(2**63)).view(np.int64)
    if pa.types.is_floating(kind):
        words = (column.cast(pa.float64()).to_numpy() + 0.0).view(np.int64)  # -0.0 is 0.0
        return np.where(words < 0, words ^ np.int64(2**63 - 1), words)
    if pa.types.is_boolean(kind):
        return np.ascontiguousarray(column.to_numpy().astype(np.int64))
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        if kind in (pa.date32(), pa.time32("s"), pa.time32("ms")):
            column = column.cast(pa.int32())
        return np.ascontiguousarray(column.cast(pa.int64()).to_numpy())
    raise KindError(f"id must be a column of numbers, text, dates, timestamps or decimals, got {kind}.", argument="id")


def one_array(column: "pa.ChunkedArray") -> "pa.Array":
    """Return a column as one contiguous array."""
    combined = column.combine_chunks()
    if not hasattr(combined, "chunks"):
        return combined
    return combined.chunk(0) if combined.num_chunks == 1 else pyarrow().concat_arrays(combined.chunks)


def _decimal_bytes(column: "pa.Array") -> tuple[NDArray[np.int64], bytes]:
    width = column.type.byte_width
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint8)[
        column.offset * width : (column.offset + len(column)) * width
    ]
    ordered = raw.reshape(-1, width)[:, ::-1].copy()  # big-endian with the sign bit flipped sorts as the numbers do
    ordered[:, 0] ^= 0x80
    return np.arange(len(column) + 1, dtype=np.int64) * width, ordered.tobytes()
