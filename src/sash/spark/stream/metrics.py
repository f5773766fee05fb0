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
    emitted, revised, deleted; questions, and those that were late or repeated; hits, catch-ups and rebuilds of buckets
    in memory; bytes of state written and read; and the keys, rows, records and bytes in the buckets that the micro-
    batch touched. Counters are at least once: Spark adds what a repeated task has counted. If a source is Kafka,
    `kafka_lag` is the number of records in its topics that the query has not read, and `kafka_lag_by_partition` the
    same by "topic-partition"; otherwise None and empty.
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
    lags = kafka_lag(progress)
    return {
        "batch": progress["batchId"],
        "seconds": seconds,
        "rows_per_second": counters["rows_in"] / seconds if seconds else 0.0,
        "watermark": progress.get("eventTime", {}).get("watermark"),
        "kafka_lag": sum(lags.values()) if lags else None,
        "kafka_lag_by_partition": lags,
        **counters,
    }


def kafka_lag(progress: dict[str, Any]) -> dict[str, int]:
    """Return the number of records behind the end of each partition, by "topic-partition".

    >>> source = {"endOffset": {"payments": {"0": 7}}, "latestOffset": {"payments": {"0": 10, "1": 4}}}
    >>> kafka_lag({"sources": [{"description": "KafkaV2[Subscribe[payments]]", **source}]})
    {'payments-0': 3, 'payments-1': 4}
    """
    lags: dict[str, int] = {}
    for source in progress.get("sources", []):
        if not str(source.get("description", "")).startswith("KafkaV2["):
            continue
        read, there = source.get("endOffset") or {}, source.get("latestOffset") or {}
        for topic, partitions in there.items():
            for partition, latest in partitions.items():
                behind = latest - read.get(topic, {}).get(partition, 0)
                name = f"{topic}-{partition}"
                lags[name] = lags.get(name, 0) + max(behind, 0)
    return lags


def _by_name(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as a dict by column; Spark Connect sends its values and its schema instead."""
    if "schema" not in row:
        return row
    return dict(zip([field["name"] for field in row["schema"]["fields"]], row["values"], strict=True))
