"""sash checkpoint show, verify and export: on the checkpoint of a pipeline, and their words without a Spark."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sash.spark
from sash.cli import checkpoint
from sash.cli.app import app
from sash.errors import CorruptStateError
from sash.spark.stream.description import BucketSize, DescribedDefinition, Description
from sash.spark.stream.findings import Finding
from sash.spark.stream.verification import Verification

PIPELINE = """\
name = "payments"
mode = "available-now"
checkpoint = "out/checkpoint"
[source]
format = "demo"
watermark = "1 minute"
[source.options]
rows = 3_000
keys = 10
rate = 20
[rolling]
keys = ["card"]
time = "ts"
windows = ["5m", "20m"]
every = "1 minute"
emit = "update"
buckets = 2
[rolling.aggs]
total = "sum(amount)"
[sink]
format = "noop"
"""
TIME = datetime(2026, 1, 1, 12, tzinfo=UTC)


def command(*words: str) -> Any:
    return CliRunner().invoke(app, ["checkpoint", *words], terminal_width=200)


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a pipeline that has run."""
    place = tmp_path_factory.mktemp("pipeline")
    (place / "pipeline.toml").write_text(PIPELINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        ran = CliRunner().invoke(app, ["run"])
    assert ran.exit_code == 0, ran.output
    return place


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That directory, to work in."""
    monkeypatch.chdir(folder)
    return folder


# --- of a pipeline --------------------------------------------------------------------------------


def test_show_describes_the_checkpoint_of_a_pipeline(here):
    shown = command("show", "pipeline.toml")
    assert shown.exit_code == 0, shown.output
    for line in (
        "out/checkpoint",
        "micro-batch",
        "watermark 20",
        "format           version 3",
        "2 pending, the next at 20",
        "├── keys: card",
        "├── windows: 5m, 20m",
        "every=1 minute, emit=update, ",
        "total = sum('amount')",
        "columns, stored as panes",
        "card string",
    ):
        assert line in shown.output, line


def test_json_is_the_same_by_directory_and_by_file(here):
    by_file, by_directory = (command("show", path, "--json") for path in ("pipeline.toml", "out/checkpoint"))
    assert by_file.exit_code == by_directory.exit_code == 0
    found = json.loads(by_file.stdout)
    assert found == json.loads(by_directory.stdout)
    assert found["definitions"][0]["arguments"]["buckets"] == 2 and found["buckets"] == 2


def test_verify_says_that_it_is_sound(here):
    verified = command("verify", "pipeline.toml")
    assert verified.exit_code == 0, verified.output
    assert "is sound: " in verified.stdout and " rows in 2 buckets." in verified.stdout
    report = json.loads(command("verify", "out/checkpoint", "--json").stdout)
    assert report["sound"] is True and report["findings"] == []


def test_export_writes_once(here):
    written = command("export", "pipeline.toml", "out/rows")
    assert written.exit_code == 0, written.output
    rows = pq.read_table("out/rows")
    assert written.stdout.startswith(f"Wrote {rows.num_rows:,} rows of micro-batch ")
    refused = command("export", "pipeline.toml", "out/rows")
    assert refused.exit_code == 2
    assert refused.output.startswith("out must be a directory that does not exist or is empty, got '")


def test_mistakes_in_the_arguments(here):
    """Exit code 2, a sentence, and no traceback."""
    (here / "batch.toml").write_text(PIPELINE.replace("available-now", "batch").replace('checkpoint = "out', '# "out'))
    (here / "empty").mkdir()
    for words, sentence in (
        (
            ["show", "nowhere"],
            "path must be the directory of a checkpoint, or a pipeline file, got 'nowhere', which does",
        ),
        (["show", "batch.toml"], "batch.toml:1: checkpoint: missing; mode = 'batch' needs none."),
        (["verify", "empty"], "checkpoint must be the checkpointLocation of a query with a rolling aggregation, got '"),
        (["show", "out/checkpoint", "--batch", "99"], "batch must be a committed micro-batch from 0 to "),
    ):
        refused = command(*words)
        assert refused.exit_code == 2, refused.output
        assert sentence in refused.output and "Traceback" not in refused.output


# --- without a Spark ------------------------------------------------------------------------------

ARGUMENTS = {"keys": ["k"], "time": "t", "windows": ["1h"], "retract": {"condition": "x < 0"}, "every": None}
COLUMNS = {"k": "string", "x": "int64"}
DEFINITION = DescribedDefinition("ab12", 3, True, ARGUMENTS, {"n": "count()"}, COLUMNS, ["k"], False)
OLDER = DescribedDefinition("cd34", 1, False, None, None, None, None, None)
DESCRIBED = Description(
    *("s3://bucket/checkpoint", "abc", 7, TIME, [2, 3], 4, 5, 6_000, 5_000, 70_000, TIME, TIME, TIME, TIME, 3, TIME),
    *(BucketSize(8, 4_000, 50_000), BucketSize(0, 0, 0), [9], [DEFINITION, OLDER]),
)
VERIFIED = Verification("s3://bucket/checkpoint", "abc", 7, TIME, 4, 5, 6_000, 0, 0, [])


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the functions of `sash.spark` return instead of reading a checkpoint."""
    monkeypatch.setattr(checkpoint, "opened", lambda path, traceback, brief=True: (path, SimpleNamespace()))

    def answer(name: str, returned: Any) -> None:
        def called(*_: Any, **__: Any) -> Any:
            if isinstance(returned, Exception):
                raise returned
            return returned

        monkeypatch.setattr(sash.spark, name, called)

    return answer


def test_show_names_older_definitions_and_damaged_heads(answers):
    answers("describe_checkpoint", DESCRIBED)
    shown = command("show", "s3://bucket/checkpoint").output
    for line in (
        "version 2 and 3",
        "heads of buckets 9; see sash checkpoint verify",
        "5 with 6,000 rows, 70 kB",
        "5,000 rows, from 2026-01-01 12:00:00 UTC",
        "largest bucket   8: 4,000 rows, 50 kB",
        "definition ab12, 3 of 4 buckets",
        "retract='x < 0'",
        "x int64, not stored",
        "older definition cd34, 1 of 4 buckets",
        "written by an older version of sash, which stored the fingerprint only",
    ):
        assert line in shown, line


def test_show_says_what_the_fingerprint_alone_does_not_say(answers):
    answers(
        "describe_checkpoint", replace(DESCRIBED, definitions=[OLDER], rows_retained=None, oldest=None, horizon=None)
    )
    shown = command("show", "out").output
    assert "unknown: it depends on the definition" in shown
    assert "retained  " not in shown and "horizon          none" in shown


def test_verify_lists_findings(answers):
    """Exit code 1; those of many are counted, and all are in the JSON."""
    findings = [Finding(4, seq, "missing", "the head lists it, but it is not stored") for seq in range(40)]
    answers(
        "verify_checkpoint",
        replace(VERIFIED, findings=[*findings, Finding(5, None, "head", "no")], leftovers=3, unchecked=2),
    )
    told = command("verify", "out")
    assert told.exit_code == 1
    lines = told.output.splitlines()
    assert lines[0] == "bucket 4, record 0: the head lists it, but it is not stored"
    assert lines[30] == "and 11 more; --json prints all of them"
    assert lines[31].startswith("3 records are listed by no head;")
    assert lines[32].startswith("An older version of sash wrote 2 records, without their definition;")
    assert lines[33].endswith("is damaged: 41 findings in 2 buckets.") and len(lines) == 34
    told = command("verify", "out", "--json")
    assert told.exit_code == 1
    report = json.loads(told.stdout)
    assert report["sound"] is False and len(report["findings"]) == 41
    assert report["findings"][40] == {"bucket": 5, "record": None, "kind": "head", "text": "no"}


def test_a_state_that_cannot_be_exported_fails(answers):
    answers("export_checkpoint", CorruptStateError("1 of 2 buckets have rows.", argument="checkpoint"))
    failed = command("export", "out", "rows")
    assert (failed.exit_code, failed.output) == (1, "1 of 2 buckets have rows.\n")


@pytest.mark.parametrize("name", ["show", "verify", "export"])
def test_help_teaches_by_example(name):
    told = command(name, "--help")
    assert told.exit_code == 0
    assert f"sash checkpoint {name}" in told.output.split("Examples")[1]
    assert "Exit codes: 0" in " ".join(told.output.split())


# --- query ----------------------------------------------------------------------------------------


def ask(*words: str) -> Any:
    return CliRunner().invoke(app, ["query", *words], terminal_width=200)


def test_query_prints_the_results_of_keys(here):
    """The same by file and by directory, as a table and as JSON; a key that nobody has seen has none."""
    listed = ask("pipeline.toml", "--key", "card=nobody", "--key", '{"card": null}', "--json")
    assert listed.exit_code == 0, listed.output
    found = json.loads(listed.stdout)
    assert found["rows"] == [{"card": card, "total_5m": None, "total_20m": None} for card in ("nobody", None)]
    cards = sash.spark.inspect("out/checkpoint", rows=True)["card"].unique().to_pylist()[:2]
    rows = json.loads(ask("out/checkpoint", *(f"--key=card={card}" for card in cards), "--json").stdout)["rows"]
    assert [row["card"] for row in rows] == cards and all(row["total_20m"] > 0 for row in rows)
    shown = ask("pipeline.toml", f"--key=card={cards[0]}")
    assert shown.exit_code == 0, shown.output
    assert f"as of micro-batch {found['batch']}, watermark 20" in shown.output
    assert [word for word in ("card", "total_5m", "total_20m", cards[0]) if word not in shown.output] == []


def test_mistakes_in_a_query(here):
    for words, sentence in (
        (["--key", "card"], "key must be COLUMN=VALUE, several with commas, or a JSON object, got 'card'."),
        (["--key", "shop=a"], "key must have the columns card, got {'shop': 'a'}."),
        (["--at", "yesterday"], "at must be a time such as 2026-01-01T10:00, got 'yesterday'."),
        (["--at", "2020-01-01"], "at must be 20"),
        (["--start", "2026-01-01"], "start and stop must be passed together and without at"),
    ):
        refused = ask("out/checkpoint", *words)
        assert refused.exit_code == 2, refused.output
        assert sentence in refused.output and "Traceback" not in refused.output
