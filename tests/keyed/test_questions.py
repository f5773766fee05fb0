"""`rolling(at=)` and `KeyedWindows.query` against a walk over all events, by brute force."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash import ArgumentError, KeyedWindows, KindError, RetentionError, monoids

JOINED = sash.Monoid(identity="", combine=lambda a, b: a + b, column="x", name="joined")
AGGS = {"n": monoids.count(), "s": monoids.sum("x"), "last": monoids.last("x"), "top": monoids.max("x")}
KEYS = st.sampled_from(["a", "b", "c", None])
TIMES = st.integers(0, 12)
EVENTS = st.lists(st.tuples(KEYS, TIMES | st.none(), st.integers(-5, 5) | st.none()), max_size=30)
QUESTIONS = st.lists(st.tuples(KEYS, st.integers(-3, 20) | st.none()), max_size=12)


def events_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Keys, times and values as columns."""
    kinds = {"k": pa.string(), "t": pa.int64(), "x": pa.int64()}
    return pa.table({name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def expected(rows: list[Any], key: Any, inside: Any) -> dict[str, Any]:
    """What AGGS are over the rows of a key whose time is inside, those of one time in their order."""
    found = sorted((row for row in rows if row[0] == key and row[1] is not None and inside(row[1])), key=lambda r: r[1])
    values = [row[2] for row in found if row[2] is not None]
    return {
        "n": len(found),
        "s": sum(values) if values else None,
        "last": values[-1] if values else None,
        "top": max(values, default=None),
    }


@given(EVENTS, QUESTIONS, st.sampled_from(["right", "left"]))
def test_a_question_sees_the_rows_of_its_windows(rows: list[Any], asked: list[Any], closed: str) -> None:
    """Of any time, in any order, with ties, nulls and keys that are not there."""
    at = pa.table({"k": pa.array([k for k, _ in asked], pa.string()), "q": pa.array([q for _, q in asked], pa.int64())})
    out = sash.rolling(
        events_of(rows), at=at, at_time="q", keys="k", time="t", windows=[2, 7], aggs=AGGS, closed=closed
    )
    assert out.select(["k", "q"]).equals(at)
    for row, (key, time) in zip(out.to_pylist(), asked, strict=True):
        for size in (2, 7):
            found = {name: row[f"{name}_{size}"] for name in AGGS}
            if time is None:
                assert set(found.values()) == {None}
            elif closed == "left":
                assert found == expected(rows, key, lambda t, q=time, size=size: q - size <= t < q)
            else:
                assert found == expected(rows, key, lambda t, q=time, size=size: q - size < t <= q)


@given(EVENTS, QUESTIONS)
def test_aggregates_in_python_answer_questions_too(rows: list[Any], asked: list[Any]) -> None:
    """In the order of the rows: the monoid joins text."""
    rows = [(k, t, str(x)) for k, t, x in rows if t is not None]
    asked = [(k, q) for k, q in asked if q is not None]
    table = pa.table({name: [row[i] for row in rows] for i, name in enumerate("ktx")})
    at = pa.table({"k": pa.array([k for k, _ in asked], pa.string()), "t": pa.array([q for _, q in asked], pa.int64())})
    if not rows:
        table = pa.table(
            {"k": pa.array([], pa.string()), "t": pa.array([], pa.int64()), "x": pa.array([], pa.string())}
        )
    out = sash.rolling(table, at=at, keys="k", time="t", windows=[4], aggs={"all": JOINED})
    for row, (key, time) in zip(out.to_pylist(), asked, strict=True):
        found = sorted((r for r in rows if r[0] == key and time - 4 < r[1] <= time), key=lambda r: r[1])
        assert (row["all_4"] or "") == "".join(x for _, _, x in found)


@pytest.mark.parametrize("kind", [pa.Table.to_pandas, pl.from_arrow, pa.Table.to_pydict])
def test_the_table_of_questions_comes_back_as_it_was(kind: Any) -> None:
    """Its kind, columns, order and duplicates."""
    at = pa.table({"note": ["x", "y", "x"], "k": ["b", "a", "b"], "t": [4, 3, 4]})
    rows = events_of([("a", 1, 5), ("b", 4, 7)])
    out = sash.rolling(rows, at=kind(at), keys="k", time="t", windows=[3], aggs={"s": monoids.sum("x")})
    assert type(out) is (pa.Table if kind is pa.Table.to_pydict else type(kind(at)))
    wanted = at.append_column("s_3", pa.array([7, 5, 7]))
    plain = pa.Table.from_pandas(out) if isinstance(out, pd.DataFrame) else pa.table(out)
    assert plain.to_pydict() == wanted.to_pydict()


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize(("own", "more"), [("s", 0), ("ns", 0), ("ns", 1), ("ns", 999), ("ns", -1)])
def test_instants_between_two_ticks_of_the_events_are_exact(closed: str, own: str, more: int) -> None:
    """Microseconds of events, other units of questions."""
    events = pa.table({"t": pa.array([1_000_000, 2_000_000, 3_000_000], pa.timestamp("us"))})
    at = 3 if own == "s" else 3_000_000_000 + more
    out = sash.rolling(
        events, at={"t": pa.array([at], pa.timestamp(own))}, time="t", windows=["1s"], closed=closed,
        aggs={"n": monoids.count()},
    )  # fmt: skip
    time, size, nanoseconds = (at * 10**9 if own == "s" else at), 10**9, [10**9, 2 * 10**9, 3 * 10**9]
    inside = [time - size <= t < time if closed == "left" else time - size < t <= time for t in nanoseconds]
    assert out["n_1s"].to_pylist() == [sum(inside)]


def test_monoids_that_depend_on_time_see_the_time_of_the_question() -> None:
    """Also between two ticks of the events, half a second after the last one."""
    events = pa.table({"t": pa.array([1, 3], pa.timestamp("s")), "x": [1.0, 1.0]})
    at = {"t": pa.array([3_500, None, 2_250], pa.timestamp("ms"))}
    aggs = {"d": monoids.decayed_sum(1, "x"), "s": monoids.struct(w=monoids.time_weighted_mean("x"))}
    out = sash.rolling(events, at=at, time="t", windows=["9s"], aggs=aggs)
    assert out["d_9s"].to_pylist() == [0.5**2.5 + 0.5**0.5, None, 0.5**1.25]
    late = {"t": pa.array([3_500], pa.timestamp("ns"))}
    events = pa.table({"t": pa.array([10**12], pa.timestamp("s")), "x": [1.0]})
    with pytest.raises(ArgumentError, match="at must hold times in s, as the events do, because"):
        sash.rolling(events, at=late, time="t", windows=["9s"], aggs=aggs)


@pytest.mark.parametrize(
    ("of_events", "of_questions"),
    [
        (pa.array([1, 2], pa.int8()), pa.array([300, 1], pa.int64())),
        (pa.array([1, 2], pa.uint8()), pa.array([-1, 1], pa.int16())),
        (pa.array(["15.0", "20.0"]).cast(pa.decimal128(9, 1)), pa.array(["1.55", "15.00"]).cast(pa.decimal128(9, 2))),
        (pa.array([1, 2], pa.timestamp("s")), pa.array([1_500, 1_000], pa.timestamp("ms"))),
    ],
    ids=["wider", "signed", "decimal", "finer"],
)
def test_a_key_that_has_no_form_among_those_of_the_events_has_no_events(of_events: Any, of_questions: Any) -> None:
    """It is not an error: labels may know keys that no event has."""
    out = sash.rolling(
        {"k": of_events, "t": [1, 1]}, at={"k": of_questions, "t": [3, 3]}, keys="k", time="t", windows=[4],
        aggs={"n": monoids.count()},
    )  # fmt: skip
    assert out["n_4"].to_pylist() == [0, 1]
    assert out["k"].combine_chunks().equals(of_questions)


def test_bad_tables_of_questions_are_refused() -> None:
    """In one sentence that names what is wrong."""
    rows = events_of([("a", 1, 5)])

    def ask(at: Any, **more: Any) -> Any:
        words: dict[str, Any] = {"keys": "k", "time": "t", "windows": [3], "aggs": {"n": monoids.count()}} | more
        return sash.rolling(rows, at=at, **words)

    with pytest.raises(ArgumentError, match="at must be a table that has the column 'k' once"):
        ask({"t": [1]})
    with pytest.raises(ArgumentError, match="at must be a table that has the column 'q' once"):
        ask({"k": ["a"], "t": [1]}, at_time="q")
    with pytest.raises(KindError, match="at must hold string in the column 'k', as the events do, got int64"):
        ask({"k": [1], "t": [1]})
    with pytest.raises(KindError, match="at must hold integers in the column 't', as the events do, got timestamp"):
        ask({"k": ["a"], "t": [datetime(2026, 1, 1)]})
    with pytest.raises(ArgumentError, match="every must be left out with at="):
        ask({"k": ["a"], "t": [1]}, every=5)
    with pytest.raises(ArgumentError, match="at_time must be passed with at="):
        sash.rolling(rows, time="t", windows=[3], aggs={"n": monoids.count()}, at_time="t")
    with pytest.raises(ArgumentError, match="already has a column 'n_3'"):
        ask({"k": ["a"], "t": [1], "n_3": [0]})
    with pytest.raises(ArgumentError, match="time must fit int64, got a column 't' that does not"):
        ask({"k": ["a"], "t": pa.array([2**63], pa.uint64())})
    zoned = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))})
    with pytest.raises(KindError, match="at must hold timestamps with a time zone in the column 't'"):
        sash.rolling(
            zoned, at={"t": pa.array([0], pa.timestamp("us"))}, time="t", windows=["1s"], aggs={"n": monoids.count()}
        )
    with pytest.raises(ArgumentError, match=r"at must hold times that fit timestamp\[ns\] in the column 't', got 2900"):
        sash.rolling(
            pa.table({"t": pa.array([0], pa.timestamp("ns"))}), at={"t": pa.array([datetime(2900, 1, 1)])}, time="t",
            windows=["1s"], aggs={"n": monoids.count()},
        )  # fmt: skip


# --- queries of a stream --------------------------------------------------------------------------

STEPS = st.lists(st.tuples(EVENTS, st.integers(0, 30)), min_size=1, max_size=4)


@given(STEPS, st.sampled_from(["arrival", "final", "update"]), st.sampled_from(["right", "left"]), st.integers(0, 5))
def test_queries_see_what_was_accepted(steps: list[Any], emit: str, closed: str, lateness: int) -> None:
    """Whatever the answer, it is that of all rows that were in time, or there is none; nothing changes."""
    kw = KeyedWindows(
        keys="k", time="t", windows=[2, 7], aggs=AGGS, emit=emit, closed=closed, lateness=lateness
    )  # fmt: skip
    taken: list[Any] = []
    horizon = None
    for rows, watermark in steps:
        kw.push(events_of(rows), watermark=watermark)
        horizon = watermark - lateness if horizon is None else max(horizon, watermark - lateness)
        taken += [row for row in rows if row[1] is not None and row[1] >= horizon]
    before, metrics = kw.to_bytes(), kw.metrics
    answered = [0, 0]
    for time in range(-3, 31):
        try:
            out = kw.query({"k": ["a", "z", None]}, at=time).to_pylist()
        except RetentionError as error:
            assert time < horizon or emit == "arrival", error
            continue
        answered[0] += 1
        for row in out:
            for size in (2, 7):
                low, high = (time - size, time) if closed == "left" else (time - size + 1, time + 1)
                found = {name: row[f"{name}_{size}"] for name in AGGS}
                assert found == expected(taken, row["k"], lambda t, low=low, high=high: low <= t < high)
    for sides in ("both", "left", "right", "neither"):
        for start, stop in ((0, 30), (3, 9), (8, 8), (11, 12), (31, 40)):
            try:
                out = kw.query({"k": ["a", "z", None]}, start=start, stop=stop, closed=sides).to_pylist()
            except RetentionError:
                continue
            answered[1] += 1
            low, high = start + (sides in ("right", "neither")), stop - (sides in ("left", "neither"))
            for row in out:
                found = {name: row[name] for name in AGGS}
                assert found == expected(taken, row["k"], lambda t, low=low, high=high: low <= t <= high)
    assert all(answered)
    kw.check_invariants()
    assert kw.metrics == metrics and kw.to_bytes() == before


def test_the_earliest_time_that_can_be_asked_for_can_be() -> None:
    """The message names it, and the instant before it raises."""
    for closed, earliest, start in (("right", 18, 12), ("left", 18, 11)):
        kw = KeyedWindows(keys="k", time="t", windows=[4, 7], aggs=AGGS, emit="arrival", closed=closed, lateness=2)
        kw.push(events_of([("a", t, t) for t in range(21)]), watermark=0)
        kw.push(events_of([]), watermark=20)
        assert kw.query({"k": ["a"]}, at=earliest)["n_7"].to_pylist() == [7]
        with pytest.raises(RetentionError, match=f"at must be {earliest} or later, because earlier rows are dropped"):
            kw.query({"k": ["a"]}, at=earliest - 1)
        kw.query({"k": ["a"]}, start=start, stop=20)
        with pytest.raises(RetentionError, match=f"start must be {start} or later"):
            kw.query({"k": ["a"]}, start=10, stop=20)
        kw = KeyedWindows.from_bytes(kw.to_bytes())
        with pytest.raises(RetentionError):
            kw.query({"k": ["a"]}, at=earliest - 1)


def test_the_default_is_the_first_instant_that_sees_the_newest_row() -> None:
    """Closed on the left, that is one tick later."""
    rows = events_of([("a", -1, 1), ("a", 0, 1), ("a", 9, 2)])  # with every=, the next boundary
    for more, counts in (({"emit": "arrival"}, [1, 2]), ({"emit": "arrival", "closed": "left"}, [1, 2])):
        kw = KeyedWindows(keys="k", time="t", windows=[4, 10], aggs={"n": monoids.count()}, **more)
        kw.push(rows)
        assert list(kw.query({"k": ["a"]}).to_pylist()[0].values())[1:] == counts
    for more in ({}, {"late": "emit"}, {"resolution": 1}):
        kw = KeyedWindows(keys="k", time="t", windows=[10, 20], aggs={"n": monoids.count()}, every=5, **more)
        kw.push(rows)
        assert kw.query({"k": ["a"]}).to_pylist() == [{"k": "a", "n_10": 2, "n_20": 3}]
        kw.push(events_of([("a", 9, 1)]), watermark=9)
        assert kw.query({"k": ["a"]})["n_10"].to_pylist() == [3]
    kw = KeyedWindows(keys="k", time="t", windows=[4], aggs={"n": monoids.count()}, emit="arrival", closed="left")
    kw.push(events_of([("a", 2**63 - 1, 1)]))
    assert kw.query({"k": ["a"]})["n_4"].to_pylist() == [0]  # no instant is later


def test_of_panes_only_their_edges_can_be_asked_for() -> None:
    """Rows between them are not told apart any more."""
    aggs = {"n": monoids.count(), "s": monoids.sum("x")}
    kw = KeyedWindows(keys="k", time="t", windows=[10, 20], aggs=aggs, every=5, offset=1)
    kw.push(events_of([("a", t, t) for t in range(30)]), watermark=0)
    assert kw.query({"k": ["a"]}, at=21)["n_10"].to_pylist() == [10]
    assert kw.query({"k": ["a"]}, start=6, stop=16)["s"].to_pylist() == [sum(range(6, 16))]
    with pytest.raises(
        ArgumentError, match="at must be an edge of a pane, such as 21 or 26, because rows are combined"
    ):
        kw.query({"k": ["a"]}, at=22)
    with pytest.raises(ArgumentError, match="stop must be an edge of a pane, such as 16 or 21"):
        kw.query({"k": ["a"]}, start=6, stop=17)
    with pytest.raises(ArgumentError, match="closed must be 'left', because rows are combined into panes"):
        kw.query({"k": ["a"]}, start=6, stop=16, closed="both")


def test_dropped_rows_are_not_asked_about_even_after_saving() -> None:
    """By drop_before, whose time the horizon does not tell."""
    kw = KeyedWindows(keys="k", time="t", windows=[4], aggs=AGGS, emit="arrival", lateness=50)
    kw.push(events_of([("a", t, t) for t in range(20)]))
    kw.drop_before(10)
    for one in (kw, KeyedWindows.from_bytes(kw.to_bytes())):
        assert one.query({"k": ["a"]}, at=13)["s_4"].to_pylist() == [10 + 11 + 12 + 13]
        with pytest.raises(RetentionError, match="at must be 13 or later"):
            one.query({"k": ["a"]}, at=12)


@pytest.mark.parametrize("more", [{"emit": "arrival"}, {"every": 5}, {"every": 5, "late": "emit"}])
def test_the_default_is_refused_too_if_rows_that_it_needs_are_dropped(more: Any) -> None:
    """Whatever the rows are combined into, a watermark far ahead has dropped them."""
    kw = KeyedWindows(keys="k", time="t", windows=[10], aggs={"n": monoids.count()}, **more)
    kw.push(events_of([("a", 3, 1)]))
    kw.push(events_of([]), watermark=100)
    with pytest.raises(RetentionError, match=r"at must be 10\d or later, .* got the default, [35]"):
        kw.query({"k": ["a"]})
    kw.flush()
    with pytest.raises(RetentionError):
        kw.query({"k": ["a"]}, start=0, stop=3 if "every" not in more else 5)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_query_between_two_ticks_of_the_rows_is_exact(closed: str, zone: str | None) -> None:
    """Now is in microseconds, and rows may be in seconds."""
    rows = {"t": pa.array(range(1, 9), pa.timestamp("s", zone))}
    words: dict[str, Any] = {"keys": None, "time": "t", "emit": "arrival", "closed": closed}
    kw = KeyedWindows(windows=["2s"], aggs={"n": monoids.count()}, **words)
    kw.push(rows)
    start = datetime(1970, 1, 1, tzinfo=UTC if zone else None)
    for ticks in range(20):
        time = start + timedelta(seconds=ticks / 2)
        low, high = ticks / 2 - 2, ticks / 2
        inside = [t for t in range(1, 9) if (low <= t < high if closed == "left" else low < t <= high)]
        assert kw.query(at=time)["n_2s"].to_pylist() == [len(inside)]
        assert kw.query(at=pd.Timestamp(time))["n_2s"].to_pylist() == [len(inside)]
        for sides, first, last in (("both", 1, 1), ("left", 1, 0), ("right", 0, 1), ("neither", 0, 0)):
            inside = [t for t in range(1, 9) if (high <= t if first else high < t) and (t <= 6.5 if last else t < 6.5)]
            stop = start + timedelta(seconds=6.5)
            if time <= stop:
                assert kw.query(start=time, stop=stop, closed=sides)["n"].to_pylist() == [len(inside)]
    kw = KeyedWindows(windows=["2s"], aggs={"d": monoids.rate("x")}, **words)
    kw.push(rows | {"x": [1.0] * 8})
    with pytest.raises(ArgumentError, match=r"at must be a whole tick of one s, .* because aggregates depend on time"):
        kw.query(at=start + timedelta(seconds=2.5))


def test_a_batch_that_is_refused_determines_no_types() -> None:
    """Neither the first one nor one that has the first values of a column."""
    kw = KeyedWindows(keys="k", time="t", windows=[4], aggs={"n": monoids.count("x")}, emit="arrival")
    nothing = kw.to_bytes()
    with pytest.raises(KindError, match="watermark"):
        kw.push(events_of([("a", 3, 1)]), watermark="soon")
    assert kw.to_bytes() == nothing
    kw.push({"k": [1], "t": [1], "x": pa.nulls(1)})
    before = kw.to_bytes()
    with pytest.raises(KindError, match="watermark"):
        kw.push({"k": [1], "t": [1], "x": [5]}, watermark="soon")
    assert kw.to_bytes() == before
    assert kw.push({"k": [1], "t": [1], "x": [0.5]})["n_4"].to_pylist() == [1]


def test_bad_queries_are_refused_and_change_nothing() -> None:
    """In one sentence that names the argument."""
    kw = KeyedWindows(keys="k", time="t", windows=[4], aggs=AGGS, emit="arrival")
    with pytest.raises(ArgumentError, match="after the first batch"):
        kw.query({"k": ["a"]})
    kw.push(events_of([("a", 3, 1)]))
    before = kw.to_bytes()
    for error, words, text in [
        (ArgumentError, {"keys": None}, "keys must be a table with the columns"),
        (ArgumentError, {"keys": {"x": [1]}}, "keys must be a table that has the column 'k' once"),
        (KindError, {"keys": {"k": [1]}}, "keys must hold string in the column 'k'"),
        (ArgumentError, {"start": 3}, "start and stop must be passed together"),
        (ArgumentError, {"start": 3, "stop": 4, "at": 4}, "without at"),
        (ArgumentError, {"start": 5, "stop": 4}, "stop must not be before start=5, got 4"),
        (ArgumentError, {"start": 3, "stop": 4, "closed": "open"}, "closed must be one of both, left, right, neither"),
        (ArgumentError, {"at": 3, "closed": "left"}, "closed must be passed with start and stop"),
        (KindError, {"at": datetime(2026, 1, 1, tzinfo=UTC)}, "at must be an int like the times"),
        (ArgumentError, {"at": 2**70}, "at must fit int64"),
    ]:
        with pytest.raises(error, match=text):
            kw.query(**({"keys": {"k": ["a"]}} | words))
    assert kw.to_bytes() == before


def test_one_key_for_all_rows_needs_no_table_of_keys() -> None:
    """There is one row of results."""
    kw = KeyedWindows(keys=None, time="t", windows=["1h"], aggs={"s": monoids.sum("x")}, emit="arrival")
    start = datetime(2026, 1, 1)
    kw.push({"t": [start, start + timedelta(minutes=30)], "x": [1, 2]})
    assert kw.query(at=start).to_pydict() == {"s_1h": [1]}
    assert kw.query().to_pydict() == {"s_1h": [3]}
    with pytest.raises(ArgumentError, match="keys must be left out"):
        kw.query({"k": ["a"]})


def test_a_query_costs_the_keys_it_asks_about() -> None:
    """Not what is held: by its combines."""
    rng = np.random.default_rng(1)
    kw = KeyedWindows(keys="k", time="t", windows=[10_000], aggs={"s": monoids.sum("x")}, emit="arrival")
    kw.push({"k": rng.integers(0, 100, 100_000), "t": np.sort(rng.integers(0, 10_000, 100_000)), "x": np.ones(100_000)})
    kw.query({"k": list(range(100))}, at=9_000)
    before = kw.combines
    kw.query({"k": [5]}, at=9_001)
    assert 0 < kw.combines - before < 300
