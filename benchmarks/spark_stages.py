"""Where the time of a micro-batch with a Delta upsert goes, by Spark's event log: `python -m benchmarks.spark stages`.

The stream is that of `spark_upsert`: 20,000 rows and about a thousand results in a micro-batch, into a new table. The
parts are those that Spark reports of a micro-batch; adding the batch is split into its two stages and what the driver
does before, between and after them: it plans the job, collects the results and commits them to the table.
"""

import json
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from benchmarks import spark_upsert
from benchmarks.spark_upsert import ROWS, SKIPPED
from sash.spark import session

Claim = tuple[str, float, float]

# As Spark names the parts of a micro-batch, in the order in which they happen.
PARTS = {
    "latestOffset": "find new files",
    "walCommit": "write offsets to the checkpoint",
    "getBatch": "make a batch of them",
    "queryPlanning": "plan the query",
    "addBatch": "run it",
    "commitOffsets": "write the commit to the checkpoint",
}
RUN = "internal.metrics.executorRunTime"


@dataclass(frozen=True)
class Stage:
    """A stage of a job: when it ran, and the summed time of its tasks, in milliseconds."""

    start: int
    end: int
    run_ms: int


def claims() -> list[Claim]:
    """Print the table; nothing is claimed."""
    where, log = Path(mkdtemp(prefix="sash-stages-")), Path(mkdtemp(prefix="sash-events-"))
    confs = {"spark.eventLog.enabled": True, "spark.eventLog.dir": str(log), "spark.eventLog.compress": False}
    spark = session("local[2]", "sash-stages", **{"spark.driver.memory": "3g", **confs})
    try:
        spark_upsert.write(spark_upsert.events(), where / "in")
        for turn in range(2):  # the first one warms the JVM
            query = spark_upsert.run(spark, where, spark_upsert.upsert_to(where / f"target-{turn}"))
        progress = [json.loads(one.json) for one in query.recentProgress]
    finally:
        spark.stop()
        shutil.rmtree(where, ignore_errors=True)
    full = [one for one in progress if one["numInputRows"] >= ROWS][SKIPPED:]
    _print_table(full, list(_stages(log)))
    shutil.rmtree(log, ignore_errors=True)
    return []


def _stages(log: Path) -> Iterator[Stage]:
    """Yield the stages in an event log."""
    for path in sorted(path for path in log.rglob("*") if path.is_file() and not path.name.startswith(("app", "."))):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] != "SparkListenerStageCompleted":
                continue
            info = event["Stage Info"]
            run = sum(int(one["Value"]) for one in info["Accumulables"] if one["Name"] == RUN)
            yield Stage(info["Submission Time"], info["Completion Time"], run)


def _print_table(full: list[dict[str, Any]], stages: list[Stage]) -> None:
    rows: dict[str, list[float]] = {}
    for one in full:
        start = _milliseconds(one["timestamp"])
        own = [stage for stage in stages if start <= stage.start and stage.end <= start + one["batchDuration"]]
        for part, what in PARTS.items():
            rows.setdefault(what, []).append(one["durationMs"].get(part, 0))
        for place, stage in enumerate(sorted(own, key=lambda stage: stage.start)):
            what = ("read and pack", "aggregate and unpack")[place] if len(own) == 2 else f"stage {place + 1}"
            rows.setdefault(f"  stage: {what}", []).append(stage.end - stage.start)
            rows.setdefault(f"    its tasks, of two cores: {what}", []).append(stage.run_ms)
        busy = sum(stage.end - stage.start for stage in own)
        rows.setdefault("  the driver: plan, collect, merge, commit", []).append(one["durationMs"]["addBatch"] - busy)
        rows.setdefault("all of it", []).append(one["batchDuration"])
    for what, times in rows.items():
        print(f"  {what:60} {statistics.median(times):6.0f} ms", flush=True)


def _milliseconds(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
