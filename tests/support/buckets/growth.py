"""What streams say they hold, and what their process has grown by: `python growth.py` prints both as JSON."""

import ctypes
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sash import monoids
from sash.keyed.spec import Spec
from sash.keyed.stream import Stream

ROWS, BATCH = 300_000, 20_000
SUMS = {"n": monoids.count(), "s": monoids.sum("x"), "top": monoids.max("x")}
CASES: dict[str, dict[str, Any]] = {
    "few keys": {"keys": 100, "emit": "arrival"},
    "many keys": {"keys": ROWS, "emit": "arrival"},
    "long keys": {"keys": ROWS, "emit": "arrival", "long": True},
    "rows that are carried": {"keys": 1000, "emit": "final", "carry": ["c"]},
    "names": {"keys": 1000, "emit": "update", "id": "c"},
    "deletes that wait": {"keys": 1000, "emit": "arrival", "id": "c", "retract": "gone"},
    "panes": {"keys": 1000, "emit": "final", "every": 1000},
}


def batches(keys: int, long: bool) -> list[pa.Table]:
    """Rows, a third of them deletes whose rows never come."""
    made = []
    for start in range(0, ROWS, BATCH):
        number = np.arange(start, start + BATCH)
        key = [f"{'a key that is rather long ' * long}{n % keys}" for n in number.tolist()]
        text = [f"the text of the row {n}" for n in number.tolist()]
        times = pa.array(number * 7 // 2)
        made.append(pa.table({"k": key, "t": times, "x": number, "c": text, "gone": number % 3 == 0}))
    return made


def resident() -> int:
    """Return what the process has of memory, but for what it has freed."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(keys: int, long: bool = False, **options: Any) -> tuple[int, int]:
    tables = batches(keys, long)
    spec = Spec.of(keys=["k"], time="t", windows=[10**9], aggs=SUMS, **options)
    warm = Stream.of(spec, tables[0].slice(0, 0))
    warm.step(tables[0].slice(0, 100), None)
    stream = Stream.of(spec, tables[0].slice(0, 0))
    before = resident()
    for table in tables:
        stream.step(table, None)
    return stream.nbytes, resident() - before


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        sys.stdout.flush()
        if not (child := os.fork()):  # each in a process that has held nothing before
            print(json.dumps([name, *measured(**CASES[name])]), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
