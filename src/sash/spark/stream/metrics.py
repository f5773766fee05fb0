"""What a running query counts, micro-batch by micro-batch."""

import json
from typing import Any

from sash.errors import KindError, shown
from sash.spark.stream.bucket import COUNTERS
from sash.spark.stream.query import OBSERVED


def metrics(query: Any) -> list[dict[str, Any]]:
    """Give a dict for each recent micro-batch of a query with a rolling aggregation, the newest last.

    Beside `batch`, `seconds`, `rows_per_second` and `watermark` it has what the operator counted: rows in, bad, late,
    emitted, revised, deleted; hits, catch-ups and rebuilds of buckets in memory; bytes of state written and read; and
    the keys, rows, records and bytes held by the buckets that the micro-batch touched.
    """
    if not hasattr(query, "recentProgress"):
        raise KindError(f"query: {shown(query)} is no streaming query; give what start() gave.")
    return [of_batch(json.loads(progress.json)) for progress in query.recentProgress]


def of_batch(progress: dict[str, Any]) -> dict[str, Any]:
    """Give what one micro-batch counted, from its progress as Spark tells it in JSON."""
    observed = progress.get("observedMetrics", {})
    operators = [_named(seen) for name, seen in observed.items() if name.startswith(OBSERVED)]
    buckets = [row for seen in operators for row in seen["counts"] or ()]
    counted = {name: sum(int(row[place]) for row in buckets) for place, name in enumerate(COUNTERS)}
    seconds = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
    return {
        "batch": progress["batchId"],
        "seconds": seconds,
        "rows_per_second": counted["rows_in"] / seconds if seconds else 0.0,
        "watermark": progress.get("eventTime", {}).get("watermark"),
        **counted,
    }


def _named(seen: dict[str, Any]) -> dict[str, Any]:
    """Give a row by its names; through Spark Connect it comes as its values and its schema."""
    if "schema" not in seen:
        return seen
    return dict(zip([field["name"] for field in seen["schema"]["fields"]], seen["values"], strict=True))
