"""`run`: execute a pipeline from its source to its sink, as a stream or as a batch, and count what it did."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.utils import is_remote

from sash.pipeline.config.errors import PipelineFileError
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run import history, quarantine, sinks
from sash.pipeline.run.checkpoint import Checkpoint, checkpoint_of
from sash.pipeline.run.dataframes import Frames, frames_of, require_own_checkpoint
from sash.pipeline.run.error_text import PipelineError, cause_of
from sash.pipeline.run.spark_session import session_of
from sash.spark.stream.metrics import of_batch
from sash.spark.stream.totals import Totals

_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 30.0  # how long a stop waits for the current micro-batch
_NO_WATERMARK = "1970-01-01"


@dataclass(frozen=True)
class Progress:
    """The counts of one micro-batch.

    `rows` counts the output of the steps, and `value` is the plotted column at the latest time of the results.
    `state_bytes` and `live_keys` cover the buckets that the last micro-batch with rows touched. `kafka_lag` is the
    number of records in the topics of the sources that are not read yet, None if no source is Kafka. `questions` counts
    those of `[at]` after its steps, None if there is no such table.
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
    kafka_lag: int | None = None
    questions: int | None = None
    late_questions: int = 0


@dataclass
class Outcome:
    """The counts of a whole run; `stopped` is whether it was stopped before its end.

    `questions` is None for a pipeline without `[at]`.
    """

    rows_in: int = 0
    emitted: int = 0
    late: int = 0
    revised: int = 0
    quarantined: int = 0
    batches: int = 0
    seconds: float = 0.0
    stopped: bool = False
    questions: int | None = None
    late_questions: int = 0

    def add(self, progress: Progress) -> None:
        """Add the counts of a micro-batch."""
        self.rows_in += progress.rows
        self.emitted += progress.emitted
        self.late += progress.late
        self.revised += progress.revised
        self.quarantined += progress.quarantined
        self.batches += 1
        self.late_questions += progress.late_questions
        if progress.questions is not None:
            self.questions = (self.questions or 0) + progress.questions


def run(
    pipeline: Pipeline,
    *,
    once: bool = False,
    spark: SparkSession | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_change: Callable[[list[str]], None] | None = None,
    stop: threading.Event | None = None,
    totals: Totals | None = None,
) -> Outcome:
    """Run a pipeline to its end, or until `stop` is set, and return its counts.

    With `once` a stream processes the available data, then ends. `on_progress` is called for every micro-batch, and
    once for a batch, `on_change` if the definition differs from the one that the checkpoint was written with, and
    `totals` counts up what Spark reports. A stop waits for the current micro-batch, and the next run
    resumes from the checkpoint. `spark` defaults to the session that the file describes, which keeps running. A failure
    raises `PipelineError`.
    """
    began = time.monotonic()
    spark = session_of(pipeline) if spark is None else spark
    current = _Run(pipeline, spark, on_progress, stop or threading.Event(), totals or Totals(), on_change)
    try:
        if pipeline.mode == "batch":
            current.batch()
        else:
            current.stream(once=once or pipeline.mode == "available-now")
    except (PipelineFileError, PipelineError):
        raise
    except Exception as error:
        raise PipelineError(f"{pipeline.name}: {cause_of(error)}") from error
    current.outcome.seconds = time.monotonic() - began
    return current.outcome


@dataclass
class _Run:
    """A run in progress."""

    pipeline: Pipeline
    spark: SparkSession
    on_progress: Callable[[Progress], None] | None
    stop: threading.Event
    totals: Totals = field(default_factory=Totals)
    on_change: Callable[[list[str]], None] | None = None
    outcome: Outcome = field(default_factory=Outcome)
    _seen: tuple[int, str] = (-1, "")
    _state: tuple[int, int] = (0, 0)  # bytes and live keys

    # --- streams ----------------------------------------------------------------------------------

    def stream(self, *, once: bool) -> None:
        """Run a stream; with `finish` a second query reads the rows that end it."""
        if self.stop.is_set():
            self.outcome.stopped = True
            return
        try:
            self._stream(once=once)
        except Exception:
            # Whoever stops a service may terminate Spark's process together with this one.
            if not self.stop.is_set() or self._spark_runs():
                raise
            self.outcome.stopped = True

    def _stream(self, *, once: bool) -> None:
        checkpoint = checkpoint_of(self.pipeline, self.spark)
        frames = frames_of(self.pipeline, self.spark, streaming=True, seeded=checkpoint.last_commit() < 0)
        changes = require_own_checkpoint(self.pipeline, frames, checkpoint)
        if changes and self.on_change is not None:
            self.on_change(changes)
        quarantine.prepare(self.pipeline, checkpoint)
        if history.is_due(self.pipeline, checkpoint) and not self._backfill(checkpoint):
            return
        checkpoint.plan_overdue()
        self._query(frames, once=once)
        if once and self.pipeline.finish and not self.outcome.stopped:
            self._query(frames_of(self.pipeline, self.spark, streaming=True, finishing=True, seeded=False), once=True)

    def _spark_runs(self) -> bool:
        context: Any = None if is_remote() else self.spark.sparkContext
        try:
            return context is None or not context._jsc.sc().isStopped()
        except Exception:  # its process is gone
            return False

    def _query(self, frames: Frames, *, once: bool) -> None:
        query = sinks.start(self.pipeline, frames.results, once=once)
        self._seen = (-1, "")
        try:
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]  # which takes fractions too
                self._report(query)
                if self.stop.is_set():
                    self._settle(query)
                    self.outcome.stopped = True
                    break
        finally:
            query.stop()
            self._report(query)

    def _settle(self, query: StreamingQuery) -> None:
        """Wait until the current micro-batch is done, or the query is idle."""
        until, before = time.monotonic() + _PATIENCE_SECONDS, self._seen
        while time.monotonic() < until and query.isActive and query.status["isTriggerActive"]:
            self._report(query)
            if self._seen != before:
                return
            time.sleep(_POLL_SECONDS / 4)

    def _report(self, query: StreamingQuery) -> None:
        """Report the micro-batches since the last call."""
        last = query.lastProgress
        if last is None or (last.batchId, last.timestamp) == self._seen:
            return
        for progress in _after(self._seen, query.recentProgress):
            self._seen = progress["batchId"], progress["timestamp"]
            self.totals.add(progress)
            if "addBatch" in progress["durationMs"]:  # not the report that Spark makes every ten seconds while idle
                self._add(self._progress(progress))

    def _progress(self, report: dict[str, Any]) -> Progress:
        counts, observed = of_batch(report), report.get("observedMetrics", {})
        rows_in, results = observed.get("quarantine") or {}, observed.get("results") or {}
        asked = observed.get("questions") or {}
        rows, seconds = int(rows_in.get("rows") or 0), counts["seconds"]
        if counts["records"]:
            self._state = counts["state_bytes"], counts["live_keys"]
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
            quarantined=_quarantined(rows_in) + _quarantined(asked),
            state_bytes=self._state[0],
            live_keys=self._state[1],
            value=results.get("value"),
            kafka_lag=counts["kafka_lag"],
            questions=None if self.pipeline.at is None else int(asked.get("rows") or 0),
            late_questions=counts["late_questions"],
        )

    def _add(self, progress: Progress) -> None:
        self.outcome.add(progress)
        if self.on_progress is not None:
            self.on_progress(progress)

    # --- batches ----------------------------------------------------------------------------------

    def batch(self) -> None:
        """Run a batch in a separate thread, so that it can be stopped."""
        quarantine.prepare(self.pipeline, None)
        self._write(self.pipeline, frames_of(self.pipeline, self.spark, streaming=False))

    def _backfill(self, checkpoint: Checkpoint) -> bool:
        """Write what the stream after a history will not emit, and return whether all of it was written."""
        found = history.backfill_of(self.pipeline, self.spark)
        if found is not None:
            quarantine.prepare(self.pipeline, None)
            self._write(*found)
        if self.outcome.stopped:
            return False
        history.finish(checkpoint)
        return True

    def _write(self, pipeline: Pipeline, frames: Frames) -> None:
        began = time.monotonic()
        work = _Work(pipeline, self.spark, frames)
        work.start()
        while work.is_alive():
            work.join(_POLL_SECONDS)
            if self.stop.is_set():
                # Cancels running jobs; a job that has yet to start is cancelled in the next round.
                work.cancel()
        self.outcome.stopped = self.stop.is_set() and work.error is not None
        if work.error is None:
            self._add(_of_batch(frames, time.monotonic() - began))
        elif not self.outcome.stopped:
            raise work.error


class _Work(threading.Thread):
    """A thread that writes a batch, in a job group that can be cancelled."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, frames: Frames) -> None:
        super().__init__(name=f"sash-{pipeline.name}", daemon=True)
        self.pipeline, self.spark, self.frames = pipeline, spark, frames
        self.group = f"sash-{uuid4().hex}"
        # Classic Spark cancels jobs by group, because its tags miss those of a write; Spark Connect has tags only.
        self.context = None if is_remote() else spark.sparkContext
        self.error: Exception | None = None

    def run(self) -> None:
        """Write the results, and store the error for the waiting thread."""
        try:
            self._join_group()
            sinks.write(self.pipeline, self.frames.results)
        except Exception as error:
            self.error = error

    def cancel(self) -> None:
        """Cancel the running jobs."""
        if self.context is None:
            self.spark.interruptTag(self.group)
        else:
            self.context.cancelJobGroup(self.group)

    def _join_group(self) -> None:
        if self.context is None:
            self.spark.addTag(self.group)
        else:
            self.context.setJobGroup(self.group, self.pipeline.name)


def _of_batch(frames: Frames, seconds: float) -> Progress:
    rows_in, results = frames.observations["quarantine"].get, frames.observations["results"].get
    asked = {} if frames.questions is None else frames.observations["questions"].get
    rows = int(rows_in["rows"])
    return Progress(
        batch=0,
        rows=rows,
        seconds=seconds,
        rows_per_second=rows / seconds if seconds else 0.0,
        watermark=None,
        late=0,
        revised=0,
        emitted=int(results["emitted"]),
        quarantined=_quarantined(rows_in) + _quarantined(asked),
        state_bytes=0,
        live_keys=0,
        value=results["value"],
        questions=None if frames.questions is None else int(asked["rows"]),
    )


def _quarantined(counts: dict[str, Any]) -> int:
    return sum(int(counts.get(reason) or 0) for reason in quarantine.REASONS)


def _after(seen: tuple[int, str], recent: Iterable[StreamingQueryProgress]) -> Iterator[dict[str, Any]]:
    """Yield the reports of Spark after the last one seen, oldest first; an idle query repeats a batch number."""
    for progress in recent:
        if (progress.batchId, progress.timestamp) > seen:
            yield json.loads(progress.json)
