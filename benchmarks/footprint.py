"""The memory of a KeyedWindows: `python -m benchmarks.footprint long`, in a separate process.

It prints the bytes by which the process has grown after all results were freed.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.streams import Rows
from sash import KeyedWindows, monoids

KEYS = 10**6  # of three rows each
MANY, EACH = 20_000, 100
LONG = 2**22
BATCH = 2**16
_AGGS = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}


def keys() -> int:
    """Return the bytes of a million keys with three events each."""
    order = np.random.default_rng(1).permutation(KEYS)
    batches = [(part, time) for time in (1, 2, 3) for part in np.array_split(order, 50)]
    options: dict[str, Any] = {"keys": ["k"], "windows": [10, 100, 1000], "aggs": _AGGS, "lateness": 100}
    return _grown(options, [lambda of=of: _of_keys(*of) for of in batches], 3 * KEYS)


def many() -> int:
    """Return the bytes of 20,000 keys with 100 events each, which arrive key by key at each time."""
    order = np.random.default_rng(1).permutation(MANY)
    options: dict[str, Any] = {"keys": ["k"], "windows": [10, 100, 1000], "aggs": _AGGS, "lateness": 100}
    return _grown(options, [lambda time=time: _of_keys(order, time) for time in range(EACH)], MANY * EACH)


def long(late: float = 0.0) -> int:
    """Return the bytes of one key with 2^22 events in order, followed by some late ones."""
    rows = Rows(LONG, BATCH)
    batches = [lambda: rows.in_order(BATCH)] * (LONG // BATCH)
    count = round(LONG * late)
    if count:
        rows.batch, rows.late = count // 4, 1.0
        batches += [rows.next] * 4
    span = LONG * rows.gap
    options: dict[str, Any] = {"keys": [], "windows": [span], "aggs": _AGGS, "lateness": span}
    return _grown(options, batches, LONG + 4 * (count // 4))


def _of_keys(part: Any, time: int) -> pa.Table:
    return pa.table({"k": part, "t": np.full(len(part), time, dtype=np.int64), "x": part})


def _grown(options: dict[str, Any], batches: list[Callable[[], pa.Table]], rows: int) -> int:
    first = pa.table({"k": [0], "t": [0], "x": [0]}) if options["keys"] else pa.table({"t": [0], "x": [0]})
    KeyedWindows(time="t", emit="arrival", **options).push(first)
    kw = KeyedWindows(time="t", emit="arrival", **options)
    before = _resident()
    for batch in batches:
        kw.push(batch())
    if kw.metrics["live_rows"] != rows:
        raise SystemExit(f"{kw.metrics['live_rows']} rows are stored, expected {rows}; nothing was measured.")
    return _resident() - before


def _resident() -> int:
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    _CASES = {"keys": keys, "many": many, "long": long, "late": lambda: long(0.01)}
    print(_CASES[sys.argv[1]]())
