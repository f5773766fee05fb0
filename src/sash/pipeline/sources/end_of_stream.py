"""The end of a stream as rows: dated in the year 9999, they move the watermark and count nowhere.

A pipeline with `finish = true` has this source beside its own. It gives nothing until it is asked to finish, and then
a row in each of two micro-batches. The first moves the watermark; in the second everything that was pending becomes
final. Spark would run a micro-batch without rows for that, but not after a restart: a query that was killed between the
two would never give the rest.
"""

from collections.abc import Iterator, MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from sash.inputs.arrow import pyarrow
from sash.spark.stream.packing import END

FORMAT = "sash_end"
_ROWS = 2


class EndReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads nothing, or the rows at the end."""

    def __init__(self, schema: Any, time: str, finishing: bool) -> None:
        self.columns = to_arrow_schema(schema, timezone="UTC")
        self.time = time
        self.finishing = finishing

    def initialOffset(self) -> dict[str, int]:
        """Give the offset before the end."""
        return {"ended": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """What there is does not change."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Give the offset after the next row once the stream is to finish; there are two, and never more."""
        return {"ended": min(start["ended"] + 1, _ROWS)} if self.finishing else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Give the one task that reads the row, where there is one."""
        return [InputPartition(None)] if end["ended"] > start["ended"] else []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Give the row: null in all columns but that of times."""
        pa = pyarrow()
        columns = [
            pa.array([END], pa.int64()).cast(field.type) if field.name == self.time else pa.nulls(1, field.type)
            for field in self.columns
        ]
        # Spark asks to read even where there is nothing to read.
        if partition is not None:
            yield pa.RecordBatch.from_arrays(columns, schema=self.columns)


class EndSource(DataSource):
    """The source of that row; options `time`, the column of times, and `finishing`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.given = dict(options)

    @classmethod
    def name(cls) -> str:
        """Give the name that `format` takes."""
        return FORMAT

    def streamReader(self, schema: Any) -> EndReader:
        """Give the reader of a stream."""
        return EndReader(schema, self.given["time"], self.given["finishing"] == "true")
