"""Values as rows and results as records, without a broker; output steps; and a session without the connector."""

import json
from datetime import UTC, datetime

import pytest

from sash.errors import SashError
from sash.pipeline.config.read import PipelineFileError, parse
from sash.pipeline.run import kafka, sinks
from sash.pipeline.run.dataframes import frames_of
from sash.pipeline.run.run import run
from sash.pipeline.run.spark_session import _unresolved
from sash.pipeline.run.steps import MALFORMED
from sash.spark import jars
from sash.spark.stream.metrics import kafka_lag

DEMO = """
mode = "batch"
[source]
format = "demo"
options = { rows = 200, keys = 3, rate = 5 }
[rolling]
keys = ["card"]
time = "ts"
windows = ["5m"]
every = "1 minute"
emit = "update"
[rolling.aggs]
n = "count()"
[sink]
format = "parquet"
"""
TO_KAFKA = ("sink.format=kafka", "sink.topic=results", "sink.servers=127.0.0.1:1")
FROM_KAFKA = DEMO.replace('"parquet"', '"console"').replace(
    'format = "demo"\noptions = { rows = 200, keys = 3, rate = 5 }',
    'format = "kafka"\ntopic = "t"\nservers = "127.0.0.1:1"\nschema = "card string, ts timestamp"',
)


@pytest.mark.parametrize(
    "value, card, malformed",
    [
        (b' {"card": "a", "n": 1}\n', "a", None),
        (b'{"more": [1]}', None, None),
        (b'{"card": null}', None, None),
        (b'{"card": "a", "n": "x"}', "a", '{"card": "a", "n": "x"}'),
        (b'{"card": "a", "n": 1.5}', "a", '{"card": "a", "n": 1.5}'),
        (b'{"card": "a", "inner": {"m": "x"}}', "a", '{"card": "a", "inner": {"m": "x"}}'),
        (b'{"card": "a"} {"card": "b"}', None, '{"card": "a"} {"card": "b"}'),
        (b'{"card": "a"', None, '{"card": "a"'),
        (b'[{"card": "a"}]', None, '[{"card": "a"}]'),
        (b'"a"', None, '"a"'),
        (b"null", None, "null"),
        (b"", None, ""),
        (None, None, "null"),
        (b'{"card": "\xff"}', "\ufffd", '{"card": "\ufffd"}'),
    ],
)
def test_a_value_is_a_row_or_malformed(spark, value, card, malformed):
    """Whatever is not one object with the types of the schema is malformed as a whole, and its text is kept."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL("card string, n long, inner struct<m long>")
    rows = spark.createDataFrame([(value,)], "value binary").select(*kafka._decoded(schema, {}))
    (row,) = rows.collect()
    assert row[MALFORMED] == malformed
    if malformed is None:
        assert row.card == card


def test_results_are_records(spark):
    """Keys are equal only for equal identities, to the microsecond and in any time zone; nulls are written."""
    at = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)
    columns = "card string, window_end timestamp, total double, revision long, deleted boolean"
    rows = [("a", at, 1.5, 1, False), (None, at, None, 2, False), ("a", at, None, 3, True)]
    results = spark.createDataFrame(rows, columns)
    found = kafka.records_of(results, ["card", "window_end"]).collect()
    assert [json.loads(record.key) for record in found] == [
        {"card": card, "window_end": "2026-01-01T12:00:00.123456Z"} for card in ("a", None, "a")
    ]
    values = [None if record.value is None else json.loads(record.value) for record in found]
    assert values[0]["total"] == 1.5 and values[1]["total"] is None and values[2] is None
    assert "deleted" not in values[0]
    assert [bytes(record.headers[0].value) for record in found] == [b"1", b"2", b"3"]
    plain = kafka.records_of(results.drop("revision", "deleted"), ["card", "window_end"])
    assert plain.columns == ["key", "value"]


def test_output_steps_shape_results(spark, tmp_path):
    """Steps apply in their order, and counts are those of the results before them."""
    steps = (
        '\n[[output.steps]]\nwhere = "card <> \'card-0\'"\n[[output.steps]]\nselect = ["card", "n_5m * 2 AS twice"]\n'
    )
    outcome = run(parse(DEMO + steps, overrides=[f"sink.path={tmp_path / 'out'}"]), spark=spark)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {name for row in rows for name in row.asDict()} == {"card", "twice"}
    assert {row.card for row in rows} == {"card-1", "card-2"} and 0 < len(rows) < outcome.emitted


@pytest.mark.parametrize(
    "steps, said",
    [
        (
            'select = ["card", "n_5m"]',
            "output.steps: must keep the column 'window_end', which a sink in the format kafka",
        ),
        (
            'select = ["*", "card"]',
            "output.steps[0].select: must give each column a name of its own, but two are called 'card'.",
        ),
        ('select = ["* except (deleted)"]', "output.steps: must keep the column 'deleted'"),
        ('where = "nosuch > 1"', "output.steps[0].where: A column, variable, or function parameter with name `nosuch`"),
    ],
)
def test_output_steps_that_do_not_fit_are_refused(spark, steps, said):
    """With the line of the step, before anything runs."""
    made = parse(DEMO + "\n[[output.steps]]\n" + steps, overrides=TO_KAFKA)
    with pytest.raises(PipelineFileError) as raised:
        frames_of(made, spark, streaming=False)
    assert said in str(raised.value)


def test_a_session_without_the_connector_is_named(spark):
    """Source and sink say which package the session lacks."""
    with pytest.raises(PipelineFileError) as source:
        frames_of(parse(FROM_KAFKA), spark, streaming=False)
    made = parse(DEMO, overrides=TO_KAFKA)
    with pytest.raises(PipelineFileError) as sink:
        sinks.check(made, frames_of(made, spark, streaming=False).results)
    for key, raised in (("source.format", source), ("sink.format", sink)):
        said = f"{key}: Spark's Kafka connector is not on the class path of the running session; start it with"
        assert said in str(raised.value) and jars.kafka_connector() in str(raised.value)


def test_columns_that_the_source_adds_are_not_in_its_schema(spark):
    made = parse(FROM_KAFKA, overrides=["source.schema=card string, ts timestamp, kafka_key string"])
    with pytest.raises(PipelineFileError, match="must not have a column 'kafka_key', which the source adds"):
        frames_of(made, spark, streaming=False)


def test_questions_can_be_all_that_comes_from_kafka():
    """The session needs the connector then too, and the quarantine says where a record is."""
    at = 'at={format="kafka", topic="t", servers="s:1", schema="card string, ts timestamp"}'
    text = DEMO.replace('every = "1 minute"\nemit = "update"\n', "").replace('"parquet"', '"console"')
    events, asked = parse(text), parse(text, overrides=[at])
    assert kafka.uses_kafka(asked) and kafka.reads_kafka(asked)
    assert not kafka.uses_kafka(events) and not kafka.reads_kafka(events)


def test_the_connector_is_added_unless_there_is_one(monkeypatch):
    """Packages of the user's stay; jars or packages of Kafka's are taken as they are."""
    monkeypatch.setattr(jars, "installed_connector", lambda: None)
    added = jars.with_kafka_connector({"spark.jars.packages": "a:b:1"})
    assert added == {"spark.jars.packages": f"a:b:1,{jars.kafka_connector()}"}
    own = {"spark.jars.packages": jars.kafka_connector("4.2.0"), "spark.ui.enabled": True}
    assert jars.with_kafka_connector(own) == own


def test_a_package_that_cannot_be_fetched_is_named(tmp_path):
    log = tmp_path / "log"
    log.write_text("[unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found]\n\tat x\n")
    assert _unresolved(log).startswith(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 could not be fetched (not found)"
    )
    log.write_text("something else")
    assert _unresolved(log) is None
    with pytest.raises(SashError, match="coordinates must have the form group:artifact:version, got 'kafka'"):
        jars.fetched(["kafka"])


def test_lag_of_other_sources_is_unknown():
    assert kafka_lag({"sources": [{"description": "FileStreamSource[in]", "latestOffset": None}]}) == {}
