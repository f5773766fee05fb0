"""Which rows the windows of anchors that are still to come can see, in a partition whose rows come in order."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash import _core, durations
from sash.keyed.definition import Definition
from sash.keyed.horizon import CalendarGrid, Grid
from sash.keyed.kinds import Kind
from sash.keyed.spec import Spec
from sash.keyed.zones import DAYS

LOWEST, HIGHEST = -(2**63), 2**63 - 1
_DAY = 86_400
_SHORTEST = {"day": _DAY // 2, "week": 6 * _DAY, "month": 27 * _DAY, "quarter": 89 * _DAY, "year": 364 * _DAY}

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Reach:
    """How far windows reach, in time and in rows, and which boundaries there are."""

    engine: _core.Keyed  # which has no rows, and knows where windows begin
    rows: int  # that windows count at most
    ahead: int  # how long after its time an anchor has to wait for the rows in its windows
    grid: Grid | CalendarGrid | None
    resolution: int
    longest: int  # of the windows that are spans or periods of time, about
    second: int  # in ticks
    unbounded: bool

    @classmethod
    def of(cls, spec: Spec, schema: pa.Schema) -> "Reach":
        """Return the reach of windows over a table with these columns."""
        definition = Definition.of(spec, schema.empty_table())
        kinds = [kind for _, kind in definition.windows]
        ahead = max((kind.size for kind in kinds if kind.kind == "ahead"), default=0)
        grid = definition.grid(spec)
        second = 1 if definition.unit is None else durations.ticks_of("1s", definition.unit, "every")
        return cls(
            definition.engine(spec, remembers=False),
            max((kind.size for kind in kinds if kind.kind == "rows"), default=0),
            max(ahead + (spec.closed == "both") if ahead else 0, 1),
            grid,
            grid.pane if isinstance(grid, Grid) and spec.resolution is not None else 1,
            max(kind.size if kind.kind == "span" else _longest(kind) * second for kind in kinds),
            second,
            any(kind.kind == "unbounded" for kind in kinds),
        )

    def visible(self, times: NDArray[np.int64], own: Mask, anchor: int, new: int) -> Mask:
        """Return which rows of a key anchors from a time on can see, where rows before `new` will not come any more.

        A window of the last rows needs them however old they are.
        """
        bound = self.dropped_at(anchor, new)
        visible = own & ((times > bound) | (bound == LOWEST))  # at the least time of all it is nothing that goes
        if self.rows:
            visible[np.flatnonzero(own & (times < new))[-self.rows :]] = True
        return visible

    def dropped_at(self, anchor: int, new: int) -> int:
        """Return the time at or before which rows are not needed, but as the last ones of their key."""
        return self.engine.frame.dropped_at(inside(anchor), inside(new))

    # --- boundaries -------------------------------------------------------------------------------

    def closed_at(self, time: int) -> int:
        """Return the last boundary that no row at or after a time can change."""
        if isinstance(self.grid, CalendarGrid):
            return self.grid.calendar.start_of(inside(time))
        assert self.grid is not None
        pane = time - (time - self.grid.offset) % self.resolution
        return pane - (pane - self.grid.offset) % self.grid.every

    def next_after(self, boundary: int) -> int:
        """Return the boundary after one."""
        assert self.grid is not None
        return self.grid.next_boundary(boundary)

    @property
    def step(self) -> int:
        """The length of time that is between two boundaries at least."""
        if isinstance(self.grid, CalendarGrid):
            return _SHORTEST[self.grid.period] * self.second
        assert self.grid is not None
        return self.grid.every

    @property
    def most(self) -> int:
        """The maximum number of boundaries whose windows hold one row."""
        return self.longest // self.step + 1


def _longest(kind: Kind) -> int:
    """Return the seconds that a period may take, and 0 for other windows."""
    return (DAYS[kind.period] + 1) * _DAY if kind.kind == "period" else 0


def inside(time: int) -> int:
    """Return the nearest time that is one of int64."""
    return min(max(time, LOWEST), HIGHEST)
