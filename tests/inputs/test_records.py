"""Records: structs of any fields, nulls, tables, ties, times of every kind, and their bytes, right or wrong."""

import gc
import json
import math
import pickle
import random
import struct as packing
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import ArgumentError, CorruptStateError, KindError, Monoid, SashError, SlideError, Window, _core, monoids
from sash.monoids.registry import EXAMPLES
from support.structures import STRUCTURES, Structure

NOON = datetime(2024, 5, 1, 12)
STRUCTS = {
    "small": monoids.struct(n=monoids.count(), total=monoids.sum("g"), top=monoids.max("b")),
    "many": monoids.struct(
        n=monoids.count("a"),
        sd=monoids.std("b"),
        mean=monoids.mean("a"),
        first=monoids.first("a"),
        last=monoids.last("b"),
        vwap=monoids.weighted_mean("b", "a"),
        at=monoids.argmax("b", "a"),
        total=monoids.sum("g"),
    ),
    "wide": monoids.struct(
        exact=monoids.sum("b", exact=True),
        oldest=monoids.first_k(3, "a"),
        newest=monoids.last_k(2, "b"),
        top=monoids.top_k(2, "b"),
        bins=monoids.histogram((-1, 0, 1), "b"),
        different=monoids.hyperloglog("a", lg_k=5),
        members=monoids.bloom("a", capacity=10),
    ),
    "timed": monoids.struct(
        decayed=monoids.decayed_sum(4, "b"),
        recent=monoids.decayed_mean(4, "b"),
        height=monoids.time_weighted_mean("b"),
        rate=monoids.rate("a"),
        n=monoids.count(),
    ),
    "python": monoids.struct(n=monoids.count(), all=monoids.collect_list("a"), top=monoids.max("b")),
}
TIMES: dict[str, Any] = {
    "int": lambda i: i,
    "float": lambda i: i / 4,
    "pair": lambda i: (i, i % 2),
    "datetime": lambda i: NOON + timedelta(seconds=i),
    "aware": lambda i: NOON.replace(tzinfo=UTC) + timedelta(seconds=i),
    "datetime64": lambda i: np.datetime64(NOON, "ms") + np.timedelta64(i, "s"),
    "Fraction": lambda i: Fraction(i, 3),
}
SIZES = {
    "int": 5,
    "float": 1.25,
    "datetime": timedelta(seconds=5),
    "aware": timedelta(seconds=5),
    "datetime64": np.timedelta64(5, "s"),
    "Fraction": Fraction(5, 3),
}


def rows(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows with nulls, and sums of ints that need more than 64 bits; the first has no null."""
    return [{"a": 1, "b": 1.5, "g": 5}] + [
        {
            "a": draw.choice([None, draw.randrange(1, 9)]),
            "b": draw.choice([None, draw.uniform(-2, 2), -0.0]),
            "g": draw.choice([None, 2**62, -(2**63), 5]),
        }
        for _ in range(count - 1)
    ]


def folded(monoid: Monoid, entries: list[tuple[Any, Any]], start: Any, stop: Any) -> Any:
    """The result of the monoid's Python definition for these entries."""
    state = monoid.identity
    assert monoid.lift is not None and monoid.lower is not None
    for time, row in sorted(entries, key=lambda entry: entry[0]):
        lifted = monoid.lift(row, time) if monoid.timed else monoid.lift(row)
        state = monoid.combine(state, lifted)
    return monoid.lower(state, start, stop) if monoid.timed else monoid.lower(state)


def alike(a: Any, b: Any) -> bool:
    """Equal, but for the rounding of floats."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def row_of(columns: dict[str, Any], i: int) -> dict[str, Any]:
    """One row of what slide gave, with None where it is masked."""
    cells = {name: column[i] for name, column in columns.items()}
    return {
        name: None if cell is np.ma.masked else cell.item() if hasattr(cell, "item") else cell
        for name, cell in cells.items()
    }


def columns_of(given: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in given] for name in given[0]}


def resealed(window: Window, change: Any) -> bytes:
    """The bytes of a window with a changed header, or changed contents, and a check sum that is right."""
    data = window.to_bytes()[:-8]
    length = packing.unpack_from("<4sHI", data)[2]
    header, rest = json.loads(data[10 : 10 + length]), bytearray(data[10 + length :])
    change(header, rest)
    text = json.dumps(header).encode()
    return _core.sealed([packing.pack("<4sHI", b"SASH", 2, len(text)), text, bytes(rest)])


# --- one, many, slid: all the same ----------------------------------------------------------------

FEW = [s for s in STRUCTURES if s.kwargs in ({}, {"min_arity": 2}, {"leaf_capacity": 2, "fanout": 4})]


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("name", STRUCTS)
@pytest.mark.parametrize("shape", FEW, ids=Structure.label)
def test_a_struct_is_the_fold_of_its_rows(shape: Structure, name: str, kind: str) -> None:
    """Inserted one by one, as batches, copied, pickled, evicted from: with ties and nulls it is what Python folds."""
    monoid, time, draw = STRUCTS[name], TIMES[kind], random.Random(f"{name} {kind}")
    ticks = [draw.randrange(60) for _ in range(80)]
    times = [time(i) for i in (sorted(ticks) if shape.in_order else ticks)]
    given = rows(draw, len(times))
    entries = list(zip(times, given, strict=True))
    one, many = shape.window(monoid), shape.window(monoid)
    for moment, row in entries:
        one.insert(moment, row)
    many.insert_many(times[:30], columns_of(given[:30]))
    many.insert_many(times[30:], given[30:])
    expected = folded(monoid, entries, min(times), max(times))
    for window in (one, many, one.copy(), pickle.loads(pickle.dumps(one))):
        assert alike(window.query(), expected)
        assert list(window) == sorted(set(times))
    if shape.ranges:
        for start, stop in ((time(10), time(30)), (time(50), None), (None, time(5)), (time(61), None)):
            inside = [e for e in entries if (start is None or e[0] >= start) and (stop is None or e[0] <= stop)]
            bounds = start or min(times), stop or max(times)
            assert alike(one.query(start, stop), folded(monoid, inside, *bounds))
    one.evict(min(times))
    many.evict_until(time(30))
    left = [e for e in entries if e[0] > time(30)]
    assert alike(many.query(), folded(monoid, left, min(e[0] for e in left), max(times)))
    rest = [e for e in entries if e[0] > min(times)]
    assert alike(one.query(), folded(monoid, rest, min(e[0] for e in rest), max(times)))
    if kind != "Fraction" and name != "python":
        many.check_invariants()


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("name", STRUCTS)
@pytest.mark.parametrize("shape", FEW, ids=Structure.label)
def test_a_slide_of_a_struct_is_its_rounds(shape: Structure, name: str, kind: str) -> None:
    """Each row of slide's columns is the fold of the window's entries at that time, null if a field saw no value."""
    monoid, time, draw = STRUCTS[name], TIMES[kind], random.Random(f"{kind} {name}")
    ticks = [i + draw.randrange(3) for i in range(40)]
    times = [time(i) for i in (sorted(ticks) if shape.in_order else ticks)]
    given = rows(draw, len(times))
    ways: list[dict[str, Any]] = [{"count": 3}, {"size": SIZES[kind]} if kind in SIZES else {"count": 9}]
    for by in ways:
        results = shape.window(monoid).slide(times, columns_of(given), **by)
        held: list[tuple[Any, Any]] = []
        for i, entry in enumerate(zip(times, given, strict=True)):
            if "count" in by and len({e[0] for e in held}) >= by["count"]:
                oldest = min(e[0] for e in held)
                held = [e for e in held if e[0] != oldest]
            held.append(entry)
            newest = max(e[0] for e in held)
            if "size" in by:
                held = [e for e in held if e[0] > newest - by["size"]]
            start = newest - by["size"] if "size" in by else min(e[0] for e in held)
            assert alike(row_of(results, i), folded(monoid, held, start, newest))


def test_sums_in_a_struct_leave_int64_for_pythons_ints() -> None:
    """Where a result of slide does not fit int64 the column holds Python's ints; where all fit it is int64."""
    monoid = monoids.struct(total=monoids.sum("x"), extent=monoids.range("x"), n=monoids.count("x"))
    values = [2**63 - 1, 2**63 - 1, None, -(2**63)]
    slid = Window(monoid).slide([1, 2, 3, 4], {"x": values}, size=9)
    assert slid["total"].tolist() == [2**63 - 1, 2**64 - 2, 2**64 - 2, 2**63 - 2]
    assert slid["extent"].tolist() == [0, 0, 0, 2**64 - 1]
    assert slid["n"].dtype == np.int64
    assert Window(monoid).slide([1, 2], {"x": [1, 2]}, size=9)["total"].dtype == np.int64


def test_a_slide_of_no_rows_still_has_the_fields() -> None:
    """A struct returns a dict of columns also for no rows."""
    monoid = STRUCTS["small"]
    nothing: list[Any] = [{"a": [], "b": [], "g": []}, []]
    for columns in nothing:
        assert {name: len(column) for name, column in Window(monoid).slide([], columns, size=3).items()} == {
            "n": 0,
            "total": 0,
            "top": 0,
        }


def test_nan_infinities_and_negative_zero_in_a_struct() -> None:
    """NaN is a number and no null; order puts -0.0 below 0.0."""
    monoid = monoids.struct(
        n=monoids.count("x"), total=monoids.sum("x"), low=monoids.min("x"), sd=monoids.std("x"), last=monoids.last("x")
    )
    w = Window(monoid)
    w.insert_many([1, 2, 3], {"x": [0.0, -0.0, math.inf]})
    assert w.query(1, 2)["low"] == 0.0 and math.copysign(1.0, w.query(1, 2)["low"]) == -1.0
    assert w.query()["total"] == math.inf and math.isnan(w.query()["sd"])
    w.insert(4, {"x": math.nan})
    assert w.query()["n"] == 4 and math.isnan(w.query()["total"]) and math.isnan(w.query()["last"])
    assert Window.from_bytes(w.to_bytes()) == w


# --- nulls and tables -----------------------------------------------------------------------------

NULLS = {
    "list": [3, None, 5],
    "tuple": (3, None, 5),
    "NA": [3, pd.NA, 5],
    "masked": np.ma.array([3, 9, 5], mask=[False, True, False]),
    "pandas": pd.Series([3, None, 5], dtype="Int64"),
    "pandas arrow": pd.Series([3, None, 5], dtype="int64[pyarrow]"),
    "index": pd.Index([3, None, 5], dtype="Int64"),
    "extension array": pd.array([3, None, 5], dtype="Int64"),
    "polars": pl.Series([3, None, 5]),
    "arrow": pa.array([3, None, 5]),
    "chunked": pa.chunked_array([[3, None], [5]]),
}
READING = monoids.struct(
    rows=monoids.count(),
    n=monoids.count("x"),
    total=monoids.sum("x"),
    top=monoids.max("x"),
    some=monoids.any("x"),
    different=monoids.hyperloglog("x"),
)


@pytest.mark.parametrize("form", NULLS)
def test_nulls_of_every_kind_are_passed_over(form: str) -> None:
    """A null counts as a row and as nothing else, however it is written, in the core and in Python."""
    expected = {"rows": 3, "n": 2, "total": 8, "top": 5, "some": True, "different": 2}
    w = Window(READING)
    w.insert_many([1, 2, 3], {"x": NULLS[form]})
    assert w._kinds == ("int", None, "(any,int64,truth,hash)")
    assert w.query() == expected
    assert w.query(2, 2) == {"rows": 1, "n": 0, "total": None, "top": None, "some": None, "different": None}
    slow = Window(READING)
    slow.insert_many([Fraction(1), Fraction(2), Fraction(3)], {"x": NULLS[form]})
    assert slow.query() == expected
    plain = Window(monoids.struct(n=monoids.count(), all=monoids.collect_list()))
    plain.insert_many([1, 2, 3], NULLS[form])
    assert plain.query() == {"n": 3, "all": [3, 5]}


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([True, None, False], dtype="boolean"), (2, 1, True, 1)),
        (pd.Series([True, None, False], dtype="bool[pyarrow]"), (2, 1, True, 1)),
        (pl.Series([True, None, False]), (2, 1, True, 1)),
        (pa.array([True, None, False]), (2, 1, True, 1)),
        (np.ma.array([True, True, False], mask=[False, True, False]), (2, 1, True, 1)),
        (pd.Series([2.5, None, math.nan], dtype="float64"), (3, 3, True, 3)),
        (pd.Series([2.5, None, 0.0], dtype="Float64"), (2, 1, True, 1)),
        (pa.array([None, None, 1.5], pa.float32()), (1, 1, True, 1)),
    ],
)
def test_truths_and_floats_with_nulls(column: Any, expected: tuple[Any, ...]) -> None:
    """Booleans and floats of every library; the NaN of a plain float column is a number, and true."""
    monoid = monoids.struct(
        n=monoids.count("x"), true=monoids.count_if("x"), some=monoids.any("x"), more=monoids.count_if("x")
    )
    w = Window(monoid)
    w.insert_many([1, 2, 3], {"x": column})
    assert tuple(w.query().values()) == expected


@pytest.mark.parametrize(
    "column",
    [
        ["a", None, ""],
        np.ma.array(["a", "b", ""], mask=[False, True, False]),
        pd.Series(["a", None, ""], dtype="string"),
        pd.Series(["a", None, ""], dtype="string[pyarrow]"),
        pd.Series(["a", None, ""], dtype="category"),
        pl.Series(["a", None, ""]),
        pa.array(["a", None, ""]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_strings_with_nulls(column: Any) -> None:
    """An empty string is there, false, and one of two different values."""
    monoid = monoids.struct(
        n=monoids.count("x"), true=monoids.count_if("x"), different=monoids.hyperloglog("x"), members=monoids.bloom("x")
    )
    w = Window(monoid)
    w.insert_many([1, 2, 3], {"x": column})
    result = w.query()
    assert (result["n"], result["true"], result["different"]) == (2, 1, 2)
    assert "a" in result["members"] and "" in result["members"] and "b" not in result["members"]


@pytest.mark.parametrize("first", [None, pd.NA])
@pytest.mark.parametrize("later", [[1, 2], [1.5, 2.5], [Fraction(1, 2), 2]])
def test_a_first_null_decides_nothing_wrong(first: Any, later: list[Any]) -> None:
    """A window that starts with a null takes ints, floats or other numbers after it."""
    w = Window(monoids.struct(total=monoids.sum("x"), sd=monoids.std("x"), n=monoids.count("x")))
    w.insert(0, {"x": first})
    assert w.query() == {"total": None, "sd": None, "n": 0}
    w.insert_many([1, 2], {"x": later})
    assert w.query()["total"] == sum(later) and w.query()["n"] == 2


@pytest.mark.parametrize("column", [pa.array([None], pa.int64()), pl.Series([None], dtype=pl.Int64)])
def test_a_column_of_nulls_alone_has_its_librarys_type(column: Any) -> None:
    """Where a table says what a column holds, nulls alone do not make it one of Python objects."""
    w = Window(monoids.struct(total=monoids.sum("x")))
    w.insert_many([1], {"x": column})
    assert w._kinds == ("int", None, "(int64)") and w.query() == {"total": None}


TABLES = {
    "dict": lambda columns: columns,
    "iterators": lambda columns: {name: iter(column) for name, column in columns.items()},
    "rows": lambda columns: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "record batch": pa.RecordBatch.from_pydict,
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("native", [True, False])
def test_a_batch_is_any_table(table: str, native: bool) -> None:
    """Several fields read one column, which is read once: an iterator is one too; also where Python runs a field."""
    more = {} if native else {"all": monoids.collect_list("x")}
    monoid = monoids.struct(total=monoids.sum("x"), sd=monoids.std("x"), vwap=monoids.weighted_mean("y", "x"), **more)
    given = TABLES[table]({"x": [1, 2, 3], "y": [1.0, 2.0, 4.0], "other": ["a", "b", "c"]})
    w = Window(monoid)
    w.insert_many([3, 1, 2], given)
    expected = {"total": 6, "sd": 1.0, "vwap": 17 / 6} | ({} if native else {"all": [2, 3, 1]})
    assert w.query() == expected
    slid = Window(monoid).slide([1, 2, 3], TABLES[table]({"x": [1, 2, 3], "y": [1.0, 2.0, 4.0]}), count=2)
    assert slid["total"].tolist() == [1, 3, 5]


def tables_without() -> Iterator[Any]:
    yield {"y": [1, 2]}
    yield [{"y": 1}, {"y": 2}]
    yield pd.DataFrame({"y": [1, 2]})
    yield pl.DataFrame({"y": [1, 2]})
    yield pa.table({"y": [1, 2]})
    yield pd.DataFrame([[1, 2], [3, 4]], columns=["x", "x"])
    yield pd.Series([1, 2])
    yield np.array([1, 2])
    yield [1, 2]
    yield [{"x": 1}, None]
    yield "ab"
    yield 5
    yield None
    yield {"x": 5}
    yield {"x": {1, 2}}


@pytest.mark.parametrize("given", list(tables_without()), ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("native", [True, False])
def test_what_is_no_table_is_refused(given: Any, native: bool) -> None:
    """One sentence that names the argument, and a window that is as it was, with kinds or without."""
    monoid = monoids.struct(total=monoids.sum("x"), **({} if native else {"all": monoids.collect_list("x")}))
    empty, full = Window(monoid), Window(monoid)
    full.insert(7, {"x": 7})
    for w in (empty, full):
        before = w.copy()
        for call in (w.insert_many, lambda times, values, w=w: w.slide(times, values, count=2)):
            with pytest.raises(KindError, match=r"^values(\['x'\])?(\[\d\])? must .*\.$"):
                call([1, 2], given)
            assert w == before
    assert empty._kinds is None


def test_a_lazy_table_must_be_collected() -> None:
    """A lazy table has names of columns and no columns."""
    w = Window(monoids.struct(total=monoids.sum("x")))
    with pytest.warns(), pytest.raises(KindError, match="collect it"):
        w.insert_many([1, 2], pl.LazyFrame({"x": [1, 2]}))


def test_a_table_is_no_column() -> None:
    """A monoid outside a struct refuses a table, in place of an error of pandas."""
    table = pd.DataFrame({"a": [1.0], "b": [2.0]})
    for monoid in (monoids.weighted_mean(), monoids.sum(), monoids.mean()):
        with pytest.raises(KindError, match=r"^values must be a column, got a table of shape \(1, 2\)"):
            Window(monoid).insert_many([1], table)


@pytest.mark.parametrize("wrong", [{"x": [1, "q"]}, {"x": [1, 2**63]}, {"x": [1, 1.5]}, {"x": [1, 2, 3]}, {"x": [1]}])
def test_a_wrong_batch_changes_nothing(wrong: Any) -> None:
    """A batch is taken whole or not at all."""
    w = Window(monoids.struct(total=monoids.sum("x"), n=monoids.count()))
    w.insert_many([1, 2], {"x": [1, None]})
    before = w.copy()
    for call in (w.insert_many, lambda times, values: w.slide(times, values, size=3)):
        with pytest.raises(SashError):
            call([3, 4], wrong)
        assert w == before
    w.check_invariants()


def test_negatives_have_no_geometric_mean_in_a_struct() -> None:
    """The sentence names the column and the row; a null is not looked at."""
    w = Window(monoids.struct(g=monoids.geomean("x"), n=monoids.count()))
    w.insert_many([1, 2], {"x": [4.0, None]})
    with pytest.raises(ArgumentError, match=r"^values\['x'\]\[1\] must not be negative .*, got -1.0") as caught:
        w.insert_many([3, 4], {"x": [1.0, -1.0]})
    assert (caught.value.argument, caught.value.column) == ("values", "x")
    with pytest.raises(ArgumentError, match="must not be negative for a geometric mean"):
        w.insert(3, {"x": -1.0})
    assert w.query() == {"g": 4.0, "n": 2}


@pytest.mark.parametrize("row", [5, None, "x", [1], {"y": 1}, {"x": "s"}])
def test_a_wrong_row_changes_nothing(row: Any) -> None:
    """A row that a struct cannot read is refused, and an empty window stays without kinds."""
    empty, full = Window(monoids.struct(total=monoids.sum("x"))), Window(monoids.struct(total=monoids.sum("x")))
    full.insert(1, {"x": 1})
    for w in (empty, full):
        with pytest.raises(KindError, match=r"^value must .*\.$"):
            w.insert(2, row)
    assert empty._kinds is None and full.query() == {"total": 1}


def test_dates_in_a_column_stay_dates() -> None:
    """NumPy's times go into Python objects as they are, inside a struct and outside."""
    days = np.array(["2024-01-02", "2024-01-01"], dtype="datetime64[ns]")
    w = Window(monoids.struct(first=monoids.first("x"), top=monoids.max("x")))
    w.insert_many([1, 2], {"x": days})
    w.insert(3, {"x": np.datetime64("2023-01-01", "ns")})
    assert w.query() == {"first": days[0], "top": days[0]}
    assert isinstance(w.query()["top"], np.datetime64)
    alone = Window(monoids.first())
    alone.insert_many([1, 2], days)
    assert isinstance(alone.query(), np.datetime64)


# --- what a struct reads --------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [40, 61, 62, 63, 64])
def test_a_struct_of_very_many_columns_keeps_their_nulls(fields: int) -> None:
    """However many columns there are, a null is that of its own column, also in bytes."""
    monoid = monoids.struct(**{f"f{i}": monoids.weighted_mean(f"a{i}", f"b{i % 3}") for i in range(fields)})
    row = {f"a{i}": float(i) for i in range(fields)} | {f"b{i}": 1.0 for i in range(3)}
    w = Window(monoid)
    w.insert_many([1, 2], [row, {**row, f"a{fields - 1}": None}])
    for window in (w, Window.from_bytes(w.to_bytes(), allow_pickle=True)):
        result = window.query(2, 2)
        assert [name for name, value in result.items() if value is None] == [f"f{fields - 1}"]
        assert window == w


def test_unnamed_fields_that_read_pairs_and_values() -> None:
    """Without names every field reads the value itself, a pair, whatever the times are."""
    monoid = monoids.struct(mean=monoids.weighted_mean(), last=monoids.last(), n=monoids.count())
    for times in ([1, 2], [Fraction(1), Fraction(2)]):
        w = Window(monoid)
        w.insert_many(times, [(10.0, 3.0), (20.0, 1.0)])
        assert w.query() == {"mean": 12.5, "last": (20.0, 1.0), "n": 2}
    pairs = Window(monoids.struct(mean=monoids.weighted_mean(), slope=monoids.covariance()))
    pairs.insert_many([1, 2], np.array([[10.0, 3.0], [20.0, 1.0]]))
    assert pairs._kinds == ("int", None, "(float64,float64)") and pairs.query() == {"mean": 12.5, "slope": -10.0}


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "ns"])
def test_records_know_every_unit_of_instants(unit: str) -> None:
    """Only monoids of durations need seconds, which months and years have no fixed number of."""
    times = np.array(["2020-01", "2024-01"], dtype=f"datetime64[{unit}]")
    w = Window(monoids.struct(last=monoids.last("x"), mean=monoids.mean("x")))
    w.insert_many(times, {"x": [1.0, 3.0]})
    assert w.query() == {"last": 3.0, "mean": 2.0} and Window.from_bytes(w.to_bytes()) == w
    timed = Window(monoids.rate())
    if unit in "YM":
        with pytest.raises(KindError, match=r"^time must have a unit of days or less"):
            timed.insert(times[0], 1.0)
    else:
        timed.insert_many(times, [1.0, 3.0])
        assert timed.query() == 4.0 / ((times[1] - times[0]) / np.timedelta64(1, "s"))


def test_a_timed_struct_of_nothing() -> None:
    """In an empty window or range each field has its empty result."""
    w = Window(STRUCTS["timed"])
    nothing = {"decayed": None, "recent": None, "height": None, "rate": None, "n": 0}
    assert w.query() == nothing
    w.insert(1, {"a": 1, "b": 1.0})
    assert w.query(2, 3) == nothing
    w.evict(1)
    assert w.query() == nothing


# --- bytes ----------------------------------------------------------------------------------------

PAIRS = {"weighted_mean", "argmin", "argmax", "covariance", "correlation", "regression", "affine"}
NATIVE = [name for name, monoid in EXAMPLES.items() if monoid.parts and name != "struct"]


@pytest.mark.parametrize("kind", sorted(TIMES.keys() - {"Fraction"}))
@pytest.mark.parametrize("name", NATIVE)
def test_every_built_in_survives_its_bytes(name: str, kind: str) -> None:
    """With ties, whose entries are records, and after them: equal entries, the same bytes, the same answers."""
    monoid, time = EXAMPLES[name], TIMES[kind]
    whole = name.startswith("bit")
    values: list[Any] = [i * 7 % 5 if whole else float(i * 7 % 5) for i in range(40)]
    if name in PAIRS:
        values = [(value, values[-i]) for i, value in enumerate(values)]
    w = Window(monoid)
    assert Window.from_bytes(w.to_bytes()).query() == w.query()
    w.insert_many([time(i * 11 % 30) for i in range(40)], values)
    twin = Window.from_bytes(w.to_bytes())
    assert twin == w and twin.to_bytes() == w.to_bytes() and alike(twin.query(), w.query())
    for window in (w, twin):
        window.evict(time(3))
        window.insert(time(4), values[0])
        window.check_invariants()
    assert twin == w and alike(twin.query(), w.query())


@pytest.mark.parametrize("name", sorted(STRUCTS.keys() - {"python"}))
def test_every_struct_survives_its_bytes(name: str) -> None:
    """Rows with nulls, several at one time, and wide ones."""
    draw = random.Random(name)
    w = Window(STRUCTS[name])
    w.insert_many([draw.randrange(20) for _ in range(50)], rows(draw, 50))
    twin = Window.from_bytes(w.to_bytes())
    assert twin == w and twin.to_bytes() == w.to_bytes() and alike(twin.query(), w.query())
    twin.check_invariants()


def test_a_struct_of_your_own_asks_for_it() -> None:
    """Bytes name no monoid of yours, also where it is a field."""
    mine = Monoid(identity=0, combine=max, name="mine", column="x")
    monoid = monoids.struct(mine=mine, n=monoids.count())
    w = Window(monoid)
    w.insert(1, {"x": 4})
    with pytest.raises(ArgumentError, match="custom monoid 'mine'; pass the whole monoid as monoid="):
        Window.from_bytes(w.to_bytes(), allow_pickle=True)
    assert Window.from_bytes(w.to_bytes(), monoid, allow_pickle=True) == w


@pytest.mark.parametrize("count", [-1e12, -1.0, 0.0, 0.5, math.nan, math.inf, 1e300])
@pytest.mark.parametrize("name", ["variance", "std", "skewness", "kurtosis", "covariance", "correlation", "regression"])
def test_a_count_that_cannot_be_is_no_state(name: str, count: float) -> None:
    """A moment's record counts rows in a float, which is looked up in a table: nothing but a count is loaded."""
    w = Window(EXAMPLES[name])
    value = (1.0, 2.0) if name in PAIRS else 1.0
    w.insert_many([1, 1], [value, value])

    def change(_: Any, contents: bytearray) -> None:
        packing.pack_into("<d", contents, contents.index(packing.pack("<d", 2.0), 24), count)

    with pytest.raises(CorruptStateError):
        Window.from_bytes(resealed(w, change))


def test_nulls_that_cannot_be_are_no_state() -> None:
    """Nulls are bits of a row, of inputs that there are, and only in a struct."""
    struct_row, plain_row = Window(monoids.struct(total=monoids.sum("x"))), Window(monoids.mean())
    struct_row.insert(1, {"x": 1})
    plain_row.insert(1, 1.0)

    def nulls(bits: int) -> Any:
        return lambda _, contents: packing.pack_into("<Q", contents, 9, bits)

    assert Window.from_bytes(resealed(struct_row, nulls(1))).query() == {"total": None}
    for w, bits in ((struct_row, 2), (struct_row, 2**63), (plain_row, 1)):
        with pytest.raises(CorruptStateError):
            Window.from_bytes(resealed(w, nulls(bits)))


@pytest.mark.parametrize("ticks", [2**62, -(2**62), -(2**63)])
@pytest.mark.parametrize("kind", ["datetime", "aware", "datetime64"])
def test_ticks_that_are_no_instant_are_no_state(kind: str, ticks: int) -> None:
    """What cannot be shown as a time is not loaded as one; NumPy shows all but NaT."""
    w = Window(monoids.mean())
    w.insert(TIMES[kind](0), 1.0)
    data = resealed(w, lambda _, contents: packing.pack_into("<q", contents, 0, ticks))
    if kind == "datetime64" and ticks > -(2**63):
        assert len(list(Window.from_bytes(data))) == 1
    else:
        with pytest.raises(CorruptStateError):
            Window.from_bytes(data)


CODEC = {"unit": "us", "shown_as": "datetime", "aware": False, "zone": None}


@pytest.mark.parametrize(
    "wrong",
    [
        {"kinds": ["int", None, []]},
        {"kinds": ["int", None, {}]},
        {"kinds": ["int", None, "(float64,float64)"]},
        {"kinds": ["int", None, "("]},
        {"kinds": "ab"},
        {"kinds": 7},
        {"kinds": ["instant", CODEC | {"unit": "ns"}, "(float64)"]},
        {"kinds": ["instant", CODEC | {"unit": "x", "shown_as": "numpy"}, "(float64)"]},
        {"kinds": ["instant", CODEC | {"unit": "", "shown_as": "numpy"}, "(float64)"]},
        {"kinds": ["instant", CODEC | {"shown_as": "x"}, "(float64)"]},
        {"kinds": ["instant", CODEC | {"aware": True}, "(float64)"]},
        {"kinds": ["instant", CODEC | {"aware": True, "zone": 1e300}, "(float64)"]},
        {"kinds": ["instant", CODEC | {"aware": True, "zone": math.nan}, "(float64)"]},
        {"options": "object"},
        {"options": 3},
        {"rows": 2**70},
        {"rows": 2},
        {"monoid": {"name": "mean", "built_in": True, "column": None, "dtype": "(int64,", "arguments": {}}},
        {"monoid": {"name": "first_k", "built_in": True, "column": None, "dtype": None, "arguments": {}}},
        {"monoid": {"name": "mean", "built_in": True, "column": [], "dtype": None, "arguments": {}}},
    ],
)
def test_headers_that_no_window_has_are_refused(wrong: dict[str, Any]) -> None:
    """Whatever the header says, loading it is a CorruptStateError and nothing else."""
    w = Window(monoids.mean())
    w.insert(1, 1.0)
    with pytest.raises(CorruptStateError):
        Window.from_bytes(resealed(w, lambda header, _: header.update(wrong)))


@pytest.mark.parametrize("name", [*NATIVE, *sorted(STRUCTS.keys() - {"python"})])
def test_changed_bytes_are_refused_or_sound(name: str) -> None:
    """Bytes that were changed on purpose, check sum and all, give a window that answers, or a CorruptStateError."""
    draw, monoid = random.Random(name), {**EXAMPLES, **STRUCTS}[name]
    w = Window(monoid)
    given: list[Any] = [draw.randrange(1, 9) * (1 if name.startswith("bit") else 1.0) for _ in range(12)]
    given = list(map(int, given)) if name.startswith("bit") else given
    given = rows(draw, 12) if name in STRUCTS else [(v, v) for v in given] if name in PAIRS else given
    w.insert_many([draw.randrange(8) for _ in range(12)], given)
    for _ in range(60):

        def change(_: Any, contents: bytearray) -> None:
            at = draw.randrange(len(contents) - 7)
            word = draw.choice([packing.pack("<d", draw.choice([-1e12, 1e300, math.nan])), b"\xff" * 8, bytes(8)])
            contents[at : at + draw.randrange(1, 9)] = word[: 1 + draw.randrange(8)]

        try:
            loaded = Window.from_bytes(resealed(w, change))
        except CorruptStateError:
            continue
        loaded.query()
        list(loaded.items())
        loaded.insert(loaded.oldest, given[0])
        loaded.query()


# --- proof ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e300, 1e150, 1e16, 1e-8, 1e-162, 5e-324])
@pytest.mark.parametrize("shape", FEW, ids=Structure.label)
def test_rounding_is_no_broken_invariant(shape: Structure, scale: float) -> None:
    """Floats as large and as small as they come, of both signs and among ordinary ones, single and in ties."""
    kinds = ["sum", "mean", "product", "variance", "std", "skewness", "kurtosis", "rate", "geomean"]
    fields = {kind: getattr(monoids, kind)("y" if kind == "geomean" else "x") for kind in kinds}
    fields |= {"w": monoids.weighted_mean("x", "y"), "c": monoids.correlation("x", "y")}
    draw = random.Random(scale)
    numbers = [scale, -scale, scale / 3, 1.0, -0.5]
    for monoid in (monoids.struct(**fields), monoids.sum(), monoids.geomean()):
        w = shape.window(monoid)
        for i in range(90):
            x, y = draw.choice(numbers), abs(draw.choice(numbers))
            value: Any = {"x": x, "y": y} if monoid.parts[0].name else y if monoid.name == "geomean" else x
            w.insert(i // 2 if shape.in_order else draw.randrange(45), value)
            if i % 3 == 2:
                w.evict(w.oldest if not shape.evicts_anywhere else draw.choice(list(w)))
            if i % 6 == 0:
                w.check_invariants()


def test_a_slide_that_fails_keeps_its_rounds() -> None:
    """For times out of order, slide reports the round and the columns before it."""
    w = Window(monoids.struct(total=monoids.sum("x"), n=monoids.count("x")), structure="two_stacks")
    with pytest.raises(SlideError) as failed:
        w.slide([1, 2, 0], {"x": [1, None, 3]}, size=9)
    assert failed.value.index == 2
    assert {name: column.tolist() for name, column in failed.value.results.items()} == {"total": [1, 1], "n": [1, 1]}
    assert w.query() == {"total": 1, "n": 1}


def test_what_was_compiled_keeps_no_window_alive() -> None:
    """The compiled functions stay for the next such window; other globals of their module do not."""
    held: dict[str, Any] = {"Monoid": Monoid, "Window": Window, "time": Fraction(1)}
    made = "w = Window(Monoid.compiled(identity=0, combine=most))\nw.insert(time, 2)"
    exec(f"def most(a, b): return max(a, b)\n{made}", held)
    alive = weakref.ref(held["w"])
    del held
    gc.collect()
    assert alive() is None
