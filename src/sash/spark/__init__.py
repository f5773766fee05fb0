"""Rolling aggregates over batch and streaming DataFrames of Spark.

`rolling` computes them, `session` starts a local Spark to try it on, `upsert` is a sink that keeps the latest revision
of each row, `metrics` returns the counters of a query, and `MetricsListener` sums them up. `inspect` reads the
checkpoint of a query, `query` answers from it, `describe_checkpoint` sums it up, `verify_checkpoint` checks it, and
`export_checkpoint` writes its rows to files.
"""

from sash.errors import UnsupportedError

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise UnsupportedError('This needs pyspark, which is not installed; run pip install "sash[spark]".') from error

from sash.spark.aggregation import rolling
from sash.spark.sessions import session
from sash.spark.stream.checkpoint_query import Answer, query
from sash.spark.stream.description import describe_checkpoint
from sash.spark.stream.export import export_checkpoint
from sash.spark.stream.inspect import inspect
from sash.spark.stream.metrics import metrics
from sash.spark.stream.totals import MetricsListener
from sash.spark.stream.verification import verify_checkpoint
from sash.spark.upserts.reading import read_upserted, upserted_files, upserted_table
from sash.spark.upserts.sink import upsert

__all__ = [
    "Answer",
    "MetricsListener",
    "describe_checkpoint",
    "export_checkpoint",
    "inspect",
    "metrics",
    "query",
    "read_upserted",
    "rolling",
    "session",
    "upsert",
    "upserted_files",
    "upserted_table",
    "verify_checkpoint",
]
