"""The stateful operator: connects Spark's callbacks with buckets."""

from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import types as spark
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)

from sash.spark.stream import cache
from sash.spark.stream.bucket import COUNTERS, RESULT_BYTES, Bucket, Outcome
from sash.spark.stream.initial_state import HEAD
from sash.spark.stream.log import Head
from sash.spark.stream.packing import result_bytes, unpack_step
from sash.spark.stream.plan import Plan, process_plan
from sash.spark.stream.worker import freeze_imports

_SEQ = spark.StructType([spark.StructField("seq", spark.LongType())])
_DATA = spark.StructType([spark.StructField("data", spark.BinaryType())])
# The counters are one column: Spark plans and generates code again for every micro-batch, column by column.
OUTPUT = spark.StructType(
    [
        spark.StructField("counts", spark.ArrayType(spark.LongType())),
        spark.StructField("data", spark.BinaryType()),
    ]
)


class _Store:
    """A bucket's state in Spark's state store."""

    def __init__(self, head: ValueState, log: MapState) -> None:
        self._head, self._log = head, log

    def head(self) -> bytes | None:
        found = self._head.get()
        return None if found is None else bytes(found[0])

    def save_head(self, data: bytes) -> None:
        self._head.update((data,))

    def read(self, seq: int) -> bytes | None:
        found = self._log.getValue((seq,))
        return None if found is None else bytes(found[0])

    def write(self, seq: int, data: bytes) -> None:
        self._log.updateValue((seq,), (data,))

    def remove(self, seq: int) -> None:
        self._log.removeKey((seq,))


class Processor(StatefulProcessor):
    """Packed rows of a bucket in, packed results out."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of the current task."""
        freeze_imports()
        self.plan = process_plan(self.plan)
        self._handle = handle
        self._store = _Store(handle.getValueState("head", _DATA), handle.getMapState("log", _SEQ, _DATA))
        self._timer_bytes = RESULT_BYTES
        task = TaskContext.get()  # None on the driver
        query = None if task is None else task.getLocalProperty("sql.streaming.queryId")
        self._owner = (query, self.plan.operator, self.plan.start)
        cache.WORKER.drop_earlier(self._owner)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Process the rows of a micro-batch, and yield what is due."""
        packed = list(rows)
        bucket = self._bucket(key)
        for name in ("bad_times", "bad_ids"):
            bad = sum(row[name] for row in packed)
            bucket.counts[name] += bad
            bucket.counts["rows_in"] += bad
        step = unpack_step(self.plan, [(row["asked"], bytes(row["data"])) for row in packed])
        return self._emit(bucket.run(step, timerValues.getCurrentWatermarkInMs(), RESULT_BYTES))

    def handleInitialState(self, key: Any, initialState: Row, timerValues: TimerValues) -> None:
        """Copy a record or the head of a history into the state; it does not matter which comes first."""
        seq, data = initialState["seq"], bytes(initialState["data"])
        if seq != HEAD:
            self._store.write(seq, data)
            return
        self._store.save_head(data)
        timer = Head.from_bytes(data).timer
        if timer is not None:
            self._handle.registerTimer(timer)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Yield what became final without new rows."""
        outcome = self._bucket(key).run(None, timerValues.getCurrentWatermarkInMs(), self._timer_bytes)
        # The results of all timers of a task go into one array, those of rows into one for each bucket.
        self._timer_bytes = max(self._timer_bytes - outcome.results.nbytes, 0)
        if outcome.old_timer == expiredTimerInfo.getExpiryTimeInMs():
            outcome.old_timer = None  # Spark has removed it
        return self._emit(outcome)

    def close(self) -> None:
        """Do nothing, as nothing is open."""

    def _bucket(self, key: Any) -> Bucket:
        return Bucket(self.plan, self._store, cache.WORKER, (*self._owner, key[0]))

    def _emit(self, outcome: Outcome) -> Iterator[Row]:
        if outcome.old_timer != outcome.timer:
            if outcome.old_timer is not None:
                self._handle.deleteTimer(outcome.old_timer)
            if outcome.timer is not None:
                self._handle.registerTimer(outcome.timer)
        counts = [outcome.counts[name] for name in COUNTERS]
        for data in result_bytes(self.plan, outcome.results) or [b""]:
            yield Row(counts=counts, data=data)
            counts = [0] * len(COUNTERS)
