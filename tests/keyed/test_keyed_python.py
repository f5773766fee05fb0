"""Aggregates that run in Python, results that are lists, and many input columns: in rolling and in streams."""

import math
import random
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.every import EveryOracle
from oracles.keyed import Aggregate, KeyedOracle, Row
from sash import ArgumentError, KeyedWindows, Monoid, ResultOverflowError, SashWarning, monoids, rolling
from support.cases import concat
from support.faults import Boom
from support.folds import answer
from support.keyed_batches import batch, engine, picked, sliding
from support.keyed_streams import (
    EXACT,
    FEW,
    ROUNDED,
    SIZES,
    SOME_NULL,
    TIMES,
    WINDOWS,
    Pair,
    agree,
    aimed,
    events,
    monoids_of,
    pushes,
    rows_of,
    table_of,
)

TEXT = Monoid(identity="", combine=concat, column="w", name="text")


def words(times: list[int], letters: list[str | None], keys: list[str] | None = None) -> pa.Table:
    return batch(times, list(range(len(times))), keys, w=pa.array(letters, pa.string()))


def said(table: pa.Table, aggs: dict[str, Monoid], mode: str, windows: list[int], **options: Any) -> list[Row]:
    """What one way of asking gives in the end; times and ends of windows are called "at"."""
    asked: dict[str, Any] = {"aggs": aggs, "windows": windows, **options}
    if mode.startswith("rolling"):
        where = {"every": 2} if mode == "rolling every" else {}
        out = rolling(table, keys=["k"], time="t", **where, **asked).to_pylist()
    else:
        kw = sliding(every=2, lateness=100, **asked) if mode == "every" else engine(emit=mode, lateness=100, **asked)
        out = kw.push(table).to_pylist() + kw.flush().to_pylist()
    return sorted(({**row, "at": row.get("window_end", row.get("t"))} for row in out), key=lambda row: row["at"])


MODES = ["rolling", "arrival", "final", "update", "rolling every", "every"]
PER_EVENT = MODES[:4]


# --- strings by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", PER_EVENT)
@pytest.mark.parametrize(
    ("closed", "wanted"),
    [("right", ["a", "ab", "ab", "ab", "c"]), ("left", [None, "a", "ab", "ab", None])],
)
def test_strings_of_each_event(mode, closed, wanted):
    """In the order of time; a null is passed over, and a window without a value gives null, not the identity."""
    out = said(words([3, 1, 20, 2, 4], [None, "a", "c", "b", None]), {"w": TEXT}, mode, [5], closed=closed)
    assert [(row["at"], row["w_5"]) for row in out] == list(zip([1, 2, 3, 4, 20], wanted, strict=True))


@pytest.mark.parametrize("mode", MODES[4:])
def test_strings_at_every_boundary(mode):
    """At 10 the larger window holds an event without a value, which is null too."""
    out = said(words([3, 1, 7, 2], ["c", "a", None, "b"]), {"w": TEXT}, mode, [3, 4])
    assert [(row["at"], row["w_3"], row["w_4"]) for row in out] == [
        (2, "a", "a"),
        (4, "abc", "abc"),
        (6, "c", "bc"),
        (8, None, None),
        (10, None, None),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_python_beside_native(mode):
    """Each aggregate of a mixed lot gives what it gives alone, by key."""
    table = words([1, 2, 3, 4, 5, 6], ["a", None, "c", "d", "e", "f"], ["p", "q", "p", "p", "q", "p"])
    aggs = {"n": monoids.count(), "w": TEXT, "s": monoids.sum("x"), "v": TEXT, "new": monoids.last("x")}
    mixed = said(table, aggs, mode, [4])
    for name, monoid in aggs.items():
        alone = said(table, {name: monoid}, mode, [4])
        both = [{(row["k"], row["at"]): row[f"{name}_4"] for row in rows} for rows in (mixed, alone)]
        assert both[0] == both[1] and len(both[0]) == len(mixed)


def as_pair(value: float) -> tuple[float, int]:
    return value, 1


def add_pairs(one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
    return one[0] + other[0], one[1] + other[1]


def ratio(state: tuple[float, int]) -> float:
    return state[0] / state[1]


@pytest.mark.parametrize("mode", MODES)
def test_lift_and_lower(mode):
    """A state may be any value; only the result goes into a column, and the identity is never lowered."""
    own = Monoid(identity=(0.0, 0), combine=add_pairs, lift=as_pair, lower=ratio, column="x", commutative=True)
    table = batch([1, 2, 3, 9], [4, None, 8, None])
    ours = said(table, {"mean": own}, mode, [3])
    theirs = said(table, {"mean": monoids.mean("x")}, mode, [3])
    assert [row["mean_3"] for row in ours] == [row["mean_3"] for row in theirs]
    assert None in [row["mean_3"] for row in ours]


BUILT_IN = {
    "distinct": monoids.distinct("x"),
    "median": monoids.median("x"),
    "quantile": monoids.quantile(0.25, "x"),
    "joined": monoids.string_agg("-", "w"),
}


@pytest.mark.parametrize("mode", MODES)
def test_built_in_monoids_that_run_in_python(mode):
    """Exact distinct counts, quantiles and joined strings are aggregates like any other."""
    table = batch([1, 2, 3, 4], [5, 7, 5, 6], w=pa.array(["a", "b", "c", "d"]))
    rows = [row for row in said(table, BUILT_IN, mode, [10]) if row["joined_10"] == "a-b-c-d"]
    assert rows
    assert {(row["distinct_10"], row["median_10"], row["quantile_10"]) for row in rows} == {(3, 5.5, 5.0)}


# --- streams against the oracle -------------------------------------------------------------------

SEEN: Counter[str] = Counter()
ALONE: dict[str, Aggregate] = {"w": ("letters", "x")}
MIXED = ALONE | EXACT | ROUNDED
AGGS = st.sampled_from([MIXED, ALONE])
TO_THE_BIT = st.sampled_from([ALONE | EXACT, ALONE])  # so that one event for an equal one is no change at all
PLAIN = pushes(events(SOME_NULL, st.just(0), deletes=False))
RETRACTED = pushes(events(FEW, st.integers(0, 1), deletes=True))
LATENESS = st.sampled_from([30, 6, 2, 0])


def in_place(rows: list[Row]) -> list[Row]:
    kept = [{name: value for name, value in row.items() if name != "revision"} for row in rows]
    return sorted(kept, key=lambda row: str([row.get(name) for name in ("k", "t", "window_end", "row", "i")]))


def compare(stream: list[Any], aggs: dict[str, Aggregate], *sizes: int, **options: Any) -> None:
    """Each push, and the flush, must be what the oracle says; state on the way is given the functions again."""
    pair = Pair(aggs, sizes or SIZES, **options)
    for push in [*stream, None]:
        got, wanted = pair.flush() if push is None else pair.push(push)
        assert agree(in_place(got), in_place(wanted), aggs)
        SEEN["long strings"] += sum(len(row[f"w_{size}"] or "") > 2 for row in got for size in sizes or SIZES)
    assert pair.engine.metrics["failures"] == 0


@given(PLAIN, LATENESS, AGGS, st.sampled_from(["right", "left"]))
def test_streams_are_what_the_oracle_says(stream, lateness, aggs, closed):
    """Strings per event, on arrival, final and in revisions."""
    compare(stream, aggs, emit="arrival", lateness=lateness, closed=closed)
    compare(stream, aggs, emit="final", lateness=lateness, closed=closed, carry=["row"])
    compare(stream, aggs, emit="update", lateness=lateness, closed=closed, carry=["row"])


@given(RETRACTED, LATENESS, TO_THE_BIT)
def test_streams_with_retractions_are_what_the_oracle_says(stream, lateness, aggs):
    """The same with ids, whose order shows in the strings, and deletes."""
    for emit in ("final", "update"):
        compare(stream, aggs, emit=emit, lateness=lateness, retract="gone", id="i", carry=["row"])


@given(PLAIN, LATENESS, AGGS)
def test_boundaries_are_what_the_oracle_says(stream, lateness, aggs):
    """The same at every boundary."""
    for emit in ("final", "update"):
        compare(stream, aggs, 4, 7, every=3, offset=1, emit=emit, lateness=lateness)


@given(RETRACTED, LATENESS, TO_THE_BIT)
def test_boundaries_with_retractions_are_what_the_oracle_says(stream, lateness, aggs):
    """And with ids and deletes there."""
    for emit in ("final", "update"):
        compare(stream, aggs, 4, 7, every=3, offset=1, emit=emit, lateness=lateness, retract="gone", id="i")


@given(st.lists(events(TIMES, st.just(0), deletes=False), max_size=30), AGGS)
def test_rolling_is_what_the_oracle_says(rows, aggs):
    """Offline, per event and at every boundary, in the order of the rows."""
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    asked: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": list(SIZES), "aggs": monoids_of(aggs)}
    oracle = KeyedOracle(keys=["k"], time="t", windows=WINDOWS, aggs=aggs)
    assert agree(rows_of(rolling(table_of(rows), **asked)), oracle.rolled(rows), aggs)
    boundaries = EveryOracle(keys=["k"], time="t", windows=WINDOWS, aggs=aggs, every=5)
    assert agree(rows_of(rolling(table_of(rows), every=5, **asked)), boundaries.rolled(rows), aggs)


def test_the_strings_were_long_enough_to_tell():
    """Strings of several letters came up, in which a lost or misplaced one shows."""
    test_streams_are_what_the_oracle_says()  # once more, for under xdist the first was perhaps another process
    assert SEEN["long strings"] > 50


@pytest.mark.parametrize("emit", ["arrival", "final", "update"])
def test_state_with_functions_of_ones_own(emit):
    """`from_bytes` is given the aggregates again, and goes on where the first engine was."""
    aggs = {"w": TEXT, "n": monoids.count()}
    one = engine(emit=emit, aggs=aggs, lateness=10)
    one.push(words([1, 5], ["a", None]))
    two = KeyedWindows.from_bytes(one.to_bytes(), aggs=aggs)
    for table in (words([3, 6], ["b", "c"]), words([30], ["d"])):
        assert two.push(table).to_pylist() == one.push(table).to_pylist()
    assert two.flush().to_pylist() == one.flush().to_pylist()


# --- failures -------------------------------------------------------------------------------------


def fussy(state: Any) -> Any:
    if "!" in state:
        raise Boom
    return state


def fussy_concat(one: str, other: str) -> str:
    return fussy(one) + fussy(other)


FUSSY = {
    "combine": Monoid(identity="", combine=fussy_concat, column="w"),
    "lift": Monoid(identity="", combine=concat, lift=fussy, column="w"),
    "lower": Monoid(identity="", combine=concat, lower=fussy, column="w"),
}
TABLE = words([1, 2, 5, 6, 20, 21], ["a", "b", "!", "c", "d", "e"])
FAILING = {
    "per event": [(1, 1, "a"), (2, 2, "ab"), (5, 2, None), (6, 2, None), (20, 1, "d"), (21, 2, "de")],
    "every": [(2, 1, "a"), (4, 2, "ab"), (6, 2, None), (8, 2, None), (10, 1, "c"), (22, 2, "de"), (24, 2, "de")],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", FUSSY)
def test_a_failing_result_is_null(where, mode):
    """A window whose combine, lift or lower raises gives null, the others and the other aggregates what they are."""
    with pytest.warns(SashWarning, match="results are null: .* Boom") if "rolling" in mode else nullcontext():
        out = said(TABLE, {"n": monoids.count(), "w": FUSSY[where]}, mode, [4])
    wanted = FAILING["every" if "every" in mode else "per event"]
    assert [(row["at"], row["n_4"], row["w_4"]) for row in out] == wanted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", FUSSY)
def test_a_failing_result_can_raise(where, mode):
    """With on_error="raise" it is the user's own error that is raised."""
    with pytest.raises(Boom):
        said(TABLE, {"n": monoids.count(), "w": FUSSY[where]}, mode, [4], on_error="raise")


@pytest.mark.parametrize("where", FUSSY)
def test_failures_are_counted(where):
    """In a stream there is a counter, which is there from the start and stands still where nothing fails."""
    kw = engine(aggs={"w": FUSSY[where]}, windows=[4])
    assert kw.metrics["failures"] == 0
    kw.push(TABLE.slice(0, 2))
    assert kw.metrics["failures"] == 0
    kw.push(TABLE.slice(2, 2))
    failures = kw.metrics["failures"]
    assert failures == 2 if where == "lower" else failures >= 1
    assert kw.push(TABLE.slice(4))["w_4"].to_pylist() == ["d", "de"]
    assert kw.metrics["failures"] == failures


@pytest.mark.parametrize("where", FUSSY)
def test_a_result_heals(where):
    """An event that spoils its windows and is deleted leaves them as if it had never been."""
    kw = sliding(emit="update", lateness=100, windows=[5], retract="gone", id="i", aggs={"w": FUSSY[where]})
    more = {"i": pa.array([1, 2, 3]), "gone": pa.array([False] * 3)}
    kw.push(batch([1, 2, 3], w=pa.array(["a", "!", "c"]), **more))
    nothing = batch([], w=pa.array([], pa.string()), i=more["i"][:0], gone=more["gone"][:0])
    assert picked(kw.push(nothing, watermark=5), "window_end", "w_5", "deleted") == [(5, None, False)]
    out = kw.push(batch([2], w=pa.array(["!"]), i=pa.array([2]), gone=pa.array([True])), watermark=5)
    assert picked(out, "window_end", "w_5", "deleted") == [(5, "ac", False)]


NEGATIVE = batch([1, 2, 5, 6, 20, 21], y=pa.array([1.0, 4.0, -1.0, None, 0.0, math.nan]))
GEOMEANS = {
    "per event": [(1, 1.0), (2, 2.0), (5, None), (6, None), (20, 0.0), (21, math.nan)],
    "every": [(2, 1.0), (4, 2.0), (6, None), (8, None), (10, None), (22, math.nan), (24, math.nan)],
}


@pytest.mark.parametrize("beside", [{}, {"r": monoids.rate("y")}, {"l": monoids.collect_list("y")}], ids=["", "r", "l"])
@pytest.mark.parametrize("mode", MODES)
def test_a_geometric_mean_of_a_negative_value_is_null(mode, beside):
    """The windows of a negative value have no geometric mean; those after it have one again, also after NaN and 0."""
    with pytest.warns(SashWarning, match="results are null: ") if "rolling" in mode else nullcontext():
        out = said(NEGATIVE, {"g": monoids.geomean("y"), **beside}, mode, [4])
    expected = GEOMEANS["every" if "every" in mode else "per event"]
    assert repr([(row["at"], row["g_4"]) for row in out]) == repr(expected)
    with pytest.raises(ArgumentError, match="negative"):
        said(NEGATIVE, {"g": monoids.geomean("y"), **beside}, mode, [4], on_error="raise")


def test_geometric_means_of_negative_values_are_counted():
    """They count as failures, survive bytes, heal by a delete, and refuse a batch as a whole where they raise."""
    options = {"aggs": {"g": monoids.geomean("y")}, "windows": [4], "emit": "update", "lateness": 9, "retract": "gone"}
    rows = NEGATIVE.slice(0, 4).append_column("gone", pa.array([False] * 4))
    kw = engine(**options)
    assert kw.push(rows)["g_4"].to_pylist() == [1.0, 2.0, None, None] and kw.metrics["failures"] == 2
    kw = KeyedWindows.from_bytes(kw.to_bytes(), aggs=options["aggs"])
    delete = rows.slice(2, 1).set_column(rows.column_names.index("gone"), "gone", pa.array([True]))
    assert picked(kw.push(delete), "t", "g_4", "deleted") == [(5, None, True)]  # that at 6 is null as before
    healed = rows.slice(3, 1).set_column(rows.column_names.index("y"), "y", pa.array([4.0]))
    assert picked(kw.push(healed), "t", "g_4", "deleted")[-1] == (6, 4.0, False)
    assert kw.metrics["failures"] == 2
    strict = engine(**options, on_error="raise")
    strict.push(rows.slice(0, 2))
    with pytest.raises(ArgumentError, match=r"\['y'\]\[0\] must not be negative") as caught:
        strict.push(rows.slice(2))
    assert caught.value.column == "y" and strict.metrics["rows_in"] == 2


def doubled(one: int, other: int) -> int:
    return one + other


def test_results_of_ones_own_that_do_not_fit_are_null():
    """An int beyond int64 is null and counted as an overflow, in a table and a stream, or raises as a sum does."""
    big = Monoid(identity=0, combine=doubled, column="x")
    rows = batch([1, 2, 20], [2**62, 2**62, 5])
    with pytest.warns(SashWarning, match="1 results are null: 0 failed and 1 did not fit"):
        out = rolling(rows, time="t", windows=[4], aggs={"x": big})["x_4"].to_pylist()
    assert out == [2**62, None, 5]
    kw = engine(aggs={"x": big}, windows=[4])
    out = [kw.push(rows.slice(at, 1))["x_4"].to_pylist() for at in range(3)]
    assert out == [[2**62], [None], [5]] and kw.metrics["overflows"] == 1
    with pytest.raises(ResultOverflowError, match=r"^x_4 must fit int64, got 9223372036854775808"):
        rolling(rows, time="t", windows=[4], aggs={"x": big}, on_error="raise")


# --- lists ----------------------------------------------------------------------------------------

LISTS = {
    "top": monoids.top_k(2, "x"),
    "bottom": monoids.bottom_k(2, "x"),
    "first": monoids.first_k(2, "x"),
    "last": monoids.last_k(3, "x"),
    "bins": monoids.histogram([0, 6, 10], "x"),
    "all": monoids.collect_list("x"),
    "different": monoids.collect_set("x"),
}


def test_lists_by_hand():
    """The two largest and the counts of two bins, oldest windows first."""
    out = said(batch([1, 2, 3, 4], [None, 5, 7, 6]), {name: LISTS[name] for name in ("top", "bins")}, "rolling", [10])
    assert [row["top_10"] for row in out] == [None, [5], [7, 5], [7, 6]]
    assert [row["bins_10"] for row in out] == [None, [1, 0], [1, 1], [1, 2]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("names", [[name] for name in LISTS] + [list(LISTS)], ids="+".join)
def test_lists_are_what_a_fold_gives(mode, names):
    """Native or not, alone or together, over windows of three; a window without a value gives null."""
    times, values = [1, 2, 3, 4, 5, 6, 12], [5, 7, None, 7, 2, 9, None]
    out = said(batch(times, values), {name: LISTS[name] for name in names}, mode, [3])
    assert out
    for row in out:
        first, last = (row["at"] - 3, row["at"] - 1) if "every" in mode else (row["at"] - 2, row["at"])
        there = [x for t, x in zip(times, values, strict=True) if first <= t <= last and x is not None]
        for name in names:
            got = row[f"{name}_3"]
            wanted = answer(LISTS[name], there) if there else None
            assert sorted(got) == sorted(wanted) if name == "different" and there else got == wanted, (name, row)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("every", [None, 5])
def test_lists_are_columns_of_lists(name, every):
    """An Arrow list of numbers."""
    options: dict[str, Any] = {"every": every} if every else {}
    table = batch([1, 2, 3], [5, 7, 6])
    out = rolling(table, keys=["k"], time="t", windows=[10], aggs={name: LISTS[name]}, **options)
    kind = out.schema.field(f"{name}_10").type
    assert pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    assert kind.value_type in (pa.int64(), pa.float64())


def test_lists_that_do_not_change_are_silent():
    """In "update" a list is compared by what it holds."""
    kw = engine(emit="update", lateness=100, aggs={"top": monoids.top_k(2, "x"), "bins": LISTS["bins"]})
    kw.push(batch([5, 6], [8, 9]))
    out = kw.push(batch([4], [20]))
    assert sorted(picked(out, "t", "top_10")) == [(4, [20]), (5, [20, 8]), (6, [20, 9])]
    assert picked(kw.push(batch([6], [11])), "t", "top_10", "bins_10") == [
        (6, [20, 11], [0, 2]),
        (6, [20, 11], [0, 2]),
    ]
    assert picked(kw.push(batch([6], [-3])), "t", "top_10", "bins_10") == [(6, [20, 11], [0, 2])]


# --- many columns ---------------------------------------------------------------------------------


def wide_rows(width: int) -> list[Row]:
    rng = random.Random(width)
    names = [f"c{n}" for n in range(width)]
    return [
        {
            "k": rng.choice(["a", None]),
            "t": rng.randrange(20),
            **{name: rng.choice([None, *range(-9, 10)]) for name in names},
        }
        for _ in range(40)
    ]


@pytest.mark.parametrize("width", [14, 16, 17, 20, 61])
def test_many_input_columns(width):
    """Each column has its own nulls and its own answers, however many there are, offline and in streams."""
    rows = wide_rows(width)
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), **{f"c{n}": pa.int64() for n in range(width)}})
    table = pa.Table.from_pylist(rows, schema=schema)
    aggs: dict[str, Aggregate] = {f"s{n}": ("sum", f"c{n}") for n in range(width)}
    aggs |= {"n": ("count",), "m": ("count", f"c{width - 1}"), "f": ("affine", "c0", f"c{width - 1}")}
    asked: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": [3, 8], "aggs": monoids_of(aggs)}
    per_event = KeyedOracle(keys=["k"], time="t", windows={"3": 3, "8": 8}, aggs=aggs)
    at_every = EveryOracle(keys=["k"], time="t", windows={"3": 3, "8": 8}, aggs=aggs, every=4)
    assert rows_of(rolling(table, **asked)) == per_event.rolled(rows)
    assert rows_of(KeyedWindows(**asked).push(table)) == per_event.rolled(rows)
    assert rows_of(rolling(table, every=4, **asked)) == at_every.rolled(rows)
    kw = KeyedWindows(every=4, **asked)
    kw.push(table.slice(0, 20), watermark=0)
    kw.push(table.slice(20), watermark=0)
    assert in_place(rows_of(kw.flush())) == in_place(at_every.rolled(rows))


def test_many_columns_in_a_stream_with_deletes():
    """A delete without an id compares all of them, nulls included."""
    names = [f"c{n}" for n in range(20)]
    aggs = {name: monoids.sum(name) for name in names}
    kw = engine(emit="final", lateness=100, retract="gone", aggs=aggs)
    full, hole = [1] * 20, [*[1] * 19, None]
    for values, gone in ((full, False), (hole, False), (full, True)):
        row = {"k": ["a"], "t": [5], "gone": [gone]}
        kw.push(row | {name: pa.array([value], pa.int64()) for name, value in zip(names, values, strict=True)})
    assert picked(kw.flush(), *(f"{name}_10" for name in names)) == [(*[1] * 19, None)]
