"""Streams that are disturbed: what `test_stream_faults` runs, starts, and at times ends.

`alone` runs every scenario that wants one worker for one partition, where it is certain which cache a bucket meets.
`python fault_program.py FOLDER MASTER` resumes one stream in a session of its own, from its checkpoint if there is one,
until it ends or is ended. Workers write a line of a journal for each bucket that they have saved.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from sash.keyed.spec import Spec
from sash.spark import session
from sash.spark.stream.query import roll_stream
from sash.spark.stream.questions import Questions
from support import spark_streams as streams
from support.spark_streams import COMMUTATIVE, MINUTE, ORDERED, START, Case, Row

FINAL = Case(COMMUTATIVE | ORDERED, words={"emit": "final", "carry": ("row",)})
NAMED = Case(COMMUTATIVE | ORDERED, words={"emit": "final", "id": "i", "retract": "op = 'delete'"})
UPDATE = Case(COMMUTATIVE | ORDERED, words={"emit": "update", "id": "i", "retract": "gone"})
ASKED = {
    emit: Case(UPDATE.folds, words=UPDATE.words | {"emit": emit, "lateness": "1 day"}) for emit in ("final", "update")
}
QUESTIONS = pa.schema({"q": pa.timestamp("us", "UTC"), "k.ey": pa.string(), "name": pa.int64()})
WIDER = Case(COMMUTATIVE | ORDERED, {"30m": 30 * MINUTE}, words=UPDATE.words)
Probe = Callable[[str, Any, dict[str, int]], None]


# --- what workers do ------------------------------------------------------------------------------


def journal_of(folder: Path, *disturbances: Probe) -> Probe:
    """A probe that writes down what was counted, after whatever else it does."""

    def probe(point: str, key: Any, counts: dict[str, int]) -> None:
        for disturb in disturbances:
            disturb(point, key, counts)
        if point == "saved":
            line = {"worker": os.getpid(), "daemon": os.getppid(), "bucket": key[2]}
            line |= {name: count for name, count in counts.items() if count}
            with (folder / "journal").open("a") as journal:
                journal.write(json.dumps(line) + "\n")

    return probe


def once(path: Path) -> bool:
    """Whether this is the first to come here, of all processes."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def killer(folder: Path, times: int) -> Probe:
    """Kill the worker between the log and the head, this many times, each time a few buckets later."""

    def disturb(point: str, key: Any, counts: dict[str, int]) -> None:
        if point != "written":
            return
        with (folder / "written").open("a") as calls:
            calls.write(".")
        written = (folder / "written").stat().st_size
        for kill in range(times):
            if written >= 3 + 3 * kill and once(folder / f"killed-{kill}"):
                os.kill(os.getpid(), signal.SIGKILL)

    return disturb


def few_records(point: str, key: Any, counts: dict[str, int]) -> None:
    """Compact the log at once."""
    from sash.spark.stream import log

    log.LIVE_RECORDS = 2


def absent(missed: int) -> Probe:
    """Have the worker miss some micro-batches, as if another had them: its cache is put aside and back."""

    def disturb(point: str, key: Any, counts: dict[str, int]) -> None:
        from sash.spark.stream import cache

        if point != "saved":
            return
        away = vars(cache.WORKER).setdefault("away", {})
        calls, kept = away.get(key, (0, None))
        if calls == 0:
            kept = cache.WORKER.take(key)
        if calls == missed and kept is not None:
            cache.WORKER.put(key, kept, cache.DEFAULT)
        away[key] = (calls + 1, kept)

    return disturb


def newer(point: str, key: Any, counts: dict[str, int]) -> None:
    """Write the head in the format of a later version."""
    from sash.spark.stream import log

    log.VERSION = 4 if point == "written" else 3


# --- what the driver does -------------------------------------------------------------------------


class Query:
    """One stream in a folder: `in` has its files, `out` a file for each micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path, case: Case, *, buckets: int = 2, **plan: Any) -> None:
        self.folder = folder
        (folder / "out").mkdir(parents=True, exist_ok=True)
        plan.setdefault("probe", journal_of(folder))
        rows = streams.read(spark, folder / "in")
        if (folder / "asked").exists():
            files = spark.readStream.schema("q timestamp, `k.ey` string, name long").option("maxFilesPerTrigger", 1)
            asked = files.parquet(str(folder / "asked")).withWatermark("q", "2 minutes")
            plan["questions"] = Questions(asked, "q", "name")
        self.results = streams.as_text("result", roll_stream(rows, Spec.of(**case.arguments), buckets, **plan))

    def failing_once(self) -> "Query":
        """The same with a task behind the operator that fails when it has taken all."""
        folder = self.folder

        def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            taken = list(batches)
            if sum(batch.num_rows for batch in taken) and once(folder / "task-failed"):
                raise RuntimeError("failed on purpose")
            yield from taken

        self.results = self.results.mapInArrow(passed, self.results.schema)
        return self

    def go(self, fail_at: tuple[int, ...] = ()) -> str | None:
        """Run to the end of the files, failing behind the operator at some batches; return the error, if any."""

        def sink(results: DataFrame, batch: int) -> None:
            table = results.toArrow()
            if batch in fail_at and once(self.folder / f"failed-{batch}"):
                raise RuntimeError("failed on purpose")
            pq.write_table(table, self.folder / "out" / f".{batch}")
            (self.folder / "out" / f".{batch}").rename(self.folder / "out" / f"{batch}.parquet")

        writer = self.results.writeStream.foreachBatch(sink).option(
            "checkpointLocation", str(self.folder / "checkpoint")
        )
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return str(error)
        return None

    def go_on(self, fail_at: tuple[int, ...] = ()) -> int:
        """Restart until it reaches the end, and return how often it failed."""
        failures = 0
        while self.go(fail_at) is not None:
            failures += 1
            assert failures < 10, "it does not come to its end"
        return failures


def begun(folder: Path, batches: list[list[Row]], ended: bool = True) -> Path:
    """Write the files of a stream, and for the test the rows as well."""
    streams.write(folder / "in", batches)
    if ended:
        streams.write_end(folder / "in")
    (folder / "batches").write_text(json.dumps(batches))
    return folder


def killed_workers(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Two workers are killed between state writes, and nothing is tried again but by a new start."""
    begun(folder, streams.stream(11, 80, 4))
    return {"failures": Query(spark, folder, FINAL, probe=journal_of(folder, killer(folder, 2))).go_on()}


def asked(emit: str) -> Callable[[SparkSession, Path], dict[str, Any]]:
    """Questions beside the events: workers are killed, and what comes behind the operator fails."""

    def scenario(spark: SparkSession, folder: Path) -> dict[str, Any]:
        batches = streams.stream(17, 80, 4, ties=True)
        for at, rows in enumerate(questions_of(batches)):
            streams.write_table(folder / "asked", at, pa.Table.from_pylist(rows, schema=QUESTIONS))
        end = [dict.fromkeys(QUESTIONS.names) | {"q": streams.END}]
        streams.write_table(folder / "asked", 900, pa.Table.from_pylist(end, schema=QUESTIONS))
        begun(folder, batches)
        probe = journal_of(folder, few_records, killer(folder, 2))
        return {"failures": Query(spark, folder, ASKED[emit], probe=probe, protected=1).go_on((1, 2))}

    return scenario


def questions_of(batches: list[list[Row]]) -> list[list[Row]]:
    """Questions for each micro-batch: about times of its rows, of those before, and of those to come."""
    times = sorted(row["t"] for batch in batches for row in batch)
    keys = [None, "a", "b", "é", "nobody"]
    return [
        [{"q": times[(17 * at + 7 * n) % len(times)] + n, "k.ey": keys[n % 5], "name": 100 * at + n} for n in range(10)]
        for at in range(len(batches))
    ]


def ahead(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """What comes behind the operator fails, after data and after a timer: the cache is ahead of the state."""
    batches = streams.stream(12, 100, 5, ties=True)
    begun(folder, batches[:3], ended=False)
    query = Query(spark, folder, NAMED)
    failures = query.go_on((1, 3))  # the fourth batch has no rows
    begun(folder, batches)
    return {"failures": failures + query.go_on((5, 7))}


def behind(missed: int, checked: bool) -> Callable[[SparkSession, Path], dict[str, Any]]:
    """A worker comes back after some micro-batches to a log that was merged."""

    def scenario(spark: SparkSession, folder: Path) -> dict[str, Any]:
        begun(folder, streams.stream(13, 80, 4, ties=True))
        probe = journal_of(folder, few_records, absent(missed))
        query = Query(spark, folder, UPDATE, buckets=1, probe=probe, checked=checked, protected=1)
        return {"failures": query.go_on()}

    return scenario


def dropped_delete(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A delete's record is dropped before that of its insert, and then the bucket is rebuilt."""
    template: Row = {"k.ey": "a", "x": 1, "a": 2.0, "b": 1.0, "op": "insert", "gone": False}

    def row(number: int, time: float) -> Row:
        return {**template, "row": number, "t": START + int(time * MINUTE), "i": str(number)}

    gone = {**row(0, 0), "op": "delete", "gone": True}
    batches = [[row(0, 0), row(1, 2)], [gone], [row(2, 13.5)], [row(3, 14)], [row(4, 14.1)]]
    begun(folder, batches)
    return {"failures": Query(spark, folder, UPDATE, buckets=1).go_on((4,))}


def changed(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Definitions over a checkpoint that its rows cannot answer: a window too wide, a column that was not stored.

    Then the right one again.
    """
    batches = streams.stream(14, 60, 3, ties=True)
    begun(folder, batches[:2], ended=False)
    assert Query(spark, folder, UPDATE).go() is None
    begun(folder, batches)
    windows = Query(spark, folder, WIDER).go()
    column = Query(spark, folder, Case(UPDATE.folds | {"more": ("max", "row")}, words=UPDATE.words)).go()
    return {"windows": windows, "column": column, "failures": Query(spark, folder, UPDATE).go_on()}


def newer_format(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A checkpoint of a later version of sash."""
    begun(folder, streams.stream(15, 40, 2))
    return {"error": Query(spark, folder, FINAL, probe=journal_of(folder, newer)).go()}


ALONE = {
    "killed_workers": killed_workers,
    "asked_final": asked("final"),
    "asked_update": asked("update"),
    "ahead": ahead,
    "caught_up": behind(1, True),
    "merged_away": behind(2, True),
    "unchecked": behind(2, False),
    "dropped_delete": dropped_delete,
    "changed": changed,
    "newer_format": newer_format,
}


def alone(spark: SparkSession, folder: Path) -> None:
    """Run the scenarios with one partition and workers that no other test has: an environment has its own."""
    environment, partitions = spark.sparkContext.environment, "spark.sql.shuffle.partitions"
    before = dict(environment), spark.conf.get(partitions)
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    # Then the stateful operator has a daemon of its own, and with one partition one worker.
    environment.pop("SPARK_SIMPLIFIED_TRACEBACK", None)
    spark.conf.set(partitions, 1)
    for name, scenario in ALONE.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "said").write_text(json.dumps(scenario(spark, folder / name)))
    environment.clear()
    environment.update(before[0])
    spark.conf.set(partitions, before[1])


def go(folder: Path, master: str) -> None:
    """Resume a stream of two partitions; where tasks are retried, one fails and two workers are killed."""
    confs = {"spark.sql.shuffle.partitions": 2, "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
    spark = session(master, **confs)
    retried = "," in master and "cluster" not in master
    with (folder / "masters").open("a") as masters:
        masters.write(f"{master} {len(journal_in(folder))}\n")
    probe = journal_of(folder, killer(folder, 2)) if retried else journal_of(folder)
    query = Query(spark, folder, UPDATE, buckets=4, probe=probe)
    error = (query.failing_once() if retried else query).go()
    assert error is None, error
    spark.stop()


# --- what is read of it ---------------------------------------------------------------------------


def journal_in(folder: Path) -> list[dict[str, Any]]:
    """What was counted for each bucket and micro-batch, in attempts that failed as well."""
    path = folder / "journal"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def results_in(folder: Path) -> list[Row]:
    parts = [pq.read_table(path) for path in sorted((folder / "out").glob("[0-9]*.parquet"))]
    return streams.as_rows(pa.concat_tables(parts).to_pylist())


def batches_in(folder: Path) -> list[list[Row]]:
    batches: list[list[Row]] = json.loads((folder / "batches").read_text())
    return batches


if __name__ == "__main__":
    go(Path(sys.argv[1]), sys.argv[2])
