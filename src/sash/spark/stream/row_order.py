"""An order of rows that depends on nothing but the rows, whatever order a shuffle brings them in.

Two attempts of one task see the same rows in different orders. What they write must be the same all the same: a state
store may keep the writes of one and later continue with those of the other.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.spec import Spec

Hashes = NDArray[np.uint64]
_ODD = np.uint64(0x9E3779B97F4A7C15)  # spreads the places in a list over all bits
_EIGHT_BYTES = {pa.int64(), pa.uint64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")}
_AT_ONCE = 1 << 14  # rows
_WORDS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def in_order(table: pa.Table, times: NDArray[np.int64]) -> tuple[pa.Table, Hashes]:
    """Return the rows by time, those of one time by a hash of all their columns, and the hashes.

    >>> table = pa.table({"t": [2, 1, 2], "x": [1.0, None, 0.5]})
    >>> reversed_table = table.take(pa.array([2, 1, 0]))
    >>> one, hashes = in_order(table, np.array([2, 1, 2]))
    >>> other, same = in_order(reversed_table, np.array([2, 1, 2]))
    >>> one.equals(other), bool((hashes == same).all()), one["t"].to_pylist()
    (True, True, [1, 2, 2])
    """
    hashes = row_hashes(table)
    order = np.argsort(times, kind="stable")  # they are mostly sorted already
    same = times[order[1:]] == times[order[:-1]]
    if same.any():
        tied = np.append(same, False) | np.append(False, same)
        rows = order[tied]
        order[tied] = rows[np.lexsort((hashes[rows], times[rows]))]
    return table.take(pa.array(order)), hashes[order]


def deletes_last(table: pa.Table, spec: Spec) -> pa.Table:
    """Return the rows of a micro-batch in the order in which they are applied: without ids, inserts before deletes.

    They are stored so too, or a record might hold a delete, and a later one the insert that it removes.
    """
    if spec.id is not None or not isinstance(spec.retract, str):
        return table
    deletes = np.asarray(table.column(spec.retract).fill_null(False), dtype=bool)
    return table.take(pa.array(np.argsort(deletes, kind="stable"))) if deletes.any() else table


def row_hashes(table: pa.Table) -> Hashes:
    """Return a hash of each row, the same in every process."""
    if not table.num_columns:
        return np.zeros(table.num_rows, dtype=np.uint64)
    columns = [_whole(column) for column in table.columns]
    if all(column.type in _EIGHT_BYTES and not column.null_count for column in columns):
        return _word_hashes([np.asarray(column.view(pa.uint64())) for column in columns], table.num_rows)
    return _hashes(columns, table.num_rows)


def _word_hashes(columns: list[NDArray[np.uint64]], rows: int) -> Hashes:
    """Return a hash of each row of words without nulls, some of them at a time: they stay in the processor's cache."""
    hashes = np.zeros(rows, dtype=np.uint64)
    for start in range(0, rows, _AT_ONCE):
        part = hashes[start : start + _AT_ONCE]
        for column in columns:
            part ^= column[start : start + _AT_ONCE]
            part *= _ODD
            part ^= part >> np.uint64(32)
    return hashes


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, copied only where it has to be."""
    whole = column.num_chunks == 1 and column.chunk(0).offset == 0
    return column.chunk(0) if whole else column.combine_chunks()


def _hashes(columns: list[pa.Array], rows: int) -> Hashes:
    plain = [_plain(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column) for column in columns]
    return arrow.row_hashes(plain, rows)


def _plain(column: pa.Array) -> pa.Array:
    """Return a column of a type that the core hashes: numbers by their bits, nested values by a hash of their own."""
    kind = column.type
    if kind in _WORDS:
        return column.view(_WORDS[kind])
    if pa.types.is_duration(kind):
        return column.view(pa.int64())
    if pa.types.is_struct(kind):
        members = _hashes(column.flatten(), len(column)) if kind.num_fields else np.zeros(len(column), np.uint64)
        return _nullable(members, column)
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        return _nullable(_list_hashes(pa.ListArray.from_arrays(column.offsets, entries)), column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _nullable(_list_hashes(column), column)
    return column


def _list_hashes(column: pa.Array) -> Hashes:
    """Return a hash of each list: of its elements, and of where they stand in it."""
    offsets = np.asarray(column.offsets, dtype=np.int64)
    first, lengths = int(offsets[0]), np.diff(offsets)
    values = column.values.slice(first, int(offsets[-1]) - first)
    places = np.arange(len(values)) - np.repeat(offsets[:-1] - first, lengths)
    mixed = (_hashes([values], len(values)) ^ places.astype(np.uint64) * _ODD) * _ODD
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed ^ mixed >> np.uint64(29), dtype=np.uint64)])
    hashes: Hashes = sums[offsets[1:] - first] - sums[offsets[:-1] - first] + lengths.astype(np.uint64)
    return hashes


def _nullable(hashes: Hashes, column: pa.Array) -> pa.Array:
    """Return hashes as a column that is null where another is."""
    return pa.array(hashes.view(np.int64), mask=np.asarray(column.is_null(), dtype=bool))
