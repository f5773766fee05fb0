"""One event and one key at a time, against pushes of one row, and pushes of small batches against those before.

Count, sum and max over windows of 1h, 6h and 24h. The state holds a million rows of 24 hours, in 1,000 and in 100,000
keys, and is steady: each event moves the watermark on, and about as many rows leave as come. Answers are compared with
those of pushes first.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import baseline
from benchmarks.baseline import BEFORE_EVENTS, CURRENT, Spread
from benchmarks.load import SEED
from sash import KeyedWindows, monoids

Claim = tuple[str, float, float]

ROWS, BATCH = 1_000_000, 100
KEYS = (1_000, 100_000)
EVENT_US, NOW_US, FASTER = 6.0, 4.0, 60
TURNS = 15
_START = datetime(2026, 1, 1, tzinfo=UTC)
_DAY_US = 24 * 3600 * 10**6


def claims(rows: int = ROWS, turns: int = TURNS) -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    found = []
    for keys in KEYS:
        found += _claims_of(min(keys, rows), rows, turns)
    return found


def _claims_of(keys: int, rows: int, turns: int) -> list[Claim]:
    path, small = "benchmarks.events:State", {"rows": 3_000, "keys": 20}
    with baseline.workers(path, baseline.available(BEFORE_EVENTS), small, rows=rows, keys=keys) as started:
        found = baseline.alternate(started, turns)
    print(f"  {rows} rows held in {keys} keys, µs (quartiles of turns)", flush=True)
    spreads = {side: _spreads(measured) for side, measured in found.items()}
    for side, spread in spreads.items():
        for what, one in spread.items():
            print(f"  {side:>16} {one.text(1e6):>26}  {what}", flush=True)
    now = {what: spread.median for what, spread in spreads[CURRENT].items()}
    claims = [
        (f"{keys} keys, event: µs", now["event"] * 1e6, EVENT_US),
        (f"{keys} keys, now: µs", now["now"] * 1e6, NOW_US),
    ]
    if BEFORE_EVENTS in spreads:
        before = {what: spread.median for what, spread in spreads[BEFORE_EVENTS].items()}
        claims += [
            (f"{keys} keys, {FASTER} events / push of one row before", FASTER * now["event"] / before["one row"], 1.0),
            (f"{keys} keys, push of {BATCH} rows: today / before", now["a batch"] / before["a batch"], 0.5),
        ]
    return claims


def _spreads(turns: list[dict[str, float]]) -> dict[str, Spread]:
    return {what: Spread.of([turn[what] for turn in turns]) for what in turns[0]}


class State:
    """An engine that holds so many rows of a day, and the events that come next."""

    def __init__(self, rows: int, keys: int) -> None:
        self.rows, self.keys = rows, keys
        self.step = _DAY_US // rows
        self.names = [f"card-{i:06d}" for i in range(keys)]
        self.random = np.random.default_rng(SEED)
        self.sent = 0
        self.engine = KeyedWindows(
            keys=["card"],
            time="ts",
            windows=["1h", "6h", "24h"],
            aggs={"n": monoids.count(), "total": monoids.sum("amount"), "top": monoids.max("amount")},
            emit="arrival",
        )
        while self.sent < rows + rows // 10:  # a tenth of them leave again
            self.engine.push(self.table(max(rows // 20, 1)))

    def events(self, count: int) -> list[dict[str, Any]]:
        """Return the next events as dicts."""
        keys = self.random.integers(0, self.keys, count)
        amounts = self.random.integers(0, 1_000, count).astype(float)  # whole, so that sums are exact in every order
        self.sent += count
        first = self.sent - count
        return [
            {"card": self.names[key], "ts": _START + timedelta(microseconds=(first + i) * self.step), "amount": amount}
            for i, (key, amount) in enumerate(zip(keys.tolist(), amounts.tolist(), strict=True))
        ]

    def table(self, count: int) -> pa.Table:
        """Return the next events as a table."""
        return pa.Table.from_pylist(self.events(count))

    def turn(self) -> dict[str, float]:
        """Return the seconds of one event, one question, a push of one row and of a batch, each several times."""
        rows = [self.table(1) for _ in range(20)]
        found = {"one row": _each(self.engine.push, rows)}
        found["one dict"] = _each(self._push_dict, self.events(20))
        found["a batch"] = _each(self.engine.push, [self.table(BATCH) for _ in range(20)])
        if hasattr(self.engine, "event"):
            found["event"] = _each(self.engine.event, self.events(2_000))
            found["now"] = _each(self.engine.now, [{"card": row["card"]} for row in self.events(2_000)])
        return found

    def _push_dict(self, row: dict[str, Any]) -> Any:
        return self.engine.push({name: [value] for name, value in row.items()}).to_pylist()

    def answers(self) -> str:
        """Compare events and questions with pushes, and return what pushes said."""
        rows, found = self.events(500), []
        copy = KeyedWindows.from_bytes(self.engine.to_bytes())
        for row in rows:
            found += self._push_dict(row)
            if not hasattr(copy, "event"):
                continue
            if copy.event(row) != found[-1]:
                raise SystemExit(f"event: {row} has another result; nothing was measured.")
            shown = copy.now({"card": row["card"]})
            if shown != {name: found[-1][name] for name in shown}:
                raise SystemExit(f"now: {row['card']} has other results; nothing was measured.")
        return str(found)


def _each(call: Any, arguments: list[Any]) -> float:
    """Return the seconds of one call: the median of groups, because something else may take a moment."""
    size, groups = max(len(arguments) // 20, 1), []
    for first in range(0, len(arguments), size):
        group = arguments[first : first + size]
        began = time.perf_counter()
        for argument in group:
            call(argument)
        groups.append((time.perf_counter() - began) / len(group))
    return float(np.median(groups))
