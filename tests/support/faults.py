"""Callbacks that fail on demand, and what must be the same before and after they did."""

from collections.abc import Callable
from functools import total_ordering
from typing import Any

from sash import Monoid, Window


class Boom(Exception):
    """The user's own error."""


class Fuse:
    """Counts calls and raises at the one it was set to."""

    def __init__(self) -> None:
        self.left: int | None = None

    def set(self, calls: int | None) -> None:
        """Raise at this call from now on, the first being 1; None never raises."""
        self.left = calls

    def burn(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                raise Boom

    def monoid(self, *, at: str = "combine") -> Monoid:
        """A concatenation of tuples whose combine, lift or lower burns this fuse."""

        def when(name: str, value: Any) -> Any:
            if name == at:
                self.burn()
            return value

        return Monoid(
            identity=(),
            combine=lambda left, right: when("combine", left + right),
            lift=lambda value: when("lift", (value,)),
            lower=lambda state: when("lower", "".join(state)),
        )

    def time(self, number: int) -> "FusedTime":
        return FusedTime(number, self)


@total_ordering
class FusedTime:
    """An ordered object whose comparisons burn a fuse."""

    def __init__(self, number: int, fuse: Fuse) -> None:
        self.number = number
        self.fuse = fuse

    def __lt__(self, other: "FusedTime") -> bool:
        self.fuse.burn()
        return self.number < other.number

    def __eq__(self, other: object) -> bool:
        self.fuse.burn()
        return isinstance(other, FusedTime) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __sub__(self, span: int) -> "FusedTime":
        return FusedTime(self.number - span, self.fuse)

    def __repr__(self) -> str:
        return f"t{self.number}"


def snapshot(window: Window) -> Any:
    """All that can be seen of a window, its shape included."""
    window.check_invariants()
    tree = (window.nodes(), window.spent) if window.structure in ("paper", "classic") else None
    return len(window), list(window.items()), list(reversed(window)), window.query(), tree


def at_every_call(window: Window, fuse: Fuse, call: Callable[[], Any]) -> Any:
    """Fail the call at its first callback, then its second, and so on, until it passes.

    Every failure changes nothing. Gives the number of failures and what the call returned in the end.
    """
    before = snapshot(window)
    failures = 0
    while True:
        fuse.set(failures + 1)
        try:
            result = call()
        except Boom:
            fuse.set(None)
            failures += 1
            assert snapshot(window) == before
        else:
            fuse.set(None)
            window.check_invariants()
            return failures, result
