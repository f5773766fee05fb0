"""One Python daemon for all operators of a session against two: which buckets are in memory, and what that costs.

Spark gives operators of SQL an environment of their own, hence a daemon, from which the stateful operator takes no
workers. `sash.spark.session` gives all of them one environment: a session starts faster, but workers take turns with
all kinds of tasks, and a bucket is not always given to the worker that has it in memory. Here each turn is a process
with a session of its own, and the ways take turns. The results of both are compared.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from benchmarks.spark_streaming import ROWS, Events, run
from sash import monoids
from sash.spark import metrics, rolling, session
from sash.spark.sessions import SHARED_DAEMON

Claim = tuple[str, float, float]

WAYS = {"one daemon": "1", "two daemons": ""}
TURNS, BATCHES, FIRST = 2, 14, 4  # the first micro-batches are those in which workers start
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "every minute of 1 hour, 100 keys": (100, {"windows": ["1h"], "every": "1 minute", "emit": "final"}),
    "per event, 20,000 keys": (20_000, {"windows": ["1h", "24h"], "emit": "arrival", "lateness": "1h"}),
}
COUNTED = ("hits", "catch_ups", "rebuilds")
AGGS = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
SECONDS = 0.5  # between looks at memory


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    turns = [(way, _of_process(way)) for turn in range(TURNS) for way in list(WAYS)[:: 1 if turn % 2 == 0 else -1]]
    return [_claim(case, [(way, found[case]) for way, found in turns]) for case in CASES]


def _claim(case: str, turns: list[tuple[str, dict[str, Any]]]) -> Claim:
    if len({found["results"] for _, found in turns}) != 1:
        raise SystemExit(f"{case}: the results differ; nothing was measured.")
    for way, found in turns:
        shares = ", ".join(f"{name} {found[name]:.1f}" for name in COUNTED)
        print(
            f"  {case}, {way}: {found['ms']:.0f} ms and {shares} buckets per micro-batch, {found['read']:.2f} MB read, "
            f"{found['workers']} workers with {found['pss']:.0f} MB at most, load {found['load']:.1f}",
            flush=True,
        )
    best = {way: min(found["ms"] for name, found in turns if name == way) for way in WAYS}
    one, two = (best[way] for way in WAYS)
    return f"{case}: a micro-batch with one daemon / with two", one / two, 1.25


def _of_process(way: str) -> dict[str, Any]:
    """Return what a fresh process measured."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.spark_daemons", way], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- in the process of one turn -------------------------------------------------------------------


class Memory(threading.Thread):
    """The most memory that the Python workers of this process had, shared pages divided, and their number then."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.workers, self._stop_asked = 0.0, 0, threading.Event()

    def run(self) -> None:
        while not self._stop_asked.wait(SECONDS):
            sizes = [size for size in map(_pss, _workers()) if size]
            if sum(sizes) > self.most:
                self.most, self.workers = sum(sizes), len(sizes)

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


def _workers() -> list[str]:
    """Return the processes below this one that are forks of a daemon of PySpark."""
    parents: dict[str, str] = {}
    daemons = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[folder.name] = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                daemons.add(folder.name)
        except OSError:
            continue
    return [name for name in daemons if parents.get(name) in daemons and _is_below(name, parents)]


def _is_below(name: str | None, parents: dict[str, str]) -> bool:
    while name is not None and name != str(os.getpid()):
        name = parents.get(name)
    return name is not None


def _pss(process: str) -> float:
    """Return megabytes, or 0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _measured(way: str) -> dict[str, Any]:
    spark = session("local[2]", "sash-daemons", **{"spark.driver.memory": "2g", SHARED_DAEMON: WAYS[way]})
    return {case: _stream(spark, keys, words) for case, (keys, words) in CASES.items()}


def _stream(spark: Any, keys: int, words: dict[str, Any]) -> dict[str, Any]:
    events, memory = Events(keys, BATCHES), Memory()
    memory.start()
    made = rolling(events.stream(spark), keys=["k"], time="t", aggs=AGGS, **words)
    query, where = run(made, "parquet")
    memory.stop()
    full = [row for row in metrics(query) if row["rows_in"] >= ROWS]
    if len(full) != BATCHES:
        raise SystemExit("rows were lost; nothing was measured.")
    written = spark.read.parquet(str(where / "out"))
    total = written.agg(F.sum(F.xxhash64(*written.columns).cast("decimal(38, 0)")), F.count("*")).first()
    for place in (where, events.path):
        shutil.rmtree(place, ignore_errors=True)
    measured = full[FIRST:]
    return {
        "ms": statistics.median(row["seconds"] for row in measured) * 1000,
        "read": statistics.mean(row["read_bytes"] for row in measured) / 1e6,
        "workers": memory.workers,
        "pss": memory.most,
        "load": os.getloadavg()[0],
        "results": str(total),
        **{name: statistics.mean(row[name] for row in measured) for name in COUNTED},
    }


if __name__ == "__main__":
    print(json.dumps(_measured(sys.argv[1])))
