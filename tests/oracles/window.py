"""What a window must answer, recomputed from scratch: a dict and a reduce.

It shares no code with sash and never imports it. Times are whatever sorts, states whatever combines.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any


class Oracle:
    """One window as a dict from time to state."""

    def __init__(
        self,
        identity: Any,
        combine: Callable[[Any, Any], Any],
        lift: Callable[[Any], Any] | None = None,
        lower: Callable[[Any], Any] | None = None,
    ) -> None:
        self.identity = identity
        self.combine = combine
        self.lift = lift or (lambda value: value)
        self.lower = lower or (lambda state: state)
        self.states: dict[Any, Any] = {}

    def copy(self) -> "Oracle":
        other = Oracle(self.identity, self.combine, self.lift, self.lower)
        other.states = dict(self.states)
        return other

    def __len__(self) -> int:
        return len(self.states)

    def __contains__(self, time: Any) -> bool:
        return time in self.states

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self.states))

    @property
    def oldest(self) -> Any:
        return min(self.states) if self.states else None

    @property
    def newest(self) -> Any:
        return max(self.states) if self.states else None

    def insert(self, time: Any, value: Any) -> None:
        """A present time combines on the right, in arrival order."""
        lifted = self.lift(value)
        self.states[time] = self.combine(self.states[time], lifted) if time in self.states else lifted

    def insert_many(self, times: Iterable[Any], values: Iterable[Any]) -> None:
        for time, value in zip(times, values, strict=True):
            self.insert(time, value)

    def evict(self, time: Any) -> bool:
        if time not in self.states:
            return False
        del self.states[time]
        return True

    def evict_until(self, time: Any, inclusive: bool = True) -> int:
        gone = [t for t in self.states if t < time or (inclusive and t == time)]
        for t in gone:
            del self.states[t]
        return len(gone)

    def times(self, start: Any = None, stop: Any = None, closed: str = "both") -> list[Any]:
        """The times of a range, ascending; None leaves that end open."""

        def inside(t: Any) -> bool:
            after = start is None or start < t or (start == t and closed in ("both", "left"))
            before = stop is None or t < stop or (t == stop and closed in ("both", "right"))
            return bool(after and before)

        return [t for t in self if inside(t)]

    def items(self, start: Any = None, stop: Any = None, closed: str = "both") -> list[tuple[Any, Any]]:
        return [(t, self.lower(self.states[t])) for t in self.times(start, stop, closed)]

    def query(self, start: Any = None, stop: Any = None, closed: str = "both") -> Any:
        states = [self.states[t] for t in self.times(start, stop, closed)]
        return self.lower(reduce(self.combine, states) if states else self.identity)

    def _drop(self, size: Any, count: int | None) -> None:
        if size is not None and self.states:
            self.evict_until(self.newest - size)
        while count is not None and len(self) > count:
            self.evict(self.oldest)

    def slide(
        self, times: Iterable[Any], values: Iterable[Any], size: Any = None, count: int | None = None
    ) -> list[Any]:
        """By size: insert, drop all times up to newest - size, query. By count: make room, insert, query."""
        results = []
        for time, value in zip(times, values, strict=True):
            if count is not None:
                self._drop(None, count - 1)
            self.insert(time, value)
            self._drop(size, None)
            results.append(self.query())
        return results

    def slide_to_end(
        self, times: Iterable[Any], values: Iterable[Any], size: Any = None, count: int | None = None
    ) -> Any:
        """Insert all, drop, one query."""
        self.insert_many(times, values)
        self._drop(size, count)
        return self.query()
