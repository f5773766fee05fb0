"""KeyedWindows: aggregates over many keys and windows of a stream of batches, in any order.

Columns in, columns out. Python never handles a single row, unless an aggregate is written in Python.
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
    ) -> None:
        """Define the aggregates; the first batch determines the types of the columns.

        `per="event"` has a result for each row, `every="1 minute"` one for each key and boundary of that grid, shifted
        by `offset`. `emit` is "arrival" (each row at once), "final" (each result once, when nothing can change it) or
        "update" (again whenever it changes). Rows more than `lateness` behind the watermark are late; `late="emit"`
        returns them with null results. `retract` is the column or condition that marks deletes, `id` the column that
        distinguishes events of the same key and time, `carry` the columns to include in the results.
        """
        self.spec = Spec.of(
            keys=keys, time=time, windows=windows, aggs=aggs, per=per, every=every, emit=emit, lateness=lateness,
            late=late, retract=retract, id=id, carry=carry, closed=closed, offset=offset, resolution=resolution,
            on_error=on_error,
        )  # fmt: skip
        self._stream: Stream | None = None
        self._counts = dict.fromkeys(COUNTS, 0)
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
            stream = Stream.of(self.spec, table) if self._stream is None else self._stream.with_types_of(table)
            before = 0 if self._stream is None else self._stream.position.revision
            try:
                step = stream.push(table, watermark)
            finally:
                if stream.position.revision > before:  # a batch that is refused determines no types
                    self._stream = stream
            self._count(step.counts)
            return step.results

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
                made._stream.dropped = saved_state.dropped_of(header, made._stream.dropped)
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
