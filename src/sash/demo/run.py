"""The demo: its pipeline, the folder that it works in, and what becomes of a run that was ended in the middle.

    out/demo.json        which events, and whether all of them are through
    out/checkpoint/      Spark's, from which a run goes on
    out/results/         the latest revision of each result, upserted; replaced files stay, so that what was first shown
                         can be shown again
    out/progress.jsonl   a line for each micro-batch
    out/report.html, out/report.png, out/pictures/

Nothing is in memory alone: whatever moment a run is killed at, the same command goes on from these files.
"""

import fcntl
import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from sash.demo import summary, verify
from sash.demo.summary import Story
from sash.durations import name_of, nanoseconds
from sash.errors import ArgumentError, ConcurrentUseError, CorruptStateError, shown
from sash.pipeline.config.read import Pipeline, parse
from sash.pipeline.sources.generated import Demo, demo

ROWS_A_SECOND = 8_000  # on two cores
SEED = 7
_SPAN_SECONDS = 6_000  # of event time, however many the events are
_BATCH, _FEWEST = 20_000, 6  # rows in a micro-batch, about two seconds' worth; and how many there are at least
# demo.json goes last: as long as it is there, the others are known to be a demo's.
_OWN = ("checkpoint", "results", "pictures", "progress.jsonl", "report.html", "report.png", "demo.json")


@dataclass(frozen=True)
class Settings:
    """Which events a folder is about, and how many make a micro-batch, for that decides what is late."""

    rows: int
    seed: int
    rows_per_batch: int
    finished: bool = False
    clearing: bool = False  # a demo that is started anew, whose old files may be there in part

    @staticmethod
    def of(rows: int, seed: int) -> "Settings":
        """Return the settings for so many rows."""
        return Settings(rows, seed, math.ceil(rows / max(rows // _BATCH, _FEWEST)))


@dataclass(frozen=True)
class Folder:
    """The folder that a demo works in."""

    out: Path

    @property
    def results(self) -> Path:
        """Where the results are."""
        return self.out / "results"

    @property
    def progress(self) -> Path:
        """Where micro-batches are recorded."""
        return self.out / "progress.jsonl"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second demo out of the folder; the lock goes with the process, however that ends."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.out / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ArgumentError(
                f"out: {shown(self.out)} cannot be written to: {error.strerror}; give another."
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise ConcurrentUseError(
                f"out: another demo works in {shown(self.out)}; wait for it, or give another --out."
            ) from None
        try:
            yield
        finally:
            os.close(handle)

    def settings(self) -> Settings | None:
        """Return what the folder is about, None where no demo was begun in it."""
        path = self.out / "demo.json"
        if not path.exists():
            return None
        try:
            return Settings(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise CorruptStateError(f"out: {shown(path)} is not what a demo wrote; remove the folder.") from error

    def save(self, settings: Settings) -> None:
        """Write down what the folder is about, by one rename."""
        draft = self.out / "demo.json.part"
        draft.write_text(json.dumps(asdict(settings), indent=1) + "\n")
        draft.replace(self.out / "demo.json")

    def clear(self) -> None:
        """Remove what a demo makes, and nothing else; what is ended in the middle is gone on with by the next run."""
        old = self.settings()
        if old is not None:
            self.save(replace(old, clearing=True))
        for name in _OWN:
            path = self.out / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def begun(self, rows: int | None, seed: int | None, fresh: bool) -> Settings:
        """Return the settings of the run to go on with, or those of a new one; what is not told is taken from the old."""
        old = self.settings()
        if old is None:
            self._require_empty()
        elif fresh or old.clearing:
            self.clear()
        else:
            return self._unchanged(old, rows, seed)
        new = Settings.of(rows or 60 * ROWS_A_SECOND, SEED if seed is None else seed)
        self.save(new)
        return new

    def _unchanged(self, old: Settings, rows: int | None, seed: int | None) -> Settings:
        for name, given, was in (("rows", rows, old.rows), ("seed", seed, old.seed)):
            if given not in (None, was):
                raise ArgumentError(
                    f"{name}: {shown(self.out)} holds a demo with {name} {was}, not {given}; leave --{name} out "
                    "to go on with it, give another --out, or start anew by --fresh."
                )
        return old

    def _require_empty(self) -> None:
        for name in _OWN:
            if (self.out / name).exists():
                raise ArgumentError(f"out: {shown(self.out / name)} is there and is not a demo's; give another --out.")


def pipeline_of(folder: Folder, settings: Settings) -> Pipeline:
    """Return the packaged pipeline, about these events and in this folder."""
    changed = {
        "checkpoint": str(folder.out / "checkpoint"),
        "sink.path": str(folder.results),
        "source.options.rows": settings.rows,
        "source.options.seed": settings.seed,
        "source.options.rate": settings.rows / _SPAN_SECONDS,
        "source.options.rows_per_batch": settings.rows_per_batch,
    }
    text = (files("sash.demo") / "demo.toml").read_text(encoding="utf-8")
    # JSON's text and numbers are TOML's too.
    return parse(text, "demo.toml", [f"{key}={json.dumps(value)}" for key, value in changed.items()])


def events_of(pipeline: Pipeline) -> Demo:
    """Return the definition of the events, as the source reads it."""
    pace = ("rows_per_batch", "partitions", "speed")
    return demo(**{name: value for name, value in pipeline.source.options.items() if name not in pace})


def rules_of(pipeline: Pipeline) -> verify.Rules:
    """Return what the pipeline asks for in plain numbers, for the recomputation."""
    rolling = pipeline.rolling
    return verify.Rules(
        key=rolling.keys[0],
        windows={name_of(size): _microseconds(size) for size in rolling.windows},
        every=_microseconds(rolling.every),
        delay=_microseconds(pipeline.source.watermark),
        lateness=_microseconds(rolling.lateness),
        rows_per_batch=int(pipeline.source.options["rows_per_batch"]),
    )


def _microseconds(duration: Any) -> int:
    return nanoseconds(duration, "demo.toml") // 1000


def told(folder: Folder, pipeline: Pipeline, settings: Settings) -> Story:
    """Verify the results of a run that is through, and give all there is to tell."""
    from sash.spark import upserted_table

    rules = rules_of(pipeline)
    events = verify.Events.of(events_of(pipeline), settings.rows, rules.key)
    batches = summary.recorded(folder.progress)
    verdict = verify.verify(events, rules, upserted_table(folder.results), late_counted(batches, settings))
    revised = summary.revised_of(history_of(folder), rules, str(pipeline.view.column))
    return Story(events, rules, verify.arrived(events, rules), verdict, revised, batches)


def late_counted(batches: list[dict[str, Any]], settings: Settings) -> int | None:
    """Return how many rows the pipeline counted as too late.

    None where a micro-batch is missing: one whose run was killed after its commit and before its line was written.
    """
    if sum(batch["rows"] for batch in batches) != settings.rows:
        return None
    return sum(int(batch["late"]) for batch in batches)


def history_of(folder: Folder) -> Any:
    """Return every revision of every result, from the live files of the results and those that they replaced."""
    from sash.spark.upserts import manifest

    kept = manifest.load(folder.results)
    assert kept is not None
    names = [*(file.path for file in kept.dead), *(file.path for file in kept.files)]
    paths = [folder.results / name for name in names]
    table = summary.tables_of(paths)
    # A file that replaces another repeats the rows that did not change.
    return table.group_by(table.column_names, use_threads=False).aggregate([])
