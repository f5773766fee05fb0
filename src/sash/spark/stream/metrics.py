"""The counters of a running query, by micro-batch."""

import json
from typing import TYPE_CHECKING, Any

from sash.errors import KindError, shown
from sash.spark.stream.bucket import COUNTERS
from sash.spark.stream.query import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def metrics(query: "StreamingQuery") -> list[dict[str, Any]]:
    """Return a dict for each recent micro-batch of a query with a rolling aggregation, the newest last.

    It has `batch`, `seconds`, `rows_per_second` and `watermark`, and the counters of the operator: rows in, bad, late,
    emitted, revised, deleted; hits, catch-ups and rebuilds of buckets in memory; bytes of state written and read; and
    the keys, rows, records and bytes in the buckets that the micro-batch touched. Counters are at least once: Spark
    adds what a repeated task has counted.
    """
    if not hasattr(query, "recentProgress"):
        raise KindError(
            f"query must be a streaming query, as start() returns it, got {shown(query)}.", argument="query"
        )
    return [of_batch(json.loads(progress.json)) for progress in query.recentProgress]


def of_batch(progress: dict[str, Any]) -> dict[str, Any]:
    """Return the counters of one micro-batch from its progress, which Spark reports as JSON."""
    observed = progress.get("observedMetrics", {})
    operators = [_by_name(row) for name, row in observed.items() if name.startswith(OBSERVED)]
    buckets = [counts for row in operators for counts in row["counts"] or ()]
    counters = {name: sum(int(counts[place]) for counts in buckets) for place, name in enumerate(COUNTERS)}
    seconds = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
    return {
        "batch": progress["batchId"],
        "seconds": seconds,
        "rows_per_second": counters["rows_in"] / seconds if seconds else 0.0,
        "watermark": progress.get("eventTime", {}).get("watermark"),
        **counters,
    }


def _by_name(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as a dict by column; Spark Connect sends its values and its schema instead."""
    if "schema" not in row:
        return row
    return dict(zip([field["name"] for field in row["schema"]["fields"]], row["values"], strict=True))
