"""`rolling(at=)` against what others do: DuckDB's range join, pandas' merge_asof, and its own rows as questions."""

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sash import monoids, rolling

AGGS = {
    "n": monoids.count(), "m": monoids.count("x"), "s": monoids.sum("x"), "mean": monoids.mean("x"),
    "low": monoids.min("x"), "top": monoids.max("x"), "newest": monoids.last("x"),
}  # fmt: skip
SQL = {
    "n": "count(e.t)", "m": "count(x)", "s": "sum(x)", "mean": "avg(x)", "low": "min(x)", "top": "max(x)",
    "newest": "arg_max(x, e.t)",
}  # fmt: skip


def events(seed: int, rows: int = 300) -> pa.Table:
    """Distinct times, null keys and values, no order."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "k": pa.array(rng.choice(["a", "b", "c"], rows), mask=rng.random(rows) < 0.2),
            "t": pa.array(rng.permutation(4 * rows)[:rows], pa.int64()),
            "x": pa.array(rng.integers(-50, 50, rows), mask=rng.random(rows) < 0.2),
        }
    )


def questions(seed: int, rows: int = 100) -> pa.Table:
    """Times of which some are those of events, and keys that have none."""
    rng = np.random.default_rng(seed + 1000)
    return pa.table(
        {
            "row": np.arange(rows),
            "k": pa.array(rng.choice(["a", "b", "z"], rows), mask=rng.random(rows) < 0.2),
            "q": pa.array(rng.integers(-50, 1300, rows), mask=rng.random(rows) < 0.1),
        }
    )


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("seed", range(5))
def test_a_range_join_in_duckdb_has_the_same_answers(seed: int, closed: str) -> None:
    """Question by question, with nulls as SQL has them; a question without a time is left to us."""
    at, sizes = questions(seed), [1, 20, 200]
    out = rolling(
        events(seed), at=at, at_time="q", keys="k", time="t", windows=sizes, aggs=AGGS, closed=closed
    )  # fmt: skip
    assert out.select(at.column_names).equals(at)
    for size in sizes:
        inside = f"e.t >= q - {size} AND e.t < q" if closed == "left" else f"e.t > q - {size} AND e.t <= q"
        columns = ", ".join(f"{sql} AS {agg}_{size}" for agg, sql in SQL.items())
        with duckdb.connect() as connection:
            connection.register("e", events(seed))
            connection.register("asked", at)
            theirs = connection.execute(
                f"SELECT row, {columns} FROM asked LEFT JOIN e ON e.k IS NOT DISTINCT FROM asked.k AND {inside} "
                "WHERE q IS NOT NULL GROUP BY row ORDER BY row"
            ).to_arrow_table()
        ours = out.select(theirs.column_names).filter(out["q"].is_valid())
        assert ours.to_pylist() == theirs.to_pylist()
    assert out.filter(out["q"].is_null()).to_pandas()[[f"{agg}_20" for agg in AGGS]].isna().all(axis=None)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("seed", range(5))
def test_merge_asof_is_the_last_value_of_a_window(seed: int, closed: str) -> None:
    """As far back as its tolerance says, which is one tick less than the size of a window that is open on the left."""
    rows = events(seed).drop_null().sort_by("t").to_pandas()
    at = questions(seed).drop_null().sort_by("q").to_pandas()
    theirs = pd.merge_asof(
        at, rows, left_on="q", right_on="t", by="k", allow_exact_matches=closed == "right",
        tolerance=30 if closed == "left" else 29,
    )  # fmt: skip
    ours = rolling(
        rows, at=at, at_time="q", keys="k", time="t", windows=[30], closed=closed, aggs={"x": monoids.last("x")}
    )
    assert theirs["x"].notna().sum() > 10
    pd.testing.assert_series_equal(ours["x_30"], theirs["x"], check_names=False, check_dtype=False)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize(
    "aggs", [AGGS, {"all": monoids.collect_list("x")}, {"d": monoids.decayed_sum(9, "x")}], ids=str
)
def test_rows_that_ask_about_themselves_have_the_results_of_rolling(closed: str, aggs: Any) -> None:
    """Ties and nulls included."""
    rows = pa.concat_tables([events(1), events(1).slice(0, 60)])
    words: dict[str, Any] = {"keys": "k", "time": "t", "windows": [7, 90], "aggs": aggs, "closed": closed}
    plain = rolling(rows, **words)
    asked = rolling(rows, at=rows.select(["k", "t"]), **words)
    for name in asked.column_names[2:]:
        assert asked[name].equals(plain[name])
