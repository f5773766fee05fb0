"""What deletes without ids compare besides the numbers that the core reads: a hash of the other aggregated columns.

The core reads a column as the aggregates need it, which may be less than its values: `count` reads nothing but whether
there is one, and what Python aggregates it does not read at all.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash.inputs import arrow

if TYPE_CHECKING:
    import pyarrow as pa


def is_exact(kind: str, column: "pa.DataType") -> bool:
    """Return whether the words of this kind that the core reads are equal only if the values of a column are."""
    is_a = arrow.pyarrow().types
    if kind == "int64":
        return bool(is_a.is_integer(column) or is_a.is_boolean(column) or is_a.is_null(column))
    return kind == "float64" and bool(is_a.is_floating(column) or is_a.is_null(column))


def hashes(table: "pa.Table", names: list[str]) -> NDArray[np.int64]:
    """Return a hash of the values that each row has in some columns, the same in every process."""
    columns = [_comparable(table.column(name)) for name in names]
    return arrow.row_hashes(columns, table.num_rows).view(np.int64)


def _comparable(column: "pa.ChunkedArray") -> "pa.Array":
    """Return a column as an array of a type whose values are equal if their bytes are."""
    pa = arrow.pyarrow()
    column = arrow.plain(column)
    if pa.types.is_floating(column.type):
        return _float_bits(arrow.one_array(column.cast(pa.float64())))
    if arrow.is_bytewise(column.type):
        return arrow.one_array(column)
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.large_string())


def _float_bits(column: "pa.Array") -> Any:
    """Return the bits of floats, with one NaN and one zero."""
    nulls = np.asarray(column.is_null(), dtype=bool)
    values = column.fill_null(0.0).to_numpy() + 0.0
    return arrow.pyarrow().array(np.where(np.isnan(values), np.nan, values).view(np.int64), mask=nulls)
