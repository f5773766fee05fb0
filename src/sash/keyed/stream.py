"""A stream of batches at work: its kinds are decided, rows come in, and what is due goes out.

A push judges its rows against the horizon, hands those in time to the core, and gives what is due. `EventStream` has a
result for each row, `BoundaryStream` one for each boundary of a grid.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import durations
from sash.errors import ArgumentError, CorruptStateError, KindError, shown
from sash.inputs import arrow
from sash.keyed.answers import Answers
from sash.keyed.definition import Definition
from sash.keyed.horizon import Grid, Horizon
from sash.keyed.result_columns import boundary_columns, event_columns, require_new, require_unlike, result_names
from sash.keyed.retained_rows import Held
from sash.keyed.spec import Asked
from sash.times import Instants, is_integer

LOWEST, HIGHEST = -(2**63), 2**63 - 1
INSERTED, REPEATED, DELETED, UNMATCHED, AWAITED, LATE, WITHDRAWN = range(7)
COUNTS = (
    *("rows_in", "bad_times", "bad_ids", "late", "repeated", "unmatched", "emitted", "revised", "deleted"),
    *("overflows", "failures"),
)
_POSITION = ("newest", "seq", "revision", "finished", "shown")


def stream_of(asked: Asked, table: Any, counts: dict[str, int]) -> "Stream":
    """Start a stream whose batches look like this one."""
    return (EventStream if asked.every is None else BoundaryStream)(asked, table, counts)


class Stream:
    """What both have in common: rows in, lateness, retention, bytes."""

    def __init__(self, asked: Asked, table: Any, counts: dict[str, int]) -> None:
        self.asked, self.counts = asked, counts
        self._require(table)
        self.definition = Definition.of(asked, table)
        self.unit = self.definition.unit
        self.grid = self.definition.grid(asked)
        lateness = 0 if asked.lateness is None else durations.ticks_of(asked.lateness, self.unit, "lateness", least=0)
        self.horizon = Horizon(lateness)
        named = asked.id is not None and arrow.ids_are_named(table.schema.field(asked.id).type)
        self.engine = self.definition.engine(asked, remembers=self._remembers(), named=named)
        self.time_kind = table.schema.field(asked.time).type
        self.newest: int | None = None
        self.seq = self.revision = 0
        self.finished = LOWEST  # anchors before this, and boundaries up to it, have been given as final
        self.shown = LOWEST  # boundaries up to this have been shown
        self.held = Held(self._held_columns(), table.schema)
        self.schema = arrow.pyarrow().schema([table.schema.field(name) for name in self._read_columns()])

    def _remembers(self) -> bool:
        return False

    def _require(self, table: Any) -> None:
        asked = self.asked
        arrow.require_columns(table, asked.keys, "keys")
        arrow.require_columns(table, [asked.time], "time")
        arrow.require_columns(table, asked.carry, "carry")
        if asked.id is not None:
            arrow.require_columns(table, [asked.id], "id")
        if isinstance(asked.retract, str):
            arrow.require_columns(table, [asked.retract], "retract")

    def _held_columns(self) -> list[str]:
        return self.definition.foreign_columns

    def _read_columns(self) -> list[str]:
        asked = self.asked
        named = [*asked.keys, asked.time, *(name for name in (asked.id, asked.retract) if isinstance(name, str))]
        return list(dict.fromkeys([*named, *asked.carry, *self.definition.columns]))

    # --- bytes ------------------------------------------------------------------------------------

    def position(self) -> dict[str, Any]:
        """Where the stream is, as plain data."""
        return {name: getattr(self, name) for name in _POSITION} | {"horizon": self.horizon.at}

    def restore_position(self, position: dict[str, Any]) -> None:
        """Take back where it was."""
        for name in _POSITION:
            setattr(self, name, position[name])
        self.horizon.at = position["horizon"]

    @classmethod
    def restored(cls, asked: Asked, counts: dict[str, int], position: dict[str, Any], rows: Any, held: Any) -> "Stream":
        """Give a stream back from its parts."""
        schema, kept = Held.parts(held)
        stream = stream_of(asked, schema.empty_table(), counts)
        stream.held.restore(kept)
        if not stream.engine.load(rows):
            raise CorruptStateError("data: its rows are not those of a KeyedWindows; give what to_bytes gave.")
        stream.restore_position(position)
        return stream

    # --- rows in ----------------------------------------------------------------------------------

    def push(self, table: Any, watermark: Any) -> Any:
        """Take a batch and give what is due."""
        return self.step(table, self.newest if watermark is None else self._ticks(watermark))[0]

    def step(self, table: Any, watermark: int | None) -> tuple[Any, Any]:
        """Take a batch and give what is due, and the rows that made a difference."""
        self._require_types(table)
        rows_in = self._rows_in(table)
        table, times, bad = self._readable(table)
        inputs = self._inputs(table)
        horizon = self.horizon.advance(watermark)
        late = np.zeros(len(times), dtype=bool) if horizon is None else times < self._late_before(horizon)
        if not late.all():
            newest = int(times[~late].max())
            self.newest = newest if self.newest is None else max(self.newest, newest)
        status = self._applied(table, times, late, inputs)
        self.counts["rows_in"] += rows_in
        for name, count in bad.items():
            self.counts[name] += count
        self.held.add(table, self.seq, status == INSERTED, times)
        result = self._due(table, times, status)
        self.seq += len(times)
        self.expire()
        mattered = np.isin(status, (INSERTED, DELETED, AWAITED, WITHDRAWN))
        return result, table if mattered.all() else table.filter(arrow.pyarrow().array(mattered))

    def replay(self, table: Any) -> None:
        """Take rows again that made a difference before: nothing is late, and nothing is shown."""
        times, _ = arrow.ticks(table, self.asked.time)
        inputs = self._inputs(table)
        self.begin(table)
        before = dict(self.counts)
        status = self._taken(times, np.zeros(len(times), dtype=bool), inputs)
        self.counts.update(before)
        self.held.add(table, self.seq, status == INSERTED, times)
        self.seq += len(times)

    def resume(self, position: dict[str, Any]) -> None:
        """Go on from a position, all rows up to it having been taken again."""
        own = self.seq
        self.restore_position(position)
        self.seq = own
        self.engine.mark_all()
        self.engine.gone()
        self.engine.touched()
        self.expire()

    @property
    def bytes_held(self) -> int:
        """About how much memory it takes."""
        return int(self.engine.live_bytes + self.held.nbytes)

    def due_at(self) -> int | None:
        """Give the watermark at which there will be something to do without new rows: to show, or to let go of all."""
        held, watermark = self.engine.newest, self.horizon.watermark
        newest = self.newest if self.asked.emit == "update" else held  # what was deleted may come again, revised
        if newest is None:
            return None
        clean_at, shown_at = self._clean_at(newest), self._shown_at()
        if held is None and watermark is not None and watermark >= clean_at:
            return None
        return clean_at if shown_at is None else min(clean_at, shown_at)

    def _clean_at(self, newest: int) -> int:
        return newest + self.definition.largest + self.horizon.lateness + 1

    def _shown_at(self) -> int | None:
        raise NotImplementedError

    def expire(self) -> None:
        """Let go of what no result that is still to come can see."""
        horizon = self.horizon.at
        if horizon is not None:
            bound = min(max(self._retained_after(horizon), LOWEST), HIGHEST)
            self.engine.expire(bound, max(self._late_before(horizon), LOWEST))
            self.held.expire(bound)

    def _rows_in(self, table: Any) -> int:
        return int(table.num_rows)

    def _late_before(self, horizon: int) -> int:
        raise NotImplementedError

    def _retained_after(self, horizon: int) -> int:
        raise NotImplementedError

    def _due(self, table: Any, times: Any, status: Any) -> Any:
        raise NotImplementedError

    def _require_types(self, table: Any) -> None:
        """Refuse a batch whose columns are not of the first one's types."""
        for field in self.schema:
            arrow.require_columns(table, [field.name], "batch")
            given = table.schema.field(field.name).type
            if given != field.type and not arrow.pyarrow().types.is_null(given):
                raise KindError(
                    f"batch: the column {shown(field.name)} holds {given}, and held {field.type} before; cast it."
                )

    def _readable(self, table: Any) -> tuple[Any, NDArray[np.int64], dict[str, int]]:
        """Give the rows that have a time, and an id where they must, and how many have not."""
        pa = arrow.pyarrow()
        times, bad = arrow.ticks(table, self.asked.time)
        counts = {"bad_times": 0 if bad is None else int(bad.sum())}
        if self.asked.id is not None and table.column(self.asked.id).null_count:
            nameless = np.asarray(table.column(self.asked.id).is_null(), dtype=bool)
            counts["bad_ids"] = int((nameless if bad is None else nameless & ~bad).sum())
            bad = nameless if bad is None else bad | nameless
        if bad is None or not bad.any():
            return table, times, counts
        return table.filter(pa.array(~bad)), np.ascontiguousarray(times[~bad]), counts

    def _inputs(self, table: Any) -> tuple[Any, Any, Any]:
        """Give the ids, the deletes and the aggregated columns, or refuse the batch before anything has changed."""
        ids = None if self.asked.id is None else arrow.ids_of(table.column(self.asked.id))
        deletes = None if self.asked.retract is None else self._deletes(table)
        return ids, deletes, self.definition.inputs_in(table)

    def key_table(self, key: Any) -> Any:
        """Return a key as a table of one row, with the types that the stream's keys have."""
        if not isinstance(key, dict) or set(key) != set(self.asked.keys):
            raise ArgumentError(f"key must be a dict with the columns {list(self.asked.keys)}, got {shown(key)}.")
        fields = [self.schema.field(name) for name in self.asked.keys]
        pa = arrow.pyarrow()
        return pa.table({field.name: pa.array([key[field.name]], field.type) for field in fields})

    def begin(self, table: Any) -> None:
        """Find the keys of a batch."""
        schema, array = arrow.keys_of(table, self.asked.keys)
        self.engine.begin(schema, array, table.num_rows)

    def _applied(self, table: Any, times: NDArray[np.int64], late: Any, inputs: Any) -> NDArray[np.uint8]:
        self.begin(table)
        return self._taken(times, late, inputs)

    def _taken(self, times: NDArray[np.int64], late: Any, inputs: Any) -> NDArray[np.uint8]:
        ids, deletes, columns = inputs
        status = np.empty(len(times), dtype=np.uint8)
        self.engine.apply(times, ids, deletes, late.view(np.uint8), self.seq, columns, status)
        for name, code in (("late", LATE), ("repeated", REPEATED), ("unmatched", UNMATCHED)):
            self.counts[name] += int((status == code).sum())
        return status

    def _deletes(self, table: Any) -> NDArray[np.uint8]:
        pa = arrow.pyarrow()
        column = arrow.evaluated(table, self.asked.retract)
        if not pa.types.is_boolean(column.type):
            raise KindError(f"retract: {shown(self.asked.retract)} holds {column.type}; give booleans.")
        return np.ascontiguousarray(np.asarray(column.fill_null(False), dtype=np.uint8))

    def _ticks(self, watermark: Any) -> int:
        if self.unit is None:
            if not is_integer(watermark):
                raise KindError(f"watermark: {shown(watermark)} is not an int, but the times are ints; give an int.")
            return int(watermark)
        zoned = getattr(self.time_kind, "tz", None) is not None
        if zoned and isinstance(watermark, np.datetime64):
            zoned = False  # NumPy's instants are UTC by convention
        return Instants(self.unit, "numpy", zoned).encode(watermark, "watermark")

    # --- what goes out ----------------------------------------------------------------------------

    def _answered(self, anchors: int) -> Answers:
        return Answers(self.definition, self.engine, anchors).ask(self.held.values)

    def _columns(self, answers: Answers, keep: Any = None) -> dict[str, Any]:
        columns = answers.columns(keep, self.asked.on_error)
        self.counts["overflows"] += answers.overflows
        self.counts["failures"] += answers.failures
        return columns

    def _anchors(self, count: int, *, times: bool = False) -> NDArray[np.int64]:
        words = np.empty(count, dtype=np.int64)
        self.engine.anchors(words, times)
        return words

    def _revised(self, rows: Any, gone: int) -> Any:
        """Give rows with a revision each, the first of them as deleted."""
        pa = arrow.pyarrow()
        revisions = self.revision + 1 + np.arange(rows.num_rows)
        self.revision += rows.num_rows
        self.counts["emitted"] += rows.num_rows
        self.counts["deleted"] += gone
        deleted = np.arange(rows.num_rows) < gone
        return rows.append_column("revision", pa.array(revisions)).append_column("deleted", pa.array(deleted))

    def _with_late(self, due: Any, table: Any, late: NDArray[np.bool_]) -> Any:
        """Add the late rows, with nulls for results, where they are asked for."""
        pa = arrow.pyarrow()
        if self.asked.late == "drop":
            return due
        rows = table.filter(pa.array(late))
        columns = {}
        for field in due.schema:
            columns[field.name] = self._late_column(rows, field)
        marks = np.arange(due.num_rows + rows.num_rows) >= due.num_rows
        added = pa.table(columns, schema=due.schema)
        return pa.concat_tables([due, added]).append_column("late", pa.array(marks))

    def _late_column(self, rows: Any, field: Any) -> Any:
        pa = arrow.pyarrow()
        if field.name in self._own_columns():
            return rows.column(field.name).cast(field.type)
        if field.name == "deleted":
            return pa.array(np.zeros(rows.num_rows, dtype=bool))
        if field.name == "revision":
            self.revision += rows.num_rows
            return pa.array(self.revision - rows.num_rows + 1 + np.arange(rows.num_rows))
        return pa.nulls(rows.num_rows, field.type)

    def _own_columns(self) -> list[str]:
        """Give the columns of an event that come out again."""
        asked = self.asked
        named = [*asked.keys, asked.time, *([asked.id] if asked.id else []), *asked.carry]
        return list(dict.fromkeys(named))

    # --- the end ----------------------------------------------------------------------------------

    def flush(self) -> Any:
        """Give all that is pending as final, and let go of everything."""
        result = self._with_late(self._rest(), self.schema.empty_table(), np.zeros(0, dtype=bool))
        self.engine.expire(HIGHEST, HIGHEST)
        return result

    def _rest(self) -> Any:
        raise NotImplementedError

    def drop_before(self, horizon: Any) -> None:
        """Let go of every row before a time."""
        bound = self._ticks(horizon)
        self.engine.expire(bound - 1, bound)
        self.held.expire(bound - 1)


class EventStream(Stream):
    """A result for each row: as it arrives, when it is final, or again whenever it changes."""

    def __init__(self, asked: Asked, table: Any, counts: dict[str, int]) -> None:
        super().__init__(asked, table, counts)
        self.arrived_schema: Any = None
        if asked.emit != "arrival":
            require_unlike([*self._own_columns(), *result_names(self.definition, asked)])

    def _remembers(self) -> bool:
        return self.asked.emit == "update"

    def _held_columns(self) -> list[str]:
        shown_again = [] if self.asked.emit == "arrival" else self._own_columns()
        return list(dict.fromkeys([*shown_again, *self.definition.foreign_columns]))

    def _late_before(self, horizon: int) -> int:
        return horizon

    def _retained_after(self, horizon: int) -> int:
        return horizon - self.definition.largest - (self.asked.closed == "left")

    def _clean_at(self, newest: int) -> int:
        return super()._clean_at(newest) + (self.asked.closed == "left")

    def _shown_at(self) -> int | None:
        if self.asked.emit != "final":
            return None
        first = self.engine.pending(self.finished)
        return None if first is None else first + 1 + self.horizon.lateness

    def _due(self, table: Any, times: Any, status: Any) -> Any:
        if self.asked.emit == "arrival":
            return self._arrived(table, times, status)
        horizon = LOWEST if self.horizon.at is None else self.horizon.at
        due = self._updated() if self.asked.emit == "update" else self._final(horizon)
        return self._with_late(due, table, status == LATE)

    def _arrived(self, table: Any, times: Any, status: Any) -> Any:
        pa = arrow.pyarrow()
        inserted = status == INSERTED
        answers = self._answered(self.engine.arrived(times, status))
        columns = self._columns(answers)
        self.counts["emitted"] += answers.rows
        if self.asked.late == "drop":
            rows = table if inserted.all() else table.filter(pa.array(inserted))
        else:
            late = status == LATE
            keep = inserted | late
            rows = table.filter(pa.array(keep))
            columns = {name: arrow.spread(column, inserted[keep]) for name, column in columns.items()}
            columns["late"] = pa.array(late[keep])
        require_new(rows, columns)
        rows = arrow.with_columns(rows, columns)
        self.arrived_schema = rows.schema
        return rows

    def _rows(self, seqs: NDArray[np.int64]) -> Any:
        return self.held.rows(seqs).select(self._own_columns())

    def _final(self, until: int) -> Any:
        until = max(until, self.finished)
        answers = self._answered(self.engine.between(self.finished, until))
        rows = self._rows(self._anchors(answers.rows))
        self.finished = until
        self.counts["emitted"] += answers.rows
        return arrow.with_columns(rows, self._columns(answers))

    def _updated(self) -> Any:
        pa = arrow.pyarrow()
        gone = self._anchors(self.engine.gone())
        answers = self._answered(self.engine.touched())
        change = np.empty(answers.rows, dtype=np.uint8)
        self.engine.changed(answers.seen, answers.extra(), False, change)
        keep = np.flatnonzero(change)
        seqs = self._anchors(answers.rows)[keep]
        self.counts["revised"] += int((seqs < self.seq).sum())  # those that were there before this batch
        rows = pa.concat_tables([self._rows(gone), self._rows(seqs)])
        for name, column in self._columns(answers, keep).items():
            rows = rows.append_column(name, arrow.stacked([pa.nulls(len(gone)), column]))
        return self._revised(rows, len(gone))

    def flush(self) -> Any:
        """Give all that is pending as final, and let go of everything."""
        if self.asked.emit != "arrival":
            return super().flush()
        self.engine.expire(HIGHEST, HIGHEST)
        return arrow.pyarrow().table({}) if self.arrived_schema is None else self.arrived_schema.empty_table()

    def _rest(self) -> Any:
        return self._final(HIGHEST) if self.asked.emit == "final" else self._updated()


class BoundaryStream(Stream):
    """A result for each key and boundary: when it is final, or when it is reached and whenever it changes."""

    grid: Grid

    def __init__(self, asked: Asked, table: Any, counts: dict[str, int]) -> None:
        super().__init__(asked, table, counts)
        require_unlike(result_names(self.definition, asked))

    def _late_before(self, horizon: int) -> int:
        return self.grid.late_before(horizon)

    def _retained_after(self, horizon: int) -> int:
        return self.grid.next_boundary(horizon) - self.definition.largest - 1

    def _clean_at(self, newest: int) -> int:
        return super()._clean_at(newest) + self.grid.every

    def _shown_at(self) -> int | None:
        if self.asked.emit == "update":
            return self.engine.pending(self.shown)
        first = self.engine.pending(self.finished)
        return None if first is None else first + self.horizon.lateness

    def _applied(self, table: Any, times: NDArray[np.int64], late: Any, inputs: Any) -> NDArray[np.uint8]:
        self.begin(table)
        if self.asked.emit == "update":
            before = self._answered(self.engine.watch(times, late.view(np.uint8), self.shown))
            self.engine.remember(before.seen, before.extra())
        return self._taken(times, late, inputs)

    def _due(self, table: Any, times: Any, status: Any) -> Any:
        if self.asked.emit == "update":
            watermark = self.horizon.watermark
            due = self._updated(self.shown if watermark is None else watermark)
        else:
            due = self._final(self.finished if self.horizon.at is None else self.horizon.at)
        return self._with_late(due, table, status == LATE)

    def _final(self, until: int) -> Any:
        until = max(until, self.finished)
        answers = self._answered(self.engine.boundaries(self.finished, until))
        self.finished = until
        self.counts["emitted"] += answers.rows
        return arrow.with_columns(self._bounds(answers.rows), self._columns(answers))

    def _updated(self, until: int) -> Any:
        """Give what has changed among those that were shown, and then those that are shown for the first time."""
        pa = arrow.pyarrow()
        answers = self._answered(self.engine.watched())
        change = np.empty(answers.rows, dtype=np.uint8)
        self.engine.changed(answers.seen, answers.extra(), True, change)
        gone, changed = np.flatnonzero(change == 2), np.flatnonzero(change == 1)
        self.counts["revised"] += len(changed)
        bounds = self._bounds(answers.rows)
        revised = self._columns(answers, changed)
        until = max(until, self.shown)
        fresh = self._answered(self.engine.boundaries(self.shown, until))
        self.shown = until
        rows = pa.concat_tables([bounds.take(gone), bounds.take(changed), self._bounds(fresh.rows)])
        for name, column in self._columns(fresh).items():
            rows = rows.append_column(name, arrow.stacked([pa.nulls(len(gone)), revised[name], column]))
        return self._revised(rows, len(gone))

    def _bounds(self, rows: int) -> Any:
        """Give the keys and the ends of the anchors' windows."""
        return boundary_columns(self.definition, self.engine, self.asked, self.schema, rows)

    def _rest(self) -> Any:
        return self._final(HIGHEST) if self.asked.emit == "final" else self._updated(HIGHEST)

    def _own_columns(self) -> list[str]:
        return list(dict.fromkeys([*self.asked.keys, *event_columns(self.asked)]))
