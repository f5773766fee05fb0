"""Verification of the demo's results against its raw events: every window recomputed by loops over sorted arrays.

Nothing here uses the engine. The rules are implemented a second time, as docs/rolling.md states them: which events are
late, what a retraction removes, which events a window contains.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash.pipeline.sources.generated import Demo

if TYPE_CHECKING:
    from pyarrow import Table

Result = tuple[int | None, ...]
Results = dict[tuple[str, int], Result]
AGGREGATES = ("n", "total", "largest")
_MILLISECOND = 1000
_NEVER = -(2**62)
# How an event arrived: in order; out of order; after its results were emitted, which revises them; too late to count.
IN_ORDER, OUT_OF_ORDER, REVISING, TOO_LATE = range(4)


@dataclass(frozen=True)
class Rules:
    """The windows and delays of the pipeline in microseconds; `windows` by the suffixes of the result columns."""

    key: str
    windows: Mapping[str, int]
    every: int
    delay: int
    lateness: int
    rows_per_batch: int

    @property
    def columns(self) -> list[str]:
        """The result columns, in the order of `Result`."""
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
    def of(definition: Demo, rows: int, key: str) -> "Events":
        """Return the first `rows` events of a definition."""
        import pyarrow.compute as pc

        table = definition.batch(0, rows)
        times, arrivals = (table.column(name).cast("int64").to_numpy() for name in ("ts", "arrival"))
        deletes = pc.equal(table.column("op"), "delete").to_numpy(zero_copy_only=False)
        keys = table.column(key).to_numpy(zero_copy_only=False)
        return Events(times, arrivals, keys, table.column("id").to_numpy(), table.column("amount").to_numpy(), deletes)


@dataclass(frozen=True)
class Verdict:
    """The outcome of the comparison; it `holds` where nothing is wrong."""

    compared: int
    keys: int
    late: int
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every result is correct."""
        return not self.wrong


def verify(events: Events, rules: Rules, table: "Table", late_counted: int | None = None) -> Verdict:
    """Compare a table of results, one row per key and boundary, with a recomputation from the raw events.

    `late_counted` is the number of rows that the pipeline counted as too late, or None.
    """
    late = arrived(events, rules) == TOO_LATE
    expected = recomputed(events, rules, late)
    wrong = list(_differences(expected, results_of(table, rules), rules))
    too_late = int(late.sum())
    if late_counted is not None and late_counted != too_late:
        wrong.append(f"late: the pipeline counted {late_counted:,} rows that arrived too late, not {too_late:,}")
    return Verdict(len(expected), len({key for key, _ in expected}), too_late, tuple(wrong))


def arrived(events: Events, rules: Rules) -> NDArray[np.int8]:
    """Return how each event arrived.

    The watermark of a micro-batch is the newest time of those before it, less the delay, in whole milliseconds. An
    event is too late when its pane ends at or before the watermark less the lateness. Results were emitted up to the
    watermark of the previous micro-batch, after its own events were added.
    """
    newest = np.maximum.accumulate(events.times)
    before = np.concatenate([[_NEVER], newest[:-1]])
    came = np.where(events.times < before, OUT_OF_ORDER, IN_ORDER).astype(np.int8)
    pane = gcd(rules.every, *rules.windows.values())
    ends = events.times // pane * pane + pane
    emitted = _NEVER
    for start in range(rules.rows_per_batch, len(events.times), rules.rows_per_batch):
        batch = slice(start, start + rules.rows_per_batch)
        watermark = int(newest[start - 1]) // _MILLISECOND * _MILLISECOND - rules.delay
        came[batch][ends[batch] <= emitted] = REVISING
        came[batch][ends[batch] <= watermark - rules.lateness] = TOO_LATE
        emitted = watermark
    return came


def recomputed(events: Events, rules: Rules, late: NDArray[np.bool_]) -> Results:
    """Recompute every window that is not empty, key by key and boundary by boundary."""
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
    """Yield each boundary of one key at which the largest window is not empty, with its results."""
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


def results_of(table: "Table", rules: Rules) -> Results:
    """Return the rows of a table of results by key and boundary."""
    keys, ends = table.column(rules.key).to_pylist(), table.column("window_end").cast("int64").to_pylist()
    values: Iterable[Result] = zip(*(table.column(name).to_pylist() for name in rules.columns), strict=True)
    return dict(zip(zip(keys, ends, strict=True), values, strict=True))


def _differences(expected: Results, found: Results, rules: Rules) -> Iterator[str]:
    """Yield a line for each result that is wrong, missing or unexpected, with its key and time."""
    for place in sorted(expected.keys() | found.keys()):
        key, boundary = place
        where = f"{rules.key} {key} at {instant(boundary)}"
        if place not in found:
            yield f"{where}: missing result"
        elif place not in expected:
            yield f"{where}: unexpected result"
        elif expected[place] != found[place]:
            pairs = zip(rules.columns, found[place], expected[place], strict=True)
            yield f"{where}: " + ", ".join(f"{name} is {a}, not {b}" for name, a, b in pairs if a != b)


def instant(time: int) -> str:
    """Return a time in microseconds since 1970 as text.

    >>> instant(1_767_225_660_000_000)
    '2026-01-01 00:01:00'
    """
    return datetime.fromtimestamp(time / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
