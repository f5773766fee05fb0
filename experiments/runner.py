"""Runs cases: a fresh process for each, the cases of a group in turns, rows kept as they come so that a run can go on.

The processes are forked off a server that has imported what they need and has measured nothing. Those of a group fill
their windows first, as many at once as there are cores; then each takes one sample in its turn while the others sleep,
so that a slow moment of the machine falls on all of them.
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
    """A case could not be measured; its process said why."""


# --- one case in its process ----------------------------------------------------------------------


class Turns:
    """What a case iterates over: it waits for its turn, takes it, and says when it is done."""

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
    """Measure one case; this is all that its process does."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asked for the rows decides when to stop
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        # Java and Spark's workers print as they please; what they said is told if the case fails.
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
    """Measures groups of cases in processes of their own."""

    cores: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    package: str = "experiments"

    def __post_init__(self) -> None:
        """Get the server ready that the processes are forked off."""
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        self._context = mp.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["numpy.random", *(f"experiments.{name}" for name in FIGURES if name != "spark")]
        )

    def run(self, group: Group) -> list[Row]:
        """Measure the cases of a group in turns and give their rows, in their order."""
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
    """Rows as they come, one JSON line each, headed by what must be the same for a run to go on."""

    def __init__(self, path: Path, heading: dict[str, str]) -> None:
        """Take up what is there if its heading is this one; otherwise start anew."""
        self.path, self._heading = path, heading
        self.rows: dict[tuple[Any, ...], Row] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.stale = bool(lines) and _parsed(lines[0]) != heading
        if lines and not self.stale:
            for entry in filter(None, map(_parsed, lines[1:])):
                self.rows[tuple(entry["case"])] = entry["row"]
        self._rewrite()

    def add(self, group: Group, rows: list[Row]) -> None:
        """Keep the rows of a group."""
        added = {case.key: row for case, row in zip(group, rows, strict=True)}
        self.rows |= added
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(map(_line, added.items()))

    def forget(self, groups: list[Group]) -> None:
        """Drop rows that are elsewhere now, and the file with the last of them."""
        for group in groups:
            for case in group:
                self.rows.pop(case.key, None)
        if self.rows:
            self._rewrite()
        else:
            self.path.unlink(missing_ok=True)

    def _rewrite(self) -> None:
        """Write it all anew, so that a line that was cut off half way is gone."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(self._heading) + "\n", *map(_line, self.rows.items())]
        self.path.write_text("".join(lines), encoding="utf-8")


def _line(entry: tuple[tuple[Any, ...], Row]) -> str:
    return json.dumps({"case": entry[0], "row": entry[1]}) + "\n"


def _parsed(line: str) -> Any:
    """Give a line's content; of one that was cut off half way, nothing."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def run_all(
    groups: list[Group], journal: Journal, stamp: dict[str, str], measure: Callable[[Group], list[Row]], heard: Heard
) -> list[Row]:
    """Measure what the journal does not hold yet and give all rows, stamped, in the order of the groups.

    `heard(group, seconds)` is told of each group before it is measured, and what is left from it on.
    """
    waiting = [group for group in groups if not all(case.key in journal.rows for case in group)]
    left = sum(expected_s(group) for group in waiting)
    for group in waiting:
        heard(group, left)
        journal.add(group, [row | stamp for row in measure(group)])
        left -= expected_s(group)
    return [journal.rows[case.key] for group in groups for case in group]


# --- how long it will take ------------------------------------------------------------------------

# Nanoseconds that filling takes an entry, by structure: of a cheap monoid and of Bloom filters.
_FILL_NS = {
    "fiba": (15, 250),
    "paper": (110, 850),
    "classic": (360, 3700),
    "two_stacks": (30, 1200),
    "daba": (35, 1500),
    "reactive": (300, 7000),
}


def expected_s(group: Group) -> float:
    """Give about how many seconds a group takes on a machine like the one of docs/benchmarks.md."""
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
