"""One event at a time, and the results of one key, as plain Python values: for services that answer online.

The core does what a push of one row does, in one call (core/python/event_module.cpp), wherever the values of a row are
plain. Everything else goes through Arrow here: a push of one row, whose results become a dict. So what is lossless,
what is an error, and what its sentence is, are decided in one place.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sash import _core
from sash.errors import ArgumentError, KindError, shown
from sash.inputs import arrow, tables
from sash.keyed import queries, questions
from sash.keyed.definition import require_distinct, require_monoids
from sash.keyed.emit_events import EventArrival
from sash.keyed.event_plan import plan_of
from sash.keyed.result_columns import require_new
from sash.keyed.spec import Spec
from sash.keyed.stream import Stream
from sash.times import is_pandas

if TYPE_CHECKING:
    import pyarrow as pa


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
        require_new(self.row, ones.added)
        with _unchanged_by_errors(stream, self.table):
            step = stream.push(self.table, watermark)
            if not step.results.num_rows:
                return None, step.counts
            found = _plain(step.results, self.row)
        read = stream.schema.names
        return {**self.row, **found, **{name: self.row[name] for name in self.row if name not in read}}, step.counts


def _plain(results: "pa.Table", row: dict[str, Any]) -> dict[str, Any]:
    """Return the one result of a row, or raise if Python has no such values, as times behind the year 9999."""
    try:
        (found,) = results.to_pylist()
    except (OverflowError, ValueError) as error:
        raise ArgumentError(
            f"row must have results that Python has values for, got {shown(row)} ({error}); use push.", argument="row"
        ) from None
    return dict(found)


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
        self.added = [*self.names, *(["late"] if spec.late == "emit" else [])]
        conditional = spec.retract is not None and not isinstance(spec.retract, str)
        takes_events = isinstance(stream.emitter, EventArrival) and not stream.definition.foreign and not conditional
        self.fast_event = self.core.event if takes_events else None
        self.fast_now = self.core.now if spec.every is None and not stream.definition.foreign else None

    def now(self, key: Any, at: Any) -> dict[str, Any]:
        """Return the results of a key as of a time, or raise if its windows reach behind what is retained."""
        found = self.fast_now(key, at) if self.fast_now is not None else NotImplemented
        return found if isinstance(found, dict) else self._now(key, at)

    def _now(self, key: Any, at: Any) -> dict[str, Any]:
        _require_key(key, self.spec)
        keys = None
        if self.spec.keys:
            table = tables.table_of({name: [key[name]] for name in self.spec.keys}, "key")
            keys = questions.keys_in(table, self.spec.keys, self.stream.schema, "key")
        learned = dict(self.stream.definition.learned)
        try:
            (row,) = queries.query(self.stream, keys, at=at, start=None, stop=None, closed=None).to_pylist()
        finally:  # what is learned of types is learned from events
            self.stream.definition.learned.clear()
            self.stream.definition.learned.update(learned)
        return {name: row[name] for name in self.names}


def _require_key(key: Any, spec: Spec) -> None:
    if not isinstance(key, Mapping) or set(key) != set(spec.keys):
        wanted = list(spec.keys)
        raise ArgumentError(f"key must be a dict with the columns {wanted}, got {shown(key)}.", argument="key")


def results_of_nothing(spec: Spec, key: Any) -> dict[str, Any]:
    """Return the results of a key before the first row, when no type is known."""
    require_monoids(spec.aggs)
    _require_key(key, spec)
    require_distinct(spec.aggs, spec.windows)
    nothing = {name: None if spec.min_rows else _nothing(agg) for name, agg in spec.aggs.items()}
    return {f"{name}_{window}": nothing[name] for name in spec.aggs for window in spec.windows}


def _nothing(monoid: Any) -> Any:
    """Return what a monoid shows without rows: 0 where it counts."""
    if monoid.built_in and monoid.name == "struct":
        return {name: _nothing(inner) for name, inner in dict(monoid.arguments).items()}
    return 0 if monoid.built_in and monoid.name in ("count", "count_if") else None
