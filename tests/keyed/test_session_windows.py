"""Sessions by hand: one result per key and run of events, extended, merged, split and removed."""

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import KeyedWindows, Monoid, monoids, rolling
from sash.errors import ArgumentError, CorruptStateError, SashError, UnsupportedError
from support.keyed_batches import batch, marked, picked

HIGHEST = 2**63 - 1


def sessions(**options: Any) -> KeyedWindows:
    """Count and sum of x per key k and session of events at most 5 apart."""
    defaults: dict[str, Any] = {
        "keys": ["k"],
        "time": "t",
        "aggs": {"n": monoids.count(), "total": monoids.sum("x")},
        "per": "session",
        "gap": 5,
        "lateness": 0,
    }
    return KeyedWindows(**(defaults | options))


def offline(table: Any, **options: Any) -> Any:
    defaults: dict[str, Any] = {"keys": ["k"], "time": "t", "per": "session", "gap": 5}
    return rolling(table, **(defaults | {"aggs": {"n": monoids.count(), "total": monoids.sum("x")}} | options))


FINAL = ("session_start", "session_end", "n", "total")
CHANGE = (*FINAL, "deleted")

# --- tables ---------------------------------------------------------------------------------------


def test_a_table_by_hand():
    """An event exactly the gap after the last one joins its session; one tick later begins another."""
    out = offline(batch([10, 0, 5, 16, 3], [1, 2, 4, 8, 16]))
    assert out.column_names == ["k", "session_start", "session_end", "n", "total"]
    assert picked(out, *FINAL) == [(0, 15, 4, 23), (16, 21, 1, 8)]


def test_kinds_of_tables():
    """Returns the kind of table it was given, with times of its type."""
    at = [dt.datetime(2026, 1, 1, 12, minute) for minute in (0, 30, 59)]
    frame = pd.DataFrame({"k": ["a", "a", "a"], "t": at, "x": [1, 2, 4]})
    out = offline(frame, gap="30 minutes")
    assert isinstance(out, pd.DataFrame)
    assert out["session_end"].tolist() == [pd.Timestamp("2026-01-01 13:29")]
    both = offline(pl.DataFrame(frame), gap=dt.timedelta(minutes=29, seconds=30))
    assert isinstance(both, pl.DataFrame)
    assert both["total"].to_list() == [1, 6]


def test_an_empty_table_and_rows_without_time():
    assert offline(batch([])).num_rows == 0
    assert picked(offline(batch([None, 3, None])), *FINAL) == [(3, 8, 1, 1)]


def test_null_keys_are_a_key():
    out = offline(batch([0, 1, 2], k=[None, "a", None]))
    assert picked(out, "k", "n") == [(None, 2), ("a", 1)]


def test_without_keys():
    assert picked(offline(batch([0, 9, 2]), keys=None), *FINAL) == [(0, 7, 2, 2), (9, 14, 1, 1)]


def test_python_aggregates_of_tables():
    """Aggregates that run in Python see the rows of a session in the order of time, and when it starts and ends."""
    text = Monoid(identity="", combine=lambda a, b: a + b, column="w", name="text", returns="string")
    words = pa.table({"k": ["a"] * 4, "t": [9, 0, 1, 20], "w": ["c", "a", "b", "d"]})
    assert offline(words, aggs={"w": text})["w"].to_pylist() == ["ab", "c", "d"]
    span = Monoid(
        identity=None, combine=lambda a, b: a, lift=lambda v, t: t, lower=lambda state, start, stop: stop - start,
        timed=True, column="x", name="span", returns="int64",
    )  # fmt: skip
    assert offline(batch([0, 4, 20]), aggs={"s": span})["s"].to_pylist() == [9, 5]


def test_aggregates_that_depend_on_time():
    """They see a session as [session_start, session_end)."""
    out = offline(batch([0, 4, 20], [2, 8, 5]), aggs={"mean": monoids.time_weighted_mean("x")})
    assert out["mean"].to_pylist() == [(2 * 4 + 8 * 5) / 9, 5.0]
    kw = sessions(aggs={"mean": monoids.time_weighted_mean("x")})
    kw.push(batch([0], [2]))
    kw.push(batch([4], [8]), watermark=3)
    assert kw.push(batch([20], [5]), watermark=10)["mean"].to_pylist() == [(2 * 4 + 8 * 5) / 9]


def test_names_that_occur_twice():
    for name in ("k", "session_end"):
        with pytest.raises(ArgumentError, match=f"two columns .{name}."):
            offline(batch([0]), aggs={name: monoids.count()})


# --- "final" --------------------------------------------------------------------------------------


def test_final_by_hand():
    """A session comes once the horizon is past its end: an event at the end would still have joined."""
    kw = sessions(lateness=2)
    assert kw.push(batch([0, 3])).num_rows == 0
    assert kw.push(batch([20]), watermark=10).num_rows == 0
    assert picked(kw.push(batch([]), watermark=11), *FINAL) == [(0, 8, 2, 2)]
    assert picked(kw.flush(), *FINAL) == [(20, 25, 1, 1)]
    assert kw.metrics["emitted"] == 2
    assert (kw.metrics["live_rows"], kw.metrics["live_keys"]) == (0, 0)


def test_an_event_at_the_end_joins():
    kw = sessions()
    kw.push(batch([0]), watermark=0)
    assert kw.push(batch([5]), watermark=5).num_rows == 0
    assert picked(kw.push(batch([50]), watermark=11), *FINAL) == [(0, 10, 2, 2)]


def test_late_events_are_flagged():
    kw = sessions(late="emit")
    kw.push(batch([10]))
    out = kw.push(batch([9, 11], [7, 8]), watermark=10)
    assert picked(out, "k", "t", *FINAL, "late") == [("a", 9, None, None, None, None, True)]
    assert kw.metrics["late"] == 1
    assert picked(kw.flush(), "t", *FINAL, "late") == [(None, 10, 16, 2, 9, False)]


def test_rows_behind_the_horizon_are_folded():
    """One session of any length holds the rows from the horizon on, and one record of those before."""
    kw = sessions(lateness=3)
    for time in range(1000):
        kw.push(batch([time], [time]), watermark=time)
        kw.check_invariants()
        assert kw.metrics["live_rows"] <= 4
    assert picked(kw.flush(), *FINAL) == [(0, 1004, 1000, sum(range(1000)))]


def test_state_does_not_grow_with_the_session():
    kw = sessions()
    sizes = []
    for start in range(0, 20_000, 1000):
        kw.push(batch(list(range(start, start + 1000))), watermark=start + 1000)
        sizes.append(len(kw.to_bytes()))
    assert max(sizes) - min(sizes) < 20  # digits of the counters


def test_a_late_event_joins_what_is_folded():
    kw = sessions(lateness=2)
    kw.push(batch([0, 8]), watermark=2)
    kw.push(batch([]), watermark=7)
    assert kw.metrics["live_rows"] == 1
    kw.push(batch([5], [4]), watermark=7)
    assert picked(kw.flush(), *FINAL) == [(0, 13, 3, 6)]


def test_a_delete_ends_a_session_earlier():
    """The horizon passes the new end, not the old one."""
    kw = sessions(retract="gone", id="i")
    kw.push(marked([(0, 1, 1, False), (4, 2, 2, False)]), watermark=0)
    assert kw.push(marked([(4, 2, 2, True)]), watermark=4).num_rows == 0
    assert picked(kw.push(marked([(50, 1, 3, False)]), watermark=6), *FINAL) == [(0, 5, 1, 1)]


# --- "update" -------------------------------------------------------------------------------------


def changes(kw: KeyedWindows, *rows: tuple[int, int, int, bool], watermark: int = 0) -> list[tuple[Any, ...]]:
    """Push rows of (time, x, id, delete), and return what changed."""
    out = kw.push(marked(list(rows)) if rows else batch([], i=pa.array([], pa.int64()), gone=pa.array([], pa.bool_())))
    assert set(out["revision"].to_pylist()) <= {int(kw._stream.position.revision)}  # type: ignore[union-attr]
    kw.check_invariants()
    return picked(out, *CHANGE)


@pytest.fixture
def updating() -> KeyedWindows:
    return sessions(emit="update", retract="gone", id="i", lateness=1000)


def test_extended(updating):
    """A later event moves the end; an earlier one moves the start, which is another identity."""
    assert changes(updating, (10, 1, 1, False)) == [(10, 15, 1, 1, False)]
    assert changes(updating, (13, 2, 2, False)) == [(10, 18, 2, 3, False)]
    assert changes(updating, (7, 4, 3, False)) == [(10, 18, None, None, True), (7, 18, 3, 7, False)]
    assert updating.metrics["revised"] == 1


def test_merged_and_split(updating):
    """A late event between two sessions makes them one, and its delete makes them two again."""
    assert changes(updating, (0, 1, 1, False), (10, 2, 2, False)) == [(0, 5, 1, 1, False), (10, 15, 1, 2, False)]
    assert changes(updating, (5, 4, 3, False)) == [(10, 15, None, None, True), (0, 15, 3, 7, False)]
    assert changes(updating, (5, 4, 3, True)) == [(0, 5, 1, 1, False), (10, 15, 1, 2, False)]
    assert updating.metrics["deleted"] == 1


def test_shrunk_and_removed(updating):
    assert changes(updating, (0, 1, 1, False), (4, 2, 2, False), (8, 4, 3, False)) == [(0, 13, 3, 7, False)]
    assert changes(updating, (8, 4, 3, True)) == [(0, 9, 2, 3, False)]
    assert changes(updating, (0, 1, 1, True)) == [(0, 9, None, None, True), (4, 9, 1, 2, False)]
    assert changes(updating, (4, 2, 2, True)) == [(4, 9, None, None, True)]


def test_what_does_not_change_does_not_come(updating):
    """Nothing for an empty push, a repeated event, an event that came and went, or one that was not there."""
    changes(updating, (0, 1, 1, False))
    assert changes(updating) == []
    assert changes(updating, (0, 1, 1, False)) == []
    assert changes(updating, (30, 1, 2, False), (30, 1, 2, True)) == []
    assert changes(updating, (3, 9, 7, True)) == []


def test_an_aggregate_that_stays_with_another_end():
    kw = sessions(emit="update", aggs={"top": monoids.max("x")}, lateness=100)
    kw.push(batch([0], [9]))
    assert picked(kw.push(batch([2], [1])), "session_end", "top") == [(7, 9)]
    assert kw.push(batch([1], [1])).num_rows == 0


def test_several_merges_in_one_batch(updating):
    rows = [(time, 1, time, False) for time in (0, 10, 20, 30)]
    assert len(changes(updating, *rows)) == 4
    out = changes(updating, (5, 1, 50, False), (15, 1, 51, False), (25, 1, 52, False), (30, 1, 30, True))
    assert out == [(10, 15, None, None, True), (20, 25, None, None, True), (30, 35, None, None, True),
                   (0, 30, 6, 6, False)]  # fmt: skip


def test_an_identity_that_returns(updating):
    changes(updating, (0, 1, 1, False))
    assert changes(updating, (0, 1, 1, True)) == [(0, 5, None, None, True)]
    assert changes(updating, (0, 3, 2, False)) == [(0, 5, 1, 3, False)]


def test_flush_of_update_says_nothing_more():
    kw = sessions(emit="update")
    kw.push(batch([0, 20]))
    assert kw.flush().num_rows == 0
    assert kw.metrics["live_keys"] == 0


# --- state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("emit", ["final", "update"])
def test_saved_in_the_middle(emit):
    """Bytes hold what is folded, and the stream goes on as if nothing had happened."""
    streams = [sessions(emit=emit, lateness=2) for _ in range(2)]
    for start in range(0, 60, 3):
        table = batch([start, start + 1, start - 1 if start % 2 else start + 2], k=["a", "b", "a"])
        streams[1] = KeyedWindows.from_bytes(streams[1].to_bytes())
        one, other = (kw.push(table, watermark=start) for kw in streams)
        assert one.equals(other)
    assert streams[0].flush().equals(streams[1].flush())


def test_bytes_that_are_changed_are_refused_or_sound():
    kw = sessions()
    kw.push(batch([0, 1, 2, 3], k=["a", "b", "a", "b"]), watermark=2)
    rows = kw._stream.engine.dump()  # type: ignore[union-attr]
    for at in range(len(rows)):
        changed = bytearray(rows)
        changed[at] ^= 0x80
        other = sessions()
        other.push(batch([]))
        stream = other._stream
        assert stream is not None
        if stream.engine.load(bytes(changed), [0], 4, False):
            try:
                stream.engine.check()
            except SashError as error:
                raise AssertionError(at) from error
            stream.engine.closing(HIGHEST)


def test_types_that_are_known_later_keep_what_is_folded():
    """A column that has been null so far gets its type from the first value."""
    kw = sessions(lateness=100)
    kw.push({"k": ["a"], "t": [0], "x": [None]})
    kw.push({"k": ["a"], "t": [3], "x": [4]})
    assert kw.flush()["total"].to_pylist() == [4]


# --- ends of time ---------------------------------------------------------------------------------


def test_ends_of_int64():
    """Where an end is too far ahead to be said it is null, and such a session is final at the end of the stream."""
    times = [-(2**63), -(2**63) + 5, 2**63 - 6, 2**63 - 1]
    wanted = [(times[0], times[1] + 5, 2, 2), (times[2], None, 2, 2)]
    assert picked(offline(batch(times)), *FINAL) == wanted
    kw = sessions()
    kw.push(batch(times))
    assert picked(kw.push(batch([]), watermark=2**63 - 1), *FINAL) == wanted[:1]
    kw.check_invariants()
    assert picked(kw.flush(), *FINAL) == wanted[1:]


def test_gaps_beyond_the_times():
    assert picked(offline(batch([-(2**62), 2**62 - 1]), gap=2**62 - 1), "n") == [(1,), (1,)]
    assert picked(offline(batch([-(2**61), 2**61 - 1]), gap=2**62 - 1), "n") == [(2,)]


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap": None}, 'gap must be the longest time .*with per="session".*, got None'),
        ({"gap": 0}, "gap must be positive, got 0"),
        ({"gap": -3}, "gap must be positive, got -3"),
        ({"gap": "5 minutes"}, "gap must be an int because the times are ints"),
        ({"windows": [5]}, r'windows must be left out with per="session", got \[5\]'),
        ({"every": 5}, 'every must be left out with per="session", got 5'),
        ({"closed": "left"}, 'closed must be left out with per="session"'),
        ({"offset": 1}, 'offset must be left out with per="session"'),
        ({"resolution": 1}, 'resolution must be left out with per="session"'),
        ({"carry": ["x"]}, 'carry must be left out with per="session"'),
        ({"emit": "arrival"}, "emit must be 'final' or 'update' with per=\"session\", got 'arrival'"),
        ({"per": "row"}, 'per must be "event" or "session", got .row.'),
        ({"per": "event", "windows": [5]}, 'gap must be left out without per="session", got 5'),
    ],
    ids=str,
)
def test_arguments_that_are_refused(options, message):
    with pytest.raises(SashError, match=message) as raised:
        sessions(**options).push(batch([0]))
    assert raised.value.argument in (*options, "gap")


def test_questions_are_refused():
    with pytest.raises(ArgumentError, match='at must be left out with per="session"'):
        offline(batch([0]), at=batch([0]))
    kw = sessions()
    kw.push(batch([0]))
    for ask in (lambda: kw.now({"k": "a"}), lambda: kw.query(batch([0])), lambda: kw.drop_before(3)):
        with pytest.raises(UnsupportedError, match='per="session"'):
            ask()
    with pytest.raises(SashError, match="emit"):
        kw.event({"k": "a", "t": 1, "x": 1})


def test_python_aggregates_of_streams_are_refused():
    own = Monoid(identity=0, combine=max, column="x", name="own")
    with pytest.raises(ArgumentError, match=r"top is .*own.* runs in Python") as raised:
        sessions(aggs={"top": own}).push(batch([0]))
    assert raised.value.column == "top"


def test_bytes_of_others_are_no_sessions():
    other = KeyedWindows(keys=["k"], time="t", windows=[5], aggs={"n": monoids.count()}, emit="final")
    other.push(batch([0]))
    data = other.to_bytes()
    assert KeyedWindows.from_bytes(data).spec.gap is None
    assert "per" not in other.spec.words()
    with pytest.raises(CorruptStateError):
        KeyedWindows.from_bytes(data[:-1])
