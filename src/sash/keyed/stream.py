"""A stream of batches by key: rows come in, and the results that are due come out.

A stream is composed of an intake (what a batch holds: rows or panes), a horizon (what is late) and an emitter (which
results are due, and when). One step reads a batch, applies it and emits; what it counted is part of what it returns.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sash import durations
from sash.errors import ArgumentError, KindError, RetentionError, UnsupportedError, shown
from sash.inputs import arrow
from sash.keyed import expired as expired_rows
from sash.keyed import saved_state
from sash.keyed.definition import Definition
from sash.keyed.emit import HIGHEST, LOWEST, Context, Emission, Emitter, Position, clamped
from sash.keyed.emit_boundaries import BoundaryFinal, BoundaryUpdate
from sash.keyed.emit_events import EventArrival, EventFinal, EventUpdate
from sash.keyed.emit_questions import QuestionArrival, QuestionFinal, QuestionUpdate
from sash.keyed.emit_sessions import SessionFinal, SessionUpdate
from sash.keyed.horizon import Grid, Horizon
from sash.keyed.intake import (
    AWAITED,
    DELETED,
    INSERTED,
    WITHDRAWN,
    Batch,
    Intake,
    PaneIntake,
    RowIntake,
    Status,
    with_types,
)
from sash.keyed.question_columns import ASKED, QuestionColumns
from sash.keyed.result_schema import require_readable
from sash.keyed.retained_rows import SPARE, RetainedRows
from sash.keyed.spec import Spec
from sash.times import Instants, as_datetime64, is_integer

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core

COUNTS = (
    *("rows_in", "bad_times", "bad_ids", "late", "repeated", "unmatched", "emitted", "revised", "deleted"),
    *("overflows", "failures"),
)
QUESTION_COUNTS = ("questions", "late_questions", "repeated_questions")
_DIFFERENCE = np.isin(np.arange(7), (INSERTED, DELETED, AWAITED, WITHDRAWN))  # by what became of a row
_EMITTERS: dict[tuple[bool, str], type[Any]] = {
    (False, "arrival"): EventArrival,
    (False, "final"): EventFinal,
    (False, "update"): EventUpdate,
    (True, "final"): BoundaryFinal,
    (True, "update"): BoundaryUpdate,
}


class Step(NamedTuple):
    """What one step of a stream returns."""

    results: "pa.Table"
    applied: "pa.Table"  # the rows that made a difference
    counts: Counter[str]


_SESSIONS: dict[str, type[Any]] = {"final": SessionFinal, "update": SessionUpdate}
_QUESTIONS: dict[str, type[Any]] = {"arrival": QuestionArrival, "final": QuestionFinal, "update": QuestionUpdate}


@dataclass
class Stream:
    """A running stream."""

    spec: Spec
    definition: Definition
    engine: "_core.Keyed"
    intake: Intake
    emitter: Emitter
    horizon: Horizon
    retained: RetainedRows
    position: Position
    time_type: "pa.DataType"
    dropped: int = LOWEST  # rows at or before this time are no longer there, but as the last ones of their key
    settled: int = LOWEST  # the horizon at the last expiry, before which windows that count have no rows but those
    asking: QuestionColumns | None = None  # questions come beside the events, and only they have results
    chained: bool = False  # rows come when the watermark passes them, so those of a step are judged by the one before

    @classmethod
    def of(
        cls,
        spec: Spec,
        table: "pa.Table",
        *,
        panes: bool = False,
        asking: QuestionColumns | None = None,
        chained: bool = False,
    ) -> "Stream":
        """Start a stream for batches with the columns of this table; with `panes`, for batches of its panes."""
        _require_columns(spec, table)
        definition = Definition.of(spec, table)
        emits = _emitter(spec) if asking is None else _QUESTIONS[spec.emit]
        named = spec.id is not None and arrow.ids_are_named(table.schema.field(spec.id).type)
        engine = definition.engine(spec, remembers=emits.remembers, named=named)
        lateness = 0
        if spec.lateness is not None:
            lateness = durations.ticks_of(spec.lateness, definition.unit, "lateness", least=0)
        retained = RetainedRows(emits.retained_columns(spec, definition), table.schema)
        position = Position()
        horizon = Horizon(lateness)
        intake = (PaneIntake if panes else RowIntake)(spec, definition, engine, table.schema)
        context = Context(spec, definition, engine, horizon, retained, position, intake.schema)
        time_type = table.schema.field(spec.time).type
        emitter = emits(context) if asking is None else emits(context, asking)
        made = cls(spec, definition, engine, intake, emitter, horizon, retained, position, time_type)
        made.asking, made.chained = asking, chained
        return made

    @property
    def schema(self) -> "pa.Schema":
        """The columns that a batch must have."""
        return self.intake.schema

    # --- one step ---------------------------------------------------------------------------------

    def push(self, table: "pa.Table", watermark: Any) -> Step:
        """Apply a batch and return what is due; the default watermark is the newest time seen before it."""
        return self.step(table, self.position.newest if watermark is None else self.ticks(watermark))

    def step(self, table: "pa.Table", watermark: int | None, questions: "pa.Table | None" = None) -> Step:
        """Apply a batch, with the questions that came with it, and return what is due at a watermark in ticks."""
        batch = self.intake.read(table)
        before, horizon = self.horizon.at, self.horizon.advance(watermark)
        horizon = before if self.chained else horizon
        late = np.zeros(len(batch.times), dtype=bool)
        if horizon is not None:
            late = batch.times < self.emitter.late_before(horizon)
        if not late.all():
            self.position.saw(int((batch.times[~late] if late.any() else batch.times).max()))
        keys = self._keys(batch)
        watched = self.emitter.watch(keys, batch.times, late)
        status, counts = self.intake.apply(keys, batch, late)
        self.retained.add(batch.table, self.position.seq, status == INSERTED, batch.times)
        self.position.revision += 1
        asked = None
        if self.asking is not None:
            asked, more = self._asker.ask(self.asking.schema.empty_table() if questions is None else questions, horizon)
            counts += more
        emission = self.emitter.due(keys, batch, status, watched)
        self.position.seq += len(batch.times)
        self.expire()
        applied = _made_a_difference(status)
        rows = batch.table if applied.all() else batch.table.filter(arrow.pyarrow().array(applied))
        if self.asking is not None and asked is not None:
            rows = self.asking.stored(rows, asked)
        return Step(emission.rows, rows, _total(batch.counts, counts, emission.counts))

    @property
    def _asker(self) -> "QuestionArrival | QuestionFinal | QuestionUpdate":
        assert isinstance(self.emitter, (QuestionArrival, QuestionFinal, QuestionUpdate))
        return self.emitter

    def _keys(self, batch: Batch) -> "_core.KeyBatch":
        """Find the keys of a batch, which is the next one of the stream."""
        return arrow.key_batch(self.engine, batch.table, self.spec.keys, self.position.seq)

    def reachable(self, watermark: int, size: int) -> int:
        """Return the watermark at which results of about so many bytes are due without new rows, or less."""
        held = self.retained.nbytes // max(self.retained.rows_held, 1)
        columns = len(self.definition.names) * len(self.definition.windows) + len(self.spec.keys) + 4
        return self.emitter.reachable(watermark, size // (held + 16 * columns))

    def expire(self) -> None:
        """Drop what no result that is still to come can see."""
        bound = self.retained_after(self.horizon.at)
        if self.horizon.at is not None:
            self._expire(bound, max(self.emitter.late_before(self.horizon.at), LOWEST))
            if self.asking is not None:
                self._asker.forget(self.horizon.at)

    def stand_at(self, newest: int | None, horizon: int | None) -> None:
        """Answer for what can be asked as a stream does whose rows and horizon have come that far."""
        self.position.newest = newest
        if horizon is not None:
            self.dropped = max(self.dropped, self.retained_after(horizon))
            self.settled = max(self.settled, clamped(self.emitter.late_before(horizon)))

    def retained_after(self, horizon: int | None) -> int:
        """Return the time at or before which no row is needed once the horizon is there."""
        if horizon is None:
            return LOWEST
        return min(max(self.emitter.retained_after(horizon), LOWEST), HIGHEST)

    def flush(self) -> Emission:
        """Return all that is pending as final, and drop everything."""
        self.position.revision += 1
        emission = self.emitter.rest()
        self.engine.expire(HIGHEST, HIGHEST)
        if self.position.newest is not None:
            self.dropped = max(self.dropped, self.position.newest)
            self.settled = max(self.settled, self.position.newest + 1)
        return emission

    def drop_before(self, horizon: Any) -> None:
        """Drop every row before a time, but not of the pane that it lies in."""
        if self.spec.gap is not None:
            raise UnsupportedError('drop_before is not available with per="session", whose rows are folded.')
        bound = self.ticks(horizon, "horizon")
        if self.panes is not None:
            bound = max(self.panes.late_before(bound), LOWEST + 1)
        if self.spec.counts:
            self._require_settled(bound, horizon)
            self.engine.drop(bound - 1)
        self._expire(bound - 1, bound)

    def _require_settled(self, bound: int, horizon: Any) -> None:
        """Raise for a time within what has expired: windows that count remember it as a whole."""
        if bound < self.settled and self.definition.unbounded:
            raise RetentionError(
                f"horizon must be {self.time_text(self.settled)} or later, because earlier rows have been combined, "
                f"got {shown(horizon)}.",
                argument="horizon",
            )

    def _expire(self, bound: int, horizon: int) -> None:
        self.engine.expire(bound, horizon)
        if not self._retains_counted:
            self.retained.expire(bound)
        elif self.retained.rows_held > 2 * self.engine.live_rows + SPARE:
            self.retained.keep(self.held())
        self.dropped = max(self.dropped, bound)
        self.settled = max(self.settled, horizon)

    @cached_property
    def _retains_counted(self) -> bool:
        """Whether columns are needed of the last rows of each key, however old they are."""
        return bool(self.definition.foreign) and any(kind.kind == "rows" for _, kind in self.definition.windows)

    @property
    def answerable(self) -> int:
        """The first instant whose windows have all their rows; LOWEST if nothing was dropped."""
        if self.dropped == LOWEST:
            return self.settled if self.spec.counts else LOWEST
        first = self.engine.frame.first_after(self.dropped)
        timed = HIGHEST + 1 if first is None else first
        return max(timed, self.settled) if self.spec.counts else timed

    @cached_property
    def panes(self) -> Grid | None:
        """The grid of the panes that rows are combined into, or their times rounded to; None: there are none."""
        grid = self.definition.grid(self.spec)
        merged = self.spec.resolution is not None or self.definition.merges(self.spec)
        return grid if merged and isinstance(grid, Grid) else None

    def take_back(self, table: "pa.Table", names: int) -> None:
        """Take back the row of a step of one row that raised, after its position was put back.

        `names` is how many ids had names before it.
        """
        table = with_types(table, self.schema)
        times, _ = arrow.ticks(table, self.spec.time)
        ids = None if self.spec.id is None else arrow.ids_of(table.column(self.spec.id))
        keys = arrow.keys_of(table, self.spec.keys)
        self.engine.take_back(*keys, int(times[0]), ids, self.position.seq, names)

    # --- state, out and in ------------------------------------------------------------------------

    def saved_position(self) -> dict[str, Any]:
        """Return where the stream is, as plain data."""
        return {**vars(self.position), "horizon": self.horizon.at}

    def restore_position(self, saved: dict[str, Any]) -> None:
        """Restore where the stream was."""
        for name in vars(self.position):
            setattr(self.position, name, saved[name])
        self.horizon.at = saved["horizon"]

    @classmethod
    def restored(cls, spec: Spec, position: dict[str, Any], rows: Any, retained: Any) -> "Stream":
        """Return a stream from the parts that were saved."""
        saved_state.require_position(position)
        schema, kept = RetainedRows.parts(retained)
        stream = cls.of(spec, schema.empty_table())
        require_readable(spec, stream.definition, schema)
        stream.retained.restore(kept)
        saved_state.load(stream.engine, spec, schema, rows, position["seq"])
        stream.restore_position(position)
        stream.stand_at(stream.position.newest, stream.horizon.at)
        if not stream.definition.merges(spec):
            after = stream.dropped if spec.counts and not stream._retains_counted else LOWEST
            saved_state.require_retained(stream.engine, spec, stream.retained, after)
        return stream

    @cached_property
    def _untyped(self) -> list[str]:
        """The columns that have been null in all batches."""
        return [field.name for field in self.schema if arrow.pyarrow().types.is_null(field.type)]

    def with_types_of(self, table: "pa.Table") -> "Stream":
        """Return the stream with types for columns that have been null in all batches, if a batch has some now."""
        pa = arrow.pyarrow()
        names = self._untyped
        if not names:
            return self
        known = {name: table.schema.field(name) for name in names if table.column_names.count(name) == 1}
        known = {name: field for name, field in known.items() if not pa.types.is_null(field.type)}
        if not known:
            return self
        schema = pa.schema([known.get(field.name, field) for field in self.schema])
        return self._retyped(schema) or self

    def _retyped(self, schema: "pa.Schema") -> "Stream | None":
        """Return the same stream for batches of another schema, or None if its rows would be stored otherwise."""
        new = Stream.of(self.spec, schema.empty_table())
        records = self.definition.unbounded or new.definition.merges(self.spec) or self.engine.open_count
        wider = records and new.engine.record_words != self.engine.record_words
        if wider or new.definition.shown != self.definition.shown:
            return None
        kinds = [arrow.key_kind(schema.field(name).type) for name in self.spec.keys]
        widths, ids = arrow.key_widths(kinds), self.spec.id is not None
        if not new.engine.load(self.engine.dump(), widths, self.position.seq, ids):
            return None
        new.retained.adopt(self.retained)
        new.restore_position(self.saved_position())
        new.horizon.watermark = self.horizon.watermark
        new.dropped, new.settled = self.dropped, self.settled
        new.definition.learned.update(self.definition.learned)
        return new

    def replay(self, table: "pa.Table") -> NDArray[np.bool_]:
        """Apply rows of the past, of which nothing is late or emitted, and return which of them made a difference."""
        expired, table = expired_rows.apart(table)
        if expired is not None:
            expired_rows.load_expired(self.engine, self.spec, expired)
        if self.asking is None:
            return self._replay(table)
        events, questions = self.asking.apart(table)
        mattered = self._replay(events)
        if not questions.num_rows:
            return mattered
        both = np.asarray(table.column(ASKED).is_valid(), dtype=bool)
        both[both], both[~both] = self._asker.remember(questions), mattered
        return both

    def _replay(self, table: "pa.Table") -> NDArray[np.bool_]:
        batch = self.intake.reread(table)
        keys = self._keys(batch)
        status, _ = self.intake.apply(keys, batch, np.zeros(len(batch.times), dtype=bool))
        self.retained.add(batch.table, self.position.seq, status == INSERTED, batch.times)
        self.position.seq += len(batch.times)
        if self.asking is not None:
            self._asker.replayed(batch.table.select(list(self.spec.keys)), batch.times)
        return _made_a_difference(status)

    def held(self) -> NDArray[np.int64]:
        """Return the places in the stream of the rows that are held."""
        return np.frombuffer(self.engine.held([])[0], dtype=np.int64)

    def resume(self, saved: dict[str, Any]) -> None:
        """Continue from a position, after all rows up to it have been replayed."""
        self.continue_from(saved)
        self.emitter.recall()

    def continue_from(self, saved: dict[str, Any]) -> None:
        """Continue from a position, without taking note of what was emitted before."""
        seq = self.position.seq
        self.restore_position(saved)
        self.position.seq = seq
        if self.spec.gap is not None:  # rows behind the horizon are among what was folded before
            self.engine.drop_folded(self.retained_after(self.horizon.at))
        self.expire()

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes: what is allocated, and a quarter more of Arrow's, which its pool wastes."""
        waiting = 0 if self.asking is None or self._asker.pending is None else self._asker.pending.nbytes
        return int(self.engine.live_bytes + self.retained.nbytes * 5 // 4) + waiting

    def due_at(self) -> int | None:
        """Return the watermark at which there is something to do without new rows: to emit, or to drop what is left.

        With emit="update" a row that was deleted may return, revised, so the newest time seen counts.
        """
        stored, watermark = self.engine.newest, self.horizon.watermark
        if self.asking is not None and self._asker.pending is not None:
            stored = _latest(stored, self._asker.pending.newest)
        newest = _latest(stored, self.position.newest) if self.spec.emit == "update" else stored
        if newest is None:
            return None
        needed_until = self.engine.frame.needed_until(newest)
        emit_at = self.emitter.next_at()
        if needed_until == HIGHEST:  # the last rows of a key, or their aggregate, always are
            return emit_at
        clean_at = needed_until + self.horizon.lateness + 1 + self.emitter.reach
        if stored is None and watermark is not None and watermark >= clean_at:
            return None
        return clean_at if emit_at is None else min(clean_at, emit_at)

    # --- arguments --------------------------------------------------------------------------------

    def key_table(self, key: Any) -> "pa.Table":
        """Return a key as a table of one row, with the types that the stream's keys have."""
        if not isinstance(key, dict) or set(key) != set(self.spec.keys):
            wanted = list(self.spec.keys)
            raise ArgumentError(f"key must be a dict with the columns {wanted}, got {shown(key)}.", argument="key")
        fields = [self.schema.field(name) for name in self.spec.keys]
        pa = arrow.pyarrow()
        return pa.table({field.name: pa.array([key[field.name]], field.type) for field in fields})

    def ticks(self, time: Any, argument: str = "watermark") -> int:
        """Return a watermark, or another time that was passed, in ticks of the time column."""
        if self.definition.unit is None:
            if not is_integer(time):
                raise KindError(f"{argument} must be an int like the times, got {shown(time)}.", argument=argument)
            if not LOWEST <= int(time) <= HIGHEST:
                raise ArgumentError(f"{argument} must fit int64, got {shown(time)}.", argument=argument)
            return int(time)
        zoned = getattr(self.time_type, "tz", None) is not None
        if zoned and isinstance(time, np.datetime64):
            zoned = False  # NumPy's instants are UTC by convention
        return Instants(self.definition.unit, "numpy", zoned).encode(time, argument)

    def tick(self, time: Any, argument: str, *, up: bool = False) -> int:
        """Return a time that is asked about in ticks: between two of them, where no row lies, the one before or after.

        Monoids that depend on time would see another one, so with them it must be a whole tick.
        """
        unit = self.definition.unit
        if unit is None or not isinstance(time, datetime | np.datetime64) or time != time:  # not a time
            return self.ticks(time, argument)
        exact = as_datetime64(time)
        beyond = exact - exact.astype(f"datetime64[{unit}]")
        if not beyond or beyond < np.timedelta64(0):
            return self.ticks(time, argument)
        if self.spec.needs_exact_times is not None:
            raise ArgumentError(
                f"{argument} must be a whole tick of one {unit}, as the rows' times are, because "
                f"{self.spec.needs_exact_times}, got {shown(time)}.",
                argument=argument,
            )
        return self.ticks(time - (beyond.item() if isinstance(time, datetime) else beyond), argument) + up

    def time_text(self, ticks: int) -> str:
        """Return a time as text for a message."""
        if self.definition.unit is None:
            return str(ticks)
        pa = arrow.pyarrow()
        return str(arrow.times_of(np.array([ticks]), self.time_type).cast(pa.string())[0].as_py())


def _emitter(spec: Spec) -> type[Any]:
    return _EMITTERS[spec.every is not None, spec.emit] if spec.gap is None else _SESSIONS[spec.emit]


def _latest(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _total(*parts: Counter[str]) -> Counter[str]:
    """Return the sum of counts; `+` would take longer than all else in a step of a few rows."""
    total: Counter[str] = Counter()
    for part in parts:
        for name, count in part.items():
            if count:
                total[name] = total.get(name, 0) + count
    return total


def _made_a_difference(status: Status) -> NDArray[np.bool_]:
    return _DIFFERENCE[status]


def _require_columns(spec: Spec, table: "pa.Table") -> None:
    arrow.require_columns(table, spec.keys, "keys")
    arrow.require_columns(table, [spec.time], "time")
    arrow.require_columns(table, spec.carry, "carry")
    if spec.id is not None:
        arrow.require_columns(table, [spec.id], "id")
    if isinstance(spec.retract, str):
        arrow.require_columns(table, [spec.retract], "retract")
