"""One partition's events and questions on their way through the engine; independent of Spark.

A row is an event or a question, as a mark says. If all fit into memory, they are answered at once. If not, they are
sorted by key and time. Of one key and time the events come first, so a question can be answered as soon as it is there:
its windows hold no later row. Chunks are answered by `sash.rolling(at=)`. Only events
are kept for the next chunk, and of those only what later windows of the last key can still see, so neither the events
nor the questions of one key need to fit into memory. Questions whose windows reach ahead of them wait for these events.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.keyed.part import part_of
from sash.spark.batch.partition import Chunks, Request, same_key, times_in
from sash.spark.batch.reach import Mask

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
    yield from QuestionChunks(request).through(batches)


class QuestionChunks(Chunks):
    """Answers for each question: its own columns and the aggregates of the windows that end at it."""

    def __init__(self, request: QuestionRequest) -> None:
        super().__init__(request.events)
        self.asked, self.order = request, (*request.events.by, request.mark, *request.events.ids)

    def whole(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the answers for all questions among the rows."""
        mark = rows.column(self.asked.mark)
        questions = rows.filter(mark)
        if questions.num_rows:
            events = self.request.read(self.told_apart(rows.filter(pc.invert(mark))))
            asked = self.asked.questions(questions)
            yield from self._answered(questions, self.request.answer(events, at=asked, at_time=_TIME))

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining answers."""
        if self.rows:
            yield from self.step(last=True)

    def step(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Yield the answers of all questions that wait, but of those whose windows may have more events."""
        rows = pa.Table.from_batches(self.waiting, self.schema)
        self.waiting, self.rows, self.bytes = [], 0, 0
        mark = rows.column(self.asked.mark)
        events = self.request.read(rows.filter(pc.invert(mark)))
        events = events if self.context is None else pa.concat_tables([self.context, events])
        questions, newest = rows.filter(mark), self.asked.questions(rows.slice(rows.num_rows - 1))
        waits, new = self._waiting(questions, newest)
        waits &= not last
        done = questions.filter(pa.array(~waits)) if waits.any() else questions
        if self.reach.unbounded:
            visible = yield from self._with_expired(done, events, newest, new)
        else:
            if done.num_rows:
                asked = self.asked.questions(done)
                yield from self._answered(done, self.request.answer(events, at=asked, at_time=_TIME))
            visible = self._visible(events, newest, new)
        self.keep(visible, questions.filter(pa.array(waits)).to_batches() if waits.any() else [])

    def _waiting(self, questions: pa.Table, newest: pa.Table) -> tuple[Mask, int]:
        """Return which questions wait for events that may still come, and the first time that is not done."""
        (latest,), (valid,) = times_in(newest, _TIME)
        if not valid or self.reach.ahead == 1:
            return np.zeros(questions.num_rows, dtype=bool), int(latest)
        asked = self.asked.questions(questions)
        times, dated = times_in(asked, _TIME)
        waits = dated & same_key(asked, self.request.keys, newest) & (times > int(latest) - self.reach.ahead)
        return waits, int(min(times[waits].min(initial=latest), latest))

    def _with_expired(
        self, questions: pa.Table, events: pa.Table, newest: pa.Table, new: int
    ) -> Generator[pa.RecordBatch, None, pa.Table]:
        """Yield the answers of questions where a window is unbounded, and return the events that later ones can see."""
        asked, bound = self.asked.questions(questions), self.reach.dropped_at(new, new)
        part = part_of(events, self.request.spec, self.expired, bound, new, asked, _TIME)
        if questions.num_rows:
            yield from self._answered(questions, self.request.typed(part.answers))
        self.expired = part.expired_of(newest)
        mine = same_key(events, self.request.keys, newest) & part.holds(events.num_rows)
        return events.filter(pa.array(mine & bool(times_in(newest, _TIME)[1][0])))

    def _answered(self, questions: pa.Table, answers: pa.Table) -> Iterator[pa.RecordBatch]:
        results = self.request.results.names
        columns = questions.select(list(self.asked.own)).columns + [answers.column(name) for name in results]
        # By position, as Spark reads them: two columns of `at` may have one name.
        yield from pa.table(columns, names=[f"_{place}" for place in range(len(columns))]).to_batches()

    def _visible(self, events: pa.Table, newest: pa.Table, new: int) -> pa.Table:
        """Return the events that questions after the newest row, and those that wait, can see."""
        if not times_in(newest, _TIME)[1][0]:  # rows without a time come first, so no event of the key was there
            return events.slice(0, 0)
        times, _ = times_in(events, self.request.time)
        return events.filter(pa.array(self.reach.visible(times, same_key(events, self.request.keys, newest), new, new)))
