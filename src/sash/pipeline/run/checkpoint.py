"""A pipeline's checkpoint, and the micro-batch that was due at the last stop."""

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from sash.locations import location
from sash.pipeline.config.read import Pipeline
from sash.spark.durable import make_directory, sync
from sash.spark.stream.checkpoint_files import CheckpointFiles, log_line

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"


@dataclass(frozen=True)
class Checkpoint(CheckpointFiles):
    """The checkpoint of a pipeline; `spark` may be None for one on this machine."""

    def plan_overdue(self) -> datetime | None:
        """Plan a micro-batch without rows if the watermark has advanced and none has run at it; return that watermark.

        While a query runs, Spark follows up with such a micro-batch, which emits what is due. After a restart it does
        not, but it repeats a micro-batch that was planned and not committed. So this writes what Spark writes when it
        plans one: the offsets of the last micro-batch again, and the watermark that it reached.
        """
        number = self.last_commit()
        if number < 0 or self.spark is None or is_remote():
            return None
        committed, planned = self.text(f"commits/{number}"), self.text(f"offsets/{number}")
        if self.text(f"offsets/{number + 1}") is not None or committed is None or planned is None:
            return None  # it repeats that one
        lines, reached = planned.splitlines(), log_line(committed, 1).get("nextBatchWatermarkMs", 0)
        metadata = log_line(planned, 1)
        if lines[0] != "v1" or reached <= metadata.get("batchWatermarkMs", reached) or not self._follows_up():
            return None
        metadata |= {"batchWatermarkMs": reached, "batchTimestampMs": time.time_ns() // 10**6}
        self._create(f"offsets/{number + 1}", "\n".join([lines[0], json.dumps(metadata), *lines[2:]]))
        return _EPOCH + timedelta(milliseconds=reached)

    def note(self, name: str) -> str | None:
        """Return a note that was added to the checkpoint, or None."""
        return self.text(name)

    def add_note(self, name: str, text: str) -> None:
        """Add a file that Spark does not read; it appears whole or not at all."""
        if self.place.local is None or not is_remote():
            self._create(name, text)
            return
        make_directory(self.place.local)
        hidden = self.place.local / f".{name}"
        hidden.write_text(text)
        sync(hidden)
        hidden.rename(self.place.local / name)

    def _follows_up(self) -> bool:
        assert self.spark is not None
        return self.spark.conf.get("spark.sql.streaming.noDataMicroBatches.enabled", "true") == "true"

    def _create(self, name: str, text: str) -> None:
        """Write a file that must not exist yet, as Spark does: it appears whole or not at all."""
        assert self.spark is not None
        jvm: Any = self.spark._jvm
        context: Any = self.spark.sparkContext
        manager = getattr(getattr(jvm, f"{_MANAGER}$"), "MODULE$")
        path = jvm.org.apache.hadoop.fs.Path(str(self.place / name))
        files = manager.create(path.getParent(), context._jsc.hadoopConfiguration())
        files.mkdirs(path.getParent())
        stream = files.createAtomic(path, False)
        stream.write(bytearray(text.encode()))
        stream.close()


def checkpoint_of(pipeline: Pipeline, spark: SparkSession | None = None) -> Checkpoint:
    """Return the checkpoint of a stream."""
    return Checkpoint(location(pipeline.checkpoint, "checkpoint"), spark)
