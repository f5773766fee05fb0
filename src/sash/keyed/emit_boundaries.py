"""A result for each key and boundary of a grid: when it is final, or when it is reached and whenever it changes."""

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.answers import Answers
from sash.keyed.definition import Definition
from sash.keyed.emit import EMPTIED, FRESH, HIGHEST, LOWEST, REVISED, SAME, Context, Emission, Watched
from sash.keyed.horizon import CalendarGrid, Grid
from sash.keyed.intake import LATE, Batch, Status
from sash.keyed.result_columns import boundary_columns, event_columns, require_unlike, result_names
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core


class _Boundaries:
    """What the two have in common."""

    remembers: ClassVar[bool] = False

    def __init__(self, context: Context) -> None:
        self.context = context
        grid = context.definition.grid(context.spec)
        assert grid is not None
        self.grid: Grid | CalendarGrid = grid
        self.own = list(dict.fromkeys([*context.spec.keys, *event_columns(context.spec)]))
        self.reach = grid.next_boundary(0) - grid.late_before(0)  # about how long after a row its boundary may be
        require_unlike(result_names(context.definition, context.spec))

    @staticmethod
    def retained_columns(spec: Spec, definition: Definition) -> list[str]:
        """Return the columns that must be kept of each row."""
        return definition.foreign_columns

    def late_before(self, horizon: int) -> int:
        """Return the time before which rows are late."""
        return self.grid.late_before(horizon)

    def retained_after(self, horizon: int) -> int:
        """Return the time at or before which no row is needed."""
        return self.context.dropped_at(self.grid.next_boundary(horizon), self.late_before(horizon))

    def _reachable(self, from_boundary: int, until: int, rows: int) -> int:
        """Return a time up to which there are no more than so many results, but for those of one boundary."""
        engine = self.context.engine
        keys = max(engine.live_keys, 1)
        first = engine.pending(from_boundary)
        if first is None or rows < keys:
            return until if first is None else min(first - (rows == 0), until)
        return min(self.grid.after(first, rows // keys - 1), until)

    def recall(self) -> None:
        """Take note of what was emitted before: what a batch changes is compared within its step."""

    def repeat(self) -> "pa.Table | None":
        """Return what is not final and was emitted: nothing, as every boundary comes once."""
        return None

    def bounds(self, anchors: "_core.Anchors") -> "pa.Table":
        """Return the keys and the ends of the anchors' windows."""
        return boundary_columns(
            self.context.definition, self.context.engine, self.context.spec, self.context.schema, anchors
        )


class BoundaryFinal(_Boundaries):
    """Each boundary once, when nothing can change its results."""

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""
        first = self.context.engine.pending(self.context.position.finished)
        return None if first is None else first + self.context.horizon.lateness

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark at which no more than about so many boundaries become final."""
        lateness = self.context.horizon.lateness
        return self._reachable(self.context.position.finished, watermark - lateness, rows) + lateness

    def watch(self, keys: "_core.KeyBatch", times: NDArray[np.int64], late: NDArray[np.bool_]) -> None:
        """Take note of what a batch is about to change: nothing that was emitted can change."""

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the boundaries up to the horizon that have not been emitted."""
        horizon = self.context.horizon.at
        due = self._until(self.context.position.finished if horizon is None else horizon)
        return self.context.with_late(due, batch.table, status == LATE, self.own)

    def rest(self) -> Emission:
        """Return all boundaries that have not been emitted."""
        return self.context.with_late(self._until(HIGHEST), *self.context.no_rows(), self.own)

    def _until(self, until: int) -> Emission:
        context = self.context
        until = max(until, context.position.finished)
        anchors = context.engine.boundaries(context.position.finished, until, None)
        context.position.finished = until
        columns, counts = context.answers(anchors).columns(on_error=context.spec.on_error)
        rows = arrow.with_columns(self.bounds(anchors), columns)
        return Emission(rows, counts + Counter(emitted=len(anchors)))


class BoundaryUpdate(_Boundaries):
    """Each boundary when the watermark reaches it, and again with a new revision whenever its results change."""

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""
        return self.context.engine.pending(self.context.position.shown)

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark at which no more than about so many boundaries are reached."""
        return self._reachable(self.context.position.shown, watermark, rows)

    def repeat(self) -> "pa.Table":
        """Return the boundaries that were emitted and are not final, with their results."""
        context, horizon = self.context, self.context.horizon.at
        start = LOWEST if horizon is None else min(horizon, context.position.shown)
        anchors = context.engine.boundaries(start, context.position.shown, None)
        columns, _ = context.answers(anchors).columns(on_error=context.spec.on_error)
        return arrow.with_columns(self.bounds(anchors), columns)

    def watch(self, keys: "_core.KeyBatch", times: NDArray[np.int64], late: NDArray[np.bool_]) -> Watched:
        """Take note of what the boundaries show that a batch is about to change."""
        context = self.context
        foreign = bool(context.definition.foreign)
        anchors = context.engine.watch(keys, times, late.view(np.uint8), context.position.shown, foreign)
        before = Answers.of_watched(context.definition, context.engine, anchors, context.retained.values)
        return Watched(anchors, before.extra())

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return the boundaries that have changed, then those that the watermark has reached."""
        watermark = self.context.horizon.watermark
        due = self._until(self.context.position.shown if watermark is None else watermark, watched)
        return self.context.with_late(due, batch.table, status == LATE, self.own)

    def rest(self) -> Emission:
        """Return all boundaries that have not been emitted."""
        return self.context.with_late(self._until(HIGHEST, None), *self.context.no_rows(), self.own)

    def _until(self, until: int, watched: Watched | None) -> Emission:
        pa = arrow.pyarrow()
        context = self.context
        until = max(until, context.position.shown)
        before = None if watched is None else watched.anchors
        anchors = context.engine.boundaries(context.position.shown, until, before)
        context.position.shown = until
        answers = context.answers(anchors)
        change = self._change(anchors, answers, watched)
        gone, changed = np.flatnonzero(change == EMPTIED), np.flatnonzero((change == FRESH) | (change == REVISED))
        rows = self.bounds(anchors).take(pa.array(np.concatenate([gone, changed])))
        columns, counts = answers.columns(changed, context.spec.on_error)
        for name, column in columns.items():
            rows = rows.append_column(name, arrow.stacked([pa.nulls(len(gone)), column]))
        emission = context.revised(rows, len(gone))
        revised = int((change == REVISED).sum())
        return emission._replace(counts=emission.counts + counts + Counter(revised=revised))

    def _change(self, anchors: "_core.Anchors", answers: Answers, watched: Watched | None) -> Status:
        """Return how each anchor has changed; those that were not watched are new."""
        change = np.frombuffer(self.context.engine.changed(anchors, answers.rooms, None), dtype=np.uint8).copy()
        extra = answers.extra()
        if watched is not None and watched.extra is not None and extra is not None:
            differs = extra[: anchors.watched] != watched.extra
            change[: anchors.watched][differs & (change[: anchors.watched] == SAME)] = REVISED
        return change
