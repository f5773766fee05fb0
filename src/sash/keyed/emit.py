"""What the emitters share: the state they work on, revisions, and late rows among the results."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.answers import Answers
from sash.keyed.definition import Definition
from sash.keyed.horizon import Horizon
from sash.keyed.intake import Batch, Status
from sash.keyed.retained_rows import RetainedRows
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core

LOWEST, HIGHEST = -(2**63), 2**63 - 1
SAME, FRESH, EMPTIED, REVISED = range(4)  # how a result has changed; the numbers are the core's


def clamped(time: int) -> int:
    """Return the nearest time that is one of int64."""
    return min(max(time, LOWEST), HIGHEST)


class Emission(NamedTuple):
    """Results that are due, and what was counted on the way."""

    rows: "pa.Table"
    counts: Counter[str]


class Watched(NamedTuple):
    """Boundaries that a batch is about to change, and a hash of what Python found for them before it."""

    anchors: "_core.Anchors"
    extra: NDArray[np.int64] | None


class Emitter(Protocol):
    """What a stream needs of an emitter."""

    reach: int  # ticks after its time at which a row is still seen

    def late_before(self, horizon: int) -> int:
        """Return the time before which rows are late."""

    def retained_after(self, horizon: int) -> int:
        """Return the time at or before which no row is needed."""

    def next_at(self) -> int | None:
        """Return the watermark at which something will be due without new rows."""

    def watch(self, keys: "_core.KeyBatch", times: NDArray[np.int64], late: NDArray[np.bool_]) -> Watched | None:
        """Take note of the results that a batch is about to change."""

    def due(self, keys: "_core.KeyBatch", batch: Batch, status: Status, watched: Watched | None) -> Emission:
        """Return what is due after a batch."""

    def rest(self) -> Emission:
        """Return all that is pending."""

    def reachable(self, watermark: int, rows: int) -> int:
        """Return the watermark at which no more than about so many results are due without new rows."""

    def recall(self) -> None:
        """Take note of what was emitted before, after a stream was rebuilt."""

    def repeat(self) -> "pa.Table | None":
        """Return what was emitted and is not final, after a stream was rebuilt by another definition."""


@dataclass
class Position:
    """Where a stream is."""

    newest: int | None = None  # time of a row that was in time
    seq: int = 0  # of the next row
    revision: int = 0  # of the last step, and of all its results
    finished: int = LOWEST  # rows before this, and boundaries up to it, have been emitted as final
    shown: int = LOWEST  # boundaries up to this have been emitted

    def saw(self, time: int) -> None:
        """Take note of a time."""
        self.newest = time if self.newest is None else max(self.newest, time)


@dataclass
class Context:
    """The parts of a stream that emitters read and write."""

    spec: Spec
    definition: Definition
    engine: "_core.Keyed"
    horizon: Horizon
    retained: RetainedRows
    position: Position
    schema: "pa.Schema"  # of the rows that come in

    @cached_property
    def frame(self) -> "_core.Frame":
        """The windows of the engine."""
        return self.engine.frame

    def dropped_at(self, anchor: int, late: int) -> int:
        """Return the time at or before which no row is needed: by the first anchor that is not final, and late rows."""
        return self.frame.dropped_at(clamped(anchor), clamped(late))

    def answers(self, anchors: "_core.Anchors") -> Answers:
        """Return the answers for anchors."""
        return Answers.of(self.definition, self.engine, anchors, self.retained.values)

    def revised(self, rows: "pa.Table", gone: int) -> Emission:
        """Return rows with the revision of the step, the first `gone` of them marked as deleted."""
        pa = arrow.pyarrow()
        revisions = self.revisions(rows.num_rows)
        deleted = np.arange(rows.num_rows) < gone
        rows = rows.append_column("revision", pa.array(revisions)).append_column("deleted", pa.array(deleted))
        return Emission(rows, Counter(emitted=rows.num_rows, deleted=gone))

    def revisions(self, count: int) -> NDArray[np.int64]:
        """Return the revision of the step for so many rows.

        It counts steps, not rows: a stream that was rebuilt may emit more rows than one that was not, and later
        revisions must be greater than those of either.
        """
        return np.full(count, self.position.revision, dtype=np.int64)

    def with_late(self, due: Emission, table: "pa.Table", late: NDArray[np.bool_], own: list[str]) -> Emission:
        """Add the late rows with null results, if they are to be emitted; `own` are the columns they keep."""
        if self.spec.late == "drop":
            return due
        pa = arrow.pyarrow()
        rows = table.filter(pa.array(late))
        columns = {field.name: self._late_column(rows, field, own) for field in due.rows.schema}
        marks = np.arange(due.rows.num_rows + rows.num_rows) >= due.rows.num_rows
        both = pa.concat_tables([due.rows, pa.table(columns, schema=due.rows.schema)])
        return due._replace(rows=both.append_column("late", pa.array(marks)))

    def _late_column(self, rows: "pa.Table", field: Any, own: list[str]) -> Any:
        pa = arrow.pyarrow()
        if field.name in own:
            return rows.column(field.name).cast(field.type)
        if field.name == "deleted":
            return pa.array(np.zeros(rows.num_rows, dtype=bool))
        if field.name == "revision":
            return pa.array(self.revisions(rows.num_rows))
        return pa.nulls(rows.num_rows, field.type)

    def no_rows(self) -> tuple["pa.Table", NDArray[np.bool_]]:
        """Return an empty batch, and which of its rows are late."""
        return self.schema.empty_table(), np.zeros(0, dtype=bool)
