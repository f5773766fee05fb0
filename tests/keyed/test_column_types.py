"""Types of columns in rolling and KeyedWindows: which ones aggregates read, and in which ones their results come."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from sash import KeyedWindows, KindError, monoids, rolling
from sash.keyed.definition import Definition
from sash.keyed.result_schema import result_schema
from sash.keyed.spec import Spec

TYPED = pa.table(
    {
        "t": [1, 2, 3],
        "flag": [True, False, True],
        "price": pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("2.5")], pa.decimal128(5, 1)),
        "word": ["b", "a", "b"],
        "when": pa.array([3, 1, 2], pa.timestamp("ns")),
        "x": [1, 2, 3],
    }
)
RETURNING = [
    (monoids.min("flag"), pa.bool_(), [True, False, False]),
    (monoids.last("flag"), pa.bool_(), [True, False, True]),
    (monoids.argmin("x", "flag"), pa.bool_(), [True, True, True]),
    (monoids.argmax("flag", "x"), pa.int64(), [1, 1, 1]),
    (monoids.last_k(2, "flag"), pa.list_(pa.bool_()), [[True], [True, False], [False, True]]),
    (monoids.sum("flag"), pa.int64(), [1, 1, 2]),
    (monoids.maxcount("flag"), pa.struct({"max": pa.bool_(), "count": pa.int64()}), [(True, 1), (True, 1), (True, 2)]),
    (
        monoids.maxcount("price"),
        pa.struct({"max": pa.decimal128(5, 1), "count": pa.int64()}),
        [(Decimal("1.5"), 1), (Decimal("2.5"), 1), (Decimal("2.5"), 2)],
    ),
    (monoids.mincount("word"), pa.struct({"min": pa.string(), "count": pa.int64()}), [("b", 1), ("a", 1), ("a", 1)]),
    (monoids.argmin("word", "x"), pa.int64(), [1, 2, 2]),
    (monoids.argmax("x", "word"), pa.string(), ["b", "a", "b"]),
    (monoids.argmax("price", "price"), pa.decimal128(5, 1), [Decimal("1.5"), Decimal("2.5"), Decimal("2.5")]),
    (monoids.argmin("when", "x"), pa.int64(), [1, 2, 2]),
]


@pytest.mark.parametrize("monoid, kind, results", RETURNING, ids=lambda each: repr(each)[:30])
def test_values_come_back_in_the_type_of_their_column(monoid, kind, results):
    """Aggregates that return a value of their column return its type, in a table, a stream and a schema."""
    column = rolling(TYPED, time="t", windows=[10], aggs={"v": monoid})["v_10"]
    assert column.type == kind
    rows = [tuple(row.values()) if isinstance(row, dict) else row for row in column.to_pylist()]
    assert rows == results
    kw = KeyedWindows(keys=[], time="t", windows=[10], aggs={"v": monoid})
    assert pa.concat_tables([kw.push(TYPED.slice(at, 1)) for at in range(3)])["v_10"].to_pylist() == column.to_pylist()
    spec = Spec.of(keys=None, time="t", windows=[10], aggs={"v": monoid}, emit="arrival")
    schema = result_schema(spec, Definition.of(spec, TYPED.schema.empty_table()), TYPED.schema)
    assert schema.field("v_10").type == kind


@pytest.mark.parametrize(
    "monoid, column",
    [
        (monoids.median("v"), ["a"]),
        (monoids.quantile(0.5, "v"), [date(2024, 1, 1)]),
        (monoids.kll("v", q=0.5), ["a"]),
        (monoids.string_agg(",", "v"), [1]),
        (monoids.frequent_items("v"), [1]),
        (monoids.theta("v"), [b"a"]),
        (monoids.hyperloglog("v"), [[1]]),
        (monoids.bloom("v"), [{"a": 1}]),
        (monoids.distinct("v"), [[1]]),
        (monoids.sum("v"), ["a"]),
    ],
    ids=lambda each: repr(each)[:20],
)
def test_columns_that_cannot_be_read_are_refused_at_once(monoid, column):
    """A type that no row could be read of is refused before anything runs, by its name; nulls alone fit all."""
    for rows in (column, column[:0]):
        table = pa.table({"t": pa.array([1][: len(rows)], pa.int64()), "v": pa.array(rows, pa.array(column).type)})
        with pytest.raises(KindError, match=r"^aggs must read .*, but the column 'v' holds ") as caught:
            rolling(table, time="t", windows=[10], aggs={"x": monoid})
        assert caught.value.column == "v" and caught.value.argument == "aggs"
    nulls = pa.table({"t": [1], "v": pa.nulls(1)})
    assert rolling(nulls, time="t", windows=[10], aggs={"x": monoid}).num_rows == 1
