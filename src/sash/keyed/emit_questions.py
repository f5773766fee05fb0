"""Answers to questions that come beside the events: as they come, when they are final, or again when they change."""

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.answers import Answers
from sash.keyed.definition import Definition
from sash.keyed.emit import HIGHEST, LOWEST, REVISED, Context, Emission, Watched
from sash.keyed.intake import DELETED, INSERTED, REPEATED, Batch, Status
from sash.keyed.pending import Pending
from sash.keyed.question_columns import QuestionColumns
from sash.keyed.questions import asked, instants_in
from sash.keyed.result_columns import question_names, require_new
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core


class _Questions:
    """What the three have in common: events are stored, and only questions have results."""

    remembers: ClassVar[bool] = False
    pending: Pending | None = None  # the questions that are not done

    def __init__(self, context: Context, columns: QuestionColumns) -> None:
        self.context, self.columns = context, columns
        self.reach = int(context.spec.starts_inside)  # ticks after its time at which a row is still seen
        self._unanswered: list[pa.Table] = []  # of this step, of which there will be no results: undated, and late
        self._late = 0  # of the rows in them, at their end
        require_new(columns.schema.names, question_names(context.definition, context.spec))

    @staticmethod
    def retained_columns(spec: Spec, definition: Definition) -> list[str]:
        """Return the columns that must be kept of each event."""
        return definition.foreign_columns

    def late_before(self, horizon: int) -> int:
        """Return the time before which events are late."""
        return horizon

    def retained_after(self, horizon: int) -> int:
        """Return the time at or before which no event is needed."""
        return self.context.dropped_at(horizon, horizon)

    def watch(self, keys: "_core.KeyBatch", times: NDArray[np.int64], late: NDArray[np.bool_]) -> Watched | None:
        """Take note of what a batch is about to change: nothing, for questions remember what they showed."""
        return None

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""
        return None

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark itself: nothing is due without new rows."""
        return watermark

    def recall(self) -> None:
        """Take note of what was emitted before: nothing that comes depends on it."""

    def repeat(self) -> "pa.Table | None":
        """Return what is not final and was emitted: nothing, as every question is answered once."""
        return None

    def replayed(self, keys: "pa.Table", times: NDArray[np.int64]) -> None:
        """Take note of events of the past."""

    # --- questions in -----------------------------------------------------------------------------

    def ask(self, table: "pa.Table", horizon: int | None) -> "tuple[pa.Table, Counter[str]]":
        """Take the questions of a step, and return those that are to be stored, and counts."""
        pa = arrow.pyarrow()
        times, undated = instants_in(table, self.columns.time, self.context.spec, self.context.schema)
        undated = np.zeros(len(times), dtype=bool) if undated is None else undated
        late = np.zeros(len(times), dtype=bool) if horizon is None else ~undated & (times < horizon)
        dated = ~(undated | late)
        self._unanswered = [table.filter(pa.array(undated))]
        if self.context.spec.late == "emit":
            self._unanswered.append(table.filter(pa.array(late)))
            self._late = int(late.sum())
        counts = Counter(questions=table.num_rows, late_questions=int(late.sum()))
        rows = table if dated.all() else table.filter(pa.array(dated))
        stored, more = self._take(rows, np.ascontiguousarray(times[dated]))
        return stored, counts + more

    def remember(self, table: "pa.Table") -> NDArray[np.bool_]:
        """Take questions that were asked before, and return which of them are new."""
        times, _ = instants_in(table, self.columns.time, self.context.spec, self.context.schema)
        assert self.pending is not None
        new: NDArray[np.bool_] = self.pending.add(table, times) == INSERTED
        return new

    def _take(self, table: "pa.Table", times: NDArray[np.int64]) -> "tuple[pa.Table, Counter[str]]":
        assert self.pending is not None
        status = self.pending.add(table, times)
        inserted = status == INSERTED
        rows = table if inserted.all() else table.filter(arrow.pyarrow().array(inserted))
        return rows, Counter(repeated_questions=int((status == REPEATED).sum()))

    def forget(self, horizon: int) -> None:
        """Drop the questions that are done."""
        if self.pending is not None:
            self.pending.forget(horizon)

    # --- answers out ------------------------------------------------------------------------------

    def _answers(self, rows: "pa.Table", times: NDArray[np.int64]) -> "tuple[_core.Anchors, Answers]":
        names = self.columns.keys
        anchors = asked(self.context.engine, rows if names else None, names, times)
        return anchors, self.context.answers(anchors)

    def _emission(self, rows: "pa.Table", columns: "dict[str, pa.Array]", counts: Counter[str]) -> Emission:
        """Return answered questions, and those of the step that have no answer, with null results."""
        pa = arrow.pyarrow()
        spec, answered = self.context.spec, rows.num_rows
        everything = pa.concat_tables([rows, *self._unanswered])
        there = np.arange(everything.num_rows) < answered
        if not there.all():
            columns = {name: arrow.spread(column, there) for name, column in columns.items()}
        if spec.emit == "update":
            columns["revision"] = pa.array(self.context.revisions(everything.num_rows))
            columns["deleted"] = pa.array(np.zeros(everything.num_rows, dtype=bool))
        if spec.late == "emit":
            columns["late"] = pa.array(np.arange(everything.num_rows) >= everything.num_rows - self._late)
        self._unanswered, self._late = [], 0
        return Emission(arrow.with_columns(everything, columns), counts + Counter(emitted=answered))

    def _answered(self, rows: "pa.Table", times: NDArray[np.int64]) -> Emission:
        _, answers = self._answers(rows, times)
        columns, counts = answers.columns(on_error=self.context.spec.on_error)
        return self._emission(rows, columns, counts)


class QuestionArrival(_Questions):
    """Each question at once, with what is known at the end of its step."""

    def __init__(self, context: Context, columns: QuestionColumns) -> None:
        super().__init__(context, columns)
        self._rows, self._times = self._none()

    def _none(self) -> "tuple[pa.Table, NDArray[np.int64]]":
        return self.columns.schema.empty_table(), np.zeros(0, dtype=np.int64)

    def _take(self, table: "pa.Table", times: NDArray[np.int64]) -> "tuple[pa.Table, Counter[str]]":
        self._rows, self._times = table, times
        return table.slice(0, 0), Counter()

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the questions of the step with their results."""
        rows, times = self._rows, self._times
        self._rows, self._times = self._none()
        return self._answered(rows, times)

    def rest(self) -> Emission:
        """Return nothing: every question has been answered."""
        return self._answered(*self._none())


class QuestionFinal(_Questions):
    """Each question once, when nothing can change its results."""

    pending: Pending

    def __init__(self, context: Context, columns: QuestionColumns) -> None:
        super().__init__(context, columns)
        self.pending = Pending(columns, context.definition.unit, remembers=False)

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""
        first = self.pending.engine.pending(LOWEST)
        return None if first is None else first + 1 + self.context.horizon.lateness

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark at which no more than so many questions become final, but for those of one time."""
        engine, lateness = self.pending.engine, self.context.horizon.lateness
        if engine.live_rows <= rows:
            return watermark
        return min(engine.nth_time(LOWEST, watermark - lateness, rows) + lateness, watermark)

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the questions before the horizon."""
        return self._until(LOWEST if self.context.horizon.at is None else self.context.horizon.at)

    def rest(self) -> Emission:
        """Return all questions that have not been answered."""
        return self._until(HIGHEST + 1)

    def _until(self, horizon: int) -> Emission:
        anchors = self.pending.before(horizon) if horizon > LOWEST else self.pending.engine.between(1, 0)
        return self._answered(self.pending.rows(anchors), np.frombuffer(anchors.times(), dtype=np.int64))


class QuestionUpdate(_Questions):
    """Each question when it comes, and again with a new revision whenever its results change."""

    pending: Pending

    def __init__(self, context: Context, columns: QuestionColumns) -> None:
        super().__init__(context, columns)
        self.pending = Pending(columns, context.definition.unit, remembers=True)

    def replayed(self, keys: "pa.Table", times: NDArray[np.int64]) -> None:
        """Take note of events of the past."""
        engine = self.context.engine
        batch = arrow.key_batch(engine, keys, self.context.spec.keys, self.context.position.seq)
        until = np.frombuffer(engine.seen_until(batch, times), dtype=np.int64)
        self.pending.touch(keys if self.columns.keys else None, times, until)

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the questions whose results have changed."""
        pa = arrow.pyarrow()
        changed = np.isin(status, (INSERTED, DELETED))  # what was withdrawn was never seen
        self.replayed(batch.table.filter(pa.array(changed)).select(list(self.columns.keys)), batch.times[changed])
        return self._changed()

    def rest(self) -> Emission:
        """Return what has changed since the last step."""
        return self._changed()

    def recall(self) -> None:
        """Take note of what was emitted before, so that only what differs from it comes again."""
        self._compared()

    def repeat(self) -> "pa.Table":
        """Return the questions that are not final, with their results, and take note of them as emitted."""
        rows, answers, _ = self._compared()
        columns, _ = answers.columns(on_error=self.context.spec.on_error)
        return arrow.with_columns(rows, columns)

    def _compared(self) -> "tuple[pa.Table, Answers, NDArray[np.uint8]]":
        """Return the questions that were asked or touched, what they show now, and whether that is new."""
        found = self.pending.engine.touched(LOWEST)
        rows = self.pending.rows(found)
        anchors, answers = self._answers(rows, np.frombuffer(found.times(), dtype=np.int64))
        marks = self.context.engine.marks(anchors, answers.rooms, answers.extra())
        change = np.frombuffer(self.pending.engine.changed(found, [], marks), dtype=np.uint8)
        return rows, answers, change

    def _changed(self) -> Emission:
        rows, answers, change = self._compared()
        keep = np.flatnonzero(change)
        columns, counts = answers.columns(keep, self.context.spec.on_error)
        counts["revised"] += int((change == REVISED).sum())
        return self._emission(rows.take(arrow.pyarrow().array(keep)), columns, counts)
