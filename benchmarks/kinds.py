"""Claims about windows of the last rows and of calendar periods, against pandas, DuckDB and windows of a fixed size.

Every answer is compared before it is timed: with pandas' and DuckDB's, or with prefix sums over the sorted rows.
"""

import time
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.keyed import KEYS, ROWS, _require, events_of, in_turn
from benchmarks.load import SEED
from benchmarks.streams import Rows
from sash import KeyedWindows, monoids, rolling

Claim = tuple[str, float, float]

AGGS = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
SQL = {"n": "count(*)", "total": "sum(x)", "top": "max(x)"}


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    return [*one_key(), *zipf(), *late(), *to_date()]


# --- tables ---------------------------------------------------------------------------------------


def one_key() -> list[Claim]:
    """Max of the last 1,000 rows, sorted rows of one key."""
    rng = np.random.default_rng(SEED)
    times = np.arange(ROWS).astype("datetime64[s]").astype("datetime64[us]")
    table = pa.table({"t": times, "x": rng.integers(0, 10**9, ROWS)})
    column = table.to_pandas().set_index("t")["x"]
    spec: dict[str, Any] = {"keys": [], "time": "t", "windows": ["1000 rows"], "aggs": {"top": monoids.max("x")}}
    theirs = column.rolling(1000, min_periods=1).max().to_numpy()
    if not np.array_equal(rolling(table, **spec)["top_1000rows"].to_numpy(), theirs):
        raise SystemExit("max of the last 1,000 rows: a wrong answer; nothing was measured.")
    ours_s, pandas_s = in_turn(partial(rolling, table, **spec), lambda: column.rolling(1000).max())
    print(f"  max of the last 1,000 rows: {ours_s * 1e3:.0f} ms, pandas {pandas_s * 1e3:.0f}", flush=True)
    return [("max of the last 1,000 rows, one key / pandas", ours_s / pandas_s, 1.0)]


def zipf() -> list[Claim]:
    """Three aggregates of the last 100 rows for 20,000 keys, a few of which have most of the rows."""
    events = events_of(np.random.default_rng(SEED).zipf(1.2, ROWS) % KEYS)
    spec: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": ["100 rows"], "aggs": AGGS}
    _require(
        "last 100 rows: DuckDB's answers", rolling(events, **spec), _duckdb(events), [f"{a}_100rows" for a in AGGS]
    )
    ours_s, duckdb_s = in_turn(partial(rolling, events, **spec), partial(_duckdb, events))
    print(f"  last 100 rows, zipf keys: {ours_s:.3f} s, DuckDB {duckdb_s:.3f}", flush=True)
    return [("last 100 rows, 20,000 zipf keys, three aggregates / DuckDB, one thread", ours_s / duckdb_s, 1 / 3)]


def _duckdb(events: pa.Table) -> pa.Table:
    over = "OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 99 PRECEDING AND CURRENT ROW)"
    columns = ", ".join(f"({sql} {over})::BIGINT AS {name}_100rows" for name, sql in SQL.items())
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("events", events)
        return connection.execute(f"SELECT row, {columns} FROM events").to_arrow_table()


def to_date() -> list[Claim]:
    """Month to date in local time against the last 30 days, 20,000 keys over a year."""
    rng = np.random.default_rng(SEED)
    events = events_of(rng.integers(0, KEYS, ROWS))
    times = pa.array(events["t"].to_numpy().astype(np.int64) * 12 + 1_700_000_000_000_000, pa.timestamp("us", "UTC"))
    events = events.set_column(2, "t", times)
    spec: dict[str, Any] = {"keys": ["k"], "time": "t", "aggs": AGGS}
    month: dict[str, Any] = {"windows": ["month to date"], "zone": "Europe/Berlin"}
    _require_month(events, rolling(events, **spec, **month))
    found = []
    for what, call in (("table", rolling), ("stream", _stream)):
        run = partial(call, events, **spec)
        month_s, days_s = in_turn(partial(run, **month), partial(run, windows=["30d"]))
        print(f"  {what}, month to date: {month_s:.3f} s, 30d {days_s:.3f}", flush=True)
        found.append((f"month to date, 20,000 keys, {what} / 30d", month_s / days_s, 1.2))
    return found


def _stream(events: pa.Table, **spec: Any) -> None:
    kw = KeyedWindows(emit="arrival", **spec)
    for at in range(0, events.num_rows, 10_000):
        kw.push(events.slice(at, 10_000))


def _require_month(events: pa.Table, ours: pa.Table) -> None:
    frame = events.to_pandas()
    local = frame["t"].dt.tz_convert("Europe/Berlin")
    frame = frame.assign(month=local.dt.year * 12 + local.dt.month).sort_values(["k", "t"], kind="stable")
    groups = frame.groupby(["k", "month"])["x"]
    columns = {"n": groups.cumcount() + 1, "total": groups.cumsum(), "top": groups.cummax()}
    theirs = pd.DataFrame({"row": frame["row"]} | {f"{name}_month_to_date": one for name, one in columns.items()})
    _require("month to date", ours, pa.Table.from_pandas(theirs, preserve_index=False), list(theirs.columns[1:]))


# --- a stream with late rows ----------------------------------------------------------------------

LAST = 1_000
HELD = 2**18  # rows that the lateness keeps
TURNS, PUSHES, BATCH = 5, 10, 10_000


def late() -> list[Claim]:
    """The last 1,000 rows in a stream of one key, 1% of whose rows are late, against the same in order."""
    for share in (0.01, 0.0):
        _require_last(share)
    both = [_LastRows(share, HELD, BATCH) for share in (0.01, 0.0)]
    for one in both:
        one.fill()
    rows = [
        [one.timed(PUSHES) for one in (both if turn % 2 else both[::-1])][:: 1 if turn % 2 else -1]
        for turn in range(TURNS)
    ]
    late_ns, order_ns = (sum(column) / TURNS for column in zip(*rows, strict=True))
    print(f"  last 1,000 rows, 1% late: {late_ns:.0f} ns a row, in order {order_ns:.0f}", flush=True)
    return [("last 1,000 rows as a stream, 1% late / in order", late_ns / order_ns, 2.0)]


class _LastRows:
    """A stream of one key, and the rows pushed into it."""

    def __init__(self, share: float, size: int, batch: int, last: int = LAST) -> None:
        self.rows = Rows(size, batch, late=share, keeps=size < HELD)
        aggs = {"total": monoids.sum("x"), "top": monoids.max("x")}
        self.engine = KeyedWindows(
            keys=[], time="t", windows=[f"{last} rows"], aggs=aggs, lateness=size * self.rows.gap
        )

    def fill(self) -> None:
        self.engine.push(self.rows.in_order(self.rows.size))

    def timed(self, pushes: int) -> float:
        """Return the nanoseconds per row of the next batches."""
        spent = 0
        for _ in range(pushes):
            batch = self.rows.next()
            began = time.perf_counter_ns()
            self.engine.push(batch)
            spent += time.perf_counter_ns() - began
        if self.engine.metrics["late"]:
            raise SystemExit("rows were too late; nothing was measured.")
        return spent / pushes / self.rows.batch


def _require_last(share: float) -> None:
    """Compare the answers of a small stream with the rows that have come so far."""
    last = 50
    small = _LastRows(share, 256, 100, last)
    small.fill()
    for _ in range(20):
        out = small.engine.push(small.rows.next())
        times, values = small.rows.held()
        ends = np.searchsorted(times, out["t"].to_numpy(), side="right")
        for name, fold in (("total", np.sum), ("top", np.max)):
            wanted = [fold(values[max(end - last, 0) : end]) for end in ends.tolist()]
            if out[f"{name}_{last}rows"].to_pylist() != wanted:
                raise SystemExit(f"{name} of the last rows: a wrong answer; nothing was measured.")
