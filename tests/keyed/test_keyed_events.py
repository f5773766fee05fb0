"""KeyedWindows with per="event": identity, retraction, nulls, retention, errors and state, as exact rows."""

import itertools
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sash import ArgumentError, KeyedWindows, KindError, Monoid, SashError, monoids
from support.keyed_batches import NOTHING, batch, engine, marked, picked

# --- identity and retraction ----------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2]], ids=str)
def test_a_delete_wins_whichever_came_first(cuts):
    """A delete cancels every insert of its identity, before and after it, in one batch or several."""
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0], [2, 0, 1]):
        rows = [[(5, 1, 7, False), (5, 1, 7, True), (6, 2, 8, False)][at] for at in order]
        kw = engine(emit="final", lateness=100, retract="gone", id="i")
        edges = [0, *cuts, 3]
        for start, stop in itertools.pairwise(edges):
            kw.push(marked(rows[start:stop]))
        assert picked(kw.flush(), "t", "i", "n_10", "total_10") == [(6, 8, 1, 2)]


def test_identity_is_key_time_and_id():
    """A delete of the same id at another time or under another key does nothing to it."""
    kw = engine(emit="final", lateness=100, retract="gone", id="i")
    gone, ids = pa.array([False, True, True]), pa.array([7, 7, 7])
    kw.push(batch([5, 6, 5], [1, 1, 1], ["a", "a", "b"], gone=gone, i=ids))
    assert picked(kw.flush(), "k", "t", "n_10") == [("a", 5, 1)]


def test_a_correction_is_a_delete_and_a_new_id():
    """The old event goes and the new one counts."""
    kw = engine(emit="final", lateness=100, retract="gone", id="i")
    kw.push(marked([(5, 1, 1, False)]))
    kw.push(marked([(5, 1, 1, True), (5, 9, 2, False)]))
    assert picked(kw.flush(), "t", "i", "total_10") == [(5, 2, 9)]


def test_a_tombstone_outlives_its_batch_and_not_the_horizon():
    """An insert that comes after its delete is ignored; one that comes after the horizon is late."""
    kw = engine(emit="final", lateness=10, retract="gone", id="i")
    kw.push(marked([(5, 1, 1, True)]))
    kw.push(marked([(15, 1, 2, False)]))
    kw.push(marked([(5, 1, 1, False)]))
    assert kw.metrics["late"] == 0
    kw.push(marked([(16, 1, 3, False)]))
    kw.push(marked([(5, 1, 1, False)]))
    assert kw.metrics["late"] == 1
    assert picked(kw.flush(), "t", "n_10") == [(15, 1), (16, 2)]


def test_late_deletes_change_nothing():
    """A delete before the horizon is late like any row."""
    kw = engine(emit="final", retract="gone", id="i")
    kw.push(marked([(5, 1, 1, False), (9, 2, 2, False)]))
    assert picked(kw.push(marked([(5, 1, 1, True)])), "t", "total_10") == [(5, 1)]
    assert kw.metrics["late"] == 1
    assert picked(kw.flush(), "t", "total_10") == [(9, 3)]


def test_a_repeated_insert_counts_once():
    """With an id the first insert of an identity stays, retractions or not, and "arrival" does not repeat it."""
    ids = pa.array([1, 1, 2])
    kw = engine(lateness=100, id="i")
    assert picked(kw.push(batch([5, 5, 5], [1, 50, 2], i=ids)), "i", "x", "total_10") == [(1, 1, 3), (2, 2, 3)]
    again = kw.push(batch([5, 6], [70, 4], i=pa.array([1, 3])))
    assert picked(again, "i", "x", "n_10", "total_10") == [(3, 4, 3, 7)]


@pytest.mark.parametrize("ids", [[1, 2, 3], [3, 1, 2]], ids=str)
def test_events_at_one_time_stand_in_the_order_of_their_ids(ids):
    """Ids order by their own value, so that the order of arrival does not matter."""
    aggs = {"old": monoids.first("x"), "new": monoids.last("x"), "f": monoids.affine("x", "y")}
    x = dict(zip(sorted(ids), [2, 3, 5], strict=True))
    for order in (ids, ids[::-1], sorted(ids)):
        kw = engine(id="i", aggs=aggs)
        out = kw.push(batch([5] * 3, [x[i] for i in order], i=pa.array(order), y=pa.array([x[i] for i in order])))
        assert out["old_10"].to_pylist() == [2] * 3
        assert out["new_10"].to_pylist() == [5] * 3
        assert {pair(value) for value in out["f_10"].to_pylist()} == {(30.0, 2 * 15.0 + 3 * 5.0 + 5.0)}


def pair(value: Any) -> Any:
    return tuple(value.values() if isinstance(value, dict) else value)


def test_a_delete_without_id_removes_one_equal_event():
    """Equal in key, time and all aggregated columns; of several such events one goes."""
    kw = engine(emit="final", lateness=100, retract="gone")
    kw.push(batch([5, 5, 5], [1, 1, 2], gone=pa.array([False] * 3)))
    kw.push(batch([5], [1], gone=pa.array([True])))
    assert picked(kw.flush(), "t", "n_10", "total_10") == [(5, 2, 3), (5, 2, 3)]


@pytest.mark.parametrize(("t", "x", "k"), [(6, 1, "a"), (5, 2, "a"), (5, 1, "b"), (5, None, "a"), (5, 1, None)])
def test_a_delete_that_finds_nothing_is_counted(t, x, k):
    """Where no event is equal nothing goes, and the delete is counted as unmatched."""
    kw = engine(emit="final", lateness=100, retract="gone")
    kw.push(batch([5], [1], gone=pa.array([False])))
    kw.push(batch([t], [x], [k], gone=pa.array([True])))
    assert kw.metrics["unmatched"] == 1
    assert picked(kw.flush(), "t", "n_10") == [(5, 1)]


def test_nulls_are_equal_to_a_delete_without_id():
    """A null in an aggregated column matches a null."""
    kw = engine(emit="final", lateness=100, retract="gone")
    kw.push(batch([5, 5], [None, 3], gone=pa.array([False, False])))
    kw.push(batch([5], [None], gone=pa.array([True])))
    assert picked(kw.flush(), "t", "n_10", "total_10") == [(5, 1, 3)]


def test_retractions_give_no_row_on_arrival():
    """In "arrival" a delete gives no row, and an event that its own batch deletes gives none."""
    kw = engine(lateness=100, retract="gone", id="i")
    kw.push(marked([(5, 1, 1, False)]))
    out = kw.push(marked([(5, 1, 1, True), (6, 2, 2, False), (7, 4, 3, False), (7, 4, 3, True)]))
    assert picked(out, "t", "i", "n_10", "total_10") == [(6, 2, 1, 2)]


def test_a_null_mark_is_no_delete():
    """A null in the column that marks deletes is not true."""
    kw = engine(retract="gone", id="i")
    assert kw.push(marked([(5, 1, 1, None)]))["n_10"].to_pylist() == [1]


# --- nulls ----------------------------------------------------------------------------------------


def test_null_keys_are_a_key():
    """Rows without a key are a group of their own."""
    out = engine().push(batch([1, 2, 3], [1, 2, 4], [None, "a", None]))
    assert picked(out, "k", "total_10") == [(None, 1), ("a", 2), (None, 5)]


def test_keys_of_several_columns():
    """Any combination of int, string, bool, date, timestamp and decimal columns, each with nulls, is a key."""
    values: dict[str, list[Any]] = {
        "i": [1, 2, None],
        "s": ["", "x", None],
        "b": [True, False, None],
        "d": [date(2026, 1, 1), date(1969, 1, 1), None],
        "w": [datetime(2026, 1, 1), datetime(1960, 1, 1), None],
        "m": [Decimal("1.00"), Decimal("-1.00"), None],
    }
    rows = [{name: column[0] for name, column in values.items()}]
    rows += [rows[0] | {name: value} for name, column in values.items() for value in column[1:]]
    rows += [dict.fromkeys(values)]
    table = pa.Table.from_pylist(rows)
    table = table.append_column("t", pa.array(range(len(rows)))).append_column("x", pa.array(range(len(rows))))
    kw = engine(keys=list(values), windows=[1000], lateness=1000)
    first = kw.push(table)
    assert first["n_1000"].to_pylist() == [1] * len(rows)
    assert first.select(list(values)).equals(table.select(list(values)))
    second = kw.push(table.take(list(reversed(range(len(rows))))))
    assert second["n_1000"].to_pylist() == [2] * len(rows)
    assert kw.metrics["live_keys"] == len(rows)


def test_strings_that_run_together_are_different_keys():
    """Two key columns do not melt into one."""
    table = pa.table({"k": ["ab", "a", ""], "j": ["c", "bc", "abc"], "t": [1, 1, 1], "x": [1, 1, 1]})
    assert engine(keys=["k", "j"]).push(table)["n_10"].to_pylist() == [1, 1, 1]


def test_dictionary_columns_are_keys():
    """A dictionary column is the key of its values, also where batches number them differently."""
    kw = engine(lateness=100)
    for words in (["a", "b"], ["b", "a"]):
        codes = pa.array(words).dictionary_encode()
        out = kw.push(pa.table({"k": codes, "t": [1, 2], "x": [1, 1]}))
        assert out["k"].to_pylist() == words
    assert out["n_10"].to_pylist() == [1, 2]


def test_null_times_are_bad_rows():
    """A row without a time is dropped and counted, in every mode, and is not late."""
    for emit in ("arrival", "final", "update"):
        kw = engine(emit=emit, late="emit")
        out = kw.push(batch([1, None, 3]))
        out = kw.flush() if emit == "final" else out
        assert out["t"].to_pylist() == [1, 3]
        assert (kw.metrics["bad_times"], kw.metrics["late"], kw.metrics["rows_in"]) == (1, 0, 3)


def test_nulls_in_values_as_in_sql():
    """Nulls are passed over; a window of none but nulls gives null, count gives how many there are."""
    aggs = {"rows": monoids.count(), "n": monoids.count("x"), "s": monoids.sum("x"), "top": monoids.max("x")}
    aggs |= {"new": monoids.last("x"), "mean": monoids.mean("x")}
    out = engine(aggs=aggs).push(batch([1, 2, 3], [None, 5, None]))
    names = [f"{name}_10" for name in aggs]
    assert picked(out, *names) == [(1, 0, None, None, None, None), (2, 1, 5, 5, 5, 5.0), (3, 1, 5, 5, 5, 5.0)]


# --- windows and retention ------------------------------------------------------------------------


def test_closed():
    """Closed on the right (t - size, t], on the left [t - size, t); events at one time see each other or none."""
    times = [0, 1, 10, 10, 11]
    assert engine().push(batch(times))["n_10"].to_pylist() == [1, 2, 3, 3, 3]
    assert engine(closed="left").push(batch(times))["n_10"].to_pylist() == [0, 1, 2, 2, 3]


@pytest.mark.parametrize("emit", ["arrival", "final"])
def test_what_an_anchor_at_the_horizon_sees_is_kept(emit):
    """An anchor exactly at H sees its whole window; closed on the left that holds H - size itself."""
    for closed, seen in (("right", 2), ("left", 2)):
        kw = engine(emit=emit, closed=closed)
        kw.push(batch([0, 1]))
        kw.push(NOTHING, watermark=10)
        out = kw.push(batch([10]), watermark=10)
        out = kw.flush() if emit == "final" else out
        assert picked(out, "t", "n_10")[-1] == (10, seen)


def test_memory_follows_the_windows():
    """Rows up to H - max(size) are gone, and so are keys without rows."""
    kw = engine(windows=[5, 10], emit="arrival")
    kw.push(batch([1, 2, 3], k=["a", "b", "b"]))
    assert (kw.metrics["live_rows"], kw.metrics["live_keys"]) == (3, 2)
    kw.push(NOTHING, watermark=11)
    assert (kw.metrics["live_rows"], kw.metrics["live_keys"]) == (2, 1)
    kw.push(NOTHING, watermark=10**6)
    assert (kw.metrics["live_rows"], kw.metrics["live_keys"]) == (0, 0)
    assert kw.push(batch([10**6], k=["b"]))["n_10"].to_pylist() == [1]


def test_drop_before():
    """Rows before a horizon can be dropped by hand."""
    kw = engine(lateness=1000)
    kw.push(batch([1, 500], k=["a", "b"]))
    kw.drop_before(400)
    assert (kw.metrics["live_rows"], kw.metrics["live_keys"]) == (1, 1)
    assert kw.push(batch([505], k=["b"]))["n_10"].to_pylist() == [2]


def test_metrics_are_ints():
    """Every counter is there from the start."""
    wanted = {"rows_in", "bad_times", "late", "emitted", "revised", "deleted", "overflows", "live_keys", "live_rows"}
    kw = engine()
    assert wanted <= set(kw.metrics)
    assert {type(kw.metrics[name]) for name in wanted} == {int}
    kw.push(batch([1, 2]))
    assert (kw.metrics["rows_in"], kw.metrics["emitted"]) == (2, 2)


def test_metrics_of_update():
    """Rows that came again and rows that were deleted are counted."""
    kw = engine(emit="update", lateness=100, retract="gone", id="i")
    kw.push(marked([(5, 1, 1, False), (6, 2, 2, False)]))
    assert (kw.metrics["revised"], kw.metrics["deleted"]) == (0, 0)
    kw.push(marked([(5, 1, 1, True)]))
    assert (kw.metrics["revised"], kw.metrics["deleted"]) == (1, 1)


def test_a_large_window_of_one_key():
    """One key of many events, most of them late within lateness, is a tree and answers like one."""
    n = 5000
    times = [(i * 7919) % n for i in range(n)]
    kw = engine(lateness=n, windows=[100, 3000], aggs={"n": monoids.count(), "new": monoids.last("x")})
    got = {}
    for start in range(0, n, 500):
        out = kw.push(batch(times[start : start + 500], times[start : start + 500]))
        got |= {t: (small, large) for t, small, large in picked(out, "t", "new_100", "new_3000")}
    assert got == {t: (t, t) for t in times}
    out = kw.push(batch([n]))
    assert picked(out, "n_100", "n_3000") == [(100, 3000)]


# --- errors in results ----------------------------------------------------------------------------


def test_a_sum_that_does_not_fit_is_null_and_counted():
    """An overflow gives null and a counter, and heals when the window moves on; on_error="raise" raises."""
    big = 2**63 - 1
    kw = engine()
    assert kw.push(batch([1, 2, 11], [big, 1, -5]))["total_10"].to_pylist() == [big, None, -4]
    assert kw.metrics["overflows"] == 1
    with pytest.raises(SashError):
        engine(on_error="raise").push(batch([1, 2], [big, 1]))


def longest(a: str, b: str) -> str:
    return b if len(b) > len(a) else a


def saturating(a: int, b: int) -> int:
    return min(a + b, 100)


def test_a_compiled_monoid():
    """A user's own operator over numbers runs as machine code."""
    own = Monoid.compiled(identity=0, combine=saturating, column="x", commutative=True)
    out = engine(aggs={"s": own}).push(batch([1, 2, 3, 20], [5, 50, 60, 7]))
    assert out["s_10"].to_pylist() == [5, 55, 100, 7]


# --- state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("emit", ["arrival", "final", "update"])
def test_state_goes_on_where_it_was(emit):
    """An engine from bytes gives what the first would have given, its counters included."""
    options = {"emit": emit, "lateness": 10, "retract": "gone", "id": "i", "late": "emit"}
    options["aggs"] = {"n": monoids.count(), "new": monoids.last("x"), "f": monoids.affine("x", "x")}
    one = engine(**options)
    one.push(marked([(5, 1, 1, False), (9, 2, 2, False), (7, 3, 3, True)]))
    two = KeyedWindows.from_bytes(one.to_bytes())
    assert two.metrics == one.metrics
    for rows in ([(7, 3, 3, False), (9, 2, 2, True)], [(12, 4, 4, False)], [(30, 1, 5, False)], [(2, 1, 6, False)]):
        assert two.push(marked(rows)).equals(one.push(marked(rows)))
    assert two.flush().equals(one.flush())
    assert two.metrics == one.metrics


def test_state_keeps_the_zone():
    """The time column's type outlives the bytes."""
    kind = pa.timestamp("ns", "Europe/Berlin")
    table = pa.table({"k": ["a"], "t": pa.array([10**18], kind), "x": [1]})
    kw = engine(windows=["1h"], lateness="0s", emit="final")
    kw.push(table)
    out = KeyedWindows.from_bytes(kw.to_bytes()).flush()
    assert out.schema.field("t").type == kind
    assert out["t"].combine_chunks().equals(table["t"].combine_chunks())


@pytest.mark.parametrize("data", [b"", b"nothing", b"\x00" * 100], ids=["none", "other", "zeros"])
def test_bytes_of_something_else_are_refused(data):
    """Bytes that are no engine's raise an error of ours."""
    with pytest.raises(SashError):
        KeyedWindows.from_bytes(data)


def test_bytes_that_were_cut_are_refused():
    """A state that lost its end, or has one byte wrong at its beginning, raises an error of ours."""
    kw = engine()
    kw.push(batch([1, 2, 3], k=["a", "b", None]))
    data = kw.to_bytes()
    for stop in range(0, len(data), max(1, len(data) // 40)):
        with pytest.raises(SashError):
            KeyedWindows.from_bytes(data[:stop])


def test_a_batch_of_another_shape_is_refused():
    """A column that changes its type between batches is refused, and the engine goes on."""
    kw = engine(lateness=100)
    kw.push(batch([1]))
    with pytest.raises(SashError):
        kw.push(pa.table({"k": ["a"], "t": pa.array([datetime(2026, 1, 1)]), "x": [1]}))
    with pytest.raises(SashError):
        kw.push(pa.table({"k": ["a"], "t": [1], "x": ["word"]}))
    assert kw.push(batch([2]))["n_10"].to_pylist() == [2]


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_a_batch_in_another_unit(unit):
    """A batch whose timestamps have another unit is converted without loss or refused, and never misread."""
    kw = engine(windows=["1h"], lateness="1d")
    instant = [datetime(2026, 1, 1)]
    for kind, seen in (("us", 1), (unit, 2)):
        try:
            out = kw.push(pa.table({"k": ["a"], "t": pa.array(instant, pa.timestamp(kind)), "x": [1]}))
        except SashError:
            assert kind == unit
        else:
            assert out["n_1h"].to_pylist() == [seen]


def test_a_set_with_the_same_elements_is_not_revised() -> None:
    """However they came together."""
    kw = engine(emit="update", closed="left", windows=[12], id="i", lateness=50, aggs={"s": monoids.collect_set("y")})
    rows = {"t": [0, 7, 8, 9, 13], "y": [-1.0, 0.0, 1.0, 0.5, 0.0], "i": [1] * 5}
    kw.push({"k": ["a"] * 5, **rows})
    out = kw.push({"k": ["a"], "t": [13], "y": [9.0], "i": [2]})
    assert picked(out, "t", "i", "s_12") == [(13, 2, [0.0, 0.5, 1.0])]


def test_a_row_at_the_largest_time_is_flushed() -> None:
    """No horizon can pass it, so the end of the stream is when it is final."""
    kw = engine(emit="final")
    kw.push(batch([2**63 - 2, 2**63 - 1]))
    assert picked(kw.flush(), "t", "n_10") == [(2**63 - 2, 1), (2**63 - 1, 2)]
    assert kw.flush().num_rows == 0


@pytest.mark.parametrize("emit", ["final", "update"])
def test_a_row_at_the_largest_time_waits(emit: str) -> None:
    """The horizon may come to it, and everything before it is final: it was taken for due again and again."""
    kw = engine(emit=emit)
    kw.push(batch([2**63 - 2, 2**63 - 1]))
    kw.push(batch([2**63 - 1]))
    kw.push(batch([2**63 - 1], k=["b"]))
    kw.check_invariants()
    kw.flush()
    assert kw.metrics["live_keys"] == 0


def test_a_row_at_the_largest_time_is_due_after_it() -> None:
    """Asking when that is came to no end either."""
    kw = engine(emit="final")
    kw.push(batch([2**63 - 1]))
    assert kw._stream is not None and kw._stream.due_at() == 2**63


def test_a_watermark_must_fit_int64() -> None:
    """Like the times."""
    kw = engine()
    kw.push(batch([1]))
    with pytest.raises(ArgumentError, match="watermark must fit int64, got 9223372036854775808"):
        kw.push(batch([2]), watermark=2**63)
    assert kw.metrics["rows_in"] == 1


def test_unchanged_nulls_are_not_revised() -> None:
    """A result that was null, or too large to show, and is so again, has not changed; nor has a list."""
    null = pa.array([None], pa.int64())
    aggs = {"m": monoids.mean("x"), "s": monoids.sum("y"), "top": monoids.top_k(3, "y"), "v": monoids.std("z")}
    kw = engine(aggs=aggs, emit="update", lateness=99)
    big = pa.array([2**62, 2**62, 2**62])
    table = {"k": ["a"] * 3, "t": [1, 2, 3], "x": pa.nulls(3, pa.int64()), "y": big, "z": [0.5, float("nan"), 0.5]}
    kw.push(pa.table(table))
    again = pa.table({"k": ["a"], "t": [2], "x": null, "y": null, "z": pa.array([None], pa.float64())})
    assert picked(kw.push(again), "t", "m_10", "s_10") == [(2, None, None)]  # the new row alone
    assert kw.metrics["revised"] == 0


def test_only_what_was_emitted_before_is_revised() -> None:
    """The first emission of a result is not a revision, also where a boundary had passed without one."""
    kw = engine(emit="update", lateness=99, every=5, windows=[5])
    kw.push(batch([1, 21]))
    kw.push(batch([22]), watermark=20)
    assert kw.metrics["emitted"] == 1
    assert picked(kw.push(batch([11])), "window_end", "n_5") == [(15, 1)]
    assert (kw.metrics["emitted"], kw.metrics["revised"]) == (2, 0)
    kw.push(batch([12]))
    assert (kw.metrics["emitted"], kw.metrics["revised"]) == (3, 1)


# --- types of later batches -----------------------------------------------------------------------

LOSSLESS = {
    "ints after floats": (pa.float64(), [0.5], pa.int64(), [2], [2.5]),
    "floats after ints": (pa.int64(), [1], pa.float64(), [2.0], [3]),
    "short after long ints": (pa.int64(), [1], pa.int8(), [2], [3]),
    "nothing but nulls": (pa.int64(), [1], pa.null(), [None], [1]),
    "fewer digits": (pa.decimal128(9, 2), [Decimal("0.25")], pa.decimal128(5, 1), [Decimal(1)], [Decimal("1.25")]),
}


@pytest.mark.parametrize("case", LOSSLESS)
def test_a_later_batch_is_cast_if_nothing_is_lost(case: str) -> None:
    """The first batch has the types of the stream."""
    first, one, second, two, wanted = LOSSLESS[case]
    kw = engine(aggs={"total": monoids.sum("x")})
    kw.push(pa.table({"k": ["a"], "t": [1], "x": pa.array(one, first)}))
    out = kw.push(pa.table({"k": pa.array(["a"], pa.large_string()), "t": [2], "x": pa.array(two, second)}))
    assert (out["total_10"].to_pylist(), out["x"].type, out["k"].type) == (wanted, first, pa.string())


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_times_of_another_unit_are_cast(unit: str) -> None:
    """Also from a finer unit, as long as nothing is cut off."""
    kw = engine(windows=["10s"], lateness="1h")
    kw.push(pa.table({"k": ["a"], "t": pa.array([datetime(2024, 1, 1)], pa.timestamp("us")), "x": [1]}))
    later = pa.array([datetime(2024, 1, 1, 0, 0, 5)], pa.timestamp(unit))
    assert kw.push(pa.table({"k": ["a"], "t": later, "x": [2]}))["total_10s"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1]), pa.array([0.5])),
        (pa.array([0.5]), pa.array([2**53 + 1])),
        (pa.array([1]), pa.array(["1"])),
        (pa.array([1], pa.int8()), pa.array([300])),
        (pa.array([1]), pa.array([True])),
    ],
)
def test_a_later_batch_that_would_lose_something_is_refused(first: pa.Array, second: pa.Array) -> None:
    """The stream goes on as if it had not come."""
    kw = engine(aggs={"n": monoids.count("x")})
    kw.push(pa.table({"k": ["a"], "t": [1], "x": first}))
    with pytest.raises(KindError, match=r"batch must hold .* in the column 'x' as before") as error:
        kw.push(pa.table({"k": ["a"], "t": [2], "x": second}))
    assert (error.value.column, kw.metrics["rows_in"]) == ("x", 1)


@pytest.mark.parametrize("options", [{}, {"emit": "update"}, {"emit": "final", "carry": ["x"]}, {"retract": "gone"}])
@pytest.mark.parametrize("column", [pa.array([3]), pa.array([0.5]), pa.array([3], pa.int8())])
def test_a_column_that_was_null_takes_the_type_of_its_first_values(column: pa.Array, options: dict[str, Any]) -> None:
    """Whether one batch was all null or several were: the results are those of a stream that knew it."""
    aggs = {"total": monoids.sum("x"), "n": monoids.count(), "own": Monoid(identity=0, combine=max, column="x")}
    nulls = pa.table({"k": ["a"], "t": [1], "x": pa.nulls(1), "gone": [False]})
    values = pa.table({"k": ["a"], "t": [2], "x": column, "gone": [False]})
    one, two = engine(aggs=aggs, **options), engine(aggs=aggs, **options)
    outs = []
    for kw, kind in ((one, pa.null()), (two, column.type)):
        first = nulls.set_column(2, "x", pa.nulls(1, kind))
        outs.append([kw.push(first).num_rows, kw.push(first.set_column(1, "t", pa.array([2]))).num_rows])
        outs[-1] += [kw.push(values).to_pylist(), kw.flush().to_pylist(), kw.metrics]
        kw.check_invariants()
    assert outs[0] == outs[1]
