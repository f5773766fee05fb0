"""The sessions of a partition, chunk by chunk: keys, when they start and end, and the aggregates of their rows."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.spark.batch import partition
from sash.spark.batch.partition import Chunks, Request, same_key, times_in
from sash.spark.batch.session_order import groups_of, least_time

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class SessionChunks(Chunks):
    """Sessions of rows by key and time."""

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Yield the sessions that no later row can join."""
        request = self.request
        _, read = self.take_waiting()
        answers = request.answer(read)
        if last:
            yield from _batches(answers)
            self.keep(read.slice(read.num_rows), [])
            return
        times, _ = times_in(read, request.time)
        key = read.slice(read.num_rows - 1)
        starts, _ = times_in(answers, "session_start")
        is_open = same_key(answers, request.keys, key) & (_ends(answers) >= times[-1])
        yield from _batches(answers.filter(pa.array(~is_open)))
        joinable = same_key(read, request.keys, key) & (times >= starts[is_open].min())
        self.keep(read.filter(pa.array(joinable)), [])


class GroupedSessionChunks(Chunks):
    """Sessions of rows by groups of keys and, roughly, time; the last column says where a row stands."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.orders = np.zeros(0, dtype=np.int64)  # of the context
        self.group = -1  # of the context
        self.until = _LOWEST  # sessions of that group that end before it have been returned

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Yield the sessions of the groups that are complete, and of a large one those that no later row can join."""
        rows, read = self.take_waiting()
        orders = np.concatenate([self.orders, np.asarray(rows.column(rows.num_columns - 1), dtype=np.int64)])
        groups = groups_of(orders)
        newest = int(groups[-1])
        done = len(orders) if last else int(np.searchsorted(groups, newest))
        begun = min(int(np.searchsorted(groups, self.group, side="right")), done) if self.until > _LOWEST else 0
        yield from self._sessions(read.slice(0, begun), self.until, _HIGHEST)
        yield from self._sessions(read.slice(begun, done - begun), _LOWEST, _HIGHEST)
        if newest != self.group:
            self.group, self.until = newest, _LOWEST
        rest, orders = read.slice(done), orders[done:]
        if rest.num_rows > self.request.rows:
            bound = least_time(int(orders[-1]))
            answers = self.request.answer(rest)
            ends = _ends(answers)
            yield from _batches(answers.filter(pa.array((ends >= self.until) & (ends < bound))))
            starts, _ = times_in(answers, "session_start")
            first = starts[ends >= bound].min(initial=_HIGHEST)
            visible = times_in(rest, self.request.time)[0] >= first
            rest, orders, self.until = rest.filter(pa.array(visible)), orders[visible], max(self.until, bound)
        self.orders = orders
        self.keep(rest, [])

    def _sessions(self, read: pa.Table, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the sessions of rows that end from one time on, up to another."""
        if not read.num_rows:
            return
        answers = self.request.answer(read)
        if start > _LOWEST:
            ends = _ends(answers)
            answers = answers.filter(pa.array((ends >= start) & (ends <= stop)))
        yield from _batches(answers)


def _ends(answers: pa.Table) -> NDArray[np.int64]:
    """Return when sessions end; an end that is too far ahead to be said is the last instant."""
    ends, known = times_in(answers, "session_end")
    return np.where(known, ends, _HIGHEST)


def _batches(answers: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from answers.combine_chunks().to_batches(max_chunksize=partition.ROWS)
