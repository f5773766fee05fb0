"""KeyedWindows: aggregates over many keys and windows, of a stream that comes in batches and out of order.

A push judges its rows against the horizon, hands those in time to the core, and gives what is due: each row as it
arrives, each when it is final, or each again whenever it changes. Columns in, columns out; no row is looked at in
Python.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import policy, state, tables
from sash.answers import Answers, Definition
from sash.errors import ArgumentError, CorruptStateError, KindError, SashError, UnsupportedError, shown
from sash.rolling import check_closed, key_names, require_new
from sash.times import Instants, is_integer

_EMITS = ("arrival", "final", "update")
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_INSERTED, _REPEATED, _DELETED, _UNMATCHED, _AWAITED, _LATE, _WITHDRAWN = range(7)
_CHUNKS = 64  # of what is held; a column in more pieces is slow to take rows from
_ARGUMENTS = ("keys", "time", "emit", "late", "retract", "id", "carry", "closed", "on_error")
_POSITION = ("newest", "seq", "revision", "finished")


class KeyedWindows:
    """Windows by key over a stream of batches, several sizes and aggregates at once.

    >>> from sash import KeyedWindows, monoids
    >>> kw = KeyedWindows(keys=["card"], time="ts", windows=[10], aggs={"n": monoids.count()}, emit="final", lateness=5)
    >>> kw.push({"card": ["a", "a"], "ts": [1, 4]}).num_rows
    0
    >>> kw.push({"card": ["a"], "ts": [3]}, watermark=8)["n_10"].to_pylist()
    [1]
    >>> kw.flush().to_pydict()
    {'card': ['a', 'a'], 'ts': [3, 4], 'n_10': [2, 3]}
    """

    def __init__(
        self,
        *,
        keys: Any,
        time: str,
        windows: Any,
        aggs: Any,
        per: str = "event",
        every: Any = None,
        emit: str = "arrival",
        lateness: Any = None,
        late: str = "drop",
        retract: str | None = None,
        id: str | None = None,
        carry: Any = (),
        closed: str = "right",
        on_error: str = "null",
    ) -> None:
        """Say what is wanted; the first batch decides the kinds of the columns."""
        if every is not None or per != "event":
            raise UnsupportedError('every: slide boundaries are not there yet; use per="event".')
        for argument, value, known in (
            ("emit", emit, _EMITS),
            ("late", late, ("drop", "emit")),
            ("on_error", on_error, ("null", "raise")),
        ):
            if value not in known:
                raise ArgumentError(f"{argument}: {shown(value)} is not known; give one of {', '.join(known)}.")
        check_closed(closed)
        self.keys, self.time, self.emit, self.late = key_names(keys), time, emit, late
        self.retract, self.id, self.carry, self.closed, self.on_error = retract, id, key_names(carry), closed, on_error
        self._asked = (aggs, windows, lateness)
        self._stream: _Stream | None = None
        self._counts = dict.fromkeys(
            ("rows_in", "bad_times", "late", "repeated", "unmatched", "emitted", "revised", "deleted", "overflows"), 0
        )

    @property
    def metrics(self) -> dict[str, int]:
        """What has come in, what was late, and what has gone out so far."""
        live = (0, 0) if self._stream is None else (self._stream.engine.live_keys, self._stream.engine.live_rows)
        return {**self._counts, "live_keys": live[0], "live_rows": live[1]}

    def push(self, batch: Any, watermark: Any = None) -> Any:
        """Take a batch and give what is due; without a `watermark` it is the newest time seen before this batch."""
        table, _ = tables.table_of(batch, "batch")
        if self._stream is None:
            self._stream = _Stream(self, table)
        return self._stream.push(table, watermark)

    def flush(self) -> Any:
        """End the stream: give everything that was still pending as final."""
        if self._stream is None:
            return tables.arrow().table({})
        return self._stream.flush()

    def to_bytes(self) -> bytes:
        """Give all that is held as bytes, checked and versioned, that `from_bytes` goes on from; no pickle."""
        aggs, windows, lateness = self._asked
        header = {name: getattr(self, name) for name in _ARGUMENTS}
        header |= {"windows": [_plain_size(size) for size in policy.listed(windows)], "lateness": _plain_size(lateness)}
        header |= {"aggs": {name: state.monoid_to(monoid) for name, monoid in aggs.items()}, "counts": self._counts}
        rows, held = b"", b""
        if self._stream is not None:
            header["stream"] = self._stream.position()
            rows, held = self._stream.engine.dump(), self._stream.held.to_bytes(self._stream.schema)
        return state.join(header, rows, held)

    @classmethod
    def from_bytes(cls, data: Any, aggs: Any = None) -> "KeyedWindows":
        """Go on where `to_bytes` was; give `aggs` where some of them are your own."""
        header, rows, held = state.part(data)
        try:
            known = aggs or {name: state.monoid_from(plain) for name, plain in header["aggs"].items()}
            arguments = {name: header[name] for name in (*_ARGUMENTS, "windows", "lateness")}
            made = cls(aggs=known, **arguments)
            made._counts = {name: int(header["counts"][name]) for name in made._counts}
            if "stream" in header:
                made._stream = _Stream.restored(made, header["stream"], rows, held)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, SashError):
                raise
            raise CorruptStateError(f"data: it is not that of a KeyedWindows: {shown(error)}.") from None
        return made

    def drop_before(self, horizon: Any) -> None:
        """Let go of every row before a time; windows then answer as if it had never been."""
        if self._stream is not None:
            self._stream.drop_before(horizon)


class _Stream:
    """A KeyedWindows at work, its kinds decided."""

    def __init__(self, asked: KeyedWindows, table: Any) -> None:
        self.asked = asked
        self._require(table)
        self.unit = tables.unit_of(table, asked.time)
        aggs, windows, lateness = asked._asked
        self.definition = Definition.of(aggs, windows, self.unit)
        tables.require_columns(table, list(self.definition.monoid.columns), "aggs")
        self.horizon = policy.Horizon(
            0 if lateness is None else policy.ticks_of(lateness, self.unit, "lateness", least=0)
        )
        self.kinds = self.definition.kinds_in(table)
        self.engine = self.definition.engine(
            self.kinds, closed_left=asked.closed == "left", remembers=asked.emit == "update"
        )
        self.zone = getattr(table.schema.field(asked.time).type, "tz", None)
        self.newest: int | None = None
        self.seq = 0
        self.revision = 0
        self.finished = _LOWEST  # anchors before this have been given as final
        self.held = _Held(self._held_columns(), table.schema)
        self.schema = tables.arrow().schema([table.schema.field(name) for name in self._read_columns()])
        self.arrived_schema: Any = None

    # --- bytes ------------------------------------------------------------------------------------

    def position(self) -> dict[str, Any]:
        """Where the stream is, as plain data."""
        return {name: getattr(self, name) for name in _POSITION} | {"horizon": self.horizon.at}

    @classmethod
    def restored(cls, asked: KeyedWindows, position: dict[str, Any], rows: Any, held: Any) -> "_Stream":
        """Give a stream back from its parts."""
        schema, kept = _Held.parts(held)
        stream = cls(asked, schema.empty_table())
        stream.held.restore(kept)
        if not stream.engine.load(rows):
            raise CorruptStateError("data: its rows are not those of a KeyedWindows; give what to_bytes gave.")
        for name in _POSITION:
            setattr(stream, name, position[name])
        stream.horizon.at = position["horizon"]
        return stream

    def _require(self, table: Any) -> None:
        asked = self.asked
        tables.require_columns(table, asked.keys, "keys")
        tables.require_columns(table, [asked.time], "time")
        tables.require_columns(table, asked.carry, "carry")
        for argument, name in (("id", asked.id), ("retract", asked.retract)):
            if name is not None:
                tables.require_columns(table, [name], argument)

    def _require_types(self, table: Any) -> None:
        """Refuse a batch whose columns are not of the first one's types."""
        for field in self.schema:
            tables.require_columns(table, [field.name], "batch")
            given = table.schema.field(field.name).type
            if given != field.type and not tables.arrow().types.is_null(given):
                raise KindError(
                    f"batch: the column {shown(field.name)} holds {given}, and held {field.type} before; cast it."
                )

    def _held_columns(self) -> list[str]:
        asked = self.asked
        named = [*asked.keys, asked.time, *([asked.id] if asked.id else []), *asked.carry]
        return list(dict.fromkeys(named))

    def _read_columns(self) -> list[str]:
        marks = [self.asked.retract] if self.asked.retract else []
        return list(dict.fromkeys([*self._held_columns(), *marks, *self.definition.monoid.columns]))

    # --- rows in ----------------------------------------------------------------------------------

    def push(self, table: Any, watermark: Any) -> Any:
        """Take a batch and give what is due."""
        self._require_types(table)
        counts, rows_in, bad_times = self.asked._counts, table.num_rows, 0
        times, bad = tables.ticks(table, self.asked.time)
        if bad is not None:
            bad_times = int(bad.sum())
            table, times = table.filter(tables.arrow().array(~bad)), np.ascontiguousarray(times[~bad])
        inputs = self._inputs(table)
        horizon = self.horizon.advance(self.newest if watermark is None else self._ticks(watermark))
        late = np.zeros(len(times), dtype=bool) if horizon is None else times < horizon
        if not late.all():
            newest = int(times[~late].max())
            self.newest = newest if self.newest is None else max(self.newest, newest)
        status = self._applied(table, times, late, inputs)
        counts["rows_in"] += rows_in
        counts["bad_times"] += bad_times
        self.held.add(table, self.seq, status == _INSERTED, times, self.asked.emit != "arrival")
        result = self._due(table, times, status, horizon)
        self.seq += len(times)
        if horizon is not None:
            bound = max(horizon - self.definition.largest - (self.asked.closed == "left"), _LOWEST)
            self.engine.expire(bound, horizon)
            self.held.expire(bound)
        return result

    def _inputs(self, table: Any) -> tuple[Any, Any, Any]:
        """Give the ids, the deletes and the aggregated columns, or refuse the batch before anything has changed."""
        ids = None if self.asked.id is None else self._ids(table)
        deletes = None if self.asked.retract is None else self._deletes(table)
        return ids, deletes, self.definition.inputs_in(table, self.kinds)

    def _applied(self, table: Any, times: NDArray[np.int64], late: Any, inputs: Any) -> NDArray[np.uint8]:
        asked, counts = self.asked, self.asked._counts
        ids, deletes, columns = inputs
        schema, array = tables.keys_of(table, asked.keys)
        self.engine.begin(schema, array, len(times))
        status = np.empty(len(times), dtype=np.uint8)
        self.engine.apply(times, ids, deletes, late.view(np.uint8), self.seq, columns, status)
        for name, code in (("late", _LATE), ("repeated", _REPEATED), ("unmatched", _UNMATCHED)):
            counts[name] += int((status == code).sum())
        return status

    def _ids(self, table: Any) -> NDArray[np.int64]:
        pa = tables.arrow()
        column = table.column(self.asked.id)
        if not pa.types.is_integer(column.type) or column.null_count:
            raise KindError(f"id: the column {shown(self.asked.id)} holds {column.type}; give integers without nulls.")
        return np.ascontiguousarray(column.cast(pa.int64()).to_numpy())

    def _deletes(self, table: Any) -> NDArray[np.uint8]:
        pa = tables.arrow()
        column = table.column(self.asked.retract)
        if not pa.types.is_boolean(column.type):
            raise KindError(f"retract: the column {shown(self.asked.retract)} holds {column.type}; give booleans.")
        return np.ascontiguousarray(np.asarray(column.fill_null(False), dtype=np.uint8))

    def _ticks(self, watermark: Any) -> int:
        if self.unit is None:
            if not is_integer(watermark):
                raise KindError(f"watermark: {shown(watermark)} is not an int, but the times are ints; give an int.")
            return int(watermark)
        zoned = self.zone is not None
        if zoned and isinstance(watermark, np.datetime64):
            zoned = False  # NumPy's instants are UTC by convention
        return Instants(self.unit, "numpy", zoned).encode(watermark, "watermark")

    # --- what is due ------------------------------------------------------------------------------

    def _due(self, table: Any, times: Any, status: Any, horizon: int | None) -> Any:
        if self.asked.emit == "arrival":
            return self._arrived(table, times, status)
        due = self._updated() if self.asked.emit == "update" else self._final(_LOWEST if horizon is None else horizon)
        return self._with_late(due, table, status == _LATE)

    def _with_late(self, due: Any, table: Any, late: NDArray[np.bool_]) -> Any:
        """Add the late rows, with nulls for results, where they are asked for."""
        pa = tables.arrow()
        if self.asked.late == "drop":
            return due
        rows = table.select(self.held.columns).filter(pa.array(late))
        for field in list(due.schema)[len(self.held.columns) :]:
            values = pa.array(np.zeros(rows.num_rows, dtype=bool)) if field.name == "deleted" else None
            if field.name == "revision":
                values = pa.array(self.revision + 1 + np.arange(rows.num_rows))
                self.revision += rows.num_rows
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type) if values is None else values)
        marks = np.arange(due.num_rows + rows.num_rows) >= due.num_rows
        return pa.concat_tables([due, rows.cast(due.schema)]).append_column("late", pa.array(marks))

    def _answered(self, anchors: int, fresh: Any = None) -> Answers:
        answers = Answers(self.definition, self.engine, anchors)
        self.engine.answer(answers.rooms, fresh)
        return answers

    def _columns(self, answers: Answers, keep: Any = None) -> dict[str, Any]:
        columns = answers.columns(keep, self.asked.on_error)
        self.asked._counts["overflows"] += answers.overflows
        return columns

    def _anchors(self, count: int) -> NDArray[np.int64]:
        seqs = np.empty(count, dtype=np.int64)
        self.engine.anchors(seqs)
        return seqs

    def _arrived(self, table: Any, times: Any, status: Any) -> Any:
        pa = tables.arrow()
        inserted = status == _INSERTED
        answers = self._answered(self.engine.arrived(times, status))
        columns = self._columns(answers)
        self.asked._counts["emitted"] += answers.rows
        if self.asked.late == "drop":
            shown_rows = table if inserted.all() else table.filter(pa.array(inserted))
        else:
            late = status == _LATE
            keep = inserted | late
            shown_rows = table.filter(pa.array(keep))
            columns = {name: tables.spread(column, inserted[keep]) for name, column in columns.items()}
            columns["late"] = pa.array(late[keep])
        require_new(shown_rows, columns)
        shown_rows = tables.with_columns(shown_rows, columns)
        self.arrived_schema = shown_rows.schema
        return shown_rows

    def _final(self, until: int) -> Any:
        until = max(until, self.finished)
        answers = self._answered(self.engine.between(self.finished, until))
        rows = self.held.rows(self._anchors(answers.rows))
        self.finished = until
        self.asked._counts["emitted"] += answers.rows
        return tables.with_columns(rows, self._columns(answers))

    def _updated(self) -> Any:
        pa = tables.arrow()
        gone = self._anchors(self.engine.gone())
        count = self.engine.touched()
        fresh = np.empty(count, dtype=np.uint8)
        answers = self._answered(count, fresh)
        keep = np.flatnonzero(fresh)
        seqs = self._anchors(count)[keep]
        columns = self._columns(answers, keep)
        rows = pa.concat_tables([self.held.rows(gone), self.held.rows(seqs)])
        for name, column in columns.items():
            nulls = pa.nulls(len(gone), column.type)
            rows = rows.append_column(name, pa.chunked_array([nulls, column]))
        revisions = self.revision + 1 + np.arange(rows.num_rows)
        self.revision += rows.num_rows
        deleted = np.arange(rows.num_rows) < len(gone)
        counts = self.asked._counts
        counts["emitted"] += rows.num_rows
        counts["deleted"] += len(gone)
        counts["revised"] += int((seqs < self.seq).sum())  # those that were there before this batch
        return rows.append_column("revision", pa.array(revisions)).append_column("deleted", pa.array(deleted))

    # --- the end ----------------------------------------------------------------------------------

    def flush(self) -> Any:
        """Give all that is pending as final, and let go of everything."""
        if self.asked.emit == "arrival":
            result = tables.arrow().table({}) if self.arrived_schema is None else self.arrived_schema.empty_table()
        else:
            due = self._final(_HIGHEST) if self.asked.emit == "final" else self._updated()
            nothing = self.schema.empty_table()
            result = self._with_late(due, nothing, np.zeros(0, dtype=bool))
        self.engine.expire(_HIGHEST, _HIGHEST)
        return result

    def drop_before(self, horizon: Any) -> None:
        """Let go of every row before a time."""
        bound = self._ticks(horizon)
        self.engine.expire(bound - 1, bound)
        self.held.expire(bound - 1)


class _Held:
    """The columns that come out with a row again: keys, time, id and what it carries, by its place in the stream."""

    def __init__(self, columns: list[str], schema: Any) -> None:
        pa = tables.arrow()
        self.columns = columns
        self.table = pa.schema([schema.field(name) for name in columns]).empty_table()
        self.places = _Places()
        self._pruned = 0

    def add(self, table: Any, first: int, keep: NDArray[np.bool_], times: NDArray[np.int64], wanted: bool) -> None:
        """Keep the rows of a batch that were taken."""
        if not wanted:
            return
        pa = tables.arrow()
        kept = table.select(self.columns)
        kept = kept if keep.all() else kept.filter(pa.array(keep))
        self.table = pa.concat_tables([self.table, kept.cast(self.table.schema)])
        self.places.extend(first + np.flatnonzero(keep), times[keep])
        if self.table.column(0).num_chunks > _CHUNKS:
            self.table = self.table.combine_chunks()

    def to_bytes(self, schema: Any) -> bytes:
        """Give what is held, and the schema of batches, as Arrow's own bytes."""
        pa = tables.arrow()
        seqs, times = self.places.get()
        table = self.table.append_column("seq", pa.array(seqs)).append_column("ticks", pa.array(times))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        shape: bytes = schema.serialize().to_pybytes()
        return struct.pack("<Q", len(shape)) + shape + bytes(sink.getvalue().to_pybytes())

    @staticmethod
    def parts(data: Any) -> tuple[Any, Any]:
        """Give the schema of batches, and what was held."""
        pa = tables.arrow()
        try:
            (length,) = struct.unpack_from("<Q", data)
            schema = pa.ipc.read_schema(pa.py_buffer(data[8 : 8 + length]))
            return schema, pa.ipc.open_stream(pa.py_buffer(data[8 + length :])).read_all()
        except (pa.ArrowInvalid, struct.error, OSError) as error:
            raise CorruptStateError(f"data: what it holds cannot be read: {shown(error)}.") from None

    def restore(self, kept: Any) -> None:
        """Take back what was held."""
        self.places.extend(kept.column(-2).to_numpy(), kept.column(-1).to_numpy())
        self.table = kept.select(list(range(kept.num_columns - 2))).rename_columns(self.columns)

    def rows(self, seqs: NDArray[np.int64]) -> Any:
        """Give rows by their places in the stream."""
        return self.table.take(tables.arrow().array(np.searchsorted(self.places.get()[0], seqs)))

    def expire(self, bound: int) -> None:
        """Let go of rows at or before a time, when there are enough of them to be worth it."""
        seqs, times = self.places.get()
        if len(seqs) < 2 * self._pruned + 1024:
            return
        keep = times > bound
        self.table = self.table.filter(tables.arrow().array(keep)).combine_chunks()
        self.places = _Places()
        self.places.extend(seqs[keep], times[keep])
        self._pruned = int(keep.sum())


class _Places:
    """Places in the stream and times of rows, which grow without being copied each time."""

    def __init__(self) -> None:
        self._words = np.empty((2, 16), dtype=np.int64)
        self._size = 0

    def get(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give the places, ascending, and the times."""
        return self._words[0, : self._size], self._words[1, : self._size]

    def extend(self, seqs: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        """Add some at the end."""
        size = self._size + len(seqs)
        if size > self._words.shape[1]:
            grown = np.empty((2, 2 * size), dtype=np.int64)
            grown[:, : self._size] = self._words[:, : self._size]
            self._words = grown
        self._words[0, self._size : size] = seqs
        self._words[1, self._size : size] = times
        self._size = size


def _plain_size(size: Any) -> Any:
    """Give a size or a lateness as text or a number, which mean the same."""
    return size if size is None or isinstance(size, (str, int)) else policy.name_of(size)
