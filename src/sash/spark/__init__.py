"""The same rolling aggregates over Spark's DataFrames, in batches and in streams, and what goes with them.

`rolling` is the call, `session` a local Spark to try it on, `upsert` a sink that keeps the latest of what is revised,
`metrics` what a query counts, `inspect` a look into its checkpoint.
"""

from sash.errors import UnsupportedError

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise UnsupportedError('This needs pyspark, which is not installed; run pip install "sash[spark]".') from error

from sash.spark.aggregation import rolling
from sash.spark.sessions import session
from sash.spark.stream.inspect import inspect
from sash.spark.stream.metrics import metrics
from sash.spark.upserts.sink import read_upserted, upsert, upserted_files, upserted_table

__all__ = [
    "inspect",
    "metrics",
    "read_upserted",
    "rolling",
    "session",
    "upsert",
    "upserted_files",
    "upserted_table",
]
