"""Pipeline files on a few rows: in process where that is possible, on Spark otherwise, with the same results."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sash.errors import ArgumentError
from sash.pipeline.config.read import PipelineFileError, parse
from sash.pipeline.testing import needs_spark, results_of

FILE = """
mode = "streaming"
checkpoint = "out/checkpoint"
[source]
format = "kafka"
topic = "payments"
servers = "broker:9092"
schema = "card string, at timestamp, amount double"
watermark = "10 minutes"
[rolling]
keys = ["card"]
time = "at"
windows = ["1h"]
lateness = "1h"
[rolling.aggs]
n = "count()"
total = "sum(amount)"
[sink]
format = "delta"
path = "out/results"
"""
STEPS = FILE.replace("[rolling]\n", '[[steps]]\nwhere = "amount > 1"\n[rolling]\n')


def at(minute):
    return datetime(2026, 1, 1, 10, minute, tzinfo=UTC)


ROWS = [
    {"card": "a", "at": at(0), "amount": 5.0},
    {"card": "a", "at": at(20), "amount": 2.0},
    {"card": "b", "at": at(10), "amount": 1.0},
]


ASKING = FILE.replace(
    "[rolling]\n",
    """[at]
format = "parquet"
path = "labels"
schema = "card string, label_at timestamp, label long"
watermark = "1 minute"
time = "label_at"
id = "label"
[rolling]
""",
)
ASKED = [
    {"card": "a", "label_at": at(30), "label": 1},
    {"card": "z", "label_at": at(30), "label": 2},
    {"card": "a", "label_at": at(19), "label": None},
    {"card": "a", "label_at": None, "label": 4},
    {"card": "a", "label_at": at(19), "label": 5},
]


def test_questions_are_rows_too(spark):
    """In process, and on Spark, where their steps are; those that the quarantine would take are left out."""
    wanted = [(1, 2, 7.0), (2, 0, None), (5, 1, 5.0)]
    steps = ASKING.replace("[rolling]\n", '[[at.steps]]\nwhere = "label <> 5"\n[rolling]\n')
    for text, session, rows in ((ASKING, None, wanted), (ASKING, spark, wanted), (steps, spark, wanted[:2])):
        assert needs_spark(parse(text)) == (text == steps)
        found = results_of(parse(text), ROWS, at=ASKED, spark=session)
        assert found.column_names[:3] == ["card", "label_at", "label"]
        answers = zip(*[found[name].to_pylist() for name in ("label", "n_1h", "total_1h")], strict=True)
        assert sorted(answers) == rows
    with pytest.raises(ArgumentError, match=r"at must be the questions of \[at\], got None"):
        results_of(parse(ASKING), ROWS)
    with pytest.raises(ArgumentError, match=r"at must be omitted for a pipeline without \[at\], got \[\{"):
        results_of(parse(FILE), ROWS, at=ASKED)


def totals(table):
    return sorted(zip(table["card"].to_pylist(), table["total_1h"].to_pylist(), strict=True))


def test_a_file_without_steps_takes_no_spark(tmp_path):
    """From a path with overrides, rows as dicts or as a table; nothing is written."""
    path = tmp_path / "pipeline.toml"
    path.write_text(FILE)
    assert totals(results_of(path, ROWS)) == [("a", 5.0), ("a", 7.0), ("b", 1.0)]
    assert totals(results_of(parse(FILE), pa.Table.from_pylist(ROWS))) == [("a", 5.0), ("a", 7.0), ("b", 1.0)]
    found = results_of(path, ROWS, overrides=['rolling.every="30 minutes"'])
    assert found["window_end"].to_pylist()[:1] == [at(30)]
    assert [one.name for one in tmp_path.iterdir()] == ["pipeline.toml"]


@pytest.mark.parametrize(
    "text", [STEPS, FILE.replace('lateness = "1h"', 'lateness = "1h"\nretract = "amount < 0"\nid = "amount"')]
)
def test_some_files_need_spark(text):
    assert needs_spark(parse(text)) and not needs_spark(parse(FILE))


def test_steps_run_on_spark(spark):
    """And what can be computed in both places is the same."""
    assert totals(results_of(parse(STEPS), ROWS, spark=spark)) == [("a", 5.0), ("a", 7.0)]
    both = [totals(results_of(parse(FILE), ROWS, spark=one)) for one in (None, spark)]
    assert both[0] == both[1]
    with pytest.raises(PipelineFileError, match="amuont"):
        results_of(parse(STEPS.replace("amount > 1", "amuont > 1")), ROWS, spark=spark)
