"""Aggregates written in Python, over the rows that the core finds in each window.

The core keeps rows in order and knows which of them are in an anchor's window. Here values are lifted, combined along
each key with two stacks, and lowered. An exception makes the results of its windows null.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sash.errors import ArgumentError, shown
from sash.monoid import Monoid
from sash.monoids import stable_hash

_NOTHING = None  # the state of rows without a value


class Spans(NamedTuple):
    """Anchors by key and time, and the range of rows in each of their windows."""

    order: NDArray[np.uint32]
    start: NDArray[np.int64]  # a row for each window
    stop: NDArray[np.int64]
    seqs: NDArray[np.int64]
    times: NDArray[np.int64]

    @classmethod
    def of(cls, parts: tuple[bytes, bytes, bytes, bytes, bytes], windows: int) -> "Spans":
        """Return what the core found."""
        order, start, stop, seqs, times = parts
        words = [np.frombuffer(part, dtype=np.int64) for part in (start, stop, seqs, times)]
        return cls(
            np.frombuffer(order, dtype=np.uint32),
            words[0].reshape(windows, -1),
            words[1].reshape(windows, -1),
            *words[2:],
        )


class Failure(NamedTuple):
    """What a user's function raised."""

    error: Exception


def values_of(column: Any, name: str | None, unreadable: dict[int, Exception]) -> list[Any]:
    """Return a column of Arrow as Python values: None for those that Python does not have, noted in `unreadable`.

    Python's dates and times are of the years 1 to 9999.
    """
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        values = []
        for row, scalar in enumerate(column):
            try:
                values.append(scalar.as_py())
            except (OverflowError, ValueError):
                values.append(None)
                unreadable[row] = ArgumentError(
                    f"column {shown(name)} must hold times of the years 1 to 9999 for an aggregate that runs in "
                    f"Python, got {scalar.type} {getattr(scalar, 'value', '')}.",
                    argument="aggs",
                    column=name,
                )
        return values


class _Failed(Exception):
    def __init__(self, error: Exception) -> None:
        self.error = error


class Fold:
    """One aggregate over the rows of some anchors."""

    def __init__(
        self,
        monoid: Monoid,
        rows: Sequence[Sequence[Any]],
        times: Sequence[Any],
        unreadable: Mapping[int, Exception] | None = None,
    ) -> None:
        """Take the columns that it reads, and the rows' times; what is wrong with rows that have no Python value."""
        self.monoid = monoid
        self.states = [self._lifted(values, time) for values, time in zip(zip(*rows, strict=True), times, strict=True)]
        for row, error in (unreadable or {}).items():
            self.states[row] = Failure(error)

    def _lifted(self, values: tuple[Any, ...], time: Any) -> Any:
        if any(value is None for value in values):
            return _NOTHING
        value, lift = values[0] if len(values) == 1 else values, self.monoid.lift
        if lift is None:
            return value
        try:
            return lift(value, time) if self.monoid.timed else lift(value)
        except Exception as error:
            return Failure(error)

    def results(self, spans: Spans, window: int, ranges: Sequence[tuple[Any, Any]], least: int = 0) -> list[Any]:
        """Return a result for each anchor, by key and time: None below `least` rows, `Failure` where one raised."""
        stacks = _Stacks(self.joined, self.states)
        bounds = zip(spans.start[window].tolist(), spans.stop[window].tolist(), strict=True)
        return [
            self._result(stacks, start, stop, span) if stop - start >= least else None
            for (start, stop), span in zip(bounds, ranges, strict=True)
        ]

    def _result(self, stacks: "_Stacks", start: int, stop: int, span: tuple[Any, Any]) -> Any:
        try:
            state = self._state(stacks, start, stop)
            if state is _NOTHING:
                return None
            lower = self.monoid.lower
            if lower is None:
                return state
            return lower(state, *span) if self.monoid.timed else lower(state)
        except _Failed as failed:
            return Failure(failed.error)
        except Exception as error:
            return Failure(error)

    def _state(self, stacks: "_Stacks", start: int, stop: int) -> Any:
        try:
            return stacks.answer(start, stop)
        except Exception:  # the stacks are half made; whether this window fails depends on its own rows
            stacks.restart(start)
            state = _NOTHING
            for i in range(start, stop):
                state = self.joined(state, self.states[i])
            return state

    def joined(self, a: Any, b: Any) -> Any:
        """Return two states combined, either of which may be that of no rows."""
        for state in (a, b):
            if isinstance(state, Failure):
                raise _Failed(state.error)
        if a is _NOTHING:
            return b
        return a if b is _NOTHING else self.monoid.combine(a, b)


class _Stacks:
    """Two stacks over a list of states: ranges whose ends never move back cost O(1) combines each."""

    def __init__(self, combine: Callable[[Any, Any], Any], states: list[Any]) -> None:
        self.combine, self.states = combine, states
        self.restart(0)

    def restart(self, start: int) -> None:
        """Start again at a state."""
        self.front: list[Any] = []  # suffixes, the shortest first
        self.front_stop = self.stop = start
        self.back: Any = _NOTHING

    def answer(self, start: int, stop: int) -> Any:
        """Return the states from start to stop combined."""
        if start >= self.stop:
            self.restart(start)
        while self.stop < stop:
            self.back = self.combine(self.back, self.states[self.stop])
            self.stop += 1
        if start > self.front_stop:
            self._flip(start)
        left = self.front_stop - start
        return self.combine(self.front[left - 1], self.back) if left > 0 else self.combine(_NOTHING, self.back)

    def _flip(self, start: int) -> None:
        self.front, state = [], _NOTHING
        for i in range(self.stop - 1, start - 1, -1):
            state = self.combine(self.states[i], state)
            self.front.append(state)
        self.front_stop, self.back = self.stop, _NOTHING


def hashed(columns: Iterable[Sequence[Any]], rows: int) -> NDArray[np.int64]:
    """Return a hash of each row's results, to notice changes."""
    hashes = np.zeros(rows, dtype=np.int64)
    for column in columns:
        own = np.fromiter((_hash_of(value) for value in column), dtype=np.int64, count=rows)
        hashes = hashes * np.int64(1_000_003) ^ own
    return hashes


def _hash_of(value: Any) -> int:
    if isinstance(value, (set, frozenset)):  # equal sets may have their elements in different orders
        value = sorted(map(repr, value))
    try:
        number = stable_hash(value)
    except Exception:  # a list or a dict: its repr will do
        number = stable_hash(repr(value))
    return number - 2**64 if number >= 2**63 else number
