"""[at] in pipeline files: what is read, what identifies results, and every mistake with its line; no JVM."""

import pytest

from sash.pipeline.config.read import PipelineFileError, parse

GOOD = """
checkpoint = "out/checkpoint"
[source]
format = "kafka"
topic = "payments"
servers = "broker:9092"
schema = "card string, ts timestamp, amount double"
watermark = "10 minutes"
[at]
format = "json"
path = "in/labels"
schema = "card string, label_ts timestamp, label_id long"
watermark = "1 minute"
time = "label_ts"
id = "label_id"
[[at.steps]]
where = "label_id > 0"
[rolling]
keys = ["card"]
time = "ts"
windows = ["1h"]
emit = "update"
[rolling.aggs]
total = "sum(amount)"
[sink]
format = "upsert"
path = "out/results"
"""


def changed(*pairs):
    text = GOOD
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def mistakes(*pairs):
    """Return the lines of the error."""
    with pytest.raises(PipelineFileError) as raised:
        parse(changed(*pairs))
    return str(raised.value).splitlines()


def test_the_questions_are_a_source_with_steps():
    at = parse(GOOD).at
    assert (at.format, at.path, at.watermark, at.time, at.id) == (
        "json",
        "in/labels",
        "1 minute",
        "label_ts",
        "label_id",
    )
    assert at.columns.endswith("label_id long") and [step.where for step in at.steps] == ["label_id > 0"]


def test_results_are_identified_by_the_questions():
    """By their time and id, which need not have names of their own; without an id there is a warning."""
    pipeline = parse(GOOD)
    assert (pipeline.identity, pipeline.anchor_time) == (["card", "label_ts", "label_id"], "label_ts")
    assert pipeline.warnings == []
    same = parse(changed(('time = "label_ts"\nid = "label_id"\n', ""), ('emit = "update"', 'emit = "final"')))
    assert (same.identity, same.anchor_time) == (["card", "ts"], "ts")
    (warning,) = same.warnings
    assert warning.startswith("pipeline.toml:9: at.id: missing; questions with equal card, ts are stored as one result")


MISTAKES = {
    "a watermark": (
        [('watermark = "1 minute"\n', "")],
        "9: at.watermark: missing; mode = 'streaming' needs a duration such as \"10 minutes\", or nothing would become "
        "final.",
    ),
    "an id": (
        [('id = "label_id"\n', "")],
        '9: at.id: missing; results that are revised, with emit = "update", need a column that tells questions apart.',
    ),
    "a grid": (
        [('emit = "update"', 'every = "1 minute"\nemit = "update"')],
        "22: rolling.every: must be omitted with [at], whose rows say when.",
    ),
    "columns of events": (
        [('emit = "update"', 'emit = "update"\ncarry = "amount"')],
        "23: rolling.carry: must be omitted with [at], whose own columns come back.",
    ),
    "a path": (
        [('path = "in/labels"\n', "")],
        "9: at.path: missing; format = 'json' needs the path of the files to read.",
    ),
    "a scheme": ([('"in/labels"', '""')], "11: at.path: "),
    "columns of files": (
        [('schema = "card string, label_ts timestamp, label_id long"\n', "")],
        "9: at.schema: missing; a str",
    ),
    "Kafka's": (
        [('format = "json"\npath', 'format = "kafka"\npath')],
        '9: at.topic: missing; format = "kafka" needs one topic to read, or an array of them.',
    ),
    "a topic": (
        [('path = "in/labels"', 'path = "in/labels"\ntopic = "x"')],
        "12: at.topic: needs format = \"kafka\", got 'json'.",
    ),
    "a step": (
        [('where = "label_id > 0"', 'where = "label_id > 0"\nselect = "card"')],
        "16: at.steps[0]: a step must have exactly one of `where` and `select`.",
    ),
    "a name": ([('time = "label_ts"', 'tiem = "label_ts"')], "14: at.tiem: unknown key; did you mean `time`?"),
    "a name of a step": (
        [('where = "label_id > 0"', 'were = "label_id > 0"')],
        "17: at.steps[0].were: unknown key; did you",
    ),
    "a type": ([('"label_ts"\n', "3\n")], "14: at.time: must be a string, got 3."),
}


@pytest.mark.parametrize(("pairs", "line"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_has_its_line(pairs, line):
    assert [found for found in mistakes(*pairs) if found.startswith(f"pipeline.toml:{line}")]


def test_a_table_without_keys_is_not_a_source():
    """Neither of questions nor of events."""
    a, b = GOOD.index("[at]"), GOOD.index("[rolling]")
    with pytest.raises(PipelineFileError, match=r"pipeline\.toml:9: at\.format: missing; expected a Spark format"):
        parse(GOOD[:a] + "[at]\n" + GOOD[b:])
    with pytest.raises(PipelineFileError, match=r"pipeline\.toml:2: source\.format: missing; expected a Spark format"):
        parse('mode = "batch"\n[source]\n' + GOOD[b:])


def test_a_batch_needs_no_watermark_of_questions():
    text = changed(('checkpoint = "out/checkpoint"', 'mode = "batch"'), ('watermark = "1 minute"\n', ""))
    assert parse(text).at.watermark is None


def test_a_history_with_questions_is_never_written_so_that_any_sink_does():
    """It only seeds the state."""
    past = '[history]\nformat = "parquet"\npath = "past"\n[rolling]'
    files = changed(("[rolling]", past), ('format = "upsert"', 'format = "parquet"'))
    assert parse(files).history.path == "past"
    a, b = files.index("[at]"), files.index("[history]")
    with pytest.raises(PipelineFileError, match="history: needs a sink whose rows replace those before them"):
        parse(files[:a] + files[b:])
