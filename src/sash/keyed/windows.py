"""KeyedWindows: aggregates over many keys and windows of a stream of batches, in any order.

Columns in, columns out, or one event at a time as a dict. Python itself never handles a single row, unless an aggregate
is written in Python.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sash import serialize
from sash.errors import ArgumentError, CorruptStateError, SashError, UnsupportedError, shown
from sash.inputs import arrow, tables
from sash.keyed import queries, saved_state
from sash.keyed.one_event import Event, OneByOne, empty_table, require_arrival, results_of_nothing
from sash.keyed.spec import Spec
from sash.keyed.stream import COUNTS, Stream


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
        emit: str | None = None,
        lateness: Any = None,
        late: str = "drop",
        retract: Any = None,
        id: str | None = None,
        carry: Any = (),
        closed: str | None = None,
        offset: Any = None,
        resolution: Any = None,
        on_error: str = "null",
        schema: Any = None,
        zone: Any = None,
        min_rows: int | None = None,
        idle: Any = None,
    ) -> None:
        """Define the aggregates; `schema` or else the first values determine the types of the columns.

        `per="event"` has a result for each row, `every="1 minute"` one for each key and boundary of that grid, shifted
        by `offset`. `emit` is "arrival" (each row at once), "final" (each result once, when nothing can change it) or
        "update" (again whenever it changes). Rows more than `lateness` behind the watermark are late; `late="emit"`
        returns them with null results. `retract` is the column or condition that marks deletes, `id` the column that
        distinguishes events of the same key and time, `carry` the columns to include in the results. `schema` is an
        Arrow schema with at least the columns that are read; it need not be given again after `from_bytes`. Windows are
        those of `rolling`, with `zone`, `min_rows` and `idle`, but for windows ahead.
        """
        self.spec = Spec.of(
            keys=keys, time=time, windows=windows, aggs=aggs, per=per, every=every, emit=emit, lateness=lateness,
            late=late, retract=retract, id=id, carry=carry, closed=closed, offset=offset, resolution=resolution,
            on_error=on_error, zone=zone, min_rows=min_rows, idle=idle,
        )  # fmt: skip
        self.spec.require_backward()
        self._stream: Stream | None = None if schema is None else Stream.of(self.spec, empty_table(schema))
        self._counts = dict.fromkeys(COUNTS, 0)
        self._single: OneByOne | None = None  # of the stream, from the first event or question on
        self._fast_event: Any = None  # from the first event on, where Arrow is not needed
        self._lock = threading.Lock()  # the core lets other threads run while it works

    @property
    def metrics(self) -> dict[str, int]:
        """Counts of the rows received, late, emitted and so on, so far."""
        live = (0, 0) if self._stream is None else (self._stream.engine.live_keys, self._stream.engine.live_rows)
        return {**self._counts, "live_keys": live[0], "live_rows": live[1]}

    def push(self, batch: Any, watermark: Any = None) -> Any:
        """Apply a batch and return what is due; the default `watermark` is the newest time seen before this batch."""
        table = tables.table_of(batch, "batch")
        with self._lock:
            before = self._stream
            revision = 0 if before is None else before.position.revision
            stream = self._typed_by(table)
            try:
                step = stream.push(table, watermark)
            finally:
                if stream.position.revision == revision:  # a batch that is refused determines no types
                    self._use(before)
            self._count(step.counts)
            return step.results

    def event(self, row: Any, watermark: Any = None) -> dict[str, Any] | None:
        """Apply one event, a dict from columns to values, and return it with its results; needs `emit="arrival"`.

        It does what a push of one row does, without Arrow. A row that has no results, because it is late, repeated, a
        delete, or has no time, returns None; with `late="emit"` a late one has null results. An error changes nothing.

        >>> from sash import KeyedWindows, monoids
        >>> kw = KeyedWindows(keys=["card"], time="ts", windows=[10], aggs={"total": monoids.sum("amount")})
        >>> kw.event({"card": "a", "ts": 1, "amount": 5})
        {'card': 'a', 'ts': 1, 'amount': 5, 'total_10': 5}
        >>> kw.event({"card": "a", "ts": 3, "amount": 2})["total_10"]
        7
        """
        with self._lock:
            if self._fast_event is not None:
                shown = self._fast_event(row, watermark)
                if shown is None or shown.__class__ is dict:
                    return shown
            return self._event(row, watermark)

    def _event(self, row: Any, watermark: Any) -> dict[str, Any] | None:
        """Apply an event that is out of the ordinary, or the first one."""
        require_arrival(self.spec)
        event = Event.of(row, self.spec, self._stream)
        if self._fast_event is not None and event.row is not row:  # another mapping than a dict
            shown = self._fast_event(event.row, watermark)
            if shown is None or shown.__class__ is dict:
                return shown
        before = self._stream
        stream = self._typed_by(event.table)
        try:
            shown, counts = event.push(self._ones(stream), watermark)
        except BaseException:
            self._use(before)
            raise
        self._count(counts)
        self._fast_event = self._ones(stream).fast_event
        return shown

    def now(self, key: Any, at: Any = None) -> dict[str, Any]:
        """Return the results of one key as of a time, as a dict; nothing changes.

        `key` is a dict from key columns to values. The default of `at` is the earliest time whose windows hold the
        newest row of the stream. A key without rows has 0 for counts and None for the rest. A time whose windows reach
        behind what is retained raises RetentionError.

        >>> from sash import KeyedWindows, monoids
        >>> kw = KeyedWindows(keys=["card"], time="ts", windows=[10], aggs={"total": monoids.sum("amount")})
        >>> _ = kw.push({"card": ["a", "b"], "ts": [1, 4], "amount": [5, 6]})
        >>> kw.now({"card": "a"}), kw.now({"card": "a"}, at=20)
        ({'total_10': 5}, {'total_10': None})
        """
        with self._lock:
            if self._stream is None:
                return results_of_nothing(self.spec, key)
            return self._ones(self._stream).now(key, at)

    def _typed_by(self, table: Any) -> Stream:
        """Return the stream, begun or with types for columns that have been null, if a table has some now."""
        stream = Stream.of(self.spec, table) if self._stream is None else self._stream.with_types_of(table)
        self._use(stream)
        return stream

    def _use(self, stream: Stream | None) -> None:
        if stream is not self._stream:
            self._stream, self._single, self._fast_event = stream, None, None

    def _ones(self, stream: Stream) -> OneByOne:
        if self._single is None:
            self._single = OneByOne(self.spec, stream, self._counts)
        return self._single

    def _count(self, counts: Counter[str]) -> None:
        for name, count in counts.items():
            self._counts[name] += count

    def flush(self) -> Any:
        """End the stream, return all pending results as final, and drop all rows."""
        with self._lock:
            if self._stream is None:
                return arrow.pyarrow().table({})
            rows, counts = self._stream.flush()
            self._count(counts)
            return rows

    def query(
        self, keys: Any = None, *, at: Any = None, start: Any = None, stop: Any = None, closed: Any = None
    ) -> Any:
        """Return a table of keys with the results of each key as of a time, or for a range; nothing changes.

        Every row and column of `keys` comes back, in order; there are none without keys. As of `at` the columns are
        `<aggregate>_<window>`, of the windows (at - size, at], or [at - size, at) with `closed="left"` or `every=`. The
        default is the earliest instant whose windows hold the newest row that was in time (a delete counts as one);
        with `every=` it is the first boundary after that row. With `start` and `stop` the columns are `<aggregate>`, of
        the rows in that range: both ends are part of it, unless `closed` is "left", "right" or "neither". A key that is
        not there has counts of 0, and null for the rest. Times are ints or datetimes as in `push`, also finer ones
        unless an aggregate depends on time. A question that reaches behind what is retained raises RetentionError,
        which names the earliest time that can be answered; so does the default where the watermark is far ahead of the
        newest row. Where rows are combined into panes, times must be edges of panes, and ranges are [start, stop).

        >>> from sash import KeyedWindows, monoids
        >>> kw = KeyedWindows(keys=["card"], time="ts", windows=[10], aggs={"n": monoids.count()}, emit="arrival")
        >>> _ = kw.push({"card": ["a", "a", "b"], "ts": [1, 4, 12]})
        >>> kw.query({"card": ["a", "c"]}, at=11)["n_10"].to_pylist()
        [1, 0]
        >>> kw.query({"card": ["a", "b"]}, start=1, stop=12)["n"].to_pylist()
        [2, 1]
        """
        with self._lock:
            if self._stream is None:
                raise ArgumentError("keys must be asked about after the first batch, which determines their types.")
            return queries.query(self._stream, keys, at=at, start=start, stop=stop, closed=closed)

    def check_invariants(self) -> None:
        """Recompute everything that is stored, and raise InvariantError on the first difference; O(rows stored).

        Order and occupancy of every key's tree, row counts, every summary, and what is due when.
        """
        with self._lock:
            if self._stream is not None:
                self._stream.engine.check()

    @property
    def combines(self) -> int:
        """The number of combines so far."""
        return 0 if self._stream is None else self._stream.engine.combines

    @property
    def repairs(self) -> int:
        """The number of those combines that made or changed the stored summaries of a key's tree."""
        return 0 if self._stream is None else self._stream.engine.repairs

    def nodes(self, key: Any = None) -> dict[str, Any] | None:
        """Return the tree of a key's rows as plain nested data, or None if the key has none.

        `key` is a dict from key columns to values. Times are those of the core (ticks of their unit); a summary that is
        stale, or was never needed, is None.

        >>> from sash import KeyedWindows, monoids
        >>> kw = KeyedWindows(keys=["card"], time="ts", windows=[10], aggs={"n": monoids.count()}, emit="arrival")
        >>> _ = kw.push({"card": ["a", "a"], "ts": [1, 4]})
        >>> kw.nodes({"card": "a"})["keys"]
        [1, 4]
        """
        with self._lock:
            if self._stream is None:
                return None
            schema, array = arrow.keys_of(self._stream.key_table({} if key is None else key), self.spec.keys)
            return self._stream.engine.nodes(schema, array)

    def to_bytes(self) -> bytes:
        """Return the whole state as bytes, with a version and a checksum, for `from_bytes`; no pickle."""
        with self._lock:
            header: dict[str, Any] = {"asked": self.spec.words(), "counts": self._counts}
            header["aggs"] = {name: serialize.monoid_to(monoid) for name, monoid in self.spec.aggs.items()}
            if self._stream is None:
                return serialize.join(header, b"", b"")
            header["stream"] = self._stream.saved_position()
            header["dropped"] = self._stream.dropped
            if self.spec.counts:
                header["settled"] = self._stream.settled
            rows, retained = self._stream.engine.dump(), self._stream.retained.to_bytes(self._stream.schema)
            return serialize.join(header, rows, retained)

    @classmethod
    def from_bytes(cls, data: Any, aggs: Any = None, retract: Any = None) -> "KeyedWindows":
        """Resume from `to_bytes`; pass `aggs` if some are custom, and `retract` if it is a condition.

        Aggregates that are passed must be those that were saved: the same names, monoids and arguments. The bytes may
        come from anyone: they are checked, and nothing in them is executed.
        """
        header, rows, retained = serialize.part(data)
        with _reading():
            known = saved_state.aggs_of(header["aggs"], aggs)
            words = header["asked"]
            if isinstance(words["retract"], dict):
                words["retract"] = _require_condition(words["retract"], retract)
        with _reading(all_of_it=True):
            made = cls(aggs=known, **words)
            made._counts = saved_state.counts_of(header["counts"], made._counts)
            if "stream" in header:
                made._stream = Stream.restored(made.spec, header["stream"], rows, retained)
                made._stream.dropped = saved_state.bound_of(header, "dropped", made._stream.dropped)
                made._stream.settled = saved_state.bound_of(header, "settled", made._stream.settled)
        return made

    def drop_before(self, horizon: Any) -> None:
        """Drop every row before a time, as if it had never arrived.

        Where rows are combined into panes, whole panes are dropped: those that end at that time or before.
        """
        with self._lock:
            if self._stream is not None:
                self._stream.drop_before(horizon)


@contextmanager
def _reading(*, all_of_it: bool = False) -> Iterator[None]:
    """Raise CorruptStateError where bytes that were crafted make any step fail; `all_of_it`: sash's own errors too."""
    try:
        yield
    except (UnsupportedError, CorruptStateError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, SashError) and not all_of_it:
            raise
        raise CorruptStateError(
            f"data must be what KeyedWindows.to_bytes returned: {shown(error)}.", argument="data"
        ) from None


def _require_condition(plain: dict[str, Any], given: Any) -> Any:
    if given is None:
        raise ArgumentError(f"retract must be passed again; it was {shown(plain['condition'])}.", argument="retract")
    return given
