"""The computed schema of results is that of real results: every monoid, emit mode, anchor and kind of column."""

from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import KeyedWindows, Monoid, SashError, monoids
from sash.keyed.definition import Definition
from sash.keyed.result_schema import require_readable, result_schema
from sash.keyed.spec import Spec
from sash.monoids.sketches import available

FIELDS = [
    pa.field("key", pa.string(), nullable=False),
    pa.field("kind", pa.dictionary(pa.int32(), pa.string())),
    pa.field("ts", pa.timestamp("us", "UTC"), nullable=False, metadata={"unit": "event time"}),
    pa.field("id", pa.int32()),
    pa.field("note", pa.large_string(), metadata={"of": "the teller"}),
    pa.field("tags", pa.list_(pa.field("tag", pa.string(), nullable=False))),
    pa.field("gone", pa.bool_()),
    pa.field("x", pa.int32()),
    pa.field("y", pa.float32()),
    pa.field("flag", pa.bool_()),
    pa.field("text", pa.string()),
    pa.field("price", pa.decimal128(10, 2)),
    pa.field("day", pa.date32()),
]
SCHEMA = pa.schema(FIELDS, metadata={"made": "by hand"})
MINUTE = 60_000_000


def batch(*minutes: int) -> pa.Table:
    """Rows at these minutes, with a null in most columns."""
    rows = [
        {
            "key": "ab"[i % 2],
            "kind": ["card", None][i % 2],
            "ts": minute * MINUTE,
            "id": 100 * minute + i,
            "note": "some words",
            "tags": ["a"],
            "gone": None,
            "x": minute,
            "y": minute / 2 if i else None,
            "flag": minute > 3,
            "text": f"at {minute}" if i else None,
            "price": Decimal(minute) / 4,
            "day": minute,
        }
        for i, minute in enumerate(minutes)
    ]
    columns = {field.name: [row[field.name] for row in rows] for field in SCHEMA}
    return pa.Table.from_arrays([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


# --- every monoid ---------------------------------------------------------------------------------


def sketches() -> dict[str, Monoid]:
    if not available():
        return {}
    return {
        "kll": monoids.kll("y", q=0.5),
        "kll of several": monoids.kll("y", q=[0.1, 0.9]),
        "frequent_items": monoids.frequent_items("text"),
        "frequent_items of ints": monoids.frequent_items("x", dtype="int64"),
        "theta": monoids.theta("text"),
        "theta as bytes": monoids.theta("text", as_bytes=True),
        "cpc": monoids.cpc("x"),
    }


NUMBERS = ("sum", "mean", "product", "min", "max", "range", "first", "last", "delta", "maxcount", "mincount")
ORDERED = ("min", "max", "first", "last")
LISTS = ("first_k", "last_k", "top_k", "bottom_k")
MONOIDS: dict[str, Monoid] = {
    **{f"{name} of {column}": getattr(monoids, name)(column) for name in NUMBERS for column in ("x", "y", "flag")},
    **{f"{name} of {c}": getattr(monoids, name)(c) for name in ORDERED for c in ("text", "price", "day", "ts")},
    **{f"{name} of {column}": getattr(monoids, name)(2, column) for name in LISTS for column in ("x", "y", "text")},
    **{name: getattr(monoids, name)("x") for name in ("bit_and", "bit_or", "bit_xor", "geomean", "rate")},
    **{name: getattr(monoids, name)("flag") for name in ("all", "any", "count_if")},
    **{name: getattr(monoids, name)("y") for name in ("variance", "std", "skewness", "kurtosis", "median")},
    **{name: getattr(monoids, name)("x", "y") for name in ("covariance", "correlation", "regression", "affine")},
    **{name: getattr(monoids, name)("y", "x") for name in ("argmin", "argmax", "weighted_mean")},
    **{name: getattr(monoids, name)("text") for name in ("bloom", "hyperloglog", "distinct", "collect_set")},
    "sum as float": monoids.sum("x", dtype=float),
    "count": monoids.count(),
    "count of values": monoids.count("tags"),
    "histogram": monoids.histogram((0, 10, 20), "x"),
    "decayed_sum": monoids.decayed_sum(60, "x"),
    "decayed_mean": monoids.decayed_mean(60, "x"),
    "time_weighted_mean": monoids.time_weighted_mean("y"),
    "approx_quantile": monoids.approx_quantile("y", 0.9),
    "approx_quantile of several": monoids.approx_quantile("x", [0.1, 0.9]),
    "approximate median": monoids.median("y", relative_error=0.1),
    "quantile": monoids.quantile(0.9, "x"),
    "collect_list": monoids.collect_list("price"),
    "string_agg": monoids.string_agg(",", "text"),
    "struct": monoids.struct(n=monoids.count(), top=monoids.max("x"), text=monoids.last("text")),
    "custom": Monoid(identity=0, combine=max, lift=len, column="text", returns="int32"),
    **sketches(),
}
STREAMS: dict[str, dict[str, Any]] = {
    "arrival": {"emit": "arrival"},
    "final": {"emit": "final"},
    "update": {"emit": "update"},
    "boundaries, final": {"emit": "final", "every": "1m"},
    "boundaries, update": {"emit": "update", "every": "1m"},
}


def computed(schema: pa.Schema, **words: Any) -> pa.Schema:
    spec = Spec.of(**words)
    definition = Definition.of(spec, schema.empty_table())
    require_readable(spec, definition, schema)
    return result_schema(spec, definition, schema)


def real(batches: list[pa.Table], watermark: Any, **words: Any) -> list[pa.Table]:
    """The results of all pushes, the last of which has a late row, and of the flush."""
    windows = KeyedWindows(**words)
    results = [windows.push(rows, mark) for rows, mark in zip(batches, (None, None, watermark), strict=True)]
    return [*results, windows.flush()]


def assert_same_schema(results: list[pa.Table], wanted: pa.Schema) -> None:
    assert sum(table.num_rows for table in results)
    for table in results:
        assert table.schema.equals(wanted, check_metadata=True), (table.schema, wanted)


BATCHES = [batch(5, 6, 6), batch(7, 7, 5), batch(1, 9, 8)]
WATERMARK = np.datetime64(8 * MINUTE, "us")
WORDS: dict[str, Any] = {"keys": ["key"], "time": "ts", "windows": ["2m"], "lateness": "1m"}


def test_every_built_in_is_here():
    """A new built-in must be given a case."""
    assert set(monoids.registry.BUILT_IN) <= {monoid.name for monoid in MONOIDS.values()}


@pytest.mark.parametrize("late", ["drop", "emit"])
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", MONOIDS)
def test_every_monoid_in_every_stream(name, stream, late):
    """What is computed is what pushes and the flush give."""
    words = {**WORDS, **STREAMS[stream], "aggs": {"of": MONOIDS[name]}, "late": late}
    assert_same_schema(real(BATCHES, WATERMARK, **words), computed(SCHEMA, **words))


@pytest.mark.parametrize("every", [None, "1m"], ids=["rows", "boundaries"])
@pytest.mark.parametrize("name", MONOIDS)
def test_every_monoid_of_a_table(name, every):
    """The same for `rolling`."""
    words = {"keys": "key", "time": "ts", "windows": ["1m", "3m"], "aggs": {"of": MONOIDS[name]}, "every": every}
    assert_same_schema([sash.rolling(BATCHES[0], **words)], computed(SCHEMA, **words))


# --- every kind of column -------------------------------------------------------------------------

AGGS = {"n": monoids.count(), "top": monoids.top_k(2, "x"), "texts": monoids.collect_list("text")}


@pytest.mark.parametrize("late", ["drop", "emit"])
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("id", [None, "id"])
@pytest.mark.parametrize("keys", [[], ["kind"], ["key", "kind", "day"]], ids=["none", "dictionary", "several"])
@pytest.mark.parametrize("windows", [["2m"], ["1m", "3m"]], ids=["one", "two"])
def test_keys_ids_and_carried_columns(windows, keys, id, stream, late):
    """Fields come out with the nullability, the metadata and the nested types that they have today."""
    words = {**WORDS, **STREAMS[stream], "aggs": AGGS, "late": late, "keys": keys, "id": id, "windows": windows}
    carries = [(), ["note"], ["tags", "note", "key"]] if "every" not in words else [()]
    for carry, retract in product(carries, (None, "gone")):
        more = {**words, "carry": carry, "retract": retract}
        assert_same_schema(real(BATCHES, WATERMARK, **more), computed(SCHEMA, **more))


@pytest.mark.parametrize("stream", ["boundaries, final", "boundaries, update"])
@pytest.mark.parametrize("resolution", [None, "30s"])
def test_a_resolution_is_metadata(stream, resolution):
    """Boundaries say what they were rounded to."""
    words = {**WORDS, **STREAMS[stream], "aggs": {"n": monoids.count()}, "resolution": resolution}
    wanted = computed(SCHEMA, **words)
    assert wanted.metadata == (None if resolution is None else {b"sash.resolution": b"30s"})
    assert_same_schema(real(BATCHES, WATERMARK, **words), wanted)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("kind", [pa.int64(), pa.int16(), pa.timestamp("s"), pa.timestamp("ns", "Europe/Oslo")])
def test_times_of_any_type(kind, stream):
    """Boundaries have the type of timestamps, and are int64 where times are integers."""
    place = SCHEMA.get_field_index("ts")
    minutes = [pa.array([*table.column("x").to_pylist()], pa.int64()).cast(kind) for table in BATCHES]
    batches = [table.set_column(place, "ts", ts) for table, ts in zip(BATCHES, minutes, strict=True)]
    integers = pa.types.is_integer(kind)
    sizes = {"windows": [2 if integers else "2s"], "lateness": 1 if integers else "1s"}
    every = {"every": 1 if integers else "1s"} if "every" in STREAMS[stream] else {}
    watermark = 8 if integers else np.datetime64(8, "s") if kind.unit == "s" else np.datetime64(8, "ns")
    if not integers and kind.unit == "ns":
        sizes, every = {"windows": ["2us"], "lateness": "1us"}, {"every": "1us"} if every else {}
    words = {**WORDS, **STREAMS[stream], **sizes, **every, "aggs": {"n": monoids.count()}}
    assert_same_schema(real(batches, watermark, **words), computed(batches[0].schema, **words))


# --- what cannot be known, and what is refused ----------------------------------------------------


def test_a_custom_monoid_without_returns_has_the_null_type():
    """Only its results tell its type."""
    unsaid = Monoid(identity="", combine=lambda a, b: a + b, column="text")
    schema = computed(SCHEMA, **WORDS, aggs={"n": monoids.count(), "all": unsaid})
    assert schema.field("n_2m").type == pa.int64()
    assert schema.field("all_2m").type == pa.null()


REFUSED: dict[str, dict[str, Any]] = {
    "a key of floats": {"keys": "y"},
    "a key of lists": {"keys": "tags"},
    "an id of lists": {"id": "tags"},
    "fractions as integers": {"aggs": {"s": monoids.sum("y", dtype=int)}},
    "a sum of text": {"aggs": {"s": monoids.sum("text")}},
    "a resolution that does not divide": {"every": "1m", "resolution": "40s"},
    "a boundary with the name of a key": {"every": "1m", "keys": "window_end"},
    "a result with the name of a column": {"aggs": {"x": monoids.count()}, "windows": ["2m"]},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_push_refuses_is_refused(case):
    """Types that cannot be read and names that are taken, in the words of the first push."""
    words = {**WORDS, "aggs": {"n": monoids.count()}, **REFUSED[case]}
    rows = BATCHES[0].append_column("window_end", BATCHES[0]["x"]).append_column("x_2m", BATCHES[0]["x"])
    with pytest.raises(SashError) as pushed:
        KeyedWindows(**words).push(rows.slice(0, 0))
    with pytest.raises(type(pushed.value)) as refused:
        computed(rows.schema, **words)
    assert str(refused.value) == str(pushed.value)
