"""One bucket of keys in one micro-batch: from its log to a stream, through the stream, and back to its log.

Nothing of Spark is here. The state's log is the truth; a stream in the worker's memory is used as far as it stands on
it. Every mutation, a timer's too, is written as a record with a fresh nonce before the stream goes back into memory.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.errors import CorruptStateError
from sash.inputs import arrow
from sash.keyed import panes
from sash.keyed.stream import COUNTS, Step, Stream
from sash.spark.stream.cache import Cache, Kept
from sash.spark.stream.log import Head, Log, Store
from sash.spark.stream.plan import Plan

_MILLISECOND = 1000  # in the microseconds that Spark's timestamps are made of
GAUGES = ("live_keys", "live_rows", "records", "state_bytes")
COUNTERS = (
    *COUNTS,
    *("hits", "catch_ups", "rebuilds", "merges", "timers", "written_bytes", "read_bytes", "merged_bytes"),
    *GAUGES,
)


@dataclass
class Outcome:
    """What a bucket gives: results, what it counted, and when it wants to be called again."""

    results: pa.Table
    counts: dict[str, int]
    timer: int | None
    old_timer: int | None


class Bucket:
    """A bucket at work."""

    def __init__(self, plan: Plan, store: Store, cache: Cache, key: Any) -> None:
        self.plan, self.store, self.cache, self.key = plan, store, cache, key
        cache.limit = plan.cache_bytes
        self.counts = dict.fromkeys(COUNTERS, 0)

    def run(self, rows: pa.Table | None, watermark_ms: int) -> Outcome:
        """Take rows, or none where a timer fired, and give what is due at a watermark; 0 is none yet."""
        head = self._head()
        log = Log(self.store, head)
        stream = self._stream(log)
        watermark = watermark_ms * _MILLISECOND if watermark_ms > 0 else None
        if rows is None:
            self.counts["timers"] += 1
            rows = stream.schema.empty_table()
        self.plan.probe("step", self.key, self.counts)
        step = stream.step(rows, watermark)
        old_timer, timer = head.timer, self._timer(stream, watermark_ms)
        self._save(log, stream, step.applied, timer)
        self._count(log, stream, step)
        self.plan.probe("saved", self.key, self.counts)
        return Outcome(step.results, self.counts, timer, old_timer)

    def _head(self) -> Head:
        data = self.store.head()
        if data is None:
            return Head(self.plan.fingerprint)
        head = Head.from_bytes(data)
        if head.fingerprint != self.plan.fingerprint:
            raise CorruptStateError(
                "checkpoint: it is that of another definition (keys, windows, aggregates, columns or buckets differ); "
                "give the definition it was made with, or start from a new checkpoint."
            )
        return head

    # --- from the log to a stream -----------------------------------------------------------------

    def _stream(self, log: Log) -> Stream:
        kept = self.cache.take(self.key)
        head = log.head
        if not head.entries:
            return self.plan.stream()
        place = None if kept is None else self._place(head, kept)
        if kept is None or place is None:
            self.counts["rebuilds"] += 1
            return self._replayed(self.plan.stream(), log, 0)
        if place == len(head.entries) - 1:
            self.counts["hits"] += 1
            stream: Stream = kept.stream
            return stream
        self.counts["catch_ups"] += 1
        return self._replayed(kept.stream, log, place + 1)

    def _place(self, head: Head, kept: Kept) -> int | None:
        if self.plan.checked:
            return head.place_of(kept.seq, kept.nonce)
        return next((i for i, entry in enumerate(head.entries) if entry.seq == kept.seq), None)

    def _replayed(self, stream: Stream, log: Log, start: int) -> Stream:
        """Take the rows of records again, but for those that no window can see: a delete of them may be gone."""
        bound = stream.retained_after(log.head.position.get("horizon"))
        for table in log.tables(start):
            stream.replay(since(table, self.plan.asked.time, bound))
        stream.resume(log.head.position)
        return stream

    # --- and back ---------------------------------------------------------------------------------

    def _timer(self, stream: Stream, watermark_ms: int) -> int | None:
        """Give when to come again: in milliseconds, after the watermark that there is."""
        due = stream.due_at()
        return None if due is None else max(-(-due // _MILLISECOND), watermark_ms + 1, 1)

    def _save(self, log: Log, stream: Stream, mattered: pa.Table, timer: int | None) -> None:
        if timer is None:  # nothing is held: as if it had never been
            self.store.clear()
            log.head.entries.clear()
            return
        times, _ = arrow.ticks(mattered, self.plan.asked.time)
        log.append(mattered.select(self.plan.logged), times)
        self.plan.probe("written", self.key, self.counts)
        bound = stream.retained_after(stream.horizon.at)
        log.drop_expired(bound)
        log.compact(self.plan.protected, lambda table: self._tidied(stream, since(table, self.plan.asked.time, bound)))
        log.head.position = stream.saved_position()
        log.head.timer = timer
        self.store.save_head(log.head.to_bytes())
        self.cache.put(self.key, Kept(stream, log.head.last.seq, log.head.last.nonce))

    def _tidied(self, stream: Stream, table: pa.Table) -> pa.Table:
        return panes.merged(stream.definition, self.plan.asked, table) if self.plan.merges else table

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
    """Give the rows after a time."""
    times, _ = arrow.ticks(table, time)
    keep = times > bound
    return table if keep.all() else table.filter(pa.array(np.asarray(keep)))
