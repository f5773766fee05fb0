"""A result for each key and session: when it is final, or at once and whenever it changes."""

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sash.errors import ArgumentError, shown
from sash.inputs import arrow
from sash.keyed.definition import Definition
from sash.keyed.emit import EMPTIED, FRESH, HIGHEST, REVISED, Context, Emission, Watched
from sash.keyed.intake import LATE, Batch, Status
from sash.keyed.result_columns import event_columns, require_unlike, result_names
from sash.keyed.session_columns import session_columns
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core


class _Sessions:
    """What the two have in common."""

    remembers: ClassVar[bool] = False
    reach: ClassVar[int] = 0  # ticks after its time at which a row is still seen

    def __init__(self, context: Context) -> None:
        self.context = context
        self.gap = context.definition.largest
        self.own = list(dict.fromkeys([*context.spec.keys, *event_columns(context.spec)]))
        require_unlike(result_names(context.definition, context.spec))
        require_core(context.definition)

    @staticmethod
    def retained_columns(spec: Spec, definition: Definition) -> list[str]:
        """Return the columns that must be kept of each row: none."""
        return []

    def late_before(self, horizon: int) -> int:
        """Return the time before which rows are late."""
        return horizon

    def retained_after(self, horizon: int) -> int:
        """Return the time at or before which no row is needed: their session has folded them."""
        return horizon - 1

    def recall(self) -> None:
        """Take note of what was emitted before: what a batch changes is compared within its step."""

    def repeat(self) -> "pa.Table | None":
        """Return what is not final and was emitted: nothing, as definitions of sessions do not change."""
        return None

    def _sessions(self, anchors: "_core.Anchors") -> "pa.Table":
        context = self.context
        return session_columns(context.engine, context.spec, self.gap, context.schema, anchors)


def require_core(definition: Definition) -> None:
    """Raise if an aggregate runs in Python, which has no record to fold rows into."""
    for name, monoid, _ in definition.foreign:
        raise ArgumentError(
            f'aggs must run in the core with per="session" in a stream, because rows are folded as the watermark '
            f"passes them, but {name} is {shown(monoid)}, which runs in Python for these columns.",
            argument="aggs",
            column=name,
        )


class SessionFinal(_Sessions):
    """Each session once, when no event can join it."""

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""
        first = self.context.engine.pending(-(2**63))
        return None if first is None else first + self.context.horizon.lateness + 1

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark at which no more than about so many sessions become final."""
        engine, lateness = self.context.engine, self.context.horizon.lateness
        if engine.live_rows + engine.open_count <= rows:
            return watermark
        ends = arrow.plus(np.frombuffer(engine.open_sessions().seqs(), dtype=np.int64), self.gap)
        if len(ends) <= rows:
            return watermark
        end = int(np.partition(ends, rows)[rows])
        first = rows == 0 or end == int(ends.min())  # sessions of one end are not divided
        return min(watermark, end + lateness + first)

    def watch(self, keys: "_core.KeyBatch", times: NDArray[np.int64], late: NDArray[np.bool_]) -> None:
        """Take note of what a batch is about to change: nothing that was emitted can change."""

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the sessions that end before the horizon."""
        horizon = self.context.horizon.at
        due = self._until(-(2**63) if horizon is None else horizon - 1)
        return self.context.with_late(due, batch.table, status == LATE, self.own)

    def rest(self) -> Emission:
        """Return all sessions."""
        return self.context.with_late(self._until(HIGHEST), *self.context.no_rows(), self.own)

    def _until(self, until: int) -> Emission:
        anchors = self.context.engine.closing(max(until, -(2**63)))
        columns, counts = self.context.answers(anchors).columns(on_error=self.context.spec.on_error)
        rows = arrow.with_columns(self._sessions(anchors), columns)
        return Emission(rows, counts + Counter(emitted=len(anchors)))


class SessionUpdate(_Sessions):
    """Each session at the end of the push that made it, and again with a new revision whenever it changes."""

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows: never."""
        return None

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark itself: nothing is due without new rows."""
        return watermark

    def watch(self, keys: "_core.KeyBatch", times: NDArray[np.int64], late: NDArray[np.bool_]) -> Watched:
        """Take note of the sessions that a batch is about to change."""
        return Watched(self.context.engine.watch_sessions(keys, times, late.view(np.uint8)), None)

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the sessions that are no longer there, then those that are new or have changed."""
        assert watched is not None
        engine, late = self.context.engine, status == LATE
        anchors = engine.changed_sessions(keys, batch.times, late.view(np.uint8), watched.anchors)
        return self.context.with_late(self._changes(anchors), batch.table, late, self.own)

    def rest(self) -> Emission:
        """Return what is pending: nothing, as every session was emitted when it last changed."""
        due = self._changes(self.context.engine.closing(-(2**63)))
        return self.context.with_late(due, *self.context.no_rows(), self.own)

    def _changes(self, anchors: "_core.Anchors") -> Emission:
        pa = arrow.pyarrow()
        answers = self.context.answers(anchors)
        change = np.frombuffer(self.context.engine.changed(anchors, answers.rooms, None), dtype=np.uint8)
        gone, changed = np.flatnonzero(change == EMPTIED), np.flatnonzero((change == FRESH) | (change == REVISED))
        rows = self._sessions(anchors).take(pa.array(np.concatenate([gone, changed])))
        columns, counts = answers.columns(changed, self.context.spec.on_error)
        for name, column in columns.items():
            rows = rows.append_column(name, arrow.stacked([pa.nulls(len(gone)), column]))
        emission = self.context.revised(rows, len(gone))
        revised = int((change == REVISED).sum())
        return emission._replace(counts=emission.counts + counts + Counter(revised=revised))
