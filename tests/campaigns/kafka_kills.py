"""A million events from Kafka to Delta by a pipeline that is killed ten times; every result is compared.

`make kafka-kills` runs it: a broker of its own, events out of order over three partitions, `sash run` in a process that
is killed with all its children after a random number of micro-batches, in the middle of the next. The table at the end
must equal what `sash.rolling` gives for all events at once, row for row.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sash import monoids, rolling
from sash.spark import upserted_table
from support import kafka_broker

PIPELINE = """
name = "payments"
mode = "available-now"
finish = true
checkpoint = "checkpoint"
[source]
format = "kafka"
topic = "payments"
servers = "{servers}"
schema = "card string, at timestamp, amount long"
watermark = "30 seconds"
options = {{ maxOffsetsPerTrigger = {batch} }}
[rolling]
keys = ["card"]
time = "at"
windows = ["10m", "1h"]
every = "1 minute"
emit = "update"
lateness = "2 days"
buckets = 4
[rolling.aggs]
n = "count()"
total = "sum(amount)"
top = "max(amount)"
[sink]
format = "delta"
path = "results"
[spark]
master = "local[2]"
conf = {{ "spark.jars" = "{jars}" }}
"""
START_US = 1_790_000_040_000_000  # a whole minute
KEYS, SPAN_S, PARTITIONS = 200, 6 * 3600, 3


def events(count: int) -> pa.Table:
    """Events of six hours in the order in which they arrive: a tenth of them late by up to twenty minutes."""
    rng = np.random.default_rng(0)
    times = np.arange(count) * (SPAN_S * 1_000_000 // count)
    late = np.where(rng.random(count) < 0.1, rng.integers(0, 1_200_000_000, count), 0)
    return pa.table(
        {
            "card": np.char.add("card-", rng.integers(0, KEYS, count).astype(str)),
            "at": pa.array(START_US + np.maximum(times - late, 0), pa.timestamp("us", "UTC")),
            "amount": rng.integers(0, 1000, count),
        }
    )


def records(table: pa.Table) -> Any:
    """Yield the events as records for `kafka_broker.produce`."""
    columns = [table["card"].to_pylist(), table["at"].cast("int64").to_pylist(), table["amount"].to_pylist()]
    for number, (card, at, amount) in enumerate(zip(*columns, strict=True)):
        moment = np.datetime64(at, "us").item().isoformat() + "Z"
        value = json.dumps({"card": card, "at": moment, "amount": amount})
        yield "payments", number % PARTITIONS, card, value, None


def run(folder: Path, batches: int | None, wait: float) -> bool:
    """Run the pipeline, and kill it some micro-batches and a moment later; return whether it came to its end."""
    command = [sys.executable, "-m", "sash", "run", "pipeline.toml", "--log", "json"]
    with (folder / "errors").open("a") as errors:
        process = subprocess.Popen(
            command, cwd=folder, start_new_session=True, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            seen += '"batch"' in line
            if batches is not None and seen >= batches:
                time.sleep(wait)
                os.killpg(process.pid, signal.SIGKILL)
                break
        process.wait()
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"the pipeline ended with {process.returncode}: {(folder / 'errors').read_text()[-2000:]}")
    return process.returncode == 0


def compare(folder: Path, table: pa.Table) -> tuple[int, int]:
    """Return how many results there are, and how many differ."""
    aggs = {"n": monoids.count(), "total": monoids.sum("amount"), "top": monoids.max("amount")}
    wanted = rolling(table, keys=["card"], time="at", windows=["10m", "1h"], every="1 minute", aggs=aggs)
    names = [name for name in wanted.column_names if name != "window_start"]
    found = upserted_table(folder / "results").select(names)
    order = [("card", "ascending"), ("window_end", "ascending")]
    one, other = (part.select(names).sort_by(order).to_pylist() for part in (wanted, found))
    by_place = {(row["card"], row["window_end"]): row for row in other}
    differing = sum(by_place.pop((row["card"], row["window_end"]), None) != row for row in one)
    return len(one), differing + len(by_place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("build/kafka-kills"))
    chosen = parser.parse_args()
    folder, chance = chosen.folder.absolute(), random.Random(chosen.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    table = events(chosen.rows)
    running = kafka_broker.running(folder / "broker")
    broker = next(running)
    broker.create("payments", partitions=PARTITIONS)
    kafka_broker.produce(broker, records(table))
    print(f"{chosen.rows:,} events produced", flush=True)
    words = {"servers": broker.servers, "jars": kafka_broker.connector_jars(), "batch": chosen.rows // 40}
    (folder / "pipeline.toml").write_text(PIPELINE.format(**words))
    kills = 0
    while not run(folder, chance.randint(1, 3) if kills < chosen.kills else None, chance.random()):
        kills += 1
        print(f"killed {kills} times", flush=True)
    results, differing = compare(folder, table)
    next(running, None)
    print(f"{kills} kills, {results:,} results, {differing} differ from a recomputation")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
