"""The `demo` and `replay` sources of Spark, by its Python Data Source API.

An offset is a row number and rows never change, so what lies between two offsets is the same after a restart. The pace
only decides how far the next micro-batch may go; a stopped stream goes on at its pace from where it stopped.
Available-now takes all rows there are, in micro-batches of `rows_per_batch`. Rows are made or read in Arrow batches.
"""

import time
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from sash.errors import ArgumentError, CorruptStateError, KindError, UnsupportedError, shown
from sash.pipeline.sources.generated import Demo, read_demo
from sash.pipeline.sources.options import Options
from sash.pipeline.sources.replay import Places, Replay, read_replay

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError as error:  # before 4.2 a stream of Python knew neither limits nor available-now
    from pyspark import __version__

    raise UnsupportedError(
        f"The sources demo and replay need pyspark 4.2 or newer, and {__version__} is installed; upgrade it."
    ) from error

_FEW_ROWS = 1024


@dataclass(frozen=True)
class Pace:
    """How rows are handed out: the speed-up, the rows of a micro-batch and the tasks that read it."""

    speed: float | None
    rows_per_batch: int
    partitions: int

    @staticmethod
    def of(read: Options) -> "Pace":
        """Return the pace that options ask for."""
        rows = read.whole("rows_per_batch", 100_000, least=1)
        return Pace(read.speed(), rows, read.whole("partitions", 2, least=1, most=10_000))


class Stretch(InputPartition):
    """Rows [start, stop), and where they stand in files that are not in order of arrival."""

    def __init__(self, start: int, stop: int, places: Places | None = None) -> None:
        self.start = start
        self.stop = stop
        self.places = places


def stretches(rows: Demo | Replay, start: int, stop: int, partitions: int) -> list[Stretch]:
    """Cut rows [start, stop) into about equal stretches, few rows into one and none into none."""
    if stop <= start:
        return []
    pieces = min(partitions, max(1, (stop - start) // _FEW_ROWS))
    cuts = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
    return [Stretch(low, high, _places(rows, low, high)) for low, high in pairwise(cuts)]


def _places(rows: Demo | Replay, start: int, stop: int) -> Places | None:
    return rows.places(start, stop) if isinstance(rows, Replay) else None


def _read(rows: Demo | Replay, stretch: InputPartition) -> Iterator[Any]:
    # Spark asks to read a stretch that is none where there are none.
    if not isinstance(stretch, Stretch):
        return iter(())
    if isinstance(rows, Replay):
        return rows.batches(stretch.start, stretch.stop, stretch.places)
    return rows.batches(stretch.start, stretch.stop)


class RowReader(DataSourceReader):
    """Reads all rows at once, in a batch query."""

    def __init__(self, rows: Demo | Replay, pace: Pace) -> None:
        self.rows = rows
        self.pace = pace

    def partitions(self) -> list[InputPartition]:
        """Return the stretches that tasks read."""
        return list(stretches(self.rows, 0, _all_rows(self.rows, "a batch query"), self.pace.partitions))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return a stretch in Arrow batches."""
        return _read(self.rows, partition)


class RowStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads rows as they arrive, or all there are with available-now."""

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
        """Take all rows there are, whatever the pace."""
        _all_rows(self.rows, "available-now")
        self._everything = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return how far the next micro-batch goes."""
        first = self._row(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if not self._everything:
            there = self._arrived(first)
        elif self.rows.total is not None:
            there = self.rows.total
        else:  # of events that never end there are always as many as are taken
            there = first + (most or self.pace.rows_per_batch)
        return self._offset(max(first, there if most is None else min(there, first + most)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the stretches of a micro-batch that tasks read."""
        return list(stretches(self.rows, self._row(start), self._row(end), self.pace.partitions))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return a stretch in Arrow batches."""
        return _read(self.rows, partition)

    def _arrived(self, first: int) -> int:
        """Return how many rows have arrived by now, at the pace, counted from the row that this run began with."""
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
        """Return the row of an offset; one of other rows would name others than it meant."""
        if offset.get("of") != self.rows.fingerprint:
            raise CorruptStateError(
                "The rows are not those of the checkpoint; give the same options and files, or a new checkpoint."
            )
        return int(offset["row"])


def _all_rows(rows: Demo | Replay, what: str) -> int:
    if rows.total is None:
        raise ArgumentError(f"rows: without a number of rows the events never end, which {what} cannot use; give one.")
    return rows.total


class _Rows(DataSource):
    """What both sources share: options checked at the call, a reader for batches and one for streams."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.options_given = dict(options)

    def rows(self, schema: Any = None) -> tuple[Demo | Replay, Pace]:
        """Return the rows and the pace that the options ask for."""
        raise NotImplementedError

    def schema(self) -> Any:
        """Return the columns of the rows."""
        rows, _ = self.rows()
        try:
            return from_arrow_schema(rows.schema)
        except Exception as error:
            raise KindError(f"path: a column has a type that Spark lacks: {' '.join(str(error).split())}.") from error

    def reader(self, schema: Any) -> RowReader:
        """Return the reader of a batch query."""
        return RowReader(*self.rows(schema))

    def streamReader(self, schema: Any) -> RowStreamReader:
        """Return the reader of a stream."""
        return RowStreamReader(*self.rows(schema))


class DemoSource(_Rows):
    """Made-up keyed events that arrive late and out of order; the options are those of `sources.generated.demo`."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return "demo"

    def rows(self, schema: Any = None) -> tuple[Demo, Pace]:
        """Return the events and the pace that the options ask for."""
        read = Options(self.options_given, self.name())
        made, pace = read_demo(read), Pace.of(read)
        read.done()
        if schema is not None and schema.fieldNames() != made.schema.names:
            raise ArgumentError(f"schema: {shown(schema.fieldNames())} are not the events' columns; leave it out.")
        return made, pace


class ReplaySource(_Rows):
    """The rows of files by order of arrival; options `path`, `arrival`, `files` and the pace."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return "replay"

    def rows(self, schema: Any = None) -> tuple[Replay, Pace]:
        """Return the files and the pace that the options ask for."""
        read = Options(self.options_given, self.name())
        wanted = None if schema is None else to_arrow_schema(schema, timezone="UTC")
        made, pace = read_replay(read, wanted), Pace.of(read)
        read.done()
        return made, pace


_SOURCES: tuple[type[_Rows], ...] = (DemoSource, ReplaySource)


def register(spark: SparkSession) -> None:
    """Register the formats `demo` and `replay` with a session."""
    for source in _SOURCES:
        spark.dataSource.register(source)


def check(name: str, options: MutableMapping[str, str], schema: StructType | None) -> None:
    """Raise an error for the options of a source, as Spark would when it opens it."""
    (source,) = (source for source in _SOURCES if source.name() == name)
    source(options).rows(schema)
