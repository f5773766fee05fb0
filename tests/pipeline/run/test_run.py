"""Pipelines on Spark: the same file as a stream and as a batch, rows that cannot be used, ends and failures."""

import json
import os
import shutil
import sys
import threading
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from sash import monoids, rolling
from sash.errors import SashError
from sash.pipeline.config.read import PipelineFileError, parse
from sash.pipeline.run import quarantine
from sash.pipeline.run import run as run_module
from sash.pipeline.run.dataframes import frames_of, source_of
from sash.pipeline.run.error_text import PipelineError
from sash.pipeline.run.run import run
from sash.spark import read_upserted, upsert, upserted_table

PAYMENTS = """
name = "payments"
mode = "available-now"
finish = true
[source]
format = "demo"
watermark = "1 minute"
[source.options]
rows = 4_000
rows_per_batch = 2_000
keys = 10
[rolling]
keys = ["card"]
time = "ts"
id = "id"
windows = ["5m"]
emit = "final"
lateness = "15 minutes"
buckets = 2
[rolling.aggs]
n = "count()"
total = "sum(amount)"
[sink]
format = "parquet"
"""

RECORDS = """
name = "records"
mode = "available-now"
finish = true
[source]
format = "json"
schema = "card string, at timestamp, amount long"
watermark = "1 minute"
[source.options]
maxFilesPerTrigger = 1
[[steps]]
where = "amount > 0"
[[steps]]
select = ["*", "amount * 2 AS double"]
[quarantine]
ahead = "1 hour"
null_keys = "quarantine"
[rolling]
keys = ["card"]
time = "at"
windows = ["1h"]
every = "30 minutes"
emit = "update"
lateness = "1 day"
buckets = 2
[rolling.aggs]
total = "sum(double)"
[sink]
format = "upsert"
"""

GOOD = [
    {"card": "a", "at": "2026-01-01T00:10:00Z", "amount": 1},
    {"card": "b", "at": "2026-01-01T00:20:00Z", "amount": 2},
    {"card": "a", "at": "2026-01-01T00:40:00Z", "amount": 3},
    {"card": "a", "at": "2026-01-01T00:50:00Z", "amount": -3},
]
BAD = {
    "malformed": ['{"card": "a", "at": ', '{"card": "a", "at": "yesterday", "amount": 1}'],
    "null_time": ['{"card":"a","amount":1}'],
    "ahead": ['{"card":"a","at":"9000-01-01T00:00:00Z","amount":1}'],
    "null_key": ['{"at":"2026-01-01T00:00:00Z","amount":1}'],
}


def refusal(call, *arguments, **options):
    """Return the message of the error that a function of the library raises."""
    with pytest.raises(SashError) as raised:
        call(*arguments, **options)
    return str(raised.value)


TEXT = pa.table({"ts": pa.array([0], pa.timestamp("us")), "merchant": ["fuel"]})
SUM_OF_TEXT = refusal(rolling, TEXT, keys=[], time="ts", windows="5m", aggs={"top": monoids.sum("merchant")})


def pipeline(text, place, **changed):
    """Return a pipeline whose files are in a place of their own."""
    given = {"checkpoint": place / "checkpoint", "sink.path": place / "results", **changed}
    return parse(text, overrides=[f"{name}={value}" for name, value in given.items()])


def in_order(table):
    return table.sort_by([(name, "ascending") for name in table.column_names])


@pytest.fixture
def records(tmp_path):
    """Two files of records, the second with all kinds of bad ones among the good."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(json.dumps(row) for row in GOOD[:2]))
    rest = [json.dumps(row) for row in GOOD[2:]]
    (tmp_path / "in" / "2.json").write_text("\n".join([*rest, *(line for lines in BAD.values() for line in lines)]))
    return {"source.path": tmp_path / "in"}


def test_the_same_file_gives_the_same_rows_as_a_stream_and_as_a_batch(spark, tmp_path):
    """Each event's windows, final: what the stream gives in several micro-batches the batch gives at once."""
    seen = []
    outcome = run(pipeline(PAYMENTS, tmp_path), spark=spark, on_progress=seen.append)
    assert (outcome.rows_in, outcome.emitted, outcome.late, outcome.stopped) == (4_000, 4_000, 0, False)
    assert [progress.rows for progress in seen if progress.rows] == [2_000, 2_000]
    assert [progress.batch for progress in seen] == list(range(outcome.batches))
    assert seen[0].watermark is None and seen[1].watermark is not None
    assert 0 < seen[1].live_keys <= 10 and seen[1].state_bytes > 0
    backfill = run(
        pipeline(PAYMENTS, tmp_path, mode="batch", **{"sink.path": tmp_path / "batch"}),
        spark=spark,
        on_progress=seen.append,
    )
    assert (backfill.rows_in, backfill.emitted, backfill.batches) == (4_000, 4_000, 1)
    assert seen[-1].value is not None
    stream, batch = (spark.read.parquet(str(tmp_path / name)).toArrow() for name in ("results", "batch"))
    assert in_order(stream.select(batch.column_names)) == in_order(batch)


@pytest.mark.parametrize("mode", ["available-now", "batch"])
def test_rows_that_cannot_be_used_are_set_aside(spark, tmp_path, records, mode):
    """Counted by reason and stored as text, whatever is wrong with them; the rest is processed."""
    aside = {"quarantine.path": tmp_path / "aside"}
    outcome = run(pipeline(RECORDS, tmp_path, mode=mode, **records, **aside), spark=spark)
    assert (outcome.rows_in, outcome.quarantined) == (8, 5)  # the step took one, and no malformed record
    kept = pq.read_table(tmp_path / "aside").to_pylist()
    assert sorted(row["reason"] for row in kept) == sorted(reason for reason, lines in BAD.items() for _ in lines)
    assert {row["row"] for row in kept if row["reason"] == "malformed"} == set(BAD["malformed"])
    (ahead,) = (json.loads(row["row"]) for row in kept if row["reason"] == "ahead")
    assert ahead == {"card": "a", "at": "9000-01-01T00:00:00.000Z", "amount": 1, "double": 2}
    assert {row["batch"] for row in kept} == ({1} if mode == "available-now" else {-1})
    results = upserted_table(tmp_path / "results").to_pylist()
    assert [row["total_1h"] for row in sorted(results, key=lambda row: (row["card"], row["window_end"]))] == [
        *(2, 8, 6),
        *(4, 4),
    ]


def test_a_micro_batch_that_is_repeated_sets_rows_aside_once(spark, tmp_path, records):
    """The sink fails after bad rows were written; the next run removes them, reads again, and gives each once."""
    at_once = RECORDS.replace('every = "30 minutes"\n', "")  # results come with their rows
    aside = {"quarantine.path": tmp_path / "aside", "source.options.maxFilesPerTrigger": 2}
    (tmp_path / "file").touch()
    broken = {"sink.path": tmp_path / "file" / "results.db", "sink.options.table": "totals"}
    with pytest.raises(PipelineError, match=r"^records: .*file/results.db' cannot be written: ") as raised:
        run(pipeline(at_once, tmp_path, **records, **aside, **broken), spark=spark)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is not None
    assert len(list((tmp_path / "aside").rglob("*.parquet"))) >= 1
    outcome = run(pipeline(at_once, tmp_path, **records, **aside), spark=spark)
    assert (outcome.rows_in, outcome.quarantined) == (8, 5)
    assert pq.read_table(tmp_path / "aside").num_rows == 5
    assert sorted(upserted_table(tmp_path / "results")["total_1h"].to_pylist()) == [2, 4, 8]


EVENTS = [{"card": "a", "at": f"2026-01-01T0{hour}:00:00Z", "amount": hour} for hour in (1, 5)]
LATER = [{"card": "a", "at": "2026-01-01T01:00:00Z", "amount": 9}, {"card": "b", "at": "2026-01-01T01:10:00Z"}]


@pytest.mark.parametrize("each", ["boundary", "event"])
def test_late_rows_of_an_upsert_are_quarantined(spark, tmp_path, each):
    """They have the identity of a result and no values; the results and their columns are as without them."""
    text = RECORDS.replace('lateness = "1 day"', 'late = "emit"').replace("amount > 0", "true")
    text = text if each == "boundary" else text.replace('every = "30 minutes"\n', "")
    (tmp_path / "in").mkdir()
    for number, rows in enumerate((EVENTS, LATER)):
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(json.dumps(row) for row in rows))
        os.utime(tmp_path / "in" / f"{number}.json", (1_700_000_000 + number,) * 2)
    changed = {"source.path": tmp_path / "in", "quarantine.path": tmp_path / "aside"}
    outcome = run(pipeline(text, tmp_path, **changed), spark=spark)
    assert (outcome.late, outcome.quarantined) == (2, 0)
    aside = pq.read_table(tmp_path / "aside").to_pylist()
    assert [row["reason"] for row in aside] == ["late", "late"]
    assert {json.loads(row["row"])["at"] for row in aside} == {"2026-01-01T01:00:00.000Z", "2026-01-01T01:10:00.000Z"}
    results = upserted_table(tmp_path / "results").to_pylist()
    assert len(results) == (4 if each == "boundary" else 2)
    assert sorted({row["total_1h"] for row in results}) == [2, 10]
    wanted = {"card", "total_1h", "revision", *(["window_start", "window_end"] if each == "boundary" else ["at"])}
    assert set(results[0]) == wanted
    backfill = {**changed, "mode": "batch", "sink.path": tmp_path / "batch"}
    run(pipeline(text, tmp_path, **backfill), spark=spark)
    assert set(upserted_table(tmp_path / "batch").column_names) == wanted


def test_a_row_of_the_far_future_is_set_aside_whatever_it_is_compared_with(spark, tmp_path):
    """With a null in `ahead_of`, or in a year that ends a stream, it would move the watermark for good."""
    rows = [
        {"card": "a", "at": "2026-01-01T00:10:00Z", "amount": 1, "seen": None},
        {"card": "a", "at": "9998-01-01T00:00:00Z", "amount": 1, "seen": None},
        {"card": "a", "at": "9999-06-01T00:00:00Z", "amount": 1, "seen": "9999-06-02T00:00:00Z"},
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(json.dumps(row) for row in rows))
    columns = "card string, at timestamp, amount long, seen timestamp"
    changed = {"source.path": tmp_path / "in", "source.schema": columns, "quarantine.ahead_of": "seen"}
    made = pipeline(RECORDS, tmp_path, **changed)
    reasons = quarantine.counted(source_of(made, spark, streaming=False), made, Observation("counts"))
    assert [row[-1] for row in reasons.orderBy("at").collect()] == [None, "ahead", "ahead"]
    unlimited = RECORDS.replace('ahead = "1 hour"\n', "")
    plain = pipeline(unlimited, tmp_path, **{"source.path": tmp_path / "in"})
    times = source_of(made, spark, streaming=False).withColumn("at", F.col("at").cast("timestamp_ntz"))
    reasons = quarantine.counted(times, plain, Observation("counts"))
    assert [row[-1] for row in reasons.orderBy("at").collect()] == [None, None, "ahead"]


def test_a_checkpoint_that_only_spark_can_open_keeps_the_quarantine_exact(spark, tmp_path, records):
    """The files that a failed micro-batch left are removed: its commits are read through Spark."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.tests.link./at", f"file://{tmp_path}")
    elsewhere = {**records, "checkpoint": "viewfs://tests/at/checkpoint", "quarantine.path": tmp_path / "aside"}
    assert run(pipeline(RECORDS, tmp_path, **elsewhere), spark=spark).quarantined == 5
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"][:8]
    for number in (1, 99):
        (tmp_path / "aside" / f"batch={number}").mkdir(exist_ok=True)
        (tmp_path / "aside" / f"batch={number}" / f"part-{query}-00077.parquet").touch()
    run(pipeline(RECORDS, tmp_path, **elsewhere), spark=spark)
    left = {path.parent.name for path in (tmp_path / "aside").rglob("*-00077.parquet")}
    assert left == {"batch=1"}


def test_what_was_due_at_a_stop_comes_out_at_the_next_start(spark, tmp_path, records):
    """Spark runs no micro-batch without rows after a restart. Another definition is refused though no row comes."""
    changed = {**records, "finish": "false", "rolling.aggs.both": "struct(n=count(), top=max(amount))"}
    first = run(pipeline(RECORDS, tmp_path, **changed), spark=spark)
    wanted = in_order(upserted_table(tmp_path / "results").drop_columns("both_1h"))
    tops = [row["both_1h"] for row in upserted_table(tmp_path / "results").to_pylist()]
    assert first.emitted > 0 and {"n": 1, "top": 2} in tops
    last = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for path in (tmp_path / "checkpoint").glob(f"*/*{last}*"):  # as if it had been killed before its last micro-batch
        if path.parent.name in ("commits", "offsets"):
            path.unlink()
    shutil.rmtree(tmp_path / "results")
    second = run(pipeline(RECORDS, tmp_path, **changed), spark=spark)
    assert (second.rows_in, second.batches) == (0, 1)
    assert in_order(upserted_table(tmp_path / "results").drop_columns("both_1h")) == wanted
    assert run(pipeline(RECORDS, tmp_path, **changed), spark=spark).batches == 0
    others = {
        "buckets is 3, was 2, and cannot change in place; export the rows": {"rolling.buckets": 3},
        "panes without the aggregate low": {"rolling.aggs.low": "min(amount)"},
        "needs every row": {"rolling.late": "emit"},
        "window 2h needs rows that have expired: they are stored for 1h": {"rolling.windows": '["2h"]'},
    }
    for said, other in others.items():
        with pytest.raises(PipelineFileError, match=rf"checkpoint: .* with another definition, .*{said}.*history="):
            run(pipeline(RECORDS, tmp_path, **changed, **other), spark=spark)
    seen: list[list[str]] = []
    later = pipeline(RECORDS, tmp_path, **changed, **{"rolling.lateness": "2 days"})
    run(later, spark=spark, on_change=seen.append)
    assert seen == [['lateness is "2 days", was "1 day"']]


def test_without_a_path_bad_rows_are_counted_and_null_keys_may_stay(spark, tmp_path, records):
    changed = {"mode": "batch", "quarantine.null_keys": "keep", "sink.path": tmp_path / "results.sqlite"}
    outcome = run(pipeline(RECORDS, tmp_path, **records, **changed, **{"sink.options.table": "totals"}), spark=spark)
    assert (outcome.rows_in, outcome.quarantined, outcome.emitted) == (8, 4, 7)


def test_csv_tells_malformed_records_too(spark, tmp_path):
    """A value of a wrong type, and a line that ends too soon, also where the missing column is read by nothing."""
    (tmp_path / "in").mkdir()
    rows = ["a,2026-01-01T00:10:00Z,1,7", "a,2026-01-01T00:20:00Z,two,7", "a,2026-01-01T00:20:00Z,2"]
    (tmp_path / "in" / "1.csv").write_text("\n".join(rows))
    changed = {"source.format": "csv", "source.path": tmp_path / "in", "mode": "batch"}
    columns = {"source.schema": "card string, at timestamp, amount long, other int"}
    outcome = run(pipeline(RECORDS, tmp_path, **changed, **columns), spark=spark)
    assert (outcome.rows_in, outcome.quarantined) == (3, 2)


def test_a_stream_that_is_stopped_resumes_where_it_was(spark, tmp_path):
    """Each row counts once over both runs, and what waits for the watermark comes out at the end of the second."""
    stop, seen = threading.Event(), []

    def heard(progress):
        seen.append(progress)
        stop.set()

    changed = {"mode": "streaming", "sink.format": "upsert", "source.options.rows_per_batch": 1_000}
    first = run(pipeline(PAYMENTS, tmp_path, **changed), spark=spark, on_progress=heard, stop=stop)
    assert first.stopped
    assert 0 < first.rows_in < 4_000
    second = run(pipeline(PAYMENTS, tmp_path, **changed), spark=spark, once=True)
    assert not second.stopped
    assert first.rows_in + second.rows_in >= 4_000  # a micro-batch that was under way comes again
    assert read_upserted(spark, tmp_path / "results").count() == 4_000
    third = run(pipeline(PAYMENTS, tmp_path, **changed), spark=spark, once=True)
    assert (third.rows_in, third.emitted) == (0, 0)


def test_only_micro_batches_are_reported(tmp_path):
    """An idle stream reports every ten seconds under the number of the next micro-batch, which is ignored."""
    waits, works = {"triggerExecution": 0, "latestOffset": 0}, {"triggerExecution": 500, "addBatch": 400}
    happened = [(7, 0, works), (8, 10, waits), (8, 20, waits), (8, 25, works)]
    plain = [
        {"batchId": batch, "timestamp": f"2026-01-01T00:00:{at:02}.000Z", "durationMs": ms}
        for batch, at, ms in happened
    ]
    reports = [SimpleNamespace(**report, json=json.dumps(report)) for report in plain]
    seen = []
    current = run_module._Run(pipeline(PAYMENTS, tmp_path), None, seen.append, threading.Event())
    for count in range(1, len(reports) + 1):
        current._report(SimpleNamespace(lastProgress=reports[count - 1], recentProgress=reports[:count]))
    assert [progress.batch for progress in seen] == [7, 8]
    assert current.outcome.batches == 2


def test_a_stop_that_takes_spark_along_is_a_stop(tmp_path, monkeypatch):
    """A service manager terminates all processes of a service; an error of a Spark that runs is still an error."""

    def terminated(self, *, once):
        self.stop.set()
        raise ConnectionRefusedError("Answer from Java side is empty")

    monkeypatch.setattr(run_module._Run, "_stream", terminated)
    stopped = SimpleNamespace(isStopped=lambda: True)
    gone = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: stopped)))
    assert run(pipeline(PAYMENTS, tmp_path), spark=gone).stopped
    stopped.isStopped = lambda: False
    with pytest.raises(PipelineError, match="Answer from Java side is empty"):
        run(pipeline(PAYMENTS, tmp_path), spark=gone)


def test_what_was_stopped_before_it_began_does_nothing(spark, tmp_path):
    stop = threading.Event()
    stop.set()
    assert run(pipeline(PAYMENTS, tmp_path), spark=spark, stop=stop).stopped
    assert not (tmp_path / "checkpoint").exists()


def test_a_batch_can_be_stopped(spark, tmp_path):
    """Its jobs are cancelled, and nothing is reported of them."""
    stop = threading.Event()
    stop.set()
    changed = {"mode": "batch", "source.options.rows": 3_000_000, "rolling.aggs.all": "collect_list(amount)"}
    outcome = run(pipeline(PAYMENTS, tmp_path, **changed), spark=spark, stop=stop)
    assert (outcome.stopped, outcome.batches) == (True, 0)


@pytest.mark.parametrize("module, key", [("end_of_stream", "finish"), ("spark_source", "source.format")])
def test_an_old_pyspark_is_named_with_the_key_that_needs_a_new_one(spark, tmp_path, monkeypatch, module, key):
    """The sources in Python need readers with limits, which came with 4.2."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.delitem(sys.modules, f"sash.pipeline.sources.{module}", raising=False)
    monkeypatch.delattr(f"sash.pipeline.sources.{module}", raising=False)
    with pytest.raises(PipelineFileError, match=rf": {key}: .* pyspark 4\.2 or newer, got "):
        frames_of(pipeline(PAYMENTS, tmp_path), spark, streaming=True)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"rolling.keys": "crad"}, ["rolling.keys[0]: column 'crad' does not exist; the rows have ts, arrival, card"]),
        (
            {"rolling.time": "at", "rolling.aggs.top": "max(price)"},
            ["rolling.time: column 'at' does not exist", "rolling.aggs.top: column 'price' does not exist"],
        ),
        ({"rolling.time": "id"}, ["rolling.time: The event time `id` has the invalid type"]),
        ({"rolling.aggs.top": "sum(merchant)"}, [f"rolling.aggs.top: {SUM_OF_TEXT}"]),
        ({"steps": '[{where = "amuont > 0"}]'}, ["steps[0].where: A column, variable, or function parameter"]),
        ({"steps": '[{select = ["ts", "1 +"]}]'}, ["steps[0].select: Syntax error"]),
        ({"source.options.kind": "parcels"}, ["source.options.kind: kind must be one of payments, trips"]),
        ({"source.options.row": 1}, ["source.options.row: unknown option row of the source demo; did you mean rows?"]),
        ({"source.format": "jsn"}, ["source.format: Failed to find the data source: jsn."]),
        ({"source": '{table = "nowhere", watermark = "1s"}'}, ["source.table: The table or view `nowhere` cannot be"]),
        ({"source": '{format = "json", path = "/nowhere", schema = "a int", watermark = "1s"}'}, ["source.path: Path"]),
        ({"source": '{format = "json", path = "/", schema = "a b c", watermark = "1s"}'}, ["source.schema: Syntax"]),
        ({"view.column": "total"}, ["view.column: column 'total' does not exist; the results have card, ts, id, n_5m"]),
        ({"quarantine": '{ahead = "1h", ahead_of = "x"}'}, ["quarantine.ahead_of: column 'x' does not exist"]),
    ],
)  # fmt: skip
def test_what_only_spark_finds_is_reported_with_the_key(spark, tmp_path, changed, said):
    with pytest.raises(PipelineFileError) as raised:
        frames_of(pipeline(PAYMENTS, tmp_path, **changed), spark, streaming=True)
    lines = str(raised.value).splitlines()
    assert len(lines) == len(said)
    for line, expected in zip(lines, said, strict=True):
        assert line.split(": ", 1)[1].startswith(expected), line
        assert "__sash" not in line


def test_the_upsert_is_refused_before_anything_runs(spark, tmp_path):
    changed = {"sink.format": "upsert", "sink.options.keys": '["card", "nothing"]'}
    with pytest.raises(PipelineFileError, match=r"sink\.options\.keys: .*'nothing'") as raised:
        run(pipeline(PAYMENTS, tmp_path, **changed), spark=spark)
    cause = raised.value.__cause__
    assert (cause.argument, cause.column) == ("keys", "nothing")
    assert raised.value.mistakes[0].message == str(cause)


@pytest.mark.parametrize("name", ["results", "results.db"])
def test_a_batch_is_refused_the_target_of_a_stream(spark, tmp_path, records, name):
    """Its first revisions would lose against the stream's in silence."""
    table = {} if name == "results" else {"table": "t"}
    rows = spark.createDataFrame([(1, 7)], "card int, revision long")
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "query")
    try:
        upsert(tmp_path / name, keys="card", deleted=None, **table)(rows, 0)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    changed = {**records, "mode": "batch", "sink.path": tmp_path / name}
    changed |= {f"sink.options.{option}": value for option, value in table.items()}
    with pytest.raises(PipelineFileError, match=r"sink\.path: was written by a stream, whose revisions would win"):
        run(pipeline(RECORDS, tmp_path, **changed), spark=spark)


def test_an_sqlite_file_needs_a_table(spark, tmp_path):
    changed = {"sink.format": "upsert", "sink.path": tmp_path / "results.sqlite"}
    with pytest.raises(PipelineFileError, match=r"sink\.path: a database file needs a table for the results,"):
        run(pipeline(PAYMENTS, tmp_path, **changed), spark=spark)


def test_a_table_is_a_source_and_a_sink(spark, tmp_path):
    """By its name, in a batch."""
    rows = pa.table({"card": ["a", "a"], "ts": pa.array([0, 60 * 10**6], pa.timestamp("us", "UTC")), "amount": [1, 2]})
    spark.createDataFrame(rows.to_pandas()).createOrReplaceTempView("pipeline_rows")
    changed = {"source": '{table = "pipeline_rows"}', "sink.table": "pipeline_results", "mode": "batch"}
    made = pipeline(PAYMENTS.replace('id = "id"\n', ""), tmp_path, **changed)
    try:
        assert run(made, spark=spark).emitted == 2
        assert sorted(row.total_5m for row in spark.table("pipeline_results").collect()) == [1, 3]
    finally:
        spark.sql("DROP TABLE IF EXISTS pipeline_results")
