"""How large a stream's state will be: entries held times the bytes of one, from rates that are told or assumed.

span     = largest window + lateness + watermark delay     what a row may still be needed for
entries  = rows a second * span                            where rows are kept
         = keys * (span / pane + 1), at most the rows      where they are combined into panes
memory   = entries * bytes of an entry in the engine
stored   = entries * bytes of an entry in the log / 3      which is compressed
"""

from dataclasses import dataclass

from sash.durations import nanoseconds
from sash.formatting import count, duration, size
from sash.keyed.panes import RECORD
from sash.spark.stream.plan import Plan

_ROW, _COLUMN, _CARRIED, _PANE, _KEY = 32, 8, 16, 16, 16  # bytes; of text an assumption
_COMPRESSION = 3
_MICROSECOND = 1000


@dataclass(frozen=True)
class Estimate:
    """The size of a state, and what it was computed from."""

    rows_per_second: float
    keys: int
    span_seconds: float
    pane_seconds: float | None
    entries: int
    entry_bytes: int
    stored_bytes: int

    @property
    def memory_bytes(self) -> int:
        """What the entries take in the memory of all workers."""
        return self.entries * self.entry_bytes

    def told(self) -> list[str]:
        """Give the estimate in lines."""
        span, what = duration(self.span_seconds), "rows"
        held = f"{count(self.rows_per_second)} rows/s × {span}"
        if self.pane_seconds is not None:
            what, held = "panes", f"{count(self.keys)} keys × panes of {duration(self.pane_seconds)} over {span}"
        return [
            f"{count(self.entries)} {what} held: {held}",
            f"{size(self.memory_bytes)} in memory: {self.entry_bytes} bytes for each",
            f"{size(self.stored_bytes)} in the checkpoint, compressed",
        ]


def estimate(plan: Plan, watermark: str, *, rows_per_second: float, keys: int) -> Estimate:
    """Estimate the state of a stream at a rate, with so many keys that have rows within the span."""
    asked = plan.asked
    largest = max(nanoseconds(window, "windows") for window in asked.windows)
    lateness = 0 if asked.lateness is None else nanoseconds(asked.lateness, "lateness")
    span = (largest + lateness + nanoseconds(watermark, "watermark")) / 1e9
    rows, keys = rows_per_second * span, keys if asked.keys else 1
    if plan.merges:
        pane = pane_seconds(plan)
        entries = round(min(rows, keys * (span / pane + 1)))
        record = plan.packed.field(RECORD).type.byte_width
        entry, stored = record + _PANE, record + _COLUMN + _KEY * len(asked.keys)
    else:
        pane = None
        entries = round(rows)
        own = {asked.time, *asked.keys}
        read = {name for monoid in asked.aggs.values() for name in monoid.columns} - own
        carried = set(plan.schema.names) - own - read
        entry = _ROW + _COLUMN * len(read) + _CARRIED * len(carried)
        stored = _COLUMN * (1 + len(read)) + _KEY * (len(asked.keys) + len(carried))
    return Estimate(rows_per_second, keys, span, pane, entries, entry, round(entries * stored / _COMPRESSION))


def pane_seconds(plan: Plan) -> float:
    """Give the length of the panes that rows are combined into."""
    grid = plan.definition.grid(plan.asked)
    assert grid is not None
    return grid.pane * _MICROSECOND / 1e9
