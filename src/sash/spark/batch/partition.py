"""One partition's rows, sorted by key and time, on their way through the engine; knows nothing of Spark.

Rows come in Arrow batches and are answered by `sash.rolling` some ten thousand at a time, many keys in one call. The
last key of such a stretch may go on in the next, so that those of its rows that later windows can still see are put in
front of it again: the context. A stretch is at least as long as its context, which makes the rows that are computed
twice as many as the rows at most, and what is held a few times the largest window of one key or the size of a stretch.

Rows of one key and time are in each other's windows; those at the end of a stretch wait until the next has begun.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.rolling import rolling

ROWS = 2**16  # of a stretch; fewer and the calls cost more than the rows, more and they leave the cache
BYTES = 2**26
RESULTS = 2**18  # of a stretch of boundaries, for a row can give thousands
_LOWEST = -(2**63)

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """Slide boundaries, in ticks of the time column."""

    every: int
    offset: int
    resolution: int
    largest: int

    def closed_at(self, time: int) -> int:
        """Give the last boundary that no row at or after a time can touch.

        >>> Grid(every=10, offset=3, resolution=1, largest=60).closed_at(42)
        33
        """
        pane = self._floor(time, self.resolution)
        return self._floor(pane, self.every)

    def needed_after(self, boundary: int) -> int:
        """Give the oldest time that boundaries after one can see."""
        return boundary + self.every - self.largest

    @property
    def most(self) -> int:
        """How many boundaries one row can touch."""
        return self.largest // self.every + 1

    def _floor(self, time: int, width: int) -> int:
        return time - (time - self.offset) % width


@dataclass(frozen=True)
class Question:
    """What is asked of a partition: the words of `sash.rolling`, and where its columns are."""

    keys: tuple[str, ...]
    time: str
    options: dict[str, Any]
    places: tuple[int, ...]  # of the columns that are read
    names: tuple[str, ...]  # their names
    results: Any  # the Arrow schema of the aggregates
    reach: int  # how far a window goes back, its own end included
    grid: Grid | None = None
    rows: int = ROWS  # of a stretch, at least

    def over(self, places: Iterable[int]) -> "Question":
        """Give the same question of rows that have the columns at other places."""
        return replace(self, places=tuple(places))

    def read(self, rows: pa.Table) -> pa.Table:
        """Give the columns that are read, by the names that the question has for them."""
        return rows.select(list(self.places)).rename_columns(list(self.names))

    def ask(self, read: pa.Table) -> pa.Table:
        """Give the answers to the rows of a stretch."""
        answers = rolling(read, keys=list(self.keys), time=self.time, **self.options)
        for field in self.results:
            at = answers.schema.get_field_index(field.name)
            if answers.schema.field(at).type != field.type:
                answers = answers.set_column(at, field, answers.column(at).cast(field.type))
        return answers


def answered(question: Question, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the answers to a partition, batch by batch."""
    stretch = Events(question) if question.grid is None else Boundaries(question, question.grid)
    for batch in batches:
        yield from stretch.take(batch)
    yield from stretch.end()


class Stretch:
    """Rows that wait to be answered, and the context of the first key among them."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.shape: Any = None  # the schema of batches
        self.waiting: list[pa.RecordBatch] = []
        self.rows, self.bytes = 0, 0  # that wait
        self.enough_rows, self.enough_bytes = question.rows, BYTES
        self.context: pa.Table | None = None

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add a batch, and give the answers that are due."""
        self.wait([batch])
        if self.rows >= self.enough_rows or self.bytes >= self.enough_bytes:
            yield from self.step(last=False)

    def end(self) -> Iterator[pa.RecordBatch]:
        """Give the answers to all that is left."""
        if self.rows or (self.context is not None and self.context.num_rows):
            yield from self.step(last=True)

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Answer what can be answered, and keep what later rows need."""
        raise NotImplementedError

    def wait(self, batches: list[pa.RecordBatch]) -> None:
        """Add batches to those that wait."""
        for batch in batches:
            self.shape = batch.schema
            self.waiting.append(batch)
            self.rows += batch.num_rows
            self.bytes += batch.nbytes

    def gathered(self) -> tuple[pa.Table, pa.Table]:
        """Give the rows that waited, and what is read of them with the context in front."""
        rows = pa.Table.from_batches(self.waiting, self.shape)
        read = self.question.read(rows)
        self.waiting, self.rows, self.bytes = [], 0, 0
        return rows, read if self.context is None else pa.concat_tables([self.context, read])

    def keep(self, context: pa.Table, waiting: list[pa.RecordBatch]) -> None:
        """Hold on to rows: those that were answered and are still seen, and those that go on waiting."""
        self.context = context.combine_chunks()
        self.wait(waiting)
        self.enough_rows = max(self.question.rows, context.num_rows, 2 * self.rows)
        self.enough_bytes = max(BYTES, context.nbytes, 2 * self.bytes)


class Events(Stretch):
    """Answers at each row: its own columns and the aggregates of the windows that end at it."""

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Answer all rows but those that the next batch may hold a tie of."""
        rows, read = self.gathered()
        before = read.num_rows - rows.num_rows
        times, there = _times(read, self.question.time)
        mine = same_key(read, self.question.keys, read.slice(read.num_rows - 1)) & there
        ties = mine & (times == times[-1])
        done = rows.num_rows if last or not there[-1] else rows.num_rows - int(ties.sum())
        if done:
            answers = self.question.ask(read.slice(0, before + done)).slice(before)
            yield from self._shown(rows.slice(0, done), answers)
        seen = mine & (times >= max(int(times[-1]) - self.question.reach, _LOWEST))
        seen[before + done :] = False
        self.keep(read.filter(pa.array(seen)), rows.slice(done).to_batches())

    def _shown(self, rows: pa.Table, answers: pa.Table) -> Iterator[pa.RecordBatch]:
        names = self.question.results.names
        columns = rows.columns + [answers.column(name) for name in names]
        yield from pa.table(columns, names=[*rows.column_names, *names]).to_batches()


class Boundaries(Stretch):
    """Answers at slide boundaries: the keys, the boundary and the aggregates of the windows that end at it."""

    def __init__(self, question: Question, grid: Grid) -> None:
        super().__init__(question)
        self.grid = grid
        self.until: int | None = None  # the last boundary that was given for the key of the context
        self.key: pa.Table | None = None
        self.due = 0  # how many boundaries the rows that wait have at most

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add a batch, in parts none of which has too many answers."""
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
        """Give how many boundaries each row adds to those of the row before it, at most."""
        read = self.question.read(pa.Table.from_batches([batch]))
        times, _ = _times(read, self.question.time)
        added = np.full(len(times), self.grid.most, dtype=np.int64)
        if len(times) > 1:
            gaps = np.diff(times.view(np.uint64))  # sorted, so that no gap is negative within a key
            new = np.minimum(gaps // np.uint64(self.grid.every) + np.uint64(1), np.uint64(self.grid.most))
            added[1:] = np.where(_goes_on(read, self.question.keys), new.astype(np.int64), self.grid.most)
        return added

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Answer the boundaries that no later row can touch."""
        question = self.question
        _, read = self.gathered()
        times, _ = _times(read, question.time)
        key, newest = read.slice(read.num_rows - 1), int(times[-1])
        until = self.grid.closed_at(newest)
        answers = question.ask(read)
        ends, _ = _times(answers, "window_end")
        wanted = np.ones(len(ends), dtype=bool)
        if self.until is not None:
            wanted &= ~same_key(answers, question.keys, self.key) | (ends > self.until)
        if not last:
            wanted &= ~same_key(answers, question.keys, key) | (ends <= until)
        yield from answers.filter(pa.array(wanted)).combine_chunks().to_batches(max_chunksize=ROWS)
        seen = same_key(read, question.keys, key) & (times >= max(self.grid.needed_after(until), _LOWEST))
        self.key, self.until, self.due = key, until, 0
        self.keep(read.filter(pa.array(seen)), [])


def _times(table: pa.Table, name: str) -> tuple[NDArray[np.int64], Mask]:
    """Give a column of times as ticks, and which of them are not null."""
    times, nulls = arrow.ticks(table, name)
    return times, np.ones(len(times), dtype=bool) if nulls is None else ~nulls


def same_key(table: pa.Table, keys: tuple[str, ...], row: Any) -> Mask:
    """Tell which rows have the keys of a table's only row; null is a key like others.

    >>> same_key(pa.table({"k": ["a", None, "b", None]}), ("k",), pa.table({"k": pa.array([None], "string")})).tolist()
    [False, True, False, True]
    """
    same = np.ones(table.num_rows, dtype=bool)
    for name in keys:
        column, value = table.column(name), row.column(name)[0]
        equal = pc.equal(column, value).fill_null(False) if value.is_valid else column.is_null()
        same &= np.asarray(equal, dtype=bool)
    return same


def _goes_on(table: pa.Table, keys: tuple[str, ...]) -> Mask:
    """Tell for each row but the first whether it has the keys of the row before it."""
    same = np.ones(table.num_rows - 1, dtype=bool)
    for name in keys:
        column = table.column(name)
        before, after = column.slice(0, table.num_rows - 1), column.slice(1)
        both_null = pc.and_(before.is_null(), after.is_null())
        same &= np.asarray(pc.or_(pc.equal(before, after).fill_null(False), both_null), dtype=bool)
    return same
