"""Columns of the rows that are needed again, by the rows' places in the stream.

They are stored in segments, in stream order. Small neighbors are merged as they grow, so that a row is copied about
log(segment size) times and there are few segments. A segment whose rows have all expired is dropped as a whole; one
that a row from far ahead keeps alive is rewritten once enough of its rows have expired.
"""

import struct
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.errors import CorruptStateError, InvariantError, shown
from sash.inputs import arrow

CAP = 2**18  # rows of a segment: as many as a push may copy at once, and few segments for millions of rows
SPARE = 1024  # rows that have expired and are not worth a copy
_BYTES = 2**26  # of segments that are joined: far below what one array of text can hold
_SEGMENTS = 32  # more than the logarithm of a segment's rows, which is how many small ones there are
_RUNS = 64  # of neighbouring rows that are sliced; more of them are gathered, which costs more for each segment
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class RetainedRows:
    """Some columns of the rows that are kept: keys, time, id, what a row carries, and what Python aggregates."""

    def __init__(self, columns: list[str], schema: Any, cap: int = CAP, spare: int = SPARE) -> None:
        pa = arrow.pyarrow()
        self.columns = columns
        self.schema = pa.schema([schema.field(name) for name in columns])
        self._dictionaries = any(map(pa.types.is_dictionary, self.schema.types))
        self.copied = 0  # rows, each time that they were; by this the tests see what calls cost
        self._cap, self._spare = cap, spare
        self._segments: list[Segment] = []
        self._firsts: NDArray[np.int64] | None = None  # where segments start; None when they have changed
        self._bound = _LOWEST  # rows at or before it may go
        self._next = _HIGHEST  # a bound below this changes nothing

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return sum(segment.nbytes for segment in self._segments)

    @property
    def rows_held(self) -> int:
        """How many rows there are, those included that have expired and were not let go of."""
        return sum(len(segment) for segment in self._segments)

    # --- rows in ----------------------------------------------------------------------------------

    def add(self, table: Any, first: int, keep: NDArray[np.bool_], times: NDArray[np.int64]) -> None:
        """Keep the rows of a batch that were taken; costs about their number, as a mean over many calls."""
        if not self.columns or not keep.any():
            return
        seqs, times = first + np.flatnonzero(keep), times[keep]
        self._bound = min(self._bound, int(times.min()) - 1)  # `drop_before` may have gone further
        self._extend(self._kept(table, keep), seqs, times)

    def mark(self) -> Any:
        """Return what `back_to` needs to undo all that comes after."""
        return list(self._segments), self._firsts, self._bound, self._next

    def back_to(self, mark: Any) -> None:
        """Undo all that came after a mark."""
        self._segments, self._firsts, self._bound, self._next = mark

    def adopt(self, other: "RetainedRows") -> None:
        """Keep the rows of another, some of whose columns had no type."""
        for segment in other._segments if self.columns else ():
            table = arrow.pyarrow().Table.from_batches([segment.batch]).cast(self.schema)
            self._extend(table, segment.seqs, segment.times)
        self._bound = other._bound

    def _kept(self, table: Any, keep: NDArray[np.bool_]) -> Any:
        """Return the rows and columns to keep, in the types of the first batch."""
        kept = table.select(self.columns).replace_schema_metadata(None)
        if not keep.all():
            kept = kept.filter(arrow.pyarrow().array(keep))
            self.copied += kept.num_rows
        return kept if kept.schema.equals(self.schema, check_metadata=True) else kept.cast(self.schema)

    def _extend(self, table: Any, seqs: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        start = 0
        if table.column(0).num_chunks > 1:
            table = _combined(table)
            self.copied += table.num_rows
        for batch in table.to_batches(max_chunksize=self._cap):
            stop = start + batch.num_rows
            self._append(Segment(batch, seqs[start:stop], times[start:stop]))
            start = stop

    def _append(self, segment: "Segment") -> None:
        """Put a segment at the end, joined with those before it that are no larger than all that follows them."""
        at, rows, size = len(self._segments), len(segment), segment.nbytes
        while at and len(self._segments[at - 1]) <= rows and self._fits(self._segments[at - 1], rows, size):
            at -= 1
            rows, size = rows + len(self._segments[at]), size + self._segments[at].nbytes
        joined = self._joined([*self._segments[at:], segment])
        self._segments[at:], self._firsts = joined, None
        self._next = min([self._next, *(one.due for one in joined)])

    def _fits(self, segment: "Segment", rows: int, size: int) -> bool:
        return not segment.alone and len(segment) + rows <= self._cap and segment.nbytes + size <= _BYTES

    def _joined(self, group: list["Segment"]) -> list["Segment"]:
        """Return neighbours as one segment, or each by itself where Arrow cannot put them together."""
        pa = arrow.pyarrow()
        try:
            return self._copy(group)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # dictionaries that are too large for their index type
            apart = [copy for segment in group for copy in self._copy([segment])]
        for segment in apart:
            segment.alone = True
        return apart

    def _copy(self, group: list["Segment"]) -> list["Segment"]:
        """Return what has not expired of neighbours as one segment in memory of its own, or none."""
        live = [segment.after(self._bound) for segment in group]
        self.copied += sum(len(new) for new, old in zip(live, group, strict=True) if new is not old)
        seqs = np.concatenate([segment.seqs for segment in live])
        if not len(seqs):
            return []
        (batch,) = _stacked([segment.batch for segment in live]).combine_chunks().to_batches()
        self.copied += len(seqs)
        return [Segment(self._lean(batch), seqs, np.concatenate([segment.times for segment in live]))]

    def _lean(self, batch: Any) -> Any:
        return _lean(batch) if self._dictionaries else batch

    # --- rows out ---------------------------------------------------------------------------------

    def rows(self, seqs: NDArray[np.int64]) -> Any:
        """Return rows by their places in the stream; costs about their number and that of the segments they are in."""
        return self.values(self.columns, seqs)

    def values(self, names: list[str], seqs: NDArray[np.int64]) -> Any:
        """Return some columns of rows by their places in the stream."""
        pa = arrow.pyarrow()
        if not len(seqs):
            return pa.schema([self.schema.field(name) for name in names]).empty_table()
        where, at = self._found(seqs)
        self.copied += len(seqs)
        edges = _edges((where[1:] != where[:-1]) | (at[1:] - at[:-1] != 1))
        if len(edges) <= _RUNS + 1:
            return self._sliced(names, where, at, edges)
        try:
            return self._gathered(names, where, at)
        except pa.ArrowInvalid:  # dictionaries that are too large for their index type: they stay in pieces
            return self._sliced(names, where, at, edges)

    def _found(self, seqs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the segment that each row is in, and its place there."""
        if self._firsts is None:
            self._firsts = np.fromiter((segment.first for segment in self._segments), dtype=np.int64)
        where = self._firsts.searchsorted(seqs, side="right") - 1
        at = np.empty(len(seqs), dtype=np.int64)
        for segment, group in _groups(where):
            if segment < 0:
                raise _missing(int(seqs[group][0]))
            at[group] = self._segments[segment].places(seqs[group])
        return where, at

    def _sliced(self, names: list[str], where: NDArray[np.int64], at: NDArray[np.int64], edges: list[int]) -> Any:
        """Return rows that are in a few runs of neighbours, or alone."""
        found = zip(where[edges[:-1]].tolist(), at[edges[:-1]].tolist(), pairwise(edges), strict=True)
        runs = [self._segments[segment].batch.slice(start, j - i) for segment, start, (i, j) in found]
        return _combined(_stacked([self._lean(run) for run in runs]).select(names))

    def _gathered(self, names: list[str], where: NDArray[np.int64], at: NDArray[np.int64]) -> Any:
        """Return rows that are all over the place: those of each segment together, and then in the order asked for."""
        pa = arrow.pyarrow()
        groups = _groups(where)
        pieces = [self._segments[s].batch.select(names).take(pa.array(at[group])) for s, group in groups]
        table = pa.Table.from_batches(map(self._lean, pieces))
        if isinstance(groups[0][1], slice):  # they came segment by segment
            return table
        self.copied += 2 * len(at)
        back = np.argsort(np.concatenate([group for _, group in groups]))
        return table.combine_chunks().take(pa.array(back))

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places in the stream of all rows, ascending, and their times."""
        none = np.zeros(0, dtype=np.int64)
        seqs = np.concatenate([none, *(segment.seqs for segment in self._segments)])
        return seqs, np.concatenate([none, *(segment.times for segment in self._segments)])

    # --- rows that go -----------------------------------------------------------------------------

    def expire(self, bound: int) -> None:
        """Let go of rows at or before a time; of those that linger there are about as many as of others at most."""
        self._bound = bound
        if bound < self._next:
            return
        left = [segment for segment in self._segments if segment.newest > bound]
        stale = sum(len(segment) for segment in left if segment.due <= bound)
        if stale > self._spare + (sum(map(len, left)) - stale) // 4:
            left = [new for old in left for new in (self._copy([old]) if old.due <= bound else [old])]
        self._segments, self._firsts = self._fewer(left), None
        self._next = min((segment.next_after(bound) for segment in self._segments), default=_HIGHEST)

    def keep(self, seqs: NDArray[np.int64]) -> None:
        """Let go of all rows but those at some places in the stream; costs about the number that is held."""
        kept = np.sort(seqs)
        left = [segment.only(kept) for segment in self._segments]
        self.copied += sum(map(len, left))
        self._segments, self._firsts = self._fewer([segment for segment in left if len(segment)]), None

    def _fewer(self, segments: list["Segment"]) -> list["Segment"]:
        """Return segments as they are, or joined where many have become small.

        Half of what was held has gone by then since the last time, so a row that goes pays for a row that is copied.
        """
        rows, size = sum(map(len, segments)), sum(segment.nbytes for segment in segments)
        small = sum(not segment.alone for segment in segments)
        if small <= 4 * (rows // self._cap + size // _BYTES) + _SEGMENTS:
            return segments
        return [new for group in self._grouped(segments) for new in (self._joined(group) if len(group) > 1 else group)]

    def _grouped(self, segments: list["Segment"]) -> list[list["Segment"]]:
        groups: list[list[Segment]] = []
        rows = size = 0
        for segment in segments:
            if groups and not groups[-1][0].alone and self._fits(segment, rows, size):
                groups[-1].append(segment)
            else:
                groups.append([segment])
                rows = size = 0
            rows, size = rows + len(segment), size + segment.nbytes
        return groups

    # --- bytes ------------------------------------------------------------------------------------

    def to_bytes(self, schema: Any) -> bytes:
        """Return what is held, and the schema of batches, as Arrow's own bytes."""
        pa = arrow.pyarrow()
        sink = pa.BufferOutputStream()
        own = self._shape()
        with pa.ipc.new_stream(sink, own) as writer:
            for segment in (one.after(self._bound) for one in self._segments):
                arrays = [pa.array(segment.seqs), pa.array(segment.times), *segment.batch.columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=own))
        shape: bytes = schema.serialize().to_pybytes()
        return struct.pack("<Q", len(shape)) + shape + bytes(sink.getvalue().to_pybytes())

    @staticmethod
    def parts(data: Any) -> tuple[Any, Any]:
        """Return the schema of batches, and what was held."""
        pa = arrow.pyarrow()
        try:
            (length,) = struct.unpack_from("<Q", data)
            schema = pa.ipc.read_schema(pa.py_buffer(data[8 : 8 + length]))
            return schema, pa.ipc.open_stream(pa.py_buffer(data[8 + length :])).read_all()
        except (pa.ArrowException, struct.error, OSError) as error:
            raise CorruptStateError(f"data must hold readable rows: {shown(error)}.", argument="data") from None

    def restore(self, kept: Any) -> None:
        """Restore saved rows, or raise if they are damaged."""
        self._require_shape(kept)
        seqs, times = kept.column(0).to_numpy(), kept.column(1).to_numpy()
        if (seqs[1:] <= seqs[:-1]).any():  # their differences may overflow
            raise CorruptStateError("data must hold rows in stream order.", argument="data")
        if self.columns and len(seqs):
            table = kept.select(list(range(2, kept.num_columns))).replace_schema_metadata(None)
            self._extend(table.cast(self.schema), seqs, times)

    def _shape(self) -> Any:
        """Return the schema of what is written: places, times, and then the columns."""
        pa = arrow.pyarrow()
        own = [(field.name, field.type) for field in self.schema]
        return pa.schema([("seq", pa.int64()), ("ticks", pa.int64()), *own])

    def _require_shape(self, kept: Any) -> None:
        """Refuse columns that are not those that are held, and arrays that are not what they say."""
        pa = arrow.pyarrow()
        shape = self._shape()
        if not kept.schema.equals(shape):  # not by its names: those in crafted bytes need not be text
            raise CorruptStateError(
                f"data must hold the columns {shown(shape)}, got {shown(kept.schema)}.", argument="data"
            )
        try:
            kept.validate(full=True)
        except pa.ArrowException as error:
            raise CorruptStateError(f"data must hold valid columns: {shown(error)}.", argument="data") from None
        required = [0, 1, *(i for i, field in enumerate(self.schema, 2) if not field.nullable)]
        if any(kept.column(i).null_count for i in required):
            raise CorruptStateError(
                "data must hold a place, a time and every required column for each row.", argument="data"
            )


class Segment:
    """Rows one after another in the stream, perhaps with gaps; there is at least one."""

    def __init__(self, batch: Any, seqs: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        self.batch, self.seqs, self.times = batch, seqs, times
        self.first = int(seqs[0]) if len(seqs) else 0
        self.alone = False  # not to be joined with others

    def __len__(self) -> int:
        return len(self.seqs)

    @cached_property
    def newest(self) -> int:
        """The bound at which all rows have expired."""
        return int(self.times.max())

    @cached_property
    def due(self) -> int:
        """The bound at which a quarter of the rows has expired, and before which less has."""
        at = (len(self) - 1) // 4
        return int(np.partition(self.times, at)[at])

    @cached_property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        size = self.batch.get_total_buffer_size()  # that of a slice counts all of what it was cut from
        return int(size if size <= _BYTES else self.batch.nbytes) + 16 * len(self)

    def next_after(self, bound: int) -> int:
        """Return the next bound at which there is something to do."""
        return self.due if self.due > bound else self.newest

    def after(self, bound: int) -> "Segment":
        """Return the rows after a time."""
        keep = self.times > bound
        if keep.all():
            return self
        return Segment(self.batch.filter(arrow.pyarrow().array(keep)), self.seqs[keep], self.times[keep])

    def only(self, kept: NDArray[np.int64]) -> "Segment":
        """Return the rows at some places in the stream, which are in order."""
        at = kept.searchsorted(self.seqs)
        keep = kept.take(at, mode="clip") == self.seqs if len(kept) else np.zeros(len(self), dtype=bool)
        return Segment(self.batch.filter(arrow.pyarrow().array(keep)), self.seqs[keep], self.times[keep])

    def places(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where rows are in it, by their places in the stream."""
        if int(self.seqs[-1]) - self.first == len(self) - 1:  # there are no gaps
            at = wanted - self.first
            outside = (at < 0) | (at >= len(self))
            if outside.any():
                raise _missing(int(wanted[outside][0]))
            return at
        at = self.seqs.searchsorted(wanted)
        found = self.seqs.take(at, mode="clip") == wanted
        if not found.all():
            raise _missing(int(wanted[~found][0]))
        return at


def _missing(seq: int) -> InvariantError:
    return InvariantError(f"held: the row at place {seq} of the stream is not there; this is a mistake in sash itself.")


def _edges(changes: NDArray[np.bool_]) -> list[int]:
    """Return where runs start, and the end, by whether each next element begins a new one."""
    return [0, *(changes.nonzero()[0] + 1).tolist(), len(changes) + 1]


def _groups(where: NDArray[np.int64]) -> list[tuple[int, Any]]:
    """Return each number that there is, ascending, and which elements have it, as slices where they ascend too."""
    order = np.argsort(where, kind="stable") if (where[1:] < where[:-1]).any() else None
    ascending = where if order is None else where[order]
    runs = [slice(i, j) for i, j in pairwise(_edges(ascending[1:] != ascending[:-1]))]
    return [(int(ascending[own.start]), own if order is None else order[own]) for own in runs]


def _stacked(batches: Sequence[Any]) -> Any:
    """Return a table of batches that Arrow must copy to combine; of a single one it would share the memory."""
    return arrow.pyarrow().Table.from_batches([batches[0].slice(0, 0), *batches])


def _combined(table: Any) -> Any:
    """Return a table in one piece where that can be."""
    try:
        return table.combine_chunks()
    except arrow.pyarrow().ArrowInvalid:  # dictionaries that are too large for their index type
        return table


def _lean(batch: Any) -> Any:
    """Return a batch whose dictionaries are not much larger than it: they would grow with every join."""
    pa = arrow.pyarrow()
    for i, kind in enumerate(batch.schema.types):
        if pa.types.is_dictionary(kind) and len(batch.column(i).dictionary) > 2 * batch.num_rows + SPARE:
            batch = batch.set_column(i, batch.schema.field(i), _used(batch.column(i)))
    return batch


def _used(column: Any) -> Any:
    """Return a column with only those entries of its dictionary that it uses, in their order."""
    pa = arrow.pyarrow()
    import pyarrow.compute as pc

    used = column.indices.drop_null().unique().sort()
    places = pc.index_in(column.indices, value_set=used).cast(column.type.index_type)
    return pa.DictionaryArray.from_arrays(places, column.dictionary.take(used), ordered=column.type.ordered)
