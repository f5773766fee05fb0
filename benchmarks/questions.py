"""Claims about questions: `rolling(at=)` against the best queries of DuckDB and polars, and `KeyedWindows.query`.

A million events and 200,000 questions about the same 20,000 keys, count, sum and max over three windows. Each way to
ask is run once, verified, and left if it takes longer than a minute; then the fastest of each takes turns with ours, on
one thread each. Times are distinct, and no question is at the time of an event.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # which polars reads when it is imported

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from benchmarks.keyed import KEYS, ROWS, SPAN_US, engine_of, events_of, in_turn
from benchmarks.load import SEED
from sash import monoids, rolling

Claim = tuple[str, float, float]
Way = Callable[[], pa.Table]

QUESTIONS = 200_000
WINDOWS = {"1h": "1 HOUR", "6h": "6 HOURS", "24h": "24 HOURS"}
HOURS = {"1h": 1, "6h": 6, "24h": 24}
AGGS = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
COLUMNS = [f"{agg}_{window}" for agg in AGGS for window in WINDOWS]
ASKED = 10_000  # keys of a query, and rows of a push
TURNS = 15
PATIENCE_S = 60  # of a way to ask, before it is left


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    if pl.thread_pool_size() != 1:
        raise SystemExit("questions: polars must have one thread; set POLARS_MAX_THREADS=1.")
    pa.set_cpu_count(1)
    rng = np.random.default_rng(SEED)
    zipf, uniform = rng.zipf(1.2, ROWS) % KEYS, rng.integers(0, KEYS, ROWS)
    few = {"join and groups": by_join}  # with zipf keys it would have billions of pairs
    return [
        *joins("zipf keys", zipf, 10, 3, FRAMES),
        *joins("uniform keys", uniform, 1.5, 1.5, FRAMES | few),
        *query(uniform),
    ]


# --- point-in-time joins --------------------------------------------------------------------------


def joins(what: str, keys: Any, over_duckdb: float, over_polars: float, frame_ways: dict[str, Any]) -> list[Claim]:
    """Compare ours with the fastest ways of the others, once all have given the same answers."""
    events = events_of(keys)
    asked = questions_of(keys)
    ours = answered(events, asked)
    print(f"  {what}:", flush=True)
    sql = fastest("DuckDB", ours, {name: by_duckdb(query, events, asked) for name, query in QUERIES.items()})
    frames = [with_polars(table) for table in (events, asked)]
    exprs = fastest("polars", ours, {name: lambda way=way: way(*frames) for name, way in frame_ways.items()})
    ours_s, duckdb_s, polars_s = in_turn(lambda: answered(events, asked), sql, exprs)
    print(f"    {ours_s:.3f} s, DuckDB {duckdb_s:.2f}, polars {polars_s:.2f}", flush=True)
    return [
        (f"rolling(at=), {what} / DuckDB's fastest query, one thread", ours_s / duckdb_s, 1 / over_duckdb),
        (f"rolling(at=), {what} / polars' fastest query, one thread", ours_s / polars_s, 1 / over_polars),
    ]


def questions_of(keys: Any) -> pa.Table:
    """Return questions about keys as frequent as among the events, in no order, between the events' times."""
    rng = np.random.default_rng(SEED + 3)
    times = rng.integers(0, SPAN_US // 1000, QUESTIONS) * 1000 + 500
    asked = {"row": np.arange(QUESTIONS), "k": rng.choice(keys, QUESTIONS), "q": pa.array(times, pa.timestamp("us"))}
    return pa.table(asked)


def answered(events: pa.Table, asked: pa.Table) -> pa.Table:
    """Return our answers."""
    return rolling(events, at=asked, at_time="q", keys=["k"], time="t", windows=list(WINDOWS), aggs=AGGS)


def fastest(who: str, ours: pa.Table, ways: dict[str, Way]) -> Way:
    """Run each way once, compare its answers with ours, and return the fastest."""
    spent: dict[str, float] = {}
    for name, way in ways.items():
        began = time.perf_counter()
        theirs = way()
        seconds = time.perf_counter() - began
        if theirs is None:
            print(f"    {who}, {name}: left after {PATIENCE_S} s", flush=True)
            continue
        require_same(f"{who}, {name}", ours, theirs)
        print(f"    {who}, {name}: {seconds:.2f} s", flush=True)
        spent[name] = seconds
    best = min(spent, key=lambda name: spent[name])
    print(f"    {who}'s fastest: {best}", flush=True)
    return ways[best]


def require_same(what: str, ours: pa.Table, theirs: pa.Table) -> None:
    """Compare row by row, whatever their order; a count or sum of nothing is 0 or null."""
    frames = []
    for table in (ours, theirs):
        frame = table.select(["row", *COLUMNS]).to_pandas().sort_values("row", ignore_index=True).astype("float64")
        summed = [name for name in COLUMNS if not name.startswith("top_")]
        frames.append(frame.assign(**{name: frame[name].fillna(0) for name in summed}))
    try:
        pd.testing.assert_frame_equal(*frames)
    except AssertionError as error:
        raise SystemExit(f"{what}: a wrong answer; nothing was measured.\n{error}") from error


# --- DuckDB ---------------------------------------------------------------------------------------

SQL = {"n": "count(x)", "total": "sum(x)", "top": "max(x)"}
INSIDE = {window: f"t > q - INTERVAL '{size}'" for window, size in WINDOWS.items()}

# All events of a question's largest window, then one group for each question.
_FILTERED = ", ".join(f"({sql} FILTER ({INSIDE[w]}))::BIGINT AS {agg}_{w}" for agg, sql in SQL.items() for w in WINDOWS)
RANGE_JOIN = f"""
    SELECT asked.row, {_FILTERED}
    FROM asked LEFT JOIN events ON asked.k = events.k AND t <= q AND t > q - INTERVAL '24 HOURS' GROUP BY ALL"""


def _over(window: str) -> str:
    # Bounds are inclusive in SQL, so a window of an hour opens a microsecond later.
    size = f"INTERVAL '{WINDOWS[window]}' - INTERVAL '1 microsecond'"
    return f"OVER (PARTITION BY k ORDER BY t RANGE BETWEEN {size} PRECEDING AND CURRENT ROW)"


def _windows(aggs: list[str], keys: str = "events") -> str:
    columns = ", ".join(f"{SQL[agg]} {_over(w)} AS {agg}_{w}" for agg in aggs for w in WINDOWS)
    return f"""
        SELECT * EXCLUDE (k, t, x) FROM (SELECT row, k, t, x, {columns} FROM (
            SELECT NULL AS row, k, t, x FROM {keys} UNION ALL SELECT row, k, q, NULL FROM asked))
        WHERE row IS NOT NULL"""


# Questions go among the events as rows without a value.
UNION = f"SELECT row, {', '.join(f'{column}::BIGINT AS {column}' for column in COLUMNS)} FROM ({_windows(list(SQL))})"

# Counts and sums are differences of running totals, found by ASOF joins; the maximum is not.
_RUNNING = """
    running AS (SELECT k, t, count(x) OVER w AS n, sum(x) OVER w AS total FROM events
                WINDOW w AS (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING))"""
_EDGES = "\n".join(
    f"ASOF LEFT JOIN running AS r{w} ON asked.k = r{w}.k AND asked.q - INTERVAL '{size}' >= r{w}.t"
    for w, size in WINDOWS.items()
)
_DIFFERENCES = ", ".join(
    [f"coalesce(now.n, 0) - coalesce(r{w}.n, 0) AS n_{w}" for w in WINDOWS]
    + [
        f"CASE WHEN coalesce(now.n, 0) > coalesce(r{w}.n, 0) THEN (now.total - coalesce(r{w}.total, 0))::BIGINT END "
        f"AS total_{w}"
        for w in WINDOWS
    ]
)
ASOF = f"""
    WITH {_RUNNING}, tops AS ({_windows(["top"])})
    SELECT * FROM (SELECT asked.row, {_DIFFERENCES} FROM asked
    ASOF LEFT JOIN running AS now ON asked.k = now.k AND asked.q >= now.t {_EDGES}) JOIN tops USING (row)"""

QUERIES = {"union and window functions": UNION, "ASOF joins of running totals": ASOF, "range join": RANGE_JOIN}


def by_duckdb(query: str, events: pa.Table, asked: pa.Table) -> Way:
    """Return what runs a query on one thread, and returns None if it takes too long."""

    connection = duckdb.connect()
    for setting in ("threads = 1", "enable_progress_bar = false", "asof_loop_join_threshold = 0"):
        connection.execute(f"SET {setting}")
    for name, table in (("events", events), ("asked", asked)):  # into its own tables, which is not measured
        connection.register("table_of_arrow", table)
        connection.execute(f"CREATE TABLE {name} AS FROM table_of_arrow")

    def run() -> pa.Table | None:
        impatient = threading.Timer(PATIENCE_S, connection.interrupt)
        impatient.start()
        try:
            return connection.execute(query).to_arrow_table()
        except duckdb.InterruptException:
            return None
        finally:
            impatient.cancel()

    return run


# --- polars ---------------------------------------------------------------------------------------


def with_polars(table: pa.Table) -> pl.DataFrame:
    """Return a table as a frame, which is not part of what is measured."""
    return pl.from_arrow(table)


def union_of(events: pl.DataFrame, asked: pl.DataFrame) -> pl.LazyFrame:
    """Return events and questions by key and time; questions are rows without a value."""
    rows = [
        events.lazy().select(pl.lit(None, pl.Int64).alias("row"), "k", "t", "x"),
        asked.lazy().select("row", "k", pl.col("q").alias("t"), pl.lit(None, pl.Int64).alias("x")),
    ]
    return pl.concat(rows).sort("k", "t")


def by_expressions(events: pl.DataFrame, asked: pl.DataFrame) -> pa.Table:
    """Rolling expressions over each key of the union."""
    there = pl.col("x").is_not_null().cast(pl.Int64)
    columns = []
    for window in WINDOWS:
        columns += [
            there.rolling_sum_by("t", window).over("k").alias(f"n_{window}"),
            pl.col("x").rolling_sum_by("t", window).over("k").alias(f"total_{window}"),
            pl.col("x").rolling_max_by("t", window).over("k").alias(f"top_{window}"),
        ]
    return union_of(events, asked).with_columns(columns).filter(pl.col("row").is_not_null()).collect().to_arrow()


def by_groups(events: pl.DataFrame, asked: pl.DataFrame) -> pa.Table:
    """Dynamic groups of the union, one pass for each window."""
    rows = union_of(events, asked).collect()
    found = rows.select("row")
    for window in WINDOWS:
        groups = rows.rolling("t", period=window, group_by="k")
        part = groups.agg(n=pl.col("x").count(), total=pl.col("x").sum(), top=pl.col("x").max())
        found = found.hstack(part.select(pl.col(agg).alias(f"{agg}_{window}") for agg in AGGS))
    return found.filter(pl.col("row").is_not_null()).to_arrow()


def by_totals(events: pl.DataFrame, asked: pl.DataFrame) -> pa.Table:
    """Counts and sums as differences of running totals, found by asof joins; the maximum by expressions."""
    running = (
        events.sort("t")
        .with_columns(pl.col("x").cum_count().over("k").alias("n"), pl.col("x").cum_sum().over("k").alias("total"))
        .select("k", "t", "n", "total")
    )
    found = asked.sort("q").join_asof(running, left_on="q", right_on="t", by="k", check_sortedness=False).drop("t")
    for window, hours in HOURS.items():
        at = pl.col("q") - pl.duration(hours=hours)
        edge = asked.select("row", "k", at.alias("edge")).sort("edge")
        before = edge.join_asof(running, left_on="edge", right_on="t", by="k", check_sortedness=False)
        before = before.select(
            "row", pl.col("n").fill_null(0).alias("n0"), pl.col("total").fill_null(0).alias("total0")
        )
        found = found.join(before, on="row")
        found = found.with_columns(
            (pl.col("n").fill_null(0) - pl.col("n0")).alias(f"n_{window}"),
            (pl.col("total").fill_null(0) - pl.col("total0")).alias(f"total_{window}"),
        ).drop("n0", "total0")
    tops = union_of(events, asked).with_columns(
        [pl.col("x").rolling_max_by("t", window).over("k").alias(f"top_{window}") for window in WINDOWS]
    )
    tops = tops.filter(pl.col("row").is_not_null()).drop("k", "t", "x").collect()
    return found.join(tops, on="row").to_arrow()


def by_join(events: pl.DataFrame, asked: pl.DataFrame) -> pa.Table:
    """Each question with all events of its key, filtered and grouped."""
    pairs = asked.lazy().join(events.lazy(), on="k", suffix="_event")
    pairs = pairs.filter(pl.col("t") <= pl.col("q"), pl.col("t") > pl.col("q") - pl.duration(hours=24))
    columns = []
    for window, hours in HOURS.items():
        values = pl.col("x").filter(pl.col("t") > pl.col("q") - pl.duration(hours=hours))
        columns += [values.count().alias(f"n_{window}"), values.sum().alias(f"total_{window}")]
        columns.append(values.max().alias(f"top_{window}"))
    found = pairs.group_by("row").agg(columns).collect()
    return asked.select("row").join(found, on="row", how="left").to_arrow()


FRAMES = {
    "rolling expressions of the union": by_expressions,
    "rolling groups of the union": by_groups,
    "join_asof of running totals": by_totals,
}


# --- queries of a stream --------------------------------------------------------------------------


def query(keys: Any) -> list[Claim]:
    """Ask a stream for the results of 10,000 keys, in turn with a push of as many rows."""
    events = events_of(keys)
    kw = engine_of("1h")
    start = ROWS - TURNS * ASKED
    kw.push(events.slice(0, start))
    asked = pa.table({"k": np.random.default_rng(SEED).permutation(KEYS)[:ASKED]})
    spent: tuple[list[float], list[float]] = ([], [])
    for at in range(start, ROWS, ASKED):
        calls = (lambda at=at: kw.push(events.slice(at, ASKED)), lambda: kw.query(asked))
        for seconds, call in zip(spent, calls, strict=True):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    push_s, query_s = (float(np.median(seconds)) for seconds in spent)
    print(f"  push of {ASKED} rows {push_s * 1e3:.1f} ms, query of {ASKED} keys {query_s * 1e3:.1f} ms", flush=True)
    return [("query of 10,000 keys / push of 10,000 rows, uniform keys", query_s / push_s, 1.0)]
