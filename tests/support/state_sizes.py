"""Events at a steady rate, and whether what a stream of them holds is what was estimated."""

import numpy as np
import pyarrow as pa
import pytest

from sash import monoids
from sash.keyed.spec import Spec

RATE, KEYS, HOURS = 5, 60, 3
SHAPES = {
    "rows": {"emit": "final", "carry": ["note"]},
    "rows with ids": {"emit": "update", "id": "n", "lateness": "20 minutes"},
    "panes": {"emit": "update", "every": "1 minute"},
    "last rows": {"emit": "update", "id": "n", "lateness": "20 minutes", "windows": ["100 rows"], "idle": "30 days"},
    "unbounded": {"emit": "final", "id": "n", "lateness": "20 minutes", "windows": ["unbounded"], "idle": "30 days"},
}


def spec_of(shape):
    aggs = {"n": monoids.count(), "total": monoids.sum("amount"), "top": monoids.max("amount")}
    return Spec.of(**({"keys": ["card"], "time": "ts", "windows": ["30m", "1h"], "aggs": aggs} | SHAPES[shape]))


def events():
    """Events in order, for some hours."""
    rng = np.random.default_rng(1)
    count = RATE * 3600 * HOURS
    times = np.sort(rng.integers(0, 3600 * HOURS * 1_000_000, count)) + 10**15
    return pa.table(
        {
            "card": [f"card-{key:07}" for key in rng.integers(0, KEYS, count)],
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "n": np.arange(count),
            "amount": rng.integers(0, 1_000_000, count),
            "note": [f"note {n:07}" for n in rng.integers(0, 1_000_000, count)],
        }
    )


def cut(table, batches):
    return [table.slice(at * table.num_rows // batches, table.num_rows // batches) for at in range(batches)]


def agrees(estimated, batch_seconds, entries, memory, stored):
    """A batch arrives at once, and what it makes final goes with the next: so much more than a steady stream holds."""
    more = 1 + 1.5 * batch_seconds / estimated.span_seconds
    assert entries == pytest.approx(estimated.entries * more, rel=0.15)
    assert 1 / 1.3 < memory / (estimated.memory_bytes * more) < 1.3
    assert stored is None or 1 / 2 < stored / (estimated.stored_bytes * more) < 2, stored
