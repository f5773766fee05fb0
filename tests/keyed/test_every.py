"""Results at every slide boundary: the grid, the windows, the columns, and what is refused, as exact rows."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import ArgumentError, KeyedWindows, SashError, SashWarning, monoids, rolling
from support.keyed_batches import NOTHING, batch, picked, sliding

LOW, HIGH = -(2**63), 2**63 - 1
AGGS = {"n": monoids.count(), "total": monoids.sum("x")}


def rolled(table: Any, **options: Any) -> Any:
    """Count and sum over the last 10 units at every 5, unless told otherwise."""
    defaults: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": [10], "aggs": AGGS, "every": 5}
    return rolling(table, **(defaults | options))


def ends(*times: int, **options: Any) -> list[int]:
    """The boundaries of one key's events."""
    return rolled(batch(list(times)), **options)["window_end"].to_pylist()


# --- the grid -------------------------------------------------------------------------------------


def test_boundaries_by_hand():
    """[b - 10, b) for each multiple of 5: an event at 5 is not in the window that ends there."""
    out = rolled(batch([0, 4, 5, 12], [1, 2, 4, 8]))
    assert picked(out, "k", "window_start", "window_end", "n_10", "total_10") == [
        ("a", -5, 5, 2, 3),
        ("a", 0, 10, 3, 7),
        ("a", 5, 15, 2, 12),
        ("a", 10, 20, 1, 8),
    ]


@pytest.mark.parametrize(
    ("time", "every", "size", "wanted"),
    [
        (0, 5, 5, [5]),
        (4, 5, 5, [5]),
        (5, 5, 5, [10]),
        (3, 5, 7, [5, 10]),
        (2, 5, 7, [5]),
        (4, 5, 12, [5, 10, 15]),
        (7, 10, 3, [10]),
        (6, 10, 3, []),
        (10, 10, 3, []),
        (0, 1, 3, [1, 2, 3]),
        (-1, 5, 5, [0]),
        (-5, 5, 5, [0]),
        (-6, 5, 5, [-5]),
        (-8, 5, 7, [-5]),
        (-7, 5, 7, [-5, 0]),
    ],
)
def test_the_boundaries_that_see_an_event(time, every, size, wanted):
    """Those of the grid in (t, t + size], whether the size is a multiple of every, no multiple, or smaller."""
    assert ends(time, every=every, windows=[size]) == wanted


@pytest.mark.parametrize(
    ("offset", "wanted"), [(0, [10]), (3, [13]), (4, [4]), (10, [10]), (13, [13]), (-7, [13]), (-6, [4]), (-20, [10])]
)
def test_offset_shifts_the_grid(offset, wanted):
    """Boundaries are those equal to the offset modulo every, whatever its sign and size."""
    assert ends(3, every=10, offset=offset) == wanted
    assert ends(3, every=10, offset=0) == [10]


def test_the_largest_window_decides():
    """A row where the largest window holds an event; a smaller one that is empty counts 0 and has no sum.

    The start is that of the first window listed.
    """
    out = rolled(batch([-1, 22], [7, 1]), windows=[10, 5])
    assert out["window_start"].to_pylist() == [-10, -5, 15, 20]
    assert rolled(batch([22]), windows=[5, 10])["window_start"].to_pylist() == [20, 25]
    assert picked(out, "window_end", "n_5", "total_5", "n_10", "total_10") == [
        (0, 1, 7, 1, 7),
        (5, 0, None, 1, 7),
        (25, 1, 1, 1, 1),
        (30, 0, None, 1, 1),
    ]


def test_a_long_silence_costs_nothing():
    """Boundaries that see no event are not looked at one by one, offline or when a watermark leaps."""
    assert ends(0, 2**61, every=1, windows=[2]) == [1, 2, 2**61 + 1, 2**61 + 2]
    kw = sliding(every=1, windows=[2])
    kw.push(batch([0]))
    assert sorted(kw.push(NOTHING, watermark=2**62)["window_end"].to_pylist()) == [1, 2]


# --- times ----------------------------------------------------------------------------------------


def test_times_at_the_ends_of_int64():
    """Windows may reach past the smallest int64, and the way between the ends is no difference that overflows."""
    lowest = LOW + 8  # a multiple of 10, as is HIGH - 7
    out = rolled(batch([LOW, HIGH - 28, HIGH - 8]), windows=[5, 20], every=10)
    assert picked(out, "window_end", "n_5", "n_20") == [
        (lowest, 0, 1),
        (lowest + 10, 0, 1),
        (HIGH - 27, 1, 1),
        (HIGH - 17, 0, 1),
        (HIGH - 7, 1, 1),
    ]
    out = rolled(batch([lowest, HIGH - 8]), every=10)
    assert picked(out, "window_start", "window_end") == [(lowest, lowest + 10), (HIGH - 17, HIGH - 7)]


def test_a_boundary_at_the_largest_int64():
    """It is a boundary like any other, in a table and at the end of a stream."""
    out = rolled(batch([HIGH - 1]), windows=[2], every=1)
    assert picked(out, "window_start", "window_end", "n_2") == [(HIGH - 2, HIGH, 1)]
    kw = sliding(windows=[2], every=1, lateness=3)
    kw.push(batch([HIGH - 1]))
    assert picked(kw.flush(), "window_end", "n_2") == [(HIGH, 1)]


@pytest.mark.parametrize("time", [LOW, HIGH, HIGH - 7])
def test_a_window_that_int64_cannot_say_is_never_misread(time):
    """Where an end or a start does not fit, the rows that come are still true ones, or the call is refused."""
    try:
        out = rolled(batch([time]), every=10)
    except SashError:
        return
    for start, end, n in picked(out, "window_start", "window_end", "n_10"):
        assert end % 10 == 0 and time < end <= time + 10 and n == 1
        assert start in (None, end - 10)


def test_a_watermark_at_the_end_of_time():
    """All that can be final is, and what comes after is late."""
    kw = sliding(lateness=3)
    kw.push(batch([1]))
    assert sorted(kw.push(NOTHING, watermark=HIGH)["window_end"].to_pylist()) == [5, 10]
    assert kw.push(batch([HIGH - 40]), watermark=LOW).num_rows == 0
    assert kw.metrics["late"] == 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata", "+02:00"])
def test_boundaries_have_the_type_of_the_times(unit, zone):
    """window_start and window_end keep the unit and the zone; the grid is that of UTC, half past in Kolkata."""
    kind = pa.timestamp(unit, zone)
    instants = [datetime(2026, 3, 29, 0, 30), datetime(2026, 3, 29, 1, 0)]
    times = pa.array([i.replace(tzinfo=UTC) if zone else i for i in instants], kind)
    table = pa.table({"k": ["a", "a"], "t": times, "x": [1, 2]})
    kw = sliding(windows=["2 hours"], every="1h", lateness="0s")
    kw.push(table)
    for out in (rolled(table, windows=["2 hours"], every="1h"), kw.flush()):
        assert {out.schema.field(name).type for name in ("window_start", "window_end")} == {kind}
        in_utc = [out[name].cast(pa.timestamp(unit)).to_pylist() for name in ("window_start", "window_end")]
        hours = [[(t - datetime(2026, 3, 29)) // timedelta(hours=1) for t in column] for column in in_utc]
        assert sorted(zip(*hours, out["total_2hours"].to_pylist(), strict=True)) == [(-1, 1, 1), (0, 2, 3), (1, 3, 2)]


def test_integers_of_another_width():
    """The boundaries of int32 times are int64, for they may be too large for less."""
    table = batch([3]).set_column(1, "t", pa.array([3], pa.int32()))
    assert rolled(table).schema.field("window_end").type == pa.int64()


@pytest.mark.parametrize(
    ("offset", "day"), [(None, 8), ("4d", 12), (timedelta(days=4), 12), (timedelta(days=-3), 12), ("0s", 8)]
)
def test_the_epoch_was_a_thursday(offset, day):
    """Weeks end on Thursdays, and on Mondays where that is the offset."""
    table = pa.table({"k": ["a"], "t": pa.array([datetime(2026, 1, 7, 12)]), "x": [1]})
    out = rolled(table, windows=["7d"], every=timedelta(days=7), **({} if offset is None else {"offset": offset}))
    assert out["window_end"].to_pylist() == [datetime(2026, 1, day)]


def test_days_are_those_of_utc():
    """A day ends at midnight in UTC whatever the zone, also where the clocks change."""
    berlin = ZoneInfo("Europe/Berlin")
    times = pa.array([datetime(2026, 3, 29, 0, 30, tzinfo=berlin), datetime(2026, 3, 29, 3, 30, tzinfo=berlin)])
    table = pa.table({"k": ["a", "a"], "t": times.cast(pa.timestamp("us", "Europe/Berlin")), "x": [1, 2]})
    out = rolled(table, windows=["1d"], every="1 day")
    wanted = [(datetime(2026, 3, day, tzinfo=UTC), total) for day, total in ((29, 1), (30, 2))]
    assert picked(out, "window_end", "total_1d") == wanted


def test_before_the_epoch():
    """Instants before 1970 lie on the same grid."""
    table = pa.table({"k": ["a"], "t": pa.array([datetime(1969, 12, 31, 23, 59, 30)]), "x": [1]})
    assert rolled(table, windows=["1m"], every="1 minute")["window_end"].to_pylist() == [datetime(1970, 1, 1)]


# --- tables ---------------------------------------------------------------------------------------


def test_rows_stand_by_key_and_boundary():
    """Keys in the order of their first row, null among them, then boundaries ascending, whatever the order of rows."""
    out = rolled(batch([12, 1, 3, 11], [1, 2, 4, 8], ["b", None, "b", "a"]), windows=[5])
    assert out.column_names[:3] == ["k", "window_start", "window_end"]
    assert picked(out, "k", "window_end", "total_5") == [("b", 5, 4), ("b", 15, 1), (None, 5, 2), ("a", 15, 8)]


@pytest.mark.parametrize("keys", [[], None], ids=["empty", "None"])
def test_no_keys_is_one_group(keys):
    """Without keys all rows are one group."""
    out = rolled(batch([1, 2], k=["a", "b"]), keys=keys, windows=[5])
    assert out.column_names[:2] == ["window_start", "window_end"]
    assert picked(out, "window_end", "n_5") == [(5, 2)]


def test_keys_of_several_columns():
    """A key is all its columns."""
    table = batch([1, 2, 3], k=["a", "a", "b"], j=pa.array([1, None, 1]))
    out = rolled(table, keys=["k", "j"], windows=[5])
    assert picked(out, "k", "j", "n_5") == [("a", 1, 1), ("a", None, 1), ("b", 1, 1)]


def test_rows_without_a_time_are_left_out():
    """A null time has no boundary."""
    assert picked(rolled(batch([1, None, 2], [1, 2, 4]), windows=[5]), "window_end", "total_5") == [(5, 5)]


def test_nulls_in_values():
    """Nulls are passed over: a window of none but nulls has rows, a count of them, and no sum."""
    aggs = AGGS | {"m": monoids.count("x")}
    out = rolled(batch([1, 2, 6], [None, None, 3]), windows=[5], aggs=aggs)
    assert picked(out, "window_end", "n_5", "m_5", "total_5") == [(5, 2, 0, None), (10, 1, 1, 3)]


@pytest.mark.parametrize("windows", [[10], [5, 10]], ids=str)
def test_an_empty_table(windows):
    """A table without rows has the columns and types of any other."""
    out = rolled(NOTHING, windows=windows)
    assert out.num_rows == 0
    assert out.schema == rolled(batch([1, 2]), windows=windows).schema


def test_pandas_in_pandas_out():
    """A data frame of pandas gives one, its zone kept."""
    times = pd.date_range("2026-01-01", periods=3, freq="20min", tz="Europe/Berlin")
    frame = pd.DataFrame({"k": ["a"] * 3, "t": times, "x": [1, 2, 4]}, index=[7, 8, 9])
    out = rolled(frame, windows=["1h"], every="30m")
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns[:3]) == ["k", "window_start", "window_end"]
    minutes = (out["window_end"] - times[0]).dt.total_seconds() // 60
    assert list(zip(minutes, out["total_1h"], strict=True)) == [(30, 3), (60, 7), (90, 4)]
    assert str(out["window_end"].dt.tz) == "Europe/Berlin"


def test_polars_in_polars_out():
    """A frame of polars gives one."""
    frame = pl.DataFrame({"k": ["a", "a"], "t": [3, 7], "x": [1, 2]})
    out = rolled(frame)
    assert isinstance(out, pl.DataFrame)
    assert out.select("window_end", "total_10").rows() == [(5, 1), (10, 3), (15, 2)]


@pytest.mark.parametrize(
    "given",
    [
        lambda table: table.to_batches()[0],
        lambda table: table.to_pandas(),
        pl.from_arrow,
        lambda table: table.to_pydict(),
    ],
    ids=["record batch", "pandas", "polars", "dict"],
)
def test_a_batch_is_a_table_of_any_kind(given):
    """A stream takes any kind and gives Arrow."""
    kw = sliding()
    kw.push(given(batch([3, 7], [1, 2])))
    out = kw.flush()
    assert isinstance(out, pa.Table)
    assert sorted(picked(out, "k", "window_end", "total_10")) == [("a", 5, 1), ("a", 10, 3), ("a", 15, 2)]


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({}, ["k", "window_start", "window_end"], []),
        ({"windows": [10, 5]}, ["k", "window_start", "window_end"], []),
        ({"emit": "update"}, ["k", "window_start", "window_end"], ["revision", "deleted"]),
        ({"late": "emit"}, ["k", "t", "window_start", "window_end"], ["late"]),
        ({"late": "emit", "id": "i"}, ["k", "t", "i", "window_start", "window_end"], ["late"]),
        (
            {"late": "emit", "id": "i", "emit": "update", "windows": [10, 5]},
            ["k", "t", "i", "window_start", "window_end"],
            ["revision", "deleted", "late"],
        ),
        ({"id": "i"}, ["k", "window_start", "window_end"], []),
    ],
    ids=str,
)
def test_columns_of_a_stream(options, first, last):
    """Keys, what late rows need, the window, the results, and what the emission adds; the same where nothing is due."""
    kw = sliding(**options)
    some = batch([3], i=pa.array([1], pa.int64()))
    nothing = kw.push(some)
    full = kw.push(some.slice(0, 0), watermark=100)
    assert (nothing.num_rows, full.num_rows) == (0, 2)
    results = {f"{agg}_{size}" for agg in AGGS for size in options.get("windows", [10])}
    names = full.column_names
    assert names[: len(first)] == first
    assert set(names[len(first) : len(names) - len(last)]) == results
    assert names[len(names) - len(last) :] == last
    assert nothing.schema == full.schema == kw.flush().schema


# --- arguments ------------------------------------------------------------------------------------


def test_what_is_left_out():
    """With every= windows are closed on the left and results final; without, on the right and on arrival."""
    assert rolled(batch([5]), closed="left").equals(rolled(batch([5]))) and ends(5) == [10, 15]
    one, two = sliding(), sliding(emit="final", closed="left", offset=0)
    for kw in (one, two):
        assert kw.push(batch([3])).num_rows == 0
    assert one.flush().equals(two.flush())
    plain = KeyedWindows(keys=["k"], time="t", windows=[10], aggs=AGGS, lateness=0)
    assert picked(plain.push(batch([0, 10])), "t", "n_10") == [(0, 1), (10, 1)]


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("closed", {"closed": "right"}),
        ("closed", {"closed": "both"}),
        ("emit", {"emit": "arrival"}),
        ("emit", {"emit": "sometimes"}),
        ("carry", {"carry": ["x"]}),
        ("offset", {"every": None, "offset": 5}),
        ("resolution", {"every": None, "resolution": 5}),
        ("every", {"every": 0}),
        ("every", {"every": -5}),
        ("every", {"every": 1.5}),
        ("every", {"every": "1 minute"}),
        ("offset", {"offset": "1 minute"}),
        ("offset", {"offset": 0.5}),
        ("resolution", {"resolution": 0}),
        ("resolution", {"resolution": -1}),
        ("resolution", {"resolution": "5m"}),
    ],
    ids=str,
)
def test_what_a_stream_refuses(argument, options):
    """A wrong argument is refused with a sentence that names it, at the latest by the first batch."""
    with pytest.raises(SashError, match=argument) as error:
        sliding(**options).push(batch([1]))
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("every", [5, "soon", "2 months", "1 lustrum", timedelta(0), timedelta(seconds=-1)], ids=str)
def test_instants_need_durations(every):
    """Over timestamps every= is a duration of a fixed length above nothing, or one calendar period."""
    table = pa.table({"k": ["a"], "t": pa.array([datetime(2026, 1, 1)]), "x": [1]})
    with pytest.raises(SashError, match="every"):
        rolled(table, windows=["1h"], every=every)
    with pytest.raises(SashError, match="every"):
        sliding(windows=["1h"], every=every, lateness="0s").push(table)


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("closed", {"closed": "right"}),
        ("offset", {"every": None, "offset": 5}),
        ("resolution", {"every": None, "resolution": 5}),
        ("every", {"every": 0}),
        ("every", {"every": "1h"}),
        ("resolution", {"resolution": 0}),
    ],
    ids=str,
)
def test_what_rolling_refuses(argument, options):
    """The same offline."""
    with pytest.raises(SashError, match=argument) as error:
        rolled(batch([1]), **options)
    assert str(error.value).endswith(".")


def test_refusals_are_of_the_value():
    """What is known but does not go with every= is an ArgumentError."""
    for options in ({"closed": "right"}, {"emit": "arrival"}, {"carry": ["x"]}):
        with pytest.raises(ArgumentError):
            sliding(**options)


def flushed(table: pa.Table, **options: Any) -> pa.Table:
    kw = sliding(**options)
    kw.push(table)
    out = kw.flush()
    assert kw.metrics["overflows"] == 1
    return out


@pytest.mark.parametrize("answered", [rolled, flushed], ids=["table", "stream"])
def test_a_sum_that_does_not_fit(answered):
    """It is null where it does not fit and right again when the window has moved on; on_error="raise" raises."""
    table = batch([1, 6, 11], [HIGH, 1, -5])
    with pytest.warns(SashWarning, match="1 did not fit") if answered is rolled else nullcontext():
        out = answered(table)
    assert sorted(picked(out, "window_end", "total_10")) == [(5, HIGH), (10, None), (15, -4), (20, -5)]
    with pytest.raises(SashError):
        answered(table, on_error="raise")
