"""sash new, check and run as a person would use them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sash
from sash import monoids, rolling
from sash.cli.app import app
from sash.cli.exit_codes import interruptible
from sash.durations import nanoseconds
from sash.errors import ArgumentError
from sash.pipeline.config.starter import STARTER
from sash.pipeline.sources.generated import demo
from sash.spark import upserted_table

PATIENCE = 240  # seconds, for a machine that is busy with something else

PAYMENTS = """\
name = "payments"
mode = "streaming"
checkpoint = "out/checkpoint"
finish = true

[source]
format = "demo"
watermark = "1 minute"
[source.options]
rows = 6_000
rows_per_batch = 2_500
keys = 10
rate = 20

[rolling]
keys = ["card"]
time = "ts"
windows = ["5m", "20m"]
every = "1 minute"
emit = "update"
lateness = "15 minutes"
buckets = 2
[rolling.aggs]
n = "count()"
total = "sum(amount)"

[sink]
format = "upsert"
path = "out/results"
"""

RECORDS = """\
mode = "batch"
[source]
format = "json"
path = "in"
schema = "card string, at timestamp, amount long"
[quarantine]
path = "out/aside"
ahead = "1 hour"
null_keys = "quarantine"
[rolling]
keys = ["card"]
time = "at"
windows = ["1h"]
[rolling.aggs]
total = "sum(amount)"
[sink]
format = "parquet"
path = "out/results"
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words):
    return CliRunner().invoke(app, list(words))


def in_order(table):
    return table.drop_columns(["revision"]).sort_by([("card", "ascending"), ("window_end", "ascending")])


# --- new and check ---------------------------------------------------------------------------------


def test_new_writes_a_file_that_passes_its_check_and_runs(spark, here):
    """The way of somebody who has never seen it; fewer rows, to be quick."""
    made = command("new")
    assert made.exit_code == 0
    assert "sash run pipeline.toml --once" in made.output
    assert (here / "pipeline.toml").read_text() == STARTER
    checked = command("check")
    assert checked.exit_code == 0, checked.output
    ran = command("run", "pipeline.toml", "--once", "--set", "source.options.rows=15000")
    assert ran.exit_code == 0, ran.output
    assert re.search(r"^batch 0 \| 3,000 rows in .* 0 late \| ", ran.output, re.MULTILINE)
    assert re.search(r"payments: done after .*: 15,000 rows in, .* \([1-9]\d* revised\), [1-9]\d* late, ", ran.output)
    assert upserted_table("out/results").num_rows > 0


def test_run_prints_json_and_serves_metrics(spark, here, monkeypatch):
    """A line for each micro-batch and one at the end; the port shows the same totals."""
    from sash.pipeline.run import prometheus

    given = []
    monkeypatch.setattr(prometheus, "serve", lambda port, totals: given.append((port, totals)) or (lambda: None))
    command("new")
    words = ["run", "pipeline.toml", "--once", "--set", "source.options.rows=6000", "--log", "json"]
    ran = command(*words, "--metrics", "9464")
    assert ran.exit_code == 0, ran.output
    *batches, end = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["event"] for line in batches] == ["batch"] * len(batches) and end["event"] == "end"
    ((port, totals),) = given
    (found,) = totals().values()
    assert port == 9464 and list(totals()) == ["payments"]
    assert found.counters["rows_in"] == sum(line["rows"] for line in batches) == end["rows_in"] == 6000
    assert found.counters["emitted"] == end["emitted"] and found.counters["batches"] == len(batches)


def test_new_does_not_overwrite_a_file(here):
    (here / "mine.toml").write_text("mine")
    refused = command("new", "mine.toml")
    assert refused.exit_code == 2
    assert refused.output == "mine.toml already exists; use --force to overwrite it.\n"
    assert (here / "mine.toml").read_text() == "mine"
    assert command("new", "mine.toml", "--force").exit_code == 0
    assert (here / "mine.toml").read_text() == STARTER
    assert command("new", "mine.toml/x").exit_code == 2


@pytest.mark.usefixtures("spark")
def test_check_shows_the_steps_the_columns_and_the_state(here):
    (here / "pipeline.toml").write_text(PAYMENTS)
    checked = command("check", "--set", 'steps=[{where="amount > 9"}]', "--rows-per-second", "1000", "--keys", "200")
    assert checked.exit_code == 0, checked.output
    for line in (
        "payments (streaming)",
        "source: demo",
        "where: amount > 9",
        "quarantine: malformed, null ts: counted only",
        "windows: 5m, 20m every 1 minute",
        "total = sum('amount')",
        "sink: upsert out/results",
        "7.4k panes: 200 keys × panes of 1 min over 36 min",
        "assuming 1000 rows/s and 200 keys",
        "pipeline.toml is valid.",
    ):
        assert line in checked.output
    assert re.search(r"^total_20m +bigint", checked.output, re.MULTILINE)
    assert not (here / "out").exists()


@pytest.mark.usefixtures("spark")
def test_check_shows_the_questions(here):
    """Their columns and their watermark."""
    at = '[at]\nformat = "parquet"\npath = "labels"\nschema = "card string, ts timestamp, label long"\nid = "label"\n'
    asking = PAYMENTS.replace('every = "1 minute"\n', "").replace("[rolling]", at + 'watermark = "1 hour"\n[rolling]')
    (here / "pipeline.toml").write_text(asking)
    (here / "labels").mkdir()
    checked = command("check")
    assert checked.exit_code == 0, checked.output
    for line in (
        "at: parquet labels",
        "card, ts, label",
        "watermark: ts - 1 hour; the smaller one counts",
        "windows: 5m, 20m for each question, as of ts",
        "questions that await an answer, or a revision, are stored too",
    ):
        assert line in checked.output
    assert re.findall(r"^(\w+) +\w+ *$", checked.output, re.MULTILINE)[:3] == ["card", "ts", "label"]


@pytest.mark.usefixtures("spark")
def test_check_refuses_sinks_that_cannot_be_written_and_warns_of_merged_events(here):
    """What `run` would only find after it has started Spark, or would do without a word."""
    (here / "pipeline.toml").write_text(PAYMENTS)
    misspelled = command("check", "--set", "sink.format=postgres", "--set", "sink.options={}")
    assert misspelled.exit_code == 2
    assert "sink.format: must be 'postgresql', got 'postgres'." in misspelled.output
    unknown = command("check", "--set", "sink.format=upsrt", "--set", "sink.options={}")
    assert unknown.exit_code == 2
    assert "sink.format: Failed to find the data source: upsrt" in unknown.output
    assert 'Accepted are "upsert", "delta", "postgresql", "kafka", "console", "table", "avro", ' in unknown.output
    batch_only = command("check", "--set", "sink.format=jdbc", "--set", "sink.options={}")
    assert batch_only.exit_code == 2
    assert "sink.format: must be a format that Spark can write a stream to, got 'jdbc'" in batch_only.output
    for sink in ("console", "parquet", "json", "noop"):
        assert command("check", "--set", f"sink.format={sink}", "--set", "sink.options={}").exit_code == 0, sink
    (here / "events.toml").write_text(PAYMENTS.replace('every = "1 minute"\n', ""))
    merged = "warning: events.toml:15: rolling.id: missing; rows with equal card, ts are stored as one result"
    assert merged in command("check", "events.toml").output
    assert "warning" not in command("check", "events.toml", "--set", "rolling.id=id").output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_and_the_second_interrupts(number):
    """A service manager sends SIGTERM, a person Ctrl-C; the handlers of before are restored."""
    before = signal.getsignal(number)
    with interruptible() as stop:
        signal.raise_signal(number)
        assert stop.is_set() and stop.code == 128 + number
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) == before


def test_mistakes_are_reported_with_their_lines_before_spark_starts(here):
    with pytest.raises(ArgumentError) as raised:
        nanoseconds("5 months", "windows")
    no_fixed_length = str(raised.value)
    (here / "wrong.toml").write_text(PAYMENTS.replace('"5m"', '"5 months"').replace("count()", "cont()"))
    for name in ("check", "run"):
        result = command(name, "wrong.toml")
        assert result.exit_code == 2
        lines = result.output.splitlines()
        assert lines[0] == f"wrong.toml:18: rolling.windows[0]: {no_fixed_length}"
        assert lines[1] == "wrong.toml:24: rolling.aggs.n: unknown aggregate cont in 'cont()'; did you mean count?"
        assert len(lines) == 2
    assert command("run", "nowhere.toml").output.startswith("nowhere.toml: no such file or directory;")


@pytest.mark.usefixtures("spark")
def test_a_missing_column_is_a_mistake_in_the_file(here):
    (here / "pipeline.toml").write_text(PAYMENTS.replace("sum(amount)", "sum(amuont)"))
    told = command("run")
    assert told.exit_code == 2
    assert (
        "pipeline.toml:25: rolling.aggs.total: column 'amuont' does not exist; the rows have ts, arrival" in told.output
    )


# --- run -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_the_same_file_as_a_stream_and_as_a_batch_gives_equal_rows(here):
    """By the command line alone, and both are what the engine gives in this process."""
    (here / "pipeline.toml").write_text(PAYMENTS)
    stream = command("run", "--once")
    assert stream.exit_code == 0, stream.output
    batch = command("run", "--mode", "batch", "--set", "sink.path=out/batch")
    assert batch.exit_code == 0, batch.output
    assert in_order(upserted_table("out/results")) == in_order(upserted_table("out/batch"))
    assert in_order(upserted_table("out/batch")) == recomputed()


def recomputed():
    """Return what the events of PAYMENTS come to, without Spark."""
    events = pa.Table.from_batches([demo(rows=6000, keys=10, rate=20).batch(0, 6000)])
    aggs = {"n": monoids.count(), "total": monoids.sum("amount")}
    wanted = rolling(events, keys=["card"], time="ts", windows=["5m", "20m"], every="1 minute", aggs=aggs)
    ordered = wanted.sort_by([("card", "ascending"), ("window_end", "ascending")])
    return ordered.cast(upserted_table("out/results").drop_columns(["revision"]).schema)


@pytest.mark.usefixtures("spark")
def test_poisoned_rows_are_counted_and_set_aside(here):
    """A bad time, a null key, broken JSON, a row from the far future: none ends the run, none is gone."""
    rows = [
        {"card": "a", "at": "2026-01-01T00:00:00Z", "amount": 1},
        {"card": "a", "at": "2026-01-01T00:01:00Z", "amount": 2},
        {"card": "a", "at": "last week", "amount": 3},
        {"card": None, "at": "2026-01-01T00:00:00Z", "amount": 4},
        {"card": "b", "at": None, "amount": 5},
        {"card": "b", "at": "9998-01-01T00:00:00Z", "amount": 6},
    ]
    (here / "in").mkdir()
    (here / "in" / "rows.json").write_text("\n".join([*map(json.dumps, rows), '{"card": "b", "at']))
    (here / "pipeline.toml").write_text(RECORDS)
    ran = command("run")
    assert ran.exit_code == 0, ran.output
    assert "pipeline: done after" in ran.output
    assert "7 rows in, 2 results out (0 revised), 0 late, 5 quarantined" in ran.output
    reasons = sorted(row["reason"] for row in pq.read_table("out/aside").to_pylist())
    assert reasons == ["ahead", "malformed", "malformed", "null_key", "null_time"]
    assert sorted(pq.read_table("out/results")["total_1h"].to_pylist()) == [1, 3]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("mode", ["batch", "available-now"])
def test_a_sink_that_cannot_be_written_is_reported_in_a_sentence(here, mode):
    """Exit code 1, the cause, and no stack of Java's or Python's."""
    (here / "pipeline.toml").write_text(PAYMENTS)
    (here / "file").touch()
    told = command("run", "--mode", mode, "--set", "sink.path=file/results", "--set", "sink.format=parquet")
    assert told.exit_code == 1
    last = told.output.splitlines()[-1]
    assert last.startswith("payments: ") and "not a directory" in last and last.endswith(".")
    assert "Traceback" not in told.output and "\tat " not in told.output


def test_sigterm_stops_and_the_same_command_resumes(spark, here):
    """A process is terminated, another resumes, which is this one, and the results are right."""
    (here / "pipeline.toml").write_text(
        PAYMENTS.replace("2_500", "2_000").replace("rate = 20", "rate = 20\nspeed = 50")
    )
    first = subprocess.Popen(
        [*SASH, "run", "--plain"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    )
    lines = []
    while not any(line.startswith("batch ") for line in lines):
        lines.append(first.stdout.readline())
        assert lines[-1], "".join(lines)
    first.send_signal(signal.SIGTERM)
    rest, _ = first.communicate(timeout=PATIENCE)
    said = "".join(lines) + rest
    assert first.returncode == 143, said
    assert "payments: stopped after" in said
    assert "Stopped cleanly. To resume: sash run pipeline.toml" in said
    second = command("run", "--once")
    assert second.exit_code == 0, second.output
    assert second.stderr == ""
    assert in_order(upserted_table("out/results")) == recomputed()


def test_a_module_of_the_working_directory_is_found(here):
    """In a process of its own, and by its workers; nothing but the results of sash is printed."""
    (here / "ours.py").write_text(
        "from sash import Monoid\n"
        "def joined(a, b):\n"
        "    return a + b\n"
        "def letter(value):\n"
        "    return value[:1]\n"
        "letters = Monoid(identity='', combine=joined, lift=letter, name='letters', returns='string')\n"
    )
    (here / "pipeline.toml").write_text(PAYMENTS.replace("sum(amount)", "ours:letters(merchant)"))
    small = ["--mode", "batch", "--set", "source.options.rows=300", "--set", "source.options.keys=2"]
    ran = subprocess.run([*SASH, "run", *small], capture_output=True, text=True, env=environment(), check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    table = upserted_table("out/results")
    for row in table.to_pylist():
        assert len(row["total_5m"] or "") == row["n_5m"]


@pytest.mark.usefixtures("spark")
def test_a_failure_is_shown_with_its_traceback(here):
    """It is raised as it came from Spark; a process that ends like this prints it."""
    (here / "pipeline.toml").write_text(PAYMENTS)
    (here / "file").touch()
    small = ["--mode", "batch", "--set", "source.options.rows=300"]
    told = command("run", *small, "--traceback", "--set", "sink.path=file/x")
    assert told.exit_code == 1
    assert "must be a directory that can be created" in str(told.exception)
    alone = subprocess.run(
        [*SASH, "run", "nowhere.toml", "--traceback"], capture_output=True, text=True, env=environment(), check=False
    )
    assert alone.returncode == 1
    assert "Traceback (most recent call last)" in alone.stderr and "nowhere.toml: no such file" in alone.stderr


SASH = [sys.executable, "-m", "sash"]


def environment():
    """Have a process find this sash from any directory."""
    return {**os.environ, "PYTHONPATH": str(Path(sash.__file__).parents[1])}


# --- the rest --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run", "check", "new", "demo", "doctor", "figures", "bench"])
def test_help_teaches_by_example(name):
    told = command(name, "--help")
    assert told.exit_code == 0
    assert "Examples" in told.output and f"sash {name}" in told.output.split("Examples")[1]


def test_the_version_is_printed():
    assert command("--version").output == f"sash {sash.__version__}\n"
    assert command("--help").exit_code == 0
    assert command("runn").exit_code == 2


@pytest.mark.parametrize("missing", ["typer", "pydantic"])
def test_a_missing_extra_is_reported_in_a_sentence(monkeypatch, capsys, missing):
    import importlib.util

    from sash.cli import main

    real = importlib.util.find_spec
    monkeypatch.setattr("sash.cli.find_spec", lambda name: None if name == missing else real(name))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    wanted = f'The command line needs {missing}, which is not installed: pip install "sash[cli,spark]".\n'
    assert capsys.readouterr().err == wanted


def test_completion_is_offered():
    shell = shutil.which("bash") or "bash"
    told = subprocess.run(
        [*SASH, "--show-completion", "bash"], capture_output=True, text=True, check=False,
        env={**environment(), "SHELL": shell, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "_SASH_COMPLETE=complete_bash" in told.stdout
