"""One partition's rows on their way through the engine; independent of Spark.

Rows come in Arrow batches, in any order, and are answered by `sash.rolling` in one call if they fit into memory. If
not, they are sorted by key and time, and answered in chunks of some ten thousand, many keys in one call. The last key
of a chunk may continue in the next one, so the rows of it that later windows can still see are put in front of the next
chunk: the context. A chunk is at least as long as its context, so at most twice the number of rows is computed, and
memory holds a few times the largest window of one key or the size of a chunk. Where a window is unbounded, the rows of
the last key that have been answered go on as their aggregate.

Rows with the same key and time are in each other's windows; those at the end of a chunk wait for the next one. So do
rows whose windows reach ahead of them, until the rows in these are there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.part import part_of
from sash.keyed.rolling import rolling
from sash.keyed.spec import Spec
from sash.spark.batch.in_order import ROW, in_order, in_order_of, that_fit
from sash.spark.batch.reach import Mask, Reach, inside

ROWS = 2**16  # of a chunk; with fewer the calls cost more than the rows, with more the rows leave the CPU cache
BYTES = 2**26
MEMORY = 2**27  # bytes of rows, and of what is computed for them, that are there at once
RESULTS = 2**18  # of a chunk of boundaries, because a row can give thousands


@dataclass(frozen=True)
class Request:
    """What a partition computes: the arguments of `sash.rolling`, and the positions of the columns it reads."""

    keys: tuple[str, ...]
    time: str
    options: dict[str, Any]
    places: tuple[int, ...]  # of the columns that are read
    names: tuple[str, ...]  # their names
    results: pa.Schema  # of the aggregates
    spec: Spec
    ids: tuple[int, ...] = ()  # the positions of what orders rows of equal times, where results depend on it
    rows: int = ROWS  # of a chunk, at least
    memory: int = MEMORY

    @property
    def makes_rows(self) -> bool:
        """Whether results are rows of their own, and not columns of the rows that come in."""
        return self.spec.every is not None or self.spec.gap is not None

    @property
    def result_bytes(self) -> int | None:
        """The bytes of the results of a row, or None if they are of any length."""
        return _width(pa.struct(self.results))

    @property
    def by(self) -> tuple[int, ...]:
        """The positions of keys and time."""
        places = dict(zip(self.names, self.places, strict=True))
        return tuple(places[name] for name in (*self.keys, self.time))

    def at_places(self, places: Iterable[int], ids: Iterable[int]) -> "Request":
        """Return the same request for rows that have the columns at other positions."""
        return replace(self, places=tuple(places), ids=tuple(ids))

    def read(self, rows: pa.Table) -> pa.Table:
        """Return the columns that are read, under their own names."""
        return rows.select(list(self.places)).rename_columns(list(self.names))

    def answer(self, read: pa.Table, **questions: Any) -> pa.Table:
        """Return the answers for the rows of a chunk, or for questions about them."""
        return self.typed(rolling(read, keys=list(self.keys), time=self.time, **questions, **self.options))

    def typed(self, answers: pa.Table) -> pa.Table:
        """Return answers with the types of the results."""
        for field in self.results:
            at = answers.schema.get_field_index(field.name)
            if answers.schema.field(at).type != field.type:
                answers = answers.set_column(at, field, answers.column(at).cast(field.type))
        return answers


def answers_of(request: Request, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the answers of a partition, batch by batch."""
    chunks = EventChunks(request) if request.spec.every is None else BoundaryChunks(request)
    yield from chunks.through(batches)


class Chunks:
    """Rows that wait to be answered, and the context of the first key among them."""

    at_once = True  # are there about as many answers as rows, so that all of them fit where these do?

    def __init__(self, request: Request) -> None:
        self.request, self.order = request, (*request.by, *request.ids)
        self.schema: pa.Schema | None = None  # of batches
        self.waiting: list[pa.RecordBatch] = []
        self.rows, self.bytes = 0, 0  # that wait
        self.enough_rows, self.enough_bytes = request.rows, BYTES
        self.context: pa.Table | None = None
        self.expired: pa.Table | None = None  # of the key of the context, where a window is unbounded
        self._reach: Reach | None = None

    @property
    def reach(self) -> Reach:
        """How far windows reach."""
        if self._reach is None:
            assert self.schema is not None
            empty = pa.Table.from_batches([], self.schema)
            self._reach = Reach.of(self.request.spec, self.request.read(empty).schema)
        return self._reach

    def through(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers for the rows of a partition, which may come in any order."""
        results, memory = self.request.result_bytes, self.request.memory
        if self.at_once and results is not None:
            taken, is_all = that_fit(batches, memory, ROW + results)
            if is_all:
                yield from self.whole(pa.Table.from_batches(taken)) if taken else ()
                return
            batches = chain(_given_away(taken), batches)
        for rows in in_order(batches, self.order, memory // 2):  # while they are sorted, they are there twice
            for batch in rows.combine_chunks().to_batches(max_chunksize=ROWS):
                yield from self.take(batch)
        yield from self.end()

    def whole(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the answers for rows in any order, which are all that there are."""
        raise NotImplementedError

    def told_apart(self, rows: pa.Table) -> pa.Table:
        """Return rows so that those of equal times are in the order of their ids."""
        return in_order_of(rows, self.request.ids) if self.request.ids else rows

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add a batch, and yield the answers that are due."""
        self.wait([batch])
        if self.rows >= self.enough_rows or self.bytes >= self.enough_bytes:
            yield from self.step(last=False)

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining answers."""
        if self.rows or (self.context is not None and self.context.num_rows):
            yield from self.step(last=True)

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Yield the answers that later rows cannot change, and keep the rows that later windows need."""
        raise NotImplementedError

    def wait(self, batches: list[pa.RecordBatch]) -> None:
        """Add batches to the waiting ones."""
        for batch in batches:
            self.schema = batch.schema
            self.waiting.append(batch)
            self.rows += batch.num_rows
            self.bytes += batch.nbytes

    def take_waiting(self) -> tuple[pa.Table, pa.Table]:
        """Remove and return the waiting rows, and the columns read of them with the context in front."""
        rows = pa.Table.from_batches(self.waiting, self.schema)
        read = self.request.read(rows)
        self.waiting, self.rows, self.bytes = [], 0, 0
        return rows, read if self.context is None else pa.concat_tables([self.context, read])

    def answered(
        self, read: pa.Table, key: pa.Table, times: NDArray[np.int64], of_key: Mask, anchor: int, new: int
    ) -> tuple[pa.Table, Mask]:
        """Return the answers for rows, and which rows of a key anchors from a time on can see.

        Rows of the key before `new` will not come any more; where a window is unbounded, they expire.
        """
        if not self.reach.unbounded:
            answers = self.request.answer(read) if read.num_rows else read
            return answers, self.reach.visible(times, of_key, anchor, new)
        part = part_of(read, self.request.spec, self.expired, self.reach.dropped_at(anchor, new), new)
        self.expired = part.expired_of(key)
        return self.request.typed(part.answers), of_key & part.holds(len(times))

    def keep(self, context: pa.Table, waiting: list[pa.RecordBatch]) -> None:
        """Keep answered rows that later windows can see, and rows that continue to wait."""
        self.context = context.combine_chunks()
        self.wait(waiting)
        self.enough_rows = max(self.request.rows, context.num_rows, 2 * self.rows)
        self.enough_bytes = max(BYTES, context.nbytes, 2 * self.bytes)


class EventChunks(Chunks):
    """Answers at each row: its own columns and the aggregates of the windows that end at it."""

    def whole(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their answers."""
        rows = self.told_apart(rows)
        yield from self._with_answers(rows, self.request.answer(self.request.read(rows)))

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Yield the answers of all rows except those that may have ties in the next batch."""
        rows, read = self.take_waiting()
        before = read.num_rows - rows.num_rows
        times, valid = times_in(read, self.request.time)
        of_last_key = same_key(read, self.request.keys, read.slice(read.num_rows - 1)) & valid
        waits = of_last_key & (times > int(times[-1]) - self.reach.ahead) & ~(last | ~valid[-1])
        waits[:before] = False
        done = before + rows.num_rows - int(waits.sum())
        seen = read if self.reach.ahead > 1 else read.slice(0, done)
        new = int(times[done]) if done < len(times) else inside(int(times[-1]) + 1)
        answers, visible = self.answered(seen, read.slice(read.num_rows - 1), times, of_last_key, new, new)
        if done > before:
            yield from self._with_answers(rows.slice(0, done - before), answers.slice(before, done - before))
        visible[done:] = False
        self.keep(read.filter(pa.array(visible)), rows.slice(done - before).to_batches())

    def _with_answers(self, rows: pa.Table, answers: pa.Table) -> Iterator[pa.RecordBatch]:
        names = self.request.results.names
        columns = rows.columns + [answers.column(name) for name in names]
        yield from pa.table(columns, names=[*rows.column_names, *names]).to_batches()


class BoundaryChunks(Chunks):
    """Answers at slide boundaries: the keys, the boundary and the aggregates of the windows that end at it."""

    at_once = False

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.until: int | None = None  # the last boundary that was answered for the key of the context
        self.key: pa.Table | None = None
        self.due = 0  # an upper bound on the boundaries of the waiting rows

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add a batch, in parts with a limited number of answers, and yield the answers that are due."""
        self.schema = batch.schema
        total = np.cumsum(self._boundaries(batch)) + self.due
        start = 0
        for stop in np.flatnonzero(np.diff(total // RESULTS, prepend=0)).tolist():
            self.wait([batch.slice(start, stop - start)])
            if self.rows:
                yield from self.step(last=False)
            start = stop
        self.due = int(total[-1] - (total[start - 1] if start else 0)) if len(total) else self.due
        yield from super().take(batch.slice(start))

    def _boundaries(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return an upper bound on the boundaries that each row adds to those of the row before it."""
        read = self.request.read(pa.Table.from_batches([batch]))
        times, _ = times_in(read, self.request.time)
        most, step = np.uint64(self.reach.most), np.uint64(self.reach.step)
        added = np.full(len(times), self.reach.most, dtype=np.int64)
        if len(times) > 1:
            gaps = np.diff(times.view(np.uint64))  # sorted, so that no gap is negative within a key
            new = np.minimum(gaps // step + np.uint64(1), most)
            added[1:] = np.where(_same_as_before(read, self.request.keys), new.astype(np.int64), self.reach.most)
        return added

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Yield the answers of the boundaries that no later row can change."""
        request = self.request
        _, read = self.take_waiting()
        times, _ = times_in(read, request.time)
        key, newest = read.slice(read.num_rows - 1), int(times[-1])
        until, of_key = self.reach.closed_at(newest), same_key(read, request.keys, key)
        answers, visible = self.answered(read, key, times, of_key, self.reach.next_after(until), until)
        ends, _ = times_in(answers, "window_end")
        due = np.ones(len(ends), dtype=bool)
        if self.until is not None and self.key is not None:
            due &= ~same_key(answers, request.keys, self.key) | (ends > self.until)
        if not last:
            due &= ~same_key(answers, request.keys, key) | (ends <= until)
        yield from answers.filter(pa.array(due)).combine_chunks().to_batches(max_chunksize=ROWS)
        self.key, self.until, self.due = key, until, 0
        self.keep(read.filter(pa.array(visible)), [])


def _given_away(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches and keep none of them."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _width(kind: pa.DataType) -> int | None:
    """Return the bytes of a value, or None if they are of any number.

    >>> _width(pa.int64()), _width(pa.struct({"n": pa.int32(), "ok": pa.bool_()})), _width(pa.list_(pa.int64()))
    (8, 5, None)
    """
    if pa.types.is_struct(kind):
        widths = [_width(field.type) for field in kind.fields]
        return None if None in widths else sum(width for width in widths if width is not None)
    return -(-kind.bit_width // 8) if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else None


def times_in(table: pa.Table, name: str) -> tuple[NDArray[np.int64], Mask]:
    """Return a column of times as ticks, and a mask of those that are not null."""
    times, nulls = arrow.ticks(table, name)
    return times, np.ones(len(times), dtype=bool) if nulls is None else ~nulls


def same_key(table: pa.Table, keys: tuple[str, ...], row: pa.Table) -> Mask:
    """Return a mask of the rows that have the keys of a table of one row; null equals null.

    >>> same_key(pa.table({"k": ["a", None, "b", None]}), ("k",), pa.table({"k": pa.array([None], "string")})).tolist()
    [False, True, False, True]
    """
    same = np.ones(table.num_rows, dtype=bool)
    for name in keys:
        column, value = table.column(name), row.column(name)[0]
        equal = pc.equal(column, value).fill_null(False) if value.is_valid else column.is_null()
        same &= np.asarray(equal, dtype=bool)
    return same


def _same_as_before(table: pa.Table, keys: tuple[str, ...]) -> Mask:
    """Return for each row but the first whether it has the keys of the row before it."""
    same = np.ones(table.num_rows - 1, dtype=bool)
    for name in keys:
        column = table.column(name)
        if pa.types.is_null(column.type):
            continue
        before, after = column.slice(0, table.num_rows - 1), column.slice(1)
        both_null = pc.and_(before.is_null(), after.is_null())
        same &= np.asarray(pc.or_(pc.equal(before, after).fill_null(False), both_null), dtype=bool)
    return same
