"""The rows of a micro-batch on the driver, as Arrow tables, and the query that they belong to."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from sash.inputs.arrow import pyarrow
from sash.spark.columns import with_numbered_columns
from sash.spark.schema import utc_schema
from sash.spark.stream.row_order import row_hashes

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY = "sql.streaming.queryId"
_TOO_LARGE = "spark.driver.maxResultSize"


@dataclass(frozen=True)
class Collected:
    """The rows, in tables that the driver has one at a time, and the id of their query, or None."""

    query: str | None
    tables: "Iterator[pa.Table]"
    whole: bool  # there is one table at most
    digest: int | None = None  # of the rows in any order, if they came at once


@contextmanager
def collected(batch: DataFrame) -> Iterator[Collected]:
    """Run a whole micro-batch and yield its rows, with instants in UTC.

    Even one that was written before has to run: the next one needs the state that it commits, and only a job over all
    rows commits it. The rows of a stream come at once, unless Spark refuses so many; otherwise in pieces.
    """
    query, schema = driver_query(batch), utc_schema(batch.schema)
    table = _at_once(batch) if query is not None else None
    if table is not None:
        rows = table.cast(schema)
        yield Collected(query, iter([rows]), True, digest_of(rows))
        return
    pieces = with_numbered_columns(batch).mapInArrow(_pieces, "query string, piece binary").persist()
    try:
        queries = pieces.select("query").collect()
        found = next((row.query for row in queries if row.query), None)
        tables = (_table(row.piece, batch.schema) for row in pieces.select("piece").toLocalIterator())
        yield Collected(found, tables, len(queries) <= 1)
    finally:
        pieces.unpersist()


def driver_query(batch: DataFrame) -> str | None:
    """Return the id of the query whose micro-batch this is, or None if the driver cannot know it."""
    if is_remote():
        return None
    query = batch.sparkSession.sparkContext.getLocalProperty(_QUERY)
    return None if query is None else str(query)


def task_query() -> str | None:
    """Return the id of the streaming query that the current task belongs to, or None."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY)


def digest_of(rows: "pa.Table") -> int:
    """Return a number that follows from rows in any order, and that other rows have by chance only."""
    return int(row_hashes(rows).sum(dtype="uint64")) >> 1


def _at_once(batch: DataFrame) -> "pa.Table | None":
    try:
        return batch.toArrow()
    except Exception as error:
        if _TOO_LARGE not in str(error):
            raise
    return None


def _table(piece: bytes, schema: StructType) -> "pa.Table":
    return pyarrow().ipc.open_stream(piece).read_all().rename_columns(schema.names).cast(utc_schema(schema))


def _pieces(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Yield each Arrow batch as bytes in one row, so that rows reach the driver without becoming Python objects."""
    pa, query = pyarrow(), task_query()
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        piece = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_pydict({"query": pa.array([query], pa.string()), "piece": piece})
