"""A cluster for faults that need two hosts, and what its event log says of speculation.

Spark starts no second copy of a slow task on the host of the first, and all executors of `local-cluster` have one host.
Every address of 127/8 is this machine (Linux has them all; elsewhere 127.0.0.2 must be added), so two of them are two
hosts. Tasks go to whichever executor is free, and one that failed is not repeated where it did.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.standalone import cluster, environment
from sash.spark import session

HOSTS = ("127.0.0.1", "127.0.0.2")
_SPECULATION = {
    "": True,
    ".interval": "50ms",
    ".multiplier": 1.1,
    ".quantile": 0.1,
    ".minTaskRuntime": "100ms",
    ".task.duration.threshold": "500ms",  # for a stage of one task, which has none to be compared with
    ".efficiency.enabled": False,
}
# A task leaves the executor where it failed; nothing else does, or faults would soon leave no executor at all.
_EXCLUSION = {
    "enabled": True,
    "task.maxTaskAttemptsPerExecutor": 1,
    "task.maxTaskAttemptsPerNode": 1,
    "stage.maxFailedTasksPerExecutor": 1000,
    "stage.maxFailedExecutorsPerNode": 1000,
    "application.maxFailedTasksPerExecutor": 100_000,
    "application.maxFailedExecutorsPerNode": 100_000,
}
_CONFS: dict[str, Any] = {
    "spark.driver.bindAddress": HOSTS[0],
    "spark.driver.host": HOSTS[0],
    "spark.executor.cores": 1,
    "spark.executor.memory": "1g",
    "spark.cores.max": 2,
    "spark.locality.wait": "0s",
    "spark.sql.execution.arrow.pyspark.enabled": True,
    "spark.eventLog.enabled": True,
    "spark.eventLog.compress": False,
    "spark.eventLog.rolling.enabled": False,
    **{f"spark.speculation{name}": value for name, value in _SPECULATION.items()},
    "spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout": "1s",  # a task that failed on both hosts
    **{f"spark.excludeOnFailure.{name}": value for name, value in _EXCLUSION.items()},
}


@contextmanager
def session_on_two_hosts(room: Path, **confs: Any) -> Iterator[SparkSession]:
    """Yield a session on a cluster of its own, whose files are in a folder; both end with the block."""
    shutil.rmtree(room, ignore_errors=True)
    (room / "events").mkdir(parents=True)
    os.environ.update(environment())
    with cluster(2, 1, "1g", room, HOSTS) as url:
        spark = session(url, **_CONFS, **confs, **{"spark.eventLog.dir": (room / "events").as_uri()})
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        finally:
            spark.stop()


def tasks_won_by_copies(room: Path) -> set[str]:
    """Return the tasks whose speculative copy was first to end, by Spark's event log, as stage-partition."""
    lines = (line for path in (room / "events").iterdir() for line in path.open() if "SparkListenerTaskEnd" in line)
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return {f"{event['Stage ID']}-{event['Task Info']['Index']}" for event in events if _is_winning_copy(event)}


def _is_winning_copy(event: dict[str, Any]) -> bool:
    return bool(event["Task Info"]["Speculative"] and event["Task End Reason"]["Reason"] == "Success")
