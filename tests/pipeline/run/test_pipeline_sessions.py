"""Sessions by a pipeline file on Spark: late events merge them, and the target of an upsert follows."""

import json
import os
from datetime import UTC, datetime, timedelta

from sash import monoids, rolling
from sash.pipeline.config.read import parse
from sash.pipeline.run.run import run
from sash.spark import upserted_table

FILE = """
name = "visits"
mode = "available-now"
[source]
format = "json"
schema = "user string, at timestamp, page long, gone boolean"
watermark = "1 minute"
[source.options]
maxFilesPerTrigger = 1
[[steps]]
where = "page IS NOT NULL"
[rolling]
keys = ["user"]
time = "at"
id = "page"
retract = "gone"
per = "session"
gap = "30 minutes"
emit = "update"
lateness = "1 day"
late = "emit"
buckets = 2
[rolling.aggs]
n = "count()"
last = "last(page)"
[sink]
format = "upsert"
"""


def at(minute):
    return datetime(2026, 1, 1, 10, tzinfo=UTC) + timedelta(minutes=minute)


def event(user, minute, page, gone=False):
    return {"user": user, "at": at(minute), "page": page, "gone": gone}


FILES = [
    [event("u", 0, 1), event("u", 60, 2), event("v", 5, 3)],
    [event("u", 30, 4), event("v", 200, 5), event("w", 0, 6)],  # the first of them makes two sessions one
    [event("u", 0, 1, gone=True), event("w", 0, 6, gone=True), event("v", 230, 7)],
    [event("u", -3000, 8)],  # too late
]


def test_the_target_of_an_upsert_has_the_sessions_of_the_batch(spark, tmp_path):
    """Sessions that were swallowed, moved or removed are gone from it, and late rows are set aside."""
    (tmp_path / "in").mkdir()
    for number, rows in enumerate(FILES):
        path = tmp_path / "in" / f"{number}.json"
        path.write_text("\n".join(json.dumps(row | {"at": row["at"].isoformat()}) for row in rows))
        os.utime(path, (1_700_000_000 + number,) * 2)
    places = {"checkpoint": "checkpoint", "sink.path": "results", "source.path": "in", "quarantine.path": "aside"}
    pipeline = parse(FILE, overrides=[f"{name}={tmp_path / place}" for name, place in places.items()])
    outcome = run(pipeline, spark=spark)
    assert (outcome.rows_in, outcome.late) == (10, 1)
    gone = {1, 6, 8}
    rows = [row for some in FILES for row in some if row["page"] not in gone]
    aggs = {"n": monoids.count(), "last": monoids.last("page")}
    wanted = rolling(
        {name: [row[name] for row in rows] for name in ("user", "at", "page")},
        keys=["user"], time="at", per="session", gap="30 minutes", aggs=aggs,
    )  # fmt: skip
    names = ["user", "session_start", "session_end", "n", "last"]
    found = upserted_table(tmp_path / "results").select(names).to_pylist()
    by = ("user", "session_start")
    assert sorted(found, key=lambda row: [row[name] for name in by]) == wanted.select(names).to_pylist()
    assert [(row["user"], row["n"]) for row in found if row["user"] == "u"] == [("u", 2)]
