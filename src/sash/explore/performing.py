"""Operations, performed on a window of traced times and states."""

from bisect import bisect_left, bisect_right
from typing import Any

from sash.explore.planning import Operation, rows_of
from sash.explore.traced import Log, Moment, Number
from sash.window.window import Window


def perform(window: Window, operation: Operation, log: Log, inserted: int, monoid: str) -> bool:
    """Run an operation on a window; return whether what it evicts was there."""
    name, found = operation["op"], True
    if name == "slide" and operation["evict"] is not None:
        window.evict(Moment(operation["evict"], log))
    if name in ("insert", "slide"):
        window.insert(Moment(operation["time"], log), (operation["time"], operation["value"]))
    elif name == "evict":
        found = window.evict(Moment(operation["time"], log, stored=False))
    elif name == "evict_until":
        window.evict_until(Moment(operation["time"], log, stored=False))
    elif name == "fill":
        for time, value in rows_of(operation, inserted, monoid):
            window.insert(Moment(time, log), (time, value))
    return found


def distance_of(operation: Operation, times: list[Number]) -> dict[str, Any]:
    """Return how far from the nearer end an operation is, in entries, and how many entries are newer."""
    if operation["op"] not in ("insert", "evict") or not times:
        return {}
    older, newer = bisect_left(times, operation["time"]), len(times) - bisect_right(times, operation["time"])
    return {"distance": min(older, newer), "newer": newer, "merged": older + newer < len(times)}


def inserts_of(operation: Operation) -> int:
    """Return how many inserts an operation makes."""
    return int(operation.get("count", 1)) if operation["op"] in ("insert", "slide", "fill") else 0
