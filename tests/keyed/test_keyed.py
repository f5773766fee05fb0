"""KeyedWindows with per="event": batches, times, the horizon and the three ways to emit, as exact rows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import KeyedWindows, SashError, monoids
from support.keyed_batches import NOTHING, batch, engine, picked

START = datetime(2026, 3, 29, 0, 30)

# --- batches and times ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: table.to_pandas(),
        pl.from_arrow,
        lambda table: table.to_pydict(),
        lambda table: pa.concat_tables([table.slice(0, 1), table.slice(1)]),
    ],
    ids=["table", "record batch", "pandas", "polars", "dict", "chunks"],
)
def test_a_batch_is_a_table_of_any_kind(given):
    """Arrow, pandas, polars and a dict of columns give the same Arrow table."""
    out = engine().push(given(batch([1, 5, 3], [10, 20, 30], ["a", "b", "a"])))
    assert isinstance(out, pa.Table)
    assert picked(out, "k", "t", "x", "n_10", "total_10") == [
        ("a", 1, 10, 1, 10),
        ("b", 5, 20, 1, 20),
        ("a", 3, 30, 2, 40),
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+02:00"])
@pytest.mark.parametrize("emit", ["arrival", "final", "update"])
def test_time_comes_back_as_given(unit, zone, emit):
    """The time column keeps its unit and its zone, over a change of clocks too; sizes are durations."""
    kind = pa.timestamp(unit, zone)
    instants = [START, START + timedelta(hours=1), START + timedelta(hours=2)]
    times = pa.array([i.replace(tzinfo=UTC) if zone else i for i in instants], kind)
    kw = engine(emit=emit, windows=["2h"], lateness="2 hours")
    out = kw.push(pa.table({"k": ["a"] * 3, "t": times, "x": [1, 2, 4]}))
    if emit == "final":
        assert out.num_rows == 0
        assert out.schema.field("t").type == kind
        out = kw.flush()
    assert out.schema.field("t").type == kind
    assert out["t"].combine_chunks().equals(times)
    assert out["total_2h"].to_pylist() == [1, 3, 6]


def test_pandas_and_polars_zones():
    """Zones come through pandas and polars."""
    times = pd.date_range("2026-01-01", periods=2, freq="30min", tz="Europe/Berlin")
    frame = pd.DataFrame({"k": ["a", "a"], "t": times, "x": [1, 2]})
    for given in (frame, pl.from_pandas(frame)):
        out = engine(windows=["1h"], lateness="0s").push(given)
        assert out.schema.field("t").type.tz == "Europe/Berlin"
        assert out["total_1h"].to_pylist() == [1, 3]


def test_nanoseconds_are_not_rounded():
    """Two events a nanosecond apart fall into different windows of one second."""
    second = 10**9
    times = pa.array([0, second - 1, second], pa.timestamp("ns"))
    out = engine(windows=["1s"], lateness="0s").push(pa.table({"k": ["a"] * 3, "t": times, "x": [1, 2, 4]}))
    assert out["total_1s"].to_pylist() == [1, 3, 6]


def test_times_need_not_be_positive():
    """Integers below zero are times, and a window may reach past the smallest int64."""
    low = -(2**63)
    assert engine().push(batch([low, low + 5, -3, 4]))["n_10"].to_pylist() == [1, 2, 1, 2]
    high = 2**63 - 1
    assert engine().push(batch([high, high - 5]))["n_10"].to_pylist() == [2, 1]


@pytest.mark.parametrize(
    "column", [pa.array([1.5]), pa.array(["2026-01-01"]), pa.array([True])], ids=["float", "string", "bool"]
)
def test_other_times_are_refused(column):
    """A time column of another type is refused with its name."""
    with pytest.raises(SashError, match="t"):
        engine().push(pa.table({"k": ["a"], "t": column, "x": [1]}))


def test_sizes_must_fit_the_times():
    """A duration over integer times, or a number over timestamps, is refused."""
    with pytest.raises(SashError):
        engine(windows=["1h"], lateness="0s").push(batch([1]))
    with pytest.raises(SashError):
        engine(windows=[10]).push(pa.table({"k": ["a"], "t": pa.array([START]), "x": [1]}))


# --- names of the results -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "name"),
    [
        ("1h", "n_1h"),
        ("15 minutes", "n_15minutes"),
        ("90s", "n_90s"),
        ("7d", "n_7d"),
        (timedelta(hours=1), "n_1h"),
        (timedelta(days=7), "n_7d"),
        (timedelta(seconds=90), "n_90s"),
    ],
)
def test_names_of_windows(window, name):
    """A window is named as it was written, without spaces; a timedelta in its shortest form."""
    kw = engine(windows=[window], lateness="0s", aggs={"n": monoids.count()})
    out = kw.push(pa.table({"k": ["a"], "t": pa.array([START])}))
    assert out.column_names == ["k", "t", name]


def test_every_aggregate_has_every_window():
    """One result column per aggregate and window."""
    out = engine(windows=[10, 100]).push(batch([1, 50, 55]))
    assert set(out.column_names) == {"k", "t", "x", "n_10", "total_10", "n_100", "total_100"}
    assert picked(out, "n_10", "n_100") == [(1, 1), (1, 2), (2, 3)]


def test_types_of_results():
    """Counts and sums of integers are int64, of floats float64; first and last keep integers; nulls stay nulls."""
    aggs = {"n": monoids.count(), "s": monoids.sum("x"), "f": monoids.sum("y"), "l": monoids.last("x")}
    out = engine(aggs=aggs | {"m": monoids.mean("x")}).push(batch([1], y=pa.array([0.5])))
    kinds = [out.schema.field(f"{name}_10").type for name in ("n", "s", "f", "l", "m")]
    assert kinds == [pa.int64(), pa.int64(), pa.float64(), pa.int64(), pa.float64()]


@pytest.mark.parametrize(
    "options",
    [
        {"windows": ["1 month"]},
        {"windows": ["1y"]},
        {"windows": ["soon"]},
        {"windows": [0]},
        {"windows": [-5]},
        {"windows": []},
        {"windows": [timedelta(0)]},
        {"aggs": {}},
        {"aggs": {"n": 7}},
        {"emit": "sometimes"},
        {"late": "keep"},
        {"closed": "inner"},
        {"on_error": "ignore"},
        {"lateness": -1},
        {"keys": "k", "time": 7},
        {"windows": ["1h", "1 h"]},
    ],
    ids=str,
)
def test_what_is_refused(options):
    """A wrong argument is refused with a sentence, at the latest by the first batch."""
    durations = any(isinstance(size, (str, timedelta)) for size in options.get("windows", []))
    times = pa.array([START]) if durations else pa.array([1])
    with pytest.raises(SashError) as error:
        engine(**({"lateness": "0s"} if durations else {}), **options).push({"k": ["a"], "t": times, "x": [1]})
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("missing", ["k", "t", "x"])
def test_a_missing_column_is_named(missing):
    """A batch without a column that is needed is refused, and nothing of it is taken."""
    kw = engine()
    with pytest.raises(SashError, match=missing):
        kw.push(batch([1]).drop_columns([missing]))
    assert kw.push(batch([2]))["n_10"].to_pylist() == [1]


# --- the horizon ----------------------------------------------------------------------------------


def test_nothing_is_late_at_first():
    """Before the first watermark every row is accepted, whatever the order."""
    kw = engine()
    assert kw.push(batch([100, 1, 50])).num_rows == 3
    assert kw.metrics["late"] == 0


def test_the_newest_time_before_the_batch_is_the_watermark():
    """A batch's own times do not make its own rows late; the next batch's they do."""
    kw = engine(lateness=5)
    kw.push(batch([100]))
    assert kw.push(batch([200, 95, 94]))["t"].to_pylist() == [200, 95]
    assert kw.push(batch([195, 194]))["t"].to_pylist() == [195]
    assert kw.metrics["late"] == 2


def test_an_empty_batch_moves_the_watermark():
    """Without an argument the newest time before the batch counts, however small the batch."""
    kw = engine(emit="final")
    assert kw.push(batch([1, 5])).num_rows == 0
    assert kw.push(NOTHING)["t"].to_pylist() == [1]


def test_exactly_at_the_horizon_is_on_time():
    """A row is late when t < H, and final when H > t."""
    kw = engine(emit="final", lateness=5)
    assert kw.push(batch([10, 9, 8, 7]), watermark=14).column("t").to_pylist() == []
    assert kw.metrics["late"] == 2
    assert kw.push(NOTHING, watermark=15)["t"].to_pylist() == [9]
    assert kw.push(NOTHING, watermark=16)["t"].to_pylist() == [10]


def test_the_horizon_never_falls():
    """An older watermark takes nothing back."""
    kw = engine()
    kw.push(batch([10]), watermark=10)
    assert kw.push(batch([10, 9, 5]), watermark=3)["t"].to_pylist() == [10]
    assert kw.metrics["late"] == 2


def test_rows_are_judged_before_anything_becomes_final():
    """A push judges its rows by its own watermark, and a row at the horizon still counts in what is emitted later."""
    kw = engine(emit="final")
    kw.push(batch([10, 12], [1, 2]))
    out = kw.push(batch([11, 12], [100, 4]), watermark=12)
    assert picked(out, "t", "n_10", "total_10") == [(10, 1, 1)]
    assert picked(kw.push(NOTHING, watermark=13), "t", "n_10", "total_10") == [(12, 3, 7), (12, 3, 7)]


def test_lateness_as_duration():
    """Lateness is a duration where times are timestamps, in words or as a timedelta."""
    for lateness in ("2 hours", "120m", timedelta(hours=2)):
        kw = engine(windows=["1h"], lateness=lateness)
        kw.push(pa.table({"k": ["a"], "t": pa.array([START]), "x": [1]}))
        times = [START - timedelta(hours=2), START - timedelta(hours=2, microseconds=1)]
        out = kw.push(pa.table({"k": ["a"] * 2, "t": pa.array(times), "x": [1, 1]}))
        assert out["t"].to_pylist() == times[:1]


def test_a_watermark_is_an_instant():
    """A watermark over timestamps is a datetime, with a zone where the column has one."""
    kw = engine(windows=["1h"], lateness="0s", emit="final")
    times = pa.array([START.replace(tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin"))
    assert kw.push(pa.table({"k": ["a"], "t": times, "x": [1]})).num_rows == 0
    empty = pa.table({"k": pa.array([], pa.string()), "t": times[:0], "x": pa.array([], pa.int64())})
    assert kw.push(empty, watermark=START.replace(tzinfo=UTC)).num_rows == 0
    assert kw.push(empty, watermark=START.replace(tzinfo=UTC) + timedelta(microseconds=1)).num_rows == 1


# --- emission -------------------------------------------------------------------------------------


def test_arrival_keeps_every_column_and_the_order():
    """All input columns in their order, then the results; the aggregates as known at the end of the batch."""
    note = pa.array(["third", "first", "second"])
    out = engine().push(batch([7, 1, 3], [1, 2, 4], note=note))
    assert out.column_names[:4] == ["k", "t", "x", "note"]
    assert set(out.column_names[4:]) == {"n_10", "total_10"}
    assert picked(out, "t", "note", "n_10", "total_10") == [(7, "third", 3, 7), (1, "first", 1, 2), (3, "second", 2, 6)]


def test_arrival_does_not_come_again():
    """An accepted row comes once, even where a later batch changes its window."""
    kw = engine(lateness=100)
    kw.push(batch([5]))
    assert picked(kw.push(batch([4])), "t", "n_10") == [(4, 1)]
    assert picked(kw.push(batch([6])), "t", "n_10") == [(6, 3)]
    assert kw.flush().num_rows == 0


def test_late_rows_dropped():
    """With late="drop" late rows are counted and there is no column about them."""
    kw = engine()
    kw.push(batch([10]))
    out = kw.push(batch([9, 11]))
    assert "late" not in out.column_names
    assert out["t"].to_pylist() == [11]
    assert out["n_10"].to_pylist() == [2]
    assert kw.metrics["late"] == 1


def test_late_rows_emitted():
    """With late="emit" late rows stand in their place, flagged, with null results, and count nowhere."""
    kw = engine(late="emit")
    assert kw.push(batch([10]))["late"].to_pylist() == [False]
    out = kw.push(batch([9, 11, 3], [5, 6, 7]))
    assert out.schema.field("late").type == pa.bool_()
    assert picked(out, "t", "x", "n_10", "total_10", "late") == [
        (9, 5, None, None, True),
        (11, 6, 2, 7, False),
        (3, 7, None, None, True),
    ]
    assert kw.metrics["late"] == 2


@pytest.mark.parametrize("emit", ["final", "update"])
def test_late_rows_emitted_in_the_other_modes(emit):
    """Late rows are never silently lost: late="emit" flags them in "final" and "update" too."""
    kw = engine(emit=emit, late="emit")
    kw.push(batch([10]))
    rows = picked(kw.push(batch([9])), "t", "n_10", "late")
    assert (9, None, True) in rows
    assert all(row[2] is False for row in rows if row[0] != 9)


def test_final_columns_and_order():
    """Keys, time, id, carried columns, results; each once, by time and then arrival."""
    kw = engine(emit="final", id="i", carry=["note"], lateness=100)
    more = {"i": pa.array([3, 1, 2, 4]), "note": pa.array(["p", "q", "r", "s"]), "other": pa.array([0, 0, 0, 0])}
    assert kw.push(batch([7, 5, 7, 1], k=["a", "b", "b", "a"], **more)).num_rows == 0
    out = kw.flush()
    assert out.column_names[:4] == ["k", "t", "i", "note"]
    assert set(out.column_names[4:]) == {"n_10", "total_10"}
    assert picked(out, "k", "t", "i", "note", "n_10") == [
        ("a", 1, 4, "s", 1),
        ("b", 5, 1, "q", 1),
        ("a", 7, 3, "p", 2),
        ("b", 7, 2, "r", 2),
    ]
    assert kw.flush().num_rows == 0


def test_final_waits_for_the_horizon():
    """A row that comes in time still counts, and nothing comes twice."""
    kw = engine(emit="final", lateness=10)
    kw.push(batch([20], [1]))
    kw.push(batch([15], [2]))
    assert picked(kw.push(batch([31], [4])), "t", "total_10") == []
    assert picked(kw.push(batch([40], [8])), "t", "total_10") == [(15, 2), (20, 3)]
    assert picked(kw.flush(), "t", "total_10") == [(31, 4), (40, 12)]


def test_empty_tables_have_the_columns():
    """A table without rows has the same schema as one with rows."""
    for emit in ("arrival", "final", "update"):
        kw = engine(emit=emit, late="emit")
        full = pa.concat_tables([kw.push(batch([1])), kw.push(batch([3]), watermark=2)])
        assert full.num_rows
        assert kw.push(NOTHING, watermark=0).schema == full.schema
        assert kw.flush().schema == full.schema


def test_update_revises_what_changed():
    """A row on arrival, and again whenever its values change, each time with a larger revision."""
    kw = engine(emit="update", lateness=100)
    first = kw.push(batch([5, 30], [1, 2]))
    assert picked(first, "k", "t", "n_10", "total_10", "deleted") == [("a", 5, 1, 1, False), ("a", 30, 1, 2, False)]
    assert first.schema.field("revision").type == pa.int64()
    assert first.schema.field("deleted").type == pa.bool_()
    second = kw.push(batch([3, 22], [4, 8]))
    assert sorted(picked(second, "t", "n_10", "total_10")) == [(3, 1, 4), (5, 2, 5), (22, 1, 8), (30, 2, 10)]
    third = kw.push(batch([13], [16]))
    assert sorted(picked(third, "t", "n_10", "total_10")) == [(13, 2, 17), (22, 2, 24)]
    revisions = [table["revision"].to_pylist() for table in (first, second, third)]
    assert max(revisions[0]) < min(revisions[1]) and max(revisions[1]) < min(revisions[2])
    assert kw.flush().num_rows == 0


def test_update_is_silent_where_nothing_changed():
    """A row whose values stay as they were does not come again."""
    kw = engine(emit="update", lateness=100, aggs={"top": monoids.max("x")})
    kw.push(batch([5, 6], [10, 20]))
    out = kw.push(batch([4, 5], [3, 2]))
    assert sorted(picked(out, "t", "top_10")) == [(4, 3), (5, 10)]
    assert kw.push(batch([4], [None])).column("t").to_pylist() == [4]


def test_update_comes_once_a_push():
    """Many changes in one push are one row."""
    kw = engine(emit="update", lateness=100)
    kw.push(batch([9]))
    out = kw.push(batch([8, 7, 6, 8]))
    assert sorted(out["t"].to_pylist()) == [6, 7, 8, 8, 9]


def test_update_touches_the_half_open_stretch():
    """An event at t touches the anchors in [t, t + size); closed on the left, those in (t, t + size]."""
    for closed, touched in (("right", [10, 19]), ("left", [19, 20])):
        kw = engine(emit="update", lateness=100, closed=closed)
        kw.push(batch([9, 10, 19, 20, 21]))
        assert sorted(kw.push(batch([10], [50]))["t"].to_pylist()) == sorted([10, *touched])


def test_update_of_a_retracted_event():
    """A retracted event gives one row, deleted, with null results, and its neighbours are revised."""
    kw = engine(emit="update", lateness=100, retract="gone", id="i")
    first = kw.push(batch([5, 6, 30], [1, 2, 4], i=pa.array([1, 2, 3]), gone=pa.array([False] * 3)))
    out = kw.push(batch([5], [1], i=pa.array([1]), gone=pa.array([True])))
    assert sorted(picked(out, "t", "i", "n_10", "total_10", "deleted")) == [
        (5, 1, None, None, True),
        (6, 2, 1, 2, False),
    ]
    assert min(out["revision"].to_pylist()) > max(first["revision"].to_pylist())


def test_a_window_that_becomes_empty():
    """Closed on the left a window without events counts 0, its other results are null."""
    kw = engine(emit="update", lateness=100, closed="left", retract="gone", id="i")
    kw.push(batch([5, 6], [1, 2], i=pa.array([1, 2]), gone=pa.array([False, False])))
    out = kw.push(batch([5], [1], i=pa.array([1]), gone=pa.array([True])))
    assert (6, 0, None, False) in picked(out, "t", "n_10", "total_10", "deleted")


# --- long windows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("cut", [7, 90, 1500])
def test_long_windows_of_one_key(cut, closed):
    """Windows of thousands of rows answer as a fold of all of them does, however the rows came in and left."""
    rng = np.random.default_rng(cut)
    n, sizes = 3000, (5, 400, 2500)
    times = np.arange(n) + rng.integers(-60, 60, n)
    values = rng.integers(-9, 9, n)
    gone = rng.random(n) < 0.02
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x"), "new": monoids.last("x")}
    options = {"windows": list(sizes), "aggs": aggs, "closed": closed, "id": "i", "retract": "gone", "lateness": 200}
    kw = KeyedWindows(keys=["k"], time="t", emit="final", **options)
    found, seen = [], []
    for start in range(0, n, cut):
        rows = np.arange(start, min(start + cut, n))
        dead = seen[::97] if start else []
        ids = np.concatenate([rows, np.array(dead, dtype=np.int64)])
        marks = np.concatenate([np.zeros(len(rows), bool), np.ones(len(dead), bool)])
        batch_of = {"k": ["a"] * len(ids), "t": times[ids], "x": values[ids], "i": ids, "gone": marks}
        found += kw.push(batch_of).to_pylist()
        seen = [int(i) for i in rows[gone[rows]]]
    found += kw.flush().to_pylist()
    assert len(found) > n * 0.9 and kw.metrics["live_rows"] == 0
    _compare_with_folds(found, times, values, sizes, closed)


def _compare_with_folds(found: list[Any], times: Any, values: Any, sizes: Any, closed: str) -> None:
    kept = sorted((row["t"], row["i"]) for row in found)
    for row in found[:: max(1, len(found) // 150)]:
        for size in sizes:
            first, last = (row["t"] - size, row["t"] - 1) if closed == "left" else (row["t"] - size + 1, row["t"])
            inside = [int(values[i]) for t, i in kept if first <= t <= last]
            answer = [row[f"{name}_{size}"] for name in ("n", "total", "top", "new")]
            nothing = [0, None, None, None]
            assert answer == ([len(inside), sum(inside), max(inside), inside[-1]] if inside else nothing), (row, size)
