"""The demo: its pipeline, its output folder, and how an interrupted run resumes.

    out/demo.json        which events, and whether all of them are processed
    out/checkpoint/      Spark's checkpoint, from which a run resumes
    out/results/         the latest revision of each result, upserted; replaced files are retained, for the report to
                         show the first revisions
    out/kafka/           instead, with --kafka: the broker and its topics, the events and the results
    out/progress.jsonl   a line per micro-batch
    out/report.html, out/report.png, out/pictures/

Nothing exists in memory only: whenever a run is killed, the same command resumes from these files.
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
from typing import TYPE_CHECKING, Any

from sash.demo import summary, verify
from sash.demo.broker import Broker
from sash.demo.kafka import Results
from sash.demo.summary import Summary
from sash.durations import nanoseconds
from sash.errors import ArgumentError, ConcurrentUseError, CorruptStateError, shown
from sash.pipeline.config.read import Pipeline, parse
from sash.pipeline.sources.generated import Demo, demo

if TYPE_CHECKING:
    from pyarrow import Table

_ROWS_A_SECOND = {False: 40_000, True: 8_000}  # on two cores, from the start to the report, without and with Kafka
SEED = 7
_SPAN_SECONDS = 6_000  # of event time, independent of the number of events
_BATCH = {False: 200_000, True: 40_000}  # rows in a micro-batch, about two seconds, without and with Kafka
_FEWEST = 6  # micro-batches
# demo.json is removed last: as long as it exists, the others belong to a demo.
_OWN = ("checkpoint", "results", "kafka", "pictures", "progress.jsonl", "report.html", "report.png", "demo.json")


def rows_within(seconds: float, *, kafka: bool) -> int:
    """Return how many events a demo of some seconds has."""
    return int(seconds * _ROWS_A_SECOND[kafka])


@dataclass(frozen=True)
class Settings:
    """The events of a folder, and the size of a micro-batch, which decides which events are late."""

    rows: int
    seed: int
    rows_per_batch: int
    kafka: bool = False
    finished: bool = False
    clearing: bool = False  # a demo that starts over, some of whose old files may remain

    @staticmethod
    def of(rows: int, seed: int, *, kafka: bool = False) -> "Settings":
        """Return the settings for a number of rows."""
        return Settings(rows, seed, math.ceil(rows / max(rows // _BATCH[kafka], _FEWEST)), kafka)


@dataclass(frozen=True)
class Folder:
    """The output folder of a demo."""

    out: Path

    @property
    def results(self) -> Path:
        """The dataset of results."""
        return self.out / "results"

    @property
    def progress(self) -> Path:
        """The file that records micro-batches."""
        return self.out / "progress.jsonl"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against a second demo; the lock is released when the process exits, however it does."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.out / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ArgumentError(
                f"--out {shown(self.out)} cannot be written to: {error.strerror}.", argument="out"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise ConcurrentUseError(
                f"--out {shown(self.out)} is in use by another demo; wait for it, or use another --out.", argument="out"
            ) from None
        try:
            yield
        finally:
            os.close(handle)

    def settings(self) -> Settings | None:
        """Return the settings of the demo in the folder, or None."""
        path = self.out / "demo.json"
        if not path.exists():
            return None
        try:
            return Settings(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            message = f"{shown(path)} was not written by a demo; remove it, or use another --out."
            raise CorruptStateError(message, argument="out") from error

    def save(self, settings: Settings) -> None:
        """Write the settings, atomically by a rename."""
        draft = self.out / "demo.json.part"
        draft.write_text(json.dumps(asdict(settings), indent=1) + "\n")
        draft.replace(self.out / "demo.json")

    def clear(self) -> None:
        """Remove the files of a demo and no others; the next run completes an interrupted removal."""
        old = self.settings()
        if old is not None:
            self.save(replace(old, clearing=True))
        for name in _OWN:
            path = self.out / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def prepare(self, rows: int | None, seed: int | None, fresh: bool, *, kafka: bool = False) -> Settings:
        """Return the settings of the run to resume, or of a new one; None stands for the value of the run to resume."""
        old = self.settings()
        if old is None:
            self._require_empty()
        elif fresh or old.clearing:
            self.clear()
        else:
            return self._unchanged(old, rows, seed, kafka)
        new = Settings.of(rows or rows_within(60, kafka=kafka), SEED if seed is None else seed, kafka=kafka)
        self.save(new)
        return new

    def _unchanged(self, old: Settings, rows: int | None, seed: int | None, kafka: bool) -> Settings:
        if kafka and not old.kafka:
            raise ArgumentError(
                f"--kafka must be omitted to resume the demo in {shown(self.out)}, which runs without it; use --fresh "
                "to start over, or another --out.",
                argument="kafka",
            )
        for name, value, before in (("rows", rows, old.rows), ("seed", seed, old.seed)):
            if value not in (None, before):
                raise ArgumentError(
                    f"--{name} must be {before} to resume the demo in {shown(self.out)}, got {value}; use --fresh to "
                    "start over, or another --out.",
                    argument=name,
                )
        return old

    def _require_empty(self) -> None:
        for name in _OWN:
            if (self.out / name).exists():
                message = f"{shown(self.out / name)} exists and does not belong to a demo; use another --out."
                raise ArgumentError(message, argument="out")


def pipeline_of(folder: Folder, settings: Settings) -> Pipeline:
    """Return the packaged pipeline for these events and this folder."""
    overrides = {
        "checkpoint": str(folder.out / "checkpoint"),
        "sink.path": str(folder.results),
        "source.options.rows": settings.rows,
        "source.options.seed": settings.seed,
        "source.options.rate": settings.rows / _SPAN_SECONDS,
        "source.options.rows_per_batch": settings.rows_per_batch,
    }
    text = (files("sash.demo") / "demo.toml").read_text(encoding="utf-8")
    # Strings and numbers in JSON are valid TOML.
    return parse(text, "demo.toml", [f"{key}={json.dumps(value)}" for key, value in overrides.items()])


def events_of(pipeline: Pipeline) -> Demo:
    """Return the definition of the events, as the source reads it."""
    pace = ("rows_per_batch", "partitions", "speed")
    return demo(**{name: value for name, value in pipeline.source.options.items() if name not in pace})


def rules_of(pipeline: Pipeline) -> verify.Rules:
    """Return the windows and delays of the pipeline as plain numbers, for the recomputation."""
    rolling = pipeline.rolling
    return verify.Rules(
        key=rolling.keys[0],
        windows={name: _microseconds(size) for name, size in rolling.spec.windows.items()},
        every=_microseconds(rolling.every),
        delay=_microseconds(pipeline.source.watermark),
        lateness=_microseconds(rolling.lateness),
        rows_per_batch=int(pipeline.source.options["rows_per_batch"]),
    )


def _microseconds(duration: Any) -> int:
    return nanoseconds(duration, "demo.toml") // 1000


def summarize(folder: Folder, pipeline: Pipeline, settings: Settings, broker: Broker | None = None) -> Summary:
    """Verify the results of a finished run, and return everything that the report shows; `broker` has them, if any."""
    rules = rules_of(pipeline)
    latest, history = _tables(folder, rules, broker)
    events = verify.Events.of(events_of(pipeline), settings.rows, rules.key)
    batches = summary.recorded(folder.progress)
    verdict = verify.verify(events, rules, latest, late_counted(batches, settings))
    revised = summary.revised_of(history, rules, str(pipeline.view.column))
    return Summary(events, rules, verify.arrived(events, rules), verdict, revised, batches)


def _tables(folder: Folder, rules: verify.Rules, broker: Broker | None) -> tuple["Table", "Table"]:
    """Return the latest revision of each result, and all revisions."""
    if broker is not None:
        results = Results.of(broker, rules.columns)
        return results.latest, results.history
    from sash.spark import upserted_table

    latest = upserted_table(folder.results)
    return latest, history_of(folder, latest, rules.key)


def late_counted(batches: list[dict[str, Any]], settings: Settings) -> int | None:
    """Return the number of rows that the pipeline counted as too late.

    None where a micro-batch is missing, because its run was killed after the commit and before its line was written.
    """
    if sum(batch["rows"] for batch in batches) != settings.rows:
        return None
    return sum(int(batch["late"]) for batch in batches)


def history_of(folder: Folder, latest: "Table", key: str) -> "Table":
    """Return every revision of every result, from the current files of the results and those they replaced.

    Results that are gone from the table have one more, which is `deleted`.
    """
    import pyarrow as pa

    table = summary.tables_of(list(folder.results.glob("*.parquet"))).select(latest.column_names).cast(latest.schema)
    # A file that replaces another repeats its unchanged rows.
    table = table.group_by(table.column_names, use_threads=False).aggregate([])
    identity = [key, "window_end"]
    last = table.group_by(identity, use_threads=False).aggregate([("revision", "max")])
    gone = last.join(latest.select(identity), identity, join_type="left anti", use_threads=False)
    after = pa.array([number + 1 for number in gone["revision_max"].to_pylist()], pa.int64())
    tombstones = gone.select(identity).append_column("revision", after)
    flags = [
        part.append_column("deleted", pa.array([flag] * part.num_rows, pa.bool_()))
        for part, flag in ((table, False), (tombstones, True))
    ]
    return pa.concat_tables(flags, promote_options="default")
