"""A stream at a steady rate for an hour, in which nothing may grow that should not.

`make soak` runs it. Every ten seconds it notes the time of a micro-batch, the memory of the driver's JVM and of all
Python workers, the size of the checkpoint, and the records and rows of the state. After the first third, when windows
are full and caches warm, each of them must stay flat: the median of the last third at most 1.25 times that of the
second. It draws what it noted, and answers with the verdict.
"""

import argparse
import csv
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sash import monoids, plot_style
from sash.spark import metrics, rolling, session

RATE = 2_000  # rows per second
EVERY_S = 10
GROWTH = 1.25
PANELS = {
    "batch_s": "seconds per micro-batch",
    "jvm_mb": "memory of the JVM, MB",
    "python_mb": "memory of Python workers, MB",
    "checkpoint_mb": "size of the checkpoint, MB",
    "records": "records of the state log",
    "rows": "rows of the state",
}


def start(spark: SparkSession, folder: Path) -> Any:
    """Start a stream of late rows with a result per row, and one for every ten seconds of each key."""
    source = spark.readStream.format("rate").option("rowsPerSecond", RATE).load()
    events = source.selectExpr(
        "value",
        "value % 500 AS card",
        "timestamp - make_interval(0, 0, 0, 0, 0, 0, IF(value % 50 = 0, value % 20, 0)) AS ts",
        "value % 1000 AS amount",
    ).withWatermark("ts", "5 seconds")
    aggs = {"n": monoids.count(), "total": monoids.sum("amount"), "top": monoids.max("amount")}
    results = rolling(
        events, keys=["card"], time="ts", windows=["1m", "5m"], aggs=aggs, id="value", emit="update", lateness="30s"
    )

    def sink(rows: DataFrame, batch: int) -> None:
        rows.write.format("noop").mode("append").save()

    writer = results.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(processingTime="2 seconds").start()


# --- what is noted --------------------------------------------------------------------------------


def processes_below(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents.setdefault(int(after[1]), []).append(int(path.parent.name))
    found, queue = [], [root]
    while queue:
        found.append(queue.pop())
        queue += parents.get(found[-1], [])
    return found


def memory_mb() -> tuple[float, float]:
    """Resident memory of the JVM, and of the Python processes below it, each page counted once by its share."""
    java = python = 0.0
    for process in processes_below(os.getpid()):
        try:
            name = Path(f"/proc/{process}/comm").read_text().strip()
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        size = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
        if name == "java":
            java += size
        elif process != os.getpid():
            python += size
    return java, python


def sample(query: Any, folder: Path, seconds: float) -> dict[str, float]:
    recent = [one for one in metrics(query)[-20:] if one["rows_in"]]
    java, python = memory_mb()
    size = sum(path.stat().st_size for path in (folder / "checkpoint").rglob("*") if path.is_file()) / 2**20
    return {
        "seconds": round(seconds),
        "batch_s": statistics.median(one["seconds"] for one in recent) if recent else 0.0,
        "jvm_mb": round(java),
        "python_mb": round(python),
        "checkpoint_mb": round(size, 2),
        "records": max((one["records"] for one in recent), default=0),
        "rows": max((one["live_rows"] for one in recent), default=0),
    }


def watch(query: Any, folder: Path, minutes: float) -> list[dict[str, float]]:
    """Note what is to be noted until the time is over."""
    began, found = time.monotonic(), []
    with (folder / "samples.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["seconds", *PANELS])
        writer.writeheader()
        while (spent := time.monotonic() - began) < 60 * minutes:
            time.sleep(EVERY_S)
            if query.exception() is not None:
                raise SystemExit(f"The stream ended: {query.exception()}")
            try:
                found.append(sample(query, folder, spent))
            except FileNotFoundError:  # Spark removed a file of the checkpoint meanwhile
                continue
            writer.writerow(found[-1])
            file.flush()
            print("  ".join(f"{name} {value:g}" for name, value in found[-1].items()), flush=True)
    return found


# --- the verdict ----------------------------------------------------------------------------------


def growth(samples: list[dict[str, float]], name: str) -> float:
    """The median of the last third relative to that of the second."""
    third = len(samples) // 3
    values = [one[name] for one in samples]
    middle, last = statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])
    return last / middle if middle else 1.0


def draw(samples: list[dict[str, float]], path: Path) -> None:
    with plot_style.context({"font.size": 9}):
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
        minutes = [one["seconds"] / 60 for one in samples]
        for axis, (name, title) in zip(axes.flat, PANELS.items(), strict=True):
            axis.plot(minutes, [one[name] for one in samples], color=plot_style.RED, linewidth=1.2)
            axis.set_ylim(bottom=0)
            axis.set_title(f"{title}\n× {growth(samples, name):.2f} in the last third", fontsize=10)
            axis.set_xlabel("minutes")
        figure.savefig(path)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--folder", type=Path, default=Path("build/soak"))
    chosen = parser.parse_args()
    folder = chosen.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    confs = {"spark.sql.shuffle.partitions": 2, "spark.sql.streaming.minBatchesToRetain": 10}
    spark = session("local[2]", app="soak", **confs)
    query = start(spark, folder)
    samples = watch(query, folder, chosen.minutes)
    query.stop()
    draw(samples, folder / "soak.png")
    grown = {name: growth(samples, name) for name in PANELS}
    print("\n".join(f"{title}: × {grown[name]:.2f}" for name, title in PANELS.items()))
    sys.exit(any(value > GROWTH for value in grown.values()))


if __name__ == "__main__":
    main()
