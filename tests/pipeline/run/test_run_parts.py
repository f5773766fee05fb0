"""The parts of a pipeline that need no JVM: errors as one sentence, quarantined rows, the size of a state."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as spark

from sash.errors import ArgumentError, CorruptStateError
from sash.pipeline.config.read import PipelineFileError, parse
from sash.pipeline.run import quarantine
from sash.pipeline.run.checkpoint import checkpoint_of
from sash.pipeline.run.error_text import cause_of
from sash.pipeline.run.quarantine import divided, prepare
from sash.pipeline.run.state_size import estimate
from sash.spark.stream.query import plan_of

QUERY = "Query payments [id = 59d25d6b, runId = 0ba98368] terminated with exception: "
AROUND = "\n=== Streaming Query ===\nIdentifier: payments [id = 59d25d6b]\nCurrent State: ACTIVE\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g(x: 1)\n'


JAVA = "An error occurred while calling o7.save.\n: org.apache.spark."
LOST = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in "
LOST += "stage 1.0 (TID 1) (localhost executor driver): org.apache.spark.SparkException: "

CAUSES = {
    "a sentence": ("plain", "plain."),
    "nothing": ("", "ValueError."),
    "a column": (
        "[A_B.C] There is no `x`. Did you mean `y`? SQLSTATE: 42703; line 1 pos 0;\n'Filter",
        "There is no `x`. Did you mean `y`?",
    ),
    "syntax": (
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'c'. SQLSTATE: 42601 (line 1, pos 4)\n\n== SQL ==",
        "Syntax error at or near 'c'.",
    ),
    "a stream": (
        f"[STREAM_FAILED] {QUERY}[X] It is gone. SQLSTATE: 42K03 SQLSTATE: XXKST{AROUND}",
        "It is gone.",
    ),
    "a sink of ours": (
        f"[FAILED] {QUERY}[Y] Reason: {TRACEBACK}sash.errors.ArgumentError: target: 'x' is bad.\n SQLSTATE: 3{AROUND}",
        "target: 'x' is bad.",
    ),
    "a worker": (
        f"An exception was thrown:\n{TRACEBACK}ValueError: no.\n\nDuring ...\n{TRACEBACK}KeyError: 'x'\n",
        "KeyError: 'x'.",
    ),
    "files": (
        ": org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory: file:/a\n\tat x.Y(Z:1)",
        "ParentNotDirectoryException: Parent path is not a directory: file:/a.",
    ),
    "a task": (
        f"{LOST}[WRITE] No. SQLSTATE: 58030\n\tat a.B.c\nCaused by: java.io.IOException: No space left on device\n\tat",
        "No space left on device.",
    ),
    "a format": (
        f"{JAVA}SparkClassNotFoundException: [X] Failed to find jsn. SQLSTATE: 42K02\n\tat x\n"
        "Caused by: java.lang.ClassNotFoundException: jsn.DefaultSource\n\tat y",
        "Failed to find jsn.",
    ),
}


@pytest.mark.parametrize("text, said", CAUSES.values(), ids=CAUSES)
def test_the_cause_of_a_failure_is_one_sentence(text, said):
    """Without error classes, SQL states, stack traces and wrappers."""
    assert cause_of(ValueError(text)) == said


def test_errors_of_sash_are_shown_as_they_are():
    assert cause_of(ArgumentError("keys: [X] SQLSTATE: 00000")) == "keys: [X] SQLSTATE: 00000"


# --- quarantine ------------------------------------------------------------------------------------


def batch(*rows):
    """Return rows of (value, reason) as a task gets them."""
    values, reasons = [value for value, _ in rows], [reason for _, reason in rows]
    texts = [None if reason is None else json.dumps(value) for value, reason in rows]
    columns = [pa.array(values, pa.int64()), pa.array(reasons, pa.string()), pa.array(texts, pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["c0", "c1", "c2"])


def files(root, kind="part", host=None):
    return quarantine._Files(str(root), kind, host)


def test_rows_with_a_reason_are_set_aside(tmp_path):
    """Usable rows pass under their names, the others are written to one file."""
    batches = [batch((1, None), (2, "ahead")), batch((3, None)), batch((4, "malformed"), (5, "null_time"))]
    good = list(divided(files(tmp_path), ["n"], iter(batches)))
    assert [row for part in good for row in part.to_pylist()] == [{"n": 1}, {"n": 3}]
    assert files_in(tmp_path) == {"batch=-1/part-00000.parquet"}
    assert pq.read_table(tmp_path).to_pylist() == [
        {"reason": "ahead", "row": "2", "batch": -1},
        {"reason": "malformed", "row": "4", "batch": -1},
        {"reason": "null_time", "row": "5", "batch": -1},
    ]


def test_without_bad_rows_there_is_no_file(tmp_path):
    assert sum(part.num_rows for part in divided(files(tmp_path), ["n"], iter([batch((1, None)), batch()]))) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_fails_leaves_nothing_and_its_repetition_overwrites(tmp_path):
    """A file has its name only when it is whole, and a second attempt gives the same one."""

    def failing():
        yield batch((1, "ahead"))
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(divided(files(tmp_path), ["n"], failing()))
    assert files_in(tmp_path) == set()
    for _ in range(2):
        list(divided(files(tmp_path), ["n"], iter([batch((1, "ahead"), (2, "ahead"))])))
    assert pq.read_table(tmp_path).num_rows == 2


def pipeline(tmp_path, **more):
    changed = {"checkpoint": tmp_path / "checkpoint", "quarantine.path": tmp_path / "aside", **more}
    text = """
    [source]
    format = "demo"
    watermark = "10 minutes"
    [rolling]
    keys = ["card"]
    time = "ts"
    windows = ["1h"]
    [rolling.aggs]
    total = "sum(amount)"
    [sink]
    format = "console"
    """
    return parse(text, overrides=[f"{key}={value}" for key, value in changed.items()])


@pytest.mark.parametrize("uri", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_what_a_stream_will_write_again_is_removed(tmp_path, uri):
    """Of its own files those after the last commit; another query's stay, and so does all before."""
    own = pipeline(tmp_path, checkpoint=uri.format(tmp_path / "checkpoint"))
    written = {
        "batch=0/part-aaaaaaaa-00000.parquet", "batch=1/part-aaaaaaaa-00000.parquet",
        "batch=2/part-aaaaaaaa-00000.parquet", "batch=2/.part-aaaaaaaa-00001.parquet.x",
        "batch=2/part-bbbbbbbb-00000.parquet", "batch=-1/part-00000.parquet",
        "batch=1/asked-aaaaaaaa-00000.parquet", "batch=2/asked-aaaaaaaa-00000.parquet",
        "batch=1/late-aaaaaaaa-00000.parquet", "batch=2/late-aaaaaaaa-00000.parquet", ".sash",
    }  # fmt: skip
    for name in written:
        (tmp_path / "aside" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "aside" / name).touch()
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    prepare(own, checkpoint_of(own))
    assert files_in(tmp_path / "aside") == written  # no query has run: whatever is there is another's
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "aaaaaaaa-1111"}')
    for number in (0, 1):
        (tmp_path / "checkpoint" / "commits" / str(number)).touch()
    prepare(own, checkpoint_of(own))
    gone = {name for name in written if name.startswith("batch=2/") and "aaaaaaaa" in name}
    assert files_in(tmp_path / "aside") == written - gone
    prepare(own, None)
    assert files_in(tmp_path / "aside") == written - gone - {"batch=-1/part-00000.parquet"}


def test_a_checkpoint_that_cannot_be_read_is_reported(tmp_path):
    """Rather than taken for a new one, whose quarantine would keep rows twice."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text("{")
    with pytest.raises(CorruptStateError, match="has a file metadata that cannot be read"):
        prepare(pipeline(tmp_path), checkpoint_of(pipeline(tmp_path)))


def test_a_worker_that_does_not_share_the_directory_fails(tmp_path):
    """Before it writes rows to a disk of its own; the driver's marker shows that the directory is the same."""
    bad = [batch((1, "ahead"))]
    with pytest.raises(
        ArgumentError, match=r"quarantine\.path must be a directory that the driver and all workers share"
    ):
        list(divided(files(tmp_path, host="driver.example"), ["n"], iter(bad)))
    assert files_in(tmp_path) == set()
    prepare(pipeline(tmp_path, **{"quarantine.path": tmp_path}), None)
    list(divided(files(tmp_path, host="driver.example"), ["n"], iter(bad)))
    assert files_in(tmp_path) == {".sash", "batch=-1/part-00000.parquet"}
    (tmp_path / "file").touch()
    with pytest.raises(PipelineFileError, match=r"quarantine\.path: path must be a directory that can be written, got"):
        prepare(pipeline(tmp_path, **{"quarantine.path": tmp_path / "file" / "aside"}), None)


def files_in(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


# --- the end, and the size of a state ----------------------------------------------------------------


SCHEMA = spark.StructType().add("card", "string").add("ts", "timestamp").add("amount", "long").add("note", "string")


def plan(tmp_path, **more):
    spec = pipeline(tmp_path, **{f"rolling.{name}": value for name, value in more.items()}).rolling.spec
    return plan_of(SCHEMA, spec, None)


def test_the_state_of_rows_follows_the_rate(tmp_path):
    """A window of 1 h, 2 h of lateness, 10 min of delay, at 10 rows a second."""
    found = estimate(plan(tmp_path, emit="final", lateness="2h"), "10 minutes", rows_per_second=10, keys=5)
    assert (found.span_seconds, found.entries) == (11_400, 114_000)
    assert found.lines()[0] == "114k rows: 10 rows/s × 3 h 10 min"
    twice = estimate(plan(tmp_path, emit="final", lateness="2h"), "10 minutes", rows_per_second=20, keys=5)
    assert 1.9 < twice.memory_bytes / found.memory_bytes < 2.1
    assert 1.9 < twice.stored_bytes / found.stored_bytes < 2.1
    carried = estimate(plan(tmp_path, emit="final", lateness="2h", carry="note"), "10m", rows_per_second=10, keys=5)
    assert carried.memory_bytes > found.memory_bytes + 12 * found.entries  # the text of a note


def test_the_state_of_windows_that_count_follows_the_keys(tmp_path):
    """The last 50 rows of each key before the horizon, or one aggregate, besides the rows after it."""
    last = plan(tmp_path, emit="final", windows=["50 rows"], idle="30d")
    found = estimate(last, "10 minutes", rows_per_second=10, keys=200)
    assert (found.span_seconds, found.entries) == (600, 6_000 + 200 * 50)
    assert found.lines()[0] == "16k rows: 10 rows/s × 10 min + 200 keys × 50"
    ever = plan(tmp_path, emit="final", windows=["unbounded"], idle="30d")
    assert estimate(ever, "10 minutes", rows_per_second=10, keys=200).entries == 6_200


def test_the_state_of_a_period_is_that_of_its_end(tmp_path):
    made = plan(tmp_path, emit="final", windows=["week to date"], zone="Europe/Berlin")
    assert estimate(made, "0s", rows_per_second=0.01, keys=5).entries == 6_048


def test_the_state_of_panes_follows_the_keys(tmp_path):
    """A pane a minute for each key, however many rows there are; and never more panes than rows."""
    made = plan(tmp_path, every="1 minute")
    busy, idle = (estimate(made, "0s", rows_per_second=rate, keys=100) for rate in (1e6, 0.01))
    assert (busy.pane_seconds, busy.entries, idle.entries) == (60, 6_100, 36)
    assert busy.lines()[0] == "6.1k panes: 100 keys × panes of 1 min over 1 h"
