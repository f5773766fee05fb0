"""Streams with every=: what is late, when a boundary comes, what is kept, and panes, as exact rows."""

import itertools
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sash import ArgumentError, KeyedWindows, monoids, rolling
from sash.keyed import panes
from sash.keyed.definition import Definition
from sash.keyed.stream import Stream
from support.keyed_batches import NOTHING, batch, marked, picked, sliding

AGGS = {"n": monoids.count(), "total": monoids.sum("x")}
SINGLY = AGGS | {"new": monoids.last("x")}  # an order matters, so that events are kept one by one
NONE_MARKED = marked([(0, 0, 0, False)]).slice(0, 0)


def told(out: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    """Boundaries and values, sorted."""
    return sorted(picked(out, "window_end", *(names or ("n_10", "total_10"))))


def news(out: pa.Table) -> list[tuple[Any, ...]]:
    """What "update" said: boundary, sum, and whether it is gone."""
    return told(out, "total_10", "deleted")


# --- final ----------------------------------------------------------------------------------------


def test_a_boundary_is_final_once_the_horizon_reaches_it():
    """H >= b is enough, each boundary comes once, and the flush gives the rest."""
    kw = sliding(lateness=2)
    assert kw.push(batch([3, 12], [1, 2])).num_rows == 0
    assert told(kw.push(NOTHING, watermark=6)) == []
    assert told(kw.push(NOTHING, watermark=7)) == [(5, 1, 1)]
    assert told(kw.push(NOTHING, watermark=11)) == []
    assert told(kw.push(NOTHING, watermark=17)) == [(10, 1, 1), (15, 1, 2)]
    assert told(kw.flush()) == [(20, 1, 2)]
    assert kw.flush().num_rows == 0
    assert kw.metrics["emitted"] == 4


def test_the_newest_time_before_the_batch_is_the_watermark():
    """A batch's own times count from the next one on, however small that is."""
    kw = sliding()
    kw.push(batch([3]))
    assert told(kw.push(batch([10]))) == []
    assert told(kw.push(NOTHING)) == [(5, 1, 1), (10, 1, 1)]


def test_rows_are_judged_before_anything_becomes_final():
    """A push judges by its own watermark, so that no row comes in behind a boundary that it makes final."""
    kw = sliding(windows=[7])
    kw.push(batch([1], [1]))
    out = kw.push(batch([5, 4], [2, 4]), watermark=5)
    assert told(out, "n_7", "total_7") == [(5, 1, 1)]
    assert kw.metrics["late"] == 1
    kw = sliding(lateness=1)
    kw.push(batch([1], [1]))
    assert told(kw.push(batch([4], [4]), watermark=5)) == []
    assert told(kw.push(batch([5], [8]), watermark=6)) == [(5, 2, 5)]


def test_the_horizon_never_falls():
    """An older watermark takes nothing back."""
    kw = sliding()
    kw.push(batch([3]))
    assert told(kw.push(NOTHING, watermark=10)) == [(5, 1, 1), (10, 1, 1)]
    assert told(kw.push(batch([9, 10]), watermark=2)) == []
    assert kw.metrics["late"] == 1
    assert told(kw.flush()) == [(15, 1, 1), (20, 1, 1)]


def test_quiet_keys_become_final_too():
    """A key gets its rows though the push brings none for it."""
    kw = sliding(windows=[5])
    kw.push(batch([3, 4], k=["a", None]))
    out = kw.push(batch([20], k=["b"]), watermark=5)
    assert sorted(picked(out, "k", "window_end"), key=str) == [("a", 5), (None, 5)]


# --- late -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "size", "offset", "horizon", "times", "late"),
    [
        (5, 10, 0, 9, [4, 5], 1),
        (5, 10, 0, 10, [5, 9, 10], 2),
        (10, 15, 0, 7, [4, 5], 1),
        (10, 15, 0, 9, [5], 0),
        (4, 7, 0, 5, [4, 5], 1),
        (10, 10, 3, 12, [2, 3], 1),
        (10, 10, 3, 13, [12, 13], 1),
        (10, 10, -7, 12, [2, 3], 1),
        (5, 5, 0, -3, [-6, -5], 1),
    ],
)
@pytest.mark.parametrize("options", [{}, {"aggs": SINGLY}, {"id": "x"}, {"late": "emit"}], ids=str)
def test_late_by_the_end_of_the_pane(every, size, offset, horizon, times, late, options):
    """Panes are gcd(every, size) wide; a row is late once its pane is over, kept in panes or not."""
    kw = sliding(every=every, windows=[size], offset=offset, **options)
    kw.push(batch(times), watermark=horizon)
    assert kw.metrics["late"] == late


def test_late_rows_emitted():
    """With late="emit" late rows come flagged, with their time and id, and nulls for the window and the results."""
    kw = sliding(late="emit", id="i")
    names = ("k", "t", "i", "window_start", "window_end", "n_10", "late")
    assert kw.push(batch([3], i=pa.array([7]))).num_rows == 0
    out = kw.push(batch([4, 6, 1], i=pa.array([8, 9, 10])), watermark=5)
    assert sorted(picked(out, *names), key=str) == [
        ("a", 1, 10, None, None, None, True),
        ("a", 4, 8, None, None, None, True),
        ("a", None, None, -5, 5, 1, False),
    ]
    assert kw.metrics["late"] == 2
    assert set(kw.flush()["late"].to_pylist()) == {False}


def test_late_rows_emitted_in_update():
    """The same beside revisions."""
    kw = sliding(late="emit", emit="update")
    kw.push(batch([3]))
    out = kw.push(batch([4], [50]), watermark=5)
    assert sorted(picked(out, "t", "window_end", "total_10", "late"), key=str) == [
        (4, None, None, True),
        (None, 5, 1, False),
    ]


# --- update ---------------------------------------------------------------------------------------


def test_a_boundary_is_shown_when_the_watermark_reaches_it():
    """It is the watermark that counts, not the horizon, which is far behind."""
    kw = sliding(emit="update", lateness=100)
    assert news(kw.push(batch([3], [1]))) == []
    assert news(kw.push(NOTHING, watermark=4)) == []
    assert news(kw.push(NOTHING, watermark=5)) == [(5, 1, False)]
    assert news(kw.push(NOTHING, watermark=2)) == []
    assert news(kw.push(NOTHING, watermark=30)) == [(10, 1, False)]
    assert kw.flush().num_rows == 0


def test_a_change_behind_the_watermark_is_shown_again():
    """An event touches the boundaries in (t, t + size] that were reached, and no other."""
    kw = sliding(emit="update", lateness=100)
    kw.push(batch([1, 6, 14], [1, 2, 4]))
    first = kw.push(NOTHING, watermark=20)
    assert news(first) == [(5, 1, False), (10, 3, False), (15, 6, False), (20, 4, False)]
    second = kw.push(batch([5], [8]), watermark=20)
    assert news(second) == [(10, 11, False), (15, 14, False)]
    third = kw.push(batch([18], [16]), watermark=20)
    assert news(third) == [(20, 20, False)]
    last = kw.flush()
    assert news(last) == [(25, 16, False)]
    revisions = [table["revision"].to_pylist() for table in (first, second, third, last)]
    assert all(max(one) < min(other) for one, other in itertools.pairwise(revisions))
    assert (kw.metrics["revised"], kw.metrics["deleted"], kw.metrics["emitted"]) == (3, 0, 8)


def test_what_did_not_change_does_not_come_again():
    """A late event that leaves the values as they were is silent, in each boundary on its own."""
    kw = sliding(emit="update", lateness=100, aggs={"top": monoids.max("x")})
    kw.push(batch([1, 6], [9, 5]))
    assert told(kw.push(NOTHING, watermark=15), "top_10") == [(5, 9), (10, 9), (15, 5)]
    assert told(kw.push(batch([5], [7]), watermark=15), "top_10") == [(15, 7)]
    assert told(kw.push(batch([5], [None]), watermark=15), "top_10") == []


def test_a_boundary_that_was_passed_in_silence():
    """An event whose boundaries the watermark has passed already shows them at once, a new key's too."""
    kw = sliding(emit="update", lateness=100)
    kw.push(batch([40]))
    kw.push(NOTHING)
    out = kw.push(batch([13, 33], [4, 8], ["b", "b"]))
    assert sorted(picked(out, "k", "window_end", "total_10", "deleted")) == [
        ("b", 15, 4, False),
        ("b", 20, 4, False),
        ("b", 35, 8, False),
        ("b", 40, 8, False),
    ]


def test_many_changes_of_one_push_are_one_row():
    """Reached and changed in the same push, a boundary comes once."""
    kw = sliding(emit="update", lateness=100, windows=[5])
    kw.push(batch([1], [1]))
    assert told(kw.push(batch([2, 3, 4], [2, 4, 8]), watermark=5), "total_5") == [(5, 15)]
    assert told(kw.push(batch([2, 3, 4], [2, 4, 8]), watermark=5), "total_5") == [(5, 29)]


def test_deleted_and_shown_again():
    """A boundary whose largest window became empty is deleted, and comes back with the next event."""
    kw = sliding(emit="update", lateness=100, windows=[5, 10], retract="gone", id="i")
    kw.push(marked([(3, 1, 1, False)]))
    assert news(kw.push(NONE_MARKED, watermark=10)) == [(5, 1, False), (10, 1, False)]
    out = kw.push(marked([(3, 1, 1, True)]))
    assert told(out, "n_5", "total_5", "n_10", "total_10", "deleted") == [
        (5, None, None, None, None, True),
        (10, None, None, None, None, True),
    ]
    assert kw.metrics["deleted"] == 2
    again = kw.push(marked([(3, 1, 2, False)]))
    assert told(again, "n_5", "n_10", "total_10", "deleted") == [(5, 1, 1, 1, False), (10, 0, 1, 1, False)]
    assert min(again["revision"].to_pylist()) > max(out["revision"].to_pylist())
    assert kw.flush().num_rows == 0


def test_a_boundary_never_shown_is_never_deleted():
    """What comes and goes before the watermark gives no row."""
    kw = sliding(emit="update", lateness=100, retract="gone", id="i")
    kw.push(marked([(13, 1, 1, False)]), watermark=12)
    assert kw.push(marked([(13, 1, 1, True)]), watermark=12).num_rows == 0
    assert kw.push(NONE_MARKED, watermark=30).num_rows == 0
    assert kw.flush().num_rows == 0


def test_a_smaller_window_that_becomes_empty():
    """It counts 0 and has no sum; the row lives on with the larger one."""
    kw = sliding(emit="update", lateness=100, windows=[5, 10], retract="gone", id="i")
    kw.push(marked([(3, 1, 1, False), (7, 2, 2, False)]))
    kw.push(NONE_MARKED, watermark=10)
    out = kw.push(marked([(7, 2, 2, True)]), watermark=10)
    assert told(out, "n_5", "total_5", "n_10", "total_10", "deleted") == [(10, 0, None, 1, 1, False)]


def test_deletes_without_ids():
    """A delete takes one event that is equal in key, time and aggregated columns, not one of the same pane."""
    kw = sliding(emit="update", lateness=100, windows=[5], retract="gone")
    gone = pa.array([False] * 4)
    kw.push(batch([1, 1, 2, 3], [7, 7, 7, 8], gone=gone))
    assert told(kw.push(batch([], gone=gone[:0]), watermark=5), "n_5", "total_5") == [(5, 4, 29)]
    assert told(kw.push(batch([1, 4], [7, 7], gone=pa.array([True, True]))), "n_5", "total_5") == [(5, 3, 22)]
    assert kw.metrics["unmatched"] == 1


def test_a_tombstone_lives_as_long_as_its_pane():
    """At H = 7 an insert at 3 is still in time, for its pane ends at 10, and its delete at 3 still wins."""
    kw = sliding(every=10, retract="gone", id="i")
    kw.push(marked([(3, 1, 1, True), (4, 2, 2, False)]))
    kw.push(NONE_MARKED, watermark=7)
    kw.push(marked([(3, 1, 1, False), (3, 4, 3, False)]), watermark=7)
    assert kw.metrics["late"] == 0
    assert told(kw.flush()) == [(10, 2, 6)]


def test_a_condition_that_marks_deletes():
    """retract= may be an expression over the batch; null is not true."""
    kw = sliding(windows=[5], retract=pc.field("op") == "delete", id="i")
    ops = ["insert", "insert", None, "delete"]
    kw.push(batch([1, 2, 3, 1], [1, 2, 4, 1], i=pa.array([1, 2, 3, 1]), op=pa.array(ops)))
    assert told(kw.flush(), "n_5", "total_5") == [(5, 2, 6)]


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("emit", ["final", "update"])
@pytest.mark.parametrize(
    ("aggs", "kept"), [(SINGLY, [6, 4, 2, 2, 0]), (AGGS, [3, 2, 1, 1, 0])], ids=["events", "panes"]
)
def test_retention(emit, aggs, kept):
    """Kept is what the next boundary after H can see: at H = 12 that is 15, whose window starts at 5."""
    kw = sliding(emit=emit, aggs=aggs)
    kw.push(batch([0, 4, 5, 9, 10, 14]))
    found = [kw.metrics["live_rows"]]
    for watermark in (12, 15, 19, 20):
        kw.push(NOTHING, watermark=watermark)
        found.append(kw.metrics["live_rows"])
    assert found == kept
    assert kw.metrics["live_keys"] == 0


def test_what_lies_between_windows_is_not_kept():
    """Where windows are shorter than the way between boundaries, an event that none sees is let go of."""
    kw = sliding(every=10, windows=[3], aggs={"new": monoids.last("x")})
    kw.push(batch([3, 8]), watermark=2)
    assert kw.metrics["live_rows"] == 1
    assert told(kw.flush(), "new_3") == [(10, 1)]


def test_a_key_comes_back_after_it_was_let_go():
    """Nothing of its past is left, and it counts anew."""
    kw = sliding(windows=[5])
    kw.push(batch([1], [50]))
    kw.push(NOTHING, watermark=1000)
    assert (kw.metrics["live_rows"], kw.metrics["live_keys"]) == (0, 0)
    kw.push(batch([1001], [2]))
    assert told(kw.flush(), "total_5") == [(1005, 2)]


def test_drop_before():
    """Rows before a time can be dropped by hand; windows answer as if they had never been."""
    kw = sliding(lateness=1000)
    kw.push(batch([1, 6, 12], [1, 2, 4]))
    kw.drop_before(5)
    assert told(kw.flush()) == [(10, 1, 2), (15, 2, 6), (20, 1, 4)]


# --- panes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "live"),
    [
        ({}, 6),
        ({"offset": 1}, 8),
        ({"resolution": 10}, 4),
        ({"emit": "update"}, 6),
        ({"aggs": SINGLY}, 40),
        ({"id": "i"}, 40),
        ({"retract": "gone"}, 40),
        ({"late": "emit"}, 40),
    ],
    ids=str,
)
def test_events_are_kept_in_panes_where_that_is_exact(options, live):
    """Windows of 15 at every 10 need one entry per key and 5 units; order, ids and deletes need the events."""
    times = [*range(-5, 10), *range(5)]
    table = batch(times * 2, list(range(40)), ["a"] * 20 + ["b"] * 20)
    more = table.append_column("i", pa.array(range(40))).append_column("gone", pa.array([False] * 40))
    kw = sliding(**({"every": 10, "windows": [15]} | options))
    kw.push(more)
    assert (kw.metrics["rows_in"], kw.metrics["live_rows"], kw.metrics["live_keys"]) == (40, live, 2)


def test_panes_change_no_answer():
    """The same stream with an aggregate that needs order gives the same counts, sums and extremes."""
    aggs = AGGS | {"top": monoids.max("x"), "low": monoids.min("x"), "mean": monoids.mean("x")}
    out = []
    for more in ({}, {"old": monoids.first("x")}):
        kw = sliding(every=6, windows=[4, 10], offset=1, aggs=aggs | more, lateness=5)
        tables = [kw.push(batch([(i * 7) % 40 for i in range(at, at + 9)], list(range(9)))) for at in range(0, 45, 9)]
        tables.append(kw.flush())
        names = [f"{agg}_{size}" for agg in aggs for size in (4, 10)]
        out.append(sorted(row for table in tables for row in picked(table, "window_end", *names)))
        assert kw.metrics["late"] > 0
    assert out[0] == out[1] and len(out[0]) > 5


# --- resolution -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "resolution", "offset", "wanted"),
    [
        (9, None, 0, [10, 20]),
        (9, 5, 0, [10, 20]),
        (9, 10, 0, [10]),
        (-1, 10, 0, [0]),
        (12, None, 3, [13, 23]),
        (12, 10, 3, [13]),
    ],
)
def test_resolution_rounds_down(time, resolution, offset, wanted):
    """An event counts as if it were at the start of its pane; a resolution that divides all changes nothing."""
    asked: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": [15], "aggs": AGGS, "every": 10, "offset": offset}
    out = rolling(batch([time]), **asked, **({} if resolution is None else {"resolution": resolution}))
    assert out["window_end"].to_pylist() == wanted


def test_a_resolution_across_boundaries_is_refused():
    """A pane that a boundary cuts would change what is final already."""
    with pytest.raises(ArgumentError, match="resolution must divide every=10, got 7"):
        rolling(batch([1]), keys=["k"], time="t", windows=[15], aggs=AGGS, every=10, resolution=7)


def test_resolution_decides_what_is_late():
    """With panes of 10 instead of 5 an event at 4 is in time at H = 7; at H = 10 it is late."""
    kw = sliding(every=10, windows=[15], resolution=10)
    kw.push(batch([4], [1]), watermark=7)
    kw.push(batch([9], [2]), watermark=9)
    out = kw.push(batch([4], [4]), watermark=10)
    assert kw.metrics["late"] == 1
    assert told(out, "total_15") == [(10, 3)]
    assert kw.flush().num_rows == 0


def test_events_of_one_pane_are_as_of_one_time():
    """At a resolution they stand in the order of arrival, for an aggregate that needs one."""
    kw = sliding(windows=[5], resolution=5, aggs={"old": monoids.first("x"), "new": monoids.last("x")})
    kw.push(batch([4, 2, 3], [1, 2, 3]))
    assert told(kw.flush(), "old_5", "new_5") == [(5, 1, 3)]


@pytest.mark.parametrize(
    ("resolution", "said"), [(None, None), ("5 minutes", b"5minutes"), (timedelta(minutes=5), b"5m")], ids=str
)
def test_the_schema_says_the_resolution(resolution, said):
    """Every table of results carries it in its metadata, and none does where none was asked for."""
    table = pa.table({"k": ["a"], "t": pa.array([datetime(2026, 1, 1)]), "x": [1]})
    asked: dict[str, Any] = {"windows": ["10m"], "every": "10m"}
    asked |= {} if resolution is None else {"resolution": resolution}
    kw = sliding(lateness="0s", **asked)
    offline = rolling(table, keys=["k"], time="t", aggs=AGGS, **asked)
    for out in (offline, kw.push(table), kw.push(table[:0], watermark=datetime(2026, 1, 2)), kw.flush()):
        assert (out.schema.metadata or {}).get(b"sash.resolution") == said


def test_the_schema_says_a_number():
    """Where times are integers so is the resolution."""
    kw = sliding(resolution=5)
    assert kw.push(batch([1])).schema.metadata[b"sash.resolution"] == b"5"


# --- state ----------------------------------------------------------------------------------------

STREAM = [
    [(5, 1, 1, False), (9, 2, 2, False), (17, 3, 3, True)],
    [(17, 3, 3, False), (9, 2, 2, True), (1, 7, 9, False)],
    [(22, 4, 4, False)],
    [(30, 1, 5, False), (12, 8, 6, False)],
    [(2, 1, 7, False)],
]


@pytest.mark.parametrize("at", range(len(STREAM)))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"offset": -3, "windows": [4, 10]},
        {"aggs": SINGLY},
        {"emit": "update"},
        {"emit": "update", "retract": "gone", "id": "i", "late": "emit"},
        {"resolution": 5, "windows": [7]},
    ],
    ids=str,
)
def test_state_goes_on_where_it_was(options, at):
    """An engine from bytes gives what the first would have given, its counters and its schemas included."""
    one = sliding(lateness=10, **options)
    for rows in STREAM[:at]:
        one.push(marked(rows))
    two = KeyedWindows.from_bytes(one.to_bytes())
    assert two.metrics == one.metrics
    for rows in STREAM[at:]:
        assert alike(two.push(marked(rows)), one.push(marked(rows)))
    assert alike(two.flush(), one.flush())
    assert two.metrics == one.metrics


def alike(one: pa.Table, other: pa.Table) -> bool:
    ours, theirs = (sorted(map(str, table.to_pylist())) for table in (one, other))
    return ours == theirs and one.schema.equals(other.schema, check_metadata=True)


@pytest.mark.parametrize("options", [{}, {"resolution": 5}, {"late": "emit"}])
def test_dropping_rows_keeps_the_pane_that_the_time_is_in(options: dict[str, Any]) -> None:
    """Rows of a pane are one record, or count as its start: none that is not before the time goes."""
    kw = sliding(**options)
    kw.push(batch([24, 30, 34]))
    kw.drop_before(31)
    kept = 1 if options.get("late") else 2
    assert picked(kw.flush(), "window_end", "n_10") == [(35, kept), (40, kept)]


@pytest.mark.parametrize("name", ["record", "value", "seq", "ticks", "bucket", "rows", "data", "key", "time"])
def test_columns_may_have_any_name(name: str) -> None:
    """Keys and times of panes that are combined elsewhere, and of a stream and its bytes."""
    for keys, time in (([name], "t"), (["k"], name)):
        table = batch([3, 4, 12]).rename_columns([keys[0], time, "x"])
        kw = sliding(keys=keys, time=time)
        kw.push(table)
        rows = KeyedWindows.from_bytes(kw.to_bytes()).flush()
        spec, definition = kw.spec, Definition.of(kw.spec, table)
        stream = Stream.of(spec, table, panes=True)
        partials = panes.merged(definition, spec, panes.partials_of(definition, spec, table))
        stream.step(partials, None)
        assert stream.flush().rows.to_pylist() == rows.to_pylist() == kw.flush().to_pylist() != []
