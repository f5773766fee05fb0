"""sash.spark.rolling over DataFrames that are all there: in-process rolling's answers, and the brute force's."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import sash
from sash import Monoid, SashError, monoids
from sash.spark import rolling
from support.spark_events import FOLDS, KEYS, ORDERED, SIZES, assert_same, events, frame, monoids_of, oracle

COUNT = {"n": monoids.count()}
EPOCH_US = 1_767_225_600_000_000  # 2026 in UTC


def arguments(**options: Any) -> dict[str, Any]:
    return {"keys": ["text"], "time": "t", "windows": list(SIZES), "aggs": monoids_of(FOLDS)} | options


def in_process(table: pa.Table, **options: Any) -> list[dict[str, Any]]:
    return sash.rolling(table, **options).to_pylist()


def timed(table: pa.Table, zone: str | None) -> pa.Table:
    """The same table with minutes for its times."""
    minutes = table["t"].to_numpy() * 60_000_000 + EPOCH_US
    return table.set_column(1, "t", pa.array(minutes, pa.timestamp("us", zone)))


# --- parity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_batch_is_in_process_is_brute_force(spark, small, partitions, closed):
    """Ties, null keys, values and times, keys over many batches, one key with most of the rows."""
    small(partitions=partitions)
    table = events(partitions, bad_times=True, skewed=closed == "right")
    options = arguments(closed=closed)
    got = rolling(frame(spark, table), **options).toArrow()
    assert_same(got, in_process(table, **options))
    assert_same(got, oracle(table, ["text"], FOLDS, closed))
    assert got.column_names[: len(table.column_names)] == table.column_names


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_any_type(spark, small, name):
    """Null is a key of every type."""
    table = events(7, 100, bad_times=True)
    options = arguments(keys=name, aggs={"n": monoids.count(), "s": monoids.sum("x")})
    assert_same(rolling(frame(spark, table), **options).toArrow(), in_process(table, **options))


def test_keys_of_several_columns(spark, small):
    """Four columns of different types, nulls in each."""
    table = events(9, 300)
    options = arguments(keys=["flag", "text", "price", "day"], windows=[400])
    assert_same(rolling(frame(spark, table), **options).toArrow(), in_process(table, **options))


@pytest.mark.parametrize("partitions", [1, 4])
def test_order_decides_where_times_are_distinct(spark, small, partitions):
    """A monoid that is not commutative sees its rows in the order of time."""
    small(partitions=partitions)
    table = events(11, distinct=True, skewed=True)
    got = rolling(frame(spark, table), **arguments(aggs=monoids_of(ORDERED))).toArrow()
    assert_same(got, oracle(table, ["text"], ORDERED))


def test_no_keys_is_one_group(spark, small):
    """Without keys all rows are one group."""
    table = events(13, bad_times=True)
    for keys in ([], None):
        got = rolling(frame(spark, table), **arguments(keys=keys)).toArrow()
        assert_same(got, oracle(table, [], FOLDS))


@pytest.mark.parametrize("zone", [None, "UTC"], ids=["local", "instants"])
@pytest.mark.parametrize("session_zone", ["UTC", "America/New_York"])
def test_timestamps(spark, small, zone, session_zone):
    """Timestamps with and without a zone, whatever the session's: windows are durations, columns come back as given."""
    small(zone=session_zone)
    table = timed(events(15, 100), zone)
    options = arguments(windows=["30m", "5h"])
    got = rolling(frame(spark, table), **options).orderBy("row").toArrow()
    assert got["t"].cast(pa.timestamp("us", "UTC")).equals(table["t"].cast(pa.timestamp("us", "UTC")))
    results = [f"{name}_{window}" for name in FOLDS for window in ("30m", "5h")]
    wanted = sash.rolling(table, **options).select(["row", *results])
    assert_same(got.select(["row", *results]), wanted.to_pylist())


def test_large_chunks(spark):
    """Chunks of the default size: several Arrow batches and chunks in each of two partitions."""
    n, rng = 200_000, np.random.default_rng(17)
    table = pa.table({"row": np.arange(n), "text": rng.zipf(1.5, n) % 50, "t": rng.permutation(n), "x": np.arange(n)})
    options = arguments(windows=[100, n], aggs={"n": monoids.count(), "s": monoids.sum("x"), "old": monoids.first("x")})
    got = rolling(frame(spark, table), **options).toArrow()
    assert got.sort_by("row").combine_chunks().equals(sash.rolling(table, **options).combine_chunks())


# --- columns --------------------------------------------------------------------------------------


def test_every_column_passes_through(spark, small):
    """Decimals, bytes, lists, structs, maps, variants and intervals come back unchanged, next to the results."""
    given = spark.sql("""
        SELECT id AS row, id % 3 AS k, id AS t, id * 2 AS x,
               CAST(id AS DECIMAL(38, 3)) AS price, CAST(CAST(id AS STRING) AS BINARY) AS bytes,
               array(id, NULL) AS items, named_struct('q', id, 'w', array(named_struct('z', id))) AS deep,
               map(id, 'text') AS pairs, parse_json('{"a": 1}') AS variant, INTERVAL 2 SECOND * id AS span,
               CAST(id AS FLOAT) AS single, CAST(id AS BYTE) AS byte, DATE'2026-01-01' AS day,
               CAST(NULL AS VOID) AS none
        FROM range(40)
    """)
    got = rolling(given, keys="k", time="t", windows=[9], aggs={"s": monoids.sum("x")})
    assert got.schema.fields[:-1] == given.schema.fields
    rows = sorted(got.collect(), key=lambda row: row["row"])
    # Variants have a repr, but no equality.
    assert [repr(row[:-1]) for row in rows] == [repr(tuple(row)) for row in given.orderBy("row").collect()]
    assert [row["s_9"] for row in rows] == [sum(2 * i for i in range(row, -1, -3) if i > row - 9) for row in range(40)]


def test_names_that_spark_reads_otherwise(spark, small):
    """Names with dots, backticks and blanks, and columns that only differ in case or not at all."""
    given = spark.range(20).select(
        F.col("id").alias("a.k"), F.col("id").alias("t `ime"), F.col("id").alias("X"), F.col("id").alias("x"),
        F.lit(1).alias("twice"), F.lit(2).alias("twice"),
    )  # fmt: skip
    got = rolling(given, keys=["a.k"], time="t `ime", windows=[3], aggs={"s": monoids.sum("x")})
    assert got.columns == [*given.columns, "s_3"]
    assert sorted(tuple(row)[-1] for row in got.collect()) == list(range(20))


def test_the_schema_is_known_before_anything_runs(spark):
    """The columns of the result, as the plan has them, are those of the rows."""
    table = events(19, 30)
    aggs = monoids_of(FOLDS) | {
        "f": monoids.affine("a", "b"),
        "any": monoids.any("flag"),
        "d": monoids.hyperloglog("text"),
        "p": monoids.approx_quantile("x", 0.9),
        "ps": monoids.approx_quantile("x", [0.5, 0.9]),
    }
    got = rolling(frame(spark, table), **arguments(aggs=aggs))
    kinds = {"n": "bigint", "mean": "double", "f": "struct<a:double,b:double>", "any": "boolean", "d": "bigint"}
    kinds |= {"p": "double", "ps": "array<double>"}
    for name, kind in kinds.items():
        assert got.schema[f"{name}_30"].dataType.simpleString() == kind
    assert_same(got.toArrow(), in_process(table, **arguments(aggs=aggs)))


def test_an_empty_dataframe(spark):
    """No rows give no rows, with all columns."""
    table = events(21).slice(0, 0)
    got = rolling(frame(spark, table), **arguments()).toArrow()
    assert got.num_rows == 0
    assert got.column_names == sash.rolling(table, **arguments()).column_names


def test_results_go_on_into_spark(spark):
    """The result is a DataFrame like any other: it can be filtered, joined, and asked again."""
    table = events(23, 60)
    once = rolling(frame(spark, table), **arguments(aggs=COUNT))
    again = rolling(once.filter("n_30 > 1"), **arguments(aggs={"top": monoids.max("n_30")}, windows=[300]))
    kept = [row for row in in_process(table, **arguments(aggs=COUNT)) if row["n_30"] > 1]
    assert again.count() == len(kept)
    assert once.join(again.select("row", "top_300"), "row").count() == len(kept)


# --- monoids --------------------------------------------------------------------------------------


def test_a_users_compiled_monoid(spark, small):
    """Functions travel to the workers and are compiled there, captured values included."""
    most = 60

    def saturating(a, b):
        return min(a + b, most)

    table = events(25)
    mine = Monoid.compiled(identity=0, combine=saturating, column="row")
    pair = Monoid.compiled(identity=(0, 0), combine=lambda a, b: (a[0] + b[0], max(a[1], b[1])), columns=("row", "t"))
    options = arguments(aggs={"mine": mine, "pair": pair, "n": monoids.count()})
    assert_same(rolling(frame(spark, table), **options).toArrow(), in_process(table, **options))


def test_overflows_are_null_or_raise(spark):
    """A sum that does not fit is null, and with on_error="raise" an error that says so."""
    table = pa.table({"row": [1, 2], "t": [1, 2], "x": [2**62, 2**62]})
    given = frame(spark, table)
    options: dict[str, Any] = {"time": "t", "windows": [5], "aggs": {"s": monoids.sum("x")}}
    got = rolling(given, **options).orderBy("row").toArrow()
    assert got["s_5"].to_pylist() == [2**62, None]
    with pytest.raises(Exception, match="s_5 must fit int64"):
        rolling(given, **options, on_error="raise").collect()


# --- refusals -------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such key": ({"keys": ["nobody"]}, r"keys must name columns of df \(.*\), got 'nobody'"),
    "no such time": ({"time": "never"}, r"time must name columns of df \(.*\), got 'never'"),
    "no such input": ({"aggs": {"s": monoids.sum("nothing")}}, r"aggs must name columns of df \(.*\), got 'nothing'"),
    "a name that is none": ({"keys": [3]}, r"keys must be a column name \(str\), got 3"),
    "text for a time": ({"time": "text"}, "time must be a column of timestamps or integers, got 'text' of string"),
    "a date for a time": ({"time": "day"}, "time must be a column of timestamps or integers, got 'day' of date32"),
    "a fraction for a key": ({"keys": "y"}, "keys must not be floats"),
    "a list for a key": (
        {"keys": "items"},
        "keys must be integers, .*; column 'items'",
    ),
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
    "two columns of a name": (
        {"keys": "twice"},
        "keys must name one column of df, got 'twice', which is the name of 2",
    ),
    "a sum of text": (
        {"aggs": {"s": monoids.sum("text")}},
        "aggs must read numbers, but the column 'text'",
    ),
    "no windows": ({"windows": []}, "windows must hold at least one size, got none"),
    "a month": ({"windows": ["1 month"], "time": "moment"}, "windows must have a fixed length"),
    "a duration for ints": ({"windows": ["1h"]}, "windows must be an int because the times are ints, got '1h'"),
    "no aggregates": ({"aggs": {}}, "aggs must be a dict from names to monoids, got {}"),
    "no monoid": ({"aggs": {"s": sum}}, "aggs must hold monoids, but s is <built-in function sum>"),
    "a monoid without a column": (
        {"aggs": {"s": monoids.sum()}},
        "aggs must name their columns, .*, but s is sum",
    ),
    "a taken name": (
        {"aggs": {"taken": monoids.count()}},
        "aggs must give results new names, but df has a column 'taken_30' already",
    ),
    "an unknown side": ({"closed": "middle"}, "closed must be one of right, left, both, neither, got 'middle'"),
    "an unknown anchor": ({"per": "row"}, 'per must be "event" or "session", got .row.'),
}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_backfill_leaves_out_times_that_a_stream_cannot_take(spark, kind):
    """Null, and the year 9999: a stream counts them as bad, in whatever time zone."""
    times = ["2026-01-01 00:00:00", "9998-12-31 23:59:59", "9999-01-01 00:00:00", "9999-12-31 23:59:59.999999", None]
    rows = spark.createDataFrame([(time,) for time in times], "t string").selectExpr(f"CAST(t AS {kind}) AS t")
    words = {"time": "t", "windows": ["1h"], "aggs": {"n": monoids.count()}}
    for options in ({"emit": "final"}, {"emit": "update"}, {"every": "1h", "emit": "final"}):
        assert rolling(rows, **words, **options).count() == 2
    assert rolling(rows, **words).count() == 5  # all rows of a batch stay


@pytest.fixture(scope="module")
def odd(spark):
    """Columns of every sort, good and bad; nothing is ever computed from them."""
    rows = frame(spark, events(1, 5))
    more = {
        "items": F.array(F.lit(1)),
        "pairs": F.create_map(F.lit(1), F.lit(2)),
        "collated": F.expr("text COLLATE UTF8_LCASE"),
        "taken_30": F.raise_error(F.lit("this was computed")),
    }
    return rows.withColumns(more).select("*", F.lit(1).alias("twice"), F.lit(1).alias("twice"))


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_refused_at_the_call(odd, case):
    """Each in one sentence that names the argument, before Spark has run anything."""
    options, sentence = REFUSED[case]
    with pytest.raises(SashError, match=f"^{sentence}") as error:
        rolling(odd, **({**arguments(aggs=COUNT), **options}))
    assert "\n" not in str(error.value)
    if " must " in sentence:
        assert error.value.argument in options


def test_what_is_no_dataframe_is_refused(spark):
    """Tables of other kinds, streams, and columns that Spark keeps from Python."""
    with pytest.raises(SashError, match=r"^df must be a Spark DataFrame, got"):
        rolling(events(1), **arguments())
    with pytest.raises(SashError, match=r"^column 'span' of df holds interval month"):
        rolling(spark.sql("SELECT 1 AS t, array(INTERVAL 1 MONTH) AS span"), **arguments(keys=[], aggs=COUNT))


@pytest.mark.parametrize("name", monoids.EXAMPLES)
def test_every_monoid_travels(name):
    """What reaches the workers is equal to what was sent."""
    from pyspark import cloudpickle

    sent = monoids.EXAMPLES[name]
    assert cloudpickle.loads(cloudpickle.dumps(sent)) == sent
