"""One stream of a fault campaign: what it reads, what disturbs it, where its results go.

`python -m campaigns.fault_run MASTER SPARK_ZONE MENDED ROOM` is a driver that runs streams one after the other, in one
session. It reads a folder with a `spec.json` per line, runs that stream until it ends or fails, and answers with a
line: `end`, or the error. Faults happen once: a file in the folder says that one did, whichever process it took down.
"""

import hashlib
import json
import os
import random
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from campaigns import controls
from campaigns.spread import session_on_two_hosts, tasks_won_by_copies
from oracles.keyed import Aggregate
from sash.keyed.spec import Spec
from sash.spark import session, upsert, upserted_table
from sash.spark.columns import column
from sash.spark.stream import log
from sash.spark.stream.query import roll_stream
from sash.spark.stream.questions import Questions
from support import spark_streams as streams
from support.fault_program import once
from support.spark_streams import COMMUTATIVE, ORDERED, Case, Row

FOLDS = COMMUTATIVE | ORDERED
_LOGGED: dict[str, Aggregate] = {"low": ("min", "a"), "high": ("max", "b")}  # so that their columns are stored
CASES = {
    "final": Case(FOLDS, words={"emit": "final", "id": "i", "retract": "gone"}),
    "update": Case(FOLDS, words={"emit": "update", "id": "i", "retract": "gone"}),
    "twins": Case(COMMUTATIVE, words={"emit": "update", "retract": "gone"}),  # blind deletes, and events of equal time
    "every": Case(FOLDS, words={"emit": "update", "every": "1 minute", "id": "i", "retract": "gone"}),
    # Every row is also a question as of its time, which comes with it in a stream of its own.
    "asked": Case(FOLDS, words={"emit": "update", "id": "i", "retract": "gone"}),
}
ASKED = ["k.ey", "t", "row"]  # the columns of questions
SINKS = ("files", "delta", "sqlite", "postgres")
DSN = "SASH_FAULTS_DSN"  # the environment variable with the server of the campaign
# What each fault needs: how often tasks are tried, on how many hosts.
ALONE, RETRIED, TWO_HOSTS = "local[2]", "local[2,4]", "two hosts"
FAULTS = {
    "nothing": ALONE,
    "worker killed between the log and the head": ALONE,
    "worker killed after the head": RETRIED,
    "task failed before the state": RETRIED,
    "task failed after the state": RETRIED,
    "task failed behind the operator": ALONE,
    "slow task, speculation": TWO_HOSTS,
    "slow task behind the operator, its copy wins": TWO_HOSTS,
    "slow task behind the operator, its copy loses": TWO_HOSTS,
    "task failed behind the operator, repeated elsewhere": TWO_HOSTS,
    "sink failed before its commit": ALONE,
    "sink failed after its commit": ALONE,
    "driver killed": ALONE,
    "checkpoint rolled back": ALONE,
    "time zones changed": ALONE,
    "batches cut differently": ALONE,
    "definition changed in a killed run": ALONE,
    "definition changed, rolled back": ALONE,
}
KILLED = ("driver killed", "definition changed in a killed run")
ROLLED_BACK = ("checkpoint rolled back", "definition changed, rolled back")
# Both executors have the state of an attempt of their own by then, and whichever was free has continued from its own.
# Another run of the query reads what was stored.
LATER = 4
PROBED = {
    "worker killed between the log and the head": "written",
    "worker killed after the head": "saved",
    "task failed before the state": "step",
    "task failed after the state": "saved",
    "slow task, speculation": "saved",
}


@dataclass(frozen=True)
class Run:
    """One stream and what happens to it; everything else follows from the seed."""

    fault: str
    emit: str
    sink: str
    seed: int
    checked: bool = True  # are nonces compared?
    mended: bool = True  # do two attempts of one task write the same?

    @property
    def cell(self) -> tuple[str, str, str]:
        return self.fault, self.emit, self.sink

    @property
    def name(self) -> str:
        return "-".join([*self.cell, str(self.seed)]).replace(" ", "_").replace(",", "")

    @property
    def table(self) -> str:
        """The table in PostgreSQL, whose names are short."""
        return f"run_{hashlib.sha256(self.name.encode()).hexdigest()[:16]}"

    @property
    def case(self) -> Case:
        return CASES[self.emit]

    @property
    def changes(self) -> bool:
        """Whether the first start has another definition than those after it."""
        return self.fault.startswith("definition changed")

    @property
    def earlier(self) -> Case:
        """The case before it changes: with a window less, fewer aggregates, and others."""
        case = CASES[self.emit]
        names = self.drawn.sample(sorted(case.folds), 2)
        # Deletes without ids compare the aggregated columns: those must be the same.
        others: dict[str, Aggregate] = {"least": ("min", "x")} | ({} if self.emit == "twins" else _LOGGED)
        folds = {name: case.folds[name] for name in names} | others
        return replace(case, folds=folds, sizes={"10m": case.sizes["10m"]})

    @property
    def drawn(self) -> random.Random:
        return random.Random(f"{self.fault} {self.emit} {self.sink} {self.seed}")

    @property
    def identity(self) -> list[str]:
        if self.emit == "every":
            return ["k.ey", "window_end"]
        if self.emit == "asked":
            return ASKED
        return ["k.ey", "t", *(["i"] if "id" in self.case.words else [])]

    @property
    def spread(self) -> bool:
        """Whether there are two executors, which both have state of a bucket."""
        return FAULTS[self.fault] == TWO_HOSTS

    def batches(self) -> list[list[Row]]:
        rng = self.drawn
        count = rng.randint(6, 9) if self.spread else rng.randint(3, 5)
        return streams.stream(rng.randrange(2**31), rng.randint(50, 120), count, ties=True)

    def start(self, folder: Path) -> None:
        """Write the run and its files."""
        folder.mkdir(parents=True)
        (folder / "spec.json").write_text(json.dumps(asdict(self)))
        batches = self.batches()
        streams.write(folder / "in", batches)
        streams.write_end(folder / "in")

    @staticmethod
    def of(folder: Path) -> "Run":
        return Run(**json.loads((folder / "spec.json").read_text()))


# --- faults in workers ----------------------------------------------------------------------------


def probe_of(run: Run, folder: Path) -> Callable[[str, Any, dict[str, int]], None]:
    """A probe that writes a journal, and has the run's fault at some point of it."""
    fault, rng = run.fault, run.drawn
    point, after = PROBED.get(fault), rng.randint(1, 4)
    records = rng.choice([2, 2, 3, 64])

    def probe(at: str, key: Any, counts: dict[str, int]) -> None:
        log.LIVE_RECORDS = records  # so few that they are merged all the time
        if not run.mended:
            controls.leave_order_to_chance()
        if at == "saved":
            with (folder / "journal").open("a") as journal:
                journal.write(f"{os.getpid()} {key[2]} {counts['hits']} {counts['catch_ups']} {counts['rebuilds']}\n")
        if at != point:
            return
        with (folder / "points").open("a") as points:
            points.write(".")
        if (folder / "points").stat().st_size < after or not is_first() or not once(folder / "fault"):
            return
        if fault.startswith("worker killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.startswith("slow"):
            (folder / _name_of_task()).touch()
            time.sleep(LONG)
        else:
            fail(folder)

    return probe


def disturbed_behind(results: DataFrame, folder: Path, after: int, fault: str) -> DataFrame:
    """The same rows through a task that is disturbed once, when it has taken all of a partition.

    The operator has committed its state by then.
    """

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = list(batches)
        with (folder / "points").open("a") as points:
            points.write(".")
        if not is_first():
            if fault == OUTLASTED and (folder / _name_of_task()).exists():
                (folder / "copy-committed").touch()
                time.sleep(LONG)  # Spark ends it when the first has ended
        elif (folder / "points").stat().st_size >= after and once(folder / "fault"):
            (folder / _name_of_task()).touch()
            BEHIND[fault](folder)
        yield from taken

    return results.mapInArrow(passed, results.schema)


def is_first() -> bool:
    """Whether this is the first attempt of its task."""
    task = TaskContext.get()
    return task is not None and task.attemptNumber() == 0


def _name_of_task() -> str:
    """A name that the attempts of a task share."""
    task = TaskContext.get()
    return "slow" if task is None else f"slow-{task.stageId()}-{task.partitionId()}"


def fail(folder: Path) -> None:
    raise RuntimeError("failed on purpose")


def linger(folder: Path) -> None:
    """Take so long that a copy is made, and wins."""
    time.sleep(LONG)


def linger_until_copied(folder: Path) -> None:
    """Take until a copy has committed its state too, and end before it does."""
    until = time.monotonic() + LONG
    while time.monotonic() < until and not (folder / "copy-committed").exists():
        time.sleep(0.05)


LONG = 15.0  # seconds, within which a copy is made and its state committed
OUTLASTED = "slow task behind the operator, its copy loses"
BEHIND = {
    "task failed behind the operator": fail,
    "slow task behind the operator, its copy wins": linger,
    OUTLASTED: linger_until_copied,
    "task failed behind the operator, repeated elsewhere": fail,
}


# --- sinks ----------------------------------------------------------------------------------------


def as_table(results: DataFrame, identity: list[str]) -> DataFrame:
    """Results as text, with their identity: what every sink can hold, and compare exactly."""
    moments = {field.name for field in results.schema.fields if field.dataType.simpleString() == "timestamp"}

    def text(names: list[str]) -> Any:
        columns = [(F.unix_micros(column(n)) if n in moments else column(n)).alias(n) for n in names]
        return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})

    own = [name for name in results.columns if name not in ("revision", "deleted")]
    kept = [column(name) for name in ("revision", "deleted") if name in results.columns]
    return results.select(text(identity).alias("identity"), *kept, text(own).alias("row"))


def sink_of(run: Run, folder: Path) -> Callable[[DataFrame, int], None]:
    revised = {} if run.emit != "final" else {"revision": None, "deleted": None}
    if run.sink == "delta":
        return upsert(str(folder / "target"), keys=["identity"], **revised)
    if run.sink == "sqlite":
        return upsert(str(folder / "target.sqlite"), table="results", keys=["identity"], **revised)
    if run.sink == "postgres":
        connect = partial(psycopg.connect, os.environ[DSN])
        return upsert(connect=connect, table=run.table, keys=["identity"], **revised)

    def write(results: DataFrame, batch: int) -> None:
        table = results.toArrow()
        (folder / "out").mkdir(exist_ok=True)
        pq.write_table(table, folder / "out" / f".{batch}")
        (folder / "out" / f".{batch}").rename(folder / "out" / f"{batch}.parquet")

    return write


def rows_in(run: Run, folder: Path) -> list[Row]:
    """The results that readers of the sink see."""
    if run.sink == "sqlite":
        with closing(sqlite3.connect(folder / "target.sqlite")) as connection:
            texts = [text for (text,) in connection.execute('SELECT "row" FROM results')]
    elif run.sink == "postgres":
        with closing(psycopg.connect(os.environ[DSN])) as connection:
            texts = [text for (text,) in connection.execute(f'SELECT "row" FROM {run.table}')]
    elif run.sink == "delta":
        texts = upserted_table(folder / "target")["row"].to_pylist()
    else:
        texts = _latest(
            [row for path in (folder / "out").glob("[0-9]*.parquet") for row in pq.read_table(path).to_pylist()]
        )
    return [{name: streams.plain(value) for name, value in json.loads(text).items()} for text in texts]


def _latest(rows: list[Row]) -> list[str]:
    if not rows or "revision" not in rows[0]:
        return [row["row"] for row in rows]
    found = {row["identity"]: row for row in sorted(rows, key=lambda row: row["revision"])}
    return [row["row"] for row in found.values() if not row["deleted"]]


# --- the driver -----------------------------------------------------------------------------------


def stream_of(spark: SparkSession, run: Run, folder: Path) -> Any:
    """The query, not yet started."""
    rng, attempt = run.drawn, len(list(folder.glob("attempt-*")))
    buckets, partitions, after = rng.randint(1, 4), rng.randint(1, 2), rng.randint(1, 5)
    if run.spread:  # both executors take part, and run on after the fault
        # With one partition the executor of the first is the only free one after its copy has lost.
        buckets, partitions, after = rng.randint(2, 4), 1 if run.fault == OUTLASTED else 2, rng.randint(1, 4)
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    files = rng.choice([1, 2, 3]) if run.fault == "batches cut differently" and attempt > 1 else 1
    rows = streams.read(spark, folder / "in", files)
    words = {"probe": probe_of(run, folder), "checked": run.checked, "protected": rng.choice([0, 0, 1, 8])}
    case = run.earlier if run.changes and attempt == 1 else run.case
    if run.emit == "asked":
        asked = streams.read(spark, folder / "in", files).select(*map(column, ASKED))
        words["questions"] = Questions(asked, "t", "row")
    results = roll_stream(rows, Spec.of(**case.arguments), buckets, **words)
    table = as_table(results, run.identity)
    if run.fault in BEHIND:
        table = disturbed_behind(table, folder, after, run.fault)
    sink, fails = sink_of(run, folder), _failing_batch(run, rng)

    def write(written: DataFrame, batch: int) -> None:
        if batch == fails and "after" not in run.fault and once(folder / "fault"):
            raise RuntimeError("failed on purpose")
        sink(written, batch)
        if batch == fails and once(folder / "fault"):
            raise RuntimeError("failed on purpose")
        if run.spread and _batches_since_fault(folder) == LATER:
            raise RuntimeError("failed on purpose")
        (folder / f"batch-{batch}").touch()

    writer = table.writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)


def _batches_since_fault(folder: Path) -> int:
    """Count a micro-batch if the fault was in it or before it, and return how many there have been."""
    if not (folder / "fault").exists():
        return 0
    with (folder / "since").open("a") as since:
        since.write(".")
    return (folder / "since").stat().st_size


def _failing_batch(run: Run, rng: random.Random) -> int | None:
    sinks = ("sink failed before its commit", "sink failed after its commit")
    restarted = ("time zones changed", "batches cut differently", "definition changed, rolled back")
    return rng.randint(0, 3) if run.fault in sinks + restarted else None


def go(spark: SparkSession, folder: Path) -> str:
    """Run a stream to the end of its files, and return how it ended."""
    (folder / f"attempt-{len(list(folder.glob('attempt-*')))}").touch()
    query = stream_of(spark, Run.of(folder), folder).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        return _sentence_of(str(error))
    return "end"


def _sentence_of(error: str) -> str:
    """Return an error on one line, beginning with what sash said if it did."""
    own = re.findall(r"sash\.errors\.(\w+: .*)", error)
    return " ".join([*own[-1:], *error.split()])[:4000]


def serve(master: str, zone: str, mended: str, room: str) -> None:
    confs: dict[str, Any] = {
        "spark.sql.session.timeZone": zone,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.ui.enabled": False,
    }
    if mended == "False":
        confs["spark.sql.streaming.stateStore.checkpointFormatVersion"] = "1"
    with ExitStack() as stack:
        if master == TWO_HOSTS:
            spark = stack.enter_context(session_on_two_hosts(Path(room), **confs))
        else:
            spark = session(master, **confs)
        print("ready", flush=True)
        for line in sys.stdin:
            folder = Path(line.strip())
            ended = go(spark, folder)
            if master == TWO_HOSTS:
                _note_copies(folder, tasks_won_by_copies(Path(room)))
            print(ended, flush=True)


def _note_copies(folder: Path, won: set[str]) -> None:
    """Leave a file if the result of a copy of the slow task counts."""
    if any((folder / f"slow-{task}").exists() for task in won):
        (folder / "copy-won").touch()


if __name__ == "__main__":
    serve(*sys.argv[1:])
