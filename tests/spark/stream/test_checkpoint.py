"""A look into the checkpoint of a query that runs, and of one that has stopped, as of one micro-batch."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sash import CorruptStateError, SashError
from sash.keyed import panes
from sash.locations import location
from sash.spark import describe_checkpoint, export_checkpoint, inspect, rolling, verify_checkpoint
from sash.spark.stream import snapshot, verification
from sash.spark.stream.checkpoint_files import CheckpointFiles
from sash.spark.stream.description import Description
from sash.spark.stream.export import Export
from sash.spark.stream.findings import BucketState
from sash.spark.stream.snapshot import Snapshot
from sash.spark.stream.stored_definition import StoredDefinition
from sash.spark.stream.verification import Verification
from support import spark_streams as streams
from support.spark_streams import COMMUTATIVE, MINUTE, Case

CASES = {
    "rows": Case(COMMUTATIVE, words={"emit": "update", "id": "i", "carry": ("row",)}),
    "panes": Case(COMMUTATIVE, words={"every": "1 minute", "emit": "update"}),
}
OPERATORS = (1, 0)  # Spark counts them from the end of the plan


@dataclass
class Looks:
    """What was seen of a query by case while it ran, and the micro-batches before and after it."""

    folder: Path
    batches: list[list[streams.Row]]
    operators: dict[str, int]
    described: dict[str, Description]
    verified: dict[str, Verification]
    exported: dict[str, Export]
    last: int

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    def in_time(self, name: str) -> list[streams.Row]:
        """The rows that the query had accepted by then."""
        return CASES[name].in_time(self.batches[:3])

    def table(self, name: str) -> pa.Table:
        return pq.read_table(self.exported[name].path)


@pytest.fixture(scope="module")
def looks(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Looks:
    """One query for both cases: it is looked at while it runs, takes another micro-batch, and stops."""
    folder = tmp_path_factory.mktemp("looks")
    batches, checkpoint = streams.stream(3, batches=4), str(folder / "checkpoint")
    streams.write(folder / "in", batches[:3])
    rows = streams.read(spark, folder / "in")
    results = [streams.as_text(name, rolling(rows, **case.arguments, buckets=3)) for name, case in CASES.items()]
    writer = results[0].union(results[1]).writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.start()
    try:
        query.processAllAvailable()
        operators = {operator_name(spark, checkpoint, operator): operator for operator in OPERATORS}
        seen = [
            {name: call(checkpoint, operator, spark, folder / name) for name, operator in operators.items()}
            for call in CALLS
        ]
        assert query.isActive
        streams.write(folder / "in", batches[3:], 3)
        query.processAllAvailable()
    finally:
        query.stop()
    last = CheckpointFiles(location(checkpoint, "checkpoint"), spark).last_commit()
    return Looks(folder, batches, operators, seen[0], seen[1], seen[2], last)


def operator_name(spark: SparkSession, checkpoint: str, operator: int) -> str:
    (definition,) = describe_checkpoint(checkpoint, operator=operator, spark=spark).definitions
    return "panes" if definition.panes else "rows"


CALLS: tuple[Any, ...] = (
    lambda checkpoint, operator, spark, out: describe_checkpoint(checkpoint, operator=operator, spark=spark),
    lambda checkpoint, operator, spark, out: verify_checkpoint(checkpoint, operator=operator, spark=spark),
    lambda checkpoint, operator, spark, out: export_checkpoint(checkpoint, str(out), operator=operator, spark=spark),
)


def ticks(table: pa.Table) -> list[int]:
    return table["t"].cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("name", CASES)
def test_a_running_query_is_described(looks, name):
    """As of the newest micro-batch, with the definition it was written by."""
    found = looks.described[name]
    query = json.loads((looks.folder / "checkpoint" / "metadata").read_text())["id"]
    assert (found.query, found.checkpoint, found.versions, found.unreadable) == (query, looks.checkpoint, [3], [])
    assert 0 < found.batch < looks.last and found.watermark is not None
    assert 0 < found.buckets <= 3 and found.records >= found.buckets and found.timers == found.buckets
    assert found.rows >= found.rows_retained > 0 and found.bytes > 0
    assert found.retained_since <= found.oldest <= found.newest and found.horizon <= found.watermark
    assert found.smallest.rows <= found.largest.rows
    (definition,) = found.definitions
    assert (definition.current, definition.buckets, definition.panes) == (True, found.buckets, name == "panes")
    assert definition.arguments["windows"] == ["2m", "10m"] and definition.arguments["buckets"] == 3
    assert definition.aggs == {"n": "count()", "s": "sum('x')", "top": "max('x')"}
    assert definition.columns["x"] == "int64"
    assert json.loads(json.dumps(found.to_plain()))["watermark"] == found.watermark.isoformat()


@pytest.mark.parametrize("name", CASES)
def test_a_running_query_is_sound(looks, name):
    verified, described = looks.verified[name], looks.described[name]
    assert verified.sound and verified.findings == [] and verified.by_bucket == {}
    assert (verified.leftovers, verified.unchecked) == (0, 0)
    assert (verified.batch, verified.records, verified.rows) == (described.batch, described.records, described.rows)
    assert json.loads(json.dumps(verified.to_plain()))["sound"] is True


def test_exported_rows_are_those_of_the_source(looks):
    """Of the rows in time all that are retained, with the values and types that they had."""
    table, since = looks.table("rows"), looks.described["rows"].retained_since
    bound = round(since.timestamp() * 1_000_000)
    assert table.column_names == ["k.ey", "t", "i", "row", "x", "_sash_position", "_sash_definition"]
    wanted = [row for row in looks.in_time("rows") if row["t"] >= bound]
    got = [row | {"t": time} for row, time in zip(table.drop_columns(["t"]).to_pylist(), ticks(table), strict=True)]
    names = ["k.ey", "t", "i", "row", "x"]
    streams.assert_same(*([{name: row[name] for name in names} for row in rows] for rows in (got, wanted)))
    assert looks.exported["rows"].rows == table.num_rows == looks.described["rows"].rows_retained > 0


def test_exported_panes_are_of_the_rows_of_the_source(looks):
    """Each pane is of as many rows as the source has in it."""
    table, since = looks.table("panes"), looks.described["panes"].retained_since
    assert table.column_names == ["k.ey", "t", panes.RECORD, "_sash_position", "_sash_definition"]
    definition = StoredDefinition.from_plain(json.loads(table["_sash_definition"][0].as_py()))
    width = definition.record.field(panes.RECORD).type.byte_width
    fixed = table.set_column(2, panes.RECORD, table[panes.RECORD].cast(pa.binary(width)))
    counts = panes.row_counts(panes.records_of(fixed), width // 8).tolist()
    got: dict[Any, int] = {}
    for key, start, count in zip(table["k.ey"].to_pylist(), ticks(table), counts, strict=True):
        got[key, start] = got.get((key, start), 0) + count
    wanted: dict[Any, int] = {}
    for row in looks.in_time("panes"):
        place = row["k.ey"], row["t"] - row["t"] % MINUTE
        wanted[place] = wanted.get(place, 0) + 1
    bound = round(since.timestamp() * 1_000_000)
    assert got == {(key, start): count for (key, start), count in wanted.items() if start >= bound}


@pytest.mark.parametrize("name", CASES)
def test_an_export_says_where_the_stream_was(looks, name):
    """The same in every row: the position in microseconds, and the definition."""
    table, described = looks.table(name), looks.described[name]
    (position,), (definition,) = (set(table[column].to_pylist()) for column in ("_sash_position", "_sash_definition"))
    position = json.loads(position)
    assert list(position) == ["horizon", "watermark", "finished", "shown", "newest", "revision", "emit"]
    assert position["horizon"] == round(described.horizon.timestamp() * 1_000_000)
    assert position["watermark"] == round(described.watermark.timestamp() * 1_000_000)
    length = MINUTE if name == "panes" else 1
    assert position["newest"] == max(row["t"] - row["t"] % length for row in looks.in_time(name))
    assert position["emit"] == "update" and position["revision"] > 0
    assert json.loads(definition)["fingerprint"] == described.definitions[0].fingerprint


@pytest.mark.parametrize("name", CASES)
def test_an_earlier_micro_batch_can_be_read_again(spark, looks, name):
    """After the query has gone on, with nothing changed; and the newest has more."""
    before, operator = looks.described[name], looks.operators[name]
    assert describe_checkpoint(looks.checkpoint, batch=before.batch, operator=operator, spark=spark) == before
    buckets = inspect(looks.checkpoint, batch=before.batch, operator=operator, spark=spark)
    assert sum(buckets["rows"].to_pylist()) == before.rows
    assert inspect(looks.checkpoint, rows=True, operator=operator, spark=spark).num_rows > 0
    assert describe_checkpoint(looks.checkpoint, operator=operator, spark=spark).batch == looks.last


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def test_nothing_is_written_to_the_checkpoint(spark, looks, tmp_path):
    """By path and by URI."""
    before = tree(looks.folder / "checkpoint")
    for call in CALLS:
        call(f"file://{looks.checkpoint}", looks.operators["rows"], spark, f"file://{tmp_path}/out")
    inspect(looks.checkpoint, rows=True, spark=spark)
    assert tree(looks.folder / "checkpoint") == before
    assert pq.read_table(tmp_path / "out").num_rows > 0


def test_mistakes_are_refused(spark, looks, tmp_path):
    """Each in a sentence that names the argument."""
    commits = CheckpointFiles(location(looks.checkpoint, "checkpoint"), spark).commits()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for words, sentence in (
        ({"batch": 99}, f"batch must be a committed micro-batch from 0 to {commits[-1]}, got 99"),
        (
            {"operator": 7},
            "checkpoint must be the checkpointLocation of a query with a rolling aggregation, got '.*': .*",
        ),
        ({"checkpoint": str(tmp_path)}, "checkpoint must be .*, got '.*': it has no committed micro-batch"),
    ):
        with pytest.raises(SashError, match=rf"^{sentence}.$"):
            verify_checkpoint(**{"checkpoint": looks.checkpoint, "spark": spark, **words})
    for out in (tmp_path / "full", tmp_path / "full" / "file"):
        with pytest.raises(SashError, match=r"^out must be a directory that does not exist or is empty, got '.*'.$"):
            export_checkpoint(looks.checkpoint, str(out), spark=spark)


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_records_are_checked_on_the_driver_or_the_executors(spark, looks, monkeypatch, small):
    """Those of a small state on the driver; both find that each record has a row less than its head says."""
    heads = Snapshot.buckets

    def damaged(self: Snapshot) -> dict[int, BucketState]:
        buckets = heads(self)
        for state in buckets.values():
            state.head.entries = [entry._replace(rows=entry.rows + (entry.rows > 0)) for entry in state.head.entries]
        return buckets

    monkeypatch.setattr(verification, "_SMALL_BYTES", small)
    monkeypatch.setattr(Snapshot, "buckets", damaged)
    found = verify_checkpoint(looks.checkpoint, operator=looks.operators["rows"], spark=spark)
    records = looks.verified["rows"].records
    assert [finding.kind for finding in found.findings].count("rows") >= len(found.by_bucket) > 0
    assert all("rows, got" in finding.text for finding in found.findings) and found.records >= records


def test_files_that_are_damaged_are_a_finding(spark, looks):
    """Spark cannot load the state then, whatever is in it."""
    files = sorted((looks.folder / "checkpoint" / "state").rglob("*.changelog"))
    contents = {path: path.read_bytes() for path in files}
    for path, data in contents.items():
        path.write_bytes(data[: len(data) // 2])
    try:
        found = verify_checkpoint(looks.checkpoint, spark=spark)
    finally:
        for path, data in contents.items():
            path.write_bytes(data)
    assert [finding.kind for finding in found.findings] == ["state"] and not found.sound
    assert str(found.findings[0]).startswith("state: it cannot be read: ")


# --- without Spark --------------------------------------------------------------------------------


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


@pytest.fixture
def idle() -> Any:
    """A session that is never used."""
    return SimpleNamespace(conf=Conf())


def committed(folder: Path, *batches: int) -> None:
    (folder / "commits").mkdir(exist_ok=True)
    for path in (folder / "commits").iterdir():
        path.unlink()
    for batch in batches:
        (folder / "commits" / str(batch)).write_text("v1\n{}")


def test_the_newest_is_read_again_if_a_micro_batch_is_removed_meanwhile(idle, tmp_path):
    """A sentence follows where that does not help; a micro-batch that is there is damaged."""
    committed(tmp_path, 3, 4)
    tried = []

    def read(one: snapshot.Snapshot) -> int:
        tried.append(one.batch)
        if len(tried) < 3:
            committed(tmp_path, one.batch + 2)
            raise FileNotFoundError(f"{one.batch}.changelog")
        return one.batch

    assert snapshot.snapshot_of(str(tmp_path), read, spark=idle) == 8 and tried == [4, 6, 8]
    assert idle.conf == {}
    tried = [0] * -9
    with pytest.raises(
        CorruptStateError, match=r"^The micro-batch 12 was removed while it was read: the stream retains"
    ):
        snapshot.snapshot_of(str(tmp_path), lambda one: tried.clear() or read(one), spark=idle)

    def fail(one: snapshot.Snapshot) -> None:
        raise FileNotFoundError("8.changelog")

    with pytest.raises(CorruptStateError, match=r"^The state of micro-batch 14 cannot be read: 8.changelog.$"):
        snapshot.snapshot_of(str(tmp_path), fail, spark=idle)


def test_the_watermark_is_that_of_the_offsets(tmp_path):
    files = CheckpointFiles(location(tmp_path, "checkpoint"), None)
    assert (files.query_id(), files.commits(), files.last_commit(), files.watermark_ms(0)) == (None, [], -1, None)
    committed(tmp_path, 10, 9)
    (tmp_path / "commits" / ".11.tmp").touch()
    (tmp_path / "offsets").mkdir()
    for batch, watermark in ((9, 0), (10, 1234)):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":{watermark}}}\n{{}}')
    assert (files.commits(), files.watermark_ms(9), files.watermark_ms(10)) == ([9, 10], None, 1234)
