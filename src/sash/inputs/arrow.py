"""Tables on their way into the rolling engines and out again: pandas, polars, Arrow and dicts, all as Arrow."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.errors import ArgumentError, KindError, UnsupportedError, shown


def pyarrow() -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise UnsupportedError('This needs pyarrow, which is not installed; run pip install "sash[arrow]".') from error
    return pyarrow


def table_of(given: Any, argument: str) -> tuple[Any, Callable[[Any, bool], Any]]:
    """Return a table as Arrow's, and the way back to the kind it was given as.

    The way back takes a table and whether its rows are those that were given, which then keep their index.
    """
    pa = pyarrow()
    if isinstance(given, pa.Table):
        return given, _same
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given]), _same
    if isinstance(given, dict):
        return pa.table(given), _same
    module = type(given).__module__.split(".")[0]
    if module == "pandas" and hasattr(given, "columns"):

        def to_pandas(table: Any, same_rows: bool) -> Any:
            return table.to_pandas().set_index(given.index) if same_rows else table.to_pandas()

        return pa.Table.from_pandas(given), to_pandas
    if module == "polars" and hasattr(given, "columns"):
        return given.to_arrow(), _to_polars
    raise KindError(
        f"{argument}: {shown(given)} is no table; give one of pandas, polars or Arrow, or a dict of columns."
    )


def _same(table: Any, same_rows: bool) -> Any:
    return table


def _to_polars(table: Any, same_rows: bool) -> Any:
    import polars

    return polars.from_arrow(table)


def require_columns(table: Any, names: Iterable[str], argument: str) -> None:
    """Refuse a table that lacks a column."""
    for name in names:
        if name not in table.column_names:
            known = ", ".join(table.column_names)
            raise ArgumentError(f"{argument}: there is no column {shown(name)}; the table has {known}.")


def unit_of(table: Any, name: str) -> str | None:
    """Return the unit of a column of timestamps, or None where it is one of integers."""
    pa = pyarrow()
    kind = table.schema.field(name).type
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    if pa.types.is_integer(kind):
        return None
    raise KindError(f"time: the column {shown(name)} holds {kind}; give timestamps or integers.")


def ticks(table: Any, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return a column of times as int64, and which of them are null."""
    pa = pyarrow()
    column = table.column(name)
    nulls = np.asarray(column.is_null(), dtype=bool) if column.null_count else None
    words = column.cast(pa.int64()) if column.type != pa.int64() else column
    if nulls is not None:
        words = words.fill_null(0)
    return np.ascontiguousarray(words.to_numpy()), nulls


def keys_of(table: Any, names: Sequence[str]) -> tuple[Any, Any]:
    """Return the key columns by Arrow's C data interface: two capsules, or None twice where there are none."""
    if not names:
        return None, None
    pa = pyarrow()
    columns = [_plain_key(table.column(name)) for name in names]
    batch = pa.RecordBatch.from_arrays(columns, names=list(names))
    schema, array = batch.__arrow_c_array__()
    return schema, array


def _plain_key(column: Any) -> Any:
    """Return a key column as one array of a type whose bytes say whether two are equal."""
    pa = pyarrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        raise KindError(
            "keys: floats are no keys, because NaN and rounding make equal ones differ; give other columns."
        )
    if str(column.type) in ("string_view", "binary_view"):
        column = column.cast(pa.large_string() if str(column.type) == "string_view" else pa.large_binary())
    return one_array(column)


def with_columns(table: Any, columns: dict[str, Any]) -> Any:
    """Return a table with more columns behind its own."""
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def stacked(columns: Sequence[Any]) -> Any:
    """Return columns one below the other; those of nothing but nulls take the type of the others."""
    pa = pyarrow()
    kind = next((column.type for column in columns if not pa.types.is_null(column.type)), pa.null())
    return pa.chunked_array([pa.nulls(len(c), kind) if pa.types.is_null(c.type) else c for c in columns], type=kind)


def spread(column: Any, there: NDArray[np.bool_]) -> Any:
    """Return a column of those rows that are there as one of all rows, null where they are not."""
    return column.take(pyarrow().array(np.cumsum(there) - 1, mask=~there))


def minus(ticks: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return times so much earlier, but none before the first that there is."""
    floor = np.iinfo(np.int64).min
    early = ticks < floor + size
    return np.where(early, floor, ticks - np.where(early, 0, size))


def evaluated(table: Any, what: Any) -> Any:
    """Return a column by its name, or by an expression over the table's columns."""
    if isinstance(what, str):
        return table.column(what)
    pa = pyarrow()
    try:
        import pyarrow.dataset as dataset

        return dataset.dataset(table).to_table(columns={"value": what}).column("value")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, KeyError) as error:
        raise ArgumentError(
            f"retract: {shown(what)} cannot be worked out for this table: {shown(error)}; "
            'give a column of booleans, or an expression such as pc.field("op") == "delete".'
        ) from None


def times_of(ticks: NDArray[np.int64], kind: Any, nulls: NDArray[np.bool_] | None = None) -> Any:
    """Return ticks as a column of times."""
    pa = pyarrow()
    column = pa.array(ticks, mask=nulls if nulls is not None and nulls.any() else None)
    return column.view(kind) if pa.types.is_timestamp(kind) else column


def time_kind(kind: Any) -> Any:
    """Return the type of times that are made here: that of the column, or int64 where they are integers."""
    pa = pyarrow()
    return kind if pa.types.is_timestamp(kind) else pa.int64()


# --- keys and ids ---------------------------------------------------------------------------------


def anchor_keys(engine: Any, kinds: list[Any], rows: int) -> list[Any]:
    """Return the key columns of an engine's anchors."""
    pa = pyarrow()
    places = np.empty(rows, dtype=np.int64)
    parts = engine.keys([_width(kind) for kind in kinds], places)
    return [_key_column(kind, part).take(pa.array(places)) for kind, part in zip(kinds, parts, strict=True)]


def key_kind(kind: Any) -> Any:
    """Return the type of a key column as it comes out again."""
    return kind.value_type if pyarrow().types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    is_a = pyarrow().types
    views = str(kind) in ("string_view", "binary_view")
    return bool(
        is_a.is_string(kind)
        or is_a.is_binary(kind)
        or is_a.is_large_string(kind)
        or is_a.is_large_binary(kind)
        or views
    )


def _width(kind: Any) -> int:
    is_a = pyarrow().types
    if _is_text(kind) or is_a.is_null(kind):
        return 0
    return 1 if is_a.is_boolean(kind) else int(kind.bit_width) // 8


def _key_column(kind: Any, parts: tuple[bytes, bytes, bytes]) -> Any:
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


def ids_are_named(kind: Any) -> bool:
    """Return whether ids of a type are bytes to the core; all others are numbers."""
    return _is_text(kind) or bool(pyarrow().types.is_decimal(kind))


def ids_of(column: Any) -> Any:
    """Return ids as numbers, or as offsets and bytes, that are ordered as the ids are."""
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
    raise KindError(f"id: a column of {kind} identifies nothing; give numbers, text, dates, timestamps or decimals.")


def one_array(column: Any) -> Any:
    """Return a column in one piece."""
    combined = column.combine_chunks()
    if not hasattr(combined, "chunks"):
        return combined
    return combined.chunk(0) if combined.num_chunks == 1 else pyarrow().concat_arrays(combined.chunks)


def _decimal_bytes(column: Any) -> tuple[Any, bytes]:
    width = column.type.byte_width
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint8)[
        column.offset * width : (column.offset + len(column)) * width
    ]
    ordered = raw.reshape(-1, width)[:, ::-1].copy()  # the greatest byte first, and negative ones before
    ordered[:, 0] ^= 0x80
    return np.arange(len(column) + 1, dtype=np.int64) * width, ordered.tobytes()
