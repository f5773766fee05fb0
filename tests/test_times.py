"""Each kind of time: its order, its ends, what it accepts and what it returns."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sash import ArgumentError, KindError, SashError, SlideError, Window, monoids
from support.cases import concat_monoid
from support.structures import Structure

LOW, HIGH = -(2**63), 2**63 - 1
INF = math.inf
NAIVE = dt.datetime(2024, 5, 1, 12)
AWARE = NAIVE.replace(tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)
LOSSY = (ArgumentError, KindError)


def letters(structure: Structure | None = None) -> Window:
    return structure.window(concat_monoid()) if structure else Window(concat_monoid(), structure="paper", min_arity=2)


def test_ints_reach_to_both_ends_of_int64(structure: Structure) -> None:
    """The smallest and the largest int64 are times like any other."""
    window = letters(structure)
    window.insert_many([LOW, LOW + 1, -1, 0, HIGH - 1, HIGH], list("abcdef"))
    assert list(window) == [LOW, LOW + 1, -1, 0, HIGH - 1, HIGH]
    assert (window.oldest, window.newest, window.query()) == (LOW, HIGH, "abcdef")
    if structure.ranges:
        assert window.query(LOW, HIGH) == "abcdef"
        assert window.query(LOW, HIGH, closed="neither") == "bcde"
        assert window.query(HIGH, LOW) == ""
    assert window.evict(LOW) is True and LOW not in window
    assert window.evict_until(HIGH, inclusive=False) == 4 and window.evict_until(HIGH) == 1


def test_sizes_do_not_overflow_near_the_ends(structure: Structure) -> None:
    """newest - size below int64's lower end drops nothing; a large size and a large time do no harm."""
    window = letters(structure)
    assert window.slide([LOW, LOW + 5], ["a", "b"], size=10).tolist() == ["a", "ab"]
    assert window.slide([LOW + 10], ["c"], size=10).tolist() == ["bc"]
    window = letters(structure)
    assert window.slide([LOW, 0, HIGH], ["a", "b", "c"], size=HIGH).tolist() == ["a", "b", "c"]
    window = letters(structure)
    assert window.slide([HIGH - 1, HIGH], ["a", "b"], size=1).tolist() == ["a", "b"]
    window = letters(structure)
    assert window.slide([LOW, LOW + 1], ["a", "b"], size=HIGH).tolist() == ["a", "ab"]
    window = letters(structure)
    assert window.slide([LOW, HIGH], ["a", "b"], size=HIGH, at="end") == "b"


def test_size_is_a_half_open_window(structure: Structure) -> None:
    """A window of size S holds the times in (newest - S, newest]."""
    window = letters(structure)
    assert window.slide([0, 3, 5, 8], list("abcd"), size=5).tolist() == ["a", "ab", "bc", "cd"]
    assert list(window) == [5, 8]


def test_late_times_slide_too() -> None:
    """A late time inside the window counts; one that is already out of it changes nothing."""
    window = letters()
    assert window.slide([10, 4, 7, 12, 5], list("abcde"), size=5).tolist() == ["a", "a", "ca", "ad", "ad"]
    window.check_invariants()


def test_count_makes_room_before_it_inserts(structure: Structure) -> None:
    """By count the oldest goes when the window holds N, then the new one comes."""
    window = letters(structure)
    assert window.slide([1, 2, 3, 3, 4], list("abcde"), count=2).tolist() == ["a", "ab", "bc", "cd", "cde"]
    assert list(window.items()) == [(3, "cd"), (4, "e")]


def test_floats_order_and_infinities(structure: Structure) -> None:
    """Infinities are times, and subnormal and huge floats sort where they belong."""
    times = [-INF, -1e308, -1.5, -5e-324, 0.0, 5e-324, 1.5, 1e308, INF]
    window = letters(structure)
    window.insert_many(times, list("abcdefghi"))
    assert list(window) == times
    if structure.ranges:
        assert window.query(-INF, INF, closed="neither") == "bcdefgh"
        assert window.query(-1e-320, 1e-320) == "def"
    assert window.evict(-INF) is True and window.evict_until(1.5) == 6


def test_minus_zero_is_zero(structure: Structure) -> None:
    """-0.0 and 0.0 are one time, and it comes back as 0.0."""
    window = letters(structure)
    window.insert(-0.0, "a")
    window.insert(0.0, "b")
    window.insert_many([-0.0], ["c"])
    assert list(window.items()) == [(0.0, "abc")] and math.copysign(1, window.oldest) == 1
    assert -0.0 in window and window.evict(-0.0) is True


def test_the_newest_float_always_stays(structure: Structure) -> None:
    """Where rounding makes newest - size equal to newest, the newest entry stays all the same."""
    window = letters(structure)
    assert window.slide([1.0, 1e300, INF], ["a", "b", "c"], size=0.5).tolist() == ["a", "b", "c"]


def test_ints_in_a_float_window(structure: Structure) -> None:
    """An int that is exactly a float is one; another is refused, and so is a float in an int window."""
    window = letters(structure)
    window.insert(1.5, "a")
    window.insert(2, "b")
    window.insert(np.int32(3), "c")
    assert list(window) == [1.5, 2.0, 3.0] and all(type(t) is float for t in window)
    with pytest.raises(SashError):
        window.insert(2**53 + 1, "d")
    if structure.ranges:
        assert window.query(2, 3) == "bc"
    ints = letters(structure)
    ints.insert(1, "a")
    with pytest.raises(KindError):
        ints.insert(2.0, "b")
    assert list(window) == [1.5, 2.0, 3.0] and list(ints) == [1]


def test_numpy_scalars_are_numbers(structure: Structure) -> None:
    """NumPy's integers and floats are times like Python's, and come back as Python's."""
    window = letters(structure)
    for time in (np.int8(-3), np.uint16(2), np.int64(5), 7):
        window.insert(time, "x")
    assert list(window) == [-3, 2, 5, 7] and all(type(t) is int for t in window)
    assert np.int64(5) in window and window.evict(np.int8(-3)) is True
    floats = letters(structure)
    floats.insert(np.float32(0.5), "a")
    floats.insert(np.float64(0.75), "b")
    assert list(floats) == [0.5, 0.75]


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float32", "float64"])
def test_arrays_of_numbers(structure: Structure, dtype: str) -> None:
    """Arrays of every width, strides included, say what a list says."""
    window, listed = letters(structure), letters(structure)
    times = np.arange(20, dtype=dtype)[::2]
    window.insert_many(times, list("abcdefghij"))
    listed.insert_many(times.tolist(), list("abcdefghij"))
    assert window == listed and list(window) == list(range(0, 20, 2))


def test_naive_datetimes(structure: Structure) -> None:
    """Naive datetimes keep their microseconds and come back as datetimes, from year 1 to year 9999."""
    times = [dt.datetime.min, NAIVE, NAIVE + dt.timedelta(microseconds=1), dt.datetime.max]
    window = letters(structure)
    window.insert_many(times, list("abcd"))
    assert list(window) == times and all(isinstance(t, dt.datetime) and t.tzinfo is None for t in window)
    if structure.ranges:
        assert window.query(NAIVE, dt.datetime.max, closed="neither") == "c"


def test_aware_datetimes_are_instants(structure: Structure) -> None:
    """The same instant in two zones is one time."""
    window = letters(structure)
    window.insert(AWARE, "a")
    window.insert(AWARE.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30))), "b")
    window.insert((AWARE + SECOND).astimezone(dt.timezone(dt.timedelta(hours=-8))), "c")
    assert list(window.items()) == [(AWARE, "ab"), (AWARE + SECOND, "c")]
    assert all(t.tzinfo is not None for t in window)
    assert AWARE.astimezone(dt.timezone(dt.timedelta(hours=1))) in window


@pytest.mark.parametrize("size", [dt.timedelta(seconds=2), np.timedelta64(2, "s"), pd.Timedelta("2s")], ids=type)
@pytest.mark.parametrize("start", [NAIVE, AWARE, np.datetime64(NAIVE, "ms"), pd.Timestamp(NAIVE)], ids=type)
def test_sizes_of_time(structure: Structure, start: Any, size: Any) -> None:
    """Every kind of duration is a size for every kind of instant."""
    step = np.timedelta64(1, "s") if isinstance(start, np.datetime64) else SECOND
    window = letters(structure)
    results = window.slide([start + step * i for i in range(4)], list("abcd"), size=size)
    assert results.tolist() == ["a", "ab", "bc", "cd"]


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
def test_datetime64_keeps_its_unit(structure: Structure, unit: str) -> None:
    """datetime64 comes back equal and in the unit of the first, singly and in arrays."""
    times = np.arange(5, dtype=np.int64).astype(f"datetime64[{unit}]")
    window, single = letters(structure), letters(structure)
    window.insert_many(times, list("abcde"))
    for time, letter in zip(times, "abcde", strict=True):
        single.insert(time, letter)
    assert window == single and list(window) == list(times)
    assert all(t.dtype == times.dtype for t in window)


def test_units_convert_without_loss_or_not_at_all() -> None:
    """A finer or coarser unit is taken when it converts exactly, and refused when it does not."""
    window = letters()
    window.insert(np.datetime64("2024-05-01T12:00:00", "s"), "a")
    window.insert(np.datetime64("2024-05-01T12:00:01.000", "ms"), "b")
    window.insert(np.datetime64("2024-05-02", "D"), "d")
    window.insert(NAIVE + 2 * SECOND, "c")
    window.insert(pd.Timestamp(NAIVE), "A")
    before = list(window.items())
    assert [value for _, value in before] == ["aA", "b", "c", "d"]
    half = dt.timedelta(milliseconds=500)
    for time in (np.datetime64("2024-05-01T12:00:00.001", "ms"), NAIVE + half, pd.Timestamp(NAIVE) + half):
        with pytest.raises(LOSSY):
            window.insert(time, "x")
        with pytest.raises(LOSSY):
            window.insert_many([time], ["x"])
    with pytest.raises(LOSSY):
        window.insert_many(np.array(["2024-05-01T12:00:00", "2024-05-01T12:00:00.5"], "datetime64[ms]"), ["x", "y"])
    assert list(window.items()) == before
    window.insert_many(np.array(["2024-05-01T12:00:00", "2024-05-01T12:00:01"], "datetime64[ns]"), ["1", "2"])
    assert [value for _, value in window.items()] == ["aA1", "b2", "c", "d"]


def test_datetimes_too_far_for_the_unit() -> None:
    """A datetime that does not fit 64 bits of nanoseconds is refused by a window that counts them."""
    window = letters()
    window.insert(np.datetime64("2024-05-01", "ns"), "a")
    for time in (np.datetime64("9000-01-01", "s"), dt.datetime(1500, 1, 1)):
        with pytest.raises(SashError):
            window.insert(time, "x")
        with pytest.raises(SashError):
            window.insert_many([time], ["x"])
    assert len(window) == 1


def test_nanoseconds_in_a_window_of_datetimes() -> None:
    """A window of datetimes counts microseconds, and refuses a nanosecond."""
    window = letters()
    window.insert(NAIVE, "a")
    with pytest.raises(LOSSY):
        window.insert(pd.Timestamp(NAIVE) + pd.Timedelta(1, "ns"), "x")
    with pytest.raises(LOSSY):
        window.insert(np.datetime64(NAIVE, "ns") + np.timedelta64(1, "ns"), "x")
    window.insert(np.datetime64(NAIVE, "ns") + np.timedelta64(1000, "ns"), "b")
    assert list(window) == [NAIVE, NAIVE + dt.timedelta(microseconds=1)]


def test_pandas_timestamps_keep_nanoseconds(structure: Structure) -> None:
    """Timestamps a nanosecond apart are two times, and come back as Timestamps."""
    one = pd.Timestamp(1_700_000_000_123_456_789)
    times = [one, one + pd.Timedelta(1, "ns")]
    window, batch = letters(structure), letters(structure)
    window.insert(times[0], "a")
    window.insert(times[1], "b")
    batch.insert_many(pd.DatetimeIndex(times), ["a", "b"])
    assert list(window) == list(batch) == times and all(isinstance(t, pd.Timestamp) for t in window)
    assert window.query() == batch.query() == "ab"


def test_aware_timestamps_mix_with_aware_datetimes(structure: Structure) -> None:
    """Aware Timestamps and aware datetimes are instants alike; naive ones are refused among them."""
    window = letters(structure)
    window.insert(AWARE, "a")
    window.insert(pd.Timestamp(AWARE).tz_convert("Asia/Tokyo"), "b")
    assert list(window.items()) == [(AWARE, "ab")]
    for time in (NAIVE, pd.Timestamp(NAIVE), np.datetime64(NAIVE)):
        with pytest.raises(KindError):
            window.insert(time, "x")
    assert window.query() == "ab"


def test_pairs_order_by_first_then_second(structure: Structure) -> None:
    """Pairs of ints are (timestamp, id): ordered by the first, then the second, to the ends of int64."""
    times = [(LOW, HIGH), (-1, 5), (0, LOW), (0, -1), (0, 0), (0, HIGH), (1, LOW), (HIGH, HIGH)]
    window = letters(structure)
    window.insert_many(times, list("abcdefgh"))
    assert list(window) == times and all(type(t) is tuple for t in window)
    if structure.ranges:
        assert window.query((0, LOW), (0, HIGH)) == "cdef"
        assert window.query((0, -1), (1, LOW), closed="right") == "efg"
    assert window.evict((LOW, HIGH)) is True
    with pytest.raises(SashError):
        window.insert((2**63, 0), "x")
    with pytest.raises(KindError):
        window.insert((HIGH, 0.5), "x")


def test_the_size_of_pairs_is_about_the_first(structure: Structure) -> None:
    """A window of pairs and size S keeps the pairs whose first is above the newest first - S."""
    window = letters(structure)
    times = [(0, 7), (1, 1), (1, 9), (3, 0), (4, 4)]
    assert window.slide(times, list("abcde"), size=2).tolist() == ["a", "ab", "abc", "d", "de"]
    low = letters(structure)
    assert low.slide([(LOW, 0), (LOW + 1, 0)], ["a", "b"], size=5).tolist() == ["a", "ab"]


@pytest.mark.parametrize(
    "times",
    [
        ["", "Zeit", "a", "zeit", "é"],
        [Fraction(-1, 3), Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(22, 7)],
        [("a", 1, 2.5), ("a", 2, 0.5), ("b", 0, 0.0), ("b", 0, 0.5), ("c", 0, 0.0)],
        [Decimal("-1"), Decimal("0"), Decimal("0.1"), Decimal("0.11"), Decimal("1e30")],
        [
            dt.date(2024, 2, 28),
            dt.date(2024, 2, 29),
            dt.date(2024, 3, 1),
            dt.date(2024, 3, 2),
            dt.date(2025, 1, 1),
        ],
        [b"", b"\x00", b"a", b"aa", b"b"],
    ],
    ids=lambda times: type(times[0]).__name__,
)
def test_any_ordered_object_is_a_time(structure: Structure, times: list[Any]) -> None:
    """Ordered objects work in every structure and come back as themselves."""
    window = letters(structure)
    window.insert(times[0], "a")
    window.insert_many(times[1:], list("bcde"))
    window.insert(times[-1], "!")
    assert list(window) == times and window.query() == "abcde!"
    assert all(one is other for one, other in zip(window, times, strict=True))
    if structure.ranges:
        assert window.query(times[1], times[3], closed="left") == "bc"
    assert times[2] in window and window.evict_until(times[2]) == 3
    window.check_invariants()


def test_fractions_have_sizes(structure: Structure) -> None:
    """Objects that subtract slide by size."""
    window = letters(structure)
    times = [Fraction(i, 3) for i in range(5)]
    assert window.slide(times, list("abcde"), size=Fraction(2, 3)).tolist() == ["a", "ab", "bc", "cd", "de"]


def test_objects_without_order_are_refused(structure: Structure) -> None:
    """An object that does not compare is not a time, not even as the first."""
    window = letters(structure)
    for time in (object(), 1j, {}, float):
        with pytest.raises(KindError):
            window.insert(time, "a")
        with pytest.raises(KindError):
            window.insert_many([time], ["a"])
    window.insert(1, "a")
    assert list(window) == [1]


def test_the_kind_stays_when_the_window_is_emptied(structure: Structure) -> None:
    """The first time decides for the life of the window."""
    window = letters(structure)
    window.insert(1, "a")
    window.evict(1)
    with pytest.raises(KindError):
        window.insert(1.5, "a")
    window.insert(2, "b")
    assert list(window) == [2]


def test_pandas_columns_are_batches(structure: Structure) -> None:
    """Series and indexes of pandas go in as they are."""
    frame = pd.DataFrame({"ts": pd.date_range("2024-05-01", periods=4, freq="s"), "v": [1, 2, 3, 4]})
    window = structure.window(monoids.sum())
    assert window.slide(frame["ts"], frame["v"], size=pd.Timedelta("2s")).tolist() == [1, 3, 5, 7]
    aware = structure.window(monoids.sum())
    aware.insert_many(frame["ts"].dt.tz_localize("Europe/Paris"), frame["v"])
    assert aware.newest == frame["ts"].dt.tz_localize("Europe/Paris").iloc[-1] and aware.query() == 10


def test_empty_batches_change_nothing(structure: Structure) -> None:
    """An empty batch inserts nothing, drops nothing, has no results, and sets no kind."""
    window = structure.window(monoids.sum())
    window.insert_many([], [])
    assert window.slide([], [], count=1).tolist() == [] and window.slide([], [], size=1).tolist() == []
    assert window.slide([], [], count=1, at="end") == 0
    window.insert_many(["x", "y", "z"], [0.5, 1, 2])
    assert window.slide([], [], count=1).tolist() == [] and len(window) == 3
    assert window.slide([], [], count=2, at="end") == 3 and len(window) == 2


def test_slide_error_is_for_rounds_only() -> None:
    """Bad columns are found before the first round, and raise what insert_many would."""
    window = letters()
    with pytest.raises(KindError) as caught:
        window.slide([1, 2, None], ["a", "b", "c"], count=2)
    assert not isinstance(caught.value, SlideError) and len(window) == 0
