"""A campaign of faults on real Spark: seeded runs, each compared with the oracle row for row.

`make faults` runs it. Every run is a stream that one fault hits: a worker or a driver is killed, a task or a sink fails
before or after its commit, a slow task runs twice, a checkpoint is rolled back, time zones change, micro-batches are
cut differently. After it, sink and oracle must agree row for row, or the run must have ended with the sentence that is
expected of it. What is done is in `runs.jsonl`; a campaign that was stopped goes on from there. The report is a table
of faults by kinds of results and sinks.

Two controls must find differences: `--ignore-nonces`, in which a bucket in memory is compared with the log by numbers
alone, and `--unordered`, in which two attempts of one task write different records and Spark tells versions of the
state apart by number.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from campaigns.fault_run import ASKED, CASES, DSN, FAULTS, KILLED, OUTLASTED, ROLLED_BACK, SINKS, Run, rows_in
from oracles.keyed import Event
from support import postgres_server
from support.spark_streams import Row

TESTS = Path(__file__).resolve().parents[1]
ZONES = [("UTC", "UTC"), ("Asia/Kathmandu", "America/St_Johns"), ("America/New_York", "Asia/Tokyo")]
OLDER = "older than"  # a checkpoint that was rolled back below what its target has seen
MIXED = "mixes two attempts"  # a checkpoint that no restart mends
TRIES = 8
# Sessions are short: a compiler that starts at once is worth more than fast code.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Setting:
    """What a driver is started with."""

    master: str
    zones: tuple[str, str] = ZONES[0]  # of the machine, and of the session
    mended: bool = True
    doomed: bool = False  # it will be killed


class Driver:
    """A process with a Spark session, which runs one stream at a time."""

    def __init__(self, setting: Setting, log: Path) -> None:
        self.setting = setting
        environment = os.environ | {"PYTHONPATH": str(TESTS), "TZ": setting.zones[0], "JAVA_TOOL_OPTIONS": JAVA}
        room = log.with_name(f"{log.stem}-cluster")
        command = [sys.executable, "-m", "campaigns.fault_run"]
        command += [setting.master, setting.zones[1], str(setting.mended), str(room)]
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._line("ready")

    def _line(self, wanted: str | None = None) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line or (wanted and line != wanted):
            raise RuntimeError(f"the driver of {self.setting} ended: {line}")
        return line

    def begin(self, folder: Path) -> None:
        assert self.process.stdin is not None
        print(folder, file=self.process.stdin, flush=True)

    def ended(self) -> str:
        return self._line()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Drivers:
    """The drivers of one worker of the campaign, one for each setting: a session that is warm takes a third as long."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._running: dict[Setting, Driver] = {}

    def get(self, setting: Setting) -> Driver:
        if setting not in self._running:
            self._running[setting] = Driver(setting, self.log)
        return self._running[setting]

    def kill(self, setting: Setting) -> None:
        if setting in self._running:
            self._running.pop(setting).kill()

    def kill_all(self) -> None:
        for setting in list(self._running):
            self.kill(setting)


# --- one run --------------------------------------------------------------------------------------


def execute(run: Run, folder: Path, drivers: Drivers) -> dict[str, Any]:
    """Run a stream through its fault, and return what became of it."""
    run.start(folder)
    rng = random.Random(run.seed)
    if run.fault in KILLED:
        _kill_midway(run, folder, drivers, rng)
    ended = _go_on(run, folder, drivers)
    if run.fault in ROLLED_BACK:
        ended = _roll_back(run, folder, drivers, ended, rng)
    found = {"ended": ended, "hit": _is_hit(run, folder)}
    if ended == "end":
        found |= compare(run, folder)
    elif run.fault in ROLLED_BACK and OLDER in ended and run.sink != "files":
        found["refused"] = True
    journal = (folder / "journal").read_text().splitlines() if (folder / "journal").exists() else []
    return found | {"buckets": len(journal), "attempts": len(list(folder.glob("attempt-*")))}


def _is_hit(run: Run, folder: Path) -> bool:
    """Return whether the fault has happened; a slow task is one if its copy has ended as it should."""
    if run.fault == OUTLASTED:
        return (folder / "copy-committed").exists() and not (folder / "copy-won").exists()
    if run.fault.startswith("slow"):
        return (folder / "copy-won").exists()
    return (folder / "fault").exists() or run.fault == "nothing"


def _go_on(run: Run, folder: Path, drivers: Drivers) -> str:
    """Start again until the stream comes to its end, and return the last error where it never does."""
    ended = ""
    for attempt in range(TRIES):
        zones = ZONES[(run.seed + attempt) % len(ZONES)] if run.fault == "time zones changed" else ZONES[0]
        setting = Setting(FAULTS[run.fault], zones, run.mended)
        driver = drivers.get(setting)
        driver.begin(folder)
        ended = driver.ended()
        if ended == "end" or MIXED in ended:
            break
        if "on purpose" not in ended and "worker exited" not in ended and "crashed" not in ended and attempt > 2:
            break
    return ended


def _kill_midway(run: Run, folder: Path, drivers: Drivers, rng: random.Random) -> None:
    """Kill a driver and all its workers, some buckets and a moment after it began to work."""
    setting = Setting(FAULTS[run.fault], mended=run.mended, doomed=True)
    drivers.get(setting).begin(folder)
    wanted, wait, journal = rng.randint(1, 12), rng.random(), folder / "journal"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (journal.exists() and journal.read_text().count("\n") >= wanted):
        time.sleep(0.02)
    time.sleep(wait)
    drivers.kill(setting)
    (folder / "fault").touch()


def _roll_back(run: Run, folder: Path, drivers: Drivers, ended: str, rng: random.Random) -> str:
    """Take the last commits of a finished stream back, as a restored copy of its checkpoint would, and run it again."""
    if ended != "end":
        return ended
    (folder / "fault").touch()
    commits = sorted(int(path.name) for path in (folder / "checkpoint" / "commits").glob("[0-9]*"))
    first = rng.choice(commits[1:])
    for name in ("commits", "offsets"):
        for path in (folder / "checkpoint" / name).glob("*[0-9]*"):
            number = int(path.name.strip(".").split(".")[0])
            if number >= first + (name == "offsets"):
                path.unlink()
    for path in (folder / "out").glob("[0-9]*"):  # files cannot refuse an older checkpoint: they are set back with it
        if int(path.stem) >= first:
            path.unlink()
    return _go_on(run, folder, drivers)


def compare(run: Run, folder: Path) -> dict[str, Any]:
    """Return how many results there are, and how the sink differs from the oracle."""
    expected = wanted_of(run, batches_of(run, folder))
    wanted = _texts(expected)
    if run.emit == "twins":  # events of one key and time have the same results, and one identity
        wanted = sorted(set(wanted))
    rows = rows_in(run, folder)
    if run.changes:
        rows = _completed(run, rows, expected)
    got = _texts(rows)
    missing, extra = (
        list((Counter(wanted) - Counter(got)).elements()),
        list((Counter(got) - Counter(wanted)).elements()),
    )
    return {
        "results": len(wanted),
        "missing": len(missing),
        "extra": len(extra),
        "examples": [*missing[:2], *extra[:2]],
    }


def wanted_of(run: Run, batches: list[list[Row]]) -> list[Row]:
    """Return what the sink must hold, by the oracle."""
    oracle, _ = run.case.oracle(batches)
    if run.emit != "asked":
        return run.case.wanted(oracle)
    questions = [Event(oracle.key(row), row["t"], None, 0, row) for row in run.case.in_time(batches)]
    return [{name: asked.row[name] for name in ASKED} | oracle.answer(asked, oracle.accepted) for asked in questions]


def _completed(run: Run, rows: list[Row], wanted: list[Row]) -> list[Row]:
    """Return rows with what they lack: those that were final before the definition changed have only what both have."""
    known = {tuple(row[name] for name in run.identity): row for row in wanted}
    made = []
    for row in rows:
        whole = known.get(tuple(row[name] for name in run.identity), {})
        made.append(row if set(whole) <= set(row) else {name: row.get(name, whole[name]) for name in whole})
    return made


def _texts(rows: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=list) for row in rows)


def batches_of(run: Run, folder: Path) -> list[list[Row]]:
    """The rows of each micro-batch as Spark cut them.

    A source logs its files in steps of its own, of which a micro-batch takes several after a rollback.
    """
    files, checkpoint = [*run.batches(), []], folder / "checkpoint"
    steps: dict[int, set[int]] = {}
    for path in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            steps.setdefault(entry["batchId"], set()).add(int(Path(entry["path"]).stem))
    offsets = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    ends = [json.loads(path.read_text().splitlines()[2])["logOffset"] for path in offsets]
    cut = [
        sorted(number for step in range(start + 1, end + 1) for number in steps.get(step, ()) if number < 900)
        for start, end in pairwise([-1, *ends])
    ]
    return [[row for number in numbers for row in files[number]] for numbers in cut if numbers]


# --- the campaign ---------------------------------------------------------------------------------


Cell = tuple[str, str, str]


class Campaign:
    """Runs that are done, and those under way."""

    def __init__(self, folder: Path, seconds: float, cells: list[Cell], control: dict[str, bool]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.until, self.control = folder, time.monotonic() + seconds, control
        self.path = folder / "runs.jsonl"
        self.done = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(cells, 0)  # runs that are under way or were hit by their fault
        self._seeds = dict.fromkeys(cells, 0)
        for line in self.done:
            run = Run(**line["run"])
            if run.cell in self._counts:
                self._seeds[run.cell] = max(self._seeds[run.cell], run.seed)
                self._counts[run.cell] += verdict_of(line) != "missed"

    def _next(self) -> Run:
        """The next run of the cell that has the fewest."""
        with self._lock:
            cell = min(self._counts, key=self._counts.__getitem__)
            self._counts[cell] += 1
            self._seeds[cell] += 1
            return Run(*cell, self._seeds[cell], **self.control)

    def run(self, jobs: int) -> None:
        """Work in some threads, with a PostgreSQL server for their drivers."""
        with postgres_server.running() as server:
            os.environ[DSN] = server.dsn
            threads = [threading.Thread(target=self.work, args=(str(number),)) for number in range(jobs)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def work(self, name: str) -> None:
        drivers = Drivers(self.folder / f"driver-{name}.log")
        while time.monotonic() < self.until:
            run = self._next()
            folder = self.folder / run.name
            shutil.rmtree(folder, ignore_errors=True)
            began = time.monotonic()
            try:
                found = execute(run, folder, drivers)
            except (RuntimeError, OSError, AssertionError) as error:
                found = {"ended": f"{type(error).__name__}: {error}", "hit": False}
                drivers.kill_all()
            self._finish(run, folder, found | {"seconds": round(time.monotonic() - began, 1)})
        drivers.kill_all()

    def _finish(self, run: Run, folder: Path, found: dict[str, Any]) -> None:
        with self._lock:
            line = {"run": asdict(run), **found}
            self.done.append(line)
            with self.path.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            verdict = verdict_of(line)
            print(f"{len(self.done):5} {verdict:8} {found['seconds']:6.1f} s  {run.name}", flush=True)
            self._counts[run.cell] -= verdict == "missed"
        if verdict in ("same", "refused", "missed"):
            shutil.rmtree(folder)


def verdict_of(line: dict[str, Any]) -> str:
    """Return "same", "refused" with the sentence that is due, "missed" without its fault, or what is wrong."""
    if line.get("refused"):
        return "refused"
    if line["ended"] != "end":
        return "DIED"
    if line["missing"] or line["extra"]:
        return "DIFFERS"
    return "same" if line["hit"] else "missed"


def report(done: list[dict[str, Any]]) -> str:
    """Return the table of faults by kinds of results and sinks: runs that were hit, and what came of them."""
    cells: dict[tuple[str, str, str], Counter[str]] = {}
    for line in done:
        run = line["run"]
        cells.setdefault((run["fault"], run["emit"], run["sink"]), Counter())[verdict_of(line)] += 1
    columns = [(emit, sink) for emit in CASES for sink in SINKS]
    lines = [
        "| fault | " + " | ".join(f"{emit}, {sink}" for emit, sink in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for fault in FAULTS:
        found = [cells.get((fault, *cell), Counter()) for cell in columns]
        lines.append(f"| {fault} | " + " | ".join(_cell(counts) for counts in found) + " |")
    total = Counter(verdict_of(line) for line in done)
    results, attempts = (sum(line.get(name, 0) for line in done) for name in ("results", "attempts"))
    lines.append("")
    lines.append(f"{len(done)} runs, {attempts} starts, {results} results compared: {dict(total)}")
    return "\n".join(lines)


def _cell(counts: Counter[str]) -> str:
    wrong = counts["DIED"] + counts["DIFFERS"]
    return f"{counts['same'] + counts['refused']}" + (f", **{wrong} wrong**" if wrong else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="default: build/faults, and another for each control")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME=TEXT", help="fault=, emit= or sink=")
    parser.add_argument("--ignore-nonces", action="store_true", help="a control: differences must be found")
    parser.add_argument("--unordered", action="store_true", help="a control: rows as they come, random nonces")
    parser.add_argument("--report", action="store_true", help="print the table of what is done, and stop")
    chosen = parser.parse_args()
    only = [text.split("=", 1) for text in chosen.only]
    cells = [
        run.cell
        for run in (Run(fault, emit, sink, 0) for fault in FAULTS for emit in CASES for sink in SINKS)
        if all(value in getattr(run, name) for name, value in only)
    ]
    control = {"checked": not chosen.ignore_nonces, "mended": not chosen.unordered}
    folder = chosen.folder or Path("build/faults" + "-nonces" * chosen.ignore_nonces + "-order" * chosen.unordered)
    campaign = Campaign(folder.absolute(), 60 * chosen.minutes, cells, control)
    if not chosen.report:
        campaign.run(chosen.jobs)
    text = report(campaign.done)
    (campaign.folder / "report.md").write_text(text + "\n")
    print(text)
    wrong = {"DIED", "DIFFERS"} & {verdict_of(line) for line in campaign.done}
    sys.exit(bool(wrong) == all(control.values()))


if __name__ == "__main__":
    main()
