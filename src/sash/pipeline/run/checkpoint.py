"""What a stream's checkpoint says: its query, its last commit, and the watermark that it has reached.

Files are read by Python where the checkpoint is on this machine, and by Spark where it is not.
"""

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from sash.errors import CorruptStateError, shown
from sash.locations import Location, location
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run.error_text import condition_of
from sash.spark.durable import make_directory, sync

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a stream; `spark` may be None for one on this machine."""

    place: Location
    spark: SparkSession | None

    def query_id(self) -> str | None:
        """Return the id of the query, or None before its first run."""
        text = self._text("metadata")
        if text is None:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStateError(
                f"checkpoint {shown(self.place.text)} has a file metadata that cannot be read; restore it, or start "
                "from a new checkpoint.",
                argument="checkpoint",
            ) from error

    def last_commit(self) -> int:
        """Return the number of the last micro-batch that was committed, -1 if there is none."""
        return max((int(name) for name in self._names("commits") if name.isdigit()), default=-1)

    def plan_overdue(self) -> datetime | None:
        """Plan a micro-batch without rows if the watermark has advanced and none has run at it; return that watermark.

        While a query runs, Spark follows up with such a micro-batch, which emits what is due. After a restart it does
        not, but it repeats a micro-batch that was planned and not committed. So this writes what Spark writes when it
        plans one: the offsets of the last micro-batch again, and the watermark that it reached.
        """
        number = self.last_commit()
        if number < 0 or self.spark is None or is_remote():
            return None
        committed, planned = self._text(f"commits/{number}"), self._text(f"offsets/{number}")
        if self._text(f"offsets/{number + 1}") is not None or committed is None or planned is None:
            return None  # it repeats that one
        lines, reached = planned.splitlines(), _metadata(committed, 1).get("nextBatchWatermarkMs", 0)
        metadata = _metadata(planned, 1)
        if lines[0] != "v1" or reached <= metadata.get("batchWatermarkMs", reached) or not self._follows_up():
            return None
        metadata |= {"batchWatermarkMs": reached, "batchTimestampMs": time.time_ns() // 10**6}
        self._create(f"offsets/{number + 1}", "\n".join([lines[0], json.dumps(metadata), *lines[2:]]))
        return _EPOCH + timedelta(milliseconds=reached)

    def note(self, name: str) -> str | None:
        """Return a note that was added to the checkpoint, or None."""
        return self._text(name)

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

    # --- files --------------------------------------------------------------------------------------

    def _text(self, name: str) -> str | None:
        """Return the contents of a file, or None if it does not exist."""
        place = self.place / name
        if place.local is not None and not is_remote():
            return place.local.read_text() if place.local.exists() else None
        rows = self._read("text", str(place))
        return None if rows is None else "\n".join(row.value for row in rows.select("value").collect())

    def _names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, none if it does not exist."""
        place = self.place / folder
        if place.local is not None and not is_remote():
            return [entry.name for entry in place.local.glob("*")]
        rows = self._read("binaryFile", str(place))
        return [] if rows is None else [row.path.rsplit("/", 1)[-1] for row in rows.select("path").collect()]

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

    def _read(self, kind: str, path: str) -> Any:
        assert self.spark is not None
        try:
            return self.spark.read.format(kind).load(path)
        except AnalysisException as error:
            if condition_of(error) == "PATH_NOT_FOUND":
                return None
            raise


def checkpoint_of(pipeline: Pipeline, spark: SparkSession | None = None) -> Checkpoint:
    """Return the checkpoint of a stream."""
    return Checkpoint(location(pipeline.checkpoint, "checkpoint"), spark)


def _metadata(text: str, line: int) -> dict[str, Any]:
    """Return a line of JSON in one of Spark's logs, whose first line is a version."""
    found = json.loads(text.splitlines()[line])
    return found if isinstance(found, dict) else {}
