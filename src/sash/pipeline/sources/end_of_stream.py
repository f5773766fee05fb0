"""The end of a stream as rows: dated in the year 9999, they advance the watermark and are not counted.

A pipeline with `finish = true` reads this source in addition to its own. It returns nothing until the stream is to
finish, and then one row in each of two micro-batches. The first advances the watermark; in the second everything
pending becomes final. Spark would run a micro-batch without rows for that, but not after a restart: a query that was
killed between the two would never emit the rest.
"""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sash.errors import UnsupportedError
from sash.inputs.arrow import pyarrow
from sash.spark.stream.packing import END

try:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
except ImportError as error:  # before 4.2, streams in Python had neither limits nor available-now
    from pyspark import __version__

    raise UnsupportedError(
        f"finish = true needs pyspark 4.2 or newer, got {__version__}.", argument="finish"
    ) from error

if TYPE_CHECKING:
    from pyarrow import RecordBatch

FORMAT = "sash_end"
_ROWS = 2


class EndReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows that end a stream, once it is to finish."""

    def __init__(self, schema: StructType, time: str, finishing: bool) -> None:
        self.columns = to_arrow_schema(schema, timezone="UTC")
        self.time = time
        self.finishing = finishing

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before the first row."""
        return {"ended": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing: the rows are fixed."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the offset after the next of the two rows, once the stream is to finish."""
        return {"ended": min(start["ended"] + 1, _ROWS)} if self.finishing else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return one partition where there is a row to read."""
        return [InputPartition(None)] if end["ended"] > start["ended"] else []

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        """Yield the row, null in all columns but the time."""
        pa = pyarrow()
        columns = [
            pa.array([END], pa.int64()).cast(field.type) if field.name == self.time else pa.nulls(1, field.type)
            for field in self.columns
        ]
        # Spark calls this with None where there are no partitions.
        if partition is not None:
            yield pa.RecordBatch.from_arrays(columns, schema=self.columns)


class EndSource(DataSource):
    """The source of these rows; options `time`, the time column, and `finishing`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.settings = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def streamReader(self, schema: StructType) -> EndReader:
        """Return the reader for a stream."""
        return EndReader(schema, self.settings["time"], self.settings["finishing"] == "true")
