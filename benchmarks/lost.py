"""Regressions: earlier loads, measured with the earlier engine and the current one in turns.

A loss is a current median above the earlier upper quartile, so the bounds come from the same run. Memory is measured in
separate processes, and may grow by a fixed share.
"""

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import baseline, footprint, keyed
from benchmarks.baseline import BASELINE, CURRENT, Spread
from benchmarks.load import SEED
from benchmarks.streams import boundaries_of, digest, windows_of
from sash import Monoid, monoids, rolling

Claim = tuple[str, float, float]

ROWS = keyed.ROWS
TURNS = 21  # with fewer, medians of the very same engine are beyond its quartiles more often
MINUTE_US = 60 * 10**6
SPANS_US = {"1h": 60 * MINUTE_US, "24h": 24 * 60 * MINUTE_US, "7d": 7 * 24 * 60 * MINUTE_US}
AFFINE_NS = 200.0  # a row

_TIMED: list[tuple[str, str, dict[str, Any]]] = [
    ("push, 20,000 uniform keys, 1% late", "Push", {"kind": "uniform"}),
    ("push, 20,000 zipf keys, 1% late", "Push", {"kind": "zipf"}),
    ("every minute, final, window of 1h", "Minutes", {"window": "1h"}),
    ("every minute, final, window of 24h", "Minutes", {"window": "24h"}),
    ("rolling max of 10 rows, one key", "OneKey", {"size": 10}),
    ("rolling max of 1,000 rows, one key", "OneKey", {"size": 1_000}),
    ("rolling max of 100,000 rows, one key", "OneKey", {"size": 100_000}),
    ("rolling max of 24h, 20,000 zipf keys", "Zipf", {}),
    ("rolling compiled affine, 10,000 rows", "Affine", {}),
]


def claims(rows: int = ROWS, chosen: str = "") -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    sides = baseline.available()
    if BASELINE not in sides:
        return []
    found = []
    print(f"  {rows} rows, ms before and today (quartiles of turns)", flush=True)
    for sentence, name, options in _TIMED:
        if chosen in sentence:
            found += _timed(sentence, f"benchmarks.lost:{name}", {**options, "rows": rows})
    return found + (memory() if chosen in "memory" else [])


def _timed(sentence: str, path: str, options: dict[str, Any]) -> list[Claim]:
    with baseline.workers(path, [BASELINE, CURRENT], {}, **options) as started:
        baseline.require_same(sentence, started)
        measured = baseline.alternate(started, TURNS)
    before, today = (Spread.of(measured[side]) for side in (BASELINE, CURRENT))
    ratio, bound = baseline.compare(today, before)
    print(f"  {before.text(1e3):>26} {today.text(1e3):>26}  {ratio:5.2f} x  {sentence}", flush=True)
    found = [(f"{sentence}: today / before", ratio, bound)]
    if "affine" in sentence:
        found.append((f"{sentence}: ns per row", today.median / options["rows"] * 1e9, AFFINE_NS))
    return found


# --- loads, each in a separate worker -------------------------------------------------------------


class Load:
    """A call that is timed repeatedly."""

    def call(self) -> Any:
        raise NotImplementedError

    def turn(self) -> float:
        """Return the seconds that the call takes."""
        began = time.perf_counter()
        self.call()
        return time.perf_counter() - began


class Push(Load):
    """Count, sum and max over three windows, 1% of the events up to a day late, emitted on arrival."""

    def __init__(self, kind: str, rows: int) -> None:
        self.batches = keyed.held_up(keyed.events_of(_keys(kind, rows)))

    def call(self) -> None:
        keyed.stream(self.batches)

    def answers(self) -> str:
        """Compare a small table with the oracle, and return a hash of the results of the load."""
        small = keyed.events_of(np.random.default_rng(SEED).integers(0, 20, 2_000))
        found = keyed.engine_of("0s").push(small)
        for window, size in SPANS_US.items():
            for key in range(20):
                _require(_of_key(small, key), _of_key(found, key), window, size)
        engine = keyed.engine_of("1d")
        return digest([engine.push(batch) for batch in self.batches])


class Minutes(Load):
    """Every minute of 30 days for 100 keys, final."""

    def __init__(self, window: str, rows: int) -> None:
        self.window = window
        self.events = keyed.events_of(np.random.default_rng(SEED).integers(0, 100, rows))

    def call(self) -> list[pa.Table]:
        return keyed.minutes_of(self.events, self.window)

    def answers(self) -> str:
        """Compare the boundaries of a few keys with the oracle, and return a hash of all."""
        small = keyed.events_of(np.random.default_rng(SEED).integers(0, 3, 300))
        found = pa.concat_tables(keyed.minutes_of(small, self.window))
        for key in range(3):
            _require(_of_key(small, key), _of_key(found, key), self.window, SPANS_US[self.window], every=MINUTE_US)
        return digest(self.call())


class OneKey(Load):
    """Max over sorted rows of one key a second apart."""

    def __init__(self, size: int, rows: int) -> None:
        self.window = f"{size}s"
        self.size_us = size * 10**6
        self.table = pa.table({"t": _seconds(rows), "x": np.random.default_rng(SEED).integers(0, 10**9, rows)})

    def call(self, table: pa.Table | None = None) -> pa.Table:
        aggs = {"top": monoids.max("x")}
        return rolling(self.table if table is None else table, keys=[], time="t", windows=[self.window], aggs=aggs)

    def answers(self) -> str:
        """Compare some rows with the oracle, and return a hash of all."""
        small = self.table.slice(0, 5_000)
        _require(small, self.call(small), self.window, self.size_us)
        return digest([self.call()])


class Zipf(Load):
    """Max over a day for 20,000 keys, a few of which have most of the rows."""

    def __init__(self, rows: int) -> None:
        self.events = keyed.events_of(_keys("zipf", rows))

    def call(self) -> pa.Table:
        return rolling(self.events, keys=["k"], time="t", windows=["24h"], aggs={"top": monoids.max("x")})

    def answers(self) -> str:
        """Compare some keys with the oracle, and return a hash of all."""
        found = self.call()
        for key in range(5_000, 5_020):
            _require(_of_key(self.events, key), _of_key(found, key), "24h", SPANS_US["24h"])
        return digest([found])


class Affine(Load):
    """Functions x -> a*x + b composed over 10,000 rows by a custom monoid, compiled."""

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(SEED)
        self.table = pa.table({"t": _seconds(rows), "a": rng.uniform(0.99, 1.01, rows), "b": rng.uniform(-1, 1, rows)})
        self.monoid = Monoid.compiled(identity=(1.0, 0.0), combine=keyed.then, columns=("a", "b"), name="affine")

    def call(self, size: int = 10_000, rows: int | None = None) -> pa.Table:
        table = self.table.slice(0, rows)
        return rolling(table, keys=[], time="t", windows=[f"{size}s"], aggs={"f": self.monoid})

    def answers(self) -> str:
        """Compare small windows with a loop; the last bits of a result depend on how a side associates."""
        size, rows = 50, 500
        found = keyed.pairs_of(self.call(size, rows)[f"f_{size}s"])
        a, b = (self.table[name].to_numpy()[:rows] for name in ("a", "b"))
        for i in range(rows):
            composed = (1.0, 0.0)
            for j in range(max(0, i - size + 1), i + 1):
                composed = keyed.then(composed, (a[j], b[j]))
            if not np.allclose(found[i], composed):
                raise SystemExit("rolling affine: a wrong answer; nothing was measured.")
        return ""


def _keys(kind: str, rows: int) -> Any:
    rng = np.random.default_rng(SEED)
    return rng.integers(0, keyed.KEYS, rows) if kind == "uniform" else rng.zipf(1.2, rows) % keyed.KEYS


def _seconds(rows: int) -> Any:
    return np.arange(rows).astype("datetime64[s]").astype("datetime64[us]")


def _of_key(table: pa.Table, key: int) -> pa.Table:
    return table.filter(pa.array(table["k"].to_numpy() == key))


def _require(rows: pa.Table, found: pa.Table, window: str, size: int, every: int = 0) -> None:
    """Compare the results of one key, whose rows are sorted, with prefix sums of its rows."""
    times, values = rows["t"].to_numpy().astype(np.int64), rows["x"].to_numpy()
    ends = boundaries_of(times, size, every) if every else times
    given = found["window_end" if every else "t"].to_numpy().astype(np.int64)
    totals, tops = windows_of(times, values, ends, size, "left" if every else "right")
    counts, _ = windows_of(times, np.ones_like(values), ends, size, "left" if every else "right")
    right = np.array_equal(given, ends)
    for name, wanted in (("n", counts), ("total", totals), ("top", tops)):
        if f"{name}_{window}" in found.column_names:
            right = right and np.array_equal(found[f"{name}_{window}"].to_numpy(), wanted)
    if not right:
        raise SystemExit(f"windows of {window}: a wrong answer; nothing was measured.")


# --- memory ---------------------------------------------------------------------------------------


def memory() -> list[Claim]:
    """Bytes per short key, and the memory of shorter and longer keys compared with before."""
    found = []
    before, today = _bytes("keys")
    own = 3 * (16 + 8)  # times, order and one aggregated column of three events
    print(f"  bytes per key of 3: {before / footprint.KEYS:.0f} before, {today / footprint.KEYS:.0f} today", flush=True)
    found.append(("bytes per key beyond its three entries", today / footprint.KEYS - own, 218.0))
    wanted = [
        ("many", "20,000 keys of 100 rows", footprint.MANY * footprint.EACH, 1.15),
        ("long", "one key of 2^22 rows in order", footprint.LONG, 1.15),
        ("late", "one key of 2^22 rows, 1% late ones after them", footprint.LONG, 1.25),
    ]
    for case, sentence, rows, bound in wanted:
        before, today = _bytes(case)
        print(f"  bytes per row, {sentence}: {before / rows:.1f} before, {today / rows:.1f} today", flush=True)
        found.append((f"memory of {sentence}: today / before", today / before, bound))
    return found


def _bytes(case: str) -> tuple[int, int]:
    command = [sys.executable, "-m", "benchmarks.footprint", case]
    shown = []
    for side in (BASELINE, CURRENT):
        env = baseline.environment(side)
        shown.append(int(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout))
    return shown[0], shown[1]
