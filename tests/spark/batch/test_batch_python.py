"""Monoids that run in Python, on Spark's workers; they must declare what they return.

These need monoids that run in Python in `sash.rolling`.
"""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Monoid, SashError
from sash.spark import rolling
from support.spark_events import assert_same, events, frame


def texts() -> Monoid:
    return Monoid(identity="", combine=lambda a, b: a + b, lift=str, column="x", name="texts", returns="string")


def pairs() -> Monoid:
    return Monoid(
        identity=(),
        combine=lambda a, b: a + b,
        lift=lambda x: (x,),
        lower=list,
        column="x",
        name="pairs",
        returns=pa.list_(pa.int64()),
    )


def arguments(**aggs: Monoid) -> dict[str, Any]:
    return {"keys": ["text"], "time": "t", "windows": [30, 300], "aggs": aggs}


def test_functions_travel_and_order_is_kept(spark, small):
    """Joined strings, which hide nothing: lost, repeated and reordered rows all show."""
    table = events(3, distinct=True, skewed=True)
    options = arguments(all=texts())
    got = rolling(frame(spark, table), **options)
    assert got.schema["all_30"].dataType.simpleString() == "string"
    assert_same(got.toArrow(), sash.rolling(table, **options).to_pylist())


def test_results_of_any_declared_type(spark, small):
    """Lists come out as arrays, next to built-in aggregates."""
    table = events(5, 60, distinct=True)
    options = arguments(values=pairs(), n=sash.monoids.count())
    got = rolling(frame(spark, table), **options)
    assert got.schema["values_30"].dataType.simpleString() == "array<bigint>"
    assert_same(got.toArrow(), sash.rolling(table, **options).to_pylist())


def test_aggregates_over_decimals_have_known_types(spark, small):
    """Sums and means of money need no declaration, at rows and at boundaries; keys may be called `record`."""
    table = events(7, 40, distinct=True)
    money = pa.array([None if x is None else Decimal(x) / 4 for x in table["x"].to_pylist()], pa.decimal128(12, 2))
    table = table.append_column("money", money).rename_columns(
        ["record" if name == "text" else name for name in [*table.column_names, "money"]]
    )
    aggs = {name: getattr(sash.monoids, name)("money") for name in ("sum", "mean", "range", "delta")}
    options = arguments(**aggs) | {"keys": ["record"]}
    got = rolling(frame(spark, table), **options)
    assert got.schema["sum_30"].dataType.simpleString() == "decimal(38,2)"
    assert got.schema["mean_30"].dataType.simpleString() == "decimal(38,6)"
    assert_same(got.toArrow(), sash.rolling(table, **options).to_pylist())


def test_a_type_that_is_not_known_is_asked_for(spark):
    """Spark plans before it runs, so that a result's type must be known then."""
    unsaid = Monoid(identity="", combine=lambda a, b: a + b, lift=str, column="x", name="texts")
    with pytest.raises(SashError, match=r"^aggs must declare the type of all_30, .* pass returns= to its monoid"):
        rolling(frame(spark, events(1, 5)), **arguments(all=unsaid))
