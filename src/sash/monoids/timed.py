"""Aggregates that depend on time: decayed_sum, decayed_mean, time_weighted_mean, rate.

They lift a value with its time, and lower a state for the time range from `start` to `stop`. Durations are in seconds
if times are instants, and in the unit of the times otherwise. Of a pair `(timestamp, id)` only the timestamp is used.
"""

import math
import operator
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sash.errors import ArgumentError, KindError, shown
from sash.monoid import Input, Monoid, Part
from sash.monoids.arguments import joined, real
from sash.times import as_number

_SECOND = np.timedelta64(1, "s")


def span(start: Any, stop: Any) -> float:
    """Return the duration between two times as a number.

    >>> from datetime import datetime
    >>> span(datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 1)), span((3, 7), (5, 1))
    (60.0, 2.0)
    """
    if isinstance(start, tuple) and isinstance(stop, tuple):
        start, stop = start[0], stop[0]
    try:
        return _seconds(stop - start)
    except TypeError:
        raise KindError(
            f"time must be a number or a datetime for this monoid, got {shown(start)} and {shown(stop)}.",
            argument="time",
        ) from None


def _seconds(difference: Any) -> float:
    if hasattr(difference, "to_timedelta64"):  # of pandas, whose total_seconds() leaves out nanoseconds
        difference = difference.to_timedelta64()
    if isinstance(difference, timedelta):
        return difference.total_seconds()
    return float(difference / _SECOND) if isinstance(difference, np.timedelta64) else float(difference)


# --- decayed sum ----------------------------------------------------------------------------------


class _Decayed(NamedTuple):
    total: float
    at: Any


def _dated(value: Any, time: Any) -> _Decayed:
    return _Decayed(real(value), time)


def _weight(half_life: float, age: float) -> float:
    return math.inf if age < -1000.0 * half_life else 0.5 ** (age / half_life)


def _decayed(half_life: float, a: _Decayed, b: _Decayed) -> _Decayed:
    older, newer = (a, b) if a.at <= b.at else (b, a)
    return _Decayed(_faded(half_life, older, newer.at) + newer.total, newer.at)


def _faded(half_life: float, state: _Decayed, at: Any) -> float:
    """Return the sum decayed until `at`; inf and NaN do not decay."""
    if not math.isfinite(state.total):
        return state.total
    return state.total * _weight(half_life, span(state.at, at))


def _decayed_until(half_life: float, state: _Decayed | None, _: Any, stop: Any) -> float:
    return 0.0 if state is None else _faded(half_life, state, stop)


def _checked_half_life(half_life: Any) -> float:
    wanted = "half_life must be a positive number in the unit of the times, or a positive timedelta"
    if isinstance(half_life, (timedelta, np.timedelta64)):
        try:
            length = _seconds(half_life)
        except TypeError:  # months and years have no fixed number of seconds
            length = math.nan
    elif isinstance(half_life, (bool, np.bool_)) or as_number(half_life) is None:
        raise KindError(f"{wanted}, got {shown(half_life)}.", argument="half_life")
    else:
        length = real(half_life)
    if not 0.0 < length < math.inf:
        raise ArgumentError(f"{wanted}, got {shown(half_life)}.", argument="half_life")
    return length


def decayed_sum(half_life: Any, column: str | None = None) -> Monoid:
    """Sum of the values, each halved once per `half_life` of its age at the end of the range; 0.0 if empty.

    `half_life` is a number in the unit of the times; for instants, a timedelta or a number of seconds.

    >>> m = decayed_sum(10)
    >>> m.lower(m.combine(m.lift(8.0, 0), m.lift(1.0, 20)), 0, 30)
    1.5
    """
    length = _checked_half_life(half_life)
    return Monoid(
        identity=None,
        combine=partial(joined, partial(_decayed, length)),
        lift=_dated,
        lower=partial(_decayed_until, length),
        commutative=True,
        timed=True,
        exact=False,
        name="decayed_sum",
        column=column,
        arguments=(("half_life", length),),
        parts=(Part("decayed_sum", (Input(column, "float"),), (length,)),),
    )


# --- decayed mean ---------------------------------------------------------------------------------


class _Faded(NamedTuple):
    total: float
    weight: float  # of all values, where those of the newest time weigh 1 each
    at: Any


def _weighing_one(value: Any, time: Any) -> _Faded:
    return _Faded(real(value), 1.0, time)


def _both_faded(half_life: float, a: _Faded, b: _Faded) -> _Faded:
    older, newer = (a, b) if a.at <= b.at else (b, a)
    share = _weight(half_life, span(older.at, newer.at))
    total = older.total * share if math.isfinite(older.total) else older.total
    return _Faded(total + newer.total, older.weight * share + newer.weight, newer.at)


def _faded_mean(state: _Faded | None, _start: Any, _stop: Any) -> float | None:
    return None if state is None else state.total / state.weight


def decayed_mean(half_life: Any, column: str | None = None) -> Monoid:
    """Mean of the values, each of half the weight after every `half_life` of its age; None if empty.

    It is the exponential moving average over times that need not be regular. `half_life` is a number in the unit of the
    times; for instants, a timedelta or a number of seconds. When the range ends makes no difference.

    >>> m = decayed_mean(10)
    >>> m.lower(m.combine(m.lift(8.0, 0), m.lift(2.0, 20)), 0, 30)
    3.2
    """
    length = _checked_half_life(half_life)
    return Monoid(
        identity=None,
        combine=partial(joined, partial(_both_faded, length)),
        lift=_weighing_one,
        lower=_faded_mean,
        commutative=True,
        timed=True,
        exact=False,
        name="decayed_mean",
        column=column,
        arguments=(("half_life", length),),
        parts=(Part("decayed_mean", (Input(column, "float"),), (length,)),),
    )


# --- time-weighted mean ---------------------------------------------------------------------------


class _Steps(NamedTuple):
    first: Any
    last: Any
    value: float  # what holds from `last` on
    area: float  # under the steps from `first` to `last`


def _step(value: Any, time: Any) -> _Steps:
    return _Steps(time, time, real(value), 0.0)


def _area(value: float, length: float) -> float:
    """Return the area of one step, which is 0 for a step of length 0 even if its value is infinite."""
    return value * length if length else 0.0


def _followed(a: _Steps, b: _Steps) -> _Steps:
    return _Steps(a.first, b.last, b.value, a.area + _area(a.value, span(a.last, b.first)) + b.area)


def _mean_height(state: _Steps | None, _: Any, stop: Any) -> float | None:
    if state is None:
        return None
    length = span(state.first, stop)
    if not length:
        return state.value
    return (state.area + _area(state.value, span(state.last, stop))) / length


def time_weighted_mean(column: str | None = None) -> Monoid:
    """Mean of the values weighted by duration: each lasts until the next, the last until the end; None if empty.

    It covers the range from the first time to the end of the range. If that has length 0, it is the last value.

    >>> m = time_weighted_mean()
    >>> m.lower(m.combine(m.lift(1.0, 0), m.lift(4.0, 20)), 0, 30)
    2.0
    """
    return Monoid(
        identity=None,
        combine=partial(joined, _followed),
        lift=_step,
        lower=_mean_height,
        commutative=False,
        timed=True,
        exact=False,
        name="time_weighted_mean",
        column=column,
        parts=(Part("time_weighted_mean", (Input(column, "float"),)),),
    )


# --- rate -----------------------------------------------------------------------------------------


def _timeless(value: Any, _: Any) -> float:
    return real(value)


def _per_unit(total: float, start: Any, stop: Any) -> float | None:
    length = 0.0 if start is None or stop is None else span(start, stop)
    return total / length if length else None


def rate(column: str | None = None) -> Monoid:
    """Sum of the values per unit of time, per second if times are instants; None for a range of length 0.

    For a rate of events, insert ones.

    >>> m = rate()
    >>> m.lower(m.combine(m.lift(30.0, 0), m.lift(10.0, 20)), 0, 20)
    2.0
    """
    return Monoid(
        identity=0.0,
        combine=operator.add,
        lift=_timeless,
        lower=_per_unit,
        commutative=True,
        timed=True,
        exact=False,
        name="rate",
        column=column,
        parts=(Part("rate", (Input(column, "float"),)),),
    )
