"""Requests to a window as operations with every choice made, so that they can be replayed and raced."""

import math
import random
from string import ascii_letters
from typing import Any

from sash.errors import ArgumentError, KindError, shown
from sash.explore.traced import Number
from sash.times import is_integer

Operation = dict[str, Any]
MOST_ENTRIES = 20_000
_LARGEST = 1e12
ORDERS = ("in order", "shuffled", "late")


def planned(request: Any, times: list[Number], inserted: int, monoid: str) -> Operation:
    """Return a request as an operation with its times and values; `times` are those of the window, sorted."""
    if not isinstance(request, dict):
        raise KindError(f"operation must be an object, got {shown(request)}.", argument="operation")
    name = request.get("op")
    if not isinstance(name, str) or name not in _PLANS:
        raise ArgumentError(f"op must be one of {', '.join(_PLANS)}, got {shown(name)}.", argument="op")
    return {"op": name, **_PLANS[name](request, times, inserted, monoid)}


def _insert(request: Operation, times: list[Number], inserted: int, monoid: str) -> Operation:
    _require_room(len(times) + 1)
    value = _value(request.get("value"), inserted, monoid)
    if request.get("late") is None:
        time = checked_time(request["time"]) if request.get("time") is not None else next_time(times)
        return {"time": time, "value": value}
    late = _count(request, "late", 0, MOST_ENTRIES)
    wanted = {"wanted": late} if late > len(times) > 0 else {}  # which is said
    return {"time": late_time(times, late), "value": value, **wanted}


def _evict(request: Operation, times: list[Number], inserted: int, monoid: str) -> Operation:
    if request.get("time") is not None:
        return {"time": checked_time(request["time"])}
    if not times:
        raise ArgumentError("The window is empty: there is nothing to evict.", argument="time")
    return {"time": times[-1] if request.get("newest") else times[0]}


def _slide(request: Operation, times: list[Number], inserted: int, monoid: str) -> Operation:
    return {"evict": times[0] if times else None, **_insert(request, times, inserted, monoid)}


def _fill(request: Operation, times: list[Number], inserted: int, monoid: str) -> Operation:
    count = _count(request, "count", 1, MOST_ENTRIES)
    _require_room(len(times) + count)
    order = request.get("order", "in order")
    if order not in ORDERS:
        raise ArgumentError(f"order must be one of {', '.join(ORDERS)}, got {shown(order)}.", argument="order")
    return {"count": count, "order": order, "start": next_time(times)}


def _evict_until(request: Operation, times: list[Number], inserted: int, monoid: str) -> Operation:
    return {"time": checked_time(request.get("time"))}


def _range(request: Operation, times: list[Number], inserted: int, monoid: str) -> Operation:
    start, stop = checked_time(request.get("start"), "start"), checked_time(request.get("stop"), "stop")
    return {"start": min(start, stop), "stop": max(start, stop)}


def _query(request: Operation, times: list[Number], inserted: int, monoid: str) -> Operation:
    return {}


_PLANS = {
    "insert": _insert,
    "evict": _evict,
    "slide": _slide,
    "fill": _fill,
    "evict_until": _evict_until,
    "range": _range,
    "query": _query,
}


def rows_of(fill: Operation, inserted: int, monoid: str) -> list[tuple[Number, Any]]:
    """Return the times and values of a fill, in the order of their arrival; the same ones at each call."""
    times = [fill["start"] + i for i in range(fill["count"])]
    chance = random.Random(fill["count"])
    if fill["order"] == "shuffled":
        chance.shuffle(times)
    elif fill["order"] == "late":  # one in ten comes up to fifty places late
        delays = [chance.uniform(1, 50) if chance.random() < 0.1 else 0 for _ in times]
        times = [time for _, time in sorted(zip(map(sum, zip(times, delays, strict=True)), times, strict=True))]
    return [(time, value_for(inserted + i, monoid)) for i, time in enumerate(times)]


def value_for(place: int, monoid: str) -> Any:
    """Return the value of the n-th insert: letters for text, otherwise digits that jump about."""
    return ascii_letters[place % 52] if monoid == "text" else (place * 7 + 3) % 9 + 1


def next_time(times: list[Number]) -> Number:
    """Return the next whole time after the newest."""
    return math.floor(times[-1]) + 1 if times else 1


def late_time(times: list[Number], late: int) -> Number:
    """Return a time that `late` of the entries are newer than."""
    if late == 0 or not times:
        return next_time(times)
    if late >= len(times):
        return math.ceil(times[0]) - 1
    return between(times[-late - 1], times[-late])


def between(low: Number, high: Number) -> Number:
    """Return the shortest number between two others.

    >>> between(1, 4), between(1, 2), between(1.5, 1.6)
    (3, 1.5, 1.55)
    """
    middle = (low + high) / 2
    for digits in range(15):
        near = math.floor(middle * 10**digits + 0.5) / 10**digits
        if low < near < high:
            return int(near) if near == int(near) else near
    raise ArgumentError(f"late must leave room for a time between {shown(low)} and {shown(high)}.", argument="late")


def checked_time(time: Any, argument: str = "time") -> Number:
    """Return a time from a request."""
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        raise KindError(f"{argument} must be a number, got {shown(time)}.", argument=argument)
    if not abs(time) <= _LARGEST:
        raise ArgumentError(
            f"{argument} must be between -{_LARGEST:.0f} and {_LARGEST:.0f}, got {shown(time)}.", argument=argument
        )
    return int(time) if time == int(time) else time


def _value(value: Any, inserted: int, monoid: str) -> Any:
    if value is None or value == "":
        return value_for(inserted, monoid)
    if monoid == "text":
        text = str(value)
        if len(text) > 8:
            raise ArgumentError(f"value must have at most 8 letters, got {shown(value)}.", argument="value")
        return text
    return _checked_number(value)


def _checked_number(value: Any) -> Number:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise KindError(f"value must be a number for this operator, got {shown(value)}.", argument="value") from None
    if not abs(number) <= _LARGEST:
        raise ArgumentError(f"value must be at most {_LARGEST:.0f}, got {shown(value)}.", argument="value")
    return int(number) if number == int(number) else number


def _count(request: Operation, argument: str, least: int, most: int) -> int:
    count: Any = request.get(argument)
    if not is_integer(count):
        raise KindError(f"{argument} must be an int, got {shown(count)}.", argument=argument)
    if not least <= count <= most:
        raise ArgumentError(f"{argument} must be between {least} and {most}, got {shown(count)}.", argument=argument)
    return int(count)


def _require_room(entries: int) -> None:
    if entries > MOST_ENTRIES:
        raise ArgumentError(
            f"count must leave at most {MOST_ENTRIES} entries in the window, got {entries}.", argument="count"
        )
