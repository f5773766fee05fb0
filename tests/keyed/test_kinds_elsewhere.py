"""Windows of all kinds against those of others: DuckDB's ROWS and RANGE frames, pandas and Polars."""

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import KeyedWindows, monoids, rolling

AGGS = {"n": monoids.count(), "s": monoids.sum("x"), "top": monoids.max("x"), "old": monoids.first("x")}
SQL = {"n": "count(*)", "s": "sum(x)", "top": "max(x)", "old": "arg_min(x, t)"}


def table_of(rows: int, keys: int, seed: int = 0) -> pa.Table:
    """Rows with distinct times, because the order of equal ones is not promised by anybody."""
    rng = np.random.default_rng(seed)
    times = rng.permutation(rng.choice(10 * rows, rows, replace=False))
    return pa.table(
        {
            "row": np.arange(rows),
            "k": rng.integers(0, keys, rows),
            "t": times * 1_000_000,
            "x": pa.array(rng.integers(-50, 50, rows), mask=rng.random(rows) < 0.1),
        }
    ).set_column(2, "t", pa.array(times * 1_000_000, pa.timestamp("us")))


def duckdb_of(table: pa.Table, frames: dict[str, str]) -> pd.DataFrame:
    sql = {name: one for name, one in SQL.items() if name != "old"}
    columns = [
        f"{one} OVER (PARTITION BY k ORDER BY t {over}) AS {name}_{window}"
        for window, over in frames.items()
        for name, one in sql.items()
    ]
    with duckdb.connect() as connection:
        connection.register("events", table)
        return connection.execute(f"SELECT row, {', '.join(columns)} FROM events ORDER BY row").df()


FRAMES = {
    "right": {
        "7rows": "ROWS 6 PRECEDING",
        "unbounded": "ROWS UNBOUNDED PRECEDING",
        "40s": "RANGE BETWEEN INTERVAL '39.999999' SECOND PRECEDING AND CURRENT ROW",
        "month_to_date": "",
        "next_40s": "RANGE BETWEEN CURRENT ROW AND INTERVAL '39.999999' SECOND FOLLOWING",
    },
    "left": {
        "7rows": "ROWS BETWEEN 7 PRECEDING AND 1 PRECEDING",
        "unbounded": "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
        "40s": "RANGE BETWEEN INTERVAL '40' SECOND PRECEDING AND INTERVAL '1' MICROSECOND PRECEDING",
    },
    "both": {
        "7rows": "ROWS 6 PRECEDING",
        "40s": "RANGE BETWEEN INTERVAL '40' SECOND PRECEDING AND CURRENT ROW",
        "next_40s": "RANGE BETWEEN CURRENT ROW AND INTERVAL '40' SECOND FOLLOWING",
    },
    "neither": {
        "7rows": "ROWS BETWEEN 7 PRECEDING AND 1 PRECEDING",
        "40s": "RANGE BETWEEN INTERVAL '39.999999' SECOND PRECEDING AND INTERVAL '1' MICROSECOND PRECEDING",
        "next_40s": "RANGE BETWEEN INTERVAL '1' MICROSECOND FOLLOWING AND INTERVAL '39.999999' SECOND FOLLOWING",
    },
}
ASKED = {"7rows": "7 rows", "unbounded": "unbounded", "40s": "40s", "next_40s": "next 40s"}


@pytest.mark.parametrize("closed", FRAMES)
@pytest.mark.parametrize("keys", [1, 20])
def test_duckdb(closed, keys):
    """Every kind that SQL has a frame for, for each way to close it."""
    table = table_of(2_000, keys)
    frames = {name: over for name, over in FRAMES[closed].items() if name in ASKED}
    theirs = duckdb_of(table, frames)
    ours = rolling(table, keys="k", time="t", windows=[ASKED[name] for name in frames], aggs=AGGS, closed=closed)
    pd.testing.assert_frame_equal(ours.to_pandas()[theirs.columns], theirs, check_dtype=False)


def test_duckdb_month_to_date():
    """A month to date is a partition by the month, up to the row."""
    table = table_of(2_000, 5)
    times = pa.array(table["t"].cast(pa.int64()).to_numpy() * 1_000, pa.timestamp("us"))
    table = table.set_column(2, "t", times)
    over = "OVER (PARTITION BY k, date_trunc('month', t) ORDER BY t)"
    with duckdb.connect() as connection:
        connection.register("events", table)
        theirs = connection.execute(
            f"SELECT row, count(*) {over} AS n, sum(x) {over} AS s FROM events ORDER BY row"
        ).df()
    ours = rolling(table, keys="k", time="t", windows=["month to date"], aggs=AGGS).to_pandas()
    assert theirs["n"].max() > 2
    assert ours["n_month_to_date"].tolist() == theirs["n"].tolist()
    np.testing.assert_array_equal(ours["s_month_to_date"], theirs["s"])


def test_pandas():
    """`rolling(100)` with and without min_periods, and `expanding()`."""
    table = table_of(3_000, 1).sort_by("t")
    frame = table.to_pandas()
    least: Any
    for least in (None, 30):
        ours = rolling(frame, time="t", windows=["100 rows", "unbounded"], aggs=AGGS, min_rows=least)
        whole = frame["x"].fillna(0)  # pandas counts values where min_rows counts rows
        for name, rolled in (
            ("100rows", whole.rolling(100, min_periods=least or 1)),
            ("unbounded", whole.expanding(least or 1)),
        ):
            found = ours[f"s_{name}"] if least else ours[f"s_{name}"].fillna(0)  # the sum of nulls alone is null here
            np.testing.assert_array_equal(found.to_numpy(float), rolled.sum().to_numpy())


def test_polars():
    """Polars' rolling_*_by has closed="both" and "neither" too."""
    frame = pl.from_arrow(table_of(2_000, 1).sort_by("t"))
    assert isinstance(frame, pl.DataFrame)
    for closed, theirs_is in (("left", "left"), ("right", "right"), ("both", "both"), ("neither", "none")):
        ours = rolling(frame, time="t", windows=["40s"], aggs={"s": monoids.sum("x")}, closed=closed)
        theirs = frame.select(pl.col("x").rolling_sum_by("t", "40s", closed=theirs_is, min_samples=1))  # type: ignore[arg-type]
        assert ours["s_40s"].fill_null(0).to_list() == theirs["x"].fill_null(0).to_list()


@pytest.mark.parametrize("windows", [["7 rows"], ["unbounded"], ["7 rows", "40s", "unbounded", "day to date"]])
def test_a_stream_of_late_rows_ends_as_the_table(windows):
    """Whatever order rows come in, and however the stream is cut, the last revisions are those of the table."""
    table = table_of(1_500, 7)
    rng = np.random.default_rng(1)
    order = np.argsort(table["t"].cast(pa.int64()).to_numpy() + rng.integers(0, 300_000_000, 1_500))
    arrivals = table.take(pa.array(order))
    whole = rolling(table, keys="k", time="t", windows=windows, aggs=AGGS).to_pandas()
    for emit in ("final", "update"):
        kw = KeyedWindows(keys="k", time="t", windows=windows, aggs=AGGS, emit=emit, lateness="5 minutes", carry="row")
        out = []
        for at in range(0, 1_500, 97):
            out.append(kw.push(arrivals.slice(at, 97)))
            kw.check_invariants()
            kw = KeyedWindows.from_bytes(kw.to_bytes())
        out.append(kw.flush())
        assert kw.metrics["late"] == 0
        found = (
            pa.concat_tables(out).to_pandas().drop_duplicates("row", keep="last").sort_values("row", ignore_index=True)
        )
        names = [name for name in whole.columns if "_" in name]
        pd.testing.assert_frame_equal(found[["row", *names]], whole[["row", *names]], check_dtype=False)
