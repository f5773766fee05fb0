"""The operator's own part: Spark's calls to buckets, state variables and timers, counters in rows."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from sash.spark.stream import cache, processor
from sash.spark.stream.bucket import COUNTERS
from sash.spark.stream.packing import PACKED, pack, unpack
from sash.spark.stream.processor import OUTPUT, Processor
from support.buckets.single import COUNT, Single, picked, plain
from support.buckets.trial import Asking, rows_of

FINAL = Asking(aggs=COUNT, sizes=(4,))


class Value:
    """A ValueState of Spark's."""

    def __init__(self) -> None:
        self.held: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.held

    def update(self, value: tuple[Any, ...]) -> None:
        self.held = value


class Map:
    """A MapState of Spark's; what is not there cannot be removed."""

    def __init__(self) -> None:
        self.held: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self.held.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self.held[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:
        del self.held[key]


class Handle:
    """What Spark hands to an operator, for one key."""

    def __init__(self) -> None:
        self.head, self.log = Value(), Map()
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: Any) -> Value:
        assert (name, schema.names) == ("head", ["data"])
        return self.head

    def getMapState(self, name: str, key: Any, value: Any) -> Map:
        assert (name, key.names, value.names) == ("log", ["seq"], ["data"])
        return self.log

    def registerTimer(self, expiry_ms: int) -> None:
        assert expiry_ms not in self.timers
        self.timers.add(expiry_ms)

    def deleteTimer(self, expiry_ms: int) -> None:
        self.timers.remove(expiry_ms)


class Clock:
    """The timer values of a micro-batch, and a timer that expired."""

    def __init__(self, watermark_ms: int, expiry_ms: int = 0) -> None:
        self.watermark_ms, self.expiry_ms = watermark_ms, expiry_ms

    def getCurrentWatermarkInMs(self) -> int:
        return self.watermark_ms

    def getExpiryTimeInMs(self) -> int:
        return self.expiry_ms


class Operator:
    """An operator with one key, called as Spark calls it."""

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self.processor = Processor(asking.plan(1))
        self.handle = Handle()
        self.processor.init(self.handle)

    def micro_batch(self, rows: list[Any], watermark_ms: int = 0) -> list[Row]:
        plan = self.processor.plan
        table = self.asking.table(rows).select(plan.schema.names)
        packed = [Row(**row) for batch in pack(plan, iter(table.to_batches())) for row in batch.to_pylist()]
        out = list(self.processor.handleInputRows((0,), iter(packed), Clock(watermark_ms))) if packed else []
        return [*out, *self._fired(watermark_ms)]

    def _fired(self, watermark_ms: int) -> Iterator[Row]:
        for expiry in sorted(expiry for expiry in self.handle.timers if expiry <= watermark_ms):
            yield from self.processor.handleExpiredTimer(
                key=(0,), timerValues=Clock(watermark_ms), expiredTimerInfo=Clock(watermark_ms, expiry)
            )
            self.handle.timers.remove(expiry)  # Spark removes it after the call

    def results(self, rows: list[Row]) -> list[Any]:
        data = pa.RecordBatch.from_arrays([pa.array([row["data"] for row in rows], pa.large_binary())], ["data"])
        schema = self.processor.plan.result
        return rows_of(pa.Table.from_batches(list(unpack(schema, iter([data]))), schema=schema))


def counted(row, name):
    return row["counts"][COUNTERS.index(name)]


@pytest.fixture(autouse=True)
def own_memory(monkeypatch):
    monkeypatch.setattr(cache, "WORKER", cache.Cache())


@pytest.mark.parametrize("emit", ["arrival", "final", "update"])
def test_an_operator_does_what_its_bucket_does(emit):
    """Its results, its state and its timers, through rows, timers and the end."""
    asking = Asking(aggs=COUNT, sizes=(4,), emit=emit)
    operator, one = Operator(asking), Single(asking)
    for rows, watermark_ms in ((plain(10, 11), 0), (plain(14), 5), ([], 6), (plain(13, 30), 8), ([], 16), ([], 40)):
        said = operator.micro_batch(rows, watermark_ms)
        assert operator.results(said) == one.run(rows, watermark_ms)
        assert operator.handle.timers == one.store.committed.timers
        assert {key for (key,) in operator.handle.log.held} == set(one.store.committed.log)
        assert all(sum(row["counts"][i] for row in said) == one.counts[name] for i, name in enumerate(COUNTERS))
    assert operator.handle.head.held is not None and not operator.handle.log.held  # the head stays


def test_rows_are_as_spark_was_told():
    """The counters, all of them, then the data."""
    (row,) = Operator(FINAL).micro_batch(plain(10))
    assert row.__fields__ == OUTPUT.names == ["counts", "data"]
    assert len(row["counts"]) == len(COUNTERS)


def test_counters_come_once_however_many_parts_there_are(monkeypatch):
    """The second part of a bucket's results has nothing to add."""
    monkeypatch.setattr(processor, "result_bytes", lambda plan, table: [b"one", b"two"])
    first, second = Operator(FINAL).micro_batch(plain(10))
    assert (counted(first, "rows_in"), counted(second, "rows_in"), first["data"], second["data"]) == (
        1,
        0,
        b"one",
        b"two",
    )


@pytest.mark.parametrize("grid", [{}, {"every": 2}, {"every": 2, "emit": "update"}])
def test_what_is_due_at_once_comes_in_portions(grid, monkeypatch):
    """An outage is over, and more is due than one Arrow array can hold: the rest follows as the watermark advances."""
    asking = Asking(aggs=COUNT, sizes=(4,), **grid)
    operator, one = Operator(asking), Single(asking)
    rows = [{**row, "k": key} for key in "abc" for row in plain(*range(100, 140))]
    said, wanted = operator.results(operator.micro_batch(rows)), [*one.run(rows), *one.run([], 100)]
    monkeypatch.setattr(processor, "RESULT_BYTES", 1000)
    portions = []
    for watermark_ms in range(100, 130):
        operator.processor.init(operator.handle)  # as for each task
        came = operator.micro_batch([], watermark_ms) if watermark_ms % 3 else operator.micro_batch([*plain(400)], 100)
        portions.append(operator.results(came))
    names = ["k", "window_end" if grid else "t", "n_2000us"]
    due = sorted(picked([*said, *(row for part in portions for row in part)], *names))
    assert due == sorted(picked(wanted, *names)) and len(due) > 60
    assert len([part for part in portions if part]) > 5 and max(map(len, portions)) < 30


def test_bad_rows_are_rows_that_came_in():
    """They were counted where they were packed."""
    bad = {**plain(1)[0], "t": None}
    (row,) = Operator(FINAL).micro_batch([*plain(10), bad, bad])
    assert (counted(row, "rows_in"), counted(row, "bad_times"), counted(row, "live_rows")) == (3, 2, 1)
    (row,) = Operator(FINAL).micro_batch([bad])
    assert (counted(row, "rows_in"), counted(row, "bad_times"), row["data"]) == (1, 1, b"")


def test_one_workers_memory_is_by_query_and_operator():
    """Two operators of one worker do not meet, be they alike."""
    one, other = Operator(FINAL), Operator(FINAL)
    one.micro_batch(plain(10))
    other.micro_batch(plain(12))
    (row,) = one.micro_batch(plain(11))
    assert (counted(row, "hits"), counted(row, "live_rows")) == (1, 2)


def test_packed_rows_have_the_names_that_the_operator_reads():
    """A misnamed column would fail in an executor only."""
    assert PACKED.names == ["bucket", "asked", "bad_times", "bad_ids", "data"]
