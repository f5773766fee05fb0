"""One event at a time, and the results of one key, as plain Python values: for services that answer online.

The core does what a push of one row does, in one call (core/python/event_module.cpp), wherever the values of a row are
plain. Everything else goes through Arrow here: a push of one row, whose results become a dict. So what is lossless,
what is an error, and what its sentence is, are decided in one place.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sash import _core, durations
from sash.errors import ArgumentError, KindError, ResultOverflowError, RetentionError, shown
from sash.inputs import arrow, tables
from sash.keyed.answers import Answers
from sash.keyed.definition import require_monoids
from sash.keyed.emit import HIGHEST
from sash.keyed.emit_events import EventArrival
from sash.keyed.event_plan import plan_of
from sash.keyed.result_columns import require_new
from sash.keyed.spec import Spec
from sash.keyed.stream import Stream
from sash.times import Instants, is_pandas

if TYPE_CHECKING:
    import pyarrow as pa

_ERRORS = (ArithmeticError, TypeError, ValueError, NotImplementedError)  # Arrow's errors are these too


def empty_table(schema: Any) -> "pa.Table":
    """Return a table without rows from the `schema` that a user passes."""
    pa = arrow.pyarrow()
    if not isinstance(schema, pa.Schema):
        raise KindError(f"schema must be an Arrow schema, got {shown(schema)}.", argument="schema")
    return schema.empty_table()


def require_arrival(spec: Spec) -> None:
    """Raise unless events are answered when they arrive."""
    if spec.emit != "arrival":
        raise ArgumentError(f'emit must be "arrival" for event, got {shown(spec.emit)}; use push.', argument="emit")


# --- one event ------------------------------------------------------------------------------------


class Event(NamedTuple):
    """A row, and those of its columns that are read as a table."""

    row: dict[str, Any]
    table: "pa.Table"

    @classmethod
    def of(cls, row: Any, spec: Spec, stream: Stream | None) -> "Event":
        """Read a row, or raise if it is none, or if Arrow has no such values."""
        if not isinstance(row, Mapping):
            raise KindError(f"row must be a dict from columns to values, got {shown(row)}.", argument="row")
        plain = row if type(row) is dict else dict(row)
        read = plain.keys() if spec.retract is not None and not isinstance(spec.retract, str) else _columns_read(spec)
        columns = {name: _column(value) for name, value in plain.items() if name in read or not isinstance(name, str)}
        return cls(plain, tables.table_of(columns, "batch"))

    def push(self, ones: "OneByOne", watermark: Any) -> tuple[dict[str, Any] | None, Counter[str]]:
        """Push it, and return what it shows and what was counted; an error changes nothing."""
        stream = ones.stream
        require_new(self.row, ones.names)
        with _unchanged_by_errors(stream, self.table):
            step = stream.push(self.table, watermark)
            if not step.results.num_rows:
                return None, step.counts
            (found,) = step.results.to_pylist()
        read = stream.schema.names
        return {**self.row, **found, **{name: self.row[name] for name in self.row if name not in read}}, step.counts


def _columns_read(spec: Spec) -> set[str]:
    names = [*spec.keys, spec.time, spec.id, spec.retract, *spec.carry]
    require_monoids(spec.aggs)
    return {*(name for name in names if name), *(name for agg in spec.aggs.values() for name in agg.columns)}


def _column(value: Any) -> Any:
    """Return a value as a column; Arrow would drop the nanoseconds of a pandas Timestamp."""
    if not (is_pandas(value) and value == value and value.nanosecond):
        return [value]
    pa = arrow.pyarrow()
    zone = None if value.tzinfo is None else pa.array([value.to_pydatetime(warn=False)]).type.tz
    return pa.array([value.to_datetime64()]).view(pa.timestamp("ns", zone))


@contextmanager
def _unchanged_by_errors(stream: Stream, table: "pa.Table") -> Iterator[None]:
    """Put a stream back to where it was when a step of one row raises, however far it came."""
    position, horizon, retained = dict(vars(stream.position)), dict(vars(stream.horizon)), stream.retained.mark()
    learned, names, rows = dict(stream.definition.learned), stream.engine.id_names, stream.engine.live_rows
    emitted = stream.emitter.schema if isinstance(stream.emitter, EventArrival) else None
    try:
        yield
    except BaseException:
        vars(stream.position).update(position)
        vars(stream.horizon).update(horizon)
        stream.retained.back_to(retained)
        stream.definition.learned.clear()
        stream.definition.learned.update(learned)
        if isinstance(stream.emitter, EventArrival):
            stream.emitter.schema = emitted
        if stream.engine.live_rows > rows:
            stream.take_back(table, names)
        raise


# --- one by one -----------------------------------------------------------------------------------


class OneByOne:
    """What answers for single events and keys of a stream."""

    def __init__(self, spec: Spec, stream: Stream, counts: dict[str, int]) -> None:
        self.spec, self.stream = spec, stream
        self.core = _core.OneEvent(plan_of(spec, stream, counts))
        sizes = [size for size, _ in stream.definition.windows]
        self.names = [f"{agg}_{size}" for agg in stream.definition.names for size in sizes]
        self.names += ["late"] if spec.late == "emit" else []
        paned = spec.resolution is not None or stream.definition.merges(spec)
        self.grid = stream.definition.grid(spec) if paned else None
        conditional = spec.retract is not None and not isinstance(spec.retract, str)
        takes_events = isinstance(stream.emitter, EventArrival) and not stream.definition.foreign and not conditional
        self.fast_event = self.core.event if takes_events else None

    def now(self, key: Any, at: Any) -> dict[str, Any]:
        """Return the results of a key as of a time, or raise if its windows reach behind what is retained."""
        stream = self.stream
        plain = self.spec.every is None and stream.dropped is None and not stream.definition.foreign
        found = self.core.now(key, at) if plain else NotImplemented
        if found is NotImplemented:
            found = self._now(key, at)
        if isinstance(found, tuple):
            raise _failure(*found)
        return found  # type: ignore[no-any-return]

    def _now(self, key: Any, at: Any) -> Any:
        stream = self.stream
        table = _key_table(key, self.spec, stream)
        time = self._newest() if at is None else stream.ticks(at, "at")
        if time is None:
            return self.core.empty()
        self._require_answer(time)
        if table is None:
            return self.core.empty()
        columns = arrow.keys_of(table, self.spec.keys)
        anchors = stream.engine.anchor_at(*columns, time)
        if not stream.definition.foreign or not len(anchors):
            return self.core.answer(*columns, time)
        learned = dict(stream.definition.learned)
        answers = Answers.of(stream.definition, stream.engine, anchors, stream.retained.values)
        found, _ = answers.columns(on_error=self.spec.on_error)
        stream.definition.learned.clear()
        stream.definition.learned.update(learned)
        return {name: column[0].as_py() for name, column in found.items()}

    def _newest(self) -> int | None:
        """Return the earliest time whose windows hold the newest row, or None if there has been none."""
        newest = self.stream.position.newest
        if newest is None or self.spec.closed == "right":
            return newest
        if self.grid is None:
            return min(newest + 1, HIGHEST)
        return self.grid.late_before(newest) + self.grid.pane

    def _require_answer(self, time: int) -> None:
        stream = self.stream
        if self.grid is not None and self.grid.late_before(time) != time:
            raise ArgumentError(
                f"at must be at an edge of the panes, which are {self._shown(self.grid.late_before(time))} and every "
                f"{shown(self.grid.pane)} ticks from there, got {self._shown(time)}.",
                argument="at",
            )
        bound = stream.bound
        if bound is None:
            return
        earliest = bound + stream.definition.largest + (self.spec.closed == "left")
        if self.grid is not None:
            earliest = -self.grid._replace(pane_offset=-self.grid.pane_offset % self.grid.pane).late_before(-earliest)
        if time < earliest:
            raise RetentionError(
                f"at must be {self._shown(earliest)} or later, because the rows before have been dropped, got "
                f"{self._shown(time)}.",
                argument="at",
            )

    def _shown(self, ticks: int) -> str:
        """Return a time as a message shows it."""
        if self.stream.definition.unit is None:
            return str(ticks)
        try:
            return str(Instants(self.stream.definition.unit, "numpy").decode(ticks))
        except OverflowError:
            return f"{ticks} {self.stream.definition.unit} since 1970"


def _key_table(key: Any, spec: Spec, stream: Stream) -> "pa.Table | None":
    """Return a key as a table, or None if it has a value where the stream has had none."""
    pa = arrow.pyarrow()
    _require_key(key, spec)
    columns = {}
    for name in spec.keys:
        kind = arrow.key_kind(stream.schema.field(name).type)
        if pa.types.is_null(kind) and key[name] is not None:
            return None
        try:
            columns[name] = pa.array([key[name]], kind)
        except _ERRORS:
            raise KindError(
                f"key must hold {kind} in the column {shown(name)}, got {shown(key[name])}.", argument="key", column=name
            ) from None
    return pa.table(columns)


def _require_key(key: Any, spec: Spec) -> None:
    if not isinstance(key, Mapping) or set(key) != set(spec.keys):
        wanted = list(spec.keys)
        raise ArgumentError(f"key must be a dict with the columns {wanted}, got {shown(key)}.", argument="key")


def _failure(name: str, overflows: bool) -> Exception:
    """Return why a result cannot be shown, where results that fail raise."""
    if overflows:
        return ResultOverflowError(
            f"{name} must fit int64; use on_error='null' to get null for results that do not.", column=name
        )
    return ArgumentError(
        f"{name} must be the geometric mean of values that are not negative; use on_error='null' to get null.",
        column=name,
    )


def results_of_nothing(spec: Spec, key: Any) -> dict[str, Any]:
    """Return the results of a key before the first row, when no type is known."""
    require_monoids(spec.aggs)
    _require_key(key, spec)
    sizes = [durations.name_of(size) for size in spec.windows]
    return {f"{name}_{size}": _nothing(agg) for name, agg in spec.aggs.items() for size in sizes}


def _nothing(monoid: Any) -> Any:
    """Return what a monoid shows without rows: 0 where it counts."""
    if monoid.built_in and monoid.name == "struct":
        return {name: _nothing(inner) for name, inner in dict(monoid.arguments).items()}
    empty = monoid.empty() if monoid.built_in and not monoid.timed and monoid.parts else None
    return 0 if type(empty) is int and empty == 0 else None
