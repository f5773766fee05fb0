"""The rows that end a stream, without Spark."""

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from sash.pipeline.sources.end_of_stream import EndReader
from sash.spark.stream.packing import END

SCHEMA = StructType([StructField("ts", TimestampType()), StructField("amount", LongType())])


def offsets(reader, start, most=5):
    """Return the offsets of the micro-batches that follow, as a query requests them until there is no more."""
    found = [start]
    while len(found) <= most and (latest := reader.latestOffset(found[-1], ReadAllAvailable())) != found[-1]:
        found.append(latest)
    return [offset["ended"] for offset in found]


def test_the_end_comes_in_two_micro_batches():
    """Pending results come out in the second, also where a query was killed after the first."""
    reader = EndReader(SCHEMA, "ts", finishing=True)
    assert offsets(reader, reader.initialOffset()) == [0, 1, 2]
    assert offsets(reader, {"ended": 1}) == [1, 2]
    assert offsets(reader, {"ended": 2}) == [2]


def test_there_is_no_end_until_the_stream_is_to_finish():
    assert offsets(EndReader(SCHEMA, "ts", finishing=False), {"ended": 0}) == [0]


def test_the_row_moves_the_watermark_and_holds_nothing():
    reader = EndReader(SCHEMA, "ts", finishing=True)
    (partition,) = reader.partitions({"ended": 0}, {"ended": 1})
    (rows,) = reader.read(partition)
    assert rows.column("ts").cast("int64").to_pylist() == [END] and rows.column("amount").null_count == 1
    assert reader.partitions({"ended": 1}, {"ended": 1}) == []
