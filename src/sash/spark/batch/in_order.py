"""The rows of a partition in order, sorted here and not by Spark.

Spark sorts rows by comparing them one by one, which takes longer than all that follows; Arrow sorts columns, five times
as fast. Rows that do not fit into memory wait on disk, as runs that are sorted in themselves and read piece by piece.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PIECE = 2**18  # bytes of a run that are read at once, about
ROW = 32  # bytes that a row takes besides its own while it is sorted, or in the engine, about

Indices = NDArray[np.int64]


def that_fit(batches: Iterator[pa.RecordBatch], memory: int, row: int = ROW) -> tuple[list[pa.RecordBatch], bool]:
    """Take batches until they are more than fit into memory, and return them, and whether they are all.

    A row takes the bytes of `row` besides its own.
    """
    taken, size = [], 0
    for batch in batches:
        taken.append(batch)
        size += batch.nbytes + row * batch.num_rows
        if size > memory:
            return taken, False
    return taken, True


def in_order(batches: Iterator[pa.RecordBatch], by: Sequence[int], memory: int) -> Iterator[pa.Table]:
    """Yield the rows of batches in the order of some columns, nulls first; equal rows stay in their order."""
    taken, is_all = that_fit(batches, memory)
    if is_all:
        if taken:
            yield in_order_of(pa.Table.from_batches(taken), by)
        return
    with TemporaryFile(dir=_folder()) as file:
        disk, runs = _Disk(file, taken[0].schema), []
        while taken:
            runs.append(_Run(disk, disk.written(in_order_of(pa.Table.from_batches(taken), by))))
            taken.clear()  # before the next ones are there
            taken, _ = that_fit(batches, memory)
        yield from _merged(runs, by)


def in_order_of(rows: pa.Table, by: Sequence[int]) -> pa.Table:
    """Return the rows of a table in the order of columns, nulls first; equal rows stay in their order."""
    return rows.take(pa.array(_order(rows, by)))


def _order(rows: pa.Table, by: Sequence[int]) -> Indices:
    columns = []
    for column in (_sortable(rows.column(place)) for place in by):
        # Arrow puts nulls at the end, or somewhere else by an option that differs between its versions.
        columns += [column.is_valid(), column] if column.null_count else [column]
    table = pa.table(columns, names=[str(i) for i in range(len(columns))])
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    return np.asarray(order).astype(np.int64)


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column that Arrow can sort: of lists and structs, which ids may be, the ranks of the values."""
    if not pa.types.is_nested(column.type):
        return column
    keys = [_comparable(value) for value in column.to_pylist()]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.zeros(len(keys), dtype=np.int64)
    for before, after in pairwise(order):
        ranks[after] = ranks[before] + (keys[before] != keys[after])
    return pa.chunked_array([pa.array(ranks)])


def _comparable(value: Any) -> Any:
    """Return what compares as a value does, members one after the other and nulls first.

    >>> sorted([[2, None], [10], None, [2]], key=_comparable)
    [None, [2], [2, None], [10]]
    """
    if value is None:
        return (0,)
    members = list(value.values()) if isinstance(value, dict) else value
    return (1, [_comparable(member) for member in members] if isinstance(members, list) else value)


# --- on disk --------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    offset: int
    size: int


def _folder() -> str | None:
    """Return where Spark tells its workers to put such files, or None for the usual place."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return folder if os.path.isdir(folder) else None


class _Disk:
    """A file that has no name, so it is gone when it is closed, or when its process is."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file, self.schema = file, schema

    def written(self, rows: pa.Table) -> Iterable[_Piece]:
        """Write rows, and return where their pieces are."""
        most = max(1, rows.num_rows * PIECE // max(rows.nbytes, 1))
        pieces = []
        for batch in rows.combine_chunks().to_batches(max_chunksize=most):
            data = batch.serialize()
            pieces.append(_Piece(self._file.tell(), data.size))
            self._file.write(data)
        return pieces

    def read(self, piece: _Piece) -> pa.Table:
        """Return the rows of a piece."""
        self._file.seek(piece.offset)
        data = pa.py_buffer(self._file.read(piece.size))
        return pa.Table.from_batches([pa.ipc.read_record_batch(data, self.schema)])


class _Run:
    """Rows in order: the first of them in memory, the rest in pieces on disk."""

    def __init__(self, disk: _Disk, pieces: Iterable[_Piece]) -> None:
        self._disk, self._pieces = disk, deque(pieces)
        self.rows, self._piece_rows = disk.schema.empty_table(), 0

    @property
    def has_more(self) -> bool:
        """Whether there are rows on disk."""
        return bool(self._pieces)

    def fill(self) -> bool:
        """Read a piece if less than half of one is left, and return whether there are any rows."""
        while self._pieces and 2 * self.rows.num_rows <= self._piece_rows:
            piece = self._disk.read(self._pieces.popleft())
            self.rows, self._piece_rows = pa.concat_tables([self.rows, piece]), piece.num_rows
        return bool(self.rows.num_rows)


def _merged(runs: list[_Run], by: Sequence[int]) -> Iterator[pa.Table]:
    """Yield the rows of runs in order, some pieces at a time."""
    while runs := [run for run in runs if run.fill()]:
        joining, last = _next(runs, by)
        rows = pa.concat_tables([run.rows for run in joining])
        order = _order(rows, by)
        ends = np.cumsum([run.rows.num_rows for run in joining])
        if last is not None:  # rows behind its last one may come after rows that are on disk
            order = order[: np.flatnonzero(order == ends[joining.index(last)] - 1)[0] + 1]
        taken = np.bincount(np.searchsorted(ends, order, side="right"), minlength=len(joining))
        for run, count in zip(joining, taken.tolist(), strict=True):
            run.rows = run.rows.slice(count)
        yield rows.take(pa.array(order))


def _next(runs: list[_Run], by: Sequence[int]) -> tuple[list[_Run], _Run | None]:
    """Return the runs whose rows come next, and that one of them whose rows in memory end first, if more are on disk.

    Where rows came nearly in order, these are few, and no other is touched.
    """
    ends, of_run, is_last = [], [], []
    for i, run in enumerate(runs):
        ends.append(run.rows.slice(0, 1))
        of_run.append(i)
        is_last.append(False)
        if run.has_more:
            ends.append(run.rows.slice(run.rows.num_rows - 1))
            of_run.append(i)
            is_last.append(True)
    if not any(is_last):
        return runs, None
    order = _order(pa.concat_tables(ends), by).tolist()
    until = next(place for place, end in enumerate(order) if is_last[end])
    return [runs[i] for i in sorted(of_run[end] for end in order[:until])], runs[of_run[order[until]]]
