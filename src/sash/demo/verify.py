"""The demo's results checked against its raw events: every window added up again by loops over sorted arrays.

Nothing here comes from the engine. The rules are written down a second time, as docs/rolling.md states them: what is
late, what a retraction removes, which events a window holds.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.pipeline.sources.generated import Demo

Result = tuple[int | None, ...]
Results = dict[tuple[str, int], Result]
AGGREGATES = ("n", "total", "largest")
_MILLISECOND = 1000
_NEVER = -(2**62)
# How an event came: in order; behind others; after its results had been shown, so that they were revised; too late to
# count.
IN_ORDER, OUT_OF_ORDER, REVISING, TOO_LATE = range(4)


@dataclass(frozen=True)
class Rules:
    """What the pipeline was asked, in microseconds; `windows` by the names that result columns end with."""

    key: str
    windows: Mapping[str, int]
    every: int
    delay: int
    lateness: int
    rows_per_batch: int

    @property
    def columns(self) -> list[str]:
        """The columns of results, in the order that this module holds them."""
        return [f"{name}_{window}" for window in self.windows for name in AGGREGATES]


@dataclass(frozen=True)
class Events:
    """The raw events in order of arrival, as arrays; times in microseconds since 1970."""

    times: NDArray[np.int64]
    arrivals: NDArray[np.int64]
    keys: NDArray[Any]
    ids: NDArray[np.int64]
    amounts: NDArray[np.int64]
    deletes: NDArray[np.bool_]

    @staticmethod
    def of(made: Demo, rows: int, key: str) -> "Events":
        """Make the first `rows` events again."""
        import pyarrow.compute as pc

        table = made.batch(0, rows)
        times, arrivals = (table.column(name).cast("int64").to_numpy() for name in ("ts", "arrival"))
        deletes = pc.equal(table.column("op"), "delete").to_numpy(zero_copy_only=False)
        keys = table.column(key).to_numpy(zero_copy_only=False)
        return Events(times, arrivals, keys, table.column("id").to_numpy(), table.column("amount").to_numpy(), deletes)


@dataclass(frozen=True)
class Verdict:
    """What the comparison found; it `holds` where nothing is wrong."""

    compared: int
    keys: int
    late: int
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every result is what it must be."""
        return not self.wrong


def verify(events: Events, rules: Rules, table: Any, late_counted: int | None = None) -> Verdict:
    """Compare a table of results, one row for each key and boundary, with what the raw events give.

    `late_counted` is how many rows the pipeline says came too late; None where nobody counted.
    """
    late = arrived(events, rules) == TOO_LATE
    expected = recomputed(events, rules, late)
    wrong = list(_differences(expected, results_of(table, rules), rules))
    too_late = int(late.sum())
    if late_counted is not None and late_counted != too_late:
        wrong.append(f"late: the pipeline counted {late_counted:,} rows that came too late, and there are {too_late:,}")
    return Verdict(len(expected), len({key for key, _ in expected}), too_late, tuple(wrong))


def arrived(events: Events, rules: Rules) -> NDArray[np.int8]:
    """Return how each event came.

    The watermark of a micro-batch is the newest time of those before it, less the delay, in whole milliseconds. An
    event is too late when its pane ends at that less the lateness, or before. Results were shown up to the watermark
    of the micro-batch before, which its own events still had a part in.
    """
    newest = np.maximum.accumulate(events.times)
    before = np.concatenate([[_NEVER], newest[:-1]])
    came = np.where(events.times < before, OUT_OF_ORDER, IN_ORDER).astype(np.int8)
    pane = gcd(rules.every, *rules.windows.values())
    ends = events.times // pane * pane + pane
    shown = _NEVER
    for start in range(rules.rows_per_batch, len(events.times), rules.rows_per_batch):
        batch = slice(start, start + rules.rows_per_batch)
        watermark = int(newest[start - 1]) // _MILLISECOND * _MILLISECOND - rules.delay
        came[batch][ends[batch] <= shown] = REVISING
        came[batch][ends[batch] <= watermark - rules.lateness] = TOO_LATE
        shown = watermark
    return came


def recomputed(events: Events, rules: Rules, late: NDArray[np.bool_]) -> Results:
    """Add up every window that is not empty, key by key and boundary by boundary."""
    gone = set(events.ids[events.deletes & ~late].tolist())
    payments: dict[str, list[tuple[int, int]]] = {}
    counts = np.flatnonzero(~late & ~events.deletes)
    for place in counts.tolist():
        if int(events.ids[place]) not in gone:
            paid = int(events.times[place]), int(events.amounts[place])
            payments.setdefault(str(events.keys[place]), []).append(paid)
    results: Results = {}
    for key, paid_by in payments.items():
        paid_by.sort()
        for boundary, result in _boundaries(paid_by, rules):
            results[key, boundary] = result
    return results


def _boundaries(paid: list[tuple[int, int]], rules: Rules) -> Iterator[tuple[int, Result]]:
    """Return each boundary of one key at which the largest window holds something, with its results."""
    times, amounts = [time for time, _ in paid], [amount for _, amount in paid]
    largest, every = max(rules.windows.values()), rules.every
    for boundary in range(times[0] // every * every + every, times[-1] + largest + 1, every):
        stop = bisect_left(times, boundary)
        if bisect_left(times, boundary - largest) == stop:
            continue
        result: list[int | None] = []
        for size in rules.windows.values():
            inside = amounts[bisect_left(times, boundary - size) : stop]
            result += [len(inside), sum(inside) if inside else None, max(inside) if inside else None]
        yield boundary, tuple(result)


def results_of(table: Any, rules: Rules) -> Results:
    """Return a table of results by key and boundary."""
    keys, ends = table.column(rules.key).to_pylist(), table.column("window_end").cast("int64").to_pylist()
    values: Iterable[Result] = zip(*(table.column(name).to_pylist() for name in rules.columns), strict=True)
    return dict(zip(zip(keys, ends, strict=True), values, strict=True))


def _differences(expected: Results, found: Results, rules: Rules) -> Iterator[str]:
    """Name each result that is wrong, missing or too much by its key and time."""
    for place in sorted(expected.keys() | found.keys()):
        key, boundary = place
        where = f"{rules.key} {key} at {instant(boundary)}"
        if place not in found:
            yield f"{where}: there is no result, and there must be one"
        elif place not in expected:
            yield f"{where}: there is a result, and there must be none"
        elif expected[place] != found[place]:
            pairs = zip(rules.columns, found[place], expected[place], strict=True)
            yield f"{where}: " + ", ".join(f"{name} is {a}, not {b}" for name, a, b in pairs if a != b)


def instant(time: int) -> str:
    """Write a time in microseconds since 1970.

    >>> instant(1_767_225_660_000_000)
    '2026-01-01 00:01:00'
    """
    return datetime.fromtimestamp(time / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
