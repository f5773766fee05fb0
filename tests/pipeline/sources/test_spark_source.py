"""The sources `demo` and `replay` on Spark: the same rows in a batch, a stream, and a stream that was stopped."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sash.errors import CorruptStateError
from sash.pipeline.sources.generated import demo
from sash.pipeline.sources.spark_source import Pace, RowStreamReader, register

OPTIONS = {"kind": "payments", "rows": "6000", "seed": "9", "retract": "0.05", "outage_every": "10 minutes"}

MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


@pytest.fixture(scope="module")
def sources(spark):
    register(spark)
    return spark


@pytest.fixture(scope="module")
def events():
    return pa.Table.from_batches([demo(**OPTIONS).batch(0, 6000)])


def in_order(table):
    return table.sort_by([("arrival", "ascending"), ("id", "ascending"), ("op", "ascending")])


def run(rows, place, **options):
    """Stream into Parquet with available-now; give the query's progress, a micro-batch each."""
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    query = query.trigger(availableNow=True).options(**options).start(str(place / "out"))
    assert query.awaitTermination(120)
    return [progress for progress in query.recentProgress if progress.numInputRows]


def test_demo_gives_the_events_in_a_batch_and_in_a_stream(sources, events, tmp_path):
    """Available-now reads all rows in micro-batches of the given size, a second run finds no more."""
    source = {**OPTIONS, "rows_per_batch": "2500", "speed": "1"}
    batch = sources.read.format("demo").options(**source).load()
    assert in_order(batch.toArrow()) == in_order(events)
    stream = sources.readStream.format("demo").options(**source).load()
    assert [progress.numInputRows for progress in run(stream, tmp_path)] == [2500, 2500, 1000]
    assert run(stream, tmp_path) == []
    assert in_order(sources.read.parquet(str(tmp_path / "out")).toArrow()) == in_order(events)


def test_demo_resumes_where_it_was_stopped(sources, events, tmp_path):
    """A stream that fails and one that follows it from the checkpoint give each row once."""
    source = {**OPTIONS, "rows_per_batch": "1500"}
    stream = sources.readStream.format("demo").options(**source).load()
    poisoned = stream.selectExpr("*", "raise_error('stop') as x").where("id < 3000 or x is null").drop("x")
    query = poisoned.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = query.trigger(availableNow=True).start(str(tmp_path / "out"))
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(120)
    assert sum(progress.numInputRows for progress in run(stream, tmp_path)) < 6000
    assert in_order(sources.read.parquet(str(tmp_path / "out")).toArrow()) == in_order(events)


@pytest.mark.parametrize("filetype", ["parquet", "json"])
def test_replay_gives_files_by_arrival(sources, events, tmp_path, filetype):
    """Each micro-batch holds the rows that arrived next, though the files hold the last ones first."""
    backwards = events.take(pa.array(range(5999, -1, -1)))
    frame = sources.createDataFrame(backwards.to_pandas()).coalesce(2)
    # Spark's JSON would cut instants to milliseconds.
    frame.write.format(filetype).option("timestampFormat", MICROSECONDS).save(str(tmp_path / "in"))
    source = {"path": str(tmp_path / "in"), "arrival": "arrival", "rows_per_batch": "2500"}
    stream = sources.readStream.format("replay").options(**source).schema(frame.schema).load()
    seen = []
    query = stream.writeStream.foreachBatch(lambda rows, _: seen.append(rows.toArrow())).trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(120)
    assert [rows.num_rows for rows in seen] == [2500, 2500, 1000]
    bounds = [(min(rows["arrival"].to_pylist()), max(rows["arrival"].to_pylist())) for rows in seen]
    assert bounds == sorted(bounds) and bounds[0][1] <= bounds[1][0] and bounds[1][1] <= bounds[2][0]
    assert in_order(pa.concat_tables(seen).select(events.column_names)) == in_order(events)


def test_replay_finds_its_schema_and_refuses_other_files(sources, events, tmp_path):
    """A checkpoint belongs to its files: one more, and row numbers would mean other rows."""
    (tmp_path / "in").mkdir()
    pq.write_table(events, tmp_path / "in" / "a.parquet")
    stream = sources.readStream.format("replay").option("arrival", "arrival").load(str(tmp_path / "in"))
    assert stream.schema == sources.read.parquet(str(tmp_path / "in")).schema
    assert len(run(stream, tmp_path)) == 1
    pq.write_table(events, tmp_path / "in" / "b.parquet")
    with pytest.raises(StreamingQueryException, match="The rows are not those of the checkpoint"):
        run(stream, tmp_path)


def test_a_pace_follows_the_clock_and_resumes_where_it_stopped(monkeypatch):
    """At a speed-up of 60 a second hands out a minute of arrivals, counted from the first row of this run."""
    events, clock = demo(rows=100_000), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def latest(reader, first, limit=None):
        start = {**reader.initialOffset(), "row": first}
        return reader.latestOffset(start, limit or reader.getDefaultReadLimit())["row"]

    for first in (0, 20_000):
        reader = RowStreamReader(events, Pace(60.0, 10**6, 2))
        began = events.arrival(first)
        assert latest(reader, first) == events.arrived(began)
        clock[0] += 2
        assert latest(reader, first) == events.arrived(began + 120 * 10**6)
    clock[0] += 10**6
    assert latest(reader, 0) == latest(reader, 100_000) == 100_000


def test_limits_are_kept():
    """A micro-batch takes its rows at most, and all there are where Spark asks for all."""
    reader, endless = (RowStreamReader(demo(rows=rows), Pace(None, 700, 2)) for rows in (1_000, None))
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    assert reader.latestOffset(start, limit)["row"] == endless.latestOffset(start, limit)["row"] == 700
    assert reader.latestOffset(start, ReadAllAvailable())["row"] == 1_000
    assert endless.latestOffset(start, ReadAllAvailable())["row"] == 700


def test_a_checkpoint_of_other_events_is_refused():
    """More rows of the same events resume; another seed would resume with rows that never came before."""
    offset = RowStreamReader(demo(rows=10), Pace(None, 5, 2)).initialOffset()
    assert len(RowStreamReader(demo(rows=20), Pace(None, 5, 2)).partitions(offset, {**offset, "row": 20})) == 1
    with pytest.raises(CorruptStateError, match="use the same options and files, or a new checkpoint"):
        RowStreamReader(demo(rows=10, seed=1), Pace(None, 5, 2)).partitions(offset, offset)


def test_a_paced_stream_runs(sources):
    """Rows of a stream at speed come little by little, and a limit holds."""
    source = {"rate": "100", "speed": "20", "late": "0", "rows_per_batch": "700"}
    query = sources.readStream.format("demo").options(**source).load().writeStream.format("noop").start()
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until and sum(p.numInputRows for p in query.recentProgress) < 3000:
            time.sleep(0.1)
        rows = [progress.numInputRows for progress in query.recentProgress]
        assert sum(rows) >= 3000 and max(rows) <= 700
    finally:
        query.stop()


@pytest.mark.parametrize(
    "source, options, said",
    [
        ("demo", {"kind": "parcels"}, "kind must be one of payments, trips, sensors, got 'parcels'."),
        ("demo", {"row": "1"}, "unknown option row of the source demo; did you mean rows?"),
        ("demo", {"rows_per_batch": "0"}, "rows_per_batch must be an integer from 1 to"),
        (
            "replay",
            {"path": "/nowhere"},
            "path must be a file, a directory or a pattern, got '/nowhere', which matches no file.",
        ),
    ],
)
def test_wrong_options_are_named_when_the_source_is_opened(sources, source, options, said):
    with pytest.raises(AnalysisException) as raised:
        sources.readStream.format(source).options(**options).load()
    assert said in str(raised.value)


def test_events_that_never_end_need_a_stream_that_does_not_either(sources, tmp_path):
    with pytest.raises(AnalysisException, match=r"rows must be set for .*, because the events are endless"):
        sources.read.format("demo").load().count()
    with pytest.raises(StreamingQueryException, match=r"rows must be set for .*, because the events are endless"):
        run(sources.readStream.format("demo").load(), tmp_path)
