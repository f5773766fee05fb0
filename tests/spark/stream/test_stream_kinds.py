"""Windows of all kinds on Spark: the stream, through a restart, is the batch is what one process says.

A query costs seconds, so there is one, with several aggregations.
"""

from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import sash
from sash import SashError
from sash.spark import export_checkpoint, rolling, verify_checkpoint
from support import spark_streams as streams
from support.spark_streams import LATENESS, assert_same, latest

AGGS = {"n": "count()", "s": "sum(x)", "f": "affine(a, b)", "both": "struct(old=first(x), top=max(x))"}
COUNTED = {"idle": "20 minutes", "windows": {"three": "3 rows", "ever": "unbounded", "min": "2m"}}
CASES: dict[str, dict[str, Any]] = {
    "rows": {"emit": "final", "min_rows": 2, **COUNTED},
    "rows, update": {"emit": "update", "id": "i", "retract": "gone", "closed": "left", **COUNTED},
    "to date": {"emit": "final", "windows": ["day to date", "5 rows"], "idle": "1h", "zone": "Pacific/Kiritimati"},
    "boundaries": {"emit": "update", "every": "1 minute", "id": "i", "retract": "gone", **COUNTED},
    "months": {"emit": "final", "every": "1 month", "windows": ["month to date"], "zone": "America/New_York"},
    "both": {"emit": "final", "closed": "both", "windows": ["2m", "1 row"], "idle": "1h"},
}
IDENTITY = {"rows, update": ("k.ey", "t", "i"), "boundaries": ("k.ey", "window_end")}
HALF = 3


def arguments(name: str) -> dict[str, Any]:
    shared = {"keys": ["k.ey"], "time": "t", "aggs": AGGS, "lateness": f"{LATENESS // streams.SECOND} seconds"}
    return shared | CASES[name]


def together(parts: dict[str, DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, (streams.as_text(name, part) for name, part in parts.items()))


def in_time(name: str, batches: list[list[streams.Row]]) -> list[streams.Row]:
    """The rows that are not late."""
    kept = []
    for batch, watermark in zip(batches, streams.watermarks(batches), strict=True):
        for row in batch:
            end = row["t"]
            if CASES[name].get("every") == "1 minute":
                end = row["t"] - row["t"] % streams.MINUTE + streams.MINUTE - 1
            if watermark is None or end >= watermark - LATENESS or CASES[name].get("every") == "1 month":
                kept.append(row)
    return kept


def with_deletes(batches: list[list[streams.Row]]) -> list[list[streams.Row]]:
    """The same with deletes of some rows, a micro-batch later; without `retract` they are rows like the others."""
    made = [list(batch) for batch in batches]
    for at, batch in enumerate(batches[:-1]):
        made[at + 1] += [row | {"row": 1000 + row["row"], "op": "delete", "gone": True} for row in batch[::5]]
    return made


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory):
    """The rows of each case that a query wrote in two goes, and its checkpoint in between."""
    folder = tmp_path_factory.mktemp("kinds")
    batches = with_deletes(streams.stream(11, 200, 6))
    streams.write(folder / "in", batches[:HALF])
    rows = streams.read(spark, folder / "in")
    results = together({name: rolling(rows, **arguments(name), buckets=2) for name in CASES})
    checkpoint = str(folder / "checkpoint")
    findings = []

    def go() -> None:
        writer = results.writeStream.format("parquet").option("path", str(folder / "out"))
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
        findings.extend(verify_checkpoint(checkpoint, spark=spark).findings)

    go()
    with pytest.raises(SashError, match="unbounded window"):
        export_checkpoint(checkpoint, str(folder / "export"), spark=spark)
    streams.write(folder / "in", batches[HALF:], HALF)
    streams.write_end(folder / "in")
    go()
    assert findings == []
    return folder, batches


@pytest.mark.parametrize("name", CASES)
def test_the_stream_is_the_batch_is_one_process(spark, ran, name):
    folder, batches = ran
    rows = in_time(name, batches)
    said = streams.rows_in(spark, folder / "out", name)
    got = latest(said, *IDENTITY[name]) if name in IDENTITY else said
    table = pa.Table.from_pylist(rows, schema=streams.SCHEMA)
    batch = together({name: rolling(spark.createDataFrame(table, streams.DDL), **arguments(name))})
    own = [
        {key: row[key] for key in row if key not in ("revision", "deleted")} for row in streams.as_rows(batch.collect())
    ]
    assert_same(got, own)
    assert got
    if "id" in CASES[name]:
        gone = {(row["k.ey"], row["t"], row["i"]) for row in rows if row["gone"]}
        rows = [row for row in rows if (row["k.ey"], row["t"], row["i"]) not in gone]
        rows.sort(key=lambda row: (row["t"], row["i"]))
    table = pa.Table.from_pylist(rows, schema=streams.SCHEMA)
    words = {
        word: value
        for word, value in arguments(name).items()
        if word not in ("emit", "lateness", "id", "retract", "carry")
    }
    alone = sash.rolling(table, **words)
    for column in (column for column in ("t", "window_start", "window_end") if column in alone.column_names):
        alone = alone.set_column(alone.column_names.index(column), column, alone[column].cast(pa.int64()))
    wanted = [{key: streams.plain(value) for key, value in row.items() if key in got[0]} for row in alone.to_pylist()]
    assert_same(got, wanted)


def test_what_a_stream_cannot_have_is_refused(spark, tmp_path):
    streams.write(tmp_path, streams.stream(1, 4, 1))
    rows, words = streams.read(spark, tmp_path), {"keys": ["k.ey"], "time": "t", "aggs": AGGS}
    with pytest.raises(SashError, match="idle must be set where windows count rows"):
        rolling(rows, windows=["100 rows"], **words)
    with pytest.raises(SashError, match="windows must end at their row in a stream"):
        rolling(rows, windows=["next 1h"], **words)
    ahead = rolling(spark.read.parquet(str(tmp_path)), windows=["next 1h"], **words)
    assert ahead.where("n_next_1h >= 1").count() == 4
