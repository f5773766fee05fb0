"""Generated events that arrive late and out of order, determined by a seed; NumPy and Arrow, no Spark.

Event n happens at a time that grows with n. Each event sends a message, retracted ones a second, and a message arrives
after its delay. **Rows are the messages in order of arrival**, and row i is a function of the definition and i alone:

* Every random number is a hash of (seed, purpose, n), so an event is the same in any order of calls.
* Events come in blocks, each longer than the longest delay. What arrives during block c was therefore sent in block c
  or the one before, and every block sends the same number of messages: the rows before block c are those of all blocks
  before it, less the messages of block c-1 that are still in transit. No row needs the rows before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.errors import ArgumentError
from sash.inputs.arrow import pyarrow
from sash.pipeline.sources.event_kinds import KINDS, Kind, Numbers, standard_normal, uniform
from sash.pipeline.sources.options import Options

DELAYS = ("exponential", "lognormal", "uniform", "pareto", "fixed")
_SMALLEST_BLOCK = 2**14
# Every process that reads rows of a block has all of it in memory.
_LARGEST_BLOCK = 2**22
# After an outage, messages arrive this many times faster than they were sent.
_DRAIN = 20
_PARTS = 10**6


@dataclass(frozen=True)
class Demo:
    """A definition of generated events, made by `demo`. Times are in microseconds, `start` since 1970."""

    kind: str
    seed: int
    rows: int | None
    keys: int
    period_ns: int
    zipf: float
    start: int
    late: float
    delay: str
    delay_mean: int
    delay_max: int
    distance: int | None
    outage_every: int
    outage_for: int
    outage_share: float
    retract: float
    retract_after: int

    @property
    def total(self) -> int | None:
        """The number of rows, or None for an endless stream."""
        return self.rows

    @property
    def schema(self) -> Any:
        """The Arrow schema of the rows."""
        none = np.empty(0, dtype=np.int64)
        return pyarrow().RecordBatch.from_pydict(self._columns(none, none.astype(bool), none)).schema

    @property
    def fingerprint(self) -> str:
        """A short hash of everything that determines the rows: all but their number."""
        return blake2b(repr(replace(self, rows=None)).encode(), digest_size=8).hexdigest()

    def batch(self, start: int, stop: int) -> Any:
        """Return rows [start, stop) as one Arrow batch, independent of earlier calls."""
        pieces = list(self._pieces(start, self._end(stop)))
        numbers, deletes, arrivals = (np.concatenate(column) for column in zip(*pieces, strict=True))
        columns = self._columns(numbers, deletes, arrivals)
        return pyarrow().RecordBatch.from_pydict(columns)

    def batches(self, start: int, stop: int, size: int = 2**16) -> Iterator[Any]:
        """Yield rows [start, stop) in batches of at most `size` rows."""
        stop = self._end(stop)
        for at in range(start, stop, size):
            yield self.batch(at, min(at + size, stop))

    def arrival(self, row: int) -> int:
        """Return the arrival time of a row, in microseconds since 1970."""
        (piece, *_) = self._pieces(row, row + 1)
        return int(piece[2][0]) + self.start

    def arrived(self, time: int) -> int:
        """Return the number of rows that have arrived up to and including a time."""
        since = time - self.start
        if since < 0:
            return 0
        block = since * 1000 // (self.block * self.period_ns)
        while _opens(self, block) > since:
            block -= 1
        while _opens(self, block + 1) <= since:
            block += 1
        rows = _first_row(self, block) + int(np.searchsorted(_arrived_in(self, block)[2], since, side="right"))
        return self._end(rows)

    @property
    def block(self) -> int:
        """The number of events in a block: more than happen while any message is in transit."""
        return max(_SMALLEST_BLOCK, self.reach_us * 1000 // self.period_ns + 2)

    def _end(self, stop: int) -> int:
        return stop if self.rows is None else min(stop, self.rows)

    @property
    def reach_us(self) -> int:
        """The longest time from an event to the arrival of its messages."""
        if self.distance is not None:
            delay = (int(self.distance / (1 - self.late)) + 2) * self.period_ns // 1000
        else:
            delay = self.delay_max if self.late else 0
        # A message may wait for the end of an outage, and a retraction leaves after that and may wait again.
        waits = self.outage_for * (2 if self.retract else 1)
        after = 5 * self.retract_after if self.retract else 0
        return KINDS[self.kind].takes_us + delay + after + waits + 1

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[Numbers, NDArray[np.bool_], Numbers]]:
        """Yield (event, is_retraction, arrival) of rows [start, stop), block by block; one empty piece for no rows."""
        messages = self.block + self.retracted
        block = start // messages
        # Messages may arrive after their block, never before it: the row is in this block or in the next one.
        if _first_row(self, block + 1) <= start:
            block += 1
        while True:
            first = _first_row(self, block)
            yield tuple(column[max(start - first, 0) : max(stop - first, 0)] for column in _arrived_in(self, block))  # type: ignore[misc]
            block += 1
            if _first_row(self, block) >= stop:
                return

    @property
    def retracted(self) -> int:
        """The number of retracted events in each block, which is exact, so that rows can be counted."""
        return round(self.retract * self.block)

    def _columns(self, n: Numbers, deletes: NDArray[np.bool_], arrivals: Numbers) -> dict[str, Any]:
        pa, kind = pyarrow(), KINDS[self.kind]
        instant = pa.timestamp("us", tz="UTC")
        happened, keys = _times(self, n), self.key_of(n)
        return {
            "ts": pa.array(happened + self.start, instant),
            "arrival": pa.array(arrivals + self.start, instant),
            kind.key: _names(kind.key, self.keys).take(pa.array(keys)),
            "id": pa.array(n),
            **kind.columns(self.seed, n, keys, happened),
            "op": pa.array(["insert", "delete"]).take(pa.array(deletes.view(np.int8))),
        }

    def key_of(self, n: Numbers) -> Numbers:
        """Return the keys of events as numbers from 0; with `zipf`, 0 is the most frequent."""
        if KINDS[self.kind].hertz:
            return n % self.keys
        return np.searchsorted(_cumulative(self.keys, self.zipf), uniform(self.seed, "key", n), side="right")


def demo(**options: Any) -> Demo:
    """Return a definition of generated events from the options of the `demo` source.

    Kinds are "payments" (cards), "trips" (stations; a bike trip is reported when it ends) and "sensors" (at 100 Hz).

    >>> events = demo(kind="payments", rows=1000, seed=7)
    >>> events.batch(0, 1000).slice(600, 3) == events.batch(600, 603)
    True
    """
    read = Options(options, "demo")
    definition = read_demo(read)
    read.done()
    return definition


def read_demo(read: Options) -> Demo:
    """Return a definition of generated events from options, which may include others."""
    kind = KINDS[read.choice("kind", "payments", tuple(KINDS))]
    keys = read.integer("keys", kind.keys, least=1, most=10**7 if not kind.hertz else 10**4)
    _refuse_conflicts(read, kind)
    mean = read.microseconds("delay_mean", kind.delay_mean)
    every = read.microseconds("outage_every", "0s")
    made = Demo(
        kind=kind.name,
        seed=read.integer("seed", 0),
        rows=read.integer("rows", None, least=1),
        keys=keys,
        period_ns=_period(read, kind, keys),
        zipf=read.number("zipf", kind.zipf, least=0, most=10),
        start=read.instant("start", "2026-01-01T00:00:00Z"),
        late=read.share("late", 0.1 if read.has("distance") else kind.late, below=1 if read.has("distance") else None),
        delay=read.choice("delay", kind.delay, DELAYS),
        delay_mean=mean,
        delay_max=read.microseconds("delay_max", f"{10 * mean}us", least=mean),
        distance=read.integer("distance", None, least=1, most=_LARGEST_BLOCK),
        outage_every=every,
        outage_for=read.microseconds("outage_for", f"{every // 10}us"),
        outage_share=read.share("outage_share", 0.3),
        retract=read.share("retract", 0.0),
        retract_after=read.microseconds("retract_after", "5 minutes"),
    )
    _require_sound(made)
    return made


def _refuse_conflicts(read: Options, kind: Kind) -> None:
    delays = ("delay", "delay_mean", "delay_max")
    if kind.hertz:
        read.refuse(("rate", "zipf"), f"each sensor sends {kind.hertz} rows per second; set keys instead")
    if kind.takes_us:
        read.refuse(("distance",), "a trip arrives when it ends")
    if read.has("distance"):
        read.refuse((*delays, "outage_every"), "distance determines when each row arrives")
    if not read.has("outage_every"):
        read.refuse(("outage_for", "outage_share"), "outages need outage_every")
    if not read.has("retract"):
        read.refuse(("retract_after",), "retractions need retract")


def _period(read: Options, kind: Kind, keys: int) -> int:
    """Return the time between two events in nanoseconds; at least a microsecond, so that times are distinct."""
    if kind.hertz:
        read.text("rate", None)
        return 10**9 // (kind.hertz * keys)
    return round(1e9 / read.number("rate", kind.rate, least=1e-3, most=1e6))


def _require_sound(made: Demo) -> None:
    if made.outage_for * 2 > made.outage_every:
        raise ArgumentError(
            f"outage_for must be at most half of outage_every, {made.outage_every / 1e6:g} s, "
            f"got {made.outage_for / 1e6:g} s.",
            argument="outage_for",
        )
    if made.block > _LARGEST_BLOCK:
        raise ArgumentError(
            f"rate must keep at most {_LARGEST_BLOCK} events in transit, got {made.block}: {1e9 / made.period_ns:g} "
            f"events per second with delays of up to {made.reach_us / 1e6:g} s.",
            argument="rate",
        )


def _times(made: Demo, n: Numbers) -> Numbers:
    """Return event times in microseconds after the start: random within a slot, or regular for sensors."""
    opens = n * made.period_ns // 1000
    hertz = KINDS[made.kind].hertz
    if hertz:
        beat = 10**6 // hertz
        return n // made.keys * beat + n % made.keys * beat // made.keys
    width = (n + 1) * made.period_ns // 1000 - opens
    return opens + (uniform(made.seed, "slot", n) * width).astype(np.int64)


def _opens(made: Demo, block: int) -> int:
    """Return the start of a block: no event of it happens before, and none of an earlier block after."""
    first = block * made.block
    if KINDS[made.kind].hertz:
        return int(_times(made, np.array([first]))[0])
    return first * made.period_ns // 1000


@lru_cache(maxsize=3)
def _messages(made: Demo, block: int) -> tuple[Numbers, NDArray[np.bool_], Numbers]:
    """Return (event, is_retraction, arrival) of all messages that a block sends."""
    n = np.arange(block * made.block, (block + 1) * made.block)
    keys, gone = made.key_of(n), _retracted_of(made, n)
    sent = _times(made, n) + KINDS[made.kind].taken(made.seed, n) + _delays(made, n)
    arrivals = _after_outages(made, sent, keys)
    after = np.minimum(_exponential(uniform(made.seed, "after", n[gone]), made.retract_after), 5 * made.retract_after)
    retractions = _after_outages(made, arrivals[gone] + 1 + after.astype(np.int64), keys[gone])
    deletes = np.repeat([False, True], [n.size, gone.size])
    return np.concatenate([n, n[gone]]), deletes, np.concatenate([arrivals, retractions])


def _retracted_of(made: Demo, n: Numbers) -> Numbers:
    """Return the positions of the retracted events of a block."""
    count = made.retracted
    if not 0 < count < n.size:
        return np.arange(count)
    return np.sort(np.argpartition(uniform(made.seed, "retract", n), count)[:count])


@lru_cache(maxsize=2)
def _arrived_in(made: Demo, block: int) -> tuple[Numbers, NDArray[np.bool_], Numbers]:
    """Return the rows that arrive during a block, in order of arrival."""
    opens, closes = _opens(made, block), _opens(made, block + 1)
    parts = [_messages(made, block)] if block == 0 else [_messages(made, block - 1), _messages(made, block)]
    n, deletes, arrivals = (np.concatenate(column) for column in zip(*parts, strict=True))
    now = np.flatnonzero((arrivals >= opens) & (arrivals < closes))
    # Stable: messages that arrive in the same microsecond keep the order of their events.
    order = now[np.argsort(arrivals[now], kind="stable")]
    return n[order], deletes[order], arrivals[order]


@lru_cache(maxsize=16)
def _first_row(made: Demo, block: int) -> int:
    """Return the number of rows that arrive before a block."""
    if block == 0:
        return 0
    in_transit = np.count_nonzero(_messages(made, block - 1)[2] >= _opens(made, block))
    return block * (made.block + made.retracted) - int(in_transit)


def _delays(made: Demo, n: Numbers) -> Numbers:
    """Return the delays of the messages of events, without outages."""
    if made.distance is not None:
        return _displaced(made, n)
    late = uniform(made.seed, "late", n) < made.late
    drawn = np.zeros(n.size)
    drawn[late] = _drawn(made, n[late])
    return np.minimum(drawn, made.delay_max).astype(np.int64)


def _drawn(made: Demo, n: Numbers) -> NDArray[np.float64]:
    """Draw delays from the chosen distribution and mean, before they are capped at the maximum."""
    if made.delay == "lognormal":
        return made.delay_mean * np.exp(standard_normal(made.seed, "delay", n) - 0.5)
    drawn = uniform(made.seed, "delay", n)
    if made.delay == "exponential":
        return _exponential(drawn, made.delay_mean)
    if made.delay == "uniform":
        return 2 * made.delay_mean * drawn
    if made.delay == "pareto":
        return made.delay_mean / 2 / np.sqrt(1 - drawn)
    return np.full(n.size, float(made.delay_mean))


def _exponential(drawn: NDArray[np.float64], mean: int) -> NDArray[np.float64]:
    return -mean * np.log1p(-drawn)


def _displaced(made: Demo, n: Numbers) -> Numbers:
    """Delay a fraction of the events, each until exactly `distance` later ones have arrived.

    Which ones are delayed follows from n alone, evenly spread, so that the event to wait for can be computed.
    """
    assert made.distance is not None
    late = round(made.late * _PARTS)
    delayed = (n + 1) * late // _PARTS > n * late // _PARTS
    on_time_before = n - n * late // _PARTS
    awaited = (on_time_before + made.distance - 1) * _PARTS // (_PARTS - late)
    return np.where(delayed, _times(made, awaited) + 1 - _times(made, n), 0)


def _after_outages(made: Demo, sent: Numbers, keys: Numbers) -> Numbers:
    """Return the arrival times of messages; those of keys in an outage arrive in a burst after it, oldest first.

    An outage comes at the end of each period of `outage_every`, and each affects different keys.
    """
    if not made.outage_every:
        return sent
    cycle, within = np.divmod(sent, made.outage_every)
    lost = within - (made.outage_every - made.outage_for)
    cut = (lost >= 0) & (uniform(made.seed, "outage", keys + cycle * made.keys) < made.outage_share)
    return np.where(cut, (cycle + 1) * made.outage_every + lost // _DRAIN, sent)


@lru_cache(maxsize=4)
def _cumulative(keys: int, exponent: float) -> NDArray[np.float64]:
    """Return the cumulative shares of keys under Zipf's law; exponent 0 is uniform."""
    shares = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    total = np.cumsum(shares)
    below: NDArray[np.float64] = total[:-1] / total[-1]
    return below


@lru_cache(maxsize=4)
def _names(key: str, keys: int) -> Any:
    """Return the names of all keys, such as card-0042."""
    width = len(str(keys - 1))
    return pyarrow().array([f"{key}-{number:0{width}}" for number in range(keys)])
