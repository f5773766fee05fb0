"""Kafka in pipeline files: what is read, and every mistake with its line; no JVM."""

import pytest

from sash.pipeline.config.read import PipelineFileError, parse
from sash.pipeline.run.kafka import unread

GOOD = """
mode = "available-now"
checkpoint = "out/checkpoint"
[source]
format = "kafka"
topic = "payments"
servers = ["one:9092", "two:9092"]
schema = "card string, at timestamp, amount long"
watermark = "1 minute"
options = { maxOffsetsPerTrigger = 100, kafka.security.protocol = "SSL" }
[rolling]
keys = ["card"]
time = "at"
windows = "1h"
every = "1 minute"
emit = "update"
[rolling.aggs]
n = "count()"
[[output.steps]]
select = ["*", "n_1h * 2 AS twice"]
[sink]
format = "kafka"
topic = "results"
servers = "one:9092"
"""


def mistakes(*overrides, text=GOOD):
    """Return the mistakes as "key: message"."""
    with pytest.raises(PipelineFileError) as raised:
        parse(text, overrides=overrides)
    return [line.split(": ", 1)[1] for line in str(raised.value).splitlines()]


def test_a_file_with_kafka_is_read():
    pipeline = parse(GOOD)
    assert (pipeline.source.topic, pipeline.source.servers) == (["payments"], ["one:9092", "two:9092"])
    assert pipeline.source.options == {"maxOffsetsPerTrigger": 100, "kafka.security.protocol": "SSL"}
    assert pipeline.output.steps[0].select == ["*", "n_1h * 2 AS twice"]
    assert pipeline.identity == ["card", "window_end"] and pipeline.keeps_latest and pipeline.warnings == []


@pytest.mark.parametrize(
    "removed, said",
    [
        ('topic = "payments"', 'source.topic: missing; format = "kafka" needs one topic to read, or an array of them.'),
        ('topic = "results"', 'sink.topic: missing; format = "kafka" needs the topic to write to.'),
        (
            'servers = "one:9092"',
            'sink.servers: missing; format = "kafka" needs the addresses of brokers, as in "broker1:9092".',
        ),
        (
            'schema = "card string, at timestamp, amount long"',
            'source.schema: missing; values in JSON need their columns, as in "card string, at timestamp"; '
            '`value = "bytes"` leaves them to the steps.',
        ),
    ],
)
def test_what_is_missing_is_named(removed, said):
    assert mistakes(text=GOOD.replace(removed, "")) == [said]


@pytest.mark.parametrize(
    "override, said",
    [
        ("source.value=avro", "source.value: must be 'json' or 'bytes', got 'avro'."),
        ("source.value=bytes", 'source.schema: cannot be combined with value = "bytes"; remove one of them.'),
        (
            "source.options.subscribePattern=pay.*",
            "source.topic: cannot be combined with the option 'subscribePattern'; remove one of them.",
        ),
        (
            "source.options.kafka.bootstrap.servers=three:9092",
            "source.servers: cannot be combined with the option 'kafka.bootstrap.servers'; remove one of them.",
        ),
        ("source.path=in", 'source.path: cannot be combined with format = "kafka"; use `topic`.'),
        ("sink.table=t", 'sink.table: cannot be combined with format = "kafka"; use `topic`.'),
        ("sink.mode=overwrite", "sink.mode: must be omitted for Kafka, which only appends, got 'overwrite'."),
        ('sink.topic=["a", "b"]', "sink.topic: must be a string, got ['a', 'b']."),
        ("output.step=1", "output.step: unknown key; did you mean `steps`?"),
        ("output.steps.0.selct=1", "output.steps[0].selct: unknown key; did you mean `select`?"),
        ("output.steps.0.where=true", "output.steps[0]: a step must have exactly one of `where` and `select`."),
    ],
)
def test_keys_that_cannot_be_combined(override, said):
    assert said in mistakes(override)


def test_keys_of_kafka_need_kafka():
    found = mistakes("source.format=demo", "sink.format=console")
    assert found == [
        "source.topic: needs format = \"kafka\", got 'demo'.",
        "source.servers: needs format = \"kafka\", got 'demo'.",
        "sink.topic: needs format = \"kafka\", got 'console'.",
        "sink.servers: needs format = \"kafka\", got 'console'.",
    ]


def test_warnings_of_a_sink_that_keeps_the_latest_revision():
    """A condition on results that are revised, and events that cannot be told apart."""
    text = GOOD.replace('select = ["*", "n_1h * 2 AS twice"]', 'where = "n_1h > 1"').replace('every = "1 minute"', "")
    (same, hidden) = parse(text).warnings
    assert "rolling.id: missing; rows with equal card, at are stored as one result" in same
    assert hidden.startswith("pipeline.toml:20: output.steps[0].where: a revision that no longer meets the condition")


def test_only_columns_that_something_reads_are_carried_along():
    """The record's own columns end with the steps, except for those that the aggregation names."""
    text = GOOD.replace('n = "count()"', 'n = "max(kafka_offset)"\n').replace(
        'time = "at"', 'time = "kafka_timestamp"\nretract = "size(kafka_headers) > 0"'
    )
    assert unread(parse(text)) == ["kafka_key", "kafka_topic", "kafka_partition"]
