"""run: a pipeline from its source to its sink, as a stream or as a batch, with what it counts on the way."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from sash.pipeline.config.errors import PipelineFileError
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run import quarantine, sinks
from sash.pipeline.run.dataframes import Frames, frames_of
from sash.pipeline.run.error_text import PipelineError, told
from sash.pipeline.run.spark_session import session_of
from sash.spark.stream.metrics import of_batch

_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 30.0  # how long a stop waits for the micro-batch at hand
_NO_WATERMARK = "1970-01-01"


@dataclass(frozen=True)
class Progress:
    """What one micro-batch did.

    `rows` came out of the steps, `value` is that of the drawn column at the latest instant of the results.
    `state_bytes` and `live_keys` are those of the buckets that the last micro-batch with rows touched.
    """

    batch: int
    rows: int
    seconds: float
    rows_per_second: float
    watermark: str | None
    late: int
    revised: int
    emitted: int
    quarantined: int
    state_bytes: int
    live_keys: int
    value: float | None


@dataclass
class Outcome:
    """What a run did altogether; `stopped` tells whether it was asked to end."""

    rows_in: int = 0
    emitted: int = 0
    late: int = 0
    revised: int = 0
    quarantined: int = 0
    batches: int = 0
    seconds: float = 0.0
    stopped: bool = False

    def add(self, progress: Progress) -> None:
        """Count a micro-batch."""
        self.rows_in += progress.rows
        self.emitted += progress.emitted
        self.late += progress.late
        self.revised += progress.revised
        self.quarantined += progress.quarantined
        self.batches += 1


def run(
    pipeline: Pipeline,
    *,
    once: bool = False,
    spark: SparkSession | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Run a pipeline to its end, or until `stop` is set, and tell what it did.

    `once` makes a stream take what there is and end. `on_progress` gets every micro-batch, of a batch one for all. A
    stop lets the micro-batch at hand come to its end; the checkpoint then says where to go on. Without `spark` it is
    the one that the file asks for, which stays up. Whatever fails on the way is a `PipelineError` with its cause.
    """
    began = time.monotonic()
    spark = session_of(pipeline) if spark is None else spark
    going = _Run(pipeline, spark, on_progress, stop or threading.Event())
    try:
        if pipeline.mode == "batch":
            going.batch()
        else:
            going.stream(once=once or pipeline.mode == "available-now")
    except (PipelineFileError, PipelineError):
        raise
    except Exception as error:
        raise PipelineError(f"{pipeline.name}: {told(error)}") from error
    going.outcome.seconds = time.monotonic() - began
    return going.outcome


@dataclass
class _Run:
    """A run under way."""

    pipeline: Pipeline
    spark: SparkSession
    on_progress: Callable[[Progress], None] | None
    stop: threading.Event
    outcome: Outcome = field(default_factory=Outcome)
    _seen: tuple[int, str] = (-1, "")
    _held: tuple[int, int] = (0, 0)

    # --- streams ----------------------------------------------------------------------------------

    def stream(self, *, once: bool) -> None:
        """Run a stream; one that is to finish runs once more, with the row that ends it."""
        if self.stop.is_set():
            self.outcome.stopped = True
            return
        quarantine.tidy(self.pipeline, streaming=True)
        self._query(once=once, finishing=False)
        if once and self.pipeline.finish and not self.outcome.stopped:
            self._query(once=True, finishing=True)

    def _query(self, *, once: bool, finishing: bool) -> None:
        frames = frames_of(self.pipeline, self.spark, streaming=True, finishing=finishing)
        query = sinks.started(self.pipeline, frames.results, once=once)
        self._seen = (-1, "")
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                self._tell(query)
                if self.stop.is_set():
                    self._settle(query)
                    self.outcome.stopped = True
                    break
        finally:
            query.stop()
            self._tell(query)

    def _settle(self, query: Any) -> None:
        """Wait until the micro-batch at hand is over, or the query is between two."""
        until, before = time.monotonic() + _PATIENCE_SECONDS, self._seen
        while time.monotonic() < until and query.isActive and query.status["isTriggerActive"]:
            self._tell(query)
            if self._seen != before:
                return
            time.sleep(_POLL_SECONDS / 4)

    def _tell(self, query: Any) -> None:
        last = query.lastProgress
        if last is None or (last.batchId, last.timestamp) == self._seen:
            return
        for progress in _after(self._seen, query.recentProgress):
            self._seen = progress["batchId"], progress["timestamp"]
            if "addBatch" in progress["durationMs"]:  # Spark tells every ten seconds that it waits, too
                self._take(self._progress(progress))

    def _progress(self, told: dict[str, Any]) -> Progress:
        counts, observed = of_batch(told), told.get("observedMetrics", {})
        aside, results = observed.get("quarantine") or {}, observed.get("results") or {}
        rows, seconds = int(aside.get("rows") or 0), counts["seconds"]
        if counts["records"]:
            self._held = counts["state_bytes"], counts["live_keys"]
        watermark = counts["watermark"]
        return Progress(
            batch=counts["batch"],
            rows=rows,
            seconds=seconds,
            rows_per_second=rows / seconds if seconds else 0.0,
            watermark=None if watermark is None or watermark.startswith(_NO_WATERMARK) else watermark,
            late=counts["late"],
            revised=counts["revised"],
            emitted=counts["emitted"],
            quarantined=_quarantined(aside),
            state_bytes=self._held[0],
            live_keys=self._held[1],
            value=results.get("value"),
        )

    def _take(self, progress: Progress) -> None:
        self.outcome.add(progress)
        if self.on_progress is not None:
            self.on_progress(progress)

    # --- batches ----------------------------------------------------------------------------------

    def batch(self) -> None:
        """Run a batch, in a thread of its own so that it can be stopped."""
        quarantine.tidy(self.pipeline, streaming=False)
        frames, began = frames_of(self.pipeline, self.spark, streaming=False), time.monotonic()
        work = _Work(self.pipeline, self.spark, frames)
        work.start()
        while work.is_alive():
            work.join(_POLL_SECONDS)
            if self.stop.is_set():
                # Jobs that run are cancelled; one that is yet to begin is met the next time round.
                work.cancel()
        self.outcome.stopped = self.stop.is_set() and work.error is not None
        if work.error is None:
            self._take(_of_batch(frames, time.monotonic() - began))
        elif not self.outcome.stopped:
            raise work.error


class _Work(threading.Thread):
    """The writing of a batch, under a name by which Spark finds its jobs."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, frames: Frames) -> None:
        super().__init__(name=f"sash-{pipeline.name}", daemon=True)
        self.pipeline, self.spark, self.frames = pipeline, spark, frames
        self.group = f"sash-{uuid4().hex}"
        # Classic Spark knows jobs by group, and its tags miss those of a write; Spark Connect knows tags alone.
        self.context = None if is_remote() else spark.sparkContext
        self.error: Exception | None = None

    def run(self) -> None:
        """Write, and keep what went wrong for the one who waits."""
        try:
            self._named()
            sinks.written(self.pipeline, self.frames.results)
        except Exception as error:
            self.error = error

    def cancel(self) -> None:
        """Cancel the jobs that run."""
        if self.context is None:
            self.spark.interruptTag(self.group)
        else:
            self.context.cancelJobGroup(self.group)

    def _named(self) -> None:
        if self.context is None:
            self.spark.addTag(self.group)
        else:
            self.context.setJobGroup(self.group, self.pipeline.name)


def _of_batch(frames: Frames, seconds: float) -> Progress:
    aside, results = frames.observed["quarantine"].get, frames.observed["results"].get
    rows = int(aside["rows"])
    return Progress(
        batch=0,
        rows=rows,
        seconds=seconds,
        rows_per_second=rows / seconds if seconds else 0.0,
        watermark=None,
        late=0,
        revised=0,
        emitted=int(results["emitted"]),
        quarantined=_quarantined(aside),
        state_bytes=0,
        live_keys=0,
        value=results["value"],
    )


def _quarantined(aside: dict[str, Any]) -> int:
    return sum(int(aside.get(reason) or 0) for reason in quarantine.REASONS)


def _after(seen: tuple[int, str], recent: Any) -> Iterator[dict[str, Any]]:
    """Give the progress of micro-batches that were not seen, the oldest first; a number may come again when idle."""
    for progress in recent:
        if (progress.batchId, progress.timestamp) > seen:
            yield json.loads(progress.json)
