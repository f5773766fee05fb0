"""sash demo as a person would use it: killed, interrupted, resumed, verified, and corrupted."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from sash import plot_style
from sash.cli.app import app
from sash.demo import summary
from sash.demo.run import Folder, Settings, late_counted, pipeline_of, rules_of
from sash.errors import ArgumentError, ConcurrentUseError, CorruptStateError
from sash.pipeline.run import run as run_module
from sash.pipeline.run import spark_session
from sash.spark import upserted_table
from sash.spark.upserts.delta_sql import literal

ROWS = 9_000  # six micro-batches
PATIENCE = 240  # seconds, for a machine that is busy with something else


class Run:
    """A demo in a process group of its own, whose lines can be waited for."""

    def __init__(self, out, *options):
        command = [sys.executable, "-m", "sash", "demo", "--plain", "--out", str(out), *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.lines = []

    def wait_for_batches(self, count):
        """Read until so many micro-batches have been reported."""
        while sum(line.startswith("batch ") for line in self.lines) < count:
            line = self.process.stdout.readline()
            assert line, "the demo ended early:\n" + "".join(self.lines)
            self.lines.append(line)

    def end(self, number=None):
        """Send a signal, to all of it where that is SIGKILL, and give the exit code."""
        if number == signal.SIGKILL:
            os.killpg(self.process.pid, number)
        elif number is not None:
            self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=PATIENCE)
        self.lines += rest.splitlines(keepends=True)
        return self.process.returncode

    @property
    def text(self):
        return "".join(self.lines)


@pytest.fixture(scope="module")
def ended(spark, tmp_path_factory):
    """Two runs in one folder: one that is killed after some micro-batch, and one here that resumes and ends."""
    out = tmp_path_factory.mktemp("demo") / "out"
    killed = Run(out, "--rows", str(ROWS))
    killed.wait_for_batches(random.Random(20).randint(1, 3))
    assert killed.end(signal.SIGKILL) == -signal.SIGKILL
    return out, killed, again(out, "--plain")


def test_a_killed_demo_resumes_and_ends_with_the_right_results(ended):
    """After kill -9 the same command resumes from the checkpoint, and every result is right."""
    out, _, last = ended
    assert last.exit_code == 0, last.output
    found = re.search(r"Verified: ([\d,]+) results of ([\d,]+) cards", last.output)
    assert found is not None and int(found[1].replace(",", "")) == upserted_table(out / "results").num_rows > 10_000
    assert last.output.count("Traceback") == 0


def test_micro_batches_resume_by_number(ended):
    """The second run begins where the first one was: nothing starts over, and at most one micro-batch ran twice."""
    out, killed, last = ended
    first, second = (
        [int(n) for n in re.findall(r"^batch (\d+) ", text, re.MULTILINE)] for text in (killed.text, last.output)
    )
    assert first == list(range(len(first))) and second == list(range(second[0], second[-1] + 1))
    # Between the last line of a run that was killed and its end a micro-batch or two may have been committed.
    assert second[0] > first[-1] and "Resuming the demo in " in last.output and " after micro-batch " in last.output
    batches = summary.recorded(out / "progress.jsonl")
    numbers = [batch["batch"] for batch in batches]
    assert numbers == sorted(set(numbers)) and numbers[-1] == second[-1]
    assert len({batch["run"] for batch in batches}) == 2


def test_the_report_is_there(ended):
    out, *_ = ended
    assert {path.name for path in (out / "pictures").iterdir()} == {"arrival.png", "revisions.png", "load.png"}
    assert "every result verified" in (out / "report.html").read_text()
    assert (out / "report.png").read_bytes()[:4] == b"\x89PNG"


def again(out, *options):
    return CliRunner().invoke(app, ["demo", "--out", str(out), *options])


def test_a_finished_demo_is_verified_again(ended, monkeypatch):
    """No Spark is needed for that, and without matplotlib it says how to get pictures."""
    out, *_ = ended
    monkeypatch.setattr(plot_style, "available", lambda: False)
    result = again(out)
    assert result.exit_code == 0, result.output
    assert (
        "has a finished demo of 9,000 payments, seed 7: verifying it again. Use --fresh to start over." in result.output
    )
    assert "Verified: " in result.output and 'pip install "sash[plot]"' in result.output
    assert "Next steps" in result.output


def test_one_corrupted_result_is_found(ended, tmp_path):
    """A value that is changed on disk is named by its key and time, and the exit code is 1."""
    out = tmp_path / "out"
    shutil.copytree(ended[0], out)
    table, row = upserted_table(out / "results"), 0
    right, card, end = table["total_30m"][row].as_py(), table["card"][row].as_py(), table["window_end"][row]
    where = f"card = '{card}' AND window_end = {literal(end, end.type)}"
    DeltaTable(out / "results").update(updates={"total_30m": "total_30m + 1"}, predicate=where)
    result = again(out)
    assert result.exit_code == 1
    when = table["window_end"][row].as_py().strftime("%Y-%m-%d %H:%M:%S")
    said = f"card {table['card'][row]} at {when}: total_30m is {right + 1}, not {right}"
    assert "WRONG: 1 of " in result.output and said in result.output
    assert said in (out / "report.html").read_text()


@pytest.mark.parametrize(
    "options, said",
    [
        (("--rows", "5000"), "--rows must be 9000 to resume the demo in"),
        (("--seed", "8"), "--seed must be 7 to resume the demo in"),
        (("--seconds", "10", "--rows", "5000"), "--seconds and --rows cannot be combined, got 10 and 5000."),
    ],
)
def test_another_demo_in_the_same_folder_is_refused(ended, options, said):
    result = again(ended[0], *options)
    assert result.exit_code == 2 and said in result.output


def test_an_interrupted_demo_says_how_to_resume(tmp_path, monkeypatch):
    """Reported micro-batches are recorded, and a demo that was stopped is not taken for a finished one."""
    progress = run_module.Progress(0, 1_500, 1.0, 1_500.0, None, 0, 0, 0, 0, 1, 1, None)

    def run(pipeline, *, spark, on_progress, stop):
        on_progress(progress)
        on_progress(replace(progress, batch=1, rows=0))  # of a query that found nothing to do
        return run_module.Outcome(rows_in=1_500, batches=1, stopped=True)

    monkeypatch.setattr(run_module, "run", run)
    monkeypatch.setattr(spark_session, "session_of", lambda *_, **__: None)
    result = again(tmp_path, "--rows", "3000")
    assert result.exit_code == 130
    assert f"Stopped cleanly. To resume: sash demo --out {tmp_path}" in result.output
    assert [batch["batch"] for batch in summary.recorded(tmp_path / "progress.jsonl")] == [0]
    assert not Folder(tmp_path).settings().finished


# --- the folder, without Spark ----------------------------------------------------------------------


def test_files_that_are_not_a_demos_are_left_alone(tmp_path):
    """Nothing is overwritten, not even by --fresh, and a fresh start removes only what a demo made."""
    folder = Folder(tmp_path)
    (tmp_path / "results").mkdir()
    for fresh in (False, True):
        with pytest.raises(ArgumentError, match="exists and does not belong to a demo; use another --out"):
            folder.prepare(None, None, fresh)
    (tmp_path / "results").rmdir()
    (tmp_path / "thesis.txt").write_text("mine")
    first = folder.prepare(1_000, 3, fresh=False)
    (tmp_path / "results").mkdir()
    summary.record(folder.progress, {"batch": 0})
    assert folder.prepare(2_000, None, fresh=True) == Settings.of(2_000, 7) != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.json", "thesis.txt"]


def test_a_fresh_start_that_was_killed_is_completed(tmp_path):
    """Old files that were removed in part are not taken for a run to resume."""
    folder = Folder(tmp_path)
    old = folder.prepare(1_000, 3, fresh=False)
    folder.save(replace(old, finished=True, clearing=True))
    (tmp_path / "results").mkdir()
    assert folder.prepare(None, None, fresh=False) == Settings.of(2_400_000, 7)
    assert not (tmp_path / "results").exists()


def test_options_default_to_those_of_the_run_to_resume(tmp_path):
    folder = Folder(tmp_path)
    begun = folder.prepare(5_000, 3, fresh=False)
    assert folder.prepare(None, None, fresh=False) == folder.prepare(5_000, 3, fresh=False) == begun


def test_two_demos_in_one_folder(tmp_path):
    folder = Folder(tmp_path / "out")
    with folder.locked(), pytest.raises(ConcurrentUseError, match="is in use by another demo"), folder.locked():
        pass
    with folder.locked():
        pass


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match=r"--out '.*file/out' cannot be written to: Not a directory\."):
        Folder(tmp_path / "file" / "out").locked().__enter__()
    (tmp_path / "demo.json").write_text("{")
    with pytest.raises(CorruptStateError, match="was not written by a demo"):
        Folder(tmp_path).settings()


def test_late_rows_are_counted_only_where_every_micro_batch_is_known():
    batches = [{"rows": 1_500, "late": 2}, {"rows": 1_500, "late": 3}]
    assert late_counted(batches, Settings.of(3_000, 7)) == 5
    assert late_counted(batches[1:], Settings.of(3_000, 7)) is None


def test_the_pipeline_is_that_of_the_folder(tmp_path):
    """Paths with spaces and quotes are taken as they are, and the rules are those of the file."""
    folder = Folder(tmp_path / 'my "out"')
    pipeline = pipeline_of(folder, Settings.of(8_000, 5))
    assert pipeline.checkpoint == str(folder.out / "checkpoint") and pipeline.sink.path == str(folder.results)
    assert json.loads(json.dumps(pipeline.source.options))["rows"] == 8_000
    rules = rules_of(pipeline)
    assert (rules.rows_per_batch, rules.delay, rules.lateness) == (1_334, 30 * 10**6, 900 * 10**6)
    assert rules.columns == [f"{name}_{window}" for window in ("10m", "30m") for name in ("n", "total", "largest")]
