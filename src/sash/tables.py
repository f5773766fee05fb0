"""Tables on their way into the rolling engines and out again: pandas, polars, Arrow and dicts, all as Arrow."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.errors import ArgumentError, KindError, UnsupportedError, shown


def arrow() -> Any:
    """Give pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise UnsupportedError('This needs pyarrow, which is not installed; run pip install "sash[arrow]".') from error
    return pyarrow


def table_of(given: Any, argument: str) -> tuple[Any, Callable[[Any], Any]]:
    """Give a table as Arrow's, and the way back to the kind it was given as."""
    pa = arrow()
    if isinstance(given, pa.Table):
        return given, _same
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given]), _same
    if isinstance(given, dict):
        return pa.table(given), _same
    module = type(given).__module__.split(".")[0]
    if module == "pandas" and hasattr(given, "columns"):
        return pa.Table.from_pandas(given), lambda table: table.to_pandas().set_index(given.index)
    if module == "polars" and hasattr(given, "columns"):
        return given.to_arrow(), _to_polars
    raise KindError(
        f"{argument}: {shown(given)} is no table; give one of pandas, polars or Arrow, or a dict of columns."
    )


def _same(table: Any) -> Any:
    return table


def _to_polars(table: Any) -> Any:
    import polars

    return polars.from_arrow(table)


def require_columns(table: Any, names: list[str], argument: str) -> None:
    """Refuse a table that lacks a column."""
    for name in names:
        if name not in table.column_names:
            known = ", ".join(table.column_names)
            raise ArgumentError(f"{argument}: there is no column {shown(name)}; the table has {known}.")


def unit_of(table: Any, name: str) -> str | None:
    """Give the unit of a column of timestamps, or None where it is one of integers."""
    pa = arrow()
    kind = table.schema.field(name).type
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    if pa.types.is_integer(kind):
        return None
    raise KindError(f"time: the column {shown(name)} holds {kind}; give timestamps or integers.")


def ticks(table: Any, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Give a column of times as int64, and which of them are null."""
    pa = arrow()
    column = table.column(name)
    nulls = np.asarray(column.is_null(), dtype=bool) if column.null_count else None
    words = column.cast(pa.int64()) if column.type != pa.int64() else column
    if nulls is not None:
        words = words.fill_null(0)
    return np.ascontiguousarray(words.to_numpy()), nulls


def keys_of(table: Any, names: list[str]) -> tuple[Any, Any]:
    """Give the key columns by Arrow's C data interface: two capsules, or None twice where there are none."""
    if not names:
        return None, None
    pa = arrow()
    columns = [_plain_key(table.column(name)) for name in names]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    schema, array = batch.__arrow_c_array__()
    return schema, array


def _plain_key(column: Any) -> Any:
    """Give a key column as one array of a type whose bytes say whether two are equal."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        raise KindError(
            "keys: floats are no keys, because NaN and rounding make equal ones differ; give other columns."
        )
    if str(column.type) in ("string_view", "binary_view"):
        column = column.cast(pa.large_string() if str(column.type) == "string_view" else pa.large_binary())
    combined = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if hasattr(combined, "chunks"):
        combined = combined.chunk(0) if combined.num_chunks == 1 else pa.concat_arrays(combined.chunks)
    return combined


def with_columns(table: Any, columns: dict[str, Any]) -> Any:
    """Give a table with more columns behind its own."""
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def spread(column: Any, there: NDArray[np.bool_]) -> Any:
    """Give a column of those rows that are there as one of all rows, null where they are not."""
    return column.take(arrow().array(np.cumsum(there) - 1, mask=~there))
