"""Flink SQL over files of events, in Flink's own environment; `benchmarks.flink` starts `python flink_job.py RUNS`.

RUNS is a JSON list of runs, which share a JVM; for each a line of JSON follows, with its seconds and checkpoints.
Events are lines `k,ms,x` of CSV files, one for each of two readers, so that each reads them in the order of arrival.
"""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PARALLELISM = 2
EVENTS = """
CREATE TEMPORARY TABLE events (k BIGINT, ms BIGINT, x BIGINT, t AS TO_TIMESTAMP_LTZ(ms, 3),
  WATERMARK FOR t AS t - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
SINKS = {
    "file": "'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'",
    "none": "'connector' = 'blackhole'",
}
# A result is a key, a time in milliseconds, a sum and a maximum.
RESULTS = "CREATE TEMPORARY TABLE results (k BIGINT, ms BIGINT, total BIGINT, top BIGINT) WITH ({options})"
QUERIES = {
    "hop": """
INSERT INTO results
SELECT k, 1000 * UNIX_TIMESTAMP(CAST(window_end AS STRING)), SUM(x), MAX(x) FROM TABLE(
  HOP(DATA => TABLE by_hundred, TIMECOL => DESCRIPTOR(t), SLIDE => INTERVAL '1' MINUTE, SIZE => INTERVAL '1' HOUR))
GROUP BY k, window_start, window_end
""",
    # A window of sash does not contain its beginning.
    "over": """
INSERT INTO results
SELECT k, ms, SUM(x) OVER w, MAX(x) OVER w FROM events
WINDOW w AS (PARTITION BY k ORDER BY t RANGE BETWEEN INTERVAL '59:59.999' MINUTE TO SECOND(3) PRECEDING AND CURRENT ROW)
""",
}


def run(case: str, state: str, events: str, out: str | None) -> dict[str, Any]:
    """Run a query to its end; `state` is hashmap (the heap) or rocksdb, `out` a folder for the results, or None."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    with tempfile.TemporaryDirectory(prefix="flink-checkpoints-", ignore_cleanup_errors=True) as checkpoints:
        for name, value in settings(state, checkpoints).items():
            tables.get_config().set(name, value)
        tables.execute_sql(EVENTS.format(path=events))
        tables.execute_sql("CREATE TEMPORARY VIEW by_hundred AS SELECT MOD(k, 100) AS k, t, x FROM events")
        tables.execute_sql(RESULTS.format(options=SINKS["none" if out is None else "file"].format(path=out)))
        with Checkpoints(Path(checkpoints)) as seen:
            start = time.perf_counter()
            tables.execute_sql(QUERIES[case]).wait()
            seconds = time.perf_counter() - start
    return {"case": case, "state": state, "seconds": seconds, "checkpoints": seen.last}


def settings(state: str, checkpoints: str) -> dict[str, str]:
    """Return the settings of a run on two cores with a checkpoint every second."""
    return {
        "parallelism.default": str(PARALLELISM),
        "taskmanager.numberOfTaskSlots": str(PARALLELISM),
        "taskmanager.memory.managed.size": "1g",  # for RocksDB; an embedded cluster has 128 MB by default
        "table.local-time-zone": "UTC",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{checkpoints}",
        "execution.checkpointing.incremental": "true",
        "state.backend.type": state,
    }


class Checkpoints:
    """The number of the last complete checkpoint in a folder, looked for while a job runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.last, self._done = folder, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Checkpoints":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            complete = self.folder.glob("*/chk-*/_metadata")
            self.last = max([self.last, *(int(path.parent.name.removeprefix("chk-")) for path in complete)])


def main() -> None:
    """Run what the argument lists."""
    for one in json.loads(sys.argv[1]):
        print(json.dumps(run(**one)), flush=True)


if __name__ == "__main__":
    main()
