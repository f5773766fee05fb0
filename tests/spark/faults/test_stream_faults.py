"""Streams that are disturbed: no row is lost, none counts twice, and the last revisions are those of the brute force.

Two runs are enough: one worker with one partition, where every scenario is certain, and one stream whose drivers are
killed, so each is a process of its own, `fault_program`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from oracles.keyed import folded
from support import fault_program as program
from support import spark_streams as streams
from support.fault_program import journal_in
from support.spark_streams import Case, Row, assert_same, latest

TESTS = Path(__file__).resolve().parents[2]
SOURCE = TESTS.parent / "src"


def start(folder: Path, master: str) -> subprocess.Popen[bytes]:
    """Start the program in a process group of its own, which can be killed as a whole."""
    path = [str(TESTS), *([str(SOURCE)] if list(SOURCE.glob("sash/_core*.so")) else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, str(TESTS / "support" / "fault_program.py"), str(folder), master]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def finish(process: subprocess.Popen[bytes], folder: Path) -> None:
    assert process.wait(timeout=900) == 0, (folder / "log").read_text()[-3000:]


@pytest.fixture(scope="module")
def alone(spark, tmp_path_factory):
    """All scenarios with one worker."""
    folder = tmp_path_factory.mktemp("alone")
    program.alone(spark, folder)
    return folder


@pytest.fixture(scope="module")
def restarted(tmp_path_factory):
    """A stream whose driver is killed twice and resumes with more cores, and then in two executors."""
    folder = tmp_path_factory.mktemp("restarted")
    program.begun(folder, streams.stream(16, 100, 6, ties=True))
    drawn = random.Random(16)
    for master, fired in (("local[1]", 0), ("local[2,4]", 3)):
        kill(start(folder, master), folder, drawn.randint(3, 8), drawn.random(), fired)
    finish(start(folder, "local-cluster[2,1,1024]"), folder)
    return folder


def kill(process: subprocess.Popen[bytes], folder: Path, after: int, wait: float, fired: int) -> None:
    """Kill a driver and all that it started, some buckets, faults and a moment after it began to work."""
    begun = len(journal_in(folder))
    while len(journal_in(folder)) < begun + after or len(faults(folder)) < fired:
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        time.sleep(0.05)
    time.sleep(wait)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (folder / f"driver-killed-{begun}").touch()


def faults(folder: Path) -> list[str]:
    """What went wrong in workers."""
    return sorted(path.name for path in [*folder.glob("killed-*"), *folder.glob("task-failed")])


def said(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "said").read_text())
    return found


def total(folder: Path, *names: str) -> int:
    return sum(line.get(name, 0) for line in journal_in(folder) for name in names)


def check(folder: Path, case: Case) -> None:
    """All that was accepted, once, as the brute force has it."""
    wanted = case.wanted(case.oracle(program.batches_in(folder))[0])
    rows = program.results_in(folder)
    assert_same(latest(rows, "k.ey", "t", "i") if case.words["emit"] == "update" else rows, wanted)
    assert wanted


# --- one worker -----------------------------------------------------------------------------------


def test_a_worker_killed_between_state_writes(alone):
    """Nothing is retried: the query fails, and resumes when it is started again."""
    folder = alone / "killed_workers"
    assert said(folder)["failures"] == len(list(folder.glob("killed-*"))) == 2
    assert len({line["worker"] for line in journal_in(folder)}) == 3
    check(folder, program.FINAL)


@pytest.mark.parametrize("emit", ["final", "update"])
def test_questions_beside_the_events(alone, emit):
    """Each is answered by all that was accepted, once, or revised until it is, whatever was killed."""
    folder = alone / f"asked_{emit}"
    assert len(list(folder.glob("killed-*"))) == len(list(folder.glob("failed-*"))) == 2
    assert total(folder, "rebuilds") and total(folder, "merges")
    batches = program.batches_in(folder)
    wanted = [answer(question, batches) for part in program.questions_of(batches) for question in part]
    rows = program.results_in(folder)
    assert_same(latest(rows, "name") if emit == "update" else rows, wanted)


def answer(question: Row, batches: list[list[Row]]) -> Row:
    """By brute force: nothing is late, and what was deleted is gone."""
    rows = [row for batch in batches for row in batch]
    gone = {row["i"] for row in rows if row["gone"]}
    mine = [row for row in rows if row["k.ey"] == question["k.ey"] and row["i"] not in gone]
    found = dict(question)
    for name, size in streams.SIZES.items():
        inside = [row for row in mine if question["q"] - size < row["t"] <= question["q"]]
        inside.sort(key=lambda row: (row["t"], row["i"]))
        for agg, fold in program.UPDATE.folds.items():
            found[f"{agg}_{name}"] = folded(fold, inside)
    return found


def test_a_cache_ahead_of_the_state(alone):
    """Something behind the operator failed, after data and after a timer: the worker survives and is not believed."""
    folder = alone / "ahead"
    assert said(folder)["failures"] == len(list(folder.glob("failed-*"))) == 4
    assert len({line["worker"] for line in journal_in(folder)}) == 1
    rebuilt = [line for line in journal_in(folder) if line.get("rebuilds")]
    assert any(line.get("rows_in") for line in rebuilt)
    assert any(line.get("timers") and not line.get("rows_in") for line in rebuilt)
    check(folder, program.NAMED)


def test_a_cache_behind_the_state(alone):
    """A worker that missed a micro-batch reads what it missed."""
    folder = alone / "caught_up"
    assert total(folder, "catch_ups") == 1
    check(folder, program.UPDATE)


def test_a_cache_whose_record_was_merged(alone):
    """A worker comes back when its record is part of another: it must not take that for its own."""
    folder = alone / "merged_away"
    assert total(folder, "merges") > 0
    assert (total(folder, "catch_ups"), total(folder, "rebuilds")) == (0, 2)
    check(folder, program.UPDATE)


def test_without_nonces_it_is_wrong(alone):
    """The same where only numbers are looked at: the merged record has the old one's, and rows are lost."""
    folder = alone / "unchecked"
    assert total(folder, "catch_ups") == 1
    with pytest.raises(AssertionError):
        check(folder, program.UPDATE)


def test_a_delete_whose_record_was_dropped(alone):
    """A rebuild from a log with the insert and without its delete does not bring the event back."""
    folder = alone / "dropped_delete"
    lines = journal_in(folder)
    assert said(folder)["failures"] == 1
    assert [line.get("records") for line in lines[:4]] == [1, 2, 3, 3]  # that of the delete is gone
    assert lines[5]["rebuilds"] == 1 and lines[5]["live_rows"] == lines[4]["live_rows"] == 4
    check(folder, program.UPDATE)


def test_definitions_that_the_rows_of_a_checkpoint_cannot_answer(alone):
    """They are refused in a sentence that says what is missing; the right one resumes."""
    folder = alone / "changed"
    assert "window 30m needs rows that have expired: they are stored for 10m" in said(folder)["windows"]
    assert "its rows were stored without the column 'row'" in said(folder)["column"]
    assert said(folder)["failures"] == 0
    check(folder, program.UPDATE)


def test_a_newer_state_format(alone):
    """A checkpoint of a later version is refused in a sentence."""
    message = "The checkpoint has state of version 4, but this version of sash reads 2 and 3"
    assert message in said(alone / "newer_format")["error"]


# --- many -----------------------------------------------------------------------------------------


def test_drivers_and_workers_killed_and_more_executors(restarted):
    """Two drivers die at any moment, the second has retries for dead workers and tasks; two executors finish."""
    assert len(list(restarted.glob("driver-killed-*"))) == 2
    assert faults(restarted) == ["killed-0", "killed-1", "task-failed"]
    masters = [line.split() for line in (restarted / "masters").read_text().splitlines()]
    assert [master for master, _ in masters] == ["local[1]", "local[2,4]", "local-cluster[2,1,1024]"]
    assert len({line["daemon"] for line in journal_in(restarted)[int(masters[-1][1]) :]}) == 2  # one of each executor
    check(restarted, program.UPDATE)


def test_everything_was_met(alone, restarted):
    """Hits, catch-ups, rebuilds, merges, and timers that change a bucket which gets no rows."""
    folders = [*(alone / name for name in program.ALONE if name != "unchecked"), restarted]
    for name in ("hits", "catch_ups", "rebuilds", "merges"):
        assert sum(total(folder, name) for folder in folders) > 0, name
    lines = [line for folder in folders for line in journal_in(folder)]
    assert any(line.get("timers") and line.get("records") and not line.get("rows_in") for line in lines)
