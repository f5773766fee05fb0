"""What KeyedWindows and rolling must show against pandas and DuckDB, and what a key and a late event cost.

Rivals compute the same columns offline from sorted rows, and every answer is compared with theirs before it is timed.
Times are distinct, for pandas leaves later rows of the same time out of a window.
"""

import subprocess
import sys
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
    """Give each claim as a sentence, what was found, and the bound it may not exceed."""
    return [*pushes(), *boundaries(), *one_key(), *functions(), *zipf(), *memory(), *late_events()]


# --- a stream of 20,000 keys ----------------------------------------------------------------------


def pushes() -> list[Claim]:
    """Count, sum and max over three windows, 1% of the events up to a day late, emitted on arrival."""
    events = _events(np.random.default_rng(SEED).integers(0, KEYS, ROWS))
    columns = [f"{agg}_{window}" for window in WINDOWS for agg in ("n", "total", "top")]
    frame = _sorted_frame(events)
    theirs = _duckdb(events, columns)
    _require("push: DuckDB's answers", _whole(events), theirs, columns)
    _require("push: pandas' answers", _pandas(frame, columns), theirs, columns)
    arrivals = _held_up(events)
    ours_s, pandas_s, duckdb_s = _in_turn(
        lambda: _stream(arrivals), lambda: _pandas(frame, columns), lambda: _duckdb(events, columns)
    )
    rate = ROWS / ours_s / 1e6
    print(f"  push {ours_s:.2f} s ({rate:.2f}M events/s), pandas {pandas_s:.2f}, DuckDB {duckdb_s:.2f}", flush=True)
    return [
        ("push of 1M events, 1% late / pandas", ours_s / pandas_s, 1 / 6),
        ("push of 1M events, 1% late / DuckDB, one thread", ours_s / duckdb_s, 1.0),
    ]


def _events(keys: Any) -> pa.Table:
    """Give rows in the order of time, which is distinct."""
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


def _held_up(events: pa.Table) -> list[pa.Table]:
    """Give the batches of a stream in which 1% of the rows come up to a day after their time."""
    rng = np.random.default_rng(SEED + 2)
    delay = np.where(rng.random(ROWS) < 0.01, rng.integers(0, DAY_US, ROWS), 0)
    order = np.argsort(events["t"].to_numpy().astype(np.int64) + delay, kind="stable")
    arrivals = events.take(order).combine_chunks()
    return [arrivals.slice(at, BATCH) for at in range(0, ROWS, BATCH)]


def _engine(lateness: str, emit: str = "arrival") -> KeyedWindows:
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    return KeyedWindows(keys=["k"], time="t", windows=list(WINDOWS), aggs=aggs, emit=emit, lateness=lateness)


def _whole(events: pa.Table) -> pa.Table:
    return _engine("0s").push(events)


def _stream(batches: list[pa.Table]) -> None:
    kw = _engine("1d")
    rows = sum(kw.push(batch).num_rows for batch in batches)
    if rows != ROWS or kw.metrics["late"]:
        raise SystemExit(f"push: {rows} rows of {ROWS} came out; nothing was measured.")


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
    events = _events(np.random.default_rng(SEED).integers(0, 100, ROWS))
    for window in ("1h", "24h"):
        theirs = _duckdb_minutes(events, window)
        ours = pa.concat_tables(_minutes(events, window))
        ours = ours.rename_columns([name.removesuffix(f"_{window}") for name in ours.column_names])
        frames = [t.to_pandas().sort_values(["k", "window_end"], ignore_index=True) for t in (ours, theirs)]
        frames[0] = frames[0].drop(columns="window_start")
        if not frames[0].equals(frames[1].astype(frames[0].dtypes)):
            raise SystemExit(f"every minute of {window}: a wrong answer; nothing was measured.")
    hour_s, day_s = _in_turn(lambda: _minutes(events, "1h"), lambda: _minutes(events, "24h"))
    print(
        f"  every minute of 1h {hour_s:.2f} s ({ROWS / hour_s / 1e6:.2f}M events/s), of 24h {day_s:.2f} s", flush=True
    )
    return [("every minute, final, window of 24h / 1h", day_s / hour_s, 1.5)]


def _minutes(events: pa.Table, window: str) -> list[pa.Table]:
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    kw = KeyedWindows(keys=["k"], time="t", windows=[window], aggs=aggs, every="1 minute", emit="final")
    out = [kw.push(events.slice(at, BATCH)) for at in range(0, ROWS, BATCH)]
    return [*out, kw.flush()]


def _duckdb_minutes(events: pa.Table, window: str) -> pa.Table:
    """Give the same from all minutes of all keys, empty ones too, and windows of so many rows of them."""
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
        asked: dict[str, Any] = {"keys": [], "time": "t", "windows": [window], "aggs": {"top": monoids.max("x")}}
        ours = rolling(table, **asked)[f"top_{window}"].to_numpy()
        if not np.array_equal(ours, frame.rolling(window).max().to_numpy()):
            raise SystemExit(f"rolling max of {size} rows: a wrong answer; nothing was measured.")
        ours_s, pandas_s = _in_turn(partial(rolling, table, **asked), partial(_pandas_max, frame, window))
        print(f"  max of {size} rows: {ours_s * 1e3:.0f} ms, pandas {pandas_s * 1e3:.0f}", flush=True)
        found.append((f"rolling max of {size} rows, one key / pandas", ours_s / pandas_s, 1.0))
    return found


def _pandas_max(column: pd.Series, window: str) -> pd.Series:
    return column.rolling(window).max()


def _then(f: tuple[float, float], g: tuple[float, float]) -> tuple[float, float]:
    return g[0] * f[0], g[0] * f[1] + g[1]


def _composed(window: Any) -> Any:
    """Compose the functions of a window, the oldest applied first; pandas compiles it by Numba."""
    slope, offset = 1.0, 0.0
    for i in range(len(window)):
        slope, offset = window[i, 0] * slope, window[i, 0] * offset + window[i, 1]
    return np.array([slope, offset])


def functions() -> list[Claim]:
    """Functions x -> a*x + b composed over 10,000 rows, by a user's own monoid and by pandas' apply, both compiled."""
    size, subset = 10_000, 40_000
    rng = np.random.default_rng(SEED)
    times = np.arange(ROWS).astype("datetime64[s]").astype("datetime64[us]")
    table = pa.table({"t": times, "a": rng.uniform(0.99, 1.01, ROWS), "b": rng.uniform(-1, 1, ROWS)})
    ours = Monoid.compiled(identity=(1.0, 0.0), combine=_then, columns=("a", "b"), name="affine")
    asked: dict[str, Any] = {"keys": [], "time": "t", "windows": [f"{size}s"], "aggs": {"f": ours}}
    frame = table.select(["a", "b"]).slice(0, subset).to_pandas()

    def by_pandas(rows: int) -> Any:
        rolled = frame.iloc[:rows].rolling(size, min_periods=1, method="table")
        return rolled.apply(_composed, raw=True, engine="numba").to_numpy()

    answers = _pairs(rolling(table, **asked)[f"f_{size}s"])[:subset]
    if not np.allclose(answers, by_pandas(subset), rtol=1e-6, atol=1e-6):
        raise SystemExit("rolling affine: a wrong answer; nothing was measured.")
    ours_ns = _best(lambda: rolling(table, **asked)) / ROWS * 1e9
    # Only rows of whole windows count: what the first 10,000 take is taken off.
    spent = _best(lambda: by_pandas(subset)) - _best(lambda: by_pandas(size))
    pandas_ns = spent / (subset - size) * 1e9
    print(f"  affine over {size} rows: {ours_ns:.0f} ns a row, pandas with Numba {pandas_ns:.0f}", flush=True)
    return [("rolling compiled affine, 10,000 rows / pandas apply, a row", ours_ns / pandas_ns, 1 / 100)]


def _pairs(column: Any) -> Any:
    """Give a column of pairs as an array of two columns, whether they are structs or lists."""
    chunk = column.combine_chunks()
    parts = chunk.flatten()
    if pa.types.is_struct(chunk.type):
        return np.column_stack([part.to_numpy(zero_copy_only=False) for part in parts])
    return parts.to_numpy(zero_copy_only=False).reshape(-1, 2)


# --- offline, many keys ---------------------------------------------------------------------------


def zipf() -> list[Claim]:
    """Max over a day for 20,000 keys, a few of which have most of the rows."""
    keys = np.random.default_rng(SEED).zipf(1.2, ROWS) % KEYS
    events = _events(keys)
    asked: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": ["24h"], "aggs": {"top": monoids.max("x")}}
    frame = _sorted_frame(events)
    theirs = _duckdb(events, ["top_24h"])
    _require("rolling: DuckDB's answers", rolling(events, **asked), theirs, ["top_24h"])
    _require("rolling: pandas' answers", _pandas(frame, ["top_24h"]), theirs, ["top_24h"])
    ours_s, duckdb_s, pandas_s, threads_s = _in_turn(
        lambda: rolling(events, **asked),
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


# --- memory ---------------------------------------------------------------------------------------

_MEMORY = """
import ctypes
import numpy as np, pyarrow as pa
from sash import KeyedWindows, monoids
def held():
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def batch(keys, time):
    times = pa.array(np.full(len(keys), time, dtype=np.int64))
    return pa.table({"k": pa.array(keys), "t": times, "x": pa.array(keys)})
aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
options = dict(keys=["k"], time="t", windows=[10, 100, 1000], aggs=aggs, emit="arrival", lateness=100)
KeyedWindows(**options).push(batch(np.arange(10), 1))
kw = KeyedWindows(**options)
keys = np.random.default_rng(1).permutation(10**6)
before = held()
for time in (1, 2, 3):
    for part in np.array_split(keys, 50):
        out = kw.push(batch(part, time))
del out, part
assert kw.metrics["live_rows"] == 3 * 10**6 and kw.metrics["live_keys"] == 10**6
print((held() - before) / 10**6)
"""


def memory() -> list[Claim]:
    """Bytes that a key of three events takes beyond their times, order and one aggregated column."""
    shown = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True).stdout
    return [("bytes a key beyond its three entries", float(shown) - 3 * (16 + 8), 250.0)]


# --- late events ----------------------------------------------------------------------------------


def late_events() -> list[Claim]:
    """An update by an event that changes ten anchors, in windows of 2^12 and 2^18 rows, and ones that change more."""
    small, large = _late_us(2**12, 10), _late_us(2**18, 10)
    some, many = _late_us(2**18, 5_000), _late_us(2**18, 50_000)
    print(f"  a late event in update, ten anchors: {small:.0f} µs of 2^12 rows, {large:.0f} of 2^18; ", end="")
    print(f"5,000 anchors {some:.0f}, 50,000 {many:.0f}", flush=True)
    return [
        ("a late event of ten anchors: window 2^18 / 2^12", large / small, 2.0),
        ("a late event, 2^18 rows: 50,000 anchors / 5,000", many / some, 15.0),
    ]


def _late_us(size: int, anchors: int) -> float:
    kw = KeyedWindows(
        keys=["k"], time="t", windows=[size], aggs={"s": monoids.sum("x")}, emit="update", lateness=2 * size
    )
    kw.push(pa.table({"k": np.zeros(size, np.int64), "t": np.arange(size), "x": np.ones(size, np.int64)}))
    spent = []
    for _ in range(20):
        late = pa.table({"k": [0], "t": [size - anchors], "x": [1]})
        began = time.perf_counter()
        out = kw.push(late)
        spent.append(time.perf_counter() - began)
        if out.num_rows != anchors + len(spent):
            raise SystemExit(f"update: {out.num_rows} rows instead of {anchors + len(spent)}; nothing was measured.")
    return float(np.median(spent)) * 1e6


# --- measuring ------------------------------------------------------------------------------------


def _best(call: Callable[[], object]) -> float:
    return _in_turn(call)[0]


def _in_turn(*calls: Callable[[], object]) -> list[float]:
    """Give the best seconds of each, run in turn so that a noisy minute hits all of them."""
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, seconds in zip(calls, spent, strict=True):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    return [min(seconds) for seconds in spent]


def _require(what: str, ours: pa.Table, theirs: pa.Table, columns: list[str]) -> None:
    """Compare row by row, whatever order the rows are in."""
    wanted = ["row", *columns]
    frames = [table.select(wanted).to_pandas().sort_values("row", ignore_index=True) for table in (ours, theirs)]
    try:
        pd.testing.assert_frame_equal(*frames, check_dtype=False)
    except AssertionError as error:
        raise SystemExit(f"{what}: a wrong answer; nothing was measured.\n{error}") from error
