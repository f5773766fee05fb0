"""The Spark sources `demo` and `replay`, through Spark's Python Data Source API.

An offset is a row number and rows never change, so the rows between two offsets are the same after a restart. The pace
only decides how far the next micro-batch may go; a stopped stream resumes at its pace from where it stopped.
Available-now reads all available rows, in micro-batches of `rows_per_batch`. Rows are produced in Arrow batches.
"""

import time
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from sash.errors import ArgumentError, CorruptStateError, KindError, UnsupportedError, shown
from sash.pipeline.sources.generated import Demo, read_demo
from sash.pipeline.sources.options import Options
from sash.pipeline.sources.replay import Places, Replay, read_replay

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError as error:  # before 4.2, streams in Python had neither limits nor available-now
    from pyspark import __version__

    raise UnsupportedError(f"The sources demo and replay need pyspark 4.2 or newer, got {__version__}.") from error

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_FEW_ROWS = 1024


@dataclass(frozen=True)
class Pace:
    """The pace of a stream: the speed-up, the rows of a micro-batch, and the tasks that read it."""

    speed: float | None
    rows_per_batch: int
    partitions: int

    @staticmethod
    def of(read: Options) -> "Pace":
        """Return the pace that options describe."""
        rows = read.integer("rows_per_batch", 100_000, least=1)
        return Pace(read.speed(), rows, read.integer("partitions", 2, least=1, most=10_000))


class RowRange(InputPartition):
    """Rows [start, stop), and their positions in files that are not in order of arrival."""

    def __init__(self, start: int, stop: int, places: Places | None = None) -> None:
        self.start = start
        self.stop = stop
        self.places = places


def ranges(rows: Demo | Replay, start: int, stop: int, partitions: int) -> list[RowRange]:
    """Return rows [start, stop) as about equal ranges; few rows are one range, and no rows none."""
    if stop <= start:
        return []
    pieces = min(partitions, max(1, (stop - start) // _FEW_ROWS))
    cuts = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
    return [RowRange(low, high, _places(rows, low, high)) for low, high in pairwise(cuts)]


def _places(rows: Demo | Replay, start: int, stop: int) -> Places | None:
    return rows.places(start, stop) if isinstance(rows, Replay) else None


def _read(rows: Demo | Replay, part: InputPartition) -> Iterator["RecordBatch"]:
    # Spark calls this with another partition where there are no rows.
    if not isinstance(part, RowRange):
        return iter(())
    if isinstance(rows, Replay):
        return rows.batches(part.start, part.stop, part.places)
    return rows.batches(part.start, part.stop)


class RowReader(DataSourceReader):
    """Reads all rows at once, in a batch query."""

    def __init__(self, rows: Demo | Replay, pace: Pace) -> None:
        self.rows = rows
        self.pace = pace

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of rows that tasks read."""
        return list(ranges(self.rows, 0, _all_rows(self.rows, "a batch query"), self.pace.partitions))

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        """Yield the rows of a range in Arrow batches."""
        return _read(self.rows, partition)


class RowStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads rows as they arrive, or all available ones with available-now."""

    def __init__(self, rows: Demo | Replay, pace: Pace) -> None:
        self.rows = rows
        self.pace = pace
        self._everything = pace.speed is None
        self._begun: tuple[float, int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of the first row."""
        return self._offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a micro-batch."""
        return ReadMaxRows(self.pace.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read all available rows, without a pace."""
        _all_rows(self.rows, "available-now")
        self._everything = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the offset after the next micro-batch."""
        first = self._row(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if not self._everything:
            available = self._arrived(first)
        elif self.rows.total is not None:
            available = self.rows.total
        else:  # an endless stream always has a full micro-batch
            available = first + (most or self.pace.rows_per_batch)
        return self._offset(max(first, available if most is None else min(available, first + most)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the ranges of rows that the tasks of a micro-batch read."""
        return list(ranges(self.rows, self._row(start), self._row(end), self.pace.partitions))

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        """Yield the rows of a range in Arrow batches."""
        return _read(self.rows, partition)

    def _arrived(self, first: int) -> int:
        """Return the number of rows that have arrived at the pace since this run began."""
        total = self.rows.total
        if total is not None and first >= total:
            return total
        now = time.monotonic()
        if self._begun is None:
            self._begun = now, self.rows.arrival(first)
        since, at = self._begun
        assert self.pace.speed is not None
        return self.rows.arrived(at + int((now - since) * self.pace.speed * 1e6))

    def _offset(self, row: int) -> dict[str, Any]:
        return {"row": row, "of": self.rows.fingerprint}

    def _row(self, offset: dict[str, Any]) -> int:
        """Return the row number of an offset, or raise an error for an offset of other rows."""
        if offset.get("of") != self.rows.fingerprint:
            raise CorruptStateError(
                "The rows are not those of the checkpoint; use the same options and files, or a new checkpoint."
            )
        return int(offset["row"])


def _all_rows(rows: Demo | Replay, what: str) -> int:
    if rows.total is None:
        raise ArgumentError(f"rows must be set for {what}, because the events are endless without it.", argument="rows")
    return rows.total


class _Rows(DataSource):
    """The base of both sources: options checked when it is opened, and readers for batches and streams."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.settings = dict(options)

    def rows(self, schema: StructType | None = None) -> tuple[Demo | Replay, Pace]:
        """Return the rows and the pace that the options describe."""
        raise NotImplementedError

    def schema(self) -> StructType:
        """Return the columns of the rows."""
        rows, _ = self.rows()
        try:
            return from_arrow_schema(rows.schema)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise KindError(f"path has a column of a type that Spark lacks: {reason}.", argument="path") from error

    def reader(self, schema: StructType) -> RowReader:
        """Return the reader for a batch query."""
        return RowReader(*self.rows(schema))

    def streamReader(self, schema: StructType) -> RowStreamReader:
        """Return the reader for a stream."""
        return RowStreamReader(*self.rows(schema))


class DemoSource(_Rows):
    """Generated keyed events that arrive late and out of order; the options are those of `sources.generated.demo`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "demo"

    def rows(self, schema: StructType | None = None) -> tuple[Demo, Pace]:
        """Return the events and the pace that the options describe."""
        read = Options(self.settings, self.name())
        events, pace = read_demo(read), Pace.of(read)
        read.done()
        if schema is not None and schema.fieldNames() != events.schema.names:
            names = ", ".join(events.schema.names)
            raise ArgumentError(
                f"schema must be left out or be {names}, got {shown(schema.fieldNames())}.", argument="schema"
            )
        return events, pace


class ReplaySource(_Rows):
    """The rows of files in order of arrival; options `path`, `arrival`, `files` and the pace."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "replay"

    def rows(self, schema: StructType | None = None) -> tuple[Replay, Pace]:
        """Return the files and the pace that the options describe."""
        read = Options(self.settings, self.name())
        arrow_schema = None if schema is None else to_arrow_schema(schema, timezone="UTC")
        files, pace = read_replay(read, arrow_schema), Pace.of(read)
        read.done()
        return files, pace


_SOURCES: tuple[type[_Rows], ...] = (DemoSource, ReplaySource)


def register(spark: SparkSession) -> None:
    """Register the formats `demo` and `replay` with a session."""
    for source in _SOURCES:
        spark.dataSource.register(source)


def check(name: str, options: MutableMapping[str, str], schema: StructType | None) -> None:
    """Raise an error for the options of a source, as Spark would when it opens it."""
    (source,) = (source for source in _SOURCES if source.name() == name)
    source(options).rows(schema)
