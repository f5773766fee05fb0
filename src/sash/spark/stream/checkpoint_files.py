"""The files of a stream's checkpoint: its query, its commits, and the watermark of each micro-batch.

Files are read by Python where the checkpoint is on this machine, and by Spark where it is not.
"""

import json
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from sash.errors import CorruptStateError, shown
from sash.locations import Location


@dataclass(frozen=True)
class CheckpointFiles:
    """The checkpoint of a stream; `spark` may be None for one on this machine."""

    place: Location
    spark: SparkSession | None

    def query_id(self) -> str | None:
        """Return the id of the query, or None before its first run."""
        text = self.text("metadata")
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

    def commits(self) -> list[int]:
        """Return the numbers of the micro-batches that were committed and are still there, in order."""
        return sorted(int(name) for name in file_names(self.place / "commits", self.spark) if name.isdigit())

    def last_commit(self) -> int:
        """Return the number of the last micro-batch that was committed, -1 if there is none."""
        return max(self.commits(), default=-1)

    def watermark_ms(self, batch: int) -> int | None:
        """Return the watermark at which a micro-batch ran, in milliseconds, or None if there was none yet."""
        text = self.text(f"offsets/{batch}")
        found = None if text is None else log_line(text, 1).get("batchWatermarkMs")
        return found or None

    def text(self, name: str) -> str | None:
        """Return the contents of a file, or None if it does not exist."""
        place = self.place / name
        if place.local is not None and not is_remote():
            return place.local.read_text() if place.local.exists() else None
        rows = _read("text", place, self.spark)
        return None if rows is None else "\n".join(row.value for row in rows.select("value").collect())


def file_names(folder: Location, spark: SparkSession | None) -> list[str]:
    """Return the names of the files in a folder, none if it does not exist."""
    if folder.local is not None and not is_remote():
        return [entry.name for entry in folder.local.glob("*")]
    rows = _read("binaryFile", folder, spark)
    return [] if rows is None else [row.path.rsplit("/", 1)[-1] for row in rows.select("path").collect()]


def log_line(text: str, line: int) -> dict[str, Any]:
    """Return a line of JSON in one of Spark's logs, whose first line is a version."""
    found = json.loads(text.splitlines()[line])
    return found if isinstance(found, dict) else {}


def _read(kind: str, place: Location, spark: SparkSession | None) -> Any:
    assert spark is not None
    try:
        return spark.read.format(kind).load(str(place))
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
