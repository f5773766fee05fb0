"""An estimate of the size of a stream's state, from rates that are given or assumed.

span     = largest window + lateness + watermark delay     how long a row may be needed; a period to date at its end
entries  = rows per second * span                          where rows are stored
         = keys * (span / pane + 1), at most the rows      where rows are combined into panes
         = rows per second * (lateness + delay) + keys     with sessions: one may be open for each key
         + keys * rows                                     that windows count before the horizon
         + keys                                            aggregates of what expired, where a window is unbounded

The log has up to twice as many entries, and some thousands for each bucket, where windows count them.

The bytes of an entry and of a key are measured: made-up rows go through the stream and the log of the plan, which
count what they allocate and write, and what a sample of them takes is scaled up.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.durations import nanoseconds
from sash.formatting import count, duration, size
from sash.inputs import arrow
from sash.keyed import panes
from sash.keyed.horizon import Grid
from sash.keyed.kinds import Kind
from sash.keyed.zones import DAYS
from sash.spark.stream.log import Head, Log
from sash.spark.stream.plan import Plan

_SAMPLE = 20_000  # entries that are made up
_SAMPLED_KEYS = 500
_BATCHES = 16  # in which they come
_ROWS_PER_PANE = 4
_MICROSECOND = 1000


@dataclass(frozen=True)
class Estimate:
    """The estimated size of a state, and the numbers it was computed from."""

    rows_per_second: float
    keys: int
    span_seconds: float
    pane_seconds: float | None
    counted: int  # entries for each key that windows count, however old they are
    entries: int
    memory_bytes: int  # on all workers together
    stored_bytes: int
    sessions: bool = False

    def lines(self) -> list[str]:
        """Return the estimate as lines of text."""
        span, what = duration(self.span_seconds), "rows"
        product = f"{count(self.rows_per_second)} rows/s × {span}"
        if self.sessions:
            what, product = "rows and open sessions", f"{product} and {count(self.keys)} keys"
        if self.pane_seconds is not None:
            what, product = "panes", f"{count(self.keys)} keys × panes of {duration(self.pane_seconds)} over {span}"
        if self.counted:
            product += f" + {count(self.keys)} keys × {count(self.counted)}"
        return [
            f"{count(self.entries)} {what}: {product}",
            f"{size(self.memory_bytes)} in memory: {round(self.memory_bytes / max(self.entries, 1))} bytes each",
            f"{size(self.stored_bytes)} in the checkpoint, compressed",
        ]


def estimate(plan: Plan, watermark: str, *, rows_per_second: float, keys: int) -> Estimate:
    """Estimate the state of a stream at a rate; `keys` is how many keys have rows within the span."""
    spec = plan.spec
    # A row behind the horizon is part of an open session, however long that is.
    largest = 0 if spec.gap is not None else max(_nanoseconds(kind) for _, kind in plan.definition.windows)
    lateness = 0 if spec.lateness is None else nanoseconds(spec.lateness, "lateness")
    delay = nanoseconds(watermark, "watermark")
    span = (largest + lateness + delay) / 1e9
    rows, keys = rows_per_second * span, keys if spec.keys else 1
    pane = pane_seconds(plan) if plan.merges else None
    counting = [kind for _, kind in plan.definition.windows if kind.counts]
    counted = max((kind.size if kind.kind == "rows" else 1 for kind in counting), default=0)
    entries = rows + keys * counted if pane is None else min(rows, keys * (span / pane + 1))
    entries += 0 if spec.gap is None else keys
    sample = _Sample(plan, pane or max(span, 1) * keys / max(rows, 1), delay // _MICROSECOND)
    memory, stored = sample.scaled(keys, entries / keys)
    stored = stored * 3 // 2 if counted else stored  # from once to twice: logs are written again as a whole
    sessions = spec.gap is not None
    return Estimate(rows_per_second, keys, span, pane, counted, round(entries), memory, stored, sessions)


def _nanoseconds(kind: Kind) -> int:
    """Return how long ago a window may begin: for a period to date that is its whole length."""
    if kind.kind == "period":
        return DAYS[kind.period] * 86_400 * 10**9
    return kind.size * _MICROSECOND if kind.kind == "span" else 0  # streams have timestamps in microseconds


def pane_seconds(plan: Plan) -> float:
    """Return the length of a pane in seconds."""
    grid = plan.definition.grid(plan.spec)
    assert isinstance(grid, Grid)
    return grid.pane * _MICROSECOND / 1e9


# --- a sample -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sample:
    """Made-up rows of a plan: each key has an entry every `gap` seconds, the watermark is `delay` ticks behind."""

    plan: Plan
    gap: float
    delay: int

    def scaled(self, keys: int, each: float) -> tuple[int, int]:
        """Return the bytes in memory and in the log of so many keys with so many entries each."""
        whole = max(ceil(each), 1)
        few = max(min(keys, _SAMPLE // whole, _SAMPLED_KEYS), 1)
        if whole <= _SAMPLE:  # twice as many, half of which have gone: nodes are emptier then
            memory, stored = self._measured(few, whole, 2 * whole)
        else:
            (memory, stored), (half, _) = (self._measured(1, n, n) for n in (_SAMPLE, _SAMPLE // 2))
            memory += round((memory - half) / (_SAMPLE // 2) * (whole - _SAMPLE))
            stored = stored * whole // _SAMPLE
        share = each / whole * keys / few
        return round(memory * share), round(stored * share)

    def _measured(self, keys: int, each: int, sent: int) -> tuple[int, int]:
        """Return what the last `each` entries of each key take in memory, and in the log as one record."""
        rows, ticks = self._rows(keys, sent)
        stream, log = self.plan.stream(), Log(_Nowhere(), Head([self.plan.stored_plain]))
        empty, applied = stream.nbytes, []
        for at in np.array_split(np.arange(rows.num_rows), _BATCHES):
            if len(at):
                batch = self._as_sent(rows.slice(at[0], len(at)))
                applied.append(stream.step(batch, int(ticks[at[0]]) - self.delay).applied)
        table = pa.concat_tables(applied).select(self.plan.logged)
        table = table.slice(table.num_rows - keys * each)
        log.append(table, arrow.ticks(table, self.plan.spec.time)[0])
        return stream.nbytes - empty, log.written

    def _as_sent(self, rows: pa.Table) -> pa.Table:
        return panes.partials_of(self.plan.definition, self.plan.spec, rows) if self.plan.merges else rows

    def _rows(self, keys: int, each: int) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return rows in the order of time, and their times."""
        spec, chance = self.plan.spec, np.random.default_rng(0)
        per_entry = _ROWS_PER_PANE if self.plan.merges else 1
        number, key = np.divmod(np.arange(keys * each * per_entry, dtype=np.int64), keys)
        step = max(round(self.gap / per_entry * 1e6), 1)
        ticks = number * step + key * step // keys
        columns = {}
        for field in self.plan.schema:
            if field.name == spec.time:
                columns[field.name] = arrow.times_of(ticks, field.type)
            elif field.name in spec.keys:
                columns[field.name] = _values(key, field.type)
            elif field.name == spec.retract:
                columns[field.name] = pa.array(np.zeros(len(key), dtype=bool))
            elif field.name == spec.id:
                columns[field.name] = _values(np.arange(len(key)), field.type)
            else:
                columns[field.name] = _values(chance.integers(0, 1_000_000, len(key)), field.type)
        return pa.table(columns, schema=self.plan.schema), ticks


class _Nowhere:
    """A state store that forgets."""

    def head(self) -> bytes | None:
        return None

    def save_head(self, data: bytes) -> None:
        pass

    def read(self, seq: int) -> bytes | None:
        return None

    def write(self, seq: int, data: bytes) -> None:
        pass

    def remove(self, seq: int) -> None:
        pass


def _values(numbers: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Return numbers as values of a type: text of twelve characters, nulls for all other types."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        return pa.array([f"{number:012}" for number in numbers.tolist()]).cast(kind)
    if types.is_boolean(kind):
        return pa.array(numbers % 2 == 0)
    if types.is_integer(kind):
        return pa.array(numbers & (2 ** (kind.bit_width - 1) - 1)).cast(kind)
    if types.is_floating(kind):
        return pa.array(numbers / 8).cast(kind)
    if types.is_timestamp(kind):
        return arrow.times_of(numbers, kind)
    if types.is_decimal(kind):
        return pa.array(numbers % 10 ** min(kind.precision - kind.scale, 9)).cast(kind)
    return pa.nulls(len(numbers), kind)
