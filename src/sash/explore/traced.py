"""Times and states that log what a structure does with them.

A window compares its times and combines its states by calling these classes, so the log has every comparison and every
combine that the native code makes, and each state knows which entries it covers. No structure is imitated.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, NamedTuple

from sash.errors import ArgumentError, shown
from sash.monoid import Monoid
from sash.monoids import count, mean, sum
from sash.monoids import max as largest
from sash.monoids import min as smallest

Number = int | float


class Combine(NamedTuple):
    """One combine: the serial numbers of its operands and of its result."""

    left: int
    right: int
    result: int


@dataclass
class Log:
    """What happened since it was cleared: comparisons with stored times, combines, and the states that were lowered."""

    compares: list["Moment"] = field(default_factory=list)
    combines: list[Combine] = field(default_factory=list)
    lowered: list[int] = field(default_factory=list)
    serial: int = 0
    on: bool = True

    def clear(self) -> None:
        """Forget everything but the serial numbers."""
        self.compares.clear()
        self.combines.clear()
        self.lowered.clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Log nothing inside the block."""
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before


@total_ordering
class Moment:
    """A time that logs each comparison with a time that a window stores."""

    __slots__ = ("log", "stored", "time")

    def __init__(self, time: Number, log: Log, *, stored: bool = True) -> None:
        """Create a time; those of questions are not `stored`, and comparing them with each other is not logged."""
        self.time = time
        self.log = log
        self.stored = stored

    def __lt__(self, other: "Moment") -> bool:
        """Compare by the number."""
        if self is not other and self.log.on:
            self.log.compares.extend(moment for moment in (self, other) if moment.stored)
        return self.time < other.time

    def __eq__(self, other: object) -> bool:
        """Compare by the number."""
        return isinstance(other, Moment) and self.time == other.time

    def __hash__(self) -> int:
        """Return the hash of the number."""
        return hash(self.time)

    def __repr__(self) -> str:
        """Return the number, for messages about times."""
        return repr(self.time)


class State:
    """A state of a monoid with the times of the oldest and the newest entry that it covers."""

    __slots__ = ("first", "last", "serial", "value")

    def __init__(self, first: Number | None, last: Number | None, serial: int, value: Any) -> None:
        """Create a state; `serial` tells it from all others and grows with time."""
        self.first = first
        self.last = last
        self.serial = serial
        self.value = value


def _text() -> Monoid:
    return Monoid(identity="", combine=_joined, name="text")


def _joined(a: str, b: str) -> str:
    return a + b


MONOIDS: dict[str, Callable[[], Monoid]] = {
    "text": _text,
    "sum": sum,
    "max": largest,
    "min": smallest,
    "count": count,
    "mean": mean,
}


def monoid_named(name: Any) -> Monoid:
    """Return one of the monoids of the explorer."""
    if not isinstance(name, str) or name not in MONOIDS:
        raise ArgumentError(f"monoid must be one of {', '.join(MONOIDS)}, got {shown(name)}.", argument="monoid")
    return MONOIDS[name]()


def traced(monoid: Monoid, log: Log) -> Monoid:
    """Return a monoid of `State`s that logs every combine. A value is a pair with its time, and a result a state."""
    lift = monoid.lift or (lambda value: value)

    def lifted(pair: tuple[Number, Any]) -> State:
        log.serial += 1
        return State(pair[0], pair[0], log.serial, lift(pair[1]))

    def combined(a: State, b: State) -> State:
        log.serial += 1
        if log.on:
            log.combines.append(Combine(a.serial, b.serial, log.serial))
        first = b.first if a.first is None else a.first
        return State(first, a.last if b.last is None else b.last, log.serial, monoid.combine(a.value, b.value))

    def lowered(state: State) -> State:
        if log.on:
            log.lowered.append(state.serial)
        return state

    identity = State(None, None, 0, monoid.identity)
    return Monoid(identity=identity, combine=combined, lift=lifted, lower=lowered, name=f"traced {monoid.name}")


def result_of(monoid: Monoid, state: State) -> Any:
    """Return what a window of the monoid itself would return for a state."""
    return monoid.lower(state.value) if monoid.lower else state.value
