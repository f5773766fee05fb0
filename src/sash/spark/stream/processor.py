"""The stateful operator: Spark's calls on one side, buckets on the other."""

from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import types as spark
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from sash.spark.stream import cache
from sash.spark.stream.bucket import COUNTERS, Bucket, Outcome
from sash.spark.stream.packing import result_bytes, unpacked
from sash.spark.stream.plan import Plan, known
from sash.spark.stream.worker import settle

_SEQ = spark.StructType([spark.StructField("seq", spark.LongType())])
_DATA = spark.StructType([spark.StructField("data", spark.BinaryType())])
# The counters are one column: Spark works its plan and its code out anew for every micro-batch, column by column.
OUTPUT = spark.StructType(
    [
        spark.StructField("counts", spark.ArrayType(spark.LongType())),
        spark.StructField("data", spark.BinaryType()),
    ]
)


class _Store:
    """A bucket's state in Spark's state store."""

    def __init__(self, head: Any, log: Any) -> None:
        self._head, self._log = head, log

    def head(self) -> bytes | None:
        found = self._head.get()
        return None if found is None else bytes(found[0])

    def save_head(self, data: bytes) -> None:
        self._head.update((data,))

    def read(self, seq: int) -> bytes:
        return bytes(self._log.getValue((seq,))[0])

    def write(self, seq: int, data: bytes) -> None:
        self._log.updateValue((seq,), (data,))

    def remove(self, seq: int) -> None:
        self._log.removeKey((seq,))

    def clear(self) -> None:
        self._head.clear()
        self._log.clear()


class Processor(StatefulProcessor):
    """Packed rows of a bucket in, packed results out."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Take the state of the task at hand."""
        settle()
        self.plan = known(self.plan)
        self._handle = handle
        self._store = _Store(handle.getValueState("head", _DATA), handle.getMapState("log", _SEQ, _DATA))
        task = TaskContext.get()  # None on the driver
        self._query = None if task is None else task.getLocalProperty("sql.streaming.queryId")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Take the rows of a micro-batch."""
        packed = list(rows)
        bucket = self._bucket(key)
        for name in ("bad_times", "bad_ids"):
            bad = sum(row[name] for row in packed)
            bucket.counts[name] += bad
            bucket.counts["rows_in"] += bad
        table = unpacked(self.plan, [bytes(row["data"]) for row in packed])
        return self._given(bucket.run(table, timerValues.getCurrentWatermarkInMs()))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Give what became final without new rows."""
        outcome = self._bucket(key).run(None, timerValues.getCurrentWatermarkInMs())
        if outcome.old_timer == expiredTimerInfo.getExpiryTimeInMs():
            outcome.old_timer = None  # it has gone by itself
        return self._given(outcome)

    def close(self) -> None:
        """Nothing is open."""

    def _bucket(self, key: Any) -> Bucket:
        return Bucket(self.plan, self._store, cache.WORKER, (self._query, self.plan.operator, key[0]))

    def _given(self, outcome: Outcome) -> Iterator[Row]:
        if outcome.old_timer != outcome.timer:
            if outcome.old_timer is not None:
                self._handle.deleteTimer(outcome.old_timer)
            if outcome.timer is not None:
                self._handle.registerTimer(outcome.timer)
        counts = [outcome.counts[name] for name in COUNTERS]
        for data in result_bytes(self.plan, outcome.results) or [b""]:
            yield Row(counts=counts, data=data)
            counts = [0] * len(COUNTERS)
