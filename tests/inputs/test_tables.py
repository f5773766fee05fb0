"""Tables of every kind: what comes back of them, and what is refused."""

from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import ArgumentError, KeyedWindows, KindError, monoids, rolling
from support.keyed_batches import picked

TOTAL = {"total": monoids.sum("x")}


def rolled(table: Any, **options: Any) -> Any:
    return rolling(table, **{"keys": ["k"], "time": "t", "windows": [10], "aggs": TOTAL} | options)


# --- pandas ---------------------------------------------------------------------------------------


def test_untouched_columns_of_pandas_come_back_as_they_are() -> None:
    """Dicts, lists, columns that Arrow cannot read, names that are not text, an index: nothing is converted."""
    odd = [{"a": 1}, [1, (2,)], object()]
    frame = pd.DataFrame(
        {"k": ["a"] * 3, "t": [1, 2, 3], "x": [1, 2, 3], "odd": odd, 7: [1, "x", None]}, index=[5, 5, 6]
    )
    before = frame.copy()
    out = rolled(frame)
    assert all(a is b for a, b in zip(out["odd"], odd, strict=True))
    assert list(out.columns) == ["k", "t", "x", "odd", 7, "total_10"]
    assert out["total_10"].tolist() == [1, 3, 6]
    pd.testing.assert_frame_equal(out.drop(columns="total_10"), before)
    pd.testing.assert_frame_equal(frame, before)


def test_a_class_derived_from_a_table_is_a_table() -> None:
    """And stays what it is."""

    class Frame(pd.DataFrame):
        @property
        def _constructor(self) -> Any:
            return Frame

    out = rolled(Frame({"k": ["a"], "t": [1], "x": [2]}))
    assert isinstance(out, Frame) and out["total_10"].tolist() == [2]


def test_a_named_index_can_be_the_time() -> None:
    """A level of the index is a column by its name."""
    frame = pd.DataFrame({"k": ["a", "a"], "x": [1, 2]}, index=pd.Index([1, 2], name="t"))
    out = rolled(frame)
    assert out["total_10"].tolist() == [1, 3]
    assert out.index.equals(frame.index)


def test_nulls_leave_integers_of_pandas_integers() -> None:
    """A result, or a key, that is null makes the others no floats."""
    keys = pd.array([2**53, 2**53 + 1, None], dtype="Int64")
    frame = pd.DataFrame({"k": keys, "t": [1, 1, 1], "x": pd.array([2**53 + 1, None, 3], dtype="Int64")})
    out = rolled(frame)
    assert str(out["total_10"].dtype) == "Int64"
    assert out["total_10"].tolist()[0] == 2**53 + 1 and out["total_10"].isna().tolist() == [False, True, False]
    bounds = rolled(frame, every=10)
    assert (str(bounds["k"].dtype), bounds["k"].tolist()[:2]) == ("Int64", [2**53, 2**53 + 1])
    plain = pd.DataFrame({"k": [1], "t": [1], "x": [2]})
    assert str(rolled(plain)["total_10"].dtype) == str(rolled(plain, every=10)["k"].dtype) == "int64"
    flags = rolled(frame, aggs={"any": monoids.any("x")})
    assert str(flags["any_10"].dtype) == "boolean"


def test_a_column_that_arrow_cannot_read_is_named() -> None:
    """Only if it is read."""
    frame = pd.DataFrame({"k": ["a", "a"], "t": [1, 2], "x": [1, "one"]})
    with pytest.raises(KindError, match="table must have columns of one Arrow type, but 'x' does not") as error:
        rolled(frame)
    assert error.value.column == "x"
    assert rolled(frame, aggs={"n": monoids.count()})["n_10"].tolist() == [1, 2]


# --- others ---------------------------------------------------------------------------------------


def test_untouched_columns_of_polars_come_back_as_they_are() -> None:
    """Types that Arrow does not have included."""
    frame = pl.DataFrame({"k": ["a"], "t": [1], "x": [2], "c": pl.Series(["u"], dtype=pl.Categorical)})
    out = rolled(frame)
    assert out.drop("total_10").equals(frame) and out["c"].dtype == frame["c"].dtype


def test_a_lazy_frame_comes_back_lazy() -> None:
    """It is collected in between."""
    frame = pl.DataFrame({"k": ["a", "a"], "t": [1, 2], "x": [2, 3]})
    out = rolled(frame.lazy())
    assert isinstance(out, pl.LazyFrame) and out.collect().equals(rolled(frame))
    grid = rolled(frame.lazy(), every=5)
    assert isinstance(grid, pl.LazyFrame) and grid.collect().equals(rolled(frame, every=5))


def test_what_streams_arrow_is_a_table() -> None:
    """A relation of DuckDB, and a reader of record batches."""
    table = pa.table({"k": ["a", "a"], "t": [1, 2], "x": [2, 3]})
    with duckdb.connect() as connection:
        relation = connection.sql("SELECT * FROM (VALUES ('a', 1, 2), ('a', 2, 3)) AS events(k, t, x)")
        assert rolled(relation)["total_10"].to_pylist() == [2, 5]
    assert rolled(table.to_reader(max_chunksize=1)).equals(rolled(table))


def test_what_streams_no_columns_is_not_a_table() -> None:
    """An array speaks the same interface."""
    with pytest.raises(KindError, match="table must be a table, got"):
        rolled(pa.chunked_array([[1, 2]]))


@pytest.mark.parametrize("scalar", [3, "abc", None, Decimal(1)])
def test_a_dict_of_scalars_is_not_a_table(scalar: Any) -> None:
    """Its columns are lists or arrays."""
    with pytest.raises(KindError, match="must be a dict of columns, such as lists or arrays, but x is") as error:
        rolled({"k": ["a"], "t": [1], "x": scalar})
    assert error.value.column == "x"


def test_columns_have_one_length() -> None:
    """And one type each."""
    with pytest.raises(ArgumentError, match=r"table must have columns of one length, got \{'k': 2, 't': 1, 'x': 1\}"):
        rolled({"k": ["a", "b"], "t": [1], "x": [1]})
    with pytest.raises(KindError, match="but 'x' does not"):
        rolled({"k": ["a", "b"], "t": [1, 2], "x": [1, "one"]})


def test_a_column_that_is_there_twice_is_refused_if_it_is_read() -> None:
    """Which one is meant, nobody can say."""
    columns = [pa.array(["a"]), pa.array([1]), pa.array([2]), pa.array([3])]
    for name, argument in (("k", "keys"), ("t", "time"), ("x", "aggs")):
        table = pa.table(columns, names=["k", "t", "x", name])
        with pytest.raises(ArgumentError, match=f"{argument} must name a column that the table has once, got '{name}'"):
            rolled(table)
        with pytest.raises(ArgumentError, match="must name a column that the table has once"):
            KeyedWindows(keys=["k"], time="t", windows=[10], aggs=TOTAL).push(table)
    assert rolled(pa.table([*columns, pa.array([4])], names=["k", "t", "x", "y", "y"]))["total_10"].to_pylist() == [2]


@pytest.mark.parametrize("every", [None, 10])
def test_views_of_text_are_text(every: int | None) -> None:
    """As keys, as ids, as what is counted, carried and ordered."""
    text = pa.array(["a", "b", "a"]).cast(pa.string_view())
    table = pa.table({"k": text, "t": [1, 2, 3], "s": text, "x": [1, 2, 3]})
    aggs = {**TOTAL, "n": monoids.distinct("s"), "top": monoids.max("s"), "h": monoids.hyperloglog("s")}
    out = rolled(table, aggs=aggs, every=every)
    assert picked(out, "k", "total_10", "n_10", "top_10", "h_10")[-1][1:] == (
        (4, 1, "a", 1) if every is None else (2, 1, "b", 1)
    )
    options = {} if every else {"id": "s", "carry": ["s"]}
    kw = KeyedWindows(keys=["k"], time="t", windows=[10], aggs=aggs, every=every, emit="final", **options)
    kw.push(table)
    assert KeyedWindows.from_bytes(kw.to_bytes()).flush()["k"].to_pylist() == kw.flush()["k"].to_pylist() != []
