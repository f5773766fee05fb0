"""One bucket of keys in one micro-batch: from its log to a stream, through the stream, and back to its log.

Independent of Spark. The log in the state store is the truth; a cached stream is used only if it matches a record of
the log. Every mutation, including those of timers, is logged with a nonce of its own before the stream is cached.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.inputs import arrow
from sash.keyed import panes
from sash.keyed.emit import LOWEST
from sash.keyed.question_columns import is_own
from sash.keyed.stream import COUNTS, QUESTION_COUNTS, Step, Stream
from sash.spark.stream.cache import Cache, CachedStream, Key
from sash.spark.stream.change import Change, change_from, require_answerable
from sash.spark.stream.log import Head, Log, Store
from sash.spark.stream.open_sessions import SESSION, latest, replay, with_open_sessions
from sash.spark.stream.packing import Arrived
from sash.spark.stream.plan import Plan
from sash.spark.stream.repeated import Repeated
from sash.spark.stream.rewriting import needed_rows
from sash.spark.stream.row_order import Hashes, deletes_last, in_order

_MILLISECOND = 1000  # in microseconds, the unit of Spark's timestamps
RESULT_BYTES = 1 << 30  # of a run: Spark puts all of it into one Arrow array, which holds less than twice as much
GAUGES = ("live_keys", "live_rows", "records", "state_bytes")
COUNTERS = (
    *COUNTS,
    *QUESTION_COUNTS,
    *("hits", "catch_ups", "rebuilds", "merges", "timers", "written_bytes", "read_bytes", "merged_bytes"),
    *GAUGES,
)


@dataclass
class Outcome:
    """The outcome of a bucket: results, counters, and the timer at which it wants to run again."""

    results: pa.Table
    counts: dict[str, int]
    timer: int | None
    old_timer: int | None


class Bucket:
    """A bucket in one micro-batch."""

    def __init__(self, plan: Plan, store: Store, cache: Cache, key: Key) -> None:
        self.plan, self.store, self.cache, self.key = plan, store, cache, key
        self.counts = dict.fromkeys(COUNTERS, 0)
        self._repeated: Repeated | None = None  # what a changed definition says of what was emitted before

    def run(self, step: Arrived | None, watermark_ms: int, most: int = RESULT_BYTES) -> Outcome:
        """Process what came, or None if a timer fired, and return what is due at a watermark; 0 means none yet.

        Of what is due without the rows, about `most` bytes are returned; the rest follows when the watermark advances.
        No rows, where only counts of bad ones came, are nothing to run for: other attempts may send those elsewhere.
        """
        if step is not None and step.is_empty:
            return Outcome(self.plan.result.empty_table(), self.counts, None, None)
        head = self._head()
        log = Log(self.store, head, self._converted)
        stream = self._stream(log)
        watermark = watermark_ms * _MILLISECOND if watermark_ms > 0 else None
        if step is None:
            self.counts["timers"] += 1
            step = Arrived(stream.schema.empty_table())
        rows, hashes = self._in_order(stream, step.rows)
        questions, own = self._questions_in_order(step.questions)
        self.plan.probe("step", self.key, self.counts)
        done = stream.step(rows, None if watermark is None else stream.reachable(watermark, most), questions)
        results = done.results
        if self._repeated is not None:
            results, counts = self._repeated.added_to(results, stream.position.revision)
            done.counts.update(counts)
        old_timer, timer = head.timer, self._timer(stream, watermark_ms)
        head.timer = timer
        head.position = stream.saved_position() | {"seq": 0}  # which is that of a process
        head.advance(hashes.tobytes() + own)
        self._save(log, stream, with_open_sessions(stream, done.applied))
        self._count(log, stream, done)
        self.plan.probe("saved", self.key, self.counts)
        return Outcome(results, self.counts, timer, old_timer)

    def current(self) -> Stream:
        """Return the stream as the log has it; nothing is stored."""
        return self._stream(Log(self.store, self._head(), self._converted))

    def _in_order(self, stream: Stream, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        """Return rows as every attempt of the task sees them, however map tasks and the shuffle divided them."""
        if rows.num_rows:
            rows = self._merge_panes(stream, rows)
        return in_order(rows, arrow.ticks(rows, self.plan.spec.time)[0])

    def _questions_in_order(self, questions: pa.Table | None) -> tuple[pa.Table | None, bytes]:
        """Return questions in an order of their own too, and the hashes of those that there are."""
        asking = self.plan.asking
        if asking is None or questions is None or not questions.num_rows:
            return questions, b""
        questions, hashes = in_order(questions, arrow.ticks(questions, asking.time)[0])
        return questions, b"?" + hashes.tobytes()

    def _head(self) -> Head:
        data = self.store.head()
        return Head([self.plan.stored_plain]) if data is None else Head.from_bytes(data)

    def _converted(self, table: pa.Table, definition: dict[str, Any]) -> pa.Table:
        """Return the rows of a record that an earlier definition has written."""
        return change_from(self.plan, definition).conversion(table)

    # --- from the log to a stream -----------------------------------------------------------------

    def _stream(self, log: Log) -> Stream:
        cached = self.cache.take(self.key)
        head = log.head
        if not self.plan.wrote(head.definition):
            return self._changed(log)
        head.adopt(self.plan.stored_plain)  # its lateness may be another, or its version
        if not head.entries:
            stream = self.plan.stream()
            if head.position:
                stream.resume(head.position)
            return stream
        place = None if cached is None else self._place(head, cached)
        if cached is None or place is None:
            self.counts["rebuilds"] += 1
            return self._replay(self.plan.stream(), log, 0)
        if place == len(head.entries) - 1:
            self.counts["hits"] += 1
            return cached.stream
        self.counts["catch_ups"] += 1
        return self._replay(cached.stream, log, place + 1)

    def _changed(self, log: Log) -> Stream:
        """Rebuild a stream by another definition than that of the state, or raise if it cannot follow."""
        head = log.head
        change = require_answerable(self.plan, head)
        self.counts["rebuilds"] += 1
        position = head.position
        head.position = change.position(position)
        head.adopt(self.plan.stored_plain)
        stream = self._replayed(self.plan.stream(), log, 0)
        before = self._before(change, log) if change.empties else None
        if not head.position:
            return stream
        stream.continue_from(head.position)
        repeated = stream.emitter.repeat() if change.repeats else None
        if repeated is None:
            stream.emitter.recall()
        emptied = None
        if before is not None:  # an engine finds boundaries once
            emptied = change.emptied(
                position, before, change.bounds(stream, position) if repeated is None else repeated
            )
        self._repeated = Repeated.of(self.plan, repeated, emptied)
        return stream

    def _before(self, change: Change, log: Log) -> Stream:
        """Return a stream with the rows of the log and the windows before a change."""
        plan = change.with_old_windows

        def converted(table: pa.Table, definition: dict[str, Any]) -> pa.Table:
            return change_from(plan, definition).conversion(table)

        head = replace(log.head, definitions=[*log.head.definitions, plan.stored_plain])
        return self._replayed(plan.stream(), Log(log.store, head, converted), 0)

    def _place(self, head: Head, cached: CachedStream) -> int | None:
        if self.plan.checked:
            return head.place_of(cached.nonce)
        return next((i for i, entry in enumerate(head.entries) if entry.seq == cached.seq), None)

    def _replay(self, stream: Stream, log: Log, start: int) -> Stream:
        """Replay the records from one on, and continue from the position after them."""
        self._replayed(stream, log, start).resume(log.head.position)
        return stream

    def _replayed(self, stream: Stream, log: Log, start: int) -> Stream:
        """Replay the records from one on, except rows that no window can see: their deletes may have expired."""
        bound = self._bound(stream, log.head.position.get("horizon"))
        for table in log.tables(start):
            replay(stream, since(table, self.plan.spec.time, bound))
        return stream

    # --- and back ---------------------------------------------------------------------------------

    def _timer(self, stream: Stream, watermark_ms: int) -> int | None:
        """Return when to run again, in milliseconds, after the current watermark."""
        due = stream.due_at()
        return None if due is None else max(-(-due // _MILLISECOND), watermark_ms + 1, 1)

    def _save(self, log: Log, stream: Stream, mattered: pa.Table) -> None:
        if log.head.timer is None:  # nothing is retained
            log.clear()
            self.store.save_head(log.head.to_bytes())
            return
        mattered = deletes_last(mattered, self.plan.spec)
        times, _ = arrow.ticks(mattered, self.plan.spec.time)
        names = [*self.plan.logged, *(name for name in mattered.column_names if is_own(name) or name == SESSION)]
        log.append(mattered.select(names), times)
        self.plan.probe("written", self.key, self.counts)
        bound = self._bound(stream, stream.horizon.at)
        log.drop_expired(bound)
        log.compact(
            self.plan.protected, lambda table: self._merge_panes(stream, since(table, self.plan.spec.time, bound))
        )
        if self.plan.spec.counts and log.is_long:
            self._rewrite(log)
        self.store.save_head(log.head.to_bytes())
        cached = CachedStream(stream, log.head.last.seq, log.head.last.nonce)
        self.cache.put(self.key, cached, self.plan.cache_limit)

    def _bound(self, stream: Stream, horizon: int | None) -> int:
        """Return the time at or before which no row of the log is needed, whatever its key."""
        return LOWEST if self.plan.spec.counts else stream.retained_after(horizon)

    def _rewrite(self, log: Log) -> None:
        """Write the rows again that are needed, where windows count them."""
        rows = needed_rows(self.plan, log.tables(0), log.head.position)
        log.rewrite(rows, arrow.ticks(rows, self.plan.spec.time)[0])

    def _merge_panes(self, stream: Stream, table: pa.Table) -> pa.Table:
        if self.plan.merges:
            return panes.merged(stream.definition, self.plan.spec, table)
        return latest(table, self.plan.spec.keys)

    def _count(self, log: Log, stream: Stream, step: Step) -> None:
        for name, value in step.counts.items():
            self.counts[name] += value
        self.counts["written_bytes"] += log.written
        self.counts["read_bytes"] += log.read
        self.counts["merged_bytes"] += log.merged
        self.counts["merges"] += log.merges
        self.counts["live_keys"] += stream.engine.live_keys
        self.counts["live_rows"] += stream.engine.live_rows
        self.counts["records"] += len(log.head.entries)
        self.counts["state_bytes"] += sum(entry.size for entry in log.head.entries)


def since(table: pa.Table, time: str, bound: int) -> pa.Table:
    """Return the rows after a time."""
    times, _ = arrow.ticks(table, time)
    keep = times > bound
    return table if keep.all() else table.filter(pa.array(np.asarray(keep)))
