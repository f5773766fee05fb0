"""Named totals of queries: counted once per micro-batch, by a listener and for Prometheus."""

import json
import re
import socket
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash import monoids
from sash.errors import ArgumentError
from sash.pipeline.run.prometheus import serve
from sash.spark import MetricsListener, metrics, rolling
from sash.spark.stream.bucket import COUNTERS as OF_BUCKETS
from sash.spark.stream.totals import COUNTERS, GAUGES, Totals

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def stamp(second):
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000Z"


def report(batch, second=0, **more):
    """A report of a micro-batch without an aggregation, as Spark writes it."""
    plain = {"id": "1", "name": None, "batchId": batch, "timestamp": stamp(second), "durationMs": {"addBatch": 5}}
    plain["durationMs"]["triggerExecution"] = 500
    return plain | {"observedMetrics": {"quarantine": {"rows": 10, "malformed": 2, "late": None}}} | more


def test_a_report_is_counted_once(monkeypatch):
    """The same again, and those of an idle query, change nothing but the watermark's lag."""
    monkeypatch.setattr(time, "time", lambda: NOW.timestamp() + 90)
    totals = Totals()
    totals.add(report(0))
    totals.add(report(0))
    totals.add(report(1, 1))
    totals.add(report(1, 2, durationMs={"triggerExecution": 9}, eventTime={"watermark": NOW.isoformat()}))
    assert totals.counters["batches"] == 2 and totals.counters["quarantined"] == 4
    assert totals.counters["busy_seconds"] == 1.0 and totals.gauges["last_batch"] == 1
    assert totals.gauges["watermark_lag_seconds"] == 90
    totals.add(report(2, 3, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}))
    assert totals.gauges["watermark_lag_seconds"] == 90


def asked(batch, second, questions, rows=5, name="sash_asking_1_2"):
    """A report of a micro-batch with questions."""
    counts = [
        {"questions": questions, "late_questions": questions // 3, "rows_in": rows}.get(one, 0) for one in OF_BUCKETS
    ]
    aside = {"rows": 4, "malformed": 1}
    return report(batch, second, observedMetrics={name: {"counts": [counts]}, "questions": aside})


def test_questions_that_do_not_come_are_seen():
    """How long ago the last one came, since the totals began if none has, also while the query is idle."""
    totals = Totals()
    totals.add(asked(0, 10, 0))
    totals.add(asked(1, 70, 0))
    assert (totals.gauges["seconds_since_questions"], totals.gauges["seconds_since_rows"]) == (60, 0)
    totals.add(asked(2, 80, 7))
    assert (totals.gauges["seconds_since_questions"], totals.counters["questions"]) == (0, 7)
    assert (totals.counters["late_questions"], totals.counters["quarantined"]) == (2, 3)
    totals.add(report(2, 95, durationMs={"triggerExecution": 9}))
    assert (totals.gauges["seconds_since_questions"], totals.gauges["seconds_since_rows"]) == (15, 15)
    totals.wait(stamp(100), {})
    assert totals.gauges["seconds_since_questions"] == 20


def test_a_query_without_questions_does_not_wait_for_them():
    """Its events it does."""
    totals = Totals()
    for second in (0, 40):
        totals.add(asked(second, second, 0, rows=0, name="sash_1_2"))
    assert (totals.gauges["seconds_since_questions"], totals.gauges["seconds_since_rows"]) == (0, 40)


def stream(spark, folder):
    """A query over two files of events, one of them late."""
    (folder / "in").mkdir()
    start = 1_700_000_000 * 10**6
    for number, seconds in enumerate([[0, 60, 7200], [30, 7201]]):
        times = pa.array([start + second * 10**6 for second in seconds], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"k": ["a"] * len(seconds), "t": times}), folder / "in" / f"{number}.parquet")
        time.sleep(1.1)  # Spark orders files by the second
    rows = spark.readStream.schema("k string, t timestamp").option("maxFilesPerTrigger", 1)
    rows = rows.parquet(str(folder / "in")).withWatermark("t", "1 minute")
    results = rolling(rows, keys="k", time="t", windows=["1h"], aggs={"n": monoids.count()}, emit="arrival")
    writer = results.writeStream.format("noop").queryName("payments").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def test_a_listener_has_the_totals_of_a_query(spark, tmp_path):
    """They are the sums of what `metrics` has for each micro-batch."""
    seen = []
    listener = MetricsListener(lambda name, totals: seen.append((name, totals.counters["rows_in"])))
    spark.streams.addListener(listener)
    try:
        query = stream(spark, tmp_path)
        query.awaitTermination(120)
        until = time.monotonic() + 60
        while (not seen or seen[-1][1] < 5) and time.monotonic() < until:  # the listener's thread is behind
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    totals = listener.totals["payments"]
    by_batch = metrics(query)
    for name in ("rows_in", "late", "emitted", "written_bytes"):
        assert totals.counters[name] == sum(one[name] for one in by_batch)
    assert (totals.counters["rows_in"], totals.counters["late"], totals.counters["emitted"]) == (5, 1, 4)
    assert seen[-1] == ("payments", 5)
    assert totals.gauges["watermark_lag_seconds"] > 10**6


def scraped(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r'^(\w+)\{query="payments"\} (\S+)$', text, re.MULTILINE)}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_prometheus_scrapes_them():
    """Every counter and every gauge has its name, also in the dashboard of the documentation."""
    totals, port = Totals(), free_port()
    stop = serve(port, lambda: {"payments": totals}, host="127.0.0.1")
    try:
        totals.add(report(3))
        found = scraped(port)
        with pytest.raises(ArgumentError, match=f"metrics must be a free port of this machine, got {port}: Address"):
            serve(port, dict, host="127.0.0.1")
    finally:
        stop()
    wanted = {f"sash_{name}_total" for name in COUNTERS} | {f"sash_{name}" for name in GAUGES}
    assert set(found) == wanted
    assert (found["sash_quarantined_total"], found["sash_last_batch"], found["sash_batch_seconds"]) == (2, 3, 0.5)
    dashboard = json.loads((Path(__file__).parents[3] / "docs" / "grafana.json").read_text())
    queries = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))
    used = set(re.findall(r"sash_\w+", queries))
    assert used and used <= wanted
