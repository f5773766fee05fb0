"""Named totals of streaming queries: counted up from each micro-batch's report, and the latest of what is measured."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from sash.spark.stream.metrics import of_batch
from sash.spark.stream.query import ASKING

# What grows with each micro-batch, and what it means.
COUNTERS = {
    "batches": "micro-batches that were run",
    "rows_in": "rows that reached the aggregation",
    "late": "rows that were too late",
    "bad_times": "rows without a time",
    "bad_ids": "rows without an id",
    "repeated": "events that came again",
    "unmatched": "deletes that matched no row",
    "questions": "questions that reached the aggregation",
    "late_questions": "questions that were too late",
    "repeated_questions": "questions that came again",
    "emitted": "results",
    "revised": "results that replace an earlier one",
    "deleted": "results that were withdrawn",
    "quarantined": "rows and questions that a pipeline put aside",
    "overflows": "results that are null because they do not fit their type",
    "failures": "results that are null because code of a monoid raised",
    "hits": "buckets that were in memory",
    "catch_ups": "buckets in memory that were behind",
    "rebuilds": "buckets that were read from the state",
    "timers": "buckets that ran without rows",
    "written_bytes": "bytes of state that were written",
    "read_bytes": "bytes of state that were read",
    "merged_bytes": "bytes of state that were rewritten by merging records",
    "busy_seconds": "time in micro-batches",
}
# What the last micro-batch measured.
GAUGES = {
    "last_batch": "number of the last micro-batch",
    "batch_seconds": "time that the last micro-batch took",
    "rows_per_second": "rows in the last micro-batch, by its time",
    "watermark_lag_seconds": "how far the watermark is behind the clock",
    "seconds_since_rows": "time without rows, up to the last report",
    "seconds_since_questions": "time without questions, 0 if the query has none to answer",
    "kafka_lag_records": "records of Kafka that are not read yet",
    "live_keys": "keys in the buckets that the last micro-batch with rows touched",
    "live_rows": "rows or panes in them",
    "records": "records of their state",
    "state_bytes": "bytes of their state",
}
_WAITS = {"seconds_since_rows": "rows_in", "seconds_since_questions": "questions"}
_STATE = ("live_keys", "live_rows", "records", "state_bytes")
_NO_WATERMARK = "1970-01-01"


@dataclass
class Totals:
    """The totals of one query since it started here."""

    counters: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    gauges: dict[str, float] = field(default_factory=lambda: dict.fromkeys(GAUGES, 0))
    _seen: tuple[int, str] = (-1, "")
    _last: dict[str, datetime] = field(default_factory=dict)  # when rows and questions came, by the name of the gauge
    _asks: bool = False  # whether the query has questions

    def add(self, progress: Mapping[str, Any]) -> None:
        """Count a report of Spark, once; those that Spark makes while a query is idle only tell how long it waits."""
        self._lag(progress)
        mark = int(progress["batchId"]), str(progress["timestamp"])
        if mark <= self._seen:
            return
        if "addBatch" not in progress.get("durationMs", {}):
            self.wait(mark[1], {})
            return
        self._seen = mark
        found, observed = of_batch(dict(progress)), progress.get("observedMetrics", {})
        self._asks = self._asks or any(name.startswith(ASKING) for name in observed)
        self.wait(mark[1], found)
        aside = [observed.get(name) or {} for name in ("quarantine", "questions")]
        found["quarantined"] = sum(int(value or 0) for one in aside for name, value in one.items() if name != "rows")
        found |= {"batches": 1, "busy_seconds": found["seconds"]}
        for name in COUNTERS:
            self.counters[name] += found.get(name, 0)
        self.gauges |= {"last_batch": found["batch"], "batch_seconds": found["seconds"]}
        self.gauges |= {"rows_per_second": found["rows_per_second"], "kafka_lag_records": found["kafka_lag"] or 0}
        if found["records"]:
            self.gauges |= {name: found[name] for name in _STATE}

    def _lag(self, progress: Mapping[str, Any]) -> None:
        text = progress.get("eventTime", {}).get("watermark")
        if text and not text.startswith(_NO_WATERMARK):
            at = datetime.fromisoformat(text.replace("Z", "+00:00"))
            self.gauges["watermark_lag_seconds"] = time.time() - at.timestamp()

    def wait(self, timestamp: str, found: Mapping[str, Any]) -> None:
        """Measure how long nothing has come, by the clock of Spark's reports; `found` are the counts of this one."""
        now = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
        for name, counter in _WAITS.items():
            if found.get(counter) or name not in self._last:
                self._last[name] = now
            if counter != "questions" or self._asks:
                self.gauges[name] = max((now - self._last[name]).total_seconds(), 0.0)


class MetricsListener(StreamingQueryListener):
    """Keeps totals of all queries of a session, by their names; those without one have their ids.

    Pass it to `spark.streams.addListener`. `on_batch`, if any, is called after each micro-batch with the query's name
    and its totals.
    """

    def __init__(self, on_batch: Callable[[str, Totals], None] | None = None) -> None:
        """Start without totals."""
        self._on_batch, self._lock = on_batch, Lock()
        self._totals: dict[str, Totals] = {}
        self._names: dict[str, str] = {}

    @property
    def totals(self) -> dict[str, Totals]:
        """The totals of each query that has reported since the listener was added."""
        with self._lock:
            return dict(self._totals)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Note the name of a query."""
        with self._lock:
            self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Count a micro-batch."""
        progress = json.loads(event.progress.json)
        with self._lock:
            name = progress.get("name") or self._names.get(progress["id"], progress["id"])
            totals = self._totals.setdefault(name, Totals())
            totals.add(progress)
        if self._on_batch is not None:
            self._on_batch(name, totals)

    def onQueryIdle(self, event: Any) -> None:
        """Measure how long a query waits; it has nothing to count."""
        with self._lock:
            totals = self._totals.get(self._names.get(str(event.id), str(event.id)))
            if totals is not None:
                totals.wait(event.timestamp, {})

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Keep the totals: a query that is started again goes on with them."""
