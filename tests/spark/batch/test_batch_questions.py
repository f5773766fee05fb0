"""sash.spark.rolling(at=) over two batches: the answers of in-process rolling(at=)."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import sash
from sash import Monoid, SashError, monoids
from sash.spark import rolling
from support.spark_events import FOLDS, KEYS, ORDERED, SIZES, assert_same, events, frame, monoids_of

COUNT = {"n": monoids.count()}
EPOCH_US = 1_767_225_600_000_000  # 2026 in UTC


def questions(seed: int, n: int = 80, keys: str = "text") -> pa.Table:
    """Rows in no order: the keys of events and others, nulls, duplicates, times before, among and after theirs."""
    table = events(seed, n, bad_times=True)
    times = [None if t is None else 3 * t - 20 for t in table["t"].to_pylist()]
    note = pa.array([f"note {i % 7}" for i in range(n)])
    at = pa.table({"note": note, "row": table["row"], keys: table[keys], "q": pa.array(times, pa.int64())})
    return pa.concat_tables([at, at.slice(0, 5).set_column(1, "row", pa.array(range(n, n + 5)))])


def arguments(**options: Any) -> dict[str, Any]:
    words = {"keys": ["text"], "time": "t", "windows": list(SIZES), "aggs": monoids_of(FOLDS), "at_time": "q"}
    return words | options


def require_parity(spark: Any, table: pa.Table, at: pa.Table, **options: Any) -> pa.Table:
    """Compare both answers, and return those of Spark."""
    got = rolling(frame(spark, table), at=frame(spark, at), **options).toArrow()
    wanted = sash.rolling(table, at=at, **options)
    assert got.column_names == wanted.column_names
    assert_same(got, wanted.to_pylist())
    return got


# --- parity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("partitions", [1, 4])
def test_spark_answers_as_in_process_does(spark, small, partitions, closed):
    """Ties, null keys, values and times, keys over many batches, one key with most of the rows, keys without events."""
    small(partitions=partitions)
    table = events(partitions, bad_times=True, skewed=closed == "right")
    at = questions(partitions + 10)
    at = pa.concat_tables([at, pa.table({"note": ["x"], "row": [1000], "text": ["nobody"], "q": [7]})])
    require_parity(spark, table, at, **arguments(closed=closed))


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_any_type(spark, small, name):
    """Null is a key of every type."""
    at = questions(8, keys=name)
    require_parity(spark, events(7, 100), at, **arguments(keys=name, aggs={"s": monoids.sum("x")}, windows=[30]))


def test_keys_of_several_columns_or_none(spark, small):
    """Four columns of different types, nulls in each; without keys all rows are one group."""
    table, at = events(9, 300), events(10, 60).rename_columns(["row", "q", *events(10, 60).column_names[2:]])
    at = at.select(["row", "q", "flag", "text", "price", "day"])
    for keys in (["flag", "text", "price", "day"], None):
        require_parity(spark, table, at, **arguments(keys=keys, windows=[400]))


def test_aggregates_in_python_and_structs(spark, small):
    """A monoid of one's own that is not commutative, sums of decimals, and a struct, at distinct times."""
    table = events(11, distinct=True, skewed=True)
    money = pa.array([None if x is None else Decimal(x) / 4 for x in table["x"].to_pylist()], pa.decimal128(12, 2))
    table = table.append_column("money", money)
    joined = Monoid(
        identity="", combine=lambda a, b: a + b, lift=str, column="x", name="texts", returns="string"
    )  # fmt: skip
    aggs = monoids_of(ORDERED) | {
        "all": joined,
        "money": monoids.sum("money"),
        "pair": monoids.struct(low=monoids.min("x"), mean=monoids.mean("y")),
    }
    got = require_parity(spark, table, questions(12), **arguments(aggs=aggs))
    assert got.schema.field("pair_30").type == pa.struct([("low", pa.int64()), ("mean", pa.float64())])


@pytest.mark.parametrize("zone", [None, "UTC"], ids=["local", "instants"])
@pytest.mark.parametrize("session_zone", ["UTC", "America/New_York"])
def test_timestamps(spark, small, zone, session_zone):
    """Timestamps with and without a zone, whatever the session's: windows are durations, columns come back as given."""
    small(zone=session_zone)
    kind = pa.timestamp("us", zone)

    def timed(table: pa.Table, name: str) -> pa.Table:
        times = [None if t is None else t * 60_000_000 + EPOCH_US for t in table[name].to_pylist()]
        return table.set_column(table.column_names.index(name), name, pa.array(times, kind))

    table, at = timed(events(15, 100), "t"), timed(questions(16), "q")
    options = arguments(windows=["30m", "5h"])
    got = rolling(frame(spark, table), at=frame(spark, at), **options).orderBy("row").toArrow()
    assert got["q"].cast(pa.timestamp("us", "UTC")).equals(at.sort_by("row")["q"].cast(pa.timestamp("us", "UTC")))
    results = ["row", *(f"{name}_{window}" for name in FOLDS for window in ("30m", "5h"))]
    assert_same(got.select(results), sash.rolling(table, at=at, **options).select(results).to_pylist())


def test_numbers_of_other_widths_are_compared_by_value(spark, small):
    """Keys and times of questions may be narrower or wider than those of events, and come back as they were."""
    table, at = events(17, 100), questions(18, keys="int")
    wide = at.set_column(2, "int", at["int"].cast(pa.int64()))
    narrow = wide.set_column(3, "q", at["q"].cast(pa.int16()))
    decimals = at.set_column(2, "int", at["int"].cast(pa.decimal128(12, 2)))
    options = arguments(keys="int", aggs={"n": monoids.count(), "last": monoids.last("int")})
    for other in (wide, narrow, decimals):
        got = rolling(frame(spark, table), at=frame(spark, other), **options)
        assert [f.dataType for f in got.schema.fields[:4]] == [f.dataType for f in frame(spark, other).schema.fields]
        assert_same(got.drop("int").toArrow(), sash.rolling(table, at=at, **options).drop_columns("int").to_pylist())
    more = wide.slice(0, 1).set_column(2, "int", pa.array([2**40]))
    got = rolling(frame(spark, table), at=frame(spark, more), **options).collect()
    assert [row["n_30"] for row in got] == [0]
    nothing = pa.table({"row": [1], "int": pa.nulls(1), "q": pa.nulls(1)})
    assert rolling(frame(spark, table), at=spark.sql("SELECT 1 AS row, NULL AS int, NULL AS q"), **options).collect()[
        0
    ].asDict() == {"row": 1, "int": None, "q": None, "n_30": None, "n_300": None, "last_30": None, "last_300": None}
    assert sash.rolling(table, at=nothing, **options)["n_30"].to_pylist() == [None]


def test_the_time_may_be_a_key_or_have_the_same_name(spark, small):
    """Each in its own column."""
    table = pa.table({"row": [0, 1, 2], "t": [3, 5, 5], "x": [1, 2, 4]})
    at = pa.table({"row": [0, 1, 2], "t": [5, 5, 3], "q": [6, 4, 3]})
    options: dict[str, Any] = {"time": "t", "windows": [2, 9], "aggs": {"s": monoids.sum("x")}}
    require_parity(spark, table, at, keys="t", at_time="q", **options)
    require_parity(spark, table, at, keys=["t", "t"], **options)
    require_parity(spark, table, at, **options)


def test_without_events_or_without_questions(spark, small):
    """Counts of 0, or no rows."""
    table, at = events(19, 20), questions(20, 10)
    require_parity(spark, table.slice(0, 0), at, **arguments())
    assert rolling(frame(spark, table), at=frame(spark, at.slice(0, 0)), **arguments()).count() == 0


def test_large_chunks(spark):
    """Chunks of the default size: several Arrow batches and chunks in each of two partitions."""
    n, rng = 200_000, np.random.default_rng(17)
    table = pa.table({"text": rng.zipf(1.5, n) % 50, "t": rng.permutation(n), "x": np.arange(n)})
    at = pa.table({"row": np.arange(n), "text": rng.zipf(1.5, n) % 60, "q": rng.integers(-9, n + 9, n)})
    options = arguments(windows=[100, n], aggs={"n": monoids.count(), "s": monoids.sum("x"), "old": monoids.first("x")})
    got = rolling(frame(spark, table), at=frame(spark, at), **options).toArrow()
    wanted = sash.rolling(table, at=at, **options)
    assert got.sort_by("row").combine_chunks().equals(wanted.combine_chunks())


# --- which events, and which columns --------------------------------------------------------------


def test_deletes_and_repeated_ids_do_not_count(spark, small):
    """As in the backfill of a stream; rows of one time are in the order of their ids."""
    rows = [("a", 1, 1, 5, False), ("a", 1, 1, 5, False), ("a", 2, 3, 7, False), ("a", 2, 3, 7, True)]
    rows += [("a", 4, 3, 1, False), ("a", 3, 3, 9, False), ("a", None, 3, 100, False)]
    given = spark.createDataFrame(rows, "k string, id long, t long, x long, gone boolean")
    at = spark.createDataFrame([("a", 3)], "k string, t long")
    aggs = {"s": monoids.sum("x"), "last": monoids.last("x")}
    got = rolling(given, at=at, keys="k", time="t", windows=[9], aggs=aggs, id="id", retract="gone")
    assert [tuple(row) for row in got.collect()] == [("a", 3, 15, 1)]


def test_a_backfill_has_the_columns_of_a_stream(spark, small):
    """Nothing is revised, deleted or late."""
    given = spark.createDataFrame([("a", 1)], "k string, t long")
    at = spark.createDataFrame([("a", 3), ("a", None)], "k string, t long")
    words: dict[str, Any] = {"keys": "k", "time": "t", "windows": [9], "aggs": COUNT}
    got = rolling(given, at=at, emit="update", late="emit", **words).orderBy("t")
    assert [tuple(row) for row in got.collect()] == [("a", None, None, 1, False, False), ("a", 3, 1, 1, False, False)]
    assert got.columns == ["k", "t", "n_9", "revision", "deleted", "late"]
    assert rolling(given, at=at, emit="final", **words).columns == ["k", "t", "n_9"]
    for name, more in (("late", {"late": "emit"}), ("revision", {"emit": "update"})):
        with pytest.raises(SashError, match=f"aggs must give results new names, but at has a column '{name}' already"):
            rolling(given, at=at.withColumn(name, F.lit(1)), **words, **more)


def test_every_column_of_the_questions_passes_through(spark, small):
    """Decimals, bytes, lists, structs, maps, variants and intervals, whatever their names."""
    at = spark.sql("""
        SELECT id AS row, id % 3 AS `a.k`, id AS `t ``ime`, CAST(id AS DECIMAL(38, 3)) AS price,
               CAST(CAST(id AS STRING) AS BINARY) AS bytes, array(id, NULL) AS items,
               named_struct('q', id, 'w', array(named_struct('z', id))) AS deep, map(id, 'text') AS pairs,
               parse_json('{"a": 1}') AS variant, INTERVAL 2 SECOND * id AS span, DATE'2026-01-01' AS day,
               CAST(NULL AS VOID) AS none, 'text' COLLATE UTF8_LCASE AS collated, 1 AS twice, 2 AS twice
        FROM range(40)
    """)
    given = at.select("`a.k`", "`t ``ime`", F.col("row").alias("X"), F.lit(9).alias("row"))
    got = rolling(given, at=at, keys="a.k", time="t `ime", windows=[9], aggs={"s": monoids.sum("X")})
    assert got.schema.fields[:-1] == at.schema.fields
    rows = sorted(got.collect(), key=lambda row: row[0])
    assert [repr(row[:-1]) for row in rows] == [repr(tuple(row)) for row in at.orderBy("row").collect()]
    assert [row[-1] for row in rows] == [sum(i for i in range(row, -1, -3) if i > row - 9) for row in range(40)]


def test_one_dataframe_may_be_both(spark, small):
    """Events ask about those before them."""
    table = events(21, 60, distinct=True)
    given = frame(spark, table)
    options = arguments(closed="left", at_time=None)
    assert_same(rolling(given, at=given, **options).toArrow(), sash.rolling(table, **options).to_pylist())


def test_errors_are_null_or_raise(spark):
    """A sum that does not fit is null, and with on_error="raise" an error that says so."""
    table, at = pa.table({"row": [1, 2], "t": [1, 2], "x": [2**62, 2**62]}), pa.table({"t": [1, 2]})
    options: dict[str, Any] = {"time": "t", "windows": [5], "aggs": {"s": monoids.sum("x")}}
    got = rolling(frame(spark, table), at=frame(spark, at), **options).orderBy("t").toArrow()
    assert got["s_5"].to_pylist() == [2**62, None]
    with pytest.raises(Exception, match="s_5 must fit int64"):
        rolling(frame(spark, table), at=frame(spark, at), **options, on_error="raise").collect()


# --- refusals -------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no DataFrame": ({"at": {"text": ["a"]}}, r"at must be a Spark DataFrame, as df is, got \{"),
    "a grid": ({"every": 5}, "every must be left out with at=, whose rows say when, got 5"),
    "no such key": ({"keys": ["x"]}, "at must be a table that has the column 'x' once, got the columns"),
    "a key that df lacks": ({"keys": ["note"]}, r"keys must name columns of df \(.*\), got 'note'"),
    "no such time": ({"at_time": "never"}, "at must be a table that has the column 'never' once, got the columns"),
    "the events' name": ({"at_time": None}, "at must be a table that has the column 't' once, got the columns"),
    "two columns of a name": ({"at_time": "twice"}, "at must be a table that has the column 'twice' once"),
    "a name that is none": ({"at_time": 3}, r"at_time must be a column name \(str\), got 3"),
    "another key": ({"keys": "long"}, "at must hold bigint in the column 'long', as df does, got string; cast it"),
    "a collated key": ({"keys": "bytes"}, "at must hold binary in the column 'bytes', as df does, got string collate"),
    "text for a time": (
        {"at_time": "note"},
        "at must hold integers in the column 'note', as the events do, got string",
    ),
    "a map for a time": ({"at_time": "pairs"}, "at_time must name columns of numbers, .*, but 'pairs' holds map<"),
    "instants for local times": (
        {"time": "local", "at_time": "moment", "windows": ["1h"]},
        "at must hold timestamps without a time zone in the column 'moment', as the events do, got timestamp",
    ),
    "a taken name": (
        {"aggs": {"taken": monoids.count()}},
        "aggs must give results new names, but at has a column 'tak",
    ),
    "a column of df that is not there": ({"aggs": {"s": monoids.sum("note")}}, r"aggs must name columns of df \("),
    "no aggregates": ({"aggs": {}}, "aggs must be a dict from names to monoids, got {}"),
    "a history": ({"history": True}, "history must be omitted for a batch"),
}


@pytest.fixture(scope="module")
def odd(spark: Any) -> Any:
    """Events and questions that fail if anything is computed."""
    failing = F.raise_error(F.lit("this was computed")).cast("long")
    more = {"taken_30": failing, "long": F.lit("text"), "bytes": F.expr("'a' COLLATE UTF8_LCASE")}
    more |= {"pairs": F.create_map(F.lit(1), F.lit(2)), "moment": F.current_timestamp()}
    at = frame(spark, questions(2, 5)).withColumns(more).select("*", F.lit(1).alias("twice"), F.lit(2).alias("twice"))
    return frame(spark, events(1, 5)).withColumn("x", failing), at


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_refused_at_the_call(odd, case):
    """Each in one sentence that names the argument, before Spark has run anything."""
    given, at = odd
    options, sentence = REFUSED[case]
    options = options | ({"history": given} if "history" in options else {})
    with pytest.raises(SashError, match=f"^{sentence}") as error:
        rolling(given, **({"at": at} | arguments(aggs=COUNT, windows=[30]) | options))
    assert "\n" not in str(error.value)
    assert error.value.argument in {*options, "at"}


def test_a_time_column_needs_questions(odd):
    """It would say nothing."""
    with pytest.raises(SashError, match="at_time must be passed with at=, got 'q'"):
        rolling(odd[0], **arguments(aggs=COUNT))


def test_a_stream_and_a_batch_are_not_mixed(spark):
    """Both are batches or both are streams."""
    stream = spark.readStream.format("rate").load()
    batch = spark.createDataFrame([(datetime(2026, 1, 1, tzinfo=UTC), 1)], "timestamp timestamp, value long")
    words: dict[str, Any] = {"time": "timestamp", "windows": ["1h"], "aggs": COUNT}
    with pytest.raises(SashError, match=r"^at must be a streaming DataFrame, as df is, got a batch one\.$"):
        rolling(stream, at=batch, **words)
    with pytest.raises(SashError, match=r"^at must be a batch DataFrame, as df is, got a streaming one\.$"):
        rolling(batch, at=stream, **words)
