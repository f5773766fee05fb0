"""Brute force answers for windows and tables, written from README.md and docs/ alone, and how answers are compared."""

import math
from bisect import insort
from collections import Counter
from fractions import Fraction
from typing import Any

from campaigns.fuzz.aggregates import AGGREGATES, ANY, INT64, Agg

TOLERANCE = 1e-7


class Expected(Exception):
    """The error that a call must raise: the name of its class in `sash`."""

    def __init__(self, name: str, index: int | None = None, results: list | None = None) -> None:
        super().__init__(name)
        self.name, self.index, self.results = name, index, results


def same(expected: Any, found: Any, exact: bool = True, strict: bool = True) -> bool:
    """Return whether an answer is the expected one; `strict` also tells ints from floats and -0.0 from 0.0."""
    if expected is ANY or expected is None or found is None:
        return expected is ANY or expected is found
    if isinstance(expected, Counter):
        return (
            expected == found
            if isinstance(found, Counter)
            else isinstance(found, list)
            and ranked(found) == sorted(expected.values())[::-1]
            and dict(pair.values() if isinstance(pair, dict) else pair for pair in found) == dict(expected)
        )
    if isinstance(expected, set):
        return len(expected) == len(found) and expected == set(found)
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same(expected[k], found[k], exact, strict) for k in expected)
    if isinstance(expected, list | tuple):
        found = tuple(found.values()) if isinstance(found, dict) else found
        if not isinstance(found, list | tuple) or len(found) != len(expected):
            return False
        return all(same(a, b, exact, strict) for a, b in zip(expected, found, strict=True))
    return same_scalar(expected, found, exact, strict)


def ranked(found: list) -> list[int]:
    """Return the counts of a list of frequent items, in its order."""
    return [pair["estimate"] if isinstance(pair, dict) else pair[1] for pair in found]


def same_scalar(expected: Any, found: Any, exact: bool, strict: bool) -> bool:
    """Return whether two single values are the same."""
    if not isinstance(expected, int | float | Fraction) or not isinstance(found, int | float | Fraction):
        return type(expected) is type(found) and expected == found
    if strict and type(expected) is not type(found):
        return expected == found == 0 and type(expected) is int  # a sum of no values may be 0 or 0.0
    if expected != expected or found != found:
        return expected != expected and found != found
    if exact or not isinstance(expected, float):
        return expected == found and (not strict or math.copysign(1, expected) == math.copysign(1, found))
    return expected == found or math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


class WindowOracle:
    """What a `Window` must answer: all values by time, in order of arrival, and nothing else."""

    def __init__(self, agg: Agg, number: Any, *, in_order: bool, fifo: bool, native: bool) -> None:
        self.agg, self.number = agg, number
        self.in_order, self.fifo, self.native = in_order, fifo, native
        self.times: list = []
        self.values: dict[Any, list] = {}

    def copy(self) -> "WindowOracle":
        """Return an independent copy."""
        other = WindowOracle(self.agg, self.number, in_order=self.in_order, fifo=self.fifo, native=self.native)
        other.times = list(self.times)
        other.values = {time: list(values) for time, values in self.values.items()}
        return other

    def insert(self, time: Any, value: Any) -> None:
        """Add a value; at a time that is present it goes after the others."""
        if self.in_order and self.times and time < self.times[-1]:
            raise Expected("OutOfOrderError")
        if time not in self.values:
            insort(self.times, time)
            self.values[time] = []
        self.values[time].append(value)

    def insert_many(self, times: list, values: list) -> None:
        """Insert a batch, all or nothing."""
        trial = self.copy()
        for time, value in zip(times, values, strict=True):
            trial.insert(time, value)
        self.times, self.values = trial.times, trial.values

    def evict(self, time: Any) -> bool:
        """Remove the entry at a time."""
        if time not in self.values:
            return False
        if self.fifo and time != self.times[0]:
            raise Expected("OutOfOrderError")
        self.times.remove(time)
        del self.values[time]
        return True

    def evict_until(self, time: Any, inclusive: bool = True) -> int:
        """Remove all entries up to a time."""
        gone = [t for t in self.times if t < time or (inclusive and t == time)]
        for t in gone:
            del self.values[t]
        self.times = self.times[len(gone) :]
        return len(gone)

    def between(self, start: Any, stop: Any, closed: str) -> list:
        """Return the times of a range."""
        low = [] if start is None else [t for t in self.times if t < start or (t == start and closed in LEFT_OPEN)]
        times = self.times[len(low) :]
        return [t for t in times if stop is None or t < stop or (t == stop and closed not in RIGHT_OPEN)]

    def query(self, start: Any = None, stop: Any = None, closed: str = "both") -> Any:
        """Return the aggregate of a range of times."""
        if self.fifo and (start is not None or stop is not None):
            raise Expected("UnsupportedError")
        times = self.between(start, stop, closed)
        start = start if start is not None else self.times[0] if self.times else None
        stop = stop if stop is not None else self.times[-1] if self.times else None
        backwards = start is not None and stop is not None and start > stop
        return ANY if self.agg.timed and backwards else self.answer(times, start, stop)

    def answer(self, times: list, start: Any, stop: Any) -> Any:
        """Return the aggregate of the entries at these times, lowered for the range from start to stop."""
        pairs = [(self.number(t), value) for t in times for value in self.values[t]]
        low, high = (None if end is None else self.number(end) for end in (start, stop))
        return self.fitting(self.agg.answer([v for _, v in pairs], [t for t, _ in pairs], low, high))

    def fitting(self, answer: Any) -> Any:
        """Return an answer, or raise if it is an int that a native window cannot return."""
        if self.native and self.agg.call.startswith("monoids.sum") and type(answer) is int and answer not in INT64:
            raise Expected("ResultOverflowError")
        return answer

    def items(self, start: Any, stop: Any, closed: str, reverse: bool) -> list:
        """Return the pairs of a time and the aggregate at that time."""
        times = self.between(start, stop, closed)
        return [(t, self.answer([t], t, t)) for t in (times[::-1] if reverse else times)]

    def slide(self, times: list, values: list, less: Any, count: int | None, at: str) -> Any:
        """Slide over a stream; `less(time)` is the newest time that is dropped when `time` is the newest."""
        if at == "end":
            return self.slide_once(times, values, less, count)
        results: list = []
        for index, (time, value) in enumerate(zip(times, values, strict=True)):
            before = self.copy()
            try:
                if count is not None and len(self.times) >= count:
                    self.evict_until(self.times[len(self.times) - count])
                self.insert(time, value)
            except Expected as error:
                self.times, self.values = before.times, before.values
                raise Expected(error.name, index, results) from None
            try:
                results.append(self.round_answer(less))
            except Expected as error:
                raise Expected(error.name, index, results) from None
        return results

    def round_answer(self, less: Any) -> Any:
        """Drop what is too old and return the aggregate of the rest."""
        if less is None:
            return self.query()
        newest = self.times[-1]
        gone = sum(less(newest, t) for t in self.times[:-1])
        if gone:
            self.evict_until(self.times[gone - 1])
        return self.answer(self.times, less(newest, None), newest)

    def slide_once(self, times: list, values: list, less: Any, count: int | None) -> Any:
        """Insert all, evict, and answer once."""
        try:
            self.insert_many(times, values)
        except Expected as error:
            raise Expected(error.name, 0, []) from None
        if count is not None and len(self.times) > count:
            self.evict_until(self.times[-count - 1])
        try:
            return self.round_answer(less if self.times else None)
        except Expected as error:
            raise Expected(error.name, 0, []) from None


LEFT_OPEN = ("right", "neither")
RIGHT_OPEN = ("left", "neither")


def aggregate(name: str, rows: list[dict], columns: list[str], start: Any = None, stop: Any = None) -> Any:
    """Return an aggregate over the rows of a window of a table: nulls are skipped, without values it is null."""
    agg = AGGREGATES[name]
    if not columns:
        return len(rows)
    rows = [row for row in rows if all(row[column] is not None for column in columns)]
    if not rows and not agg.counts:
        return None
    values = [row[columns[0]] if len(columns) == 1 else tuple(row[c] for c in columns) for row in rows]
    answer = agg.answer(values, [row["t"] for row in rows], start, stop)
    return None if type(answer) is int and answer not in INT64 else answer


def results(rows: list[dict], aggs: list, windows: list[int], end: int, closed: str) -> dict[str, Any]:
    """Return every aggregate for every window that ends at a time; `rows` are one key's, in order of time."""
    answers = {}
    for size in windows:
        inside = [row for row in rows if within(row["t"], end, size, closed)]
        for name, (agg, columns) in aggs:
            answers[name, size] = aggregate(agg, inside, columns, end - size, end)
    return answers


def within(time: int, end: int, size: int, closed: str) -> bool:
    """Return whether a time is in a window that ends at `end`."""
    return end - size <= time < end if closed == "left" else end - size < time <= end


def boundaries(times: list[int], size: int, every: int, offset: int) -> list[int]:
    """Return the boundaries b for which one of the times is in [b - size, b)."""
    found = set()
    for time in times:
        first = (time - offset) // every * every + every + offset
        found.update(range(first, time + size + 1, every))
    return sorted(found)
