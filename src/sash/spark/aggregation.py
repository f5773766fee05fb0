"""rolling: aggregates over the windows that end at each row, or at each slide boundary, of a DataFrame."""

from typing import Any

from pyspark.sql import DataFrame

from sash.errors import KindError, shown
from sash.keyed.spec import Asked
from sash.monoids.arguments import checked_int
from sash.spark.batch.rolling import batched
from sash.spark.stream.query import streamed


def rolling(
    df: DataFrame,
    *,
    keys: Any = None,
    time: str,
    windows: Any,
    aggs: Any,
    per: str = "event",
    every: Any = None,
    emit: str | None = None,
    lateness: Any = None,
    late: str = "drop",
    retract: Any = None,
    id: str | None = None,
    carry: Any = (),
    closed: str | None = None,
    offset: Any = None,
    resolution: Any = None,
    on_error: str = "null",
    buckets: int | None = None,
    cache_bytes: int | None = None,
) -> DataFrame:
    """Give the DataFrame with a column for each aggregate and window; the words and the answers are `sash.rolling`'s.

    Of a DataFrame that is all there every row and column is kept, in no order; with `every` there is a row for each key
    and slide boundary instead. Rows are shuffled by their keys and sorted by time in Spark, then go through the engine
    in a stream, so that a partition may be larger than memory, and a key too, as long as the rows of its largest window
    are not. A streaming DataFrame needs a watermark on `time`; what comes out and when `emit`, `lateness` and `late`
    decide, as in `KeyedWindows`. The same words then give the backfill of a stream: with `emit` "final" or "update" a
    batch has the columns of that stream. `retract` is a column of booleans or a condition in SQL.

    Rows of one key and time stand in no particular order, so that a monoid that is not commutative needs distinct times
    or `id`. One that runs in Python says what it `returns`, for Spark asks before the first row has been seen. Mistakes
    are refused here, before anything runs. `buckets` of keys, 8 unless told, are the most tasks that can share a
    stream's state; `cache_bytes` is what a worker may keep of it in memory.
    """
    if not isinstance(df, DataFrame):
        raise KindError(f"df: {shown(df)} is no DataFrame of Spark's; give one, or use sash.rolling for other tables.")
    asked = Asked.of(
        keys=keys, time=time, windows=windows, aggs=aggs, per=per, every=every, emit=emit, lateness=lateness, late=late,
        retract=retract, id=id, carry=carry, closed=closed, offset=offset, resolution=resolution, on_error=on_error,
    )  # fmt: skip
    if not df.isStreaming:
        return batched(df, asked)
    room = {} if cache_bytes is None else {"cache_bytes": checked_int("cache_bytes", cache_bytes, 0)}
    return streamed(df, asked, buckets, **room)
