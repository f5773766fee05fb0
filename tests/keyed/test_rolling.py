"""sash.rolling against DuckDB, polars and pandas, whose rolling results are their own."""

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash import SashError, monoids

NAMES = ["n", "m", "s", "mean", "low", "top", "std"]
SQL = {
    "n": "count(*)",
    "m": "count(x)",
    "s": "sum(x)",
    "mean": "avg(x)",
    "low": "min(x)",
    "top": "max(x)",
    "std": "stddev_samp(x)",
}
EPOCH = datetime(2026, 1, 1)
SIZES = [timedelta(minutes=1), timedelta(minutes=15), timedelta(hours=2)]
WINDOWS = ["1m", "15m", "2h"]


def aggs(*names: str) -> dict[str, sash.Monoid]:
    made = {
        "n": monoids.count(),
        "m": monoids.count("x"),
        "s": monoids.sum("x"),
        "mean": monoids.mean("x"),
        "low": monoids.min("x"),
        "top": monoids.max("x"),
        "std": monoids.std("x"),
    }
    return {name: made[name] for name in names or NAMES}


def events(seed: int, n: int = 400, kind: str = "int", distinct: bool = False, presorted: bool = False) -> pa.Table:
    """A keyed table: null keys, null values, ties unless `distinct`, no order unless `presorted`."""
    rng = np.random.default_rng(seed)
    seconds = rng.permutation(4 * n)[:n] if distinct else rng.integers(0, 6 * 60, n) * 30
    seconds = np.sort(seconds) if presorted else seconds
    values = rng.integers(-50, 50, n) if kind == "int" else np.round(rng.normal(0, 10, n), 3)
    return pa.table(
        {
            "note": pa.array([f"row {i}" for i in range(n)]),
            "t": pa.array([EPOCH + timedelta(seconds=int(s)) for s in seconds], pa.timestamp("us")),
            "k": pa.array(rng.choice(["a", "b", "c"], n), mask=rng.random(n) < 0.2),
            "x": pa.array(values, mask=rng.random(n) < 0.2),
        }
    )


def by_duckdb(table: pa.Table, keys: list[str], closed: str = "right", names: list[str] | None = None) -> pa.Table:
    """The same columns by RANGE windows, whose bounds are inclusive, in the table's order."""
    columns = []
    group = f"PARTITION BY {', '.join(keys)}" if keys else ""
    for window, size in zip(WINDOWS, SIZES, strict=True):
        whole = size // timedelta(microseconds=1)
        first, last = (whole, 1) if closed == "left" else (whole - 1, 0)
        bounds = f"BETWEEN to_microseconds({first}) PRECEDING AND to_microseconds({last}) PRECEDING"
        over = f"OVER ({group} ORDER BY t RANGE {bounds})"
        columns += [f"{SQL[agg]} {over} AS {agg}_{window}" for agg in names or NAMES]
    numbered = table.append_column("row_number", pa.array(range(table.num_rows), pa.int64()))
    with duckdb.connect() as connection:
        connection.register("events", numbered)
        found = connection.execute(f"SELECT *, {', '.join(columns)} FROM events ORDER BY row_number").to_arrow_table()
        return found.drop_columns(["row_number"])


def agree(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-7)
    return bool(one == other)


def assert_agree(got: pa.Table, wanted: pa.Table, names: list[str]) -> None:
    assert got.num_rows == wanted.num_rows
    for name in names:
        rows = zip(got[name].to_pylist(), wanted[name].to_pylist(), strict=True)
        wrong = [(at, one, other) for at, (one, other) in enumerate(rows) if not agree(one, other)]
        assert not wrong, (name, wrong[:3])


def results(names: list[str] | None = None) -> list[str]:
    return [f"{agg}_{window}" for agg in names or NAMES for window in WINDOWS]


# --- DuckDB ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("kind", ["int", "float"])
@pytest.mark.parametrize("presorted", [False, True], ids=["unsorted", "sorted"])
@pytest.mark.parametrize("seed", range(2))
def test_keyed_windows_are_duckdbs(seed, presorted, kind, closed):
    """Every built-in that SQL has, with ties and nulls, unsorted too: what DuckDB's RANGE windows give."""
    table = events(seed, kind=kind, presorted=presorted)
    got = sash.rolling(table, keys=["k"], time="t", windows=WINDOWS, aggs=aggs(), per="event", closed=closed)
    assert got.select(table.column_names).equals(table)
    assert_agree(got, by_duckdb(table, ["k"], closed), results())


@pytest.mark.parametrize("keys", [[], None], ids=["empty", "None"])
@pytest.mark.parametrize("presorted", [False, True], ids=["unsorted", "sorted"])
def test_no_keys_is_one_group(keys, presorted):
    """Without keys all rows are one group."""
    table = events(7, presorted=presorted)
    got = sash.rolling(table, keys=keys, time="t", windows=WINDOWS, aggs=aggs())
    assert_agree(got, by_duckdb(table, []), results())


KEY_TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [1, -1, None]),
    "long": (pa.int64(), [2**62, -(2**62), None]),
    "string": (pa.string(), ["", "a", "é" * 40, None]),
    "large string": (pa.large_string(), ["x", "xy", None]),
    "bool": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [date(2026, 1, 1), date(1960, 2, 29), None]),
    "timestamp": (pa.timestamp("ns"), [datetime(2026, 1, 1), datetime(1960, 1, 1), None]),
    "decimal": (pa.decimal128(20, 2), [Decimal("1.50"), Decimal("-1.50"), None]),
}


@pytest.mark.parametrize("name", KEY_TYPES)
def test_a_key_of_any_type(name):
    """Integers, strings, booleans, dates, timestamps and decimals are keys, and nulls are one too."""
    kind, values = KEY_TYPES[name]
    rng = np.random.default_rng(3)
    key = pa.array([values[at] for at in rng.integers(0, len(values), 400)], kind)
    table = events(3).set_column(2, "k", key)
    got = sash.rolling(table, keys=["k"], time="t", windows=WINDOWS, aggs=aggs())
    assert got.select(table.column_names).equals(table)
    assert_agree(got, by_duckdb(table, ["k"]), results())


def test_keys_of_several_columns():
    """A key of six columns of different types, nulls in each."""
    table = events(5, n=2000).drop_columns(["k"])
    rng = np.random.default_rng(5)
    keys = [name for name in KEY_TYPES if name not in ("long", "large string")]
    for name in keys:
        kind, values = KEY_TYPES[name]
        few = [values[0], None]
        table = table.append_column(name, pa.array([few[at] for at in rng.integers(0, 2, 2000)], kind))
    got = sash.rolling(table, keys=keys, time="t", windows=WINDOWS, aggs=aggs())
    assert_agree(got, by_duckdb(table, [f'"{name}"' for name in keys]), results())


def test_integer_times():
    """Where times are integers sizes are numbers."""
    table = events(11)
    times = pa.array([int((t - EPOCH).total_seconds()) for t in table["t"].to_pylist()])
    plain = table.set_column(1, "t", times)
    got = sash.rolling(plain, keys=["k"], time="t", windows=[60, 900, 7200], aggs=aggs())
    wanted = by_duckdb(table, ["k"])
    for window, size in zip(WINDOWS, (60, 900, 7200), strict=True):
        for agg in NAMES:
            rows = zip(got[f"{agg}_{size}"].to_pylist(), wanted[f"{agg}_{window}"].to_pylist(), strict=True)
            assert all(agree(one, other) for one, other in rows), agg


# --- polars ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_keyed_windows_are_polars(kind, closed):
    """`closed` means what it means in polars."""
    table = events(13, kind=kind, presorted=True)
    got = sash.rolling(table, keys=["k"], time="t", windows=WINDOWS, aggs=aggs(), closed=closed)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    x = pl.col("x")
    for window, size in zip(WINDOWS, SIZES, strict=True):
        rolled = (
            frame.with_row_index("row")
            .sort("k", "t", maintain_order=True)
            .rolling("t", period=size, closed=closed, group_by="k")
            .agg(pl.len().alias("n"), x.mean().alias("mean"), x.min().alias("low"), x.max().alias("top"))
        )
        ours = pl.from_arrow(got).sort("k", "t", maintain_order=True)
        for agg in ("n", "mean", "low", "top"):
            rows = zip(ours[f"{agg}_{window}"].to_list(), rolled.sort("k", "t")[agg].to_list(), strict=True)
            assert all(agree(one, other) for one, other in rows), (agg, window)


# --- pandas ---------------------------------------------------------------------------------------

PANDAS = {"s": "sum", "mean": "mean", "low": "min", "top": "max", "std": "std"}


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_keyed_windows_are_pandas(kind, closed):
    """pandas looks at rows one by one, so times are distinct here; its sum of no value is NaN or 0."""
    table = events(17, kind=kind, distinct=True, presorted=True)
    got = sash.rolling(table, keys=["k"], time="t", windows=WINDOWS, aggs=aggs(), closed=closed)
    frame = table.to_pandas().assign(x=lambda frame: frame["x"].astype(float), row=range(table.num_rows))
    for window, size in zip(WINDOWS, SIZES, strict=True):
        for key, part in frame.groupby("k", dropna=False):
            ours = got.take(part["row"].to_numpy())
            assert {value is None for value in ours["k"].to_pylist()} == {pd.isna(key)}
            rolling = part.set_index("t")["x"].rolling(size, closed=closed, min_periods=1)
            for agg, method in PANDAS.items():
                wanted = getattr(rolling, method)().to_numpy()
                theirs = [None if np.isnan(value) else float(value) for value in wanted]
                rows = zip(ours[f"{agg}_{window}"].to_pylist(), theirs, strict=True)
                # pandas subtracts what leaves a window, so its digits wear off.
                assert all(agree(one, other) or close(one, other) for one, other in rows), (agg, window)


def close(one: Any, other: Any) -> bool:
    return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)


# --- kinds of tables ------------------------------------------------------------------------------


def test_arrow_in_arrow_out():
    """An Arrow table comes back as one, its columns first and as they were."""
    table = events(19)
    got = sash.rolling(table, keys=["k"], time="t", windows=["15m"], aggs=aggs("n", "s"))
    assert isinstance(got, pa.Table)
    assert got.column_names[:4] == table.column_names
    assert set(got.column_names[4:]) == {"n_15m", "s_15m"}
    assert got.schema.field("n_15m").type == pa.int64()


def test_chunked_arrow():
    """How a table is cut into chunks changes nothing."""
    table = events(20)
    cut = pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7, 100), table.slice(107)])
    options: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": WINDOWS, "aggs": aggs()}
    assert sash.rolling(cut, **options).combine_chunks().equals(sash.rolling(table, **options).combine_chunks())


def test_pandas_in_pandas_out():
    """A data frame comes back as one, with its index, its columns and their types."""
    table = events(21)
    frame = table.to_pandas()
    frame.index = pd.Index(range(1000, 1400), name="number")
    got = sash.rolling(frame, keys=["k"], time="t", windows=["15m"], aggs=aggs("n", "top", "mean"))
    assert isinstance(got, pd.DataFrame)
    pd.testing.assert_frame_equal(got[frame.columns], frame)
    wanted = sash.rolling(table, keys=["k"], time="t", windows=["15m"], aggs=aggs("n", "top", "mean"))
    assert got["n_15m"].tolist() == wanted["n_15m"].to_pylist()
    assert frame.columns.tolist() == table.column_names


@pytest.mark.parametrize("index", [None, list("pqrs"), pd.Index([4, 3, 2, 1], name="number")])
def test_boundaries_of_pandas_have_no_index_of_rows(index):
    """Rows of a grid are not those that were given, even where there are as many."""
    frame = pd.DataFrame({"k": list("aaaa"), "t": [1, 11, 21, 31], "x": [1, 2, 3, 4]}, index=index)
    asked = {"keys": ["k"], "time": "t", "every": 10, "aggs": {"total": sash.monoids.sum("x")}}
    for size, rows in ((10, 4), (20, 5)):
        got = sash.rolling(frame, windows=[size], **asked)
        wanted = sash.rolling(frame.to_dict("list"), windows=[size], **asked)
        assert got.index.equals(pd.RangeIndex(rows))
        assert got.to_dict("list") == wanted.to_pydict()


def test_polars_in_polars_out():
    """A polars frame comes back as one."""
    table = events(23)
    frame = pl.from_arrow(table)
    got = sash.rolling(frame, keys=["k"], time="t", windows=WINDOWS, aggs=aggs())
    assert isinstance(got, pl.DataFrame)
    assert got.select(table.column_names).equals(frame)
    assert_agree(got.to_arrow(), sash.rolling(table, keys=["k"], time="t", windows=WINDOWS, aggs=aggs()), results())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_times_of_any_unit(unit, zone):
    """The time column comes back as given and the results do not depend on its unit."""
    table = events(29)
    cast = table.set_column(1, "t", table["t"].cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone)))
    got = sash.rolling(cast, keys=["k"], time="t", windows=WINDOWS, aggs=aggs())
    assert got.schema.field("t").type == pa.timestamp(unit, zone)
    assert got["t"].equals(cast["t"])
    assert_agree(got, by_duckdb(table, ["k"]), results())


@pytest.mark.parametrize("keys", [["k"], []], ids=["keyed", "one group"])
@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows(rows, keys):
    """An empty table and one row have the columns and types of any other."""
    table = events(31).slice(0, rows)
    whole = sash.rolling(events(31), keys=keys, time="t", windows=WINDOWS, aggs=aggs())
    got = sash.rolling(table, keys=keys, time="t", windows=WINDOWS, aggs=aggs())
    assert got.schema == whole.schema
    assert got.num_rows == rows
    assert got["n_2h"].to_pylist() == [1] * rows


def test_bad_times():
    """A null time has no window: the row stays and its results are null."""
    table = pa.table({"t": pa.array([1, None, 2]), "x": [1, 2, 4]})
    got = sash.rolling(table, keys=[], time="t", windows=[10], aggs=aggs("n", "s"))
    assert got["t"].to_pylist() == [1, None, 2]
    assert got["s_10"].to_pylist() == [1, None, 5]


def test_result_names_must_not_clash():
    """A result column that the table has already is refused by name."""
    table = pa.table({"t": [1], "x": [1], "n_10": [1]})
    with pytest.raises(SashError, match="n_10"):
        sash.rolling(table, keys=[], time="t", windows=[10], aggs=aggs("n"))


def test_a_missing_column_is_named():
    """A column that the table lacks is named."""
    for options in ({"keys": ["nobody"]}, {"time": "never"}, {"aggs": {"s": monoids.sum("nothing")}}):
        asked: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": ["1h"], "aggs": aggs("n")} | options
        with pytest.raises(SashError, match=r"nobody|never|nothing"):
            sash.rolling(events(1), **asked)


def test_nans_are_numbers():
    """A NaN is a value: it counts, and makes a sum NaN, as in SQL."""
    table = pa.table({"t": [1, 2, 20], "x": pa.array([1.0, math.nan, 2.0])})
    got = sash.rolling(table, keys=[], time="t", windows=[10], aggs=aggs("m", "s"))
    assert got["m_10"].to_pylist() == [1, 2, 1]
    assert [str(value) for value in got["s_10"].to_pylist()] == ["1.0", "nan", "2.0"]


def test_nans_of_pandas_are_nulls_in_a_table_and_numbers_in_a_window():
    """pandas has no other null for its floats; a Window takes the numbers that a column holds."""
    table = pd.DataFrame({"t": [1, 2], "x": [1.0, math.nan]})
    assert sash.rolling(table, time="t", windows=[10], aggs=aggs("s"))["s_10"].tolist() == [1.0, 1.0]
    window = sash.Window(monoids.sum())
    window.insert_many(table["t"], table["x"])
    assert math.isnan(window.query())


def test_sorted_and_shuffled_agree():
    """The fast path of sorted rows gives what any other order gives, for a monoid that is not commutative too."""
    table = events(37, n=3000, kind="int", distinct=True, presorted=True)
    x = pa.array([float(1 + i % 2) for i in range(3000)])
    table = table.append_column("a", pa.array([1.0 if i % 50 else -1.0 for i in range(3000)])).append_column("b", x)
    wanted = aggs() | {"f": monoids.affine("a", "b"), "old": monoids.first("x"), "new": monoids.last("x")}
    options: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": WINDOWS, "aggs": wanted}
    order = np.random.default_rng(37).permutation(3000)
    shuffled = sash.rolling(table.take(order), **options)
    in_order = sash.rolling(table, **options).take(order)
    for name in in_order.column_names:
        rows = zip(in_order[name].to_pylist(), shuffled[name].to_pylist(), strict=True)
        assert all(agree(one, other) for one, other in rows), name


@pytest.mark.parametrize("more", [{}, {"every": "15m"}])
def test_a_struct_has_the_results_of_its_fields(more):
    """Native and in Python, with nulls, per row and per boundary; a field is what the aggregate alone is."""
    inner = {**aggs("n", "s", "top"), "all": monoids.collect_list("x"), "latest": monoids.last("k")}
    table = events(3)
    options = {"keys": "k", "time": "t", "windows": WINDOWS, **more}
    alone = sash.rolling(table, aggs=inner, **options)
    both = sash.rolling(table, aggs={"both": monoids.struct(**inner), "m": monoids.count("x")}, **options)
    for size in WINDOWS:
        column = both[f"both_{size}"]
        assert [field.name for field in column.type] == list(inner)
        for name in inner:
            assert column.combine_chunks().field(name).to_pylist() == alone[f"{name}_{size}"].to_pylist()
    with pytest.raises(SashError, match=r"aggs must have other names: both\.n is also a field of both"):
        sash.rolling(table, aggs={"both": monoids.struct(**inner), "both.n": monoids.count()}, **options)


def test_a_size_that_is_too_long_for_the_unit_says_so() -> None:
    """How long it may be depends on the unit of the times."""
    table = pa.table({"t": pa.array([datetime(2024, 1, 1)], pa.timestamp("ns"))})
    with pytest.raises(
        SashError, match="windows must be at most 53375 days because the times are in ns, got '150000d'"
    ):
        sash.rolling(table, time="t", windows=["150000d"], aggs={"n": monoids.count()})
    assert sash.rolling(table, time="t", windows=["53375d"], aggs={"n": monoids.count()})["n_53375d"].to_pylist() == [1]
