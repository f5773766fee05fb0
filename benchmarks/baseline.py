"""An earlier engine against the current one: the same measuring code in two processes with alternating turns.

A baseline is the package at one commit, built once from the git history into build/ and kept there. A worker
of each side sets up its case and then does a turn on request, so that a slow moment of the machine affects both.
Messages are lines of JSON.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TURNS = 15
CURRENT, BASELINE, BEFORE_EVENTS = "current", "baseline", "baseline-events"
COMMITS = {BASELINE: "6a37765", BEFORE_EVENTS: "aa8962e"}

_ROOT = Path(__file__).resolve().parent.parent
_PLACE = _ROOT / "build"


class Missing(Exception):
    """The baseline is not available, for the reason in the message."""


# --- the earlier package --------------------------------------------------------------------------


def site(side: str = BASELINE) -> Path:
    """Return the directory of an installed baseline, which is built first if it is missing."""
    commit, place = COMMITS[side], _PLACE / side
    target = place / "site"
    if (target / "sash" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}").exists():
        return target
    _require_commit(commit)
    print(f"  building the baseline of {commit}, once", flush=True)
    source = place / "src"
    for old in (source, target):
        shutil.rmtree(old, ignore_errors=True)
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=_ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    _install(source, target, commit)
    return target


def _require_commit(commit: str) -> None:
    command = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    try:
        found = subprocess.run(command, cwd=_ROOT, capture_output=True).returncode == 0
    except FileNotFoundError:
        raise Missing(f"the baseline is commit {commit} of the git history, but git was not found.") from None
    if not found:
        raise Missing(
            f"the git history here has no commit {commit}, the baseline; fetch it, as with `git fetch --unshallow`."
        )


def _install(source: Path, target: Path, commit: str) -> None:
    """Install from a source tree, into a directory that gets its name only when it is complete."""
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=target.parent))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    command += ["--no-build-isolation", "--no-deps", "--target", str(unfinished), str(source)]
    # Clear make's flags, or ninja would share make's jobs; the environment's tools are in the directory of its Python.
    tools = str(Path(sys.executable).parent)
    env = {**os.environ, "MAKEFLAGS": "", "PATH": tools + os.pathsep + os.environ.get("PATH", "")}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise Missing(f"the baseline of {commit} could not be built:\n{done.stdout}{done.stderr}")
    unfinished.chmod(0o755)
    unfinished.rename(target)


def environment(side: str) -> dict[str, str]:
    """Return the environment in which a Python process imports the sash of a side."""
    own = os.environ.get("PYTHONPATH")
    paths = [str(site(side))] if side in COMMITS else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *([own] if own else [])])}


def available(before: str = BASELINE) -> list[str]:
    """Return the available sides; if the baseline is missing, print why."""
    try:
        site(before)
    except Missing as missing:
        print(f"  without the baseline: {missing}", flush=True)
        return [CURRENT]
    return [before, CURRENT]


# --- workers --------------------------------------------------------------------------------------


class Worker:
    """A process that imports the sash of one side, holds one case of a benchmark, and serves requests."""

    def __init__(self, side: str) -> None:
        self.side = side
        command = [sys.executable, "-m", "benchmarks.worker"]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, env=environment(side), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        where = Path(self._answer())
        if side in COMMITS and not where.is_relative_to(site(side)):
            raise SystemExit(f"the baseline's process imports {where}; nothing was measured.")

    def make(self, path: str, **options: Any) -> "Worker":
        """Create the case, a class as "module:Class", in place of the previous one."""
        self.call("make", path=path, **options)
        return self

    def call(self, name: str, **options: Any) -> Any:
        """Call a method of the case and return its result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, options]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.side}: the worker ended with {self._process.wait()}; nothing was measured.")
        kind, content = json.loads(line)
        if kind == "error":
            raise SystemExit(f"{self.side}: {content}")
        return content

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextmanager
def workers(path: str, sides: list[str], small: dict[str, Any], **options: Any) -> Iterator[list[Worker]]:
    """Start a worker for each side and create its case, named as "module:Class", after verifying a small one.

    Each side compares its small case with an oracle, and then the sides are compared; an empty `small` skips this.
    """
    with ExitStack() as stack:
        started = []
        for side in sides:
            started.append(Worker(side))
            stack.callback(started[-1].close)
        if small:
            require_same(path, [worker.make(path, **small) for worker in started])
        yield [worker.make(path, **options) for worker in started]


def require_same(what: str, started: list[Worker]) -> None:
    """Exit if the sides differ; each also verifies its own answers against an oracle."""
    if len({worker.call("answers") for worker in started}) > 1:
        raise SystemExit(f"{what}: the answers of the two sides differ; nothing was measured.")


def alternate(started: list[Worker], turns: int = TURNS, **options: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the results of each side's turns; the sides alternate in going first.

    `options` has the arguments of the turns by side, if there are any.
    """
    found: dict[str, list[Any]] = {worker.side: [] for worker in started}
    for turn in range(turns):
        for worker in started if turn % 2 == 0 else reversed(started):
            found[worker.side].append(worker.call("turn", **options.get(worker.side, {})))
    return found


# --- summaries of turns ---------------------------------------------------------------------------


class Spread(NamedTuple):
    """The median and the quartiles of some measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        low, median, high = np.percentile(values, [25, 50, 75])
        return cls(float(median), float(low), float(high))

    def text(self, scale: float = 1.0, digits: int = 1) -> str:
        """Return it as text, with all numbers multiplied by `scale`."""
        shown = [f"{value * scale:.{digits}f}" for value in (self.median, self.low, self.high)]
        return f"{shown[0]} ({shown[1]}-{shown[2]})"


def compare(current: Spread, baseline: Spread) -> tuple[float, float]:
    """Return the ratio of the medians and its bound: only a median beyond the baseline's quartiles is a loss."""
    return current.median / baseline.median, baseline.high / baseline.median
