"""Runs cases: each in a fresh process, those of a group in turns, with rows saved so that a run can resume.

The processes are forked from a server that has imported what they need and has measured nothing. Those of a group fill
their windows first, as many at once as there are cores; then each takes one sample in its turn while the others sleep,
so that a slow moment of the machine affects all of them.
"""

import gc
import json
import multiprocessing as mp
import os
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from experiments import FIGURES
from experiments.case import Case, Row
from experiments.series import ALL, OURS_ON_SPARK

Group = list[Case]
Heard = Callable[[Group, float], None]


class CaseFailedError(Exception):
    """A case could not be measured, for the reason that its process reported."""


# --- one case in its process ----------------------------------------------------------------------


class Turns:
    """The turns of a case: an iterator that waits for each turn and reports when it is done."""

    def __init__(self, pipe: "Connection[Any, Any]", repeats: int) -> None:
        self._pipe = pipe
        self._repeats = repeats

    def __iter__(self) -> Iterator[int]:
        self._pipe.send(("ready", None))
        for turn in range(self._repeats):
            self._pipe.recv()
            yield turn
            self._pipe.send(("done", None))


def work(module: str, case: Case, pipe: "Connection[Any, Any]") -> None:
    """Measure one case, the only task of its process."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides when to stop
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        # Capture the output of Java and of Spark's workers, and report it if the case fails.
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
        try:
            row = import_module(module).run(case, Turns(pipe, case.repeats))
            pipe.send(("row", row))
        except Exception:
            said.seek(0)
            pipe.send(("failed", "".join([traceback.format_exc(), *said.readlines()[-20:]])))
        finally:
            pipe.close()


# --- one group ------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Worker:
    case: Case
    process: Any
    pipe: "Connection[Any, Any]"

    def hear(self) -> tuple[str, Any]:
        try:
            said, what = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise CaseFailedError(f"{_name(self.case)}: its process ended with {self.process.exitcode}.") from None
        if said == "failed":
            raise CaseFailedError(f"{_name(self.case)}:\n{what}")
        return said, what

    def stop(self) -> None:
        self.pipe.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()


def _name(case: Case) -> str:
    parts = (case.figure, case.monoid, case.variant, case.series, f"x = {case.x}")
    return ", ".join(part for part in parts if part)


@dataclass
class Runner:
    """Measures groups of cases in separate processes."""

    cores: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    package: str = "experiments"

    def __post_init__(self) -> None:
        """Start the server that the processes are forked from."""
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        self._context = mp.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["numpy.random", *(f"experiments.{name}" for name in FIGURES if name != "spark")]
        )

    def run(self, group: Group) -> list[Row]:
        """Measure the cases of a group in turns and return their rows, in their order."""
        rows: dict[Case, Row] = {}
        waiting, working, ready = list(group), [], []
        try:
            while waiting or working:
                while waiting and len(working) < self.cores:
                    working.append(self._started(waiting.pop(0)))
                for pipe in wait([worker.pipe for worker in working]):
                    worker = next(w for w in working if w.pipe is pipe)
                    working.remove(worker)
                    ready.append(worker)
                    said, what = worker.hear()
                    if said == "row":
                        rows[worker.case] = what
            self._take_turns([worker for worker in ready if worker.case not in rows], rows)
        finally:
            for worker in (*working, *ready):
                worker.stop()
        return [rows[case] for case in group]

    def _started(self, case: Case) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(f"{self.package}.{case.figure}", case, theirs), daemon=True)
        process.start()
        theirs.close()
        return _Worker(case, process, ours)

    @staticmethod
    def _take_turns(workers: list[_Worker], rows: dict[Case, Row]) -> None:
        workers.sort(key=lambda worker: worker.case.series)
        for _ in range(max((worker.case.repeats for worker in workers), default=0)):
            for worker in workers:
                worker.pipe.send("go")
                worker.hear()
        for worker in workers:
            rows[worker.case] = worker.hear()[1]


# --- the whole run --------------------------------------------------------------------------------


class Journal:
    """Rows in order of arrival, one JSON line each, after a heading that must match for a run to resume."""

    def __init__(self, path: Path, heading: dict[str, str]) -> None:
        """Resume an existing file if its heading matches; otherwise start over."""
        self.path, self._heading = path, heading
        self.rows: dict[tuple[Any, ...], Row] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.stale = bool(lines) and _parsed(lines[0]) != heading
        if lines and not self.stale:
            for entry in filter(None, map(_parsed, lines[1:])):
                self.rows[tuple(entry["case"])] = entry["row"]
        self._rewrite()

    def add(self, group: Group, rows: list[Row]) -> None:
        """Append the rows of a group."""
        added = {case.key: row for case, row in zip(group, rows, strict=True)}
        self.rows |= added
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(map(_line, added.items()))

    def forget(self, groups: list[Group]) -> None:
        """Drop rows that have been saved elsewhere, and the file when none are left."""
        for group in groups:
            for case in group:
                self.rows.pop(case.key, None)
        if self.rows:
            self._rewrite()
        else:
            self.path.unlink(missing_ok=True)

    def _rewrite(self) -> None:
        """Rewrite the file, without a line that was cut off."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(self._heading) + "\n", *map(_line, self.rows.items())]
        self.path.write_text("".join(lines), encoding="utf-8")


def _line(entry: tuple[tuple[Any, ...], Row]) -> str:
    return json.dumps({"case": entry[0], "row": entry[1]}) + "\n"


def _parsed(line: str) -> Any:
    """Return the content of a line, or nothing if it was cut off."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def run_all(
    groups: list[Group], journal: Journal, stamp: dict[str, str], measure: Callable[[Group], list[Row]], heard: Heard
) -> list[Row]:
    """Measure what is not in the journal yet and return all rows, stamped, in the order of the groups.

    `heard(group, seconds)` is called before each group is measured, with the time left from it on.
    """
    waiting = [group for group in groups if not all(case.key in journal.rows for case in group)]
    left = sum(expected_s(group) for group in waiting)
    for group in waiting:
        heard(group, left)
        journal.add(group, [row | stamp for row in measure(group)])
        left -= expected_s(group)
    return [journal.rows[case.key] for group in groups for case in group]


# --- how long it will take ------------------------------------------------------------------------

# Nanoseconds per entry to fill a window, by structure: for a cheap monoid and for Bloom filters.
_FILL_NS = {
    "fiba": (15, 250),
    "paper": (110, 850),
    "classic": (360, 3700),
    "two_stacks": (30, 1200),
    "daba": (35, 1500),
    "reactive": (300, 7000),
}


def expected_s(group: Group) -> float:
    """Return an estimate of the seconds a group takes on a machine like the one of docs/benchmarks.md."""
    return sum(0.035 + _expected_s(case) for case in group)


def _expected_s(case: Case) -> float:
    if case.figure == "spark":
        return 15 + case.repeats * (2 + case.rounds * (0.3 if case.series == OURS_ON_SPARK else 0.15 + 0.015 * case.x))
    series = ALL[case.series]
    round_s = _FILL_NS[series.structure][case.monoid == "bloom"] * 1e-9
    filling = case.n * round_s / 2
    if case.figure == "fifo" and series.in_order:
        return filling + (case.repeats + 2) * max(case.slice_ms / 1e3, case.n * round_s)
    if case.figure in ("memory", "combines"):
        return filling * 3
    if case.figure == "latency":
        return filling + case.repeats * (case.rounds * (round_s + 1e-7) + filling / 2)
    if case.figure == "random_distance":
        return filling + case.x * 5e-6 + (case.repeats + 2) * case.slice_ms / 1e3
    return filling * (2 if case.variant == "twin" else 1) + (case.repeats + 1) * case.slice_ms / 1e3
