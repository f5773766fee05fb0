"""One partition's events and questions, sorted by key and time, on their way through the engine; independent of Spark.

A row is an event or a question, as a mark says. Of one key and time the events come first, so a question can be
answered as soon as it is there: its windows hold no later row. Chunks are answered by `sash.rolling(at=)`. Only events
are kept for the next chunk, and of those only what later windows of the last key can still see, so neither the events
nor the questions of one key need to fit into memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sash.spark.batch.partition import LOWEST, Chunks, Request, same_key, times_in

_TIME = "__sash_at"  # the column of times in questions: a key may have the name of theirs


@dataclass(frozen=True)
class QuestionRequest:
    """What a partition computes: the request for its events, and the positions of columns."""

    events: Request
    mark: int  # of the column that is true for questions
    keys: tuple[int, ...]  # each once
    time: int
    own: tuple[int, ...]  # of the columns of `at`, in their order

    def questions(self, rows: pa.Table) -> pa.Table:
        """Return keys and times as `sash.rolling` reads questions."""
        return rows.select([*self.keys, self.time]).rename_columns([*dict.fromkeys(self.events.keys), _TIME])


def answers_of_questions(request: QuestionRequest, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the questions of a partition with their answers, batch by batch."""
    chunks = QuestionChunks(request)
    for batch in batches:
        yield from chunks.take(batch)
    yield from chunks.end()


class QuestionChunks(Chunks):
    """Answers for each question: its own columns and the aggregates of the windows that end at it."""

    def __init__(self, request: QuestionRequest) -> None:
        super().__init__(request.events)
        self.asked = request

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining answers."""
        if self.rows:
            yield from self.step(last=True)

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Yield the answers of all questions that wait."""
        rows = pa.Table.from_batches(self.waiting, self.schema)
        self.waiting, self.rows, self.bytes = [], 0, 0
        mark = rows.column(self.asked.mark)
        events = self.request.read(rows.filter(pc.invert(mark)))
        events = events if self.context is None else pa.concat_tables([self.context, events])
        questions = rows.filter(mark)
        if questions.num_rows:
            yield from self._answered(questions, events)
        self.keep(self._visible(events, self.asked.questions(rows.slice(rows.num_rows - 1))), [])

    def _answered(self, questions: pa.Table, events: pa.Table) -> Iterator[pa.RecordBatch]:
        answers = self.request.answer(events, at=self.asked.questions(questions), at_time=_TIME)
        results = self.request.results.names
        columns = questions.select(list(self.asked.own)).columns + [answers.column(name) for name in results]
        # By position, as Spark reads them: two columns of `at` may have one name.
        yield from pa.table(columns, names=[f"_{place}" for place in range(len(columns))]).to_batches()

    def _visible(self, events: pa.Table, newest: pa.Table) -> pa.Table:
        """Return the events that questions after the newest row can see."""
        (time,), (valid,) = times_in(newest, _TIME)
        if not valid:  # rows without a time come first, so no event of the key was there
            return events.slice(0, 0)
        times, _ = times_in(events, self.request.time)
        visible = times >= max(int(time) - self.request.reach, LOWEST)
        return events.filter(pa.array(visible & same_key(events, self.request.keys, newest)))
