"""The horizon and the grid: what is late, and which boundaries there are, and nothing of how rows are held.

The horizon only grows; before the first watermark there is none, and nothing is late.
"""

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple


class Horizon:
    """What is late: H = watermark - lateness, which never falls.

    >>> horizon = Horizon(lateness=5)
    >>> horizon.advance(100), horizon.advance(90), horizon.at
    (95, 95, 95)
    """

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.at: int | None = None
        self.watermark: int | None = None  # the greatest that came here; another lateness makes no other one of it

    def advance(self, watermark: int | None) -> int | None:
        """Move on to a watermark, and give where the horizon is now; None while there was none."""
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
        """Give the grid whose panes every window is made of, or that of a resolution that was asked for."""
        pane = gcd(every, *sizes) if resolution is None else resolution
        return cls(every, offset % every, pane, offset % pane)

    def late_before(self, horizon: int) -> int:
        """Give the time before which rows are late: their pane ends at the horizon or before."""
        return horizon - (horizon - self.pane_offset) % self.pane

    def next_boundary(self, time: int) -> int:
        """Give the first boundary after a time."""
        return time + self.every - (time - self.offset) % self.every
