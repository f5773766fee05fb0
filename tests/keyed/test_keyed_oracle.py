"""The oracle of the keyed tests against DuckDB, so that what it says may be believed. Nothing here needs sash."""

import math
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from oracles.keyed import Aggregate, KeyedOracle, Row

AGGS: dict[str, Aggregate] = {
    "n": ("count",),
    "m": ("count", "x"),
    "s": ("sum", "x"),
    "top": ("max", "x"),
    "low": ("min", "x"),
    "mean": ("mean", "x"),
    "std": ("std", "x"),
}
SQL = {
    "n": "count(*)",
    "m": "count(x)",
    "s": "sum(x)",
    "top": "max(x)",
    "low": "min(x)",
    "mean": "avg(x)",
    "std": "stddev_samp(x)",
}
WINDOWS = {"1": 1, "4": 4, "12": 12}


def random_rows(seed: int, n: int) -> list[Row]:
    rng = random.Random(seed)
    return [
        {"row": i, "k": rng.choice([None, "a", "b"]), "t": rng.randrange(25), "x": rng.choice([None, *range(-4, 5)])}
        for i in range(n)
    ]


def by_duckdb(rows: list[Row], closed: str) -> list[Row]:
    """The same by RANGE windows; bounds are inclusive there and times are whole numbers."""
    schema = pa.schema({"row": pa.int64(), "k": pa.string(), "t": pa.int64(), "x": pa.int64()})
    columns = []
    for name, size in WINDOWS.items():
        first, last = (size, 1) if closed == "left" else (size - 1, 0)
        over = f"OVER (PARTITION BY k ORDER BY t RANGE BETWEEN {first} PRECEDING AND {last} PRECEDING)"
        columns += [f"{sql} {over} AS {agg}_{name}" for agg, sql in SQL.items()]
    with duckdb.connect() as connection:
        connection.register("events", pa.Table.from_pylist(rows, schema=schema))
        found = connection.execute(f"SELECT *, {', '.join(columns)} FROM events ORDER BY row")
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def agree(one: Row, other: Row) -> bool:
    """Row for row, floats to rounding."""

    def same(a: Any, b: Any) -> bool:
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) if isinstance(b, float) and a is not None else a == b

    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("seed", range(5))
def test_plain_windows_are_duckdbs(seed, closed):
    """Offline every aggregate of every window is what DuckDB's RANGE windows give."""
    rows = random_rows(seed, 60)
    oracle = KeyedOracle(keys=["k"], time="t", windows=WINDOWS, aggs=AGGS, closed=closed)
    for got, wanted in zip(oracle.rolled(rows), by_duckdb(rows, closed), strict=True):
        assert agree(got, wanted)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("seed", range(5))
def test_final_is_duckdbs_over_what_was_accepted(seed, closed):
    """With lateness and retention, all of "final" is what DuckDB gives for the rows that were not late."""
    rows = sorted(random_rows(seed, 60), key=lambda row: row["t"] + 7 * ((row["row"] * 31) % 5) / 4)
    options: dict[str, Any] = {"emit": "final", "lateness": 3, "carry": ["row"]}
    oracle = KeyedOracle(keys=["k"], time="t", windows=WINDOWS, aggs=AGGS, closed=closed, **options)
    out = [row for start in range(0, 60, 7) for row in oracle.push(rows[start : start + 7])] + oracle.flush()
    accepted = [event.row for event in oracle.accepted]
    wanted = {row["row"]: row for row in by_duckdb(sorted(accepted, key=lambda row: row["row"]), closed)}
    assert 0 < oracle.metrics["late"] < 30
    assert len(oracle.events) < len(oracle.accepted)
    assert [row["t"] for row in out] == sorted(row["t"] for row in out)
    assert len(out) == len(wanted) == 60 - oracle.metrics["late"]
    for row in out:
        assert agree(row, {name: wanted[row["row"]][name] for name in row})


def test_the_fold_of_functions():
    """Affine functions compose with the oldest applied first, by hand: (2x + 1) then (3x - 1) is 6x + 2."""
    oracle = KeyedOracle(keys=[], time="t", windows={"9": 9}, aggs={"f": ("affine", "a", "b")})
    rows = [{"t": 2, "a": 3.0, "b": -1.0}, {"t": 1, "a": 2.0, "b": 1.0}, {"t": 3, "a": None, "b": 1.0}]
    assert [row["f_9"] for row in oracle.rolled(rows)] == [(6.0, 2.0), (2.0, 1.0), (6.0, 2.0)]


def test_updates_by_hand():
    """One stream worked out on paper: arrival, revision, delete before insert, deleted row."""
    oracle = KeyedOracle(
        keys=[], time="t", windows={"5": 5}, aggs={"n": ("count",)}, emit="update", lateness=10, retract="gone", id="i"
    )

    def said(*rows: tuple[int, int, bool]) -> list[tuple[Any, ...]]:
        out = oracle.push([{"t": t, "i": i, "gone": gone} for t, i, gone in rows])
        return sorted((row["t"], row["i"], row["n_5"], row["deleted"]) for row in out)

    assert said((10, 1, False), (20, 2, False)) == [(10, 1, 1, False), (20, 2, 1, False)]
    assert said((17, 3, False)) == [(17, 3, 1, False), (20, 2, 2, False)]
    assert said((12, 4, True), (17, 3, True)) == [(17, 3, None, True), (20, 2, 1, False)]
    assert said((12, 4, False), (17, 3, False), (20, 2, False)) == []
    assert oracle.metrics == {"rows_in": 8, "revised": 2, "deleted": 1, "unmatched": 1, "stillborn": 2, "repeated": 1}
    assert said((9, 5, False)) == [] and oracle.metrics["late"] == 1
