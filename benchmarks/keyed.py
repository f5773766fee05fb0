"""Claims about KeyedWindows and rolling, against pandas and DuckDB.

The others compute the same columns offline from sorted rows, and every answer is compared with theirs before it is
timed. Times are distinct, because pandas excludes later rows of the same time from a window.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.load import SEED
from sash import KeyedWindows, Monoid, monoids, rolling

Claim = tuple[str, float, float]

ROWS = 1_000_000
KEYS = 20_000
SPAN_US = 30 * 86_400 * 10**6
DAY_US = 86_400 * 10**6
WINDOWS = {"1h": "1 HOUR", "24h": "24 HOURS", "7d": "7 DAYS"}
BATCH = 10_000  # seven hours of the stream, so that an event held up by a day is late by some batches
REPEATS = 3


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    return [*pushes(), *boundaries(), *one_key(), *functions(), *zipf()]


# --- a stream of 20,000 keys ----------------------------------------------------------------------


def pushes() -> list[Claim]:
    """Count, sum and max over three windows, 1% of the events up to a day late, emitted on arrival."""
    events = events_of(np.random.default_rng(SEED).integers(0, KEYS, ROWS))
    columns = [f"{agg}_{window}" for window in WINDOWS for agg in ("n", "total", "top")]
    frame = _sorted_frame(events)
    theirs = _duckdb(events, columns)
    _require("push: DuckDB's answers", _whole(events), theirs, columns)
    _require("push: pandas' answers", _pandas(frame, columns), theirs, columns)
    arrivals = held_up(events)
    ours_s, pandas_s, duckdb_s = in_turn(
        lambda: stream(arrivals), lambda: _pandas(frame, columns), lambda: _duckdb(events, columns)
    )
    rate = ROWS / ours_s / 1e6
    print(f"  push {ours_s:.2f} s ({rate:.2f}M events/s), pandas {pandas_s:.2f}, DuckDB {duckdb_s:.2f}", flush=True)
    return [
        ("push of 1M events, 1% late / pandas", ours_s / pandas_s, 1 / 6),
        ("push of 1M events, 1% late / DuckDB, one thread", ours_s / duckdb_s, 1.0),
    ]


def events_of(keys: Any) -> pa.Table:
    """Return rows in time order, with distinct times."""
    rng = np.random.default_rng(SEED + 1)
    times = np.sort(rng.choice(SPAN_US // 1000, len(keys), replace=False)) * 1000
    return pa.table(
        {
            "row": pa.array(np.arange(len(keys))),
            "k": pa.array(keys, pa.int64()),
            "t": pa.array(times, pa.timestamp("us")),
            "x": pa.array(rng.integers(0, 10_000, len(keys))),
        }
    )


def held_up(events: pa.Table) -> list[pa.Table]:
    """Return the batches of a stream in which 1% of the rows arrive up to a day late."""
    rng = np.random.default_rng(SEED + 2)
    count = events.num_rows
    delay = np.where(rng.random(count) < 0.01, rng.integers(0, DAY_US, count), 0)
    order = np.argsort(events["t"].to_numpy().astype(np.int64) + delay, kind="stable")
    arrivals = events.take(order).combine_chunks()
    return [arrivals.slice(at, BATCH) for at in range(0, count, BATCH)]


def engine_of(lateness: str, emit: str = "arrival") -> KeyedWindows:
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    return KeyedWindows(keys=["k"], time="t", windows=list(WINDOWS), aggs=aggs, emit=emit, lateness=lateness)


def _whole(events: pa.Table) -> pa.Table:
    return engine_of("0s").push(events)


def stream(batches: list[pa.Table]) -> None:
    kw = engine_of("1d")
    rows = sum(kw.push(batch).num_rows for batch in batches)
    if rows != sum(batch.num_rows for batch in batches) or kw.metrics["late"]:
        raise SystemExit(f"push: {rows} rows were emitted, or some were late; nothing was measured.")


def _duckdb(events: pa.Table, columns: list[str], threads: int = 1) -> pa.Table:
    sql = {"n": "count(*)", "total": "sum(x)", "top": "max(x)"}
    chosen = []
    for column in columns:
        agg, window = column.split("_")
        # Bounds are inclusive in SQL, so a window of an hour opens a microsecond later.
        size = f"INTERVAL '{WINDOWS[window]}' - INTERVAL '1 microsecond'"
        over = f"OVER (PARTITION BY k ORDER BY t RANGE BETWEEN {size} PRECEDING AND CURRENT ROW)"
        chosen.append(f"({sql[agg]} {over})::BIGINT AS {column}")
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {threads}")
        connection.register("events", events)
        return connection.execute(f"SELECT row, {', '.join(chosen)} FROM events").to_arrow_table()


def _sorted_frame(events: pa.Table) -> pd.DataFrame:
    return events.to_pandas().sort_values(["k", "t"], kind="stable").set_index("t")


def _pandas(frame: pd.DataFrame, columns: list[str]) -> pa.Table:
    methods = {"n": "count", "total": "sum", "top": "max"}
    found = {"row": frame["row"].to_numpy()}
    for column in columns:
        agg, window = column.split("_")
        rolled = frame.groupby("k")["x"].rolling(window)
        found[column] = getattr(rolled, methods[agg])().to_numpy().astype(np.int64)
    return pa.table(found)


# --- boundaries -----------------------------------------------------------------------------------


def boundaries() -> list[Claim]:
    """Every minute of 30 days for 100 keys, final, over windows of an hour and of a day."""
    events = events_of(np.random.default_rng(SEED).integers(0, 100, ROWS))
    for window in ("1h", "24h"):
        theirs = _duckdb_minutes(events, window)
        ours = pa.concat_tables(minutes_of(events, window))
        ours = ours.rename_columns([name.removesuffix(f"_{window}") for name in ours.column_names])
        frames = [t.to_pandas().sort_values(["k", "window_end"], ignore_index=True) for t in (ours, theirs)]
        frames[0] = frames[0].drop(columns="window_start")
        if not frames[0].equals(frames[1].astype(frames[0].dtypes)):
            raise SystemExit(f"every minute of {window}: a wrong answer; nothing was measured.")
    hour_s, day_s = in_turn(lambda: minutes_of(events, "1h"), lambda: minutes_of(events, "24h"))
    print(
        f"  every minute of 1h {hour_s:.2f} s ({ROWS / hour_s / 1e6:.2f}M events/s), of 24h {day_s:.2f} s", flush=True
    )
    return [("every minute, final, window of 24h / 1h", day_s / hour_s, 1.5)]


def minutes_of(events: pa.Table, window: str) -> list[pa.Table]:
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    kw = KeyedWindows(keys=["k"], time="t", windows=[window], aggs=aggs, every="1 minute", emit="final")
    out = [kw.push(events.slice(at, BATCH)) for at in range(0, events.num_rows, BATCH)]
    return [*out, kw.flush()]


def _duckdb_minutes(events: pa.Table, window: str) -> pa.Table:
    """Compute the same from all minutes of all keys, including empty ones, with windows of a number of rows."""
    before = f"ROWS BETWEEN {60 * int(window.removesuffix('h')) - 1} PRECEDING AND CURRENT ROW"
    query = f"""
        WITH minutes AS (
            SELECT unnest(generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '1970-02-01', INTERVAL 1 MINUTE)) m),
        panes AS (
            SELECT k, time_bucket(INTERVAL 1 MINUTE, t) m, count(*) n, sum(x) s, max(x) top FROM events GROUP BY ALL),
        whole AS (SELECT a.k, minutes.m, n, s, top FROM (SELECT DISTINCT k FROM events) a CROSS JOIN minutes
                  LEFT JOIN panes ON a.k = panes.k AND minutes.m = panes.m)
        SELECT k, m + INTERVAL 1 MINUTE AS window_end, n::BIGINT n, s::BIGINT total, top::BIGINT top FROM (
            SELECT k, m, sum(n) OVER w n, sum(s) OVER w s, max(top) OVER w top FROM whole
            WINDOW w AS (PARTITION BY k ORDER BY m {before})) WHERE n > 0"""
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.register("events", events)
        return connection.execute(query).to_arrow_table()


# --- offline, one key -----------------------------------------------------------------------------


def one_key() -> list[Claim]:
    """Max over sorted rows of one key a second apart."""
    rng = np.random.default_rng(SEED)
    times = np.arange(ROWS).astype("datetime64[s]").astype("datetime64[us]")
    table = pa.table({"t": times, "x": rng.integers(0, 10**9, ROWS)})
    frame = table.to_pandas().set_index("t")["x"]
    found = []
    for size in (10, 1_000, 100_000):
        window = f"{size}s"
        spec: dict[str, Any] = {"keys": [], "time": "t", "windows": [window], "aggs": {"top": monoids.max("x")}}
        ours = rolling(table, **spec)[f"top_{window}"].to_numpy()
        if not np.array_equal(ours, frame.rolling(window).max().to_numpy()):
            raise SystemExit(f"rolling max of {size} rows: a wrong answer; nothing was measured.")
        ours_s, pandas_s = in_turn(partial(rolling, table, **spec), partial(_pandas_max, frame, window))
        print(f"  max of {size} rows: {ours_s * 1e3:.0f} ms, pandas {pandas_s * 1e3:.0f}", flush=True)
        found.append((f"rolling max of {size} rows, one key / pandas", ours_s / pandas_s, 1.0))
    return found


def _pandas_max(column: pd.Series, window: str) -> pd.Series:
    return column.rolling(window).max()


def then(f: tuple[float, float], g: tuple[float, float]) -> tuple[float, float]:
    return g[0] * f[0], g[0] * f[1] + g[1]


def _composed(window: Any) -> Any:
    """Compose the functions of a window, the oldest applied first; pandas compiles it with Numba."""
    slope, offset = 1.0, 0.0
    for i in range(len(window)):
        slope, offset = window[i, 0] * slope, window[i, 0] * offset + window[i, 1]
    return np.array([slope, offset])


def functions() -> list[Claim]:
    """Functions x -> a*x + b composed over 10,000 rows, by a custom monoid and by pandas' apply, both compiled."""
    size, subset = 10_000, 40_000
    rng = np.random.default_rng(SEED)
    times = np.arange(ROWS).astype("datetime64[s]").astype("datetime64[us]")
    table = pa.table({"t": times, "a": rng.uniform(0.99, 1.01, ROWS), "b": rng.uniform(-1, 1, ROWS)})
    ours = Monoid.compiled(identity=(1.0, 0.0), combine=then, columns=("a", "b"), name="affine")
    spec: dict[str, Any] = {"keys": [], "time": "t", "windows": [f"{size}s"], "aggs": {"f": ours}}
    frame = table.select(["a", "b"]).slice(0, subset).to_pandas()

    def by_pandas(rows: int) -> Any:
        rolled = frame.iloc[:rows].rolling(size, min_periods=1, method="table")
        return rolled.apply(_composed, raw=True, engine="numba").to_numpy()

    answers = pairs_of(rolling(table, **spec)[f"f_{size}s"])[:subset]
    if not np.allclose(answers, by_pandas(subset), rtol=1e-6, atol=1e-6):
        raise SystemExit("rolling affine: a wrong answer; nothing was measured.")
    ours_ns = _best(lambda: rolling(table, **spec)) / ROWS * 1e9
    # Only rows with whole windows count: the time of the first 10,000 is subtracted.
    spent = _best(lambda: by_pandas(subset)) - _best(lambda: by_pandas(size))
    pandas_ns = spent / (subset - size) * 1e9
    print(f"  affine over {size} rows: {ours_ns:.0f} ns per row, pandas with Numba {pandas_ns:.0f}", flush=True)
    return [("rolling compiled affine, 10,000 rows / pandas apply, per row", ours_ns / pandas_ns, 1 / 100)]


def pairs_of(column: Any) -> Any:
    """Return a column of pairs, structs or lists, as an array of two columns."""
    chunk = column.combine_chunks()
    parts = chunk.flatten()
    if pa.types.is_struct(chunk.type):
        return np.column_stack([part.to_numpy(zero_copy_only=False) for part in parts])
    return parts.to_numpy(zero_copy_only=False).reshape(-1, 2)


# --- offline, many keys ---------------------------------------------------------------------------


def zipf() -> list[Claim]:
    """Max over a day for 20,000 keys, a few of which have most of the rows."""
    keys = np.random.default_rng(SEED).zipf(1.2, ROWS) % KEYS
    events = events_of(keys)
    spec: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": ["24h"], "aggs": {"top": monoids.max("x")}}
    frame = _sorted_frame(events)
    theirs = _duckdb(events, ["top_24h"])
    _require("rolling: DuckDB's answers", rolling(events, **spec), theirs, ["top_24h"])
    _require("rolling: pandas' answers", _pandas(frame, ["top_24h"]), theirs, ["top_24h"])
    ours_s, duckdb_s, pandas_s, threads_s = in_turn(
        lambda: rolling(events, **spec),
        lambda: _duckdb(events, ["top_24h"]),
        lambda: _pandas(frame, ["top_24h"]),
        lambda: _duckdb(events, ["top_24h"], threads=4),
    )
    print(f"  zipf keys, max: {ours_s:.3f} s, DuckDB {duckdb_s:.3f} (four threads {threads_s:.3f}), ", end="")
    print(f"pandas {pandas_s:.3f}", flush=True)
    return [
        ("rolling max, 20,000 zipf keys / DuckDB, one thread", ours_s / duckdb_s, 1.0),
        ("rolling max, 20,000 zipf keys / pandas", ours_s / pandas_s, 1.0),
    ]


# --- measuring ------------------------------------------------------------------------------------


def _best(call: Callable[[], object]) -> float:
    return in_turn(call)[0]


def in_turn(*calls: Callable[[], object]) -> list[float]:
    """Return the best seconds of each, run in turn so that a noisy minute affects all of them."""
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, seconds in zip(calls, spent, strict=True):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    return [min(seconds) for seconds in spent]


def _require(what: str, ours: pa.Table, theirs: pa.Table, columns: list[str]) -> None:
    """Compare row by row, regardless of the order of rows."""
    wanted = ["row", *columns]
    frames = [table.select(wanted).to_pandas().sort_values("row", ignore_index=True) for table in (ours, theirs)]
    try:
        pd.testing.assert_frame_equal(*frames, check_dtype=False)
    except AssertionError as error:
        raise SystemExit(f"{what}: a wrong answer; nothing was measured.\n{error}") from error
