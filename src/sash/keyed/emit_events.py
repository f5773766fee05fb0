"""A result for each row: when it arrives, when it is final, or again whenever it changes."""

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.answers import Answers
from sash.keyed.definition import Definition
from sash.keyed.emit import HIGHEST, LOWEST, REVISED, Context, Emission, Watched
from sash.keyed.intake import INSERTED, LATE, Batch, Status
from sash.keyed.result_columns import own_columns, require_new, require_unlike, result_names
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core


class _Events:
    """What the three have in common."""

    remembers: ClassVar[bool] = False  # does the core remember what each row showed?

    def __init__(self, context: Context) -> None:
        self.context = context
        self.own = own_columns(context.spec)
        self.reach = int(context.spec.starts_inside)  # ticks after its time at which a row is still seen

    def late_before(self, horizon: int) -> int:
        """Return the time before which rows are late."""
        return horizon

    def retained_after(self, horizon: int) -> int:
        """Return the time at or before which no row is needed."""
        return self.context.dropped_at(horizon, horizon)

    def watch(self, keys: "_core.KeyBatch", times: NDArray[np.int64], late: NDArray[np.bool_]) -> None:
        """Take note of what a batch is about to change: nothing, for rows remember what they showed."""

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark itself: nothing is due without new rows."""
        return watermark

    def recall(self) -> None:
        """Take note of what was emitted before: nothing that comes depends on it."""

    def repeat(self) -> "pa.Table | None":
        """Return what is not final and was emitted: nothing, as every row comes once."""
        return None

    def _rows(self, seqs: NDArray[np.int64]) -> "pa.Table":
        return self.context.retained.rows(seqs).select(self.own)


class EventArrival(_Events):
    """Each row at once, with its results as of its arrival."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.schema: pa.Schema | None = None  # of what has been emitted

    @staticmethod
    def retained_columns(spec: Spec, definition: Definition) -> list[str]:
        """Return the columns that must be kept of each row."""
        return definition.foreign_columns

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""
        return None

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the rows of a batch with their results."""
        pa = arrow.pyarrow()
        context = self.context
        inserted = status == INSERTED
        ids = batch.inputs[0] if context.spec.counts else None  # which say where a row is among those of its time
        answers = context.answers(context.engine.arrived(keys, batch.times, status, ids))
        columns, counts = answers.columns(on_error=context.spec.on_error)
        if context.spec.late == "drop":
            rows = batch.table if inserted.all() else batch.table.filter(pa.array(inserted))
        else:
            late = status == LATE
            keep = inserted | late
            rows = batch.table.filter(pa.array(keep))
            columns = {name: arrow.spread(column, inserted[keep]) for name, column in columns.items()}
            columns["late"] = pa.array(late[keep])
        require_new(rows.column_names, columns)
        rows = arrow.with_columns(rows, columns)
        self.schema = rows.schema
        counts["emitted"] = answers.rows
        return Emission(rows, counts)

    def rest(self) -> Emission:
        """Return nothing: every row has been emitted."""
        rows = arrow.pyarrow().table({}) if self.schema is None else self.schema.empty_table()
        return Emission(rows, Counter())


class EventFinal(_Events):
    """Each row once, when nothing can change its results."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        require_unlike([*self.own, *result_names(context.definition, context.spec)])

    @staticmethod
    def retained_columns(spec: Spec, definition: Definition) -> list[str]:
        """Return the columns that must be kept of each row."""
        return list(dict.fromkeys([*own_columns(spec), *definition.foreign_columns]))

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""
        first = self.context.engine.pending(self.context.position.finished)
        return None if first is None else first + 1 + self.context.horizon.lateness

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark at which no more than so many rows become final, but for those of one time."""
        context = self.context
        if context.engine.live_rows <= rows:
            return watermark
        lateness = context.horizon.lateness
        return min(context.engine.nth_time(context.position.finished, watermark - lateness, rows) + lateness, watermark)

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the rows before the horizon that have not been emitted."""
        horizon = LOWEST if self.context.horizon.at is None else self.context.horizon.at
        return self.context.with_late(self._until(horizon), batch.table, status == LATE, self.own)

    def rest(self) -> Emission:
        """Return all rows that have not been emitted."""
        return self.context.with_late(self._until(HIGHEST + 1), *self.context.no_rows(), self.own)

    def _until(self, until: int) -> Emission:
        context = self.context
        start, stop = context.position.finished, until - 1
        anchors = context.engine.between(*(start, stop) if start <= stop else (1, 0))
        answers = context.answers(anchors)
        rows = self._rows(np.frombuffer(anchors.seqs(), dtype=np.int64))
        context.position.finished = min(max(until, start), HIGHEST)
        columns, counts = answers.columns(on_error=context.spec.on_error)
        return Emission(arrow.with_columns(rows, columns), counts + Counter(emitted=answers.rows))


class EventUpdate(_Events):
    """Each row when it arrives, and again with a new revision whenever its results change."""

    remembers: ClassVar[bool] = True
    retained_columns = EventFinal.retained_columns

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        require_unlike([*self.own, *result_names(context.definition, context.spec)])

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""
        return None

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the rows whose results have changed, and those that were deleted."""
        return self.context.with_late(self._changed(), batch.table, status == LATE, self.own)

    def rest(self) -> Emission:
        """Return what has changed since the last batch."""
        return self.context.with_late(self._changed(), *self.context.no_rows(), self.own)

    def recall(self) -> None:
        """Take note of what was emitted before, so that only what differs from it comes again."""
        self.context.engine.gone()
        horizon = self.context.horizon.at
        self._compared(LOWEST if horizon is None else horizon)  # rows before it do not change any more

    def repeat(self) -> "pa.Table":
        """Return the rows that are not final, with their results, and take note of them as emitted."""
        self.context.engine.gone()
        horizon = self.context.horizon.at
        anchors, answers, _ = self._compared(LOWEST if horizon is None else horizon)
        columns, _ = answers.columns(on_error=self.context.spec.on_error)
        return arrow.with_columns(self._rows(np.frombuffer(anchors.seqs(), dtype=np.int64)), columns)

    def _compared(self, start: int) -> tuple["_core.Anchors", Answers, NDArray[np.uint8]]:
        """Return the touched rows from a time on, what they show now, and whether that is new."""
        engine = self.context.engine
        anchors = engine.touched(start)
        answers = self.context.answers(anchors)
        change = np.frombuffer(engine.changed(anchors, answers.rooms, answers.extra()), dtype=np.uint8)
        return anchors, answers, change

    def _changed(self) -> Emission:
        pa = arrow.pyarrow()
        context = self.context
        gone = np.frombuffer(context.engine.gone(), dtype=np.int64)
        anchors, answers, change = self._compared(LOWEST)
        keep = np.flatnonzero(change)
        seqs = np.frombuffer(anchors.seqs(), dtype=np.int64)[keep]
        revised = int((change == REVISED).sum())
        rows = pa.concat_tables([self._rows(gone), self._rows(seqs)])
        columns, counts = answers.columns(keep, context.spec.on_error)
        for name, column in columns.items():
            rows = rows.append_column(name, arrow.stacked([pa.nulls(len(gone)), column]))
        emission = context.revised(rows, len(gone))
        return emission._replace(counts=emission.counts + counts + Counter(revised=revised))
