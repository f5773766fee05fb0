"""Questions to the checkpoint of a query that runs, and of one that has stopped, against plain sums over its rows."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from sash import ArgumentError, RetentionError, monoids
from sash.locations import location
from sash.spark import Answer, describe_checkpoint, query, rolling
from sash.spark.stream.checkpoint_files import CheckpointFiles
from support import spark_streams as streams
from support.spark_streams import COMMUTATIVE, MINUTE, SECOND, SIZES, Case, Row

FOLDS = COMMUTATIVE | {"word": ("letters", "x")}
CASES = {
    "rows": Case(FOLDS, words={"emit": "update", "id": "i", "retract": "op = 'delete'"}),
    "panes": Case(COMMUTATIVE, words={"every": "1 minute", "emit": "update"}),
    "counted": Case(
        COMMUTATIVE, words={"windows": ["5 rows", "unbounded"], "idle": "1 day", "id": "i", "retract": "op = 'delete'"}
    ),
    "one key": Case(COMMUTATIVE, words={"keys": [], "closed": "left", "emit": "final"}),
}
KEYS = ["b", None, "nobody", "é", "a", "b"]
OWN = {"word": streams.letters("x")}


@dataclass
class Asked:
    """A query by case, what was answered while it ran, and the micro-batches before and after."""

    checkpoint: str
    spark: SparkSession
    batches: list[list[Row]]
    operators: dict[str, int]
    running: dict[str, Answer]
    last: int

    def ask(self, name: str, keys: Any = KEYS, **words: Any) -> Answer:
        operator = self.operators[name]
        table = None if name == "one key" else {"k.ey": keys}
        return query(self.checkpoint, table, aggs=OWN, operator=operator, spark=self.spark, **words)

    def rows(self, name: str, batches: int) -> list[Row]:
        """The rows that a case had accepted after so many micro-batches, without those that were deleted."""
        case = CASES[name]
        rows = case.in_time(self.batches[:batches])
        if "retract" not in case.words:
            return rows
        deleted = {row["i"] for row in rows if row["gone"]}
        return [row for row in rows if row["i"] not in deleted]

    def newest(self, name: str, batches: int) -> int:
        return max(row["t"] for row in CASES[name].in_time(self.batches[:batches]))


@pytest.fixture(scope="module")
def asked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """One query for all cases: it is asked while it runs, takes another micro-batch, and stops."""
    folder = tmp_path_factory.mktemp("asked")
    batches, checkpoint = streams.stream(5, batches=4, ties=True), str(folder / "checkpoint")
    streams.write(folder / "in", batches[:3])
    rows = streams.read(spark, folder / "in")
    results = [streams.as_text(name, rolling(rows, **case.arguments, buckets=3)) for name, case in CASES.items()]
    both = reduce(DataFrame.union, results)
    running = both.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    found = Asked(checkpoint, spark, batches, {}, {}, 0)
    try:
        running.processAllAvailable()
        found.operators = {name_of(spark, checkpoint, operator): operator for operator in range(len(CASES))}
        found.running = {name: found.ask(name) for name in CASES}
        assert running.isActive
        streams.write(folder / "in", batches[3:], 3)
        running.processAllAvailable()
    finally:
        running.stop()
    found.last = CheckpointFiles(location(checkpoint, "checkpoint"), spark).last_commit()
    return found


def name_of(spark: SparkSession, checkpoint: str, operator: int) -> str:
    (definition,) = describe_checkpoint(checkpoint, operator=operator, spark=spark).definitions
    assert definition.arguments is not None
    if "idle" in definition.arguments:
        return "counted"
    return "panes" if definition.panes else "rows" if definition.arguments["keys"] else "one key"


def result_of(name: str, rows: list[Row], key: Any, first: int, last: int, most: int | None = None) -> dict[str, Any]:
    """The aggregates of a key's rows from one time to another, both included, or of the last ones among them."""
    mine = [row for row in rows if (name == "one key" or row["k.ey"] == key) and first <= row["t"] <= last]
    mine = sorted(mine, key=lambda row: (row["t"], row["i"]))[-most if most else 0 :]
    numbers = [row["x"] for row in mine if row["x"] is not None]
    found = {"n": len(mine), "s": sum(numbers) if numbers else None, "top": max(numbers, default=None)}
    return found | {"word": "".join(chr(ord("m") + number) for number in numbers) or None} if name == "rows" else found


def assert_as_of(name: str, answer: Answer, rows: list[Row], at: int) -> None:
    left = name in ("panes", "one key")
    counted = {"5rows": 5, "unbounded": None}
    for size_name in counted if name == "counted" else SIZES:
        for place, key in enumerate([None] if name == "one key" else KEYS):
            if name == "counted":
                wanted = result_of(name, rows, key, 0, at, counted[size_name])
            else:
                wanted = result_of(name, rows, key, at - SIZES[size_name] + (not left), at - left)
            got = {agg: answer.table[f"{agg}_{size_name}"][place].as_py() for agg in wanted}
            assert got == wanted, (key, size_name)


def moment(ticks: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks)


def default_of(name: str, newest: int) -> int:
    """The first instant whose windows hold the newest row."""
    return newest // MINUTE * MINUTE + MINUTE if name == "panes" else newest + (name == "one key")


@pytest.mark.parametrize("name", CASES)
def test_a_running_query_answers_as_of_its_newest_row(asked, name):
    """Also for keys that nobody has seen, keys that are null, and keys that are asked about twice."""
    answer = asked.running[name]
    assert answer.batch < asked.last and answer.watermark is not None
    if name != "one key":
        assert answer.table["k.ey"].to_pylist() == KEYS
    assert_as_of(name, answer, asked.rows(name, 3), default_of(name, asked.newest(name, 3)))


@pytest.mark.parametrize("name", CASES)
def test_a_stopped_query_answers_as_of_any_time_that_is_retained(asked, name):
    newest = default_of(name, asked.newest(name, 4))
    for back in (0, 1, 3):
        at = newest - back * MINUTE
        answer = asked.ask(name, at=moment(at))
        assert answer.batch == asked.last
        assert_as_of(name, answer, asked.rows(name, 4), at)


@pytest.mark.parametrize("name", ["rows", "panes", "one key"])
def test_a_range_has_the_rows_between_two_times(asked, name):
    stop = asked.newest(name, 4) // MINUTE * MINUTE
    start = stop - 4 * MINUTE
    answer = asked.ask(name, start=moment(start), stop=moment(stop))
    rows = asked.rows(name, 4)
    for place, key in enumerate([None] if name == "one key" else KEYS):
        wanted = result_of(name, rows, key, start, stop - (name == "panes"))
        assert {agg: answer.table[agg][place].as_py() for agg in wanted} == wanted, key


def test_a_range_behind_the_horizon_is_refused_where_windows_count_rows(asked):
    """The rows that are held from before it are the last ones of their key, and not all."""
    stop = asked.newest("counted", 4)
    with pytest.raises(RetentionError, match="start must be") as caught:
        asked.ask("counted", start=moment(stop - 4 * MINUTE), stop=moment(stop))
    assert caught.value.argument == "start"


def test_times_behind_what_is_retained_are_refused_whatever_bucket_is_asked(asked):
    long_ago = moment(streams.START - 10 * SECOND)
    for key in (*KEYS, "nobody else"):
        with pytest.raises(RetentionError, match=r"at must be 2026-.* or later") as caught:
            asked.ask("rows", [key], at=long_ago)
        assert caught.value.argument == "at"


def test_the_table_of_keys_comes_back_as_what_it_was(asked):
    import pandas as pd

    answer = query(
        asked.checkpoint,
        pd.DataFrame({"why": [1, 2], "k.ey": ["a", "b"]}),
        operator=asked.operators["panes"],
        spark=asked.spark,
    )
    assert isinstance(answer.table, pd.DataFrame)
    assert list(answer.table.columns) == ["why", "k.ey", *(f"{agg}_{size}" for agg in COMMUTATIVE for size in SIZES)]
    empty = asked.ask("rows", pa.array([], pa.string()))
    assert empty.table.num_rows == 0 and empty.table.column_names[-1] == "word_10m"


def test_custom_monoids_must_be_passed(asked):
    for aggs in (None, {"word": monoids.count()}, {"word": streams.letters("a")}, {"other": OWN["word"]}):
        with pytest.raises(ArgumentError, match="aggs must have the custom monoid 'letters' version 1 over") as caught:
            query(asked.checkpoint, {"k.ey": ["a"]}, aggs=aggs, operator=asked.operators["rows"], spark=asked.spark)
        assert (caught.value.argument, caught.value.column) == ("aggs", "word")


def test_mistakes_are_those_of_a_query_in_process(asked):
    for words, argument in (({"start": moment(0)}, "stop"), ({"closed": "left"}, "closed"), ({"batch": 999}, "batch")):
        with pytest.raises(ArgumentError) as caught:
            asked.ask("rows", **words)
        assert caught.value.argument == argument
    with pytest.raises(ArgumentError, match="keys must be a table with the columns"):
        query(asked.checkpoint, operator=asked.operators["panes"], spark=asked.spark)
