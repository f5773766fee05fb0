"""rolling: aggregates over the windows that end at each row, or at each slide boundary, of a DataFrame."""

from typing import Any

from pyspark.sql import DataFrame

from sash.errors import KindError, UnsupportedError, shown
from sash.keyed.session_spec import SESSION, require_no_questions
from sash.keyed.spec import Spec
from sash.monoids.arguments import checked_int
from sash.spark.batch.questions import answer_batch
from sash.spark.batch.rolling import roll_batch
from sash.spark.stream.cache_limit import cache_limit
from sash.spark.stream.compatibility import is_new, require_compatible
from sash.spark.stream.history import require_history
from sash.spark.stream.query import planned, roll_stream
from sash.spark.stream.questions import Questions, require_questions


def rolling(
    df: DataFrame,
    *,
    keys: Any = None,
    time: str,
    windows: Any = None,
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
    gap: Any = None,
    zone: Any = None,
    min_rows: int | None = None,
    idle: Any = None,
    at: DataFrame | None = None,
    at_time: str | None = None,
    at_id: str | None = None,
    buckets: int | None = None,
    cache_bytes: int | None = None,
    history: DataFrame | None = None,
    checkpoint: str | None = None,
) -> DataFrame:
    """Return the DataFrame with a column for each aggregate and window; arguments and results are as in `sash.rolling`.

    A batch DataFrame keeps all rows and columns, in no particular order; with `every` the result has a row for each key
    and slide boundary instead. Spark shuffles rows by key and sorts them by time, and the engine reads them in chunks:
    a partition, or a key, may be larger than memory as long as the rows of its largest window are not. A streaming
    DataFrame needs a watermark on `time`; `emit`, `lateness` and `late` control what is emitted and when, as in
    `KeyedWindows`. Call it with the same arguments on a batch DataFrame to backfill: with `emit` "final" or "update"
    the result has the columns of the stream. `retract` is a column of booleans or a condition in SQL.

    Rows with the same key and time have no particular order, so a monoid that is not commutative needs distinct times
    or `id`. A monoid that runs in Python must declare what it `returns`, because Spark plans before it runs. Arguments
    are checked here, before anything runs. `buckets` (default 8) is the maximum number of tasks that share the state of
    a stream; `cache_bytes` limits how much of it the workers of an executor keep in memory together, by default half of
    the memory that Spark sets aside for Python.

    With `per="session"` and `gap`, the result has a row for each key and session instead, and `windows` is left out; a
    session, but not a key, must fit into memory. A stream keeps the rows from the horizon on, and of each open session
    one record of those before.

    `zone`, `min_rows` and `idle` are as in `sash.rolling`, and so are all kinds of windows. A stream has no "next 1h",
    and needs `idle` for windows that count rows or are unbounded: it forgets a key that has had no rows for so long.

    With `at`, another DataFrame with key and time columns, all its rows and columns come back, with the results as of
    each of them: a point-in-time join, as in `sash.rolling`. `at_time` is its time column if that has another name.
    Of two batch DataFrames neither the events nor the questions of a key need to fit into memory. Two streaming ones
    both need a watermark, and the smaller one counts: a stream of questions that is silent holds everything back. With
    `emit="arrival"` a question is answered with what is known at the end of its micro-batch, with "final" once nothing
    can change the answer, and with "update" at once and whenever the answer changes; `at_id` then names the column that
    distinguishes questions of one key and time. Questions behind the horizon are late, as rows are.

    `history` is a batch DataFrame of the rows before a stream: a new checkpoint starts with the state as if they had
    been its first micro-batch. Nothing is emitted for what is final after them, or was as of their newest time; a query
    that has a checkpoint does not read them.

    `checkpoint` is the checkpointLocation that the query will have. If there is state in it, the definition is compared
    with it here, and refused if the state cannot follow the change; without it, that happens in the first micro-batch.
    """
    if not isinstance(df, DataFrame):
        raise KindError(
            f"df must be a Spark DataFrame, got {shown(df)}; use sash.rolling for other tables.", argument="df"
        )
    if history is not None:
        require_history(history, df)
    require_questions(df, at, at_time, at_id, every)
    require_no_questions(per, at)
    if history is not None and per == SESSION:
        raise UnsupportedError(
            'history is not available with per="session"; stream the rows so far instead.', argument="history"
        )
    spec = Spec.of(
        keys=keys, time=time, windows=windows, aggs=aggs, per=per, every=every, emit=emit, lateness=lateness, late=late,
        retract=retract, id=id, carry=carry, closed=closed, offset=offset, resolution=resolution, on_error=on_error,
        gap=gap, zone=zone, min_rows=min_rows, idle=idle,
    )  # fmt: skip
    if not df.isStreaming:
        return roll_batch(df, spec) if at is None else answer_batch(df, at, at_time, spec)
    questions = None if at is None else Questions(at, at_time or spec.time, at_id)
    given = None if cache_bytes is None else checked_int("cache_bytes", cache_bytes, 0)
    limit = cache_limit(lambda name: df.sparkSession.conf.get(name, None), given)
    if checkpoint is not None:
        require_compatible(df.sparkSession, checkpoint, planned(df, spec, buckets, questions)[1])
        history = history if is_new(df.sparkSession, checkpoint) else None
    return roll_stream(df, spec, buckets, history, questions, cache_limit=limit)
