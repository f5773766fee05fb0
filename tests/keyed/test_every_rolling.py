"""rolling(every=) against DuckDB's joins and polars' dynamic groups, whose results are their own."""

import math
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from oracles.every_duckdb import SQL, by_duckdb
from sash import monoids, rolling

AGGS = {
    "n": monoids.count(),
    "m": monoids.count("x"),
    "s": monoids.sum("x"),
    "mean": monoids.mean("x"),
    "low": monoids.min("x"),
    "top": monoids.max("x"),
}
SECOND = 10**6  # in the ticks of a timestamp
GRIDS = [
    (60, [60], 0),
    (60, [300, 90], 0),
    (100, [30], 0),
    (45, [600], -20),
    (300, [1000, 300], 7),
]


def events(seed: int, kind: str = "int", n: int = 400) -> pa.Table:
    """Bursts and silences of three keys and null, before and after 0, ties and nulls among them, in no order."""
    rng = np.random.default_rng(seed)
    times = rng.integers(-20, 20, n) * 700 + rng.integers(0, 120, n)
    values = rng.integers(-50, 50, n) if kind == "int" else np.round(rng.normal(0, 10, n), 3)
    return pa.table(
        {
            "k": pa.array(rng.choice(["a", "b", "c"], n), mask=rng.random(n) < 0.2),
            "t": pa.array(times, mask=(rng.random(n) < 0.05) & (np.arange(n) > 50)),  # every key has had a time by then
            "x": pa.array(values, mask=rng.random(n) < 0.2),
        }
    )


def agree(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-7)
    return bool(one == other)


def assert_same_rows(got: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    ours, theirs = ({(row["k"], row["window_end"]): row for row in rows} for rows in (got, wanted))
    assert len(ours) == len(got) and ours.keys() == theirs.keys()
    for place, row in theirs.items():
        assert all(agree(ours[place][name], value) for name, value in row.items()), (ours[place], row)


def assert_in_order(got: list[dict[str, Any]], table: pa.Table) -> None:
    first = {k: at for at, k in reversed(list(enumerate(table["k"].to_pylist())))}
    places = [(first[row["k"]], row["window_end"]) for row in got]
    assert places == sorted(places)


# --- DuckDB ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("every", "sizes", "offset"), GRIDS)
@pytest.mark.parametrize("kind", ["int", "float"])
@pytest.mark.parametrize("singly", [False, True], ids=["panes", "events"])
def test_rows_are_duckdbs(every, sizes, offset, kind, singly):
    """Every built-in that SQL has, kept in panes or, where another aggregate needs order, event by event."""
    table = events(every, kind)
    aggs = AGGS | ({"old": monoids.first("x")} if singly else {})
    out = rolling(table, keys=["k"], time="t", windows=sizes, aggs=aggs, every=every, offset=offset)
    got, wanted = out.to_pylist(), by_duckdb(table, sizes, every, offset)
    assert len(wanted) > 50
    assert_same_rows(got, wanted)
    assert_in_order(got, table)


@pytest.mark.parametrize(("every", "sizes", "offset"), GRIDS)
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_instants_are_duckdbs(every, sizes, offset, zone):
    """The same over timestamps, by their ticks."""
    table = events(every + 1)
    ticks = pa.array([None if t is None else t * SECOND for t in table["t"].to_pylist()], pa.int64())
    instants = table.set_column(1, "t", ticks.cast(pa.timestamp("us")).cast(pa.timestamp("us", zone)))
    out = rolling(
        instants,
        keys=["k"],
        time="t",
        windows=[f"{size}s" for size in sizes],
        aggs=AGGS,
        every=timedelta(seconds=every),
        offset=timedelta(seconds=offset),
    )
    assert out.schema.field("window_end").type == pa.timestamp("us", zone)
    ends = out["window_end"].cast(pa.int64()).to_pylist()
    renamed = {f"{agg}_{size}": out[f"{agg}_{size}s"].to_pylist() for agg in SQL for size in sizes}
    plain = pa.table({"k": out["k"], "window_end": [end // SECOND for end in ends], **renamed})
    assert {end % SECOND for end in ends} == {0}
    assert_same_rows(plain.to_pylist(), by_duckdb(table, sizes, every, offset))


def test_a_large_table():
    """Many keys of many events each, in no order."""
    rng = np.random.default_rng(5)
    n = 20_000
    table = pa.table(
        {
            "k": pa.array(rng.integers(0, 50, n).astype(str)),
            "t": pa.array(rng.integers(0, 5_000, n)),
            "x": pa.array(rng.integers(-50, 50, n), mask=rng.random(n) < 0.1),
        }
    )
    sizes = [60, 400]
    out = rolling(table, keys=["k"], time="t", windows=sizes, aggs=AGGS, every=40)
    assert_same_rows(out.to_pylist(), by_duckdb(table, sizes, 40))


# --- polars ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("every", "size", "offset"), [(60, 60, 0), (100, 30, 0), (60, 90, 0), (45, 600, -20)])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_rows_are_polars(every, size, offset, kind):
    """Dynamic groups start on a grid, ours end on one: moved by the size they are the same.

    polars begins with the group of a key's first event; windows before it, which see that event too, are only ours.
    """
    table = events(every + size, kind)
    starts = (offset - size) % every
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    x = pl.col("x")
    groups = (
        frame.drop_nulls("t")
        .sort("t")
        .group_by_dynamic("t", every=f"{every}i", period=f"{size}i", offset=f"{starts}i", closed="left", group_by="k")
        .agg(
            pl.len().alias("n"),
            x.count().alias("m"),
            x.min().alias("low"),
            x.max().alias("top"),
            x.mean().alias("mean"),
        )
    )
    names = ["n", "m", "low", "top", "mean"]
    wanted = [
        {"k": row["k"], "window_end": row["t"] + size, **{f"{name}_{size}": row[name] for name in names}}
        for row in groups.to_dicts()
    ]
    out = rolling(frame, keys=["k"], time="t", windows=[size], aggs=AGGS, every=every, offset=offset)
    assert isinstance(out, pl.DataFrame)
    oldest = dict(frame.drop_nulls("t").group_by("k").agg(pl.col("t").min()).iter_rows())
    first = {k: t - (t - starts) % every for k, t in oldest.items()}
    got = [row for row in out.to_dicts() if row["window_start"] >= first[row["k"]]]
    assert len(wanted) > 50
    assert_same_rows(got, wanted)
