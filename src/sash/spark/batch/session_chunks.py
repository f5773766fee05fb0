"""The sessions of a partition, chunk by chunk: keys, when they start and end, and the aggregates of their rows."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.spark.batch import partition
from sash.spark.batch.partition import Chunks, Request, same_key, times_in

_HIGHEST = 2**63 - 1


def sessions_of(request: Request, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the sessions of a partition, batch by batch."""
    yield from SessionChunks(request).through(batches)


class SessionChunks(Chunks):
    """Sessions of rows by key and time."""

    def whole(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the sessions of the rows."""
        yield from _batches(self.request.answer(self.request.read(self.told_apart(rows))))

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


def _ends(answers: pa.Table) -> NDArray[np.int64]:
    """Return when sessions end; an end that is too far ahead to be said is the last instant."""
    ends, known = times_in(answers, "session_end")
    return np.where(known, ends, _HIGHEST)


def _batches(answers: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from answers.combine_chunks().to_batches(max_chunksize=partition.ROWS)
