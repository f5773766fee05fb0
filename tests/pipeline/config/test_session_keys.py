"""Sessions in pipeline files: what is read, what identifies results, and every mistake with its line; no JVM."""

import pyarrow as pa
import pytest

from sash.cli.check import _windows
from sash.pipeline.config.read import PipelineFileError, parse
from sash.pipeline.run.state_size import estimate
from sash.pipeline.testing import needs_spark, results_of
from sash.spark.stream.plan import Plan

GOOD = """
checkpoint = "out/checkpoint"
[source]
format = "kafka"
topic = "clicks"
servers = "broker:9092"
schema = "user string, ts long, page string"
watermark = "10 minutes"
[rolling]
keys = ["user"]
time = "ts"
per = "session"
gap = 5
emit = "update"
[rolling.aggs]
n = "count()"
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


def test_sessions_are_identified_by_keys_and_start():
    """And so an upsert needs no id, and warns of none."""
    pipeline = parse(GOOD)
    assert pipeline.identity == ["user", "session_start"]
    assert pipeline.warnings == []
    assert pipeline.rolling.result_names == {"n": ["n"]}
    assert pipeline.rolling.spec.gap == 5
    assert _windows(pipeline) == "sessions: events at most 5 apart"


def test_rows_in_process():
    assert not needs_spark(parse(GOOD))
    rows = [{"user": "u", "ts": time, "page": "p"} for time in (0, 5, 11)]
    found = results_of(parse(GOOD), rows)
    assert found.to_pylist() == [
        {"user": "u", "session_start": 0, "session_end": 10, "n": 2},
        {"user": "u", "session_start": 11, "session_end": 16, "n": 1},
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gap = 5\n", "", '9: rolling.gap: missing; per = "session" needs the longest time between two events'),
        ('per = "session"\n', 'windows = ["1h"]\n', '13: rolling.gap: cannot be used without per = "session".'),
        ('per = "session"\ngap = 5\n', "", "9: rolling.windows: missing; expected sizes, as in"),
        ("gap = 5\n", 'gap = 5\nwindows = ["1h"]\n', '14: rolling.windows: must be omitted with per = "session".'),
        ("gap = 5\n", "gap = 5\nevery = 3\n", '14: rolling.every: must be omitted with per = "session".'),
        ("gap = 5\n", 'gap = "5 parsecs"\n', "13: rolling.gap: gap must be a duration"),
        ('"update"', '"arrival"', "14: rolling.emit: emit must be 'final' or 'update' with per"),
        ('per = "session"', 'per = "visit"', "12: rolling.per: must be 'event' or 'session', got 'visit'."),
        ("[rolling]\n", '[at]\nformat = "rate"\nwatermark = "1s"\n[rolling]\n', '9: at: must be omitted with per = "s'),
        ("[rolling]\n", '[history]\nformat = "rate"\n[rolling]\n', '9: history: must be omitted with per = "session".'),
    ],
)
def test_a_mistake_is_reported_with_its_line(old, new, said):
    lines = mistakes((old, new))
    assert [line for line in lines if line.startswith(f"pipeline.toml:{said}")], lines


def test_the_state_is_estimated_for_each_open_session():
    """Rows of the lateness and the delay, and a session for each key, whatever the gap is."""
    schema = pa.schema({"user": pa.string(), "ts": pa.timestamp("us", "UTC")})
    sizes = []
    for gap in ("1 minute", "30 minutes"):
        spec = parse(changed(("gap = 5", f'gap = "{gap}"'))).rolling.spec
        found = estimate(Plan(spec, schema, 4), "10 minutes", rows_per_second=100, keys=2_000)
        assert found.entries == 100 * 600 + 2_000
        assert found.lines()[0] == "62k rows and open sessions: 100 rows/s × 10 min and 2k keys"
        sizes.append(found.memory_bytes)
    assert 0.5 < sizes[0] / sizes[1] < 2
