"""Calendar periods in time zones: the core's points against those that the standard library's clocks give."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash import ArgumentError, KeyedWindows, KindError, Monoid, monoids, rolling
from sash.keyed.zones import PERIODS, calendar

# Midnights that are skipped, come twice or are a day apart; offsets of odd minutes; two hours of Ramadan; plain ones.
ZONES = [
    *("America/Sao_Paulo", "America/Havana", "America/St_Johns", "Pacific/Apia", "Asia/Beirut", "Asia/Kathmandu"),
    *("Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tehran", "Europe/Berlin", "America/New_York", "UTC"),
]
EPOCH = datetime(1970, 1, 1)


def seconds(local: datetime) -> int:
    return (local.replace(tzinfo=None) - EPOCH) // timedelta(seconds=1)


def first_second_of(midnight: datetime, zone: ZoneInfo) -> int:
    """The first instant whose local time is a midnight or later, found by bisection over the clock's readings."""
    low, high = seconds(midnight) - 2 * 86_400, seconds(midnight) + 2 * 86_400

    def local(second: int) -> int:
        return seconds(datetime.fromtimestamp(second, UTC).astimezone(zone))

    # Clocks that are put back make the readings go down once, so the last quarters of hours are looked at one by one.
    first = next(at for at in range(low, high, 900) if local(at) >= seconds(midnight))
    return next(at for at in range(first - 900, first + 1) if local(at) >= seconds(midnight))


@pytest.mark.parametrize("name", ZONES)
def test_days_are_those_of_the_clock(name):
    """Around every change of an offset in some years, each day begins where the clock first shows its midnight."""
    zone, days = ZoneInfo(name), calendar("day", name, "s")
    before = None
    for year in (1949, 1987, 1996, 2007, 2010, 2011, 2018, 2026, 2080):
        day = date(year, 1, 1)
        while day.year == year:
            noon = datetime(day.year, day.month, day.day, 12, tzinfo=zone)
            offset, at = noon.utcoffset(), int(noon.timestamp())
            if offset != before:
                for shift in (-1, 0, 1):
                    midnight = datetime(day.year, day.month, day.day) + timedelta(days=shift)
                    point = first_second_of(midnight, zone)
                    assert days.start_of(point) == point
                    assert days.start_of(point - 1) < point == days.next_after(point - 1)
                assert days.start_of(at) <= at < days.next_after(at)
            before = offset
            day += timedelta(days=1)


@pytest.mark.parametrize("period", PERIODS)
@given(st.datetimes(datetime(1, 1, 3), datetime(9998, 1, 1)), st.sampled_from(ZONES[-7:]))
def test_periods_hold_their_instants(period, at, name):
    """From the year 1 to 9998, before 1970 and in leap years: the local date says where a period begins and ends."""
    zone, periods = ZoneInfo(name), calendar(period, name, "us")
    tick = (at - EPOCH) // timedelta(microseconds=1)
    start, stop = periods.start_of(tick), periods.next_after(tick)
    assert start <= tick < stop and periods.start_of(stop) == stop and periods.start_of(stop - 1) == start
    first = (EPOCH + timedelta(microseconds=start)).replace(tzinfo=UTC).astimezone(zone)
    assert label(period, first.date()) == first.date()
    local = at.replace(tzinfo=UTC).astimezone(zone).date()
    assert label(period, local) == first.date() or local < first.date()  # an hour that comes twice


def label(period: str, day: date) -> date:
    if period == "day":
        return day
    if period == "week":
        return day - timedelta(days=day.weekday()) if day > date(1, 1, 7) else day
    months = {"month": 1, "quarter": 3, "year": 12}[period]
    return date(day.year, (day.month - 1) // months * months + 1, 1)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("period", PERIODS)
def test_the_ends_of_int64(unit, period):
    """Any tick has a period; one that would begin before the first instant begins there."""
    periods = calendar(period, "Asia/Kathmandu", unit)
    for tick in (-(2**63), -(2**63) + 1, -(2**62), -1, 0, 2**62, 2**63 - 1):
        start, stop = periods.start_of(tick), periods.next_after(tick)
        assert start <= tick and (tick < stop or stop == 2**63 - 1)
        assert periods.start_of(start) == start


def test_long_and_short_days():
    """The days on which the clocks change have 23 and 25 hours."""
    days = calendar("day", "Europe/Berlin", "s")
    for day, hours in (
        (datetime(2026, 3, 29, 12), 23),
        (datetime(2026, 10, 25, 12), 25),
        (datetime(2026, 7, 1, 12), 24),
    ):
        assert days.next_after(seconds(day)) - days.start_of(seconds(day)) == hours * 3600


def test_a_day_that_was_skipped():
    """Samoa had no 30th of December in 2011: two periods begin at one instant, and one is empty."""
    days = calendar("day", "Pacific/Apia", "s")
    eve = seconds(datetime(2011, 12, 30, 9, 59, 59))
    assert days.next_after(eve) == eve + 1 and days.next_after(eve + 1) == eve + 1 + 86_400


# --- in results -----------------------------------------------------------------------------------

HOURS = [datetime(2026, 3, 28, 18) + timedelta(hours=5 * i) for i in range(8)]
VISITS = pa.table({"ts": pa.array(HOURS, pa.timestamp("us", "UTC")), "x": list(range(8))})


def by_hand(period: str, zone: str) -> list[int]:
    labels = [label(period, at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).date()) for at in HOURS]
    return [labels[: i + 1].count(labels[i]) for i in range(len(labels))]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize("period", PERIODS)
def test_to_date(period, zone):
    """The number of rows so far in the period, in a table and in a stream that forgets."""
    spec = {"time": "ts", "windows": [f"{period} to date"], "aggs": {"n": monoids.count()}, "zone": zone}
    assert rolling(VISITS, **spec)[f"n_{period}_to_date"].to_pylist() == by_hand(period, zone)
    kw = KeyedWindows(keys=[], **spec)
    pieces = [kw.push(VISITS.slice(i, 1))[f"n_{period}_to_date"].to_pylist() for i in range(8)]
    assert [count for piece in pieces for count in piece] == by_hand(period, zone)
    kw.check_invariants()


@pytest.mark.parametrize("every", ["1 day", "1d", "day", timedelta(days=1)])
def test_every_local_day(every):
    """Boundaries are local midnights; what is to date there is the whole day before, and 1d is always 24 hours."""
    spec = {"time": "ts", "aggs": {"n": monoids.count()}, "zone": "Europe/Berlin"}
    if every == "day":
        with pytest.raises(ArgumentError, match="every must be a duration"):
            rolling(VISITS, windows=["1d"], every=every, **spec)
        return
    days = rolling(VISITS, windows=["day to date", "1d"], every=every, **spec)
    local = [at.astimezone(ZoneInfo("Europe/Berlin")).isoformat() for at in days["window_end"].to_pylist()]
    assert local == ["2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", "2026-03-31T00:00:00+02:00"]
    starts = [at.astimezone(ZoneInfo("Europe/Berlin")).isoformat() for at in days["window_start"].to_pylist()]
    assert starts[1:] == local[:-1]
    assert days["n_day_to_date"].to_pylist() == [1, 5, 2]
    assert days["n_1d"].to_pylist() == [1, 5, 2]


def test_every_month_needs_no_zone():
    """A month has no fixed length, so its boundaries are calendar points in UTC too."""
    months = rolling(VISITS, time="ts", windows=["month to date"], every="1 month", aggs={"n": monoids.count()})
    assert [at.isoformat() for at in months["window_end"].to_pylist()] == ["2026-04-01T00:00:00+00:00"]
    assert months["n_month_to_date"].to_pylist() == [8]


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("zone", {"windows": ["day to date"], "zone": "Europe/Nowhere"}),
        ("zone", {"windows": ["1d"], "zone": "Europe/Berlin"}),
        ("every", {"windows": ["1d"], "zone": "UTC", "every": "2 months"}),
        ("every", {"windows": ["1d"], "zone": "UTC", "every": "2 days"}),
        ("offset", {"windows": ["1d"], "zone": "UTC", "every": "1 day", "offset": "1h"}),
        ("resolution", {"windows": ["1d"], "zone": "UTC", "every": "1 day", "resolution": "1h"}),
        ("resolution", {"windows": ["2 rows", "1d"], "every": "1h", "resolution": "1m"}),
        ("windows", {"windows": ["next 1h"], "every": "1h"}),
        ("windows", {"windows": ["0 rows"]}),
        ("windows", {"windows": ["fortnight to date"]}),
        ("idle", {"windows": ["1d"], "idle": "1d"}),
        ("idle", {"windows": ["2 rows"], "idle": "0d"}),
        ("min_rows", {"windows": ["1d"], "min_rows": 0}),
        ("min_rows", {"windows": ["1d"], "min_rows": True}),
        ("closed", {"windows": ["1d"], "closed": "inner"}),
    ],
)
def test_what_is_refused(argument, options):
    """Each with the name of its argument."""
    with pytest.raises(ArgumentError) as raised:
        rolling(VISITS, time="ts", aggs={"n": monoids.count()}, **options)
    assert raised.value.argument == argument and argument in str(raised.value)


def test_what_else_is_refused():
    """A zone that does not exist, a stream that would have to look ahead, Python aggregates of what is forgotten."""
    spec = {"time": "ts", "aggs": {"n": monoids.count()}}
    with pytest.raises(KindError, match="zone must be the name"):
        rolling(VISITS, windows=["day to date"], zone=3, **spec)
    with pytest.raises(ArgumentError, match="windows must end at their row in a stream"):
        KeyedWindows(keys=[], windows=["next 1h"], **spec)
    letters = Monoid(identity="", combine=str.__add__, lift=str, column="x", name="letters")
    with pytest.raises(ArgumentError, match="aggs must be native with the window 'unbounded'"):
        rolling(VISITS, time="ts", windows=["unbounded"], aggs={"x": letters})
    with pytest.raises(ArgumentError, match="because the times are ints"):
        rolling({"t": [1], "x": [2]}, time="t", windows=["day to date"], aggs={"n": monoids.count()})
