"""A demo without Spark: the same events through KeyedWindows in the micro-batches that Spark would make."""

from datetime import UTC, datetime, timedelta
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from sash import KeyedWindows, monoids
from sash.demo import summary, verify
from sash.pipeline.sources.generated import demo

MINUTE = 60 * 10**6
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROWS = 12_000
RULES = verify.Rules("card", {"10m": 10 * MINUTE, "30m": 30 * MINUTE}, MINUTE, MINUTE // 2, 15 * MINUTE, ROWS // 40)


def events_of(rows=ROWS, **changed):
    options = {
        "kind": "payments", "rows": rows, "seed": 7, "keys": 40, "rate": rows / 6000, "late": 0.15,
        "delay_mean": "2 minutes", "delay_max": "40 minutes", "outage_every": "40 minutes", "outage_for": "12 minutes",
        "outage_share": 0.3, "retract": 0.02, "retract_after": "4 minutes",
    }  # fmt: skip
    return demo(**options | changed)


@cache
def run(rules=None):
    """Give the raw events, all rows that were shown, and how many came too late."""
    rules = rules or RULES
    made = events_of()
    events = verify.Events.of(made, ROWS, "card")
    windows = KeyedWindows(
        keys=["card"], time="ts", windows=["10m", "30m"], every="1 minute", emit="update", lateness="15 minutes",
        id="id", retract=pc.field("op") == "delete",
        aggs={"n": monoids.count(), "total": monoids.sum("amount"), "largest": monoids.max("amount")},
    )  # fmt: skip
    shown, watermark = [], EPOCH
    for start in range(0, ROWS, rules.rows_per_batch):
        stop = start + rules.rows_per_batch
        shown.append(windows.push(pa.Table.from_batches([made.batch(start, stop)]), watermark=watermark))
        newest = timedelta(milliseconds=int(events.times[:stop].max()) // 1000)
        watermark = EPOCH + newest - timedelta(microseconds=rules.delay)
    shown.append(windows.flush())
    return events, pa.concat_tables(shown), windows.metrics["late"]


def latest(history):
    """Give the last revision of each result, the deleted left out."""
    kept = {}
    for row in history.to_pylist():
        place = row["card"], row["window_end"]
        if place not in kept or row["revision"] > kept[place]["revision"]:
            kept[place] = row
    return pa.Table.from_pylist([row for row in kept.values() if not row["deleted"]], schema=history.schema)


def batches(count=40):
    return [
        {"batch": number, "run": "a" if number < 8 else "b", "rows": ROWS // count, "seconds": 1.0 + number % 3 / 5,
         "rows_per_second": ROWS / count / (1.0 + number % 3 / 5), "state_bytes": 10_000 * min(number + 1, 12),
         "revised": 40, "late": 0}
        for number in range(count)
    ]  # fmt: skip


@cache
def summarized():
    """Return a whole summary."""
    events, history, late = run()
    verdict = verify.verify(events, RULES, latest(history), late)
    came = verify.arrived(events, RULES)
    return summary.Summary(events, RULES, came, verdict, summary.revised_of(history, RULES, "total_10m"), batches())
