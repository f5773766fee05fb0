"""The horizon and the grid: what is late, and which boundaries there are.

The horizon never moves back. Before the first watermark there is none, and nothing is late.
"""

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple

from sash import _core

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class Horizon:
    """The time before which rows are late: watermark - lateness, which never moves back.

    >>> horizon = Horizon(lateness=5)
    >>> horizon.advance(100), horizon.advance(90), horizon.at
    (95, 95, 95)
    """

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.at: int | None = None
        self.watermark: int | None = None  # the greatest so far, independent of the lateness

    def advance(self, watermark: int | None) -> int | None:
        """Advance to a watermark and return the horizon, or None if there has been no watermark."""
        if watermark is not None:
            reached = watermark - self.lateness
            self.at = reached if self.at is None else max(self.at, reached)
            self.watermark = watermark if self.watermark is None else max(self.watermark, watermark)
        return self.at


class Grid(NamedTuple):
    """Slide boundaries, b = offset (mod every), and the panes that rows fall into.

    >>> grid = Grid(every=10, offset=3, pane=5, pane_offset=3)
    >>> grid.late_before(22), grid.next_boundary(13), grid.next_boundary(12)
    (18, 23, 13)
    """

    every: int
    offset: int
    pane: int
    pane_offset: int

    @classmethod
    def of(cls, every: int, offset: int, sizes: Iterable[int], resolution: int | None) -> "Grid":
        """Return the grid whose panes make up every window, or the one with the requested resolution."""
        pane = gcd(every, *sizes) if resolution is None else resolution
        return cls(every, offset % every, pane, offset % pane)

    def late_before(self, horizon: int) -> int:
        """Return the time before which rows are late: their pane ends at the horizon or before."""
        return horizon - (horizon - self.pane_offset) % self.pane

    def next_boundary(self, time: int) -> int:
        """Return the first boundary after a time."""
        return time + self.every - (time - self.offset) % self.every

    def after(self, boundary: int, count: int) -> int:
        """Return the boundary so many after another one."""
        return boundary + self.every * count


class CalendarGrid(NamedTuple):
    """Boundaries at the starts of calendar periods, which are the panes too: a row is late once its own has ended.

    >>> from sash.keyed.zones import calendar
    >>> days = CalendarGrid("day", calendar("day", "UTC", "s"))
    >>> days.late_before(86_400 + 5), days.next_boundary(86_400)
    (86400, 172800)
    """

    period: str
    calendar: _core.Calendar

    def late_before(self, horizon: int) -> int:
        """Return the time before which rows are late: the start of the period that the horizon lies in."""
        return self.calendar.start_of(_inside(horizon))

    def next_boundary(self, time: int) -> int:
        """Return the first boundary after a time."""
        return self.calendar.next_after(_inside(time))

    def after(self, boundary: int, count: int) -> int:
        """Return the boundary so many after another one."""
        for _ in range(min(count, 1000)):
            boundary = self.next_boundary(boundary)
        return boundary


def _inside(time: int) -> int:
    return min(max(time, _LOWEST), _HIGHEST)
