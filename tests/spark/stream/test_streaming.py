"""sash.spark.rolling over streams: what the batch and the brute force say, whatever the order, the cuts, the words.

A query costs seconds, so there are two for all of parity, each with several aggregations: one for times that are
distinct, where order decides, and one for ties, ids, deletes, and rows that are late or bad.
"""

import json
import re
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sash import Monoid, SashError, monoids
from sash.spark import inspect, metrics, rolling
from sash.spark.sessions import STATE
from sash.spark.stream.bucket import COUNTERS
from sash.spark.stream.bucket_ids import labels
from sash.spark.stream.upstream import description_of
from support import spark_streams as streams
from support.spark_streams import COMMUTATIVE, ORDERED, Case, assert_same, latest

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
EVERY = {"every": "1 minute"}
DISTINCT = {
    "final": Case(COMMUTATIVE | ORDERED, words={"emit": "final", "carry": ("row",)}),
    "update": Case(COMMUTATIVE | ORDERED, words={"emit": "update", "carry": ("row",)}),
    "panes": Case(COMMUTATIVE, words=EVERY),
    "panes, update": Case(COMMUTATIVE, {"10m": streams.SIZES["10m"]}, EVERY | {"emit": "update"}),
    "singly": Case(COMMUTATIVE | ORDERED, words=EVERY),
}
NAMED = {
    "final": Case(
        COMMUTATIVE | ORDERED, words={"emit": "final", "id": "i", "retract": "op = 'delete'", "late": "emit"}
    ),
    "update": Case(COMMUTATIVE | ORDERED, words={"emit": "update", "id": "i", "retract": "gone"}),
    "every, update": Case(COMMUTATIVE, words=EVERY | {"emit": "update", "id": "i", "retract": "gone"}),
    "arrival": Case(COMMUTATIVE, words={"emit": "arrival", "id": "i", "retract": "op = 'delete'", "late": "emit"}),
}
IDENTITY = {"update": ("k.ey", "t", "row"), "panes, update": ("k.ey", "window_end")}
NAMED_IDENTITY = {"update": ("k.ey", "t", "i"), "every, update": ("k.ey", "window_end")}


@dataclass
class Run:
    """A query that has been through its stream, and what was seen of it on the way."""

    spark: SparkSession
    cases: dict[str, Case]
    batches: list[list[streams.Row]]
    folder: Path
    counted: list[dict[str, Any]]
    buckets: pa.Table
    held: pa.Table

    def rows(self, name: str) -> list[streams.Row]:
        return streams.rows_in(self.spark, self.folder / "out", name)

    def backfill(self) -> dict[str, list[streams.Row]]:
        """What a batch says to the rows that were not late, by case."""
        parts = []
        for name, case in self.cases.items():
            table = pa.Table.from_pylist(case.in_time(self.batches), schema=streams.SCHEMA)
            parts.append(
                streams.as_text(name, rolling(self.spark.createDataFrame(table, streams.DDL), **case.arguments))
            )
        texts = together(parts).collect()
        return {name: streams.as_rows([text for text in texts if text["name"] == name]) for name in self.cases}


def together(parts: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, parts)


def run(spark: SparkSession, folder: Path, batches: list[list[streams.Row]], cases: dict[str, Case]) -> Run:
    """Run one query for all cases in two goes: in between its state is looked at, and then it starts again."""
    streams.write(folder / "in", batches[:3])
    rows = streams.read(spark, folder / "in")
    results = together(
        [streams.as_text(name, rolling(rows, **case.arguments, buckets=3)) for name, case in cases.items()]
    )
    counted = go(results, folder)
    checkpoint = str(folder / "checkpoint")
    spark.conf.set(PROVIDER, "of another kind")  # of the session's own
    buckets, held = inspect(checkpoint, spark=spark), inspect(checkpoint, rows=True, operator=1, spark=spark)
    assert spark.conf.get(PROVIDER) == "of another kind"
    spark.conf.set(PROVIDER, STATE[PROVIDER])
    streams.write(folder / "in", batches[3:], 3)
    streams.write_end(folder / "in")
    return Run(spark, cases, batches, folder, counted + go(results, folder), buckets, held)


def go(results: DataFrame, folder: Path) -> list[dict[str, Any]]:
    query = (
        results.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return metrics(query)


@pytest.fixture(scope="module")
def distinct(spark, tmp_path_factory):
    """Two partitions, distinct times, late rows."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return run(spark, tmp_path_factory.mktemp("distinct"), streams.stream(1, batches=4), DISTINCT)


@pytest.fixture(scope="module")
def named(spark, tmp_path_factory):
    """Three partitions, ties, ids, deletes, rows that are late or bad."""
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    yield run(spark, tmp_path_factory.mktemp("named"), streams.stream(2, batches=4, ties=True, bad=True), NAMED)
    spark.conf.set("spark.sql.shuffle.partitions", "2")


# --- parity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["distinct", "named"])
def test_batch_is_stream_is_brute_force(request, which):
    """Each once when final, the last revision of those that are revised, and the backfill by a batch."""
    ran = request.getfixturevalue(which)
    identity = IDENTITY if which == "distinct" else NAMED_IDENTITY
    backfill = ran.backfill()
    for name, case in ran.cases.items():
        if name == "arrival":
            continue
        oracle, _ = case.oracle(ran.batches)
        wanted = case.wanted(oracle)
        mark = {"late": False} if "late" in case.words else {}
        got, batch = ran.rows(name), backfill[name]
        if name in identity:
            got, batch = latest(got, *identity[name]), latest(batch, *identity[name])
        assert_same([row for row in got if not row.get("late")], [row | mark for row in wanted])
        assert_same(batch, [row | mark for row in wanted])


def test_revisions_grow_and_say_what_is_gone(named, distinct):
    """No revision of a row comes twice, and none of those that are deleted in the end has values."""
    for ran, identity in ((named, NAMED_IDENTITY), (distinct, IDENTITY)):
        for name, columns in identity.items():
            rows = ran.rows(name)
            seen = [(*(row[column] for column in columns), row["revision"]) for row in rows]
            assert len(seen) == len(set(seen)) > len({place[:-1] for place in seen})
            assert all(row["n_10m"] is None for row in rows if row["deleted"])
    assert any(row["deleted"] for row in named.rows("update"))


def test_arrival_gives_every_accepted_row_at_once(named):
    """All columns, the values as known at the end of the batch; late rows flagged; deletes give none."""
    _, said = NAMED["arrival"].oracle(named.batches)
    got = named.rows("arrival")
    assert_same(got, said)
    assert {row["late"] for row in got} == {True, False}
    assert list(got[0])[: len(streams.SCHEMA)] == streams.SCHEMA.names


def test_metrics_read_what_spark_connect_tells():
    """There the row that was observed comes as its values and its schema, and the same numbers are found."""
    rows = [[{"rows_in": 30, "hits": 3}.get(name, 0) for name in COUNTERS], [10] + [0] * (len(COUNTERS) - 1)]
    counts = {"counts": rows}, {"values": [rows], "schema": {"fields": [{"name": "counts"}]}}
    progresses = [
        {"batchId": 5, "durationMs": {"triggerExecution": 500}, "observedMetrics": {"sash_ab": c}} for c in counts
    ]
    query = SimpleNamespace(recentProgress=[SimpleNamespace(json=json.dumps(progress)) for progress in progresses])
    classic, connect = metrics(query)
    assert classic == connect
    assert (connect["rows_in"], connect["late"], connect["hits"], connect["rows_per_second"]) == (40, 0, 3, 80.0)


def test_late_and_bad_rows_are_counted(named, distinct):
    """Every row is in, late ones are late in each aggregation, and come out flagged where that is asked for."""
    for ran in (named, distinct):
        total = {
            name: sum(counts[name] for counts in ran.counted) for name in ("rows_in", "late", "bad_times", "bad_ids")
        }
        oracles = [case.oracle(ran.batches)[0] for case in ran.cases.values()]
        wanted = {name: sum(oracle.metrics.get(name, 0) for oracle in oracles) for name in total}
        assert total == wanted
        assert total["late"] > 0
    _, late = NAMED["final"].oracle(named.batches)
    assert_same([row for row in named.rows("final") if row["late"]], late)


# --- what is seen of it ---------------------------------------------------------------------------


def test_metrics_of_a_query(distinct):
    """A dict for each micro-batch: what came, what was held, and how buckets were found."""
    first, *rest = distinct.counted
    assert first["batch"] == 0 and first["seconds"] > 0 and first["rows_per_second"] > 0
    assert first["rows_in"] == len(distinct.batches[0]) * len(DISTINCT)
    assert first["watermark"] == "1970-01-01T00:00:00.000Z"
    for name in ("emitted", "revised", "written_bytes", "live_keys", "live_rows", "records", "state_bytes", "timers"):
        assert sum(counts[name] for counts in distinct.counted) > 0, name
    assert sum(counts["hits"] + counts["catch_ups"] + counts["rebuilds"] for counts in rest) > 0
    last = distinct.counted[-1]
    assert (last["rows_in"], last["live_rows"], last["state_bytes"]) == (0, 0, 0)  # all is final, and gone
    idle = [counts for counts in distinct.counted if counts["timers"] and not counts["rows_in"]]
    assert idle and all(counts["emitted"] for counts in idle)


def test_a_look_into_a_checkpoint(distinct):
    """Its buckets, and the rows that they hold."""
    buckets, held = distinct.buckets.to_pylist(), distinct.held
    assert {row["bucket"] for row in buckets} <= set(labels(3))
    assert all(row["records"] >= 1 and row["horizon"] < row["next_timer"] for row in buckets)
    assert len({row["definition"] for row in buckets}) == 1
    assert held.column_names[:3] == ["bucket", "k.ey", "t"]
    assert 0 < held.num_rows <= sum(map(len, distinct.batches[:3]))


def test_rows_of_another_stateful_operator_are_in_time(spark, tmp_path):
    """They come when the watermark has passed them, and are counted, not late."""
    minutes = [[{"t": m * streams.MINUTE} for m in range(start, start + 20)] for start in (0, 20, 40)]
    streams.write(tmp_path / "in", [[dict.fromkeys(streams.SCHEMA.names) | row for row in part] for part in minutes])
    rows = streams.read(spark, tmp_path / "in")
    counts = rows.groupBy(F.window("t", "5 minutes")).count().select(F.window_time("window").alias("at"), "count")
    words = {"time": "at", "windows": ["15 minutes"], "aggs": {"n": monoids.sum("count")}, "emit": "final"}
    counted = go(rolling(counts, **words), tmp_path)
    got = spark.read.parquet(str(tmp_path / "out")).orderBy("at").collect()
    assert [row["n_15minutes"] for row in got] == [5, 10, *[15] * (len(got) - 2)] and len(got) > 8
    assert sum(counts["late"] for counts in counted) == 0


def test_a_query_that_starts_again_has_the_name_that_it_had(endless):
    """Its metrics are found under one name; those of other rows, or another definition, under another."""

    def name(rows: DataFrame, **words: Any) -> set[str]:
        return set(re.findall(r"CollectMetrics (sash_\w+)", description_of(rolling(rows, **arguments(**words)))))

    (one,), (same,) = name(endless), name(endless.select("*"))
    assert name(endless) == {one} and same != one
    assert len({one, *name(endless, windows=["3h"]), *name(endless.filter("x > 3"))}) == 3


# --- before it starts -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endless(spark):
    """A stream with columns of every sort, good and bad, of which nothing is ever computed."""
    given = spark.readStream.format("rate").load()
    columns = ["CAST(value AS STRING) AS text", "timestamp AS t", "value AS x", "value / 2 AS y", "timestamp AS other"]
    columns += ["map(1, 2) AS pairs", "CAST(value AS STRING) COLLATE UTF8_LCASE AS collated", "value > 3 AS flag"]
    return given.selectExpr(*columns, "value AS n_1h").withWatermark("t", "1 minute")


def arguments(**words: Any) -> dict[str, Any]:
    aggs = {"n": monoids.count(), "s": monoids.sum("x")}
    return {"keys": ["text"], "time": "t", "windows": ["2h"], "aggs": aggs, "emit": "update"} | words


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such key": ({"keys": ["nobody"]}, r"keys must name columns of df \(.*\), got 'nobody'"),
    "no such time": ({"time": "never"}, r"time must name columns of df \(.*\), got 'never'"),
    "no such input": ({"aggs": {"s": monoids.sum("nothing")}}, r"aggs must name columns of df \(.*\), got 'nothing'"),
    "no such id": ({"id": "nobody"}, r"id must name columns of df \(.*\), got 'nobody'"),
    "nothing to carry": ({"carry": ["nobody"]}, r"carry must name columns of df \(.*\), got 'nobody'"),
    "a watermark on another": ({"time": "other"}, "df must have a watermark on 'other', .*withWatermark"),
    "text for a time": ({"time": "text"}, "column 'text' must hold timestamps to be the time of a stream, got string"),
    "a fraction for a key": ({"keys": "y"}, "keys must not be floats"),
    "a map for a key": ({"keys": "pairs"}, "keys must name columns of .*, but 'pairs' holds map<int,int>"),
    "a collated key": (
        {"keys": "collated"},
        "keys must compare by bytes, but column 'collated' has the collation UTF8_LCASE",
    ),
    "a collated id": ({"id": "collated"}, "id must compare by bytes, but column 'collated' has the collation"),
    "deletes by collated text": (
        {"aggs": {"last": monoids.last("collated")}, "retract": "text = 'x'"},
        "aggs must compare by bytes, but column 'collated' has the collation",
    ),
    "a map for an id": ({"id": "pairs"}, "id must name columns of .*, but 'pairs' holds map<int,int>"),
    "a sum of text": (
        {"aggs": {"s": monoids.sum("text")}},
        "aggs must read numbers, but the column 'text'",
    ),
    "no monoid": ({"aggs": {"s": sum}}, "aggs must hold monoids, but s is <built-in function sum>"),
    "no aggregates": ({"aggs": None}, "aggs must be a dict from names to monoids, got None"),
    "results of any type": (
        {"aggs": {"p": Monoid(identity=0, combine=max, column="x")}},
        "aggs must declare the type of p_2h, because Spark plans before it runs; pass returns= to its monoid",
    ),
    "no boolean": ({"retract": "x"}, "retract must hold booleans, but 'x' holds bigint"),
    "no condition": ({"retract": "x + 1"}, r"retract must hold booleans, but 'x \+ 1' holds bigint"),
    "nothing that can be read": (
        {"retract": "x = ("},
        r"retract must be a column or a condition over the columns of df, got 'x = \('",
    ),
    "a condition on nothing": (
        {"retract": "nobody = 3"},
        "retract must be a column or a condition over the columns of df, got 'nobody = 3'",
    ),
    "a number of deletes": ({"retract": 3}, "retract must be a column or a condition, got 3"),
    "unknown emission": ({"emit": "sometimes"}, "emit must be one of arrival, final, update, got 'sometimes'"),
    "unknown anchor": ({"per": "row"}, 'per must be "event" or "session", got .row.'),
    "unknown fate": ({"late": "keep"}, "late must be one of drop, emit, got 'keep'"),
    "no duration": ({"lateness": "soon"}, "lateness must be a duration such as .*, got 'soon'"),
    "a lateness below 0": ({"lateness": "-1 minute"}, "lateness must be zero or more, got '-1 minute'"),
    "no buckets": ({"buckets": 0}, "buckets must be .*, got 0"),
    "half a bucket": ({"buckets": 1.5}, "buckets must be .*, got 1.5"),
    "less than no memory": ({"cache_bytes": -1}, "cache_bytes must be .*, got -1"),
    "boundaries that arrive": (
        {"every": "1 minute", "emit": "arrival"},
        "emit must be 'final' or 'update' with every=",
    ),
    "boundaries that carry": ({"every": "1 minute", "carry": ["x"]}, "carry must be left out with every="),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_refused_at_the_call(endless, case):
    """Each in one sentence that names the argument, before anything has started."""
    words, sentence = REFUSED[case]
    with pytest.raises(SashError, match=f"^{sentence}") as error:
        rolling(endless, **arguments(**words))
    assert "\n" not in str(error.value)
    if " must " in sentence:
        assert error.value.argument in {*words, "df"}


def test_a_stream_needs_a_watermark(spark):
    """The error says how to add one."""
    rows = spark.readStream.format("rate").load()
    with pytest.raises(SashError, match=r'call df\.withWatermark\("timestamp", "10 minutes"\)'):
        rolling(rows, **arguments(keys=[], time="timestamp", aggs={"n": monoids.count()}))


def test_the_schema_is_known_before_it_starts(endless):
    """The columns of each emission, and their types; those of the input stay what they were."""
    sketches = {"d": monoids.theta("text"), "raw": monoids.theta("text", as_bytes=True), "q": monoids.kll("y", q=[0.5])}
    sketches |= {"often": monoids.frequent_items("text")}
    shapes = {
        "final": (
            arguments(emit="final", carry=["flag"]),
            "text:string,t:timestamp,flag:boolean,n_2h:bigint,s_2h:bigint",
        ),
        "update": (
            arguments(id="x"),
            "text:string,t:timestamp,x:bigint,n_2h:bigint,s_2h:bigint,revision:bigint,deleted:boolean",
        ),
        "arrival": (
            arguments(emit="arrival", late="emit"),
            endless.schema.simpleString()[7:-1] + ",n_2h:bigint,s_2h:bigint,late:boolean",
        ),
        "every": (
            arguments(every="1 minute", emit="final"),
            "text:string,window_start:timestamp,window_end:timestamp,n_2h:bigint,s_2h:bigint",
        ),
        "sketches": (
            arguments(aggs=sketches, emit="final"),
            "text:string,t:timestamp,d_2h:double,raw_2h:binary,q_2h:array<double>,"
            "often_2h:array<struct<item:string,estimate:bigint>>",
        ),
    }
    for words, shape in shapes.values():
        results = rolling(endless, **words)
        assert results.isStreaming
        assert results.schema.simpleString() == f"struct<{shape}>"


def test_spark_reads_the_bytes_of_sketches(spark):
    """Spark's own functions read Theta and KLL sketches, and join them with sketches that Spark made."""
    rows = spark.range(60).select((F.col("id") % 2).alias("k"), F.timestamp_seconds("id").alias("t"), "id")
    rows = rows.withColumns({"x": F.col("id") % 7, "y": F.col("id").cast("double")})
    aggs = {"d": monoids.theta("x", as_bytes=True), "q": monoids.kll("y", as_bytes=True)}
    last = rolling(rows, keys="k", time="t", windows=["20s"], aggs=aggs).orderBy(F.desc("t")).limit(1)
    spark_made = spark.range(5, 12).select(F.theta_sketch_agg("id").alias("other"))
    got = last.crossJoin(spark_made).selectExpr(
        "theta_sketch_estimate(d_20s)",
        "theta_sketch_estimate(theta_union(d_20s, other))",
        "kll_sketch_get_n_double(q_20s)",
        "kll_sketch_get_quantile_double(q_20s, 0.5D)",
    )
    assert tuple(got.collect()[0]) == (7, 12, 10, 49.0)  # the odd seconds from 41 to 59
