"""`event` is `push` of one row: the same results, counts, errors and bytes, whatever the row is."""

import datetime as dt
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from gc import collect
from threading import Thread
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import ref
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash import KeyedWindows, Monoid, monoids
from sash.errors import ArgumentError, KindError, ResultOverflowError, SashError

UTC = dt.UTC
START = dt.datetime(2026, 3, 29)
BERLIN = ZoneInfo("Europe/Berlin")


@dataclass
class Pair:
    """The same stream twice: one takes events, the other one pushes of one row."""

    one: KeyedWindows
    other: KeyedWindows
    words: dict[str, Any]

    @classmethod
    def of(cls, **words: Any) -> "Pair":
        return cls(KeyedWindows(**words), KeyedWindows(**words), words)

    def event(self, row: dict[str, Any], watermark: Any = None) -> Any:
        """Compare what both say, errors too, and return it."""
        before, counts, other = self.one.to_bytes(), self.one.metrics, self.other.to_bytes()
        found, wanted = outcome(lambda: self.one.event(row, watermark)), outcome(lambda: self.pushed(row, watermark))
        if isinstance(wanted, dict):  # columns that are not read are returned as they came
            wanted |= {name: row[name] for name in row if name not in self.one._stream.schema.names}
        assert shown(found) == shown(wanted), row
        if isinstance(found, Failed):
            assert (self.one.to_bytes(), self.one.metrics) == (before, counts)
            if self.other.to_bytes() != other:  # a push that fails with its results is half done
                self.one, self.other = self.again(before), self.again(other)
        return found

    def pushed(self, row: dict[str, Any], watermark: Any = None) -> Any:
        rows = self.other.push({name: [value] for name, value in row.items()}, watermark).to_pylist()
        return rows[0] if rows else None

    def again(self, data: bytes) -> KeyedWindows:
        retract = self.words.get("retract")
        return KeyedWindows.from_bytes(data, self.words["aggs"], None if isinstance(retract, str) else retract)

    def compare(self) -> None:
        assert self.one.metrics == self.other.metrics
        assert self.one.to_bytes() == self.other.to_bytes()
        self.one.check_invariants()


class Failed(NamedTuple):
    """What a call raised."""

    kind: type[BaseException]
    argument: str | None
    column: str | None
    message: str


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SashError as error:
        return Failed(type(error), error.argument, error.column, str(error))


def shown(value: Any) -> str:
    """A repr tells types, zones, NaN and the order of columns apart."""
    return repr(value)


# --- random streams -------------------------------------------------------------------------------


class Values(NamedTuple):
    """The type of a column, and values that it may hold."""

    kind: pa.DataType
    values: st.SearchStrategy[Any]


def instants(zone: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Times on a few minutes of a day, in one zone or in several."""
    zones = st.sampled_from([zone, *others])
    minutes = st.integers(0, 30).map(lambda minute: START.replace(tzinfo=zone) + dt.timedelta(minutes=minute))
    return minutes if zone is None else st.builds(lambda time, zone: time.astimezone(zone), minutes, zones)


TIMES = {
    "int": Values(pa.int64(), st.integers(-20, 20)),
    "short": Values(pa.int16(), st.integers(0, 30)),
    "naive": Values(pa.timestamp("us"), instants(None)),
    "utc": Values(pa.timestamp("us", "UTC"), instants(UTC, dt.timezone(dt.timedelta(hours=2)), ZoneInfo("UTC"))),
    "zoned": Values(pa.timestamp("us", "Europe/Berlin"), instants(BERLIN, UTC)),
    "milliseconds": Values(pa.timestamp("ms", "UTC"), instants(UTC)),
    "nanoseconds": Values(pa.timestamp("ns"), instants(None)),
}
KEYS = {
    "text": Values(pa.string(), st.sampled_from(["a", "a", "ä", "", None])),
    "bytes": Values(pa.binary(), st.sampled_from([b"a", b"", b"\x00", None])),
    "int": Values(pa.int32(), st.sampled_from([1, 2, -(2**31), None])),
    "natural": Values(pa.uint64(), st.sampled_from([1, 2**63 - 1, None])),
    "bool": Values(pa.bool_(), st.sampled_from([True, False, None])),
    "date": Values(pa.date32(), st.sampled_from([dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1, 1, 1), None])),
    "instant": Values(pa.timestamp("s", "UTC"), st.sampled_from([START.replace(tzinfo=UTC), None])),
    "decimal": Values(pa.decimal128(10, 2), st.sampled_from([decimal.Decimal("1.50"), decimal.Decimal("-2.00"), None])),
    "nothing": Values(pa.null(), st.none()),
}
IDS = {
    "int": Values(pa.int64(), st.sampled_from([*range(6), None])),
    "natural": Values(pa.uint64(), st.sampled_from([*range(6), None])),
    "text": Values(pa.string(), st.sampled_from(["x", "y", "", "zz", None])),
    "float": Values(pa.float64(), st.sampled_from([-1.5, -0.0, 0.0, 2.0, None])),
    "date": Values(pa.date32(), st.sampled_from([dt.date(2020, 1, 1), dt.date(1960, 1, 1)])),
}
NUMBERS = {
    "int": Values(pa.int64(), st.sampled_from([*range(-5, 6), 2**62, None])),
    "byte": Values(pa.int8(), st.sampled_from([-128, 0, 127, None])),
    "float": Values(pa.float64(), st.sampled_from([0.1, 1, -2.5, 1e300, math.nan, math.inf, -0.0, None])),
    "single": Values(pa.float32(), st.sampled_from([0.5, 3, -2.25, math.nan, None])),
    "bool": Values(pa.bool_(), st.sampled_from([True, False, None])),
}
ITEMS = {
    **NUMBERS,
    "text": Values(pa.string(), st.sampled_from(["", "a", "ß", None])),
    "bytes": Values(pa.binary(), st.sampled_from([b"", b"a", None])),
    "date": Values(pa.date32(), st.sampled_from([dt.date(2024, 2, 29), None])),
    "instant": Values(pa.timestamp("us", "UTC"), st.sampled_from([START.replace(tzinfo=UTC), None])),
    "decimal": Values(pa.decimal128(5, 1), st.sampled_from([decimal.Decimal("1.5"), None])),
}


def letters(letter: Any) -> str:
    return str(letter)


AGGS: dict[str, Callable[[], Monoid]] = {
    "n": monoids.count,
    "items": lambda: monoids.count("y"),
    "total": lambda: monoids.sum("x"),
    "mean": lambda: monoids.mean("x"),
    "top": lambda: monoids.max("x"),
    "std": lambda: monoids.std("x"),
    "first": lambda: monoids.first("x"),
    "most": lambda: monoids.maxcount("x"),
    "last": lambda: monoids.last_k(2, "x"),
    "p95": lambda: monoids.approx_quantile("x", 0.95),
    "ps": lambda: monoids.approx_quantile("x", [0.5, 0.99]),
    "about": lambda: monoids.hyperloglog("y"),
    "seen": lambda: monoids.bloom("y"),
    "geomean": lambda: monoids.geomean("x"),
    "both": lambda: monoids.struct(n=monoids.count(), low=monoids.min("x")),
    "text": lambda: Monoid(identity="", combine=lambda a, b: a + b, lift=letters, column="y", name="text"),
}


class Case(NamedTuple):
    """A definition, and rows with a watermark now and then."""

    words: dict[str, Any]
    schema: pa.Schema
    rows: list[tuple[dict[str, Any], Any]]


@st.composite
def cases(draw: st.DrawFn, python: bool = True) -> Case:
    time, key = draw(st.sampled_from(sorted(TIMES))), draw(st.sampled_from(sorted(KEYS)))
    columns = {"t": TIMES[time], "k": KEYS[key]}
    columns["x"] = draw(st.sampled_from(list(NUMBERS.values())))
    columns["y"] = draw(st.sampled_from([one for one in ITEMS.values() if not pa.types.is_floating(one.kind)]))
    names = sorted(set(AGGS) - (set() if python else {"text"}))
    aggs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    sized = (lambda size: size) if time in ("int", "short") else (lambda size: f"{size}m")
    words: dict[str, Any] = {
        "keys": draw(st.sampled_from([["k"], ["k"], ["k", "y"], []])),
        "time": "t",
        "windows": [sized(5), sized(12)],
        "aggs": {name: AGGS[name]() for name in aggs},
        "closed": draw(st.sampled_from(["left", "right"])),
        "lateness": draw(st.sampled_from([None, sized(3)])),
        "late": draw(st.sampled_from(["drop", "emit"])),
        "on_error": draw(st.sampled_from(["null", "null", "raise"])),
    }
    if draw(st.booleans()):
        columns["i"] = IDS[draw(st.sampled_from(sorted(IDS)))]
        words["id"] = "i"
    if draw(st.booleans()):
        columns["gone"] = Values(pa.bool_(), st.sampled_from([False, False, True, None]))
        words["retract"] = draw(st.sampled_from(["gone", "gone", pc.field("gone")]))
    times = st.one_of(TIMES[time].values, TIMES[time].values, st.none())
    row = st.fixed_dictionaries({name: times if name == "t" else one.values for name, one in columns.items()})
    marks = st.one_of(*[st.none()] * 9, TIMES[time].values)
    rows = draw(st.lists(st.tuples(row, marks), min_size=6, max_size=30))
    return Case(words, pa.schema({name: one.kind for name, one in columns.items()}), rows)


@given(cases())
@settings(deadline=None)
def test_events_are_pushes_of_one_row(case: Case) -> None:
    """Each event returns what a push of it returns, or raises the same; counts and bytes are equal in the end."""
    pair = Pair.of(**case.words, schema=case.schema)
    for row, watermark in case.rows:
        pair.event(row, watermark)
    pair.compare()


@given(cases(python=False), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_events_and_pushes_take_turns(case: Case, random: Any) -> None:
    """One object that takes events and pushes in turns, and goes through bytes now and then."""
    pair = Pair.of(**case.words, schema=case.schema)
    for row, watermark in case.rows:
        if random.random() < 0.4:
            pair.one, pair.other = pair.other, pair.one
        if random.random() < 0.1:
            pair.one, pair.other = pair.again(pair.one.to_bytes()), pair.again(pair.other.to_bytes())
        pair.event(row, watermark)
    pair.compare()


@given(cases(python=False))
@settings(deadline=None)
def test_the_first_values_say_the_types(case: Case) -> None:
    """Without a schema columns have the types of their first values, as in a push."""
    pair = Pair.of(**case.words)
    for row, watermark in case.rows:
        found = pair.event(row, watermark)
        if isinstance(found, Failed) and pair.one._stream is None:
            return  # a first row that no stream can begin with
    pair.compare()


# --- rows and values one by one -------------------------------------------------------------------


def totals(**words: Any) -> dict[str, Any]:
    aggs = {"n": monoids.count(), "total": monoids.sum("x")}
    return {"keys": ["k"], "time": "t", "windows": [10], "aggs": aggs, **words}


FLOATS = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.float64()})
INTS = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.int64()})
ZONED = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC"), "x": pa.float64()})


class Stranger:
    """A value of no known type, whose name is the same in every process."""

    def __repr__(self) -> str:
        return "Stranger()"


@pytest.mark.parametrize(
    "row",
    [
        {"k": "a", "t": 1},
        {"k": "a", "t": 1, "x": "five"},
        {"k": 5, "t": 1, "x": 1.0},
        {"k": "a", "t": 1.5, "x": 1.0},
        {"k": "a", "t": True, "x": 1.0},
        {"k": "a", "t": 2**63, "x": 1.0},
        {"k": "a", "t": 1, "x": 2**53 + 1},
        {"k": "a", "t": 1, "x": True},
        {"k": "a", "t": 1, "x": decimal.Decimal("0.1")},
        {"k": "a\ud800", "t": 1, "x": 1.0},
        {"k": "a", "t": 1, "x": pd.NA},
        {"k": "a", "t": 1, "x": 2**70},
        {"k": "a", "t": 1, "x": Stranger()},
        {"k": "a", "t": START, "x": 1.0},
    ],
    ids=repr,
)
@pytest.mark.parametrize("first", [True, False])
def test_what_a_push_refuses_an_event_refuses(row: dict[str, Any], first: bool) -> None:
    """The same error with the same argument, or the same result; nothing changes where it is an error."""
    pair = Pair.of(**totals(), schema=FLOATS)
    if not first:
        pair.event({"k": "a", "t": 0, "x": 1.0})
    pair.event(row)
    pair.event({"k": "a", "t": 3, "x": 1.0})
    pair.compare()


@pytest.mark.parametrize(
    "value", [1.0, 1.5, np.int64(3), np.int8(3), np.float32(2), np.float64(2), True, np.True_, -0.0]
)
@pytest.mark.parametrize("schema", [INTS, FLOATS], ids=["ints", "floats"])
def test_numbers_of_other_types_are_cast_if_nothing_is_lost(value: Any, schema: pa.Schema) -> None:
    """As a push casts them: a whole float is an int, and an int a float."""
    pair = Pair.of(**totals(), schema=schema)
    for time in (0, 1):
        pair.event({"k": "a", "t": time, "x": value})
    pair.compare()


@pytest.mark.parametrize(
    "time",
    [
        START,
        START.replace(tzinfo=UTC),
        START.replace(tzinfo=BERLIN),
        START.replace(tzinfo=BERLIN, hour=2, minute=30),  # an hour that there is not
        START.replace(tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30))),
        np.datetime64("2026-03-29T00:00:01.5", "ms"),
        pd.Timestamp("2026-03-29", tz="UTC"),
        pd.Timestamp("2026-03-29"),
        dt.date(2026, 3, 29),
        "2026-03-29",
        None,
    ],
    ids=repr,
)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+02:00"])
def test_times(time: Any, unit: str, zone: str | None) -> None:
    """Instants of all kinds in columns of all units and zones, as rows and as watermarks."""
    words = {**totals(), "windows": ["1h"]}
    pair = Pair.of(**words, schema=pa.schema({"k": pa.string(), "t": pa.timestamp(unit, zone), "x": pa.int64()}))
    for _ in range(2):
        pair.event({"k": "a", "t": time, "x": 1})
    if not isinstance(time, dt.date | str) or isinstance(time, dt.datetime):
        pair.event({"k": "a", "t": time, "x": 1}, watermark=time)
    pair.compare()


def test_nanoseconds_are_not_lost() -> None:
    """A pandas Timestamp between two microseconds does not fit a column of microseconds."""
    kw = KeyedWindows(**{**totals(), "windows": ["1h"]}, schema=ZONED)
    time = pd.Timestamp("2026-03-29 00:00:00.000000001", tz="UTC")
    with pytest.raises(KindError, match="batch must hold timestamp"):
        kw.event({"k": "a", "t": time, "x": 1.0})
    fresh = KeyedWindows(**{**totals(), "windows": ["1h"]})
    assert fresh.event({"k": "a", "t": time, "x": 1.0})["t"] == time


class Sheet(dict[str, Any]):
    """A dict of another class."""


@pytest.mark.parametrize("kind", [Sheet, MappingProxyType])
def test_rows_may_be_any_mapping(kind: Any) -> None:
    """A subclass of dict, or another mapping; the result is a dict."""
    kw = KeyedWindows(**totals())
    for time in (1, 2, 3):
        found = kw.event(kind({"k": "a", "t": time, "x": 2}))
    assert type(found) is dict
    assert found == {"k": "a", "t": 3, "x": 2, "n_10": 3, "total_10": 6}


@pytest.mark.parametrize("row", [None, 5, [("k", "a")], "row", {1: 2}])
def test_what_is_not_a_row_is_refused(row: Any) -> None:
    """A row is a mapping from names of columns."""
    kw = KeyedWindows(**totals(), schema=INTS)
    kw.event({"k": "a", "t": 1, "x": 1})
    before = kw.to_bytes()
    with pytest.raises(KindError, match=r"^row must be a dict|^batch must have column names"):
        kw.event(row)
    assert kw.to_bytes() == before


def test_other_columns_come_back_as_they_came() -> None:
    """Columns that are not read may hold anything, in any order, and change from row to row."""
    kw = KeyedWindows(**totals())
    thing = object()
    assert kw.event({"extra": thing, "x": 1, "t": 1, "k": "a"})["extra"] is thing
    assert list(kw.event({"x": 1, "more": 5, "k": "a", "t": 1})) == ["x", "more", "k", "t", "n_10", "total_10"]
    assert kw.event({"k": "a", "t": 1, "x": 1})["total_10"] == 3
    assert kw.event({"k": "a", "".join(["", "t"]): 1, "x": 1, "z": thing})["z"] is thing


def test_results_that_python_has_no_values_for_are_refused() -> None:
    """Arrow has times after the year 9999; the event is not there then, and a push takes it."""
    kw = KeyedWindows(keys="k", time="t", windows=[5], aggs={"n": monoids.count()})
    late = pa.scalar(2**60, pa.timestamp("us", "UTC"))
    kw.event({"k": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "t": 1})
    with pytest.raises(SashError, match=r"^row must have results that Python has values for, got .*; use push\.$"):
        kw.event({"k": late, "t": 2})
    assert kw.metrics["live_rows"] == 1
    assert kw.push({"k": pa.array([late.value], late.type), "t": [2]}).num_rows == 1


@pytest.mark.parametrize("name", ["total_10", "late"])
def test_a_column_named_like_a_result_is_refused(name: str) -> None:
    """Before anything has changed."""
    kw = KeyedWindows(**totals(late="emit"), schema=INTS)
    kw.event({"k": "a", "t": 1, "x": 1})
    before = kw.to_bytes()
    with pytest.raises(ArgumentError, match="already has a column") as refused:
        kw.event({"k": "a", "t": 2, "x": 1, name: 1})
    assert (refused.value.argument, refused.value.column) == ("aggs", name)
    assert kw.to_bytes() == before


@pytest.mark.parametrize("words", [{"emit": "final"}, {"emit": "update"}, {"every": 5, "emit": "final"}])
def test_events_need_to_be_answered_at_once(words: dict[str, Any]) -> None:
    """One clear error for all other kinds of results."""
    kw = KeyedWindows(**totals(**words))
    with pytest.raises(ArgumentError, match=r'^emit must be "arrival" for event') as refused:
        kw.event({"k": "a", "t": 1, "x": 1})
    assert refused.value.argument == "emit"


def test_a_result_that_raises_changes_nothing() -> None:
    """The row is taken back: an overflow, an aggregate of Python's that fails, the name of its id, its key."""

    def explode(value: Any) -> Any:
        raise ValueError(value)

    ids = {"id": "i", "on_error": "raise"}
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.int64(), "i": pa.string()})
    fails = Monoid(identity=0, combine=max, lower=explode, column="x", name="fails")
    for aggs in ({"total": monoids.sum("x")}, {"total": monoids.sum("x"), "fails": fails}):
        kw = KeyedWindows(**{**totals(**ids), "aggs": aggs}, schema=schema)
        if len(aggs) == 1:
            kw.event({"k": "a", "t": 1, "x": 2**62, "i": "one"})
            kw.event({"k": "a", "t": 2, "x": 2**62 - 1, "i": "two"})
        before = kw.to_bytes(), kw.metrics
        for key in ("a", "b"):
            if (key, len(aggs)) == ("b", 1):
                continue  # which has nothing to add to
            with pytest.raises((ResultOverflowError, ValueError)):
                kw.event({"k": key, "t": 3, "x": 2**62, "i": "three"})
            assert (kw.to_bytes(), kw.metrics) == before
            kw.check_invariants()


def test_the_schema_says_the_types() -> None:
    """Also before the first row, and after the state went through bytes; a column that is missing raises."""
    kw = KeyedWindows(**totals(), schema=FLOATS)
    assert kw.event({"k": "a", "t": 1, "x": 1})["total_10"] == 1.0
    again = KeyedWindows.from_bytes(KeyedWindows(**totals(), schema=FLOATS).to_bytes())
    assert repr(again.event({"k": "a", "t": 1, "x": 1})["x"]) == "1.0"
    assert kw.flush().schema.field("total_10").type == pa.float64()
    with pytest.raises(ArgumentError, match="aggs must name columns"):
        KeyedWindows(**totals(), schema=pa.schema({"k": pa.string(), "t": pa.int64()}))
    with pytest.raises(KindError, match=r"^schema must be an Arrow schema") as refused:
        KeyedWindows(**totals(), schema={"k": "str"})
    assert refused.value.argument == "schema"


def test_a_column_gets_its_type_when_it_has_a_value() -> None:
    """Nulls alone have no type; the first value has."""
    pair = Pair.of(**totals())
    for time, x in enumerate([None, None, 2.5, 1, None]):
        pair.event({"k": "a", "t": time, "x": x})
    pair.compare()


def test_events_from_many_threads() -> None:
    """Each event is applied once, and counts once."""
    kw = KeyedWindows(**totals(lateness=1000), schema=INTS)

    def run(key: str) -> None:
        for time in range(500):
            kw.event({"k": key, "t": time, "x": 1})
            kw.now({"k": key})

    threads = [Thread(target=run, args=(key,)) for key in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kw.metrics["emitted"] == 2000
    assert kw.event({"k": "a", "t": 499, "x": 1})["total_10"] == 11
    kw.check_invariants()


def test_an_engine_that_its_own_monoid_leans_on_is_collected() -> None:
    """A cycle through the columns that are read and shown goes with the rest."""

    class Thing:
        """Something that can be watched."""

    kw = KeyedWindows(**totals())
    kw.event({"k": "a", "t": 1, "x": 1, "thing": None})
    for row in ({"k": "a", "t": 2, "x": 1}, {"k": "a", "t": "late", "x": 1}):  # one that is scored, and one that raises
        thing = Thing()
        watched = ref(thing)
        outcome(lambda row=row, thing=thing, kw=kw: kw.event(row | {"thing": thing}))
        del thing
        collect()
        assert watched() is None  # no row is kept
    thing = Thing()
    thing.windows, kw.spec.aggs["thing"] = kw, thing  # type: ignore[attr-defined]
    watched = ref(thing)
    del kw, thing
    collect()
    assert watched() is None
