"""An estimate of the size of a stream's state, from rates that are given or assumed.

span     = largest window + lateness + watermark delay     how long a row may be needed
entries  = rows per second * span                          where rows are stored
         = keys * (span / pane + 1), at most the rows      where rows are combined into panes
memory   = entries * bytes of an entry in the engine
stored   = entries * bytes of an entry in the log / 3      which is compressed
"""

from dataclasses import dataclass

from sash.durations import nanoseconds
from sash.formatting import count, duration, size
from sash.keyed.panes import RECORD
from sash.spark.stream.plan import Plan

_ROW, _COLUMN, _CARRIED, _PANE, _KEY = 32, 8, 16, 16, 16  # bytes; for text an assumption
_COMPRESSION = 3
_MICROSECOND = 1000


@dataclass(frozen=True)
class Estimate:
    """The estimated size of a state, and the numbers it was computed from."""

    rows_per_second: float
    keys: int
    span_seconds: float
    pane_seconds: float | None
    entries: int
    entry_bytes: int
    stored_bytes: int

    @property
    def memory_bytes(self) -> int:
        """The memory that the entries take on all workers together."""
        return self.entries * self.entry_bytes

    def lines(self) -> list[str]:
        """Return the estimate as lines of text."""
        span, what = duration(self.span_seconds), "rows"
        product = f"{count(self.rows_per_second)} rows/s × {span}"
        if self.pane_seconds is not None:
            what, product = "panes", f"{count(self.keys)} keys × panes of {duration(self.pane_seconds)} over {span}"
        return [
            f"{count(self.entries)} {what}: {product}",
            f"{size(self.memory_bytes)} in memory: {self.entry_bytes} bytes each",
            f"{size(self.stored_bytes)} in the checkpoint, compressed",
        ]


def estimate(plan: Plan, watermark: str, *, rows_per_second: float, keys: int) -> Estimate:
    """Estimate the state of a stream at a rate; `keys` is how many keys have rows within the span."""
    spec = plan.spec
    largest = max(nanoseconds(window, "windows") for window in spec.windows)
    lateness = 0 if spec.lateness is None else nanoseconds(spec.lateness, "lateness")
    span = (largest + lateness + nanoseconds(watermark, "watermark")) / 1e9
    rows, keys = rows_per_second * span, keys if spec.keys else 1
    if plan.merges:
        pane = pane_seconds(plan)
        entries = round(min(rows, keys * (span / pane + 1)))
        record = plan.packed.field(RECORD).type.byte_width
        entry, stored = record + _PANE, record + _COLUMN + _KEY * len(spec.keys)
    else:
        pane = None
        entries = round(rows)
        own = {spec.time, *spec.keys}
        read = {name for monoid in spec.aggs.values() for name in monoid.columns} - own
        carried = set(plan.schema.names) - own - read
        entry = _ROW + _COLUMN * len(read) + _CARRIED * len(carried)
        stored = _COLUMN * (1 + len(read)) + _KEY * (len(spec.keys) + len(carried))
    return Estimate(rows_per_second, keys, span, pane, entries, entry, round(entries * stored / _COMPRESSION))


def pane_seconds(plan: Plan) -> float:
    """Return the length of a pane in seconds."""
    grid = plan.definition.grid(plan.spec)
    assert grid is not None
    return grid.pane * _MICROSECOND / 1e9
