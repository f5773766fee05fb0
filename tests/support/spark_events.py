"""Random tables of keyed events, their answers by brute force, and how two tables compare."""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from oracles.keyed import Aggregate, Question
from sash import Monoid, monoids
from sash.spark import schema

SIZES = (30, 300)
FOLDS: dict[str, Aggregate] = {
    "n": ("count",),
    "m": ("count", "x"),
    "s": ("sum", "x"),
    "top": ("max", "x"),
    "low": ("min", "y"),
    "mean": ("mean", "y"),
    "std": ("std", "x"),
}
ORDERED: dict[str, Aggregate] = {"f": ("affine", "a", "b"), "old": ("first", "x"), "new": ("last", "x")}
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "a", "é" * 40, None]),
    "int": (pa.int32(), [1, -1, 2**31 - 1, None]),
    "long": (pa.int64(), [2**62, -(2**62), 0, None]),
    "flag": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [date(2026, 1, 1), date(1960, 2, 29), None]),
    "moment": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1), datetime(1960, 1, 1), None]),
    "local": (pa.timestamp("us"), [datetime(2026, 1, 1), datetime(1960, 1, 1), None]),
    "price": (pa.decimal128(20, 2), [Decimal("1.50"), Decimal("-1.50"), None]),
    "bytes": (pa.binary(), [b"", b"\0\xff", None]),
}


def monoids_of(folds: dict[str, Aggregate]) -> dict[str, Monoid]:
    return {name: getattr(monoids, fold)(*columns) for name, (fold, *columns) in folds.items()}


def events(
    seed: int, n: int = 200, *, distinct: bool = False, skewed: bool = False, bad_times: bool = False
) -> pa.Table:
    """Rows in no order with a key of each type, nulls everywhere, and ties in time unless `distinct`."""
    rng = np.random.default_rng(seed)
    times = rng.permutation(4 * n)[:n] if distinct else rng.integers(0, n, n)
    columns = {"row": pa.array(np.arange(n)), "t": pa.array(times, mask=rng.random(n) < 0.1 * bad_times)}
    for name, (kind, values) in KEYS.items():
        choice = rng.integers(0, len(values), n)
        columns[name] = pa.array([values[0 if skewed and i % 10 else at] for i, at in enumerate(choice)], kind)
    columns["x"] = pa.array(rng.integers(-50, 50, n), mask=rng.random(n) < 0.2)
    columns["y"] = pa.array(np.round(rng.normal(0, 10, n), 3), mask=rng.random(n) < 0.2)
    columns["a"] = pa.array(rng.choice([-1.0, 1.0, 2.0, 0.0], n), mask=rng.random(n) < 0.1)
    columns["b"] = pa.array(rng.integers(-3, 4, n).astype(float))
    return pa.table(columns)


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The table as a DataFrame; without a schema Spark takes local timestamps for instants."""
    fields = [StructField(field.name, schema.spark_type(field.type)) for field in table.schema]
    return spark.createDataFrame(table, StructType(fields))


def oracle(
    table: pa.Table, keys: list[str], folds: dict[str, Aggregate], closed: str = "right"
) -> list[dict[str, Any]]:
    """The answers by brute force, a row with a null time among them."""
    question = Question(keys=keys, time="t", windows={str(size): size for size in SIZES}, aggs=folds, closed=closed)
    rows = table.to_pylist()
    answers = {row["row"]: row for row in question.rolled([row for row in rows if row["t"] is not None])}
    nothing = dict.fromkeys(question.columns())
    return [answers.get(row["row"], row | nothing) for row in rows]


def assert_same(got: pa.Table, wanted: list[dict[str, Any]], order: str = "row") -> None:
    """Compare tables as rows in the order of a column, floats of results within rounding."""
    rows = sorted(got.to_pylist(), key=lambda row: row[order])
    assert len(rows) == len(wanted)
    for one, other in zip(rows, sorted(wanted, key=lambda row: row[order]), strict=True):
        assert one.keys() == other.keys()
        wrong = {name: (one[name], other[name]) for name in one if not agree(one[name], other[name])}
        assert not wrong, (one[order], wrong)


def agree(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(agree(one[name], other[name]) for name in one)
    if isinstance(one, dict) and isinstance(other, tuple):  # a struct, and what the oracle has for it
        return all(map(agree, one.values(), other))
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-7)
    return bool(one == other)
